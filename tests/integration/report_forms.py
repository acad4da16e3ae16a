#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the forms of a report with each other and with the events, which are read and added up here once more.

report_forms.py TRACE.jsonl TEXT JSON CSV_FOLDER HTML
report_forms.py --hostile TRACE.jsonl > TRACE_WITH_OTHER_NAMES
report_forms.py --kineto KINETO.json.gz JSON         PyTorch's own events, in exact decimals
report_forms.py --live LIVE_TEXT TEXT LIVE_HTML HTML    a program's live report, and the report on its file
report_forms.py --time TRACE.jsonl JSON [FROM_NS TO_NS]    times in the report on the trace or that part of it
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
           "<!--", " spaces ", "tab\t", "nul\0byte", "\x1b[31mred", "kanji \u6f22", "\U0001f680", "\u2028", "x" * 2000,
           "@SUM(1)", "-2+3", "-2.5", "\t=1", "\x1b]0;title\x07", "\u009b31mc1"]
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


def clipped(spans, windows):
    return [(max(a, c), min(b, d)) for a, b in spans for c, d in windows if max(a, c) < min(b, d)]


DESCRIPTIONS = ("header", "footer", "process", "thread", "device", "context", "stream")


def recorded_time(events, from_ns, to_ns):
    """The time that a trace covers: its windows; else all of it, but for missing parts of a rotated file and what came
    after a file was full. Of that, what lies between from_ns and to_ns."""
    windows = [(e["ts_ns"], e["ts_ns"] + e["dur_ns"]) for e in events if e["type"] == "window"]
    if not windows:
        heads = [i for i, e in enumerate(events) if e["type"] == "header"]
        part, newest, first = 0, 0, events[0]["clocks"]["trace_ns"]
        piece = first
        for a, b in zip(heads, heads[1:] + [len(events)]):
            rows = [e for e in events[a:b] if e["type"] not in DESCRIPTIONS]
            number = events[a].get("part", 0)
            if number > part + 1:
                if part:
                    windows.append((piece, newest))
                piece = rows[0]["ts_ns"] + rows[0]["dur_ns"] if rows else piece
            part = number
            newest = max([newest] + [e["ts_ns"] + e.get("dur_ns", 0) for e in rows])
        foot = events[-1] if events[-1]["type"] == "footer" and "clocks" in events[-1] else None
        read = collections.Counter(e["type"] for e in events)
        full = foot and all(foot["kinds"].get(k, 0) <= read[k] for k in foot["kinds"] if k not in DESCRIPTIONS)
        whole = foot and (full or windows or piece != first)
        windows.append((piece, max(newest, foot["clocks"]["trace_ns"]) if whole else newest))
    return clipped([(from_ns, to_ns)], windows)


def compare_time(events, report, from_ns, to_ns):
    # The arguments count from the beginning of the trace.
    begin = events[0]["clocks"]["trace_ns"]
    from_ns, to_ns = max(from_ns + begin, -2**63), min(to_ns + begin, 2**63 - 1)
    recorded = recorded_time(events, from_ns, to_ns)
    whole = sum(b - a for a, b in recorded)
    check(report["trace"]["recorded_ns"] == whole, "recorded", report["trace"]["recorded_ns"], "not", whole)
    gpu = [(e["ts_ns"], e["ts_ns"] + e["dur_ns"]) for e in events
           if e["type"] in ("kernel", "memcpy", "memset", "graph_launch")]
    busy = union(clipped(gpu, recorded))
    check(report["trace"]["gpu_busy_ns"] == busy, "busy", report["trace"]["gpu_busy_ns"], "not", busy)
    check(report["trace"]["gpu_idle_ns"] == whole - busy, "idle", report["trace"]["gpu_idle_ns"], "not", whole - busy)
    host = [(e["ts_ns"], e["ts_ns"] + e["dur_ns"]) for e in events
            if e["type"] == "api" or (e["type"] == "stage" and not e.get("span"))]
    nothing = whole - union(clipped(gpu + host, recorded))
    reported = {r["owner"]: r["ns"] for r in report["time"]}
    check(reported["nothing"] == nothing, "nobody's time", reported["nothing"], "not", nothing)
    for name in {e["name"] for e in events if e["type"] == "stage"}:
        mine = union(clipped([(e["ts_ns"], e["ts_ns"] + e["dur_ns"]) for e in events
                              if e["type"] == "stage" and e["name"] == name], recorded))
        reported = [r["host_ns"] for r in report["stages"] if r["name"] == name]
        # A stage that lies outside of what was asked for is in no table.
        check(reported == [mine] or (mine == 0 and reported in ([], [0])), "stage", name, reported, "not", mine)


