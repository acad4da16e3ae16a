# SPDX-License-Identifier: Apache-2.0
# Runs stuck_programs (and stuck_torch.py) under a session, kills what hangs, and compares what the trace says with what
# each program says of itself. Prints one table last; status 1 where something that must hold does not.
#
#   stuck.py --program PATH --out FOLDER [--parts faults,hangs,alive,torch,nccl] [--only REGEX] [--jobs N]
#            [--faults N] [--hangs N] [--many N] [--inject LIBRARY] [--loaded]
#
# --loaded: other work keeps the machine busy. cutrace's flushes of CUPTI's records may then come too late for the
# culprit (the work that faulted) to be the only candidate: runs in which it is are counted, but not required. --many:
# number of runs, instead of N, of "waited illegal", "waited assert", the first hang and torch's "index". --jobs:
# programs that run at a time; 1 is nearest to what users see of faults. Forms and kinds of faults: stuck/faults.hpp.
import argparse
import concurrent.futures
import json
import os
import re
import signal
import subprocess
import sys
import time

KINDS = ["illegal", "misaligned", "trap", "assert"]
FORMS = ["waited", "waited poll", "returned", "queued", "rested", "late", "loading", "unproved", "loud", "graph", "eight", "eight-old"]
CODES = {"illegal": 700, "trap": 719, "misaligned": 716, "assert": 710}
# Here the culprit is the only candidate: a wait for what was before it succeeded, or their records had come.
ONLY = {"waited", "waited poll", "returned", "queued", "rested"}
BOUND = "2s"
FAULT_LINE, HANG_LINE = "cutrace: GPU fault", ("cutrace: GPU hang", "cutrace: hang")


class Run:
    """One run of a program: what it printed, how it ended, what its trace holds."""

    def __init__(self, options, name, command, environment, kill=None, limit=60):
        self.name = name
        base = os.path.join(options.out, re.sub(r"[^A-Za-z0-9.-]+", "_", name))
        self.trace = base + ".jsonl"
        for path in (self.trace, base + ".out", base + ".err"):
            if os.path.exists(path):
                os.remove(path)
        full = dict(os.environ, CUTRACE_SINKS="jsonl:" + self.trace, **environment)
        full = {k: v for k, v in full.items() if v is not None}
        begin = time.monotonic()
        with open(base + ".out", "wb") as out, open(base + ".err", "wb") as err:
            process = subprocess.Popen(command, stdout=out, stderr=err, env=full, start_new_session=True)
            if kill is not None:
                self.wait_for_alarm(process, base + ".err", self.trace, begin, limit)
                kill(process)
            try:
                process.wait(10 if kill is not None else limit)
                self.timed_out = False
            except subprocess.TimeoutExpired:
                self.timed_out = True
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        self.seconds = time.monotonic() - begin
        self.status = process.returncode
        with open(base + ".out", errors="replace") as file:
            self.out = file.read()
        with open(base + ".err", errors="replace") as file:
            self.err = file.read()
        self.events = list(read_events(self.trace))
        self.alarms = [e for e in self.events if e.get("type") == "alarm"]
        self.expected = [json.loads(s) for s in re.findall(r"^expects (\{.*\})$", self.out, re.M)]
        self.allowed = [json.loads(s) for s in re.findall(r"^allows (\{.*\})$", self.out, re.M)]
        self.in_block = re.findall(r"^expects_in_block (.*)$", self.out, re.M)
        self.in_call = [json.loads(s) for s in re.findall(r"^expects_in_call (\{.*\})$", self.out, re.M)]

    @staticmethod
    def wait_for_alarm(process, errors, trace, begin, limit):
        """Until an alarm's block stands on stderr and its event in the trace, and then for what may still come."""
        for path, begins in ((errors, HANG_LINE), (trace, '{"v":1,"type":"alarm"')):
            while process.poll() is None and time.monotonic() - begin < limit and not has_line(path, begins):
                time.sleep(0.1)
        time.sleep(1.5)

    def result(self):
        found = re.search(r"^result (-?\d+)$", self.out, re.M)
        return int(found.group(1)) if found else None


def has_line(path, begins):
    if not os.path.exists(path):
        return False
    with open(path, errors="replace") as file:
        return any(line.startswith(begins) for line in file)


