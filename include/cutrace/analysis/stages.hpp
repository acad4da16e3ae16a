// SPDX-License-Identifier: Apache-2.0
// What each stage cost: host time, GPU time of its own and of the stages nested in it, time in which the GPU stood
// still while the stage ran, requests. A batch's time is the batch's: nothing here is divided among its requests. Of a
// trace that was paused, sampled or cut, times count only what was recorded, except durations of single instances.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cutrace/analysis/bounds.hpp>
#include <cutrace/analysis/gpu_work.hpp>
#include <cutrace/analysis/interval_set.hpp>
#include <cutrace/analysis/intervals.hpp>
#include <cutrace/analysis/names.hpp>
#include <cutrace/config.hpp>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace analysis {

// Number of distinct 64-bit ids in fixed memory: exact up to a limit, then estimated from the smallest hashes.
// Source: Bar-Yossef et al., "Counting distinct elements in a data stream" (2002), the k-minimum-values estimator.

class distinct_count {
 public:
  /// @param limit ids up to which the count is exact; beyond it the standard error is about 1 / sqrt(limit). 0: always
  /// exact.
  explicit distinct_count(std::size_t limit = 0) noexcept : limit_(limit) {}

  void add(std::uint64_t id) {
    const std::uint64_t h = mix(id);
    if (limit_ == 0) return append(h);
    const bool full = smallest_.size() >= limit_;
    if (full && h > smallest_.back()) {
      estimated_ = true;
      return;
    }
    const auto place = std::lower_bound(smallest_.begin(), smallest_.end(), h);
    if (place != smallest_.end() && *place == h) return;
    if (full) {
      estimated_ = true;
      std::move_backward(place, smallest_.end() - 1, smallest_.end());
      *place = h;
    } else {
      smallest_.insert(place, h);
    }
  }

  bool exact() const noexcept { return !estimated_; }
  CUTRACE_NOINLINE std::uint64_t count() const noexcept {
    if (limit_ == 0) return sorted(smallest_).size();
    if (!estimated_) return smallest_.size();
    const double fraction = static_cast<double>(smallest_.back()) / 18446744073709551616.0;  // of the range of hashes
    return static_cast<std::uint64_t>(static_cast<double>(limit_ - 1) / fraction);
  }

 private:
  // Finalizer of SplitMix64 (Steele, Lea, Flood 2014): a bijection, so distinct ids stay distinct.
  static std::uint64_t mix(std::uint64_t x) noexcept {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  }

  CUTRACE_NOINLINE static std::vector<std::uint64_t> sorted(std::vector<std::uint64_t> list) {
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
    return list;
  }
  // Without a limit: sort only when the list has doubled, instead of moving it for each id.
  void append(std::uint64_t h) {
    if (smallest_.size() >= sort_at_) {
      smallest_ = sorted(std::move(smallest_));
      sort_at_ = std::max<std::size_t>(1024, 2 * smallest_.size());
    }
    smallest_.push_back(h);
  }

  std::size_t limit_;
  std::vector<std::uint64_t> smallest_;  ///< hashes; sorted where there is a limit
  std::size_t sort_at_ = 1024;
  bool estimated_ = false;
};

// Carries GPU work from the stage in which it was issued up to the stages around that one. The parent of a stage is
// known only when the stage ends, so work waits at the instances that still run. Used by stage_table.

class stage_tree {
 public:
  /// @param waiting room for work that waits, in pieces; `closed`: most ended instances that late work still finds; 0:
  /// no limit.
  explicit stage_tree(std::size_t waiting = 0, std::size_t closed = 0)
      : waiting_limit_(waiting), closed_limit_(closed) {}

  /// GPU work `v` of instance `id`. Calls `inside(row, v)` for each enclosing stage that has ended; for the others when
  /// they end. Not called for the instance itself.
  template <class Inside>
  void work(std::uint64_t id, interval v, Inside&& inside) {
    if (v.empty() || id == 0) return;
    const auto own = closed_.find(id);
    if (own == closed_.end())
      wait_at(id, v);
    else
      climb(own->second.parent, v, inside);
  }

