// SPDX-License-Identifier: Apache-2.0
// What `cutrace diff` prints: the answer in one sentence, the totals, then what changed by stage, GPU operation and
// call.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cutrace/sinks/ascii/page.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "report/pages/text.hpp"
#include "report/trace_difference.hpp"

CUTRACE_BEGIN_NAMESPACE
namespace ascii {

inline const char* words_of(analysis::total_figure f) noexcept {
  constexpr const char* words[] = {"wall time",         "GPU busy",         "GPU idle",
                                   "kernels, all GPUs", "copies, all GPUs", "host waits, all threads"};
  return words[static_cast<std::size_t>(f)];
}

inline const char* words_of(analysis::profile_group g) noexcept {
  constexpr const char* words[] = {"stage", "GPU time of stage", "GPU operation", "call"};
  return words[static_cast<std::size_t>(g)];
}

class difference_page {
 public:
  /// @param fail_over a row that is slower by more than this share fails the comparison; negative: none does
  difference_page(const analysis::trace_difference& d, std::size_t before_runs, std::size_t after_runs,
                  double fail_over, const report_options& options)
      : d_(d),
        before_runs_(before_runs),
        after_runs_(after_runs),
        fail_over_(fail_over),
        top_(options.top),
        out_(std::min<std::size_t>(std::max<std::size_t>(options.width, 80), 400), options.color, options.utf8) {}

  CUTRACE_NOINLINE std::string text() {
    out_.line({"cutrace diff: ", counted(before_runs_, "run"), " before, ", counted(after_runs_, "run"), " after"},
              tone::heading);
    answer();
    trust();
    noise();
    totals();
    rows(analysis::profile_group::stages, "STAGES, host time");
    rows(analysis::profile_group::stage_gpu, "STAGES, GPU time");
    rows(analysis::profile_group::gpu_operations, "GPU OPERATIONS");
    rows(analysis::profile_group::calls, "HOST CALLS");
    return out_.text();
  }

 private:
  static figure signed_duration(double ns) { return figure(ns < 0 ? "-" : "+").add(duration(std::fabs(ns))); }
  static std::string percent(double share) {
    if (std::isinf(share)) return "from 0";
    const double p = std::min(std::fabs(share) * 100, 99999.0);
    return joined({share < 0 ? "-" : "+", fixed(p, p < 99.95 ? 1 : 0), " %"});
  }
  static std::string p_words(double p) { return std::isnan(p) ? "-" : p < 0.001 ? "<0.001" : joined({fixed(p, 3)}); }

  /// A change that is large enough to count and was not tested against chance.
  bool is_untested_change(const analysis::difference& d) const noexcept {
    return d.on_both_sides() && !d.was_tested() && std::fabs(d.change_share) >= d_.least_share;
  }
  /// Whether a row stands in the text.
  bool is_shown(const analysis::difference& d) const noexcept {
    return d.significant || !d.on_both_sides() || is_untested_change(d);
  }
  const char* why_untested() const noexcept { return d_.repeated ? "not tested" : "not tested: one run each"; }

