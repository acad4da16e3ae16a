// SPDX-License-Identifier: Apache-2.0
// Activity buffers: a fixed amount of memory. The collector zeroes a buffer after reading it (else CUPTI would, on the
// application's thread). The memory is never unmapped, since CUPTI may hold buffers until the process ends.
//
// CUPTI 12.3 and later give each launching thread a buffer of its own until the next flush. Then the thread gets a new
// one, though CUPTI may keep the old one: a kernel that still runs keeps one for each flush period in which its thread
// launches (CUDA 13.0, H200: ten a second, with a flush each 100 ms). So a thread's first buffer is small: a thousand
// slow threads have one each, and a minute of such a kernel costs 2.4 MiB. Large buffers carry a fast thread for long.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <cutrace/backend.hpp>
#include <mutex>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace cupti CUTRACE_LOCAL {

class buffer_pool : public activity_buffers {
 public:
  /// 1,200 kernel records: at a million kernels a second a buffer lasts 1.2 ms, and the 44 that the default limit
  /// allows bridge 50 ms in which the collector does not run.
  static constexpr std::size_t large_bytes = std::size_t{256} << 10;
  /// 19 kernel records. The default limit allows 2,816 small buffers: for a thousand threads, and for buffers that a
  /// flush has just returned.
  static constexpr std::size_t small_bytes = std::size_t{4} << 10;
  static constexpr std::size_t discard_bytes = std::size_t{16} << 10;

