// SPDX-License-Identifier: Apache-2.0
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
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cutrace/analysis/trace_log.hpp>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace analysis {

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
  std::uint32_t stage = 0;  ///< stage_log number of the innermost stage to blame
  std::uint32_t next = 0;   ///< place of the work that ended it, in trace_log::work
};

class idle_classifier {
 public:
  explicit idle_classifier(const trace_log& log) : log_(log), hints_(log.threads().size(), 0) {
    std::vector<interval> open;
    for (const std::uint32_t n : log.stage_order()) add(open, log.stages()[n].when);
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
    if (!in_stages_.empty() && 2 * in_stages(gap) < gap.length_ns()) {
      g.cause = idle_cause::no_work;
      g.call = 0;
      g.stage = 0;
      return g;
    }
    late_host(g, w, called_ns);
    g.stage = stage_at(g.stage, gap.start_ns + (called_ns - gap.start_ns) / 2);
    return g;
  }

 private:
  static void add(std::vector<interval>& list, interval v) {  // sorted by start
    if (!list.empty() && v.start_ns <= list.back().end_ns)
      list.back().end_ns = std::max(list.back().end_ns, v.end_ns);
    else
      list.push_back(v);
  }

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
      return blame(idle_cause::host_wait, longest);
    }
    if (most_ns == waiting.ns && waiting.ns > 0) return blame(idle_cause::sync_wait, waiting.longest);
    g.cause = idle_cause::launch_latency;
  }

  /// Innermost of `stage` and the stages around it that ran at that time.
  std::uint32_t stage_at(std::uint32_t stage, std::int64_t t_ns) const {
    const stage_log& stages = log_.stages();
    std::uint32_t n = stage;
    for (int level = 0; n != stage_log::none && level < 64; ++level) {
      const stage_instance& s = stages[n];
      if (!s.ended || (s.when.start_ns <= t_ns && t_ns < s.when.end_ns)) return n;
      n = stages.parent_of(n);
    }
    return stage;  // before its first call the stage was not open: then the one that came too late
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

  const trace_log& log_;
  std::vector<std::size_t> hints_;
  std::vector<interval> in_stages_;
  std::size_t at_ = 0;
};

}  // namespace analysis
CUTRACE_END_NAMESPACE
