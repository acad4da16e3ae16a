// SPDX-License-Identifier: Apache-2.0
// Lists that a store of a whole trace is made of: growing by blocks, found by id, nearly sorted.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cutrace/config.hpp>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace analysis {

// Sorting what is nearly sorted, as all that a trace delivers: by its end, in order on each stream and thread.

/// By `key(element)`, equal ones in their order. Insertion as long as that is cheap, O(n log n) otherwise.
template <class T, class Key>
void sort_nearly(std::vector<T>& list, Key&& key) {
  std::size_t moves = 0;
  for (std::size_t i = 1; i < list.size(); ++i) {
    const T v = list[i];
    const std::int64_t k = key(v);
    std::size_t to = i;
    for (; to > 0 && key(list[to - 1]) > k; --to) list[to] = list[to - 1];
    list[to] = v;
    moves += i - to;
    if (moves <= 4 * i + 4096) continue;
    std::stable_sort(list.begin(), list.end(), [&](const T& a, const T& b) { return key(a) < key(b); });
    return;
  }
}

/// One order of several nearly sorted lists: those of streams or threads. Takes the lists apart.
template <class Key>
std::vector<std::uint32_t> merge_nearly_sorted(std::vector<std::vector<std::uint32_t>>& lists, Key&& key) {
  struct head {
    std::int64_t key;
    std::size_t list, at;
  };
  const auto later = [](const head& a, const head& b) { return a.key > b.key; };
  std::vector<head> heads;
  std::size_t total = 0;
  for (std::size_t l = 0; l < lists.size(); ++l) {
    sort_nearly(lists[l], key);
    total += lists[l].size();
    if (!lists[l].empty()) heads.push_back({key(lists[l][0]), l, 0});
  }
  if (heads.size() == 1) return std::move(lists[heads[0].list]);
  std::vector<std::uint32_t> merged_list;
  merged_list.reserve(total);
  std::make_heap(heads.begin(), heads.end(), later);
  while (!heads.empty()) {
    std::pop_heap(heads.begin(), heads.end(), later);
    head& h = heads.back();
    // As long as no other list has anything before it, from the same one.
    const std::vector<std::uint32_t>& from = lists[h.list];
    const std::int64_t limit = heads.size() == 1 ? INT64_MAX : heads.front().key;
    do {
      merged_list.push_back(from[h.at++]);
      if (h.at < from.size()) h.key = key(from[h.at]);
    } while (h.at < from.size() && h.key <= limit);
    if (h.at == from.size())
      heads.pop_back();
    else
      std::push_heap(heads.begin(), heads.end(), later);
  }
  lists.clear();
  return merged_list;
}

// Finds the place of a 64-bit id in a list: open addressing over places of 4 bytes, about 8 bytes an id. The ids
// themselves stay in the list.

class id_index {
 public:
  static constexpr std::uint32_t none = UINT32_MAX;

  /// Place of `id`, `none` where it is unknown. `id_at(place)` tells the id of a place.
  template <class IdAt>
  std::uint32_t find(std::uint64_t id, IdAt&& id_at) const {
    if (places_.empty()) return none;
    for (std::size_t i = slot(id);; i = (i + 1) & (places_.size() - 1)) {
      const std::uint32_t place = places_[i];
      if (place == none || id_at(place) == id) return place;
    }
  }

  /// Adds an id that is not there yet.
  template <class IdAt>
  void add(std::uint64_t id, std::uint32_t place, IdAt&& id_at) {
    if (2 * (count_ + 1) > places_.size()) {
      const std::vector<std::uint32_t> old = std::move(places_);
      places_.assign(old.empty() ? 64 : old.size() * 2, none);
      for (const std::uint32_t p : old)
        if (p != none) put(id_at(p), p);
    }
    put(id, place);
    ++count_;
  }
  std::size_t memory_bytes() const noexcept { return places_.capacity() * sizeof(places_[0]); }

 private:
  // Ids are mostly consecutive: sixteen of them share a cache line, whose place is drawn by Fibonacci hashing.
  std::size_t slot(std::uint64_t id) const noexcept {
    const std::uint64_t line = (id >> 4) * 0x9e3779b97f4a7c15u >> 32;
    return static_cast<std::size_t>(line << 4 | (id & 15u)) & (places_.size() - 1);
  }
  void put(std::uint64_t id, std::uint32_t place) {
    std::size_t i = slot(id);
    while (places_[i] != none) i = (i + 1) & (places_.size() - 1);
    places_[i] = place;
  }

  std::vector<std::uint32_t> places_;  ///< a power of two
  std::size_t count_ = 0;
};

// A list that grows by blocks: no moment in which a long trace needs its memory twice. Its first block begins small,
// since a trace may have thousands of threads with few calls each.

/// Elements must be plain data. Not initialised beyond `size`.
template <class T>
class chunked {
  static_assert(std::is_trivially_copyable<T>::value, "elements are plain data");
  static constexpr std::size_t block_bits = 10;
  static constexpr std::size_t block_size = std::size_t{1} << block_bits;

 public:
  void push_back(const T& v) {
    if (CUTRACE_UNLIKELY(size_ == room_)) grow();
    ++size_;
    back() = v;
  }
  /// Keeps the first `n`.
  void truncate(std::size_t n) noexcept { size_ = n < size_ ? n : size_; }
  void clear() noexcept {
    blocks_.clear();
    size_ = room_ = 0;
  }

  T& operator[](std::size_t i) noexcept { return blocks_[i >> block_bits][i & (block_size - 1)]; }
  const T& operator[](std::size_t i) const noexcept { return blocks_[i >> block_bits][i & (block_size - 1)]; }
  T& back() noexcept { return (*this)[size_ - 1]; }
  const T& back() const noexcept { return (*this)[size_ - 1]; }
  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  std::size_t memory_bytes() const noexcept { return room_ * sizeof(T) + blocks_.capacity() * sizeof(blocks_[0]); }

 private:
  CUTRACE_ONE_COPY void grow() {
    if (room_ >= block_size) {
      blocks_.emplace_back(new T[block_size]);
      room_ += block_size;
      return;
    }
    const std::size_t room = room_ == 0 ? 16 : 4 * room_;
    std::unique_ptr<T[]> larger(new T[room]);
    if (room_ == 0)
      blocks_.emplace_back();
    else
      std::copy(blocks_[0].get(), blocks_[0].get() + size_, larger.get());
    blocks_[0] = std::move(larger);
    room_ = room;
  }

  std::vector<std::unique_ptr<T[]>> blocks_;
  std::size_t size_ = 0, room_ = 0;
};

// Binary search that starts from a guess and doubles its steps away from it: O(1) for callers who move through a sorted
// list in nearly its order, O(log n) for all others.

/// First of `n` places for which `before(place)` is false, `n` where there is none. `before` must be true up to some
/// place and false from there on.
template <class Before>
std::size_t search_near(std::size_t n, std::size_t hint, Before&& before) {
  std::size_t low = std::min(hint, n), high = low, step = 1;
  if (low < n && before(low)) {
    for (; high < n && before(high); step *= 2) {
      low = high + 1;
      high = std::min(n, high + step);
    }
  } else {
    for (; low > 0 && !before(low - 1); step *= 2) {
      high = low - 1;
      low = low > step ? low - step : 0;
    }
  }
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    if (before(middle))
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

}  // namespace analysis
CUTRACE_END_NAMESPACE
