# SPDX-License-Identifier: Apache-2.0
# Work of two GPUs, for a traced run:
#
#   torch_two.py copies                 one process: copies both ways, then NCCL's broadcast and sum, in NVTX ranges
#   torch_two.py rank RANK FILE         one of two processes: all-reduces, each on its GPU; FILE is where they meet
#
# Prints a digest of all results, to compare with an untraced run, and what a trace must hold ("counted {...}").
import hashlib
import json
import sys

import torch
import torch.cuda.comm

COPIES, BYTES, REDUCTIONS = 20, 4 << 20, 25


def report_run(digest, counted):
    print("digest", digest.hexdigest())
    print("counted", json.dumps(counted))


def numbers(gpu):
    generator = torch.Generator().manual_seed(7 + gpu)
    return torch.rand(BYTES // 4, generator=generator).to(f"cuda:{gpu}")


def copies():
    digest = hashlib.sha256()
    first, second = numbers(0), numbers(1)
    torch.cuda.nvtx.range_push("peer copies")
    for _ in range(COPIES):
        there = first.to("cuda:1")
        second = second * 0.5 + there
        back = second.to("cuda:0")
        first = first * 0.5 + back * 0.25
    torch.cuda.synchronize(0)
    torch.cuda.synchronize(1)
    torch.cuda.nvtx.range_pop()
    digest.update(first.cpu().numpy().tobytes() + second.cpu().numpy().tobytes())

    torch.cuda.nvtx.range_push("collectives")
    for _ in range(REDUCTIONS):
        total = torch.cuda.comm.reduce_add([first, second], destination=0)
        first, second = torch.cuda.comm.broadcast(total * 0.4, devices=[0, 1])
    torch.cuda.synchronize(0)
    torch.cuda.synchronize(1)
    torch.cuda.nvtx.range_pop()
    digest.update(first.cpu().numpy().tobytes() + second.cpu().numpy().tobytes())
    report_run(digest, {"copies": COPIES, "bytes": BYTES, "ranges": ["peer copies", "collectives"]})


def rank(own, meeting_file):
    import torch.distributed as together

    torch.cuda.set_device(own)
    together.init_process_group("nccl", init_method=f"file://{meeting_file}", rank=own, world_size=2)
    x = numbers(own)
    torch.cuda.nvtx.range_push("all-reduces")
    for _ in range(REDUCTIONS):
        together.all_reduce(x)
        x = x * 0.4 + own
    torch.cuda.synchronize()
    torch.cuda.nvtx.range_pop()
    digest = hashlib.sha256(x.cpu().numpy().tobytes())
    together.destroy_process_group()
    report_run(digest, {"all_reduces": REDUCTIONS, "device": own, "ranges": ["all-reduces"]})


if sys.argv[1] == "copies":
    copies()
else:
    rank(int(sys.argv[2]), sys.argv[3])
