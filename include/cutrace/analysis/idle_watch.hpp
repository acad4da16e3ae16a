// SPDX-License-Identifier: Apache-2.0
// Idle gaps (idle_gaps.hpp) of a trace of any length in bounded memory: one log of some ten thousand events after the
// other. Each log is analysed as a whole trace is, with the last waits and stages of the log before. Threads are
// delivered one after the other, and GPU work after its calls, so that a log may lack earlier or later events: gaps
// whose cause such events may change are counted as uncertain. A stage that has not ended yet counts as open around a
// gap; its name is known where work or a call of the stage was seen.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cutrace/analysis/bounds.hpp>
#include <cutrace/analysis/idle_gaps.hpp>
#include <cutrace/analysis/names.hpp>
#include <cutrace/analysis/trace_log.hpp>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace analysis {

/// A gap with names instead of numbers of its log, so that it can outlive the log.
struct named_gap {
  std::uint32_t device = 0;
  interval when;
  idle_cause cause = idle_cause::unknown;
  std::string call, stage;  ///< to blame, empty: as in idle_blame
  std::string next;         ///< the work that ended the gap
};

inline named_gap name_gap(const trace_log& log, const idle_gap& g) {
  named_gap n;
  n.device = g.device;
  n.when = g.when;
  n.cause = g.cause;
  if (g.call != 0) n.call = log.names().name(g.call);
  if (log.stages()[g.stage].name != 0) n.stage = log.names().name(log.stages()[g.stage].name);
  if (g.next == idle_gap::of_another_log) return n;
  const gpu_work& next = log.work()[g.next];
  n.next = next.name != 0 ? log.names().name(next.name) : name_of(next.is);
  return n;
}

class idle_watch {
 public:
  /// @param keep longest gaps to keep
  idle_watch(std::int64_t start_ns, const bounds& limits, std::size_t keep)
      : start_ns_(start_ns),
        log_bytes_(limits.log_bytes == 0 ? SIZE_MAX : limits.log_bytes),
        name_bytes_(limits.name_bytes),
        keep_(keep) {
    begin();
  }

  void add(const event& e) {
    if (e.kind == event_kind::window) {
      const interval w = clip(interval_of(e), {start_ns_, INT64_MAX});
      add_window(w);
      // A window (a recorded part of a paused trace) has just ended: mostly no other one is open.
      if (log_->memory_bytes() > log_bytes_ / 2 || (log_bytes_ != SIZE_MAX && windows_.size() > window_limit))
        settle(false), forget_windows();
      return;
    }
    if (e.kind < event_kind::process) newest_ns_ = std::max(newest_ns_, e.start_ns);
    log_->add(e);
    if (CUTRACE_UNLIKELY(++added_ % look_every == 0) && log_->memory_bytes() > log_bytes_) settle(false);
  }

  /// Analyses the events since the last call; `report` and `longest` then include them. @param ended all windows have
  /// come. If false, a window may be open, whose begin is known only when it ends: until then it is taken to begin at
  /// the end of the window before
  CUTRACE_ONE_COPY void settle(bool ended) {
    if (added_ == 0) return;
    ++pieces_;
    for (const interval v : windows_) log_->add_recorded(v);
    if (!ended && windows_.empty())
      open_from_ns_ = start_ns_;  // without windows, a log takes all of its time as recorded
    if (!ended && is_open()) {
      open_from_ns_ = windows_end_ns_;
      log_->add_recorded({open_from_ns_, time_of(INT64_MAX)});
    }
    log_->seal();
    idle_classifier classifier(*log_);
    // Work that ran in gaps of the logs before, and was not known then.
    for (const auto& d : log_->devices())
      for (const std::uint32_t i : d.second.order)
        if (!fill_gaps(d.first, log_->work()[i].when, &classifier, i)) break;
    for (const std::uint32_t n : log_->stage_order())
      if (n > log_->taken_stages()) stage_comes_late(log_->stages()[n].when);
    for (std::size_t i = 0; i < log_->stages().parts().size(); ++i) stage_comes_late(log_->stages().parts()[i].when);
    std::vector<idle_gap> of_log;
    for_each_gap(*log_, classifier, active_, [&](const idle_gap& g) {
      add(g);
      analysis::keep_longest(of_log, g, keep_);
    });
    for (const idle_gap& g : of_log) longest_.push_back(name_gap(*log_, g));
    keep_longest();
    for (const auto& d : log_->devices())
      if (!d.second.order.empty()) end_of_log(d.second);
    row_of_.clear();
    begin();
  }

