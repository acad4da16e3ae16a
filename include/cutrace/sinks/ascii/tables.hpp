// SPDX-License-Identifier: Apache-2.0
// The tables of the ASCII report: stages, devices, top operations, plain numbers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cutrace/names.hpp>
#include <cutrace/sinks/ascii/collect.hpp>
#include <cutrace/sinks/ascii/page.hpp>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace ascii {

// The timeline of the ASCII report: a row for each depth of stages and of calls, one for each stream, a letter for
// what fills most of a column.

/// A stage's character in the timeline: the number of its row in the table of stages, '+' beyond the ninth row.
class stage_digits {
 public:
  explicit stage_digits(const std::vector<analysis::stage_time>& rows) : rows_(rows) {}
  char digit(std::uint32_t number) const noexcept {
    for (std::size_t i = 0; i < rows_.size() && i < 9; ++i)
      if (rows_[i].number == number) return static_cast<char>('1' + i);
    return '+';
  }

 private:
  const std::vector<analysis::stage_time>& rows_;
};

/// '.' nothing, ':' less than half of the column, else what has the largest share of the column: the digit of a stage
/// where there are `digits`, else the letter of a category.
CUTRACE_NOINLINE inline std::string chart_text(const chart_row& row, analysis::interval window, std::size_t columns,
                                               const stage_digits* digits) {
  const std::vector<analysis::timeline_cell> cells = row.colors.cells(window, columns);
  std::string out(columns, '.');
  for (std::size_t c = 0; c < columns; ++c) {
    const std::int64_t column_ns = analysis::timeline_row::part(window, c, columns).length_ns();
    if (cells[c].ns <= 0) continue;
    if (2 * cells[c].ns < column_ns)
      out[c] = ':';
    else
      out[c] = digits != nullptr ? digits->digit(cells[c].color)
                                 : analysis::letter_of(static_cast<analysis::category>(cells[c].color));
  }
  return out;
}

class timeline_section {
 public:
  timeline_section(page& out, const collection& data, analysis::interval window)
      : out_(out), data_(data), window_(window), columns_(out.width() - label_width - 11) {}

  CUTRACE_NOINLINE void print(const std::vector<analysis::stage_time>& stages) {
    if (empty()) return;
    const double column_ns = static_cast<double>(window_.length_ns()) / static_cast<double>(columns_);
    out_.heading({"TIMELINE  0 .. ", duration(window_.length_ns()), ", a column is ", duration(column_ns)},
                 "% of time");
    print_host(stages);
    print_streams();
    const bool categories = any_call() || !data_.stream_rows.empty();
    out_.paragraph({categories ? "  i init  m memory  t transfer  K kernel  s sync  o other" : "",
                    "  : under half of the column  . nothing"},
                   2);
    print_stage_legend(stages);
  }

 private:
  static constexpr std::size_t label_width = 13;

  bool empty() const {
    for (const chart_row& r : data_.stage_rows)
      if (r.used) return false;
    return !any_call() && data_.stream_rows.empty();
  }
  bool any_call() const {
    for (const chart_row& r : data_.call_rows)
      if (r.used) return true;
    return false;
  }

  CUTRACE_NOINLINE void row(std::string_view name, const chart_row& r, const stage_digits* digits = nullptr) {
    const double busy_ns = static_cast<double>(r.busy.length_ns());
    out_.line({"  ",
               {cut(std::string(name), label_width - 1), left(label_width - 1)},
               "|",
               chart_text(r, window_, columns_, digits),
               "|",
               {share_of(busy_ns, static_cast<double>(window_.length_ns())), 7}});
  }

  CUTRACE_NOINLINE void print_host(const std::vector<analysis::stage_time>& stages) {
    const stage_digits digits(stages);
    for (std::size_t d = 0; d < stage_depth_count; ++d)
      if (data_.stage_rows[d].used)
        row(figure("stages ").add(ascii::digits(d)).add(d + 1 == stage_depth_count ? "+" : ""), data_.stage_rows[d],
            &digits);
    constexpr const char* names[call_depth_count] = {"runtime API", "driver API", "ioctl", "system"};
    for (std::size_t d = 0; d < call_depth_count; ++d)
      if (data_.call_rows[d].used) row(names[d], data_.call_rows[d]);
  }

  CUTRACE_NOINLINE void print_streams() {
    for (const auto& s : data_.stream_rows)
      row(figure("GPU ").add(digits(s.first.first)).add(":").add(digits(s.first.second)), s.second);
    if (data_.other_streams.used) row("GPU others", data_.other_streams);
  }

