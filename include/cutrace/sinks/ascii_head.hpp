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
  explicit identity(const trace_info& i)
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

inline void print_identity(page& out, const identity& who, const trace_summary& end, std::int64_t total_ns) {
  std::string title =
      fmt::format("cutrace: {} (pid {}) on {}", label(who.process_name, 32), who.process_id, label(who.host_name, 24));
  if (who.rank >= 0) title += fmt::format(", rank {} of {}", who.rank, who.world_size);
  out.line(title, tone::heading);
  out.paragraph(fmt::format("traced   {}; clock {}, within {} of CLOCK_MONOTONIC", duration(total_ns),
                            label(who.clock, 16), duration(end.totals.clock_error_ns)),
                9);
  out.paragraph(fmt::format("backend  {}{}{}", label(who.backend, 16), who.backend_detail.empty() ? "" : ": ",
                            escaped(who.backend_detail)),
                9);
  const std::uint64_t lost = end.totals.lost_total();
  if (lost == 0)
    out.line(fmt::format("events   {} delivered, nothing lost", count(end.totals.delivered)));
  else
    out.line(fmt::format("events   {} delivered, {} LOST (see the end of this report)", count(end.totals.delivered),
                         count(lost)),
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

  std::string text() const {
    if (time_.gpu_busy_ns() == 0 && worst_ == analysis::owner::nothing && data_.calls.total_count() == 0)
      return data_.gpu_operations.total_count() == 0 ? "no call, no stage and no GPU work was seen"
                                                     : "GPU work was seen, but none of it has times";
    const double whole = static_cast<double>(time_.window.length_ns());
    const double busy = static_cast<double>(time_.gpu_busy_ns());
    std::string s = fmt::format("GPU busy {}, idle {}; ", share_of(busy, whole), share_of(whole - busy, whole));
    if (data_.gpu_operations.total_count() == 0) s = "no GPU work was seen; ";
    if (analysis::is_gpu(worst_)) s += busy_reason();
    if (busy >= whole) return s;
    if (analysis::is_gpu(worst_)) s += "; largest cause of idle time: ";
    const analysis::owner idle = analysis::bottleneck(host_rows());
    s += fmt::format("{} ", share(shares_[static_cast<std::size_t>(idle)])) + idle_reason(idle);
    // Not a cause, where stages tell what is work; but often the larger number.
    if (idle != analysis::owner::nothing && time_.time_ns(analysis::owner::nothing) > time_.time_ns(idle))
      s += fmt::format("; {} passed with no call and no stage", share(shares_.back()));
    return s;
  }

 private:
  /// The table without the GPU's rows: what the host did while the GPU was idle.
  analysis::breakdown_table host_rows() const {
    analysis::breakdown_table t = time_;
    t.ns[0] = t.ns[1] = t.ns[2] = 0;
    return t;
  }

  std::string busy_reason() const {
    const char* what = worst_ == analysis::owner::gpu_kernel     ? "kernels"
                       : worst_ == analysis::owner::gpu_transfer ? "copies that no kernel hides"
                                                                 : "sets of memory";
    std::string s = fmt::format("{} {}", what, share(shares_[static_cast<std::size_t>(worst_)]));
    const std::vector<analysis::operation> top = data_.gpu_operations.top(1);
    if (!top.empty())
      s += fmt::format(
          ", most of all \"{}\" ({} of GPU time)", label(top[0].name, 40),
          share_of(static_cast<double>(top[0].total_ns), static_cast<double>(data_.gpu_operations.total_ns())));
    return s;
  }

  std::string idle_reason(analysis::owner o) const {
    switch (o) {
      case analysis::owner::nothing:
        return time_.events(analysis::owner::host_stage) > 0
                   ? "with no call running and no stage open"
                   : "with the host outside of CUDA calls (stages would tell more)";
      case analysis::owner::host_stage:
        return "with the host in its own code" + worst_stage();
      case analysis::owner::host_sync:
        return "with the host waiting in " + longest_call(analysis::category::sync);
      case analysis::owner::host_init:
        return "with the host in " + longest_call(analysis::category::init);
      case analysis::owner::host_memory:
        return "with the host in " + longest_call(analysis::category::memory);
      case analysis::owner::host_transfer:
        return "with the host in " + longest_call(analysis::category::transfer);
      case analysis::owner::host_launch:
        return "with the host in " + longest_call(analysis::category::kernel);
      default:
        return "with the host in " + longest_call(analysis::category::other);
    }
  }

  std::string longest_call(analysis::category c) const {
    for (const analysis::operation& o : data_.calls.top(data_.calls.size()))
      if (o.is == c)
        return fmt::format("{} ({} calls, {} each)", label(o.name, 40), count(o.count), duration(o.mean_ns()));
    return fmt::format("{} calls", analysis::name_of(c));
  }

  /// An outer stage has at least the idle time of its inner ones. Of those with nearly the most, the one that the GPU
  /// leaves idle for the largest part of its time says more.
  std::string worst_stage() const {
    std::int64_t most_ns = 0;
    for (const analysis::stage_time& s : stages_) most_ns = std::max(most_ns, s.gpu_idle_inside_ns);
    const analysis::stage_time* worst = nullptr;
    double worst_part = 0;
    for (const analysis::stage_time& s : stages_) {
      if (s.host_ns == 0 || s.gpu_idle_inside_ns < most_ns - most_ns / 5) continue;
      const double part = static_cast<double>(s.gpu_idle_inside_ns) / static_cast<double>(s.host_ns);
      if (part > worst_part) worst = &s, worst_part = part;
    }
    if (worst == nullptr) return "";
    return fmt::format(", most of it in stage \"{}\" (idle {} of its {})", label(worst->name, 32),
                       duration(worst->gpu_idle_inside_ns), duration(worst->host_ns));
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
        all_(all),
        host_(host),
        shares_(analysis::permille_of(all)),
        host_shares_(analysis::permille_of(host)) {}

  void print() {
    out_.heading("WHERE THE TIME WENT", fmt::format("{:>9}{:>10}{:>9}{:15}{:>{}}", "events", "time", "share", "",
                                                    wide_ ? "host alone" : "host", wide_ ? 19 : 9));
    const bool any = std::any_of(all_.count.begin(), all_.count.end(), [](std::uint64_t n) { return n > 0; });
    const std::size_t worst = any ? static_cast<std::size_t>(analysis::bottleneck(all_)) : analysis::owner_count;
    const bool gpu = all_.count[0] + all_.count[1] + all_.count[2] > 0;
    for (std::size_t i = 0; i < analysis::owner_count; ++i) {
      const analysis::owner o = static_cast<analysis::owner>(i);
      const bool seen = all_.count[i] > 0 || all_.ns[i] > 0 || host_.ns[i] > 0;
      if (!seen) continue;
      row(o,
          !gpu                  ? "host: "
          : analysis::is_gpu(o) ? "GPU at work: "
          : wide_               ? "GPU idle, host: "
                                : "idle: ",
          worst == i);
    }
    line("all", 0, false, all_.window.length_ns(), all_.window.empty() ? 0 : 1000, "", std::string());
    out_.paragraph("  Each moment counts once, in the first row that applies. Host alone: the same without the GPU.",
                   2);
  }

 private:
  void row(analysis::owner o, const char* side, bool worst) {
    const std::size_t i = static_cast<std::size_t>(o);
    const std::string host = analysis::is_gpu(o) ? ""
                                                 : (wide_ ? fmt::format("{:>10}", duration(host_.ns[i])) : "") +
                                                       fmt::format("{:>9}", share(host_shares_[i]));
    const bool counted = o != analysis::owner::nothing;
    const bool stages = all_.events(analysis::owner::host_stage) > 0;
    line(std::string(side) + (counted || stages ? words_of(o) : "outside of CUDA calls"), all_.count[i], counted,
         all_.ns[i], shares_[i], worst && all_.ns[i] > 0 ? "  <- BOTTLENECK" : "", host);
  }

  void line(const std::string& what, std::uint64_t events, bool counted, std::int64_t ns, std::uint64_t permille,
            const char* mark, const std::string& host) {
    const std::size_t room = out_.width() - (wide_ ? 62 : 52) - 2;
    out_.line(fmt::format("  {:<{}}{:>9}{:>10}{:>9}{:15}{}", cut(what, room), room, counted ? count(events) : "",
                          duration(ns), share(permille), mark, host),
              *mark != '\0' ? tone::alarm : tone::plain);
  }

  page& out_;
  bool wide_;  ///< room for all columns
  const analysis::breakdown_table& all_;
  const analysis::breakdown_table& host_;
  std::array<std::uint32_t, analysis::owner_count> shares_, host_shares_;
};

}  // namespace ascii
CUTRACE_END_NAMESPACE
