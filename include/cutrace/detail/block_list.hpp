// SPDX-License-Identifier: Apache-2.0
// Things of one type one after the other, in blocks that lists of any type pass round: appending moves nothing, and no
// memory is faulted in again (growing vectors took a quarter of the collector's time). One thread at a time.
#pragma once

#include <cstddef>
#include <cutrace/config.hpp>
#include <cutrace/detail/memory_blocks.hpp>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

template <class T>
class block_list {
  static_assert(std::is_trivially_destructible<T>::value && alignof(T) <= alignof(memory_block), "kept as bytes");

 public:
  static constexpr std::size_t in_block = sizeof(memory_block) / sizeof(T);

  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }

  /// One more, default-initialised: members without an initialiser hold anything.
  T& append(block_store& spare) {
    if (CUTRACE_UNLIKELY(next_ == end_)) add_block(spare);
    T* const made = ::new (static_cast<void*>(next_)) T;
    next_ += sizeof(T);
    ++size_;
    return *made;
  }
  void take_back() noexcept {
    next_ -= sizeof(T);
    --size_;
  }
  /// Empties itself into `spare`.
  void clear(block_store& spare) {
    for (block_store::block& b : blocks_) spare.give(std::move(b));
    blocks_.clear();
    next_ = end_ = nullptr;
    size_ = 0;
  }

 private:
  CUTRACE_NOINLINE void add_block(block_store& spare) {
    blocks_.emplace_back();  // first, since it may throw
    try {
      blocks_.back() = spare.take();
    } catch (...) {
      blocks_.pop_back();
      throw;
    }
    next_ = blocks_.back()->bytes;
    end_ = next_ + in_block * sizeof(T);
  }

  std::vector<block_store::block> blocks_;
  unsigned char* next_ = nullptr;
  unsigned char* end_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
