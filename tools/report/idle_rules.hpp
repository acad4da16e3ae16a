// SPDX-License-Identifier: Apache-2.0
// Rules on the time in which a device had nothing to do. Each gap has one cause, so what these findings win (the time
// that a fix can save) is disjoint and together at most the idle time of the active span.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cutrace/analysis/names.hpp>
#include <map>
#include <string>
#include <vector>

#include "report/finding_places.hpp"

CUTRACE_BEGIN_NAMESPACE
namespace analysis {

/// A cause of fewer gaps is taken for start-up or shut-down, not for the program's main loop.
constexpr std::uint64_t least_repeats = 3;

/// Time that the calls of one name spend waiting, in all stages. One pass over the calls.
class waiting_time {
 public:
  explicit waiting_time(const trace_log& log) : log_(log) {
    for (const thread_calls& t : log.threads())
      for (std::size_t i = 0; i < t.calls().size(); ++i) {
        const host_call& c = t.calls()[i];
        const call_traits& is = log.traits(c.name);
        if (is.waits || is.blocks) add_ns(ns_[c.name], c.when.length_ns());
      }
  }
  std::int64_t of(const std::vector<std::string>& calls) const {
    std::int64_t total = 0;
    for (const auto& c : ns_)
      if (std::find(calls.begin(), calls.end(), log_.names().name(c.first)) != calls.end()) add_ns(total, c.second);
    return total;
  }

 private:
  const trace_log& log_;
  detail::seeded_map<std::uint32_t, std::int64_t> ns_;
};

class idle_rules {
 public:
  /// @param least_ns findings that win less are left out
  idle_rules(const trace_log& log, const idle_report& idle, double least_ns)
      : log_(log), idle_(idle), least_ns_(least_ns), waiting_(log) {}

  CUTRACE_ONE_COPY void find(std::uint32_t device, std::vector<finding>& list) {
    waits(device, false, finding_kind::synchronisation, list);
    waits(device, true, finding_kind::blocking_copies, list);
    launches(device, list);
    simple(device, idle_cause::allocation, finding_kind::allocation, list);
    simple(device, idle_cause::host_wait, finding_kind::host_bound, list);
  }

 private:
  static finding start(std::uint32_t device, finding_kind k) {
    finding f;
    f.is = k;
    f.device = device;
    return f;
  }

  bool worth(const gap_places& gaps) const noexcept {
    return gaps.count() >= least_repeats && static_cast<double>(gaps.ns()) >= least_ns_;
  }

  bool copies(const std::string& call) const {
    text t;
    t.data = call.data();
    t.size = static_cast<std::uint32_t>(call.size());
    return traits_of_call(t).copies;
  }

  /// The host waited for the device, and so could not give it the next work in time. Won: the gaps. But without the
  /// wait the host still needs its own time between two launches; a thread that no longer waits gains at most the time
  /// that it waited. So: min(gaps, time in those calls).
  void waits(std::uint32_t device, bool by_copy, finding_kind k, std::vector<finding>& list) {
    const auto counts = [&](const idle_blame& b) {
      return b.device == device && b.cause == idle_cause::sync_wait && copies(b.call) == by_copy;
    };
    gap_places gaps(log_, idle_, counts);
    if (!worth(gaps)) return;
    finding f = start(device, k);
    gaps.report(f);
    std::vector<std::string> calls;
    for (const idle_blame& b : idle_.blames)
      if (counts(b)) calls.push_back(b.call);
    std::sort(calls.begin(), calls.end());
    calls.erase(std::unique(calls.begin(), calls.end()), calls.end());
    f.win_ns = std::min(f.cost_ns, waiting_.of(calls));
    list.push_back(std::move(f));
  }

  /// Kernels so short that launching them takes longer than running them. Won by launching them as one graph: the gaps,
  /// without the microsecond that the device itself takes from one node to the next.
  void launches(std::uint32_t device, std::vector<finding>& list) {
    constexpr std::int64_t node_ns = 1000;
    constexpr std::int64_t tiny_ns = 10000;
    const auto counts = [&](const idle_blame& b) {
      return b.device == device && b.cause == idle_cause::launch_latency;
    };
    if (!worth(gap_places(log_, idle_, counts))) return;
    duration_histogram kernels;
    std::uint64_t tiny = 0, all = 0;
    detail::seeded_map<std::uint64_t, std::uint64_t> tiny_of;  ///< by the numbers of the stage's and the kernel's name
    for (const std::uint32_t i : log_.devices().at(device).order) {
      const gpu_work& w = log_.work()[i];
      if (!is_kernel(w.is) || w.graph) continue;
      ++all;
      kernels.add(static_cast<std::uint64_t>(w.when.length_ns()));
      if (w.when.length_ns() >= tiny_ns) continue;
      ++tiny;
      ++tiny_of[std::uint64_t{log_.stages()[w.stage].name} << 32 | w.name];
    }
    if (all == 0 || 2 * tiny < all) return;  // graphs and copies alone may leave gaps, too
    // The stage that is blamed is one that has such kernels.
    std::map<std::string, std::map<std::string, std::uint64_t>> by_stage;
    for (const auto& n : tiny_of) {
      const std::uint32_t stage = static_cast<std::uint32_t>(n.first >> 32);
      by_stage[stage == 0 ? "" : log_.names().name(stage)][log_.names().name(static_cast<std::uint32_t>(n.first))] +=
          n.second;
    }
    gap_places gaps(log_, idle_, counts, [&](const idle_blame& b) { return by_stage.count(b.stage) != 0; });
    finding f = start(device, finding_kind::launch_bound);
    gaps.report(f);
    f.win_ns = std::max<std::int64_t>(0, f.cost_ns - node_ns * static_cast<std::int64_t>(gaps.count()));
    f.count = tiny;
    f.typical_ns = kernels.percentile_ns(50);
    std::uint64_t most = 0;
    for (const auto& s : by_stage)
      for (const auto& n : s.second)
        if ((s.first == f.stage || by_stage.count(f.stage) == 0) && n.second > most)
          most = n.second, f.kernel = n.first;
    list.push_back(std::move(f));
  }

  /// Won: the gaps, all of which end as soon as the host no longer does what caused them between two launches. For the
  /// host's own work this is an upper bound: the work can be moved to where the device is busy, or be made faster.
  void simple(std::uint32_t device, idle_cause cause, finding_kind k, std::vector<finding>& list) {
    gap_places gaps(log_, idle_, [&](const idle_blame& b) { return b.device == device && b.cause == cause; });
    if (!worth(gaps)) return;
    finding f = start(device, k);
    gaps.report(f);
    if (k == finding_kind::host_bound) gaps.name_company(f);
    f.win_ns = f.cost_ns;
    list.push_back(std::move(f));
  }

  const trace_log& log_;
  const idle_report& idle_;
  double least_ns_;
  waiting_time waiting_;
};

}  // namespace analysis
CUTRACE_END_NAMESPACE
