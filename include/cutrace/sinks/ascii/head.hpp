// SPDX-License-Identifier: Apache-2.0
// The first lines of the ASCII report: what was traced, whether all of it is there, and the answer in one sentence;
// then where the wall time went and why the GPU was idle. And its last part: losses and notes.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cutrace/analysis/alarms.hpp>
#include <cutrace/analysis/finding.hpp>
#include <cutrace/analysis/idle_gaps.hpp>
#include <cutrace/sink.hpp>
#include <cutrace/sinks/ascii/collect.hpp>
#include <cutrace/sinks/ascii/page.hpp>
#include <cutrace/sinks/ascii/tables.hpp>
#include <cutrace/sinks/common/finding_text.hpp>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace ascii {

// The end of the ASCII report: what is missing, what is doubtful, what the report itself had to shorten. For a trace
// without a flaw it prints that nothing was lost.

/// A note for each result that the memory limit made approximate or shortened; empty: there is none.
CUTRACE_NOINLINE inline std::vector<std::string> shortened(const collection& data, const analysis::bounds& limits,
                                                           const analysis::breakdown_table& time,
                                                           const analysis::breakdown_table& host,
                                                           const std::vector<analysis::stage_time>& stages) {
  std::vector<std::string> list;
  if (data.idle.pieces() > 1)
    list.push_back(joined({"memory limit: causes of idle time were found in ", count(data.idle.pieces()),
                           " pieces of the trace, one by one; for ", duration(data.idle.uncertain_ns()),
                           " of it another cause may be the true one"}));
  if (data.idle.off_ns() > 0)
    list.push_back(
        joined({"memory limit: WHY THE GPU IS IDLE is approximate, off by at most ", duration(data.idle.off_ns())}));
  const std::int64_t off_ns = std::max(time.uncertain_ns, host.uncertain_ns);
  if (off_ns == 0 && (time.approximate || host.approximate))
    list.push_back("memory limit: WHERE THE TIME WENT is approximate, for times long past are estimated");
  if (off_ns > 0)
    list.push_back(joined({"memory limit: WHERE THE TIME WENT is approximate, off by at most ", duration(off_ns)}));
  if (std::any_of(stages.begin(), stages.end(), [](const analysis::stage_time& s) { return s.approximate; }))
    list.push_back("memory limit: times of stages marked with ~ are approximate");
  if (data.time.devices_approximate()) list.push_back("memory limit: times of GPUs marked with ~ are approximate");
  if (std::any_of(stages.begin(), stages.end(), [](const analysis::stage_time& s) { return s.number == 0; }))
    list.push_back(joined({"memory limit: stages beyond ", digits(limits.stages), " names share one row"}));
  if (data.gpu_operations.names_left_out() || data.calls.names_left_out())
    list.push_back("memory limit: names beyond the table share the row \"(other names)\"");
  if (data.other_streams.used)
    list.push_back(joined({"memory limit: streams beyond ", digits(limits.streams), " share one row of the timeline"}));
  if (data.time.devices_left_out()) list.push_back("memory limit: some devices have no row of their own");
  if (data.numbers.numbers().live_approximate)
    list.push_back("memory limit: more live allocations than can be followed; live and peak bytes are too small");
  return list;
}

class quality_section {
 public:
  quality_section(page& out, const trace_summary& end) : out_(out), end_(end), totals_(end.totals) {}

  CUTRACE_NOINLINE void print(const std::vector<std::string>& shortened, bool launches_without_records) {
    out_.heading("LOSSES AND NOTES");
    losses();
    qualities();
    sinks();
    if (launches_without_records)
      note({"launches were seen, but not one GPU record: GPU times are missing, not zero"}, tone::alarm);
    for (std::uint32_t i = 0; i < end_.note_count && end_.notes != nullptr; ++i)
      if (end_.notes[i] != nullptr) note({escaped(end_.notes[i])}, tone::plain);
    for (const std::string& s : shortened) note({s}, tone::plain);
  }

