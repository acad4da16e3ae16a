// SPDX-License-Identifier: Apache-2.0
// What lives as long as the process once a session has existed: thread states, chunks, call sites, functions, the
// correlation ring, the tick scale and the gate (gate_off: nothing is recorded). Never destroyed, since threads may
// touch it until the very end.
#pragma once

#include <pthread.h>

#include <cutrace/backend.hpp>
#include <cutrace/base/helper_thread.hpp>
#include <cutrace/collect/clock_map.hpp>
#include <cutrace/collect/correlation_ring.hpp>
#include <cutrace/collect/function_table.hpp>
#include <cutrace/collect/graph_table.hpp>
#include <cutrace/collect/reporter.hpp>
#include <cutrace/collect/site_table.hpp>
#include <cutrace/collect/thread_registry.hpp>
#include <cutrace/collect/watch/fault_state.hpp>
#include <cutrace/marker/slot.hpp>
#include <cutrace/session.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

struct runtime_core {
  tick_scale scale;
  chunk_pool pool;
  thread_registry threads;
  given_thread_names thread_names;
  site_table sites;
  function_table functions;
  correlation_ring ring;
  graph_table graphs;                            ///< the collector's
  std::atomic<bool> stages_open_at_once{false};  ///< the collector learns of each stage when it begins
  std::atomic<bool> stages_captured{false};      ///< nodes of graphs were added inside of stages
  reporter errors;
  wake_signal wake;  ///< of the collector
  fault_state fault;
  std::atomic<std::uint32_t> gate{gate_off};
  std::atomic<std::uint64_t> lost[loss_cause_count] = {};  ///< counted by backends; see also thread_state::lost
  std::atomic<std::uint32_t> overflow_wait_us{0};
  std::atomic<bool> forked{false};
  std::atomic<std::uint16_t> interleaving_in{0};  ///< trace in which report_interleaving has reported
  std::atomic<twin_chooser> twins{nullptr};       ///< a backend's function: which instance graph_exec launches
  pthread_key_t exit_key{};  ///< reports threads that end; without one the collector looks for them
  bool has_exit_key = false;
  pid_t process = 0;

  /// The instance in this object (executable or shared library); the process uses the one of the object that owns its
  /// runtime (run/runtime_owner.hpp). Made on first use, never destroyed.
  static runtime_core& own() {
    static runtime_core* core = new runtime_core();
    return *core;
  }

  /// State of the calling thread, null before its first marker or call.
  static traced_thread*& of_this_thread() noexcept {
    static thread_local traced_thread* own = nullptr;
    return own;
  }

  /// Opens or closes the gate of every object in the process, now and for those loaded later.
  void set_gate(std::uint32_t value) noexcept {
    gate.store(value, std::memory_order_release);
    gate_walk walk{this, value};
    for_each_slot(&set_slot, &walk);
  }

  traced_thread* attach(slot* from) noexcept {
    if (forked.load(std::memory_order_relaxed)) {
      from->gate.store(gate_off, std::memory_order_release);
      return nullptr;
    }
    // One state a thread, whichever object asks first.
    traced_thread*& t = of_this_thread();
    if (t != nullptr) return t;
    t = threads.attach(published, scale.use_counter);
    if (t != nullptr && has_exit_key) pthread_setspecific(exit_key, t);
    return t;
  }

  /// Next chunk for a thread whose own has no room for `records` more. `from`: as for table::refill. Owning thread.
  record* refill(traced_thread* t, std::uint32_t records, slot* from) noexcept {
    if (forked.load(std::memory_order_relaxed)) {
      if (from != nullptr) from->gate.store(gate_off, std::memory_order_release);
      return nullptr;
    }
    chunk* c = records <= chunk_records ? take_chunk(t, records) : nullptr;
    if (c != nullptr && c == t->current) {  // begun again
      wake.signal_if_asleep();
      return t->cursor;
    }
    if (c == nullptr) {
      if (from != nullptr) t->lost.store(t->lost.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
      wake.signal();
      return nullptr;
    }
    c->thread_index = t->index;
    c->thread_id = t->thread_id;
    c->sequence = t->chunks_taken++;
    t->cursor = c->records();
    t->limit = c->records() + c->capacity;
    t->committed = &c->committed;
    t->count = 0;
    chunk* before = t->current;
    t->current = c;
    if (before != nullptr)
      before->next.store(c->index + 1, std::memory_order_release);  // after the last commit of the old one
    else
      t->first.store(c, std::memory_order_release);
    // The collector comes by itself every few milliseconds. Waking it sooner costs this thread a system call, and the
    // collector then competes for this core (its other hardware thread) while the thread is busiest.
    if (pool.running_low()) wake.signal_if_asleep();
    return t->cursor;
  }

  /// Reports, once a trace, that scopes end out of order. Owning thread.
  CUTRACE_NOINLINE void report_interleaving(const thread_state& t) noexcept {
    if (forked.load(std::memory_order_relaxed)) return;
    if (interleaving_in.exchange(t.trace_number.load(std::memory_order_relaxed), std::memory_order_relaxed) ==
        t.trace_number.load(std::memory_order_relaxed))
      return;
    char line[256];
    std::snprintf(
        line, sizeof(line),
        "scopes of thread %u end in another order than they began (fibers, coroutines): its GPU work may stand "
        "at another stage; use spans there, and adopt their context around each part that runs",
        t.thread_id);
    errors.report("stages", line);
  }

  /// For cutrace::graph_exec. Any thread.
  twin_choice choose_twin(twin_step step) noexcept {
    const twin_chooser choose = twins.load(std::memory_order_acquire);
    return choose != nullptr && !forked.load(std::memory_order_relaxed) ? choose(step) : twin_choice::first;
  }

  const table* published = nullptr;

 private:
  struct gate_walk {
    runtime_core* core;
    std::uint32_t value;
  };
  static void set_slot(slot* s, void* data) noexcept {
    const gate_walk* walk = static_cast<const gate_walk*>(data);
    s->owner.store(walk->core->published, std::memory_order_release);
    s->gate.store(walk->value, std::memory_order_release);
  }

  chunk* take_chunk(traced_thread* t, std::uint32_t records) noexcept {
    chunk* c = take_or_reuse(t, records);
    const std::uint32_t wait_us = overflow_wait_us.load(std::memory_order_relaxed);
    // A thread of the runtime, in a sink of the program, would wait for itself. Of more threads than there are chunks
    // some get none while the others live: those wait once.
    const bool in_vain = inside_runtime() || (t->current == nullptr && t->lost.load(std::memory_order_relaxed) != 0);
    if (c != nullptr || wait_us == 0 || in_vain) return c;
    wait_for_room(wait_us, [&] {
      c = take_or_reuse(t, records);
      if (c == nullptr) wake.signal();
      return c != nullptr;
    });
    return c;
  }

  /// Problem: a thread keeps its full chunk until it finds another. Where threads are as many as chunks, none would
  /// ever come back. Solution: a thread that finds none begins its own again, once the collector has read all of it.
  chunk* take_or_reuse(traced_thread* t, std::uint32_t records) noexcept {
    chunk* own = t->current;
    if (chunk* c = pool.take(records, own == nullptr)) return c;
    if (own == nullptr || own->capacity < records || own->consumed.load(std::memory_order_acquire) != t->count)
      return nullptr;
    own->lap.store(t->count, std::memory_order_relaxed);  // seen with the next commit
    t->cursor = own->records();
    t->limit = own->records() + own->capacity;
    return own;
  }
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
