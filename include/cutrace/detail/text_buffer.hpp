// SPDX-License-Identifier: Apache-2.0
// Characters at the end of a growing block. std::string would do, but its append is a call into the standard library
// for each piece: half of the time of writing JSON, which consists of small pieces.
#pragma once

#include <cstddef>
#include <cstring>
#include <cutrace/config.hpp>
#include <memory>
#include <string_view>
#include <utility>

CUTRACE_BEGIN_NAMESPACE
namespace detail {

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

}  // namespace detail
CUTRACE_END_NAMESPACE
