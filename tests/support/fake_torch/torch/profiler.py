# SPDX-License-Identifier: Apache-2.0
# A profiler that saw one kernel; the file that it writes has a copy (memcpy) as well.
import json


class ProfilerActivity:
    CPU, CUDA = "CPU", "CUDA"


class profile:
    def __init__(self, activities):
        self.profiler = self.kineto_results = self

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        return False

    def events(self):
        return [self]

    def device_type(self):
        return "DeviceType.CUDA"

    def name(self):
        return "empty"

    def export_chrome_trace(self, path):
        with open(path, "w") as file:
            json.dump({"traceEvents": [{"ph": "X", "cat": "kernel", "name": "empty"},
                                       {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD"},
                                       {"ph": "M", "name": "process_name"}]}, file)
