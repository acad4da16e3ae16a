// SPDX-License-Identifier: Apache-2.0
// Raw time: the cheapest monotonic counter of the machine. Conversion to nanoseconds lives in the runtime.
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
/// Not serialising: a few instructions may move across the read, which costs less than the fence would.
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

/// Raw ticks of a process whose runtime chose `use_counter` (else CLOCK_MONOTONIC nanoseconds).
CUTRACE_INLINE std::uint64_t ticks(bool use_counter) noexcept {
  return CUTRACE_LIKELY(use_counter) ? counter() : monotonic_ns();
}

}  // namespace clock
CUTRACE_END_NAMESPACE