  CUTRACE_NOINLINE void print_stage_legend(const std::vector<analysis::stage_time>& stages) {
    const std::size_t shown = std::min<std::size_t>(stages.size(), 9);
    std::string text;
    for (std::size_t i = 0; i < shown; ++i) {
      const std::string entry = joined({"  ", digits(i + 1), " ", label(stages[i].name, 24)});
      if (text.size() + entry.size() > out_.width()) {
        out_.line(text);
        text.clear();
      }
      text += entry;
    }
    if (stages.size() > shown) text += "  + others";
    if (!text.empty()) out_.line(text);
  }

  page& out_;
  const collection& data_;
  analysis::interval window_;
  std::size_t columns_;
};

CUTRACE_NOINLINE inline void print_left_out(page& out, std::size_t all, std::size_t shown, const char* what) {
  if (all > shown) out.line({"    .. and ", count(all - shown), " more ", what, all - shown == 1 ? "" : "s"});
}

CUTRACE_NOINLINE inline figure request_count(const analysis::stage_time& s) {
  // ">=": a marker named more requests than its record holds. "~": estimated, more than the table remembers.
  if (s.requests == 0) return figure("-");
  return figure(s.requests_cut ? ">=" : s.requests_exact ? "" : "~").add(count(s.requests));
}

/// "~" before times that are approximate.
CUTRACE_NOINLINE inline figure time_text(bool approximate, std::int64_t ns) {
  return figure(approximate ? "~" : "").add(duration(ns));
}

/// @param gpu_seen false: there was no GPU work, and the columns of the GPU are left out
template <class Row>
void print_stages(page& out, const std::vector<Row>& rows, std::size_t top, bool gpu_seen,
                  const work_without_stage& rest) {
  if (rows.empty()) return;
  // Narrow pages have no column "mean", so that names have more room.
  const bool wide = out.width() >= 100;
  const int column = wide ? 10 : 9;
  const int mean_column = wide ? column : 0;
  const int gpu_column = gpu_seen ? column : 0;
  const std::size_t room = out.width() - 4 - static_cast<std::size_t>(3 * column + mean_column + 3 * gpu_column);
  out.heading("STAGES", {{"calls", column},
                         {wide ? "mean" : "", mean_column},
                         {"host", column},
                         {gpu_seen ? "GPU own" : "", gpu_column},
                         {gpu_seen ? "GPU all" : "", gpu_column},
                         {gpu_seen ? "GPU idle" : "", gpu_column},
                         {"requests", column}});
  const auto gpu = [&](const analysis::stage_time& s, std::int64_t ns) {
    return gpu_seen ? time_text(s.approximate, ns) : figure();
  };
  const std::size_t shown = std::min(rows.size(), top);
  for (std::size_t i = 0; i < shown; ++i) {
    const analysis::stage_time& s = rows[i];
    const double mean_ns = s.calls == 0 ? 0 : static_cast<double>(s.host_sum_ns) / static_cast<double>(s.calls);
    out.line({{digits(i + 1), 3},
              " ",
              {label(s.name, room - 1), left(room)},
              {count(s.calls), column},
              {!wide          ? figure()
               : s.calls == 0 ? figure("-")
                              : duration(mean_ns),
               mean_column},
              {time_text(s.approximate, s.host_ns), column},
              {gpu(s, s.gpu_own_ns), gpu_column},
              {gpu(s, s.gpu_inclusive_ns), gpu_column},
              {gpu(s, s.gpu_idle_inside_ns), gpu_column},
              {request_count(s), column}});
  }
  print_left_out(out, rows.size(), shown, "stage");
  if (gpu_seen && rest.outside_ns > 0)
    out.line(
        {"    GPU work in no stage: ", counted(rest.outside_operations, "operation"), ", ", duration(rest.outside_ns)});
  if (rest.unknown_operations > 0)
    out.line({"    GPU work whose stage was forgotten: ", counted(rest.unknown_operations, "operation"), ", ",
              duration(rest.unknown_ns)},
             tone::alarm);
  out.paragraph({"    Host: union over threads.",
                 gpu_seen ? " GPU own: work issued in the stage itself; all: with nested stages. GPU "
                            "idle: part of the host time in which no GPU was at work."
                          : ""},
                4);
}

/// A row of the table of GPUs; times in ns.
struct device_row {
  std::uint32_t device = 0;
  std::string_view name;  ///< empty: the trace does not describe it
  std::int64_t busy_ns = 0;
  std::int64_t active_ns = 0;  ///< recorded time from the device's first work to its last
  std::int64_t kernel_ns = 0, idle_ns = 0;
  std::uint64_t gaps = 0, streams = 0;
  bool approximate = false;  ///< busy_ns and kernel_ns are approximate
  bool idle_approximate = false;
};

