// SPDX-License-Identifier: Apache-2.0
// Why a request took as long as it did, as text: the answer in one sentence, a time line of each of its stages, where
// its time went compared with the cohort (other requests, see why.hpp), the causes, and what the trace cannot show.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cutrace/sinks/ascii/page.hpp>
#include <string>
#include <vector>

#include "report/why.hpp"

CUTRACE_BEGIN_NAMESPACE
namespace ascii {

inline const char* words_of(analysis::request_part p) noexcept {
  constexpr const char* words[] = {"GPU: its kernels, alone",
                                   "GPU: kernels of batches that it shares",
                                   "GPU: its copies",
                                   "launched, GPU busy with others' work",
                                   "launched, GPU not started yet",
                                   "host: allocates or frees",
                                   "host: waits for the GPU",
                                   "host: launches and copies",
                                   "host: other calls",
                                   "host: own code of its stages",
                                   "a span of it is open (a queue)",
                                   "nothing of it is open",
                                   "not recorded"};
  return words[static_cast<std::size_t>(p)];
}

/// "request 7", "requests 7, 8, 9 and others".
CUTRACE_NOINLINE inline std::string request_words(const std::vector<std::string>& list) {
  std::string s = list.size() == 1 ? "request " : "requests ";
  const std::size_t shown = std::min<std::size_t>(list.size(), 3);
  for (std::size_t i = 0; i < shown; ++i) append(s, {i == 0 ? "" : ", ", label(list[i], 24)});
  if (list.size() > shown) append(s, {" and others"});
  return s;
}

/// "\"prefill\" (server.cpp:12) of request 7 30.1 ms in 3 pieces, usually 2.0 ms"
CUTRACE_NOINLINE inline std::string share_words(const analysis::why_share& s, bool compared) {
  std::string t = joined({"\"", label(s.name, 64), "\""});
  if (!s.site.empty()) append(t, {" (", place(s.site, 48), ")"});
  if (!s.requests.empty()) append(t, {" of ", request_words(s.requests)});
  append(t, {" ", duration(s.ns)});
  if (s.count > 1) append(t, {" in ", count(s.count), " pieces"});
  if (compared && s.typical_ns > 0) append(t, {", usually ", duration(s.typical_ns)});
  return t;
}

/// The first one, and of the others those that took at least `least_ns`.
CUTRACE_NOINLINE inline std::string list_words(const std::vector<analysis::why_share>& list, bool compared,
                                               std::int64_t least_ns = 0) {
  std::string t;
  for (const analysis::why_share& s : list)
    if (t.empty() || s.ns >= least_ns) append(t, {t.empty() ? "" : "; ", share_words(s, compared)});
  return t.empty() ? "not known" : t;
}

/// One sentence for a cause.
CUTRACE_NOINLINE inline std::string cause_words(const analysis::why_cause& c) {
  using analysis::request_part;
  const std::int64_t least = c.ns / 20;
  const std::string what = list_words(c.shares, false, least);
  std::string t;
  switch (c.is) {
    case request_part::gpu_alone:
      t = "Its own kernels: " + list_words(c.shares, true, least) + ".";
      break;
    case request_part::gpu_batch:
      t = "The batches that it shared: " + list_words(c.shares, true, least) + ".";
      for (const analysis::why_share& m : c.mates)
        append(t, {" Request ", label(m.name, 32), " took part in ", count(m.count),
                   " of them, and its batches are slow without this request, too: ", duration(m.ns), ", usually ",
                   duration(m.typical_ns), "."});
      break;
    case request_part::copy:
      t = "Its copies: " + list_words(c.shares, true, least) + ".";
      break;
    case request_part::behind_others:
      t = "The GPU ran others' work while this request's had been launched: " + what + ".";
      break;
    case request_part::launch_delay:
      t = "Its work had been launched and the GPU was idle, but did not start it: " + what + ".";
      break;
    case request_part::allocation:
      t = "Allocating or freeing device memory: " + what + ".";
      break;
    case request_part::waiting:
      t = "Waiting in calls while none of its own work ran or was queued: " + what + ".";
      break;
    case request_part::launching:
      t = "Calls that launch or copy: " + what + ".";
      break;
    case request_part::other_calls:
      t = "Other calls: " + what + ".";
      break;
    case request_part::own_code:
      t = "Code of the program in its stages: " + list_words(c.shares, true, least) + ".";
      if (c.preempted_ns > 0) append(t, {" Its threads were switched out for ", duration(c.preempted_ns), " of it."});
      break;
    case request_part::span:
      t = "It waited in " + what + ".";
      break;
    case request_part::not_recorded:
      break;
    case request_part::between:
      t = "No stage of it was open, longest between " + list_words(c.shares, false) + ".";
      break;
  }
  if (c.clock_mhz > 0)
    append(t, {" The GPU's clock was at ", count(static_cast<std::uint64_t>(c.clock_mhz + 0.5)), " MHz then, at ",
               count(static_cast<std::uint64_t>(c.typical_clock_mhz + 0.5)), " MHz for kernels of this trace."});
  if (!c.others.empty()) {
    t += " Meanwhile: ";
    for (std::size_t i = 0; i < c.others.size(); ++i) {
      append(t, {i == 0 ? "\"" : ", \"", label(c.others[i].name, 32), "\" for ", duration(c.others[i].ns)});
      if (c.others[i].thread_id != 0) append(t, {" on thread ", digits(c.others[i].thread_id)});
    }
    t += ".";
  }
  return t;
}

/// "request 7 took 35.2 ms, 30.1 ms more than the median of 499 others (rank 1 of 500 by latency); first cause:
/// launched, GPU busy with others' work, +29.8 ms".
CUTRACE_NOINLINE inline std::string why_answer(const analysis::why_report& r) {
  const std::int64_t ns = r.account.span.length_ns(), more = ns - r.typical_latency_ns;
  std::string s = joined({"request ", label(r.name, 40), " took ", duration(ns)});
  if (r.cohort == 0) return s + "; there is no other request to compare it with";
  append(s, {", ", duration(more < 0 ? -more : more), more < 0 ? " less" : " more", " than the median of ",
             count(r.cohort),
             r.sampled                   ? " sampled others"
             : r.cohort + 1 < r.requests ? " others that are whole"
             : r.cohort == 1             ? " other"
                                         : " others",
             " (rank ", count(r.rank), " of ", count(r.requests), " by latency)"});
  if (const std::int64_t unknown_ns = r.account.time_ns(analysis::request_part::not_recorded))
    append(s, {"; ", duration(unknown_ns), " of it were not recorded"});
  if (r.causes.empty() || !r.causes[0].stands_out())
    return s + "; no part of it took longer than in 90 % of the others";
  append(s, {"; first cause: ", words_of(r.causes[0].is), ", +", duration(r.causes[0].excess_ns())});
  return s;
}

/// '#' where GPU work of the stage ran, '=' where the stage was open, '-' where it was open and is a span.
CUTRACE_NOINLINE inline std::string why_bar(const analysis::why_row& row, analysis::interval span, std::size_t width) {
  std::string bar(width, ' ');
  const auto draw = [&](const std::vector<analysis::interval>& list, char c) {
    const double whole = static_cast<double>(std::max<std::int64_t>(span.length_ns(), 1));
    for (const analysis::interval v : list) {
      const analysis::interval in = analysis::clip(v, span);
      if (in.empty() && v.start_ns != v.end_ns) continue;
      const double a = static_cast<double>(in.start_ns - span.start_ns) / whole * static_cast<double>(width);
      const double b = static_cast<double>(in.end_ns - span.start_ns) / whole * static_cast<double>(width);
      const std::size_t from = std::min(static_cast<std::size_t>(a), width - 1);
      const std::size_t to = std::min(std::max(static_cast<std::size_t>(b + 0.5), from + 1), width);
      std::fill(bar.begin() + static_cast<std::ptrdiff_t>(from), bar.begin() + static_cast<std::ptrdiff_t>(to), c);
    }
  };
  draw(row.host, row.span ? '-' : '=');
  draw(row.gpu, '#');
  return bar;
}

}  // namespace ascii