 private:
  CUTRACE_NOINLINE void note(std::initializer_list<piece> pieces, tone t) {
    std::string text = "  ";
    append(text, pieces);
    out_.paragraph(text, 4, t);
  }

  CUTRACE_NOINLINE void losses() {
    constexpr const char* why[loss_cause_count] = {
        "no free chunk (chunk_full): a larger CUTRACE_MEMORY_LIMIT, or CUTRACE_OVERFLOW=wait",
        "no room for activity buffers (buffer_limit): a larger CUTRACE_MEMORY_LIMIT",
        "dropped by CUPTI itself (cupti_dropped)",
        "of a kind or version that this build does not know (unknown_record)",
        "calls or ioctls whose other half is missing (unpaired)",
        "by a sink that failed (sink_failed)",
        "for lack of memory in the process (out_of_memory)"};
    if (end_.missing != nullptr)
      note(
          {"INCOMPLETE: ", label(std::string_view(end_.missing), 400), "; shares and times above are of what is there"},
          tone::alarm);
    if (totals_.lost_total() == 0 && end_.missing != nullptr) return;
    if (totals_.lost_total() == 0) {
      note({"nothing lost: ", count(totals_.produced), " produced, ", count(totals_.delivered), " delivered"},
           tone::plain);
      return;
    }
    note({count(totals_.lost_total()), " of ", count(totals_.produced), " records LOST; ", count(totals_.delivered),
          " delivered"},
         tone::alarm);
    for (std::size_t c = 0; c < loss_cause_count; ++c)
      if (totals_.lost[c] > 0) note({{count(totals_.lost[c]), 13}, "  ", why[c]}, tone::alarm);
  }

  CUTRACE_NOINLINE void qualities() {
    constexpr const char* what[quality_count] = {
        "GPU records without times: their work is missing in all times above",
        "GPU operations without a known call",
        "GPU operations that seem to start before their call, by more than the clock's bound",
        "events delivered late, after later ones",
        "events without the name and requests of their stage, forgotten for lack of memory: raise CUTRACE_MEMORY_LIMIT",
        "events without their requests, forgotten for lack of memory: raise CUTRACE_MEMORY_LIMIT",
        "GPU operations that had not ended when they were asked for: their times are not known"};
    constexpr const char* reasons[] = {"",
                                       "",
                                       "made outside of stages",
                                       "no call seen",
                                       "call forgotten before its record came",
                                       "stage's record lost"};
    bool any = false;
    for (std::size_t q = 0; q < quality_count; ++q) {
      if (totals_.quality_of[q] == 0) continue;
      any = true;
      std::string s = joined({count(totals_.quality_of[q]), " ", what[q]});
      if (q == static_cast<std::size_t>(quality::unattributed))
        for (std::size_t a = 3; a < 6; ++a)
          if (totals_.unattributed_by[a] > 0) append(s, {"; ", reasons[a], ": ", count(totals_.unattributed_by[a])});
      note({s}, tone::plain);
    }
    if (!any) note({"all delivered records have times, a known call and their place in the order"}, tone::plain);
  }

  CUTRACE_NOINLINE void sinks() {
    for (std::uint32_t i = 0; i < std::min<std::size_t>(totals_.sink_count, sink_limit); ++i) {
      const sink_stats& s = totals_.sinks[i];
      if (!s.failed && s.lost == 0) continue;
      note({"sink ", label(text_of(s.name, sizeof(s.name)), 31), ": ", count(s.lost), " of ", count(s.delivered),
            " events not written. ", escaped(text_of(s.failure, sizeof(s.failure)))},
           tone::alarm);
    }
  }

  /// Text of a fixed field, whether it is terminated or not.
  static std::string_view text_of(const char* s, std::size_t size) noexcept {
    return {s, static_cast<std::size_t>(std::find(s, s + size, '\0') - s)};
  }

  page& out_;
  const trace_summary& end_;
  const stats& totals_;
};

/// Copy of what trace_info points to.
struct identity {
  std::string process_name, host_name, backend, backend_detail, clock;
  std::uint32_t process_id = 0;
  std::int32_t rank = -1, world_size = 0;
  std::int64_t start_ns = 0;

