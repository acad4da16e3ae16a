# SPDX-License-Identifier: Apache-2.0
# A profiler that saw one kernel.
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
