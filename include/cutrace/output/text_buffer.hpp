// SPDX-License-Identifier: Apache-2.0
// Text that grows, and functions that write pieces of it at a cursor.
#pragma once

#include <fmt/compile.h>
#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <cutrace/config.hpp>
#include <memory>
#include <string_view>
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

  /// Room for `n` characters at the end; `commit` says how far it was used.
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

// The functions below write literals, short texts and numbers at a cursor, where room for them is known to be, and
// return where the next piece goes: a cursor stays in a register, while the buffer's size would be stored and read
// again for each piece. They neither throw nor allocate.

/// The most characters of one number.
constexpr std::size_t decimal_room = 20;
constexpr std::size_t hex_room = 20;  ///< with quotes and "0x"
constexpr std::size_t microseconds_room = 24;

/// All characters of a string literal.
template <std::size_t N>
CUTRACE_INLINE char* put_literal(char* to, const char (&literal)[N]) noexcept {
  std::memcpy(to, literal, N - 1);
  return to + (N - 1);
}

inline char* put_text(char* to, std::string_view s) noexcept {
  if (!s.empty()) std::memcpy(to, s.data(), s.size());
  return to + s.size();
}

/// Any integer, exact. `room`: decimal_room.
template <class Integer>
inline char* put_integer(char* to, Integer n) noexcept {
  return fmt::format_to(to, FMT_COMPILE("{}"), +n);  // a char is a number, too
}
inline char* put_decimal(char* to, std::uint64_t n) noexcept { return put_integer(to, n); }

/// `whole`.`places`, of which all `count` are written.
inline char* put_fixed(char* to, std::uint64_t whole, std::uint64_t places, int count) noexcept {
  to = put_decimal(to, whole);
  *to = '.';
  for (int i = count; i > 0; --i, places /= 10) to[i] = static_cast<char>('0' + places % 10);
  return to + count + 1;
}
/// Nanoseconds as microseconds with three decimals, from integers: no rounding at any size. `room`: microseconds_room.
inline char* put_microseconds(char* to, std::int64_t ns) noexcept {
  std::uint64_t n = static_cast<std::uint64_t>(ns);
  if (ns < 0) {
    *to++ = '-';
    n = 0 - n;
  }
  return put_fixed(to, n / 1000, n % 1000, 3);
}
/// A number of millionths, as a decimal number. `room`: microseconds_room.
inline char* put_millionths(char* to, std::uint64_t n) noexcept { return put_fixed(to, n / 1000000, n % 1000000, 6); }

/// "0x7f32a4000000", with its quotes. `room`: hex_room.
inline char* put_hex(char* to, std::uint64_t n) noexcept {
  to = put_literal(to, "\"0x");
  const int digits = 16 - __builtin_clzll(n | 1) / 4;
  for (int i = digits; i-- > 0; n >>= 4) to[i] = "0123456789abcdef"[n & 15];
  to[digits] = '"';
  return to + digits + 1;
}

}  // namespace detail
CUTRACE_END_NAMESPACE
