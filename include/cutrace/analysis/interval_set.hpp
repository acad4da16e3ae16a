// SPDX-License-Identifier: Apache-2.0
// Union of intervals that arrive one by one. Amortised O(1) where they come roughly in the order of their ends (as a
// sink sees them), exact in any order. When a set with a limit is full, its oldest half is folded into a histogram.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cutrace/analysis/intervals.hpp>
#include <cutrace/analysis/time_bins.hpp>
#include <limits>
#include <type_traits>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace analysis {

class interval_set {
 public:
  /// @param limit disjoint intervals kept, at least 4; 0: no limit, always exact.
  /// @param bins resolution of the folded past.
  CUTRACE_ONE_COPY explicit interval_set(std::size_t limit = 0, std::size_t bins = 512) noexcept
      : limit_(limit == 0 ? 0 : std::max<std::size_t>(limit, 4)), settled_(bins) {}

  /// Adds `v`. Calls `added(where, ns)` for each stretch of it that was not in the set: ns is the whole length of
  /// `where`, except in the folded past, where only the amount is known and not its place.
  template <class Added>
  void insert(interval v, Added&& added) {
    const auto call = [](void* to, interval where, std::int64_t ns) {
      (*static_cast<std::remove_reference_t<Added>*>(to))(where, ns);
    };
    put(v, listener{call, &added});
  }

  /// Adds `v`, returns the nanoseconds by which the union grew.
  std::int64_t insert(interval v) {
    const std::int64_t before = length_ns_;
    put(v, listener{});
    return length_ns_ - before;
  }

  /// Length of the union; see `approximate`.
  std::int64_t length_ns() const noexcept { return length_ns_; }

  /// Length of what the set has inside `v`. Exact in the part that is kept, estimated in the folded past.
  std::int64_t measure_ns(interval v) const {
    std::int64_t total = 0;
    if (v.start_ns < settled_until_ns_)
      total = settled_.measure_ns({v.start_ns, std::min(v.end_ns, settled_until_ns_)}, settled_until_ns_);
    for (std::size_t i = first_ending_after(v.start_ns); i < kept_.size() && kept_[i].start_ns < v.end_ns; ++i)
      total += clip(kept_[i], v).length_ns();
    return total;
  }

  /// Length of what this and the other set share. Exact where both are kept, estimated in the folded past of either.
  CUTRACE_ONE_COPY std::int64_t shared_ns(const interval_set& other) const {
    std::int64_t total = 0;
    if (other.folded()) total = std::min(other.settled_ns(), measure_ns({other.first_ns_, other.settled_until_ns_}));
    for (const interval v : other.kept_) total += measure_ns(v);
    return std::min(total, length_ns_);
  }

  bool empty() const noexcept { return length_ns_ == 0; }
  /// From the first start to the last end; {0, 0} for the empty set.
  interval span() const noexcept { return empty() ? interval{} : interval{first_ns_, last_ns_}; }
  /// Disjoint intervals, folded ones included.
  std::size_t count() const noexcept { return kept_.size() + settled_count_; }
  /// Disjoint intervals since `settled_until_ns`, in order.
  const std::vector<interval>& kept() const noexcept { return kept_; }

  /// Something was folded: `kept` lacks what lies before `settled_until_ns`. `length_ns` may still be exact.
  bool folded() const noexcept { return settled_count_ > 0; }
  std::int64_t settled_until_ns() const noexcept { return settled_until_ns_; }
  /// An interval was added inside the folded past later, and its overlap with what lies there is unknown.
  bool approximate() const noexcept { return uncertain_ns_ > 0; }
  /// Bound of the error of `length_ns`.
  std::int64_t uncertain_ns() const noexcept { return uncertain_ns_; }

 private:
  /// Receives what was new. Called through a pointer, so that the set is compiled once and not for each listener.
  struct listener {
    void (*call)(void* to, interval where, std::int64_t ns) = nullptr;
    void* to = nullptr;
    void operator()(interval where, std::int64_t ns) const {
      if (call != nullptr) call(to, where, ns);
    }
  };

