// SPDX-License-Identifier: Apache-2.0
// The flushes by which CUPTI hands over its buffers. A plain flush delivers complete records, each period while CUPTI
// holds a buffer. A forced flush waits for nothing and delivers unfinished records, too, once and without times. So it
// is made only at the end of the trace, after the first error that loses a context, when somebody asks for what is
// unfinished, and where unfinished work holds back so much memory that records would soon be lost.
#pragma once

#include <cupti.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cutrace/backend.hpp>
#include <cutrace/cupti/callbacks.hpp>
#include <cutrace/cupti/complain.hpp>
#include <cutrace/cupti/process_state.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace cupti CUTRACE_LOCAL {

/// Of one session. Called on the backend's helper thread, and by cupti_backend::stop on the thread that ends the
/// session.
class flushing {
 public:
  /// Resets the state, before the first record can come.
  void begin(process_state& p, event_writer& w) noexcept {
    state_ = &p;
    writer_ = &w;
    refused_before_ = false;
    p.faulted.store(false, std::memory_order_relaxed);
    faulted_ = false;
    forced_ns_ = 0;
  }

  /// Plain flush: complete records.
  void plain() noexcept {
    writer_->flush_begins();
    hand_over(0);
    writer_->flushed();
  }
  /// After a flush that somebody waits for: CUPTI's does not wait for other threads that hand a buffer back just now,
  /// whose records are of earlier work as well. For a quarter of a second at most: threads that go on launching may do
  /// so without end.
  void wait_for_others() const noexcept {
    for (int turns = 0; turns < 250 && state_->completing.load() != 0; ++turns) ::usleep(1000);
  }
  /// Forced flush: all records, those of unfinished work without times. A plain flush goes first, so that a complete
  /// record without times is not taken for unfinished.
  void force() noexcept {
    process_state& p = *state_;
    const bool after_fault = p.faulted.load(std::memory_order_acquire);
    hand_over(0);
    forced_ns_ = now_ns();
    p.forcing.store(true, std::memory_order_release);
    hand_over(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    p.forcing.store(false, std::memory_order_release);
    if (after_fault) writer_->flushed_after_fault();
  }

  /// Called once a flush period. `settle_ns`: how long a context or stream waits for CUPTI's description (see
  /// late_places.hpp).
  void turn(std::uint64_t settle_ns) noexcept {
    process_state& p = *state_;
    if (!faulted_ && p.faulted.load(std::memory_order_acquire)) {
      faulted_ = true;
      force();
    } else if (p.buffers.at_cupti_bytes() != 0) {
      if (!p.buffers.waits_to_be_read()) plain();
      if (now_ns() - forced_ns_ >= second_ns && is_held_back()) force();
    } else {
      settle(settle_ns);
    }
  }

 private:
  static constexpr std::uint64_t second_ns = 1000000000;

  /// Threads whose oldest buffer CUPTI has had for a second hold back over a quarter of the buffers' memory.
  bool is_held_back() const noexcept {
    const buffer_pool& b = state_->buffers;
    try {
      return b.held_back_bytes(now_ns() - second_ns) > b.limit_bytes() / 4;
    } catch (...) {  // no memory for the list: the next turn asks again
      return false;
    }
  }

  void hand_over(std::uint32_t flags) noexcept {
    process_state& p = *state_;
    if (!p.clock_registered) p.clock.compare(*writer_, p.api.cuptiGetTimestamp);
    p.flushes.fetch_add(1, std::memory_order_relaxed);
    complain(*writer_, "cuptiActivityFlushAll, GPU records come late or never", p.api.cuptiActivityFlushAll(flags));
    p.buffers.flushed();
    callbacks::settle_places(p, *writer_);
    count_dropped();
  }

  /// CUPTI has no buffer, so no description of a waiting context or stream is still to come.
  void settle(std::uint64_t settle_ns) noexcept {
    process_state& p = *state_;
    const std::uint64_t since = p.places_wait_since_ns.load(std::memory_order_relaxed);
    if (since != 0 && clock::monotonic_ns() - since >= settle_ns) callbacks::settle_places(p, *writer_);
    if (!p.clock_registered) p.clock.compare(*writer_, p.api.cuptiGetTimestamp);
    if (now_ns() - counted_ns_ >= second_ns) count_dropped();
  }

  void count_dropped() noexcept {
    process_state& p = *state_;
    counted_ns_ = now_ns();
    std::size_t n = 0;
    complain(*writer_, "cuptiActivityGetNumDroppedRecords, what CUPTI drops is not counted",
             p.api.cuptiActivityGetNumDroppedRecords(nullptr, 0, &n));
    // A refused buffer makes CUPTI drop records, at times only after this count: the next one is put down to it, too.
    const bool refused = p.refused.exchange(0, std::memory_order_relaxed) != 0;
    const bool ours = refused || refused_before_;
    refused_before_ = refused;
    if (n == 0) return;
    writer_->count_loss(ours ? loss_cause::buffer_limit : loss_cause::cupti_dropped, n);
  }

  /// Nanoseconds of the raw frame (clock.hpp).
  std::uint64_t now_ns() const noexcept { return writer_->raw_ns(writer_->ticks()); }

  process_state* state_ = nullptr;
  event_writer* writer_ = nullptr;
  std::uint64_t counted_ns_ = 0, forced_ns_ = 0;
  bool faulted_ = false;
  bool refused_before_ = false;  ///< a buffer was refused before the last count of drops
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
