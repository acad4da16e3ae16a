// SPDX-License-Identifier: Apache-2.0
// JSON text (RFC 8259), appended to one buffer. Whatever bytes a name holds, the result is valid JSON in valid UTF-8.
// One thread at a time. Throws std::bad_alloc only.
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cutrace/config.hpp>
#include <cutrace/detail/text_utf8.hpp>
#include <cutrace/event.hpp>
#include <string>
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

/// Appends the content of a JSON string, without its quotes.
inline void append_escaped(std::string& out, std::string_view s) {
  static const char hex[] = "0123456789abcdef";
  std::size_t done = 0;
  std::size_t at = 0;
  const auto* bytes = reinterpret_cast<const unsigned char*>(s.data());
  while (at < s.size()) {
    const unsigned char c = bytes[at];
    if (CUTRACE_LIKELY(c >= 0x20 && c < 0x80 && c != '"' && c != '\\')) {
      ++at;
      continue;
    }
    if (c >= 0x80) {
      const utf8_step step = next_utf8(bytes + at, s.size() - at);
      if (!step.valid) {
        out.append(s, done, at - done).append("\xEF\xBF\xBD");
        done = at + step.size;
      }
      at += step.size;
      continue;
    }
    out.append(s, done, at - done);
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        out += "\\u00";
        out += hex[c >> 4];
        out += hex[c & 15u];
    }
    done = ++at;
  }
  out.append(s, done, at - done);
}

/// Writer. Commas come by themselves: a value or key is preceded by one unless it opens its container. Keys of the
/// schema are given as literals without characters to escape (`field`), foreign ones to `foreign_key`.
class json_text {
 public:
  const std::string& buffer() const noexcept { return out_; }
  std::string& buffer() noexcept { return out_; }
  std::size_t size() const noexcept { return out_.size(); }
  void clear() noexcept { out_.clear(); }

  void begin_object() { open('{'); }
  void end_object() { out_ += '}'; }
  void begin_array() { open('['); }
  void end_array() { out_ += ']'; }
  /// Between two documents of one file.
  void new_line() { out_ += '\n'; }

  void key(std::string_view literal) {
    comma();
    out_ += '"';
    out_ += literal;
    out_ += "\":";
  }
  void foreign_key(std::string_view name) {
    comma();
    out_ += '"';
    append_escaped(out_, name);
    out_ += "\":";
  }

  void value(std::string_view s) {
    comma();
    out_ += '"';
    append_escaped(out_, s);
    out_ += '"';
  }
  void value(const char* s) { value(view_of(s)); }
  void value(text t) { value(view_of(t)); }
  /// Integers of any width, exact.
  template <class Integer,
            std::enable_if_t<std::is_integral<Integer>::value && !std::is_same<Integer, bool>::value, int> = 0>
  void value(Integer n) {
    comma();
    digits(n);
  }
  template <class Bool, std::enable_if_t<std::is_same<Bool, bool>::value, int> = 0>
  void value(Bool b) {
    comma();
    out_ += b ? "true" : "false";
  }
  /// JSON knows neither NaN nor infinity: they become null. The shorter of two forms that name the double exactly.
  void value(double d) {
    comma();
    if (!(d - d == 0.0)) {
      out_ += "null";
      return;
    }
    char form[40];  // gcc 9 and 10 lack to_chars of doubles
    int n = std::snprintf(form, sizeof(form), "%.15g", d);
    const double back = std::strtod(form, nullptr);
    if (back < d || back > d) n = std::snprintf(form, sizeof(form), "%.17g", d);
    for (int i = 0; i < n; ++i) {
      if (form[i] == ',') form[i] = '.';  // the program's locale may say so
    }
    out_.append(form, static_cast<std::size_t>(n));
  }
  /// "0x7f32a4000000": an address or handle, as text because no reader computes with it.
  void hex(std::uint64_t n) {
    comma();
    out_ += "\"0x";
    char digits_of[17];
    const std::to_chars_result r = std::to_chars(digits_of, digits_of + sizeof(digits_of), n, 16);
    out_.append(digits_of, static_cast<std::size_t>(r.ptr - digits_of));
    out_ += '"';
  }
  /// Nanoseconds as microseconds with three decimals, from integers: no rounding at any size.
  void microseconds(std::int64_t ns) {
    comma();
    std::uint64_t n = static_cast<std::uint64_t>(ns);
    if (ns < 0) {
      out_ += '-';
      n = 0 - n;
    }
    digits(n / 1000);
    const unsigned rest = static_cast<unsigned>(n % 1000);
    out_ += '.';
    out_ += static_cast<char>('0' + rest / 100);
    out_ += static_cast<char>('0' + rest / 10 % 10);
    out_ += static_cast<char>('0' + rest % 10);
  }
  /// Text that is JSON already.
  void raw_value(std::string_view json) {
    comma();
    out_ += json;
  }

  template <class Value>
  void field(std::string_view literal, const Value& v) {
    key(literal);
    value(v);
  }

 private:
  void open(char bracket) {
    comma();
    out_ += bracket;
  }
  /// The last character tells whether something stands before: no value ends with one of these, strings end in a quote.
  void comma() {
    if (out_.empty()) return;
    switch (out_.back()) {
      case '{':
      case '[':
      case ':':
      case ',':
      case '\n':
        return;
      default:
        out_ += ',';
    }
  }
  template <class Integer>
  void digits(Integer n) {
    char digits_of[24];
    const std::to_chars_result r = std::to_chars(digits_of, digits_of + sizeof(digits_of), n);
    out_.append(digits_of, static_cast<std::size_t>(r.ptr - digits_of));
  }

  std::string out_;
};

}  // namespace detail
CUTRACE_END_NAMESPACE
