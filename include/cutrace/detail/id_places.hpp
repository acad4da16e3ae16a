// SPDX-License-Identifier: Apache-2.0
// Where things with an id are: an open-addressed table with linear probing, for ids that each thread counts up from a
// start of its own. Eight neighbours share a cache line, since the table is larger than caches are. One thread at a
// time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cutrace/config.hpp>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

/// From ids to places, which are numbers that the owner gives.
class id_places {
 public:
  static constexpr std::uint32_t none = 0xffffffffu;

  std::size_t size() const noexcept { return size_; }
  std::uint64_t bytes() const noexcept { return entries_.size() * sizeof(entry); }

  /// `is(place)`: whether it is the id's; asked where 32 bits of it are equal. @returns the place or `none`
  template <class Is>
  std::uint32_t find(std::uint64_t id, Is is) const {
    if (entries_.empty()) return none;
    const std::uint32_t tag = tag_of(id);
    for (std::size_t at = home(tag); entries_[at].number != 0; at = next(at))
      if (entries_[at].tag == tag && is(entries_[at].number - 1)) return entries_[at].number - 1;
    return none;
  }
  /// Asks for the memory that `find` reads.
  void prefetch(std::uint64_t id) const noexcept {
    if (!entries_.empty()) __builtin_prefetch(&entries_[home(tag_of(id))]);
  }

  /// One that is not there yet.
  void add(std::uint64_t id, std::uint32_t place) {
    if ((size_ + 1) * 3 > entries_.size()) grow();
    put({tag_of(id), place + 1});
    ++size_;
  }

  /// One that is there. Moves those behind it up, so that no search ends before its time (Knuth, The Art of Computer
  /// Programming, volume 3, section 6.4, algorithm R).
  void remove(std::uint64_t id, std::uint32_t place) noexcept {
    std::size_t hole = home(tag_of(id));
    while (entries_[hole].number != place + 1) hole = next(hole);
    for (std::size_t at = next(hole); entries_[at].number != 0; at = next(at)) {
      // One that belongs behind the hole, on the way round to where it is, stays.
      if (((at - home(entries_[at].tag)) & mask_) < ((at - hole) & mask_)) continue;
      entries_[hole] = entries_[at];
      hole = at;
    }
    entries_[hole] = {};
    --size_;
  }

 private:
  struct entry {
    std::uint32_t tag = 0;
    std::uint32_t number = 0;  ///< of the place, from 1; 0: nothing
  };
  static constexpr std::size_t first_size = 1024;

  static std::uint32_t tag_of(std::uint64_t id) noexcept {
    return static_cast<std::uint32_t>(id) + static_cast<std::uint32_t>(id >> 40) * 0x9E3779B1u;
  }
  /// Fibonacci hashing (Knuth, as above) of groups of eight. Not of less: the numbers of two threads that count up side
  /// by side would lie on each other.
  std::size_t home(std::uint32_t tag) const noexcept {
    return static_cast<std::size_t>((tag >> 3) * 0x9E3779B97F4A7C15u >> 32 << 3 | (tag & 7u)) & mask_;
  }
  std::size_t next(std::size_t at) const noexcept { return (at + 1) & mask_; }

  void put(const entry& e) noexcept {
    std::size_t at = home(e.tag);
    while (entries_[at].number != 0) at = next(at);
    entries_[at] = e;
  }

  CUTRACE_NOINLINE void grow() {
    std::vector<entry> larger(entries_.empty() ? first_size : 2 * entries_.size());
    larger.swap(entries_);
    mask_ = entries_.size() - 1;
    for (const entry& e : larger)
      if (e.number != 0) put(e);
  }

  std::vector<entry> entries_;
  std::size_t mask_ = 0;
  std::size_t size_ = 0;
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
