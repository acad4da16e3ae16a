# SPDX-License-Identifier: Apache-2.0
# check_two.py TRACE.jsonl OUTPUT: whether the trace of torch_two.py has each copy, each kernel of NCCL and each NVTX range,
# on the right device and stream, as the program's own output counts them. The last line says it in short.
import collections
import json
import sys

failures = []


def expect(good, what):
    if not good:
        failures.append(what)
        print("  WRONG:", what)


kernels = collections.Counter()  # of NCCL, by (device, stream)
all_reduces = collections.Counter()  # by (device, stream)
copies = collections.defaultdict(list)  # between devices: bytes by (from, to)
stages, contexts, streams, gpu_work = collections.Counter(), {}, set(), []
ranges, footer = set(), None
with open(sys.argv[1]) as lines:
    for line in lines:
        e = json.loads(line)
        kind = e["type"]
        if kind in ("kernel", "memcpy", "memset"):
            gpu_work.append((kind, e["device"], e["context"], e["stream"], e["attribution"]))
            stages[e.get("stage")] += 1
        if kind == "kernel" and e["name"].startswith("nccl"):
            kernels[e["device"], e["stream"]] += 1
            all_reduces[e["device"], e["stream"]] += "AllReduce" in e["name"]
        elif kind == "memcpy" and e["direction"] == "PtoP":
            copies[e["source_device"], e["destination_device"]].append((e["bytes"], e.get("stage")))
        elif kind == "memcpy" and e["direction"] == "DtoD":
            copies["DtoD on", e["device"]].append((e["bytes"], e.get("stage")))
        elif kind == "stage" and e.get("origin") == "nvtx":
            ranges.add(e["name"])
        elif kind == "context":
            contexts[e["context"]] = e["device"]
        elif kind == "stream":
            streams.add((e["device"], e["context"], e["stream"]))
        elif kind == "footer":
            footer = e
with open(sys.argv[2]) as output:
    counted = next(json.loads(line[len("counted "):]) for line in output if line.startswith("counted "))

print("  NCCL's kernels by (device, stream)", dict(kernels))
print("  copies between devices", {k: f"{len(v)} of {sum(b for b, _ in v)} bytes" for k, v in copies.items()})
print("  GPU work by stage", dict(stages), "attribution", dict(collections.Counter(w[4] for w in gpu_work)))
print("  NVTX ranges", sorted(ranges), "contexts", contexts)
expect(footer is not None and footer["lost_total"] == 0, "the trace has no end, or something was lost")
expect(all(contexts.get(w[2]) == w[1] for w in gpu_work), "GPU work whose context is not one of its device")
undescribed = {w[1:4] for w in gpu_work if w[3] != 0 and w[1:4] not in streams}
expect(not undescribed, f"streams of GPU work that are not described: {sorted(undescribed)}")
expect({w[4] for w in gpu_work} <= {"by_call", "outside_stage"}, "GPU work without its call")
expect(set(counted["ranges"]) <= ranges, f"NVTX ranges {counted['ranges']}")

devices = collections.Counter(w[1] for w in gpu_work)
if "copies" in counted:
    for way in ((0, 1), (1, 0)):
        found = [b for b, stage in copies.get(way, []) if stage == "peer copies"]
        expect(found == [counted["bytes"]] * counted["copies"], f"{counted['copies']} copies {way[0]} to {way[1]} in their range")
    by_device = collections.Counter()
    for (device, _), n in kernels.items():
        by_device[device] += n
    expect(by_device[0] > 0 and by_device[0] == by_device[1], "as many kernels of NCCL on both devices")
    expect(set(devices) == {0, 1}, "GPU work on both devices and no other")
    said = f"{counted['copies']} peer copies each way, NCCL's kernels {dict(by_device)}"
else:
    own = counted["device"]
    expect(set(devices) == {own}, f"GPU work on device {own} alone: {dict(devices)}")
    expect(sum(all_reduces.values()) == counted["all_reduces"], f"{counted['all_reduces']} all-reduces")
    expect(len(+all_reduces) == 1, "all of them on one stream")
    said = f"{sum(all_reduces.values())} all-reduces, (device, stream) {list(+all_reduces)}"
print("  " + ("WRONG: " + "; ".join(failures) if failures else f"{said}, lost 0"))
sys.exit(1 if failures else 0)
