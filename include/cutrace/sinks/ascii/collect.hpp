// SPDX-License-Identifier: Apache-2.0
// Everything that the ASCII report needs of a trace, gathered event by event in bounded memory.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cutrace/analysis/alarms.hpp>
#include <cutrace/analysis/bounds.hpp>
#include <cutrace/analysis/breakdown.hpp>
#include <cutrace/analysis/idle_watch.hpp>
#include <cutrace/analysis/interval_set.hpp>
#include <cutrace/analysis/operations.hpp>
#include <cutrace/analysis/stages.hpp>
#include <cutrace/analysis/summary.hpp>
#include <cutrace/analysis/time_bins.hpp>
#include <cutrace/event.hpp>
#include <map>
#include <string>
#include <utility>

CUTRACE_BEGIN_NAMESPACE
namespace ascii {

/// A row of the timeline, and the union of what is in it. A `color` is the number of a category or of a stage.
struct chart_row {
  CUTRACE_NOINLINE explicit chart_row(const analysis::bounds& limits) : colors(512), busy(limits.row_intervals) {}
  analysis::timeline_row colors;
  analysis::interval_set busy;
  bool used = false;

  void add(analysis::interval v, std::uint32_t color) {
    used = true;
    colors.add(v, color);
    busy.insert(v);
  }
};

/// Rows of host calls, outermost first: runtime calls, the driver calls inside of them, the ioctls that driver calls
/// make to NVIDIA's kernel driver, and all else that Linux did or a probe recorded.
enum class call_depth : std::uint8_t { runtime, driver, ioctl, system };
constexpr std::size_t call_depth_count = 4;
constexpr std::size_t stage_depth_count = 4;  ///< stages at larger depths share the last row

/// GPU work outside of all stages (outside_), and GPU work whose stage is not known any more (unknown_).
struct work_without_stage {
  std::int64_t outside_ns = 0, unknown_ns = 0;
  std::uint64_t outside_operations = 0, unknown_operations = 0;
};

class collection {
 public:
  /// @param gaps how many of the longest gaps are kept
  CUTRACE_NOINLINE collection(std::int64_t start_ns, const analysis::bounds& limits, std::size_t gaps)
      : time(start_ns, limits),
        idle(start_ns, limits, gaps),
        stages(start_ns, limits),
        gpu_operations(limits),
        calls(limits),
        numbers(limits),
        stage_rows{chart_row(limits), chart_row(limits), chart_row(limits), chart_row(limits)},
        call_rows{chart_row(limits), chart_row(limits), chart_row(limits), chart_row(limits)},
        other_streams(limits),
        start_ns_(start_ns),
        limits_(limits) {}

  void add(const event& e) {
    using analysis::category;
    const analysis::interval v = analysis::clip(analysis::interval_of(e), {start_ns_, INT64_MAX});
    category c = category::other;
    switch (e.kind) {
      case event_kind::kernel:
      case event_kind::memcpy:
      case event_kind::memset:
      case event_kind::graph_launch:
        c = gpu_operations.add(e);
        stream(e.device, e.stream).add(v, static_cast<std::uint32_t>(c));
        break;
      case event_kind::api:
        c = calls.add(e);
        add_call(e.api.runtime_api ? call_depth::runtime : call_depth::driver, v, c);
        break;
      case event_kind::jit:
        c = category::init;
        add_call(call_depth::driver, v, c);
        break;
      case event_kind::ioctl:
        add_call(call_depth::ioctl, v, c);
        break;
      case event_kind::system:
        add_call(call_depth::system, v, c);
        break;
      case event_kind::stage:
        stage_rows[std::min<std::size_t>(e.depth, stage_depth_count - 1)].add(v, stages.number(e.name));
        break;
      case event_kind::device:
        if (limits_.devices == 0 || device_names.size() < limits_.devices)
          device_names[e.device] = std::string(e.name.data, std::min<std::size_t>(e.name.size, 128));
        break;
      case event_kind::alarm:
        alarms.add(e);
        break;
      default:
        break;
    }
    stages.add(e);
    idle.add(e);
    time.add(e, c);
    numbers.add(e, c);
  }

  work_without_stage without_stage() const {
    return {stages.gpu_outside_ns(), stages.gpu_unknown_ns(), stages.gpu_outside_operations(),
            stages.gpu_unknown_operations()};
  }

  analysis::breakdown time;
  analysis::idle_watch idle;
  analysis::stage_table stages;
  analysis::operation_table gpu_operations;
  analysis::operation_table calls;
  analysis::summary numbers;
  analysis::alarm_log alarms;
  std::array<chart_row, stage_depth_count> stage_rows;
  std::array<chart_row, call_depth_count> call_rows;
  std::map<std::pair<std::uint32_t, std::uint64_t>, chart_row> stream_rows;  ///< by device and stream
  chart_row other_streams;                                                   ///< streams beyond the bounds
  std::map<std::uint32_t, std::string> device_names;

 private:
  void add_call(call_depth d, analysis::interval v, analysis::category c) {
    call_rows[static_cast<std::size_t>(d)].add(v, static_cast<std::uint32_t>(c));
  }

  chart_row& stream(std::uint32_t device, std::uint64_t id) {
    const std::pair<std::uint32_t, std::uint64_t> key(device, id);
    const auto found = stream_rows.find(key);
    if (found != stream_rows.end()) return found->second;
    if (limits_.streams != 0 && stream_rows.size() >= limits_.streams) return other_streams;
    return stream_rows.emplace(key, chart_row(limits_)).first->second;
  }

  std::int64_t start_ns_;
  analysis::bounds limits_;
};

}  // namespace ascii
CUTRACE_END_NAMESPACE
