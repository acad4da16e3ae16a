// SPDX-License-Identifier: Apache-2.0
// The kernel's clocks, read one by one or together, as a trace's header and clock snapshots state them.
#pragma once

#include <cstdint>
#include <ctime>
#include <cutrace/clock.hpp>
#include <cutrace/sink.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

inline std::uint64_t read_clock_ns(clockid_t id) noexcept {
  timespec t{};
  clock_gettime(id, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1000000000u + static_cast<std::uint64_t>(t.tv_nsec);
}

/// The three clocks of one moment: read between two reads of CLOCK_MONOTONIC, the narrowest of several tries.
CUTRACE_NOINLINE inline clock_anchor read_anchor(std::uint64_t start_monotonic_ns) noexcept {
  clock_anchor best{};
  best.error_ns = ~std::uint64_t{0};
  for (int i = 0; i < 8; ++i) {
    const std::uint64_t before = clock::monotonic_ns();
    const std::uint64_t real = read_clock_ns(CLOCK_REALTIME);
    const std::uint64_t boot = read_clock_ns(CLOCK_BOOTTIME);
    const std::uint64_t after = clock::monotonic_ns();
    if (after - before >= best.error_ns) continue;
    const std::uint64_t middle = before + (after - before) / 2;
    best = {static_cast<std::int64_t>(middle - start_monotonic_ns), real, middle, boot, after - before};
  }
  return best;
}

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