  identity() = default;
  CUTRACE_NOINLINE explicit identity(const trace_info& i)
      : process_name(text_or_empty(i.process_name)),
        host_name(text_or_empty(i.host_name)),
        backend(text_or_empty(i.backend)),
        backend_detail(text_or_empty(i.backend_detail)),
        clock(text_or_empty(i.clock)),
        process_id(i.process_id),
        rank(i.rank),
        world_size(i.world_size),
        start_ns(i.start.trace_ns) {}

 private:
  static const char* text_or_empty(const char* s) noexcept { return s != nullptr ? s : ""; }
};

/// The report's words for an owner of time: what a moment of the trace counts for (breakdown.hpp).
inline const char* words_of(analysis::owner o) noexcept {
  constexpr const char* words[] = {"kernel",
                                   "transfer",
                                   "memset",
                                   "unfinished",
                                   "init",
                                   "memory",
                                   "transfer",
                                   "kernel launch",
                                   "other calls",
                                   "sync (waiting)",
                                   "own code, in a stage",
                                   "no call, no stage"};
  return words[static_cast<std::size_t>(o)];
}

/// What the backend said of itself when the sink was opened; the program may have added another backend since.
CUTRACE_NOINLINE inline std::string backend_words(const identity& who, bool gpu_seen) {
  const std::string_view detail = who.backend_detail;
  const bool other = gpu_seen && (who.backend == "none" || detail.find("no GPU time") != std::string_view::npos);
  return joined({label(who.backend, 16), detail.empty() ? "" : ": ", escaped(detail),
                 other ? "; GPU times here are from a backend that the program added" : ""});
}

CUTRACE_NOINLINE inline void print_identity(page& out, const identity& who, const trace_summary& end,
                                            const analysis::breakdown_table& time, bool gpu_seen) {
  std::string title = joined(
      {"cutrace: ", label(who.process_name, 32), " (pid ", digits(who.process_id), ") on ", label(who.host_name, 24)});
  if (who.rank >= 0)
    append(title, {", rank ", digits(static_cast<std::uint32_t>(who.rank)), " of ", signed_digits(who.world_size)});
  out.line(title, tone::heading);
  std::string clock = who.clock.empty() ? "clock not known"  // a file of another tool
                                        : joined({"clock ", label(who.clock, 16)});
  if (!who.clock.empty() && end.totals.clock_error_ns != 0)  // 0: a file that has lost its end does not say
    append(clock, {", within ", duration(end.totals.clock_error_ns), " of CLOCK_MONOTONIC"});
  out.paragraph({"traced   ", duration(time.window.length_ns()), "; ", clock}, 9);
  if (time.pieces != 0)
    out.paragraph({"recorded ", duration(time.recorded_ns), " of it, in ", counted(time.pieces, "window"),
                   "; shares and idle times below are of the time recorded"},
                  9, tone::alarm);
  out.paragraph({"backend  ", backend_words(who, gpu_seen)}, 9);
  const std::uint64_t lost = end.totals.lost_total();
  if (end.missing != nullptr)
    out.paragraph({"events   ", count(end.totals.delivered), " delivered, ",
                   lost == 0 ? std::string() : joined({count(lost), " LOST (see the end of this report); "}),
                   "INCOMPLETE: ", label(std::string_view(end.missing), 400)},
                  9, tone::alarm);
  else if (lost == 0)
    out.line({"events   ", count(end.totals.delivered), " delivered, nothing lost"});
  else
    out.line(
        {"events   ", count(end.totals.delivered), " delivered, ", count(lost), " LOST (see the end of this report)"},
        tone::alarm);
}

/// ", occupied by unfinished work 12.5 % (its times are not known)", or nothing.
CUTRACE_NOINLINE inline std::string unfinished_words(const analysis::breakdown_table& t) {
  if (t.gpu_unfinished_ns() == 0) return {};
  return joined({", occupied by unfinished work ",
                 share_of(static_cast<double>(t.gpu_unfinished_ns()), static_cast<double>(t.recorded_ns)),
                 " (its times are not known)"});
}

