// SPDX-License-Identifier: Apache-2.0
// The `--probe` options of one command: names are looked up with all rights, libraries as the invoking user.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#if defined(CUTRACE_WITH_EBPF)
#include "cutrace/probe_choice.hpp"
#endif

namespace cutrace_tool {

class requested_probes {
 public:
  /// To be made before root's rights are given up. @throws usage_error for a name that means nothing
  explicit requested_probes(const std::vector<std::string>& wanted);
  ~requested_probes();
  requested_probes(const requested_probes&) = delete;
  requested_probes& operator=(const requested_probes&) = delete;

  /// Finds the libraries of a program that is about to start. Call as the invoking user. @throws usage_error
  void find_libraries(const std::string& executable, const std::map<std::string, std::string>& environment);
  /// Finds the libraries of a process that runs. @throws usage_error
  void find_libraries(std::uint32_t process);
#if defined(CUTRACE_WITH_EBPF)
  /// Loads the probes into the kernel; null where none was wanted. A probe that is refused is reported; the rest works.
  std::unique_ptr<cutrace_ebpf::user_probes> load(const cutrace_ebpf::call_probes& calls);

 private:
  std::unique_ptr<cutrace_ebpf::kernel_catalog> kernel_;
  std::vector<chosen_probe> chosen_;
#endif
};

}  // namespace cutrace_tool
