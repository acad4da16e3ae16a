// SPDX-License-Identifier: Apache-2.0
// What `cutrace report` prints: a trace from a file, analysed as a whole. The first screen answers where the time went,
// whether the GPU is idle and why, what to fix first and whether anything was lost; the tables behind it follow.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cutrace/sinks/ascii/head.hpp>
#include <cutrace/sinks/ascii/tables.hpp>
#include <string>
#include <vector>

#include "report/findings.hpp"
#include "report/pages/text_gpu.hpp"
#include "report/pages/text_head.hpp"
#include "report/pages/text_layers.hpp"

CUTRACE_BEGIN_NAMESPACE

struct report_options {
  std::size_t width = 100;  ///< columns of a line, 80 to 400
  bool color = false;       ///< ANSI bold and red; everything is readable without
  bool utf8 = false;        ///< names as they are; else what is beyond ASCII is escaped
  std::size_t top = 10;     ///< rows of each table by name
  bool full_names = false;  ///< of kernels, with return type, namespaces, arguments and parameters
};

namespace ascii {

/// Queue, kernel and copy time of each stage.
CUTRACE_NOINLINE inline void print_stage_costs(page& out, const analysis::stage_report& r, std::size_t top) {
  if (r.stages.empty()) return;
  const int column = 12;
  const std::size_t room = out.width() - 4 - static_cast<std::size_t>(3 * column);
  out.heading("STAGES ON THE GPU", {{"queue", column}, {"kernels", column}, {"copies", column}});
  const std::size_t shown = std::min(top, r.stages.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const analysis::stage_cost& s = r.stages[i];
    out.line({{digits(i + 1), 3},
              " ",
              {label(s.name, room - 1), left(room)},
              {duration(s.queue_ns), column},
              {duration(s.execution_ns), column},
              {duration(s.transfer_ns), column}});
  }
  print_left_out(out, r.stages.size(), shown, "stage");
  out.paragraph("    Unions, nested stages included; they overlap. Queue: launched, not started.", 4);
}

/// Requests by latency. What batches took stays apart from the estimated share of each request.
CUTRACE_NOINLINE inline void print_requests(page& out, const analysis::trace_log& log,
                                            const std::vector<analysis::request_cost>& all, std::size_t top) {
  if (all.empty()) return;
  analysis::duration_histogram latency;
  std::vector<analysis::ranked> order;
  for (const analysis::request_cost& r : all) {
    // Empty: none of its stages has ended.
    if (!r.span.empty()) latency.add(static_cast<std::uint64_t>(r.span.length_ns()));
    order.push_back({r.span.length_ns(), 0, r.request});
  }
  analysis::rank(order);
  const bool wide = out.width() >= 100;
  const int last = wide ? 12 : 0;
  out.heading("REQUESTS", {{"latency", 10},
                           {"host", 10},
                           {"queue", 10},
                           {"alone", 10},
                           {"in batches", 11},
                           {wide ? "share, est." : "", last},
                           {"idle", 10}});
  const std::size_t room = out.width() - 2 - 61 - static_cast<std::size_t>(last);
  const std::size_t shown = std::min(top, order.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const analysis::request_cost& r = all[order[i].index];
    const std::string& name = log.stages().request_name(r.request);
    const std::uint64_t id = log.stages().request_ids()[r.request];
    out.line({"  ",
              {name.empty() ? cut(std::string(digits(id).view()), room - 1) : label(name, room - 1), left(room)},
              {duration(r.span.length_ns()), 10},
              {duration(r.host_ns), 10},
              {duration(r.queue_ns), 10},
              {duration(r.execution_alone_ns + r.transfer_alone_ns), 10},
              {duration(r.execution_in_batches_ns + r.transfer_in_batches_ns), 11},
              {wide ? duration(r.estimated_share_ns) : figure(), last},
              {duration(r.idle_inside_ns), 10}});
  }
  print_left_out(out, order.size(), shown, "request");
  out.paragraph(
      {"    Latency of all ", count(latency.count()), ": p50 ", duration(latency.percentile_ns(50)), ", p90 ",
       duration(latency.percentile_ns(90)), ", p99 ", duration(latency.percentile_ns(99)),
       ". Alone, in batches: GPU time measured.", wide ? " The share of batches is an estimate: time / requests." : ""},
      4);
}

CUTRACE_NOINLINE inline void print_distribution(page& out, const std::string& what,
                                                const analysis::time_distribution& t) {
  const std::size_t room = out.width() - 2 - 56;
  out.line({"  ",
            {cut(what, room), left(room)},
            {count(t.count()), 10},
            {duration(t.mean_ns()), 9},
            {duration(t.percentile_ns(50)), 9},
            {duration(t.percentile_ns(95)), 9},
            {duration(t.percentile_ns(99)), 9},
            {duration(t.longest_ns), 10}});
}

/// Stages one by one: how long an instance takes, and the GPU's work in it.
CUTRACE_NOINLINE inline void print_stage_times(page& out, const analysis::inference_report& r, std::size_t top) {
  if (r.stages.empty()) return;
  out.heading("STAGES, ONE BY ONE", {{"times", 10}, {"mean", 9}, {"p50", 9}, {"p95", 9}, {"p99", 9}, {"longest", 10}});
  const std::size_t room = out.width() - 2 - 56;
  const std::size_t shown = std::min(top, r.stages.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const analysis::stage_distribution& s = r.stages[i];
    print_distribution(out, label(s.name, room - 8) + (s.span ? ", span" : ", host"), s.host);
    if (s.gpu.count() != 0) print_distribution(out, "  its GPU work", s.gpu);
  }
  print_left_out(out, r.stages.size(), shown, "stage");
}

/// A curve as text, one character for each value: ' ' for 0, then '.' to '#' for the largest.
CUTRACE_NOINLINE inline std::string curve_of(const std::vector<double>& values) {
  constexpr char steps[] = " .:-=+*#";
  const double most = values.empty() ? 0 : *std::max_element(values.begin(), values.end());
  std::string line;
  for (const double v : values) {
    const double part = most <= 0 || v <= 0 ? 0 : v / most * 7;
    line += steps[v <= 0 ? 0 : std::max(1, static_cast<int>(part + 0.5))];
  }
  return line;
}

/// Calls `line(what, times)` for each time of requests, in the order in which pages print them.
template <class Line>
void for_each_request_time(const analysis::inference_report& r, Line&& line) {
  line("latency", r.latency);
  line("in a queue", r.queue);
  line("time to first token", r.first_token);
  line("time between tokens", r.between_tokens);
  line("time per output token", r.per_output_token);
  line("GPU time alone", r.gpu_alone);
  line("GPU time in batches", r.gpu_in_batches);
  line(r.accounted == r.requests ? "behind others' work" : "behind others, some", r.behind_others);
}

/// How many tokens there are, and what they were counted from.
CUTRACE_NOINLINE inline std::string inference_words(const analysis::inference_report& r) {
  std::string s;
  if (r.tokens != 0) append(s, {count(r.tokens), " tokens, ", fixed(r.tokens_per_s(), 1), "/s. "});
  if (r.by_marks)
    s += "Tokens by the marks first_token and token; queue: spans and stages with such a name.";
  else if (r.by_names)
    s +=
        "The trace has no marks of tokens (CUTRACE_MARK(\"token\", id)): this went by the names of stages: a prefill "
        "ends "
        "with the first token, each decode with one more. --prefill-stage, --decode-stage and --queue-stage name them.";
  else
    s += "No tokens: there are neither marks of them (CUTRACE_MARK(\"token\", id)) nor stages with such names.";
  return s;
}

/// Requests as an inference server's clients see them.
CUTRACE_NOINLINE inline void print_inference(page& out, const analysis::inference_report& r) {
  if (!r.has_requests()) return;
  out.heading("INFERENCE", {{"count", 10}, {"mean", 9}, {"p50", 9}, {"p95", 9}, {"p99", 9}, {"longest", 10}});
  for_each_request_time(r, [&](const char* what, const analysis::time_distribution& t) {
    if (t.count() != 0) print_distribution(out, what, t);
  });
  std::vector<double> batches, tokens;
  std::uint64_t largest = 0;
  for (const analysis::inference_bin& b : r.over_time) {
    batches.push_back(b.mean_batch());
    tokens.push_back(static_cast<double>(b.tokens));
    largest = std::max(largest, b.largest);
  }
  if (largest > 1)
    out.line({"  ",
              {"batch size over time", left(22)},
              {curve_of(batches), left(r.over_time.size())},
              "  up to ",
              count(largest)});
  if (r.tokens != 0) out.line({"  ", {"tokens over time", left(22)}, curve_of(tokens)});
  out.paragraph({"    ", inference_words(r)}, 4);
}

/// Waits of the host, by stage and what is waited for.
CUTRACE_NOINLINE inline void print_waits(page& out, const std::vector<analysis::wait_row>& rows, std::size_t top) {
  if (rows.empty()) return;
  bool several = false;
  for (const analysis::wait_row& w : rows) several = several || (w.stream_known && w.device != rows.front().device);
  out.heading("WAITS OF THE HOST", {{"count", 11}, {"total", 10}, {"mean", 9}, {"longest", 10}});
  const std::size_t room = out.width() - 48, of = std::min<std::size_t>(34, room / 2);
  const std::size_t shown = std::min(top, rows.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const analysis::wait_row& w = rows[i];
    std::string what = w.is == analysis::wait_for::event     ? "an event"
                       : w.is == analysis::wait_for::context ? "context"
                                                             : "";
    if (w.stream_known)
      what += joined({what.empty() ? "" : " on ", several ? joined({"GPU ", digits(w.device), " "}) : "", "stream ",
                      digits(w.stream)});
    else if (w.is == analysis::wait_for::stream)
      what = "stream not known";
    out.line({"  ",
              {label(w.stage.empty() ? "(in no stage)" : w.stage, room - of - 1), left(room - of)},
              {cut(what, of - 1), left(of)},
              {count(w.count), 11},
              {duration(w.total_ns), 10},
              {duration(w.total_ns / static_cast<std::int64_t>(w.count)), 9},
              {duration(w.longest_ns), 10}});
  }
  print_left_out(out, rows.size(), shown, "row");
}

CUTRACE_NOINLINE inline void print_depth(page& out, const analysis::depth_report& depth) {
  std::size_t levels = 0;
  for (std::size_t i = 0; i < depth.size(); ++i)
    if (depth[i].calls + depth[i].stages > 0) levels = i + 1;
  if (levels < 2) return;
  out.heading("DEPTH", {{"calls", 12}, {"time", 10}, {"stages", 12}, {"time", 10}});
  for (std::size_t i = 0; i < levels; ++i) {
    const analysis::depth_level& l = depth[i];
    out.line({"  ",
              {i == 0 ? "by the program itself" : joined({"nested ", digits(i), i == 1 ? " level" : " levels"}),
               left(out.width() - 46)},
              {count(l.calls), 12},
              {duration(l.call_ns), 10},
              {count(l.stages), 12},
              {duration(l.stage_ns), 10}});
  }
}

}  // namespace ascii

