// SPDX-License-Identifier: Apache-2.0
// How much work was launched and had not started, over time, for each device.
//
//   length(t) = pieces of work whose call began at or before t - pieces that have started at or before t
// as in HTA, which counts by stream. Work whose call is not known is left out; work that seems to start before its call
// never waits. The mean is over the time from the first call to the last start.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cutrace/analysis/launch_delay.hpp>
#include <cutrace/analysis/trace_log.hpp>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace analysis {

struct queue_report {
  std::uint32_t device = 0;
  std::uint64_t longest = 0;
  double mean = 0;
  std::int64_t empty_ns = 0;  ///< time of `span` in which nothing waited
  interval span;              ///< from the first call to the last start
  std::vector<double> curve;  ///< mean length in equal parts of `span`
};

/// @param launches takes in each piece of work on the way
CUTRACE_ONE_COPY inline queue_report find_queue(const trace_log& log, const device_work& d, launch_report& launches,
                                                std::size_t parts = 60) {
  queue_report r;
  r.device = d.device;
  std::vector<std::int64_t> called, started;
  called.reserve(d.order.size());
  started.reserve(d.order.size());
  for (const std::uint32_t i : d.order) {
    const gpu_work& w = log.work()[i];
    const trace_log::launch l = log.launch_of(w);
    add_launch(launches, w, l);
    if (!l.known) continue;
    called.push_back(std::min(l.when.start_ns, w.when.start_ns));
    started.push_back(w.when.start_ns);
  }
  if (called.empty()) return r;
  sort_nearly(called, [](std::int64_t t_ns) { return t_ns; });
  r.span = {called.front(), started.back()};
  r.curve.assign(parts, 0.0);
  std::size_t part = 0;  // in which time now is: time only moves on
  const double part_ns = static_cast<double>(r.span.length_ns()) / static_cast<double>(parts);
  const auto stretch = [&](interval v, std::uint64_t length) {
    if (v.empty()) return;
    if (length == 0) r.empty_ns += v.length_ns();
    r.longest = std::max(r.longest, length);
    // Each part that the stretch crosses gets its share.
    double at = static_cast<double>(v.start_ns - r.span.start_ns);
    const double end = static_cast<double>(v.end_ns - r.span.start_ns);
    r.mean += (end - at) * static_cast<double>(length);
    while (at < end) {
      while (part + 1 < parts && part_ns * static_cast<double>(part + 1) <= at) ++part;
      const double edge = part + 1 == parts ? end : std::min(end, part_ns * static_cast<double>(part + 1));
      r.curve[part] += (edge - at) * static_cast<double>(length);
      at = edge;
    }
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
    --length;  // its call began before: it is one of those counted
  }
  const double whole = static_cast<double>(r.span.length_ns());
  if (whole > 0) r.mean /= whole;
  for (double& mean : r.curve) mean = part_ns > 0 ? mean / part_ns : 0;
  return r;
}

}  // namespace analysis
CUTRACE_END_NAMESPACE
