// SPDX-License-Identifier: Apache-2.0
// Copies by direction and kind of memory: how many bytes at which bandwidth, against what the device could do, and how
// much of their time no kernel hid.
//
//   bandwidth       = sum of bytes / sum of durations (byte-weighted; a mean over copies would let small ones dominate)
//   joint bandwidth = sum of bytes / union of durations: what copies that run at once make of the link that they share
//   Small: up to 64 KiB, the size below which nsys' rule cuda_memcpy_sync ignores copies: latency, not bandwidth.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cutrace/analysis/trace_log.hpp>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace analysis {

/// Nominal peak of a copy in bytes/s, 0 where it is not known. On the device: half of the memory's bandwidth, because a
/// copy reads and writes. Between host and device: one direction of the link that GPUs of that compute capability have,
/// PCI Express with 16 lanes, after its line code (7.x: generation 3, 8.x: 4, 9.0 and later: 5; NVIDIA's data sheets).
/// Between devices it depends on how they are connected: 0.
inline double peak_bytes_per_s(const device_data& d, work_class c) noexcept {
  if (c == work_class::device_to_device) return static_cast<double>(d.memory_bandwidth_bytes_per_s) / 2;
  if (!is_host_copy(c)) return 0;
  switch (d.compute_major) {
    case 7:
      return 15.75e9;
    case 8:
      return 31.5e9;
    case 9:
    case 10:
    case 12:
      return 63e9;
    default:
      return 0;
  }
}

struct copy_row {
  static constexpr std::uint64_t small_bytes = 64u << 10;
  std::uint32_t device = 0;
  work_class is = work_class::other_copy;
  bool pageable = false;  ///< the memory on the host's side is pageable
  bool asynchronous = false;
  std::uint64_t count = 0, bytes = 0;
  std::int64_t gpu_ns = 0;      ///< sum of durations
  std::int64_t union_ns = 0;    ///< time in which at least one ran
  std::int64_t exposed_ns = 0;  ///< union, without the time in which a kernel ran
  std::uint64_t small_count = 0, small_bytes_sum = 0;
  std::int64_t small_ns = 0;
  double peak_bytes_per_s = 0;

  double bytes_per_s() const noexcept {
    return gpu_ns == 0 ? 0.0 : static_cast<double>(bytes) * 1e9 / static_cast<double>(gpu_ns);
  }
  double joint_bytes_per_s() const noexcept {
    return union_ns == 0 ? 0.0 : static_cast<double>(bytes) * 1e9 / static_cast<double>(union_ns);
  }
};

/// Time of a device's copies in which no kernel ran, and no copy that had started before.
class exposed_time {
 public:
  exposed_time(const trace_log& log, const device_work& d) : log_(log) {
    for (const std::uint32_t i : d.order)
      if (is_kernel(log.work()[i].is)) append_merged(kernels_, log.work()[i].when);
  }

  /// For each copy of the device in the order of start.
  std::int64_t of(const gpu_work& copy) {
    const interval fresh{std::max(copy.when.start_ns, counted_ns_), copy.when.end_ns};
    counted_ns_ = std::max(counted_ns_, copy.when.end_ns);
    if (fresh.empty()) return 0;
    std::int64_t ns = 0;
    while (first_ < kernels_.size() && kernels_[first_].end_ns <= fresh.start_ns) ++first_;
    log_.for_recorded(fresh, piece_, [&](interval v) {
      add_ns(ns, v.length_ns());
      for (std::size_t k = first_; k < kernels_.size() && kernels_[k].start_ns < v.end_ns; ++k)
        ns -= clip(kernels_[k], v).length_ns();
    });
    return ns;
  }

 private:
  const trace_log& log_;
  std::vector<interval> kernels_;
  std::size_t first_ = 0, piece_ = 0;
  std::int64_t counted_ns_ = INT64_MIN;
};

/// Rows by device, class, kind of memory; only those that occur. `exposed_ns` are disjoint: where several copies run at
/// once, the time counts for the copy that started first.
CUTRACE_ONE_COPY inline std::vector<copy_row> find_copies(const trace_log& log) {
  std::vector<copy_row> list;
  for (const auto& d : log.devices()) {
    std::array<copy_row, work_class_count * 4> rows{};
    std::array<std::int64_t, work_class_count * 4> rows_until_ns;
    rows_until_ns.fill(INT64_MIN);
    exposed_time exposed(log, d.second);
    for (const std::uint32_t i : d.second.order) {
      const gpu_work& w = log.work()[i];
      if (!is_copy(w.is)) continue;
      const std::size_t n = static_cast<std::size_t>(w.is) * 4 + (w.pageable ? 2u : 0u) + (w.asynchronous ? 1u : 0u);
      copy_row& r = rows[n];
      const std::int64_t ns = w.when.length_ns();
      r.device = d.first;
      r.is = w.is;
      r.pageable = w.pageable;
      r.asynchronous = w.asynchronous;
      r.peak_bytes_per_s = peak_bytes_per_s(d.second.about, w.is);
      ++r.count;
      r.bytes += w.amount;
      add_ns(r.gpu_ns, ns);
      add_ns(r.union_ns, interval{std::max(w.when.start_ns, rows_until_ns[n]), w.when.end_ns}.length_ns());
      rows_until_ns[n] = std::max(rows_until_ns[n], w.when.end_ns);
      if (w.amount <= copy_row::small_bytes) {
        ++r.small_count;
        r.small_bytes_sum += w.amount;
        add_ns(r.small_ns, ns);
      }
      add_ns(r.exposed_ns, exposed.of(w));
    }
    for (const copy_row& r : rows)
      if (r.count > 0) list.push_back(r);
  }
  return list;
}

}  // namespace analysis
CUTRACE_END_NAMESPACE
