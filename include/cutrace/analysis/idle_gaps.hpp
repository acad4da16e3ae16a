// SPDX-License-Identifier: Apache-2.0
// All idle gaps of the devices: how much time by cause, who is to blame for it, and the longest of them.
//
// A gap is a stretch inside of a device's active span in which no stream had work: what gaps(union(work)) leaves free.
// Each gap has one cause, so the causes add up to the idle time of the active span. Time before the
// first and after the last work is kept apart, as nsys' gpu_gaps does.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cutrace/analysis/bounds.hpp>
#include <cutrace/analysis/duration_histogram.hpp>
#include <cutrace/analysis/names.hpp>
#include <cutrace/analysis/stage_log.hpp>
#include <cutrace/analysis/trace_log.hpp>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace analysis {

// One stretch in which a device had nothing to do: why, and what of the host is to blame.
//
// The gap [a, b) ends with the start of a piece of work whose launching call runs over [c, d) on thread t. Cause:
//   no_work         for more than half of it no stage was open anywhere (only where the trace has stages)
//   dependency      c <= a, and the gap is longer than 30 us: the work was queued before and waited for something else
//   launch_latency  c <= a otherwise; or else calls of t that launch, and [c, b), are the largest part
//   sync_wait       a < c, and at `a` t was in a call that waits for the device: it could not queue work in time. But
//                   host_wait where t's own code takes more than half of the gap
//   allocation      a < c, and t was in a call that allocates or frees at `a`, with the same exception; or such calls
//                   are the largest part of the gap
//   host_wait       a < c, and other calls or t's own code are
//   unknown         the launching call is not known
// HTA has "host_wait" for every a < c and "kernel_wait" for other gaps below 30 us; it looks at one stream alone, while
// here all streams of the device are idle.
//
// To blame is what t did in the gap, not where it launched afterwards: for host_wait the stage in which t, its
// innermost one, spent most of [a, min(b, c)) outside of calls that wait, allocate or launch; for the other causes the
// stage of the call. Where t was in no stage for most of it, none is blamed: what other threads did may be why t
// waited, or not, so it is listed (others_in) and not chosen from.

enum class idle_cause : std::uint8_t {
  host_wait,
  sync_wait,
  launch_latency,
  allocation,
  dependency,
  no_work,
  unknown,
};
constexpr std::size_t idle_cause_count = 7;

inline const char* name_of(idle_cause c) noexcept {
  constexpr const char* names[] = {"host_wait",  "sync_wait", "launch_latency", "allocation",
                                   "dependency", "no_work",   "unknown"};
  return names[static_cast<std::size_t>(c)];
}

/// Beyond this, work that is queued already does not start because of the way the device takes it up. HTA's
/// "consecutive kernel delay", whose default of 30 is in microseconds in effect.
constexpr std::int64_t launch_latency_limit_ns = 30000;

struct idle_gap {
  std::uint32_t device = 0;
  interval when;
  idle_cause cause = idle_cause::unknown;
  std::uint32_t call = 0;   ///< name number of the call to blame, 0: the program's own code, or not known
  std::uint32_t stage = 0;  ///< stage_log number of the innermost stage to blame, 0: outside of all
  std::uint32_t next = 0;   ///< place of the work that ended it, in trace_log::work; its stage is where it was launched
  static constexpr std::uint32_t of_another_log = UINT32_MAX;  ///< in place of `next`; the cause is not known then
  bool certain = true;  ///< not where another log may have calls that say another cause
};

class idle_classifier {
 public:
  explicit idle_classifier(const trace_log& log)
      : log_(log),
        stages_(log.stages(), log.stage_order(), log.threads().size()),
        hints_(log.threads().size(), 0),
        stage_hints_(log.threads().size(), 0) {
    std::vector<interval> open;
    for (const std::uint32_t n : log.stage_order()) append_merged(open, log.stages()[n].when);
    for (std::size_t i = 0; i < log.stages().parts().size(); ++i) open.push_back(log.stages().parts()[i].when);
    in_stages_ = merged(std::move(open));
  }

