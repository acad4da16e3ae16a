# SPDX-License-Identifier: Apache-2.0
"""HTML reports in a headless Chromium: they show what was traced, say nothing on the console, load nothing, and names
stay text. Screenshots stay in the folder.

    html_report.py <chromedriver> <chromium> <make_reports> <folder> [a real trace's report]
    html_report.py <chromedriver> <chromium> <make_reports> <folder> --events N  prints how long N events take to load
"""
import os
import subprocess
import sys

from webdriver import Browser

failures = 0


def check(what, condition, *seen):
    global failures
    if not condition:
        failures += 1
        print("FAILED:", what, *seen)


def opened(browser, path):
    """Opens the page and checks what must hold for every page."""
    browser.open(path)
    name = os.path.basename(path)
    alert = browser.alert()
    check(f"{name}: a name of the trace ran as a script", alert is None, alert)
    messages = browser.console()
    check(f"{name}: the console is silent", messages == [], *messages)
    check(f"{name}: the page came to its end", browser.run("return document.documentElement.dataset.readyMs !== undefined"))
    check(f"{name}: nothing is loaded", browser.run("return performance.getEntriesByType('resource').length") == 0)
    check(f"{name}: no image, frame or link out",
          browser.run("return document.querySelectorAll('img,iframe,object,embed,link,a:not([href^=\"#\"])').length") == 0)
    check(f"{name}: no more scripts than the page's own", browser.run("return document.scripts.length") == 3)


def cells(browser, section, column):
    return browser.run("return [...document.querySelectorAll(arguments[0] + ' tbody tr')].map("
                       "r => r.children[arguments[1]].textContent)", section, column)


def rows(browser):
    return browser.run("return [...document.querySelectorAll('#rows li')].map(e => e.textContent)")


def colors_on_canvas(browser):
    return browser.run("const c = document.getElementById('canvas'), p = c.getContext('2d').getImageData(0, 0, c.width,"
                       " c.height).data, s = new Set(); for (let i = 0; i < p.length; i += 4) s.add(p[i] << 16 | p[i + 1] << 8"
                       " | p[i + 2]); return s.size")


SETTLE = "return new Promise(r => requestAnimationFrame(() => requestAnimationFrame(() => r(1))))"


def server(browser, folder):
    opened(browser, f"{folder}/server.html")
    check("title", browser.run("return document.title") == "llm_server (pid 4242) - cutrace")
    check("heading", browser.text("h1") == "llm_server (pid 4242), rank 3 of 8", browser.text("h1"))
    check("host, GPU and clock", all(w in browser.text("#sub") for w in ("node-3", "NVIDIA H200", "tsc")), browser.text("#sub"))
    check("losses in plain sight", browser.text("#losses") == "12 records LOST", browser.text("#losses"))
    check("losses by cause", "chunk_full" in browser.text("#note-list"))
    check("notes", "quoted" in browser.text("#note-list"))
    seen = rows(browser)
    for row in ("scheduler (4242) stages: 2 events", "scheduler (4242) stages 1: 1 event", "scheduler (4242) driver calls: 8 events",
                "scheduler (4242) marks: 1 event", "scheduler (4242) ioctls: 3 events", "GPU 0 stream 7: 5 events"):
        check(f"row {row}", row in seen, seen)
    check("stages above streams", seen.index("scheduler (4242) stages: 2 events") < seen.index("GPU 0 stream 7: 5 events"))
    check("events of the rows", browser.run("return document.documentElement.dataset.events") == "23",
          browser.run("return document.documentElement.dataset.events"))
    check("the canvas is drawn", colors_on_canvas(browser) > 10)
    shares = [float(c[:-2]) for c in cells(browser, "#owners", 3)]
    check("shares add up to all of the time", abs(sum(shares) - 100) < 0.05, shares)
    check("copies with their bandwidth", cells(browser, "#s-copies", 5) == ["50.0 GB/s"], cells(browser, "#s-copies", 5))
    check("memory chart", browser.run("return [...document.querySelectorAll('#side svg')].map(s => s.ariaLabel)")
          == ["GPU 0 busy over time", "GPU memory allocated over time"])
    # 160 us are recorded. The GPU is busy from 45 to 125, 126 to 138.3 and 139 to 140.
    check("causes of idle time", cells(browser, "#s-idle", 2) == ["45.0 us", "20.0 us", "1.70 us"], cells(browser, "#s-idle", 2))
    check("gaps", sorted(cells(browser, "#s-gaps", 2)) == sorted(["20.0 us", "1.00 us", "700 ns"]), cells(browser, "#s-gaps", 2))

    largest_first = ["80.0 us", "20.0 us", "12.3 us", "1.00 us", "1.00 us"]
    check("tables come with the largest first", cells(browser, "#s-gpu", 2) == largest_first, cells(browser, "#s-gpu", 2))
    browser.click("#s-gpu th:nth-child(3) button")
    check("sorting turns around", cells(browser, "#s-gpu", 2) == largest_first[::-1], cells(browser, "#s-gpu", 2))
    check("the order is reported", browser.run("return document.querySelector('#s-gpu th:nth-child(3)').ariaSort") == "ascending")

    browser.type("#search", "gemm(\ue007")
    check("search counts", browser.text("#found") == "1 match", browser.text("#found"))
    details = browser.text("#details")
    for part in ("gemm(float const*", "Begins at126 us (126,000 ns)", "Lasts12.3 us", "Stageprefill", "Requests17",
                 "Launched bycuLaunchKernel", "Delay from launch76.0 us", "Grid", "Block"):
        check(f"details: {part}", part in details, details)
    browser.run("[...document.querySelectorAll('#details button')].find(b => b.textContent === 'Go to its launch').click()")
    check("goes to the launch", "cuLaunchKernel" in browser.text("#details h3") and "50.0 us" in browser.text("#details"), browser.text("#details"))
    browser.type("#search", "\ue00c")
    moves(browser)


