// SPDX-License-Identifier: Apache-2.0
// States of the threads that have passed a marker or made a call. A state is handed to another thread only when the
// kernel says that the one before is gone: markers in late thread-local destructors still find their own.
#pragma once

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cutrace/detail/chunk_pool.hpp>
#include <cutrace/detail/table.hpp>
#include <mutex>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

/// The runtime's side of a thread state. Aligned, so that what each marker and call touches is one cache line, and none
/// that the collector writes to.
struct alignas(64) traced_thread : thread_state {
  traced_thread* next_known = nullptr;  ///< list of all states ever made
  chunk* current = nullptr;             ///< owning thread's
  std::uint64_t chunks_taken = 0;       ///< owning thread's
  std::atomic<chunk*> first{nullptr};   ///< where the collector begins to read, set once a use
  std::atomic<std::uint32_t> state{0};  ///< 0 free, 1 in use, 2 thread has ended
  bool attached = false;                ///< collector's: first seen and described
  chunk* reading = nullptr;             ///< collector's
  std::uint32_t read = 0;               ///< collector's: records of `reading` that are done
  std::uint64_t lost_seen = 0;          ///< collector's
  std::uint64_t named_at_ns = 0;        ///< collector's
  const char* name = nullptr;           ///< collector's, interned
};

class thread_registry {
 public:
  enum use : std::uint32_t { unused = 0, in_use = 1, ended = 2 };

  /// A trace begins: what stages have told of themselves so far, they told another one. Before the gate opens.
  void begin_trace() noexcept {
    std::lock_guard<std::mutex> hold(mutex_);
    trace_number_ = trace_number_ == 0xffff ? 1 : static_cast<std::uint16_t>(trace_number_ + 1);
    for (traced_thread* t = head_.load(std::memory_order_relaxed); t != nullptr; t = t->next_known)
      t->trace_number.store(trace_number_, std::memory_order_relaxed);
  }

  /// State for the calling thread; nullptr when memory ran out.
  traced_thread* attach(const table* owner, bool use_counter) noexcept {
    std::lock_guard<std::mutex> hold(mutex_);
    traced_thread* t = nullptr;
    for (traced_thread* i = head_.load(std::memory_order_relaxed); i != nullptr && t == nullptr; i = i->next_known)
      if (i->state.load(std::memory_order_acquire) == unused) t = i;
    const bool fresh = t == nullptr;
    if (fresh) t = new (std::nothrow) traced_thread();
    if (t == nullptr) return nullptr;
    static record nowhere[1];  // no room, but an address that may be computed with
    t->cursor = t->limit = nowhere;
    t->committed = nullptr;
    t->count = 0;
    t->use_counter = use_counter;
    t->plain = use_counter;
    t->trace_number.store(trace_number_, std::memory_order_relaxed);
    t->top = nullptr;
    t->owner = owner;
    t->index = next_index_;
    next_index_ = next_index_ == 0xffffff ? 1 : next_index_ + 1;
    t->next_stage = (std::uint64_t{t->index} << 40) + 1;
    t->thread_id = static_cast<std::uint32_t>(syscall(SYS_gettid));
    t->lost.store(0, std::memory_order_relaxed);
    t->current = nullptr;
    t->chunks_taken = 0;
    t->first.store(nullptr, std::memory_order_relaxed);
    t->state.store(in_use, std::memory_order_release);
    if (fresh) {
      t->next_known = head_.load(std::memory_order_relaxed);
      head_.store(t, std::memory_order_release);
      made_.fetch_add(1, std::memory_order_relaxed);
    }
    return t;
  }

  /// Called by the thread's own exit. Markers may still come in other destructors of this thread, so the state is only
  /// marked; the collector recycles it once `is_gone`.
  static void mark_ended(traced_thread* t) noexcept { t->state.store(ended, std::memory_order_release); }

  /// The same for a thread that came to its first marker in the last round of its destructors, which tells nobody.
  static void mark_if_gone(traced_thread* t) noexcept {
    if (t->state.load(std::memory_order_acquire) == in_use && is_gone(t)) mark_ended(t);
  }

  /// True when the kernel no longer knows the thread.
  static bool is_gone(const traced_thread* t) noexcept {
    // Any other error (a sandbox that forbids the call) leaves the state with its thread.
    return syscall(SYS_tgkill, getpid(), static_cast<pid_t>(t->thread_id), 0) != 0 && errno == ESRCH;
  }

  static void recycle(traced_thread* t) noexcept {
    t->attached = false;
    t->reading = nullptr;
    t->read = 0;
    t->lost_seen = 0;
    t->named_at_ns = 0;
    t->name = nullptr;
    t->state.store(unused, std::memory_order_release);
  }

  /// Calls `visit(traced_thread&)` for every state in use or ended. Collector's thread.
  template <class Visit>
  void for_each(Visit visit) {
    for (traced_thread* t = head_.load(std::memory_order_acquire); t != nullptr; t = t->next_known)
      if (t->state.load(std::memory_order_acquire) != unused) visit(*t);
  }

  std::uint64_t bytes() const noexcept { return made_.load(std::memory_order_relaxed) * sizeof(traced_thread); }

 private:
  std::mutex mutex_;
  std::atomic<traced_thread*> head_{nullptr};
  std::atomic<std::uint64_t> made_{0};
  std::uint16_t trace_number_ = 0;
  std::uint32_t next_index_ = 1;
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
