// SPDX-License-Identifier: Apache-2.0
// Loss is a number: what was produced, what was delivered, and what became of the rest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cutrace/event.hpp>

CUTRACE_BEGIN_NAMESPACE

/// Quality of records that *are* delivered.
enum class quality : std::uint8_t {
  no_timestamp,      ///< GPU records that came with start = end = 0: the device had no room for times
  unattributed,      ///< GPU work without a known call (attribution no_callback or expired)
  skew,              ///< GPU work that seems to start before its call, see event::skewed
  late,              ///< delivered after events that ended later
  stage_unknown,     ///< events whose stage is not known: its record was lost, or dropped for lack of memory
  requests_unknown,  ///< events of which only the number of requests is known, for the same reasons
  incomplete,        ///< GPU work without times, since it had not ended when its record was fetched
};
inline constexpr std::size_t quality_count = 7;

struct sink_stats {
  char name[32];
  std::uint64_t delivered;  ///< = written + lost
  std::uint64_t written;
  std::uint64_t lost;
  bool failed;        ///< threw or never returned, and was not called again
  char failure[160];  ///< why, or why it left events out; empty otherwise
};
inline constexpr std::size_t sink_limit = 16;  ///< sinks with statistics; further ones work, and are not listed

/// Snapshot. When the session has ended, produced = delivered + sum(lost) holds exactly; while it runs, records that
/// wait in chunks or in the ordering window are `pending`.
struct stats {
  std::uint64_t produced;
  std::uint64_t delivered;
  std::uint64_t pending;
  std::uint64_t lost[loss_cause_count];  ///< by loss_cause; sink_failed is counted per sink and stays 0 here
  std::uint64_t quality_of[quality_count];
  std::uint64_t lacking;             ///< delivered events without their call, stage or requests; each once
  std::uint64_t unattributed_by[6];  ///< GPU work, by attribution; by_call is not counted
  std::uint64_t by_kind[event_kind_count];
  std::uint64_t memory_bytes;  ///< owned by cutrace now
  std::uint64_t memory_limit_bytes;
  std::uint64_t clock_error_ns;  ///< by how much any time may differ from CLOCK_MONOTONIC, as measured so far
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
