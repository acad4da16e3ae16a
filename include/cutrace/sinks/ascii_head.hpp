// SPDX-License-Identifier: Apache-2.0
// The first lines of the ASCII report: what was traced, whether all of it is there, and the answer in one sentence;
// then where the wall time went.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cutrace/sink.hpp>
#include <cutrace/sinks/ascii_collect.hpp>
#include <cutrace/sinks/ascii_page.hpp>
#include <string>
#include <string_view>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace ascii {

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

/// How the owners of time are called in the report.
inline const char* words_of(analysis::owner o) noexcept {
  constexpr const char* words[] = {
      "kernel",           "transfer",      "memset",      "init",           "memory",
      "transfer",         "kernel launch", "other calls", "sync (waiting)", "own code, in a stage",
      "no call, no stage"};
  return words[static_cast<std::size_t>(o)];
}

/// What the backend said of itself when the sink was opened; the program may have added another one since.
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
  out.paragraph({"traced   ", duration(time.window.length_ns()), "; clock ", label(who.clock, 16), ", within ",
                 duration(end.totals.clock_error_ns), " of CLOCK_MONOTONIC"},
                9);
  if (time.pieces != 0)
    out.paragraph({"recorded ", duration(time.recorded_ns), " of it, in ", counted(time.pieces, "window"),
                   "; shares and idle times below are of the time recorded"},
                  9, tone::alarm);
  out.paragraph({"backend  ", backend_words(who, gpu_seen)}, 9);
  const std::uint64_t lost = end.totals.lost_total();
  if (lost == 0)
    out.line({"events   ", count(end.totals.delivered), " delivered, nothing lost"});
  else
    out.line(
        {"events   ", count(end.totals.delivered), " delivered, ", count(lost), " LOST (see the end of this report)"},
        tone::alarm);
}

/// The sentence that a reader in a hurry needs.
class verdict {
 public:
  verdict(const collection& data, const analysis::breakdown_table& time,
          const std::vector<analysis::stage_time>& stages)
      : data_(data),
        time_(time),
        stages_(stages),
        worst_(analysis::bottleneck(time)),
        shares_(analysis::permille_of(time)) {}

  CUTRACE_NOINLINE std::string text() const {
    if (time_.gpu_busy_ns() == 0 && worst_ == analysis::owner::nothing && data_.calls.total_count() == 0 &&
        (data_.gpu_operations.total_count() != 0 || time_.events(analysis::owner::host_stage) == 0))
      return data_.gpu_operations.total_count() == 0 ? "no call, no stage and no GPU work was seen"
                                                     : "GPU work was seen, but none of it has times";
    const double whole = static_cast<double>(time_.recorded_ns);
    const double busy = static_cast<double>(time_.gpu_busy_ns());
    std::string s;
    if (!gpu_seen())
      s = "no GPU work was seen; ";
    else
      append(s, {"GPU busy ", share_of(busy, whole), ", idle ", share_of(whole - busy, whole), "; "});
    if (analysis::is_gpu(worst_)) {
      append_busy_reason(s);
      if (busy >= whole) return s;
      s += "; largest cause of idle time: ";
    }
    const analysis::owner idle = analysis::largest_host_owner(time_, true);
    append_cause(s, idle);
    // Time without any work is what there is most of, but not what one can look at.
    const analysis::owner next = analysis::largest_host_owner(time_, false);
    if (idle == analysis::owner::nothing && next != analysis::owner::nothing) append_cause(s += ", then ", next);
    if (gpu_seen() && !analysis::is_gpu(worst_)) append_top_operation(s += "; the GPU's work is");
    return s;
  }

 private:
  bool gpu_seen() const noexcept { return data_.gpu_operations.total_count() > 0; }

  CUTRACE_NOINLINE void append_busy_reason(std::string& s) const {
    const char* what = worst_ == analysis::owner::gpu_kernel     ? "kernels"
                       : worst_ == analysis::owner::gpu_transfer ? "copies that no kernel hides"
                                                                 : "sets of memory";
    append(s, {what, " ", share(shares_[static_cast<std::size_t>(worst_)]), ","});
    append_top_operation(s);
  }

