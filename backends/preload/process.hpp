// SPDX-License-Identifier: Apache-2.0
// What the preload library knows of its process. One object of static storage, usable before any constructor has run.
#pragma once

#include <atomic>
#include <cutrace/backend.hpp>

#include "driver_library.hpp"
#include "event_timer.hpp"
#include "hooks.hpp"
#include "loaded_objects.hpp"

CUTRACE_BEGIN_NAMESPACE
namespace preload CUTRACE_LOCAL {

struct process {
  hook_table hooks;
  driver_library driver;
  loaded_objects objects;
  event_timer events;

  /// Where calls go; null while nobody records.
  std::atomic<event_writer*> writer{nullptr};
  std::atomic<bool> measures{false};  ///< GPU times by events are wanted
  bool use_counter = false;           ///< ticks are the CPU's counter, else CLOCK_MONOTONIC; set before `writer`
  /// The writer of the session that the first call opens, until that session is open: before, the writer would leave
  /// calls out, as while tracing is paused.
  std::atomic<event_writer*> waiting_writer{nullptr};

  /// State of the session that the first call opens.
  enum : int { not_asked, being_opened, settled };
  std::atomic<int> session{not_asked};
  /// Nothing is recorded, for good: a forked child of a traced process, or a process that shall not be traced.
  std::atomic<bool> off{false};
  /// Calls that came while the session was being opened and could not wait for it.
  std::atomic<std::uint64_t> missed{0};
  /// Correlation ids are handed out to threads in blocks.
  std::atomic<std::uint32_t> ids_taken{0};

  std::atomic<bool> begun{false};  ///< our constructor has run
  spin_lock scanning;
  loaded_objects::changes scanned;  ///< at the last scan (slots.hpp); guarded by `scanning`
  std::atomic<unsigned long long> scanned_added{0}, scanned_removed{0};

  static process& own() noexcept { return instance_; }

  /// From now on calls are recorded to `w`, which first gets the names of all hooks.
  void record_to(event_writer& w) noexcept {
    // Hooks that are added later get their names in `hooked`.
    hooks.hold([&] {
      const std::uint32_t known = hooks.count();
      for (std::uint32_t i = 1; i < known; ++i) name_function(w, i, hooks.at(i).symbol, hooks.at(i).shape);
      writer.store(&w, std::memory_order_release);
    });
  }

  /// What to call instead of a function of the driver. `label` names a function that is no exported symbol;
  /// `per_thread`: the function was asked for in the variant for per-thread default streams.
  std::uintptr_t hooked(std::uintptr_t target, const char* label, bool per_thread = false) noexcept {
    const char* symbol = driver.name_of(target, label);
    return hooks.thunk_for(target, symbol != nullptr ? symbol : label, symbol != nullptr, per_thread,
                           [this](std::uint32_t index) {
                             event_writer* w = writer.load(std::memory_order_acquire);
                             if (w != nullptr) name_function(*w, index, hooks.at(index).symbol, hooks.at(index).shape);
                           });
  }

 private:
  static process instance_;
};

// Hooks write to this object before constructors have run, so nothing constructs it at run time. It begins as zeros,
// which take no room in the file.
#if defined(__clang__)
[[clang::require_constant_initialization]]
#else
__constinit
#endif
inline process process::instance_;

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
