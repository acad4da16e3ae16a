// SPDX-License-Identifier: Apache-2.0
// The first screen of a report about a file: the answer in one sentence, why the GPU is idle, what to fix first.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cutrace/sinks/ascii/head.hpp>
#include <cutrace/sinks/ascii/page.hpp>
#include <cutrace/sinks/common/finding_text.hpp>
#include <string>
#include <vector>

#include "report/findings.hpp"
#include "report/trace_analysis.hpp"

CUTRACE_BEGIN_NAMESPACE
namespace ascii {

/// The answer in one sentence. @param a after `finish`, which returned `r` @param end totals of the file
CUTRACE_NOINLINE inline std::string answer_of(const analysis::trace_analysis& a, const analysis::trace_results& r,
                                              const std::vector<analysis::finding>& found, const trace_summary& end) {
  const std::vector<analysis::stage_time> stages(r.stages.stages.begin(), r.stages.stages.end());
  const answer_source of{r.time.everything,
                         r.idle,
                         stages,
                         a.gpu_operations(),
                         a.calls(),
                         r.devices.size(),
                         &found,
                         end,
                         std::max(end.totals.lost_total(), a.log().lost_total()),
                         a.alarms()};
  return answer(of).text();
}

CUTRACE_NOINLINE inline void print_findings(page& out, const std::vector<analysis::finding>& found, std::size_t top,
                                            std::int64_t recorded_ns) {
  for (std::size_t i = 0; i < std::min(top, found.size()); ++i) {
    const finding_words w = words_of(found[i], recorded_ns);
    std::string win;
    if (found[i].win_ns > 0) win = joined({"win up to ", duration(found[i].win_ns), ": "});
    out.paragraph({{digits(i + 1), 3}, " ", win, w.what}, 4, i == 0 ? tone::alarm : tone::plain);
    out.paragraph({"    -> ", w.advice}, 7);
  }
}

}  // namespace ascii
CUTRACE_END_NAMESPACE
