// SPDX-License-Identifier: Apache-2.0
// How much the accumulators of this folder may keep. Zero means: no limit, exact results, memory grows with the trace.
// A sink asks for bounds that fit its memory; what does not fit is folded (merged, with less detail) or left out,
// counted, and marked as approximate.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cutrace/config.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace analysis {

struct bounds {
  std::size_t intervals = 0;         ///< of one union over the whole process
  std::size_t row_intervals = 0;     ///< of one union of a stage, stream or device
  std::size_t stages = 0;            ///< names of stages with a row of their own
  std::size_t names = 0;             ///< names with a row of their own in one operation_table
  std::size_t name_bytes = 0;        ///< text in one name table
  std::size_t waiting_work = 0;      ///< pieces of GPU work that wait for the end of the stages around them
  std::size_t closed_instances = 0;  ///< ended stages that late GPU work can still find
  std::size_t live_allocations = 0;
  std::size_t streams = 0;
  std::size_t devices = 0;
  std::size_t histograms = 0;  ///< names with percentiles in one operation_table
  std::size_t log_bytes = 0;   ///< of one log of events, which idle_watch analyses as a whole

  /// Bounds that keep everything together below `bytes` (at least 512 KiB). The parts of 8 MiB, worst case: unions of
  /// the process 1.1 MiB, stages 1.7, names 1.0, devices and streams 0.6, instances 0.6, allocations 0.6, timeline 0.5,
  /// percentiles 0.6, the log of events with what its analysis needs 1.3.
  static bounds for_bytes(std::size_t bytes) noexcept {
    const std::size_t scale = std::max<std::size_t>(bytes, 512u << 10);
    const auto part = [&](std::size_t at_8_mib, std::size_t least) {
      return std::max(least, at_8_mib * (scale >> 10) / (8u << 10));
    };
    bounds b;
    b.intervals = part(3072, 64);
    b.row_intervals = part(768, 16);
    b.stages = part(32, 8);
    b.names = part(2304, 64);
    b.name_bytes = part(288u << 10, 8u << 10);
    b.waiting_work = part(24576, 4096);
    b.closed_instances = part(3072, 64);
    b.live_allocations = part(6144, 64);
    b.streams = part(16, 4);
    b.devices = part(16, 2);
    b.histograms = part(256, 16);
    b.log_bytes = part(640u << 10, 40u << 10);
    return b;
  }
};

}  // namespace analysis
CUTRACE_END_NAMESPACE
