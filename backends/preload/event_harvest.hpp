// SPDX-License-Identifier: Apache-2.0
// GPU time without CUPTI, our own thread's side: makes the events of a context, measures its clock, and reports the
// work between events that the GPU has passed. The thread calls the driver in relaxed capture mode, which leaves
// captures of other threads alone, and has a stack of current contexts of its own.
#pragma once

#include <sys/prctl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <cutrace/base/helper_thread.hpp>
#include <cutrace/clock.hpp>
#include <thread>
#include <utility>
#include <vector>

#include "event_batch.hpp"
#include "event_clock.hpp"
#include "event_timer.hpp"

CUTRACE_BEGIN_NAMESPACE
namespace preload CUTRACE_LOCAL {

class event_harvest {
 public:
  explicit event_harvest(event_timer& timer, event_writer& writer) : timer_(timer), writer_(writer) {
    thread_ = detail::start_thread([](void* self) { static_cast<event_harvest*>(self)->run(); }, this);
    timer_.set_on(true);
  }
  event_harvest(const event_harvest&) = delete;
  event_harvest& operator=(const event_harvest&) = delete;
  ~event_harvest() { stop(0); }

  bool flush(std::uint32_t deadline_ms) noexcept {
    timer_.ask_pass(deadline_ms);
    return true;
  }

  /// Waits for the GPU to finish the measured work, at most drain_ms or half of `deadline_ms`, the shorter one, so that
  /// time is left to report that work; ends the thread. Safe to call twice.
  void stop(std::uint32_t deadline_ms) noexcept {
    if (!thread_.joinable()) return;
    timer_.set_on(false);
    const timespec pause{0, 1000000};
    // By the clock: on a busy machine each pause takes longer.
    const std::uint64_t until = clock::monotonic_ns() + std::uint64_t{std::min(deadline_ms / 2, drain_ms)} * 1000000;
    while (clock::monotonic_ns() < until && attending() && anything_out() && !exiting()) ::nanosleep(&pause, nullptr);
    quit_.store(true, std::memory_order_release);
    timer_.wake_.signal();
    try {
      thread_.join();
    } catch (...) {  // nothing is left to be done
    }
  }

  std::uint64_t measured() const noexcept { return measured_; }
  /// See event_clock::error_ns; the largest of all contexts.
  std::int64_t error_ns() const noexcept { return error_ns_; }

 private:
  static constexpr std::chrono::milliseconds busy{2}, idle{20};
  static constexpr std::uint32_t drain_ms = 500;  ///< the end of a session waits for the GPU no longer than this
  static constexpr int bases = 4;
  static constexpr std::uint32_t first_pairs = 128;

  /// What our thread keeps of a context.
  struct attended {
    std::uint64_t id = 0;
    void* stream = nullptr;      ///< private, does nothing but the base events
    void* base[bases + 1] = {};  ///< the one in use is the last
    event_clock clock;
    std::vector<std::uint16_t> pending;  ///< indices of recorded pairs, in their order
  };

  void run() noexcept {
    ::prctl(PR_SET_NAME, "cutrace-events");
    detail::inside_runtime() = true;
    timer_.attended_.store(true, std::memory_order_release);
    while (!quit_.load(std::memory_order_acquire)) {
      const std::uint64_t asked = timer_.passes_asked_.load(std::memory_order_acquire);
      pass();
      timer_.passes_done_.store(asked, std::memory_order_release);
      timer_.wake_.sleep(anything_out() ? busy : idle);
    }
    pass();
    abandon();
    timer_.attended_.store(false, std::memory_order_release);
  }

  bool attending() const noexcept { return timer_.attended_.load(std::memory_order_acquire); }
  bool anything_out() const noexcept {
    for (const event_context& c : timer_.contexts_)
      if (c.state.load(std::memory_order_acquire) == event_context::ready && c.out.load(std::memory_order_relaxed) != 0)
        return true;
    return false;
  }

  void pass() noexcept {
    if (!timer_.usable() || exiting().load(std::memory_order_acquire)) return;
    try {
      if (!relaxed_) {
        int mode = event_driver::mode_relaxed;
        relaxed_ = driver().exchange_mode(&mode) == 0;
        if (!relaxed_) return;
      }
      for (std::uint32_t i = 0; i < event_ticket::contexts; ++i) visit(timer_.contexts_[i], mine()[i]);
    } catch (...) {  // out of memory: another time
    }
    hand_over();
  }

  void visit(event_context& c, attended& a) {
    const int state = c.state.load(std::memory_order_acquire);
    if (state != event_context::wanted && state != event_context::ready) return;
    if (state == event_context::ready && c.out.load(std::memory_order_relaxed) == 0) return;
    if (c.ending.load(std::memory_order_acquire) || !c.used.lock_soon()) return;
    struct guard {
      event_context& c;
      const event_driver& d;
      ~guard() {
        d.set_current(nullptr);
        c.used.unlock();
      }
    } leave{c, driver()};
    if (c.state.load(std::memory_order_acquire) != state || driver().set_current(c.handle.load()) != 0) return;
    if (state == event_context::wanted && !prepare(c, a))
      c.state.store(event_context::refused, std::memory_order_release);
    if (state == event_context::ready) harvest(c, a);
  }

