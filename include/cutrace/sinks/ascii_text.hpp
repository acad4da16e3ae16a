// SPDX-License-Identifier: Apache-2.0
// Numbers and names as a person reads them in a terminal: three significant digits with a unit, thousands separated,
// untrusted names escaped to printable ASCII and cut in the middle. Pure functions.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cutrace/config.hpp>
#include <string>
#include <string_view>

CUTRACE_BEGIN_NAMESPACE
namespace ascii {

/// Three significant digits, never in exponent form: 1.23, 12.3, 123.
inline std::string three_digits(double v) {
  return v < 9.995 ? fmt::format("{:.2f}", v) : v < 99.95 ? fmt::format("{:.1f}", v) : fmt::format("{:.0f}", v);
}

/// 1234567 -> "1,234,567".
inline std::string count(std::uint64_t n) {
  std::string s = fmt::format("{}", n);
  for (std::size_t at = s.size(); at > 3; at -= 3) s.insert(at - 3, 1, ',');
  return s;
}

/// "0 ns", "999 ns", "1.23 us", "45.6 ms", "2.50 s", "16.7 min", "2.50 h", "13,344 d".
inline std::string duration(double ns) {
  if (ns < 0) return "-" + duration(-ns);
  if (ns < 999.5) return fmt::format("{:.0f} ns", ns);
  if (ns < 999.5e3) return three_digits(ns / 1e3) + " us";
  if (ns < 999.5e6) return three_digits(ns / 1e6) + " ms";
  if (ns < 999.5e9) return three_digits(ns / 1e9) + " s";
  if (ns < 99.95 * 60e9) return three_digits(ns / 60e9) + " min";
  if (ns < 99.95 * 3600e9) return three_digits(ns / 3600e9) + " h";
  if (ns < 999.5 * 86400e9) return three_digits(ns / 86400e9) + " d";
  return count(static_cast<std::uint64_t>(ns / 86400e9 + 0.5)) + " d";
}
inline std::string duration(std::int64_t ns) { return duration(static_cast<double>(ns)); }
inline std::string duration(std::uint64_t ns) { return duration(static_cast<double>(ns)); }

/// Powers of 1024: "512 B", "1.50 KiB", "3.81 MiB", "139 GiB".
inline std::string bytes(std::uint64_t n) {
  double v = static_cast<double>(n);
  if (n < 1024) return fmt::format("{} B", n);
  constexpr const char* units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  std::size_t u = 0;
  for (v /= 1024; v >= 1023.5 && u < 5; v /= 1024) ++u;
  return fmt::format("{} {}", three_digits(v), units[u]);
}

/// Powers of 1000, as vendors state bandwidth: "25.3 GB/s".
inline std::string bandwidth(double bytes_per_s) {
  constexpr const char* units[] = {"B/s", "kB/s", "MB/s", "GB/s", "TB/s"};
  std::size_t u = 0;
  for (; bytes_per_s >= 999.5 && u < 4; bytes_per_s /= 1000) ++u;
  return fmt::format("{} {}", three_digits(bytes_per_s), units[u]);
}

/// Tenths of a percent: 432 -> "43.2 %".
inline std::string share(std::uint64_t permille) { return fmt::format("{}.{} %", permille / 10, permille % 10); }
/// `part` of `whole`; "-" where there is no whole. What is not nothing is never printed as nothing.
inline std::string share_of(double part, double whole) {
  if (whole <= 0) return "-";
  const double percent = 100.0 * part / whole;
  return percent > 0 && percent < 0.05 ? "<0.1 %" : fmt::format("{:.1f} %", percent);
}

/// Printable ASCII only: control characters and everything beyond ASCII become \n, \x1b or \u{e9}, a
/// backslash \\. So a name can neither move the cursor nor change the width of a line. Only the first and the last 256
/// bytes of a long name are looked at: nothing in between would be printed.
inline std::string escaped(std::string_view name) {
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
      out += fmt::format("\\u{{{:x}}}", point);
      i += length - 1;
    } else {
      out += fmt::format("\\x{:02x}", c);
    }
  }
  return out;
}

/// At most `width` characters: the middle of a longer text becomes "..", because the ends of C++ names tell more.
inline std::string cut(std::string text, std::size_t width) {
  if (text.size() <= width) return text;
  if (width <= 2) return text.substr(0, width);
  const std::size_t tail = (width - 2) / 2;
  const std::size_t head = width - 2 - tail;
  return text.substr(0, head) + ".." + text.substr(text.size() - tail);
}

/// An untrusted name for a column of `width` characters.
inline std::string label(std::string_view name, std::size_t width) {
  return cut(name.empty() ? "(unnamed)" : escaped(name), width);
}

/// Breaks a long line at spaces; continuation lines get `indent` spaces. `text` must be escaped already.
inline std::string wrapped(std::string_view text, std::size_t width, std::size_t indent) {
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
