// SPDX-License-Identifier: Apache-2.0
// Joins the two traces of one process that `cutrace run --method all` makes: one that CUPTI and markers recorded inside
// of the process, and one of kernel probes: calls, ioctls and other kernel events in them.
//
//   a call that both saw     one event, CUPTI's: it has the stage, the requests, the runtime's function, and the GPU
//                            work with its number. What was made in the probed call now refers to this event
//   a call only probes saw   stays, under a number of its own (join_table.hpp)
//   ioctls and the like      get the number of their call, and that call's stage and requests
//
// Times are put on one clock as in a merge of ranks and processes (merge_clocks.hpp).
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
  std::vector<outcome> of_readers;  ///< [0] of `calls`, [1] of `probes`
};

/// "12,345 calls in both, 17 only by probes, 0 only by CUPTI"
std::string sentence_of(const join_counts& n);

/// Opens, fills and closes the sink. Reads each file twice; keeps about 8 bytes for each probed call.
/// @throws reading_error where a file cannot be read or they are of different processes; what the sink throws
join_outcome join(const std::string& calls, const std::string& probes, cutrace::sink& to);

}  // namespace cutrace_reading
