// SPDX-License-Identifier: Apache-2.0
// NVIDIA's management library, by its ABI and in a child: modes of devices that CUDA does not know.
#pragma once

#include <string>
#include <vector>

#include "child_probe.hpp"
#include "setup.hpp"

namespace cutrace_tool::doctor {

struct nvml_device {
  int mig = -1;  ///< 1 on, 0 off, -1: a device that knows no MIG, or not reported
  int virtualisation =
      -1;  ///< nvmlGpuVirtualizationMode_t: 0 none, 1 passthrough, 2 vGPU, 3 host of vGPUs, 4 host of vSGAs
};

struct nvml_facts {
  std::string unread;  ///< why nothing is known
  std::vector<nvml_device> devices;
};

nvml_facts ask_nvml(const setup& s);

}  // namespace cutrace_tool::doctor
