// SPDX-License-Identifier: Apache-2.0
// Arithmetic of half-open intervals in integer nanoseconds: union, intersection, clipping, gaps. Functions over whole
// lists; interval_set.hpp has the incremental form.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cutrace/event.hpp>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace analysis {

/// [start_ns, end_ns); empty when end_ns <= start_ns.
struct interval {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;

  std::int64_t length_ns() const noexcept { return end_ns > start_ns ? end_ns - start_ns : 0; }
  bool empty() const noexcept { return end_ns <= start_ns; }
};
inline bool operator==(interval a, interval b) noexcept { return a.start_ns == b.start_ns && a.end_ns == b.end_ns; }
inline bool operator!=(interval a, interval b) noexcept { return !(a == b); }

/// Part of `v` inside `window`; empty where they do not meet.
inline interval clip(interval v, interval window) noexcept {
  return {std::max(v.start_ns, window.start_ns), std::min(v.end_ns, window.end_ns)};
}

/// Whether a call that took the time `v` was made in one that took `around`. A call without length (of a coarse clock)
/// at the begin or end of another came before or after.
inline bool is_nested(interval v, interval around) noexcept {
  if (v.empty()) return around.start_ns < v.start_ns && v.start_ns < around.end_ns;
  return around.start_ns <= v.start_ns && v.end_ns <= around.end_ns;
}

/// A time, clamped to 2^60 ns (36 years) on both sides, so that differences of hostile times never overflow.
inline std::int64_t time_of(std::int64_t t_ns) noexcept {
  constexpr std::int64_t limit_ns = std::int64_t{1} << 60;
  return std::max(-limit_ns, std::min(limit_ns, t_ns));
}
/// Times of an event, clamped likewise.
inline interval interval_of(const event& e) noexcept { return {time_of(e.start_ns), time_of(e.end_ns)}; }

/// `total += ns`, at most a quarter of the largest number: hostile times must not overflow, nor the sum of two totals.
inline void add_ns(std::int64_t& total, std::int64_t ns) noexcept {
  constexpr std::int64_t limit_ns = INT64_MAX / 4;
  if (__builtin_add_overflow(total, ns, &total) || total > limit_ns) total = limit_ns;
}

/// The union of `list`, sorted and without overlap; intervals that touch become one, empty ones vanish. O(n log n).
CUTRACE_ONE_COPY inline std::vector<interval> merged(std::vector<interval> list) {
  std::sort(list.begin(), list.end(), [](interval a, interval b) { return a.start_ns < b.start_ns; });
  std::size_t kept = 0;
  for (const interval v : list) {
    if (v.empty()) continue;
    if (kept > 0 && v.start_ns <= list[kept - 1].end_ns)
      list[kept - 1].end_ns = std::max(list[kept - 1].end_ns, v.end_ns);
    else
      list[kept++] = v;
  }
  list.resize(kept);
  return list;
}

/// Length of the union of any list.
inline std::int64_t union_length_ns(std::vector<interval> list) {
  std::int64_t total = 0;
  for (const interval v : merged(std::move(list))) total += v.length_ns();
  return total;
}

/// The time in both of two merged lists, sorted and without overlap. O(n + m).
inline std::vector<interval> intersection(const std::vector<interval>& a, const std::vector<interval>& b) {
  std::vector<interval> both;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const interval v = clip(a[i], b[j]);
    if (!v.empty()) both.push_back(v);
    if (a[i].end_ns < b[j].end_ns)
      ++i;
    else
      ++j;
  }
  return both;
}

/// Length of the time in both of two merged lists. O(n + m).
inline std::int64_t intersection_length_ns(const std::vector<interval>& a, const std::vector<interval>& b) {
  std::int64_t total = 0;
  for (const interval v : intersection(a, b)) total += v.length_ns();
  return total;
}

/// Adds `v`, which starts no earlier than those before it, to a union of intervals.
inline void append_merged(std::vector<interval>& list, interval v) {
  if (!list.empty() && v.start_ns <= list.back().end_ns)
    list.back().end_ns = std::max(list.back().end_ns, v.end_ns);
  else
    list.push_back(v);
}

/// What a merged list leaves free of `window`, in order.
inline std::vector<interval> gaps(const std::vector<interval>& list, interval window) {
  std::vector<interval> free;
  std::int64_t at = window.start_ns;
  for (const interval whole : list) {
    const interval v = clip(whole, window);
    if (v.empty()) continue;
    if (v.start_ns > at) free.push_back({at, v.start_ns});
    at = v.end_ns;
  }
  if (at < window.end_ns) free.push_back({at, window.end_ns});
  return free;
}

/// Shortens a merged list to at most `keep` intervals, at least one, by filling its smallest gaps. Returns the
/// nanoseconds filled.
CUTRACE_NOINLINE inline std::int64_t fill_small_gaps(std::vector<interval>& list, std::size_t keep) {
  if (list.size() <= std::max<std::size_t>(keep, 1)) return 0;
  const std::size_t excess = list.size() - std::max<std::size_t>(keep, 1);
  std::vector<std::int64_t> widths;
  widths.reserve(list.size() - 1);
  for (std::size_t i = 1; i < list.size(); ++i) widths.push_back(list[i].start_ns - list[i - 1].end_ns);
  const auto last = widths.begin() + static_cast<std::ptrdiff_t>(excess - 1);
  std::nth_element(widths.begin(), last, widths.end());
  const std::int64_t widest = *last;
  std::int64_t filled = 0;
  std::size_t kept = 1;
  for (std::size_t i = 1; i < list.size(); ++i) {
    const std::int64_t gap = list[i].start_ns - list[kept - 1].end_ns;
    if (gap <= widest) {
      filled += gap;
      list[kept - 1].end_ns = list[i].end_ns;
    } else {
      list[kept++] = list[i];
    }
  }
  list.resize(kept);
  return filled;
}

}  // namespace analysis
CUTRACE_END_NAMESPACE
