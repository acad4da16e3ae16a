// SPDX-License-Identifier: Apache-2.0
// Two traces of one process as one, of `cutrace run --method all`: what CUPTI and markers recorded from inside, and
// what the kernel saw: calls by probes, ioctls and what else happens in them.
//
//   a call that both saw     one event, CUPTI's: it has the stage, the requests, the runtime's function, and the GPU
//                            work with its number. What is recorded as made in the probed call becomes made in it
//   one that probes saw      stays, under a number of its own (join_table.hpp)
//   ioctls and the like      the number of their call, and that call's stage and requests
//
// Times are put on one clock as those of ranks and processes are (merge_clocks.hpp).
#pragma once

#include <string>
#include <vector>

#include "trace/join_table.hpp"
#include "trace/trace_reader.hpp"

namespace cutrace_reading {

struct join_outcome {
  join_counts counts;
  std::string line;                 ///< what the counts mean; a note of the joined trace, too
  std::uint64_t events = 0;         ///< of the joined trace
  std::vector<outcome> of_readers;  ///< calls, probes
};

/// "12,345 calls in both, 17 only by probes, 0 only by CUPTI"
std::string sentence_of(const join_counts& n);

/// Opens, fills and closes the sink. Reads each file twice; keeps about 8 bytes for each probed call.
/// @throws reading_error where a file cannot be read or they are of different processes; what the sink throws
join_outcome join(const std::string& calls, const std::string& probes, cutrace::sink& to);

}  // namespace cutrace_reading
