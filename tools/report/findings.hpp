// SPDX-License-Identifier: Apache-2.0
// What to fix first: all rules over an analysed trace, ordered by the time to be won.
//
// Each rule states how it estimates that time. Common to all: rules on gaps, on copies without a kernel beside them,
// and on kernels look at disjoint parts of a device's time, so that all wins of a device together never exceed the time
// recorded. With several devices a finding is reported for the one on which most can be won: fixing it on the others
// can win no more wall time than that. Findings that win less than a fiftieth of the time recorded are left out,
// except losses.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cutrace/analysis/names.hpp>
#include <vector>

#include "report/copy_rules.hpp"
#include "report/device_activity.hpp"
#include "report/finding_places.hpp"
#include "report/idle_rules.hpp"
#include "report/trace_analysis.hpp"

CUTRACE_BEGIN_NAMESPACE
namespace analysis {

// Rule: everything on one stream although independent work was in flight at the same time and its kernels leave most of
// the device empty.
//
// Independent are kernels of different sets of requests or, without requests, of different threads, while both are in
// flight (between the first and the last kernel of each). T is the time of those kernels on one stream. On streams of
// their own they would take no less than the longest group alone, and no less than the area they fill of the device,
// sum(duration * min(1, blocks / multiprocessors)). Won: at most T - max(longest group, area).

CUTRACE_ONE_COPY inline void find_single_stream(const trace_log& log, const device_work& d, const device_activity& a,
                                                std::vector<finding>& list) {
  if (a.streams != 1 || d.about.multiprocessors == 0) return;
  const auto group_of = [&](const gpu_work& w) {
    const std::uint32_t requests = log.stages()[w.stage].requests;
    return requests != 0 ? std::uint64_t{requests} << 16 : std::uint64_t{w.thread};
  };
  const auto counts = [](const gpu_work& w) { return is_kernel(w.is) && !w.graph; };
  detail::seeded_map<std::uint64_t, interval> in_flight;
  for (const std::uint32_t i : d.order) {
    const gpu_work& w = log.work()[i];
    if (!counts(w)) continue;
    const auto found = in_flight.emplace(group_of(w), w.when);
    found.first->second.end_ns = std::max(found.first->second.end_ns, w.when.end_ns);
  }
  if (in_flight.size() < 2) return;
  // Time in which two or more are in flight: what the union of the later ones shares with those before.
  std::vector<interval> spans, shared;
  for (const auto& g : in_flight) spans.push_back(g.second);
  std::sort(spans.begin(), spans.end(), [](interval x, interval y) { return x.start_ns < y.start_ns; });
  std::int64_t until_ns = spans[0].end_ns;
  for (std::size_t i = 1; i < spans.size(); ++i) {
    const interval both{spans[i].start_ns, std::min(spans[i].end_ns, until_ns)};
    if (!both.empty()) shared.push_back(both);
    until_ns = std::max(until_ns, spans[i].end_ns);
  }
  shared = merged(std::move(shared));

  detail::seeded_map<std::uint64_t, std::int64_t> group_ns;
  work_places places(log);
  std::int64_t total_ns = 0;
  double area = 0;
  std::size_t at = 0;
  for (const std::uint32_t i : d.order) {
    const gpu_work& w = log.work()[i];
    while (at < shared.size() && shared[at].end_ns <= w.when.start_ns) ++at;
    if (at == shared.size()) break;
    if (!counts(w) || w.when.start_ns < shared[at].start_ns) continue;
    const std::int64_t ns = w.when.length_ns();
    add_ns(total_ns, ns);
    add_ns(group_ns[group_of(w)], ns);
    area += static_cast<double>(ns) *
            std::min(1.0, static_cast<double>(w.amount) / static_cast<double>(d.about.multiprocessors));
    places.add(w, ns);
  }
  std::int64_t longest_ns = static_cast<std::int64_t>(std::min(area, 9e18));
  for (const auto& g : group_ns) longest_ns = std::max(longest_ns, g.second);
  finding f;
  f.is = finding_kind::single_stream;
  f.device = d.device;
  f.cost_ns = total_ns;
  f.win_ns = total_ns - std::min(total_ns, longest_ns);
  if (group_ns.size() < 2) return;
  places.report(f);
  list.push_back(std::move(f));
}

struct finding_options {
  double least_share = 0.02;  ///< smallest share of the time recorded that a finding must win
  std::uint64_t lost = 0;     ///< lost records by the trace's totals; loss events count where they are more
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
