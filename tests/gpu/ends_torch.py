# SPDX-License-Identifier: Apache-2.0
# ends_torch.py HOW: PyTorch programs that leave without exit, or that profile themselves. Each process that uses the GPU
# prints "kernels N", as many as it has launched itself; "leaves at MS" on stderr is when it has nothing more to do.
import multiprocessing
import os
import sys
import time


def work(count):
    import torch

    x = torch.zeros(1024, device="cuda")  # one kernel
    for _ in range(count - 1):
        torch.add(x, 1, out=x)
    torch.cuda.synchronize()
    assert x[0].item() == count - 1  # a copy, no kernel
    os.write(1, b"kernels %d\n" % count)


def leaves():
    os.write(2, b"leaves at %d\n" % (time.time_ns() // 1000000))


def profiled(count):
    import torch
    from torch.profiler import ProfilerActivity, profile

    x = torch.zeros(1024, device="cuda")
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        for _ in range(count):
            torch.add(x, 1, out=x)
        torch.cuda.synchronize()
    kernels = [e for e in profiler.events() if "elementwise" in e.name]
    timed = sum(1 for e in kernels if e.time_range.end > e.time_range.start)
    print("profile has", len(kernels), "kernels,", timed, "with times")


def profiled_by_jax(count):
    import gzip
    import glob
    import json
    import tempfile

    import jax
    import jax.numpy as jnp

    step = jax.jit(lambda v: v * 2 + 1)
    x = jnp.zeros(1024)
    step(x).block_until_ready()
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder, create_perfetto_trace=True):
            for _ in range(count):
                x = step(x)
            x.block_until_ready()
        path = glob.glob(folder + "/**/perfetto_trace.json.gz", recursive=True)[0]
        with gzip.open(path) as file:
            events = json.load(file)["traceEvents"]
    gpus = {e["pid"] for e in events if e.get("name") == "process_name" and "GPU" in e["args"]["name"]}
    kernels = [e for e in events if e.get("pid") in gpus and "correlation_id" in e.get("args", {})]
    print("profile has", len(kernels), "kernels,", sum(1 for e in kernels if e.get("dur", 0) > 0), "with times")


def main():
    how = sys.argv[1]
    if how in ("fork", "forkserver"):  # CUDA in the children alone
        context = multiprocessing.get_context(how)
        children = [context.Process(target=work, args=(500,)) for _ in range(2)]
        for child in children:
            child.start()
        for child in children:
            child.join()
        os.write(1, b"ended %s\n" % str([child.exitcode for child in children]).encode())
        return leaves()
    if how == "torch.profiler":
        return profiled(142)
    if how == "jax.profiler":
        return profiled_by_jax(142)
    work(2000)
    if how == "threads":  # which signals the threads of the driver and of CUPTI block
        for thread in sorted(os.listdir("/proc/self/task"), key=int):
            with open("/proc/self/task/%s/status" % thread) as file:
                lines = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
            print("thread", lines["Name"], "blocks", lines["SigBlk"])
    leaves()
    if how == "os._exit":
        os._exit(5)
    if how == "terminate":
        os.kill(os.getpid(), 15)
        time.sleep(20)
    if how == "interrupt":
        os.kill(os.getpid(), 2)
        time.sleep(20)


if __name__ == "__main__":
    main()
