// SPDX-License-Identifier: Apache-2.0
// Threads of the tracer in the program that it traces: how they start, sleep and wake.
#pragma once

#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <cutrace/config.hpp>
#include <cutrace/error.hpp>
#include <initializer_list>
#include <system_error>
#include <thread>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

/// True while the calling thread runs code of the runtime, so that the session can refuse calls from a sink, a backend
/// or an error handler: such a call would wait for itself.
inline bool& inside_runtime() noexcept {
  static thread_local bool inside = false;
  return inside;
}

/// Thrown where tracing is impossible and the program's code is not to blame: the environment asks for what cannot be
/// done, or the machine lacks something. One line reports it, and the session is inert; the program never sees the
/// exception.
class untraced : public error {
 public:
  using error::error;
};

/// Processors that the process was allowed to use when this object was loaded: before the program binds its threads, as
/// the starter of the process wants it.
inline const cpu_set_t& processors_at_load() noexcept {
  static const cpu_set_t all = [] {
    cpu_set_t mine, first;
    CPU_ZERO(&mine);
    CPU_ZERO(&first);
    sched_getaffinity(0, sizeof(mine), &mine);
    sched_getaffinity(getpid(), sizeof(first), &first);
    CPU_OR(&mine, &mine, &first);
    return mine;
  }();
  return all;
}
inline const bool processors_known = (processors_at_load(), true);

/// Threads of start_thread that run: each counts itself, so that none counts that does not exist.
inline std::atomic<int>& helper_threads() noexcept {
  static std::atomic<int> n{0};
  return n;
}

/// Whether `main` has ended by pthread_exit, and all other threads of the program have ended, too: only threads of the
/// tracer keep the process alive. The kernel counts all threads at one moment: while a list of them is read, a thread
/// may end that has just begun another one. (proc(5), /proc/PID/stat: field 3 is the state, field 20 the number of
/// threads.)
inline bool only_ours_are_left() noexcept {
  const int ours = helper_threads().load();
  char path[64], text[1024] = {}, state = 0;
  int all = 0;
  std::snprintf(path, sizeof(path), "/proc/self/task/%d/stat", getpid());
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const ssize_t n = ::read(fd, text, sizeof(text) - 1);
  ::close(fd);
  const char* const name_end = n > 0 ? std::strrchr(text, ')') : nullptr;
  return name_end != nullptr &&
         std::sscanf(name_end + 1, " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %d", &state,
                     &all) == 2 &&
         state == 'Z' && all == ours + 1 && ours == helper_threads().load();
}

/// Blocks all signals but faults: on the calling thread while this object lives, and for good on threads started
/// meanwhile.
class no_signals {
 public:
  no_signals() noexcept {
    sigset_t all;
    sigfillset(&all);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS}) sigdelset(&all, fault);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  no_signals(const no_signals&) = delete;
  no_signals& operator=(const no_signals&) = delete;
  ~no_signals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

/// While this object lives, the calling thread may run on all processors of the process, and so may threads that it
/// starts meanwhile, which are those of a backend's library: bound to one processor beside a thread that launches, they
/// took a third of an engine's speed (H200, 160,000 launches a second).
class any_processor {
 public:
  any_processor() noexcept {
    bound_ = sched_getaffinity(0, sizeof(before_), &before_) == 0 && !CPU_EQUAL(&before_, &processors_at_load()) &&
             sched_setaffinity(0, sizeof(cpu_set_t), &processors_at_load()) == 0;
  }
  any_processor(const any_processor&) = delete;
  any_processor& operator=(const any_processor&) = delete;
  ~any_processor() {
    if (bound_) sched_setaffinity(0, sizeof(before_), &before_);
  }

 private:
  cpu_set_t before_;
  bool bound_;
};

/// Starts a thread that the kernel never picks for the program's signals: a program that waits for a signal with
/// sigwait blocks it in all of its own threads, and would be ended by it if a thread of the tracer let it through.
/// Faults are not blocked. The new thread has no real-time class and is bound to no processor, whatever its starter
/// has: where it shared both with a thread that polls, it would never run. No template, since each kind of function
/// that std::thread takes is compiled anew. @throws untraced when there can be no further thread
inline std::thread start_thread(void (*run)(void* state), void* state) {
  const no_signals meanwhile;
  try {
    std::thread made(
        [](void (*does)(void*), void* with) {
          ++helper_threads();
          does(with);
          --helper_threads();
        },
        run, state);
    const sched_param usual{};
    pthread_setschedparam(made.native_handle(), SCHED_OTHER, &usual);
    pthread_setaffinity_np(made.native_handle(), sizeof(cpu_set_t), &processors_at_load());
    return made;
  } catch (const std::system_error&) {
    throw untraced("no further thread can be started (see ulimit -u, ulimit -v and the cgroup's pids.max)");
  }
}

/// Sleeping and waking of one thread. A signal costs the caller one atomic operation while that thread is awake, and
/// one system call while it sleeps; it never takes a lock.
class wake_signal {
 public:
  /// Wakes the sleeper, or keeps it from falling asleep. Any thread.
  void signal() noexcept {
    if (word_.exchange(1, std::memory_order_acq_rel) >= asleep) futex(FUTEX_WAKE_PRIVATE, 1, nullptr);
  }
  /// As `signal`, but does nothing while the sleeper is awake. Any thread.
  void signal_if_asleep() noexcept {
    if (word_.load(std::memory_order_relaxed) >= asleep) signal();
  }
  /// As `signal`, but wakes only a sleeper that called `sleep` with `rests`. Any thread.
  void signal_if_resting() noexcept {
    if (word_.load(std::memory_order_relaxed) == resting) signal();
  }

  /// Sleeps until a signal, for `time` at most. `rests`: the sleeper has nothing to do. One thread only.
  void sleep(std::chrono::microseconds time, bool rests = false) noexcept {
    std::uint32_t expected = 0;
    const std::uint32_t how = rests ? resting : asleep;
    if (word_.compare_exchange_strong(expected, how, std::memory_order_acq_rel)) {
      timespec t{static_cast<time_t>(time.count() / 1000000), static_cast<long>(time.count() % 1000000) * 1000};
      futex(FUTEX_WAIT_PRIVATE, how, &t);
    }
    word_.store(0, std::memory_order_release);
  }

 private:
  static constexpr std::uint32_t asleep = 2, resting = 3;
  void futex(int operation, std::uint32_t value, const timespec* timeout) noexcept {
    syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word_), operation, value, timeout, nullptr, 0);
  }
  std::atomic<std::uint32_t> word_{0};
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