def compare_events(events, report):
    gpu = [e for e in events if e["type"] in ("kernel", "memcpy", "memset", "graph_launch")]
    busy = collections.defaultdict(list)
    for e in gpu:
        busy[e.get("device", 0)].append((e["ts_ns"], e["ts_ns"] + e["dur_ns"]))
    reported = {d["device"]: d["busy_ns"] for d in report["devices"]}
    check(reported == {d: union(s) for d, s in busy.items()}, "busy", reported)
    check(report["numbers"]["gpu_operations"] == len(gpu), "GPU operations")
    check(report["numbers"]["kernels"] == sum(e["type"] == "kernel" for e in gpu), "kernels")
    kernels, calls, stages = (collections.defaultdict(lambda: [0, 0]) for _ in range(3))
    for e in events:
        row = {"kernel": kernels, "api": calls, "stage": stages}.get(e["type"])
        if row is not None and not e.get("adopted"):
            row[e.get("name", "")][0] += 1
            row[e.get("name", "")][1] += e["dur_ns"]
    cut = lambda name: name.encode()[:1024].decode(errors="ignore")
    reported = {r["name"]: [r["count"], r["total_ns"]] for r in report["gpu_operations"] if not r["name"].startswith("[mem")}
    check(reported == {cut(k): v for k, v in kernels.items()}, "kernels by name", reported)
    reported = {r["name"]: [r["count"], r["total_ns"]] for r in report["calls"]}
    check(reported == {cut(k): v for k, v in calls.items()}, "calls by name")
    reported = {r["name"]: [r["count"], r["host_sum_ns"]] for r in report["stages"]}
    check(reported == {cut(k): v for k, v in stages.items()}, "stages by name", reported)
    reported = {r["name"]: [r["count"], r["mean_ns"], r["longest_ns"]] for r in report["stage_times"]}
    lengths = collections.defaultdict(list)
    for e in events:
        if e["type"] == "stage" and not e.get("adopted"):
            lengths[cut(e["name"])].append(e["dur_ns"])
    check(reported == {k: [len(v), sum(v) // len(v), max(v)] for k, v in lengths.items()}, "times of stages", reported)
    compare_tokens(events, report)
    copies = sum(e.get("bytes", 0) for e in events if e["type"] == "memcpy")
    check(sum(r["bytes"] for r in report["copies"]) == copies, "bytes copied")


def compare_tokens(events, report):
    """First tokens and gaps by the marks, in the order of the file, as docs/prometheus.md defines them."""
    begins, marked, tokens = {}, {}, collections.defaultdict(list)
    for e in events:
        for r in e.get("requests", []):
            if e["type"] == "stage" and not e.get("adopted"):
                begins[r] = min(begins.get(r, e["ts_ns"]), e["ts_ns"])
            elif e["type"] == "mark" and e["name"] == "request_begin":
                marked[r] = e["ts_ns"]
            elif e["type"] == "mark" and e["name"] in ("token", "first_token"):
                tokens[r].append(e["ts_ns"])
    if not tokens:
        return
    reported = {r["what"]: r for r in report["request_times"]}
    first = [t[0] - marked.get(r, begins.get(r)) for r, t in tokens.items() if r in marked or r in begins]
    gaps = []
    for t in tokens.values():
        last = t[0]
        for at in t[1:]:
            if at >= last:
                gaps.append(at - last)
                last = at
    check(report["inference"]["by_marks"] and report["inference"]["tokens"] == sum(map(len, tokens.values())), "tokens")
    for what, mine in (("time_to_first_token", first), ("time_between_tokens", gaps)):
        row = reported[what]
        check([row["count"], row["mean_ns"], row["longest_ns"]] ==
              [len(mine), sum(mine) // len(mine) if mine else 0, max(mine, default=0)], what, row, len(mine))
        for percent in (50, 95, 99):
            ranked = sorted(mine)
            exact = ranked[max(0, -(-percent * len(mine) // 100) - 1)] if mine else 0
            check(abs(row["p%d_ns" % percent] - exact) <= exact / 32 + 1, what, "p%d" % percent, row, exact)


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
    found = re.search(r"GPU busy ([0-9.]+) %.*?[,;] idle ([0-9.]+) %", flat)
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
    for inner in ("evidence", "meanwhile"):
        flat[inner] = [dict(e, finding=n) for n, f in enumerate(flat["findings"], 1) for e in f[inner]]
    flat["findings"] = [dict({k: v for k, v in f.items() if k not in ("evidence", "meanwhile")}, finding=n)
                        for n, f in enumerate(flat["findings"], 1)]
    check(set(flat) == set(tables), "tables", set(flat) ^ set(tables))

    def as_csv(v):
        if isinstance(v, bool):
            return "true" if v else "false"
        if isinstance(v, str):
            # An apostrophe keeps spreadsheets from taking a text for a formula.
            formula = v[:1] in tuple("=+-@\t\r") and not re.fullmatch(r"[-+]?(\d+\.?\d*|\.\d+)", v)
            return "'" * formula + re.sub("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]", "\ufffd", v)
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
    reported = [(f[0], f[1], f[2], f[3], [(e[0], e[1]) for e in f[4]]) for f in data["findings"]]
    mine = [(f["title"], f["what"], f["advice"], f["win_ns"], [(e["start_ns"], e["end_ns"]) for e in f["evidence"]])
            for f in report["findings"]]
    check(reported == mine, "findings of the page")
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


LIVE_TABLES = ("WHERE THE TIME WENT", "WHY THE GPU IS IDLE", "STAGES", "GPUS", "GPU OPERATIONS", "HOST CALLS", "SUMMARY")


def tables_of(text):
    head, *rest = re.split(r"\n\n(?=[A-Z])", text)
    found = {re.split("  |\n", part)[0]: part.strip("\n") for part in rest}
    found["head"] = head[:head.index("answer ")]
    # The file's answer also has what to fix first.
    found["answer"] = re.sub("; fix first: .*?\\)|; nothing stands out to fix", "",
                             " ".join(head[head.index("answer "):].split()))
    return found


ROOM = r"\n *GPU work whose stage was forgotten: ([\d,]+) operation.*"


def what_both_know(live, whole):
    """The tables of stages without what the live table may lack and the file has: requests that the live table counts
    as ">=N", and the GPU columns where it does not know the stage of some work, whose call is in the file."""
    room, of_file = (sum(int(n.replace(",", "")) for n in re.findall(ROOM, table)) for table in (live, whole))
    check(room >= of_file, "work whose stage was forgotten: live", room, "read", of_file)
    cut = {line.split()[1] for line in live.split("\n") if re.search(r" >=[\d,]+$", line)}

    def rows(table):
        for line in re.sub(ROOM, "", table).split("\n"):
            columns = re.split(r"\s{2,}", line.strip())
            if len(columns) == 8:  # stage, calls, mean, host, GPU own, GPU all, GPU idle, requests
                columns[7:] = [] if columns[0].split()[-1] in cut else columns[7:]
                columns[4:6] = columns[4:6] if room == of_file else []
            yield columns
    return list(rows(live)), list(rows(whole))


def compare_live(live, whole, live_page, page):
    live, whole = tables_of(live), tables_of(whole)
    notes = live["LOSSES AND NOTES"]
    in_logs = "causes of idle time were found in" in notes
    check("GPU IS IDLE is approximate" not in notes, "idle time that is not known:", notes)
    for name in LIVE_TABLES + ("head", "answer"):
        if in_logs and name in ("WHY THE GPU IS IDLE", "answer") or name + " is approximate" in notes:
            continue
        if "~" in live.get(name, ""):  # said to be approximate
            continue
        mine, other = live.get(name), whole.get(name)
        if name == "STAGES" and other is not None:
            mine, other = what_both_know(mine, other)
        check(name not in whole or mine == other, name, "live:\n", mine, "\nread:\n", other)
    check(all(name in live for name in LIVE_TABLES), "tables are missing:", list(live))
    live, whole = ([json.loads(re.search(r'id="data">(.*?)</script>', p, re.S)[1])][0] for p in (live_page, page))
    rough = any(s["approximate"] for s in live["stages"])
    for name in ("recorded_ns", "gpu_busy_ns", "launches", "kernels", "owners", "stages", "devices", "gpu", "calls",
                 "copies", "gap_count"):
        if name == "stages" and rough or name == "owners" and "TIME WENT is approximate" in notes:
            continue
        check(live[name] == whole[name], "page,", name, "live:", live[name], "read:", whole[name])
    if not in_logs:
        check(live["idle"] == whole["idle"], "page, idle:", live["idle"], whole["idle"])
        check(live["gaps"] == whole["gaps"], "page, gaps")
    causes, of_file = ({i[0]: i[2] for i in p["idle"]} for p in (live, whole))
    check(abs(sum(causes.values()) - sum(of_file.values())) <= 1, "idle time", causes, of_file)
    # Where causes were found in pieces of the trace, the report says for how much time they may be wrong.
    found = re.search(r"found in [\d,]+ pieces .*? for ([\d.,]+) ?(\w+) of it", " ".join(notes.split()))
    check(bool(found) == in_logs, "how much time may have another cause:", notes)
    uncertain = float(found[1].replace(",", "")) * {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}[found[2]] if found else 0
    for cause, ns in of_file.items():
        check(abs(causes.get(cause, 0) - ns) <= 1.01 * uncertain, "idle time by cause", causes, of_file, uncertain)


def main():
    if sys.argv[1] == "--live":
        compare_live(*(open(path, encoding="utf-8").read() for path in sys.argv[2:6]))
        sys.exit(failed)
    if sys.argv[1] == "--hostile":
        return hostile(sys.argv[2])
    if sys.argv[1] == "--kineto":
        compare_kineto(sys.argv[2], json.load(open(sys.argv[3], encoding="utf-8")))
        sys.exit(failed)
    if sys.argv[1] == "--time":
        compare_time([json.loads(line) for line in open(sys.argv[2], encoding="utf-8")],
                     json.load(open(sys.argv[3], encoding="utf-8")), *map(int, sys.argv[4:] or (-2**63, 2**63)))
        sys.exit(failed)
    trace, text, document, folder, page = sys.argv[1:6]
    events = [json.loads(line) for line in open(trace, encoding="utf-8")]
    raw = open(document, encoding="utf-8").read()
    report = json.loads(raw)
    check(report["schema"] == "cutrace.report" and report["v"] == 1, "schema")
    compare_events(events, report)
    compare_time(events, report, -2**63, 2**63)
    compare_within(report)
    compare_text(open(text, encoding="utf-8").read(), report)
    compare_csv(report, folder)
    compare_html(open(page, encoding="utf-8").read(), report)
    sys.exit(failed)


main()
