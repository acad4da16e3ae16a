// SPDX-License-Identifier: Apache-2.0
// Sleeping and waking of the collector. A signal costs the caller one load while the collector is awake, and one
// system call while it sleeps; it never takes a lock.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <ctime>
#include <cutrace/config.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

class wake_signal {
 public:
  /// Wakes the sleeper, or keeps it from falling asleep. Any thread.
  void signal() noexcept {
    if (word_.exchange(1, std::memory_order_acq_rel) == asleep) futex(FUTEX_WAKE_PRIVATE, 1, nullptr);
  }
  /// As `signal`, but leaves a sleeper alone that is awake anyway. Any thread.
  void signal_if_asleep() noexcept {
    if (word_.load(std::memory_order_relaxed) == asleep) signal();
  }

  /// Sleeps until a signal or for `milliseconds`. One sleeper.
  void sleep(std::uint32_t milliseconds) noexcept {
    std::uint32_t expected = 0;
    if (word_.compare_exchange_strong(expected, asleep, std::memory_order_acq_rel)) {
      timespec t{static_cast<time_t>(milliseconds / 1000), static_cast<long>(milliseconds % 1000) * 1000000};
      futex(FUTEX_WAIT_PRIVATE, asleep, &t);
    }
    word_.store(0, std::memory_order_release);
  }

 private:
  static constexpr std::uint32_t asleep = 2;
  void futex(int operation, std::uint32_t value, const timespec* timeout) noexcept {
    syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word_), operation, value, timeout, nullptr, 0);
  }
  std::atomic<std::uint32_t> word_{0};
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