  /// Creates all that is ever created in a context. False where it failed.
  bool prepare(event_context& c, attended& a) {
    const event_driver& d = driver();
    unsigned long long id = 0;
    if (d.context_id(nullptr, &id) != 0 || id != c.id.load()) return false;
    a = {};
    a.id = id;
    int device = -1;
    if (d.device(&device) != 0 || d.create_stream(&a.stream, event_driver::non_blocking) != 0) return false;
    c.device.store(device, std::memory_order_relaxed);
    for (void*& e : a.base)
      if (d.create_event(&e, 0) != 0) return false;
    if (c.pool == nullptr) c.pool = new event_context::memory;
    std::uint16_t index = 0;
    while (c.pool->unused.pop(index) || c.pool->in_flight.pop(index)) {  // left from an earlier context
    }
    index = 0;
    for (timed_work& w : c.pool->work) w.generation.fetch_add(1, std::memory_order_relaxed);
    c.out.store(0, std::memory_order_relaxed);
    a.pending.reserve(event_context::pairs);
    calibrate(a);
    register_exit();
    // The context is ready after its first pairs: the program does not wait for the rest.
    for (; index < event_context::pairs && !c.ending.load(std::memory_order_acquire); ++index) {
      timed_work& w = c.pool->work[index];
      if (d.create_event(&w.begin, 0) != 0 || d.create_event(&w.end, 0) != 0) break;
      c.pool->unused.bounded_push(index);
      if (index == first_pairs) c.state.store(event_context::ready, std::memory_order_release);
    }
    return index > first_pairs;
  }

  void harvest(event_context& c, attended& a) {
    if (a.clock.is_stale(now_ns())) calibrate(a);
    if (!a.clock.known()) return;
    describe(c.device.load(std::memory_order_relaxed));
    std::uint16_t index = 0;
    while (c.pool->in_flight.pop(index)) a.pending.push_back(index);
    waiting_.clear();
    std::size_t kept = 0;
    for (std::size_t i = 0; i < a.pending.size(); ++i) {
      const timed_work& w = c.pool->work[a.pending[i]];
      if (settle(c, a, w))
        timer_.give_back(c, a.pending[i]);
      else
        a.pending[kept++] = a.pending[i];
    }
    a.pending.resize(kept);
  }

  /// True: the pair was measured or is lost, and can be used again.
  bool settle(const event_context& c, const attended& a, const timed_work& w) {
    if (w.stream != 0)
      for (const std::uint64_t s : waiting_)
        if (s == w.stream) return false;
    event_batch* to = room();
    if (to == nullptr) return false;
    const event_driver& d = driver();
    const int state = d.query(w.end);
    if (state == event_driver::not_ready) {
      if (w.stream != 0) waiting_.push_back(w.stream);  // what comes behind is not ready either
      return false;
    }
    float start_ms = 0, length_ms = 0;
    if (state != 0 || d.elapsed_ms(&start_ms, a.base[bases], w.begin) != 0 ||
        d.elapsed_ms(&length_ms, w.begin, w.end) != 0) {
      timer_.count(untimed::lost);
      return true;
    }
    measured_work m{};
    m.start_ns = a.clock.at_ns(start_ms);
    m.end_ns = m.start_ns + static_cast<std::int64_t>(static_cast<double>(length_ms) * 1e6);
    m.stream = w.stream;
    m.bytes = w.bytes;
    m.name = w.name;
    m.correlation = w.correlation;
    m.device = static_cast<std::uint32_t>(c.device.load(std::memory_order_relaxed));
    m.context = static_cast<std::uint32_t>(a.id);
    std::memcpy(m.grid, w.grid, sizeof(m.grid));
    std::memcpy(m.block, w.block, sizeof(m.block));
    m.shared_bytes = w.shared_bytes;
    m.value = w.value;
    m.kind = w.kind;
    m.direction = w.direction;
    m.asynchronous = w.asynchronous;
    m.source_device = w.source_device >= 0 ? static_cast<std::uint32_t>(w.source_device) : m.device;
    m.destination_device = w.destination_device >= 0 ? static_cast<std::uint32_t>(w.destination_device) : m.device;
    to->add(m);
    ++measured_;
    return true;
  }

  /// Measures the host time of an event on a stream that has nothing else to do: the narrowest of a few readings
  /// counts.
  void calibrate(attended& a) noexcept {
    const event_driver& d = driver();
    base_sample best;
    int chosen = -1;
    for (int i = 0; i < bases; ++i) {
      base_sample s;
      s.before_ns = now_ns();
      if (d.record(a.base[i], a.stream) != 0) return;
      int state = event_driver::not_ready;
      do {
        state = d.query(a.base[i]);
        s.after_ns = now_ns();
      } while (state == event_driver::not_ready && s.after_ns - s.before_ns < 1'000'000);
      if (state == 0 && (chosen < 0 || s.half_ns() < best.half_ns())) {
        best = s;
        chosen = i;
      }
    }
    if (chosen < 0) return;  // the GPU does not reach the event: the last base stays
    float since_ms = 0;
    if (a.clock.known() && d.elapsed_ms(&since_ms, a.base[bases], a.base[chosen]) != 0) return;
    a.clock.set_base(best, since_ms);
    std::swap(a.base[bases], a.base[chosen]);
    error_ns_ = std::max(error_ns_, a.clock.error_ns());
  }