/// The report, lines of at most `options.width` columns.
/// @param a after `finish`, whose result is `r`
/// @param who, end process and totals as the file gives them; of a file without a footer, the events that were read
///        are the delivered ones of `end`
CUTRACE_NOINLINE inline std::string report_text(const analysis::trace_analysis& a, const analysis::trace_results& r,
                                                const std::vector<analysis::finding>& found, const ascii::identity& who,
                                                const trace_summary& end, const report_options& options = {}) {
  using namespace ascii;
  const analysis::breakdown_table& time = r.time.everything;
  const bool gpu = !r.devices.empty();
  page out(std::min<std::size_t>(std::max<std::size_t>(options.width, 80), 400), options.color, options.utf8);
  print_identity(out, who, end, time, gpu);
  out.paragraph({"answer   ", answer_of(a, r, found, end)}, 9, tone::alarm);
  breakdown_section(out, time, r.time.host).print();
  if (gpu) print_idle(out, r.idle);
  out.heading(found.empty() ? "WHAT TO FIX: nothing stands out" : "WHAT TO FIX, by the time to be won");
  print_findings(out, found, options.top, time.recorded_ns);
  print_stages(out, r.stages.stages, options.top, gpu,
               {r.stages.gpu_outside_ns, r.stages.gpu_unknown_ns, r.stages.gpu_outside_operations,
                r.stages.gpu_unknown_operations});
  if (gpu) print_stage_costs(out, r.stages, options.top);
  print_stage_times(out, r.inference, options.top);
  print_inference(out, r.inference);
  print_requests(out, a.log(), r.requests, options.top);
  print_operations(out, "GPU OPERATIONS", a.gpu_operations(), options.top, options.full_names);
  print_operations(out, "HOST CALLS", a.calls(), options.top, options.full_names);
  print_waits(out, r.waits, options.top);
  gpu_tables(out, a.log(), r).print(options.top);
  layer_tables(out, r.layers).print(options.top);
  print_depth(out, r.depth);
  numbers_section(out, r.numbers, time.recorded_ns).print();
  if (!found.empty()) {
    out.heading("EVIDENCE, the longest of each");
    for (std::size_t i = 0; i < std::min(options.top, found.size()); ++i)
      for (const analysis::evidence& e : found[i].proof)
        out.paragraph({{digits(i + 1), 3}, " ", words_of(e, time.window.start_ns)}, 6);
  }
  quality_section(out, end).print({}, r.numbers.launches() > 0 && !gpu);
  return out.text();
}

CUTRACE_END_NAMESPACE
