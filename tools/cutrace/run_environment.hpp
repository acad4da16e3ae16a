// SPDX-License-Identifier: Apache-2.0
// The environment of a traced program: that of the command, and what the options make of it. What an option says wins;
// a variable that the user has set stays where no option speaks.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cutrace/run_options.hpp"

namespace cutrace_tool {

struct run_environment {
  std::map<std::string, std::string> variables;
  std::map<std::string, std::string> writers;  ///< CUTRACE_... of the writing process, if not the program
  std::string joined_sinks;                    ///< --method all: sinks of the trace joined in the end
  bool ptraced = false;                        ///< --method all: ioctls by ptrace, since there are no probes
  std::vector<std::string> notes;              ///< what the user should know of it, a line each
};

/// `library`: the injected or preloaded one; `watch`: the library that sees how the program ends, empty where it gets
/// none; `status_folder`: where traced processes put their status blocks; `out`: absolute.
/// @throws usage_error for a value that the traced program would refuse
run_environment compose_environment(const run_options& options, const std::string& library, const std::string& watch,
                                    const std::string& out, const std::string& status_folder, unsigned columns);

}  // namespace cutrace_tool
