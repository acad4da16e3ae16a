// SPDX-License-Identifier: Apache-2.0
// What each stage cost: host time, GPU time of its own and of the stages nested in it, time in which the GPU stood
// still while the stage ran, requests. A batch's time is the batch's: nothing here is divided among its requests.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cutrace/analysis/bounds.hpp>
#include <cutrace/analysis/distinct.hpp>
#include <cutrace/analysis/interval_set.hpp>
#include <cutrace/analysis/names.hpp>
#include <cutrace/analysis/ranking.hpp>
#include <cutrace/analysis/stage_tree.hpp>
#include <memory>
#include <string>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace analysis {

/// One row, by name of the stage. All times in ns.
struct stage_time {
  std::string name;
  std::uint32_t number = 0;  ///< name_table number within stage_table, 0 for names beyond the bounds
  std::uint64_t calls = 0;   ///< instances; parts adopted by other threads belong to one of them
  std::uint64_t adopted_parts = 0;
  std::uint64_t host_sum_ns = 0;  ///< of the instances' own durations
  std::uint64_t longest_ns = 0;
  std::int64_t host_ns = 0;             ///< union of instances and adopted parts, over all threads
  std::int64_t gpu_own_ns = 0;          ///< union of the GPU work issued in it, nested stages not counted
  std::int64_t gpu_inclusive_ns = 0;    ///< the same with nested stages
  std::int64_t gpu_idle_inside_ns = 0;  ///< host_ns without the time in which any GPU was at work for anyone
  std::uint64_t gpu_operations = 0;     ///< own
  std::uint64_t requests = 0;           ///< distinct ones that were named
  bool requests_exact = true;
  bool requests_cut = false;  ///< a marker named more than its record holds: there were more
  bool approximate = false;   ///< times; off by at most `uncertain_ns`
  std::int64_t uncertain_ns = 0;
};

/// Takes stages and GPU work in any order, cheapest in the order of their ends; ignores everything else.
class stage_table {
 public:
  explicit stage_table(std::int64_t start_ns = 0, const bounds& limits = {})
      : start_ns_(start_ns),
        limits_(limits),
        names_(limits.stages, limits.stages * name_table::longest, "(other stages)"),
        tree_(limits.open_instances, limits.closed_instances),
        gpu_busy_(limits.intervals) {
    rows_.emplace_back(new row(limits_));
  }

  void add(const event& e) {
    if (e.kind == event_kind::stage)
      add_stage(e);
    else if (e.is_gpu_work())
      add_gpu_work(e);
  }

  /// Number of the stage's name, for other tables by stage.
  std::uint32_t number(text name) {
    const std::uint32_t n = names_.number(name);
    while (rows_.size() <= n) rows_.emplace_back(new row(limits_));
    return n;
  }

  /// Rows of all stages that were seen, the one with most host time first.
  CUTRACE_NOINLINE std::vector<stage_time> rows() const {
    std::vector<ranked> order;
    for (std::uint32_t n = 0; n < rows_.size(); ++n) {
      const row& r = *rows_[n];
      if (r.calls + r.adopted_parts + r.gpu_operations > 0)
        order.push_back({r.host.length_ns(), r.gpu_inclusive.length_ns(), n});
    }
    rank(order);
    std::vector<stage_time> list(order.size());
    for (std::size_t i = 0; i < order.size(); ++i) list[i] = result(*rows_[order[i].index], order[i].index);
    return list;
  }

  /// GPU work that belongs to no stage, or to one whose name was lost: union of its time, and how many operations.
  std::int64_t gpu_outside_ns() const noexcept { return outside_.length_ns(); }
  std::uint64_t gpu_outside_operations() const noexcept { return outside_operations_; }
  std::int64_t gpu_busy_ns() const noexcept { return gpu_busy_.length_ns(); }
  /// GPU work whose enclosing stages could not be found any more: inclusive times miss it.
  std::uint64_t given_up() const noexcept { return tree_.given_up(); }

