// SPDX-License-Identifier: Apache-2.0
// Single fields of a JSON object at a cursor: see text_digits.hpp. Keys are literals that bring their punctuation
// along, so that a field is one move and a number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cutrace/config.hpp>
#include <cutrace/detail/text_digits.hpp>
#include <string_view>

CUTRACE_BEGIN_NAMESPACE
namespace detail {

/// `key` is a literal with comma, quotes and colon.
template <std::size_t N, class Integer>
CUTRACE_INLINE char* put_field(char* to, const char (&key)[N], Integer n) noexcept {
  return put_integer(put_literal(to, key), n);
}
template <std::size_t N>
CUTRACE_INLINE char* put_field_unless_0(char* to, const char (&key)[N], std::uint64_t n) noexcept {
  return n != 0 ? put_field(to, key, n) : to;
}
template <std::size_t N>
inline char* put_triple(char* to, const char (&key)[N], const std::uint32_t (&v)[3]) noexcept {
  to = put_decimal(put_literal(to, key), v[0]);
  *to++ = ',';
  to = put_decimal(to, v[1]);
  *to++ = ',';
  to = put_decimal(to, v[2]);
  *to++ = ']';
  return to;
}
/// A word of ours, in quotes: to_string of an enumeration.
template <std::size_t N>
inline char* put_word(char* to, const char (&key)[N], const char* word) noexcept {
  to = put_literal(to, key);
  *to++ = '"';
  to = put_text(to, word);
  *to++ = '"';
  return to;
}

/// Before a field that may be the first of its object.
inline char* put_separator(char* to) noexcept {
  if (to[-1] != '{') *to++ = ',';
  return to;
}

}  // namespace detail
CUTRACE_END_NAMESPACE
