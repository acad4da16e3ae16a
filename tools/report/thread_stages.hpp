// SPDX-License-Identifier: Apache-2.0
// Which stage a thread was in, at any time: its own stages and the parts of others that it adopted, the innermost
// first. Spans are none of a thread's: they may be waiting, and end elsewhere.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cutrace/analysis/intervals.hpp>
#include <map>
#include <vector>

#include "report/containers.hpp"
#include "report/stage_log.hpp"

CUTRACE_BEGIN_NAMESPACE
namespace analysis {

/// A stretch of a thread's time in one innermost stage.
struct stage_piece {
  interval when;
  std::uint32_t stage = stage_log::none;  ///< stage_log number
};

/// 4 bytes a stage.
class thread_stages {
 public:
  /// @param stages must outlive this; nothing is added to it any more
  /// @param order numbers of the instances that ended, by start
  thread_stages(const stage_log& stages, const std::vector<std::uint32_t>& order, std::size_t threads)
      : stages_(stages), order_(order), of_thread_(threads) {
    for (const std::uint32_t n : order)
      if (!stages[n].span) of_thread_[stages[n].thread].push_back(n);
    for (std::size_t i = 0; i < stages.parts().size(); ++i)
      of_thread_[stages.parts()[i].thread].push_back(part_flag | static_cast<std::uint32_t>(i));
    for (auto& list : of_thread_) {
      if (!stages.parts().empty()) sort_nearly(list, [this](std::uint32_t e) { return when(e).start_ns; });
      outer_first(list);
    }
  }

  /// Pieces that cover `v` without a gap, in order; outside of all stages with the stage `otherwise`.
  /// @param hint a place near `v` in the thread's list, moved there; calls in the order of time take O(1) each
  void innermost(std::uint16_t thread, interval v, std::uint32_t otherwise, std::size_t& hint,
                 std::vector<stage_piece>& pieces) {
    pieces.clear();
    const std::vector<std::uint32_t>& list = of_thread_[thread];
    const std::size_t first = hint =
        search_near(list.size(), hint, [&](std::size_t i) { return when(list[i]).start_ns < v.start_ns; });
    open_around(list, first, v.start_ns);
    std::int64_t at_ns = v.start_ns;
    // Up to `until_ns`, from inside out as stages end.
    const auto advance = [&](std::int64_t until_ns) {
      while (at_ns < until_ns) {
        while (!open_.empty() && when(open_.back()).end_ns <= at_ns) open_.pop_back();
        const std::int64_t end_ns = open_.empty() ? until_ns : std::min(until_ns, when(open_.back()).end_ns);
        const std::uint32_t stage = open_.empty() ? otherwise : stage_of(open_.back());
        if (!pieces.empty() && pieces.back().stage == stage)
          pieces.back().when.end_ns = end_ns;
        else
          pieces.push_back({{at_ns, end_ns}, stage});
        at_ns = end_ns;
      }
    };
    for (std::size_t i = first; i < list.size() && when(list[i]).start_ns < v.end_ns; ++i) {
      advance(when(list[i]).start_ns);
      open_.push_back(list[i]);
    }
    advance(v.end_ns);
  }

  /// Innermost at one time, `none` outside of all. @param hint as of `innermost`
  std::uint32_t at(std::uint16_t thread, std::int64_t t_ns, std::size_t& hint) {
    const std::vector<std::uint32_t>& list = of_thread_[thread];
    hint = search_near(list.size(), hint, [&](std::size_t i) { return when(list[i]).start_ns <= t_ns; });
    open_around(list, hint, t_ns);
    return open_.empty() ? stage_log::none : stage_of(open_.back());
  }
  bool empty(std::uint16_t thread) const noexcept { return of_thread_[thread].empty(); }

