// SPDX-License-Identifier: Apache-2.0
// Several traces, of ranks or processes, as one: each file is read by a thread of its own, and their events go to one
// sink in the order of their ends on a common clock. Memory is that of the readers, whatever the size of the files.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "trace/trace_reader.hpp"

namespace cutrace_reading {

constexpr std::size_t merge_limit = 512;  ///< files: each takes a thread and a few MiB

/// "server and 2 more", as the head of a merged trace has it, without its end.
inline std::string_view without_more(std::string_view s) noexcept {
  constexpr std::string_view before = " and ", behind = " more";
  if (s.size() < behind.size() || s.substr(s.size() - behind.size()) != behind) return s;
  return s.substr(0, s.rfind(before));
}

/// Opens the sink once, with the process that began first, and closes it with the sum of all totals. Each process is
/// described by a `process` event that has its name, rank, host, and its original id where the id had to change; notes
/// say how each was placed on the common clock and within what bound. @returns for each file the outcome of its reader
/// @throws reading_error where a file cannot be read, has no clock, or is a part of another's trace; what the sink
/// throws
std::vector<outcome> merge(const std::vector<std::string>& files, cutrace::sink& to);

}  // namespace cutrace_reading
