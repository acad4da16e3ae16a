// SPDX-License-Identifier: Apache-2.0
// The traced program as a child: started with its own standard streams, in the command's process group, so that the
// terminal treats both as one job; signals reach it once; its end is the command's.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace cutrace_tool {

/// What happens between fork and exec.
struct start_gate {
  std::function<int()> in_child;        ///< async-signal-safe; not 0: an errno, and nothing is executed
  std::function<int(pid_t)> in_parent;  ///< meanwhile; not 0: an errno, and the child is killed
};

/// A program that ends in an orderly way when it is asked to has done so by then.
constexpr int patience_after_signal_s = 5;

class program_process {
 public:
  /// How it ended. `signal` is 0 unless a signal ended it.
  struct ending {
    int status = 0;
    int signal = 0;
    bool core = false;
  };

  /// Before anything else is started: where who called ignores SIGCHLD, nobody would be notified that a child has
  /// ended, and how. From here on it is not ignored, but in the program.
  program_process();

  /// Starts it. With `alone`, CUTRACE_RUN_PID names it. @returns 0, or the errno of what failed; exec is PATH's
  /// business as in a shell
  int start(const std::vector<std::string>& words, const std::map<std::string, std::string>& environment, bool alone,
            const start_gate* gate = nullptr);

  /// Waits for its end and passes signals on meanwhile. `tick` is called every `tick_ms` (0: never), and `pause` before
  /// the command stops along with a program that was stopped from the terminal. When `wake_fd` becomes readable `tick`
  /// is called early; -1: there is none. `outlives` is called once, where the program still runs some seconds after a
  /// signal by which people end programs, with that signal.
  ending wait(unsigned tick_ms, const std::function<void()>& tick, const std::function<void()>& pause, int wake_fd,
              const std::function<void(int)>& outlives);

  pid_t id() const noexcept { return child_; }

 private:
  bool reap(ending& e, const std::function<void()>& pause);

  pid_t child_ = -1;
  bool deaf_;  ///< SIGCHLD was ignored
};

/// Ends this process as the program ended: with its status, or by the signal that ended it, so that a shell sees the
/// same (128 + signal). Where the signal does not end this process, with 128 + signal.
[[noreturn]] void end_like(const program_process::ending& e);

}  // namespace cutrace_tool
