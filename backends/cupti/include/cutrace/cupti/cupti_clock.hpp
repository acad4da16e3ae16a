// SPDX-License-Identifier: Apache-2.0
// For a libcupti that does not take our clock: the distance of CUPTI's own clock from the raw frame (clock.hpp),
// measured again and again, and an emitter that moves events by that distance.
#pragma once

#include <cupti.h>

#include <atomic>
#include <cstdint>
#include <cutrace/backend.hpp>
#include <cutrace/cupti/forwarding_emitter.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace cupti CUTRACE_LOCAL {

/// CUPTI's clock is CLOCK_REALTIME by default (cupti_activity.h): it is slewed and set, so that one distance does not
/// hold for long. Error: half of the narrowest read, some hundred nanoseconds, and what the clocks drift apart between
/// two measurements.
class cupti_clock {
 public:
  using read_function = CUptiResult (*)(std::uint64_t*);

  /// Measures; the narrowest of several reads counts. False when `read` is null or fails; the last distance stays.
  /// Backend's thread.
  bool compare(const event_writer& w, read_function read) noexcept {
    if (read == nullptr) return false;
    std::uint64_t narrowest = ~std::uint64_t{0};
    for (int i = 0; i < 5; ++i) {
      std::uint64_t theirs = 0;
      const std::uint64_t before = w.raw_ns(w.ticks());
      if (read(&theirs) != CUPTI_SUCCESS) return false;
      const std::uint64_t after = w.raw_ns(w.ticks());
      if (after - before >= narrowest) continue;
      narrowest = after - before;
      offset_ns_.store(static_cast<std::int64_t>(before + (after - before) / 2 - theirs), std::memory_order_relaxed);
    }
    return true;
  }

  /// What to add to a time of CUPTI. Any thread.
  std::int64_t offset_ns() const noexcept { return offset_ns_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::int64_t> offset_ns_{0};
};

/// Hands events on with their times moved. Lives while one buffer is decoded, on the collector's thread.
class shifting_emitter final : public forwarding_emitter {
 public:
  shifting_emitter(event_emitter& to, std::int64_t offset_ns) : forwarding_emitter(to), offset_ns_(offset_ns) {}

  void emit(const event& e) override {
    if (e.start_ns == 0 && e.end_ns == 0) return to_.emit(e);  // no time at all
    event moved = e;
    move(moved.start_ns);
    move(moved.end_ns);
    if (e.kind == event_kind::kernel) {
      if (e.kernel.queued_ns != 0) move(moved.kernel.queued_ns);
      if (e.kernel.submitted_ns != 0) move(moved.kernel.submitted_ns);
    }
    to_.emit(moved);
  }

 private:
  /// Unsigned: a spoilt record may hold any time.
  void move(std::int64_t& time) const noexcept {
    time = static_cast<std::int64_t>(static_cast<std::uint64_t>(time) + static_cast<std::uint64_t>(offset_ns_));
  }

  std::int64_t offset_ns_;
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
