// SPDX-License-Identifier: Apache-2.0
// A stable sort for what is made of few ascending runs, such as the records of threads that were read in turn: a
// natural merge sort. Runs that were read later lie behind those before them but for a few elements, and only what
// overlaps is moved.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cutrace/config.hpp>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

/// Sorts [from, to), which is two ascending runs that meet at `middle`, neither of them empty. `scratch`: any.
template <class T, class Less>
void merge_runs(T* from, T* middle, T* to, std::vector<T>& scratch, Less less) {
  from = std::upper_bound(from, middle, *middle, less);
  if (from == middle) return;
  to = std::lower_bound(middle, to, middle[-1], less);
  scratch.assign(from, middle);
  const T *a = scratch.data(), *b = middle;
  const T* const a_end = a + scratch.size();
  // The last one of the two comes from `a`. No branch on the comparison: which of two threads was first is what no
  // processor predicts.
  while (b != to) {
    const bool second = less(*b, *a);
    *from++ = *(second ? b : a);
    a += second ? 0 : 1;
    b += second ? 1 : 0;
  }
  std::copy(a, a_end, from);
}

/// Sorts `list`, equal elements in their order. `runs` and `scratch` keep their memory for the next call.
template <class T, class Less>
void sort_runs(std::vector<T>& list, std::vector<std::size_t>& runs, std::vector<T>& scratch, Less less) {
  runs.clear();  // where each begins, and the end
  runs.push_back(0);
  for (std::size_t i = 1; i < list.size(); ++i)
    if (less(list[i], list[i - 1])) runs.push_back(i);
  runs.push_back(list.size());
  T* const from = list.data();
  while (runs.size() > 2) {
    std::size_t kept = 1;
    for (std::size_t r = 2; r < runs.size(); r += 2) {
      merge_runs(from + runs[r - 2], from + runs[r - 1], from + runs[r], scratch, less);
      runs[kept++] = runs[r];
    }
    if (runs.size() % 2 == 0) runs[kept++] = runs.back();  // one without a partner
    runs.resize(kept);
  }
}

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
