// SPDX-License-Identifier: Apache-2.0
// What the readers of JSON take from simdjson: fields by key, values of an expected type, and messages about wrong
// values.
#pragma once

// Every result must be checked: calls that would throw do not compile.
#define SIMDJSON_EXCEPTIONS 0
#include <simdjson.h>

#include <cstdint>
#include <new>
#include <string>
#include <string_view>

#include "trace/words.hpp"

namespace cutrace_reading {

using json_value = simdjson::ondemand::value;
using json_object = simdjson::ondemand::object;
using json_array = simdjson::ondemand::array;

/// The key as it stands, with its escapes: keys of cutrace have none.
inline std::string_view raw_key(simdjson::ondemand::field& f) noexcept {
  const char* const from = f.key().raw();
  const char* to = from;
  while (*to != '"') to += *to == '\\' ? 2 : 1;
  return std::string_view(from, static_cast<std::size_t>(to - from));
}

enum class value_state : std::uint8_t { good, wrong_type, out_of_range, broken };

/// @throws bad_alloc where simdjson got no memory, which is no fault of the file
inline void check_memory(simdjson::error_code e) {
  if (e == simdjson::MEMALLOC) throw std::bad_alloc();
}

inline value_state state_of(simdjson::error_code e) noexcept {
  switch (e) {
    case simdjson::SUCCESS:
      return value_state::good;
    case simdjson::INCORRECT_TYPE:
      return value_state::wrong_type;
    case simdjson::NUMBER_ERROR:
    case simdjson::NUMBER_OUT_OF_RANGE:
      return value_state::out_of_range;
    default:
      return value_state::broken;
  }
}

/// A whole number as 64 bits; negative ones as two's complement with `negative`.
struct whole_number {
  std::uint64_t bits = 0;
  bool negative = false;
};

/// Parses a decimal number. @returns wrong_type for no whole number, out_of_range for one beyond 64 bits
inline value_state parse_whole(std::string_view token, whole_number& n) noexcept {
  std::size_t at = 0;
  const bool negative = !token.empty() && token[0] == '-';
  if (negative) ++at;
  std::uint64_t sum = 0;
  const std::size_t first = at;
  for (; at < token.size() && token[at] >= '0' && token[at] <= '9'; ++at) {
    const auto digit = static_cast<std::uint64_t>(token[at] - '0');
    if (sum > (~std::uint64_t{0} - digit) / 10) return value_state::out_of_range;
    sum = sum * 10 + digit;
  }
  if (at == first) return value_state::wrong_type;
  while (at < token.size() && (token[at] == ' ' || token[at] == '\t' || token[at] == '\r' || token[at] == '\n')) ++at;
  if (at != token.size()) return value_state::wrong_type;
  if (negative && sum > std::uint64_t{1} << 63) return value_state::out_of_range;
  n.negative = negative && sum != 0;
  n.bits = negative ? 0 - sum : sum;
  return value_state::good;
}
inline value_state read_whole(json_value& v, whole_number& n) noexcept { return parse_whole(v.raw_json_token(), n); }

/// Reads a number into any unsigned type. @returns out_of_range where the number does not fit
template <class Unsigned>
value_state read_unsigned(json_value& v, Unsigned& to) noexcept {
  whole_number n;
  const value_state state = read_whole(v, n);
  if (state != value_state::good) return state;
  if (n.negative || n.bits > static_cast<Unsigned>(~Unsigned{0})) return value_state::out_of_range;
  to = static_cast<Unsigned>(n.bits);
  return state;
}
inline value_state read_signed(json_value& v, std::int64_t& to) noexcept {
  whole_number n;
  const value_state state = read_whole(v, n);
  if (state != value_state::good) return state;
  if (!n.negative && n.bits >> 63 != 0) return value_state::out_of_range;
  to = static_cast<std::int64_t>(n.bits);
  return state;
}
inline value_state read_signed32(json_value& v, std::int32_t& to) noexcept {
  std::int64_t wide = 0;
  const value_state state = read_signed(v, wide);
  if (state != value_state::good) return state;
  if (wide < INT32_MIN || wide > INT32_MAX) return value_state::out_of_range;
  to = static_cast<std::int32_t>(wide);
  return state;
}
inline value_state read_bool(json_value& v, bool& to) noexcept { return state_of(v.get_bool().get(to)); }
/// Valid until the parser's next document.
inline value_state read_text(json_value& v, std::string_view& to) noexcept { return state_of(v.get_string().get(to)); }
/// "0x7f32a4000000"
inline value_state parse_hex(std::string_view s, std::uint64_t& to) noexcept {
  if (s.size() < 3 || s.size() > 18 || s[0] != '0' || s[1] != 'x') return value_state::wrong_type;
  std::uint64_t sum = 0;
  for (const char c : s.substr(2)) {
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (digit < 0) return value_state::wrong_type;
    sum = sum << 4 | static_cast<std::uint64_t>(digit);
  }
  to = sum;
  return value_state::good;
}
inline value_state read_hex(json_value& v, std::uint64_t& to) noexcept {
  std::string_view s;
  const value_state state = read_text(v, s);
  return state == value_state::good ? parse_hex(s, to) : state;
}

/// "field \"ts_ns\" has a value of the wrong type"
inline std::string wrong_field(std::string_view key, value_state state) {
  std::string s = "field \"" + std::string(key.substr(0, 64)) + "\" ";
  s += state == value_state::out_of_range ? "has a number out of range"
       : state == value_state::wrong_type ? "has a value of the wrong type"
                                          : "has a broken value";
  return s;
}

}  // namespace cutrace_reading
