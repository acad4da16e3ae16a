# SPDX-License-Identifier: Apache-2.0
# What `cutrace convert --redact` must take out: plants it, looks for it in files of any format, compares reports.
#
#   redact.py --plant TRACE             the trace with secrets in each field that may hold one
#   redact.py --search TRACE FILE...    fails where a file holds any secret or address of that trace
#   redact.py --compare REPORT REPORT   two JSON reports are the same but for what was secret in the first
import gzip
import json
import re
import struct
import sys

SECRET = "s3cr3t"


def hash_text(name):
    h = 0xcbf29ce484222325
    for b in name.encode():
        h = (h ^ b) * 0x100000001b3 & 0xffffffffffffffff
    return h


def plant(path):
    events = [json.loads(line) for line in open(path, encoding="utf-8")]
    header, footer = events[0], events[-1]
    header.update(process=SECRET + "-program", command_line=f"/opt/{SECRET}-bin/run --token {SECRET}-token serve",
                  host=SECRET + "-host", boot_id=SECRET + "-boot",
                  backend_detail=f"CUPTI 13.0 (/srv/{SECRET}-lib/libcupti.so.13), driver 580")
    footer["notes"] = [f"cannot write \"/srv/{SECRET} with blanks/t.jsonl\": no room",
                       f"process {SECRET}-program on {SECRET}-host was called with {SECRET}-token",
                       f"a server, from {SECRET} file.jsonl: begins at 0 ns; the common clock is its own",
                       f"read from a file with 2 complaints, the first: {SECRET}.jsonl, line 3, byte 9: bad JSON",
                       "read from a file with 1 complaints, the first: t.jsonl, line 3, byte 9: the next part, "
                       f"{SECRET}.2.jsonl, was not given",
                       f"thread {SECRET}-thread-worker 1 of jsonl:{SECRET}/relative.jsonl was late"]
    footer["sinks"] = [{"name": "jsonl", "delivered": 1, "written": 1, "lost": 0, "failed": True,
                        "failure": f"cannot write \"/tmp/{SECRET}.jsonl\": errno 28"},
                       {"name": "chrome", "delivered": 1, "written": 1, "lost": 0, "failed": True,
                        "failure": f"cannot write \"/srv/a long name of {SECRET}"}]  # cut before its end
    out = [header]
    for n, e in enumerate(events[1:-1]):
        if e["type"] == "process":
            e["name"] = SECRET + "-program"
        if e["type"] == "thread":
            e["name"] = f"{SECRET}-thread-{e['name']}"
        for field in ("name", "stage", "capture_stage"):
            if e.get(field) == "load_weights":
                e[field] = f"load /srv/{SECRET}-model/weights.bin"
        if "file" in e:
            e["file"] = f"/srv/{SECRET}-user/src/{e['file'].rsplit('/', 1)[-1]}"
        if e.get("requests"):
            e["request_names"] = [f"{SECRET}-request-{r}" for r in e.pop("requests")]
        if n % 1000 == 7:
            e["future_field"] = {"of": SECRET + "-future"}
        out.append(e)
        if e["type"] == "api" and e["name"].startswith("cuMemAlloc") and e["args"]["dptr"] != "0x0":
            out.append({"v": 1, "type": "memory", "ts_ns": e["ts_ns"] + e["dur_ns"], "dur_ns": 0, "pid": e["pid"],
                        "tid": e["tid"], "correlation": e["correlation"], "device": 0, "context": 1, "stream": 0,
                        "operation": "allocate", "address": e["args"]["dptr"], "bytes": e["args"]["bytesize"],
                        "memory": "Device"})
        if n % 1000 == 8:
            at = e["ts_ns"] + e["dur_ns"]
            out.append({"v": 1, "type": "system", "ts_ns": at, "dur_ns": 0, "name": "probe", "pid": e["pid"],
                        "category_name": "mine", "cpu": 1,
                        "args": {"file": f"{SECRET}-text", "path": f"/srv/{SECRET}/x", "at": "0x7abc12345678"}})
            for name, names in (SECRET + "-request-1", []), ("zq", ["zq"]):
                out.append({"v": 1, "type": "alarm", "ts_ns": at, "dur_ns": 0, "name": "decode", "pid": e["pid"],
                            "alarm": "hang", "work": "stage", "rank": 0, "candidates": 1, "behind": 0,
                            "request_names": names, "why": f"a stage of request {name} may be open for 2 s"})
            out.append({"v": 1, "type": "alarm", "ts_ns": at, "dur_ns": 0, "name": "cuStreamWaitValue64",
                        "pid": e["pid"], "alarm": "hang", "work": "wait_value", "rank": 0, "candidates": 1, "behind": 0,
                        "why": "waits for the value at 0x7abc12345678 to be at least 0x1"})
            out.append({"v": 1, "type": "alarm", "ts_ns": at, "dur_ns": 0, "name": "cuStreamWaitEvent", "pid": e["pid"],
                        "alarm": "hang", "work": "wait_event", "rank": 0, "candidates": 1, "behind": 0,
                        "why": "waits for an event recorded behind scale10x40_0x on stream 0x 7"})
            out.append({"v": 1, "type": "future_type", "ts_ns": at, "dur_ns": 0, "name": SECRET + "-other",
                        "what": SECRET + "-more"})
    for e in out + [footer]:
        print(json.dumps(e))


