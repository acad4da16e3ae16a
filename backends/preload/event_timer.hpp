// SPDX-License-Identifier: Apache-2.0
// GPU time without CUPTI, the side of the program's threads: a CUDA event before and one behind each launch, copy and
// memset, on the same stream. Creates nothing, waits for nothing, and lets the stream alone while it is captured.
#pragma once

#include <cerrno>
#include <ctime>
#include <cutrace/base/helper_thread.hpp>

#include "event_pool.hpp"
#include "kernel_names.hpp"

CUTRACE_BEGIN_NAMESPACE
namespace preload CUTRACE_LOCAL {

class event_timer {
 public:
  /// Whether calls are to be measured. Any thread.
  bool on() const noexcept { return on_.load(std::memory_order_acquire) && usable_.load(std::memory_order_acquire); }
  void set_on(bool yes) noexcept { on_.store(yes, std::memory_order_release); }
  /// Whether names of kernels are to be kept, since they may be needed later.
  bool learns() const noexcept { return learns_.load(std::memory_order_relaxed); }
  void set_learns(bool yes) noexcept { learns_.store(yes, std::memory_order_relaxed); }
  /// False where the driver's library has not been seen, or is too old.
  bool usable() const noexcept { return usable_.load(std::memory_order_acquire); }

  /// With process::scanning held.
  void take(const driver_library& library) noexcept { usable_.store(driver_.take(library), std::memory_order_release); }

  /// The library is no longer loaded: its functions are not called again.
  void forget() noexcept { usable_.store(false, std::memory_order_release); }

  /// Before a call. The ticket goes to `end` or to `drop`; for 0 both do nothing.
  std::uint32_t begin(const hook& h, const call_frame& f) noexcept {
    if (CUTRACE_UNLIKELY(!on())) return usable() ? because(untimed::ended) : 0;  // calls go on while the trace ends
    unsigned long long id = 0;
    // A launch succeeds all the same: its stream gives it a context.
    if (driver_.context_id(nullptr, &id) != 0) return because(untimed::no_context);
    std::uint32_t number = 0;
    event_context* c = find(id, number);
    if (CUTRACE_UNLIKELY(c == nullptr)) return want(id);
    const int state = c->state.load(std::memory_order_acquire);
    if (CUTRACE_UNLIKELY(state != event_context::ready))
      return because(state == event_context::refused ? untimed::refused : untimed::preparing);
    void* stream = h.timing.stream_of(h.shape, f);
    int capturing = 0;
    // The query is an error for the legacy stream while a blocking stream of its context is captured.
    if (driver_.is_capturing(stream, &capturing) != 0 || capturing != 0) return because(untimed::capturing);
    std::uint16_t index = 0;
    if (!c->pool->unused.pop(index)) {
      wake_.signal_if_asleep();
      return because(untimed::no_pair);
    }
    if (c->out.fetch_add(1, std::memory_order_relaxed) + 1 == event_context::pairs / 2) wake_.signal_if_asleep();
    timed_work& w = c->pool->work[index];
    w.on = stream;
    if (driver_.record(w.begin, stream) != 0) {
      give_back(*c, index);
      return because(untimed::refused);
    }
    return event_ticket::of(number, index, w.generation.load(std::memory_order_relaxed));
  }

