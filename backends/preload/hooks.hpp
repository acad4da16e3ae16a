// SPDX-License-Identifier: Apache-2.0
// The hooked functions of a process: one for each address of a driver function that the program got; there is no list
// of names. Entries are never taken back, since callers keep the thunks. Looking one up takes no lock.
#pragma once

#include <sched.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <cutrace/backend.hpp>

#include "frame.hpp"
#include "signatures.hpp"
#include "timed_call.hpp"

extern "C" {
extern CUTRACE_LOCAL const unsigned char cutrace_preload_thunks[];
/// By number of the hook, not 0: vector registers may carry arguments or the result, so the trampoline saves them.
extern CUTRACE_LOCAL unsigned char cutrace_preload_floating[CUTRACE_HOOK_LIMIT];
}

CUTRACE_BEGIN_NAMESPACE
namespace preload CUTRACE_LOCAL {

/// Held for short; valid in a forked child only after `reset`.
class spin_lock {
 public:
  void lock() noexcept {
    while (taken_.exchange(true, std::memory_order_acquire)) sched_yield();
  }
  /// False when it takes long (about 0.3 s, for on a busy machine the holder may not be running): the waiting thread
  /// may itself hold what the holder waits for.
  bool lock_soon() noexcept {
    for (int i = 0; i < 1000; ++i, sched_yield())
      if (!taken_.exchange(true, std::memory_order_acquire)) return true;
    const timespec pause{0, 100000};
    for (int i = 0; i < 2000; ++i, ::nanosleep(&pause, nullptr))
      if (!taken_.exchange(true, std::memory_order_acquire)) return true;
    return false;
  }
  void unlock() noexcept { taken_.store(false, std::memory_order_release); }
  void reset() noexcept { taken_.store(false, std::memory_order_relaxed); }

 private:
  std::atomic<bool> taken_{false};
};

struct hook {
  std::uintptr_t target = 0;
  std::uint32_t stack_words = 0;
  bool exported = false;  ///< its address is that of an exported symbol
  call_role role = call_role::none;
  bool timed = false;  ///< its GPU time may be measured; kept with what each call reads
  call_shape shape;    ///< where its arguments are
  timed_call timing;   ///< how its GPU time is measured
  const char* symbol = nullptr;
};

class hook_table {
 public:
  static constexpr std::uint32_t limit = CUTRACE_HOOK_LIMIT;

  /// Entry 0 is none. `count`: one more than the highest index.
  const hook& at(std::uint32_t index) const noexcept { return hooks_[index]; }
  std::uint32_t count() const noexcept { return 1 + used_.load(std::memory_order_acquire); }

  static bool is_thunk(std::uintptr_t address) noexcept {
    const auto first = reinterpret_cast<std::uintptr_t>(&cutrace_preload_thunks[0]);
    return address >= first && address < first + std::uintptr_t{limit} * CUTRACE_THUNK_BYTES;
  }
  static std::uintptr_t thunk_of(std::uint32_t index) noexcept {
    return reinterpret_cast<std::uintptr_t>(&cutrace_preload_thunks[0]) + std::uintptr_t{index} * CUTRACE_THUNK_BYTES;
  }

  /// What to call instead of the function at `target`; `target` itself where there is no room for another hook.
  /// `symbol` is copied; `per_thread`: the variant for per-thread default streams. `added(index)` is called for a new
  /// hook, before another thread can get it.
  template <class Added>
  std::uintptr_t thunk_for(std::uintptr_t target, const char* symbol, bool exported, bool per_thread,
                           Added added) noexcept {
    if (is_thunk(target)) return target;
    if (const std::uint32_t known = find(target)) return thunk_of(known);
    lock_.lock();
    std::uint32_t index = find(target);
    if (index == 0 && (index = add(target, symbol, exported, per_thread)) != 0) {
      added(index);
      publish(index);
    }
    lock_.unlock();
    return index != 0 ? thunk_of(index) : target;
  }

  /// Calls `act()`; no hook is added meanwhile.
  template <class Do>
  void hold(Do act) noexcept {
    lock_.lock();
    act();
    lock_.unlock();
  }

  std::uint32_t refused() const noexcept { return refused_.load(std::memory_order_relaxed); }
  void after_fork() noexcept { lock_.reset(); }

 private:
  static constexpr std::uint32_t places = 4 * limit;

  static std::uint32_t place_of(std::uintptr_t target) noexcept {
    return static_cast<std::uint32_t>((target * 0x9e3779b97f4a7c15u) >> 40) & (places - 1);
  }
  std::uint32_t find(std::uintptr_t target) const noexcept {
    for (std::uint32_t at = place_of(target);; at = (at + 1) & (places - 1)) {
      const std::uint32_t index = index_[at].load(std::memory_order_acquire);
      if (index == 0 || hooks_[index].target == target) return index;
    }
  }
  std::uint32_t add(std::uintptr_t target, const char* symbol, bool exported, bool per_thread) noexcept {
    const std::uint32_t index = 1 + used_.load(std::memory_order_relaxed);
    char* name = index < limit ? ::strdup(symbol) : nullptr;
    if (name == nullptr) {
      refused_.fetch_add(1, std::memory_order_relaxed);
      return 0;
    }
    hook& h = hooks_[index];
    h.target = target;
    h.exported = exported;
    h.symbol = name;
    h.shape = call_shape::of(name, exported);
    h.stack_words = h.shape.stack_words;
    cutrace_preload_floating[index] = h.shape.floating;
    h.timing = timed_call::of(h.shape, name, per_thread);
    h.timed = h.timing.timed;
    h.role = role_of(name);
    used_.store(index, std::memory_order_release);
    return index;
  }
  void publish(std::uint32_t index) noexcept {
    std::uint32_t at = place_of(hooks_[index].target);
    while (index_[at].load(std::memory_order_relaxed) != 0) at = (at + 1) & (places - 1);
    index_[at].store(index, std::memory_order_release);
  }

  hook hooks_[limit] = {};
  std::atomic<std::uint32_t> index_[places] = {};
  std::atomic<std::uint32_t> used_{0};
  std::atomic<std::uint32_t> refused_{0};
  spin_lock lock_;
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
