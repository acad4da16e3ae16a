// SPDX-License-Identifier: Apache-2.0
// Reading trace files as all commands do: a line of progress on a terminal, complaints on stderr, and the exit status.
#pragma once

#include <string>
#include <vector>

#include "trace/trace_reader.hpp"

namespace cutrace_tool {

/// First in each command that reads traces, before it opens anything: sets the user (invoking_user.hpp) and the limit
/// of memory (memory_limit.hpp). @throws usage_error, also for a file that cannot be opened
void prepare_to_read(const std::vector<std::string>& files);

/// Reads, and prints what could not be read. @throws usage_error where nothing could
cutrace_reading::outcome read_trace(const std::vector<std::string>& files, cutrace::sink& to, bool quiet);

/// Prints the complaints on stderr, a line each; of many only the first ones.
void print_complaints(const cutrace_reading::outcome& o);

/// 0, or exit_read_in_part.
int status_of(const cutrace_reading::outcome& o);

}  // namespace cutrace_tool
