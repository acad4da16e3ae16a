// SPDX-License-Identifier: Apache-2.0
// Strict UTF-8: which bytes of a foreign name form a character. Shared by JSON text and terminal text.
#pragma once

#include <cstddef>
#include <cutrace/config.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace detail {

struct utf8_step {
  std::size_t size;  ///< bytes to go on by, at least 1
  bool valid;        ///< else these bytes stand for one U+FFFD
};

/// Character at `s`, `n` >= 1 bytes left. Refuses overlong forms, surrogates and what lies beyond U+10FFFF. A wrong
/// sequence is as long as its longest right beginning (Unicode 15, section 3.9, "maximal subpart").
inline utf8_step next_utf8(const unsigned char* s, std::size_t n) noexcept {
  const unsigned char lead = s[0];
  if (lead < 0x80) return {1, true};
  if (lead < 0xC2 || lead > 0xF4) return {1, false};
  const std::size_t size = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  unsigned char low = 0x80;
  unsigned char high = 0xBF;
  if (lead == 0xE0) low = 0xA0;   // overlong
  if (lead == 0xED) high = 0x9F;  // surrogates
  if (lead == 0xF0) low = 0x90;   // overlong
  if (lead == 0xF4) high = 0x8F;  // beyond U+10FFFF
  for (std::size_t i = 1; i < size; ++i) {
    if (i >= n || s[i] < low || s[i] > high) return {i, false};
    low = 0x80;
    high = 0xBF;
  }
  return {size, true};
}

}  // namespace detail
CUTRACE_END_NAMESPACE
