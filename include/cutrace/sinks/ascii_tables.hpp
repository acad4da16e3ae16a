// SPDX-License-Identifier: Apache-2.0
// The tables of the ASCII report: stages, devices, top operations, plain numbers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cutrace/names.hpp>
#include <cutrace/sinks/ascii_collect.hpp>
#include <cutrace/sinks/ascii_page.hpp>
#include <initializer_list>
#include <string>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace ascii {

inline void print_left_out(page& out, std::size_t all, std::size_t shown, const char* what) {
  if (all > shown) out.line(fmt::format("    .. and {} more {}", count(all - shown), what));
}

inline std::string request_count(const analysis::stage_time& s) {
  // ">=": a marker named more requests than its record holds. "~": estimated, more than the table remembers.
  if (s.requests == 0) return "-";
  return fmt::format("{}{}", s.requests_cut ? ">=" : s.requests_exact ? "" : "~", count(s.requests));
}

/// "~" before times that are approximate.
inline std::string stage_time_text(const analysis::stage_time& s, std::int64_t ns) {
  return (s.approximate ? "~" : "") + duration(ns);
}

inline void print_stages(page& out, const std::vector<analysis::stage_time>& rows, std::size_t top,
                         std::int64_t gpu_outside_ns) {
  if (rows.empty()) return;
  // On narrow pages the mean makes room for names.
  const bool wide = out.width() >= 100;
  const std::size_t column = wide ? 10 : 9;
  const std::size_t room = out.width() - column * (wide ? 7 : 6) - 4;
  const auto cells = [&](std::initializer_list<std::string> texts) {
    std::string line;
    for (const std::string& t : texts) line += fmt::format("{:>{}}", t, column);
    return line;
  };
  const auto mean = [&](const std::string& text) { return wide ? fmt::format("{:>{}}", text, column) : std::string(); };
  out.heading("STAGES", cells({"calls"}) + mean("mean") +
                            cells({wide ? "host time" : "host", "GPU own", "GPU all", "GPU idle", "requests"}));
  const std::size_t shown = std::min(rows.size(), top);
  for (std::size_t i = 0; i < shown; ++i) {
    const analysis::stage_time& s = rows[i];
    const double mean_ns = s.calls == 0 ? 0 : static_cast<double>(s.host_sum_ns) / static_cast<double>(s.calls);
    out.line(fmt::format(
        "{:>3} {:<{}}{}{}{}", i + 1, label(s.name, room - 1), room, cells({count(s.calls)}),
        mean(s.calls == 0 ? "-" : duration(mean_ns)),
        cells({stage_time_text(s, s.host_ns), stage_time_text(s, s.gpu_own_ns), stage_time_text(s, s.gpu_inclusive_ns),
               stage_time_text(s, s.gpu_idle_inside_ns), request_count(s)})));
  }
  print_left_out(out, rows.size(), shown, "stages");
  if (gpu_outside_ns > 0)
    out.line(fmt::format("    {:<{}}{}{}{}", label("(in no stage)", room - 1), room, cells({""}), mean(""),
                         cells({"", duration(gpu_outside_ns)})));
  out.paragraph(
      "    Host: union over threads. GPU own: work issued in the stage itself; all: with nested stages. GPU "
      "idle: part of the host time in which no GPU was at work.",
      4);
}

inline void print_devices(page& out, const collection& data, analysis::interval window) {
  const std::vector<analysis::device_time> devices = data.time.devices();
  if (devices.empty()) return;
  const std::size_t room = out.width() - 64;
  out.heading("GPUS", fmt::format("{:>10}{:>10}{:>12}{:>12}{:>10}{:>10}", "busy", "of trace", "active span", "of span",
                                  "idle", "gaps"));
  for (const analysis::device_time& d : devices) {
    const auto name = data.device_names.find(d.device);
    const double busy = static_cast<double>(d.busy_ns);
    out.line(fmt::format("{:>3} {:<{}}{:>10}{:>10}{:>12}{:>12}{:>10}{:>10}", d.device,
                         label(name == data.device_names.end() ? "(not described)" : name->second, room - 5), room - 4,
                         duration(d.busy_ns), share_of(busy, static_cast<double>(window.length_ns())),
                         duration(d.active.length_ns()), share_of(busy, static_cast<double>(d.active.length_ns())),
                         duration(d.idle_ns(window)), count(d.gap_count)));
  }
}

