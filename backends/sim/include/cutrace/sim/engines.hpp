// SPDX-License-Identifier: Apache-2.0
// The engines of one device: kernel slots and one copy engine for each direction. Work is placed in the order in which
// it is issued: start = max(ready, engine free), and the engine is taken until the end.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cutrace/sim/options.hpp>
#include <cutrace/sim/work.hpp>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace sim {

class engines {
 public:
  explicit engines(const options& o)
      : options_(o), kernel_slots_(o.concurrent_kernels == 0 ? 1 : o.concurrent_kernels) {}

  interval place_kernel(std::uint64_t ready_ns, std::uint64_t duration_ns) {
    // The latest slot that is free by then, so that earlier ones stay for works that are ready earlier.
    std::uint64_t* best = nullptr;
    for (std::uint64_t& slot : kernel_slots_)
      if (slot <= ready_ns && (best == nullptr || slot > *best)) best = &slot;
    if (best == nullptr) best = &*std::min_element(kernel_slots_.begin(), kernel_slots_.end());
    return take(*best, ready_ns, duration_ns);
  }

  interval place_copy(std::uint64_t ready_ns, const copy_work& c) {
    const double bytes = static_cast<double>(c.bytes());
    const bool pageable = c.source_kind == memory_kind::pageable || c.destination_kind == memory_kind::pageable;
    switch (c.direction) {
      case copy_direction::host_to_device:
        return take(host_to_device_, ready_ns,
                    copy_ns(bytes, pageable ? options_.pageable_bytes_per_ns : options_.host_to_device_bytes_per_ns));
      case copy_direction::device_to_host:
        return take(device_to_host_, ready_ns,
                    copy_ns(bytes, pageable ? options_.pageable_bytes_per_ns : options_.device_to_host_bytes_per_ns));
      case copy_direction::peer:
        return take(peer_, ready_ns, copy_ns(bytes, options_.peer_bytes_per_ns));
      case copy_direction::host_to_host:
        return take(host_to_host_, ready_ns, copy_ns(bytes, options_.pageable_bytes_per_ns));
      default:
        return take(device_to_device_, ready_ns, copy_ns(bytes, options_.device_bytes_per_ns));
    }
  }

  interval place_set(std::uint64_t ready_ns, const set_work& s) {
    return take(device_to_device_, ready_ns, copy_ns(static_cast<double>(s.bytes()), options_.device_bytes_per_ns));
  }

 private:
  static interval take(std::uint64_t& free_at, std::uint64_t ready_ns, std::uint64_t duration_ns) {
    const std::uint64_t start = std::max(free_at, ready_ns);
    free_at = start + duration_ns;
    return {start, free_at};
  }
  std::uint64_t copy_ns(double bytes, double bytes_per_ns) const {
    return options_.copy_latency_ns + static_cast<std::uint64_t>(bytes / bytes_per_ns);
  }

  const options& options_;
  std::vector<std::uint64_t> kernel_slots_;
  std::uint64_t host_to_device_ = 0, device_to_host_ = 0, device_to_device_ = 0, peer_ = 0, host_to_host_ = 0;
};

}  // namespace sim
CUTRACE_END_NAMESPACE
