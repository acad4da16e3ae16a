// SPDX-License-Identifier: Apache-2.0
// Activity buffers: a fixed number, zeroed by the collector after it has read them (CUPTI would do it on the
// application's thread), never freed (CUPTI may hold some until the process ends).
#pragma once

#include <atomic>
#include <boost/lockfree/queue.hpp>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <cutrace/backend.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace cupti CUTRACE_LOCAL {

class buffer_pool {
 public:
  /// 1,200 kernel records: at a million kernels a second a buffer lasts 1.2 ms, and the 44 that the default limit
  /// allows bridge 50 ms in which the collector does not run. Each launching thread holds one (CUPTI 12.3 and later).
  static constexpr std::size_t buffer_bytes = std::size_t{256} << 10;
  static constexpr std::size_t discard_bytes = std::size_t{16} << 10;

  buffer_pool() : free_(0) {}

  /// Allows buffers of `bytes` together; what exists already stays. Not concurrently with itself.
  void allow(std::size_t bytes) {
    const std::uint32_t count = static_cast<std::uint32_t>(bytes / buffer_bytes > 2 ? bytes / buffer_bytes : 2);
    if (count > limit_.load(std::memory_order_relaxed)) free_.reserve(count - limit_.load(std::memory_order_relaxed));
    limit_.store(count, std::memory_order_relaxed);
  }

  /// A zeroed buffer, aligned to 8 bytes and more; nullptr when the limit is reached. Lock-free; any thread.
  unsigned char* take() noexcept {
    unsigned char* b = nullptr;
    if (free_.pop(b)) return b;
    if (made_.fetch_add(1, std::memory_order_relaxed) >= limit_.load(std::memory_order_relaxed)) {
      made_.fetch_sub(1, std::memory_order_relaxed);
      return nullptr;
    }
    return static_cast<unsigned char*>(std::calloc(1, buffer_bytes));  // fresh pages are zero without being touched
  }

  /// Takes a buffer back that `used` bytes were written to.
  void give(unsigned char* b, std::size_t used) noexcept {
    std::memset(b, 0, used < buffer_bytes ? used : buffer_bytes);
    free_.bounded_push(b);
  }

 private:
  boost::lockfree::queue<unsigned char*> free_;
  std::atomic<std::uint32_t> limit_{0};
  std::atomic<std::uint32_t> made_{0};
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
