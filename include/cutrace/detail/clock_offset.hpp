// SPDX-License-Identifier: Apache-2.0
// How far one clock is ahead of another, as measured at some moments: linear in between, and on with the last slope.
// One thread at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cutrace/clock.hpp>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

class clock_offset {
 public:
  struct point {
    std::uint64_t raw_ns;
    std::int64_t offset_ns;
  };

  bool empty() const noexcept { return points_.empty(); }
  const point& newest() const noexcept { return points_.back(); }

  /// Later than all before.
  CUTRACE_NOINLINE void add(const point& p) {
    points_.push_back(p);
    if (points_.size() > kept_points) thin_out();
    for (step& s : steps_) s.size_ns = 0;
  }

  /// In ns, rounded towards the earlier measurement's offset; 0 where nothing was measured.
  ///
  /// Clocks drift by parts of a million, so the result is the same for some 100 us at a time. What was found last is
  /// kept with the times that it holds for: two divisions a time and event were a fifth of the collector's
  /// instructions.
  CUTRACE_INLINE std::int64_t at(std::uint64_t raw_ns) const noexcept {
    step& s = steps_[raw_ns / step_ns % step_count];
    if (CUTRACE_LIKELY(raw_ns - s.first_ns < s.size_ns)) return s.offset_ns;
    return find(raw_ns, s);
  }

 private:
  /// Times [first, first + size) with one offset.
  struct step {
    std::uint64_t first_ns = 0, size_ns = 0;
    std::int64_t offset_ns = 0;
  };
  static constexpr std::size_t kept_points = 4096;
  static constexpr std::uint64_t step_ns = std::uint64_t{1} << 17;
  static constexpr std::size_t step_count = 8;

  CUTRACE_ONE_COPY std::int64_t find(std::uint64_t raw, step& found) const noexcept {
    if (points_.size() < 2) {
      found = {0, ~std::uint64_t{0}, points_.empty() ? 0 : points_.front().offset_ns};
      return found.offset_ns;
    }
    std::size_t i = points_.size() - 1;  // segment [i-1, i]; most times lie in the last few
    while (i > 1 && raw < points_[i - 1].raw_ns) {
      if (points_.size() - i > 8) {
        const auto at = std::upper_bound(points_.begin(), points_.end(), raw,
                                         [](std::uint64_t v, const point& p) { return v < p.raw_ns; });
        i = std::max<std::size_t>(
            1, std::min<std::size_t>(points_.size() - 1, static_cast<std::size_t>(at - points_.begin())));
        break;
      }
      --i;
    }
    const point& a = points_[i - 1];
    const point& b = points_[i];
    if (raw < a.raw_ns) return a.offset_ns;  // before the first measurement
    const clock::int128 rise = b.offset_ns - a.offset_ns;
    const clock::int128 run = static_cast<std::int64_t>(b.raw_ns - a.raw_ns);
    const std::int64_t since = static_cast<std::int64_t>(raw - a.raw_ns);
    const std::int64_t risen = static_cast<std::int64_t>(rise * since / run);
    const std::int64_t offset = a.offset_ns + risen;
    if (since < 0) return offset;  // no time at all

    // Which times have risen as far: the division rounds towards 0, and both ends are found with one that rounds up.
    const std::uint64_t end = i + 1 < points_.size() ? b.raw_ns - a.raw_ns : INT64_MAX;
    std::uint64_t first = 0, last = end;
    if (rise != 0) {
      const clock::int128 steep = rise < 0 ? -rise : rise;
      const clock::int128 level = risen < 0 ? -static_cast<clock::int128>(risen) : risen;
      first = static_cast<std::uint64_t>((level * run + steep - 1) / steep);
      const clock::int128 next = ((level + 1) * run + steep - 1) / steep;
      if (next < end) last = static_cast<std::uint64_t>(next);
    }
    found = {a.raw_ns + first, last - first, offset};
    return offset;
  }

  /// Halves the resolution of the older half: a stage that began hours ago still finds its segment.
  CUTRACE_NOINLINE void thin_out() {
    std::vector<point> kept;
    kept.reserve(points_.size());
    const std::size_t half = points_.size() / 2;
    for (std::size_t i = 0; i < points_.size(); ++i)
      if (i == 0 || i >= half || i % 2 == 0) kept.push_back(points_[i]);
    points_.swap(kept);
  }

  std::vector<point> points_;
  mutable step steps_[step_count];
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
