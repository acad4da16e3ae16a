// SPDX-License-Identifier: Apache-2.0
// Foreign names on a terminal: no escape sequence, no line break, no broken character gets through.
#pragma once

#include <cstddef>
#include <cutrace/config.hpp>
#include <string>
#include <string_view>

CUTRACE_BEGIN_NAMESPACE
namespace detail {

// Strict UTF-8: which bytes of a foreign name form a character. Shared by JSON text and terminal text.

struct utf8_step {
  std::size_t size;  ///< bytes to go on by, at least 1
  bool valid;        ///< else these bytes stand for one U+FFFD
};

/// Character at `s`, `n` >= 1 bytes left. Refuses overlong forms, surrogates and what lies beyond U+10FFFF. A wrong
/// sequence is as long as its longest right beginning (Unicode 15, section 3.9, "maximal subpart").
inline utf8_step next_utf8(const unsigned char* s, std::size_t n) noexcept {
  const unsigned char lead = s[0];
  if (lead < 0x80) return {1, true};
  if (lead < 0xC2 || lead > 0xF4) return {1, false};
  const std::size_t size = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  unsigned char low = 0x80;
  unsigned char high = 0xBF;
  if (lead == 0xE0) low = 0xA0;   // overlong
  if (lead == 0xED) high = 0x9F;  // surrogates
  if (lead == 0xF0) low = 0x90;   // overlong
  if (lead == 0xF4) high = 0x8F;  // beyond U+10FFFF
  for (std::size_t i = 1; i < size; ++i) {
    if (i >= n || s[i] < low || s[i] > high) return {i, false};
    low = 0x80;
    high = 0xBF;
  }
  return {size, true};
}

/// Whether these bytes are a character that changes the direction of the text around it, so that a line reads as
/// another one (Unicode 15, Bidi_Control: U+061C, U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069).
inline bool turns_text(const unsigned char* s, std::size_t size) noexcept {
  if (size == 2) return s[0] == 0xD8 && s[1] == 0x9C;
  if (size != 3 || s[0] != 0xE2) return false;
  if (s[1] == 0x81) return s[2] >= 0xA6 && s[2] <= 0xA9;
  return s[1] == 0x80 && (s[2] == 0x8E || s[2] == 0x8F || (s[2] >= 0xAA && s[2] <= 0xAE));
}

/// Appends `s`: control characters (C0, DEL and C1) as \xNN, wrong UTF-8 and what turns text as U+FFFD, and "..." after
/// `limit` bytes of it.
inline void append_printable(std::string& out, std::string_view s, std::size_t limit) {
  static const char hex[] = "0123456789abcdef";
  const auto* bytes = reinterpret_cast<const unsigned char*>(s.data());
  std::size_t at = 0;
  while (at < s.size()) {
    if (at >= limit) {
      out += "...";
      return;
    }
    std::size_t plain = at;
    while (plain < s.size() && plain < limit && bytes[plain] >= 0x20 && bytes[plain] < 0x7F) ++plain;
    if (plain != at) {
      out.append(s, at, plain - at);
      at = plain;
      continue;
    }
    const utf8_step step = next_utf8(bytes + at, s.size() - at);
    const unsigned char c = bytes[at];
    const bool c1 = step.valid && c == 0xC2 && bytes[at + 1] < 0xA0;
    if (!step.valid || turns_text(bytes + at, step.size)) {
      out += "\xEF\xBF\xBD";
    } else if (c < 0x20 || c == 0x7F || c1) {
      const unsigned char code = c1 ? bytes[at + 1] : c;
      out += "\\x";
      out += hex[code >> 4];
      out += hex[code & 15u];
    } else {
      out.append(s, at, step.size);
    }
    at += step.size;
  }
}

}  // namespace detail
CUTRACE_END_NAMESPACE
