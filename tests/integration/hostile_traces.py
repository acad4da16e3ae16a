# SPDX-License-Identifier: Apache-2.0
# Small trace files that ask for much: `cutrace` must neither crash nor take much memory, and the time that it takes must
# be at most linear in their size.
#
#   hostile_traces.py CUTRACE [NAME...]       all, or these
#   hostile_traces.py --write NAME N FILE     one of them, compressed where FILE ends with .gz
import gzip
import os
import struct
import subprocess
import sys

MIB = 1 << 20


# --- protobuf -------------------------------------------------------------------------------------------------------
def varint(n):
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, str):
        value = value.encode()
    return varint(number << 3 | 2) + varint(len(value)) + value


def packet(*fields, sequence=1, flags=0):
    body = field(10, sequence) + (field(13, flags) if flags else b"") + b"".join(fields)
    return field(1, body)


def interned(table, iid, text):
    return field(table, field(1, iid) + field(2, text))


CATEGORIES, NAMES, NOTES, TEXTS, KERNELS, ARGUMENTS = 1, 2, 3, 29, 1000, 1001
CLEARED, NEEDED = 1, 2


def clocks():
    one = lambda clock, ns: field(1, field(1, clock) + field(2, ns))
    return packet(field(6, one(3, 1000) + one(1, 1000)), field(87, 1))


def track(uuid, thread):
    return packet(field(60, field(1, uuid) + field(4, field(1, 7) + field(2, thread))))


def event(kind, *more, ns=2000, uuid=5, sequence=1):
    body = field(9, kind) + field(11, uuid) + field(3, 1) + b"".join(more)
    return packet(field(8, ns), field(11, body), sequence=sequence)


BEGIN, END, INSTANT = 1, 2, 3


def head(sequence=1, names=b""):
    """Clocks, one thread, the category of stages, the note of requests."""
    data = interned(CATEGORIES, 1, "stage") + interned(NOTES, 1, "requests") + names
    return clocks() + track(5, 8) + packet(field(12, data), sequence=sequence, flags=CLEARED)


# --- what asks for much ---------------------------------------------------------------------------------------------
def nested_details(n):
    return b'{"v":1,"type":"header","schema":"cutrace"}\n{"ts":1,"op_id":1,"phase":"B","name":"a","details":' + \
        b'{"details":' * n + b"1" + b"}" * n + b"}\n"


def far_numbers(n):
    """Each sequence has one entry of each table, at the far end of it."""
    out = [clocks()]
    far = (1 << 18) - 1
    for s in range(1, n + 1):
        tables = b"".join(interned(t, far, "a") for t in (CATEGORIES, NAMES, NOTES, TEXTS, 24, KERNELS, ARGUMENTS))
        out.append(packet(field(12, tables), sequence=s, flags=CLEARED))
    return b"".join(out)


def many_texts(n):
    """Texts that no event uses."""
    text = "a" * 10000
    return head() + b"".join(packet(field(12, interned(TEXTS, i, text))) for i in range(1, n + 1))


def many_names(n):
    return head() + b"".join(packet(field(12, interned(NAMES, 1, "%d %s" % (i, "a" * 10000)))) for i in range(n))


def long_requests(n):
    """A text of n requests, which many open slices and texts have."""
    text = "1, " * n + "2"
    out = [head()]
    use = field(4, field(1, 1) + field(17, 1))
    for i in range(40):
        out.append(packet(field(12, interned(TEXTS, 1 + i, text))))
        out.append(event(BEGIN, field(4, field(1, 1) + field(17, 1 + i))))
    out += [event(BEGIN, use)] * 1000
    return b"".join(out)


def long_rows(n):
    out = ['{"traceEvents":[\n']
    for i in range(n):
        out.append('{"ph":"M","pid":%d,"tid":%d,"name":"thread_name","args":{"name":"%s"}},\n' % (i, i, "a" * MIB))
    out.append('{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":1,"args":{}}]}\n')
    return "".join(out).encode()


