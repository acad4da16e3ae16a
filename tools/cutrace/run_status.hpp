// SPDX-License-Identifier: Apache-2.0
// What the traced processes of a run report of themselves: their status blocks, read while they work and at the end.
#pragma once

#include <cstdint>
#include <cutrace/collect/status_block.hpp>
#include <map>
#include <string>
#include <vector>

namespace cutrace_tool {

struct sink_report {
  std::string name, path, failure;
  std::uint64_t lost = 0;
  std::uint64_t bytes = 0;  ///< of its file, finished or not, or of all its parts that exist
  bool finished = false;    ///< the file has its final name, without .tmp
  std::size_t parts = 0;    ///< that exist, of which `path` is the newest; 0: the file has no parts
};

struct process_report {
  std::uint32_t id = 0;
  unsigned image = 1;  ///< number of this program among those that the process has executed, from 1
  std::int32_t rank = -1;
  cutrace::detail::run_state state = cutrace::detail::run_state::starting;
  bool alive = false;
  bool cut_off = false;  ///< it goes on, untraced: the run that watched it from outside is over
  bool gpu_expected = false;
  std::string program, backend, message;
  std::uint64_t produced = 0, delivered = 0, pending = 0, stages = 0, calls = 0, launches = 0, gpu_records = 0;
  std::uint64_t lost[cutrace::loss_cause_count] = {};
  std::vector<sink_report> sinks;

  std::uint64_t lost_total() const;
  bool open() const { return state == cutrace::detail::run_state::tracing; }
  /// Its trace goes on, or is about to begin.
  bool runs() const { return alive && (open() || state == cutrace::detail::run_state::starting); }
  /// It used the GPU or had stages: its report says something.
  bool worked() const { return launches != 0 || gpu_records != 0 || stages != 0; }
  /// Work was launched, and nothing of it was recorded.
  bool empty_handed() const { return launches != 0 && gpu_records == 0; }
};

/// A living process that was started in the run and has no trace so far.
struct started_process {
  std::uint32_t id = 0;
  std::string name;
};

/// Whether the process runs. One that has ended and that nobody has waited for does not, though its number is taken.
bool is_running(std::uint32_t process);

class run_status {
 public:
  /// Makes a folder of its own in `out`. @throws usage_error
  explicit run_status(const std::string& out);
  /// Status of other writers, in a folder `name` inside the folder of `of`. @throws usage_error
  run_status(const run_status& of, const char* name);
  /// Removes the folder, unless `keep` was called. Processes that still run keep their blocks, and nobody reads them.
  ~run_status();
  run_status(const run_status&) = delete;
  run_status& operator=(const run_status&) = delete;

  const std::string& folder() const { return folder_; }
  /// Keeps the folder: processes that still run write their traces in it.
  void keep() { kept_ = true; }

  /// All processes that have begun a trace so far, by rank and id.
  std::vector<process_report> read();
  /// Processes that inherited the run in their environment and are not among `known`: daemons, which have left the
  /// program's tree and may use CUDA later. One that has written over its environment is not found.
  std::vector<started_process> find_others(const std::vector<process_report>& known) const;

 private:
  std::string folder_;
  bool kept_ = false;
  std::map<std::string, process_report> done_;  ///< blocks that will not change any more
};

}  // namespace cutrace_tool