CUTRACE_NOINLINE inline void print_devices(page& out, const std::vector<device_row>& devices, std::int64_t recorded_ns,
                                           const analysis::duration_histogram& gaps) {
  if (devices.empty()) return;
  const std::size_t room = out.width() - 4 - 66;
  out.heading(
      "GPUS",
      {{"busy", 10}, {"of trace", 9}, {"of span", 9}, {"kernels", 10}, {"idle", 10}, {"gaps", 9}, {"streams", 9}});
  for (const device_row& d : devices) {
    const double busy = static_cast<double>(d.busy_ns);
    out.line({{digits(d.device), 3},
              " ",
              {label(d.name.empty() ? "(not described)" : d.name, room - 1), left(room)},
              {time_text(d.approximate, d.busy_ns), 10},
              {share_of(busy, static_cast<double>(recorded_ns)), 9},
              {share_of(busy, static_cast<double>(d.active_ns)), 9},
              {time_text(d.approximate, d.kernel_ns), 10},
              {time_text(d.idle_approximate, d.idle_ns), 10},
              {count(d.gaps), 9},
              {count(d.streams), 9}});
  }
  if (gaps.count() > 0)
    out.paragraph({"    Span: first to last work. Idle: gaps in it; half of them are shorter than ",
                   duration(gaps.percentile_ns(50)), ", 90 % than ", duration(gaps.percentile_ns(90)), ", 99 % than ",
                   duration(gaps.percentile_ns(99)), "."},
                  4);
}

/// Rows of the table of GPUs for a trace that is being recorded.
CUTRACE_NOINLINE inline std::vector<device_row> device_rows(const collection& data) {
  std::vector<device_row> rows;
  for (const analysis::device_time& d : data.time.devices()) {
    device_row r;
    r.device = d.device;
    const auto name = data.device_names.find(d.device);
    if (name != data.device_names.end()) r.name = name->second;
    r.busy_ns = d.busy_ns;
    r.kernel_ns = d.kernel_ns;
    const analysis::idle_total idle = data.idle.of_device(d.device);
    r.idle_ns = idle.ns;
    r.active_ns = d.busy_ns + d.unfinished_ns + idle.ns;
    r.gaps = idle.count;
    r.streams = d.streams;
    r.approximate = d.approximate;
    r.idle_approximate = data.idle.off_ns() > 0;
    rows.push_back(r);
  }
  return rows;
}

// Names of kernels as a person says them: without return type, namespaces and parameters; of template arguments those
// that distinguish rows of the table.

/// A demangled name in its parts; names that are not C++ names have a base alone.
struct kernel_name {
  std::string base;
  std::vector<std::string> arguments;
};

/// "std::vector<at::Half>" as "vector<Half>".
CUTRACE_NOINLINE inline std::string without_namespaces(std::string_view name) {
  constexpr std::string_view unnamed = "(anonymous namespace)::";
  std::string out;
  std::size_t word = 0;  // where in `out` the identifier at hand begins
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (name.substr(i, unnamed.size()) == unnamed) {
      i += unnamed.size() - 1;
      continue;
    }
    if (name.substr(i, 2) == "::" && (out.empty() || out.back() != '>')) {
      out.resize(word);
      ++i;
      continue;
    }
    const char c = name[i];
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    out += c;
    if (!letter) word = out.size();
  }
  return out;
}

