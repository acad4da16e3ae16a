// SPDX-License-Identifier: Apache-2.0
// A script for bpftrace that traces the same calls and probes as `--method ebpf`, as far as bpftrace can.
#pragma once

#include <string>
#include <vector>

namespace cutrace_tool {

/// @param library of `cutrace bpf --library`; empty: libcuda. @throws usage_error
std::string print_bpftrace(const std::string& library, const std::vector<std::string>& probes);

}  // namespace cutrace_tool