  /// @param next the work that ends the gap. Cheapest for gaps in the order of time, one device after the other.
  idle_gap classify(std::uint32_t device, interval gap, std::uint32_t next) {
    idle_gap g;
    g.device = device;
    g.when = gap;
    g.next = next;
    g.certain = next != idle_gap::of_another_log;
    if (!g.certain) return g;
    const gpu_work& w = log_.work()[next];
    const trace_log::launch l = log_.launch_of(w);
    g.stage = w.stage;
    if (!l.known) return g;
    g.certain = gap.start_ns >= log_.left_out_until(w.thread);
    const std::int64_t called_ns = std::min(l.when.start_ns, gap.end_ns);
    if (l.call != nullptr) g.call = l.call->name;
    if (called_ns <= gap.start_ns) {
      const bool queued = l.when.end_ns - gap.start_ns <= gap.length_ns() / 2;
      g.cause =
          queued && gap.length_ns() > launch_latency_limit_ns ? idle_cause::dependency : idle_cause::launch_latency;
      return g;
    }
    if (!in_stages_.empty() && 2 * in_stages(gap) < gap.length_ns()) {
      if (!in_unended(w.stage)) {
        g.cause = idle_cause::no_work;
        g.call = 0;
        g.stage = 0;
        return g;
      }
      g.certain = false;
    }
    late_host(g, w, called_ns);
    return g;
  }

 private:
  struct part {
    std::int64_t ns = 0, longest_ns = 0;
    const host_call* longest = nullptr;
    void add(const host_call& c, std::int64_t t_ns) {
      ns += t_ns;
      if (t_ns > longest_ns) longest = &c, longest_ns = t_ns;
    }
  };

  void late_host(idle_gap& g, const gpu_work& w, std::int64_t called_ns) {
    const interval late{g.when.start_ns, called_ns};
    const thread_calls& t = log_.threads()[w.thread];
    std::size_t i = 0;
    if (w.call_is == call_reference::index) {
      for (i = static_cast<std::size_t>(w.call); i > 0 && t.calls()[i - 1].when.end_ns > late.start_ns;) --i;
    } else {
      i = hints_[w.thread] = t.ending_after(late.start_ns, hints_[w.thread]);
    }
    part waiting, allocating, launching, other;
    const host_call* covering = nullptr;
    const std::size_t first = i;
    for (; i < t.calls().size() && t.calls()[i].when.start_ns < late.end_ns; ++i) {
      const host_call& c = t.calls()[i];
      const call_traits& is = log_.traits(c.name);
      if ((is.waits || is.blocks || is.allocates) && c.when.start_ns <= late.start_ns) covering = &c;
      (is.waits || is.blocks ? waiting
       : is.allocates        ? allocating
       : is.launches         ? launching
                             : other)
          .add(c, clip(c.when, late).length_ns());
    }
    const std::int64_t gap_ns = g.when.length_ns();
    const std::int64_t launch_ns = launching.ns + (g.when.end_ns - called_ns);
    const std::int64_t own_ns = late.length_ns() - waiting.ns - allocating.ns - launching.ns;  // other calls included
    const auto blame = [&](idle_cause cause, const host_call* c) {
      g.cause = cause;
      if (c == nullptr) return;
      g.call = c->name;
      g.stage = c->stage;
    };
    if (covering != nullptr && 2 * own_ns <= gap_ns && (covering == allocating.longest || 2 * allocating.ns <= gap_ns))
      return blame(log_.traits(covering->name).allocates ? idle_cause::allocation : idle_cause::sync_wait, covering);
    const std::int64_t most_ns = std::max({waiting.ns, allocating.ns, launch_ns, own_ns});
    if (most_ns == allocating.ns && allocating.ns > 0) return blame(idle_cause::allocation, allocating.longest);
    if (most_ns == own_ns) {
      const host_call* longest = 2 * other.longest_ns > own_ns ? other.longest : nullptr;
      g.call = 0;
      g.stage = stage_of_own_time(w, late, first);
      return blame(idle_cause::host_wait, longest);
    }
    if (most_ns == waiting.ns && waiting.ns > 0) return blame(idle_cause::sync_wait, waiting.longest);
    g.cause = idle_cause::launch_latency;
  }

  /// Innermost of the stage and those around it whose end the trace lacks, so that it has no times. It is taken to have
  /// been open before what was seen of it.
  std::uint32_t unended_around(std::uint32_t stage) const {
    for (int level = 0; stage != stage_log::none && log_.stages()[stage].ended && level < 64; ++level)
      stage = log_.stages().parent_of(stage);
    return stage;
  }