CUTRACE_NOINLINE inline kernel_name parts_of_kernel(std::string_view full) {
  constexpr std::string_view unnamed = "(anonymous namespace)";
  // Up to the parameters; the last space outside of brackets ends the return type.
  int depth = 0;
  std::size_t end = full.size(), begin = 0, open = std::string_view::npos;
  for (std::size_t i = 0; i < full.size(); ++i) {
    const char c = full[i];
    if (c == '(' && full.substr(i, unnamed.size()) == unnamed) {
      i += unnamed.size() - 1;
    } else if (c == '(' && depth == 0) {
      end = i;
      break;
    } else if (c == '<' || c == '(' || c == '{' || c == '[') {
      if (c == '<' && depth == 0) open = i;
      ++depth;
    } else if (c == '>' || c == ')' || c == '}' || c == ']') {
      --depth;
    } else if (c == ' ' && depth == 0) {
      begin = i + 1;
    }
  }
  kernel_name n;
  const char first = full.empty() ? '\0' : full[0];
  const bool word = (first >= 'a' && first <= 'z') || (first >= 'A' && first <= 'Z') || first == '_' || first == '(';
  if (!word || depth != 0 || begin >= end) return {std::string(full), {}};  // not a C++ name
  std::string_view name = full.substr(begin, end - begin);
  if (open != std::string_view::npos && open >= begin && open < end && name.back() == '>') {
    const std::string_view inside = full.substr(open + 1, end - open - 2);
    std::size_t from = 0;
    for (std::size_t i = 0; i <= inside.size(); ++i) {
      if (i < inside.size() && inside[i] != ',') {
        depth += inside[i] == '<' || inside[i] == '(' ? 1 : inside[i] == '>' || inside[i] == ')' ? -1 : 0;
        continue;
      }
      if (depth != 0) continue;
      std::string argument = without_namespaces(inside.substr(from, i - from));
      argument.erase(0, argument.find_first_not_of(' ') == std::string::npos ? 0 : argument.find_first_not_of(' '));
      n.arguments.push_back(std::move(argument));
      from = i + 1;
    }
    name = full.substr(begin, open - begin);
  }
  std::size_t last = 0;
  for (std::size_t i = 0; i + 1 < name.size(); ++i) {
    depth += name[i] == '<' || name[i] == '{' ? 1 : name[i] == '>' || name[i] == '}' ? -1 : 0;
    if (depth == 0 && name[i] == ':' && name[i + 1] == ':') last = i + 2;
  }
  n.base = name.substr(last);
  if (n.base.empty() || n.base[0] == '{') return {std::string(full), {}};  // a lambda's name says nothing alone
  return n;
}

/// A short name for each row. Short names differ where the full names differ.
CUTRACE_NOINLINE inline std::vector<std::string> short_names(const std::vector<analysis::operation>& rows) {
  std::vector<kernel_name> parts;
  std::map<std::string, std::vector<std::size_t>> of_base;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    parts.push_back(rows[i].is == analysis::category::kernel ? parts_of_kernel(rows[i].name)
                                                             : kernel_name{rows[i].name, {}});
    of_base[parts[i].base].push_back(i);
  }
  std::vector<std::string> names(rows.size());
  for (const auto& group : of_base) {
    const std::vector<std::size_t>& same = group.second;
    std::map<std::string, std::size_t> seen;
    for (const std::size_t i : same) {
      const std::vector<std::string>& mine = parts[i].arguments;
      std::string arguments;
      for (std::size_t a = 0; a < mine.size(); ++a) {
        const bool reports = std::any_of(same.begin(), same.end(), [&](std::size_t o) {
          return parts[o].arguments.size() != mine.size() || parts[o].arguments[a] != mine[a];
        });
        if (reports) append(arguments, {arguments.empty() ? "" : ", ", mine[a]});
      }
      names[i] = group.first;
      if (!arguments.empty()) append(names[i], {"<", arguments, ">"});
      ++seen[names[i]];
    }
    for (const std::size_t i : same)
      if (seen[names[i]] > 1) names[i] = rows[i].name;  // overloads
  }
  return names;
}

/// Name of an operation in `room` columns, and how often it failed.
CUTRACE_NOINLINE inline std::string operation_label(const analysis::operation& o, const std::string& shown,
                                                    std::size_t room) {
  if (o.failed == 0) return label(shown, room);
  const figure failed = figure(" (").add(count(o.failed)).add(" FAILED)");
  std::string name = label(shown, room - std::min(failed.view().size(), room - 5));
  name += failed.view();
  return name;
}

/// @param full_names true: kernels are printed with return type, namespaces, template arguments and parameters
CUTRACE_NOINLINE inline void print_operations(page& out, const char* title, const analysis::operation_table& table,
                                              std::size_t top, bool full_names = false) {
  if (table.total_count() == 0) return;
  out.heading(title, {{"count", 11}, {"total", 10}, {"p50", 9}, {"p90", 9}, {"p99", 9}, {"share", 8}});
  const std::size_t room = out.width() - 56;
  const std::vector<analysis::operation> rows = table.top(top);
  const std::vector<std::string> names = full_names ? std::vector<std::string>() : short_names(rows);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const analysis::operation& o = rows[i];
    const char letter[] = {' ', ' ', analysis::letter_of(o.is), ' ', '\0'};
    const auto percentile = [&](std::uint64_t ns) { return o.percentiles ? duration(ns) : figure("-"); };
    out.line({letter,
              {operation_label(o, full_names ? o.name : names[i], room - 5), left(room - 4)},
              {count(o.count), 11},
              {duration(o.total_ns), 10},
              {percentile(o.p50_ns), 9},
              {percentile(o.p90_ns), 9},
              {percentile(o.p99_ns), 9},
              {share_of(static_cast<double>(o.total_ns), static_cast<double>(table.total_ns())), 8}});
  }
  print_left_out(out, table.size(), rows.size(), "name");
}