def read_events(path):
    if not os.path.exists(path):
        return
    with open(path, errors="replace") as file:
        for line in file:
            if not any(word in line for word in ('"type":"alarm"', '"type":"kernel"', '"cuEventQuery"')):
                continue
            try:
                yield json.loads(line)
            except ValueError:  # the last line of a process that was killed
                pass


def matches(alarm, expected):
    """Work kind, name, call, stream, thread, stage and requests. What the program could not know is not compared."""
    for key in ("work", "stage", "requests", "tid"):
        if key in expected and alarm.get(key) != expected[key]:
            return False
    if not alarm.get("call", "").startswith(expected["call"]):
        return False
    if "stage_like" in expected and not re.search(expected["stage_like"], alarm.get("stage", "")):
        return False
    if expected.get("stream", -1) != -1 and alarm.get("stream") != expected["stream"]:
        return False
    if "name_like" in expected:
        return re.search(expected["name_like"], alarm.get("name", "")) is not None
    return expected.get("name", "") == "" or alarm.get("name") == expected["name"]


def call_in_block(run, want):
    """The block names the thread and the call that it is in, on one line."""
    return any(re.search(r"\b%d\b" % want["tid"], line) and want["call"] in line for line in run.err.splitlines())


class Score:
    """Counts of what held, by column; `must` columns make the script fail."""

    def __init__(self, row):
        self.row, self.runs, self.columns, self.wrong = row, 0, {}, []

    def add(self, run, **columns):
        self.runs += 1
        for name, (held, must) in columns.items():
            column = self.columns.setdefault(name, [0, must])
            column[0] += bool(held)
            if must and not held:
                self.wrong.append("%s: not %s" % (run.name, name.replace("_", " ")))

    def cell(self, name):
        return "%d/%d" % (self.columns[name][0], self.runs) if name in self.columns else "-"


def noticed_by(form):
    """The call that the block must name: a poll that returned the error, although other polls are not recorded."""
    return "cuEventQuery" if "poll" in form.split() else ""


def score_fault(score, run, form, code, status):
    found = sorted((a for a in run.alarms if a.get("alarm") == "fault"), key=lambda a: a.get("rank", 0))
    want = run.expected[0] if run.expected else None
    right = [want is not None and matches(a, want) for a in found]
    only = form in ONLY
    score.add(
        run,
        among=(any(right), True),
        only=(right == [True] and found[0].get("candidates") == 1, only and not score.loaded),
        first=(bool(right) and right[0], False),
        block=(any(line.startswith(FAULT_LINE) and noticed_by(form) in line for line in run.err.splitlines()), True),
        polls_left_out=(len([e for e in run.events if e.get("name") == "cuEventQuery"]) == ("poll" in form), True),
        as_untraced=(run.status == status and (code is None or run.result() == code), True),
    )


def score_hang(score, run):
    # A head is the first unfinished work of a stream, or a call that does not return.
    heads = [a for a in run.alarms if a.get("alarm") in ("hang", "stage")]
    right = [any(matches(a, want) for a in heads) for want in run.expected]
    wrong = [a for a in heads if not any(matches(a, want) for want in run.expected + run.allowed)]
    kernels = [want["name"] for want in run.expected if want["work"] == "kernel" and "name" in want]
    open_in_trace = {}
    if kernels:
        left = {e.get("name") for e in run.events if e.get("type") == "kernel" and e.get("incomplete")}
        open_in_trace = {"in_trace": (set(kernels) <= left, False)}
    score.add(
        run,
        head=(bool(right) and all(right), True),
        nothing_else=(not wrong, True),
        block=(any(line.startswith(HANG_LINE) for line in run.err.splitlines()) and all(
            re.search(want, run.err) for want in run.in_block), True),
        in_call=(all(call_in_block(run, want) for want in run.in_call), True),
        ended=(not run.timed_out, True),
        **open_in_trace,
    )


KILLS = [
    lambda p: p.send_signal(signal.SIGTERM),
    lambda p: p.send_signal(signal.SIGINT),
    lambda p: (p.send_signal(signal.SIGINT), time.sleep(0.2), p.send_signal(signal.SIGTERM)),
]


