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

/// From here on the process has so much and no more: what was asked for, else half of the machine's memory; and readers
/// keep half of that, without the option 1 GiB at most. Beyond it std::bad_alloc is thrown, or reading_error.
void limit_memory();

/// "not enough memory...", with what helps.
std::string words_of_no_memory();

/// Where nobody can catch std::bad_alloc, the process ends as if somebody had: with those words, exit_command_failure.
void end_in_words_without_memory();

}  // namespace cutrace_tool
