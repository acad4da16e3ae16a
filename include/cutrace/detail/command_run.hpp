// SPDX-License-Identifier: Apache-2.0
// What a process knows of the command that traces it, `cutrace run`. It leaves word in the environment:
//   CUTRACE_RUN      folder for status blocks. The sinks of CUTRACE_SINKS are then the process's, not a session's: they
//                    open with its first session and close when it exits.
//   CUTRACE_RUN_PID  the one process that is traced, where those that it starts are not
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <cutrace/config.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

enum class command_says : unsigned char {
  nothing,  ///< no command runs this process
  trace,
  leave_out,  ///< it was started by the program that is traced, which is meant to be traced alone
};

inline command_says what_command_says() noexcept {
  const char* folder = std::getenv("CUTRACE_RUN");
  if (folder == nullptr || *folder == '\0') return command_says::nothing;
  const char* only = std::getenv("CUTRACE_RUN_PID");
  if (only == nullptr || *only == '\0') return command_says::trace;
  return std::strtol(only, nullptr, 10) == static_cast<long>(::getpid()) ? command_says::trace
                                                                         : command_says::leave_out;
}

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
