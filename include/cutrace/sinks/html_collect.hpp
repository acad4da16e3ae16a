// SPDX-License-Identifier: Apache-2.0
// Everything that the HTML report needs of a trace, gathered event by event in bounded memory: what the terminal report
// gathers, and the timeline and charts beside it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cutrace/analysis/bounds.hpp>
#include <cutrace/analysis/intervals.hpp>
#include <cutrace/event.hpp>
#include <cutrace/sinks/ascii_collect.hpp>
#include <cutrace/sinks/html_charts.hpp>
#include <cutrace/sinks/html_timeline.hpp>
#include <map>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace html {

class collection {
 public:
  collection(std::int64_t start_ns, const analysis::bounds& limits, std::size_t timeline_bytes)
      : report(start_ns, limits), events(start_ns, timeline_bytes), start_ns_(start_ns), limits_(limits) {}

  void add(const event& e) {
    report.add(e);
    events.add(e);
    const analysis::interval v = analysis::clip(analysis::interval_of(e), {start_ns_, INT64_MAX});
    if (e.is_gpu_work()) return add_busy(e.device, v);
    if (e.kind == event_kind::memory && !analysis::in_host_memory(e))
      memory.add(v.start_ns, report.numbers.numbers().device.live_bytes);
    if (e.kind == event_kind::window && !v.empty() && windows_.size() < window_limit) windows_.push_back(v);
  }

  /// What was recorded of `whole`.
  CUTRACE_NOINLINE std::vector<analysis::interval> recorded(analysis::interval whole) const {
    return windows_.empty() ? std::vector<analysis::interval>{whole} : analysis::merged(windows_);
  }
  const std::map<std::uint32_t, busy_curve>& busy() const noexcept { return busy_; }

  ascii::collection report;
  timeline events;
  level_curve memory;  ///< bytes allocated on devices

 private:
  static constexpr std::size_t window_limit = 16384;

  void add_busy(std::uint32_t device, analysis::interval v) {
    auto found = busy_.find(device);
    if (found == busy_.end()) {
      if (limits_.devices != 0 && busy_.size() >= limits_.devices) return;
      found = busy_.emplace(device, busy_curve(limits_.row_intervals)).first;
    }
    found->second.add(v);
  }

  std::int64_t start_ns_;
  analysis::bounds limits_;
  std::map<std::uint32_t, busy_curve> busy_;
  std::vector<analysis::interval> windows_;
};

}  // namespace html
CUTRACE_END_NAMESPACE