def long_notes(n):
    one = '{"v":1,"type":"footer","next":"b","notes":["%s"]}\n' % ("a" * MIB)
    return ('{"v":1,"type":"header","schema":"cutrace"}\n' + one * n).encode()


def open_operations(n):
    out = ['{"v":1,"type":"header","schema":"cutrace"}\n']
    requests = ",".join("7" * 2000)
    for i in range(n):
        out.append('{"ts":1,"op_id":%d,"phase":"B","name":"a","details":{"v":1,"type":"stage","requests":[%s]}}\n' %
                   (i, requests))
    return "".join(out).encode()


def cleared_tables(n):
    """A table with a far number, cleared again and again."""
    far = (1 << 18) - 1
    one = packet(field(12, b"".join(interned(t, far, "a") for t in (CATEGORIES, NAMES, NOTES, TEXTS, 24, KERNELS))),
                 flags=CLEARED)
    return head() + one * n


def cleared_slices(n):
    """Slices with many requests that stay open while what the sequence knows is cleared."""
    again = packet(field(12, interned(CATEGORIES, 1, "stage")), flags=CLEARED)
    text = packet(field(12, interned(TEXTS, 1, "1, " * 1000 + "2")))
    return head() + text + event(BEGIN, field(4, field(1, 1) + field(17, 1))) * 4000 + again * n


def first_again(n):
    """The packet that begins a further part of the trace, n times, after a far sequence number and many tracks."""
    out = [clocks(), packet(field(8, 1), sequence=(1 << 20) - 1)]
    out += [track(1 + i, 3 + i) for i in range(n)]
    return b"".join(out) + clocks() * n


def table_size(n):
    """Buckets of a libstdc++ hash table that holds what a case of TIME has (4,200), or ten times as much."""
    return 42043 if n > 10000 else 5087


def one_bucket(n):
    """Numbers of tracks that are multiples of the sizes that hash tables of libstdc++ have."""
    prime = table_size(n)
    out = [clocks()]
    for i in range(1, n + 1):
        out.append(packet(field(60, field(1, i * prime) + field(4, field(1, 7) + field(2, 3)))))
    return b"".join(out)


def one_stage_bucket(n):
    """The same of stages and requests."""
    prime = table_size(n)
    out = ['{"v":1,"type":"header","schema":"cutrace"}\n']
    for i in range(1, n + 1):
        out.append('{"v":1,"type":"stage","ts_ns":%d,"dur_ns":5,"pid":1,"tid":1,"name":"s","stage_id":%d,"requests":[%d]}\n'
                   % (10 * i, i * prime, i * prime))
    return "".join(out).encode()


def one_hash(n):
    """Names of 16 bytes that a hash without a seed gives one value."""
    mask, factor = (1 << 64) - 1, 0x9E3779B97F4A7C15
    start = 16 * factor & mask
    names = []
    for i in range(n):
        first = i * 0x123456789ABCD + 1 & mask
        product = (start ^ first) * factor
        second = (product & mask) ^ (product >> 64) ^ 0x5555
        names.append(packet(field(12, interned(NAMES, 1, struct.pack("<QQ", first, second)))))
    return head() + b"".join(names)


def open_instances(n):
    """Calls of stages that never end, each of a request of its own."""
    out = [head(names=interned(CATEGORIES, 2, "cuda_driver") + interned(NOTES, 2, "request") + interned(NAMES, 1, "s"))]
    for i in range(n):
        note = field(4, field(1, 2) + field(3, i + 1))
        adopted = field(4, field(1, 3) + field(2, 1))
        out.append(event(INSTANT, field(10, 1), note, adopted))
    out[0] += packet(field(12, interned(NOTES, 3, "adopted")))
    return b"".join(out)


def one_line(n):
    """Chrome JSON without line breaks."""
    one = '{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":1,"args":{"device":0,"grid":[1,1,1]}}'
    return ('{"traceEvents":[' + ",".join([one] * n) + "]}").encode()


