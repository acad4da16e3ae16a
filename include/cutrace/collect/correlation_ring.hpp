// SPDX-License-Identifier: Apache-2.0
// From a correlation id to its call: direct-mapped, written by the thread that makes the call at its ENTER, read by the
// collector when GPU records arrive. Bounded: the collector copies a call whose entry is about to be overwritten while
// its records can still come. Where there is no room for the copy, the records are unattributed, never lost. All nodes
// of a graph launch share one id, so nothing is removed on reading.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <bitset>
#include <cstdint>
#include <cutrace/collect/memory_blocks.hpp>
#include <cutrace/event.hpp>
#include <unordered_map>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

class alignas(64) correlation_ring {  // its own members lie in one cache line
 public:
  struct call {
    std::uint64_t stage;
    std::uint64_t begin_ticks;
    std::uint32_t thread_index;
    std::uint32_t function;
    std::uint32_t epoch;
  };

  ~correlation_ring() { release(); }

  /// 2^bits entries of 32 bytes, lazily backed by memory. Before any writer starts.
  bool reset(unsigned bits) noexcept {
    release();
    entries_ = static_cast<entry*>(map_memory(sizeof(entry) << bits));
    mask_ = entries_ != nullptr ? (1u << bits) - 1 : 0;
    begin_trace();
    newest_.store(0, std::memory_order_relaxed);
    backed_ = seen_ = 0;
    return entries_ != nullptr;
  }
  bool is_made() const noexcept { return entries_ != nullptr; }
  /// A trace begins: any number of calls may have been made since the last one.
  void begin_trace() noexcept { coarse_.store(INT32_MIN, std::memory_order_relaxed); }
  /// Bytes backed by memory, about. Collector's thread.
  std::uint64_t bytes() const noexcept { return std::bitset<64>(backed_).count() * step_bytes(); }

  /// Backs with memory what the next calls will fill, so that no application thread takes its page faults: in a loop a
  /// launch costs 64 ns more than without cutrace, instead of 95. Calls stay as they are. Collector's thread.
  void populate() noexcept {
    if (entries_ == nullptr) return;
    const std::uint32_t newest = static_cast<std::uint32_t>(newest_.load(std::memory_order_relaxed));
    const std::uint32_t step = static_cast<std::uint32_t>(step_bytes() / sizeof(entry));
    if (seen_ == 0) seen_ = newest;
    // Entries that calls have written since the last time are backed by that write.
    for (std::uint32_t back = std::min(newest - seen_, mask_); back > 0; back -= std::min(back, step))
      set_backed(newest - back);
    seen_ = newest;
    for (const std::uint32_t id : {newest, newest + step / 2})
      if (set_backed(id)) populate_memory(entries_ + ((id & mask_) / step * step), step_bytes());
  }

  /// Remembers a call. Any thread; ids come from one counter and are never 0.
  CUTRACE_INLINE void put(std::uint32_t id, std::uint64_t stage, std::uint64_t begin_ticks, std::uint32_t thread_index,
                          std::uint32_t function) noexcept {
    while (CUTRACE_UNLIKELY(!put_near(id, stage, begin_ticks, thread_index, function))) note_progress(id);
  }
  /// As `put`, where `id` lies less than `coarse_` beyond the newest id that has been noted; else does nothing: false.
  CUTRACE_INLINE bool put_near(std::uint32_t id, std::uint64_t stage, std::uint64_t begin_ticks,
                               std::uint32_t thread_index, std::uint32_t function) noexcept {
    const std::uint64_t newest = newest_.load(std::memory_order_relaxed);
    const std::int32_t ahead = distance(newest, id);
    if (CUTRACE_UNLIKELY(ahead >= coarse_.load(std::memory_order_relaxed))) return false;
    entry& e = entries_[id & mask_];
    // Ids count up: the lines of the next calls are wanted for writing soon, and no cache holds them any more.
    __builtin_prefetch(&entries_[(id + 32) & mask_], 1);
    const std::uint32_t both = thread_index | static_cast<std::uint32_t>(epoch_at(newest, ahead) << 24);
    e.id.store(id, std::memory_order_relaxed);
    e.thread_and_epoch.store(both, std::memory_order_relaxed);
    e.stage.store(stage, std::memory_order_relaxed);
    e.begin.store(begin_ticks, std::memory_order_relaxed);
    e.function.store(function, std::memory_order_relaxed);
    e.check.store(check_of(id, both, stage, begin_ticks, function), std::memory_order_relaxed);
    return true;
  }

