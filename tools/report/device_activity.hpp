// SPDX-License-Identifier: Apache-2.0
// What each device did: busy, idle, active span, and the overlap of computing, communication and each kind of copy.
//
// Definitions (ns, half-open intervals; the temporal breakdown of HTA, Holistic Trace Analysis, has the same
// active, busy, compute and non_compute). |x| is the length of x without the time in which recording was paused:
//
//   active       = from the first start to the last end
//   busy         = |union of kernels, copies and sets over all streams|
//   unfinished   = |union of work without times, from its call to its last possible end| - what of it lies in busy
//   idle         = |active| - busy - unfinished
//   compute      = |union of kernels that are not communication|
//   non_compute  = busy - compute
//   overlap(a,b) = |union(a) ∩ union(b)|, of two classes of work
//   exposed(a)   = |union(a)| - what of it lies in the union of computing kernels
//   exposed_copy = |union of copies| - what of it lies in the union of all kernels, communication included
//
// So idle + unfinished + compute + non_compute = |active|.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cutrace/analysis/trace_log.hpp>
#include <memory>
#include <string>
#include <vector>

#include "report/mask_sweep.hpp"

CUTRACE_BEGIN_NAMESPACE
namespace analysis {

/// Times in ns.
struct device_activity {
  std::uint32_t device = 0;
  std::string name;  ///< empty where the trace does not describe it
  std::uint64_t operations = 0;
  std::uint64_t streams = 0;  ///< that had work
  interval active;
  std::int64_t busy_ns = 0;
  std::int64_t unfinished_ns = 0;  ///< covered by work without times and by no measured work
  std::int64_t idle_ns = 0;        ///< inside of `active`, in time that was recorded
  std::uint64_t gap_count = 0;     ///< idle stretches inside of `active`
  std::int64_t compute_ns = 0;
  std::int64_t non_compute_ns = 0;
  std::array<std::int64_t, work_class_count> class_ns{};    ///< union of each class
  std::array<std::int64_t, work_class_count> exposed_ns{};  ///< part of `class_ns` while no computing kernel ran
  std::array<std::array<std::int64_t, work_class_count>, work_class_count> overlap_ns{};
  std::int64_t kernel_ns = 0;        ///< union of all kernels, communication included
  std::int64_t copy_ns = 0;          ///< union of all copies
  std::int64_t exposed_copy_ns = 0;  ///< part of `copy_ns` while no kernel ran
};

CUTRACE_ONE_COPY inline device_activity find_activity(const trace_log& log, const device_work& d) {
  constexpr auto bit = [](work_class c) { return 1u << static_cast<unsigned>(c); };
  constexpr std::uint32_t unfinished = bit(work_class::unfinished);
  constexpr std::uint32_t all = ((1u << work_class_count) - 1) & ~unfinished;
  constexpr std::uint32_t kernels = bit(work_class::compute) | bit(work_class::communication);
  constexpr std::uint32_t copies = bit(work_class::host_to_device) | bit(work_class::device_to_host) |
                                   bit(work_class::device_to_device) | bit(work_class::peer) |
                                   bit(work_class::other_copy);
  device_activity a;
  a.device = d.device;
  a.name = d.name;
  a.operations = d.order.size();
  if (d.order.empty()) return a;
  const auto sweep = std::make_unique<mask_sweep<work_class_count>>(log.recorded());
  std::vector<bool> lane_seen(log.lanes().size(), false);
  std::int64_t until_ns = INT64_MIN, recorded_ns = 0;
  std::size_t piece = 0;
  a.active = {INT64_MAX, INT64_MIN};
  for (const std::uint32_t i : d.order) {
    const gpu_work& w = log.work()[i];
    sweep->add(static_cast<std::size_t>(w.is), w.when);
    if (until_ns != INT64_MIN) log.for_recorded({until_ns, w.when.start_ns}, piece, [&](interval) { ++a.gap_count; });
    a.active = {std::min(a.active.start_ns, w.when.start_ns), std::max(a.active.end_ns, w.when.end_ns)};
    until_ns = std::max(until_ns, w.when.end_ns);
    a.streams += !lane_seen[w.lane];
    lane_seen[w.lane] = true;
  }
  sweep->finish();
  a.busy_ns = sweep->any_ns(all);
  for (const interval v : log.recorded()) recorded_ns += clip(v, a.active).length_ns();
  a.unfinished_ns = sweep->only_ns(unfinished, all);
  a.idle_ns = std::max<std::int64_t>(recorded_ns - a.busy_ns - a.unfinished_ns, 0);
  a.compute_ns = sweep->any_ns(bit(work_class::compute));
  a.non_compute_ns = a.busy_ns - a.compute_ns;
  for (std::size_t i = 0; i < work_class_count; ++i) {
    a.class_ns[i] = sweep->any_ns(1u << i);
    a.exposed_ns[i] = sweep->only_ns(1u << i, bit(work_class::compute));
    for (std::size_t k = 0; k < work_class_count; ++k) a.overlap_ns[i][k] = sweep->both_ns(1u << i, 1u << k);
  }
  a.kernel_ns = sweep->any_ns(kernels);
  a.copy_ns = sweep->any_ns(copies);
  a.exposed_copy_ns = sweep->only_ns(copies, kernels);
  return a;
}

/// By device number; devices without work are left out.
CUTRACE_ONE_COPY inline std::vector<device_activity> find_activity(const trace_log& log) {
  std::vector<device_activity> list;
  for (const auto& d : log.devices())
    if (!d.second.order.empty()) list.push_back(find_activity(log, d.second));
  return list;
}

}  // namespace analysis
CUTRACE_END_NAMESPACE
