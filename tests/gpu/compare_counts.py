# SPDX-License-Identifier: Apache-2.0
# compare_counts.py TRACE.jsonl RAW.json: the trace's numbers of GPU records beside those of a raw CUPTI counter.
import json
import sys

trace = {"kernels": 0, "memcpy": 0, "memcpy_bytes": 0, "memset": 0}
attributions, stages, footer, skewed = {}, 0, None, 0
with open(sys.argv[1]) as lines:
    for line in lines:
        e = json.loads(line)
        if e["type"] == "kernel":
            trace["kernels"] += 1
        elif e["type"] == "memcpy":
            trace["memcpy"] += 1
            trace["memcpy_bytes"] += e["bytes"]
        elif e["type"] == "memset":
            trace["memset"] += 1
        elif e["type"] == "footer":
            footer = e
        if e["type"] in ("kernel", "memcpy", "memset"):
            attributions[e["attribution"]] = attributions.get(e["attribution"], 0) + 1
            skewed += e.get("call_ts_ns", e["ts_ns"]) > e["ts_ns"]
with open(sys.argv[2]) as f:
    raw = json.load(f)
same = all(trace[k] == raw[k] for k in trace)
print("  trace", trace)
print("  raw  ", raw)
print("  attribution", attributions, "start before call", skewed, "lost", footer["lost_total"], "quality", footer["quality"],
      "clock bound", footer["clock_error_ns"])
ok = same and footer["lost_total"] == 0 and set(attributions) <= {"by_call", "outside_stage"}
print("  counts equal" if ok else "  DIFFERENT")
sys.exit(0 if ok else 1)
