#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts the distinct cache lines (64 bytes) and pages that one launch's ENTER and EXIT touch, with valgrind's lackey.

    bench/callback/lines.py [-v] BUILD/bench/callback/callback_cost
"""
import collections
import os
import re
import subprocess
import sys
import tempfile


WINDOW = b" S 10000000000,4\n"  # callback_cost stores to this address before and after the call


def main():
    verbose = "-v" in sys.argv[1:]
    program = [a for a in sys.argv[1:] if a != "-v"][0]
    read, write = os.pipe()
    with tempfile.TemporaryFile("w+") as reported:
        child = subprocess.Popen(
            ["valgrind", "--tool=lackey", "--trace-mem=yes", f"--log-fd={write}", program, "--once"],
            pass_fds=[write], stdout=reported)
        os.close(write)
        with os.fdopen(read, "rb") as trace:
            for line in trace:
                if line == WINDOW:
                    break
            touched = list(iter(trace.readline, WINDOW))
            child.kill()
        child.wait()
        reported.seek(0)
        report(touched, [m for m in map(mapping, reported) if m], verbose)


def mapping(line):
    if line.startswith("frame "):  # valgrind's stack has no name
        frame = int(line.split()[1], 16)
        return frame - (1 << 18), frame + (1 << 16), "stack"
    found = re.match(r"([0-9a-f]+)-([0-9a-f]+) \S+ \S+ \S+ \S+\s*(.*)", line)
    return found and (int(found[1], 16), int(found[2], 16), os.path.basename(found[3]) or "memory")


def report(trace, maps, verbose):
    def place(at):
        return next(name for low, high, name in reversed(maps) if low <= at < high)

    touched = {"code": collections.defaultdict(set), "data": collections.defaultdict(set)}
    instructions = 0
    for line in trace:
        found = re.match(rb"(I | S| L| M) +([0-9a-f]+),(\d+)", line)
        if not found:
            continue
        at, size = int(found[2], 16), int(found[3])
        where = place(at)
        if where in ("callback_cost", "stack"):  # the caller's; what lies on the stack was used just now
            continue
        instructions += found[1] == b"I "
        for l in range(at // 64, (at + size - 1) // 64 + 1):
            touched["code" if found[1] == b"I " else "data"][where].add(l)
    print(f"{instructions} instructions")
    for kind, places in touched.items():
        every = set().union(*places.values())
        print(f"{kind}: {len(every)} lines in {len({l // 64 for l in every})} pages")
        for where, its in sorted(places.items()):
            print(f"  {where}: {len(its)} lines in {len({l // 64 for l in its})} pages")
            if verbose:
                base = min(low for low, _, name in maps if name == where)
                print("    " + " ".join(f"{l * 64 - base:x}" for l in sorted(its)))


main()
