// SPDX-License-Identifier: Apache-2.0
// What can be probed on this machine: functions of a library, tracepoints and functions of the kernel, each with the
// kinds of probes that fit, and whether the kernel permits these.
#pragma once

#include <string>

namespace cutrace_tool {

struct list_options {
  std::string pattern;  ///< [KIND:][LIBRARY or MODULE:]GLOB
  std::string library;  ///< empty: libcuda
  bool json = false, verbose = false;
};

/// The table or the JSON object. @throws usage_error where nothing has such a name, with names that are near it
std::string list_probes(const list_options& options);

}  // namespace cutrace_tool
