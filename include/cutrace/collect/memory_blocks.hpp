// SPDX-License-Identifier: Apache-2.0
// Memory in blocks of one size that go round: none is returned to the system and faulted in again while a trace goes
// on. One thread at a time.
//
// Problem: the ordering window is larger than the memory whose page addresses the processor keeps (TLB), and a miss
// takes many more steps in a virtual machine: collecting took 78 ns an event there, and 60 with huge pages. Solution:
// once the window is large, blocks are cut from slabs for which the kernel is asked for huge pages. Where it gives none
// ("transparent_hugepage/enabled" is "never") slabs are ordinary memory.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cutrace/config.hpp>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

/// One huge page of x86-64, and of aarch64 as a rule.
constexpr std::size_t huge_page_bytes = std::size_t{2} << 20;

/// Address space that is backed with memory as it is used; munmap releases it. From the size of a huge page on it is
/// aligned to huge pages, which kernels before 6.7 do not do by themselves. nullptr: mmap failed.
inline void* map_memory(std::size_t bytes) noexcept {
  const std::size_t more = bytes >= huge_page_bytes ? huge_page_bytes : 0;
  void* const at =
      ::mmap(nullptr, bytes + more, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return nullptr;
  if (more == 0) return at;
  char* const begin = static_cast<char*>(at);
  const std::size_t off = (more - reinterpret_cast<std::uintptr_t>(at) % more) % more;
  if (off != 0) ::munmap(begin, off);
  ::munmap(begin + off + bytes, more - off);
  return begin + off;
}

/// Backs mapped memory, which application threads will write, with pages now, huge ones where the kernel gives them:
/// without huge pages, a call takes a tenth longer if its thread has touched many pages since the last one
/// (bench/callback). Does not change what is there. Does nothing on kernels before 5.14, where an application thread
/// would have to wait for a whole huge page.
inline void populate_memory(void* at, std::size_t bytes) noexcept {
#ifdef MADV_POPULATE_WRITE
  if (::madvise(at, 0, MADV_POPULATE_WRITE) != 0) return;
  ::madvise(at, bytes, MADV_HUGEPAGE);
  ::madvise(at, bytes, MADV_POPULATE_WRITE);
#else
  static_cast<void>(at), static_cast<void>(bytes);
#endif
}

struct alignas(64) memory_block {
  unsigned char bytes[16384];
};

/// Blocks that nobody uses now. Must outlive those that are in use.
class block_store {
 public:
  struct release {
    bool alone = true;  ///< no part of a slab
    void operator()(memory_block* b) const noexcept {
      if (alone) delete b;
    }
  };
  using block = std::unique_ptr<memory_block, release>;

  /// Bytes of spare blocks that are kept, in slabs or not.
  void set_limit(std::size_t bytes) noexcept { limit_bytes_ = bytes; }

  /// A block of undefined content. Throws std::bad_alloc.
  block take() {
    if (CUTRACE_UNLIKELY(spare_.empty())) make();
    block b = std::move(spare_.back());
    spare_.pop_back();
    return b;
  }
  void give(block b) noexcept {
    if (b.get_deleter().alone && bytes() >= limit_bytes_) {
      --made_;
      return;
    }
    spare_.push_back(std::move(b));  // has room
  }

  /// Bytes of spare blocks.
  std::size_t bytes() const noexcept { return spare_.size() * sizeof(memory_block); }

 private:
  static constexpr std::size_t slab_bytes = huge_page_bytes;
  static constexpr std::size_t small_bytes = std::size_t{1} << 20;  ///< a short trace has no slab

  struct slab_release {
    void operator()(memory_block* b) const noexcept { ::operator delete (b, std::align_val_t{slab_bytes}); }
  };
  using slab = std::unique_ptr<memory_block, slab_release>;

  CUTRACE_NOINLINE void make() {
    const bool many = made_ * sizeof(memory_block) >= small_bytes;
    const bool room = (slabs_.size() + 1) * slab_bytes + small_bytes <= limit_bytes_;
    const std::size_t count = many && room ? slab_bytes / sizeof(memory_block) : 1;
    spare_.reserve(made_ + count);  // all that there are: giving back needs no memory
    if (count == 1) {
      spare_.push_back(block(new memory_block));
    } else {
      slabs_.reserve(slabs_.size() + 1);
      slab s(static_cast<memory_block*>(::operator new (slab_bytes, std::align_val_t{slab_bytes})));
      ::madvise(s.get(), slab_bytes, MADV_HUGEPAGE);
      for (std::size_t i = count; i-- > 0;) spare_.push_back(block(s.get() + i, release{false}));
      slabs_.push_back(std::move(s));
    }
    made_ += count;
  }

  std::vector<slab> slabs_;
  std::vector<block> spare_;
  std::size_t made_ = 0;  ///< blocks that there are
  std::size_t limit_bytes_ = 0;
};

// A list of one type in blocks that lists of any type share: appending moves nothing, and no
// memory is faulted in again (growing vectors took a quarter of the collector's time). One thread at a time.

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

/// A queue in one piece of memory. With a std::deque, which allocates a node for each 512 bytes, an event costs the
/// collector 1.13 [1.07, 1.26] times as much (median, 95 % interval; bench/sink_cost, null, 4,000,000 events).
template <class T>
class fifo {
 public:
  bool empty() const noexcept { return size_ == 0; }
  std::size_t size() const noexcept { return size_; }
  std::size_t bytes() const noexcept { return ring_.size() * sizeof(T); }
  T& operator[](std::size_t i) noexcept { return ring_[(first_ + i) & (ring_.size() - 1)]; }
  const T& operator[](std::size_t i) const noexcept { return ring_[(first_ + i) & (ring_.size() - 1)]; }
  T& front() noexcept { return (*this)[0]; }
  const T& front() const noexcept { return (*this)[0]; }
  /// A place at the end, with what stood there before: to be filled in.
  T& add() {
    if (CUTRACE_UNLIKELY(size_ == ring_.size())) move_to(ring_.empty() ? 4 : 2 * ring_.size());
    return (*this)[size_++];
  }
  void pop_front(std::size_t count = 1) noexcept {
    first_ = (first_ + count) & (ring_.size() - 1);
    size_ -= count;
  }
  /// Gives memory back where little of it is used. To be called now and then.
  void shrink() noexcept {
    if (ring_.size() <= 16 || size_ > ring_.size() / 8) return;
    try {
      move_to(ring_.size() / 4);
    } catch (const std::bad_alloc&) {  // it stays
    }
  }

 private:
  CUTRACE_NOINLINE void move_to(std::size_t places) {
    std::vector<T> other(places);
    for (std::size_t i = 0; i < size_; ++i) other[i] = (*this)[i];
    ring_.swap(other);
    first_ = 0;
  }

  std::vector<T> ring_;  ///< its size is 0 or a power of two
  std::size_t first_ = 0, size_ = 0;
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
