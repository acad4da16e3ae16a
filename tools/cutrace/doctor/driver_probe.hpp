// SPDX-License-Identifier: Apache-2.0
// What the driver says of itself, asked in a child. Several checks build on it.
#pragma once

#include <string>
#include <vector>

#include "child_probe.hpp"
#include "setup.hpp"

namespace cutrace_tool::doctor {

struct device_facts {
  std::string name;
  int capability_major = 0, capability_minor = 0;
  int compute_mode = -1;  ///< CUcomputemode: 0 default, 2 prohibited, 3 exclusive process; -1: not reported
};

struct driver_facts {
  probe_result probe;
  std::string path;        ///< of libcuda.so.1, links resolved; empty where none could be loaded
  std::string load_error;  ///< message of the loader
  int version = 0;         ///< 13000 is CUDA 13.0; 0: not reported
  int init = -1;           ///< what cuInit returned; -1: it did not return
  std::string init_name;
  std::vector<device_facts> devices;
  std::string release;  ///< "580.95.05", from the name of the library's file; empty where it does not say

  bool loaded() const noexcept { return !path.empty(); }
  bool usable() const noexcept { return init == 0 && !devices.empty(); }
};

/// Without tools that the environment would inject: whether the driver itself works.
driver_facts ask_driver(const setup& s);

}  // namespace cutrace_tool::doctor
