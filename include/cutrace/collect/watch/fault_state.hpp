// SPDX-License-Identifier: Apache-2.0
// The steps from a call that returned an error by which the CUDA context is lost (not usable any more) to the report of
// what faulted: the program's threads wait for the report, the backend's helper thread flushes, the collector reports.
// Where the records come too late (the machine is busy, CUPTI does not answer), the report is made twice: from the
// host's calls alone while the program waits, and from the records once they are there.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cutrace/backend.hpp>
#include <cutrace/config.hpp>
#include <mutex>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

class fault_state {
 public:
  static constexpr std::int32_t illegal_address = 700, misaligned_address = 716;  ///< as CUresult
  struct call {
    std::uint32_t function = 0, correlation = 0;
    std::uint32_t context = 0;  ///< see lost_context
    std::int32_t result = 0;
    std::int64_t at_ns = 0;             ///< raw frame (clock.hpp), as both below
    std::int64_t flushed_since_ns = 0;  ///< begin of the unbroken series of plain (not forced) flushes, less than
                                        ///< times_kept_ns(result) apart, up to the error; 0: none
    std::int64_t held_up_since_ns = INT64_MAX;  ///< begin of the plain flush that the fault held up, if any
  };

  /// What the collector is to report.
  enum class due : std::uint8_t {
    nothing,
    calls,    ///< in text, from calls alone: records may still come
    records,  ///< from records
    rest      ///< what is known: no records will come
  };

  /// A new session: the next fault is reported again.
  void begin() noexcept {
    const std::lock_guard<std::mutex> hold(mutex_);
    step_.store(none, std::memory_order_release);
    listened_to_ = true;
    said_ = false;
  }
  /// No further fault is taken, and nobody waits. One that was taken is still to be reported.
  void end() noexcept {
    const std::lock_guard<std::mutex> hold(mutex_);
    listened_to_ = false;
    changed_.notify_all();
  }

  /// A call returned an error that loses the context: waits for the report, until 100 ms after the first such call at
  /// most. `ask()` requests the flushes.
  template <class Ask>
  void hold(const lost_context& by, std::uint64_t at_ns, Ask ask) noexcept {
    if (step_.load(std::memory_order_acquire) == reported) return;
    std::unique_lock<std::mutex> hold(mutex_);
    if (!listened_to_) return;
    if (step_.load(std::memory_order_relaxed) == none) {
      first_ = call{by.function, by.correlation, by.context, by.result, static_cast<std::int64_t>(at_ns)};
      note_flushes(first_);
      deadline_ = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
      step_.store(flushing, std::memory_order_release);
      hold.unlock();
      ask();
      hold.lock();
    }
    changed_.wait_until(hold, deadline_,
                        [this] { return said_ || !listened_to_ || step_.load(std::memory_order_relaxed) == reported; });
  }

  /// The records that flushes bring have been handed over. The thread that flushes.
  void records_came() noexcept {
    std::uint32_t expected = flushing;
    step_.compare_exchange_strong(expected, records_are_here, std::memory_order_acq_rel);
  }
  /// A plain flush begins; `flushed`: it has ended. On the thread that flushes. A flush that was held up until the
  /// error was returned is taken to be held up by the fault: where no thread launches, a flush takes a millisecond at
  /// most. After any other slow flush (the driver holds flushes up while it loads a kernel) the times of work that
  /// ended meanwhile may be lost, so the next flush begins a new series.
  void flush_begins(std::uint64_t now_ns) noexcept {
    const std::lock_guard<std::mutex> hold(mutex_);
    for (std::size_t i = 0; i < rows; ++i)
      if (now_ns - last_.begun_ns >= kept_ns[i]) last_.since_ns[i] = now_ns;
    last_.begun_ns = now_ns;
    flushes_ = true;
  }
  void flushed(std::uint64_t now_ns) noexcept {
    const std::lock_guard<std::mutex> hold(mutex_);
    last_.ended_ns = now_ns;
    flushes_ = false;
    if (now_ns - last_.begun_ns >= kept_ns[rows - 1]) slow_ = last_;
  }

