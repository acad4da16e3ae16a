// SPDX-License-Identifier: Apache-2.0
// How often a device changed between contexts or processes: consecutive pieces of its work, by start, that belong to
// different ones. Without MPS a change costs the device its caches and some time of its own.
#pragma once

#include <cstdint>
#include <cutrace/analysis/trace_log.hpp>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace analysis {

struct switch_report {
  std::uint32_t device = 0;
  std::uint64_t contexts = 0;  ///< (process, context) pairs that had work
  std::uint64_t switches = 0;
  std::uint64_t overlapping = 0;  ///< of those, while the other one's work still ran
  std::int64_t idle_ns = 0;       ///< between the last work of the one and the first of the other
};

CUTRACE_ONE_COPY inline switch_report find_switches(const trace_log& log, const device_work& d) {
  switch_report r;
  r.device = d.device;
  // Mostly there is one, and then there is nothing to count.
  const work_lane* first = nullptr;
  bool several = false;
  for (const work_lane& l : log.lanes()) {
    if (l.device != d.device) continue;
    if (first == nullptr) first = &l;
    several = several || l.context != first->context || l.process != first->process;
  }
  r.contexts = first != nullptr;
  if (!several) return r;
  std::vector<std::uint32_t> context_of(log.lanes().size(), UINT32_MAX);
  std::vector<work_lane> contexts;
  std::uint32_t last = UINT32_MAX;
  std::int64_t until_ns = 0;
  for (const std::uint32_t i : d.order) {
    const gpu_work& w = log.work()[i];
    std::uint32_t& c = context_of[w.lane];
    if (c == UINT32_MAX) {
      const work_lane& l = log.lanes()[w.lane];
      for (c = 0; c < contexts.size(); ++c)
        if (contexts[c].process == l.process && contexts[c].context == l.context) break;
      if (c == contexts.size()) contexts.push_back(l);
    }
    if (last != UINT32_MAX && c != last) {
      ++r.switches;
      r.overlapping += w.when.start_ns < until_ns;
      r.idle_ns += interval{until_ns, w.when.start_ns}.length_ns();
    }
    until_ns = last == UINT32_MAX ? w.when.end_ns : std::max(until_ns, w.when.end_ns);
    last = c;
  }
  r.contexts = contexts.size();
  return r;
}

}  // namespace analysis
CUTRACE_END_NAMESPACE
