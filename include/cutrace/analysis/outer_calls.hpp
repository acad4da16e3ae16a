// SPDX-License-Identifier: Apache-2.0
// When recent calls of the host ended, by thread: of nested ones (the runtime's around the driver's) the outermost, as
// call_log.hpp keeps them for a whole trace. 16 bytes a call, a fixed number of them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cutrace/analysis/intervals.hpp>
#include <deque>
#include <unordered_map>

CUTRACE_BEGIN_NAMESPACE
namespace analysis {

class outer_calls {
 public:
  /// @param limit calls kept of all threads together
  explicit outer_calls(std::size_t limit) : limit_(limit) {}

  /// In the order of delivery, which is that of the ends; what comes late is put into its place.
  void add(std::uint64_t thread, interval v) {
    std::deque<interval>& list = threads_[thread];
    while (!list.empty() && list.back().start_ns >= v.start_ns && list.back().end_ns <= v.end_ns) {
      list.pop_back();
      --size_;
    }
    if (list.empty() || list.back().end_ns <= v.start_ns) {
      list.push_back(v);
      ++size_;
    } else {
      insert_late(list, v);
    }
    if (CUTRACE_UNLIKELY(size_ > limit_)) forget();
  }

  /// End of the call of `thread` that ran at `begin_ns`; `begin_ns` itself where no such call is known.
  std::int64_t end_of(std::uint64_t thread, std::int64_t begin_ns) const {
    const auto of = threads_.find(thread);
    if (of == threads_.end()) return begin_ns;
    const auto at =
        std::partition_point(of->second.begin(), of->second.end(), [&](interval v) { return v.end_ns <= begin_ns; });
    return at != of->second.end() && at->start_ns <= begin_ns ? at->end_ns : begin_ns;
  }

  /// Calls that began earlier may have been forgotten.
  std::int64_t complete_since_ns() const noexcept { return forgotten_ns_; }

 private:
  CUTRACE_NOINLINE void insert_late(std::deque<interval>& list, interval v) {
    auto at = std::partition_point(list.begin(), list.end(), [&](interval c) { return c.start_ns < v.start_ns; });
    if (at != list.begin() && std::prev(at)->end_ns >= v.end_ns) return;  // nested in one that came before
    while (at != list.end() && at->end_ns <= v.end_ns) {
      at = list.erase(at);
      --size_;
    }
    if (at != list.begin()) v.start_ns = std::max(v.start_ns, std::prev(at)->end_ns);
    if (v.empty()) return;
    list.insert(at, v);
    ++size_;
  }

  /// The older half of each thread's goes.
  CUTRACE_NOINLINE void forget() {
    for (auto t = threads_.begin(); t != threads_.end();) {
      std::deque<interval>& list = t->second;
      const std::size_t n = (list.size() + 1) / 2;
      if (n > 0) forgotten_ns_ = std::max(forgotten_ns_, list[n - 1].end_ns);
      list.erase(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(n));
      size_ -= n;
      t = list.empty() ? threads_.erase(t) : std::next(t);
    }
  }

  std::size_t limit_;
  std::size_t size_ = 0;
  std::int64_t forgotten_ns_ = INT64_MIN;
  std::unordered_map<std::uint64_t, std::deque<interval>> threads_;
};

}  // namespace analysis
CUTRACE_END_NAMESPACE