def endless_line(n):
    """Chrome JSON of ours with a line that does not end."""
    return b'{"cutraceInfo":{"v":1},"traceEvents":[\n{"ph":"M"' + b" " * (n * MIB)


def unclosed(n):
    """Chrome JSON whose elements have no end, a line each."""
    return b'{"traceEvents":[\n' + b"{\n" * n


def far_brace(n):
    """Chrome JSON of one line, whose first elements are separated by a comma and a tab, the last two by a comma."""
    return ('{"traceEvents":[' + '{"ph":"M"},\t' * n + '{"ph":"M"},{"ph":"M"}]}\n').encode()


def long_text_again(n):
    """A long text that n events have as an argument without a number."""
    text = "a" * (n * 100)
    note = field(4, field(10, "x") + field(17, 1))
    return head() + packet(field(12, interned(TEXTS, 1, text))) + event(INSTANT, note) * n


def long_requests_again(n):
    """n events that have the same many requests."""
    text = "1, " * 5000 + "2"
    return head() + packet(field(12, interned(TEXTS, 1, text))) + event(INSTANT, field(4, field(1, 1) + field(17, 1))) * n


def deep_stages(n):
    out = ['{"v":1,"type":"header","schema":"cutrace","clocks":{"trace_ns":0,"monotonic_ns":5,"realtime_ns":5}}\n']
    for i in range(n):
        out.append('{"v":1,"type":"stage","ts_ns":%d,"dur_ns":%d,"pid":1,"tid":1,"name":"s","stage_id":%d,"parent":%d}\n'
                   % (n - i, 2 * i + 2, n - i, n - i - 1))
    return "".join(out).encode()


def many_requests(n):
    one = '{"v":1,"type":"stage","ts_ns":%d,"dur_ns":1,"pid":1,"tid":1,"name":"s","stage_id":%d,"requests":[%d]}\n'
    return ('{"v":1,"type":"header","schema":"cutrace"}\n' + "".join(one % (i, i + 1, i) for i in range(n))).encode()


def hostile_times(_):
    edges = [-(1 << 63), -(1 << 63) + 1, -(1 << 62), -1, 0, 1, 1 << 62, (1 << 63) - 2, (1 << 63) - 1]
    out = ['{"v":1,"type":"header","schema":"cutrace","clocks":{"trace_ns":%d,"monotonic_ns":5,"realtime_ns":5}}\n' % edges[0]]
    kinds = ["stage", "api", "kernel", "memcpy", "memset", "sync", "mark", "counter", "memory", "graph_launch", "overhead",
             "window", "ioctl", "system", "loss"]
    n = 0
    for kind in kinds:
        for start in edges:
            for duration in edges:
                n += 1
                out.append('{"v":1,"type":"%s","ts_ns":%d,"dur_ns":%d,"pid":1,"tid":%d,"name":"n","device":0,"context":1,'
                           '"stream":7,"correlation_id":%d,"stage_id":%d,"stage":"s","call_ts_ns":%d,"queued_ts_ns":%d,'
                           '"bytes":18446744073709551615,"requests":[%d]}\n' %
                           (kind, start, duration, n % 3, n, n % 7, edges[n % 9], edges[n % 8], n % 5))
    return "".join(out).encode()


# --- what must be true ----------------------------------------------------------------------------------------------
# File and size. Each would take more than LIMIT if it could; the command has some 40 MiB beside what it reads, and what
# parses a line or a packet has a multiple of its size.
LIMIT, MOST_MIB = "256M", 256
MEMORY = [
    (nested_details, 200000), (far_numbers, 2000), (many_texts, 30000), (many_names, 30000), (long_requests, 300000),
    (long_rows, 300), (long_notes, 300), (open_operations, 10000), (first_again, 2000),
]
# File and size: ten times that takes thirty times as long at most, and no more than a few seconds of a processor.
# Linear work takes up to 18 times as long here, since it outgrows the processor's caches, quadratic work 100 times.
MOST_SECONDS, MOST_TIMES = 5, 30
TIME = [
    (nested_details, 20000), (far_numbers, 200), (cleared_tables, 1000), (cleared_slices, 1000), (first_again, 1000),
    (one_bucket, 4200), (one_stage_bucket, 4200), (one_hash, 4000), (open_instances, 13200), (one_line, 10000),
    (unclosed, 5000), (far_brace, 4000), (long_text_again, 2000), (long_requests_again, 300), (deep_stages, 5000),
    (endless_line, 3),
]
# More than a small limit allows: of what readers keep, and of what a report does.
REFUSED = [(long_rows, 100, "convert"), (many_requests, 300000, "report")]
FILE = "hostile.gz"