def varint(n):
    out = b""
    while n >= 0x80:
        out += bytes([n & 0x7f | 0x80])
        n >>= 7
    return out + bytes([n])


def search(trace, paths):
    found = 0
    text = open(trace, encoding="utf-8").read()
    # Addresses have at least 9 digits here; shorter numbers may be constants of CUDA's headers.
    addresses = {int(h, 16) for h in re.findall(r'"(?:0x)([0-9a-f]{9,16})"', text)}
    hashes = {hash_text(name) for name in re.findall(rf"{SECRET}-request-\d+", text)}
    uuid = re.search(r'"uuid": ?"([^"]+)"', text)[1]
    if len(addresses) < 10 or len(hashes) < 10:
        sys.exit("no addresses or requests were planted")
    for path in paths:
        data = open(path, "rb").read()
        if path.endswith(".gz"):
            data = gzip.decompress(data)
        what = {SECRET.encode(), b"request zq may", uuid.encode(), bytes.fromhex(uuid.replace("-", ""))}
        for n in addresses | hashes:
            # Varints and raw words are searched for in binary files alone: elsewhere so few bytes could be anything.
            what |= {b"0x%x" % n, b"%d" % n} | ({varint(n), struct.pack("<Q", n)} if ".pftrace" in path else set())
        for secret in sorted(what):
            at = data.find(secret)
            if at >= 0:
                found = 1
                print(f"FOUND in {path}:", secret, "in", data[max(0, at - 80):at + 80])
                break
    return found


def same(a, b, where, bad):
    if isinstance(a, dict) and isinstance(b, dict):
        if list(a) != list(b):
            bad.append((where, list(a), list(b)))
        for key in a:
            if key == "id" and SECRET in str(a.get("name")):
                continue  # the hash of that name
            same(a[key], b.get(key), f"{where}.{key}", bad)
    elif isinstance(a, list) and isinstance(b, list):
        if len(a) != len(b) and where != ".notes":  # reading either file adds complaints of its own
            bad.append((where, a, b))
        for i, (x, y) in enumerate(zip(a, b)):
            same(x, y, f"{where}[{i}]", bad)
    elif isinstance(a, str) and SECRET[:4] in a:  # or what is left where a long one is cut in the middle
        if not isinstance(b, str) or not b and where not in (".trace.command_line", ".trace.host", ".trace.boot_id"):
            bad.append((where, a, b))
    elif a != b:
        bad.append((where, a, b))


def compare(first, second):
    bad = []
    same(json.load(open(first, encoding="utf-8")), json.load(open(second, encoding="utf-8")), "", bad)
    for one in bad[:10]:
        print("DIFFERS:", *(str(w)[:300] for w in one))
    return 1 if bad else 0


if sys.argv[1] == "--plant":
    plant(sys.argv[2])
elif sys.argv[1] == "--search":
    sys.exit(search(sys.argv[2], sys.argv[3:]))
else:
    sys.exit(compare(sys.argv[2], sys.argv[3]))
