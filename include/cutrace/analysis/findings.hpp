// SPDX-License-Identifier: Apache-2.0
// What to fix first: all rules over an analysed trace, ordered by the time to be won.
//
// Each rule states how it estimates that time. Common to all: rules on gaps, on copies without a kernel beside them,
// and on kernels look at disjoint parts of a device's time, so that all wins of a device together never exceed the time
// recorded. With several devices a finding is told for the one on which it costs most: mending it on the others can
// win no more wall time than that. Below a fiftieth of the time recorded nothing is a finding; losses always are.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cutrace/analysis/copy_rules.hpp>
#include <cutrace/analysis/idle_rules.hpp>
#include <cutrace/analysis/stream_rule.hpp>
#include <cutrace/analysis/trace_analysis.hpp>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace analysis {

struct finding_options {
  double least_share = 0.02;  ///< of the time recorded that a finding must win
  std::uint64_t lost = 0;     ///< records that the trace's own totals call lost; 0: what its loss events say
};

CUTRACE_ONE_COPY inline std::vector<finding> find_findings(const trace_log& log, const trace_results& results,
                                                           const finding_options& options = {}) {
  const std::int64_t recorded_ns = results.time.everything.recorded_ns;
  std::vector<finding> all;
  const double least_ns = static_cast<double>(recorded_ns) * options.least_share;
  idle_rules idle(log, results.idle, least_ns);
  copy_rules copies(log, results.copies, least_ns);
  for (const device_activity& d : results.devices) {
    idle.find(d.device, all);
    copies.find(d, all);
    find_single_stream(log, log.devices().at(d.device), d, all);
  }
  std::vector<finding> list;
  for (finding& f : all) {
    f.win_ns = std::min({f.win_ns, f.cost_ns, recorded_ns});
    if (f.win_ns <= 0 || static_cast<double>(f.win_ns) < least_ns) continue;
    const auto same = std::find_if(list.begin(), list.end(), [&](const finding& o) {
      return o.is == f.is && o.device != f.device && (f.is != finding_kind::low_bandwidth || o.kernel == f.kernel);
    });
    if (same == list.end())
      list.push_back(std::move(f));
    else if (f.win_ns > same->win_ns)
      *same = std::move(f);
  }
  std::stable_sort(list.begin(), list.end(), [](const finding& a, const finding& b) { return a.win_ns > b.win_ns; });
  const std::uint64_t lost = std::max(options.lost, log.lost_total());
  if (lost > 0) {
    finding f;
    f.is = finding_kind::losses;
    f.count = lost;
    list.push_back(std::move(f));
  }
  return list;
}

}  // namespace analysis
CUTRACE_END_NAMESPACE