  /// Instance `id` of table row `row` has ended. Calls `inside(row, v)` for all work that waited at it.
  template <class Inside>
  void close(std::uint64_t id, std::uint64_t parent, std::uint32_t row, Inside&& inside) {
    if (id == 0 || !closed_.emplace(id, ended{parent, row}).second) return;
    order_.push_back(id);
    const auto waiting = open_.find(id);
    if (waiting != open_.end()) {
      for (const interval v : take(waiting)) {
        inside(row, v);
        climb(parent, v, inside);
      }
    }
    if (closed_limit_ != 0 && order_.size() > closed_limit_) {
      closed_.erase(order_.front());
      order_.pop_front();
    }
  }

  /// Nanoseconds of short gaps that were counted as work, to keep lists short.
  std::int64_t filled_ns() const noexcept { return filled_ns_; }
  /// Pieces of work that reached no enclosing stage, because too much work waited.
  std::uint64_t given_up() const noexcept { return given_up_; }

 private:
  struct ended {
    std::uint64_t parent;
    std::uint32_t row;
  };
  /// Work as it came, roughly ordered, by instance. Ids grow, so the first one runs longest: most likely its end was
  /// lost.
  using open_instances = std::map<std::uint64_t, std::vector<interval>>;
  static constexpr std::size_t open_intervals = 512;
  static constexpr std::size_t instance_pieces = 5;  ///< memory of an entry of `open_`, in pieces of work

  template <class Inside>
  void climb(std::uint64_t id, interval v, Inside& inside) {
    for (int level = 0; id != 0 && level < 64; ++level) {  // a bound, should ids ever form a ring
      const auto found = closed_.find(id);
      if (found == closed_.end()) return wait_at(id, v);
      inside(found->second.row, v);
      id = found->second.parent;
    }
  }

  CUTRACE_ONE_COPY void wait_at(std::uint64_t id, interval v) {
    std::vector<interval>& work = open_[id];
    if (!work.empty() && v.start_ns <= work.back().end_ns && v.start_ns >= work.back().start_ns) {
      work.back().end_ns = std::max(work.back().end_ns, v.end_ns);
      return;
    }
    waiting_ += work.empty() ? instance_pieces : 0;
    waiting_ -= work.capacity();
    if (waiting_limit_ != 0 && work.size() >= open_intervals) {
      work = merged(std::move(work));
      filled_ns_ += fill_small_gaps(work, open_intervals / 2);
    }
    work.push_back(v);
    waiting_ += work.capacity();
    while (waiting_limit_ != 0 && waiting_ > waiting_limit_) given_up_ += take(open_.begin()).size();
  }

  std::vector<interval> take(open_instances::iterator instance) {
    std::vector<interval> work = std::move(instance->second);
    waiting_ -= instance_pieces + work.capacity();
    open_.erase(instance);
    return work;
  }

  std::size_t waiting_limit_;
  std::size_t closed_limit_;
  std::size_t waiting_ = 0;  ///< memory of `open_`, in pieces of work
  open_instances open_;
  detail::seeded_map<std::uint64_t, ended> closed_;
  std::deque<std::uint64_t> order_;  ///< ids in the order of closing
  std::int64_t filled_ns_ = 0;
  std::uint64_t given_up_ = 0;
};