  /// Whether a stage around it, or itself, has no end that the log knows.
  bool in_unended(std::uint32_t stage) const {
    for (int level = 0; stage != stage_log::none && level < 64; ++level) {
      if (!log_.stages()[stage].ended) return true;
      const std::uint32_t around = log_.stages().parent_of(stage);
      if (around == stage_log::none && log_.stages()[stage].parent != 0) return true;
      stage = around;
    }
    return false;
  }

  /// Of the stages that the launching thread was in, innermost, the one with most of its time outside of calls that
  /// wait, allocate or launch: stages of one name together, then the instance with most. @param first call to look at
  std::uint32_t stage_of_own_time(const gpu_work& w, interval late, std::size_t first) {
    stages_.innermost(w.thread, late, unended_around(w.stage), stage_hints_[w.thread], pieces_);
    if (pieces_.size() == 1) return pieces_[0].stage;
    own_.clear();
    const chunked<host_call>& calls = log_.threads()[w.thread].calls();
    std::size_t i = first;
    for (const stage_piece& p : pieces_) {
      std::int64_t ns = p.when.length_ns();
      for (; i < calls.size() && calls[i].when.start_ns < p.when.end_ns; ++i) {
        const call_traits& is = log_.traits(calls[i].name);
        if (is.waits || is.blocks || is.allocates || is.launches) ns -= clip(calls[i].when, p.when).length_ns();
        if (calls[i].when.end_ns > p.when.end_ns) break;  // it goes on in the next piece
      }
      own_time& o = own_[log_.stages()[p.stage].name];
      o.ns += ns;
      if (ns > o.longest_ns) o.longest_ns = ns, o.stage = p.stage;
    }
    const own_time* most = nullptr;
    for (const auto& o : own_)
      if (most == nullptr || o.second.ns > most->ns) most = &o.second;
    return most->stage;
  }

  std::int64_t in_stages(interval v) {
    // Gaps come in order: go on from the last place, from the beginning for the next device.
    if (at_ > 0 && in_stages_[at_ - 1].end_ns > v.start_ns) at_ = 0;
    if (at_ == 0)
      at_ = static_cast<std::size_t>(std::partition_point(in_stages_.begin(), in_stages_.end(),
                                                          [&](interval s) { return s.end_ns <= v.start_ns; }) -
                                     in_stages_.begin());
    while (at_ < in_stages_.size() && in_stages_[at_].end_ns <= v.start_ns) ++at_;
    std::int64_t total = 0;
    for (std::size_t i = at_; i < in_stages_.size() && in_stages_[i].start_ns < v.end_ns; ++i)
      total += clip(in_stages_[i], v).length_ns();
    return total;
  }

  struct own_time {
    std::int64_t ns = 0, longest_ns = 0;
    std::uint32_t stage = stage_log::none;
  };

  const trace_log& log_;
  thread_stages stages_;
  std::vector<std::size_t> hints_, stage_hints_;  ///< by thread
  std::vector<stage_piece> pieces_;
  std::map<std::uint32_t, own_time> own_;  ///< by name of the stage
  std::vector<interval> in_stages_;
  std::size_t at_ = 0;
};

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
  /// Whom to blame for most of that cause, nullptr where there is no such gap.
  const idle_blame* most_of(idle_cause c) const noexcept {
    for (const idle_blame& b : blames)
      if (b.cause == c) return &b;
    return nullptr;
  }
  /// Recorded before the first and after the last work of each device; bounded as add_ns says.
  std::int64_t around_ns() const noexcept {
    std::int64_t sum = before_ns;
    add_ns(sum, after_ns);
    return sum;
  }
  /// Counts what was recorded before and after a device's work. @param active from its first to its last
  void add_around(const std::vector<interval>& recorded, interval active) {
    for (const interval v : recorded) {
      add_ns(before_ns, clip(v, {v.start_ns, active.start_ns}).length_ns());
      add_ns(after_ns, clip(v, {active.end_ns, v.end_ns}).length_ns());
    }
  }
};