  /// Behind a call that succeeded; `words` are its arguments.
  void end(std::uint32_t ticket, const timed_call& t, std::uint32_t correlation, const std::uint64_t* words) noexcept {
    if (ticket == 0) return;
    if ((ticket & event_ticket::not_timed) != 0) return count(static_cast<untimed>(event_ticket::cause(ticket)));
    event_context& c = contexts_[event_ticket::context(ticket)];
    const std::uint16_t index = event_ticket::index(ticket);
    timed_work& w = c.pool->work[index];
    if (!owns(ticket, c, w)) return count(untimed::context_ended);
    if (CUTRACE_UNLIKELY(driver_.record(w.end, w.on) != 0)) {
      give_back(c, index);
      return count(untimed::refused);
    }
    const auto word = [words](std::int8_t at) { return at != timed_call::none ? words[at] : 0; };
    unsigned long long stream = 0;
    driver_.stream_id(w.on, &stream);
    w.stream = stream;
    w.correlation = correlation;
    w.kind = t.kind;
    w.direction = t.direction;
    w.asynchronous = t.stream != timed_call::none;
    w.source_device = device_of(word(t.from));
    w.destination_device = device_of(word(t.to));
    w.bytes = word(t.bytes);
    w.value = static_cast<std::uint32_t>(word(t.set_value));
    w.name = t.kind == event_kind::kernel ? names_.find(word(t.function)) : nullptr;
    for (int i = 0; i < 3; ++i) {
      w.grid[i] = static_cast<std::uint32_t>(word(t.grid[i]));
      w.block[i] = static_cast<std::uint32_t>(word(t.block[i]));
    }
    w.shared_bytes = static_cast<std::uint32_t>(word(t.shared));
    c.pool->in_flight.bounded_push(index);  // there is room for all of them
  }

  /// The call failed, or did not return.
  void drop(std::uint32_t ticket) noexcept {
    if (ticket == 0 || (ticket & event_ticket::not_timed) != 0) return;
    event_context& c = contexts_[event_ticket::context(ticket)];
    const std::uint16_t index = event_ticket::index(ticket);
    if (owns(ticket, c, c.pool->work[index])) give_back(c, index);
  }

  /// The calling thread has made a context current: its events may be ready then at the first launch.
  void expect_work() noexcept {
    unsigned long long id = 0;
    std::uint32_t number = 0;
    const int kept = errno;
    if (driver_.context_id(nullptr, &id) == 0 && find(id, number) == nullptr) want(id);
    errno = kept;
  }

  /// before_end and after_end, around a call that may end contexts: our thread takes what is complete and stays out.
  void before_end(call_role role, std::uint64_t word) noexcept {
    bool any = false;
    for (event_context& c : contexts_) any = any || ends(c, role, word);
    if (!any) return;
    ask_pass(100);
    for (event_context& c : contexts_) {
      if (!ends(c, role, word)) continue;
      c.ending.store(true, std::memory_order_release);
      bool taken = false;
      for (int i = 0; i < 8 && !taken; ++i) taken = c.used.lock_soon();  // our thread stops making events there now
      c.held.store(taken, std::memory_order_release);
    }
  }
  void after_end(call_role role, std::uint64_t word, bool succeeded) noexcept {
    unsigned flags = 0;
    int active = 0;
    if (role == call_role::ends_primary)
      succeeded = succeeded && driver_.primary_state(static_cast<int>(word), &flags, &active) == 0 && active == 0;
    for (event_context& c : contexts_) {
      if (!ends(c, role, word)) continue;
      if (succeeded) {
        count(untimed::context_ended, c.out.exchange(0, std::memory_order_relaxed));
        c.state.store(event_context::gone, std::memory_order_release);
      }
      c.ending.store(false, std::memory_order_release);
      if (c.held.exchange(false, std::memory_order_acq_rel)) c.used.unlock();
    }
  }

  /// Has our thread look at all events once, and waits for that, `deadline_ms` at most. Any other thread.
  void ask_pass(std::uint32_t deadline_ms) noexcept {
    if (!attended_.load(std::memory_order_acquire)) return;
    const std::uint64_t mine = 1 + passes_asked_.fetch_add(1, std::memory_order_acq_rel);
    const timespec pause{0, 100000};
    for (std::uint32_t i = 0; i < deadline_ms * 10 && attended_.load(std::memory_order_acquire); ++i) {
      wake_.signal();
      if (passes_done_.load(std::memory_order_acquire) >= mine) return;
      ::nanosleep(&pause, nullptr);
    }
  }

  void after_fork() noexcept {
    on_.store(false, std::memory_order_relaxed);
    attended_.store(false, std::memory_order_relaxed);
    claiming_.reset();
    names_.after_fork();
    for (event_context& c : contexts_) c.used.reset();
  }

