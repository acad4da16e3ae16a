// SPDX-License-Identifier: Apache-2.0
// Core dumps that NVIDIA's driver writes when the GPU faults, where the user asks for them
// (CUDA_ENABLE_COREDUMP_ON_EXCEPTION=1) and CUPTI is not at work.
#pragma once

#include <ctime>
#include <map>
#include <string>
#include <vector>

namespace cutrace_tool {

/// Core dumps that a program with this environment, started in the working folder, has written from `since` on, sorted
/// by name. The CUDA-GDB manual, "GPU Core Dump Support", describes the pattern of their names.
std::vector<std::string> gpu_core_dumps(const std::map<std::string, std::string>& environment, std::time_t since);

}  // namespace cutrace_tool
