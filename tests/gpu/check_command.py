# SPDX-License-Identifier: Apache-2.0
# check_command.py [OPTIONS] FOLDER: do the traces (*.jsonl) that `cutrace run` left in a folder hold what they must? Prints
# what they hold, and one line last.
#
#   --kernels FILE     a JSON file of another counter: "kernels", their number, and perhaps "names", the number of each
#   --stage NAME=N     N stages of this name, and GPU time in them; with NAME=N:0, no matter about GPU time
#   --graphs N         N replays of graphs that are reported as a whole (graph_launch)
import argparse
import collections
import json
import pathlib
import sys

parser = argparse.ArgumentParser()
parser.add_argument("--kernels")
parser.add_argument("--stage", action="append", default=[])
parser.add_argument("--graphs", type=int)
parser.add_argument("folder", type=pathlib.Path)
options = parser.parse_args()
wrong = []


def expect(what, seen, wanted):
    if seen != wanted:
        wrong.append(f"{what}: {seen}, not {wanted}")


types, names, stages, work, busy = (collections.Counter() for _ in range(5))
attributions, lost, footers = collections.Counter(), 0, 0
files = sorted(options.folder.glob("**/*.jsonl"))
for file in files:
    with open(file) as lines:
        for line in lines:
            e = json.loads(line)
            types[e["type"]] += 1
            if e["type"] == "stage":
                stages[e["name"]] += 1
            elif e["type"] == "kernel":
                names[e["name"]] += 1
            elif e["type"] == "footer":
                footers += 1
                lost += e["lost_total"]
            if e["type"] in ("kernel", "memcpy", "memset", "graph_launch"):
                attributions[e["attribution"]] += 1
                work[e.get("stage", "")] += 1
                busy[e.get("stage", "")] += e["dur_ns"]

print(f"  {len(files)} files: " + ", ".join(f"{n} {t}" for t, n in sorted(types.items())))
print("  attribution " + ", ".join(f"{a} {n}" for a, n in sorted(attributions.items())))
for stage, count in sorted(work.items()):
    print(f"  stage {stage or '(none)':24} {stages[stage]:6} times, {count:7} pieces of GPU work, {busy[stage] / 1e6:9.3f} ms")
expect("files without a footer", len(files) - footers, 0)
expect("lost events", lost, 0)
if not files or types["kernel"] + types["graph_launch"] == 0:
    wrong.append("no GPU work in the trace")
if set(attributions) - {"by_call", "outside_stage"}:
    wrong.append("GPU work without a known call")
if options.kernels:
    with open(options.kernels) as file:
        other = json.load(file)
    expect("kernels", types["kernel"], other["kernels"])
    if types["kernel"] != other["kernels"] and "names" in other:
        for name in sorted(set(names) | set(other["names"])):
            if names[name] != other["names"].get(name, 0):
                print(f"  {names[name]} here, {other['names'].get(name, 0)} there: {name[:160]}")
if options.graphs is not None:
    expect("replays of graphs", types["graph_launch"], options.graphs)
for wanted in options.stage:
    name, _, count = wanted.partition("=")
    count, _, gpu = count.partition(":")
    expect(f"stages {name}", stages[name], int(count))
    if gpu != "0" and busy[name] <= 0:
        wrong.append(f"no GPU time in stages {name}")
print("; ".join(wrong) if wrong else f"{types['kernel']} kernels, {types['graph_launch']} whole graphs, "
                                     f"{sum(stages.values())} stages, as they must be")
sys.exit(1 if wrong else 0)
