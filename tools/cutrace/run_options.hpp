// SPDX-License-Identifier: Apache-2.0
// What `cutrace run` was asked for. Empty texts: the option was not given.
#pragma once

#include <string>
#include <vector>

namespace cutrace_tool {

struct run_options {
  std::vector<std::string> sinks;
  std::string out = "cutrace-out";
  std::string name;  ///< that names of files begin with (--name)
  std::string method = "cupti";
  std::string kinds, graphs, nvtx;
  std::string children = "on";
  std::string start_after, duration;
  std::vector<std::string> probes;
  bool gpu_events = false;  ///< times of the GPU by CUDA events (--gpu-events)
  bool kernel = false;      ///< events of the Linux kernel (--kernel)
  bool quiet = false;
  bool strict = false;
  std::vector<std::string> program;  ///< and its arguments
};

}  // namespace cutrace_tool
