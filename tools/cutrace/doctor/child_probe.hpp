// SPDX-License-Identifier: Apache-2.0
// Runs what may hang or crash, as a driver does on a broken machine, in a child with a time limit. What the child has
// said before its end is kept, so that a crash still says how far it came.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace cutrace_tool::doctor {

/// The child's side: reports facts as the child learns them.
class reporter {
 public:
  explicit reporter(int fd) noexcept : fd_(fd) {}
  void report(const std::string& key, const std::string& value) const;
  void report(const std::string& key, long long value) const { report(key, std::to_string(value)); }
  /// What the child is about to do: the last step is where a crash or a hang happened.
  void step(const std::string& what) const { report("step", what); }

 private:
  int fd_;
};

struct probe_result {
  std::vector<std::pair<std::string, std::string>> facts;
  std::string step;   ///< the last step begun
  std::string said;   ///< begin of what the child wrote on stdout and stderr
  bool hung = false;  ///< killed after the time limit
  int signal = 0;     ///< signal that ended the child
  int exit_status = 0;
  bool complete = false;      ///< `work` returned: no library called exit() in it
  std::string could_not_run;  ///< why there was no child

  /// The first fact of that name; nothing where it was not reported.
  const std::string* find(const std::string& key) const;
  std::string text(const std::string& key) const;
  long long number(const std::string& key, long long otherwise) const;
  bool finished() const { return could_not_run.empty() && !hung && signal == 0 && complete; }
  /// "cuInit did not return within 30 s", "cuInit ended the process by SIGSEGV"; empty when the work was done.
  std::string failure(int patience_seconds) const;
};

/// `work` runs in a forked child, which then leaves by exit(), so that exit handlers of libraries run. The caller has
/// one thread.
probe_result run_probe(int patience_seconds, const std::function<void(const reporter&)>& work);

}  // namespace cutrace_tool::doctor
