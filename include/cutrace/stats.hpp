// SPDX-License-Identifier: Apache-2.0
// Loss is a number: what was produced, what was delivered, and what became of the rest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cutrace/event.hpp>

CUTRACE_BEGIN_NAMESPACE

/// Quality of records that *are* delivered.
enum class quality : std::uint8_t {
  no_timestamp,      ///< GPU records with start = end = 0: the device had no room for times
  unattributed,      ///< GPU work without a known call; see `unattributed_by`
  skew,              ///< GPU work that seems to start before its call by more than the clock's bound
  late,              ///< delivered after events that ended later
  stage_unknown,     ///< stages, calls and GPU work whose stage had to make room, or whose record of it was lost
  requests_unknown,  ///< the same for the requests: their number is known, and no name
  incomplete,        ///< GPU work that was unfinished when it was asked for: its times are lost, see event::incomplete
};
inline constexpr std::size_t quality_count = 7;

struct sink_stats {
  char name[32];
  std::uint64_t delivered;  ///< = written + lost
  std::uint64_t written;
  std::uint64_t lost;
  bool failed;        ///< threw or reported an error, and was closed
  char failure[160];  ///< why, or why it left events out; empty otherwise
};
inline constexpr std::size_t sink_limit = 16;

/// Snapshot. produced = delivered + sum(lost) holds exactly once the session has ended; while it runs, records that
/// wait in chunks or in the ordering window are `pending`.
struct stats {
  std::uint64_t produced;
  std::uint64_t delivered;
  std::uint64_t pending;
  std::uint64_t lost[loss_cause_count];  ///< by loss_cause; sink_failed is counted per sink and stays 0 here
  std::uint64_t quality_of[quality_count];
  std::uint64_t lacking;             ///< delivered events without their call, stage or requests; each once
  std::uint64_t unattributed_by[6];  ///< by attribution
  std::uint64_t by_kind[event_kind_count];
  std::uint64_t memory_bytes;  ///< owned by cutrace now
  std::uint64_t memory_limit_bytes;
  std::uint64_t clock_error_ns;  ///< bound of the distance of any time from CLOCK_MONOTONIC, so far
  std::uint64_t launches_seen;   ///< calls that make GPU work
  std::uint64_t gpu_records_seen;
  std::uint64_t collector_cpu_ns;
  sink_stats sinks[sink_limit];
  std::uint32_t sink_count;

  std::uint64_t lost_total() const noexcept {
    std::uint64_t n = 0;
    for (std::uint64_t v : lost) n += v;
    return n;
  }
};

CUTRACE_END_NAMESPACE