/// Calls, launches, memory, copies, waits: a line each.
class numbers_section {
 public:
  numbers_section(page& out, const analysis::trace_numbers& n, std::int64_t total_ns)
      : out_(out), n_(n), total_s_(static_cast<double>(total_ns) / 1e9) {}

  CUTRACE_NOINLINE void print() {
    out_.heading("SUMMARY");
    calls();
    launches();
    memory();
    copies();
    row("waiting", {"synchronising calls ", count(n_.sync_calls), ", time in them ", duration(n_.sync_ns),
                    " (summed over threads)"});
    row("program", {"stages ", count(n_.stages), ", marks ", count(n_.marks)});
    if (n_.tracing_overhead_ns > 0)
      row("overhead",
          {duration(n_.tracing_overhead_ns), " of the driver's own, for tracing and lazy loading (overhead records)"});
  }

 private:
  CUTRACE_NOINLINE void row(const char* what, std::initializer_list<piece> pieces) {
    std::string text = joined({"  ", {what, -10}});
    append(text, pieces);
    out_.paragraph(text, 12);
  }
  figure per_second(std::uint64_t n) const {
    if (total_s_ <= 0) return {};
    const double rate = static_cast<double>(n) / total_s_ + 0.5;
    return figure(" (").add(count(static_cast<std::uint64_t>(rate))).add("/s)");
  }

  CUTRACE_NOINLINE void calls() {
    const bool failed = n_.failed_calls > 0;
    row("calls", {"driver ", count(n_.driver_calls), ", runtime ", count(n_.runtime_calls), failed ? "; FAILED " : "",
                  failed ? count(n_.failed_calls) : figure()});
  }
  CUTRACE_NOINLINE void launches() {
    row("launches", {count(n_.launches()), per_second(n_.launches()), "; on the GPU: kernels ", count(n_.kernels),
                     ", graphs ", count(n_.graph_launches), ", memsets ", count(n_.memsets)});
  }
  CUTRACE_NOINLINE void total(const char* what, const char* place, const analysis::memory_total& m) {
    const char* about = n_.live_approximate ? "~" : "";
    row(what, {place, "allocations ", count(m.allocations), " (", bytes(m.allocated_bytes), "), frees ", count(m.frees),
               ", live at the end ", about, bytes(m.live_bytes), ", peak ", about, bytes(m.peak_live_bytes)});
  }
  CUTRACE_NOINLINE void memory() {
    if (n_.memory_records) {
      total("memory", "device: ", n_.device);
      if (n_.host.allocations + n_.host.frees > 0) total("", "host:   ", n_.host);
      return;
    }
    const std::uint64_t unsized_calls[] = {n_.driver_unsized_allocation_calls, n_.runtime_unsized_allocation_calls};
    const bool runtime = n_.runtime_allocation_bytes != n_.driver_allocation_bytes
                             ? n_.runtime_allocation_bytes > n_.driver_allocation_bytes
                             : unsized_calls[1] > unsized_calls[0];
    const std::uint64_t calls = runtime ? n_.runtime_allocation_calls : n_.driver_allocation_calls;
    const std::uint64_t unsized = unsized_calls[runtime];
    if (calls + unsized == 0) return row("memory", {"no allocation seen"});
    std::string text = joined({"  ", {"memory", -10}, "allocating calls "});
    if (calls != 0)
      append(text,
             {count(calls), " (", bytes(runtime ? n_.runtime_allocation_bytes : n_.driver_allocation_bytes), ")"});
    if (unsized != 0) append(text, {calls != 0 ? " and " : "", count(unsized), " of unknown size"});
    append(text, {"; peak unknown (no memory records)"});
    out_.paragraph(text, 12);
  }
  CUTRACE_NOINLINE void copies() {
    bool any = false;
    for (std::size_t d = 0; d < analysis::copy_direction_count; ++d) {
      const analysis::copy_total& c = n_.copies[d];
      if (c.count == 0) continue;
      const bool timed = c.gpu_ns > 0;
      row(any ? "" : "copies",
          {to_string(static_cast<copy_direction>(d)), ": ", count(c.count), ", ", bytes(c.bytes), " in ",
           duration(c.gpu_ns), timed ? ", " : "", timed ? bandwidth(c.bytes_per_s()) : figure()});
      any = true;
    }
    if (!any) row("copies", {"none on the GPU"});
  }

  page& out_;
  const analysis::trace_numbers& n_;
  double total_s_;
};

}  // namespace ascii
CUTRACE_END_NAMESPACE
