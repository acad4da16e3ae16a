#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the forms of a report with each other and with the events, which are read and added up here once more.

report_forms.py TRACE.jsonl TEXT JSON CSV_FOLDER HTML
report_forms.py --hostile TRACE.jsonl > TRACE_WITH_OTHER_NAMES
report_forms.py --kineto KINETO.json.gz JSON         PyTorch's own events, in exact decimals
"""
import collections
import csv
import decimal
import gzip
import json
import os
import re
import sys

HOSTILE = ["", "=cmd|' /C calc'!A0", "a,b", 'quote " quote', "line\nbreak\r\n", "</script><script>alert(1)</script>",
           "<!--", " spaces ", "tab\t", "nul\0byte", "\x1b[31mred", "kanji \u6f22", "\U0001f680", "\u2028", "x" * 2000]
failed = 0


def check(truth, *words):
    global failed
    if not truth:
        failed = 1
        print("FAILED:", *words)


def hostile(path):
    names = {}
    for line in open(path, encoding="utf-8"):
        e = json.loads(line)
        for field in ("name", "stage", "call", "process"):
            if isinstance(e.get(field), str) and e["type"] not in ("header", "footer"):
                name = names.setdefault((field == "call", e[field]), HOSTILE[len(names) % len(HOSTILE)])
                e[field] = name if e["type"] != "api" or field == "stage" else e[field]
        print(json.dumps(e, ensure_ascii=False))


def union(spans):
    total, until = 0, None
    for start, end in sorted(spans):
        if until is None or start > until:
            total, until = total + end - start, end
        elif end > until:
            total, until = total + end - until, end
    return total


def compare_events(events, report):
    gpu = [e for e in events if e["type"] in ("kernel", "memcpy", "memset", "graph_launch")]
    busy = collections.defaultdict(list)
    for e in gpu:
        busy[e.get("device", 0)].append((e["ts_ns"], e["ts_ns"] + e["dur_ns"]))
    told = {d["device"]: d["busy_ns"] for d in report["devices"]}
    check(told == {d: union(s) for d, s in busy.items()}, "busy", told)
    check(report["numbers"]["gpu_operations"] == len(gpu), "GPU operations")
    check(report["numbers"]["kernels"] == sum(e["type"] == "kernel" for e in gpu), "kernels")
    kernels, calls, stages = (collections.defaultdict(lambda: [0, 0]) for _ in range(3))
    for e in events:
        row = {"kernel": kernels, "api": calls, "stage": stages}.get(e["type"])
        if row is not None and not e.get("adopted"):
            row[e.get("name", "")][0] += 1
            row[e.get("name", "")][1] += e["dur_ns"]
    cut = lambda name: name.encode()[:1024].decode(errors="ignore")
    told = {r["name"]: [r["count"], r["total_ns"]] for r in report["gpu_operations"] if not r["name"].startswith("[mem")}
    check(told == {cut(k): v for k, v in kernels.items()}, "kernels by name", told)
    told = {r["name"]: [r["count"], r["total_ns"]] for r in report["calls"]}
    check(told == {cut(k): v for k, v in calls.items()}, "calls by name")
    told = {r["name"]: [r["count"], r["host_sum_ns"]] for r in report["stages"]}
    check(told == {cut(k): v for k, v in stages.items()}, "stages by name", told)
    copies = sum(e.get("bytes", 0) for e in events if e["type"] == "memcpy")
    check(sum(r["bytes"] for r in report["copies"]) == copies, "bytes copied")


def compare_within(report):
    time = report["time"]
    check(sum(r["ns"] for r in time) == report["trace"]["recorded_ns"], "owners do not add up to the time recorded")
    check(sum(r["ns"] for r in report["idle_causes"]) == report["idle"]["ns"], "causes do not add up to the gaps")
    check(sum(d["idle_ns"] for d in report["devices"]) == report["idle"]["ns"], "gaps are not the devices' idle time")
    for f in report["findings"]:
        check(f["win_ns"] <= f["cost_ns"], "wins more than it costs")
        check(f["kind"] == "losses" or f["evidence"], "a finding without evidence", f["kind"])
        for e in f["evidence"]:
            check(e["end_ns"] - e["start_ns"] == e["duration_ns"], "evidence has another length")


def compare_text(text, report):
    flat = " ".join(text.split())
    check("%s delivered" % format(report["totals"]["delivered"], ",") in flat, "events delivered")
    check(("nothing lost" in flat) == (report["totals"]["lost"] == 0), "losses")
    found = re.search(r"GPU busy ([0-9.]+) %, idle ([0-9.]+) %", flat)
    recorded = report["trace"]["recorded_ns"]
    if report["devices"]:
        check(found and abs(float(found[1]) - 100 * report["trace"]["gpu_busy_ns"] / recorded) < 0.051, "share of busy")
    else:
        check("no GPU work was seen" in flat, "text knows of GPU work")
    for i, f in enumerate(report["findings"], 1):
        check("%d win up to" % i in flat or f["win_ns"] == 0, "finding", i)
        check(" ".join(f["advice"].split()) in flat, "advice", f["advice"])
    check(" ".join(report["answer"].split()) in flat, "answer")


def compare_csv(report, folder):
    tables = {}
    for name in os.listdir(folder):
        raw = open(os.path.join(folder, name), "rb").read()
        check(raw.endswith(b"\r\n"), name, "has no CR LF at its end")
        rows = list(csv.reader(open(os.path.join(folder, name), encoding="utf-8", newline=""), strict=True))
        check(len({len(r) for r in rows}) == 1, name, "has rows of different lengths")
        tables[name[:-4]] = [dict(zip(rows[0], r)) for r in rows[1:]]
    flat = {k: [v] if isinstance(v, dict) else v for k, v in report.items() if isinstance(v, (dict, list))}
    proofs = [dict(e, finding=n) for n, f in enumerate(flat["findings"], 1) for e in f["evidence"]]
    flat["findings"] = [dict({k: v for k, v in f.items() if k != "evidence"}, finding=n)
                        for n, f in enumerate(flat["findings"], 1)]
    flat["evidence"] = proofs
    check(set(flat) == set(tables), "tables", set(flat) ^ set(tables))

    def as_csv(v):
        if isinstance(v, bool):
            return "true" if v else "false"
        if isinstance(v, str):
            return re.sub("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]", "\ufffd", v)
        return v

    for name, rows in flat.items():
        check(len(rows) == len(tables[name]), name, "has", len(tables[name]), "rows, not", len(rows))
        for mine, theirs in zip(rows, tables[name]):
            for field, value in mine.items():
                value, other = as_csv(value), theirs.get(field)
                same = other == value if isinstance(value, str) else other is not None and float(other) == float(value)
                check(same, name, field, repr(other), "not", repr(value))


def compare_html(page, report):
    check(page.count("</script>") == page.count("<script"), "scripts")
    check("alert(1)</script>" not in page, "a name became markup")
    for reference in re.findall(r"""(?:src|href)=["']?([^"'>\s]*)""", page):
        check(reference == "" or reference[0] == "#" or "$" in reference, "the page loads", reference)
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)[1])
    told = [(f[0], f[1], f[2], f[3], [(e[0], e[1]) for e in f[4]]) for f in data["findings"]]
    mine = [(f["title"], f["what"], f["advice"], f["win_ns"], [(e["start_ns"], e["end_ns"]) for e in f["evidence"]])
            for f in report["findings"]]
    check(told == mine, "findings of the page")
    check(page.index('id="s-findings"') < page.index('id="h-time"'), "findings do not stand first")
    check(data["gpu_busy_ns"] == report["trace"]["gpu_busy_ns"], "busy in the page")
    check({d["device"]: d["busy_ns"] for d in data["devices"]} ==
          {d["device"]: d["busy_ns"] for d in report["devices"]}, "devices of the page")