/// @param width columns, 80 to 400
CUTRACE_NOINLINE inline std::string why_text(const analysis::why_report& r, std::size_t width, bool color,
                                             bool utf8 = false) {
  using namespace ascii;
  page out(std::min<std::size_t>(std::max<std::size_t>(width, 80), 400), color, utf8);
  out.paragraph(why_answer(r) + ".", 2, tone::alarm);
  if (r.account.unended)
    out.paragraph("A stage of it has no end in the trace: what came after is not known.", 2, tone::alarm);
  const std::size_t name = 20, bar = out.width() - 2 - name - 1 - 8 - 11 - 11 - 1;
  out.heading({"ITS LIFE  ", duration(r.account.span.start_ns - r.begun_ns), " .. ",
               duration(r.account.span.end_ns - r.begun_ns)},
              joined({{"times", 8}, {"host", 11}, {"GPU", 11}}));
  const std::size_t most = 24;
  for (std::size_t i = 0; i < std::min(most, r.rows.size()); ++i) {
    const analysis::why_row& row = r.rows[i];
    out.line({"  ",
              {label(row.name, name), left(name)},
              " ",
              {why_bar(row, r.account.span, bar), left(bar)},
              {count(row.count), 8},
              {duration(row.host_ns), 11},
              {row.gpu.empty() ? figure() : duration(row.gpu_ns), 11}});
  }
  if (r.rows.size() > most) out.line({"  and ", count(r.rows.size() - most), " more stages"});
  out.line("  # its work on the GPU  = the stage is open  - a span is open");

  out.heading("WHERE ITS TIME WENT", {{"time", 11}, {"share", 9}, {"median", 11}, {"beyond it", 12}});
  const std::size_t room = out.width() - 2 - 11 - 9 - 11 - 12;
  std::vector<const analysis::why_cause*> in_order;
  for (const analysis::why_cause& c : r.causes) in_order.push_back(&c);
  std::sort(in_order.begin(), in_order.end(),
            [](const analysis::why_cause* a, const analysis::why_cause* b) { return a->is < b->is; });
  const double whole = static_cast<double>(r.account.span.length_ns());
  for (const analysis::why_cause* c : in_order) {
    const bool more = c->stands_out();
    out.line({"  ",
              {cut(words_of(c->is), room), left(room)},
              {duration(c->ns), 11},
              {share_of(static_cast<double>(c->ns), whole), 9},
              {r.cohort == 0 ? figure("-") : duration(c->typical_ns), 11},
              {more ? joined({"+", duration(c->excess_ns())}) : std::string(), 12}},
             c == &r.causes[0] && more ? tone::alarm : tone::plain);
  }
  out.line({"  ",
            {"all", left(room)},
            {duration(r.account.span.length_ns()), 11},
            {"100.0 %", 9},
            {r.cohort == 0 ? figure("-") : duration(r.typical_latency_ns), 11}});
  out.line("  Each moment counts once, in the first row that applies.");

  out.heading("WHY");
  for (std::size_t i = 0; i < r.shown_causes(); ++i) {
    const analysis::why_cause& c = r.causes[i];
    out.paragraph({{digits(i + 1), 3},
                   " ",
                   c.stands_out() ? joined({"+", duration(c.excess_ns()), ": "}) : std::string(),
                   cause_words(c)},
                  4, i == 0 ? tone::alarm : tone::plain);
  }
  out.heading("NOT LOOKED AT");
  for (const std::string& s : r.not_looked_at) out.paragraph({"  ", s}, 4);
  if (r.not_looked_at.empty()) out.line("  nothing that this version knows of");
  return out.text();
}

CUTRACE_END_NAMESPACE