  /// The idle time of all events that `settle` has analysed. @param end_ns end of the trace
  CUTRACE_ONE_COPY idle_report report(std::int64_t end_ns) const {
    idle_report r;
    r.all = total_.all;
    r.by_cause = total_.by_cause;
    r.lengths = total_.lengths;
    for (const auto& d : gaps_)
      for (const kept_gap& g : d.second) r.lengths.add(static_cast<std::uint64_t>(g.when.length_ns()));
    r.before_ns = before_ns_;
    const std::vector<interval> when = recorded(end_ns);
    for (const auto& d : active_) r.add_around(when, d.second);
    std::vector<ranked> order;
    std::vector<const row_key*> keys;
    for (const auto& row : rows_) {
      order.push_back({row.second.ns, 0, static_cast<std::uint32_t>(keys.size())});
      keys.push_back(&row.first);
    }
    rank(order);
    for (const ranked& o : order) {
      idle_blame b;
      std::tie(b.device, b.cause, b.call, b.stage) = *keys[o.index];
      b.total = rows_.at(*keys[o.index]);
      r.blames.push_back(std::move(b));
    }
    return r;
  }

  /// Gaps of one device.
  idle_total of_device(std::uint32_t device) const {
    const auto found = by_device_.find(device);
    return found == by_device_.end() ? idle_total{} : found->second;
  }
  /// Longest first.
  const std::vector<named_gap>& longest() const noexcept { return longest_; }
  /// Pieces of the trace that were analysed one by one.
  std::uint64_t pieces() const noexcept { return pieces_; }
  /// Time of gaps whose cause may be another one, since calls or work of another piece may be missing.
  std::int64_t uncertain_ns() const noexcept { return uncertain_ns_; }
  /// Bound of the error of idle time: work and windows that may lie in gaps which were dropped before these came.
  std::int64_t off_ns() const noexcept { return off_ns_; }

 private:
  static constexpr std::uint64_t look_every = 256;
  static constexpr std::size_t window_limit = 4096, row_limit = 512;
  /// Per this many bytes of `log_bytes_` the next log takes over one call and one stage: in all about an eighth of it.
  static constexpr std::size_t bytes_a_carried = 1024;
  using row_key = std::tuple<std::uint32_t, idle_cause, std::string, std::string>;  ///< device, cause, call, stage

  using row_total = std::map<row_key, idle_total>::value_type;
  struct kept_gap {
    interval when;
    row_total* of;
    bool certain;
  };

  /// Events have come since the last window ended.
  bool is_open() const noexcept { return !windows_.empty() && newest_ns_ >= windows_end_ns_; }

  /// A window is delivered after its events, and maybe after events of later windows.
  CUTRACE_NOINLINE void add_window(interval w) {
    if (open_from_ns_ <= w.start_ns) {
      // Nothing was recorded between the window before and this one.
      if (open_from_ns_ < w.start_ns)
        for (auto& d : gaps_) fill_gaps(d.first, {open_from_ns_, w.start_ns});
      open_from_ns_ = INT64_MAX;
      for (const auto& d : active_)
        if (d.second.end_ns > w.end_ns) open_from_ns_ = w.end_ns;
    } else {  // logs with work after this window counted its time as not recorded
      for (const auto& d : active_) add_ns(off_ns_, clip(w, {w.start_ns, d.second.end_ns}).length_ns());
    }
    windows_.push_back(w);
    windows_end_ns_ = std::max(windows_end_ns_, w.end_ns);
  }

  /// The recorded time of the trace, merged, without forgotten windows.
  CUTRACE_NOINLINE std::vector<interval> recorded(std::int64_t end_ns) const {
    if (windows_.empty() && forgotten_windows_ns_ == 0) return {{start_ns_, std::max(start_ns_, end_ns)}};
    return merged(windows_);
  }

