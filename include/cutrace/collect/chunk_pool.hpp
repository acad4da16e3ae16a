// SPDX-License-Identifier: Apache-2.0
// Chunks: records that one thread fills and the collector reads meanwhile, 16 KiB, or 4 KiB of threads that hardly
// record. They live in few mappings, are found by index (so that a mapping may be backed by a file and still be read
// after the process has died) and go round through lock-free stacks of free ones: the chunk that was read last is
// written next, so that a thread which the collector keeps up with stays in few cache lines (28 ns a stage against 43
// with a queue over the whole pool).
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/lockfree/stack.hpp>
#include <cstdint>
#include <cutrace/collect/memory_blocks.hpp>
#include <cutrace/marker/record.hpp>
#include <mutex>
#include <new>
#include <utility>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

constexpr std::uint32_t chunk_bytes = 16u << 10;
constexpr std::uint32_t chunk_records = chunk_bytes / 64 - 1;
/// A large chunk may be cut into four. Chunks are numbered by such quarters.
constexpr std::uint32_t quarters = 4, quarter_bytes = chunk_bytes / quarters, quarter_records = quarter_bytes / 64 - 1;

/// The first cache line of a chunk, before its records.
struct alignas(64) chunk {
  std::atomic<std::uint32_t> committed;  ///< records that may be read, counted over all laps (see lap); wraps
  std::atomic<std::uint32_t> next;       ///< index + 1 of the chunk in which this thread goes on, 0 while there is none
  std::uint32_t thread_index;
  std::uint32_t thread_id;
  std::uint64_t sequence;  ///< of this chunk in its thread
  std::uint32_t index;
  std::atomic<std::uint32_t> consumed;  ///< records that the collector has read
  std::atomic<std::uint32_t> lap;       ///< value of `committed` when the thread last began again at the first record
  std::uint32_t capacity;               ///< records

  record* records() noexcept { return reinterpret_cast<record*>(this) + 1; }
};
static_assert(sizeof(chunk) == 64, "a chunk's header is one record wide");

/// Gives Boost.Lockfree its nodes, from a few mappings that end with the container. Nodes of the heap would look lost
/// to a program's LeakSanitizer, since Boost keeps a counter in the unused bits of its pointers. One thread at a time.
template <typename T>
class node_memory {
 public:
  using value_type = T;
  template <typename U>
  struct rebind {
    using other = node_memory<U>;
  };
  node_memory() noexcept = default;
  node_memory(const node_memory&) noexcept {}  // a container's copy of it has mappings of its own
  node_memory& operator=(const node_memory&) = delete;
  ~node_memory() {
    while (newest_ != nullptr) {
      mapping* const last = std::exchange(newest_, newest_->before);
      munmap(last, last->bytes);
    }
  }

  /// Throws std::bad_alloc.
  T* allocate(std::size_t count) {
    static_assert(alignof(T) <= alignof(mapping), "nodes begin behind the head of a mapping");
    const std::size_t bytes = count * sizeof(T);
    if (newest_ == nullptr || newest_->bytes - newest_->used < bytes) map(bytes);
    return reinterpret_cast<T*>(reinterpret_cast<char*>(newest_) + std::exchange(newest_->used, newest_->used + bytes));
  }
  void deallocate(T*, std::size_t) noexcept {}

 private:
  struct alignas(64) mapping {
    mapping* before;
    std::size_t bytes, used;
  };
  void map(std::size_t bytes) {
    const std::size_t all = std::max(std::size_t{1} << 18, sizeof(mapping) + bytes);
    void* const at = map_memory(all);
    if (at == nullptr) throw std::bad_alloc();
    newest_ = new (at) mapping{newest_, all, sizeof(mapping)};
  }
  mapping* newest_ = nullptr;
};

class chunk_pool {
 public:
  /// Puts `count` chunks into circulation, mapping what is missing. Fewer than before: the surplus is retired as it
  /// comes back. Returns false when memory is not to be had. Session's thread.
  CUTRACE_NOINLINE bool resize(std::uint32_t count) {
    std::lock_guard<std::mutex> hold(growth_);
    while (mapped_ < count) {
      const std::uint32_t more = count - mapped_ < region_chunks ? count - mapped_ : region_chunks;
      if (regions_used_ == regions_.size()) return false;
      void* const at = map_memory(std::size_t{more} * chunk_bytes);
      if (at == nullptr) return false;
      regions_[regions_used_] = static_cast<char*>(at);
      if (regions_used_ == 0) first_region_bytes_ = std::size_t{more} * chunk_bytes;
      const std::uint32_t first = static_cast<std::uint32_t>(regions_used_) * region_chunks;
      // Nodes for every chunk exist before the first of them travels, so that no later push allocates.
      try {
        free_.reserve(more);
        spare_.reserve(more);
        small_.reserve(quarters * (more / 2 + 1));
      } catch (...) {  // out of memory
        munmap(at, std::size_t{more} * chunk_bytes);
        return false;
      }
      for (std::uint32_t i = 0; i < more; ++i) spare_.bounded_push({(first + i) * quarters});
      ++regions_used_;
      mapped_ += more;
      // A region that is not full cannot be filled up later: its indices end here.
    }
    limit_.store(count, std::memory_order_relaxed);
    pooled index{0};
    while (circulating_.load(std::memory_order_relaxed) < count && spare_.pop(index)) {
      circulating_.fetch_add(1, std::memory_order_relaxed);
      free_.bounded_push(index);
    }
    while (circulating_.load(std::memory_order_relaxed) > count && free_.pop(index)) retire(index.value);
    return true;
  }

