// SPDX-License-Identifier: Apache-2.0
// GPU work of one instance of a stage while the trace runs: what instance_work (tools/report/stage_costs.hpp) computes
// for a whole trace, here with unions that take intervals in any order.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cutrace/analysis/gpu_work.hpp>
#include <cutrace/analysis/interval_set.hpp>
#include <cutrace/analysis/intervals.hpp>
#include <cutrace/analysis/names.hpp>
#include <deque>
#include <utility>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace analysis {

// When recent calls of the host ended, by thread: of nested ones (the runtime's around the driver's) the outermost, as
// trace_log.hpp keeps them for a whole trace. 16 bytes a call, a fixed number of them.

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

  /// Drops the older half of each thread's calls.
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
  detail::seeded_map<std::uint64_t, std::deque<interval>> threads_;
};

class stage_work {
 public:
  /// @param v the event's times
  void add(const event& e, interval v) {
    const work_class is = class_of(e, false);
    gpu_.insert(v);
    if (is_kernel(is)) execution_.insert(v);
    if (is_copy(is)) transfer_.insert(v);
    until_ns_ = std::max(until_ns_, v.end_ns);
  }

  /// Adds work that starts after its call began. The end of the outermost call is known only when that call has ended.
  void add_launch(std::uint64_t thread, std::int64_t call_ns, std::int64_t start_ns) {
    if (call_ns < start_ns) launches_.push_back({thread, call_ns, start_ns});
  }
  std::size_t launches() const noexcept { return launches_.size(); }

  /// Turns launches into time in the queue. True where none of the launching calls can have been forgotten.
  bool resolve(const outer_calls& calls) {
    bool known = true;
    std::vector<interval> waiting;
    for (const launch& l : launches_) {
      waiting.push_back({calls.end_of(l.thread, l.call_ns), l.start_ns});
      known = known && l.call_ns >= calls.complete_since_ns();
    }
    for (const interval v : merged(std::move(waiting))) queue_.insert(v);
    launches_ = std::vector<launch>();
    return known;
  }

  std::int64_t gpu_ns() const noexcept { return gpu_.length_ns(); }
  std::int64_t execution_ns() const noexcept { return execution_.length_ns(); }
  std::int64_t transfer_ns() const noexcept { return transfer_.length_ns(); }
  /// After `resolve`.
  std::int64_t queue_ns() const noexcept { return queue_.length_ns(); }
  /// End of the last work, INT64_MIN where there is none.
  std::int64_t until_ns() const noexcept { return until_ns_; }
  bool approximate() const noexcept {
    return gpu_.approximate() || execution_.approximate() || transfer_.approximate() || queue_.approximate();
  }

 private:
  struct launch {
    std::uint64_t thread;
    std::int64_t call_ns, start_ns;
  };
  static constexpr std::size_t kept = 32, bins = 64;

  interval_set gpu_{kept, bins}, execution_{kept, bins}, transfer_{kept, bins}, queue_{kept, bins};
  std::vector<launch> launches_;
  std::int64_t until_ns_ = INT64_MIN;
};

}  // namespace analysis
CUTRACE_END_NAMESPACE