/// One row, by name of the stage. All times in ns.
struct stage_time {
  std::string name;
  std::uint32_t number = 0;  ///< name_table number within stage_table, 0 for names beyond the bounds
  std::uint64_t calls = 0;   ///< instances; their parts on threads that adopted one (context.hpp) are counted apart
  std::uint64_t adopted_parts = 0;
  std::uint64_t spans = 0;        ///< instances that are spans (stage.hpp): they may wait, which is no work of the host
  std::uint64_t host_sum_ns = 0;  ///< sum of the instances' own durations
  std::uint64_t longest_ns = 0;
  std::int64_t host_ns = 0;             ///< union of instances and adopted parts, over all threads
  std::int64_t gpu_own_ns = 0;          ///< union of the GPU work issued in it, nested stages not counted
  std::int64_t gpu_inclusive_ns = 0;    ///< union of the GPU work issued in it and in nested stages
  std::int64_t gpu_idle_inside_ns = 0;  ///< host_ns without the time in which any GPU was at work for anyone
  std::uint64_t gpu_operations = 0;     ///< issued in it, nested stages not counted
  std::uint64_t requests = 0;           ///< distinct ones that were named
  bool requests_exact = true;
  bool requests_cut = false;      ///< a marker named more than its record holds: there were more
  bool approximate = false;       ///< a time is an estimate
  std::int64_t uncertain_ns = 0;  ///< bound of the error of all times but gpu_idle_inside_ns
};

/// Rows are sorted by host time; rows with equal host time, such as 0 outside of the recorded time, by this.
inline std::int64_t tie_ns(const stage_time& s) noexcept {
  return std::max(s.gpu_inclusive_ns, static_cast<std::int64_t>(std::min<std::uint64_t>(s.host_sum_ns, INT64_MAX)));
}

/// Takes stages and GPU work in any order, cheapest in the order of their ends; ignores everything else.
class stage_table {
 public:
  explicit stage_table(std::int64_t start_ns = 0, const bounds& limits = {})
      : start_ns_(start_ns),
        limits_(limits),
        names_(limits.stages, limits.stages * name_table::longest, "(other stages)"),
        tree_(limits.waiting_work, limits.closed_instances),
        gpu_busy_(limits.intervals) {
    rows_.emplace_back(new row(limits_));
  }

  void add(const event& e) {
    if (e.kind == event_kind::stage)
      add_stage(e);
    else if (e.is_gpu_work())
      add_gpu_work(e);
    else if (e.kind == event_kind::window)
      in_pieces_ = true, recorded_.insert(clip(interval_of(e), {start_ns_, INT64_MAX}));
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
    std::vector<stage_time> found, list;
    for (std::uint32_t n = 0; n < rows_.size(); ++n) {
      const row& r = *rows_[n];
      if (r.calls + r.adopted_parts + r.gpu_operations == 0) continue;
      found.push_back(result(r, n));
      order.push_back({found.back().host_ns, tie_ns(found.back()), static_cast<std::uint32_t>(order.size())});
    }
    rank(order);
    for (const ranked& o : order) list.push_back(std::move(found[o.index]));
    return list;
  }

  /// GPU work that belongs to no stage: union of its time, and how many operations.
  std::int64_t gpu_outside_ns() const { return recorded_part(outside_); }
  std::uint64_t gpu_outside_operations() const noexcept { return outside_operations_; }
  /// The same of GPU work whose stage is no longer known (is_stage_unknown).
  std::int64_t gpu_unknown_ns() const { return recorded_part(unknown_); }
  std::uint64_t gpu_unknown_operations() const noexcept { return unknown_operations_; }
  std::int64_t gpu_busy_ns() const { return recorded_part(gpu_busy_); }
  /// GPU work whose enclosing stages could not be found any more: inclusive times miss it.
  std::uint64_t given_up() const noexcept { return tree_.given_up(); }

