// SPDX-License-Identifier: Apache-2.0
// Losses by cause: what was noticed, and how much of it stands in the trace as an event already. Collector's thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <cutrace/event.hpp>
#include <cutrace/stats.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

class loss_counts {
 public:
  /// What backends counted before this trace is not of it. Both arrays here and in `take` are indexed by cause.
  void begin(const std::atomic<std::uint64_t>* of_backends) noexcept {
    for (std::size_t i = 0; i < loss_cause_count; ++i) before_[i] = of_backends[i].load(std::memory_order_relaxed);
  }
  void add(loss_cause cause, std::uint64_t n) noexcept { lost_[static_cast<std::size_t>(cause)] += n; }
  std::uint64_t of(loss_cause cause) const noexcept { return lost_[static_cast<std::size_t>(cause)]; }

  /// Adds what backends have counted since the last call, and returns how much that was.
  std::uint64_t take(const std::atomic<std::uint64_t>* of_backends) noexcept {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < loss_cause_count; ++i) {
      const std::uint64_t now = of_backends[i].load(std::memory_order_relaxed);
      lost_[i] += now - before_[i];
      sum += now - before_[i];
      before_[i] = now;
    }
    return sum;
  }

  /// Calls `tell(loss_data)` for each cause that has grown since the last call.
  template <class Tell>
  void tell(Tell tell_one) {
    for (std::size_t i = 0; i < loss_cause_count; ++i) {
      if (lost_[i] == told_[i]) continue;
      const loss_data grown{static_cast<loss_cause>(i), lost_[i] - told_[i]};
      told_[i] = lost_[i];
      tell_one(grown);
    }
  }

  void fill(stats& s) const noexcept {
    for (std::size_t i = 0; i < loss_cause_count; ++i) s.lost[i] = lost_[i];
  }

 private:
  std::uint64_t lost_[loss_cause_count] = {};
  std::uint64_t told_[loss_cause_count] = {};
  std::uint64_t before_[loss_cause_count] = {};
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