  /// A window that ended before the last work of each device says nothing of gaps to come, so the oldest can go. A
  /// device that has had no work since may have been idle in them: that counts in `off_ns`.
  CUTRACE_ONE_COPY void forget_windows() {
    if (windows_.size() <= window_limit / 2) return;
    const std::size_t most = windows_.size() - window_limit / 2;
    for (std::size_t i = 0; i < most; ++i) {
      const interval w = windows_[i];
      add_ns(forgotten_windows_ns_, w.length_ns());
      for (const auto& d : active_) {
        add_ns(before_ns_, clip(w, {w.start_ns, d.second.start_ns}).length_ns());
        add_ns(off_ns_, clip(w, {d.second.end_ns, w.end_ns}).length_ns());
      }
    }
    windows_.erase(windows_.begin(), windows_.begin() + static_cast<std::ptrdiff_t>(most));
  }

  void begin() {
    std::unique_ptr<trace_log> next = std::make_unique<trace_log>(start_ns_, name_bytes_, false);
    if (log_ != nullptr && log_bytes_ != SIZE_MAX) next->continue_from(*log_, log_bytes_ / bytes_a_carried);
    log_ = std::move(next);
    added_ = 0;
  }

  /// Adds `g` to all totals (`more`), or takes it out of them again.
  void count(const kept_gap& g, bool more) {
    const std::int64_t ns = more ? g.when.length_ns() : -g.when.length_ns();
    row_total& of = *g.of;
    const std::uint32_t device = std::get<0>(of.first);
    idle_total* totals[] = {&of.second, &total_.all, &by_device_[device],
                            &total_.by_cause[static_cast<std::size_t>(std::get<1>(of.first))]};
    if (!g.certain) add_ns(uncertain_ns_, ns);
    for (idle_total* t : totals) {
      add_ns(t->ns, ns);
      t->count += more ? 1 : std::uint64_t{0} - 1;
    }
  }

  void add(const idle_gap& g) {
    const kept_gap kept{g.when, &row(g), g.certain};
    count(kept, true);
    gaps_[g.device].push_back(kept);
  }
  row_total& row(const idle_gap& g) {
    const auto known = row_of_.emplace(row_of(*log_, g), nullptr);
    if (known.second) known.first->second = &named_row(g);
    return *known.first->second;
  }
  row_total& named_row(const idle_gap& g) {
    const std::uint32_t stage = log_->stages()[g.stage].name;
    row_key key(g.device, g.cause, g.call == 0 ? std::string() : log_->names().name(g.call),
                stage == 0 ? std::string() : log_->names().name(stage));
    if (rows_.size() >= row_limit && rows_.count(key) == 0) key = row_key(g.device, g.cause, "", "(other names)");
    return *rows_.emplace(std::move(key), idle_total{}).first;
  }

  /// Place of the first gap that ends after `t_ns`.
  static std::size_t ending_after(const std::vector<kept_gap>& list, std::int64_t t_ns) {
    const auto at =
        std::partition_point(list.begin(), list.end(), [t_ns](const kept_gap& g) { return g.when.end_ns <= t_ns; });
    return static_cast<std::size_t>(at - list.begin());
  }

  /// Takes `v`, in which the device was not idle or nothing was recorded, out of the gaps. @param next the work that
  /// ran in `v`, in the log of `classifier`; without a classifier, `v` was not recorded. @returns false where all gaps
  /// end before `v`
  CUTRACE_ONE_COPY bool fill_gaps(std::uint32_t device, interval v, idle_classifier* classifier = nullptr,
                                  std::uint32_t next = 0) {
    std::vector<kept_gap>& list = gaps_[device];
    const std::int64_t forgotten_ns = forgotten_until_[device];
    if (forgotten_ns != 0) add_ns(off_ns_, clip(v, {v.start_ns, forgotten_ns}).length_ns());
    std::size_t at = ending_after(list, v.start_ns);
    if (at == list.size()) return false;
    for (; at < list.size() && list[at].when.start_ns < v.end_ns; ++at) at = fill_gap(list, at, v, classifier, next);
    return true;
  }

  /// A stage that only this log knows was open in `v`: gaps of logs before in which none was open may have another
  /// cause.
  void stage_comes_late(interval v) {
    for (auto& d : gaps_) {
      std::vector<kept_gap>& list = d.second;
      for (std::size_t at = ending_after(list, v.start_ns); at < list.size() && list[at].when.start_ns < v.end_ns; ++at)
        if (list[at].certain && std::get<1>(list[at].of->first) == idle_cause::no_work) {
          list[at].certain = false;
          add_ns(uncertain_ns_, list[at].when.length_ns());
        }
    }
  }

