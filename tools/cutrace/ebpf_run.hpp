// SPDX-License-Identifier: Apache-2.0
// A run by `--method ebpf`: probes on the driver's functions, set before the program's first instruction.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cutrace/exit_status.hpp"
#include "cutrace/outside_run.hpp"

namespace cutrace_tool {

/// This build lacks probes of the kernel, or Linux refuses them to this user.
class no_probes : public usage_error {
 public:
  using usage_error::usage_error;
};

/// @throws no_probes where this build lacks the method; the text says what to do
void require_ebpf();

class requested_probes;

struct ebpf_plan {
  std::map<std::string, std::string> writers;      ///< environment of the processes that write traces
  std::map<std::string, std::string> environment;  ///< the program's
  std::string executable;
  std::string method = "ebpf";     ///< for messages
  std::string joins;               ///< library that gives CUPTI's correlation ids of calls; empty: none
  std::vector<std::string> words;  ///< of the program's command line
  bool children = true;
  bool kernel = false;              ///< what the kernel does is recorded, too
  requested_probes* own = nullptr;  ///< probes of the --probe options; null: none
};

/// @throws usage_error where this build or this machine cannot do it
std::unique_ptr<outside_run> make_ebpf_run(const ebpf_plan& plan);

}  // namespace cutrace_tool
