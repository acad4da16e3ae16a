// SPDX-License-Identifier: Apache-2.0
// How the time of a thread, and of the stages on it, divides among the layers that it went through. Only of traces that
// have ioctls: without them the layer between call and GPU is not seen.
//
// Each moment between a thread's first and last event counts for the first of these layers that applies:
//   waiting      the thread was switched out, or is in a call that waits (category sync) and in no ioctl
//   kernel       in an ioctl
//   driver call  in any other call of the driver or runtime
//   user code    in no call
// Of a trace in pieces only the time recorded counts. Each moment belongs to the stage that began last among those that
// cover it on the thread. GPU time is separate: the union of the GPU work that calls of the thread, or of the stage,
// launched.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cutrace/analysis/trace_log.hpp>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "report/ioctl_table.hpp"
#include "report/stage_costs.hpp"

CUTRACE_BEGIN_NAMESPACE
namespace analysis {

enum class layer : std::uint8_t { user_code, driver_call, kernel, waiting };
constexpr std::size_t layer_count = 4;

struct layer_times {
  std::array<std::int64_t, layer_count> ns{};
  std::int64_t gpu_ns = 0;

  std::int64_t of(layer l) const noexcept { return ns[static_cast<std::size_t>(l)]; }
  std::int64_t total_ns() const noexcept { return ns[0] + ns[1] + ns[2] + ns[3]; }
};

struct thread_layers {
  std::uint32_t thread_id = 0;
  std::string name;  ///< empty: the thread has none
  interval span;
  layer_times times;
};
struct stage_layers {
  std::string name;
  layer_times times;  ///< on the threads of its instances, nested stages left out
};

struct layer_report {
  std::vector<thread_layers> threads;  ///< longest first; empty: the trace has no ioctl
  std::vector<stage_layers> stages;    ///< most host time first; the time outside of stages has an empty name
  std::vector<ioctl_row> ioctls;
  driver_objects objects;
};

/// Exclusive times of the layers on one thread, by the stage that each moment belongs to. The caller numbers stages.
class layer_sweep {
 public:
  struct stage_piece {
    interval when;
    std::uint32_t stage;
  };
  std::vector<interval> calls, waits, ioctls, switched;  ///< in any order; may overlap
  std::vector<stage_piece> stages;
  std::vector<interval> recorded{{INT64_MIN, INT64_MAX}};  ///< only these moments count; merged

  /// From the first begin to the last end of anything.
  interval span() const {
    interval all{INT64_MAX, INT64_MIN};
    const auto cover = [&all](interval v) {
      if (v.empty()) return;
      all.start_ns = std::min(all.start_ns, v.start_ns);
      all.end_ns = std::max(all.end_ns, v.end_ns);
    };
    for (const std::vector<interval>* list : {&calls, &waits, &ioctls, &switched})
      for (const interval v : *list) cover(v);
    for (const stage_piece& s : stages) cover(s.when);
    return all.empty() ? interval{} : all;
  }

  /// `outside`: the number for moments in no stage. O(n log n).
  CUTRACE_ONE_COPY std::map<std::uint32_t, layer_times> find(std::uint32_t outside) const {
    std::map<std::uint32_t, layer_times> result;
    const interval all = span();
    cursor in_call(merged(calls)), in_wait(merged(waits)), in_ioctl(merged(ioctls)), off(merged(switched)),
        known(recorded);
    std::vector<std::pair<std::int64_t, std::size_t>> changes;  // begins and ends of stages: time, index
    for (std::size_t i = 0; i < stages.size(); ++i) {
      if (stages[i].when.empty()) continue;
      changes.emplace_back(stages[i].when.start_ns, i);
      changes.emplace_back(stages[i].when.end_ns, i);
    }
    std::sort(changes.begin(), changes.end());
    // By their begin. Of those that begin at the same time, the one that ends first is the inner one.
    std::set<std::tuple<std::int64_t, std::int64_t, std::size_t>> open;
    std::size_t next_change = 0;
    for (std::int64_t now_ns = all.start_ns; now_ns < all.end_ns;) {
      for (; next_change < changes.size() && changes[next_change].first <= now_ns; ++next_change) {
        const std::size_t i = changes[next_change].second;
        const std::tuple key{stages[i].when.start_ns, -stages[i].when.end_ns, i};
        if (!open.insert(key).second) open.erase(key);
      }
      std::int64_t next_ns = all.end_ns;
      if (next_change < changes.size()) next_ns = std::min(next_ns, changes[next_change].first);
      for (cursor* c : {&in_call, &in_wait, &in_ioctl, &off, &known}) next_ns = std::min(next_ns, c->move_to(now_ns));
      const layer l = off.covers        ? layer::waiting
                      : in_ioctl.covers ? layer::kernel
                      : in_wait.covers  ? layer::waiting
                      : in_call.covers  ? layer::driver_call
                                        : layer::user_code;
      const std::uint32_t stage = open.empty() ? outside : stages[std::get<2>(*open.rbegin())].stage;
      if (known.covers) add_ns(result[stage].ns[static_cast<std::size_t>(l)], next_ns - now_ns);
      now_ns = next_ns;
    }
    return result;
  }

