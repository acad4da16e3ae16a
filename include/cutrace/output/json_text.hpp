// SPDX-License-Identifier: Apache-2.0
// JSON text (RFC 8259), appended to one buffer. Whatever bytes a name holds, the result is valid JSON in valid UTF-8.
// One thread at a time. Throws std::bad_alloc only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cutrace/config.hpp>
#include <cutrace/event.hpp>
#include <cutrace/output/text_buffer.hpp>
#include <cutrace/output/utf8.hpp>
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
/// byte that is too small (Hacker's Delight, 2nd edition, section 6-1); a borrow may flag a byte too many, which
/// costs time only.
inline bool eight_plain(std::uint64_t v) noexcept {
  constexpr std::uint64_t ones = 0x0101010101010101u;
  const std::uint64_t found = (v - ones * 0x20) | ((v ^ (ones * '"')) - ones) | ((v ^ (ones * '\\')) - ones) | v;
  return (found & (ones * 0x80)) == 0;
}
inline bool eight_plain(const char* at) noexcept {
  std::uint64_t v = 0;
  std::memcpy(&v, at, sizeof(v));
  return eight_plain(v);
}

/// May this text stand in a JSON string as it is? The last word of eight bytes may overlap the one before.
inline bool is_plain(std::string_view s) noexcept {
  const char* at = s.data();
  const std::size_t n = s.size();
  if (n >= 8) {
    for (const char* const last = at + n - 8; at < last; at += 8) {
      if (!eight_plain(at)) return false;
    }
    return eight_plain(s.data() + n - 8);
  }
  std::uint64_t v = 0x6161616161616161u;
  if (n >= 4) {
    std::uint32_t low = 0;
    std::uint32_t high = 0;
    std::memcpy(&low, at, 4);
    std::memcpy(&high, at + n - 4, 4);
    v = low | std::uint64_t{high} << 32;
  } else if (n != 0) {
    const auto byte = [at](std::size_t i) { return std::uint64_t{static_cast<unsigned char>(at[i])}; };
    v = 0x6161616161000000u | byte(0) | byte(n / 2) << 8 | byte(n - 1) << 16;
  }
  return eight_plain(v);
}

/// Appends what is not plain, without its quotes.
CUTRACE_NOINLINE inline void append_hostile(text_buffer& out, std::string_view s) {
  std::size_t done = 0;
  std::size_t at = 0;
  const auto* bytes = reinterpret_cast<const unsigned char*>(s.data());
  while (at < s.size()) {
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

/// Appends the content of a JSON string, without its quotes.
inline void append_escaped(text_buffer& out, std::string_view s) {
  if (CUTRACE_UNLIKELY(!is_plain(s))) return append_hostile(out, s);
  out.commit(put_text(out.room(s.size()), s));
}

/// Room for `put_string` of a text of this size.
constexpr std::size_t escaped_room(std::size_t size) noexcept { return 6 * size + 2; }
/// A JSON string with its quotes, at a cursor.
inline char* put_string(char* to, std::string_view s) {
  *to++ = '"';
  if (CUTRACE_LIKELY(is_plain(s))) {
    to = put_text(to, s);
  } else {
    text_buffer escaped;
    append_hostile(escaped, s);
    to = put_text(to, escaped.view());
  }
  *to++ = '"';
  return to;
}

constexpr std::size_t double_room = 40;
/// JSON knows neither NaN nor infinity: they become null. The shorter of two forms that name the double exactly.
inline char* put_double(char* to, double d) noexcept {
  if (!(d - d == 0.0)) return put_literal(to, "null");
  int n = std::snprintf(to, double_room, "%.15g", d);  // gcc 9 and 10 lack to_chars of doubles
  const double back = std::strtod(to, nullptr);
  if (back < d || back > d) n = std::snprintf(to, double_room, "%.17g", d);
  for (int i = 0; i < n; ++i) {
    if (to[i] == ',') to[i] = '.';  // the program's locale may write a decimal comma
  }
  return to + n;
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
    out_.commit(put_key(out_.room(literal.size() + key_room), literal));
    comma_ = false;
  }
  void foreign_key(std::string_view name) {
    value(name);
    out_.put(':');
    comma_ = false;
  }

  void value(std::string_view s) {
    if (CUTRACE_UNLIKELY(!is_plain(s))) {
      begin_value();
      out_.put('"');
      append_hostile(out_, s);
      return out_.put('"');
    }
    char* to = put_comma(out_.room(s.size() + 3));
    *to++ = '"';
    to = put_text(to, s);
    *to++ = '"';
    finish_value(to);
  }
  void value(const char* s) { value(view_of(s)); }
  void value(text t) { value(view_of(t)); }
  /// Integers of any width, exact.
  template <class Integer,
            std::enable_if_t<std::is_integral<Integer>::value && !std::is_same<Integer, bool>::value, int> = 0>
  void value(Integer n) {
    finish_value(put_integer(put_comma(out_.room(1 + decimal_room)), n));
  }
  template <class Truth, std::enable_if_t<std::is_same<Truth, bool>::value, int> = 0>
  void value(Truth b) {
    begin_value();
    out_.append(b ? "true" : "false");
  }
  void value(double d) { finish_value(put_double(put_comma(out_.room(1 + double_room)), d)); }
  /// "0x7f32a4000000": an address or handle, as text because no reader computes with it.
  void hex(std::uint64_t n) { finish_value(put_hex(put_comma(out_.room(1 + hex_room)), n)); }
  /// Nanoseconds as microseconds with three decimals, exact.
  void microseconds(std::int64_t ns) {
    finish_value(put_microseconds(put_comma(out_.room(1 + microseconds_room)), ns));
  }
  /// A number of millionths, as a decimal number.
  void millionths(std::uint64_t n) { finish_value(put_millionths(put_comma(out_.room(1 + microseconds_room)), n)); }
  /// Text that is JSON already: a value, or fields of the open object. Not empty.
  void raw(std::string_view json) {
    begin_value();
    out_.append(json);
  }

  /// The same, written by the caller at the cursor that it gets; `end_raw` takes where that ended.
  char* begin_raw(std::size_t room) { return put_comma(out_.room(1 + room)); }
  void end_raw(const char* end) noexcept { finish_value(end); }

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
  static constexpr std::size_t key_room = 4;  // comma, quotes, colon
  CUTRACE_INLINE char* put_comma(char* to) const noexcept {
    if (comma_) *to++ = ',';
    return to;
  }
  CUTRACE_INLINE char* put_key(char* to, std::string_view literal) const noexcept {
    to = put_comma(to);
    *to++ = '"';
    std::memcpy(to, literal.data(), literal.size());
    to += literal.size();
    *to++ = '"';
    *to++ = ':';
    return to;
  }
  CUTRACE_INLINE void finish_value(const char* end) noexcept {
    out_.commit(end);
    comma_ = true;
  }

  text_buffer out_;
  bool comma_ = false;  ///< something stands before the next value of this container
};

}  // namespace detail
CUTRACE_END_NAMESPACE
