// SPDX-License-Identifier: Apache-2.0
// All idle gaps of the devices: how much time by cause, which call and stage are to blame, and the longest gaps.
//
// A gap is a stretch inside of a device's active span in which no stream had work: gaps(union(work)). Each gap has one
// cause, so the causes add up to the idle time of the active span. Time before the first and after the last work is
// kept apart, as nsys' gpu_gaps does.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cutrace/analysis/duration_histogram.hpp>
#include <cutrace/analysis/names.hpp>
#include <cutrace/analysis/stage_log.hpp>
#include <cutrace/analysis/trace_log.hpp>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace analysis {

// One stretch in which a device had nothing to do: why, and what of the host is to blame.
//
// The gap [a, b) ends with the start of a piece of work whose launching call runs over [c, d) on thread t. Cause:
//   dependency      c <= a, d is in the first half of the gap or before it, and the gap is longer than 30 us: the work
//                   was queued and waited for something else
//   launch_latency  c <= a otherwise; or a < c, and launching calls of t with [c, b) are the largest part of the gap
//   no_work         a < c, and for more than half of the gap no stage was open (only where the trace has stages)
//   sync_wait       a < c otherwise, and at `a` t was in a call that waits for the device, so t could not queue work in
//                   time (but host_wait where t's own code takes more than half of the gap); or such calls are the
//                   largest part
//   allocation      as sync_wait, for calls that allocate or free
//   host_wait       a < c otherwise: other calls or t's own code are the largest part
//   unknown         the launching call is not known
// HTA (Holistic Trace Analysis) has "host_wait" for every a < c and "kernel_wait" for other gaps below 30 us; it looks
// at one stream alone, while here all streams of the device are idle.
//
// To blame is what t did in the gap, not where it launched afterwards: for host_wait the innermost stage in which t
// spent most of [a, min(b, c)) outside of calls that wait, allocate or launch; for the other causes the stage of the
// call. Where t was in no stage for most of that time, no stage is blamed: what other threads did may or may not be why
// t waited, so the report only lists it (finding_places.hpp).

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

/// Where the work after a gap was already queued, a gap up to this long is what the device needs to begin the work; in
/// a longer one the work waited for something else. HTA calls it "consecutive kernel delay"; its default is 30, which
/// HTA compares with microseconds.
constexpr std::int64_t launch_latency_limit_ns = 30000;

struct idle_gap {
  std::uint32_t device = 0;
  interval when;
  idle_cause cause = idle_cause::unknown;
  std::uint32_t call = 0;   ///< name number of the call to blame, 0: the program's own code, or not known
  std::uint32_t stage = 0;  ///< stage_log number of the innermost stage to blame, 0: outside of all
  std::uint32_t next = 0;   ///< in trace_log::work, the work that ended the gap; its stage is where it was launched
  static constexpr std::uint32_t of_another_log = UINT32_MAX;  ///< `next` of another log (idle_watch.hpp): no cause
  bool certain = true;  ///< false where calls of another log may show another cause
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
    if (!l.known) {
      g.certain = w.correlation == 0;  // the call of that id may be in another log
      return g;
    }
    // Another log may have the call itself; where calls are not recorded, none has.
    g.certain = gap.start_ns >= log_.left_out_until(w.thread) &&
                (l.call != nullptr || log_.threads()[w.thread].calls().size() == 0);
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
        g.certain = g.certain && gap.start_ns >= log_.stages_left_out_until();
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

  /// The innermost of `stage` and the stages around it whose end the trace lacks. Such a stage has no times: it is
  /// taken to be open wherever the thread is in no stage that has times.
  std::uint32_t unended_around(std::uint32_t stage) const {
    for (int level = 0; stage != stage_log::none && log_.stages()[stage].ended && level < 64; ++level)
      stage = log_.stages().parent_of(stage);
    return stage;
  }

  /// Whether `stage`, or a stage around it, has no end that the log knows.
  bool in_unended(std::uint32_t stage) const {
    for (int level = 0; stage != stage_log::none && level < 64; ++level) {
      if (!log_.stages()[stage].ended) return true;
      const std::uint32_t around = log_.stages().parent_of(stage);
      if (around == stage_log::none && log_.stages()[stage].parent != 0) return true;
      stage = around;
    }
    return false;
  }

  /// The innermost stage in which the launching thread spent most time outside of calls that wait, allocate or launch:
  /// stages of one name together, then the instance with most. @param first call to look at
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

/// The largest row of the stage that has most time in the rows which `counts(row)` picks: a stage may have many rows,
/// one for each call. @param rows most time first @returns nullptr where none is picked
template <class Rows, class Counts>
const idle_blame* most_blamed(const Rows& rows, Counts&& counts) {
  std::map<std::string_view, std::int64_t> by_stage;
  for (const idle_blame& b : rows)
    if (counts(b)) add_ns(by_stage[b.stage], b.total.ns);
  const idle_blame* most = nullptr;
  for (const idle_blame& b : rows)
    if (counts(b) && (most == nullptr || by_stage[b.stage] > by_stage[most->stage])) most = &b;
  return most;
}

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
  /// The largest row of that cause and of the stage with most of it, nullptr where there is no such gap.
  const idle_blame* most_of(idle_cause c) const {
    return most_blamed(blames, [c](const idle_blame& b) { return b.cause == c; });
  }
  /// Recorded time before the first and after the last work of each device, summed without overflow (add_ns).
  std::int64_t around_ns() const noexcept {
    std::int64_t sum = before_ns;
    add_ns(sum, after_ns);
    return sum;
  }
  /// Counts recorded time before and after a device's work. @param active from the device's first work to its last
  void add_around(const std::vector<interval>& recorded, interval active) {
    for (const interval v : recorded) {
      add_ns(before_ns, clip(v, {v.start_ns, active.start_ns}).length_ns());
      add_ns(after_ns, clip(v, {active.end_ns, v.end_ns}).length_ns());
    }
  }
};

/// Calls `each(const idle_gap&)` for each gap of a sealed log, one device after the other, in order. Of a trace that
/// was paused, only what was recorded is idle; the rest is not known.
/// @param known by device: from the first to the last work of earlier logs, whose gaps are known already
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

/// From the first work of a device to its last. The device must have work.
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

/// Device, cause, and the log's numbers of the call's name and the stage's name.
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
    const auto found = row_of_.emplace(key, rows_.size());
    if (found.second) {
      idle_blame b;
      b.device = g.device;
      b.cause = g.cause;
      if (g.call != 0) b.call = log_.names().name(g.call);
      if (std::get<3>(key) != 0) b.stage = log_.names().name(std::get<3>(key));
      rows_.push_back(std::move(b));
    }
    return rows_[found.first->second];
  }

  const trace_log& log_;
  std::size_t keep_;
  std::int64_t stretch_ns_;
  idle_report report_;
  std::vector<idle_blame> rows_;
  std::map<idle_row_key, std::size_t> row_of_;
};

}  // namespace analysis
CUTRACE_END_NAMESPACE
