// SPDX-License-Identifier: Apache-2.0
// Percentiles of durations without keeping them: counts in buckets whose width is a sixteenth of their octave, so that
// any percentile is known within 1/32 of its value. About a hundred bytes for durations that are all about the same.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cutrace/config.hpp>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace analysis {

class duration_histogram {
 public:
  void add(std::uint64_t ns) {
    const std::size_t b = bucket_of(ns);
    if (CUTRACE_UNLIKELY(b < first_ || b >= first_ + counts_.size())) widen(b);
    std::uint32_t& n = counts_[b - first_];
    n += n != UINT32_MAX;
    ++total_;
    shortest_ns_ = std::min(shortest_ns_, ns);
    longest_ns_ = std::max(longest_ns_, ns);
  }

  std::uint64_t count() const noexcept { return total_; }

  /// The nearest-rank percentile, `percent` from 1 to 100: the middle of the bucket that holds the duration with rank
  /// ceil(percent / 100 * count), but within the durations that were added. Exact below 16 ns, else within 1/32. 0
  /// where nothing was added.
  CUTRACE_NOINLINE std::uint64_t percentile_ns(unsigned percent) const noexcept {
    std::uint64_t below = total_ / 100 * percent + (total_ % 100 * percent + 99) / 100;  // ranks to pass
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      if (counts_[i] >= below) return std::clamp(middle_of(first_ + i), shortest_ns_, longest_ns_);
      below -= counts_[i];
    }
    return longest_ns_;
  }

 private:
  static constexpr unsigned part_bits = 4;  ///< parts of an octave: 2^4

  static std::size_t bucket_of(std::uint64_t ns) noexcept {
    if (ns < (1u << part_bits)) return static_cast<std::size_t>(ns);
    const unsigned octave = 63u - static_cast<unsigned>(__builtin_clzll(ns));
    const std::uint64_t part = ns >> (octave - part_bits) & ((1u << part_bits) - 1);
    return ((octave - part_bits + 1) << part_bits) + static_cast<std::size_t>(part);
  }
  static std::uint64_t middle_of(std::size_t bucket) noexcept {
    if (bucket < (1u << part_bits)) return bucket;
    const unsigned shift = static_cast<unsigned>(bucket >> part_bits) - 1;
    const std::uint64_t low = std::uint64_t{(1u << part_bits) + (bucket & ((1u << part_bits) - 1))} << shift;
    return low + ((std::uint64_t{1} << shift) - 1) / 2;
  }

  CUTRACE_NOINLINE void widen(std::size_t b) {
    if (counts_.empty()) first_ = b;
    if (b < first_) {
      counts_.insert(counts_.begin(), first_ - b, 0u);
      first_ = b;
    }
    counts_.resize(std::max(counts_.size(), b - first_ + 1));
  }

  std::vector<std::uint32_t> counts_;  ///< of the buckets from `first_` on
  std::size_t first_ = 0;
  std::uint64_t total_ = 0;
  std::uint64_t shortest_ns_ = UINT64_MAX, longest_ns_ = 0;
};

}  // namespace analysis
CUTRACE_END_NAMESPACE