  /// How long after a fault a first flush still brings the times of all work that had ended before the fault
  /// (docs/cupti.md, 51). Measured (H100 and H200): an illegal address 100 ms, 8 runs of 8; a misaligned one 12 ms, 4
  /// of 4; a trap or a failed assertion 3.5 ms, 3.7 ms not always. `kept_ns` is at most that; its last entry serves all
  /// other results, too, of which nothing is known.
  static constexpr std::int64_t times_kept_ns(std::int32_t result) noexcept {
    return static_cast<std::int64_t>(kept_ns[row_of(result)]);
  }

  /// To be asked before buffers are taken off the queue. Collector's thread, as all below.
  due what_is_due(std::uint64_t now_ns) const noexcept {
    const std::uint32_t step = step_.load(std::memory_order_acquire);
    if (step == none || step == reported) return due::nothing;
    if (step == records_are_here) return due::records;
    const std::uint64_t waited_since = static_cast<std::uint64_t>(first_.at_ns);
    if (was_said()) return now_ns > waited_since + give_up_ns ? due::rest : due::nothing;
    return now_ns > waited_since + patience_ns ? due::calls : due::nothing;
  }
  /// Whether a fault was taken that is not reported, or from calls alone.
  bool is_open() const noexcept {
    const std::uint32_t step = step_.load(std::memory_order_acquire);
    return step != none && step != reported;
  }
  /// The first call that returned an error that loses the context, once there is one.
  const call& first() const noexcept { return first_; }
  /// Whether it was reported from calls alone.
  bool was_said() const noexcept {
    const std::lock_guard<std::mutex> hold(mutex_);
    return said_;
  }
  void set_reported(due what) noexcept {
    const std::lock_guard<std::mutex> hold(mutex_);
    said_ = true;
    if (what != due::calls) step_.store(reported, std::memory_order_release);
    changed_.notify_all();
  }

 private:
  static constexpr std::size_t rows = 3;
  static constexpr std::uint64_t kept_ns[rows] = {50000000, 12000000, 3000000};
  static constexpr std::size_t row_of(std::int32_t result) noexcept {
    return result == illegal_address ? 0 : result == misaligned_address ? 1 : 2;
  }
  void note_flushes(call& c) const noexcept {
    const std::size_t row = row_of(c.result);
    const std::uint64_t at_ns = static_cast<std::uint64_t>(c.at_ns);
    const bool ended_late = slow_.ended_ns - slow_.begun_ns >= kept_ns[row] && at_ns < slow_.ended_ns + soon_ns;
    const flush& f = ended_late ? slow_ : last_;
    if (flushes_ || ended_late) c.held_up_since_ns = static_cast<std::int64_t>(f.begun_ns);
    if (flushes_ || ended_late || at_ns < f.begun_ns + kept_ns[row])
      c.flushed_since_ns = static_cast<std::int64_t>(f.since_ns[row]);
  }

  enum steps : std::uint32_t { none, flushing, records_are_here, reported };
  /// From the error to the report from calls alone, and to the end of the wait for records.
  static constexpr std::uint64_t patience_ns = 80000000, give_up_ns = 1000000000;
  /// A flush that a fault holds up ends at most this long before the error is returned. An error comes later than that
  /// after its fault (measured: 3.4 ms or more, docs/cupti.md, 51), so the fault came before the flush ended.
  static constexpr std::uint64_t soon_ns = 2000000;
  struct flush {
    std::uint64_t begun_ns, ended_ns;
    std::uint64_t since_ns[rows];  ///< begin of the first flush that others followed within `kept_ns`
  };

  std::atomic<std::uint32_t> step_{none};
  mutable std::mutex mutex_;
  flush last_{}, slow_{};  ///< slow_: the last that took longer than the shortest of `kept_ns`
  bool flushes_ = false;
  std::condition_variable changed_;
  bool listened_to_ = false;
  bool said_ = false;  ///< the program's threads need not wait any more
  call first_{};
  std::chrono::steady_clock::time_point deadline_{};
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
