// SPDX-License-Identifier: Apache-2.0
// Probes that the user asked for by name: what they mean on this machine, found out before anything is started.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#if defined(CUTRACE_WITH_EBPF)
#include <map>
#include <memory>

#include "driver_files.hpp"
#include "kernel_catalog.hpp"
#include "probe_spec.hpp"
#endif

namespace cutrace_tool {

void add_probe_option(CLI::App& app, std::vector<std::string>& to);

#if defined(CUTRACE_WITH_EBPF)
struct chosen_probe {
  cutrace_ebpf::probe_spec spec;
  cutrace_ebpf::kernel_function function;  ///< of the kernel's kinds
  /// Of an uprobe: the library or program. Null: whatever libcuda the program has.
  std::shared_ptr<cutrace_ebpf::opened_file> library;
};

/// `executable`, `environment`: the program's, as far as they are known, by which libraries are found.
/// @throws usage_error where a name does not exist, is not clear, or cannot be had by that kind of probe
std::vector<chosen_probe> choose_probes(const std::vector<std::string>& wanted,
                                        const cutrace_ebpf::kernel_catalog& kernel, const std::string& executable,
                                        const std::map<std::string, std::string>& environment);

/// For tests: a kernel made of files.
const char* kernel_root();
#endif

}  // namespace cutrace_tool
