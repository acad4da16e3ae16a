// SPDX-License-Identifier: Apache-2.0
// How long work waits from its launching call until the device starts it.
//
//   delay = start of the work - end of its call (HTA's launch delay, there max(0, .)). Negative values are not clipped
//   but counted apart: `during_call` where the work starts while its call still runs (an eager device), `skew` where it
//   seems to start before the call began, which no clock should tell.
//   Outliers as in HTA: calls longer than 50 us, delays longer than 100 us. Short kernels: GPU time < time of the call.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cutrace/analysis/duration_histogram.hpp>
#include <cutrace/analysis/trace_log.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace analysis {

struct launch_report {
  std::uint64_t launched = 0;  ///< work with a known call
  std::uint64_t unknown = 0;   ///< without
  duration_histogram delay;    ///< of what started after its call had returned
  std::uint64_t during_call = 0;
  std::uint64_t skew = 0;
  std::int64_t largest_skew_ns = 0;
  std::uint64_t slow_calls = 0;     ///< over 50 us
  std::uint64_t late_starts = 0;    ///< delay over 100 us
  std::uint64_t short_kernels = 0;  ///< shorter than their call, not part of a graph
  std::uint64_t kernels = 0;        ///< with a known call, not part of a graph
  duration_histogram call_time;     ///< of the launching calls, one for each work
};

/// @param l of `w`
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

}  // namespace analysis
CUTRACE_END_NAMESPACE
