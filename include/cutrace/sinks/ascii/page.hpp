// SPDX-License-Identifier: Apache-2.0
// The page that the ASCII report is written on: lines of limited width, headings, colour where it was asked for.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cutrace/config.hpp>
#include <initializer_list>
#include <string>
#include <string_view>

CUTRACE_BEGIN_NAMESPACE
namespace ascii {

// Numbers as a person reads them in a terminal: three significant digits with a unit, thousands separated. Pure
// functions.

/// A number with its unit. Not a std::string: a line of the report holds up to six of them, and the compiler would have
/// to write out how each is destroyed on each way out.
class figure {
 public:
  figure() noexcept = default;
  explicit figure(std::string_view s) noexcept { add(s); }

  /// What does not fit, is dropped.
  CUTRACE_NOINLINE figure& add(std::string_view s) noexcept {
    for (const char c : s)
      if (size_ < sizeof(text_)) text_[size_++] = c;
    return *this;
  }
  std::string_view view() const noexcept { return {text_, size_}; }
  operator std::string_view() const noexcept { return view(); }
  friend bool operator==(const figure& a, std::string_view b) noexcept { return a.view() == b; }

 private:
  char text_[39];
  unsigned char size_ = 0;
};

/// `decimals` digits behind the point, never in exponent form.
CUTRACE_NOINLINE inline figure fixed(double v, int decimals) {
  return figure(fmt::vformat("{:.{}f}", fmt::make_format_args(v, decimals)));
}

/// Three significant digits, never in exponent form: 1.23, 12.3, 123.
CUTRACE_NOINLINE inline figure three_digits(double v) { return fixed(v, v < 9.995 ? 2 : v < 99.95 ? 1 : 0); }

/// Digits of `n`, from the right, `separator` after each third one; 0: none.
CUTRACE_NOINLINE inline figure digits(std::uint64_t n, char separator = '\0') noexcept {
  char text[32];
  char* at = text + sizeof(text);
  unsigned written = 0;
  do {
    if (separator != '\0' && written != 0 && written % 3 == 0) *--at = separator;
    *--at = static_cast<char>('0' + n % 10);
    ++written;
  } while ((n /= 10) != 0);
  return figure(std::string_view(at, static_cast<std::size_t>(text + sizeof(text) - at)));
}

inline figure signed_digits(std::int64_t n) noexcept {
  const std::uint64_t bits = static_cast<std::uint64_t>(n);
  return n < 0 ? figure("-").add(digits(0 - bits)) : digits(bits);
}

/// 1234567 -> "1,234,567".
inline figure count(std::uint64_t n) noexcept { return digits(n, ','); }

/// "1 call", "12 calls".
CUTRACE_NOINLINE inline figure counted(std::uint64_t n, std::string_view what) noexcept {
  return count(n).add(" ").add(what).add(n == 1 ? "" : "s");
}

/// "0 ns", "999 ns", "1.23 us", "45.6 ms", "2.50 s", "16.7 min", "2.50 h", "13,344 d".
CUTRACE_NOINLINE inline figure duration(double ns) {
  struct unit {
    double below_ns;
    double ns;
    const char* name;
  };
  constexpr unit units[] = {{999.5e3, 1e3, " us"},          {999.5e6, 1e6, " ms"},
                            {999.5e9, 1e9, " s"},           {99.95 * 60e9, 60e9, " min"},
                            {99.95 * 3600e9, 3600e9, " h"}, {999.5 * 86400e9, 86400e9, " d"}};
  if (ns < 0) return figure("-").add(duration(-ns));
  if (ns < 999.5) return fixed(ns, 0).add(" ns");
  for (const unit& u : units)
    if (ns < u.below_ns) return three_digits(ns / u.ns).add(u.name);
  return count(static_cast<std::uint64_t>(ns / 86400e9 + 0.5)).add(" d");
}
inline figure duration(std::int64_t ns) { return duration(static_cast<double>(ns)); }
inline figure duration(std::uint64_t ns) { return duration(static_cast<double>(ns)); }

/// Powers of 1024: "512 B", "1.50 KiB", "3.81 MiB", "139 GiB".
CUTRACE_NOINLINE inline figure bytes(std::uint64_t n) {
  double v = static_cast<double>(n);
  if (n < 1024) return digits(n).add(" B");
  constexpr const char* units[] = {" KiB", " MiB", " GiB", " TiB", " PiB", " EiB"};
  std::size_t u = 0;
  for (v /= 1024; v >= 1023.5 && u < 5; v /= 1024) ++u;
  return three_digits(v).add(units[u]);
}

/// Powers of 1000, as vendors state bandwidth: "25.3 GB/s".
CUTRACE_NOINLINE inline figure bandwidth(double bytes_per_s) {
  constexpr const char* units[] = {" B/s", " kB/s", " MB/s", " GB/s", " TB/s"};
  std::size_t u = 0;
  for (; bytes_per_s >= 999.5 && u < 4; bytes_per_s /= 1000) ++u;
  return three_digits(bytes_per_s).add(units[u]);
}

/// Tenths of a percent: 432 -> "43.2 %".
CUTRACE_NOINLINE inline figure share(std::uint64_t permille) {
  return digits(permille / 10).add(".").add(digits(permille % 10)).add(" %");
}
/// `part` of `whole`; "-" where there is no whole. What is not nothing is never printed as nothing.
CUTRACE_NOINLINE inline figure share_of(double part, double whole) {
  if (whole <= 0) return figure("-");
  const double percent = 100.0 * part / whole;
  return percent > 0 && percent < 0.05 ? figure("<0.1 %") : fixed(percent, 1).add(" %");
}

// Lines of the ASCII report put together from pieces and columns; untrusted names escaped to printable ASCII and cut in
// the middle. Pure functions.

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

/// A place in the source, "folders/file:line", for about `width` characters: folders in front go first, file and line
/// never.
CUTRACE_NOINLINE inline std::string place(std::string_view site, std::size_t width) {
  std::string text = escaped(site);
  if (text.size() <= width) return text;
  const std::size_t file = text.rfind('/'), fits = text.size() - width + 3;
  std::size_t at = text.find('/', fits);
  if (file == std::string::npos) return text;
  if (at == std::string::npos) at = file;
  return at == 0 ? text : "..." + text.substr(at);
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

enum class tone : unsigned char { plain, heading, alarm };

class page {
 public:
  page(std::size_t width, bool color) : width_(width), color_(color) {}

  std::size_t width() const noexcept { return width_; }

  /// One line, cut at the width; trailing spaces vanish.
  CUTRACE_NOINLINE void line(std::string_view text = {}, tone t = tone::plain) {
    text = text.substr(0, width_);
    while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
    const char* begin = !color_ || t == tone::plain ? "" : t == tone::heading ? "\x1b[1m" : "\x1b[1;31m";
    text_ += begin;
    text_ += text;
    if (*begin != '\0') text_ += "\x1b[0m";
    text_ += '\n';
  }

  CUTRACE_NOINLINE void line(std::initializer_list<piece> pieces, tone t = tone::plain) {
    line(std::string_view(joined(pieces)), t);
  }

  /// A paragraph, broken at spaces. The text must be printable already.
  CUTRACE_NOINLINE void paragraph(std::string_view text, std::size_t indent, tone t = tone::plain) {
    const std::string whole = wrapped(text, width_, indent);
    std::string_view rest = whole;
    for (std::size_t at; (at = rest.find('\n')) != std::string_view::npos; rest.remove_prefix(at + 1))
      line(rest.substr(0, at), t);
    line(rest, t);
  }

  CUTRACE_NOINLINE void paragraph(std::initializer_list<piece> pieces, std::size_t indent, tone t = tone::plain) {
    paragraph(std::string_view(joined(pieces)), indent, t);
  }

  /// Empty line, then the heading: a title on the left, what its columns mean on the right.
  CUTRACE_NOINLINE void heading(std::string_view title, std::string_view columns = {}) {
    line();
    std::string text(title);
    if (title.size() + columns.size() + 1 <= width_) text.append(width_ - title.size() - columns.size(), ' ');
    text += columns;
    line(text, tone::heading);
  }

  CUTRACE_NOINLINE void heading(std::initializer_list<piece> title, std::string_view columns) {
    heading(std::string_view(joined(title)), columns);
  }
  CUTRACE_NOINLINE void heading(const char* title, std::initializer_list<piece> columns) {
    heading(std::string_view(title), std::string_view(joined(columns)));
  }

  const std::string& text() const noexcept { return text_; }

 private:
  std::size_t width_;
  bool color_;
  std::string text_;
};

}  // namespace ascii
CUTRACE_END_NAMESPACE
