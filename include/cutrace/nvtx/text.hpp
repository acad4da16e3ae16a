// SPDX-License-Identifier: Apache-2.0
// Wide text of NVTX as UTF-8, cut to what a record may hold. No allocation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cutrace/detail/record.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace nvtx CUTRACE_LOCAL {

/// The same text in UTF-8, NUL-terminated, cut at a whole character. What is no code point becomes U+FFFD.
class narrowed {
 public:
  explicit narrowed(const wchar_t* wide) noexcept {
    static_assert(sizeof(wchar_t) == 4, "wide characters are code points here");
    std::size_t at = 0;
    for (; wide != nullptr && *wide != 0 && at + 4 <= detail::text_limit_bytes; ++wide)
      at += encode(static_cast<std::uint32_t>(*wide), text_ + at);
    text_[at] = '\0';
  }
  const char* text() const noexcept { return text_; }

 private:
  static std::size_t encode(std::uint32_t c, char* to) noexcept {
    if (c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff)) c = 0xfffd;
    if (c < 0x80) {
      to[0] = static_cast<char>(c);
      return 1;
    }
    const std::size_t size = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (std::size_t i = size - 1; i > 0; --i, c >>= 6) to[i] = static_cast<char>(0x80 | (c & 0x3f));
    to[0] = static_cast<char>((0xf00u >> size & 0xf0u) | c);
    return size;
  }

  char text_[detail::text_limit_bytes + 1];
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
