// SPDX-License-Identifier: Apache-2.0
// Sorting what is nearly sorted, as all that a trace delivers: by its end, in order on each stream and thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cutrace/config.hpp>
#include <utility>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace analysis {

/// By `key(element)`, equal ones in their order. Insertion as long as that is cheap, O(n log n) otherwise.
template <class T, class Key>
void sort_nearly(std::vector<T>& list, Key&& key) {
  std::size_t moves = 0;
  for (std::size_t i = 1; i < list.size(); ++i) {
    const T v = list[i];
    const std::int64_t k = key(v);
    std::size_t to = i;
    for (; to > 0 && key(list[to - 1]) > k; --to) list[to] = list[to - 1];
    list[to] = v;
    moves += i - to;
    if (moves <= 4 * i + 4096) continue;
    std::stable_sort(list.begin(), list.end(), [&](const T& a, const T& b) { return key(a) < key(b); });
    return;
  }
}

/// One order of several nearly sorted lists: those of streams or threads. Takes the lists apart.
template <class Key>
std::vector<std::uint32_t> merge_nearly_sorted(std::vector<std::vector<std::uint32_t>>& lists, Key&& key) {
  struct head {
    std::int64_t key;
    std::size_t list, at;
  };
  const auto later = [](const head& a, const head& b) { return a.key > b.key; };
  std::vector<head> heads;
  std::size_t total = 0;
  for (std::size_t l = 0; l < lists.size(); ++l) {
    sort_nearly(lists[l], key);
    total += lists[l].size();
    if (!lists[l].empty()) heads.push_back({key(lists[l][0]), l, 0});
  }
  if (heads.size() == 1) return std::move(lists[heads[0].list]);
  std::vector<std::uint32_t> merged_list;
  merged_list.reserve(total);
  std::make_heap(heads.begin(), heads.end(), later);
  while (!heads.empty()) {
    std::pop_heap(heads.begin(), heads.end(), later);
    head& h = heads.back();
    // As long as no other list has anything before it, from the same one.
    const std::vector<std::uint32_t>& from = lists[h.list];
    const std::int64_t limit = heads.size() == 1 ? INT64_MAX : heads.front().key;
    do {
      merged_list.push_back(from[h.at++]);
      if (h.at < from.size()) h.key = key(from[h.at]);
    } while (h.at < from.size() && h.key <= limit);
    if (h.at == from.size())
      heads.pop_back();
    else
      std::push_heap(heads.begin(), heads.end(), later);
  }
  lists.clear();
  return merged_list;
}

}  // namespace analysis
CUTRACE_END_NAMESPACE
