// SPDX-License-Identifier: Apache-2.0
// Percentiles of the histogram against those of the sorted durations.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cutrace/analysis/duration_histogram.hpp>
#include <random>
#include <vector>

namespace analysis_duration_histogram_test {

namespace {

void check_against_sorted(std::vector<std::uint64_t> list) {
  cutrace::analysis::duration_histogram h;
  for (const std::uint64_t ns : list) h.add(ns);
  std::sort(list.begin(), list.end());
  CHECK(h.count() == list.size());
  for (unsigned percent = 1; percent <= 100; ++percent) {
    const std::size_t rank = (list.size() * percent + 99) / 100;
    const double exact = static_cast<double>(list[rank - 1]), reported = static_cast<double>(h.percentile_ns(percent));
    CAPTURE(percent);
    CHECK(reported <= exact * (1 + 1.0 / 32));
    CHECK(reported >= exact * (1 - 1.0 / 32));
    CHECK(h.percentile_ns(percent) >= list.front());
    CHECK(h.percentile_ns(percent) <= list.back());
  }
}

}  // namespace

TEST_CASE("duration histogram: nothing, and one") {
  cutrace::analysis::duration_histogram h;
  CHECK(h.percentile_ns(50) == 0);
  h.add(0);
  CHECK(h.percentile_ns(1) == 0);
  CHECK(h.percentile_ns(100) == 0);
  check_against_sorted({UINT64_MAX});
  check_against_sorted({1000000});  // not the middle of its bucket
  check_against_sorted({15, 16, 17, 31, 32, 33});
}

TEST_CASE("duration histogram: any percentile is within 1/32") {
  const unsigned seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (const unsigned bits : {3u, 8u, 20u, 40u, 64u}) {
    std::vector<std::uint64_t> list;
    for (int i = 0; i < 3000; ++i) list.push_back(random() >> (64 - bits) >> random() % bits);
    check_against_sorted(list);
  }
}

}  // namespace analysis_duration_histogram_test
