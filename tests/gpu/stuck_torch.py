# SPDX-License-Identifier: Apache-2.0
# PyTorch programs whose GPU faults or hangs, to be traced by injection; stuck.py runs them and compares. What the trace
# must say is printed ("expects {...}"), stages are ranges of NVTX.
#
#   stuck_torch.py index|index-graph|illegal|illegal-graph      ends with status 3 and the error on stderr
#   stuck_torch.py collective RANK FILE                         rank 1 of two skips an all-reduce, rank 0 hangs
import json
import os
import sys
import threading
import time

KERNEL = r"""
extern "C" __global__ void write_far(float* x, long long offset) { x[offset + threadIdx.x] = 1.0f; }
"""


def skip(why):
    print("skipped:", why)
    sys.exit(77)


def expect(call, name_like, stage={"stage": "decode"}):
    want = dict(stage, work="kernel", name_like=name_like, call=call, stream=-1, tid=threading.get_native_id())
    print("expects " + json.dumps(want), flush=True)


def write_far(torch):
    """A kernel of the program's own: (tensor, offset) -> launched on PyTorch's current stream."""
    try:
        import cupy
    except ImportError:
        return skip("CuPy is not installed, which compiles the kernel")
    kernel = cupy.RawKernel(KERNEL, "write_far")

    def launch(x, offset):
        with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
            kernel((1,), (32,), (cupy.from_dlpack(x.detach()), cupy.int64(offset)))

    return launch


def warm(torch, step, x):
    torch.cuda.nvtx.range_push("prefill")
    for _ in range(50):
        x = torch.relu(x @ x) * 0.01
    for _ in range(3):
        step()
    torch.cuda.synchronize()
    torch.cuda.nvtx.range_pop()


def captured(torch, step):
    graph = torch.cuda.CUDAGraph()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        step()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def fault(how):
    import torch

    if not torch.cuda.is_available():
        skip("PyTorch sees no GPU")
    x = torch.rand(256, 256, device="cuda")
    if how.startswith("index"):
        table = torch.rand(1000, 64, device="cuda")
        index = torch.zeros(32, dtype=torch.long, device="cuda")
        far, name = torch.full((32,), 1 << 30, device="cuda"), "index|gather"

        def step():
            return table[index].mul(2).add(1)

        def spoil():
            index.copy_(far)

    else:
        launch, name = write_far(torch), "^write_far$"
        offset = [0]
        # A graph keeps its arguments: illegal-graph captures the bad offset and faults at the first replay.
        if how.endswith("graph"):
            launch(x, 0)

        def step():
            y = x.mul(1)
            launch(y, offset[0])
            return y.add(1)

        def spoil():
            offset[0] = 1 << 40

    if how == "illegal-graph":
        warm(torch, step, x)
        spoil()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
        run = graph.replay
    elif how.endswith("graph"):
        run = captured(torch, step)
        warm(torch, run, x)
        spoil()
        torch.cuda.synchronize()
    else:
        run = step
        warm(torch, run, x)
        spoil()
        torch.cuda.synchronize()
    torch.cuda.nvtx.range_push("decode")
    expect("cuGraphLaunch" if how.endswith("graph") else "cuLaunchKernel", name)
    try:
        run()
        torch.cuda.synchronize()
    except Exception as error:
        print(type(error).__name__, str(error).splitlines()[0], file=sys.stderr)
        sys.stdout.flush()
        sys.exit(3)
    print("nothing faulted")
    sys.exit(4)


def collective(rank, meeting_file):
    import torch
    import torch.distributed as together

    if torch.cuda.device_count() < 2:
        skip("PyTorch sees %d GPUs, not two" % torch.cuda.device_count())
    torch.cuda.set_device(rank)
    together.init_process_group("nccl", init_method="file://" + meeting_file, rank=rank, world_size=2)
    x = torch.ones(1 << 20, device="cuda")
    torch.cuda.nvtx.range_push("prefill")
    for _ in range(5):
        together.all_reduce(x)
    torch.cuda.synchronize()
    torch.cuda.nvtx.range_pop()
    if rank == 1:
        time.sleep(600)  # as if it had taken another branch of the program
    torch.cuda.nvtx.range_push("decode")
    expect("cuLaunchKernel", "nccl", {"stage_like": "^(decode|nccl.*)$"})  # the range of NCCL's own is the inner one
    print("expects_in_block (?m)stage (\"nccl\\w+\" in )?\"decode\"$")
    # NCCL lets another stream of its own wait behind each collective.
    print("allows " + json.dumps({"work": "wait_event", "call": "cuStreamWaitEvent", "tid": threading.get_native_id()}))
    print("expects_in_call " + json.dumps({"tid": threading.get_native_id(), "call": "cu"}), flush=True)
    together.all_reduce(x)
    torch.cuda.synchronize()


if __name__ == "__main__":
    os.environ.setdefault("NCCL_NVLS_ENABLE", "0")  # NVLink multicast can put GPUs that others share out of service
    if sys.argv[1] == "collective":
        collective(int(sys.argv[2]), sys.argv[3])
    else:
        fault(sys.argv[1])
