// SPDX-License-Identifier: Apache-2.0
// The page that the ASCII report is written on: lines of limited width, headings, colour where it was asked for.
#pragma once

#include <fmt/core.h>
#include <strings.h>  // strncasecmp

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cutrace/base/process_info.hpp>
#include <cutrace/config.hpp>
#include <initializer_list>
#include <string>
#include <string_view>

CUTRACE_BEGIN_NAMESPACE
namespace ascii {

// Numbers as a person reads them in a terminal: three significant digits with a unit, thousands separated. Pure
// functions.

/// A number with its unit. Not a std::string: a line of the report holds up to six figures, and for strings the
/// compiler would emit a destructor call for each of them on every exit path.
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
/// `part` of `whole`; "-" where there is no whole. A part above 0 is never printed as 0.0 %.
CUTRACE_NOINLINE inline figure share_of(double part, double whole) {
  if (whole <= 0) return figure("-");
  const double percent = 100.0 * part / whole;
  return percent > 0 && percent < 0.05 ? figure("<0.1 %") : fixed(percent, 1).add(" %");
}

// Lines of the ASCII report put together from pieces and columns; untrusted names escaped to printable ASCII and cut in
// the middle. Pure functions.

/// Whether names that this thread writes may have characters beyond ASCII. True while the thread writes a page for a
/// terminal that takes UTF-8, or for a browser.
inline bool& names_in_utf8() noexcept {
  static thread_local bool wanted = false;
  return wanted;
}
/// Sets names_in_utf8 while it lives.
class utf8_names {
 public:
  explicit utf8_names(bool wanted) noexcept : before_(names_in_utf8()) { names_in_utf8() = wanted; }
  utf8_names(const utf8_names&) = delete;
  utf8_names& operator=(const utf8_names&) = delete;
  ~utf8_names() { names_in_utf8() = before_; }

 private:
  bool before_;
};

/// Whether the environment says that terminals take UTF-8 (locale(7)).
inline bool terminal_takes_utf8() noexcept {
  const char* locale = nullptr;
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"})
    if ((locale = detail::environment(name)) != nullptr) break;
  for (; locale != nullptr && *locale != '\0'; ++locale)
    if (::strncasecmp(locale, "utf-8", 5) == 0 || ::strncasecmp(locale, "utf8", 4) == 0) return true;
  return false;
}

/// A character of UTF-8 that begins at `s`: its bytes, 0 where there is none (The Unicode Standard, table 3-7).
struct utf8_character {
  std::uint32_t point = 0;
  unsigned size = 0;
};
CUTRACE_NOINLINE inline utf8_character utf8_at(std::string_view s) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(s[i]); };
  if (s.empty()) return {};
  const unsigned char c = byte(0);
  if (c < 0x80) return {c, 1};
  const unsigned size = c >= 0xc2 && c < 0xe0 ? 2 : c >= 0xe0 && c < 0xf0 ? 3 : c >= 0xf0 && c < 0xf5 ? 4 : 0;
  if (size == 0 || s.size() < size) return {};
  std::uint32_t point = size == 2 ? c & 0x1fu : size == 3 ? c & 0x0fu : c & 0x07u;
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0u) != 0x80u) return {};
    point = point << 6 | (byte(i) & 0x3fu);
  }
  const bool shortest = point >= (size == 2 ? 0x80u : size == 3 ? 0x800u : 0x10000u);
  if (!shortest || point > 0x10ffff || (point >= 0xd800 && point < 0xe000)) return {};
  return {point, size};
}

/// Columns of a terminal that a character takes: 0 for combining marks, 2 for East Asian characters and pictures
/// (Unicode Standard Annex 11), -1 for a character that must not reach the terminal: controls, marks of direction,
/// invisible characters, surrogates, and code points for private use.
inline int columns_of(std::uint32_t point) noexcept {
  struct range {
    std::uint32_t first, last;
    int columns;
  };
  constexpr range ranges[] = {
      {0x0, 0x1f, -1},        {0x7f, 0x9f, -1},      {0xad, 0xad, -1},      {0x300, 0x36f, 0},
      {0x61c, 0x61c, -1},     {0x1100, 0x115f, 2},   {0x180e, 0x180e, -1},  {0x200b, 0x200f, -1},
      {0x2028, 0x202e, -1},   {0x2060, 0x206f, -1},  {0x2e80, 0x303e, 2},   {0x3041, 0x33ff, 2},
      {0x3400, 0x4dbf, 2},    {0x4e00, 0xa4cf, 2},   {0xa960, 0xa97f, 2},   {0xac00, 0xd7a3, 2},
      {0xd800, 0xf8ff, -1},   {0xf900, 0xfaff, 2},   {0xfe00, 0xfe0f, -1},  {0xfe30, 0xfe6f, 2},
      {0xfeff, 0xfeff, -1},   {0xff01, 0xff60, 2},   {0xffe0, 0xffe6, 2},   {0xfff0, 0xfffb, -1},
      {0x1f300, 0x1f64f, 2},  {0x1f680, 0x1f6ff, 2}, {0x1f900, 0x1f9ff, 2}, {0x20000, 0x3fffd, 2},
      {0xe0000, 0x10ffff, -1}};
  for (const range& r : ranges)
    if (point >= r.first && point <= r.last) return r.columns;
  return 1;
}