  std::string total_words(analysis::total_figure f) const {
    const analysis::difference& d = d_.of(f);
    const std::string s = joined({duration(d.before.value_ns), " -> ", duration(d.after.value_ns)});
    if (d.before.value_ns <= 0) return s;  // no share of nothing
    const char* trusted = !d_.repeated ? ")" : d.significant ? ", significant)" : ", within chance)";
    return joined({s, " (", percent(d.change_share), trusted});
  }
  void answer() {
    using analysis::total_figure;
    std::string s = "wall time " + total_words(total_figure::wall);
    if (d_.of(total_figure::gpu_busy).before.value_ns > 0 || d_.of(total_figure::gpu_busy).after.value_ns > 0)
      s += "; GPU busy " + total_words(total_figure::gpu_busy);
    std::size_t changed = 0, tested = 0, rows = 0;
    for (const analysis::profile_group g : {analysis::profile_group::stages, analysis::profile_group::gpu_operations}) {
      const analysis::difference* most[2][2] = {};  // [not tested][faster]
      for (const analysis::difference& d : d_.of(g)) {
        rows += d.on_both_sides();
        tested += d.was_tested();
        if (!d.significant && !is_untested_change(d)) continue;
        ++changed;
        const analysis::difference*& m = most[!d.was_tested()][d.change_ns < 0];
        if (m == nullptr || std::fabs(d.total_change_ns) > std::fabs(m->total_change_ns)) m = &d;
      }
      for (const auto& sides : most)
        for (const analysis::difference* m : sides)
          if (m != nullptr)
            append(s, {g == analysis::profile_group::stages ? "; stage \"" : "; GPU operation \"", label(m->name, 32),
                       "\" ", percent(m->change_share), " each",
                       m->was_tested() ? std::string() : joined({" (", why_untested(), ")"})});
    }
    if (changed == 0)
      s += tested != 0 || rows == 0 ? "; no stage and no GPU operation changed beyond chance"
                                    : "; no stage and no GPU operation changed";
    out_.paragraph({"answer   ", s}, 9, tone::alarm);
    if (fail_over_ >= 0) verdict();
  }
  void verdict() {
    // What grew most of each group comes first: stages around a slow kernel are slower, too, and would fill the line.
    std::vector<const analysis::difference*> slower, others;
    std::string_view last;
    for_each_slower(d_, fail_over_, [&](const char* group, const analysis::difference& d) {
      if (last != group) {
        last = group;
        slower.push_back(&d);
        return;
      }
      others.push_back(&d);
      if (d.total_change_ns > slower.back()->total_change_ns) std::swap(slower.back(), others.back());
    });
    if (slower.empty()) {
      out_.line({"verdict  passed: nothing is slower by more than ", percent(fail_over_)}, tone::heading);
      return;
    }
    slower.insert(slower.end(), others.begin(), others.end());
    std::string s;
    for (std::size_t i = 0; i < slower.size() && i < 4; ++i)
      append(s, {i == 0 ? "" : ", ", "\"", label(slower[i]->name, 32), "\" ", percent(slower[i]->change_share)});
    if (slower.size() > 4) append(s, {" and ", digits(slower.size() - 4), " more"});
    out_.paragraph({"verdict  FAILED: slower by more than ", percent(fail_over_), ": ", s}, 9, tone::alarm);
  }
  /// Prints how much this number of runs can prove.
  void trust() {
    std::string s;
    if (!d_.repeated)
      s = "One run each: p compares the single durations within these two runs. Two runs of the same program may "
          "differ "
          "as much; give several with --before and --after to distinguish a change from that.";
    else if (d_.least_p > d_.alpha)
      append(s, {"Too few runs to distinguish a change from chance: the least p that they can reach is ",
                 fixed(d_.least_p, 3), ". Three before and three after reach 0.05."});
    else if (!d_.adjusted)
      append(s, {"Significant: each run after lies beyond each run before (p ", p_words(d_.least_p), "). Of ",
                 counted(d_.tested, "row"), " about ", fixed(std::min(d_.by_chance, 1e6), 1),
                 " would by chance; more runs decide better."});
    else
      append(s, {"Significant: p by permutation of the runs, adjusted for ", counted(d_.tested, "row"), ", is at most ",
                 fixed(d_.alpha, 3), "."});
    out_.paragraph({"trust    ", s}, 9);
  }
  void noise() {
    const analysis::half_differences& h = d_.halves;
    if (h.rows == 0) return;
    out_.paragraph(
        {"noise    The two halves of ", before_runs_ > 1 ? "the first run before" : "the run before",
         " differ from each other by ", plain_percent(h.median_share), " in the median of ", counted(h.rows, "row"),
         ", at most by ", plain_percent(h.largest_share), " (", words_of(h.group), " \"", label(h.name, 32), "\")."},
        9);
  }
  static std::string plain_percent(double share) { return percent(share).substr(1); }
  void totals() {
    out_.heading("TOTALS OF A RUN",
                 {{"before", 11}, {"after", 11}, {"change", 10}, {"", 11}, {"95 % interval", 20}, {"p", 8}, {"", 2}});
    const std::size_t room = out_.width() - 2 - 73;
    for (std::size_t f = 0; f < analysis::total_figure_count; ++f) {
      const analysis::difference& d = d_.totals[f];
      if (d.before.value_ns <= 0 && d.after.value_ns <= 0) continue;
      std::string interval = "-";
      if (!std::isnan(d.interval_of_share.low))
        interval = percent(d.interval_of_share.low) + " .. " + percent(d.interval_of_share.high);
      out_.line({"  ",
                 {cut(words_of(static_cast<analysis::total_figure>(f)), room), left(room)},
                 {duration(d.before.value_ns), 11},
                 {duration(d.after.value_ns), 11},
                 {percent(d.change_share), 10},
                 {signed_duration(d.change_ns), 11},
                 {interval, 20},
                 {p_words(d.p), 8},
                 d.significant ? " *" : ""});
    }
  }
  void rows(analysis::profile_group g, const char* title) {
    const std::vector<analysis::difference>& all = d_.of(g);
    if (all.empty()) return;
    out_.heading(
        title,
        {{"count", 8}, {"after", 8}, {"each", 10}, {"after", 10}, {"change", 10}, {"in all", 11}, {"p", 8}, {"", 2}});
    const std::size_t room = out_.width() - 2 - 67;
    std::size_t shown = 0, reported = 0;
    for (const analysis::difference& d : all) {
      if (!is_shown(d)) continue;
      if (++reported > top_) continue;
      ++shown;
      const auto side = [](const analysis::difference_side& s, bool counts) {
        if (s.runs == 0) return figure("-");
        return counts ? count(static_cast<std::uint64_t>(std::llround(s.count))) : duration(s.value_ns);
      };
      out_.line({"  ",
                 {label(d.name, room - 1), left(room)},
                 {side(d.before, true), 8},
                 {side(d.after, true), 8},
                 {side(d.before, false), 10},
                 {side(d.after, false), 10},
                 {d.on_both_sides() ? percent(d.change_share) : std::string(d.after.runs == 0 ? "gone" : "new"), 10},
                 {signed_duration(d.total_change_ns), 11},
                 {p_words(d.p), 8},
                 d.significant ? " *" : ""});
    }
    if (reported > shown) out_.line({"    and ", digits(reported - shown), " more that changed"});
    std::size_t untested = 0;
    for (const analysis::difference& d : all) untested += !is_shown(d) && !d.was_tested();
    const std::size_t tested = all.size() - reported - untested;
    const auto others = [&](std::size_t n) { return reported == 0 ? "" : n == 1 ? " other" : " others"; };
    if (tested != 0) out_.line({"    ", digits(tested), others(tested), " without a change beyond chance"});
    if (untested != 0)
      out_.line({"    ", digits(untested), others(untested), " without a change of ", plain_percent(d_.least_share),
                 ", ", why_untested()});
  }

 public:
  /// Calls `each(group, row)` for wall time, GPU busy time, stages and GPU operations that analysis::is_slower finds.
  template <class Each>
  static void for_each_slower(const analysis::trace_difference& all, double share, Each&& each) {
    for (const analysis::total_figure f : {analysis::total_figure::wall, analysis::total_figure::gpu_busy})
      if (analysis::is_slower(all, all.of(f), share)) each("totals", all.of(f));
    for (const analysis::profile_group g : {analysis::profile_group::stages, analysis::profile_group::gpu_operations})
      for (const analysis::difference& d : all.of(g))
        if (analysis::is_slower(all, d, share)) each(name_of(g), d);
  }

 private:
  const analysis::trace_difference& d_;
  std::size_t before_runs_, after_runs_;
  double fail_over_;
  std::size_t top_;
  page out_;
};

}  // namespace ascii
CUTRACE_END_NAMESPACE
