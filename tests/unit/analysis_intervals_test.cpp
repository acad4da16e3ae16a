// SPDX-License-Identifier: Apache-2.0
// Unions, intersections and gaps against a model that cannot be wrong: one bit for each nanosecond.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cutrace/analysis/interval_set.hpp>
#include <cutrace/analysis/intervals.hpp>
#include <cutrace/analysis/time_bins.hpp>
#include <random>
#include <vector>

#include "report/mask_sweep.hpp"

namespace analysis_intervals_test {

namespace {

using cutrace::analysis::interval;
using cutrace::analysis::interval_set;
using cutrace::analysis::time_bins;

constexpr std::int64_t low = -200, high = 1800;

/// Time as bits; everything is counted.
class bitmap {
 public:
  void set(interval v) {
    for (std::int64_t t = v.start_ns; t < v.end_ns; ++t) bits_[at(t)] = true;
  }
  bool get(std::int64_t t) const { return bits_[at(t)]; }
  std::int64_t length(interval v = {low, high}) const {
    std::int64_t n = 0;
    for (std::int64_t t = v.start_ns; t < v.end_ns; ++t) n += get(t);
    return n;
  }
  std::vector<interval> runs(bool of, interval v = {low, high}) const {
    std::vector<interval> list;
    for (std::int64_t t = v.start_ns; t < v.end_ns; ++t) {
      if (get(t) != of) continue;
      if (!list.empty() && list.back().end_ns == t)
        ++list.back().end_ns;
      else
        list.push_back({t, t + 1});
    }
    return list;
  }

