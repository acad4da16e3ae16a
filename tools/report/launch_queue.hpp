// SPDX-License-Identifier: Apache-2.0
// How much work was launched and had not started, over time, for each device.
//
//   length(t) = pieces of work whose call began at or before t - pieces that have started at or before t
// as in HTA (Holistic Trace Analysis), which counts by stream. Work whose call is not known is left out; work that
// seems to start before its call never waits. The mean is over the time from the first call to the last start, as far
// as it was recorded: outside of that the queue's length is not known.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cutrace/analysis/duration_histogram.hpp>
#include <cutrace/analysis/trace_log.hpp>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace analysis {

// How long work waits from its launching call until the device starts it.
//
//   delay = start of the work - end of its call (HTA's launch delay, there max(0, .)). Negative values are not clipped
//   but counted apart: `during_call` where the work starts while its call still runs, `skew` where it seems to start
//   before the call began: the times of host and device then disagree.
//   Outliers as in HTA: calls longer than 50 us, delays longer than 100 us. Short kernels: GPU time < time of the call.

struct launch_report {
  std::uint64_t launched = 0;  ///< work with a known call
  std::uint64_t unknown = 0;   ///< work without a known call
  duration_histogram delay;    ///< of work that started after its call had returned
  std::uint64_t during_call = 0;
  std::uint64_t skew = 0;
  std::int64_t largest_skew_ns = 0;
  std::uint64_t slow_calls = 0;     ///< over 50 us
  std::uint64_t late_starts = 0;    ///< delay over 100 us
  std::uint64_t short_kernels = 0;  ///< shorter than their call, not part of a graph
  std::uint64_t kernels = 0;        ///< with a known call, not part of a graph
  duration_histogram call_time;     ///< of the launching calls, one for each work
};

/// @param l the launch of `w`
inline void add_launch(launch_report& r, const gpu_work& w, const trace_log::launch& l) {
  if (!l.known) {
    ++r.unknown;
    return;
  }
  ++r.launched;
  const std::int64_t delay_ns = w.when.start_ns - l.when.end_ns;
  if (w.when.start_ns < l.when.start_ns) {
    ++r.skew;
    r.largest_skew_ns = std::max(r.largest_skew_ns, l.when.start_ns - w.when.start_ns);
  } else if (delay_ns < 0) {
    ++r.during_call;
  } else {
    r.delay.add(static_cast<std::uint64_t>(delay_ns));
    r.late_starts += delay_ns > 100000;
  }
  if (l.call == nullptr) return;
  const std::int64_t call_ns = l.when.length_ns();
  r.call_time.add(static_cast<std::uint64_t>(call_ns));
  r.slow_calls += call_ns > 50000;
  if (!is_kernel(w.is) || w.graph) return;
  ++r.kernels;
  r.short_kernels += w.when.length_ns() < call_ns;
}

struct queue_report {
  std::uint32_t device = 0;
  std::uint64_t longest = 0;
  double mean = 0;
  std::int64_t empty_ns = 0;     ///< time of `recorded_ns` in which nothing waited
  std::int64_t recorded_ns = 0;  ///< of `span`
  interval span;                 ///< from the first call to the last start
};

/// @param launches each piece of work of the device is added to it
CUTRACE_ONE_COPY inline queue_report find_queue(const trace_log& log, const device_work& d, launch_report& launches) {
  queue_report r;
  r.device = d.device;
  std::vector<std::int64_t> called, started;
  called.reserve(d.order.size());
  started.reserve(d.order.size());
  for (const std::uint32_t i : d.order) {
    const gpu_work& w = log.work()[i];
    if (w.is == work_class::unfinished) continue;  // when it began is not known
    const trace_log::launch l = log.launch_of(w);
    add_launch(launches, w, l);
    if (!l.known) continue;
    called.push_back(std::min(l.when.start_ns, w.when.start_ns));
    started.push_back(w.when.start_ns);
  }
  if (called.empty()) return r;
  sort_nearly(called, [](std::int64_t t_ns) { return t_ns; });
  r.span = {called.front(), started.back()};
  std::size_t hint = 0;
  const auto stretch = [&](interval v, std::uint64_t length) {
    log.for_recorded(v, hint, [&](interval known) {
      r.recorded_ns += known.length_ns();
      if (length == 0) r.empty_ns += known.length_ns();
      r.longest = std::max(r.longest, length);
      r.mean += static_cast<double>(known.length_ns()) * static_cast<double>(length);
    });
  };
  std::uint64_t length = 0;
  std::int64_t now_ns = r.span.start_ns;
  std::size_t c = 0;
  for (const std::int64_t start_ns : started) {
    for (; c < called.size() && called[c] <= start_ns; ++c, ++length) {
      stretch({now_ns, called[c]}, length);
      now_ns = std::max(now_ns, called[c]);
    }
    stretch({now_ns, start_ns}, length);
    now_ns = std::max(now_ns, start_ns);
    --length;  // the work's call began no later, so it was counted above
  }
  if (r.recorded_ns > 0) r.mean /= static_cast<double>(r.recorded_ns);
  return r;
}

}  // namespace analysis
CUTRACE_END_NAMESPACE
