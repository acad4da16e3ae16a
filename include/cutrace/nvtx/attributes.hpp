// SPDX-License-Identifier: Apache-2.0
// What an NVTX call says of its range or mark: name, payload, category, colour; and how that is written into records.
#pragma once

#include <cstdint>
#include <cstring>
#include <cutrace/detail/stage_write.hpp>
#include <cutrace/event.hpp>
#include <cutrace/nvtx/names.hpp>
#include <cutrace/nvtx/text.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace nvtx CUTRACE_LOCAL {

/// Payload, category and colour, as words of a continuation record (detail::record_type::words).
struct extras {
  std::uint64_t words[3] = {};
  bool any() const noexcept { return (words[0] | words[1] | words[2]) != 0; }
};

/// The attributes as far as the caller's structure reaches; zeros beyond. Null is allowed.
inline event_attributes known_part(const event_attributes* from) noexcept {
  event_attributes a{};
  if (from != nullptr) std::memcpy(&a, from, from->size < sizeof(a) ? from->size : sizeof(a));
  return a;
}

inline extras read_extras(const event_attributes& a, std::uint32_t in, detail::thread_state* t) {
  extras e;
  argument_kind kind = argument_kind::word;
  double floating = 0;
  switch (a.payload_kind) {
    case payload_uint64:
      kind = argument_kind::unsigned_integer;
      e.words[0] = a.payload.unsigned_64;
      break;
    case payload_uint32:
      kind = argument_kind::unsigned_integer;
      e.words[0] = a.payload.unsigned_32;
      break;
    case payload_int64:
      kind = argument_kind::integer;
      e.words[0] = a.payload.unsigned_64;
      break;
    case payload_int32:
      kind = argument_kind::integer;
      e.words[0] = static_cast<std::uint64_t>(std::int64_t{a.payload.signed_32});
      break;
    case payload_double:
    case payload_float:
      kind = argument_kind::floating;
      floating = a.payload_kind == payload_double ? a.payload.floating_64 : double{a.payload.floating_32};
      std::memcpy(&e.words[0], &floating, sizeof(floating));
      break;
    default:
      break;
  }
  const std::uint64_t color = a.color_kind == color_argb ? a.color : 0;
  e.words[1] = static_cast<std::uint64_t>(kind) | color << 32;
  named_site* name = a.category != 0 ? names::get().category_of(in, a.category) : nullptr;
  e.words[2] = a.category | std::uint64_t{name != nullptr ? detail::site_id(t, name->site) : 0} << 32;
  return e;
}

inline detail::record* put_extras(detail::record* at, const extras& e) noexcept {
  detail::words_record piece{};
  piece.type = detail::record_type::words;
  piece.size = 3;
  std::memcpy(piece.words, e.words, sizeof(e.words));
  std::memcpy(static_cast<void*>(at), &piece, sizeof(piece));
  return at + 1;
}

/// Name of a range or mark: a registered string, or text that is valid while this object is.
class message {
 public:
  explicit message(const char* ascii) noexcept : text_(ascii), wide_(nullptr) {}
  explicit message(const wchar_t* wide) noexcept : wide_(wide) {
    if (wide != nullptr) text_ = wide_.text();
  }
  explicit message(const event_attributes& a) noexcept
      : text_(a.message_kind == message_ascii ? a.message.ascii : nullptr),
        wide_(a.message_kind == message_wide ? a.message.wide : nullptr),
        site_(a.message_kind == message_registered ? names::get().string_of(a.message.registered) : nullptr) {
    if (a.message_kind == message_wide && a.message.wide != nullptr) text_ = wide_.text();
  }
  message(const message&) = delete;
  message& operator=(const message&) = delete;

  named_site* site() const noexcept { return site_; }  ///< nullptr: `text` is the name
  const char* text() const noexcept { return text_ != nullptr ? text_ : "(no message)"; }

 private:
  const char* text_ = nullptr;
  narrowed wide_;
  named_site* site_ = nullptr;
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