/// What a cause of idle time means, in a table.
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

/// A shorter form of words_of_cause, for narrow pages.
inline const char* short_words_of_cause(analysis::idle_cause c) noexcept {
  constexpr const char* words[] = {"host late",      "host had waited",       "launching",
                                   "host allocated", "waited, though queued", "no stage was open",
                                   "call not known"};
  return words[static_cast<std::size_t>(c)];
}

/// "stage: call" where both fit into `width` columns; else the stage alone, whose marker is in the program's source;
/// the call alone where there is no stage.
CUTRACE_NOINLINE inline std::string whom_words(const std::string& stage, const std::string& call, std::size_t width) {
  if (stage.empty() && call.empty()) return {};
  const std::string both = joined({escaped(stage), stage.empty() || call.empty() ? "" : ": ", escaped(call)});
  return both.size() <= width ? both : label(stage.empty() ? call : stage, width);
}

/// Input of `answer`: the results of a trace that is being recorded, or of a trace file.
struct answer_source {
  const analysis::breakdown_table& time;
  const analysis::idle_report& idle;
  const std::vector<analysis::stage_time>& stages;
  const analysis::operation_table &gpu_operations, &calls;
  std::size_t devices;                             ///< devices that had work
  const std::vector<analysis::finding>* findings;  ///< nullptr: no analysis looked for findings
  const trace_summary& end;
  std::uint64_t lost;
  const analysis::alarm_log& alarms;
};

/// The sentence that a reader in a hurry needs.
class answer {
 public:
  explicit answer(const answer_source& of)
      : of_(of), worst_(analysis::bottleneck(of.time)), shares_(analysis::permille_of(of.time)) {}

  CUTRACE_NOINLINE std::string text() const {
    std::string s = alarm_words();
    if (of_.devices != 0)
      append_gpu(s);
    else if (of_.gpu_operations.total_count() != 0)
      s += "GPU work was seen, but none of it has times";
    else if (of_.calls.total_count() == 0 && of_.time.events(analysis::owner::host_stage) == 0 && of_.stages.empty())
      s += "no call, no stage and no GPU work was seen";
    else
      append_host(s += "no GPU work was seen; ");
    append_findings(s);
    if (of_.lost != 0)
      append(s, {"; ", count(of_.lost), " records LOST"});
    else if (of_.end.missing == nullptr)
      s += "; nothing lost";
    if (of_.end.missing != nullptr) s += "; the trace is INCOMPLETE";
    return s;
  }

 private:
  static double d(std::int64_t ns) noexcept { return static_cast<double>(ns); }

  /// "GPU FAULT in gather (stage "prefill", request 7): ", or nothing.
  CUTRACE_NOINLINE std::string alarm_words() const {
    const analysis::alarm_log::alarm* const a = of_.alarms.first();
    if (a == nullptr) return {};
    const bool fault = a->what == "fault";
    std::string s = fault ? "GPU FAULT" : "GPU HANG";
    if (fault && a->candidates > 1)
      append(s, {" in one of ", count(a->candidates), " pieces of work, most likely in "});
    else
      s += fault ? " in " : ": ";
    append(s, {label(a->name, 60)});
    if (!a->stage.empty()) {
      append(s, {" (stage \"", label(a->stage, 32), "\""});
      for (std::size_t i = 0; i < a->requests.size(); ++i)
        append(s, {i != 0 ? ", " : a->request_total == 1 ? ", request " : ", requests ", label(a->requests[i], 40)});
      if (a->request_total > a->requests.size())
        append(s, {" and ", count(a->request_total - a->requests.size()), " more"});
      s += ")";
    }
    if (!fault) append(s, {" had not ended for ", duration(a->unfinished_ns)});
    append(s, {" at ", duration(a->at_ns)});
    if (of_.alarms.count() > 1) append(s, {", the first of ", count(of_.alarms.count()), " alarms"});
    return s + "; ";
  }

