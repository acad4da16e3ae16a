// SPDX-License-Identifier: Apache-2.0
// JSON text (RFC 8259), appended to one buffer. Whatever bytes a name holds, the result is valid JSON in valid UTF-8.
// One thread at a time. Throws std::bad_alloc only.
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cutrace/config.hpp>
#include <cutrace/detail/text_buffer.hpp>
#include <cutrace/detail/text_utf8.hpp>
#include <cutrace/event.hpp>
#include <string_view>
#include <type_traits>

CUTRACE_BEGIN_NAMESPACE
namespace detail {

inline std::string_view view_of(text t) noexcept {
  return t.size != 0 ? std::string_view(t.data, t.size) : std::string_view();
}
inline std::string_view view_of(const char* s) noexcept {
  return s != nullptr ? std::string_view(s) : std::string_view();
}

/// Appends what stands for one control character, quote or backslash.
inline void append_escape(text_buffer& out, unsigned char c) {
  static const char hex[] = "0123456789abcdef";
  switch (c) {
    case '"':
      return out.append("\\\"");
    case '\\':
      return out.append("\\\\");
    case '\n':
      return out.append("\\n");
    case '\r':
      return out.append("\\r");
    case '\t':
      return out.append("\\t");
    default:
      out.append("\\u00");
      out.put(hex[c >> 4]);
      out.put(hex[c & 15u]);
  }
}

/// Are these eight bytes ASCII without control character, quote and backslash? A subtraction sets the high bit of each
/// byte that is too small (Hacker's Delight, 2nd edition, section 6-1); what it borrows only doubts more than it must.
inline bool eight_plain(const unsigned char* at) noexcept {
  constexpr std::uint64_t ones = 0x0101010101010101u;
  std::uint64_t v = 0;
  std::memcpy(&v, at, sizeof(v));
  const std::uint64_t found = (v - ones * 0x20) | ((v ^ (ones * '"')) - ones) | ((v ^ (ones * '\\')) - ones) | v;
  return (found & (ones * 0x80)) == 0;
}

/// Appends the content of a JSON string, without its quotes.
inline void append_escaped(text_buffer& out, std::string_view s) {
  std::size_t done = 0;
  std::size_t at = 0;
  const auto* bytes = reinterpret_cast<const unsigned char*>(s.data());
  while (at < s.size()) {
    if (s.size() - at >= 8 && eight_plain(bytes + at)) {
      at += 8;
      continue;
    }
    const unsigned char c = bytes[at];
    if (CUTRACE_LIKELY(c >= 0x20 && c < 0x80 && c != '"' && c != '\\')) {
      ++at;
      continue;
    }
    const utf8_step step = next_utf8(bytes + at, s.size() - at);
    if (c < 0x80 || !step.valid) {
      out.append(s.substr(done, at - done));
      if (c < 0x80) {
        append_escape(out, c);
      } else {
        out.append("\xEF\xBF\xBD");
      }
      done = at + step.size;
    }
    at += step.size;
  }
  out.append(s.substr(done));
}

/// Writer. Commas come by themselves: a value or key is preceded by one unless it opens its container. Keys of the
/// schema are given as literals without characters to escape (`field`), foreign ones to `foreign_key`.
class json_text {
 public:
  /// Valid until the next change.
  std::string_view view() const noexcept { return out_.view(); }
  void clear() noexcept {
    out_.clear();
    comma_ = false;
  }

  void begin_object() { open('{'); }
  void end_object() { close('}'); }
  void begin_array() { open('['); }
  void end_array() { close(']'); }
  /// Between two documents of one file.
  void new_line() {
    out_.put('\n');
    comma_ = false;
  }

  CUTRACE_INLINE void key(std::string_view literal) {
    char* to = out_.room(literal.size() + 4);
    if (comma_) *to++ = ',';
    *to++ = '"';
    std::memcpy(to, literal.data(), literal.size());
    to += literal.size();
    *to++ = '"';
    *to++ = ':';
    out_.commit(to);
    comma_ = false;
  }
  void foreign_key(std::string_view name) {
    value(name);
    out_.put(':');
    comma_ = false;
  }

