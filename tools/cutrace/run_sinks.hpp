// SPDX-License-Identifier: Apache-2.0
// The sinks of a run: each one that names no file gets one in the output folder, under a name that no two processes
// share.
#pragma once

#include <string>
#include <vector>

namespace cutrace_tool {

/// The value of CUTRACE_SINKS for lists of sinks as `--sink` takes them. `folder` is absolute; `option` is how messages
/// call the place where the lists came from; `columns` of the terminal that will show the report, 0: not known.
/// @throws usage_error
std::string compose_sinks(const std::vector<std::string>& lists, const std::string& folder, const std::string& name,
                          const char* option, unsigned columns);

}  // namespace cutrace_tool
