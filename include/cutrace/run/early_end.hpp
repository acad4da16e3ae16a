// SPDX-License-Identifier: Apache-2.0
// What libcutrace_watch.so, which `cutrace run` preloads, lets a trace know of its process: that it is about to leave
// without exit (by _exit, by a signal, by exec), and that it uses CUPTI itself.
#pragma once

#include <dlfcn.h>
#include <link.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <cutrace/marker/slot.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

/// What a program is about to do, or has done.
enum class watched : std::uint32_t {
  exec = 1,           ///< replaces its program; where that fails, the trace goes on
  end = 2,            ///< ends without exit
  cupti_takes = 4,    ///< is about to register buffers of its own for CUPTI's records
  cupti_refused = 8,  ///< has asked for CUPTI's callbacks and was refused, since the trace has them
};

/// What libcutrace_watch.so exports as `cutrace_watch_1`.
struct process_watch {
  /// From now on `happens` is called, on the program's thread; for `exec` and `end` also in a signal handler. For
  /// `cupti_takes` it returns whether the trace took CUPTI's records and has given them up to the program.
  void (*arm)(bool (*happens)(watched) noexcept) noexcept;
  void (*disarm)() noexcept;

  /// Null where libcutrace_watch.so is not preloaded. dlsym is called only where the library is loaded: a call that
  /// fails would change what dlerror returns to the program.
  static const process_watch* find() noexcept {
    const auto is_it = [](dl_phdr_info* object, std::size_t, void*) {
      char name[4096];
      return std::strstr(copy_name(*object, name), "libcutrace_watch.so") != nullptr ? 1 : 0;
    };
    if (::dl_iterate_phdr(is_it, nullptr) == 0) return nullptr;
    return static_cast<const process_watch*>(::dlsym(RTLD_DEFAULT, "cutrace_watch_1"));
  }
};

/// Problem: a thread that leaves may be in a signal handler, where it may neither lock nor allocate. Solution: it wakes
/// a thread that does nothing but wait for this, and waits until that thread has served, but not for long.
class early_end {
 public:
  static early_end& own() noexcept {
    static early_end one;
    return one;
  }

  /// Whether libcutrace_watch.so is preloaded; asks the loader until it is found. Holds no lock.
  bool is_watched() noexcept {
    if (watch_.load() == nullptr) watch_.store(process_watch::find());
    return watch_.load() != nullptr;
  }
  /// `wait_ms`: for how long a thread that leaves waits. @returns whether the caller must start the thread that serves
  bool begin(std::uint32_t wait_ms) noexcept {
    wait_ms_.store(wait_ms);
    return process_.exchange(static_cast<int>(::getpid())) == 0;
  }
  /// Also in a forked child, where nobody serves, and whose process id may equal its parent's: 1 in a PID namespace.
  void give_up() noexcept { process_.store(0); }

  /// Whether there is, or was, a trace whose process is watched.
  bool is_armed() const noexcept { return process_.load() != 0; }
  void arm(bool (*happens)(watched) noexcept) noexcept { watch_.load()->arm(happens); }
  void disarm() noexcept {
    if (const process_watch* w = watch_.load()) w->disarm();
  }

  /// The part of `wait_ms` that backends get, so that what came before is written even where one of them is held up by
  /// the thread that was interrupted.
  std::uint32_t backend_wait_ms() const noexcept { return wait_ms_.load() * 3 / 5 + 1; }

  /// Body of the thread that serves, never returns. `act(watched)` runs on it.
  template <class Act>
  void serve(Act act) noexcept {
    server_.store(thread_id());
    for (;;) {
      const std::uint32_t what = asked_.exchange(0, std::memory_order_acq_rel);
      if (what == 0) {
        futex(asked_, FUTEX_WAIT_PRIVATE, 0, nullptr);
        continue;
      }
      const watched how = (what & static_cast<std::uint32_t>(watched::end)) != 0 ? watched::end : watched::exec;
      act(how);
      served_.fetch_or(what, std::memory_order_acq_rel);
      futex(served_, FUTEX_WAKE_PRIVATE, INT32_MAX, nullptr);
    }
  }

  /// Waits, `wait_ms` at most, until the serving thread has acted on `how`. Any thread, also in a signal handler, in a
  /// forked child, and in one that shares its parent's memory.
  static void leave(watched how) noexcept {
    early_end& e = own();
    const int before = errno;
    if (::syscall(SYS_getpid) == e.process_.load() && thread_id() != e.server_.load()) e.wait_for(how);
    errno = before;
  }

 private:
  void wait_for(watched how) noexcept {
    const auto bit = static_cast<std::uint32_t>(how);
    const std::uint64_t until = now_ms() + wait_ms_.load();
    if (how != watched::end) served_.fetch_and(~bit);  // it may come again
    asked_.fetch_or(bit, std::memory_order_acq_rel);
    futex(asked_, FUTEX_WAKE_PRIVATE, 1, nullptr);
    for (std::uint64_t now = now_ms(); now < until; now = now_ms()) {
      const std::uint32_t seen = served_.load(std::memory_order_acquire);
      if ((seen & bit) != 0) return;
      const timespec rest{static_cast<time_t>((until - now) / 1000), static_cast<long>((until - now) % 1000) * 1000000};
      futex(served_, FUTEX_WAIT_PRIVATE, seen, &rest);
    }
  }

  static int thread_id() noexcept { return static_cast<int>(::syscall(SYS_gettid)); }
  static std::uint64_t now_ms() noexcept {
    timespec t{};
    ::clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<std::uint64_t>(t.tv_sec) * 1000 + static_cast<std::uint64_t>(t.tv_nsec) / 1000000;
  }
  static void futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value,
                    const timespec* timeout) noexcept {
    ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), operation, value, timeout, nullptr, 0);
  }

  std::atomic<std::uint32_t> asked_{0}, served_{0};  ///< bits of watched
  std::atomic<std::uint32_t> wait_ms_{0};
  std::atomic<int> process_{0}, server_{0};
  std::atomic<const process_watch*> watch_{nullptr};
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