class Suite:
    def __init__(self, options):
        self.options, self.jobs, self.scores, self.notes = options, [], {}, []

    def plan(self, part, row, times, work):
        """`work(i)` makes the i-th run; its score is added as soon as it is there."""
        if self.options.only and not re.search(self.options.only, "%s %s" % (part, row)):
            return
        score = self.scores.setdefault((part, row), Score(row))
        score.loaded = self.options.loaded
        self.jobs += [(part, score, work, i) for i in range(times)]

    def run(self, part):
        jobs = [job for job in self.jobs if job[0] == part]
        parallel = self.options.jobs if part != "nccl" else 1
        with concurrent.futures.ThreadPoolExecutor(parallel) as pool:
            waiting = {pool.submit(job[2], job[3]): job for job in jobs}
            for done in concurrent.futures.as_completed(waiting):
                _, score, _, _ = waiting[done]
                judge = done.result()
                judge(score)
        return bool(jobs)


def plan_faults(suite):
    o = suite.options
    for form in FORMS:
        for kind in KINDS:
            times = o.many if o.many and form == "waited" and kind in ("illegal", "assert") else o.faults

            def work(i, kind=kind, form=form):
                run = Run(o, "fault.%s.%s.%d" % (kind, form, i), [o.program, "fault", kind] + form.split(),
                          {"CUTRACE_WATCHDOG": None})
                return lambda score: score_fault(score, run, form, CODES[kind], 3)

            suite.plan("faults", "%s %s" % (form, kind), times, work)


def plan_hangs(suite):
    o = suite.options
    names = subprocess.run([o.program, "list", "hang"], capture_output=True, text=True, check=True).stdout.split()
    for name in names:
        host_only = name == "deadlock-host"

        def work(i, name=name, host_only=host_only):
            run = Run(o, "hang.%s.%d" % (name, i), [o.program, "hang", name], {"CUTRACE_WATCHDOG": BOUND},
                      KILLS[i % 3], limit=7 if host_only else 20)
            if run.status == 77:
                return lambda score: suite.notes.append("%s: %s" % (name, run.out.strip()))
            if host_only:  # nothing of CUDA's hangs: nothing may be claimed
                return lambda score: score.add(run, nothing_else=(not run.alarms, True), ended=(not run.timed_out, True))
            return lambda score: score_hang(score, run)

        suite.plan("hangs", name, o.many if o.many and name == names[0] else o.hangs, work)


def plan_alive(suite):
    o = suite.options
    names = subprocess.run([o.program, "list", "alive"], capture_output=True, text=True, check=True).stdout.split()
    for name in names:

        def work(i, name=name):
            bound = BOUND + ",except=persistent" if name == "excepted" else BOUND
            run = Run(o, "alive.%s.%d" % (name, i), [o.program, "alive", name], {"CUTRACE_WATCHDOG": bound})
            return lambda score: score.add(run, no_alarm=(not run.alarms and not said_hang(run), True),
                                           done=(run.status == 0 and "\ndone\n" in "\n" + run.out, True))

        suite.plan("alive", name, 1, work)


def said_hang(run):
    return any(line.startswith(HANG_LINE) or line.startswith(FAULT_LINE) for line in run.err.splitlines())


def traced_python(o, arguments):
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "stuck_torch.py")
    return ([sys.executable, script] + arguments,
            {"CUDA_INJECTION64_PATH": o.inject, "NVTX_INJECTION64_PATH": o.inject})


def plan_torch(suite):
    o = suite.options
    for name in ("index", "index-graph", "illegal", "illegal-graph"):

        def work(i, name=name):
            command, environment = traced_python(o, [name])
            plain = dict(os.environ, CUTRACE="0")
            untraced = subprocess.run(command, env=plain, capture_output=True, timeout=120).returncode if i == 0 else None
            run = Run(o, "torch.%s.%d" % (name, i), command, dict(environment, CUTRACE_WATCHDOG=None), limit=120)
            if run.status == 77:
                return lambda score: suite.notes.append("%s: %s" % (name, run.out.strip().splitlines()[-1]))
            form = "waited" if name == "index" else "unproved"  # "index": all work before the culprit was waited for
            return lambda score: score_fault(score, run, form, None, run.status if untraced is None else untraced)

        suite.plan("torch", name, (o.many or o.faults) if name == "index" else o.faults, work)