 private:
  static std::size_t at(std::int64_t t) { return static_cast<std::size_t>(t - low); }
  std::vector<bool> bits_ = std::vector<bool>(static_cast<std::size_t>(high - low));
};

/// Some empty, some reversed, some long: what a hostile trace may hold.
std::vector<interval> random_intervals(std::mt19937& random, bool by_end) {
  std::vector<interval> list(std::uniform_int_distribution<std::size_t>(0, 120)(random));
  std::uniform_int_distribution<std::int64_t> start(low, high - 1), brief(-2, 12), any(0, 900);
  for (interval& v : list) {
    v.start_ns = start(random);
    v.end_ns = std::min(high, v.start_ns + (random() % 8 == 0 ? any(random) : brief(random)));
  }
  if (by_end) std::stable_sort(list.begin(), list.end(), [](interval a, interval b) { return a.end_ns < b.end_ns; });
  return list;
}

}  // namespace

TEST_CASE("union, intersection, gaps and clipping equal the bitmap's") {
  const unsigned first_seed = std::random_device{}();
  for (unsigned round = 0; round < 300; ++round) {
    const unsigned seed = first_seed + round;
    CAPTURE(seed);
    std::mt19937 random(seed);
    const std::vector<interval> a = random_intervals(random, false), b = random_intervals(random, false);
    bitmap bits_a, bits_b, both;
    for (const interval v : a) bits_a.set(v);
    for (const interval v : b) bits_b.set(v);
    for (const interval v : bits_a.runs(true))
      for (std::int64_t t = v.start_ns; t < v.end_ns; ++t)
        if (bits_b.get(t)) both.set({t, t + 1});
    const std::vector<interval> merged_a = cutrace::analysis::merged(a), merged_b = cutrace::analysis::merged(b);
    REQUIRE(merged_a == bits_a.runs(true));
    REQUIRE(cutrace::analysis::union_length_ns(a) == bits_a.length());
    REQUIRE(cutrace::analysis::intersection_length_ns(merged_a, merged_b) == both.length());
    const interval window{0, 1000};
    REQUIRE(cutrace::analysis::gaps(merged_a, window) == bits_a.runs(false, window));
  }
}

TEST_CASE("the incremental union is exact in any order and names each new piece once") {
  const unsigned first_seed = std::random_device{}();
  for (unsigned round = 0; round < 300; ++round) {
    const unsigned seed = first_seed + round;
    CAPTURE(seed);
    std::mt19937 random(seed);
    interval_set set;
    bitmap bits;
    for (const interval v : random_intervals(random, round % 2 == 0)) {
      std::int64_t reported = 0;
      const std::int64_t before = set.length_ns();
      set.insert(v, [&](interval where, std::int64_t ns) {
        REQUIRE(where.length_ns() == ns);
        REQUIRE(ns > 0);
        REQUIRE(bits.length(where) == 0);
        reported += ns;
      });
      bits.set(v);
      REQUIRE(set.length_ns() == bits.length());
      REQUIRE(set.length_ns() - before == reported);
    }
    REQUIRE(set.kept() == bits.runs(true));
    REQUIRE(set.count() == bits.runs(true).size());
    REQUIRE_FALSE(set.approximate());
    REQUIRE(set.measure_ns({100, 700}) == bits.length({100, 700}));
  }
}

/// Folded: the oldest intervals, of which a full set keeps only a histogram (interval_set.hpp).
TEST_CASE("a bounded union is exact while nothing reaches into what it folded") {
  interval_set set(8, 16);
  for (std::int64_t i = 0; i < 1000; ++i) set.insert({10 * i, 10 * i + 4});
  CHECK(set.folded());
  CHECK(set.kept().size() <= 8);
  CHECK(set.length_ns() == 4000);
  CHECK(set.count() == 1000);
  CHECK_FALSE(set.approximate());
  CHECK(set.span() == interval{0, 9994});
}

TEST_CASE("an interval over the whole folded past is counted exactly") {
  interval_set set(8, 16);
  for (std::int64_t i = 0; i < 1000; ++i) set.insert({10 * i, 10 * i + 4});
  set.insert({-5000, 20000});
  CHECK(set.length_ns() == 25000);
  CHECK_FALSE(set.approximate());
}

TEST_CASE("a bounded union is off by no more than it says") {
  const unsigned first_seed = std::random_device{}();
  unsigned approximate = 0;
  for (unsigned round = 0; round < 300; ++round) {
    const unsigned seed = first_seed + round;
    CAPTURE(seed);
    std::mt19937 random(seed);
    interval_set set(4, 64);
    bitmap bits;
    for (const interval v : random_intervals(random, round % 3 != 0)) {
      set.insert(v);
      bits.set(v);
      REQUIRE(set.kept().size() <= 5);
      REQUIRE(std::abs(set.length_ns() - bits.length()) <= set.uncertain_ns());
    }
    approximate += set.approximate();
  }
  CHECK(approximate > 0);  // else the bound was never put to the test
}

TEST_CASE("filling small gaps keeps the large ones and says what it filled") {
  std::vector<interval> list{{0, 10}, {11, 20}, {50, 60}, {63, 70}, {200, 210}};
  CHECK(cutrace::analysis::fill_small_gaps(list, 3) == 4);
  CHECK(list == std::vector<interval>{{0, 20}, {50, 70}, {200, 210}});
  CHECK(cutrace::analysis::fill_small_gaps(list, 3) == 0);
}

TEST_CASE("bins keep every nanosecond while they double their width") {
  const unsigned seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  time_bins bins(16);
  std::int64_t sum = 0;
  for (int i = 0; i < 500; ++i) {
    const std::int64_t start = std::uniform_int_distribution<std::int64_t>(-1000000, 5000000)(random) * (i + 1);
    const std::int64_t length = std::uniform_int_distribution<std::int64_t>(0, 100000)(random);
    bins.add({start, start + length});
    sum += length;
  }
  CHECK(bins.measure_ns({INT64_MIN / 4, INT64_MAX / 4}) == sum);
  CHECK(bins.width_ns() > 1);
}

TEST_CASE("bins measure parts of a bin in proportion") {
  time_bins bins(4);
  bins.add({0, 8});
  bins.add({20, 24});
  REQUIRE(bins.width_ns() == 8);
  CHECK(bins.measure_ns({0, 4}) == 4);
  CHECK(bins.measure_ns({16, 24}) == 4);
  CHECK(bins.measure_ns({16, 20}) == 2);  // where in the bin the 4 ns lie is not known any more
}

TEST_CASE("times at the ends of the range do not overflow") {
  cutrace::event e;
  e.kind = cutrace::event_kind::kernel;
  e.start_ns = INT64_MIN;
  e.end_ns = INT64_MAX;
  interval_set set(4);
  set.insert(cutrace::analysis::interval_of(e));
  CHECK(set.length_ns() == std::int64_t{1} << 61);
}

TEST_CASE("a sweep counts each moment once, also where an interval comes out of order") {
  const std::vector<interval> counted{{0, 100}};
  cutrace::analysis::mask_sweep<3> sweep(counted);
  sweep.add(0, {10, 50});
  sweep.add(1, {20, 30});
  sweep.add(1, {40, 60});
  sweep.add(2, {5, 15});   // all of it is past
  sweep.add(1, {15, 65});  // the end of it is not
  sweep.finish();
  CHECK(sweep.exactly_ns(0) == 10 + 35);
  CHECK(sweep.exactly_ns(1) == 10 + 10);
  CHECK(sweep.exactly_ns(2) == 15);
  CHECK(sweep.exactly_ns(3) == 10 + 10);
  CHECK(sweep.any_ns(3) == 55);
  CHECK(sweep.any_ns(4) == 0);
}

}  // namespace analysis_intervals_test
