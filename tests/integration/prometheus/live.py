# SPDX-License-Identifier: Apache-2.0
# See live.sh. Runs in a folder of its own: live.py INFERENCE_SERVER ARGUMENTS...
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request

patience_s = 120


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def fetch(url):
    """Text, or None while nothing answers."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.read().decode()
    except OSError:
        return None


def wait_for(what, get):
    end = time.monotonic() + patience_s
    while time.monotonic() < end:
        found = get()
        if found:
            return found
        time.sleep(0.1)
    sys.exit(f"FAILED: {what} did not come in {patience_s} s")


def settled(page):
    """A page with observations of runs whose GPU work is complete."""
    return page if page and "\ncutrace_stage_gpu_busy_seconds_bucket" in page else None


port = free_port()
url = f"http://127.0.0.1:{port}/metrics"
environment = dict(os.environ, CUTRACE_SINKS=f"prometheus::{port}")
server = subprocess.Popen(sys.argv[1:], env=environment, stdout=subprocess.DEVNULL)
children = [server]
try:
    page = wait_for("a page with settled runs", lambda: settled(fetch(url)))
    open("page.prom", "w", encoding="utf-8").write(page)
    assert "cutrace_trace_running 1\n" in page, "the trace does not run"
    if shutil.which("promtool"):
        subprocess.run(["promtool", "check", "metrics"], input=page.encode(), check=True)
    # A second program with the same address says so in one line, and runs.
    second = subprocess.run(sys.argv[1:2] + ["--device", "sim", "--requests", "2", "--quiet"], env=environment,
                            capture_output=True, text=True, timeout=patience_s)
    assert second.returncode == 0, "the port in use disturbed the program"
    assert "Address already in use" in second.stderr and "choose another port" in second.stderr, second.stderr
    assert len(second.stderr.splitlines()) == 1, second.stderr

    if not shutil.which("prometheus"):
        print("skipped: prometheus is not here (Debian: prometheus), so no scrape of its own")
        sys.exit(0)
    own = free_port()
    with open("prometheus.yml", "w", encoding="utf-8") as f:
        f.write("global: {scrape_interval: 1s}\n"
                "scrape_configs:\n"
                f"  - {{job_name: server, static_configs: [{{targets: ['127.0.0.1:{port}']}}]}}\n")
    children.append(subprocess.Popen(
        ["prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=data",
         f"--web.listen-address=127.0.0.1:{own}"], stdout=subprocess.DEVNULL, stderr=open("prometheus.log", "w")))

    def query(text):
        answer = fetch(f"http://127.0.0.1:{own}/api/v1/query?" + urllib.parse.urlencode({"query": text}))
        return json.loads(answer)["data"]["result"] if answer else []

    def number(text):
        """The value of a query with one result, once there is one and it is a number."""
        found = query(text)
        return float(found[0]["value"][1]) if len(found) == 1 and found[0]["value"][1] != "NaN" else None

    p90 = "histogram_quantile(0.9, sum by (le) (rate(%s_bucket%s[20s])))"
    prefill = wait_for("a quantile of prefill", lambda: number(p90 % ("cutrace_stage_host_seconds",
                                                                       '{stage="prefill"}')))
    tokens = wait_for("a quantile between tokens", lambda: number(p90 % ("cutrace_inter_token_seconds", "")))
    busy = wait_for("a share of busy time", lambda: number("sum(rate(cutrace_gpu_busy_seconds_total[20s]))"))
    assert 1e-6 < prefill < 50 and 1e-6 < tokens < 50, (prefill, tokens)
    assert 0 < busy <= 1.5, busy  # extrapolation at the edges of the range
    wait_for("a scrape in time", lambda: number("up"))  # 0: on a busy machine the last one took longer than a second
    print(f"p90 of prefill {prefill * 1e3:.3f} ms, between tokens {tokens * 1e3:.3f} ms, GPU busy {busy:.1%}")
finally:
    for child in children:
        child.kill()
        child.wait()
