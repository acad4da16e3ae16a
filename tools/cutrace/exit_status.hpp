// SPDX-License-Identifier: Apache-2.0
// How the command ends: with the program's own status, or with one of these, as env, nice and timeout have them.
#pragma once

#include <stdexcept>

namespace cutrace_tool {

constexpr int exit_not_trusted = 3;        ///< --strict: the program succeeded, its trace is not whole
constexpr int exit_read_in_part = 4;       ///< a trace file was read, but not all of it could be
constexpr int exit_slower = 5;             ///< diff --fail-over: something became slower by more than its limit
constexpr int exit_command_failure = 125;  ///< the command itself could not do its work, the program was not started
constexpr int exit_not_executable = 126;
constexpr int exit_not_found = 127;
constexpr int exit_of_signal = 128;  ///< plus the signal's number

/// What the user asked for cannot be done; the text says what to do.
class usage_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace cutrace_tool
