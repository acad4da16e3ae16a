// SPDX-License-Identifier: Apache-2.0
// Ticks to nanoseconds. Two steps: one linear conversion, fixed once for the process ("raw frame", which CUPTI's
// timestamp callback uses as well), and corrections towards CLOCK_MONOTONIC that the collector measures while tracing
// and applies to every time on output.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <cutrace/clock.hpp>
#include <cutrace/detail/clock_offset.hpp>
#include <cutrace/sink.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

/// True when the processor's counter runs at one rate on all cores, in all power states, and the kernel trusts it.
inline bool counter_is_invariant() noexcept {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(0x80000007u, &a, &b, &c, &d) == 0 || (d & (1u << 8)) == 0) return false;  // Intel SDM vol. 3, 18.17
  char text[256] = {};
  std::FILE* f = std::fopen("/sys/devices/system/clocksource/clocksource0/available_clocksource", "re");
  if (f == nullptr) return true;  // hidden in some containers; CPUID has said yes
  const std::size_t n = std::fread(text, 1, sizeof(text) - 1, f);
  std::fclose(f);
  return n == 0 || std::strstr(text, "tsc") != nullptr;  // the kernel removes a TSC that it has found unstable
#elif defined(__aarch64__)
  return true;  // the generic timer is architecturally invariant
#else
  return false;
#endif
}

/// A counter value and CLOCK_MONOTONIC read as one: the narrowest of several bracketed reads.
struct clock_sample {
  std::uint64_t ticks;
  std::uint64_t monotonic_ns;
  std::uint64_t width_ticks;
};

inline clock_sample sample_clocks() noexcept {
  clock_sample best{0, 0, ~std::uint64_t{0}};
  for (int i = 0; i < 24; ++i) {
    const std::uint64_t before = clock::counter();
    const std::uint64_t ns = clock::monotonic_ns();
    const std::uint64_t after = clock::counter();
    if (after - before < best.width_ticks) best = {before + (after - before) / 2, ns, after - before};
  }
  return best;
}

/// Measures the fixed conversion for about 5 ms. The slope's error (some parts per million) is what the corrections
/// take out.
CUTRACE_NOINLINE inline tick_scale calibrate(bool use_counter) noexcept {
  tick_scale s;
  if (!use_counter) return s;
  const clock_sample first = sample_clocks();
  clock_sample last = first;
  while (last.monotonic_ns - first.monotonic_ns < 5000000) {
    usleep(1000);
    last = sample_clocks();
  }
  const std::uint64_t ns = last.monotonic_ns - first.monotonic_ns;
  const std::uint64_t ticks = last.ticks - first.ticks;
  s.use_counter = true;
  s.shift = 32;
  s.multiplier = static_cast<std::uint64_t>((static_cast<clock::int128>(ns) << 32) / ticks);
  s.base_ticks = last.ticks;
  s.base_ns = last.monotonic_ns;
  s.error_ns = ((last.width_ticks / 2) * s.multiplier >> 32) + 1;
  return s;
}

/// Corrections of the raw frame, piecewise linear between measurements. Collector's thread only.
class clock_correction {
 public:
  /// Compares the raw frame with CLOCK_MONOTONIC now. Before `sample` is called again, later times use the last slope.
  void sample(const tick_scale& scale) {
    if (!scale.use_counter) return;
    const clock_sample s = sample_clocks();
    const std::uint64_t raw = scale.to_ns(s.ticks);
    const std::int64_t offset = static_cast<std::int64_t>(s.monotonic_ns - raw);
    const std::uint64_t width = ((s.width_ticks / 2) * scale.multiplier >> scale.shift) + 1;
    if (width > kept_width_ns) return;  // interrupted between the reads: tells nothing
    if (!offset_.empty()) {
      // Two readings close together differ by their own noise, and a slope made of that would be extrapolated.
      if (raw < offset_.newest().raw_ns + kept_distance_ns) return;
      const std::int64_t miss = offset - offset_.at(raw);
      error_ns_ = std::max(error_ns_, width + static_cast<std::uint64_t>(miss < 0 ? -miss : miss));
    }
    offset_.add({raw, offset});
  }

  /// CLOCK_MONOTONIC nanoseconds of a time of the raw frame.
  std::uint64_t apply(std::uint64_t raw_ns) const noexcept {
    return raw_ns + static_cast<std::uint64_t>(offset_.at(raw_ns));
  }

  /// Largest distance seen between a corrected time and CLOCK_MONOTONIC. Times between two measurements are
  /// interpolated and so better than this, which is what extrapolation missed by.
  std::uint64_t error_ns() const noexcept { return error_ns_; }
  void set_floor(std::uint64_t ns) noexcept { error_ns_ = std::max(error_ns_, ns); }

 private:
  static constexpr std::uint64_t kept_width_ns = 2000;
  static constexpr std::uint64_t kept_distance_ns = 50000000;

  clock_offset offset_;
  std::uint64_t error_ns_ = 0;
};

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
