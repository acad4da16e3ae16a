// SPDX-License-Identifier: Apache-2.0
// Number of distinct 64-bit ids in fixed memory: exact up to a limit, then estimated from the smallest hashes.
// Source: Bar-Yossef et al., "Counting distinct elements in a data stream" (2002), the k-minimum-values estimator.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cutrace/config.hpp>
#include <utility>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace analysis {

class distinct_count {
 public:
  /// @param limit ids up to which the count is exact; beyond it the standard error is about 1 / sqrt(limit). 0: always
  /// exact.
  explicit distinct_count(std::size_t limit = 0) noexcept : limit_(limit) {}

  void add(std::uint64_t id) {
    const std::uint64_t h = mix(id);
    if (limit_ == 0) return append(h);
    const bool full = smallest_.size() >= limit_;
    if (full && h > smallest_.back()) {
      estimated_ = true;
      return;
    }
    const auto place = std::lower_bound(smallest_.begin(), smallest_.end(), h);
    if (place != smallest_.end() && *place == h) return;
    if (full) {
      estimated_ = true;
      std::move_backward(place, smallest_.end() - 1, smallest_.end());
      *place = h;
    } else {
      smallest_.insert(place, h);
    }
  }

  bool exact() const noexcept { return !estimated_; }
  CUTRACE_NOINLINE std::uint64_t count() const noexcept {
    if (limit_ == 0) return sorted(smallest_).size();
    if (!estimated_) return smallest_.size();
    const double fraction = static_cast<double>(smallest_.back()) / 18446744073709551616.0;  // of the range of hashes
    return static_cast<std::uint64_t>(static_cast<double>(limit_ - 1) / fraction);
  }

 private:
  // Finalizer of SplitMix64 (Steele, Lea, Flood 2014): a bijection, so distinct ids stay distinct.
  static std::uint64_t mix(std::uint64_t x) noexcept {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  }

  CUTRACE_NOINLINE static std::vector<std::uint64_t> sorted(std::vector<std::uint64_t> list) {
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
    return list;
  }
  // Without a limit: sort only when the list has doubled, instead of moving it for each id.
  void append(std::uint64_t h) {
    if (smallest_.size() >= sort_at_) {
      smallest_ = sorted(std::move(smallest_));
      sort_at_ = std::max<std::size_t>(1024, 2 * smallest_.size());
    }
    smallest_.push_back(h);
  }

  std::size_t limit_;
  std::vector<std::uint64_t> smallest_;  ///< hashes; sorted where there is a limit
  std::size_t sort_at_ = 1024;
  bool estimated_ = false;
};

}  // namespace analysis
CUTRACE_END_NAMESPACE
