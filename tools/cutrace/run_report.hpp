// SPDX-License-Identifier: Apache-2.0
// What a run prints on stderr: one line while it works, and at its end reports, warnings and where the files are.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "cutrace/run_status.hpp"

namespace cutrace_tool {

/// The line of a run that is under way. Only for a terminal, in whose foreground the command is; erased before anything
/// else is printed.
class progress_line {
 public:
  explicit progress_line(bool wanted);
  bool wanted() const { return wanted_; }
  void show(const std::vector<process_report>& processes);
  void erase();

 private:
  bool wanted_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
};

struct run_summary {
  std::string out;           ///< folder of the files
  std::string program;       ///< as it was called
  std::string out_of_reach;  ///< why it may not be traced at all, empty: nothing known
  bool nvtx = true;
  std::string host_method;              ///< the method, where it has no GPU time
  std::string late_files;               ///< folder of files that running processes still write
  std::vector<started_process> others;  ///< living processes that have no trace so far
  bool turned_off = false;              ///< CUTRACE=0
  bool quiet = false;
};

/// Prints the end of a run. True when the trace can be trusted: something was traced, all of it was recorded and
/// written.
bool print_end(const run_summary& run, const std::vector<process_report>& processes);

/// "1,234,567"
std::string with_commas(std::uint64_t n);
/// "12.3 MB"
std::string as_bytes(std::uint64_t n);

}  // namespace cutrace_tool