def compare_kineto(path, report):
    busy = collections.defaultdict(list)
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for e in json.load(file, parse_float=decimal.Decimal)["traceEvents"]:
            if e["ph"] == "X" and e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"):
                start = int(decimal.Decimal(e["ts"]) * 1000)
                busy[e["args"]["device"]].append((start, start + int(decimal.Decimal(e["dur"]) * 1000)))
    check(sum(map(len, busy.values())) > 0, "no event of PyTorch's")
    check({d["device"]: d["busy_ns"] for d in report["devices"]} == {d: union(s) for d, s in busy.items()}, "busy", path)
    check(report["numbers"]["gpu_operations"] == sum(map(len, busy.values())), "GPU operations", path)


def main():
    if sys.argv[1] == "--hostile":
        return hostile(sys.argv[2])
    if sys.argv[1] == "--kineto":
        compare_kineto(sys.argv[2], json.load(open(sys.argv[3], encoding="utf-8")))
        sys.exit(failed)
    trace, text, document, folder, page = sys.argv[1:6]
    events = [json.loads(line) for line in open(trace, encoding="utf-8")]
    raw = open(document, encoding="utf-8").read()
    report = json.loads(raw)
    check(report["schema"] == "cutrace.report" and report["v"] == 1, "schema")
    compare_events(events, report)
    compare_within(report)
    compare_text(open(text, encoding="utf-8").read(), report)
    compare_csv(report, folder)
    compare_html(open(page, encoding="utf-8").read(), report)
    sys.exit(failed)


main()
