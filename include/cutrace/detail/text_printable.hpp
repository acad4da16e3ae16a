// SPDX-License-Identifier: Apache-2.0
// Foreign names on a terminal: no escape sequence, no line break, no broken character gets through.
#pragma once

#include <cstddef>
#include <cutrace/config.hpp>
#include <cutrace/detail/text_utf8.hpp>
#include <string>
#include <string_view>

CUTRACE_BEGIN_NAMESPACE
namespace detail {

/// Appends `s`: control characters (C0, DEL and C1) as \xNN, wrong UTF-8 as U+FFFD, and "..." after `limit` bytes of
/// it.
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
    if (!step.valid) {
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
