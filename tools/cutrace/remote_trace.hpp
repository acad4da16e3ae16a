// SPDX-License-Identifier: Apache-2.0
// A child of the command that writes the trace of a traced process, whose records the command sends through a pipe.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <cutrace/run/remote_backend.hpp>
#include <functional>
#include <map>
#include <string>

namespace cutrace_tool {

struct CUTRACE_LOCAL remote_trace {
  /// Environment variables of the writing process, CUTRACE_SINKS and CUTRACE_RUN among them.
  std::map<std::string, std::string> variables;
  std::uint32_t process = 0;       ///< id of the traced process
  std::string name, command_line;  ///< of the traced process, for where /proc has it no more
  std::uint64_t since_ns = 0;      ///< CLOCK_MONOTONIC at which the trace begins; 0: when the writing process does
  const char* backend = "";        ///< name of what `make` makes
  /// Makes the backend; `records` is the reading end of the pipe.
  std::function<cutrace::detail::remote_backend*(int records)> make;
};

/// Starts the writing process. It ends when the writing end of the pipe is closed, and so when the command is killed.
/// `pipe` becomes that end, which does not block, or -1. @returns the id of the writing process, -1 on failure
pid_t start_remote_trace(const remote_trace& t, int& pipe);

}  // namespace cutrace_tool
