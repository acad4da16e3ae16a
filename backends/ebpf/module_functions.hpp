// SPDX-License-Identifier: Apache-2.0
// Functions of NVIDIA's kernel modules that can be probed where a kernel permits it: entry points of ioctl, poll and
// mmap, in the C files that come with the open modules. What is linked in from the closed part cannot be.
#pragma once

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "call_record.h"

namespace cutrace_ebpf {

struct module_function {
  const char* name;
  const char* module;
};
/// The second is what driver 535 calls the first.
inline constexpr module_function module_entries[] = {{"nvidia_unlocked_ioctl", "nvidia"},
                                                     {"nvidia_frontend_unlocked_ioctl", "nvidia"},
                                                     {"nvidia_poll", "nvidia"},
                                                     {"nvidia_mmap", "nvidia"},
                                                     {"uvm_unlocked_ioctl_entry", "nvidia_uvm"},
                                                     {"uvm_mmap_entry", "nvidia_uvm"}};
static_assert(std::size(module_entries) <= CUTRACE_EBPF_MODULE_FUNCTIONS, "a place in each thread's state");

/// Cuts the text before the separator, and the separator, off `rest`. Returns that text.
inline std::string_view next_word(std::string_view& rest, char separator) {
  const std::size_t end = std::min(rest.find(separator), rest.size());
  const std::string_view one = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return one;
}

/// Those of module_entries that a machine has, by its /proc/kallsyms ("ffffffffc1234560 t nvidia_poll\t[nvidia]"). One
/// name may be a symbol of several modules, so the module counts.
inline std::vector<std::string> module_functions(std::string_view kallsyms) {
  std::vector<std::string> found;
  while (!kallsyms.empty()) {
    std::string_view line = next_word(kallsyms, '\n');
    next_word(line, ' ');
    const std::string_view type = next_word(line, ' ');
    const std::string_view name = next_word(line, '\t');
    if (type != "t" && type != "T") continue;
    for (const module_function& f : module_entries)
      if (name == f.name && line == "[" + std::string(f.module) + "]") found.emplace_back(name);
  }
  return found;
}

}  // namespace cutrace_ebpf
