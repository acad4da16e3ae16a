// SPDX-License-Identifier: Apache-2.0
// The calling thread's way to the runtime: one relaxed load when tracing is off, one thread-local load when it is on.
#pragma once

#include <cutrace/clock.hpp>
#include <cutrace/marker/slot.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace detail {

CUTRACE_LOCAL inline thread_local thread_state* tls_state = nullptr;

/// State of this thread also while tracing is off, for the end of a stage that began before: without its end it would
/// seem to run for ever. nullptr as with table::attach_thread.
CUTRACE_LOCAL CUTRACE_NOINLINE inline thread_state* thread_while_off() noexcept {
  slot& own = own_slot();
  const table* owner = own.owner.load(std::memory_order_acquire);
  if (tls_state == nullptr && owner != nullptr) tls_state = owner->attach_thread(&own);
  return tls_state;
}

CUTRACE_LOCAL CUTRACE_NOINLINE inline thread_state* attach_thread() noexcept {
  std::uint32_t gate = own_slot().gate.load(std::memory_order_acquire);
  if (gate == gate_unresolved) gate = resolve_gate();
  if (gate != gate_on && gate != gate_notify) return nullptr;
  thread_state* state = thread_while_off();
  // `plain` stays false: who was notified of a stage's begin must be notified of its end.
  if (gate == gate_notify && state != nullptr) state->plain = false;
  return state;
}

/// State of this thread while tracing is on, else nullptr.
CUTRACE_INLINE thread_state* this_thread() noexcept {
  const std::uint32_t gate = own_slot().gate.load(std::memory_order_relaxed);
  if (CUTRACE_LIKELY(gate == gate_off)) return nullptr;
  if (CUTRACE_LIKELY(gate == gate_on)) {
    thread_state* state = tls_state;
    if (CUTRACE_LIKELY(state != nullptr)) return state;
  }
  return attach_thread();
}

/// Asks for a cache line that will be written soon. The collector has read the line last, so that it lies in another
/// core's cache: a plain prefetch would bring it for reading only. Saves 4 % of a stage's cost.
CUTRACE_INLINE void prepare_write(record* r) noexcept {
#if defined(__x86_64__)
  __asm__ __volatile__("prefetchw %0" : : "m"(*r));
#else
  __builtin_prefetch(r, 1);
#endif
}

/// Room for `n` records that stay together, or nullptr (the event then counts as lost).
CUTRACE_INLINE record* reserve(thread_state* t, std::uint32_t n) noexcept {
  record* r = t->cursor;
  prepare_write(r + 8);
  if (CUTRACE_UNLIKELY(t->limit - r < static_cast<std::ptrdiff_t>(n))) return t->owner->refill(t, n, &own_slot());
  return r;
}

/// Hands `n` reserved records over to the collector.
CUTRACE_INLINE void commit(thread_state* t, std::uint32_t n) noexcept {
  t->cursor += n;
  t->count += n;
  t->committed->store(t->count, std::memory_order_release);
}

/// What is known of a call site at compile time.
struct site_facts {
  site_kind kind;
  const char* name;
  const char* file;
  std::uint32_t line;
};

/// The static `site` of a call site; `facts` is the call site's lambda. Hidden, since a marker in an inline function
/// would otherwise put a unique global symbol into every library, which glibc then refuses to unload.
template <class Facts>
CUTRACE_LOCAL CUTRACE_INLINE site& site_of(Facts facts) noexcept {
  constexpr site_facts known = facts();
  static site s{{0}, known.kind, known.name, known.file, known.line, {nullptr}};
  return s;
}

CUTRACE_LOCAL CUTRACE_NOINLINE inline std::uint32_t register_site(thread_state* t, site& s) noexcept {
  t->owner->register_site(&s);
  return s.id.load(std::memory_order_acquire);
}

CUTRACE_INLINE std::uint32_t site_id(thread_state* t, site& s) noexcept {
  const std::uint32_t id = s.id.load(std::memory_order_relaxed);
  return CUTRACE_LIKELY(id != 0) ? id : register_site(t, s);
}

}  // namespace detail
CUTRACE_END_NAMESPACE
