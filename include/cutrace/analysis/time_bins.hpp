// SPDX-License-Identifier: Apache-2.0
// How much of each slot of time was in use: a histogram over time with a fixed number of bins. The bin width
// starts at 1 ns and doubles whenever the trace outgrows the bins, so memory stays fixed for a trace of any length.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cutrace/analysis/intervals.hpp>
#include <limits>
#include <map>
#include <utility>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace analysis {

class time_bins {
 public:
  /// @param count bins at most, at least 2. Storage is taken at the first use.
  explicit time_bins(std::size_t count = 512) noexcept : count_(count < 2 ? 2 : count) {}

  bool empty() const noexcept { return ns_.empty(); }
  std::int64_t width_ns() const noexcept { return std::int64_t{1} << shift_; }

  /// Adds the length of `v` to the bins that it crosses. Sums: overlapping additions may exceed a bin's width.
  void add(interval v) {
    if (v.empty()) return;
    const std::int64_t b0 = index(v.start_ns) - first_;
    if (CUTRACE_LIKELY(b0 >= 0 && b0 < static_cast<std::int64_t>(ns_.size()) && v.end_ns <= bin(b0 + first_).end_ns)) {
      add_ns(ns_[static_cast<std::size_t>(b0)], v.length_ns());  // most events are much shorter than a bin
      return;
    }
    fit(v);
    for (std::int64_t b = index(v.start_ns); b <= index(v.end_ns - 1); ++b) add_ns(at(b), clip(v, bin(b)).length_ns());
  }

  /// Adds `v` to the union of what is covered. Only the length of a bin's covered part is known, not its place. The
  /// last bin is cut at `until_ns`. Calls `covered(part_of_v, added_ns, uncertain_ns)` for each bin: exact (uncertain
  /// 0) where the bin was empty or is crossed whole, else an estimate that is off by at most uncertain_ns.
  template <class Covered>
  void fill(interval v, std::int64_t until_ns, Covered&& covered) {
    v.end_ns = v.end_ns < until_ns ? v.end_ns : until_ns;
    if (v.empty()) return;
    fit(v);
    for (std::int64_t b = index(v.start_ns); b <= index(v.end_ns - 1); ++b) {
      const interval whole = clip(bin(b), {std::numeric_limits<std::int64_t>::min(), until_ns});
      const interval part = clip(v, whole);
      std::int64_t& ns = at(b);
      const std::int64_t room = whole.length_ns() - ns;
      if (room <= 0) continue;
      const std::int64_t least = part.length_ns() > ns ? part.length_ns() - ns : 0;
      const std::int64_t most = part.length_ns() < room ? part.length_ns() : room;
      const std::int64_t added = least == most ? most : scaled(part.length_ns(), room, whole.length_ns());
      ns += added;
      covered(part, added, most - least);
    }
  }

  /// Estimate of what lies inside `v`: whole bins exactly, the two at its ends in proportion. No bin reaches beyond
  /// `until_ns`.
  std::int64_t measure_ns(interval v, std::int64_t until_ns = std::numeric_limits<std::int64_t>::max()) const {
    if (v.empty() || ns_.empty()) return 0;
    const std::int64_t last_bin = first_ + static_cast<std::int64_t>(ns_.size()) - 1;
    std::int64_t total = 0;
    for (std::int64_t b = std::max(index(v.start_ns), first_); b <= std::min(index(v.end_ns - 1), last_bin); ++b) {
      const interval whole = clip(bin(b), {std::numeric_limits<std::int64_t>::min(), until_ns});
      const std::int64_t ns = ns_[static_cast<std::size_t>(b - first_)];
      if (!whole.empty()) add_ns(total, scaled(ns, clip(v, whole).length_ns(), whole.length_ns()));
    }
    return total;
  }

  /// `value * part / whole` for parts of a bin; doubles only where integers would overflow.
  static std::int64_t scaled(std::int64_t value, std::int64_t part, std::int64_t whole) noexcept {
    constexpr std::int64_t modest = std::int64_t{1} << 31;
    if (part == whole) return value;
    if (value < modest && part < modest) return value * part / whole;
    return static_cast<std::int64_t>(static_cast<double>(value) * static_cast<double>(part) /
                                     static_cast<double>(whole));
  }