  CUTRACE_NOINLINE void append_gpu(std::string& s) const {
    const double whole = d(of_.time.recorded_ns);
    append(s, {of_.devices > 1 ? "any GPU busy " : "GPU busy ", share_of(d(of_.time.gpu_busy_ns()), whole),
               unfinished_words(of_.time)});
    if (analysis::is_gpu(worst_)) append_busy_reason(s);
    append(s, {analysis::is_gpu(worst_) ? "; idle " : ", idle ", share_of(d(of_.time.gpu_idle_ns()), whole)});
    const analysis::idle_report& idle = of_.idle;
    std::size_t most = 0;
    for (std::size_t c = 1; c < analysis::idle_cause_count; ++c)
      if (idle.by_cause[c].ns > idle.by_cause[most].ns) most = c;
    if (idle.by_cause[most].ns > 0) {
      const analysis::idle_cause cause = static_cast<analysis::idle_cause>(most);
      const std::string_view words = words_of_cause(cause);
      append(s, {", mostly: ", words.substr(0, words.find(':')), " (",
                 share_of(d(idle.by_cause[most].ns), d(idle.all.ns)), " of the gaps"});
      if (const analysis::idle_blame* b = idle.most_of(cause)) {
        if (!b->stage.empty()) append(s, {", most of all in stage \"", label(b->stage, 32), "\""});
        if (!b->call.empty()) append(s, {b->stage.empty() ? ", most of all by " : " by ", label(b->call, 40)});
      }
      s += ")";
    }
    if (idle.around_ns() > idle.all.ns)
      append(s, {", more before the first and after the last work (", duration(idle.around_ns()), ")"});
  }

  CUTRACE_NOINLINE void append_busy_reason(std::string& s) const {
    const char* what = worst_ == analysis::owner::gpu_kernel     ? "kernels"
                       : worst_ == analysis::owner::gpu_transfer ? "copies that no kernel hides"
                       : worst_ == analysis::owner::gpu_memory   ? "sets of memory"
                                                                 : "work that had not ended";
    append(s, {" (", what, " ", share(shares_[static_cast<std::size_t>(worst_)])});
    const std::vector<analysis::operation> top = of_.gpu_operations.top(1);
    if (!top.empty())
      append(s, {", most of all \"", label(short_names(top)[0], 40), "\", ",
                 share_of(static_cast<double>(top[0].total_ns), static_cast<double>(of_.gpu_operations.total_ns())),
                 " of GPU time"});
    s += ")";
  }

  CUTRACE_NOINLINE void append_findings(std::string& s) const {
    if (of_.findings == nullptr) return;
    if (of_.findings->empty() || (*of_.findings)[0].is == analysis::finding_kind::losses) {
      s += "; nothing stands out to fix";
      return;
    }
    const analysis::finding& first = (*of_.findings)[0];
    append(s, {"; fix first: ", words_of(first, of_.time.recorded_ns).title, ", to win up to ", duration(first.win_ns),
               " (", share_of(d(first.win_ns), d(of_.time.recorded_ns)), ")"});
  }

  /// Without a GPU: what the host did for most of the time.
  CUTRACE_NOINLINE void append_host(std::string& s) const {
    const analysis::owner most = analysis::largest_host_owner(of_.time, true);
    append_cause(s, most);
    // `nothing` gives a reader no call and no stage to look at, so the next owner is printed, too.
    const analysis::owner next = analysis::largest_host_owner(of_.time, false);
    if (most == analysis::owner::nothing && next != analysis::owner::nothing) append_cause(s += ", then ", next);
  }

  CUTRACE_NOINLINE void append_cause(std::string& s, analysis::owner o) const {
    append(s, {share(shares_[static_cast<std::size_t>(o)]), " "});
    switch (o) {
      case analysis::owner::nothing:
        s += of_.time.events(analysis::owner::host_stage) > 0
                 ? "with no call running and no stage open"
                 : "with the host outside of CUDA calls (stages would say more)";
        return append_spans(s);
      case analysis::owner::host_stage:
        s += "with the host in its own code";
        return append_worst_stage(s);
      case analysis::owner::host_sync:
        s += "with the host waiting in ";
        return append_longest_call(s, analysis::category::sync);
      default:
        s += "with the host in ";
        return append_longest_call(s, category_of(o));
    }
  }

