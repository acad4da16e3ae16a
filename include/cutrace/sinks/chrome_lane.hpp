// SPDX-License-Identifier: Apache-2.0
// Which slices may share one row of a viewer that reads rows as call stacks. Partly overlapping slices on one row are
// dropped or shown as errors there, so each row of the trace is split into as many lanes as it needs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cutrace/config.hpp>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace detail {

/// One lane. Remembers the outermost slices placed so far, in order; slices come roughly by their end. Bounded: when
/// there are too many, neighbours are joined, which can only refuse more than needed, never too little.
class slice_lane {
 public:
  /// `nesting`: slices may lie within each other (calls of a thread). Otherwise they may only follow each other (GPU).
  explicit slice_lane(bool nesting) : nesting_(nesting) {}

  /// Takes the half-open slice if it fits. `owner` names what directly encloses it (a stage), 0 nothing: neighbours
  /// with one owner are never parted by a later slice, so joining them loses nothing. `apart`: nor does it fit if one
  /// begins where it ends.
  bool place(std::int64_t start_ns, std::int64_t end_ns, std::uint64_t owner, bool apart = false) {
    if (CUTRACE_LIKELY(taken_.empty() || taken_.back().end_ns <= start_ns)) {
      taken_.emplace_back(start_ns, end_ns, owner);
      if (CUTRACE_UNLIKELY(taken_.size() > limit)) compact();
      return true;
    }
    return place_between(start_ns, end_ns, owner, apart);
  }

 private:
  struct interval {
    /// Made where it stays: g++ 12 would store the parts of a copy one by one and read them back together.
    interval(std::int64_t start, std::int64_t end, std::uint64_t by) noexcept
        : start_ns(start), end_ns(end), owner(by) {}
    std::int64_t start_ns;
    std::int64_t end_ns;
    std::uint64_t owner;
  };
  static constexpr std::size_t limit = 512;
  static constexpr std::size_t recent = 64;  // a runtime call still encloses the driver calls right before it

  bool place_between(std::int64_t start_ns, std::int64_t end_ns, std::uint64_t owner, bool apart) {
    std::size_t first = taken_.size();  // slices from here on end after our start
    bool inside = false;
    while (first > 0 && taken_[first - 1].end_ns > start_ns) {
      const interval& other = taken_[first - 1];
      if (other.start_ns < end_ns) {
        if (!nesting_ || !encloses(start_ns, end_ns, other)) return false;
        inside = true;
      } else if (apart && other.start_ns == end_ns) {
        return false;
      }
      --first;
    }
    std::size_t last = first;  // what we enclose is [first, last)
    while (inside && last < taken_.size() && taken_[last].start_ns < end_ns) ++last;
    const auto at = taken_.begin() + static_cast<std::ptrdiff_t>(first);
    if (first == last) {
      taken_.insert(at, interval(start_ns, end_ns, owner));
      if (taken_.size() > limit) compact();
    } else {
      *at = interval(start_ns, end_ns, owner);
      taken_.erase(at + 1, taken_.begin() + static_cast<std::ptrdiff_t>(last));
    }
    return true;
  }

  /// A parent that begins in the same nanosecond as its child would have to stand before it in the file, and the child
  /// is written already; only an equal slice may.
  static bool encloses(std::int64_t start_ns, std::int64_t end_ns, const interval& inner) noexcept {
    if (inner.start_ns == start_ns) return inner.end_ns == end_ns;
    return start_ns < inner.start_ns && inner.end_ns <= end_ns;
  }

  void compact() {
    join([](const interval& a, const interval& b) { return a.owner == b.owner; });
    if (taken_.size() > limit / 2) join([](const interval&, const interval&) { return true; });
  }

  template <class Same>
  void join(Same same) {
    const std::size_t old = taken_.size() - recent;
    std::size_t to = 0;
    for (std::size_t from = 1; from < taken_.size(); ++from) {
      if (from < old && same(taken_[to], taken_[from])) {
        taken_[to].end_ns = taken_[from].end_ns;
      } else {
        taken_[++to] = taken_[from];
      }
    }
    taken_.erase(taken_.begin() + static_cast<std::ptrdiff_t>(to + 1), taken_.end());
  }

  std::vector<interval> taken_;
  bool nesting_;
};

}  // namespace detail
CUTRACE_END_NAMESPACE
