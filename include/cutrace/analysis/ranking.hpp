// SPDX-License-Identifier: Apache-2.0
// The order of a table's rows, largest first. Sorting small keys in one place, instead of the rows of each table, keeps
// rows with names where they are and compiles one sort.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cutrace/config.hpp>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace analysis {

/// Row `index` and the two numbers that place it.
struct ranked {
  std::int64_t first = 0;
  std::int64_t second = 0;
  std::uint32_t index = 0;
};

/// Largest `first` in front, then largest `second`, then smallest index.
CUTRACE_NOINLINE inline void rank(std::vector<ranked>& rows) {
  std::sort(rows.begin(), rows.end(), [](const ranked& a, const ranked& b) {
    if (a.first != b.first) return a.first > b.first;
    return a.second != b.second ? a.second > b.second : a.index < b.index;
  });
}

}  // namespace analysis
CUTRACE_END_NAMESPACE
