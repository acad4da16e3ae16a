// SPDX-License-Identifier: Apache-2.0
// What the tests of `cutrace run` share: the command with its options, and the files that it left.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "../../support/child_process.hpp"
#include "../../support/jsonl_trace.hpp"

namespace run_support {

using test_support::finished_process;
using test_support::jsonl_trace;

struct run {
  temporary_folder folder;
  finished_process ended;

  /// cutrace run [--out out] <options> -- <program>
  run(std::vector<std::string> options, const std::vector<std::string>& program,
      std::map<std::string, std::string> environment = {}) {
    std::vector<std::string> words{CUTRACE_COMMAND, "run"};
    if (std::find(options.begin(), options.end(), "--out") == options.end())
      words.insert(words.end(), {"--out", "out"});
    words.insert(words.end(), options.begin(), options.end());
    words.push_back("--");
    words.insert(words.end(), program.begin(), program.end());
    start(words, environment);
  }
  /// Any command line, for what the other one cannot say.
  struct line {
    explicit line(std::vector<std::string> w) : words(std::move(w)) {}
    std::vector<std::string> words;
  };
  explicit run(const line& l, const std::map<std::string, std::string>& environment = {}) {
    start(l.words, environment);
  }

  std::string out() const { return folder.file("out"); }
  /// Files whose names end so, in the order of names.
  std::vector<std::string> files(const std::string& ending) const {
    if (!std::filesystem::is_directory(out())) return {};
    std::vector<std::string> all = test_support::files_with(out(), ending);
    std::sort(all.begin(), all.end());
    return all;
  }
  /// Everything in the output folder, hidden or not.
  std::size_t file_count() const {
    std::size_t n = 0;
    if (!std::filesystem::is_directory(out())) return 0;
    for ([[maybe_unused]] const auto& f : std::filesystem::directory_iterator(out())) ++n;
    return n;
  }
  /// In stderr, but for lines "cutrace: wrote ...".
  bool says(const std::string& text) const { return ended.errors.find(text) != std::string::npos; }

 private:
  void start(const std::vector<std::string>& words, std::map<std::string, std::string> environment) {
    // The shell of the test run may have set these: an empty value removes the variable.
    for (const char* name : {"RANK", "LOCAL_RANK", "WORLD_SIZE", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK",
                             "CUTRACE_SINKS", "CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH", "CUTRACE"})
      environment.emplace(name, "");
    ended = test_support::run_process(words, folder.path(), environment);
  }
};

/// Kernels of a trace.
inline std::size_t kernels(const std::string& file) { return jsonl_trace(file).of("kernel").size(); }

/// What can be read of a file that others write or remove: nothing of a folder, or of a process that has ended.
inline std::string text_of(const std::filesystem::path& file) {
  std::ostringstream all;
  all << std::ifstream(file).rdbuf();
  return all.str();
}

/// The child of `command` that writes a trace, or -1.
inline pid_t writer_of(pid_t command) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const pid_t process = std::atoi(entry.path().filename().c_str());
    if (process <= 0) continue;
    if (text_of(entry.path() / "status").find("\nPPid:\t" + std::to_string(command) + "\n") == std::string::npos)
      continue;
    std::error_code gone, closed;  // the process, or a descriptor, meanwhile
    for (std::filesystem::directory_iterator fd(entry.path() / "fd", gone), none; !gone && fd != none;
         fd.increment(gone))
      if (std::filesystem::read_symlink(fd->path(), closed).string().find(".jsonl") != std::string::npos)
        return process;
  }
  return -1;
}

/// Waits until a file of `folder`, which is being written, holds `text`.
inline bool is_written(const std::string& folder, const std::string& text) {
  for (int patience = 0; patience < 60000; ++patience) {
    std::error_code none;
    for (const auto& f : std::filesystem::directory_iterator(folder, none))
      if (text_of(f.path()).find(text) != std::string::npos) return true;
    ::usleep(2000);
  }
  return false;
}

}  // namespace run_support
