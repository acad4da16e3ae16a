// SPDX-License-Identifier: Apache-2.0
// A command that writes files and is interrupted, or cannot read on, leaves none of them half written.
#pragma once

namespace cutrace_tool {

/// From here on SIGINT, SIGTERM and SIGHUP remove the regular files that are open for writing, and end the process as
/// they would anyhow. Files that the process was started with, such as a redirected standard output, stay. A signal
/// that is ignored stays ignored. Call once, before the first file is opened.
void remove_unfinished_files_when_interrupted();

/// Removes them where an exception ends its life. It is made after the sink, whose end closes the files.
class remove_unfinished_files_on_failure {
 public:
  remove_unfinished_files_on_failure() noexcept;
  ~remove_unfinished_files_on_failure();
  remove_unfinished_files_on_failure(const remove_unfinished_files_on_failure&) = delete;
  remove_unfinished_files_on_failure& operator=(const remove_unfinished_files_on_failure&) = delete;

 private:
  int exceptions_;  ///< that are under way already
};

}  // namespace cutrace_tool