  /// What `v` leaves of a gap: nothing, one part or two. Where `v` is work, the part before `v` has a new cause, as the
  /// gap that this work ended. Returns the place of the last part.
  std::size_t fill_gap(std::vector<kept_gap>& list, std::size_t at, interval v, idle_classifier* classifier,
                       std::uint32_t next) {
    const kept_gap old = list[at];
    const std::uint32_t device = std::get<0>(old.of->first);
    const interval before{old.when.start_ns, v.start_ns}, after{v.end_ns, old.when.end_ns};
    // The cause was that of the whole gap, and the log that knows the parts' is gone.
    const kept_gap second{after, old.of, false};
    kept_gap first{before, old.of, false};
    idle_gap changed;
    if (classifier != nullptr && !before.empty()) {
      changed = classifier->classify(device, before, next);
      first = {before, &row(changed), changed.certain};
    }
    count(old, false);
    for (named_gap& g : longest_)
      if (g.device == device && g.when == old.when) {
        if (before.length_ns() <= after.length_ns())
          g.when = after;
        else if (classifier != nullptr)
          g = name_gap(*log_, changed);
        else
          g.when = before;
      }
    const auto place = list.begin() + static_cast<std::ptrdiff_t>(at);
    if (before.empty() && after.empty()) {
      list.erase(place);
      return at - 1;  // may wrap around, and is counted up again
    }
    *place = before.empty() ? second : first;
    count(*place, true);
    if (before.empty() || after.empty()) return at;
    count(second, true);
    list.insert(place + 1, second);
    return at + 1;
  }

  CUTRACE_ONE_COPY void end_of_log(const device_work& d) {
    const auto known = active_.emplace(d.device, interval{INT64_MAX, INT64_MIN});
    if (known.second) add_ns(before_ns_, forgotten_windows_ns_);
    interval& active = known.first->second;
    const interval v = active_span(*log_, d);
    active = {std::min(active.start_ns, v.start_ns), std::max(active.end_ns, v.end_ns)};
    std::vector<kept_gap>& list = gaps_[d.device];
    std::sort(list.begin(), list.end(),
              [](const kept_gap& a, const kept_gap& b) { return a.when.start_ns < b.when.start_ns; });
    const std::size_t limit = std::max<std::size_t>(log_bytes_ / 128 / gaps_.size(), 64);
    if (list.size() <= 2 * limit) return;
    const auto kept = list.end() - static_cast<std::ptrdiff_t>(limit);
    forgotten_until_[d.device] = (kept - 1)->when.end_ns;
    for (auto g = list.begin(); g != kept; ++g) total_.lengths.add(static_cast<std::uint64_t>(g->when.length_ns()));
    list.erase(list.begin(), kept);
  }

  void keep_longest() {
    longest_.erase(std::remove_if(longest_.begin(), longest_.end(), [](const named_gap& g) { return g.when.empty(); }),
                   longest_.end());
    std::sort(longest_.begin(), longest_.end(), longer<named_gap>);
    if (longest_.size() > keep_) longest_.resize(keep_);
  }

  std::int64_t start_ns_;
  std::size_t log_bytes_, name_bytes_, keep_;
  std::unique_ptr<trace_log> log_;
  std::uint64_t added_ = 0;
  idle_report total_;  ///< but `lengths`, which lacks the gaps that are kept: these may still change
  std::map<std::uint32_t, idle_total> by_device_;
  std::map<row_key, idle_total> rows_;
  std::map<idle_row_key, row_total*> row_of_;  ///< by the numbers of the log at hand
  std::vector<named_gap> longest_;
  std::map<std::uint32_t, interval> active_;               ///< by device: first start to last end
  std::map<std::uint32_t, std::vector<kept_gap>> gaps_;    ///< by device, the last ones of the logs before
  std::map<std::uint32_t, std::int64_t> forgotten_until_;  ///< by device, 0: all gaps are kept
  std::vector<interval> windows_;
  std::int64_t before_ns_ = 0;  ///< of forgotten windows, before each device's first work
  std::int64_t forgotten_windows_ns_ = 0;
  std::int64_t windows_end_ns_ = INT64_MIN;  ///< of the last window
  std::int64_t newest_ns_ = INT64_MIN;       ///< start of the last event
  std::int64_t open_from_ns_ = INT64_MAX;    ///< where `settle` took the open window to begin
  std::int64_t off_ns_ = 0, uncertain_ns_ = 0;
  std::uint64_t pieces_ = 0;
};

}  // namespace analysis
CUTRACE_END_NAMESPACE
