// SPDX-License-Identifier: Apache-2.0
// Characters at a cursor: literals, short texts and numbers, written where room for them is known to be. A cursor stays
// in a register, while a buffer's size would be stored and read again for each piece. Nothing here throws or allocates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <cutrace/config.hpp>
#include <memory>
#include <string_view>
#include <type_traits>
#include <utility>

CUTRACE_BEGIN_NAMESPACE
namespace detail {

// Characters at the end of a growing block. std::string would do, but its append is a call into the standard library
// for each piece: half of the time of writing JSON, which consists of small pieces.

/// Keeps its memory when cleared. Throws std::bad_alloc.
class text_buffer {
 public:
  std::string_view view() const noexcept { return std::string_view(data_.get(), size_); }
  std::size_t size() const noexcept { return size_; }
  void clear() noexcept { size_ = 0; }
  /// Forgets the first `n` characters.
  void drop_front(std::size_t n) noexcept {
    size_ -= n;
    if (size_ != 0) std::memmove(data_.get(), data_.get() + n, size_);
  }

  /// Room for `n` characters at the end; `commit` tells how far it was used.
  CUTRACE_INLINE char* room(std::size_t n) {
    if (CUTRACE_UNLIKELY(capacity_ - size_ < n)) grow(n);
    return data_.get() + size_;
  }
  CUTRACE_INLINE void commit(const char* end) noexcept { size_ = static_cast<std::size_t>(end - data_.get()); }

  CUTRACE_INLINE void put(char c) {
    *room(1) = c;
    ++size_;
  }
  CUTRACE_INLINE void append(std::string_view s) {
    if (s.empty()) return;
    std::memcpy(room(s.size()), s.data(), s.size());
    size_ += s.size();
  }

 private:
  CUTRACE_NOINLINE void grow(std::size_t n) {
    std::size_t capacity = capacity_ < 512 ? 512 : 2 * capacity_;
    while (capacity - size_ < n) capacity *= 2;
    std::unique_ptr<char[]> larger(new char[capacity]);
    if (size_ != 0) std::memcpy(larger.get(), data_.get(), size_);
    data_ = std::move(larger);
    capacity_ = capacity;
  }

  std::unique_ptr<char[]> data_;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

/// Characters that a number may take or overwrite; more than it has, since eight are stored at once.
constexpr std::size_t decimal_room = 24;
constexpr std::size_t hex_room = 24;  ///< with quotes and "0x"
constexpr std::size_t microseconds_room = 32;

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the first digit is the lowest byte of a word");

/// All characters of a string literal.
template <std::size_t N>
CUTRACE_INLINE char* put_literal(char* to, const char (&literal)[N]) noexcept {
  std::memcpy(to, literal, N - 1);
  return to + (N - 1);
}

/// Any text. Two moves of a fixed size, which overlap, copy what is not long without a call, and without a loop whose
/// end no processor foresees.
CUTRACE_INLINE char* put_text(char* to, std::string_view s) noexcept {
  const std::size_t n = s.size();
  const char* from = s.data();
  if (n > 128) {
    std::memcpy(to, from, n);
  } else if (n >= 64) {
    std::memcpy(to, from, 64);
    std::memcpy(to + n - 64, from + n - 64, 64);
  } else if (n >= 32) {
    std::memcpy(to, from, 32);
    std::memcpy(to + n - 32, from + n - 32, 32);
  } else if (n >= 16) {
    std::memcpy(to, from, 16);
    std::memcpy(to + n - 16, from + n - 16, 16);
  } else if (n >= 8) {
    std::memcpy(to, from, 8);
    std::memcpy(to + n - 8, from + n - 8, 8);
  } else if (n >= 4) {
    std::memcpy(to, from, 4);
    std::memcpy(to + n - 4, from + n - 4, 4);
  } else if (n != 0) {
    to[0] = from[0];
    to[n / 2] = from[n / 2];
    to[n - 1] = from[n - 1];
  }
  return to + n;
}

/// The eight decimal digits of n < 10^8, values 0 to 9, the first one in the lowest byte. Halves of four, two and one
/// digit are parted in all lanes of the word at once; each product is exact for the numbers that can occur there.
inline std::uint64_t eight_digits(std::uint32_t n) noexcept {
  std::uint64_t v = n / 10000 | std::uint64_t{n % 10000} << 32;
  std::uint64_t high = (v * 10486 >> 20) & 0x0000007F0000007Fu;  // / 100 below 10,000
  v = high | (v - high * 100) << 16;
  high = (v * 103 >> 10) & 0x000F000F000F000Fu;  // / 10 below 100
  return high | (v - high * 10) << 8;
}
/// The same of n < 10,000.
inline std::uint32_t four_digits(std::uint32_t n) noexcept {
  const std::uint32_t pairs = n / 100 | n % 100 << 16;
  const std::uint32_t high = (pairs * 103 >> 10) & 0x000F000Fu;
  return high | (pairs - high * 10) << 8;
}
constexpr std::uint64_t ascii_zeros = 0x3030303030303030u;

/// For put_decimal.
inline char* put_long_decimal(char* to, std::uint64_t n) noexcept {
  if (n < 10000) {
    const std::uint32_t digits = four_digits(static_cast<std::uint32_t>(n));
    const unsigned zeros = static_cast<unsigned>(__builtin_ctz(digits)) / 8;
    const std::uint32_t shown = (digits | 0x30303030u) >> (8 * zeros);
    std::memcpy(to, &shown, 4);
    return to + (4 - zeros);
  }
  constexpr std::uint64_t base = 100000000;
  if (n >= base) {
    to = put_long_decimal(to, n / base);
    const std::uint64_t rest = eight_digits(static_cast<std::uint32_t>(n % base)) | ascii_zeros;
    std::memcpy(to, &rest, 8);
    return to + 8;
  }
  const std::uint64_t digits = eight_digits(static_cast<std::uint32_t>(n));
  const unsigned zeros = static_cast<unsigned>(__builtin_ctzll(digits)) / 8;  // bytes that would lead with 0
  const std::uint64_t shown = (digits | ascii_zeros) >> (8 * zeros);
  std::memcpy(to, &shown, 8);
  return to + (8 - zeros);
}
/// `room`: decimal_room. Many numbers of a trace have one digit: devices, contexts, priorities.
CUTRACE_INLINE char* put_decimal(char* to, std::uint64_t n) noexcept {
  if (n >= 10) return put_long_decimal(to, n);
  *to = static_cast<char>('0' + n);
  return to + 1;
}

/// A number that is written more than once.
class decimal_text {
 public:
  explicit decimal_text(std::uint64_t n) noexcept : size_(static_cast<std::size_t>(put_decimal(text_, n) - text_)) {}
  /// `room`: decimal_room.
  char* put(char* to) const noexcept {
    if (CUTRACE_LIKELY(size_ <= 8)) {
      std::memcpy(to, text_, 8);
    } else {
      std::memcpy(to, text_, sizeof(text_));
    }
    return to + size_;
  }

