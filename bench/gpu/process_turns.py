# SPDX-License-Identifier: Apache-2.0
# Compares clients of CUPTI in processes of their own that take turns, for a program that prints something with each
# step, such as a token: a round starts the program once with each client, waits until all are ready, and lets one of
# them run at a time (SIGSTOP, SIGCONT), in random order, on one processor. So each client has a process that no other
# one was in, and the speed of a shared machine, which may change by a third within a second, is the same for all.
#
#   process_turns.py [--seconds S] [--slice N] [--skip N] [--cpu N] [--rows FILE] --ready TEXT
#                    --client NAME[:VARIABLE=VALUE[;VARIABLE=VALUE...]] --client ... -- COMMAND ...
#   process_turns.py --report FILE ...
#
# The first client is the reference. Prints the medians over the rounds of each client's time of a step, and of its ratio
# to the reference's in the same round with the 95 % interval of a bootstrap. --report does so for the rounds of files that
# --rows wrote. A step is what one read of the program's output returns. The main thread alone is moved to the
# processor, once the output contains TEXT, since threads that it makes before would inherit that.
import argparse
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time

from bootstrap import interval


class Process:
    """One run of the program, which stands still except during its turns."""

    def __init__(self, command, variables, elsewhere):
        self.errors, self.failure = [], None
        self.child = subprocess.Popen(command, env={**os.environ, **variables}, stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE,
                                      preexec_fn=lambda: os.sched_setaffinity(0, elsewhere))
        self.reader = threading.Thread(target=lambda: self.errors.append(self.child.stderr.read()), daemon=True)
        self.reader.start()

    def prepare(self, cpu, ready):
        """Waits until the program is set up, and stops it. `failure` says why it cannot take turns."""
        try:
            text = b""
            while ready.encode() not in text:
                text += self.read()
            self.signal(signal.SIGSTOP)
            os.sched_setaffinity(self.child.pid, {cpu})
        except (EOFError, OSError) as e:
            self.failure = e

    def read(self):
        some = os.read(self.child.stdout.fileno(), 65536)
        if not some:
            raise EOFError
        return some

    def signal(self, number):
        os.kill(self.child.pid, number)

    def turn(self, skip, count):
        """Seconds a step, of `count` steps behind `skip` that are left out: caches are filled again."""
        self.signal(signal.SIGCONT)
        for _ in range(skip + 1):
            self.read()
        begin = time.monotonic()
        for _ in range(count):
            self.read()
        end = time.monotonic()
        self.signal(signal.SIGSTOP)
        return (end - begin) / count

    def end(self):
        """Lets the program run to its end. Returns its exit status."""
        self.signal(signal.SIGCONT)
        while os.read(self.child.stdout.fileno(), 65536):
            pass
        self.reader.join()
        return self.child.wait()


def measure(arguments, clients, elsewhere, chance):
    """One round: the time of a step by client, in seconds; None once a program ended badly, which is reported."""
    processes, times = {}, {name: [] for name in clients}
    try:
        for name in chance.sample(sorted(clients), len(clients)):
            processes[name] = Process(arguments.command, clients[name], elsewhere)
        # At once: one that is ready must not run on until the others are.
        ready = [threading.Thread(target=p.prepare, args=(arguments.cpu, arguments.ready)) for p in processes.values()]
        for thread in ready:
            thread.start()
        for thread in ready:
            thread.join()
        while all(p.failure is None for p in processes.values()):
            for name in chance.sample(sorted(clients), len(clients)):
                times[name].append(processes[name].turn(arguments.skip, arguments.slice))
    except EOFError:  # of the program that came to its end: the turns of the others end there, too
        pass
    except BaseException:  # a stopped program would stay, with its memory on the GPU
        for process in processes.values():
            process.child.kill()
        raise
    whole = min(len(t) for t in times.values())
    failed = False
    for name, process in processes.items():
        status = process.end()
        failed |= status != 0
        if status != 0:
            print(f"{name}: exit status {status}: {process.errors[0].decode(errors='replace')[-500:]}")
        elif isinstance(process.failure, OSError):
            failed = True
            print(f"{name}: {process.failure}")
    if whole == 0 and not failed:
        print("the program ended before each client had a turn: it needs more steps, or --ready never came")
    return {name: statistics.mean(t[:whole]) for name, t in times.items()} if whole != 0 and not failed else None


def report(rounds):
    names = list(rounds[0])
    print(f"{len(rounds)} rounds")
    for name in names:
        ratios = [r[name] / r[names[0]] for r in rounds]
        print(f"{name:16} {1000 * statistics.median(r[name] for r in rounds):8.3f} ms a step, of {names[0]} "
              f"{interval(ratios)}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=200, help="no round begins after that")
    parser.add_argument("--slice", type=int, default=40, help="steps of a turn")
    parser.add_argument("--skip", type=int, default=4, help="steps of a turn that are left out before these")
    parser.add_argument("--cpu", type=int, default=max(os.sched_getaffinity(0)))
    parser.add_argument("--ready", help="what the program has printed once it is set up")
    parser.add_argument("--rows", help="file to which each round's times are added")
    parser.add_argument("--client", action="append", default=[])
    parser.add_argument("--report", nargs="+", metavar="FILE")
    parser.add_argument("command", nargs="*")
    arguments = parser.parse_args()
    if arguments.report:
        report([json.loads(line) for name in arguments.report for line in open(name, encoding="utf-8")])
        return 0
    if len(arguments.client) < 2 or not arguments.ready or not arguments.command:
        parser.error("give two clients or more, --ready, and behind -- the command")
    if shutil.which(arguments.command[0]) is None:
        parser.error(f"there is no program {arguments.command[0]}")
    clients = {}
    for client in arguments.client:
        name, _, variables = client.partition(":")
        clients[name] = dict(v.split("=", 1) for v in variables.split(";") if v)
    # Threads of the tracers and the driver, and this script, run on other processors where there are others.
    elsewhere = os.sched_getaffinity(0) - {arguments.cpu} or {arguments.cpu}
    os.sched_setaffinity(0, elsewhere)
    end, chance, rounds = time.monotonic() + arguments.seconds, random.Random(), []
    while not rounds or time.monotonic() < end:
        times = measure(arguments, clients, elsewhere, chance)
        if times is None:
            return 1
        rounds.append({name: times[name] for name in clients})
        if arguments.rows:
            with open(arguments.rows, "a", encoding="utf-8") as rows:
                rows.write(json.dumps(rounds[-1]) + "\n")
    report(rounds)
    return 0


sys.exit(main())
