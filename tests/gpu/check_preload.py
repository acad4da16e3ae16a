# SPDX-License-Identifier: Apache-2.0
# check_preload.py HOOKED REPORTED: traces (*.jsonl) of one program in two folders, by `cutrace run --method preload` and by
# CUPTI with CUTRACE_CUPTI_QUERIES=1. Prints how often each function was called in both, the share of calls that went
# through pointers which are no exported symbol, and one line last. Launches must be as many.
import collections
import json
import pathlib
import sys


class trace:
    def __init__(self, folder):
        self.calls, self.failed, self.unexported = collections.Counter(), collections.Counter(), set()
        self.nested = self.left = self.lost = self.footers = 0
        self.threads = set()
        self.files = sorted(pathlib.Path(folder).glob("**/*.jsonl"))
        for file in self.files:
            with open(file) as lines:
                for line in lines:
                    self.take(json.loads(line))

    def take(self, e):
        if e["type"] == "footer":
            self.footers += 1
            self.lost += e["lost_total"]
            for note in e.get("notes", []):
                _, mark, names = note.partition("preload: looked up, but not exported by the driver: ")
                if mark:
                    self.unexported |= set(names.split(", "))
        if e["type"] != "api" or e.get("api") != "driver":
            return
        self.calls[e["name"]] += 1
        self.failed[e["name"]] += e["result"] != 0
        self.nested += "enclosing" in e
        self.left += e.get("result_name") == "did not return"
        self.threads.add((e["pid"], e["tid"]))


def makes_work(name):  # of the GPU. How many host functions JAX enqueues differs from run to run, whoever traces.
    return name != "cuLaunchHostFunc" and (name.startswith("cuLaunch") or name.startswith("cuGraphLaunch"))


hooked, reported = trace(sys.argv[1]), trace(sys.argv[2])
wrong = []
for what, t in (("hooked", hooked), ("CUPTI's", reported)):
    if t.footers != len(t.files) or not t.files:
        wrong.append(f"{what}: {len(t.files)} files, {t.footers} of them closed")
    if t.lost:
        wrong.append(f"{what}: {t.lost} events lost")

print(f"  {'function':44} {'hooked':>9} {'CUPTI':>9}")
for name in sorted(set(hooked.calls) | set(reported.calls), key=lambda n: -max(hooked.calls[n], reported.calls[n])):
    marks = "  no exported symbol" if name in hooked.unexported else ""
    marks += f"  {hooked.failed[name]} failed" if hooked.failed[name] else ""
    marks += "  <- differs" if hooked.calls[name] != reported.calls[name] else ""
    print(f"  {name:44} {hooked.calls[name]:9} {reported.calls[name]:9}{marks}")
total = sum(hooked.calls.values())
beyond = sum(n for name, n in hooked.calls.items() if name in hooked.unexported)
print(f"  {total} calls of {len(hooked.calls)} functions on {len(hooked.threads)} threads; CUPTI says {sum(reported.calls.values())}"
      f" of {len(reported.calls)}")
print(f"  {beyond} calls, {100 * beyond / max(total, 1):.1f} %, through pointers that are no exported symbol"
      f" ({', '.join(sorted(hooked.unexported)) or 'none'})")
print(f"  {hooked.nested} calls inside of others, {hooked.left} that did not return")

launches = sum(n for name, n in hooked.calls.items() if makes_work(name))
for name in sorted(n for n in set(hooked.calls) | set(reported.calls) if makes_work(n)):
    if hooked.calls[name] != reported.calls[name]:
        wrong.append(f"{name}: {hooked.calls[name]} hooked, {reported.calls[name]} by CUPTI")
if launches == 0:
    wrong.append("no launch was seen")
print("; ".join(wrong) if wrong else f"{launches} launches as CUPTI has them, {total} calls of {len(hooked.calls)} functions")
sys.exit(1 if wrong else 0)