 private:
  char text_[decimal_room] = {};
  std::size_t size_;
};

/// Any integer, exact.
template <class Integer>
inline char* put_integer(char* to, Integer n) noexcept {
  std::uint64_t size = static_cast<std::uint64_t>(n);
  if (std::is_signed<Integer>::value && n < 0) {
    *to++ = '-';
    size = 0 - size;
  }
  return put_decimal(to, size);
}

/// Nanoseconds as microseconds with three decimals, from integers: no rounding at any size.
inline char* put_microseconds(char* to, std::int64_t ns) noexcept {
  std::uint64_t n = static_cast<std::uint64_t>(ns);
  if (ns < 0) {
    *to++ = '-';
    n = 0 - n;
  }
  if (n < 10000) {  // most calls and kernels
    const std::uint32_t few = four_digits(static_cast<std::uint32_t>(n)) | 0x30303030u;
    const std::uint64_t shown = (few & 0xFFu) | 0x2E00u | std::uint64_t{few >> 8} << 16;
    std::memcpy(to, &shown, 8);
    return to + 5;
  }
  constexpr std::uint64_t base = 100000000;
  unsigned zeros = 0;  // that would lead the last five digits before the point
  std::uint64_t digits = 0;
  if (n < base) {
    digits = eight_digits(static_cast<std::uint32_t>(n));
    zeros = static_cast<unsigned>(__builtin_ctzll(digits | std::uint64_t{1} << 32)) / 8;
  } else {
    to = put_decimal(to, n / base);
    digits = eight_digits(static_cast<std::uint32_t>(n % base));
  }
  digits |= ascii_zeros;
  const std::uint64_t whole = digits >> 8 * zeros;
  std::memcpy(to, &whole, 8);
  to += 5 - zeros;
  const std::uint32_t point = static_cast<std::uint32_t>(digits >> 40 << 8) | '.';
  std::memcpy(to, &point, 4);
  return to + 4;
}

/// A number of millionths, as a decimal number. `room`: microseconds_room.
inline char* put_millionths(char* to, std::uint64_t n) noexcept {
  to = put_decimal(to, n / 1000000);
  std::uint64_t rest = n % 1000000;
  *to = '.';
  for (int i = 6; i > 0; --i, rest /= 10) to[i] = static_cast<char>('0' + rest % 10);
  return to + 7;
}

/// The eight hexadecimal digits of n as characters, the first one in the lowest byte.
inline std::uint64_t eight_hex_digits(std::uint32_t n) noexcept {
  std::uint64_t v = n;
  v = (v | v << 16) & 0x0000FFFF0000FFFFu;
  v = (v | v << 8) & 0x00FF00FF00FF00FFu;
  v = (v | v << 4) & 0x0F0F0F0F0F0F0F0Fu;
  const std::uint64_t letters = (v + 0x0606060606060606u) >> 4 & 0x0101010101010101u;
  return __builtin_bswap64(v + ascii_zeros + letters * ('a' - '0' - 10));
}

/// "0x7f32a4000000", with its quotes.
inline char* put_hex(char* to, std::uint64_t n) noexcept {
  to = put_literal(to, "\"0x");
  const unsigned digits = 16 - static_cast<unsigned>(__builtin_clzll(n | 1)) / 4;
  std::uint64_t low = eight_hex_digits(static_cast<std::uint32_t>(n));
  if (digits > 8) {
    const std::uint64_t high = eight_hex_digits(static_cast<std::uint32_t>(n >> 32)) >> (8 * (16 - digits));
    std::memcpy(to, &high, 8);
    to += digits - 8;
    std::memcpy(to, &low, 8);
    to += 8;
  } else {
    low >>= 8 * (8 - digits);
    std::memcpy(to, &low, 8);
    to += digits;
  }
  *to++ = '"';
  return to;
}

}  // namespace detail
CUTRACE_END_NAMESPACE
