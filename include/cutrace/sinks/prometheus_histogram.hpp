// SPDX-License-Identifier: Apache-2.0
// A histogram of durations as Prometheus counts them. All of them share one row of bounds, 1-2-5 from 1 us to 50 s:
// launch delays are microseconds, times to the first token seconds, and histograms with equal bounds can be added up.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cutrace/config.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace prometheus {

struct bound {
  std::int64_t ns;  ///< a duration of exactly this length is still inside, as `le` says
  const char* seconds;
};
inline constexpr bound bounds[] = {
    {1000, "0.000001"}, {2000, "0.000002"},  {5000, "0.000005"},  {10000, "0.00001"},  {20000, "0.00002"},
    {50000, "0.00005"}, {100000, "0.0001"},  {200000, "0.0002"},  {500000, "0.0005"},  {1000000, "0.001"},
    {2000000, "0.002"}, {5000000, "0.005"},  {10000000, "0.01"},  {20000000, "0.02"},  {50000000, "0.05"},
    {100000000, "0.1"}, {200000000, "0.2"},  {500000000, "0.5"},  {1000000000, "1"},   {2000000000, "2"},
    {5000000000, "5"},  {10000000000, "10"}, {20000000000, "20"}, {50000000000, "50"},
};
inline constexpr std::size_t bound_count = sizeof(bounds) / sizeof(bounds[0]);

/// a + b, or the largest number: a counter that wrapped would look like a restart of the program.
inline std::uint64_t saturated_sum(std::uint64_t a, std::uint64_t b) noexcept {
  std::uint64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

struct histogram {
  std::uint64_t counts[bound_count + 1] = {};  ///< not cumulative; the last one is beyond all bounds
  std::uint64_t sum_ns = 0;

  void observe(std::int64_t ns) noexcept {
    ns = std::max<std::int64_t>(ns, 0);
    const bound* at =
        std::lower_bound(bounds, bounds + bound_count, ns, [](const bound& b, std::int64_t v) { return b.ns < v; });
    ++counts[at - bounds];
    sum_ns = saturated_sum(sum_ns, static_cast<std::uint64_t>(ns));
  }
  bool empty() const noexcept {
    return std::all_of(counts, counts + bound_count + 1, [](std::uint64_t n) { return n == 0; });
  }
};

}  // namespace prometheus
CUTRACE_END_NAMESPACE
