// SPDX-License-Identifier: Apache-2.0
// A list that grows by blocks and never moves what it holds: no moment in which a long trace needs its memory twice.
#pragma once

#include <cstddef>
#include <cutrace/config.hpp>
#include <memory>
#include <type_traits>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace analysis {

/// Elements must be plain data. Not initialised beyond `size`.
template <class T>
class chunked {
  static_assert(std::is_trivially_copyable<T>::value, "elements are plain data");
  static constexpr std::size_t block_bits = 10;
  static constexpr std::size_t block_size = std::size_t{1} << block_bits;

 public:
  void push_back(const T& v) {
    if (CUTRACE_UNLIKELY(size_ == blocks_.size() << block_bits)) grow();
    ++size_;
    back() = v;
  }
  /// Keeps the first `n`.
  void truncate(std::size_t n) noexcept { size_ = n < size_ ? n : size_; }
  void clear() noexcept {
    blocks_.clear();
    size_ = 0;
  }

  T& operator[](std::size_t i) noexcept { return blocks_[i >> block_bits][i & (block_size - 1)]; }
  const T& operator[](std::size_t i) const noexcept { return blocks_[i >> block_bits][i & (block_size - 1)]; }
  T& back() noexcept { return (*this)[size_ - 1]; }
  const T& back() const noexcept { return (*this)[size_ - 1]; }
  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  std::size_t memory_bytes() const noexcept {
    return blocks_.size() * block_size * sizeof(T) + blocks_.capacity() * sizeof(blocks_[0]);
  }

 private:
  CUTRACE_ONE_COPY void grow() { blocks_.emplace_back(new T[block_size]); }

  std::vector<std::unique_ptr<T[]>> blocks_;
  std::size_t size_ = 0;
};

}  // namespace analysis
CUTRACE_END_NAMESPACE
