// SPDX-License-Identifier: Apache-2.0
// The machine that is simulated: its sizes, speeds and clock. The defaults are in the order of a current data-centre
// GPU.
#pragma once

#include <cstdint>
#include <cutrace/clock.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace sim {

/// The time that the model lives in: nanoseconds, never going back. Called from any thread, also under the model's
/// lock. A clock that a test moves by hand has `runs` = false: nothing then waits for it, and host functions run when
/// the test calls `machine::hosts().run_due()`.
struct time_source {
  std::uint64_t (*now_ns)(void* user) = [](void*) { return clock::monotonic_ns(); };
  void* user = nullptr;
  bool runs = true;
  std::uint64_t now() const { return now_ns(user); }
};

struct options {
  std::uint32_t devices = 1;
  std::uint64_t seed = 1;
  std::uint64_t memory_bytes = std::uint64_t{16} << 30;  ///< of each device
  std::uint32_t multiprocessors = 132;
  std::uint32_t concurrent_kernels = 128;     ///< kernels of one device that may run at the same time
  std::uint64_t launch_latency_ns = 2500;     ///< from the call to the earliest start on the device
  std::uint64_t node_latency_ns = 500;        ///< from the end of a graph node to the start of a dependent one
  std::uint64_t copy_latency_ns = 1000;       ///< fixed part of each copy
  double host_to_device_bytes_per_ns = 50.0;  ///< 1 byte a nanosecond = 1 GB/s
  double device_to_host_bytes_per_ns = 50.0;
  double pageable_bytes_per_ns = 10.0;  ///< copies from and to memory that is not pinned
  double device_bytes_per_ns = 2000.0;  ///< copies and sets within a device
  double peer_bytes_per_ns = 400.0;
  std::uint64_t kernel_duration_ns = 0;  ///< of kernels without a duration of their own; 0: drawn
  time_source time;
};

}  // namespace sim
CUTRACE_END_NAMESPACE
