// SPDX-License-Identifier: Apache-2.0
// Numbers and words at the front of a text, as the names of a Perfetto trace's tracks and keys have them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "trace/words.hpp"

namespace cutrace_reading {

/// Reads a whole number from the front of `s`. @returns false where there is none
inline bool take_number(std::string_view& s, std::uint64_t& n) noexcept {
  std::size_t at = 0;
  n = 0;
  while (at < s.size() && s[at] >= '0' && s[at] <= '9') {
    const auto digit = static_cast<std::uint64_t>(s[at] - '0');
    if (n > (~std::uint64_t{0} - digit) / 10) return false;
    n = n * 10 + digit;
    ++at;
  }
  s.remove_prefix(at);
  return at != 0;
}
inline bool take(std::string_view& s, std::string_view word) noexcept {
  if (s.substr(0, word.size()) != word) return false;
  s.remove_prefix(word.size());
  return true;
}
inline std::uint64_t number_of(std::string_view s) noexcept {
  std::uint64_t n = 0;
  return take_number(s, n) && s.empty() ? n : 0;
}

}  // namespace cutrace_reading