  /// Limits the memory of all buffers together to `bytes`, in whole large buffers, at least two. Memory that exists
  /// already stays. Reverses `close`, and forgets what the last flush found. Any thread.
  void allow(std::size_t bytes) {
    const std::size_t wanted = bytes / large_bytes > 2 ? bytes / large_bytes : 2;
    const std::lock_guard<std::mutex> hold(lock_);
    limit_ = wanted;
    unfinished_bytes_.store(0, std::memory_order_relaxed);
    closed_.store(false, std::memory_order_relaxed);
    if (wanted <= slots_) return;
    const std::size_t more = wanted - slots_;
    // The kernel backs the mapping at first use, with zeroed pages.
    void* at =
        ::mmap(nullptr, more * large_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return;
    regions_.push_back({static_cast<unsigned char*>(at), std::vector<slot>(more)});
    slots_ += more;
  }

  /// From here on `take` returns nullptr, so the number of buffers at CUPTI can only fall. Any thread.
  void close() noexcept {
    const std::lock_guard<std::mutex> hold(lock_);
    closed_.store(true, std::memory_order_relaxed);
  }
  bool is_closed() const noexcept { return closed_.load(std::memory_order_relaxed); }

  /// A zeroed buffer, aligned to small_bytes; `size` is set. nullptr when the limit is reached, or after `close`.
  /// `first`: the thread's first since the last flush, which is small. Others are large until half of the memory is
  /// taken: the rest is for other threads. `thread`: whose records it will hold (see `held`). `now_ns`: raw frame
  /// (clock.hpp). Any thread.
  unsigned char* take(std::uint32_t thread, std::uint64_t now_ns, bool first, std::size_t& size) noexcept {
    const std::lock_guard<std::mutex> hold(lock_);
    if (is_closed()) return nullptr;
    const bool is_small = first || 2 * used_ >= limit_;
    slot* found = nullptr;
    unsigned char* base = nullptr;
    for (region& r : regions_)
      for (std::size_t i = 0; i < r.slots.size() && (found == nullptr || found->is_free()); ++i) {
        slot& s = r.slots[i];
        // A divided slot is preferred, so that free slots stay whole.
        if (!(s.is_free() ? found == nullptr && used_ < limit_ : is_small && s.divided && s.taken != all_pieces))
          continue;
        found = &s;
        base = r.bytes + i * large_bytes;
        if (!is_small) break;
      }
    if (found == nullptr) return nullptr;
    if (found->is_free()) {
      ++used_;
      found->divided = is_small;
    }
    const unsigned piece = is_small ? static_cast<unsigned>(__builtin_ctzll(~found->taken)) : 0u;
    const std::uint64_t pieces = is_small ? std::uint64_t{1} << piece : all_pieces;
    found->taken |= pieces;
    found->touched |= pieces;
    found->of[piece] = {thread, true, now_ns};
    size = is_small ? small_bytes : large_bytes;
    out_.fetch_add(1, std::memory_order_relaxed);
    out_bytes_.fetch_add(size, std::memory_order_relaxed);
    at_cupti_bytes_.fetch_add(size, std::memory_order_relaxed);
    return base + piece * small_bytes;
  }

  /// CUPTI hands back what `take` gave it. False: another client's buffer. Any thread.
  bool returned(unsigned char* b) noexcept {
    const std::lock_guard<std::mutex> hold(lock_);
    const place p = place_of(b);
    if (CUTRACE_UNLIKELY(p.where == nullptr)) return false;
    p.where->of[p.piece].at_cupti = false;
    at_cupti_bytes_.fetch_sub(p.where->divided ? small_bytes : large_bytes, std::memory_order_relaxed);
    return true;
  }

  /// Bytes of the buffers that CUPTI has. Any thread.
  std::size_t at_cupti_bytes() const noexcept { return at_cupti_bytes_.load(std::memory_order_relaxed); }
  /// The collector has a quarter of the memory still to read. Another flush would add a small buffer of each thread,
  /// which holds few records. Any thread.
  bool waits_to_be_read() const noexcept {
    const std::size_t at_cupti = at_cupti_bytes(), out = out_bytes_.load(std::memory_order_relaxed);
    return out > at_cupti && (out - at_cupti) * 4 > limit_bytes();
  }
  /// A flush has ended: what CUPTI has now is held back by unfinished work. Any thread.
  void flushed() noexcept { unfinished_bytes_.store(at_cupti_bytes(), std::memory_order_relaxed); }
  /// Bytes that unfinished work holds back: of each thread whose oldest buffer CUPTI has had since `until_ns` (raw
  /// frame) or longer, all buffers but the newest, the only one that is still written to. Any thread.
  std::size_t held_back_bytes(std::uint64_t until_ns) const {
    struct one {
      std::uint32_t thread;
      std::uint64_t since_ns;
      std::size_t bytes;
    };
    std::vector<one> all;
    for_each([&](const holder& h, std::size_t bytes) {
      if (h.at_cupti) all.push_back({h.thread, h.since_ns, bytes});
    });
    std::sort(all.begin(), all.end(), [](const one& a, const one& b) {
      return a.thread != b.thread ? a.thread < b.thread : a.since_ns < b.since_ns;
    });
    std::size_t closed = 0;
    for (std::size_t i = 1, oldest = 0; i < all.size(); ++i) {
      if (all[i].thread != all[oldest].thread)
        oldest = i;
      else if (all[oldest].since_ns <= until_ns)
        closed += all[i - 1].bytes;
    }
    return closed;
  }

  /// Takes back a buffer of which CUPTI wrote the first `used` bytes, and zeroes them. Any thread.
  void give(unsigned char* b, std::size_t used) noexcept {
    std::unique_lock<std::mutex> hold(lock_);
    const place p = place_of(b);  // slots do not move, and this one stays as it is while it is out
    hold.unlock();
    const std::size_t size = p.where->divided ? small_bytes : large_bytes;
    std::memset(b, 0, used < size ? used : size);
    hold.lock();
    p.where->taken &= p.where->divided ? ~(std::uint64_t{1} << p.piece) : 0u;
    if (p.where->is_free()) --used_;
    out_.fetch_sub(1, std::memory_order_relaxed);
    out_bytes_.fetch_sub(size, std::memory_order_relaxed);
  }

  void list(void (*add)(void*, const held&), void* to) const override {
    for_each([&](const holder& h, std::size_t) { add(to, {h.thread, h.since_ns}); });
  }
  std::uint64_t bytes() const noexcept override {
    const std::lock_guard<std::mutex> hold(lock_);
    std::uint64_t pieces = 0;
    for (const region& r : regions_)
      for (const slot& s : r.slots) pieces += static_cast<unsigned>(__builtin_popcountll(s.touched));
    return pieces * small_bytes;
  }

  /// Holds the calling thread up, `us` microseconds at most, while less is free than half of the memory that unfinished
  /// work leaves. For overflow_policy::wait, before a call that makes GPU work: the other half must be left for the
  /// records, which come later. Calls `ask_for_flush()` while CUPTI, not the collector, has what is missing.
  template <class Ask>
  void wait_for_room(std::uint32_t us, Ask ask_for_flush) const noexcept {
    cutrace::wait_for_room(us, [&] {
      if (crowded_by(at_cupti_bytes())) ask_for_flush();
      return !crowded_by(out_bytes_.load(std::memory_order_relaxed));
    });
  }

  /// Buffers that CUPTI or the collector has. `limit_bytes`: the most memory that all buffers together may take.
  std::uint32_t out() const noexcept { return out_.load(std::memory_order_relaxed); }
  std::size_t limit_bytes() const noexcept { return limit_.load(std::memory_order_relaxed) * large_bytes; }

 private:
  static constexpr unsigned pieces_a_slot = large_bytes / small_bytes;
  static constexpr std::uint64_t all_pieces = ~std::uint64_t{0};
  static_assert(pieces_a_slot == 64, "a bit each");

  struct holder {
    std::uint32_t thread;
    bool at_cupti;
    std::uint64_t since_ns;
  };
  /// Memory of one large buffer, or of small ones.
  struct slot {
    std::uint64_t taken = 0;    ///< a bit for each small buffer in use; all bits for a large one
    std::uint64_t touched = 0;  ///< bits that `taken` has ever had
    bool divided = false;
    holder of[pieces_a_slot] = {};
    bool is_free() const noexcept { return taken == 0; }
  };
  struct region {
    unsigned char* bytes;
    std::vector<slot> slots;
  };
  struct place {
    slot* where;
    unsigned piece;
  };

  place place_of(const unsigned char* b) noexcept {
    for (region& r : regions_) {
      const std::size_t at = static_cast<std::size_t>(b - r.bytes);
      if (b < r.bytes || at >= r.slots.size() * large_bytes) continue;
      return {&r.slots[at / large_bytes], static_cast<unsigned>(at % large_bytes / small_bytes)};
    }
    return {nullptr, 0};
  }
  /// Calls `take(holder, bytes)` for each buffer in use.
  template <class Take>
  void for_each(Take take) const {
    const std::lock_guard<std::mutex> hold(lock_);
    for (const region& r : regions_)
      for (const slot& s : r.slots) {
        std::uint64_t left = s.divided || s.is_free() ? s.taken : 1u;
        for (; left != 0; left &= left - 1) take(s.of[__builtin_ctzll(left)], s.divided ? small_bytes : large_bytes);
      }
  }
  /// Work is unfinished as of the last flush; what has come back since is not.
  bool crowded_by(std::size_t bytes) const noexcept {
    const std::size_t unfinished = std::min(unfinished_bytes_.load(std::memory_order_relaxed), at_cupti_bytes());
    return !is_closed() && 2 * bytes > limit_bytes() + unfinished;
  }

  mutable std::mutex lock_;  ///< taken a few times a buffer
  std::vector<region> regions_;
  std::size_t slots_ = 0;              ///< of all regions
  std::atomic<std::size_t> limit_{0};  ///< slots that may be in use; written with the lock held
  std::size_t used_ = 0;
  std::atomic<bool> closed_{false};  ///< written with the lock held
  std::atomic<std::uint32_t> out_{0};
  std::atomic<std::size_t> out_bytes_{0};
  std::atomic<std::size_t> at_cupti_bytes_{0};
  std::atomic<std::size_t> unfinished_bytes_{0};  ///< see flushed
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
