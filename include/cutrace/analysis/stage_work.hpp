// SPDX-License-Identifier: Apache-2.0
// GPU work of one instance of a stage while the trace runs: what instance_work (stage_costs.hpp) is of a whole trace,
// as unions that take their parts in any order.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cutrace/analysis/gpu_work.hpp>
#include <cutrace/analysis/interval_set.hpp>
#include <cutrace/analysis/outer_calls.hpp>
#include <utility>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace analysis {

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

  /// Work that starts after its call began. When that call ended is known only when all around it has ended.
  void add_launch(std::uint64_t thread, std::int64_t call_ns, std::int64_t start_ns) {
    if (call_ns < start_ns) launches_.push_back({thread, call_ns, start_ns});
  }
  std::size_t launches() const noexcept { return launches_.size(); }

  /// Turns launches into time in the queue. True where all of their calls are known, if there were any.
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
