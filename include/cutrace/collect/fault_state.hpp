// SPDX-License-Identifier: Apache-2.0
// From the call that returned an error which loses the context to the report of what faulted: the program's threads
// wait for it, the backend's helper flushes, the collector reports.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cutrace/config.hpp>
#include <mutex>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

class fault_state {
 public:
  struct call {
    std::uint32_t function = 0;
    std::int32_t result = 0;
    std::int64_t at_ns = 0;             ///< raw frame, as the next
    std::int64_t flushed_since_ns = 0;  ///< since when plain flushes had followed one another closely, 0: they had not
  };

  /// A new session: the next fault is reported again.
  void begin() noexcept {
    const std::lock_guard<std::mutex> hold(mutex_);
    step_.store(none, std::memory_order_release);
    listened_to_ = true;
  }
  /// Nobody reports any more, and nobody waits.
  void end() noexcept {
    const std::lock_guard<std::mutex> hold(mutex_);
    listened_to_ = false;
    step_.store(reported, std::memory_order_release);
    changed_.notify_all();
  }

  /// `ask` has the flushes made. Returns when the report is out, or 100 ms after the first such call.
  template <class Ask>
  void hold(std::uint32_t function, std::int32_t result, std::uint64_t at_ns, Ask ask) noexcept {
    if (step_.load(std::memory_order_acquire) == reported) return;
    std::unique_lock<std::mutex> hold(mutex_);
    if (!listened_to_) return;
    if (step_.load(std::memory_order_relaxed) == none) {
      const std::uint64_t last = flushed_ns_.load(std::memory_order_relaxed);
      const bool closely = at_ns - last < close_ns || last > at_ns;
      first_ = {function, result, static_cast<std::int64_t>(at_ns),
                closely ? static_cast<std::int64_t>(close_since_ns_.load(std::memory_order_relaxed)) : 0};
      deadline_ = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
      step_.store(flushing, std::memory_order_release);
      hold.unlock();
      ask();
      hold.lock();
    }
    changed_.wait_until(hold, deadline_, [this] { return step_.load(std::memory_order_relaxed) == reported; });
  }

  /// The records that flushes bring have been handed over. The thread that flushes.
  void records_came() noexcept {
    std::uint32_t expected = flushing;
    step_.compare_exchange_strong(expected, records_are_here, std::memory_order_acq_rel);
  }
  /// A plain flush has been made.
  void flushed(std::uint64_t now_ns) noexcept {
    if (now_ns - flushed_ns_.load(std::memory_order_relaxed) >= close_ns)
      close_since_ns_.store(now_ns, std::memory_order_relaxed);
    flushed_ns_.store(now_ns, std::memory_order_relaxed);
  }

  /// Whether there is a fault to report: its records are here, or did not come in time. To be asked before buffers are
  /// taken off the queue.
  bool is_due(std::uint64_t now_ns) const noexcept {
    const std::uint32_t step = step_.load(std::memory_order_acquire);
    if (step == none || step == reported) return false;
    return step == records_are_here || now_ns - static_cast<std::uint64_t>(first_.at_ns) > patience_ns;
  }
  /// Of the first such call, once there is one.
  const call& first() const noexcept { return first_; }
  void set_reported() noexcept {
    const std::lock_guard<std::mutex> hold(mutex_);
    step_.store(reported, std::memory_order_release);
    changed_.notify_all();
  }

 private:
  enum steps : std::uint32_t { none, flushing, records_are_here, reported };
  /// Flushes follow one another closely, as the times of what ends before a fault need it (docs/cupti.md, 51).
  static constexpr std::uint64_t close_ns = 8000000;
  static constexpr std::uint64_t patience_ns = 80000000;

  std::atomic<std::uint32_t> step_{reported};
  std::atomic<std::uint64_t> flushed_ns_{0}, close_since_ns_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool listened_to_ = false;
  call first_{};
  std::chrono::steady_clock::time_point deadline_{};
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
