// SPDX-License-Identifier: Apache-2.0
// Rules on copies. What they win (the time that a fix can save) is exposed time, in which a copy ran and no kernel did;
// it is split among the rules, never counted twice, and lies outside of every idle gap.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "report/copies.hpp"
#include "report/device_activity.hpp"
#include "report/finding_places.hpp"

CUTRACE_BEGIN_NAMESPACE
namespace analysis {

class copy_rules {
 public:
  /// @param least_ns findings that win less are left out
  copy_rules(const trace_log& log, const std::vector<copy_row>& copies, double least_ns)
      : log_(log), copies_(copies), least_ns_(least_ns) {}

  CUTRACE_ONE_COPY void find(const device_activity& d, std::vector<finding>& list) {
    won_ns_ = 0;
    pageable(d, list);
    bandwidth(d, list);
    placement(d, list);
  }

 private:
  /// Share of the nominal peak bandwidth that large pinned copies reach in practice.
  static constexpr double reachable = 0.8;

  static bool between_memories(work_class c) noexcept { return is_host_copy(c) || c == work_class::peer; }

  bool worth(const finding& f) const noexcept { return f.win_ns > 0 && static_cast<double>(f.win_ns) >= least_ns_; }

  /// Blames the stage with most exposed time: copies behind kernels cost nothing.
  template <class Is>
  void report(finding& f, Is&& is) const {
    const device_work& d = log_.devices().at(f.device);
    work_places places(log_);
    exposed_time exposed(log_, d);
    for (const std::uint32_t i : d.order) {
      const gpu_work& w = log_.work()[i];
      const std::int64_t ns = is_copy(w.is) ? exposed.of(w) : 0;
      if (is(w)) places.add(w, ns);
    }
    places.report(f);
  }

  /// Share of its time that a row would not need at the bandwidth that is within reach; 0 where no peak is known.
  static double avoidable(const copy_row& r) noexcept {
    if (r.peak_bytes_per_s <= 0 || r.union_ns <= 0) return 0;
    return std::max(0.0, 1.0 - r.joint_bytes_per_s() / (reachable * r.peak_bytes_per_s));
  }

  /// Copies from or to pageable memory go through a buffer of the driver: the host and copies on other streams wait.
  /// Won: the part of the exposed time that the same bytes would not need from pinned memory; all of it, as an upper
  /// bound, where the link's speed is not known.
  void pageable(const device_activity& d, std::vector<finding>& list) {
    finding f;
    f.is = finding_kind::pageable_copies;
    f.device = d.device;
    double win = 0, bytes = 0, ns = 0;
    for (const copy_row& r : copies_) {
      if (r.device != d.device || !r.pageable || !is_host_copy(r.is)) continue;
      add_ns(f.cost_ns, r.exposed_ns);
      win += static_cast<double>(r.exposed_ns) * (r.peak_bytes_per_s > 0 ? avoidable(r) : 1.0);
      bytes += static_cast<double>(r.bytes);
      ns += static_cast<double>(r.union_ns);
      f.peak_bytes_per_s = std::max(f.peak_bytes_per_s, r.peak_bytes_per_s);
    }
    if (ns <= 0) return;
    f.bytes_per_s = bytes * 1e9 / ns;
    f.win_ns = static_cast<std::int64_t>(win);
    won_ns_ += f.win_ns;
    if (!worth(f)) return;
    report(f, [](const gpu_work& w) { return w.pageable && is_host_copy(w.is); });
    list.push_back(std::move(f));
  }

  /// Pinned copies, and copies inside a device, below half of the peak. Won: the share of their exposed time that they
  /// would not take at the bandwidth within reach.
  void bandwidth(const device_activity& d, std::vector<finding>& list) {
    for (const copy_row& r : copies_) {
      if (r.device != d.device || (r.pageable && is_host_copy(r.is))) continue;
      if (r.peak_bytes_per_s <= 0 || r.joint_bytes_per_s() >= r.peak_bytes_per_s / 2) continue;
      finding f;
      f.is = finding_kind::low_bandwidth;
      f.device = d.device;
      f.cost_ns = r.exposed_ns;
      f.win_ns = static_cast<std::int64_t>(static_cast<double>(r.exposed_ns) * avoidable(r));
      f.bytes_per_s = r.joint_bytes_per_s();
      f.peak_bytes_per_s = r.peak_bytes_per_s;
      f.small_ones = 2 * r.small_ns > r.gpu_ns;
      if (between_memories(r.is)) won_ns_ += f.win_ns;
      if (!worth(f)) continue;
      report(f, [&](const gpu_work& w) {
        return w.is == r.is && w.pageable == r.pageable && w.asynchronous == r.asynchronous;
      });
      f.kernel = name_of(r.is);
      list.push_back(std::move(f));
    }
  }

  /// Exposed time that the other rules left. Where exposed copies are at least half of the busy time, the data should
  /// stay on the device: won is at most all that is left. Else copies should run behind kernels: won is also at most
  /// the time of kernels without a copy, since a copy can only hide behind such a kernel.
  void placement(const device_activity& d, std::vector<finding>& list) {
    std::int64_t exposed_ns = 0;
    for (const copy_row& r : copies_)
      if (r.device == d.device && between_memories(r.is)) add_ns(exposed_ns, r.exposed_ns);
    const std::int64_t rest_ns = std::max<std::int64_t>(0, exposed_ns - won_ns_);
    const std::int64_t kernels_alone_ns = d.kernel_ns - (d.copy_ns - d.exposed_copy_ns);
    finding f;
    f.device = d.device;
    f.cost_ns = exposed_ns;
    if (2 * exposed_ns >= d.busy_ns) {
      f.is = finding_kind::transfers_dominate;
      f.win_ns = rest_ns;
    } else {
      f.is = finding_kind::unused_overlap;
      f.win_ns = std::min(rest_ns, std::max<std::int64_t>(0, kernels_alone_ns));
    }
    if (!worth(f)) return;
    report(f, [](const gpu_work& w) { return between_memories(w.is); });
    list.push_back(std::move(f));
  }

  const trace_log& log_;
  const std::vector<copy_row>& copies_;
  double least_ns_;
  std::int64_t won_ns_ = 0;  ///< exposed time of the device that the rules so far win
};

}  // namespace analysis
CUTRACE_END_NAMESPACE
