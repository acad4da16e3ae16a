// SPDX-License-Identifier: Apache-2.0
// Writing stages into the thread's chunk. The fast path (a stage without request or with a numeric one) writes one
// record when the stage ends; everything that copies text or batches is out of line.
#pragma once

#include <cstddef>
#include <cutrace/marker/thread.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace detail {

constexpr std::uint32_t request_limit =
    1600;  ///< ids of one batch that are kept (one chunk has room for them); the number of all is kept, too

inline std::uint32_t text_records(std::size_t size) noexcept {
  const std::size_t kept = size < text_limit_bytes ? size : text_limit_bytes;
  return kept == 0 ? 1u : static_cast<std::uint32_t>((kept + 47) / 48);
}

inline record* put_text(record* at, std::uint8_t which, const char* text, std::size_t size) noexcept {
  const std::size_t kept = size < text_limit_bytes ? size : text_limit_bytes;
  std::size_t done = 0;
  do {
    const std::size_t part = kept - done < 48 ? kept - done : 48;
    text_record piece{};
    piece.type = record_type::text;
    piece.size = static_cast<std::uint8_t>(part);
    piece.total = static_cast<std::uint16_t>(kept);
    piece.slot = which;
    if (part != 0) __builtin_memcpy(piece.bytes, text + done, part);
    __builtin_memcpy(static_cast<void*>(at), &piece, sizeof(piece));
    ++at;
    done += part;
  } while (done < kept);
  return at;
}

inline std::uint32_t request_records(const request& q) noexcept {
  if (q.form() == request_form::text) return text_records(q.size());
  if (q.form() != request_form::batch) return 0;
  const std::size_t kept = q.size() < request_limit ? q.size() : request_limit;
  return static_cast<std::uint32_t>((kept + 6) / 7);
}

inline record* put_request(record* at, const request& q) noexcept {
  if (q.form() == request_form::text) return put_text(at, 1, static_cast<const char*>(q.data()), q.size());
  if (q.form() != request_form::batch) return at;
  const std::size_t kept = q.size() < request_limit ? q.size() : request_limit;
  for (std::size_t done = 0; done < kept; done += 7, ++at) {
    words_record piece{};
    piece.type = record_type::requests;
    piece.size = static_cast<std::uint8_t>(kept - done < 7 ? kept - done : 7);
    __builtin_memcpy(piece.words, static_cast<const char*>(q.data()) + done * 8, piece.size * std::size_t{8});
    __builtin_memcpy(static_cast<void*>(at), &piece, sizeof(piece));
  }
  return at;
}

/// Announces a running stage to the collector, with its texts and batch, at most once for each stage and trace. A trace
/// that begins while the stage runs gets the stage's identity, but not the texts, which an earlier trace has received.
/// Without room no event is lost: events that refer to the stage count as lacking it.
CUTRACE_LOCAL CUTRACE_NOINLINE inline void write_open(thread_state* t, stage_frame& f, const char* name,
                                                      const request& q) noexcept {
  const std::size_t name_size = name != nullptr ? __builtin_strlen(name) : 0;
  const std::uint32_t extra = (name != nullptr ? text_records(name_size) : 0) + request_records(q);
  record* r =
      t->limit - t->cursor > static_cast<std::ptrdiff_t>(extra) ? t->cursor : t->owner->refill(t, extra + 1, nullptr);
  f.set_announced_in(t->trace_number.load(std::memory_order_relaxed));
  if (r == nullptr) return;
  if (name != nullptr) r = put_text(r, 0, name, name_size);
  r = put_request(r, q);
  const std::uint64_t head = (f.head & ~std::uint64_t{0xff}) | static_cast<std::uint64_t>(record_type::stage_open);
  *r = record{head, f.begin, 0, f.id, f.parent, f.request, f.depth_and_trace, f.naming_stage};
  commit(t, extra + 1);
}

/// Announces a frame and the frames around it, outermost first, so that whatever refers to this stage can be resolved.
CUTRACE_LOCAL CUTRACE_NOINLINE inline void open_frames(thread_state* t, stage_frame* f) noexcept {
  if (f == nullptr || f->announced_in(t->trace_number.load(std::memory_order_relaxed))) return;
  open_frames(t, f->outer);
  write_open(t, *f, nullptr, {});
}

CUTRACE_INLINE std::uint64_t current_id(const thread_state* t) noexcept { return t->top != nullptr ? t->top->id : 0; }

/// Gives a site the name of its function. Threads that race here write the same bits.
CUTRACE_INLINE site& named(site& s, const char* name) noexcept {
  if (CUTRACE_UNLIKELY(s.id.load(std::memory_order_relaxed) == 0)) s.name = name;
  return s;
}

/// Instance of the innermost stage of this thread, announced to the collector; 0 when there is none.
CUTRACE_INLINE std::uint64_t current_stage(thread_state* t) noexcept {
  stage_frame* f = t->top;
  if (f == nullptr) return 0;
  if (CUTRACE_UNLIKELY(!f->announced_in(t->trace_number.load(std::memory_order_relaxed)))) open_frames(t, f);
  return f->id;
}

/// Fills the identity of a stage that begins now; `begin` is the caller's to set, as late as possible.
CUTRACE_INLINE void begin_frame(thread_state* t, stage_frame& f, std::uint32_t site, request_form form,
                                std::uint64_t word, std::uint8_t flags) noexcept {
  stage_frame* outer = t->top;
  const std::uint64_t id = t->next_stage++;
  f.outer = outer;
  f.id = id;
  f.head = make_head(record_type::stage, flags, form, 0, site);
  f.request = word;
  f.naming_stage = form == request_form::none ? 0 : id;
  if (outer == nullptr) {
    f.parent = 0;
    f.depth_and_trace = 0;
    return;
  }
  f.parent = outer->id;
  f.depth_and_trace = (outer->depth_and_trace + 1) & 0xffff;
  if (form == request_form::none) {  // what happens inside belongs to the same requests
    f.head |= outer->head & head_form_mask;
    f.request = outer->request;
    f.naming_stage = outer->naming_stage;
  }
}