 private:
  /// A position in a merged list, which only moves forward.
  struct cursor {
    explicit cursor(std::vector<interval> of) : list(std::move(of)) {}
    std::vector<interval> list;
    std::size_t at = 0;
    bool covers = false;

    /// Sets `covers` for the time `t_ns`. @returns when `covers` changes next
    std::int64_t move_to(std::int64_t t_ns) {
      while (at < list.size() && list[at].end_ns <= t_ns) ++at;
      covers = at < list.size() && list[at].start_ns <= t_ns;
      return at == list.size() ? INT64_MAX : covers ? list[at].end_ns : list[at].start_ns;
    }
  };
};

/// @param log after `seal`
CUTRACE_ONE_COPY inline layer_report find_layers(const trace_log& log, const ioctl_table& ioctls,
                                                 const stage_report& costs) {
  layer_report r;
  if (ioctls.empty()) return r;
  r.ioctls = ioctls.result();
  r.objects = ioctls.objects();
  std::vector<layer_sweep> sweeps(log.threads().size());
  std::map<std::uint32_t, std::size_t> by_id;
  for (std::size_t t = 1; t < sweeps.size(); ++t) {
    by_id.emplace(log.thread_id(static_cast<std::uint16_t>(t)), t);
    const thread_calls& calls = log.threads()[t];
    const auto add = [&](const chunked<host_call>& list) {
      for (std::size_t i = 0; i < list.size(); ++i)
        (list[i].is == category::sync ? sweeps[t].waits : sweeps[t].calls).push_back(list[i].when);
    };
    add(calls.calls());
    add(calls.inner());
  }
  std::vector<std::uint32_t> ids;
  for (std::size_t t = 0; t < sweeps.size(); ++t) ids.push_back(log.thread_id(static_cast<std::uint16_t>(t)));
  const auto sweep_of = [&](std::uint32_t id) -> layer_sweep& {
    const auto found = by_id.emplace(id, sweeps.size());
    if (found.second) {
      sweeps.emplace_back();
      ids.push_back(id);
    }
    return sweeps[found.first->second];
  };
  for (const auto& [id, list] : ioctls.threads()) sweep_of(id).ioctls = list;
  for (const auto& [id, list] : ioctls.switched()) sweep_of(id).switched = list;
  const stage_log& stages = log.stages();
  for (const std::uint32_t n : log.stage_order())
    if (!stages[n].span) sweeps[stages[n].thread].stages.push_back({stages[n].when, stages[n].name});
  for (std::size_t i = 0; i < stages.parts().size(); ++i) {
    const adopted_part& p = stages.parts()[i];
    sweeps[p.thread].stages.push_back({p.when, stages[p.instance].name});
  }
  if (log.pieces() != 0)
    for (layer_sweep& s : sweeps) s.recorded = log.recorded();
  std::vector<std::vector<interval>> work(sweeps.size());
  std::size_t hint = 0;
  for (std::size_t i = 0; i < log.work().size(); ++i) {
    const gpu_work& w = log.work()[i];
    if (w.is == work_class::unfinished) continue;
    log.for_recorded(w.when, hint, [&](interval v) { work[w.thread].push_back(v); });
  }

  std::map<std::uint32_t, layer_times> by_stage;
  for (std::size_t t = 1; t < sweeps.size(); ++t) {
    thread_layers one;
    one.thread_id = ids[t];
    one.name = log.thread_name(ids[t]);
    one.span = sweeps[t].span();
    if (one.span.empty()) continue;
    for (const auto& [stage, times] : sweeps[t].find(0)) {
      for (std::size_t l = 0; l < layer_count; ++l) {
        add_ns(one.times.ns[l], times.ns[l]);
        add_ns(by_stage[stage].ns[l], times.ns[l]);
      }
    }
    one.times.gpu_ns = union_length_ns(std::move(work[t]));
    r.threads.push_back(one);
  }
  for (const stage_cost& c : costs.stages) by_stage[c.number].gpu_ns = c.gpu_own_ns;
  by_stage[0].gpu_ns = costs.gpu_outside_ns;
  for (const auto& [name, times] : by_stage)
    r.stages.push_back({name == 0 ? std::string() : log.names().name(name), times});
  std::stable_sort(r.threads.begin(), r.threads.end(),
                   [](const auto& a, const auto& b) { return a.span.length_ns() > b.span.length_ns(); });
  std::stable_sort(r.stages.begin(), r.stages.end(),
                   [](const auto& a, const auto& b) { return a.times.total_ns() > b.times.total_ns(); });
  return r;
}

}  // namespace analysis
CUTRACE_END_NAMESPACE