 private:
  struct row {
    CUTRACE_NOINLINE explicit row(const bounds& limits)
        : host(limits.row_intervals),
          gpu_own(limits.row_intervals),
          gpu_inclusive(limits.row_intervals),
          requests(limits.row_intervals) {}
    std::uint64_t calls = 0, adopted_parts = 0, spans = 0, host_sum_ns = 0, longest_ns = 0, gpu_operations = 0;
    interval_set host, gpu_own, gpu_inclusive;
    std::int64_t overlap_ns = 0;  ///< of `host` and gpu_busy_, updated by add_stage and add_gpu_work
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
      r.spans += e.stage.span;
      const std::uint64_t duration_ns = static_cast<std::uint64_t>(v.length_ns());
      r.host_sum_ns += duration_ns;
      r.longest_ns = std::max(r.longest_ns, duration_ns);
      tree_.close(e.stage_id, e.stage.parent, n, [this](std::uint32_t at, interval w) { inside(at, w); });
    }
    r.host.insert(v, [&](interval where, std::int64_t ns) {
      if (where.start_ns < gpu_busy_.settled_until_ns() || ns != where.length_ns()) r.overlap_estimated = true;
      add_ns(r.overlap_ns, time_bins::scaled(gpu_busy_.measure_ns(where), ns, where.length_ns()));
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
        add_ns(r.overlap_ns, time_bins::scaled(r.host.measure_ns(where), ns, where.length_ns()));
      }
    });
    if (CUTRACE_UNLIKELY(is_stage_unknown(e))) {
      if (!e.incomplete) unknown_.insert(v);
      ++unknown_operations_;
      return;
    }
    if (e.stage_name.size == 0) {
      if (!e.incomplete) outside_.insert(v);
      ++outside_operations_;
      return;
    }
    row& own = *rows_[number(e.stage_name)];
    ++own.gpu_operations;
    if (CUTRACE_UNLIKELY(e.incomplete)) return;  // how long it ran is not known
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
    t.spans = r.spans;
    t.host_sum_ns = r.host_sum_ns;
    t.longest_ns = r.longest_ns;
    t.host_ns = recorded_part(r.host);
    t.gpu_own_ns = recorded_part(r.gpu_own);
    t.gpu_inclusive_ns = recorded_part(r.gpu_inclusive);
    t.gpu_idle_inside_ns = std::max<std::int64_t>(0, t.host_ns - (in_pieces_ ? recorded_overlap(r) : r.overlap_ns));
    t.gpu_operations = r.gpu_operations;
    t.requests = r.requests.count();
    t.requests_exact = r.requests.exact();
    t.requests_cut = r.requests_cut;
    t.uncertain_ns =
        std::max({r.host.uncertain_ns(), r.gpu_own.uncertain_ns(), r.gpu_inclusive.uncertain_ns()}) + tree_.filled_ns();
    t.approximate = t.uncertain_ns > 0 || r.overlap_estimated || tree_.given_up() > 0 ||
                    (in_pieces_ && (recorded_.folded() || r.host.folded() || r.gpu_own.folded() ||
                                    r.gpu_inclusive.folded() || gpu_busy_.folded()));
    return t;
  }

  /// Of a trace that was paused, sampled or cut, only what lies in the time recorded counts.
  std::int64_t recorded_part(const interval_set& of) const {
    return in_pieces_ ? of.shared_ns(recorded_) : of.length_ns();
  }
  CUTRACE_NOINLINE std::int64_t recorded_overlap(const row& r) const {
    interval_set host;
    for (const interval v : r.host.kept())
      for (const interval w : recorded_.kept()) host.insert(clip(v, w));
    std::int64_t ns = gpu_busy_.shared_ns(host);
    // Only the lengths of the folded past are known: at most the smaller one is shared.
    if (r.host.folded()) {
      const interval past{r.host.span().start_ns, r.host.settled_until_ns()};
      ns += std::min(r.host.measure_ns(past), gpu_busy_.measure_ns(past));
    }
    return ns;
  }

  std::int64_t start_ns_;
  bounds limits_;
  name_table names_;
  std::vector<std::unique_ptr<row>> rows_;  ///< by number of the name
  stage_tree tree_;
  interval_set gpu_busy_;
  interval_set outside_{limits_.row_intervals};
  std::uint64_t outside_operations_ = 0;
  interval_set unknown_{limits_.row_intervals};
  std::uint64_t unknown_operations_ = 0;
  interval_set recorded_{limits_.row_intervals};
  bool in_pieces_ = false;
};

}  // namespace analysis
CUTRACE_END_NAMESPACE
