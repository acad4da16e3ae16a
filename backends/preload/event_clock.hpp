// SPDX-License-Identifier: Apache-2.0
// Turns the time between two CUDA events into host time, by a base event whose host time is known and which is measured
// anew from time to time. Pure: event_harvest measures.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cutrace/config.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace preload CUTRACE_LOCAL {

/// An event was recorded after `before_ns` and had been passed by the GPU at `after_ns`, both of the host.
struct base_sample {
  std::int64_t before_ns = 0, after_ns = 0;
  std::int64_t middle_ns() const noexcept { return before_ns + (after_ns - before_ns) / 2; }
  /// By how much the middle may be wrong.
  std::int64_t half_ns() const noexcept { return (after_ns - before_ns + 1) / 2; }
};

class event_clock {
 public:
  /// How long one base serves while there is work.
  static constexpr std::int64_t period_ns = 250'000'000;

  bool known() const noexcept { return known_; }
  bool is_stale(std::int64_t now_ns) const noexcept { return !known_ || now_ns - base_.middle_ns() > period_ns; }

  /// A new base. `since_last_ms`: GPU time from the last base to this one; not used for the first base.
  void set_base(const base_sample& s, float since_last_ms) noexcept {
    error_ns_ = std::max(error_ns_, s.half_ns());
    // Times just before this base were wrong by the drift of the clocks since the last base. After a pause there were
    // no such times.
    if (known_ && s.middle_ns() - base_.middle_ns() <= 4 * period_ns) {
      const std::int64_t drift = s.middle_ns() - at_ns(since_last_ms);
      error_ns_ = std::max(error_ns_, s.half_ns() + (drift < 0 ? -drift : drift));
    }
    base_ = s;
    known_ = true;
  }

  /// Host time of an event, by its time since the base (negative: before it).
  std::int64_t at_ns(float since_base_ms) const noexcept {
    return base_.middle_ns() + static_cast<std::int64_t>(static_cast<double>(since_base_ms) * 1e6);
  }

  /// The largest error seen so far: half of the interval in which a base was measured, and the drift until the next
  /// one. The driver's own resolution, about half a microsecond, comes on top.
  std::int64_t error_ns() const noexcept { return error_ns_; }

 private:
  base_sample base_;
  std::int64_t error_ns_ = 0;
  bool known_ = false;
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
