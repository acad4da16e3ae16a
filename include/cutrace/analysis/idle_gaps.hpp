// SPDX-License-Identifier: Apache-2.0
// All idle gaps of the devices: how much time by cause, who is to blame for it, and the longest of them.
//
// A gap is a stretch inside of a device's active span in which no stream had work: what gaps(union(work)) leaves free.
// Each gap has one cause (idle_gap.hpp), so the causes add up to the idle time of the active span. Time before the
// first and after the last work is told apart, as nsys' gpu_gaps does.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cutrace/analysis/duration_histogram.hpp>
#include <cutrace/analysis/idle_gap.hpp>
#include <cutrace/analysis/ranking.hpp>
#include <map>
#include <string>
#include <tuple>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace analysis {

struct idle_total {
  std::int64_t ns = 0;
  std::uint64_t count = 0;
};

/// Gaps of one device and one cause with the same call and stage to blame.
struct idle_blame {
  static constexpr std::size_t shown = 4;
  std::uint32_t device = 0;
  idle_cause cause = idle_cause::unknown;
  std::string call;   ///< empty: own code of the program, or not known
  std::string stage;  ///< empty: none
  idle_total total;
  std::vector<idle_gap> longest;  ///< at most `shown`
};

struct idle_report {
  std::array<idle_total, idle_cause_count> by_cause{};
  idle_total all;
  std::int64_t before_ns = 0;      ///< from the window's start to the first work, summed over devices
  std::int64_t after_ns = 0;       ///< from the last work to the window's end
  std::vector<idle_blame> blames;  ///< most time first
  std::vector<idle_gap> longest;   ///< longest first
  std::map<std::uint32_t, std::vector<interval>>
      stretches;  ///< by device, in order: gaps of at least the length asked for
  duration_histogram lengths;

  const idle_total& of(idle_cause c) const noexcept { return by_cause[static_cast<std::size_t>(c)]; }
};

class idle_finder {
 public:
  /// @param keep longest gaps to keep
  /// @param stretch_ns gaps of at least that length are all kept, as intervals
  explicit idle_finder(const trace_log& log, std::size_t keep = 64, std::int64_t stretch_ns = INT64_MAX)
      : log_(log), classifier_(log), keep_(keep), stretch_ns_(stretch_ns) {}

  CUTRACE_ONE_COPY idle_report find() {
    for (const auto& d : log_.devices()) find_in(d.second);
    std::vector<ranked> order;
    for (std::uint32_t i = 0; i < rows_.size(); ++i) order.push_back({rows_[i].total.ns, 0, i});
    rank(order);
    for (const ranked& r : order) report_.blames.push_back(std::move(rows_[r.index]));
    for (idle_blame& b : report_.blames) std::sort(b.longest.begin(), b.longest.end(), longer);
    std::sort(report_.longest.begin(), report_.longest.end(), longer);
    return std::move(report_);
  }

 private:
  static bool longer(const idle_gap& a, const idle_gap& b) noexcept {
    if (a.when.length_ns() != b.when.length_ns()) return a.when.length_ns() > b.when.length_ns();
    return a.when.start_ns < b.when.start_ns;
  }
  /// Keeps the longest `n` of all that are offered; the shortest of them stands in front.
  static void keep_longest(std::vector<idle_gap>& list, const idle_gap& g, std::size_t n) {
    if (list.size() == n) {
      if (n == 0 || !longer(g, list.front())) return;
      std::pop_heap(list.begin(), list.end(), longer);
      list.pop_back();
    }
    list.push_back(g);
    std::push_heap(list.begin(), list.end(), longer);
  }

  void find_in(const device_work& d) {
    if (d.order.empty()) return;
    std::int64_t until_ns = log_.work()[d.order[0]].when.start_ns;
    piece_ = 0;
    for (const interval v : log_.recorded()) report_.before_ns += clip(v, {v.start_ns, until_ns}).length_ns();
    for (const std::uint32_t i : d.order) {
      const interval v = log_.work()[i].when;
      if (v.start_ns > until_ns) add(d.device, {until_ns, v.start_ns}, i);
      until_ns = std::max(until_ns, v.end_ns);
    }
    for (const interval v : log_.recorded()) report_.after_ns += clip(v, {until_ns, v.end_ns}).length_ns();
  }

  /// Of a trace that was paused, only what was recorded is idle; the rest is not known.
  void add(std::uint32_t device, interval gap, std::uint32_t next) {
    const std::vector<interval>& recorded = log_.recorded();
    while (piece_ < recorded.size() && recorded[piece_].end_ns <= gap.start_ns) ++piece_;
    for (std::size_t p = piece_; p < recorded.size() && recorded[p].start_ns < gap.end_ns; ++p) {
      const interval v = clip(gap, recorded[p]);
      if (!v.empty()) add(classifier_.classify(device, v, next));
    }
  }

  void add(const idle_gap& g) {
    const std::int64_t ns = g.when.length_ns();
    const auto count = [ns](idle_total& t) {
      t.ns += ns;
      ++t.count;
    };
    count(report_.all);
    count(report_.by_cause[static_cast<std::size_t>(g.cause)]);
    report_.lengths.add(static_cast<std::uint64_t>(ns));
    keep_longest(report_.longest, g, keep_);
    if (ns >= stretch_ns_) report_.stretches[g.device].push_back(g.when);
    idle_blame& b = row(g);
    count(b.total);
    keep_longest(b.longest, g, idle_blame::shown);
  }

  idle_blame& row(const idle_gap& g) {
    const std::uint32_t stage = log_.stages()[g.stage].name;
    const row_key key(g.device, g.cause, g.call, stage);
    if (CUTRACE_LIKELY(key == last_key_ && !rows_.empty())) return rows_[last_row_];
    const auto found = row_of_.emplace(key, rows_.size());
    if (found.second) {
      idle_blame b;
      b.device = g.device;
      b.cause = g.cause;
      if (g.call != 0) b.call = log_.names().name(g.call);
      if (stage != 0) b.stage = log_.names().name(stage);
      rows_.push_back(std::move(b));
    }
    last_key_ = key;
    return rows_[last_row_ = found.first->second];
  }

  const trace_log& log_;
  idle_classifier classifier_;
  std::size_t keep_;
  std::int64_t stretch_ns_;
  std::size_t piece_ = 0;
  idle_report report_;
  std::vector<idle_blame> rows_;
  using row_key = std::tuple<std::uint32_t, idle_cause, std::uint32_t, std::uint32_t>;  ///< device, cause, call, stage
  std::map<row_key, std::size_t> row_of_;
  row_key last_key_;
  std::size_t last_row_ = 0;
};

}  // namespace analysis
CUTRACE_END_NAMESPACE