  void count(untimed why, std::uint64_t n = 1) noexcept {
    untimed_[static_cast<std::size_t>(why)].fetch_add(n, std::memory_order_relaxed);
  }
  std::uint64_t take_count(untimed why) noexcept {
    return untimed_[static_cast<std::size_t>(why)].exchange(0, std::memory_order_relaxed);
  }

  void give_back(event_context& c, std::uint16_t index) noexcept {
    c.pool->work[index].generation.fetch_add(1, std::memory_order_relaxed);
    c.pool->unused.bounded_push(index);
    c.out.fetch_sub(1, std::memory_order_relaxed);
  }

  kernel_names& names() noexcept { return names_; }
  const event_driver& driver() const noexcept { return driver_; }

 private:
  friend class event_harvest;

  static std::uint32_t because(untimed why) noexcept {
    return event_ticket::not_timed | static_cast<std::uint32_t>(why);
  }
  static bool owns(std::uint32_t ticket, const event_context& c, const timed_work& w) noexcept {
    return c.state.load(std::memory_order_acquire) == event_context::ready &&
           event_ticket::generation(ticket) == (w.generation.load(std::memory_order_relaxed) & 0xfffu);
  }
  static bool lives(const event_context& c) noexcept {
    const int s = c.state.load(std::memory_order_acquire);
    return s != event_context::empty && s != event_context::gone;
  }
  static bool ends(const event_context& c, call_role role, std::uint64_t word) noexcept {
    if (!lives(c)) return false;
    if (role == call_role::ends_context) return reinterpret_cast<std::uintptr_t>(c.handle.load()) == word;
    // Also true for a context that the program made itself on this device: that one is prepared anew afterwards.
    const int device = c.device.load(std::memory_order_relaxed);
    return device < 0 || device == static_cast<int>(word);
  }

  event_context* find(std::uint64_t id, std::uint32_t& number) noexcept {
    for (number = 0; number < event_ticket::contexts; ++number) {
      event_context& c = contexts_[number];
      if (lives(c) && c.id.load(std::memory_order_relaxed) == id) return &c;
    }
    return nullptr;
  }

  /// Device of the context with this handle, which a call that succeeded has named; -1 where it is not known.
  int device_of(std::uint64_t handle) const noexcept {
    int device = -1;
    if (handle == 0) return device;
    if (driver_.device_of != nullptr && driver_.device_of(&device, reinterpret_cast<void*>(handle)) == 0) return device;
    for (const event_context& c : contexts_)
      if (lives(c) && reinterpret_cast<std::uintptr_t>(c.handle.load(std::memory_order_relaxed)) == handle)
        return c.device.load(std::memory_order_relaxed);
    return -1;
  }

  /// Has our thread make the events of the calling thread's context.
  CUTRACE_NOINLINE std::uint32_t want(std::uint64_t id) noexcept {
    void* handle = nullptr;
    if (driver_.current(&handle) != 0 || handle == nullptr || !claiming_.lock_soon())
      return because(untimed::preparing);
    std::uint32_t number = 0;
    untimed why = untimed::preparing;
    if (find(id, number) == nullptr) {
      why = untimed::many_contexts;
      for (event_context& c : contexts_) {
        if (lives(c) || !c.used.lock_soon()) continue;
        c.id.store(id, std::memory_order_relaxed);
        c.handle.store(handle, std::memory_order_relaxed);
        c.device.store(-1, std::memory_order_relaxed);
        c.state.store(event_context::wanted, std::memory_order_release);
        c.used.unlock();
        why = untimed::preparing;
        break;
      }
    }
    claiming_.unlock();
    wake_.signal();
    return because(why);
  }

  event_driver driver_;
  std::atomic<bool> on_{false}, usable_{false}, learns_{false};
  event_context contexts_[event_ticket::contexts];
  kernel_names names_;
  std::atomic<std::uint64_t> untimed_[untimed_count] = {};
  spin_lock claiming_;
  detail::wake_signal wake_;
  std::atomic<bool> attended_{false};  ///< our thread runs
  std::atomic<std::uint64_t> passes_asked_{0}, passes_done_{0};
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
