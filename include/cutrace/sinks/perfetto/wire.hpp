// SPDX-License-Identifier: Apache-2.0
// Protobuf at a cursor, for the packets that a trace has millions of: room is made once for a whole packet, lengths
// are filled in afterwards. Packets that are rare are built with protozero::pbf_writer instead.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <cutrace/config.hpp>
#include <cutrace/sinks/perfetto/fields.hpp>
#include <protozero/types.hpp>
#include <protozero/varint.hpp>
#include <string_view>

CUTRACE_BEGIN_NAMESPACE
namespace detail {

CUTRACE_INLINE char* put_varint(char* to, std::uint64_t n) noexcept {
  for (; n >= 0x80; n >>= 7u) *to++ = static_cast<char>(n | 0x80u);
  *to = static_cast<char>(n);
  return to + 1;
}

/// Longest field of a number: a tag of three bytes and a varint of ten.
constexpr std::size_t number_field_room = 13;

template <pf::field Field, protozero::pbf_wire_type Type>
CUTRACE_INLINE char* put_tag(char* to) noexcept {
  constexpr std::uint32_t tag = Field << 3u | static_cast<std::uint32_t>(Type);
  static_assert(tag < 0x200000, "three bytes");
  constexpr std::size_t size = tag < 0x80 ? 1 : tag < 0x4000 ? 2 : 3;
  // memcpy, since g++ 12 merges byte-by-byte stores into one, whose constant it loads from memory.
  constexpr unsigned char bytes[] = {(tag & 0x7Fu) | (size > 1 ? 0x80u : 0u),
                                     (tag >> 7u & 0x7Fu) | (size > 2 ? 0x80u : 0u), tag >> 14u};
  std::memcpy(to, bytes, size);
  return to + size;
}

template <pf::field Field>
CUTRACE_INLINE char* put_number(char* to, std::uint64_t n) noexcept {
  return put_varint(put_tag<Field, protozero::pbf_wire_type::varint>(to), n);
}
/// int32, int64: negative numbers take ten bytes.
template <pf::field Field>
CUTRACE_INLINE char* put_signed(char* to, std::int64_t n) noexcept {
  return put_number<Field>(to, static_cast<std::uint64_t>(n));
}

/// Opens a message within a message. One byte before the returned cursor is left for its length, which close_message
/// writes; it moves the body where the length takes more.
template <pf::field Field>
CUTRACE_INLINE char* open_message(char* to) noexcept {
  return put_tag<Field, protozero::pbf_wire_type::length_delimited>(to) + 1;
}
/// As close_message, for a message of 128 bytes and more.
CUTRACE_ONE_COPY inline char* close_long_message(char* body, char* end) noexcept {
  const std::size_t size = static_cast<std::size_t>(end - body);
  const std::size_t more = static_cast<std::size_t>(protozero::length_of_varint(size)) - 1;
  std::memmove(body + more, body, size);
  put_varint(body - 1, size);
  return end + more;
}
/// `body` is what open_message returned, of a message shorter than 128 bytes. @returns the new end
CUTRACE_INLINE char* close_short_message(char* body, char* end) noexcept {
  body[-1] = static_cast<char>(end - body);
  return end;
}
/// Closes a message of any length. There must be room for nine bytes behind `end`.
CUTRACE_INLINE char* close_message(char* body, char* end) noexcept {
  const std::size_t size = static_cast<std::size_t>(end - body);
  if (CUTRACE_UNLIKELY(size >= 0x80)) return close_long_message(body, end);
  return close_short_message(body, end);
}
/// Closes nested messages that end together; `body` is of the outermost. Where the length of the outermost takes one
/// byte, so do the lengths of the inner ones.
CUTRACE_INLINE char* close_messages(char* body, char* inner, char* end) noexcept {
  if (CUTRACE_UNLIKELY(end - body >= 0x80)) return close_long_message(body, close_message(inner, end));
  return close_short_message(body, close_short_message(inner, end));
}
CUTRACE_INLINE char* close_messages(char* body, char* inner, char* innermost, char* end) noexcept {
  if (CUTRACE_UNLIKELY(end - body >= 0x80)) return close_message(body, close_messages(inner, innermost, end));
  return close_short_message(body, close_short_message(inner, close_short_message(innermost, end)));
}

template <pf::field Field>
inline char* put_bytes(char* to, std::string_view bytes) noexcept {
  to = put_varint(put_tag<Field, protozero::pbf_wire_type::length_delimited>(to), bytes.size());
  if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
  return to + bytes.size();
}

}  // namespace detail
CUTRACE_END_NAMESPACE
