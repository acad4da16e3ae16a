# SPDX-License-Identifier: Apache-2.0
# The measured loop under PyTorch's profiler (Kineto), in the form that launch_cost reads: ns a launch, kernel records,
# losses (Kineto tells none). With "none" behind the library the profiler stays off.
#
#   python3 kineto.py LIBRARY [none]
import ctypes
import sys

import torch
from torch.profiler import ProfilerActivity, profile

torch.zeros(1, device="cuda")
loop = ctypes.CDLL(sys.argv[1]).bench_launch_loop
loop.restype = ctypes.c_double
if sys.argv[2:] == ["none"]:
    print(f"{loop():.2f} 0 0", flush=True)
else:
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as p:
        ns = loop()
        torch.cuda.synchronize()
    kernels = sum(1 for e in p.profiler.kineto_results.events() if e.name() == "empty")
    print(f"{ns:.2f} {kernels} 0", flush=True)
