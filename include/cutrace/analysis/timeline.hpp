// SPDX-License-Identifier: Apache-2.0
// Rows of coloured time for a chart of fixed width, in fixed memory: for each row and each colour of it a histogram
// over time. Exact up to the width of a bin, a fraction of a column.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cutrace/analysis/time_bins.hpp>
#include <map>
#include <utility>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace analysis {

/// What a column of a row shows: the colour that fills most of it, and how much of it has any.
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

  /// Column `c` of `columns` in `window`; together they are all of it.
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
