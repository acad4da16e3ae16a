// SPDX-License-Identifier: Apache-2.0
// A process that writes the trace of another one, whose records come through a pipe.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <cutrace/run/remote_backend.hpp>
#include <functional>
#include <map>
#include <string>

namespace cutrace_tool {

struct CUTRACE_LOCAL remote_trace {
  /// Of who writes it, CUTRACE_SINKS and CUTRACE_RUN among them.
  std::map<std::string, std::string> variables;
  std::uint32_t process = 0;       ///< whose trace it is
  std::string name, command_line;  ///< of the process, where it is gone already
  std::uint64_t since_ns = 0;
  const char* backend = "";
  /// The backend of that name, which reads from the descriptor.
  std::function<cutrace::detail::remote_backend*(int records)> make;
};

/// A process for it. It ends when its pipe is closed, and so when the command is killed. `pipe`: the writing end, which
/// does not block; -1 where there is none. @returns its number, -1 on failure
pid_t start_remote_trace(const remote_trace& t, int& pipe);

}  // namespace cutrace_tool
