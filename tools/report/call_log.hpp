// SPDX-License-Identifier: Apache-2.0
// Host calls as a trace tells them, 32 bytes each, by thread: of nested calls (the runtime's around the driver's) the
// outermost, so that a thread's list is in order and without overlap.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cutrace/analysis/category.hpp>
#include <cutrace/analysis/intervals.hpp>
#include <vector>

#include "report/containers.hpp"

CUTRACE_BEGIN_NAMESPACE
namespace analysis {

struct host_call {
  interval when;
  std::uint32_t name = 0;
  std::uint32_t stage = 0;        ///< stage_log number
  std::uint32_t correlation = 0;  ///< CUPTI's id without its epoch
  category is = category::other;
  bool failed = false;
};

class thread_calls {
 public:
  /// In the order of delivery, which is that of the ends: a nested call comes before the one around it.
  void add(host_call c) {
    while (!calls_.empty() && calls_.back().when.start_ns >= c.when.start_ns &&
           calls_.back().when.end_ns <= c.when.end_ns) {
      const host_call& inside = calls_.back();
      if (inside.is != c.is) inner_.push_back(inside);
      if (c.correlation == 0) c.correlation = inside.correlation;
      calls_.truncate(calls_.size() - 1);
    }
    if (!calls_.empty() && c.when.start_ns < calls_.back().when.end_ns) ordered_ = false;
    calls_.push_back(c);
  }

  /// Puts what came late into its place. Call it once, when all is added.
  CUTRACE_ONE_COPY void seal() {
    sort(inner_);
    if (ordered_) return;
    sort(calls_);
    std::size_t kept = 0;
    for (std::size_t i = 0; i < calls_.size(); ++i) {
      host_call c = calls_[i];
      if (kept > 0) {
        c.when.start_ns = std::max(c.when.start_ns, calls_[kept - 1].when.end_ns);
        if (c.when.empty()) {  // nested
          if (c.is != calls_[kept - 1].is) inner_.push_back(calls_[i]);
          continue;
        }
      }
      calls_[kept++] = c;
    }
    calls_.truncate(kept);
    sort(inner_);
    ordered_ = true;
  }

  const chunked<host_call>& calls() const noexcept { return calls_; }
  /// Nested calls of another category than the call around them, by start: loading a module inside of a launch.
  const chunked<host_call>& inner() const noexcept { return inner_; }

  template <class Each>
  void for_each(Each&& each) {
    for (chunked<host_call>* list : {&calls_, &inner_})
      for (std::size_t i = 0; i < list->size(); ++i) each((*list)[i]);
  }

  /// First call that ends after `t_ns`; `size()` where there is none. @param hint a place near it.
  std::size_t ending_after(std::int64_t t_ns, std::size_t hint) const noexcept {
    return search_near(calls_.size(), hint, [&](std::size_t i) { return calls_[i].when.end_ns <= t_ns; });
  }

  std::size_t memory_bytes() const noexcept { return calls_.memory_bytes() + inner_.memory_bytes(); }

 private:
  static CUTRACE_ONE_COPY void sort(chunked<host_call>& list) {
    const auto before = [](const host_call& a, const host_call& b) {
      return a.when.start_ns != b.when.start_ns ? a.when.start_ns < b.when.start_ns : a.when.end_ns > b.when.end_ns;
    };
    bool sorted = true;
    for (std::size_t i = 1; i < list.size() && sorted; ++i) sorted = !before(list[i], list[i - 1]);
    if (sorted) return;
    std::vector<host_call> flat;
    flat.reserve(list.size());
    for (std::size_t i = 0; i < list.size(); ++i) flat.push_back(list[i]);
    std::sort(flat.begin(), flat.end(), before);
    for (std::size_t i = 0; i < flat.size(); ++i) list[i] = flat[i];
  }

  chunked<host_call> calls_;
  chunked<host_call> inner_;
  bool ordered_ = true;
};

}  // namespace analysis
CUTRACE_END_NAMESPACE
