// SPDX-License-Identifier: Apache-2.0
// Writing stages into the thread's chunk. The fast path (a stage without request or with a numeric one) is one record
// at its end; everything that copies text or request sets is out of line.
#pragma once

#include <cstddef>
#include <cstring>

#include <cutrace/detail/thread.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace detail {

constexpr std::uint32_t request_limit = 2048;  ///< ids of one batch that are kept; the count says how many there were

CUTRACE_INLINE std::uint64_t hash_text(const char* text, std::size_t size) noexcept {
  std::uint64_t h = 14695981039346656037u;  // FNV-1a, 64 bits
  for (std::size_t i = 0; i < size; ++i) h = (h ^ static_cast<unsigned char>(text[i])) * 1099511628211u;
  return h;
}

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
    if (part != 0) std::memcpy(piece.bytes, text + done, part);
    std::memcpy(static_cast<void*>(at), &piece, sizeof(piece));
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
    std::memcpy(piece.words, static_cast<const char*>(q.data()) + done * 8, piece.size * std::size_t{8});
    std::memcpy(static_cast<void*>(at), &piece, sizeof(piece));
  }
  return at;
}

/// Tells the collector who a running stage is, with its texts and request set. Called once a stage at the most.
CUTRACE_LOCAL CUTRACE_NOINLINE inline void write_open(thread_state* t, stage_frame& f, const char* name,
                                                      const request& q) noexcept {
  f.opened = true;
  const std::size_t name_size = name != nullptr ? std::strlen(name) : 0;
  const std::uint32_t extra = (name != nullptr ? text_records(name_size) : 0) + request_records(q);
  record* r = reserve(t, extra + 1);
  if (r == nullptr) return;
  if (name != nullptr) r = put_text(r, 0, name, name_size);
  r = put_request(r, q);
  *r = record{record_type::stage_open, f.flags, f.form, 0, f.site, f.begin, 0, f.id, f.parent, f.request, f.depth, f.owner};
  commit(t, extra + 1);
}

/// Opens a frame and the frames around it, outermost first, so that whatever refers to this stage can be resolved.
CUTRACE_LOCAL CUTRACE_NOINLINE inline void open_frames(thread_state* t, stage_frame* f) noexcept {
  if (f == nullptr || f->opened) return;
  open_frames(t, f->outer);
  write_open(t, *f, nullptr, {});
}

CUTRACE_INLINE std::uint64_t current_id(const thread_state* t) noexcept { return t->top != nullptr ? t->top->id : 0; }

/// Gives a site the name of its function. The same name every time, so a race writes the same bits.
CUTRACE_INLINE site& named(site& s, const char* name) noexcept {
  if (CUTRACE_UNLIKELY(s.id.load(std::memory_order_relaxed) == 0)) s.name = name;
  return s;
}

/// Instance of the innermost stage of this thread, known to the collector from here on; 0 when there is none.
CUTRACE_INLINE std::uint64_t current_stage(thread_state* t) noexcept {
  stage_frame* f = t->top;
  if (f == nullptr) return 0;
  if (CUTRACE_UNLIKELY(!f->opened)) open_frames(t, f);
  return f->id;
}

/// Fills the identity of a stage that begins now. `dynamic_name` is given for run-time names (site is 0 then).
CUTRACE_INLINE void begin_frame(thread_state* t, stage_frame& f, std::uint32_t site, const char* dynamic_name,
                                const request& q, std::uint8_t flags) noexcept {
  stage_frame* outer = t->top;
  f.outer = outer;
  f.id = t->next_stage++;
  f.parent = outer != nullptr ? outer->id : 0;
  f.depth = outer != nullptr ? static_cast<std::uint16_t>(outer->depth + 1) : std::uint16_t{0};
  if (q.form() == request_form::none && outer != nullptr) {  // what happens inside belongs to the same requests
    f.request = outer->request;
    f.form = outer->form;
    f.owner = outer->owner;
  } else {
    f.request = q.word();
    f.form = q.form();
    f.owner = q.form() == request_form::none ? 0 : f.id;
  }
  f.site = site;
  f.flags = flags;
  f.opened = false;
  if (CUTRACE_UNLIKELY(dynamic_name != nullptr || q.form() >= request_form::text)) {
    f.begin = clock::ticks(t->use_counter);
    write_open(t, f, dynamic_name, q);
  }
}

/// Writes the record of a stage that ends at `end` on thread `t`.
/// `origin` is the index of the thread where a span began, 0 for scopes.
CUTRACE_INLINE void write_stage(thread_state* t, const stage_frame& f, std::uint64_t end,
                                std::uint32_t origin) noexcept {
  record* r = reserve(t, 1);
  if (CUTRACE_UNLIKELY(r == nullptr)) return;
  r->type = record_type::stage;
  r->flags = f.flags;
  r->form = f.form;
  r->count = 0;
  r->site = f.site;
  r->begin = f.begin;
  r->end = end;
  r->id = f.id;
  r->parent = f.parent;
  r->a = f.request;
  r->b = f.depth | static_cast<std::uint64_t>(f.opened) << 16 | static_cast<std::uint64_t>(origin) << 32;
  r->c = f.owner;
  commit(t, 1);
}

}  // namespace detail
CUTRACE_END_NAMESPACE