def write(name, n, path):
    data = globals()[name](n)
    with (gzip.open(path, "wb", 1) if path.endswith(".gz") else open(path, "wb")) as out:
        out.write(data)


class run:
    """The command in a process of its own, with what it took."""

    def __init__(self, command, how, *options):
        words = [command, how, FILE, *(["-o", "hostile.jsonl"] if how == "convert" else []), *options]
        with open("hostile.err", "wb") as err, open(os.devnull, "wb") as out:
            process = subprocess.Popen(words, stdout=out, stderr=err)
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = 0  # waited for
        self.status = os.waitstatus_to_exitcode(status)
        self.seconds = used.ru_utime + used.ru_stime
        self.mib = used.ru_maxrss // 1024
        with open("hostile.err", encoding="utf-8", errors="replace") as err:
            self.words = err.read()


def quickest(command, how):
    """Of three runs, since other processes of the machine slow some down."""
    return min((run(command, how) for _ in range(3)), key=lambda r: r.seconds)


def main():
    if sys.argv[1] == "--write":
        return write(sys.argv[2], int(sys.argv[3]), sys.argv[4])
    command, names, failed = sys.argv[1], sys.argv[2:], []

    def wanted(cases):
        return [c for c in cases if not names or c[0].__name__ in names]

    def make(which, n):
        # By another process: memory that this one once had would count as the command's.
        subprocess.run([sys.executable, __file__, "--write", which.__name__, str(n), FILE], check=True)
        return f"{which.__name__} {n}"

    def check(good, what):
        if not good:
            print("FAILED: " + what)
            failed.append(what)

    for which, n in wanted(MEMORY):
        what = make(which, n)
        r = run(command, "report", "--memory-limit", LIMIT)
        print(f"{what}: exit {r.status}, {r.mib} MiB, {r.seconds:.2f} s")
        check(r.status in (4, 125), f"{what}: report ended with {r.status}: {r.words[:500]}")
        check(r.mib <= MOST_MIB, f"{what}: report took {r.mib} MiB")
    for which, n in wanted(TIME):
        what = make(which, n)
        few = {how: quickest(command, how) for how in ("convert", "report")}
        make(which, 10 * n)
        for how, one in few.items():
            ten = quickest(command, how)
            print(f"{what}, {how}: {one.seconds:.3f} s, ten times that: {ten.seconds:.3f} s")
            check(ten.status in (0, 4), f"{what}: {how} of ten times that ended with {ten.status}: {ten.words[:500]}")
            check(ten.seconds <= MOST_SECONDS, f"{what}: {how} took {ten.seconds:.3f} s for ten times as much")
            check(ten.seconds <= MOST_TIMES * max(one.seconds, 0.02),
                  f"{what}: {how} took {one.seconds:.3f} s, and {ten.seconds:.3f} s for ten times as much")
    for which, n, how in wanted(REFUSED):
        what = make(which, n)
        r = run(command, how, "--memory-limit", "64M")
        print(f"{what}, {how} with 64 MiB: exit {r.status}, {r.mib} MiB: {r.words.strip()}")
        check(r.status == 125 and "--memory-limit" in r.words and r.words.count("\n") == 1,
              f"{what}: {how} with 64 MiB ended with {r.status}: {r.words[:500]}")
        r = run(command, how)
        check(r.status in (0, 4), f"{what}: {how} without a limit ended with {r.status}: {r.words[:500]}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