/// @returns how many bytes of the printable `text` fit into `columns`; `taken` gets the columns that these bytes take
CUTRACE_NOINLINE inline std::size_t fitting(std::string_view text, std::size_t columns, std::size_t* taken = nullptr) {
  std::size_t at = 0, used = 0;
  while (at < text.size()) {
    const utf8_character c = utf8_at(text.substr(at));
    const std::size_t more = c.size > 1 ? static_cast<std::size_t>(std::max(columns_of(c.point), 0)) : 1;
    if (used + more > columns) break;
    used += more;
    at += std::max(c.size, 1u);
  }
  if (taken != nullptr) *taken = used;
  return at;
}
CUTRACE_NOINLINE inline std::size_t columns_of(std::string_view text) {
  std::size_t used = 0;
  fitting(text, ~std::size_t{0} >> 1, &used);
  return used;
}

/// A piece of a line: as it is (width 0), aligned right in `width` columns, or aligned left where `width` is negative.
/// Refers to its text, so it belongs into the expression that prints it.
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
    const std::size_t columns = width == 0 ? 0 : columns_of(p.text), fill = width > columns ? width - columns : 0;
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

/// Printable only: control characters and invalid bytes become \n, \x1b or \u{202e}, a backslash becomes \\. Unless
/// names_in_utf8(), characters beyond ASCII are escaped likewise. So a name can neither move the cursor nor change the
/// width of a line. Only the first and the last 256 bytes of a long name are looked at: nothing in between would be
/// printed.
CUTRACE_NOINLINE inline std::string escaped(std::string_view name) {
  std::string head;
  if (name.size() > 512) {
    head = std::string(name.substr(0, 256));
    head += "..";
    head += name.substr(name.size() - 256);
    name = head;
  }
  std::string out;
  for (std::size_t i = 0; i < name.size();) {
    const utf8_character c = utf8_at(name.substr(i));
    const std::string_view piece = name.substr(i, std::max(c.size, 1u));
    i += piece.size();
    if (piece[0] == '\\')
      out += "\\\\";
    else if (piece[0] == '\n')
      out += "\\n";
    else if (piece[0] == '\t')
      out += "\\t";
    else if (c.size != 0 && columns_of(c.point) >= (out.empty() ? 1 : 0) && (c.size == 1 || names_in_utf8()))
      out += piece;
    else if (c.size > 1) {
      append_hex(out, "\\u{", c.point, 1);
      out += '}';
    } else {
      append_hex(out, "\\x", static_cast<unsigned char>(piece[0]), 2);
    }
  }
  return out;
}

/// At most `width` columns: the middle of a longer text becomes "..", because the ends of C++ names say more.
CUTRACE_NOINLINE inline std::string cut(std::string text, std::size_t width) {
  const std::size_t all = columns_of(text);
  if (all <= width) return text;
  if (width <= 2) return text.substr(0, fitting(text, width));
  const std::size_t tail = (width - 2) / 2, head = width - 2 - tail;
  std::size_t skipped = 0, begin = fitting(text, all - tail, &skipped);
  if (all - skipped > tail) begin += std::max(utf8_at(std::string_view(text).substr(begin)).size, 1u);  // a wide one
  return text.substr(0, fitting(text, head)) + ".." + text.substr(begin);
}

/// An untrusted name for `width` columns.
CUTRACE_NOINLINE inline std::string label(std::string_view name, std::size_t width) {
  return cut(name.empty() ? "(unnamed)" : escaped(name), width);
}

/// A place in the source, "folders/file:line", shortened to about `width` characters: leading folders are left out,
/// file and line never.
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
  while (columns_of(text) > room) {
    const std::size_t fits = fitting(text, room);
    std::size_t at = text.substr(0, fits + 1).rfind(' ');
    const bool space = at != std::string_view::npos && at > fits / 2;
    if (!space) at = std::max(fits, std::size_t{1});
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
  /// @param utf8 names keep characters beyond ASCII while the page lives; false: these are escaped. Of several pages of
  /// a thread the one that was made last decides; it goes first.
  page(std::size_t width, bool color, bool utf8 = false) : width_(width), color_(color), names_(utf8) {}
  page(const page&) = delete;
  page& operator=(const page&) = delete;

  std::size_t width() const noexcept { return width_; }

  /// One line, cut at the width; trailing spaces vanish.
  CUTRACE_NOINLINE void line(std::string_view text = {}, tone t = tone::plain) {
    text = text.substr(0, fitting(text, width_));
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
  utf8_names names_;
  std::string text_;
};

}  // namespace ascii
CUTRACE_END_NAMESPACE
