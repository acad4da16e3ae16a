// SPDX-License-Identifier: Apache-2.0
// The tables about the devices in a report of a file: activity, overlap, copies, launches, memory, tenants,
// the longest gaps.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cutrace/sinks/ascii/page.hpp>
#include <cutrace/sinks/ascii/tables.hpp>
#include <string>
#include <vector>

#include "report/pages/text_head.hpp"
#include "report/trace_analysis.hpp"

CUTRACE_BEGIN_NAMESPACE
namespace ascii {

class gpu_tables {
 public:
  gpu_tables(page& out, const analysis::trace_log& log, const analysis::trace_results& r)
      : out_(out), log_(log), r_(r), recorded_ns_(r.time.everything.recorded_ns) {}

  CUTRACE_NOINLINE void print(std::size_t top) {
    if (r_.devices.empty()) return;
    devices();
    overlap();
    copies();
    launches();
    memory(top);
    tenants();
    gaps(top);
  }

 private:
  static double d(std::int64_t ns) noexcept { return static_cast<double>(ns); }

  void devices() {
    std::vector<device_row> rows;
    for (const analysis::device_activity& a : r_.devices)
      rows.push_back({a.device, a.name, a.busy_ns, a.busy_ns + a.unfinished_ns + a.idle_ns, a.kernel_ns, a.idle_ns,
                      a.gap_count, a.streams});
    print_devices(out_, rows, recorded_ns_, r_.idle.lengths);
  }

  /// A matrix of the classes that occur; its diagonal is all time of the class, with or without overlap.
  void overlap() {
    for (const analysis::device_activity& a : r_.devices) {
      std::vector<std::size_t> seen;
      for (std::size_t c = 0; c < analysis::work_class_count; ++c)
        if (a.class_ns[c] > 0) seen.push_back(c);
      if (seen.size() < 2) continue;
      // A narrow page has no room for all columns in one matrix.
      const std::size_t most = (out_.width() - 18) / 10;
      for (std::size_t from = 0; from < seen.size(); from += most) {
        const std::size_t to = std::min(from + most, seen.size());
        std::string columns;
        for (std::size_t k = from; k < to; ++k) append(columns, {{short_name(seen[k]), 10}});
        out_.heading({"OVERLAP ON GPU ", digits(a.device)}, columns);
        for (const std::size_t c : seen) {
          std::string line = joined({"    ", {analysis::name_of(static_cast<analysis::work_class>(c)), -14}});
          line.append(out_.width() - 10 * (to - from) - line.size(), ' ');
          for (std::size_t k = from; k < to; ++k) append(line, {{duration(a.overlap_ns[c][seen[k]]), 10}});
          out_.line(std::string_view(line));
        }
      }
    }
  }
  static const char* short_name(std::size_t c) noexcept {
    constexpr const char* names[] = {"compute", "comm.", "HtoD", "DtoH", "DtoD", "peer", "other", "memset", "unfin."};
    return names[c];
  }

  void copies() {
    if (r_.copies.empty()) return;
    out_.heading("COPIES",
                 {{"count", 10}, {"bytes", 10}, {"time", 10}, {"exposed", 10}, {"bandwidth", 11}, {"of peak", 9}});
    const std::size_t room = out_.width() - 2 - 60;
    for (const analysis::copy_row& c : r_.copies) {
      std::string what =
          joined({analysis::name_of(c.is), c.pageable ? ", pageable" : "", c.asynchronous ? "" : ", blocking"});
      if (r_.devices.size() > 1) append(what, {", GPU ", digits(c.device)});
      out_.line({"  ",
                 {cut(what, room - 1), left(room)},
                 {count(c.count), 10},
                 {bytes(c.bytes), 10},
                 {duration(c.gpu_ns), 10},
                 {duration(c.exposed_ns), 10},
                 {c.gpu_ns > 0 ? bandwidth(c.bytes_per_s()) : figure("-"), 11},
                 {share_of(c.bytes_per_s(), c.peak_bytes_per_s), 9}});
    }
    out_.paragraph(
        "    Exposed: no kernel ran meanwhile. Peak: nominal, of the link or half of the memory's bandwidth.", 4);
  }

