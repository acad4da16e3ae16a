// SPDX-License-Identifier: Apache-2.0
// Multiplex windows: how much of the wall time a second tenant could use without being in the way.
//
//   window = idle stretch of the device of at least g ns, inside of its active span, in which at least m bytes of its
//   memory are free; share = sum of windows / time recorded
// A tenant whose pieces of work take no longer than g fits into each of them. Free memory is the device's size less
// what the trace saw allocated: an upper bound, since a trace misses allocations before its begin and may miss others.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cutrace/analysis/duration_histogram.hpp>
#include <cutrace/analysis/trace_log.hpp>
#include <vector>

#include "report/memory_use.hpp"

CUTRACE_BEGIN_NAMESPACE
namespace analysis {

struct multiplex_report {
  std::uint32_t device = 0;
  std::int64_t least_gap_ns = 0;
  std::uint64_t least_free_bytes = 0;
  std::uint64_t windows = 0;
  std::int64_t window_ns = 0;
  std::int64_t recorded_ns = 0;
  std::int64_t longest_ns = 0;
  duration_histogram lengths;
  bool memory_known = false;  ///< whether the device's memory size is known, and what is allocated on it

  double share() const noexcept {
    return recorded_ns == 0 ? 0.0 : static_cast<double>(window_ns) / static_cast<double>(recorded_ns);
  }
};

/// @param stretches in which the device was idle, in order; all of at least `least_gap_ns`, see idle_report
/// @param memory of the same trace. A stretch during which memory changes counts with the least that was free.
CUTRACE_ONE_COPY inline multiplex_report find_multiplex_windows(const trace_log& log, const device_work& d,
                                                                const std::vector<interval>& stretches,
                                                                const memory_report& memory, std::int64_t least_gap_ns,
                                                                std::uint64_t least_free_bytes) {
  multiplex_report r;
  r.device = d.device;
  r.least_gap_ns = least_gap_ns;
  r.least_free_bytes = least_free_bytes;
  // Calls do not name their device: where the trace has work of several, it is not known on which the memory is.
  const bool from_calls = !memory.from_records && !memory.steps.empty();
  const auto worked = [](const auto& one) { return !one.second.order.empty(); };
  const bool alone = std::count_if(log.devices().begin(), log.devices().end(), worked) == 1;
  r.memory_known = d.about.memory_bytes > 0 && !memory.steps.empty() && (alone || !from_calls);
  r.recorded_ns = log.recorded_ns();
  static const std::vector<memory_step> none;
  const auto found = from_calls ? memory.steps.begin() : memory.steps.find(d.device);
  const std::vector<memory_step>& steps = found == memory.steps.end() ? none : found->second;
  std::size_t step = 0;  // first one after the gap's start
  const auto most_live = [&](interval v) {
    while (step < steps.size() && steps[step].at_ns <= v.start_ns) ++step;
    std::uint64_t live = step == 0 ? 0 : steps[step - 1].live_bytes;
    for (std::size_t i = step; i < steps.size() && steps[i].at_ns < v.end_ns; ++i)
      live = std::max(live, steps[i].live_bytes);
    return live;
  };
  const auto add = [&](interval v) {
    if (v.length_ns() < std::max<std::int64_t>(least_gap_ns, 1)) return;
    const std::uint64_t live = most_live(v);
    const std::uint64_t free =
        !r.memory_known ? UINT64_MAX : d.about.memory_bytes - std::min(d.about.memory_bytes, live);
    if (free < least_free_bytes) return;
    ++r.windows;
    add_ns(r.window_ns, v.length_ns());
    r.longest_ns = std::max(r.longest_ns, v.length_ns());
    r.lengths.add(static_cast<std::uint64_t>(v.length_ns()));
  };
  for (const interval v : stretches) add(v);
  return r;
}

}  // namespace analysis
CUTRACE_END_NAMESPACE