/// Calls `each(const idle_gap&)` for each gap of a sealed log, one device after the other, in order. Of a trace that
/// was paused, only what was recorded is idle; the rest is not known.
/// @param known by device: from the first work to the last of logs before, whose gaps are known
template <class Each>
void for_each_gap(const trace_log& log, idle_classifier& classifier, const std::map<std::uint32_t, interval>& known,
                  Each&& each) {
  const std::vector<interval>& recorded = log.recorded();
  for (const auto& d : log.devices()) {
    const std::vector<std::uint32_t>& order = d.second.order;
    if (order.empty()) continue;
    const auto found = known.find(d.first);
    bool before = found != known.end();  // what is known lies ahead
    std::int64_t until_ns = log.work()[order[0]].when.start_ns;
    if (before) until_ns = std::min(until_ns, found->second.start_ns);
    std::size_t piece = 0;
    const auto gap = [&](interval v, std::uint32_t next) {
      while (piece < recorded.size() && recorded[piece].end_ns <= v.start_ns) ++piece;
      for (std::size_t p = piece; p < recorded.size() && recorded[p].start_ns < v.end_ns; ++p)
        if (!clip(v, recorded[p]).empty()) each(classifier.classify(d.first, clip(v, recorded[p]), next));
    };
    const auto pass_known = [&] {
      gap({until_ns, found->second.start_ns}, idle_gap::of_another_log);
      until_ns = std::max(until_ns, found->second.end_ns);
      before = false;
    };
    for (const std::uint32_t i : order) {
      const interval v = log.work()[i].when;
      if (before && v.start_ns >= found->second.start_ns) pass_known();
      gap({until_ns, v.start_ns}, i);
      until_ns = std::max(until_ns, v.end_ns);
    }
    if (before) pass_known();
  }
}

/// From the first work of a device, which has some, to its last.
inline interval active_span(const trace_log& log, const device_work& d) {
  interval v = log.work()[d.order[0]].when;
  for (const std::uint32_t i : d.order) v.end_ns = std::max(v.end_ns, log.work()[i].when.end_ns);
  return v;
}

template <class Gap>
bool longer(const Gap& a, const Gap& b) noexcept {
  if (a.when.length_ns() != b.when.length_ns()) return a.when.length_ns() > b.when.length_ns();
  return a.when.start_ns < b.when.start_ns;
}
/// Keeps the longest `n` of all that are offered; the shortest of them stands in front.
inline void keep_longest(std::vector<idle_gap>& list, const idle_gap& g, std::size_t n) {
  if (list.size() == n) {
    if (n == 0 || !longer(g, list.front())) return;
    std::pop_heap(list.begin(), list.end(), longer<idle_gap>);
    list.pop_back();
  }
  list.push_back(g);
  std::push_heap(list.begin(), list.end(), longer<idle_gap>);
}

/// Numbers of a log: device, cause, call, stage's name.
using idle_row_key = std::tuple<std::uint32_t, idle_cause, std::uint32_t, std::uint32_t>;
inline idle_row_key row_of(const trace_log& log, const idle_gap& g) noexcept {
  return idle_row_key(g.device, g.cause, g.call, log.stages()[g.stage].name);
}

class idle_finder {
 public:
  /// @param keep longest gaps to keep
  /// @param stretch_ns gaps of at least that length are all kept, as intervals
  explicit idle_finder(const trace_log& log, std::size_t keep = 64, std::int64_t stretch_ns = INT64_MAX)
      : log_(log), keep_(keep), stretch_ns_(stretch_ns) {}

  CUTRACE_ONE_COPY idle_report find() {
    idle_classifier classifier(log_);
    for_each_gap(log_, classifier, {}, [this](const idle_gap& g) { add(g); });
    for (const auto& d : log_.devices())
      if (!d.second.order.empty()) report_.add_around(log_.recorded(), active_span(log_, d.second));
    std::vector<ranked> order;
    for (std::uint32_t i = 0; i < rows_.size(); ++i) order.push_back({rows_[i].total.ns, 0, i});
    rank(order);
    for (const ranked& r : order) report_.blames.push_back(std::move(rows_[r.index]));
    for (idle_blame& b : report_.blames) std::sort(b.longest.begin(), b.longest.end(), longer<idle_gap>);
    std::sort(report_.longest.begin(), report_.longest.end(), longer<idle_gap>);
    return std::move(report_);
  }

