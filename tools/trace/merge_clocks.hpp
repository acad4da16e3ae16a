// SPDX-License-Identifier: Apache-2.0
// How the times of several traces become times of one: the offset added to the times of each, and its error bound.
//
//   one boot     out = t - trace + monotonic - (monotonic of the first): exact, CLOCK_MONOTONIC is the kernel's
//   other hosts  within each boot likewise; between boots by CLOCK_REALTIME, read together with CLOCK_MONOTONIC at the
//                start of the boot's earliest trace. No file records how far the clocks of two hosts differ (NTP, PTP)
// where trace, monotonic and realtime are the three clocks as the file's head has them, taken together within
// `error_ns`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cutrace/event.hpp>
#include <string>
#include <vector>

#include "trace/feed.hpp"

namespace cutrace_reading {

/// ns + by_ns; wraps instead of overflowing, since a file may have any clocks.
inline std::int64_t shifted(std::int64_t ns, std::int64_t by_ns) noexcept {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(ns) + static_cast<std::uint64_t>(by_ns));
}

/// Adds `offset_ns` to all times of an event.
inline void shift_times(cutrace::event& e, std::int64_t offset_ns) {
  const auto shift = [offset_ns](std::int64_t& ns) { ns = shifted(ns, offset_ns); };
  shift(e.start_ns);
  shift(e.end_ns);
  shift(e.call_start_ns);
  if (e.kind != cutrace::event_kind::kernel) return;
  if (e.kernel.queued_ns != 0) shift(e.kernel.queued_ns);
  if (e.kernel.submitted_ns != 0) shift(e.kernel.submitted_ns);
}

struct clock_place {
  std::int64_t offset_ns = 0;      ///< add it to a time of the trace
  bool by_monotonic = true;        ///< else by CLOCK_REALTIME
  std::uint64_t error_ns = 0;      ///< bound of the reading of the clocks, the first trace's included
  std::size_t representative = 0;  ///< the trace whose clocks tie this boot to the others
};

struct clock_plan {
  std::size_t first = 0;            ///< the trace that began first: its beginning is time 0
  std::vector<clock_place> places;  ///< one for each trace
};

/// @param names of the traces, for messages. @throws reading_error where a trace has no clock by which it can be placed
clock_plan plan_clocks(const std::vector<trace_facts>& traces, const std::vector<std::string>& names);

}  // namespace cutrace_reading