  void launches() {
    const analysis::launch_report& l = r_.launches;
    if (l.launched == 0) return;
    out_.heading("LAUNCHES");
    const auto percentiles = [](const analysis::duration_histogram& h) {
      return joined(
          {duration(h.percentile_ns(50)), " / ", duration(h.percentile_ns(90)), " / ", duration(h.percentile_ns(99))});
    };
    out_.paragraph({"  from the call's end to the start on the GPU (p50 / p90 / p99): ", percentiles(l.delay), "; ",
                    count(l.during_call), " of ", count(l.launched), " started while their call still ran"},
                   4);
    if (l.call_time.count() > 0)
      out_.paragraph(
          {"  launching calls (p50 / p90 / p99): ", percentiles(l.call_time), "; over 50 us: ", count(l.slow_calls),
           "; kernels shorter than their call: ", count(l.short_kernels), " of ", count(l.kernels)},
          4);
    for (const analysis::queue_report& q : r_.queues)
      out_.paragraph(
          {"  queue of GPU ", digits(q.device), ": ", three_digits(q.mean), " on average, ", count(q.longest),
           " at most, empty for ", share_of(d(q.empty_ns), d(q.recorded_ns)), " of the time"},
          4);
    if (l.skew > 0)
      out_.paragraph(
          {"  skew: ", count(l.skew), " seem to start before their call, by up to ", duration(l.largest_skew_ns)}, 4);
    for (const analysis::switch_report& s : r_.switches)
      if (s.contexts > 1)
        out_.paragraph(
            {"  contexts on GPU ", digits(s.device), ": ", count(s.contexts), ", ", counted(s.switches, "switch over"),
             " to another one, idle in between for ", duration(s.idle_ns)},
            4);
  }

  void memory(std::size_t top) {
    const analysis::memory_report& m = r_.memory;
    if (m.stages.empty()) return;
    out_.heading("DEVICE MEMORY BY STAGE",
                 {{"allocated", 10}, {"calls", 10}, {"frees", 10}, {"peak", 10}, {"live at end", 13}});
    const std::size_t room = out_.width() - 2 - 53;
    for (std::size_t i = 0; i < std::min(top, m.stages.size()); ++i) {
      const analysis::memory_owner& o = m.stages[i];
      out_.line({"  ",
                 {label(o.stage.empty() ? "(in no stage)" : o.stage, room - 1), left(room)},
                 {bytes(o.allocated_bytes), 10},
                 {count(o.allocations), 10},
                 {count(o.frees), 10},
                 {bytes(o.peak_bytes), 10},
                 {bytes(o.live_bytes), 13}});
    }
    out_.paragraph(
        {"    Peak of all ", bytes(m.peak_bytes), "; never freed: ", counted(m.live_allocations, "allocation"), ", ",
         bytes(m.live_bytes), m.from_records ? "." : ". From the arguments of calls."},
        4);
  }

  void tenants() {
    for (const analysis::multiplex_report& m : r_.multiplex) {
      if (m.windows == 0) continue;
      out_.heading("ROOM FOR A SECOND TENANT");
      out_.paragraph({"  GPU ", digits(m.device), ": ", share_of(m.share(), 1.0), " of the wall time, in ",
                      counted(m.windows, "window"), " of at least ", duration(m.least_gap_ns),
                      m.memory_known ? " with at least " : "", m.memory_known ? bytes(m.least_free_bytes) : figure(),
                      m.memory_known ? " free" : "", " (p50 ", duration(m.lengths.percentile_ns(50)), ", longest ",
                      duration(m.longest_ns), ")"},
                     4);
    }
  }

  /// With the stage and call that are to blame, as in docs/analyses.md.
  void gaps(std::size_t top) {
    if (r_.idle.longest.empty()) return;
    out_.heading("LONGEST GAPS", {{"at", 10}, {"length", 10}, {"  ", 2}, {"cause", -16}, {"stage: call", -38}});
    for (std::size_t i = 0; i < std::min(top, r_.idle.longest.size()); ++i) {
      const analysis::idle_gap& g = r_.idle.longest[i];
      const std::uint32_t stage = log_.stages()[g.stage].name;
      const std::string whom = whom_words(stage == 0 ? std::string() : log_.names().name(stage),
                                          g.call == 0 ? std::string() : log_.names().name(g.call), 38);
      const std::size_t room = out_.width() - 76;
      out_.line({{digits(i + 1), 3},
                 " ",
                 {joined({"GPU ", digits(g.device)}), left(std::max<std::size_t>(room, 9) - 4)},
                 {duration(g.when.start_ns - log_.window().start_ns), 10},
                 {duration(g.when.length_ns()), 10},
                 "  ",
                 {analysis::name_of(g.cause), -16},
                 {whom, -38}});
    }
  }

  page& out_;
  const analysis::trace_log& log_;
  const analysis::trace_results& r_;
  std::int64_t recorded_ns_;
};

}  // namespace ascii
CUTRACE_END_NAMESPACE