  event_batch* room() noexcept {
    if (at_ != nullptr && at_->full() && at_->hand_over(writer_)) at_ = nullptr;
    for (std::size_t i = 0; i < batch_count && at_ == nullptr; ++i)
      if (batches()[i].is_free()) at_ = &batches()[i];
    return at_ != nullptr && !at_->full() ? at_ : nullptr;
  }
  void hand_over() noexcept {
    if (at_ != nullptr && !at_->empty() && at_->hand_over(writer_)) at_ = nullptr;
  }

  /// Work that is not done counts as untimed::ended, and its events may be used again.
  void abandon() noexcept {
    for (std::uint32_t i = 0; i < event_ticket::contexts; ++i) {
      event_context& c = timer_.contexts_[i];
      if (c.state.load(std::memory_order_acquire) != event_context::ready) continue;
      std::uint16_t index = 0;
      std::vector<std::uint16_t>& pending = mine()[i].pending;
      std::uint64_t n = pending.size();
      for (const std::uint16_t p : pending) timer_.give_back(c, p);
      pending.clear();
      for (; c.pool->in_flight.pop(index); ++n) timer_.give_back(c, index);
      timer_.count(untimed::ended, n);
    }
    if (at_ != nullptr && !at_->empty()) {
      timer_.count(untimed::ended, at_->count());
      at_->clear();
    }
  }

  void describe(int device) {
    for (const int known : described_)
      if (known == device) return;
    described_.push_back(device);
    const event_driver& d = driver();
    const auto attribute = [&](int which) {
      int value = 0;
      if (d.device_attribute == nullptr || d.device_attribute(&value, which, device) != 0 || value < 0) value = 0;
      return static_cast<std::uint32_t>(value);
    };
    event e;
    e.kind = event_kind::device;
    e.device = static_cast<std::uint32_t>(device);
    e.start_ns = e.end_ns = now_ns();
    char name[256] = {};
    if (d.device_name != nullptr && d.device_name(name, sizeof(name) - 1, device) == 0)
      e.name = {name, static_cast<std::uint32_t>(std::strlen(name))};
    std::size_t bytes = 0;
    if (d.device_bytes != nullptr && d.device_bytes(&bytes, device) == 0) e.device_.memory_bytes = bytes;
    // CU_DEVICE_ATTRIBUTE_...: MULTIPROCESSOR_COUNT, COMPUTE_CAPABILITY_MAJOR and _MINOR, CLOCK_RATE, MEMORY_CLOCK_RATE
    // (two transfers a clock), GLOBAL_MEMORY_BUS_WIDTH (bits).
    e.device_.multiprocessors = attribute(16);
    e.device_.compute_major = attribute(75);
    e.device_.compute_minor = attribute(76);
    e.device_.core_clock_khz = attribute(13);
    e.device_.memory_bandwidth_bytes_per_s = std::uint64_t{attribute(36)} * 1000 * 2 * attribute(37) / 8;
    writer_.describe(e);
  }

  /// The driver shuts down in an exit handler, which it registers with its first context. Our handler, registered
  /// later, runs before that one and fetches what is complete. The driver is not called after that.
  static std::atomic<bool>& exiting() noexcept {
    static std::atomic<bool> now{false};
    return now;
  }
  void register_exit() noexcept {
    static std::atomic<event_timer*> timer{nullptr};
    if (timer.exchange(&timer_) != nullptr) return;
    std::atexit([] {
      event_timer& t = *timer.load();
      t.set_on(false);
      t.ask_pass(200);
      exiting().store(true, std::memory_order_release);
      t.ask_pass(50);
    });
  }

  std::int64_t now_ns() const noexcept { return static_cast<std::int64_t>(writer_.raw_ns(writer_.ticks())); }
  const event_driver& driver() const noexcept { return timer_.driver_; }

  static constexpr std::size_t batch_count = 8;
  /// The collector may hold a batch longer than this object lives.
  static event_batch* batches() noexcept {
    static event_batch all[batch_count];
    return all;
  }

  /// Serves the next session, too: a context's events are made once. Our thread only.
  static attended* mine() noexcept {
    static attended all[event_ticket::contexts];
    return all;
  }

  event_timer& timer_;
  event_writer& writer_;
  std::thread thread_;
  std::atomic<bool> quit_{false};
  bool relaxed_ = false;
  std::vector<std::uint64_t> waiting_;  ///< streams whose next event is not ready
  std::vector<int> described_;
  event_batch* at_ = nullptr;
  std::uint64_t measured_ = 0;
  std::int64_t error_ns_ = 0;
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