/// As begin_frame, for stages that bring text or a batch along: both are copied now, since the caller may change them.
/// The stages around are announced before: else the collector would not know them while this one runs.
CUTRACE_LOCAL CUTRACE_NOINLINE inline void begin_copying(thread_state* t, stage_frame& f, std::uint32_t site,
                                                         const char* dynamic_name, const void* data, std::size_t size,
                                                         std::uint64_t word, request_form form,
                                                         std::uint8_t flags) noexcept {
  const request q = request::from_parts(data, size, word, form);
  begin_frame(t, f, site, form, form == request_form::text ? hash_text(static_cast<const char*>(data), size) : word,
              flags);
  f.begin = clock::ticks(t->use_counter);
  open_frames(t, f.outer);
  write_open(t, f, dynamic_name, q);
}

/// Problem: NVTX output and the watchdog of stages are to be notified of both ends of each stage, which must cost
/// nothing while neither is on. Solution: the fast path picks its clock by thread_state::plain; these functions are the
/// slow side of that branch.
CUTRACE_LOCAL CUTRACE_NOINLINE inline std::uint64_t begin_ticks_notifying(thread_state* t, stage_frame& f,
                                                                          const char* dynamic_name) noexcept {
  const bool reported = t->owner->size >= offsetof(table, graph_twin);  // an older owner has no such function
  if (reported) t->owner->stage_begins(t, &f, dynamic_name);
  return clock::ticks(t->use_counter);
}
CUTRACE_LOCAL CUTRACE_NOINLINE inline std::uint64_t end_ticks_notifying(thread_state* t,
                                                                        const stage_frame& f) noexcept {
  const std::uint64_t end = clock::ticks(t->use_counter);
  if ((f.head & head_flags(flag_shown)) != 0) t->owner->stage_ended(t, &f);
  return end;
}
CUTRACE_LOCAL CUTRACE_NOINLINE inline std::uint64_t mark_ticks_notifying(thread_state* t, std::uint32_t site) noexcept {
  if (t->owner->size >= offsetof(table, graph_twin)) t->owner->mark_passed(t, site);
  return clock::ticks(t->use_counter);
}

/// Ticks at which a stage begins, ends, or a mark is passed; notifies the owner where it wants that.
CUTRACE_INLINE std::uint64_t begin_ticks(thread_state* t, stage_frame& f, const char* dynamic_name = nullptr) noexcept {
  return CUTRACE_LIKELY(t->plain) ? clock::counter() : begin_ticks_notifying(t, f, dynamic_name);
}
CUTRACE_INLINE std::uint64_t end_ticks(thread_state* t, const stage_frame& f) noexcept {
  return CUTRACE_LIKELY(t->plain) ? clock::counter() : end_ticks_notifying(t, f);
}
CUTRACE_INLINE std::uint64_t mark_ticks(thread_state* t, std::uint32_t site) noexcept {
  return CUTRACE_LIKELY(t->plain) ? clock::counter() : mark_ticks_notifying(t, site);
}

/// Fills the record of a stage that ends at `end`. `origin` is the index of the thread where a span began, 0 for
/// scopes.
CUTRACE_INLINE void fill_stage(record* r, const stage_frame& f, std::uint64_t end, std::uint32_t origin) noexcept {
  r->head = f.head;
  r->begin = f.begin;
  r->end = end;
  r->id = f.id;
  r->parent = f.parent;
  r->a = f.request;
  r->b = f.depth_and_trace | static_cast<std::uint64_t>(origin) << 32;
  r->c = f.naming_stage;
}

/// Problem: fibers and coroutines that share a thread leave their scopes in another order than they entered them, and a
/// stack may be gone by the time the thread comes back to a frame that lay on it. Solution: a scope that is not the
/// innermost one takes its frame out of the list, so that the list never holds a frame that is gone. Which stage GPU
/// work belongs to is not known then, which the owner reports. Ranges that were pushed inside of a scope and not popped
/// are no such case: they leave the list with the scope.
CUTRACE_LOCAL CUTRACE_NOINLINE inline void leave_from_below(thread_state* t, const stage_frame& f) noexcept {
  bool scopes_above = false;
  for (stage_frame** at = &t->top; *at != nullptr; at = &(*at)->outer) {
    if (*at != &f) {
      scopes_above = scopes_above || ((*at)->head & head_flags(flag_pushed)) == 0;
      continue;
    }
    if (!scopes_above) {
      t->top = f.outer;
      return;
    }
    *at = f.outer;
    break;
  }
  if (t->owner->size >= offsetof(table, scopes_interleave) + sizeof(t->owner->scopes_interleave))
    t->owner->scopes_interleave(t);
}

/// Takes the frame of a stage whose scope ends out of the thread's list.
CUTRACE_INLINE void leave_frame(thread_state* t, const stage_frame& f) noexcept {
  if (CUTRACE_LIKELY(t->top == &f))
    t->top = f.outer;
  else
    leave_from_below(t, f);
}

/// Writes the record of a stage that ends at `end` into the chunk of `t`; `origin` as in fill_stage.
CUTRACE_INLINE void write_stage(thread_state* t, const stage_frame& f, std::uint64_t end,
                                std::uint32_t origin) noexcept {
  record* r = reserve(t, 1);
  if (CUTRACE_UNLIKELY(r == nullptr)) return;
  fill_stage(r, f, end, origin);
  commit(t, 1);
}

}  // namespace detail
CUTRACE_END_NAMESPACE