  void value(std::string_view s) {
    begin_value();
    out_.put('"');
    append_escaped(out_, s);
    out_.put('"');
  }
  void value(const char* s) { value(view_of(s)); }
  void value(text t) { value(view_of(t)); }
  /// Integers of any width, exact.
  template <class Integer,
            std::enable_if_t<std::is_integral<Integer>::value && !std::is_same<Integer, bool>::value, int> = 0>
  void value(Integer n) {
    begin_value();
    digits(n);
  }
  template <class Truth, std::enable_if_t<std::is_same<Truth, bool>::value, int> = 0>
  void value(Truth b) {
    begin_value();
    out_.append(b ? "true" : "false");
  }
  /// JSON knows neither NaN nor infinity: they become null. The shorter of two forms that name the double exactly.
  void value(double d) {
    begin_value();
    if (!(d - d == 0.0)) return out_.append("null");
    char form[40];  // gcc 9 and 10 lack to_chars of doubles
    int n = std::snprintf(form, sizeof(form), "%.15g", d);
    const double back = std::strtod(form, nullptr);
    if (back < d || back > d) n = std::snprintf(form, sizeof(form), "%.17g", d);
    for (int i = 0; i < n; ++i) {
      if (form[i] == ',') form[i] = '.';  // the program's locale may say so
    }
    out_.append(std::string_view(form, static_cast<std::size_t>(n)));
  }
  /// "0x7f32a4000000": an address or handle, as text because no reader computes with it.
  void hex(std::uint64_t n) {
    begin_value();
    out_.append("\"0x");
    char* to = out_.room(16);
    out_.commit(std::to_chars(to, to + 16, n, 16).ptr);
    out_.put('"');
  }
  /// Nanoseconds as microseconds with three decimals, from integers: no rounding at any size.
  void microseconds(std::int64_t ns) {
    begin_value();
    std::uint64_t n = static_cast<std::uint64_t>(ns);
    if (ns < 0) {
      out_.put('-');
      n = 0 - n;
    }
    digits(n / 1000);
    const unsigned rest = static_cast<unsigned>(n % 1000);
    char* to = out_.room(4);
    *to++ = '.';
    *to++ = static_cast<char>('0' + rest / 100);
    *to++ = static_cast<char>('0' + rest / 10 % 10);
    *to++ = static_cast<char>('0' + rest % 10);
    out_.commit(to);
  }
  /// A number of millionths, as a decimal number.
  void millionths(std::uint64_t n) {
    begin_value();
    digits(n / 1000000);
    std::uint64_t rest = n % 1000000;
    char* to = out_.room(7);
    *to = '.';
    for (int i = 6; i > 0; --i, rest /= 10) to[i] = static_cast<char>('0' + rest % 10);
    out_.commit(to + 7);
  }
  /// Text that is JSON already: a value, or fields of the open object. Not empty.
  void raw(std::string_view json) {
    begin_value();
    out_.append(json);
  }

  template <class Value>
  CUTRACE_INLINE void field(std::string_view literal, const Value& v) {
    key(literal);
    value(v);
  }

 private:
  CUTRACE_INLINE void begin_value() {
    if (comma_) out_.put(',');
    comma_ = true;
  }
  void open(char bracket) {
    begin_value();
    out_.put(bracket);
    comma_ = false;
  }
  void close(char bracket) {
    out_.put(bracket);
    comma_ = true;
  }
  template <class Integer>
  void digits(Integer n) {
    char* to = out_.room(20);  // -9223372036854775808 and 18446744073709551615
    out_.commit(std::to_chars(to, to + 20, n).ptr);
  }

  text_buffer out_;
  bool comma_ = false;  ///< something stands before the next value of this container
};

}  // namespace detail
CUTRACE_END_NAMESPACE
