// SPDX-License-Identifier: Apache-2.0
// What the page for a browser shows of a whole trace: the same answer, findings, gaps and tables as the other forms.
#pragma once

#include <cstdint>
#include <cutrace/sinks/html.hpp>
#include <string>
#include <vector>

#include "report/pages/tables.hpp"
#include "report/pages/text.hpp"

CUTRACE_BEGIN_NAMESPACE
namespace tables {

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
  if (r.has_requests()) {
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
  const ascii::utf8_names names(true);
  html::whole_trace w;
  w.answer = ascii::answer_of(in.a, in.r, in.found, in.end);
  w.found = in.found;
  w.idle = in.r.idle;
  const analysis::trace_log& log = in.a.log();
  for (const analysis::idle_gap& g : in.r.idle.longest) w.gaps.push_back(analysis::name_gap(log, g));
  w.tables = inference_pages(in.r.inference);
  return w;
}

}  // namespace tables
CUTRACE_END_NAMESPACE
