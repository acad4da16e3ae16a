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
#include <cutrace/analysis/names.hpp>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "report/thread_stages.hpp"
#include "report/trace_log.hpp"

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
    const gpu_work& w = log_.work()[next];
    const trace_log::launch l = log_.launch_of(w);
    g.stage = w.stage;
    if (!l.known) return g;
    const std::int64_t called_ns = std::min(l.when.start_ns, gap.end_ns);
    if (l.call != nullptr) g.call = l.call->name;
    if (called_ns <= gap.start_ns) {
      const bool queued = l.when.end_ns - gap.start_ns <= gap.length_ns() / 2;
      g.cause =
          queued && gap.length_ns() > launch_latency_limit_ns ? idle_cause::dependency : idle_cause::launch_latency;
      return g;
    }
    if (!in_stages_.empty() && unended_around(w.stage) == stage_log::none && 2 * in_stages(gap) < gap.length_ns()) {
      g.cause = idle_cause::no_work;
      g.call = 0;
      g.stage = 0;
      return g;
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