  CUTRACE_ONE_COPY void put(interval v, listener added) {
    if (v.empty()) return;
    first_ns_ = std::min(first_ns_, v.start_ns);
    last_ns_ = std::max(last_ns_, v.end_ns);
    if (CUTRACE_UNLIKELY(v.start_ns < settled_until_ns_)) {
      settled_.fill(v, settled_until_ns_, [&](interval where, std::int64_t ns, std::int64_t uncertain_ns) {
        length_ns_ += ns;
        uncertain_ns_ += uncertain_ns;
        added(where, ns);
      });
      v.start_ns = settled_until_ns_;
      if (v.empty()) return;
    }
    if (kept_.empty() || kept_.back().end_ns < v.start_ns) {
      append(v);
      length_ns_ += v.length_ns();
      added(v, v.length_ns());
    } else {
      merge(v, added);
    }
  }

  std::int64_t settled_ns() const noexcept {
    std::int64_t kept = 0;
    for (const interval v : kept_) kept += v.length_ns();
    return length_ns_ - kept;
  }

  std::size_t first_ending_after(std::int64_t t_ns) const {
    const auto i = std::partition_point(kept_.begin(), kept_.end(), [&](interval k) { return k.end_ns <= t_ns; });
    return static_cast<std::size_t>(i - kept_.begin());
  }

  void append(interval v) {
    if (limit_ != 0 && kept_.size() >= limit_) fold();
    kept_.push_back(v);
  }

  CUTRACE_ONE_COPY void merge(interval v, const listener& added) {
    // Everything that overlaps or touches v: [low, high).
    std::size_t high = kept_.size();
    if (kept_.back().start_ns > v.end_ns)
      high = static_cast<std::size_t>(
          std::partition_point(kept_.begin(), kept_.end(), [&](interval k) { return k.start_ns <= v.end_ns; }) -
          kept_.begin());
    std::size_t low = high;
    while (low > 0 && kept_[low - 1].end_ns >= v.start_ns) --low;

    std::int64_t at_ns = v.start_ns;
    for (std::size_t i = low; i < high; ++i) {
      report({at_ns, kept_[i].start_ns}, added);
      at_ns = std::max(at_ns, kept_[i].end_ns);
    }
    report({at_ns, v.end_ns}, added);

    if (low == high) {
      if (limit_ != 0 && kept_.size() == limit_) kept_.reserve(limit_ + 1);  // else insert would double the capacity
      kept_.insert(kept_.begin() + static_cast<std::ptrdiff_t>(low), v);
      if (limit_ != 0 && kept_.size() > limit_) fold();
      return;
    }
    kept_[low] = {std::min(kept_[low].start_ns, v.start_ns), std::max(kept_[high - 1].end_ns, v.end_ns)};
    if (high - low > 1)
      kept_.erase(kept_.begin() + static_cast<std::ptrdiff_t>(low + 1),
                  kept_.begin() + static_cast<std::ptrdiff_t>(high));
  }

  void report(interval v, const listener& added) {
    if (v.empty()) return;
    length_ns_ += v.length_ns();
    added(v, v.length_ns());
  }

  CUTRACE_NOINLINE void fold() {
    const std::size_t n = kept_.size() / 2;
    for (std::size_t i = 0; i < n; ++i) settled_.add(kept_[i]);
    settled_count_ += n;
    settled_until_ns_ = kept_[n - 1].end_ns;
    kept_.erase(kept_.begin(), kept_.begin() + static_cast<std::ptrdiff_t>(n));
  }

  std::size_t limit_;
  std::vector<interval> kept_;
  std::int64_t length_ns_ = 0;
  std::int64_t first_ns_ = std::numeric_limits<std::int64_t>::max();
  std::int64_t last_ns_ = std::numeric_limits<std::int64_t>::min();
  time_bins settled_;
  std::int64_t settled_until_ns_ = std::numeric_limits<std::int64_t>::min();
  std::size_t settled_count_ = 0;
  std::int64_t uncertain_ns_ = 0;
};

}  // namespace analysis
CUTRACE_END_NAMESPACE
