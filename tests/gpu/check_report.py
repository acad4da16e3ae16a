# SPDX-License-Identifier: Apache-2.0
# check_report.py FOLDER RUNS: reports on the inference server with planted faults (naive.N.json, N from 1 to RUNS) and
# without (graphs.N.json), and what the server printed itself (*.out). Prints lines "what|how it went".
import json
import pathlib
import re
import statistics
import sys

folder, runs = pathlib.Path(sys.argv[1]), int(sys.argv[2])
planted = ["synchronisation", "launch_bound", "pageable_copies"]
wrong = False


def judge(what, right, said):
    global wrong
    wrong |= not right
    print(f"{what}|{'' if right else 'FAILED: '}{said}")


def report(form, run):
    return json.loads((folder / f"{form}.{run}.json").read_text())


def served_ms(form, run):
    return float(re.search(r" tokens in ([0-9.]+) ms", (folder / f"{form}.{run}.out").read_text()).group(1))


wins, orders, left = [], [], []
for run in range(1, runs + 1):
    findings = report("naive", run)["findings"]
    wins.append(sum(f["win_ns"] for f in findings) / 1e6)
    orders.append([f["kind"] for f in findings])
    left.append(sum(f["win_ns"] for f in report("graphs", run)["findings"]) / 1e6)
named = [[f for f in o if f in planted] for o in orders]
judge("the planted faults, in the order of their cost", all(n == planted for n in named), f"{named[0]} of {orders[0]}")
remains = statistics.mean(left)
judge("still to be won without them", remains < statistics.mean(wins) / 2, f"{remains:.1f} ms of {statistics.mean(wins):.1f}")
before = statistics.mean(served_ms("naive", r) for r in range(1, runs + 1))
after = statistics.mean(served_ms("graphs", r) for r in range(1, runs + 1))
predicted, measured = statistics.mean(wins), before - after
judge("won by mending them", abs(predicted - measured) <= 0.25 * measured,
     f"predicted {predicted:.1f} ms, measured {before:.1f} - {after:.1f} = {measured:.1f} ms: x {predicted / measured:.2f}")
sys.exit(1 if wrong else 0)
