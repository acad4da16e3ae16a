// SPDX-License-Identifier: Apache-2.0
// The tables for machines about the devices: idle time and its causes, activity, overlap, copies, launches,
// queues, memory, tenants; and the trace's calls by depth and its counts. `Out` is described in tables.hpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cutrace/names.hpp>
#include <string_view>
#include <vector>

#include "report/trace_analysis.hpp"

CUTRACE_BEGIN_NAMESPACE
namespace tables {

/// `part` / `whole`; 0 where `whole` is not positive.
template <class Number>
double share(Number part, Number whole) noexcept {
  return whole <= Number{0} ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

/// Short and stable, for machines.
inline const char* owner_name(analysis::owner o) noexcept {
  constexpr const char* names[] = {"gpu_kernel", "gpu_copy",    "gpu_memset",    "gpu_unfinished",
                                   "host_init",  "host_memory", "host_copy",     "host_launch",
                                   "host_other", "host_sync",   "host_own_code", "nothing"};
  return names[static_cast<std::size_t>(o)];
}
inline const char* class_name(analysis::work_class c) noexcept {
  constexpr const char* names[] = {"compute", "communication", "host_to_device", "device_to_host", "device_to_device",
                                   "peer",    "other_copy",    "memset",         "unfinished"};
  return names[static_cast<std::size_t>(c)];
}

template <class Row>
void percentile_fields(Row& row, const analysis::duration_histogram& h) {
  row("p50_ns", h.percentile_ns(50));
  row("p90_ns", h.percentile_ns(90));
  row("p99_ns", h.percentile_ns(99));
}

template <class Out>
void idle_tables(Out& out, const analysis::trace_log& log, const analysis::trace_results& r, std::size_t top) {
  const analysis::idle_report& idle = r.idle;
  out.object("idle", [&](auto& row) {
    row("gaps", idle.all.count);
    row("ns", idle.all.ns);
    row("before_ns", idle.before_ns);
    row("after_ns", idle.after_ns);
    percentile_fields(row, idle.lengths);
  });
  std::vector<std::size_t> causes;
  for (std::size_t c = 0; c < analysis::idle_cause_count; ++c) causes.push_back(c);
  out.table("idle_causes", causes, [&](auto& row, std::size_t c) {
    row("cause", analysis::name_of(static_cast<analysis::idle_cause>(c)));
    row("gaps", idle.by_cause[c].count);
    row("ns", idle.by_cause[c].ns);
    row("share", share(idle.by_cause[c].ns, idle.all.ns));
  });
  const std::size_t shown = std::min(top, idle.blames.size());
  const std::vector<analysis::idle_blame> blames(idle.blames.begin(),
                                                 idle.blames.begin() + static_cast<std::ptrdiff_t>(shown));
  out.table("idle_blames", blames, [](auto& row, const analysis::idle_blame& b) {
    row("device", b.device);
    row("cause", analysis::name_of(b.cause));
    row("stage", b.stage);
    row("call", b.call);
    row("gaps", b.total.count);
    row("ns", b.total.ns);
  });
  const std::vector<analysis::idle_gap> gaps(
      idle.longest.begin(), idle.longest.begin() + static_cast<std::ptrdiff_t>(std::min(top, idle.longest.size())));
  out.table("idle_gaps", gaps, [&](auto& row, const analysis::idle_gap& g) {
    const std::uint32_t stage = log.stages()[g.stage].name;
    row("device", g.device);
    row("start_ns", g.when.start_ns);
    row("duration_ns", g.when.length_ns());
    row("cause", analysis::name_of(g.cause));
    row("stage", stage == 0 ? std::string_view() : std::string_view(log.names().name(stage)));
    row("call", g.call == 0 ? std::string_view() : std::string_view(log.names().name(g.call)));
  });
}

template <class Out>
void device_tables(Out& out, const analysis::trace_results& r) {
  out.table("devices", r.devices, [&](auto& row, const analysis::device_activity& d) {
    row("device", d.device);
    row("name", d.name);
    row("operations", d.operations);
    row("streams", d.streams);
    row("active_start_ns", d.active.start_ns);
    row("active_end_ns", d.active.end_ns);
    row("busy_ns", d.busy_ns);
    row("busy_share", share(d.busy_ns, r.time.everything.recorded_ns));
    row("unfinished_ns", d.unfinished_ns);
    row("idle_ns", d.idle_ns);
    row("gaps", d.gap_count);
    row("compute_ns", d.compute_ns);
    row("non_compute_ns", d.non_compute_ns);
    row("kernel_ns", d.kernel_ns);
    row("copy_ns", d.copy_ns);
    row("exposed_copy_ns", d.exposed_copy_ns);
  });
  struct pair {
    std::uint32_t device = 0;
    analysis::work_class a{}, b{};
    std::int64_t both_ns = 0, a_ns = 0, exposed_ns = 0;
  };
  std::vector<pair> pairs;
  for (const analysis::device_activity& d : r.devices)
    for (std::size_t i = 0; i < analysis::work_class_count; ++i)
      for (std::size_t k = 0; k < analysis::work_class_count; ++k)
        if (d.class_ns[i] > 0 && d.class_ns[k] > 0)
          pairs.push_back({d.device, static_cast<analysis::work_class>(i), static_cast<analysis::work_class>(k),
                           d.overlap_ns[i][k], d.class_ns[i], d.exposed_ns[i]});
  out.table("overlap", pairs, [](auto& row, const pair& p) {
    row("device", p.device);
    row("a", class_name(p.a));
    row("b", class_name(p.b));
    row("both_ns", p.both_ns);
    row("a_ns", p.a_ns);
    row("share_of_a", share(p.both_ns, p.a_ns));
    row("a_without_compute_ns", p.exposed_ns);
  });
  out.table("copies", r.copies, [](auto& row, const analysis::copy_row& c) {
    row("device", c.device);
    row("direction", class_name(c.is));
    row("pageable", c.pageable);
    row("asynchronous", c.asynchronous);
    row("count", c.count);
    row("bytes", c.bytes);
    row("gpu_ns", c.gpu_ns);
    row("exposed_ns", c.exposed_ns);
    row("bytes_per_s", c.bytes_per_s());
    row("peak_bytes_per_s", c.peak_bytes_per_s);
    row("small_count", c.small_count);
    row("small_bytes", c.small_bytes_sum);
    row("small_ns", c.small_ns);
  });
}

template <class Out>
void queue_tables(Out& out, const analysis::trace_results& r) {
  const analysis::launch_report& l = r.launches;
  out.object("launches", [&](auto& row) {
    row("launched", l.launched);
    row("call_unknown", l.unknown);
    row("delay_p50_ns", l.delay.percentile_ns(50));
    row("delay_p90_ns", l.delay.percentile_ns(90));
    row("delay_p99_ns", l.delay.percentile_ns(99));
    row("call_p50_ns", l.call_time.percentile_ns(50));
    row("call_p90_ns", l.call_time.percentile_ns(90));
    row("call_p99_ns", l.call_time.percentile_ns(99));
    row("during_call", l.during_call);
    row("skew", l.skew);
    row("largest_skew_ns", l.largest_skew_ns);
    row("slow_calls", l.slow_calls);
    row("late_starts", l.late_starts);
    row("kernels", l.kernels);
    row("short_kernels", l.short_kernels);
  });
  out.table("queues", r.queues, [](auto& row, const analysis::queue_report& q) {
    row("device", q.device);
    row("longest", q.longest);
    row("mean", q.mean);
    row("empty_ns", q.empty_ns);
    row("recorded_ns", q.recorded_ns);
    row("start_ns", q.span.start_ns);
    row("end_ns", q.span.end_ns);
  });
  out.table("context_switches", r.switches, [](auto& row, const analysis::switch_report& s) {
    row("device", s.device);
    row("contexts", s.contexts);
    row("switches", s.switches);
    row("overlapping", s.overlapping);
    row("idle_ns", s.idle_ns);
  });
  out.table("multiplex", r.multiplex, [](auto& row, const analysis::multiplex_report& m) {
    row("device", m.device);
    row("least_gap_ns", m.least_gap_ns);
    row("least_free_bytes", m.least_free_bytes);
    row("memory_known", m.memory_known);
    row("windows", m.windows);
    row("ns", m.window_ns);
    row("share", m.share());
    row("longest_ns", m.longest_ns);
    percentile_fields(row, m.lengths);
  });
}

template <class Out>
void memory_tables(Out& out, const analysis::memory_report& m, std::size_t top) {
  out.object("memory", [&](auto& row) {
    row("from_records", m.from_records);
    row("allocations", m.allocations);
    row("frees", m.frees);
    row("frees_of_unknown", m.unknown_frees);
    row("peak_bytes", m.peak_bytes);
    row("live_bytes", m.live_bytes);
    row("live_allocations", m.live_allocations);
  });
  const std::vector<analysis::memory_owner> stages(
      m.stages.begin(), m.stages.begin() + static_cast<std::ptrdiff_t>(std::min(top, m.stages.size())));
  out.table("memory_by_stage", stages, [](auto& row, const analysis::memory_owner& o) {
    row("stage", o.stage);
    row("allocations", o.allocations);
    row("frees", o.frees);
    row("allocated_bytes", o.allocated_bytes);
    row("peak_bytes", o.peak_bytes);
    row("live_bytes", o.live_bytes);
    row("live_allocations", o.live_allocations);
  });
}

template <class Out>
void number_tables(Out& out, const analysis::trace_results& r) {
  struct level : analysis::depth_level {
    std::size_t depth = 0;
  };
  std::vector<level> levels;
  for (std::size_t i = 0; i < r.depth.size(); ++i) {
    if (r.depth[i].calls + r.depth[i].stages == 0) continue;
    level l;
    static_cast<analysis::depth_level&>(l) = r.depth[i];
    l.depth = i;
    levels.push_back(l);
  }
  out.table("depth", levels, [](auto& row, const level& l) {
    row("depth", l.depth);
    row("calls", l.calls);
    row("call_ns", l.call_ns);
    row("stages", l.stages);
    row("stage_ns", l.stage_ns);
  });
  const analysis::trace_numbers& n = r.numbers;
  out.object("numbers", [&](auto& row) {
    row("driver_calls", n.driver_calls);
    row("runtime_calls", n.runtime_calls);
    row("failed_calls", n.failed_calls);
    row("launches", n.launches());
    row("kernels", n.kernels);
    row("graph_launches", n.graph_launches);
    row("memsets", n.memsets);
    row("gpu_operations", n.gpu_operations);
    row("sync_calls", n.sync_calls);
    row("sync_ns", n.sync_ns);
    row("stages", n.stages);
    row("marks", n.marks);
    row("tracing_overhead_ns", n.tracing_overhead_ns);
    row("device_allocations", n.device.allocations);
    row("device_allocated_bytes", n.device.allocated_bytes);
    row("device_peak_live_bytes", n.device.peak_live_bytes);
    row("host_allocations", n.host.allocations);
    row("host_allocated_bytes", n.host.allocated_bytes);
    row("host_peak_live_bytes", n.host.peak_live_bytes);
  });
}

template <class Out>
void gpu_tables(Out& out, const analysis::trace_results& r, std::size_t top) {
  device_tables(out, r);
  queue_tables(out, r);
  memory_tables(out, r.memory, top);
  number_tables(out, r);
}

}  // namespace tables
CUTRACE_END_NAMESPACE