  /// A stage that another thread than `thread` was in during `v`, or a span; stages of one name and thread together.
  struct company {
    std::uint32_t name = 0;    ///< of the stage
    std::uint16_t thread = 0;  ///< of the log; of a span meaningless
    bool span = false;
    std::int64_t ns = 0;
  };
  /// Most time first. Looks at all spans of the trace.
  CUTRACE_ONE_COPY std::vector<company> others(std::uint16_t thread, interval v) {
    std::vector<company> found;
    std::vector<stage_piece> pieces;
    for (std::size_t t = 0; t < of_thread_.size(); ++t) {
      if (t == thread || of_thread_[t].empty()) continue;
      std::map<std::uint32_t, std::int64_t> by_name;
      std::size_t hint = 0;
      innermost(static_cast<std::uint16_t>(t), v, stage_log::none, hint, pieces);
      for (const stage_piece& p : pieces)
        if (p.stage != stage_log::none) by_name[stages_[p.stage].name] += p.when.length_ns();
      for (const auto& n : by_name) found.push_back({n.first, static_cast<std::uint16_t>(t), false, n.second});
    }
    std::map<std::uint32_t, std::vector<interval>> spans;
    for (const std::uint32_t n : order_)
      if (stages_[n].span && !clip(stages_[n].when, v).empty())
        spans[stages_[n].name].push_back(clip(stages_[n].when, v));
    for (auto& s : spans) {
      company c{s.first, 0, true, 0};
      for (const interval part : merged(std::move(s.second))) c.ns += part.length_ns();
      found.push_back(c);
    }
    std::stable_sort(found.begin(), found.end(), [](const company& a, const company& b) { return a.ns > b.ns; });
    return found;
  }

 private:
  static constexpr std::uint32_t part_flag = 1u << 31;
  /// Stages are nested, so that those around a time are found a few places before it. Scopes that interleave (fibers)
  /// may have more between them; so far one looks.
  static constexpr std::size_t looked_back = 256;

  interval when(std::uint32_t e) const noexcept {
    return (e & part_flag) != 0 ? stages_.parts()[e & ~part_flag].when : stages_[e].when;
  }
  std::uint32_t stage_of(std::uint32_t e) const noexcept {
    return (e & part_flag) != 0 ? stages_.parts()[e & ~part_flag].instance : e;
  }

  /// Of those that begin at once the ones around others come first; of equal ones, what began first has the lower id.
  CUTRACE_ONE_COPY void outer_first(std::vector<std::uint32_t>& list) const {
    const auto around = [this](std::uint32_t a, std::uint32_t b) {
      if (when(a).end_ns != when(b).end_ns) return when(a).end_ns > when(b).end_ns;
      return stages_[stage_of(a)].id < stages_[stage_of(b)].id;
    };
    for (std::size_t i = 0, end = 0; i < list.size(); i = end) {
      for (end = i + 1; end < list.size() && when(list[end]).start_ns == when(list[i]).start_ns;) ++end;
      if (end > i + 1)
        std::sort(list.begin() + static_cast<std::ptrdiff_t>(i), list.begin() + static_cast<std::ptrdiff_t>(end),
                  around);
    }
  }

  /// Those of the places before `first` that run at `t_ns`, the outermost first.
  void open_around(const std::vector<std::uint32_t>& list, std::size_t first, std::int64_t t_ns) {
    open_.clear();
    std::size_t looked = 0;
    std::uint32_t last = 0;
    for (std::size_t i = first; i > 0 && looked < looked_back; ++looked) {
      last = list[--i];
      if (when(last).end_ns <= t_ns) continue;
      open_.push_back(last);
      if ((last & part_flag) != 0 || stages_[last].parent == 0) break;  // at top level: nothing before it is still open
    }
    if (looked == looked_back && (last & part_flag) == 0) {
      for (std::uint32_t n = stages_.parent_of(last), level = 0; n != stage_log::none && level < 64;
           n = stages_.parent_of(n), ++level)
        if (stages_[n].ended && stages_[n].when.end_ns > t_ns && stages_[n].thread == stages_[last].thread &&
            std::find(open_.begin(), open_.end(), n) == open_.end())
          open_.push_back(n);
    }
    std::reverse(open_.begin(), open_.end());
  }

  const stage_log& stages_;
  const std::vector<std::uint32_t>& order_;
  std::vector<std::vector<std::uint32_t>> of_thread_;  ///< numbers of stages, or flagged places of parts, by start
  std::vector<std::uint32_t> open_;
};

}  // namespace analysis
CUTRACE_END_NAMESPACE
