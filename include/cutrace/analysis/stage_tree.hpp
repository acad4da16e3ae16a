// SPDX-License-Identifier: Apache-2.0
// Carries GPU work from the stage in which it was issued up to the stages around that one. A stage tells its parent
// only when it ends, so work waits at the instances that still run. Used by stage_table.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cutrace/analysis/intervals.hpp>
#include <deque>
#include <unordered_map>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace analysis {

class stage_tree {
 public:
  /// @param open instances with waiting work, `closed` ended ones that late work still finds; 0: no limit.
  explicit stage_tree(std::size_t open = 0, std::size_t closed = 0) : open_limit_(open), closed_limit_(closed) {}

  /// GPU work `v` of instance `id`. Calls `inside(row, v)` for each enclosing stage that has ended; the others get it
  /// when they end. The instance itself is not told.
  template <class Inside>
  void work(std::uint64_t id, interval v, Inside&& inside) {
    if (v.empty() || id == 0) return;
    const auto own = closed_.find(id);
    if (own == closed_.end())
      wait_at(id, v);
    else
      climb(own->second.parent, v, inside);
  }

  /// Instance `id` of table row `row` has ended. Calls `inside(row, v)` for all work that waited at it.
  template <class Inside>
  void close(std::uint64_t id, std::uint64_t parent, std::uint32_t row, Inside&& inside) {
    if (id == 0 || !closed_.emplace(id, ended{parent, row}).second) return;
    order_.push_back(id);
    const auto waiting = open_.find(id);
    if (waiting != open_.end()) {
      const std::vector<interval> work = std::move(waiting->second.work);
      open_.erase(waiting);
      for (const interval v : work) {
        inside(row, v);
        climb(parent, v, inside);
      }
    }
    if (closed_limit_ != 0 && order_.size() > closed_limit_) {
      closed_.erase(order_.front());
      order_.pop_front();
    }
  }

  /// Nanoseconds of short gaps that were counted as work, to keep lists short.
  std::int64_t filled_ns() const noexcept { return filled_ns_; }
  /// Pieces of work that reached no enclosing stage, because too many instances were open.
  std::uint64_t given_up() const noexcept { return given_up_; }

 private:
  struct ended {
    std::uint64_t parent;
    std::uint32_t row;
  };
  struct running {
    std::vector<interval> work;  ///< as it came; roughly ordered
  };
  static constexpr std::size_t open_intervals = 512;

  template <class Inside>
  void climb(std::uint64_t id, interval v, Inside& inside) {
    for (int level = 0; id != 0 && level < 64; ++level) {  // a bound, should ids ever form a ring
      const auto found = closed_.find(id);
      if (found == closed_.end()) return wait_at(id, v);
      inside(found->second.row, v);
      id = found->second.parent;
    }
  }

  CUTRACE_ONE_COPY void wait_at(std::uint64_t id, interval v) {
    auto found = open_.find(id);
    if (found == open_.end()) {
      if (open_limit_ != 0 && open_.size() >= open_limit_) give_up_oldest();
      found = open_.emplace(id, running{}).first;
    }
    std::vector<interval>& work = found->second.work;
    if (!work.empty() && v.start_ns <= work.back().end_ns && v.start_ns >= work.back().start_ns) {
      work.back().end_ns = std::max(work.back().end_ns, v.end_ns);
      return;
    }
    if (open_limit_ != 0 && work.size() >= open_intervals) {
      work = merged(std::move(work));
      filled_ns_ += fill_small_gaps(work, open_intervals / 2);
    }
    work.push_back(v);
  }

  // Ids grow, so the smallest one runs longest: most likely its end was lost.
  CUTRACE_NOINLINE void give_up_oldest() {
    auto oldest = open_.begin();
    for (auto i = open_.begin(); i != open_.end(); ++i)
      if (i->first < oldest->first) oldest = i;
    given_up_ += oldest->second.work.size();
    open_.erase(oldest);
  }

  std::size_t open_limit_;
  std::size_t closed_limit_;
  std::unordered_map<std::uint64_t, running> open_;
  std::unordered_map<std::uint64_t, ended> closed_;
  std::deque<std::uint64_t> order_;  ///< of closing
  std::int64_t filled_ns_ = 0;
  std::uint64_t given_up_ = 0;
};

}  // namespace analysis
CUTRACE_END_NAMESPACE
