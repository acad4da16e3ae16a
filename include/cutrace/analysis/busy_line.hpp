// SPDX-License-Identifier: Apache-2.0
// In how much of any stretch of time a GPU was at work: the union of all work with its running length, 16 bytes for
// each busy stretch.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cutrace/analysis/chunked.hpp>
#include <cutrace/analysis/intervals.hpp>
#include <cutrace/analysis/search_near.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace analysis {

class busy_line {
 public:
  /// By start.
  void add(interval v) {
    if (v.empty()) return;
    if (line_.empty() || v.start_ns > until_ns_) {
      line_.push_back({v.start_ns, total_ns_});
      until_ns_ = v.start_ns;
    }
    total_ns_ += std::max<std::int64_t>(0, v.end_ns - until_ns_);
    until_ns_ = std::max(until_ns_, v.end_ns);
  }

  std::int64_t total_ns() const noexcept { return total_ns_; }

  /// Busy time in `v`. Cheapest for stretches in about the order of time.
  std::int64_t inside(interval v) noexcept {
    return v.empty() ? 0 : before(v.end_ns, near_end_) - before(v.start_ns, near_start_);
  }

 private:
  struct stretch {
    std::int64_t start_ns;
    std::int64_t before_ns;  ///< busy time before it
  };

  std::int64_t before(std::int64_t t_ns, std::size_t& near) noexcept {
    near = search_near(line_.size(), near, [&](std::size_t i) { return line_[i].start_ns < t_ns; });
    if (near == 0) return 0;
    const stretch& s = line_[near - 1];
    const std::int64_t after_ns = near < line_.size() ? line_[near].before_ns : total_ns_;
    return std::min(s.before_ns + (t_ns - s.start_ns), after_ns);
  }

  chunked<stretch> line_;
  std::int64_t total_ns_ = 0;
  std::int64_t until_ns_ = 0;
  std::size_t near_start_ = 0, near_end_ = 0;
};

}  // namespace analysis
CUTRACE_END_NAMESPACE