  /// The category of the calls that owner `o` stands for.
  static analysis::category category_of(analysis::owner o) noexcept {
    using analysis::category;
    for (const category c : {category::init, category::memory, category::transfer, category::kernel, category::sync})
      if (analysis::host_owner(c) == o) return c;
    return category::other;
  }

  CUTRACE_NOINLINE void append_longest_call(std::string& s, analysis::category c) const {
    for (const analysis::operation& o : of_.calls.top(of_.calls.size()))
      if (o.is == c)
        return append(s, {label(o.name, 40), " (", counted(o.count, "call"), ", ", duration(o.mean_ns()),
                          o.count == 1 ? ")" : " each)"});
    append(s, {analysis::name_of(c), " calls"});
  }

  CUTRACE_NOINLINE void append_worst_stage(std::string& s) const {
    const analysis::stage_time* worst = nullptr;
    for (const analysis::stage_time& t : of_.stages)
      if (!only_spans(t) && (worst == nullptr || t.host_ns > worst->host_ns)) worst = &t;
    if (worst != nullptr)
      append(s, {", most of it in stage \"", label(worst->name, 32), "\" (", duration(worst->host_ns), ")"});
  }

  /// Whether all runs of the stage are spans (cutrace::span) that no thread adopted. A span may be a mere wait.
  static bool only_spans(const analysis::stage_time& t) noexcept { return t.spans == t.calls && t.adopted_parts == 0; }

  CUTRACE_NOINLINE void append_spans(std::string& s) const {
    const analysis::stage_time* longest = nullptr;
    for (const analysis::stage_time& t : of_.stages)
      if (t.calls != 0 && only_spans(t) && (longest == nullptr || t.host_ns > longest->host_ns)) longest = &t;
    if (longest != nullptr && longest->host_ns > 0)
      append(s, {" (but spans, most of all \"", label(longest->name, 32), "\" for ", duration(longest->host_ns), ")"});
  }

  answer_source of_;
  analysis::owner worst_;
  std::array<std::uint32_t, analysis::owner_count> shares_;
};

/// Causes of idle time, and the stage and the call to blame for most of each.
CUTRACE_NOINLINE inline void print_idle(page& out, const analysis::idle_report& idle) {
  out.heading("WHY THE GPU IS IDLE", {{"gaps", 9}, {"time", 10}, {"share", 8}, {"  ", 2}, {"mostly", -24}});
  const double whole =
      static_cast<double>(idle.all.ns) + static_cast<double>(idle.before_ns) + static_cast<double>(idle.after_ns);
  const std::size_t room = out.width() - 2 - 9 - 10 - 8 - 2 - 24;
  const bool wide = room >= 44;  // the longest words
  const auto row = [&](const char* what, std::uint64_t gaps, std::int64_t ns, const std::string& whom) {
    out.line({"  ",
              {cut(what, room), left(room)},
              {gaps == 0 ? figure() : count(gaps), 9},
              {duration(ns), 10},
              {share_of(static_cast<double>(ns), whole), 8},
              "  ",
              cut(whom, 24)});
  };
  std::array<std::size_t, analysis::idle_cause_count> order{};
  for (std::size_t c = 0; c < order.size(); ++c) order[c] = c;
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return idle.by_cause[a].ns > idle.by_cause[b].ns; });
  for (const std::size_t c : order) {
    const analysis::idle_total& t = idle.by_cause[c];
    if (t.count == 0) continue;
    const analysis::idle_cause cause = static_cast<analysis::idle_cause>(c);
    const analysis::idle_blame* most = idle.most_of(cause);
    row(wide ? words_of_cause(cause) : short_words_of_cause(cause), t.count, t.ns,
        most == nullptr ? std::string() : whom_words(most->stage, most->call, 24));
  }
  if (idle.around_ns() > 0)
    row(wide ? "before the first and after the last work" : "before first, after last", 0, idle.around_ns(), "");
}

