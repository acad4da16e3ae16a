// SPDX-License-Identifier: Apache-2.0
// How much memory a command that reads traces may have: a file of a few bytes can ask for any amount.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace cutrace_tool {

/// --memory-limit.
void add_memory_option(CLI::App& command);

/// Limits the memory of this process to what was asked for, else to half of what the machine has and its control groups
/// allow, 1 GiB at least.
/// Readers keep at most half of this limit; without the option, also at most 1 GiB. Beyond the limit of the process
/// std::bad_alloc is thrown, beyond that of readers reading_error.
void limit_memory();

/// "not enough memory...", with what helps.
std::string words_of_no_memory();

/// From here on a std::bad_alloc that is not caught ends the process with a line on stderr and exit_command_failure.
void end_in_words_without_memory();

}  // namespace cutrace_tool
