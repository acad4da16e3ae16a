// SPDX-License-Identifier: Apache-2.0
// A stable sort for what is made of few ascending runs, such as the records of threads that were read in turn: a
// natural merge sort, n log(runs) steps, each of them sequential.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cutrace/config.hpp>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

/// Sorts `list`, equal elements in their order. `runs` and `other` are scratch space, which keeps its memory for the
/// next call.
template <class T, class Less>
void sort_runs(std::vector<T>& list, std::vector<std::size_t>& runs, std::vector<T>& other, Less less) {
  runs.clear();  // where each begins, and the end
  runs.push_back(0);
  for (std::size_t i = 1; i < list.size(); ++i)
    if (less(list[i], list[i - 1])) runs.push_back(i);
  if (runs.size() == 1) return;
  runs.push_back(list.size());
  other.resize(list.size());
  const auto at = [](std::vector<T>& v, std::size_t i) { return v.begin() + static_cast<std::ptrdiff_t>(i); };
  while (runs.size() > 2) {
    std::size_t kept = 1, r = 0;
    for (; r + 2 < runs.size(); r += 2) {
      std::merge(at(list, runs[r]), at(list, runs[r + 1]), at(list, runs[r + 1]), at(list, runs[r + 2]),
                 at(other, runs[r]), less);
      runs[kept++] = runs[r + 2];
    }
    if (r + 1 < runs.size()) {  // one without a partner
      std::copy(at(list, runs[r]), at(list, runs[r + 1]), at(other, runs[r]));
      runs[kept++] = runs[r + 1];
    }
    runs.resize(kept);
    list.swap(other);
  }
}

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