/// Where the wall time went: a moment with GPU work counts for the GPU, else for the host. A second column counts the
/// host whatever the GPU did.
class breakdown_section {
 public:
  breakdown_section(page& out, const analysis::breakdown_table& all, const analysis::breakdown_table& host)
      : out_(out),
        wide_(out.width() >= 100),
        gpu_(all.count[0] + all.count[1] + all.count[2] + all.events(analysis::owner::gpu_unfinished) > 0),
        all_(all),
        host_(host),
        shares_(analysis::permille_of(all)),
        host_shares_(analysis::permille_of(host)) {}

  CUTRACE_NOINLINE void print() {
    out_.heading("WHERE THE TIME WENT", {{"events", 9},
                                         {"time", 10},
                                         {"share", 9},
                                         {"", 15},
                                         {!gpu_   ? ""
                                          : wide_ ? "host alone"
                                                  : "host",
                                          wide_ ? 19 : 9}});
    const bool any = std::any_of(all_.count.begin(), all_.count.end(), [](std::uint64_t n) { return n > 0; });
    const std::size_t worst = any ? static_cast<std::size_t>(analysis::bottleneck(all_)) : analysis::owner_count;
    for (std::size_t i = 0; i < analysis::owner_count; ++i) {
      const analysis::owner o = static_cast<analysis::owner>(i);
      const bool seen = all_.count[i] > 0 || all_.ns[i] > 0 || host_.ns[i] > 0;
      if (!seen) continue;
      row(o,
          !gpu_                 ? "host: "
          : analysis::is_gpu(o) ? "GPU at work: "
          : wide_               ? "GPU idle, host: "
                                : "idle: ",
          worst == i);
    }
    line("", "all", 0, false, all_.recorded_ns, all_.recorded_ns == 0 ? 0 : 1000, "", {}, {});
    out_.paragraph(
        {"  Each moment counts once, in the first row that applies.", gpu_ ? " Host alone: whatever the GPU did." : ""},
        2);
  }

 private:
  CUTRACE_NOINLINE void row(analysis::owner o, const char* side, bool worst) {
    const std::size_t i = static_cast<std::size_t>(o);
    figure host_time, host_share;
    if (gpu_ && !analysis::is_gpu(o)) {
      if (wide_) host_time = duration(host_.ns[i]);
      host_share = share(host_shares_[i]);
    }
    const bool counted = o != analysis::owner::nothing;
    const bool stages = all_.events(analysis::owner::host_stage) > 0;
    line(side, counted || stages ? words_of(o) : "in no CUDA call", all_.count[i], counted, all_.ns[i], shares_[i],
         worst && all_.ns[i] > 0 ? "  <- BOTTLENECK" : "", host_time, host_share);
  }

  CUTRACE_NOINLINE void line(const char* side, const char* what, std::uint64_t events, bool counted, std::int64_t ns,
                             std::uint64_t permille, const char* mark, const figure& host_time,
                             const figure& host_share) {
    const std::size_t room = out_.width() - (wide_ ? 62 : 52) - 2;
    out_.line({"  ",
               {cut(joined({side, what}), room), left(room)},
               {counted ? count(events) : figure(), 9},
               {duration(ns), 10},
               {share(permille), 9},
               {mark, -15},
               {host_time, wide_ ? 10 : 0},
               {host_share, 9}},
              *mark != '\0' ? tone::alarm : tone::plain);
  }

  page& out_;
  bool wide_;  ///< room for all columns
  bool gpu_;   ///< there was GPU work; without it the column "host alone" is left out
  const analysis::breakdown_table& all_;
  const analysis::breakdown_table& host_;
  std::array<std::uint32_t, analysis::owner_count> shares_, host_shares_;
};

}  // namespace ascii
CUTRACE_END_NAMESPACE
