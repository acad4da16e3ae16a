# SPDX-License-Identifier: Apache-2.0
# profiled.py RESULT.json SCRIPT ARGUMENTS...: runs a script as it is under PyTorch's own profiler, which knows nothing
# of cutrace, and writes how many kernels the profiler saw, in all and by name.
import collections
import json
import os
import runpy
import sys
import tempfile

from torch.profiler import ProfilerActivity, profile

result, script = os.path.abspath(sys.argv[1]), sys.argv[2]
sys.argv = sys.argv[2:]
sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
with profile(activities=[ProfilerActivity.CUDA]) as profiler:
    runpy.run_path(script, run_name="__main__")

with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "trace.json")
    profiler.export_chrome_trace(path)
    with open(path) as file:
        events = json.load(file)["traceEvents"]
names = collections.Counter(e["name"] for e in events if e.get("cat") == "kernel")
with open(result, "w") as file:
    json.dump({"kernels": sum(names.values()), "names": names}, file)