def moves(browser):
    """Keys, wheel and pointer; each changes what the range says."""
    browser.run("document.getElementById('all').click(); document.getElementById('canvas').scrollIntoView({block: 'center'})")
    browser.run(SETTLE)
    everything = browser.text("#range")
    browser.type("#canvas", "+++")
    browser.run(SETTLE)
    closer = browser.text("#range")
    check("+ zooms", closer != everything and closer.split(" from ")[0] == "68.6 us", everything, closer)
    browser.type("#canvas", "\ue014")
    browser.run(SETTLE)
    moved = browser.text("#range")
    check("the arrow moves", moved != closer and moved.split(" from ")[0] == closer.split(" from ")[0], moved)
    browser.drag("#canvas", 100, -120)
    browser.run(SETTLE)
    dragged = browser.text("#range")
    check("dragging moves", dragged != moved and dragged.split(" from ")[0] == moved.split(" from ")[0], dragged)
    browser.wheel("#canvas", 200, 0, -300)
    browser.run(SETTLE)
    check("the wheel zooms", browser.text("#range").split(" from ")[0] != dragged.split(" from ")[0], browser.text("#range"))
    browser.type("#canvas", "0")
    browser.run(SETTLE)
    check("0 shows everything", browser.text("#range") == everything, browser.text("#range"))
    check("Tab leaves the canvas", browser.run("document.getElementById('canvas').focus(); return document.activeElement.id") == "canvas")
    browser.type("#canvas", "\ue004")
    check("Tab goes on", browser.run("return document.activeElement.id") != "canvas")


def attack(browser, folder):
    opened(browser, f"{folder}/attack.html")
    image, script = "<img src=x onerror=alert(1)>", "</script><script>alert(2)</script>"
    check("the title is text", browser.run("return document.title").startswith(image), browser.run("return document.title"))
    check("the heading is text", browser.text("h1").startswith(image), browser.text("h1"))
    browser.run("document.querySelectorAll('.more').forEach(b => b.click())")
    for section in ("#s-stages", "#s-gpu"):
        names = cells(browser, section, 0)
        for name in (image, script, "<!--", "${alert(4)}"):
            check(f"{section} has {name} as text", name in names, len(names))
    browser.type("#search", "onerror=alert(1)\ue007")
    check("the search finds it", browser.text("#found") == "3 matches", browser.text("#found"))
    check("the details show it", browser.text("#details h3") == image, browser.text("#details h3"))
    check("still no image", browser.run("return document.querySelectorAll('img').length") == 0)
    check("still no alert", browser.alert() is None)
    # The policy stops an injected script, too: without the nonce it does not run, and its image is not loaded.
    browser.run("const s = document.createElement('script'); s.textContent = 'window.came_in = 1'; document.body.append(s);"
                "const i = new Image(); i.src = 'http://127.0.0.1:9/x.png'; document.body.append(i)")
    check("the policy stops a foreign script", browser.run("return window.came_in === undefined"))
    messages = browser.console()
    check("the policy stops a load", any("Content Security Policy" in m and "img-src" in m or "default-src" in m for m in messages), messages)


def others(browser, folder):
    opened(browser, f"{folder}/empty.html")
    check("an empty trace says so", browser.run("return !document.getElementById('empty').hidden && document.getElementById('canvas').hidden"))
    opened(browser, f"{folder}/losses.html")
    check("losses alone", browser.text("#losses") == "4 records LOST", browser.text("#losses"))
    opened(browser, f"{folder}/extreme.html")
    opened(browser, f"{folder}/joined.html")
    check("what was joined is said", "shows neighbours shorter than" in browser.text("#note-list"), browser.text("#note-list"))
    check("the tables count each event", cells(browser, "#s-calls", 1)[0].replace(",", "") == str(browser.run(
        "return data.gpu.reduce((n, g) => n + g[2], 0)")), cells(browser, "#s-calls", 1))
    kept = int(browser.run("return document.documentElement.dataset.events"))
    check("fewer events than were traced, but not few", 2000 < kept < 150000, kept)
    browser.type("#search", "gemm\ue007")
    check("a joined event says so", "Stands for" in browser.text("#details"), browser.text("#details"))


