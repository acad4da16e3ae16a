// SPDX-License-Identifier: Apache-2.0
// Files that are made at the end of a run from what its processes wrote: by `--method all` the trace that each process
// wrote and the one that the command wrote of it become one, in the sinks that were asked for; and reports of processes
// that were killed.
#pragma once

#include <string>
#include <vector>

#include "cutrace/run_status.hpp"

namespace cutrace_tool {

struct joined_traces {
  std::vector<process_report> processes;  ///< with the files that they have now
  std::vector<std::string> lines;         ///< what the user should know of it
  std::vector<std::string> warnings;      ///< what is missing in them, and `processes` do not say
};

/// Reads both traces of each process, as their status blocks name them, and writes `sinks` (as CUTRACE_SINKS has them).
/// What cannot be joined is kept as it is in `out`, with a line. Changes the launchers' rank variables (RANK, ...) in
/// this process's environment, because names of files take the rank from them.
joined_traces join_traces(const std::string& sinks, const std::string& out, const std::vector<process_report>& calls,
                          const std::vector<process_report>& probes);

/// Writes what sinks of processes that are gone have not finished (reports, pages, formats that are of no use before
/// their end) from the JSONL of the same process, where it has one. `sinks` as CUTRACE_SINKS has them. @returns
/// notes for the user, a line each
std::vector<std::string> finish_files(const std::string& sinks, std::vector<process_report>& processes);

}  // namespace cutrace_tool
