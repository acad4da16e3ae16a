// SPDX-License-Identifier: Apache-2.0
// Measured work on its way to the collector, as a buffer that decodes itself there. A few of them, used in turn.
#pragma once

#include <atomic>
#include <cstring>
#include <cutrace/backend.hpp>

#include "event_pool.hpp"

CUTRACE_BEGIN_NAMESPACE
namespace preload CUTRACE_LOCAL {

struct measured_work {
  std::int64_t start_ns, end_ns;  ///< of the raw frame (clock.hpp)
  std::uint64_t stream, bytes;
  const char* name;
  std::uint32_t correlation, device, context, source_device, destination_device;
  std::uint32_t grid[3], block[3], shared_bytes, value;
  event_kind kind;
  copy_direction direction;
  bool asynchronous;
};

class event_batch {
 public:
  static constexpr std::uint32_t size = 512;

  bool is_free() const noexcept { return !busy_.load(std::memory_order_acquire); }
  bool empty() const noexcept { return count_ == 0; }
  bool full() const noexcept { return count_ == size; }
  std::uint32_t count() const noexcept { return count_; }
  void clear() noexcept { count_ = 0; }
  void add(const measured_work& w) noexcept { all_[count_++] = w; }

  /// False where the collector's queue is full: the batch stays as it is.
  bool hand_over(event_writer& w) noexcept {
    busy_.store(true, std::memory_order_release);
    if (w.submit({all_, count_ * sizeof(measured_work), this, &decode, &release})) return true;
    busy_.store(false, std::memory_order_release);
    return false;
  }

 private:
  static void release(const activity_buffer& b) {
    event_batch& self = *static_cast<event_batch*>(b.owner);
    self.count_ = 0;
    self.busy_.store(false, std::memory_order_release);
  }

  static void decode(const activity_buffer& b, event_emitter& emitter) {
    const measured_work* all = static_cast<const measured_work*>(b.data);
    for (std::size_t i = 0; i < b.valid_bytes / sizeof(measured_work); ++i) emit(all[i], emitter);
  }

  static const char* copy_name(copy_direction d) noexcept {
    switch (d) {
      case copy_direction::host_to_device:
        return "memcpy HtoD";
      case copy_direction::device_to_host:
        return "memcpy DtoH";
      case copy_direction::device_to_device:
        return "memcpy DtoD";
      case copy_direction::host_to_host:
        return "memcpy HtoH";
      case copy_direction::peer:
        return "memcpy PtoP";
      default:
        return "memcpy";
    }
  }

  static void emit(const measured_work& w, event_emitter& emitter) {
    const auto intern = [&emitter](const char* t) { return emitter.intern(t, std::strlen(t)); };
    event e;
    e.kind = w.kind;
    e.by_events = true;
    e.start_ns = w.start_ns;
    e.end_ns = w.end_ns;
    e.correlation_id = w.correlation;
    e.device = w.device;
    e.context = w.context;
    e.stream = w.stream;
    switch (w.kind) {
      case event_kind::memcpy:
        e.name = intern(copy_name(w.direction));
        e.memcpy_.bytes = w.bytes;
        e.memcpy_.direction = w.direction;
        e.memcpy_.asynchronous = w.asynchronous;
        e.memcpy_.source_device = w.source_device;
        e.memcpy_.destination_device = w.destination_device;
        break;
      case event_kind::memset:
        e.name = intern("memset");
        e.memset_.bytes = w.bytes;
        e.memset_.value = w.value;
        e.memset_.asynchronous = w.asynchronous;
        break;
      case event_kind::graph_launch:
        e.name = intern("graph");
        e.kernel.mangled_name = text{};
        break;
      default:
        e.kernel.mangled_name = intern(w.name != nullptr ? w.name : "(unknown kernel)");
        e.name = emitter.demangle(e.kernel.mangled_name);
        for (int i = 0; i < 3; ++i) {
          e.kernel.grid[i] = w.grid[i];
          e.kernel.block[i] = w.block[i];
        }
        e.kernel.dynamic_shared_bytes = w.shared_bytes;
        break;
    }
    emitter.emit(e);
  }

  measured_work all_[size] = {};
  std::uint32_t count_ = 0;
  std::atomic<bool> busy_{false};
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
