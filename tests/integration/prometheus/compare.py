# SPDX-License-Identifier: Apache-2.0
# Compares the metrics of a run with its JSONL trace: every number is computed anew from the trace's lines. Reads the
# metrics with prometheus_client's parser.
#
#   compare.py TRACE.jsonl METRICS.prom
import json
import sys
from collections import defaultdict

from prometheus_client.parser import text_fd_to_metric_families

failed = 0


def check(what, seen, wanted, tolerance=0.0):
    global failed
    if abs(seen - wanted) > tolerance:
        failed = 1
        print(f"FAILED: {what}: {seen} in the metrics, {wanted} in the trace")


def union(intervals):
    total, until = 0, None
    for start, end in sorted(intervals):
        start = start if until is None else max(start, until)
        if end > start:
            total += end - start
        until = end if until is None else max(until, end)
    return total


def overlap(start, end, merged):
    return sum(max(0, min(end, e) - max(start, s)) for s, e in merged)


def merge(intervals):
    merged = []
    for s, e in sorted(intervals):
        if e <= s:
            continue
        if merged and s <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], e)
        else:
            merged.append([s, e])
    return merged


samples = {}
for family in text_fd_to_metric_families(open(sys.argv[2], encoding="utf-8")):
    for s in family.samples:
        key = (s.name, tuple(sorted(s.labels.items())))
        assert key not in samples, f"{key} stands twice"
        samples[key] = s.value


def value(name, /, **labels):
    return samples.get((name, tuple(sorted(labels.items()))), 0)


def total(name):
    return sum(v for (n, _), v in samples.items() if n == name)


gpu_kinds = ("kernel", "memcpy", "memset", "graph_launch")
kinds = defaultdict(int)
runs, runs_ns = defaultdict(int), defaultdict(int)
stage_events, work = [], defaultdict(list)
devices = defaultdict(list)
kernels, copies, copied = defaultdict(int), defaultdict(int), defaultdict(int)
delays, delays_ns, replays = defaultdict(int), defaultdict(int), set()
begins, firsts, last, between, between_ns, tokens = {}, {}, {}, 0, 0, 0
requests = set()
footer, counters = None, {}
for line in open(sys.argv[1], encoding="utf-8"):
    e = json.loads(line)
    kind, start, end = e["type"], e["ts_ns"], e["ts_ns"] + e["dur_ns"]
    kinds[kind] += 1
    stage = e.get("stage", "none")
    if kind == "footer":
        footer = e
    elif kind == "counter":
        counters[e["name"]] = e["value"]
    elif kind == "stage":
        for r in e.get("requests", []):
            begins[r] = min(begins.get(r, start), start)
            requests.add(r)
        if not e.get("adopted"):
            runs[e["name"]] += 1
            runs_ns[e["name"]] += e["dur_ns"]
            stage_events.append((e["name"], start, end))
    elif kind == "mark" and e["name"] in ("first_token", "token"):
        for r in e["requests"]:
            tokens += 1
            if r not in firsts:
                firsts[r] = start
            else:
                between += 1
                between_ns += start - last[r]
            last[r] = start
    elif kind in gpu_kinds:
        devices[e["device"]].append((start, end))
        if "stage_id" in e:
            work[(stage, e["stage_id"], e["device"])].append((start, end))
        if kind == "kernel":
            kernels[stage] += 1
        if kind == "memcpy":
            copies[e["direction"]] += 1
            copied[e["direction"]] += e["bytes"]
        if e["attribution"] in ("by_call", "outside_stage") and not e.get("skewed") and e["call_ts_ns"] <= start:
            if not e.get("graph_id") or e["correlation"] not in replays:
                delays[stage] += 1
                delays_ns[stage] += start - e["call_ts_ns"]
            replays.add(e["correlation"])

ns = 1e-9
check("events", value("cutrace_events_total"), footer["delivered"])
check("lines of calls", total("cutrace_calls_total"), kinds["api"])
for cause, lost in footer["lost"].items():
    check("lost, " + cause, value("cutrace_lost_records_total", cause=cause), lost)
for kind, count in (("kernel", "kernel"), ("memset", "memory"), ("memcpy", "transfer")):
    seen = sum(v for (n, l), v in samples.items()
               if n == "cutrace_gpu_operations_total" and ("category", count) in l)
    check(kind, seen, footer["kinds"][kind] + (footer["kinds"]["graph_launch"] if kind == "kernel" else 0))
busy = merge([i for d in devices.values() for i in d])
for device, intervals in devices.items():
    check("busy", value("cutrace_gpu_busy_seconds_total", device=str(device)), union(intervals) * ns, ns / 2)
for stage in set(runs) | {s for s, _, _ in work}:
    check(stage + " runs", value("cutrace_stage_host_seconds_count", stage=stage), runs[stage])
    check(stage + " host", value("cutrace_stage_host_seconds_sum", stage=stage), runs_ns[stage] * ns, ns / 2)
    check(stage + " idle", value("cutrace_stage_gpu_idle_seconds_sum", stage=stage),
          sum(e - s - overlap(s, e, busy) for name, s, e in stage_events if name == stage) * ns, ns / 2)
    seen = [v for (n, l), v in samples.items()
            if n == "cutrace_stage_gpu_busy_seconds_sum" and ("stage", stage) in l]
    check(stage + " GPU", sum(seen), sum(union(v) for (s, _, _), v in work.items() if s == stage) * ns, ns / 2)
    seen = [v for (n, l), v in samples.items()
            if n == "cutrace_stage_gpu_busy_seconds_count" and ("stage", stage) in l]
    check(stage + " runs on GPUs", sum(seen), sum(1 for s, _, _ in work if s == stage))
for stage in delays:
    seen = [v for (n, l), v in samples.items() if n == "cutrace_launch_delay_seconds_count" and ("stage", stage) in l]
    check(stage + " delays", sum(seen), delays[stage])
    seen = [v for (n, l), v in samples.items() if n == "cutrace_launch_delay_seconds_sum" and ("stage", stage) in l]
    check(stage + " delay", sum(seen), delays_ns[stage] * ns, ns / 2)
for stage, count in kernels.items():
    check(stage + " kernels", sum(v for (n, l), v in samples.items()
                                  if n == "cutrace_kernels_total" and ("stage", stage) in l), count)
for direction in copies:
    for name, wanted in (("cutrace_copies_total", copies), ("cutrace_copy_bytes_total", copied)):
        check(direction, sum(v for (n, l), v in samples.items() if n == name and ("direction", direction) in l),
              wanted[direction])
check("requests", value("cutrace_requests_total"), len(requests))
check("tokens", value("cutrace_tokens_total"), tokens)
check("first tokens", value("cutrace_time_to_first_token_seconds_count"), len(firsts))
check("time to first token", value("cutrace_time_to_first_token_seconds_sum"),
      sum(at - begins[r] for r, at in firsts.items()) * ns, ns / 2)
check("gaps between tokens", value("cutrace_inter_token_seconds_count"), between)
check("time between tokens", value("cutrace_inter_token_seconds_sum"), between_ns * ns, ns / 2)
check("tokens counted", value("cutrace_user_count_total", name="tokens"), counters["tokens"])
assert kinds["kernel"] and tokens and between and devices and runs, "the trace holds nothing to compare"
print(f"{len(samples)} samples, {sum(kinds.values())} lines, {tokens} tokens of {len(requests)} requests")
sys.exit(failed)