  /// To which wrap of the 32-bit counter a current id belongs, the lower 8 bits.
  std::uint32_t epoch(std::uint32_t id) const noexcept {
    const std::uint64_t newest = newest_.load(std::memory_order_relaxed);
    return epoch_at(newest, distance(newest, id)) & 0xff;
  }

  /// The call of a GPU record that came just now. Collector's thread.
  attribution find(std::uint32_t id, call& out) const noexcept {
    if (id == 0 || entries_ == nullptr) return attribution::no_callback;
    const entry& e = entries_[id & mask_];
    const std::uint32_t seen = e.id.load(std::memory_order_relaxed);
    if (seen != id) return distance(id, seen) > 0 ? attribution::expired : attribution::no_callback;
    out.stage = e.stage.load(std::memory_order_relaxed);
    out.begin_ticks = e.begin.load(std::memory_order_relaxed);
    const std::uint32_t both = e.thread_and_epoch.load(std::memory_order_relaxed);
    out.function = e.function.load(std::memory_order_relaxed);
    const std::uint32_t check = e.check.load(std::memory_order_relaxed);
    out.thread_index = both & 0xffffff;
    out.epoch = both >> 24;
    if (check != check_of(id, both, out.stage, out.begin_ticks, out.function)) return attribution::expired;
    // Same 32 bits, but from before the counter wrapped: some other call.
    if (out.epoch != epoch(id)) return attribution::no_callback;
    return out.stage != 0 ? attribution::by_call : attribution::outside_stage;
  }

  /// Calls `take(id, call)` once for each call that is half a ring old, before its entry is overwritten. `upto`: the id
  /// at which the last pass_old ended, at first 0. `none_wanted(call)`: whether neither that call nor any older one is
  /// wanted; then none is looked at. Collector's thread.
  template <class NoneWanted, class Take>
  void pass_old(std::uint32_t& upto, NoneWanted none_wanted, Take take) const {
    if (entries_ == nullptr) return;
    const std::uint64_t newest = newest_.load(std::memory_order_relaxed);
    const std::uint32_t half = mask_ / 2 + 1, end = static_cast<std::uint32_t>(newest) - half;
    if (newest <= half) return;
    std::uint32_t at = end - upto <= half ? upto : end - half;  // what lies further back has been overwritten
    call c;
    std::uint32_t newer = end;  // many ids are of calls that make no GPU work
    while (newer != end + 16 && !is_found(find(newer, c))) ++newer;
    if (newer == end + 16 || !none_wanted(c))
      for (; at != end; ++at)
        if (is_found(find(at, c))) take(at, c);
    upto = end;
  }
  static bool is_found(attribution a) noexcept { return a == attribution::by_call || a == attribution::outside_stage; }

  /// Problem: a thread that is held up inside `put` goes on writing when another thread, a whole ring later, has filled
  /// the same entry; no order of stores shows that to a reader. Solution: the entry holds a checksum of its content. A
  /// mixture of two calls passes about once in 2^31. Each field is multiplied by a different power of `m`: if two
  /// fields were combined before that, a mixture of neighbouring calls would pass (ticks and thread that differ in the
  /// same bits). Public for its test.
  static std::uint32_t check_of(std::uint32_t id, std::uint32_t both, std::uint64_t stage, std::uint64_t begin,
                                std::uint32_t function) noexcept {
    constexpr std::uint64_t m = 0x9e3779b97f4a7c15u;  // from the fractional digits of the golden ratio; odd
    const std::uint64_t name_of_call = id | static_cast<std::uint64_t>(function) << 32;
    return static_cast<std::uint32_t>(((((both * m + stage) * m + begin) * m + name_of_call) * m) >> 32);
  }

 private:
  struct alignas(32) entry {
    std::atomic<std::uint32_t> id;
    std::atomic<std::uint32_t> thread_and_epoch;  ///< 24 and 8 bits
    std::atomic<std::uint64_t> stage;
    std::atomic<std::uint64_t> begin;
    std::atomic<std::uint32_t> function;
    std::atomic<std::uint32_t> check;
  };
  static_assert(sizeof(entry) == 32, "two entries a cache line");
  static constexpr std::int32_t coarsest = 4096;

