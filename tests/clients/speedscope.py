# SPDX-License-Identifier: Apache-2.0
"""Chrome JSON traces in speedscope, in a headless Chromium: a profile for each row that has slices, with the row's name
and length, and no complaint but those that its own arithmetic makes. Screenshots stay in the folder.

    speedscope.py <folder of the clients> <chromedriver> <chromium> <folder of traces> <folder for screenshots>
"""
import base64
import json
import os
import re
import sys
import time
from decimal import Decimal

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "browser"))
from webdriver import Browser  # noqa: E402

failures = 0


def check(what, condition, *seen):
    global failures
    if not condition:
        failures += 1
        print("FAILED:", what, *(str(s)[:600] for s in seen))


class Rows:
    """What a trace has for speedscope: names and slices by (pid, tid)."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            events = json.load(file, parse_float=Decimal)["traceEvents"]
        self.slices, processes, threads = {}, {}, {}
        for e in events:
            if e["ph"] == "X":
                self.slices.setdefault((e["pid"], e["tid"]), []).append((Decimal(e["ts"]), Decimal(e["dur"]), e["name"]))
            elif e["ph"] == "M" and e["name"] == "process_name":
                processes[e["pid"]] = e["args"]["name"]
            elif e["ph"] == "M" and e["name"] == "thread_name":
                threads[e["pid"], e["tid"]] = e["args"]["name"]
        self.titles = {(pid, tid): f"{processes[pid]} (pid {pid}), {threads[pid, tid]} (tid {tid})" for pid, tid in self.slices}

    def busy_us(self, row):
        """Length of the union of a row's slices."""
        busy, end = Decimal(0), None
        for ts, dur, _ in sorted(self.slices[row]):
            if end is None or ts + dur > end:
                busy += ts + dur - (ts if end is None else max(ts, end))
                end = ts + dur
        return busy

    def misread(self, row):
        """Slices that end where another one begins or ends, and that speedscope takes to end after it: it adds microseconds
        up in floating point, where 0.1 + 0.2 is more than 0.3. It then nests the one in the other, and may leave one of
        them open to the end of the profile."""
        slices = self.slices[row]
        first = float(min(ts for ts, _, _ in slices))
        at = {ts: float(ts) - first for ts, _, _ in slices}
        for ts, dur, _ in slices:
            at[ts + dur] = min(float(ts) - first + float(dur), at.get(ts + dur, float("inf")))
        return sum(float(ts) - first + float(dur) > at[ts + dur] for ts, dur, _ in slices)


def length_us(text):
    """A length as speedscope shows it, and the unit of its last digit."""
    shown = re.fullmatch(r"(\d+)(?:\.(\d+))?(ns|µs|ms|s)", text)
    if not shown:
        return None
    scale = {"ns": Decimal("0.001"), "µs": Decimal(1), "ms": Decimal(1000), "s": Decimal(10) ** 6}[shown[3]]
    return Decimal(f"{shown[1]}.{shown[2] or 0}") * scale, scale / 10 ** len(shown[2] or "")


def opened(browser, page, path, script):
    """Loads the trace as speedscope's own command line does, and waits until it is shown or refused."""
    with open(path, "rb") as trace, open(script, "w", encoding="ascii") as file:
        data = base64.b64encode(trace.read()).decode()
        file.write(f'speedscope.loadFileFromBase64("trace.json", "{data}")')
    browser.open("/")  # or only the fragment of the URL would change, which loads nothing
    browser.console()
    browser.open(f"{page}#localProfilePath={script}")
    for _ in range(600):
        if browser.alert() is not None:  # how it says that it cannot read a file
            break
        if browser.run("return document.title") != "speedscope":
            break
        if "Something went wrong" in browser.run("return document.body.innerText"):
            break
        time.sleep(0.1)
    return [(e["level"], e["source"], e["message"]) for e in browser.call("POST", "/se/log", {"type": "browser"})]


def trace(browser, page, name, path, folder):
    rows = Rows(path)
    log = opened(browser, page, path, os.path.join(folder, "load.js"))
    os.remove(os.path.join(folder, "load.js"))
    alert = browser.alert()
    if alert is not None:
        check(f"{name}: is read", False, alert)
        browser.call("POST", "/alert/accept", {})
        return None
    check(f"{name}: title", browser.run("return document.title") == "trace.json - speedscope", browser.run("return document.title"))
    if browser.run("return document.title") == "speedscope":
        return None
    # The list of profiles, which is part of the page also while it is hidden: number, name, length.
    listed = browser.run("return [...document.querySelectorAll('tbody tr')].map(r => [r.title, r.children[2].textContent])")
    check(f"{name}: a profile for each row with slices", len(listed) == len(rows.slices), len(listed), len(rows.slices))
    check(f"{name}: the rows' names", sorted(t for t, _ in listed) == sorted(rows.titles.values()),
          *(set(rows.titles.values()) ^ {t for t, _ in listed}))
    counter = re.search(r"\((\d+)/(\d+)\)", browser.run("return document.body.innerText"))
    if len(rows.slices) > 1:
        check(f"{name}: the row on show is one of them", counter and int(counter[2]) == len(rows.slices), counter)
    misread = {row: rows.misread(row) for row in rows.slices}
    row_of = {title: row for row, title in rows.titles.items()}
    for title, shown in listed:
        row = row_of.get(title)
        if row is None or misread[row]:
            continue
        length = length_us(shown)
        check(f"{name}: time of {title[:100]!r}", length and abs(length[0] - rows.busy_us(row)) <= length[1], shown, rows.busy_us(row))
    misread = sum(misread.values())

    errors = [m for level, source, m in log if level == "SEVERE" or source == "javascript"]
    check(f"{name}: no error", errors == [], *errors[:3])
    complaints = [m for level, source, m in log if level == "WARNING" and source == "console-api"]
    ends = [m for m in complaints if "Tried to end" in m]
    left = [m for m in complaints if "was still open at end of profile" in m]
    check(f"{name}: nothing but ends and their consequences is complained of", len(ends) + len(left) == len(complaints),
          *[m for m in complaints if m not in ends and m not in left][:3])
    # One for each misread slice; two where it and the one nested in it have the same name.
    check(f"{name}: complaints are those of misread slices", len(ends) <= 2 * misread and len(left) <= misread, len(ends), len(left),
          misread)
    longest = max(rows.slices, key=lambda row: len(rows.slices[row]))
    for _ in range([t for t, _ in listed].index(rows.titles[longest])):
        browser.run("window.dispatchEvent(new KeyboardEvent('keypress', {key: 'n'}))")
    browser.run("return new Promise(r => requestAnimationFrame(() => requestAnimationFrame(() => r(1))))")
    check(f"{name}: the row with most slices is on show", " ".join(rows.titles[longest].split()) in
          " ".join(browser.run("return document.body.innerText").split()))
    browser.screenshot(os.path.join(folder, f"{name}.png"))
    print(f"{name}: {len(listed)} rows, {sum(len(s) for s in rows.slices.values())} slices, {misread} misread as nested")
    return misread


def main():
    clients, chromedriver, chromium, traces, folder = sys.argv[1:]
    page = os.path.join(clients, "node_modules/speedscope/dist/release/index.html")
    os.makedirs(folder, exist_ok=True)
    browser = Browser(chromedriver, chromium)
    try:
        names = [n for n in sorted(os.listdir(traces)) if n != "limits"]
        misread = {n: trace(browser, page, n, os.path.join(traces, n, "trace.json"), folder) for n in names}
        check("slices that leave a gap are all read as they are", misread["long"] == 0, misread)
    finally:
        browser.close()
    print("failed checks:", failures)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
