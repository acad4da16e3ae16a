// SPDX-License-Identifier: Apache-2.0
// Raw time: the cheapest monotonic counter of the machine, and its fixed conversion to nanoseconds. The runtime
// calibrates the conversion and corrects its results (collect/clock_map.hpp).
#pragma once

#include <cstdint>
#include <ctime>
#include <cutrace/config.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace clock {

/// CLOCK_MONOTONIC in nanoseconds. Any thread.
inline std::uint64_t monotonic_ns() noexcept {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1000000000u + static_cast<std::uint64_t>(t.tv_nsec);
}

/// The processor's counter: TSC on x86-64 (invariant TSC only, see `ticks`), CNTVCT_EL0 on aarch64.
/// Not serialising: a few instructions may move across the read, which harms less than a fence would cost.
CUTRACE_INLINE std::uint64_t counter() noexcept {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();  // not <x86intrin.h>: 48,000 preprocessed lines for one instruction
#elif defined(__aarch64__)
  std::uint64_t v;
  __asm__ __volatile__("mrs %0, cntvct_el0" : "=r"(v));
  return v;
#else
  return monotonic_ns();
#endif
}

/// Raw ticks now: the counter's with `use_counter`, which the runtime chooses, else CLOCK_MONOTONIC nanoseconds.
CUTRACE_INLINE std::uint64_t ticks(bool use_counter) noexcept {
  return CUTRACE_LIKELY(use_counter) ? counter() : monotonic_ns();
}

__extension__ typedef __int128 int128;

}  // namespace clock

/// The one conversion of a process from ticks to nanoseconds, fixed before anything is recorded. Its results are times
/// of the "raw frame": nanoseconds that begin as CLOCK_MONOTONIC and may drift from it. They are not yet corrected
/// (collect/clock_map.hpp) nor counted from the session's begin. Immutable, so any thread may use it.
struct tick_scale {
  bool use_counter = false;  ///< else ticks are nanoseconds already
  std::uint64_t base_ticks = 0;
  std::uint64_t base_ns = 0;
  std::uint64_t multiplier = 1;
  std::uint32_t shift = 0;
  std::uint64_t error_ns = 0;  ///< bound of the error with which `base_ns` was read

  /// ns = base_ns + (ticks - base_ticks) * multiplier / 2^shift
  std::uint64_t to_ns(std::uint64_t ticks) const noexcept {
    const std::int64_t distance = static_cast<std::int64_t>(ticks - base_ticks);
    const clock::int128 scaled = static_cast<clock::int128>(distance) * static_cast<clock::int128>(multiplier);
    return base_ns + static_cast<std::uint64_t>(static_cast<std::int64_t>(scaled >> shift));
  }
  std::uint64_t now_ns() const noexcept { return to_ns(clock::ticks(use_counter)); }
};

CUTRACE_END_NAMESPACE
