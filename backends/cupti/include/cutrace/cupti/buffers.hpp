// SPDX-License-Identifier: Apache-2.0
// Activity buffers: a fixed number, zeroed by the collector after it has read them (CUPTI would do it on the
// application's thread), never freed (CUPTI may hold some until the process ends).
#pragma once

#include <time.h>

#include <atomic>
#include <boost/lockfree/queue.hpp>
#include <cerrno>
#include <chrono>
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

  /// A zeroed buffer, aligned to 8 bytes and more; nullptr when the limit is reached or memory is. Lock-free; any
  /// thread.
  unsigned char* take() noexcept {
    pooled reused{nullptr};
    unsigned char* b = free_.pop(reused) ? reused.bytes : make();
    if (b == nullptr) return nullptr;
    out_.fetch_add(1, std::memory_order_relaxed);
    head_of(b)->since_ns.store(clock::monotonic_ns(), std::memory_order_relaxed);
    return b;
  }

  /// CUPTI hands back what `take` gave it. Any thread.
  static void returned(unsigned char* b) noexcept { head_of(b)->since_ns.store(0, std::memory_order_relaxed); }

  /// Whether CUPTI has kept a buffer since before `until_ns` (CLOCK_MONOTONIC). Any thread.
  bool kept_since(std::uint64_t until_ns) const noexcept {
    for (const head* h = all_.load(std::memory_order_acquire); h != nullptr; h = h->next) {
      const std::uint64_t since = h->since_ns.load(std::memory_order_relaxed);
      if (since != 0 && since <= until_ns) return true;
    }
    return false;
  }

  /// Takes a buffer back that `used` bytes were written to.
  void give(unsigned char* b, std::size_t used) noexcept {
    std::memset(b, 0, used < buffer_bytes ? used : buffer_bytes);
    free_.bounded_push({b});
    out_.fetch_sub(1, std::memory_order_relaxed);
  }

  /// A full buffer begins to wait for the collector, or has been read.
  void queued(bool now) noexcept { queued_.fetch_add(now ? 1u : ~0u, std::memory_order_relaxed); }

  /// Holds the calling thread up, `us` microseconds at most, while the collector has buffers to read and less than half
  /// of all are free. For overflow_policy::wait, before a call that makes work: the records of it come later, so half
  /// must be left for them.
  void wait_for_room(std::uint32_t us) const noexcept {
    if (!crowded()) return;
    const int program_errno = errno;
    const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(us);
    do {
      const timespec moment{0, 50000};
      ::nanosleep(&moment, nullptr);
    } while (crowded() && std::chrono::steady_clock::now() < until);
    errno = program_errno;
  }

  /// Buffers that exist, and those of them that CUPTI or the collector has.
  std::uint32_t made() const noexcept { return made_.load(std::memory_order_relaxed); }
  std::uint32_t out() const noexcept { return out_.load(std::memory_order_relaxed); }
  std::uint32_t limit() const noexcept { return limit_.load(std::memory_order_relaxed); }

 protected:
  /// Before the bytes of each buffer.
  struct head {
    std::atomic<std::uint64_t> since_ns{0};  ///< when CUPTI got it, 0: it has not got it
    head* next = nullptr;                    ///< of all that were made
  };
  static head* head_of(unsigned char* b) noexcept { return reinterpret_cast<head*>(b) - 1; }

 private:
  unsigned char* make() noexcept {
    void* at = nullptr;
    // Fresh pages are zero without being touched.
    if (made_.fetch_add(1, std::memory_order_relaxed) < limit()) at = std::calloc(1, sizeof(head) + buffer_bytes);
    if (at == nullptr) {
      made_.fetch_sub(1, std::memory_order_relaxed);
      return nullptr;
    }
    head* h = ::new (at) head();
    h->next = all_.load(std::memory_order_relaxed);
    while (!all_.compare_exchange_weak(h->next, h, std::memory_order_release, std::memory_order_relaxed)) continue;
    return reinterpret_cast<unsigned char*>(h + 1);
  }
  bool crowded() const noexcept { return queued_.load(std::memory_order_relaxed) != 0 && out() > limit() / 2; }

  /// A type of its own, so that a program whose Boost is another one than the archive's shares no function with it.
  struct pooled {
    unsigned char* bytes;
  };
  boost::lockfree::queue<pooled> free_;
  std::atomic<head*> all_{nullptr};
  std::atomic<std::uint32_t> limit_{0};
  std::atomic<std::uint32_t> made_{0};
  std::atomic<std::uint32_t> out_{0};
  std::atomic<std::uint32_t> queued_{0};
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