  CUTRACE_NOINLINE void append_top_operation(std::string& s) const {
    const std::vector<analysis::operation> top = data_.gpu_operations.top(1);
    append(s, {" most of all \"", label(top[0].name, 40), "\" (",
               share_of(static_cast<double>(top[0].total_ns), static_cast<double>(data_.gpu_operations.total_ns())),
               " of GPU time)"});
  }

  CUTRACE_NOINLINE void append_cause(std::string& s, analysis::owner o) const {
    append(s, {share(shares_[static_cast<std::size_t>(o)]), " "});
    append_idle_reason(s, o);
  }

  CUTRACE_NOINLINE void append_idle_reason(std::string& s, analysis::owner o) const {
    switch (o) {
      case analysis::owner::nothing:
        s += time_.events(analysis::owner::host_stage) > 0
                 ? "with no call running and no stage open"
                 : "with the host outside of CUDA calls (stages would tell more)";
        return;
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

  /// Of the owners that are calls.
  static analysis::category category_of(analysis::owner o) noexcept {
    using analysis::category;
    for (const category c : {category::init, category::memory, category::transfer, category::kernel, category::sync})
      if (analysis::host_owner(c) == o) return c;
    return category::other;
  }

  CUTRACE_NOINLINE void append_longest_call(std::string& s, analysis::category c) const {
    for (const analysis::operation& o : data_.calls.top(data_.calls.size()))
      if (o.is == c)
        return append(s, {label(o.name, 40), " (", counted(o.count, "call"), ", ", duration(o.mean_ns()),
                          o.count == 1 ? ")" : " each)"});
    append(s, {analysis::name_of(c), " calls"});
  }

  /// An outer stage has at least the idle time of its inner ones. Of those with nearly the most, the one that the GPU
  /// leaves idle for the largest part of its time says more.
  CUTRACE_NOINLINE void append_worst_stage(std::string& s) const {
    std::int64_t most_ns = 0;
    for (const analysis::stage_time& t : stages_) most_ns = std::max(most_ns, t.gpu_idle_inside_ns);
    const analysis::stage_time* worst = nullptr;
    double worst_part = 0;
    for (const analysis::stage_time& t : stages_) {
      if (t.host_ns == 0 || t.gpu_idle_inside_ns < most_ns - most_ns / 5) continue;
      const double part = static_cast<double>(t.gpu_idle_inside_ns) / static_cast<double>(t.host_ns);
      if (part > worst_part) worst = &t, worst_part = part;
    }
    if (worst == nullptr) return;
    append(s, {", most of it in stage \"", label(worst->name, 32), "\" ("});
    if (gpu_seen()) append(s, {"idle ", duration(worst->gpu_idle_inside_ns), " of its "});
    append(s, {duration(worst->host_ns), ")"});
  }

  const collection& data_;
  const analysis::breakdown_table& time_;
  const std::vector<analysis::stage_time>& stages_;
  analysis::owner worst_;
  std::array<std::uint32_t, analysis::owner_count> shares_;
};

/// Where the wall time went: GPU before host, and beside it the host alone.
class breakdown_section {
 public:
  breakdown_section(page& out, const analysis::breakdown_table& all, const analysis::breakdown_table& host)
      : out_(out),
        wide_(out.width() >= 100),
        gpu_(all.count[0] + all.count[1] + all.count[2] > 0),
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
    out_.paragraph({"  Each moment counts once, in the first row that applies.",
                    gpu_ ? " Host alone: the same without the GPU." : ""},
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
    line(side, counted || stages ? words_of(o) : "outside of CUDA calls", all_.count[i], counted, all_.ns[i],
         shares_[i], worst && all_.ns[i] > 0 ? "  <- BOTTLENECK" : "", host_time, host_share);
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
  bool gpu_;   ///< any work of a GPU; without, the host alone is all there is
  const analysis::breakdown_table& all_;
  const analysis::breakdown_table& host_;
  std::array<std::uint32_t, analysis::owner_count> shares_, host_shares_;
};

}  // namespace ascii
CUTRACE_END_NAMESPACE