def plan_nccl(suite):
    o = suite.options

    def work(i):
        meeting = os.path.join(o.out, "meeting.%d" % i)
        if os.path.exists(meeting):
            os.remove(meeting)
        quiet = {"NCCL_NVLS_ENABLE": "0", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1", "NVSHMEM_DISABLE_NVLS": "1"}
        command, environment = traced_python(o, ["collective", "0", meeting])
        other, _ = traced_python(o, ["collective", "1", meeting])
        skips = subprocess.Popen(other, env=dict(os.environ, CUTRACE="0", **quiet), start_new_session=True)
        # Python inside of a driver call does not end for SIGINT, traced or not.
        run = Run(o, "nccl.%d" % i, command, dict(environment, CUTRACE_WATCHDOG=BOUND, **quiet), KILLS[0], limit=60)
        os.killpg(skips.pid, signal.SIGKILL)
        skips.wait()
        return lambda score: score_hang(score, run)

    suite.plan("nccl", "collective", o.hangs, work)


def table(suite):
    """Lines: faults by form and kind as among/only/first of n, hangs by name, alive as one line."""
    lines = []
    rows = {part: [s for (p, _), s in suite.scores.items() if p == part and s.runs] for part in PARTS}
    if rows["faults"]:
        lines.append("%-12s %s" % ("faults", " ".join("%-14s" % k for k in KINDS) + "  (culprit among, only, first / runs)"))
        for form in FORMS:
            cells = []
            for kind in KINDS:
                s = suite.scores.get(("faults", "%s %s" % (form, kind)))
                cells.append("%d %d %d/%d" % tuple([s.columns[c][0] for c in ("among", "only", "first")] + [s.runs])
                             if s is not None and s.runs else "-")
            if set(cells) != {"-"}:
                lines.append("%-12s %s" % (form, " ".join("%-14s" % c for c in cells)))
    for part in ("torch",):
        for s in rows[part]:
            lines.append("%-18s culprit among %s, only %s, first %s" % ("torch " + s.row, s.cell("among"), s.cell("only"), s.cell("first")))
    for part in ("hangs", "nccl"):
        for s in rows[part]:
            lines.append("%-18s heads %s, nothing else %s, block %s, thread and call %s, open in the trace %s" % (
                s.row, s.cell("head"), s.cell("nothing_else"), s.cell("block"), s.cell("in_call"), s.cell("in_trace")))
    if rows["alive"]:
        quiet = [s for s in rows["alive"] if not s.wrong]
        lines.append("alive              %d of %d without an alarm" % (len(quiet), len(rows["alive"])))
    return lines


PARTS = {"faults": plan_faults, "hangs": plan_hangs, "alive": plan_alive, "torch": plan_torch, "nccl": plan_nccl}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--loaded", action="store_true")
    parser.add_argument("--parts", default="faults,hangs,alive")
    parser.add_argument("--only", default="", help="regular expression on 'PART ROW', such as 'hangs (spin|graph)'")
    parser.add_argument("--inject", default="")
    for name, default in (("jobs", 4), ("faults", 5), ("hangs", 5), ("many", 0)):
        parser.add_argument("--" + name, type=int, default=default)
    options = parser.parse_args()
    os.makedirs(options.out, exist_ok=True)
    suite = Suite(options)
    begin = time.monotonic()
    for part in options.parts.split(","):
        if part not in PARTS:
            parser.error("there is no part %s: %s" % (part, ", ".join(PARTS)))
        PARTS[part](suite)
        suite.run(part)
        print("== %s: %.0f s" % (part, time.monotonic() - begin), flush=True)
    wrong = [w for s in suite.scores.values() for w in s.wrong]
    for line in wrong[:40]:
        print(line)
    if len(wrong) > 40:
        print("... and %d more" % (len(wrong) - 40))
    print()
    for line in table(suite) + suite.notes:
        print(line)
    print("%d runs in %.0f s, %d things that must hold did not" % (
        sum(s.runs for s in suite.scores.values()), time.monotonic() - begin, len(wrong)))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
