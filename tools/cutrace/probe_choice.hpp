// SPDX-License-Identifier: Apache-2.0
// Probes that the user asked for by name: what they mean on this machine, found out before anything is started.
#pragma once

#include <string>
#include <vector>

#if defined(CUTRACE_WITH_EBPF)
#include <map>

#include "kernel_catalog.hpp"
#include "user_probes.hpp"
#endif

namespace CLI {
class App;
}

namespace cutrace_tool {

void add_probe_option(CLI::App& app, std::vector<std::string>& to);

#if defined(CUTRACE_WITH_EBPF)
using cutrace_ebpf::chosen_probe;

/// In the result kernel probes are complete; uprobes need find_libraries. Call while the process still has all rights.
/// @throws usage_error where a name does not exist, is not clear, or cannot be had by that kind of probe
std::vector<chosen_probe> choose_probes(const std::vector<std::string>& wanted,
                                        const cutrace_ebpf::kernel_catalog& kernel);

/// Finds the libraries and functions of uprobes. Call as the invoking user. `executable`, `environment`: the program's,
/// as far as they are known. `driver`: the libcuda that it is thought to use; null: nobody knows. @throws usage_error
void find_libraries(std::vector<chosen_probe>& probes, const std::string& executable,
                    const std::map<std::string, std::string>& environment, const cutrace_ebpf::opened_file* driver);

/// Prefix of the paths in /proc and /sys: empty, but in tests a folder with files in place of the kernel's.
const char* kernel_root();
#endif

}  // namespace cutrace_tool
