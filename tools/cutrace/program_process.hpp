// SPDX-License-Identifier: Apache-2.0
// The traced program as a child: started with its own standard streams, in the command's process group, so that the
// terminal treats both as one job; a signal reaches it once; the command ends as it did.
#pragma once

#include <sys/time.h>
#include <sys/types.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace cutrace_tool {

/// What /proc/PID/stat has behind the name, beginning with " " and the state; empty where it cannot be read. proc(5):
/// the name in brackets may hold anything.
std::string stat_behind_name(pid_t process);

/// What is called between fork and exec.
struct start_gate {
  std::function<int()> in_child;        ///< async-signal-safe; not 0: an errno, and nothing is executed
  std::function<int(pid_t)> in_parent;  ///< meanwhile; not 0: an errno, and the child is killed
};

/// Seconds that a program may take to end after SIGINT or SIGTERM before `outlives` is called.
constexpr int patience_after_signal_s = 5;

class program_process {
 public:
  /// How it ended. `signal` is 0 unless a signal ended it.
  struct ending {
    int status = 0;
    int signal = 0;
    bool core = false;
  };

  /// To be made before any child is started: where the command's caller ignores SIGCHLD, nobody would be notified of
  /// the end of a child. From here on the command does not ignore it; the program does, as it would without cutrace.
  /// The program also gets what execve keeps and fork does not: an alarm that the caller has set, and the signal for
  /// the end of its parent.
  program_process();

  /// Starts the program, which is found by PATH as in a shell. With `alone`, CUTRACE_RUN_PID is its process id.
  /// @returns 0, or the errno of what failed
  int start(const std::vector<std::string>& words, const std::map<std::string, std::string>& environment, bool alone,
            const start_gate* gate = nullptr);

  /// Waits for its end and passes signals on meanwhile. `tick` is called every `tick_ms` (0: never), and early when
  /// `wake_fd` becomes readable (-1: none). `pause` is called before the command stops along with a program that was
  /// stopped from the terminal. `outlives` is called once, with the signal, where the program still runs some seconds
  /// after a signal by which people end programs.
  ending wait(unsigned tick_ms, const std::function<void()>& tick, const std::function<void()>& pause, int wake_fd,
              const std::function<void(int)>& outlives);

  pid_t id() const noexcept { return child_; }

 private:
  bool reap(ending& e, const std::function<void()>& pause);

  pid_t child_ = -1;
  bool deaf_;  ///< SIGCHLD was ignored
  itimerval alarm_{};
  int at_parents_end_ = 0;  ///< PR_SET_PDEATHSIG; 0: none
};

/// Ends this process as the program ended: with its status, or by the signal that ended it, so that a shell sees the
/// same (128 + signal). Where the signal does not end this process, with 128 + signal.
[[noreturn]] void end_like(const program_process::ending& e);

}  // namespace cutrace_tool