 private:
  // Bins sit on multiples of their width, so that two of them always become one. Right shift of a negative number
  // rounds down on every compiler that the library supports.
  std::int64_t index(std::int64_t t_ns) const noexcept { return t_ns >> shift_; }
  interval bin(std::int64_t b) const noexcept { return {b * width_ns(), (b + 1) * width_ns()}; }
  std::int64_t& at(std::int64_t b) { return ns_[static_cast<std::size_t>(b - first_)]; }

  void fit(interval v) {
    if (ns_.empty()) {
      ns_.reserve(count_);
      while (index(v.end_ns - 1) - index(v.start_ns) >= static_cast<std::int64_t>(count_)) ++shift_;
      first_ = index(v.start_ns);
      ns_.resize(1);
    }
    for (;;) {
      const std::int64_t low = std::min(first_, index(v.start_ns));
      const std::int64_t high = std::max(first_ + static_cast<std::int64_t>(ns_.size()) - 1, index(v.end_ns - 1));
      if (high - low < static_cast<std::int64_t>(count_)) {
        if (low < first_) ns_.insert(ns_.begin(), static_cast<std::size_t>(first_ - low), 0);
        first_ = low;
        ns_.resize(static_cast<std::size_t>(high - low + 1));
        return;
      }
      coarsen();
    }
  }

  CUTRACE_NOINLINE void coarsen() {
    const std::int64_t first = first_ >> 1;
    std::size_t used = 0;
    for (std::size_t i = 0; i < ns_.size(); ++i) {
      const std::int64_t ns = ns_[i];
      ns_[i] = 0;
      const std::size_t j = static_cast<std::size_t>(((first_ + static_cast<std::int64_t>(i)) >> 1) - first);
      add_ns(ns_[j], ns);
      used = j + 1;
    }
    ns_.resize(used);
    first_ = first;
    ++shift_;
  }

  std::size_t count_;
  int shift_ = 0;
  std::int64_t first_ = 0;  ///< index of ns_[0], in multiples of the width
  std::vector<std::int64_t> ns_;
};

// Rows of coloured time for a chart of fixed width, in fixed memory: for each row and each colour of it a histogram
// over time. Exact to one bin, which is narrower than a column.

/// What a column of a row shows: the colour with the largest share, and the time of all colours.
struct timeline_cell {
  std::uint32_t color = 0;  ///< of the largest share; valid where ns > 0
  std::int64_t ns = 0;      ///< of all colours; more than the column has where work ran in parallel
};

class timeline_row {
 public:
  /// @param bins a few times the columns of the chart.
  explicit timeline_row(std::size_t bins = 1024) noexcept : bins_(bins) {}

  void add(interval v, std::uint32_t color) {
    if (v.empty()) return;
    auto found = colors_.find(color);
    if (found == colors_.end()) found = colors_.emplace(color, time_bins(bins_)).first;
    found->second.add(v);
  }

  /// The row in `columns` equal parts of `window`.
  CUTRACE_NOINLINE std::vector<timeline_cell> cells(interval window, std::size_t columns) const {
    std::vector<timeline_cell> list(columns);
    for (std::size_t c = 0; c < columns; ++c) {
      const interval column = part(window, c, columns);
      std::int64_t most = 0;
      for (const auto& color : colors_) {
        const std::int64_t ns = color.second.measure_ns(column);
        list[c].ns += ns;
        if (ns > most) {
          most = ns;
          list[c].color = color.first;
        }
      }
    }
    return list;
  }

  /// Column `c` of `columns` in `window`; the columns together cover all of `window`.
  static interval part(interval window, std::size_t c, std::size_t columns) noexcept {
    const auto edge = [&](std::size_t k) {
      const std::int64_t n = static_cast<std::int64_t>(columns), i = static_cast<std::int64_t>(k);
      return window.start_ns + window.length_ns() / n * i + window.length_ns() % n * i / n;
    };
    return {edge(c), edge(c + 1)};
  }

 private:
  std::size_t bins_;
  std::map<std::uint32_t, time_bins> colors_;
};

}  // namespace analysis
CUTRACE_END_NAMESPACE
