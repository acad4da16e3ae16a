// SPDX-License-Identifier: Apache-2.0
// The tables of a report about a file, each field with its name and unit, for machines: one description for JSON, CSV
// and whatever else has rows. docs/analyses.md lists the tables.
//
// `Out` has `object(name, fill)` for a table of one row and `table(name, list, fill)` for a row of each item; `fill`
// gets a row, and the item, and calls `row(field, value)`. `fill` must also accept a default-constructed item: CSV
// passes one to write the column names.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cutrace/names.hpp>
#include <cutrace/output/json_text.hpp>  // view_of
#include <cutrace/sinks/ascii/head.hpp>
#include <cutrace/sinks/common/finding_text.hpp>
#include <string_view>
#include <vector>

#include "report/findings.hpp"
#include "report/pages/tables_gpu.hpp"
#include "report/pages/tables_layers.hpp"
#include "report/pages/text_head.hpp"

CUTRACE_BEGIN_NAMESPACE
namespace tables {

/// An analysed trace, and process and totals as its file gives them. `a` after `finish`, which returned `r`.
struct report {
  const analysis::trace_analysis& a;
  const analysis::trace_results& r;
  const std::vector<analysis::finding>& found;
  const trace_info& info;
  const trace_summary& end;
  std::size_t top = SIZE_MAX;  ///< at most so many rows in a table of names, requests or gaps
};

template <class Item>
std::vector<Item> first_of(const std::vector<Item>& list, std::size_t n) {
  return std::vector<Item>(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(std::min(n, list.size())));
}

inline const char* name_of(analysis::evidence::kind k) noexcept {
  return k == analysis::evidence::kind::gap ? "gap" : k == analysis::evidence::kind::call ? "call" : "gpu_work";
}

template <class Row>
void evidence_fields(Row& row, const analysis::evidence& e) {
  row("kind", name_of(e.is));
  row("start_ns", e.when.start_ns);
  row("end_ns", e.when.end_ns);
  row("duration_ns", e.when.length_ns());
  row("device", e.device);
  row("stream", e.stream);
  row("thread", e.thread_id);
  row("correlation_id", e.correlation);
  row("name", e.name);
}

template <class Row>
void finding_fields(Row& row, const analysis::finding& f, std::int64_t recorded_ns) {
  const ascii::finding_words words = ascii::words_of(f, recorded_ns);
  row("kind", analysis::name_of(f.is));
  row("title", words.title);
  row("what", words.what);
  row("advice", words.advice);
  row("win_ns", f.win_ns);
  row("win_share", share(f.win_ns, recorded_ns));
  row("cost_ns", f.cost_ns);
  row("count", f.count);
  row("bytes", f.bytes);
  row("bytes_per_s", f.bytes_per_s);
  row("peak_bytes_per_s", f.peak_bytes_per_s);
  row("typical_ns", f.typical_ns);
  row("device", f.device);
  row("stage", f.stage);
  row("call", f.call);
  row("kernel", f.kernel);
  row("site", f.site);
  row("places", f.places);
  row("thread", f.thread_id);
  row("next_stage", f.next_stage);
}

template <class Row>
void company_fields(Row& row, const analysis::gap_company& c) {
  row("stage", c.stage);
  row("thread", c.thread_id);
  row("ns", c.ns);
}

template <class Row>
void operation_fields(Row& row, const analysis::operation& o, std::uint64_t all_ns) {
  row("name", o.name);
  row("category", analysis::name_of(o.is));
  row("count", o.count);
  row("failed", o.failed);
  row("total_ns", o.total_ns);
  row("share", share(o.total_ns, all_ns));
  row("mean_ns", o.mean_ns());
  row("shortest_ns", o.count == 0 ? 0 : o.shortest_ns);
  row("longest_ns", o.longest_ns);
  row("p50_ns", o.p50_ns);
  row("p90_ns", o.p90_ns);
  row("p99_ns", o.p99_ns);
}

template <class Out>
void head_tables(Out& out, const report& in) {
  const analysis::breakdown_table& all = in.r.time.everything;
  out.object("trace", [&](auto& row) {
    row("process", detail::view_of(in.info.process_name));
    row("pid", in.info.process_id);
    row("command_line", detail::view_of(in.info.command_line));
    row("host", detail::view_of(in.info.host_name));
    row("boot_id", detail::view_of(in.info.boot_id));
    row("backend", detail::view_of(in.info.backend));
    row("backend_detail", detail::view_of(in.info.backend_detail));
    row("clock", detail::view_of(in.info.clock));
    row("rank", in.info.rank);
    row("world_size", in.info.world_size);
    row("start_ns", all.window.start_ns);
    row("end_ns", all.window.end_ns);
    row("recorded_ns", all.recorded_ns);
    row("recorded_pieces", all.pieces);
    row("start_realtime_ns", in.info.start.realtime_ns);
    row("start_monotonic_ns", in.info.start.monotonic_ns);
    row("clock_error_ns", in.end.totals.clock_error_ns);
    row("gpu_busy_ns", all.gpu_busy_ns());
    row("gpu_unfinished_ns", all.gpu_unfinished_ns());
    row("gpu_idle_ns", all.gpu_idle_ns());
    row("complete", in.end.missing == nullptr);
    row("missing", detail::view_of(in.end.missing));
  });
  std::vector<std::size_t> owners;
  for (std::size_t i = 0; i < analysis::owner_count; ++i) owners.push_back(i);
  out.table("time", owners, [&](auto& row, std::size_t i) {
    row("owner", owner_name(static_cast<analysis::owner>(i)));
    row("on_gpu", analysis::is_gpu(static_cast<analysis::owner>(i)));
    row("ns", all.ns[i]);
    row("share", share(all.ns[i], all.recorded_ns));
    row("events", all.count[i]);
    row("host_alone_ns", in.r.time.host.ns[i]);
  });
}

template <class Out>
void stage_tables(Out& out, const report& in) {
  const analysis::stage_log& stages = in.a.log().stages();
  out.table("stages", first_of(in.r.stages.stages, in.top), [&](auto& row, const analysis::stage_cost& s) {
    row("name", s.name);
    row("count", s.calls);
    row("adopted_parts", s.adopted_parts);
    row("host_ns", s.host_ns);
    row("host_sum_ns", s.host_sum_ns);
    row("longest_ns", s.longest_ns);
    row("call_ns", s.call_ns);
    row("queue_ns", s.queue_ns);
    row("kernel_ns", s.execution_ns);
    row("copy_ns", s.transfer_ns);
    row("gpu_ns", s.gpu_inclusive_ns);
    row("gpu_own_ns", s.gpu_own_ns);
    row("gpu_idle_ns", s.gpu_idle_inside_ns);
    row("gpu_operations_own", s.gpu_operations);
    row("requests", s.requests);
    row("requests_cut", s.requests_cut);
  });
  out.object("outside_stages", [&](auto& row) {
    row("gpu_ns", in.r.stages.gpu_outside_ns);
    row("gpu_operations", in.r.stages.gpu_outside_operations);
  });
  out.object("stage_not_known", [&](auto& row) {
    row("gpu_ns", in.r.stages.gpu_unknown_ns);
    row("gpu_operations", in.r.stages.gpu_unknown_operations);
  });
  std::vector<analysis::request_cost> requests = in.r.requests;
  std::stable_sort(requests.begin(), requests.end(),
                   [](const auto& a, const auto& b) { return a.span.length_ns() > b.span.length_ns(); });
  out.table("requests", first_of(requests, in.top), [&](auto& row, const analysis::request_cost& c) {
    const bool known = c.request < stages.request_ids().size();
    row("id", known ? stages.request_ids()[c.request] : std::uint64_t{0});
    row("name", known ? std::string_view(stages.request_name(c.request)) : std::string_view());
    row("start_ns", c.span.start_ns);
    row("latency_ns", c.span.length_ns());
    row("stages", c.stages);
    row("batches", c.batches);
    row("host_ns", c.host_ns);
    row("gpu_idle_ns", c.idle_inside_ns);
    row("queue_ns", c.queue_ns);
    row("kernel_alone_ns", c.execution_alone_ns);
    row("copy_alone_ns", c.transfer_alone_ns);
    row("kernel_in_batches_ns", c.execution_in_batches_ns);
    row("copy_in_batches_ns", c.transfer_in_batches_ns);
    row("estimated_share_ns", c.estimated_share_ns);
  });
}

template <class Row>
void distribution_fields(Row& row, const char* count, const char* mean, const char* p50, const char* p95,
                         const char* p99, const char* longest, const analysis::time_distribution& t) {
  row(count, t.count());
  row(mean, t.mean_ns());
  row(p50, t.percentile_ns(50));
  row(p95, t.percentile_ns(95));
  row(p99, t.percentile_ns(99));
  row(longest, t.longest_ns);
}

template <class Out>
void inference_tables(Out& out, const report& in) {
  const analysis::inference_report& r = in.r.inference;
  out.table("stage_times", first_of(r.stages, in.top), [](auto& row, const analysis::stage_distribution& s) {
    row("name", s.name);
    row("span", s.span);
    distribution_fields(row, "count", "mean_ns", "p50_ns", "p95_ns", "p99_ns", "longest_ns", s.host);
    distribution_fields(row, "gpu_count", "gpu_mean_ns", "gpu_p50_ns", "gpu_p95_ns", "gpu_p99_ns", "gpu_longest_ns",
                        s.gpu);
  });
  out.object("inference", [&](auto& row) {
    row("requests", r.requests);
    row("tokens", r.tokens);
    row("tokens_per_s", r.tokens_per_s());
    row("by_marks", r.by_marks);
    row("by_names", r.by_names);
    row("accounted_requests", r.accounted);
  });
  struct named {
    const char* name = "";
    analysis::time_distribution times;
  };
  const std::vector<named> times = {{"latency", r.latency},
                                    {"queue", r.queue},
                                    {"time_to_first_token", r.first_token},
                                    {"time_between_tokens", r.between_tokens},
                                    {"time_per_output_token", r.per_output_token},
                                    {"gpu_alone", r.gpu_alone},
                                    {"gpu_in_batches", r.gpu_in_batches},
                                    {"behind_others", r.behind_others}};
  out.table("request_times", times, [](auto& row, const named& n) {
    row("what", n.name);
    distribution_fields(row, "count", "mean_ns", "p50_ns", "p95_ns", "p99_ns", "longest_ns", n.times);
  });
  out.table("inference_over_time", r.over_time, [](auto& row, const analysis::inference_bin& b) {
    row("start_ns", b.when.start_ns);
    row("end_ns", b.when.end_ns);
    row("batches", b.batches);
    row("mean_batch", b.mean_batch());
    row("largest_batch", b.largest);
    row("tokens", b.tokens);
  });
}

template <class Out>
void end_tables(Out& out, const report& in) {
  struct loss {
    const char* cause = "";
    std::uint64_t records = 0;
  };
  std::vector<loss> losses;
  for (std::size_t c = 0; c < loss_cause_count; ++c)
    losses.push_back({to_string(static_cast<loss_cause>(c)),
                      std::max(in.end.totals.lost[c], in.a.log().lost(static_cast<loss_cause>(c)))});
  out.table("losses", losses, [](auto& row, const loss& l) {
    row("cause", l.cause);
    row("records", l.records);
  });
  out.object("totals", [&](auto& row) {
    const stats& s = in.end.totals;
    row("produced", s.produced);
    row("delivered", s.delivered);
    row("lacking", s.lacking);
    row("lost", std::max(s.lost_total(), in.a.log().lost_total()));
    for (std::size_t q = 0; q < quality_count; ++q) row(to_string(static_cast<quality>(q)), s.quality_of[q]);
    row("launches_seen", s.launches_seen);
    row("gpu_records_seen", s.gpu_records_seen);
  });
  std::vector<std::string_view> notes;
  for (std::uint32_t i = 0; in.end.notes != nullptr && i < in.end.note_count; ++i)
    notes.push_back(detail::view_of(in.end.notes[i]));
  out.table("notes", notes, [](auto& row, std::string_view note) { row("note", note); });
}

/// Writes all tables, the findings first. Evidence is a list within each finding where `Out` can nest, else a table.
template <class Out>
void write_all(Out& out, const report& in) {
  const std::int64_t recorded_ns = in.r.time.everything.recorded_ns;
  out.findings(
      in.found, [&](auto& row, const analysis::finding& f) { finding_fields(row, f, recorded_ns); },
      [](auto& row, const analysis::evidence& e) { evidence_fields(row, e); },
      [](auto& row, const analysis::gap_company& c) { company_fields(row, c); });
  head_tables(out, in);
  idle_tables(out, in.a.log(), in.r, in.top);
  stage_tables(out, in);
  inference_tables(out, in);
  out.table("gpu_operations", in.a.gpu_operations().top(in.top), [&](auto& row, const analysis::operation& o) {
    operation_fields(row, o, in.a.gpu_operations().total_ns());
  });
  out.table("calls", in.a.calls().top(in.top),
            [&](auto& row, const analysis::operation& o) { operation_fields(row, o, in.a.calls().total_ns()); });
  out.table("waits", first_of(in.r.waits, in.top), [](auto& row, const analysis::wait_row& w) {
    row("stage", w.stage);
    row("waits_for", analysis::name_of(w.is));
    row("stream_known", w.stream_known);
    row("process", w.process);
    row("device", w.device);
    row("context", w.context);
    row("stream", w.stream);
    row("count", w.count);
    row("failed", w.failed);
    row("total_ns", w.total_ns);
    row("mean_ns", w.count == 0 ? std::int64_t{0} : w.total_ns / static_cast<std::int64_t>(w.count));
    row("longest_ns", w.longest_ns);
  });
  gpu_tables(out, in.r, in.top);
  layer_tables(out, in.r.layers, [&](const auto& list) { return first_of(list, in.top); });
  end_tables(out, in);
}

}  // namespace tables
CUTRACE_END_NAMESPACE