  chunk* at(std::uint32_t index) noexcept {
    constexpr std::uint32_t region = region_chunks * quarters;
    return reinterpret_cast<chunk*>(regions_[index / region] + std::size_t{index % region} * quarter_bytes);
  }

  /// An empty chunk with room for `records`, or nullptr. A small one where `records` fit and it is the thread's
  /// `first`, or half of the memory is taken (the rest must serve later threads); else a large one. Lock-free; any
  /// thread.
  chunk* take(std::uint32_t records = 1, bool first = false) noexcept {
    pooled index{0};
    const bool fits = records <= quarter_records;
    bool is_small = fits && (first || running_low());
    if (is_small) is_small = small_.pop(index) || cut(index);
    if (!is_small && !free_.pop(index)) {
      if (!fits || !small_.pop(index)) return nullptr;
      is_small = true;
    }
    taken_.fetch_add(is_small ? 1 : quarters, std::memory_order_relaxed);
    chunk* c = at(index.value);
    c->index = index.value;
    c->capacity = is_small ? quarter_records : chunk_records;
    c->committed.store(0, std::memory_order_relaxed);
    c->next.store(0, std::memory_order_relaxed);
    c->consumed.store(0, std::memory_order_relaxed);
    c->lap.store(0, std::memory_order_relaxed);
    return c;
  }

  /// True when half of the memory is taken: time for the collector to hurry.
  bool running_low() const noexcept {
    return taken_.load(std::memory_order_relaxed) * 2 > limit_.load(std::memory_order_relaxed) * quarters;
  }

  /// Gives a chunk back that nobody writes any more. Collector's thread.
  void give(chunk* c) noexcept {
    const bool is_small = c->capacity == quarter_records;
    taken_.fetch_sub(is_small ? 1 : quarters, std::memory_order_relaxed);
    if (is_small)
      small_.bounded_push({c->index});
    else if (circulating_.load(std::memory_order_relaxed) > limit_.load(std::memory_order_relaxed))
      retire(c->index);
    else
      free_.bounded_push({c->index});
  }

  /// Backs the first chunks with memory now, so that no application thread takes their page faults. Contents stay as
  /// they are. Collector's thread.
  void populate() noexcept {
    if (mapped_ != 0) populate_memory(regions_[0], std::min(first_region_bytes_, populate_bytes));
  }

  /// Threads that can each have a chunk.
  std::uint32_t thread_limit() const noexcept {
    const std::uint32_t large = limit_.load(std::memory_order_relaxed);
    return large + large / 2 * (quarters - 1);
  }
  std::uint64_t bytes() const noexcept {
    return std::uint64_t{circulating_.load(std::memory_order_relaxed)} * chunk_bytes;
  }

 private:
  static constexpr std::size_t populate_bytes = std::size_t{16} << 20;
  static constexpr std::uint32_t region_chunks = 1u << 16;  // 1 GiB of address space a region at the most

  /// Not a built-in type: the linker could merge Boost's templates over it with those of another Boost in the program.
  struct pooled {
    std::uint32_t value;
  };

  /// Cuts a large chunk into four; `index`: the first of them. Half of the large chunks stay whole, for what does not
  /// fit a small one.
  bool cut(pooled& index) noexcept {
    if (cut_.fetch_add(1, std::memory_order_relaxed) < limit_.load(std::memory_order_relaxed) / 2 && free_.pop(index)) {
      for (std::uint32_t i = 1; i < quarters; ++i) small_.bounded_push({index.value + i});
      return true;
    }
    cut_.fetch_sub(1, std::memory_order_relaxed);
    return false;
  }

  void retire(std::uint32_t index) noexcept {
    // Where pages are larger than chunks (64 KiB on some aarch64 kernels) neighbours would be emptied, too.
    if (page_bytes_ <= chunk_bytes) madvise(at(index), chunk_bytes, MADV_DONTNEED);
    circulating_.fetch_sub(1, std::memory_order_relaxed);
    spare_.bounded_push({index});
  }

  using index_stack = boost::lockfree::stack<pooled, boost::lockfree::allocator<node_memory<pooled>>>;
  const std::size_t page_bytes_ = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::array<char*, 16> regions_{};
  std::size_t first_region_bytes_ = 0;
  std::size_t regions_used_ = 0;
  std::uint32_t mapped_ = 0;
  std::atomic<std::uint32_t> limit_{0};
  std::atomic<std::uint32_t> circulating_{0};
  std::atomic<std::uint32_t> taken_{0};  ///< quarters
  std::atomic<std::uint32_t> cut_{0};    ///< large ones that are quarters now
  index_stack free_{0};                  ///< large ones
  index_stack small_{0};
  index_stack spare_{0};
  std::mutex growth_;
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
