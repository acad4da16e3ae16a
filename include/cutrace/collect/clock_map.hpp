// SPDX-License-Identifier: Apache-2.0
// Ticks to nanoseconds. Two steps: one linear conversion, fixed once for the process ("raw frame", which CUPTI's
// timestamp callback uses as well), and corrections towards CLOCK_MONOTONIC that the collector measures while tracing
// and applies to every time on output.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <cutrace/clock.hpp>
#include <vector>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

// How far one clock is ahead of another, as measured at some moments: linear in between, and on with the last slope.
// One thread at a time.

class clock_offset {
 public:
  struct point {
    std::uint64_t raw_ns;
    std::int64_t offset_ns;
  };

  bool empty() const noexcept { return points_.empty(); }
  const point& newest() const noexcept { return points_.back(); }

  /// Adds a measurement, later than all before.
  CUTRACE_NOINLINE void add(const point& p) {
    points_.push_back(p);
    if (points_.size() > kept_points) thin_out();
    for (step& s : steps_) s.size_ns = 0;
  }

  /// In ns, rounded towards the earlier measurement's offset; 0 where nothing was measured.
  ///
  /// Clocks drift by parts of a million, so the result is the same for some 100 us at a time. What was found last is
  /// kept with the times that it holds for: two divisions a time and event were a fifth of the collector's
  /// instructions.
  CUTRACE_INLINE std::int64_t at(std::uint64_t raw_ns) const noexcept {
    step& s = steps_[raw_ns / step_ns % step_count];
    if (CUTRACE_LIKELY(raw_ns - s.first_ns < s.size_ns)) return s.offset_ns;
    return find(raw_ns, s);
  }

 private:
  /// Times [first, first + size) with one offset.
  struct step {
    std::uint64_t first_ns = 0, size_ns = 0;
    std::int64_t offset_ns = 0;
  };
  static constexpr std::size_t kept_points = 4096;
  static constexpr std::uint64_t step_ns = std::uint64_t{1} << 17;
  static constexpr std::size_t step_count = 8;

  CUTRACE_ONE_COPY std::int64_t find(std::uint64_t raw, step& found) const noexcept {
    if (points_.size() < 2) {
      found = {0, ~std::uint64_t{0}, points_.empty() ? 0 : points_.front().offset_ns};
      return found.offset_ns;
    }
    std::size_t i = points_.size() - 1;  // segment [i-1, i]; most times lie in the last few
    while (i > 1 && raw < points_[i - 1].raw_ns) {
      if (points_.size() - i > 8) {
        const auto at = std::upper_bound(points_.begin(), points_.end(), raw,
                                         [](std::uint64_t v, const point& p) { return v < p.raw_ns; });
        i = std::max<std::size_t>(
            1, std::min<std::size_t>(points_.size() - 1, static_cast<std::size_t>(at - points_.begin())));
        break;
      }
      --i;
    }
    const point& a = points_[i - 1];
    const point& b = points_[i];
    if (raw < a.raw_ns) return a.offset_ns;  // before the first measurement
    const clock::int128 rise = b.offset_ns - a.offset_ns;
    const clock::int128 run = static_cast<std::int64_t>(b.raw_ns - a.raw_ns);
    const std::int64_t since = static_cast<std::int64_t>(raw - a.raw_ns);
    const std::int64_t risen = static_cast<std::int64_t>(rise * since / run);
    const std::int64_t offset = a.offset_ns + risen;
    if (since < 0) return offset;  // not a valid time

    // The range of times with this same rounded offset: the division rounds towards 0, so a division that rounds up
    // finds both ends.
    const std::uint64_t end = i + 1 < points_.size() ? b.raw_ns - a.raw_ns : INT64_MAX;
    std::uint64_t first = 0, last = end;
    if (rise != 0) {
      const clock::int128 steep = rise < 0 ? -rise : rise;
      const clock::int128 level = risen < 0 ? -static_cast<clock::int128>(risen) : risen;
      first = static_cast<std::uint64_t>((level * run + steep - 1) / steep);
      const clock::int128 next = ((level + 1) * run + steep - 1) / steep;
      if (next < end) last = static_cast<std::uint64_t>(next);
    }
    found = {a.raw_ns + first, last - first, offset};
    return offset;
  }

  /// Halves the resolution of the older half: a stage that began hours ago still finds its segment.
  CUTRACE_NOINLINE void thin_out() {
    std::vector<point> kept;
    kept.reserve(points_.size());
    const std::size_t half = points_.size() / 2;
    for (std::size_t i = 0; i < points_.size(); ++i)
      if (i == 0 || i >= half || i % 2 == 0) kept.push_back(points_[i]);
    points_.swap(kept);
  }

  std::vector<point> points_;
  mutable step steps_[step_count];
};

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
    if (width > kept_width_ns) return;  // interrupted between the reads: says nothing
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

  /// Largest distance seen between a corrected time and CLOCK_MONOTONIC: by how much extrapolation missed. Times
  /// between two measurements are interpolated, and so better.
  std::uint64_t error_ns() const noexcept { return error_ns_; }
  void set_floor(std::uint64_t ns) noexcept { error_ns_ = std::max(error_ns_, ns); }

 private:
  static constexpr std::uint64_t kept_width_ns = 2000;
  static constexpr std::uint64_t kept_distance_ns = 50000000;

  clock_offset offset_;
  std::uint64_t error_ns_ = 0;
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
