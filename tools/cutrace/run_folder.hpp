// SPDX-License-Identifier: Apache-2.0
// The folder of a run's files, and the state in which they are at its end.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cutrace/exit_status.hpp"
#include "cutrace/run_status.hpp"

namespace cutrace_tool {

/// The output folder. One that was made here and has remained empty goes again.
class output_folder {
 public:
  /// @throws usage_error
  explicit output_folder(const std::string& out) {
    std::error_code failed;
    created_ = std::filesystem::create_directories(out, failed);
    if (failed && !std::filesystem::is_directory(out))
      throw usage_error("cannot create the output folder " + out + ": " + failed.message());
    path_ = std::filesystem::canonical(out).string();
  }
  ~output_folder() { remove_if_empty(); }
  output_folder(const output_folder&) = delete;
  output_folder& operator=(const output_folder&) = delete;

  const std::string& path() const { return path_; }
  /// Keeps the folder even if it is empty now: files may come into it later.
  void keep() { created_ = false; }
  void remove_if_empty() const {
    std::error_code ignored;
    if (created_) std::filesystem::remove(path_, ignored);  // which fails where something is in it
  }

 private:
  std::string path_;
  bool created_ = false;
};

/// Columns of the terminal that will show the report, within what the report can have; 0: it goes elsewhere.
unsigned terminal_columns();

/// Reads the processes of a run, and waits a second at most for those that are still writing their last events. Where
/// `others` is not null, it also waits for processes that were left behind and have not begun a trace; those that still
/// live are then in `others`.
std::vector<process_report> read_at_end(run_status& status, std::vector<started_process>* others = nullptr);

/// Removes the files that a process that is gone had opened and not written to.
void remove_empty_files(const std::vector<process_report>& processes);

}  // namespace cutrace_tool
