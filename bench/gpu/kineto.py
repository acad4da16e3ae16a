# SPDX-License-Identifier: Apache-2.0
# The measured loops under PyTorch's profiler (Kineto); prints what launch_cost's children print. Kineto counts no losses.
# With "none" behind the library the profiler stays off.
#
#   python3 kineto.py LIBRARY [none]
import ctypes
import sys

import torch
from torch.profiler import ProfilerActivity, profile

torch.zeros(1, device="cuda")
measure = ctypes.CDLL(sys.argv[1]).bench_measure_calls
measure.restype = ctypes.c_ulonglong
if sys.argv[2:] == ["none"]:
    measure(1)
else:
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as p:
        launches = measure(1)
        torch.cuda.synchronize()
    kernels = sum(1 for e in p.profiler.kineto_results.events() if e.name() == "empty")
    print(f"records {kernels} {launches} 0", flush=True)
