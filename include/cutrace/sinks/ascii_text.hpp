// SPDX-License-Identifier: Apache-2.0
// Lines of the ASCII report put together from pieces and columns; untrusted names escaped to printable ASCII and cut in
// the middle. Pure functions.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cutrace/config.hpp>
#include <cutrace/sinks/ascii_figure.hpp>
#include <initializer_list>
#include <string>
#include <string_view>

CUTRACE_BEGIN_NAMESPACE
namespace ascii {

/// A piece of a line: as it is, or filled up with spaces to `width`, from the left where the width is negative. Refers
/// to its text, so it belongs into the expression that prints it.
struct piece {
  piece(std::string_view s, int w = 0) noexcept : text(s), width(w) {}      // NOLINT: made for initializer lists
  piece(const char* s, int w = 0) noexcept : text(s), width(w) {}           // NOLINT
  piece(const std::string& s, int w = 0) noexcept : text(s), width(w) {}    // NOLINT
  piece(const figure& f, int w = 0) noexcept : text(f.view()), width(w) {}  // NOLINT
  std::string_view text;
  int width;
};
/// Width of a column whose text stands on the left.
inline int left(std::size_t width) noexcept { return -static_cast<int>(width); }
inline int right(std::size_t width) noexcept { return static_cast<int>(width); }

CUTRACE_NOINLINE inline void append(std::string& out, std::initializer_list<piece> pieces) {
  for (const piece& p : pieces) {
    const std::size_t width = static_cast<std::size_t>(p.width < 0 ? -p.width : p.width);
    const std::size_t fill = width > p.text.size() ? width - p.text.size() : 0;
    if (p.width > 0) out.append(fill, ' ');
    out += p.text;
    if (p.width < 0) out.append(fill, ' ');
  }
}
CUTRACE_NOINLINE inline std::string joined(std::initializer_list<piece> pieces) {
  std::string out;
  append(out, pieces);
  return out;
}

/// `prefix`, then at least `least` hexadecimal digits.
CUTRACE_NOINLINE inline void append_hex(std::string& out, const char* prefix, std::uint32_t value, unsigned least) {
  out += prefix;
  for (unsigned shift = 32; shift > 0;) {
    shift -= 4;
    if (shift < 4 * least || value >> shift != 0) out += "0123456789abcdef"[value >> shift & 15u];
  }
}

/// Printable ASCII only: control characters and everything beyond ASCII become \n, \x1b or \u{e9}, a
/// backslash \\. So a name can neither move the cursor nor change the width of a line. Only the first and the last 256
/// bytes of a long name are looked at: nothing in between would be printed.
CUTRACE_NOINLINE inline std::string escaped(std::string_view name) {
  std::string head;
  if (name.size() > 512) {
    head = std::string(name.substr(0, 256));
    head += "..";
    head += name.substr(name.size() - 256);
    name = head;
  }
  std::string out;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const unsigned char c = static_cast<unsigned char>(name[i]);
    const unsigned length = c >= 0xc2 && c < 0xe0 ? 2 : c >= 0xe0 && c < 0xf0 ? 3 : c >= 0xf0 && c < 0xf5 ? 4 : 0;
    std::uint32_t point = length == 2 ? c & 0x1fu : length == 3 ? c & 0x0fu : c & 0x07u;
    bool whole = length != 0 && i + length <= name.size();
    for (std::size_t k = 1; whole && k < length; ++k) {
      const unsigned char next = static_cast<unsigned char>(name[i + k]);
      whole = (next & 0xc0u) == 0x80u;
      point = point << 6 | (next & 0x3fu);
    }
    if (c == '\\')
      out += "\\\\";
    else if (c >= 0x20 && c < 0x7f)
      out += static_cast<char>(c);
    else if (c == '\n')
      out += "\\n";
    else if (c == '\t')
      out += "\\t";
    else if (whole) {
      append_hex(out, "\\u{", point, 1);
      out += '}';
      i += length - 1;
    } else {
      append_hex(out, "\\x", c, 2);
    }
  }
  return out;
}

/// At most `width` characters: the middle of a longer text becomes "..", because the ends of C++ names tell more.
CUTRACE_NOINLINE inline std::string cut(std::string text, std::size_t width) {
  if (text.size() <= width) return text;
  if (width <= 2) return text.substr(0, width);
  const std::size_t tail = (width - 2) / 2;
  const std::size_t head = width - 2 - tail;
  return text.substr(0, head) + ".." + text.substr(text.size() - tail);
}

/// An untrusted name for a column of `width` characters.
CUTRACE_NOINLINE inline std::string label(std::string_view name, std::size_t width) {
  return cut(name.empty() ? "(unnamed)" : escaped(name), width);
}

/// Breaks a long line at spaces; continuation lines get `indent` spaces. `text` must be escaped already.
CUTRACE_NOINLINE inline std::string wrapped(std::string_view text, std::size_t width, std::size_t indent) {
  std::string out;
  std::size_t room = width;
  while (text.size() > room) {
    std::size_t at = text.substr(0, room + 1).rfind(' ');
    const bool space = at != std::string_view::npos && at > room / 2;
    if (!space) at = room;
    out += text.substr(0, at);
    out += '\n';
    out.append(indent, ' ');
    text.remove_prefix(at + (space ? 1 : 0));
    room = width - std::min(indent, width - 1);
  }
  out += text;
  return out;
}

}  // namespace ascii
CUTRACE_END_NAMESPACE
