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

/// std::merge without a branch on the comparison: which of two threads was first is what no processor predicts.
template <class T, class Less>
void merge_runs(const T* a, const T* a_end, const T* b, const T* b_end, T* to, Less less) {
  while (a != a_end && b != b_end) {
    const bool second = less(*b, *a);
    const T* const first_of_both = second ? b : a;
    *to++ = *first_of_both;
    a += second ? 0 : 1;
    b += second ? 1 : 0;
  }
  std::copy(b, b_end, std::copy(a, a_end, to));
}

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
  while (runs.size() > 2) {
    const T* const from = list.data();
    std::size_t kept = 1, r = 0;
    for (; r + 2 < runs.size(); r += 2) {
      const T* const middle = from + runs[r + 1];
      merge_runs(from + runs[r], middle, middle, from + runs[r + 2], other.data() + runs[r], less);
      runs[kept++] = runs[r + 2];
    }
    if (r + 1 < runs.size()) {  // one without a partner
      std::copy(from + runs[r], from + runs[r + 1], other.data() + runs[r]);
      runs[kept++] = runs[r + 1];
    }
    runs.resize(kept);
    list.swap(other);
  }
}

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
