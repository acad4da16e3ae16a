// SPDX-License-Identifier: Apache-2.0
// Finds the place of a 64-bit id in a list: open addressing over places of 4 bytes, about 8 bytes an id. The ids
// themselves stay in the list.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cutrace/config.hpp>
#include <utility>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace analysis {

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

}  // namespace analysis
CUTRACE_END_NAMESPACE
