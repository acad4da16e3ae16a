// SPDX-License-Identifier: Apache-2.0
// How deep calls and stages nest. Calls: level 0 are those that the program made (mostly of CUDA's runtime), level 1
// those made inside of these (of the driver). Stages: event::depth.
//
// A call is nested in another one of its thread that begins no later and ends no earlier (is_nested). Calls arrive in
// the order of their ends, so a call that arrives encloses those latest arrivals that began no earlier.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cutrace/analysis/intervals.hpp>
#include <cutrace/analysis/names.hpp>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace analysis {

struct depth_level {
  std::uint64_t calls = 0;
  std::uint64_t call_ns = 0;  ///< sum of durations
  std::uint64_t stages = 0;
  std::uint64_t stage_ns = 0;
};
constexpr std::size_t depth_limit = 16;  ///< deeper stages count in the last level
using depth_report = std::array<depth_level, depth_limit>;

/// Takes events in the order of delivery; a late call counts as if it stood alone.
class call_depth {
 public:
  void add(const event& e) {
    if (e.kind == event_kind::stage && !e.stage.adopted) {
      depth_level& l = report_[std::min<std::size_t>(e.depth, depth_limit - 1)];
      ++l.stages;
      l.stage_ns += static_cast<std::uint64_t>(interval_of(e).length_ns());
    } else if (e.kind == event_kind::api) {
      add_call(e);
    }
  }

  CUTRACE_ONE_COPY depth_report result() const {
    depth_report r = report_;
    for (const auto& t : threads_)
      for (const ended_call& done : t.second) count(r, done, 0);
    return r;
  }

 private:
  static constexpr std::size_t kept = 64;  ///< most ended calls per thread that a later call may still enclose
  /// A call and the calls nested in it, by level below it; the last level also has all deeper calls.
  struct ended_call {
    interval when;
    std::array<std::uint32_t, 4> calls{};
    std::array<std::uint64_t, 4> ns{};
  };

  static void count(depth_report& r, const ended_call& t, std::size_t at) {
    for (std::size_t i = 0; i < t.calls.size(); ++i) {
      depth_level& l = r[std::min(at + i, depth_limit - 1)];
      l.calls += t.calls[i];
      l.call_ns += t.ns[i];
    }
  }

  void add_call(const event& e) {
    if (last_ == nullptr || e.thread_id != last_thread_) {
      last_ = &threads_[e.thread_id];
      last_thread_ = e.thread_id;
    }
    std::vector<ended_call>& ended = *last_;
    ended_call t;
    t.when = interval_of(e);
    t.calls[0] = 1;
    t.ns[0] = static_cast<std::uint64_t>(t.when.length_ns());
    for (std::size_t n = ended.size(); n-- > 0 && ended[n].when.end_ns >= t.when.start_ns;) {
      if (!is_nested(ended[n].when, t.when)) continue;
      for (std::size_t i = 0; i < t.calls.size(); ++i) {
        const std::size_t below = std::min(i + 1, t.calls.size() - 1);
        t.calls[below] += ended[n].calls[i];
        t.ns[below] += ended[n].ns[i];
      }
      ended.erase(ended.begin() + static_cast<std::ptrdiff_t>(n));
    }
    if (ended.size() == kept) {
      for (std::size_t i = 0; i < kept / 2; ++i) count(report_, ended[i], 0);
      ended.erase(ended.begin(), ended.begin() + kept / 2);
    }
    ended.push_back(t);
  }

  depth_report report_{};
  detail::seeded_map<std::uint32_t, std::vector<ended_call>> threads_;
  std::vector<ended_call>* last_ = nullptr;
  std::uint32_t last_thread_ = 0;
};

}  // namespace analysis
CUTRACE_END_NAMESPACE