 private:
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
    const idle_row_key key = row_of(log_, g);
    if (CUTRACE_LIKELY(key == last_key_ && !rows_.empty())) return rows_[last_row_];
    const auto found = row_of_.emplace(key, rows_.size());
    if (found.second) {
      idle_blame b;
      b.device = g.device;
      b.cause = g.cause;
      if (g.call != 0) b.call = log_.names().name(g.call);
      if (std::get<3>(key) != 0) b.stage = log_.names().name(std::get<3>(key));
      rows_.push_back(std::move(b));
    }
    last_key_ = key;
    return rows_[last_row_ = found.first->second];
  }

  const trace_log& log_;
  std::size_t keep_;
  std::int64_t stretch_ns_;
  idle_report report_;
  std::vector<idle_blame> rows_;
  std::map<idle_row_key, std::size_t> row_of_;
  idle_row_key last_key_;
  std::size_t last_row_ = 0;
};

// The same for a trace of any length in bounded memory: a log of some ten thousand events at a time, each analysed as a
// whole trace is. Where one log ends and the next one begins, a stage around a gap may not have ended yet: it counts as
// open, and its name is known where work or a call of it was seen.

/// A gap with its words.
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
      // Nothing was recorded from the window before to this one.
      if (open_from_ns_ < w.start_ns)
        for (auto& d : gaps_) fill_gaps(d.first, {open_from_ns_, w.start_ns});
      windows_.push_back(w);
      is_open_ = false;
      open_from_ns_ = INT64_MAX;
      // Here no window is open.
      if (log_->memory_bytes() > log_bytes_ / 2 || (log_bytes_ != SIZE_MAX && windows_.size() > window_limit))
        settle(false), forget_windows();
      return;
    }
    if (!windows_.empty() && e.kind < event_kind::process && e.start_ns >= windows_.back().end_ns) is_open_ = true;
    log_->add(e);
    if (CUTRACE_UNLIKELY(++added_ % look_every == 0) && log_->memory_bytes() > log_bytes_) settle(false);
  }

  /// Analyses what came since the last time. `report` and `longest` know of it then.
  /// @param ended all windows have come. Else one may be open, whose begin is known when it ends: until then it counts
  /// from the end of the one before
  CUTRACE_ONE_COPY void settle(bool ended) {
    if (added_ == 0) return;
    ++pieces_;
    for (const interval v : windows_) log_->add_recorded(v);
    if (!ended && windows_.empty()) open_from_ns_ = start_ns_;  // the log takes all of its time to be recorded
    if (!ended && is_open_) {
      open_from_ns_ = windows_.back().end_ns;
      log_->add_recorded({open_from_ns_, time_of(INT64_MAX)});
    }
    log_->seal();
    idle_classifier classifier(*log_);
    // Work that ran in gaps of the logs before, and was not known then.
    for (const auto& d : log_->devices())
      for (const std::uint32_t i : d.second.order)
        if (!fill_gaps(d.first, log_->work()[i].when, &classifier, i)) break;
    for (const std::uint32_t n : log_->stage_order()) comes_late(log_->stages()[n].when);
    for (std::size_t i = 0; i < log_->stages().parts().size(); ++i) comes_late(log_->stages().parts()[i].when);
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

  /// Of what is settled. @param end_ns of the trace
  CUTRACE_ONE_COPY idle_report report(std::int64_t end_ns) const {
    idle_report r;
    r.all = total_.all;
    r.by_cause = total_.by_cause;
    r.lengths = total_.lengths;
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
  /// Pieces of the trace that were analysed one by one: gaps where two of them meet, and in stages that were open
  /// there, may have another cause than in the whole trace.
  std::uint64_t pieces() const noexcept { return pieces_; }
  /// Time of gaps whose cause may be another one, as calls or work in another piece would say.
  std::int64_t uncertain_ns() const noexcept { return uncertain_ns_; }
  /// Time of work that came later than gaps are kept, so that it may lie in gaps that were counted.
  std::int64_t off_ns() const noexcept { return off_ns_; }

 private:
  static constexpr std::uint64_t look_every = 256;
  static constexpr std::size_t window_limit = 4096, row_limit = 512;
  /// Of a log, for each call and each stage that the next one begins with: an eighth or so in all.
  static constexpr std::size_t carried_bytes = 1024;
  using row_key = std::tuple<std::uint32_t, idle_cause, std::string, std::string>;  ///< device, cause, call, stage

  using row_total = std::map<row_key, idle_total>::value_type;
  struct kept_gap {
    interval when;
    row_total* of;
    bool certain;
  };

  /// Merged: what was recorded of the trace, but for windows that are forgotten.
  CUTRACE_NOINLINE std::vector<interval> recorded(std::int64_t end_ns) const {
    if (windows_.empty() && forgotten_windows_ns_ == 0) return {{start_ns_, std::max(start_ns_, end_ns)}};
    return merged(windows_);
  }

  /// Windows that ended before the last work of each device say nothing of further gaps. Those of a device that has
  /// had nothing to do ever since are given up as soon as there are too many.
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
    if (log_ != nullptr) next->continue_from(*log_, log_bytes_ / carried_bytes);
    log_ = std::move(next);
    added_ = 0;
  }

  /// +1 or -1 of all totals.
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
    if (more)
      total_.lengths.add(static_cast<std::uint64_t>(ns));
    else
      total_.lengths.remove(static_cast<std::uint64_t>(-ns));
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

  /// In `v` the device was not idle, or it is not known. @param next the work that ran in it, in the log of
  /// `classifier`; without one, what was not recorded. @returns false where all gaps ended before
  CUTRACE_ONE_COPY bool fill_gaps(std::uint32_t device, interval v, idle_classifier* classifier = nullptr,
                                  std::uint32_t next = 0) {
    std::vector<kept_gap>& list = gaps_[device];
    const std::int64_t forgotten_ns = forgotten_until_[device];
    if (forgotten_ns != 0) add_ns(off_ns_, clip(v, {v.start_ns, forgotten_ns}).length_ns());
    std::size_t at = static_cast<std::size_t>(
        std::partition_point(list.begin(), list.end(), [&](const kept_gap& g) { return g.when.end_ns <= v.start_ns; }) -
        list.begin());
    if (at == list.size()) return false;
    for (; at < list.size() && list[at].when.start_ns < v.end_ns; ++at) at = fill_gap(list, at, v, classifier, next);
    return true;
  }

  /// A stage was open in `v`, so that gaps in which none was may have another cause.
  void comes_late(interval v) {
    for (auto& d : gaps_) {
      std::vector<kept_gap>& list = d.second;
      auto at = std::partition_point(list.begin(), list.end(),
                                     [&](const kept_gap& g) { return g.when.end_ns <= v.start_ns; });
      for (; at != list.end() && at->when.start_ns < v.end_ns; ++at)
        if (at->certain && std::get<1>(at->of->first) == idle_cause::no_work) {
          at->certain = false;
          add_ns(uncertain_ns_, at->when.length_ns());
        }
    }
  }

  /// What `v` leaves of a gap: nothing, a part or two. What is left before work has the cause for which that was late.
  /// Returns the place of the last.
  std::size_t fill_gap(std::vector<kept_gap>& list, std::size_t at, interval v, idle_classifier* classifier,
                       std::uint32_t next) {
    const kept_gap old = list[at];
    const std::uint32_t device = std::get<0>(old.of->first);
    const interval before{old.when.start_ns, v.start_ns}, after{v.end_ns, old.when.end_ns};
    // Why the host was late for the work behind it stands in a log that is gone.
    const kept_gap second{after, old.of, old.certain && classifier == nullptr};
    kept_gap first{before, old.of, old.certain};
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
    forgotten_until_[d.device] = list[list.size() - limit - 1].when.end_ns;
    list.erase(list.begin(), list.end() - static_cast<std::ptrdiff_t>(limit));
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
  idle_report total_;
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
  bool is_open_ = false;                   ///< events have come since the last window
  std::int64_t open_from_ns_ = INT64_MAX;  ///< of the window that is open, as it counted for what is settled of it
  std::int64_t off_ns_ = 0, uncertain_ns_ = 0;
  std::uint64_t pieces_ = 0;
};

}  // namespace analysis
CUTRACE_END_NAMESPACE
