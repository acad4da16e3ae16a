// SPDX-License-Identifier: Apache-2.0
// All analyses of a whole trace in one: `add` every event, then call `finish` once. For files; sinks, whose memory
// is bounded, use the single accumulators.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cutrace/analysis/alarms.hpp>
#include <cutrace/analysis/idle_gaps.hpp>
#include <cutrace/analysis/operations.hpp>
#include <cutrace/analysis/summary.hpp>
#include <cutrace/analysis/trace_log.hpp>
#include <future>
#include <vector>

#include "report/call_depth.hpp"
#include "report/copies.hpp"
#include "report/device_activity.hpp"
#include "report/inference.hpp"
#include "report/ioctl_table.hpp"
#include "report/launch_queue.hpp"
#include "report/layers.hpp"
#include "report/memory_use.hpp"
#include "report/multiplex.hpp"
#include "report/request_costs.hpp"
#include "report/stage_costs.hpp"
#include "report/waits.hpp"
#include "report/wall_time.hpp"

CUTRACE_BEGIN_NAMESPACE
namespace analysis {

// How often a device changed between contexts or processes: consecutive pieces of its work, by start, that belong to
// different ones. Without MPS a change costs the device its caches and some time of its own.

struct switch_report {
  std::uint32_t device = 0;
  std::uint64_t contexts = 0;  ///< (process, context) pairs that had work
  std::uint64_t switches = 0;
  std::uint64_t overlapping = 0;  ///< switches while work of the context before still ran
  std::int64_t idle_ns = 0;       ///< sum over switches: from the last end to the next start, as far as recorded
};

CUTRACE_ONE_COPY inline switch_report find_switches(const trace_log& log, const device_work& d) {
  switch_report r;
  r.device = d.device;
  // Mostly there is one context, and nothing to count.
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
  std::size_t hint = 0;
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
      log.for_recorded({until_ns, w.when.start_ns}, hint, [&r](interval v) { add_ns(r.idle_ns, v.length_ns()); });
    }
    until_ns = last == UINT32_MAX ? w.when.end_ns : std::max(until_ns, w.when.end_ns);
    last = c;
  }
  r.contexts = contexts.size();
  return r;
}

/// What a second tenant needs: see multiplex.hpp.
struct multiplex_question {
  std::int64_t least_gap_ns = 100000;
  std::uint64_t least_free_bytes = std::uint64_t{1} << 30;
};

struct trace_results {
  wall_time time;
  std::vector<device_activity> devices;
  idle_report idle;
  launch_report launches;
  std::vector<queue_report> queues;  ///< one for each device that had work, as in the next two
  std::vector<switch_report> switches;
  std::vector<multiplex_report> multiplex;
  std::vector<copy_row> copies;
  memory_report memory;
  stage_report stages;
  std::vector<request_cost> requests;  ///< by number
  depth_report depth;
  trace_numbers numbers;
  layer_report layers;
  std::vector<wait_row> waits;  ///< longest total first
  inference_report inference;
};

class trace_analysis {
 public:
  /// @param start_ns begin of the trace; events are cut there. trace_log::first_event: the begin of the first event.
  explicit trace_analysis(std::int64_t start_ns = 0) : log_(start_ns) {}

  /// Events in the order of delivery. About 70 ns and 45 bytes an event (bench/analysis_cost).
  void add(const event& e) {
    log_.add(e);
    category c = category::other;
    if (e.is_gpu_work())
      c = gpu_operations_.add(e);
    else if (e.kind == event_kind::api)
      c = calls_.add(e);
    numbers_.add(e, c);
    memory_.add(e);
    depth_.add(e);
    ioctls_.add(e);
    waits_.add(e);
    marks_.add(e);
    alarms_.add(e);
  }

  /// Call it once; nothing may be added afterwards. @param end_ns of the trace, where the file gives it.
  /// @param names nullptr: `inference` stays empty
  CUTRACE_ONE_COPY trace_results finish(std::int64_t end_ns = INT64_MIN, const multiplex_question& tenant = {},
                                        const inference_names* names = &by_words()) {
    log_.seal(end_ns);
    trace_results r;
    r.memory = memory_.result(log_);
    // Devices are analysed on another thread where one can be started, parallel to stages and requests: all only read
    // the sealed log.
    // Ten million events took 6.45 s of wall clock with the thread, 6.76 without.
    std::future<void> of_devices =
        std::async(std::launch::async | std::launch::deferred, [&] { find_devices(r, tenant); });
    stage_cost_finder stage_costs(log_);
    wall_sweep wall(log_);
    r.stages = stage_costs.find(wall);
    r.time = wall.result();
    r.requests = find_request_costs(log_, stage_costs);
    if (names != nullptr)
      r.inference = inference_finder(log_, r.requests, stage_costs.parents(), marks_, *names).find();
    of_devices.get();
    r.depth = depth_.result();
    r.numbers = numbers_.numbers();
    r.waits = waits_.result(log_);
    r.layers = find_layers(log_, ioctls_, r.stages);
    return r;
  }

  /// After `finish`.
  const trace_log& log() const noexcept { return log_; }
  const operation_table& gpu_operations() const noexcept { return gpu_operations_; }
  const operation_table& calls() const noexcept { return calls_; }
  const ioctl_table& ioctls() const noexcept { return ioctls_; }
  const alarm_log& alarms() const noexcept { return alarms_; }

 private:
  void find_devices(trace_results& r, const multiplex_question& tenant) const {
    r.devices = find_activity(log_);
    r.idle = idle_finder(log_, 500, tenant.least_gap_ns).find();
    for (const auto& d : log_.devices()) {
      if (d.second.order.empty()) continue;
      r.queues.push_back(find_queue(log_, d.second, r.launches));
      r.switches.push_back(find_switches(log_, d.second));
      r.multiplex.push_back(find_multiplex_windows(log_, d.second, r.idle.stretches[d.first], r.memory,
                                                   tenant.least_gap_ns, tenant.least_free_bytes));
    }
    r.copies = find_copies(log_);
  }

  trace_log log_;
  operation_table gpu_operations_;
  operation_table calls_;
  summary numbers_;
  memory_use memory_;
  call_depth depth_;
  ioctl_table ioctls_;
  wait_table waits_;
  inference_marks marks_;
  alarm_log alarms_;
};

}  // namespace analysis
CUTRACE_END_NAMESPACE
