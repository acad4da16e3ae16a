// SPDX-License-Identifier: Apache-2.0
// What the page for a browser shows of a whole trace: the same answer, findings, gaps and tables as the other forms.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cutrace/sinks/html.hpp>
#include <string>
#include <vector>

#include "report/pages/tables.hpp"
#include "report/pages/text.hpp"

CUTRACE_BEGIN_NAMESPACE
namespace tables {

inline analysis::owner looks_of(analysis::idle_cause c) noexcept {
  constexpr analysis::owner of[] = {analysis::owner::host_stage,  analysis::owner::host_sync,
                                    analysis::owner::host_launch, analysis::owner::host_memory,
                                    analysis::owner::nothing,     analysis::owner::nothing,
                                    analysis::owner::nothing};
  return of[static_cast<std::size_t>(c)];
}

inline std::vector<std::string> distribution_cells(const std::string& name, const analysis::time_distribution& t) {
  const auto time = [](std::uint64_t ns) { return std::string(ascii::duration(ns).view()); };
  return {name,
          std::string(ascii::count(t.count()).view()),
          time(t.mean_ns()),
          time(t.percentile_ns(50)),
          time(t.percentile_ns(95)),
          time(t.percentile_ns(99)),
          time(t.longest_ns)};
}

inline std::vector<html::whole_trace::table> inference_pages(const analysis::inference_report& r) {
  const std::vector<std::string> columns = {"", "Count", "Mean", "p50", "p95", "p99", "Longest"};
  std::vector<html::whole_trace::table> list;
  if (r.requests != 0) {
    html::whole_trace::table t{"Inference", "", columns, {}};
    const auto row = [&](const char* what, const analysis::time_distribution& times) {
      if (times.count() != 0) t.rows.push_back(distribution_cells(what, times));
    };
    ascii::for_each_request_time(r, row);
    t.hint = ascii::inference_words(r);
    list.push_back(std::move(t));
  }
  if (!r.stages.empty()) {
    html::whole_trace::table t{"Stages, one by one", "", columns, {}};
    for (const analysis::stage_distribution& s : r.stages) {
      t.rows.push_back(distribution_cells(s.name + (s.span ? ", span" : ", host"), s.host));
      if (s.gpu.count() != 0) t.rows.push_back(distribution_cells(s.name + ", GPU work", s.gpu));
    }
    list.push_back(std::move(t));
  }
  return list;
}

CUTRACE_NOINLINE inline html::whole_trace whole_trace_of(const report& in) {
  html::whole_trace w;
  w.answer = ascii::answer_of(in.r, in.found, in.end, std::max(in.end.totals.lost_total(), in.a.log().lost_total()));
  w.found = in.found;
  w.gap_count = in.r.idle.all.count;
  const analysis::trace_log& log = in.a.log();
  for (const analysis::idle_gap& g : in.r.idle.longest) {
    html::whole_trace::gap shown;
    shown.device = g.device;
    shown.when = g.when;
    shown.cause = ascii::words_of_cause(g.cause);
    shown.looks_like = looks_of(g.cause);
    const std::uint32_t stage = log.stages()[g.stage].name;
    if (stage != 0) shown.place = log.names().name(stage);
    if (g.call != 0) shown.place += (shown.place.empty() ? "" : ": ") + log.names().name(g.call);
    const analysis::gpu_work& next = log.work()[g.next];
    shown.next = next.name != 0 ? log.names().name(next.name) : analysis::name_of(next.is);
    w.gaps.push_back(std::move(shown));
  }
  std::sort(w.gaps.begin(), w.gaps.end(), [](const html::whole_trace::gap& a, const html::whole_trace::gap& b) {
    return a.device != b.device ? a.device < b.device : a.when.start_ns < b.when.start_ns;
  });
  w.tables = inference_pages(in.r.inference);
  return w;
}

}  // namespace tables
CUTRACE_END_NAMESPACE