/// @param what "GPU" or "HOST"
inline void print_operations(page& out, const char* title, const analysis::operation_table& table, std::size_t top) {
  if (table.total_count() == 0) return;
  const std::size_t room = out.width() - 50;
  out.heading(title, fmt::format("{:>11}{:>10}{:>10}{:>10}{:>9}", "count", "total", "mean", "longest", "share"));
  const std::vector<analysis::operation> rows = table.top(top);
  for (const analysis::operation& o : rows) {
    std::string name = label(o.name, room - 5);
    if (o.failed > 0) {
      const std::string failed = fmt::format(" ({} FAILED)", count(o.failed));
      name = label(o.name, room - 5 - std::min(failed.size(), room - 10)) + failed;
    }
    out.line(fmt::format("  {} {:<{}}{:>11}{:>10}{:>10}{:>10}{:>9}", analysis::letter_of(o.is), name, room - 4,
                         count(o.count), duration(o.total_ns), duration(o.mean_ns()), duration(o.longest_ns),
                         share_of(static_cast<double>(o.total_ns), static_cast<double>(table.total_ns()))));
  }
  print_left_out(out, table.size(), rows.size(), "names");
}

/// Calls, launches, memory, copies, waits: a line each.
class numbers_section {
 public:
  numbers_section(page& out, const analysis::trace_numbers& n, std::int64_t total_ns)
      : out_(out), n_(n), total_s_(static_cast<double>(total_ns) / 1e9) {}

  void print() {
    out_.heading("SUMMARY");
    calls();
    launches();
    memory();
    copies();
    row("waiting", fmt::format("synchronising calls {}, time in them {} (summed over threads)", count(n_.sync_calls),
                               duration(n_.sync_ns)));
    row("program", fmt::format("stages {}, marks {}", count(n_.stages), count(n_.marks)));
    if (n_.tracing_overhead_ns > 0)
      row("overhead", fmt::format("{} of the driver's own, for tracing and lazy loading (overhead records)",
                                  duration(n_.tracing_overhead_ns)));
  }

 private:
  void row(const char* what, const std::string& text) { out_.paragraph(fmt::format("  {:<10}{}", what, text), 12); }
  std::string per_second(std::uint64_t n) const {
    if (total_s_ <= 0) return "";
    return fmt::format(" ({}/s)", count(static_cast<std::uint64_t>(static_cast<double>(n) / total_s_ + 0.5)));
  }

  void calls() {
    std::string s = fmt::format("driver {}, runtime {}", count(n_.driver_calls), count(n_.runtime_calls));
    if (n_.failed_calls > 0) s += fmt::format("; FAILED {}", count(n_.failed_calls));
    row("calls", s);
  }
  void launches() {
    row("launches",
        fmt::format("{}{}; on the GPU: kernels {}, graphs {}, memsets {}", count(n_.launches()),
                    per_second(n_.launches()), count(n_.kernels), count(n_.graph_launches), count(n_.memsets)));
  }
  static std::string total(const analysis::memory_total& m, bool approximate) {
    return fmt::format("allocations {} ({}), frees {}, live at the end {}{}, peak {}{}", count(m.allocations),
                       bytes(m.allocated_bytes), count(m.frees), approximate ? "~" : "", bytes(m.live_bytes),
                       approximate ? "~" : "", bytes(m.peak_live_bytes));
  }
  void memory() {
    if (n_.memory_records) {
      row("memory", "device: " + total(n_.device, n_.live_approximate));
      if (n_.host.allocations + n_.host.frees > 0) row("", "host:   " + total(n_.host, n_.live_approximate));
      return;
    }
    const bool runtime = n_.runtime_allocation_bytes > n_.driver_allocation_bytes;
    const std::uint64_t calls = runtime ? n_.runtime_allocation_calls : n_.driver_allocation_calls;
    row("memory", calls == 0 ? "no allocation seen"
                             : fmt::format("allocating calls {} ({}); peak unknown (no memory records)", count(calls),
                                           bytes(runtime ? n_.runtime_allocation_bytes : n_.driver_allocation_bytes)));
  }
  void copies() {
    bool any = false;
    for (std::size_t d = 0; d < analysis::copy_direction_count; ++d) {
      const analysis::copy_total& c = n_.copies[d];
      if (c.count == 0) continue;
      row(any ? "" : "copies",
          fmt::format("{}: {}, {} in {}{}{}", to_string(static_cast<copy_direction>(d)), count(c.count), bytes(c.bytes),
                      duration(c.gpu_ns), c.gpu_ns > 0 ? ", " : "", c.gpu_ns > 0 ? bandwidth(c.bytes_per_s()) : ""));
      any = true;
    }
    if (!any) row("copies", "none on the GPU");
  }

  page& out_;
  const analysis::trace_numbers& n_;
  double total_s_;
};

}  // namespace ascii
CUTRACE_END_NAMESPACE
