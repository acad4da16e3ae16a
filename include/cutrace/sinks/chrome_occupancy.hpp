// SPDX-License-Identifier: Apache-2.0
// How full a kernel's launch makes its GPU, as Kineto's files say it, from the device's description and what is fixed
// for its compute capability (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability";
// cuda_occupancy.h of CUDA 13.0). Pure functions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cutrace/config.hpp>
#include <cutrace/event.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace detail {

/// All zero where the compute capability is not known.
struct multiprocessor_limits {
  std::uint32_t threads;             ///< resident on a multiprocessor
  std::uint32_t blocks;              ///< likewise
  std::uint32_t shared_bytes;        ///< of a multiprocessor
  std::uint32_t shared_optin_bytes;  ///< that one block can have
};
constexpr std::uint32_t warp_threads = 32, multiprocessor_registers = 65536;

constexpr multiprocessor_limits limits_of(std::uint32_t major, std::uint32_t minor) noexcept {
  constexpr std::uint32_t kib = 1024;
  switch (major * 10 + minor) {
    case 70:
    case 72:
      return {2048, 32, 96 * kib, 96 * kib};
    case 75:
      return {1024, 16, 64 * kib, 64 * kib};
    case 80:
      return {2048, 32, 164 * kib, 163 * kib};
    case 86:
      return {1536, 16, 100 * kib, 99 * kib};
    case 87:
      return {1536, 16, 164 * kib, 163 * kib};
    case 89:
      return {1536, 24, 100 * kib, 99 * kib};
    case 90:
    case 100:
    case 103:
      return {2048, 32, 228 * kib, 227 * kib};
    case 120:
    case 121:
      return {1536, 24, 100 * kib, 99 * kib};
    default:
      return {0, 0, 0, 0};
  }
}

/// Blocks of one kernel that a multiprocessor holds at a time; 0 where that cannot be known.
inline std::uint32_t resident_blocks(const device_data& d, const kernel_data& k) noexcept {
  const multiprocessor_limits limits = limits_of(d.compute_major, d.compute_minor);
  const std::uint64_t threads = std::uint64_t{k.block[0]} * k.block[1] * k.block[2];
  if (limits.threads == 0 || threads == 0 || threads > 1024) return 0;
  const auto rounded = [](std::uint64_t n, std::uint64_t unit) { return (n + unit - 1) / unit * unit; };
  const std::uint64_t warps = rounded(threads, warp_threads) / warp_threads;
  std::uint64_t n = std::min<std::uint64_t>(limits.blocks, limits.threads / warp_threads / warps);
  if (k.registers_per_thread != 0) {
    constexpr std::uint64_t parts = 4, unit = 256;  // each quarter of the registers serves the warps of its own
    const std::uint64_t a_warp = rounded(std::uint64_t{k.registers_per_thread} * warp_threads, unit);
    n = std::min(n, multiprocessor_registers / parts / a_warp * parts / warps);
  }
  const std::uint64_t reserved = d.compute_major >= 8 ? 1024 : 0, unit = d.compute_major >= 8 ? 128 : 256;
  const std::uint64_t shared = rounded(std::uint64_t{k.static_shared_bytes} + k.dynamic_shared_bytes + reserved, unit);
  if (shared != 0) n = std::min(n, limits.shared_bytes / shared);
  return static_cast<std::uint32_t>(n);
}

/// What Kineto's CuptiActivity.h and cuda_occupancy give a kernel.
struct launch_fill {
  double blocks_per_multiprocessor;
  double warps_per_multiprocessor;
  std::uint32_t occupancy_percent;
};
/// @returns false where the device is not known
inline bool fill_of(const device_data& d, const kernel_data& k, launch_fill& fill) noexcept {
  if (d.multiprocessors == 0) return false;
  const auto volume = [](const std::uint32_t(&v)[3]) {
    return static_cast<double>(v[0]) * static_cast<double>(v[1]) * static_cast<double>(v[2]);
  };
  const double threads = volume(k.block);
  fill.blocks_per_multiprocessor = volume(k.grid) / static_cast<double>(d.multiprocessors);
  fill.warps_per_multiprocessor = fill.blocks_per_multiprocessor * threads / warp_threads;
  const multiprocessor_limits limits = limits_of(d.compute_major, d.compute_minor);
  if (limits.threads == 0) return false;
  const double blocks = std::min<double>(resident_blocks(d, k), fill.blocks_per_multiprocessor);
  fill.occupancy_percent = static_cast<std::uint32_t>(100.0 * blocks * threads / limits.threads + 0.5);
  return true;
}

}  // namespace detail
CUTRACE_END_NAMESPACE
