# SPDX-License-Identifier: Apache-2.0
# check_layers.py FOLDER: traces (*.jsonl) of one program in FOLDER/{ebpf,kernel,ioctl,all}/trace, by the methods of those
# names of `cutrace run` (kernel: ebpf --kernel). Prints what each saw, and one line last. Launches must be as many in all,
# and in the joined trace each must be CUPTI's and the probes'; the call that an ioctl or system event
# names as the one it was made in must be in the trace.
import collections
import json
import pathlib
import re
import sys

ONLY_PROBES = 1 << 52  # numbers of calls that CUPTI did not report begin there


def makes_work(name):
    return name != "cuLaunchHostFunc" and (name.startswith("cuLaunch") or name.startswith("cuGraphLaunch"))


class trace:
    def __init__(self, folder):
        self.files = sorted(pathlib.Path(folder).glob("trace/*.jsonl"))
        self.kinds, self.ioctls, self.made_in, self.systems = (collections.Counter() for _ in range(4))
        self.launches = self.launches_of_probes = self.lost = self.footers = 0
        self.parents = self.strangers = self.hexadecimal = self.nameless = self.statuses = self.bad_statuses = 0
        self.notes = []
        for file in self.files:
            with open(file) as lines:
                events = [json.loads(line) for line in lines]
            calls = {e["correlation"]: e["name"] for e in events if e["type"] == "api" and "correlation" in e}
            for e in events:
                self.take(e, calls)

    def take(self, e, calls):
        kind = e["type"]
        self.kinds[kind] += 1
        if kind == "footer":
            self.footers += 1
            self.lost += e["lost_total"]
            self.notes += e.get("notes", [])
        if kind == "api" and e.get("api") == "driver" and makes_work(e["name"]) and "enclosing" not in e:
            self.launches += 1
            self.launches_of_probes += e["correlation"] >= ONLY_PROBES
        if kind == "system":
            self.systems[e.get("category_name", "?")] += 1
        if kind in ("ioctl", "system") and e.get("enclosing"):
            self.parents += kind == "ioctl"
            self.strangers += e["enclosing"] not in calls
            if kind == "ioctl":
                self.made_in[calls.get(e["enclosing"], "?")] += 1
        if kind == "ioctl":
            self.ioctls[e["name"] + (" " + e["command_name"] if "command_name" in e else "")] += 1
            self.nameless += not e["name"]
            self.hexadecimal += e["name"].startswith("0x")
            self.statuses += "status_name" in e
            self.bad_statuses += e.get("status_name", "NV_OK") != "NV_OK"

    def line(self, name):
        n = self.kinds["ioctl"]
        print(f"  {name:7} {self.kinds['api']} calls, {self.launches} launches, {self.kinds['kernel']} kernels, {n} ioctls: "
              f"{n - self.hexadecimal} by name, {self.hexadecimal} in hex, {self.parents} with their call, {self.statuses} "
              f"with a status ({self.bad_statuses} not NV_OK); {dict(self.systems)}; lost {self.lost}")


folder = pathlib.Path(sys.argv[1])
traces = {name: trace(folder / name) for name in ("ebpf", "kernel", "ioctl", "all")}
wrong = []
for name, t in traces.items():
    t.line(name)
    if name == "ioctl" and not t.files and not pathlib.Path("/proc/driver/nvidia/version").exists():
        continue  # the stand-in driver makes none
    if not t.files or t.footers != len(t.files):
        wrong.append(f"{name}: {len(t.files)} files, {t.footers} of them closed")
    if t.lost:
        wrong.append(f"{name}: {t.lost} events lost")
    if t.nameless:
        wrong.append(f"{name}: {t.nameless} ioctls without name and number")
    if t.strangers:
        wrong.append(f"{name}: {t.strangers} events were made in calls that the trace does not have")
joined = traces["all"]
sentence = next((n for n in joined.notes if "calls in both" in n), "")
counts = [int(n.replace(",", "")) for n in re.findall(r"([\d,]+) (?:calls in both|only by)", sentence)]
alone = next((n for n in joined.notes if n.startswith("only CUPTI saw: ")), "")
if len(counts) != 3 or counts[0] == 0 or (counts[2] != 0) != bool(alone) or any(makes_work(n) for n in re.findall(r"cu\w+", alone)):
    wrong.append(f"all: the calls do not meet: {sentence or 'no note says how many do'}")
if joined.launches == 0 or joined.launches_of_probes:
    wrong.append(f"all: {joined.launches_of_probes} of {joined.launches} launches are not CUPTI's")
for name in ("ebpf", "kernel"):
    if traces[name].launches != joined.launches:
        wrong.append(f"{name}: {traces[name].launches} launches, all: {joined.launches}")
if traces["ioctl"].kinds["ioctl"]:
    for name in ("kernel", "all"):
        if traces[name].kinds["ioctl"] == 0:
            wrong.append(f"{name}: no ioctls, where --method ioctl has {traces['ioctl'].kinds['ioctl']}")
print("  ioctls of the joined trace, by name:")
for name, n in joined.ioctls.most_common(12):
    print(f"    {n:6} {name}")
print("  calls that made them:", ", ".join(f"{name} {n}" for name, n in joined.made_in.most_common(8)))
print(" ", alone or "CUPTI saw no call that probes did not")
print("; ".join(wrong) if wrong else
      f"{joined.launches} launches by CUPTI and by probes, {sentence}; {joined.kinds['ioctl']} ioctls, {joined.parents} with their call")
sys.exit(1 if wrong else 0)
