// SPDX-License-Identifier: Apache-2.0
// How much time each set of classes was active together, in one pass over intervals in order of their start. Busy
// time, idle time, overlap of any two classes and exclusive shares are all sums over its result.
//
// Method: between two starts nothing can begin, so the state is "until when is each class active": the largest end
// seen of each. Time moves to the next of those ends or to the next start, whichever comes first.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cutrace/analysis/intervals.hpp>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace analysis {

template <std::size_t Classes>
class mask_sweep {
  static_assert(Classes > 0 && Classes <= 12, "a time is kept for each of 2^Classes sets");

 public:
  using mask = std::uint32_t;

  /// @param counted only time inside these intervals counts; disjoint, in order. They must outlive the sweep.
  explicit mask_sweep(const std::vector<interval>& counted) noexcept
      : counted_(counted),
        whole_(counted.empty() ? interval{} : interval{counted.front().start_ns, counted.back().end_ns}),
        now_ns_(whole_.start_ns) {
    until_.fill(INT64_MIN);
  }

  /// @param v starts no earlier than the interval added before; else only the part after that start counts.
  void add(std::size_t which, interval v) noexcept {
    v = clip(v, whole_);
    if (v.end_ns <= std::max(v.start_ns, now_ns_)) return;
    move_to(v.start_ns);
    until_[which] = std::max(until_[which], v.end_ns);
    active_ |= mask{1} << which;
  }

  /// Call it once, after the last interval.
  void finish() noexcept { move_to(whole_.end_ns); }

  /// Time in which exactly these classes were active; mask 0: none. All sets add up to the length of `counted`.
  std::int64_t exactly_ns(mask m) const noexcept { return ns_[m]; }
  /// Time in which at least one class of each of two groups was active: |union(a) ∩ union(b)|.
  std::int64_t both_ns(mask a, mask b) const noexcept {
    std::int64_t total = 0;
    for (mask m = 1; m < ns_.size(); ++m)
      if ((m & a) != 0 && (m & b) != 0) total += ns_[m];
    return total;
  }
  /// Length of the union of some classes.
  std::int64_t any_ns(mask a) const noexcept { return both_ns(a, a); }
  /// Time in which a class of `a` and no class of `b` was active.
  std::int64_t only_ns(mask a, mask b) const noexcept { return any_ns(a) - both_ns(a, b); }

 private:
  void move_to(std::int64_t t_ns) noexcept {
    while (now_ns_ < t_ns) {
      std::int64_t next_ns = t_ns;
      for (mask rest = active_; rest != 0; rest &= rest - 1)
        next_ns = std::min(next_ns, until_[static_cast<std::size_t>(__builtin_ctz(rest))]);
      ns_[active_] += counted_until(next_ns);
      now_ns_ = next_ns;
      for (mask rest = active_; rest != 0; rest &= rest - 1)
        if (until_[static_cast<std::size_t>(__builtin_ctz(rest))] <= now_ns_) active_ &= ~(rest & (~rest + 1));
    }
  }

  /// How much of the time from `now_ns_` to `t_ns` lies inside `counted`.
  std::int64_t counted_until(std::int64_t t_ns) noexcept {
    std::int64_t ns = 0;
    for (; piece_ < counted_.size() && counted_[piece_].start_ns < t_ns; ++piece_) {
      ns += clip(counted_[piece_], {now_ns_, t_ns}).length_ns();
      if (counted_[piece_].end_ns > t_ns) break;
    }
    return ns;
  }

  const std::vector<interval>& counted_;
  interval whole_;
  std::size_t piece_ = 0;  ///< the first interval of `counted_` that ends after `now_ns_`
  std::int64_t now_ns_;
  mask active_ = 0;
  std::array<std::int64_t, Classes> until_{};
  std::array<std::int64_t, std::size_t{1} << Classes> ns_{};
};

}  // namespace analysis
CUTRACE_END_NAMESPACE