  /// How far `id` lies beyond `newest`: less than 2^31 to either side.
  static CUTRACE_INLINE std::int32_t distance(std::uint64_t newest, std::uint32_t id) noexcept {
    return static_cast<std::int32_t>(id - static_cast<std::uint32_t>(newest));
  }
  /// Wraps of the 32-bit counter before the id that lies `ahead` of `newest`.
  static CUTRACE_INLINE std::uint64_t epoch_at(std::uint64_t newest, std::int32_t ahead) noexcept {
    return (newest + static_cast<std::uint64_t>(std::int64_t{ahead})) >> 32;
  }
  CUTRACE_NOINLINE void note_progress(std::uint32_t id) noexcept {
    std::uint64_t newest = newest_.load(std::memory_order_relaxed);
    std::int64_t ahead = distance(newest, id);
    // The first call of a trace that lies far behind: more than 2^31 calls have been made in between.
    const bool first = coarse_.load(std::memory_order_relaxed) == INT32_MIN;
    if (first && newest != 0 && ahead < INT32_MIN / 2) ahead += std::int64_t{1} << 32;
    if (ahead > 0 || newest == 0)
      newest_.compare_exchange_strong(newest, newest + static_cast<std::uint64_t>(ahead), std::memory_order_relaxed);
    coarse_.store(std::min(coarsest, static_cast<std::int32_t>(mask_ / 8 + 1)), std::memory_order_relaxed);
  }

  void release() noexcept {
    if (entries_ != nullptr) munmap(entries_, all_bytes());
    entries_ = nullptr;
  }
  std::size_t all_bytes() const noexcept { return sizeof(entry) * (std::size_t{mask_} + 1); }
  /// Notes that the step of `id` is backed with memory. True: it was not.
  bool set_backed(std::uint32_t id) noexcept {
    const std::uint64_t bit = std::uint64_t{1} << (id & mask_) * sizeof(entry) / step_bytes(), before = backed_;
    backed_ |= bit;
    return (before & bit) == 0;
  }
  /// What `populate` backs at once, and `backed_` has a bit for.
  std::size_t step_bytes() const noexcept { return std::min(all_bytes(), std::max(all_bytes() / 64, huge_page_bytes)); }

  entry* entries_ = nullptr;
  std::uint32_t mask_ = 0;
  /// Ids between two writes of `newest_`, to keep its line shared; INT32_MIN until the first call of a trace.
  std::atomic<std::int32_t> coarse_{INT32_MIN};
  /// Id, counted on beyond the wraps of CUPTI's 32-bit counter; 0: none yet. The first id is sign-extended to 64 bits,
  /// so it may be negative.
  std::atomic<std::uint64_t> newest_{0};
  std::uint32_t seen_ = 0;    ///< `newest_` when `populate` last looked
  std::uint64_t backed_ = 0;  ///< steps that are backed with memory
};

/// Calls of which records can still come although the ring has gone on: work that runs for long holds back the records
/// of its thread. Collector's thread.
class call_copies {
 public:
  using call = correlation_ring::call;

  /// `bytes`: what is beyond it is not kept.
  void set_limit(std::size_t bytes) noexcept { limit_bytes_ = bytes; }
  std::size_t size() const noexcept { return calls_.size(); }
  std::size_t bytes() const noexcept { return calls_.size() * copy_bytes; }

  void keep(std::uint32_t id, const call& c) {
    if (bytes() + copy_bytes <= limit_bytes_) calls_[id] = c;
  }
  /// As correlation_ring::find, for an id that it does not know any more.
  attribution find(std::uint32_t id, call& out) const {
    const auto found = calls_.find(id);
    if (found == calls_.end()) return attribution::expired;
    out = found->second;
    return out.stage != 0 ? attribution::by_call : attribution::outside_stage;
  }
  /// Forgets the calls for which `awaited(call)` is false.
  template <class Awaited>
  void release(Awaited awaited) {
    for (auto c = calls_.begin(); c != calls_.end();) c = awaited(c->second) ? std::next(c) : calls_.erase(c);
  }

 private:
  static constexpr std::size_t copy_bytes = sizeof(call) + 40;  ///< with its node and its share of the table
  std::unordered_map<std::uint32_t, call> calls_;
  std::size_t limit_bytes_ = std::size_t{1} << 20;
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
