// SPDX-License-Identifier: Apache-2.0
// Binary search that starts from a guess and doubles its steps away from it: O(1) for callers who move through a sorted
// list in nearly its order, O(log n) for all others.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cutrace/config.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace analysis {

/// First of `n` places for which `before(place)` is false, `n` where there is none. `before` must be true up to some
/// place and false from there on.
template <class Before>
std::size_t search_near(std::size_t n, std::size_t hint, Before&& before) {
  std::size_t low = std::min(hint, n), high = low, step = 1;
  if (low < n && before(low)) {
    for (; high < n && before(high); step *= 2) {
      low = high + 1;
      high = std::min(n, high + step);
    }
  } else {
    for (; low > 0 && !before(low - 1); step *= 2) {
      high = low - 1;
      low = low > step ? low - step : 0;
    }
  }
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    if (before(middle))
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

}  // namespace analysis
CUTRACE_END_NAMESPACE