 private:
  struct row {
    CUTRACE_NOINLINE explicit row(const bounds& limits)
        : host(limits.row_intervals),
          gpu_own(limits.row_intervals),
          gpu_inclusive(limits.row_intervals),
          requests(limits.row_intervals) {}
    std::uint64_t calls = 0, adopted_parts = 0, host_sum_ns = 0, longest_ns = 0, gpu_operations = 0;
    interval_set host, gpu_own, gpu_inclusive;
    std::int64_t overlap_ns = 0;  ///< of host and gpu_busy_, kept up to date by both sides
    bool overlap_estimated = false;
    distinct_count requests;
    bool requests_cut = false;
  };

  void add_stage(const event& e) {
    const interval v = clip(interval_of(e), {start_ns_, INT64_MAX});
    const std::uint32_t n = number(e.name);
    row& r = *rows_[n];
    if (e.stage.adopted) {
      ++r.adopted_parts;
    } else {
      ++r.calls;
      const std::uint64_t duration_ns = static_cast<std::uint64_t>(v.length_ns());
      r.host_sum_ns += duration_ns;
      r.longest_ns = std::max(r.longest_ns, duration_ns);
      tree_.close(e.stage_id, e.stage.parent, n, [this](std::uint32_t at, interval w) { inside(at, w); });
    }
    r.host.insert(v, [&](interval where, std::int64_t ns) {
      if (where.start_ns < gpu_busy_.settled_until_ns() || ns != where.length_ns()) r.overlap_estimated = true;
      r.overlap_ns += time_bins::scaled(gpu_busy_.measure_ns(where), ns, where.length_ns());
    });
    for (std::uint32_t i = 0; i < e.request_count; ++i) r.requests.add(e.requests[i].id);
    if (e.request_total > e.request_count) r.requests_cut = true;
  }

  void add_gpu_work(const event& e) {
    const interval v = clip(interval_of(e), {start_ns_, INT64_MAX});
    gpu_busy_.insert(v, [this](interval where, std::int64_t ns) {
      for (const std::unique_ptr<row>& one : rows_) {
        row& r = *one;
        // Mostly the stage ends after its work has been seen, and there is nothing to measure yet.
        if (r.host.empty() || r.host.span().end_ns <= where.start_ns) continue;
        if (where.start_ns < r.host.settled_until_ns() || ns != where.length_ns()) r.overlap_estimated = true;
        r.overlap_ns += time_bins::scaled(r.host.measure_ns(where), ns, where.length_ns());
      }
    });
    if (e.stage_name.size == 0) {
      outside_.insert(v);
      ++outside_operations_;
      return;
    }
    row& own = *rows_[number(e.stage_name)];
    ++own.gpu_operations;
    own.gpu_own.insert(v);
    own.gpu_inclusive.insert(v);
    tree_.work(e.stage_id, v, [this](std::uint32_t at, interval w) { inside(at, w); });
  }

  CUTRACE_ONE_COPY void inside(std::uint32_t at, interval v) { rows_[at]->gpu_inclusive.insert(v); }

  CUTRACE_NOINLINE stage_time result(const row& r, std::uint32_t n) const {
    stage_time t;
    t.name = names_.name(n);
    t.number = n;
    t.calls = r.calls;
    t.adopted_parts = r.adopted_parts;
    t.host_sum_ns = r.host_sum_ns;
    t.longest_ns = r.longest_ns;
    t.host_ns = r.host.length_ns();
    t.gpu_own_ns = r.gpu_own.length_ns();
    t.gpu_inclusive_ns = r.gpu_inclusive.length_ns();
    t.gpu_idle_inside_ns = std::max<std::int64_t>(0, t.host_ns - r.overlap_ns);
    t.gpu_operations = r.gpu_operations;
    t.requests = r.requests.count();
    t.requests_exact = r.requests.exact();
    t.requests_cut = r.requests_cut;
    t.uncertain_ns =
        std::max({r.host.uncertain_ns(), r.gpu_own.uncertain_ns(), r.gpu_inclusive.uncertain_ns()}) + tree_.filled_ns();
    t.approximate = t.uncertain_ns > 0 || r.overlap_estimated || tree_.given_up() > 0;
    return t;
  }

  std::int64_t start_ns_;
  bounds limits_;
  name_table names_;
  std::vector<std::unique_ptr<row>> rows_;  ///< by number of the name
  stage_tree tree_;
  interval_set gpu_busy_;
  interval_set outside_{limits_.row_intervals};
  std::uint64_t outside_operations_ = 0;
};

}  // namespace analysis
CUTRACE_END_NAMESPACE
