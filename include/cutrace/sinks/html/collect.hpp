// SPDX-License-Identifier: Apache-2.0
// Everything that the HTML report needs of a trace, gathered event by event in bounded memory: what the terminal report
// gathers, and the timeline and charts beside it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cutrace/analysis/bounds.hpp>
#include <cutrace/analysis/interval_set.hpp>
#include <cutrace/analysis/intervals.hpp>
#include <cutrace/analysis/time_bins.hpp>
#include <cutrace/event.hpp>
#include <cutrace/sinks/ascii/collect.hpp>
#include <cutrace/sinks/html/timeline.hpp>
#include <map>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace html {

// The two small charts of the HTML report, gathered in fixed memory: how busy each GPU was, and how many bytes were
// allocated on all of them.

/// Busy time of one device, in bins: the union over its streams.
class busy_curve {
 public:
  explicit busy_curve(std::size_t intervals) : busy_(intervals), bins_(512) {}
  void add(analysis::interval v) {
    busy_.insert(v, [this](analysis::interval where, std::int64_t ns) {
      if (ns == where.length_ns()) return bins_.add(where);
      // interval_set keeps the past as a histogram: only the amount inside `where` is known. It is put at the begin.
      bins_.add({where.start_ns, where.start_ns + ns});
    });
  }
  /// Busy time of each of `columns` equal parts of `window`, in tenths of a percent.
  CUTRACE_NOINLINE std::vector<std::uint32_t> permille(analysis::interval window, std::size_t columns) const {
    std::vector<std::uint32_t> list;
    const double width_ns = static_cast<double>(window.length_ns()) / static_cast<double>(columns);
    const auto edge = [&](std::size_t i) {
      return window.start_ns + static_cast<std::int64_t>(width_ns * static_cast<double>(i));
    };
    for (std::size_t i = 0; i < columns; ++i) {
      const analysis::interval column = {edge(i), edge(i + 1)};
      const double whole = static_cast<double>(std::max<std::int64_t>(column.length_ns(), 1));
      const double part = static_cast<double>(bins_.measure_ns(column)) / whole;
      list.push_back(static_cast<std::uint32_t>(1000.0 * std::min(part, 1.0) + 0.5));
    }
    return list;
  }

 private:
  analysis::interval_set busy_;
  analysis::time_bins bins_;
};

/// Steps of a level over time. Where they are too many, every two become one, with the higher level of both.
class level_curve {
 public:
  struct step {
    std::int64_t at_ns;
    std::uint64_t level;
  };
  void add(std::int64_t at_ns, std::uint64_t level) {
    if (pending_ == 0 || steps_.empty()) {
      steps_.push_back({at_ns, level});
    } else {
      steps_.back().level = std::max(steps_.back().level, level);
    }
    pending_ = (pending_ + 1) % every_;
    last_ = {at_ns, level};
    if (steps_.size() >= limit) halve();
  }
  CUTRACE_NOINLINE std::vector<step> steps() const {
    std::vector<step> list = steps_;
    if (!list.empty()) list.push_back(last_);
    return list;
  }

 private:
  static constexpr std::size_t limit = 2048;
  CUTRACE_NOINLINE void halve() {
    std::size_t kept = 0;
    for (std::size_t i = 0; i + 1 < steps_.size(); i += 2)
      steps_[kept++] = {steps_[i].at_ns, std::max(steps_[i].level, steps_[i + 1].level)};
    steps_.resize(kept);
    every_ *= 2;
    pending_ = 0;
  }

  std::vector<step> steps_;
  step last_ = {};
  std::size_t every_ = 1;
  std::size_t pending_ = 0;
};

class collection {
 public:
  collection(std::int64_t start_ns, const analysis::bounds& limits, std::size_t timeline_bytes)
      : report(start_ns, limits, shown_gaps), events(start_ns, timeline_bytes), start_ns_(start_ns), limits_(limits) {}

  void add(const event& e) {
    report.add(e);
    events.add(e);
    const analysis::interval v = analysis::clip(analysis::interval_of(e), {start_ns_, INT64_MAX});
    if (e.is_gpu_work()) return e.incomplete ? void() : add_busy(e.device, v);
    if (e.kind == event_kind::memory && !analysis::in_host_memory(e))
      memory.add(v.start_ns, report.numbers.numbers().device.live_bytes);
  }

  const std::map<std::uint32_t, busy_curve>& busy() const noexcept { return busy_; }

  static constexpr std::size_t shown_gaps = 500;

  ascii::collection report;
  timeline events;
  level_curve memory;  ///< bytes allocated on devices

 private:
  void add_busy(std::uint32_t device, analysis::interval v) {
    auto found = busy_.find(device);
    if (found == busy_.end()) {
      if (limits_.devices != 0 && busy_.size() >= limits_.devices) return;
      found = busy_.emplace(device, busy_curve(limits_.row_intervals)).first;
    }
    found->second.add(v);
  }

  std::int64_t start_ns_;
  analysis::bounds limits_;
  std::map<std::uint32_t, busy_curve> busy_;
};

}  // namespace html
CUTRACE_END_NAMESPACE