def crowd(browser, folder):
    """The GPU has no row of its own, marks stand at one moment, work has no known call."""
    opened(browser, f"{folder}/crowd.html")
    check("a character that turns the text is shown escaped", browser.text("h1").startswith("\\u{61c}llm_server"), browser.text("h1"))
    check("nothing is claimed of an unknown clock", "clock not known" in browser.text("#sub") and "within" not in browser.text("#sub")
          and "CLOCK_MONOTONIC" not in browser.text("#footer"), browser.text("#sub"))
    check("the GPU's work is among other streams", "other streams: 3 events" in rows(browser), rows(browser)[-3:])
    pointed = browser.run("const row = rows.find(r => r.kind === 'span'), s = eventAt(xOf(150000), AXIS + row.y + HEIGHT.span * 7.5);"
                          "return s && [s.lane.start[s.i], s.lane.end[s.i]]")
    check("of spans that overlap in the last lane the one under the pointer is found", pointed and pointed[1] == 190000, pointed)
    browser.run("document.querySelector('#s-gaps tbody button').click()")
    browser.run(SETTLE)
    seen = browser.text("#range")
    check("a gap without a row is shown, too", seen == "40.0 us from 0 ns", seen)
    check("the console is silent after a click on a gap", browser.console() == [])
    browser.type("#search", "same moment")
    check("marks of one moment are counted", browser.text("#found") == "3 matches", browser.text("#found"))
    for keys in ("document.getElementById('next').click()", "document.getElementById('previous').click()"):
        places = []
        for _ in range(3):
            browser.run(keys)
            places.append(browser.run("return selected.i"))
        check("marks of one moment are visited one by one", places == ([1, 2, 3] if "next" in keys else [2, 1, 1]), keys, places)
    browser.run("select(null); document.getElementById('search').value = ''")
    browser.type("#search", "orphan\ue007")
    check("the stage of work without a call is not known", "Stagenot known" in browser.text("#details"), browser.text("#details"))
    browser.run("select(null); document.getElementById('search').value = ''")
    browser.type("#search", "token\ue007")
    check("a mark outside of stages shows its request", "Requests77" in browser.text("#details") and
          "Stage" not in browser.text("#details"), browser.text("#details"))


def pictures(browser, folder, path):
    opened(browser, path)
    browser.size(1440, 900)
    for scheme in ("light", "dark"):
        browser.scheme(scheme)
        browser.run("window.scrollTo(0, 0)")
        browser.run(SETTLE)
        browser.screenshot(f"{folder}/{scheme}.png")
        browser.screenshot(f"{folder}/{scheme}-whole.png", True)
    browser.run("const r = rows.filter(r => r.kind === 'gpu').sort((a, b) => b.events - a.events)[0];"
                "if (r) { select({row: r, lane: r.lanes[0], i: r.lanes[0].n >> 1}); zoomTo(selected); zoom(12, selected.lane.start[selected.i]) }"
                "document.getElementById('h-timeline').scrollIntoView()")
    browser.run(SETTLE)
    browser.screenshot(f"{folder}/zoomed.png")
    check("dark is dark", browser.run("return getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 27)")
    browser.scheme("light")
    check("light is light", browser.run("return getComputedStyle(document.body).backgroundColor") == "rgb(246, 247, 248)")


def timed(browser, folder, make, events):
    subprocess.run([make, folder, events], check=True)
    path = f"{folder}/many.html"
    for _ in range(5):
        opened(browser, path)
        ready = browser.run("return document.documentElement.dataset.readyMs")
        draw = browser.run("const t = performance.now(); for (let i = 0; i < 20; ++i) draw(); return (performance.now() - t) / 20")
        zoomed = browser.run("show(whole.start + (whole.end - whole.start) * 0.4, whole.start + (whole.end - whole.start) * 0.41);"
                             "const t = performance.now(); for (let i = 0; i < 20; ++i) draw(); return (performance.now() - t) / 20")
        search = browser.run("const t = performance.now(); search('gemm'); return performance.now() - t")
        print(f"{browser.run('return document.documentElement.dataset.events')} events, {os.path.getsize(path) / 1e6:.1f} MB: ready "
              f"{ready} ms after navigation, a frame {draw:.1f} ms, zoomed in {zoomed:.1f} ms, a search {search:.0f} ms")


def main():
    chromedriver, chromium, make, folder = sys.argv[1:5]
    os.makedirs(folder, exist_ok=True)
    folder = os.path.abspath(folder)
    browser = Browser(chromedriver, chromium)
    try:
        if sys.argv[5:6] == ["--events"]:
            timed(browser, folder, make, sys.argv[6])
            return
        subprocess.run([make, folder], check=True, stdout=subprocess.DEVNULL)
        server(browser, folder)
        attack(browser, folder)
        others(browser, folder)
        crowd(browser, folder)
        pictures(browser, folder, os.path.abspath(sys.argv[5]) if len(sys.argv) > 5 else f"{folder}/server.html")
    finally:
        browser.close()
    print("screenshots:", ", ".join(f"{folder}/{s}.png" for s in ("light", "light-whole", "dark", "dark-whole")))
    sys.exit(1 if failures else 0)


main()
