// SPDX-License-Identifier: Apache-2.0
// Instants and numbers.
//
//   CUTRACE_MARK("first_token", request_id);   an instant; of the stage's request where none is named
//   CUTRACE_COUNT("tokens", n);                adds to a counter that is sampled while tracing: one relaxed add
//   CUTRACE_GAUGE("queue_depth", n);           sets a value that is sampled while tracing: one relaxed store
//
// All CUTRACE_COUNT of one name are one counter, wherever they stand. Any thread. Not for signal handlers.
#pragma once

#include <cutrace/stage.hpp>

#if CUTRACE_ENABLED

CUTRACE_BEGIN_NAMESPACE
namespace detail {

/// A mark with text or a batch. It takes an instance id, as a stage does, and names its requests under that id, so that
/// one table of the collector serves stages and marks.
CUTRACE_LOCAL CUTRACE_NOINLINE inline void write_mark_copying(thread_state* t, std::uint32_t id, const void* data,
                                                              std::size_t size, std::uint64_t word,
                                                              request_form form) noexcept {
  const request q = request::from_parts(data, size, word, form);
  const std::uint32_t extra = request_records(q);
  record* r = reserve(t, extra + 1);
  if (r == nullptr) return;
  r = put_request(r, q);
  const std::uint64_t now = mark_ticks(t, id);
  const std::uint64_t own = t->next_stage++;
  *r = record{make_head(record_type::mark, 0, form, 0, id), now, now, own, current_id(t), word, 0, own};
  commit(t, extra + 1);
}

CUTRACE_INLINE void write_mark(site& s, request q = {}) noexcept {
  thread_state* t = this_thread();
  if (CUTRACE_LIKELY(t == nullptr)) return;
  const std::uint32_t id = site_id(t, s);
  if (CUTRACE_UNLIKELY(q.form() >= request_form::text))
    return write_mark_copying(t, id, q.data(), q.size(), q.word(), q.form());
  record* r = reserve(t, 1);
  if (CUTRACE_UNLIKELY(r == nullptr)) return;
  const stage_frame* f = t->top;
  const std::uint64_t now = mark_ticks(t, id);
  *r = record{make_head(record_type::mark, 0, q.form(), 0, id), now, now, 0, current_id(t), q.word(), 0, 0};
  if (q.form() == request_form::none && f != nullptr) {  // the request of the stage around it
    r->head |= f->head & head_form_mask;
    r->a = f->request;
    r->c = f->naming_stage;
  }
  commit(t, 1);
}

/// Cell of a counter or gauge; nullptr while tracing is off and the site has none yet.
CUTRACE_LOCAL CUTRACE_NOINLINE inline std::atomic<std::uint64_t>* find_cell(site& s) noexcept {
  thread_state* t = this_thread();
  if (t == nullptr) return nullptr;
  site_id(t, s);
  return s.cell.load(std::memory_order_acquire);
}

CUTRACE_INLINE std::atomic<std::uint64_t>* cell_of(site& s) noexcept {
  std::atomic<std::uint64_t>* cell = s.cell.load(std::memory_order_relaxed);
  return CUTRACE_LIKELY(cell != nullptr) ? cell : find_cell(s);
}

CUTRACE_INLINE void add(site& s, std::uint64_t n) noexcept {
  if (std::atomic<std::uint64_t>* cell = cell_of(s)) cell->fetch_add(n, std::memory_order_relaxed);
}

CUTRACE_INLINE void set(site& s, std::int64_t value) noexcept {
  if (std::atomic<std::uint64_t>* cell = cell_of(s))
    cell->store(static_cast<std::uint64_t>(value), std::memory_order_relaxed);
}

}  // namespace detail
CUTRACE_END_NAMESPACE

#endif  // CUTRACE_ENABLED

#if CUTRACE_ENABLED && !defined(__CUDA_ARCH__)
#define CUTRACE_DETAIL_MARK_1(name) ::cutrace::detail::write_mark(CUTRACE_DETAIL_SITE(mark, name))
#define CUTRACE_DETAIL_MARK_2(name, request) ::cutrace::detail::write_mark(CUTRACE_DETAIL_SITE(mark, name), request)
#define CUTRACE_MARK(...) \
  CUTRACE_DETAIL_SELECT(__VA_ARGS__, CUTRACE_DETAIL_MARK_2, CUTRACE_DETAIL_MARK_1, )(__VA_ARGS__)
#define CUTRACE_COUNT(name, n) ::cutrace::detail::add(CUTRACE_DETAIL_SITE(counter, name), static_cast<std::uint64_t>(n))
#define CUTRACE_GAUGE(name, n) ::cutrace::detail::set(CUTRACE_DETAIL_SITE(gauge, name), static_cast<std::int64_t>(n))
#else
#define CUTRACE_MARK(...) CUTRACE_DETAIL_NOTHING(__VA_ARGS__)
#define CUTRACE_COUNT(name, n) CUTRACE_DETAIL_NOTHING(name, n)
#define CUTRACE_GAUGE(name, n) CUTRACE_DETAIL_NOTHING(name, n)
#endif
