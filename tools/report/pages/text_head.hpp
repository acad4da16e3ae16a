// SPDX-License-Identifier: Apache-2.0
// The first screen of a report about a file: the answer in one sentence, why the GPU is idle, what to fix first.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cutrace/sinks/ascii/page.hpp>
#include <cutrace/sinks/common/finding_text.hpp>
#include <string>
#include <vector>

#include "report/findings.hpp"

CUTRACE_BEGIN_NAMESPACE
namespace ascii {

inline const char* words_of_cause(analysis::idle_cause c) noexcept {
  constexpr const char* words[] = {"the host was late: own code, other calls",
                                   "the host had waited, so nothing was queued",
                                   "launching: the calls and the way to the GPU",
                                   "the host allocated or freed memory",
                                   "queued, but it waited for something else",
                                   "no stage was open: nothing to do",
                                   "the launching call is not known"};
  return words[static_cast<std::size_t>(c)];
}

/// The same where a line has no room for it.
inline const char* short_words_of_cause(analysis::idle_cause c) noexcept {
  constexpr const char* words[] = {"host late",      "host had waited",       "launching",
                                   "host allocated", "waited, though queued", "no stage was open",
                                   "call not known"};
  return words[static_cast<std::size_t>(c)];
}

/// "GPU busy 43.2 %, idle 56.8 % (mostly sync_wait ...); first to fix: ...".
CUTRACE_NOINLINE inline std::string answer_of(const analysis::trace_results& r,
                                              const std::vector<analysis::finding>& found, const trace_summary& end,
                                              std::uint64_t lost) {
  const analysis::breakdown_table& t = r.time.everything;
  const double whole = static_cast<double>(t.recorded_ns);
  std::string s;
  if (r.devices.empty()) {
    s = "no GPU work was seen";
  } else {
    const double busy = static_cast<double>(t.gpu_busy_ns());
    append(s, {r.devices.size() > 1 ? "any GPU busy " : "GPU busy ", share_of(busy, whole), unfinished_words(t),
               ", idle ", share_of(static_cast<double>(t.gpu_idle_ns()), whole)});
    std::size_t most = 0;
    for (std::size_t c = 1; c < analysis::idle_cause_count; ++c)
      if (r.idle.by_cause[c].ns > r.idle.by_cause[most].ns) most = c;
    if (r.idle.by_cause[most].ns > 0)
      append(s, {", mostly ", name_of(static_cast<analysis::idle_cause>(most)), " (",
                 share_of(static_cast<double>(r.idle.by_cause[most].ns), static_cast<double>(r.idle.all.ns)),
                 " of the gaps)"});
  }
  if (found.empty() || found[0].is == analysis::finding_kind::losses)
    s += "; nothing stands out to fix";
  else
    append(s, {"; fix first: ", words_of(found[0], t.recorded_ns).title, ", to win up to ", duration(found[0].win_ns),
               " (", share_of(static_cast<double>(found[0].win_ns), whole), ")"});
  if (lost != 0)
    append(s, {"; ", count(lost), " records LOST"});
  else if (end.missing == nullptr)
    s += "; nothing lost";
  if (end.missing != nullptr) s += "; the trace is INCOMPLETE";
  return s;
}

/// "stage: call" where both have room; else the stage, whose marker stands in the program's source.
CUTRACE_NOINLINE inline std::string whom_words(const std::string& stage, const std::string& call, std::size_t width) {
  if (stage.empty() && call.empty()) return {};
  const std::string both = joined({escaped(stage), stage.empty() || call.empty() ? "" : ": ", escaped(call)});
  return both.size() <= width ? both : label(stage.empty() ? call : stage, width);
}

/// Causes of idle time, and whom to blame for most of each.
CUTRACE_NOINLINE inline void print_idle(page& out, const analysis::trace_results& r) {
  if (r.devices.empty()) return;
  out.heading("WHY THE GPU IS IDLE", {{"gaps", 9}, {"time", 10}, {"share", 8}, {"  ", 2}, {"mostly", -24}});
  const double idle =
      static_cast<double>(r.idle.all.ns) + static_cast<double>(r.idle.before_ns) + static_cast<double>(r.idle.after_ns);
  const std::size_t room = out.width() - 2 - 9 - 10 - 8 - 2 - 24;
  const bool wide = room >= 44;  // the longest words
  const auto row = [&](const char* what, std::uint64_t gaps, std::int64_t ns, const std::string& whom) {
    out.line({"  ",
              {cut(what, room), left(room)},
              {gaps == 0 ? figure() : count(gaps), 9},
              {duration(ns), 10},
              {share_of(static_cast<double>(ns), idle), 8},
              "  ",
              cut(whom, 24)});
  };
  std::array<std::size_t, analysis::idle_cause_count> order{};
  for (std::size_t c = 0; c < order.size(); ++c) order[c] = c;
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return r.idle.by_cause[a].ns > r.idle.by_cause[b].ns; });
  for (const std::size_t c : order) {
    const analysis::idle_total& t = r.idle.by_cause[c];
    if (t.count == 0) continue;
    std::string whom;
    for (const analysis::idle_blame& b : r.idle.blames)
      if (b.cause == static_cast<analysis::idle_cause>(c)) {
        whom = whom_words(b.stage, b.call, 24);
        break;
      }
    const analysis::idle_cause cause = static_cast<analysis::idle_cause>(c);
    row(wide ? words_of_cause(cause) : short_words_of_cause(cause), t.count, t.ns, whom);
  }
  if (r.idle.before_ns + r.idle.after_ns > 0)
    row(wide ? "before the first and after the last work" : "before first, after last", 0,
        r.idle.before_ns + r.idle.after_ns, "");
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
