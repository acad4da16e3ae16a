// SPDX-License-Identifier: Apache-2.0
// Tests of significance against their definitions, counted out the slow way.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "report/statistics.hpp"

namespace analysis_statistics_test {

namespace {

using namespace cutrace::analysis;

using values = std::vector<double>;

/// All subsets by their bits.
double naive_permutation(const values& a, const values& b) {
  values all = a;
  all.insert(all.end(), b.begin(), b.end());
  const double direction = mean_of(b) >= mean_of(a) ? 1 : -1;
  const double measured = direction * (mean_of(b) - mean_of(a));
  if (measured <= 0) return 1;
  double hits = 0, ways = 0;
  for (unsigned bits = 0; bits < 1u << all.size(); ++bits) {
    if (static_cast<std::size_t>(__builtin_popcount(bits)) != b.size()) continue;
    values first, second;
    for (std::size_t i = 0; i < all.size(); ++i) (bits >> i & 1u ? second : first).push_back(all[i]);
    ++ways;
    hits += direction * (mean_of(second) - mean_of(first)) >= measured * (1 - 1e-9);
  }
  return hits / ways;
}

double naive_greater(const values& a, const values& b) {
  double wins = 0;
  for (const double x : a)
    for (const double y : b) wins += y > x ? 1 : y < x ? 0 : 0.5;
  return wins / static_cast<double>(a.size() * b.size());
}

values normal(std::mt19937& random, std::size_t n, double mean, double deviation, bool rounded = false) {
  std::normal_distribution<double> one(mean, deviation);
  values v;
  for (std::size_t i = 0; i < n; ++i) v.push_back(rounded ? std::round(one(random)) : one(random));
  return v;
}

}  // namespace

TEST_CASE("statistics: permutations as counted one by one") {
  for (std::uint32_t seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const std::size_t na = 1 + seed % 6, nb = 1 + seed / 7 % 6;
    const values a = normal(random, na, 100, 3, seed % 3 == 0), b = normal(random, nb, 101, 3, seed % 3 == 0);
    CHECK(permutation_p(a, b) == doctest::Approx(naive_permutation(a, b)).epsilon(1e-9));
  }
  CHECK(permutation_p({1, 2, 3}, {4, 5, 6}) == doctest::Approx(1.0 / 20));
  CHECK(permutation_p({4, 5, 6}, {1, 2, 3}) == doctest::Approx(1.0 / 20));
  CHECK(permutation_p({7, 7}, {7, 7}) == 1);
  CHECK(permutation_p({}, {7}) == 1);
  CHECK(ways_to_part(3, 3) == 20);
  CHECK(ways_to_part(8, 8) == 12870);
  CHECK(std::isinf(ways_to_part(100, 100)));  // too many to be counted through
}

TEST_CASE("statistics: of many runs, ways to part them are drawn at random") {
  std::mt19937 random(5);
  CHECK(permutation_p(normal(random, 40, 100, 2), normal(random, 40, 103, 2)) < 0.001);
  std::size_t low = 0;  // without a difference p is uniform from 0 to 0.5: it is one-sided, in the direction measured
  for (int i = 0; i < 200; ++i) low += permutation_p(normal(random, 10, 100, 2), normal(random, 10, 100, 2)) < 0.05;
  CHECK(low >= 8);  // a tenth of 200 is to be expected
  CHECK(low <= 36);
}

TEST_CASE("statistics: ranks as counted pair by pair, and p as permutations of ranks have it") {
  for (std::uint32_t seed = 1; seed <= 40; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const values a = normal(random, 1 + seed % 30, 10, 3, seed % 2 == 0),
                 b = normal(random, 1 + seed % 17, 11, 3, true);
    const rank_test t = mann_whitney(a, b);
    CHECK(t.greater == doctest::Approx(naive_greater(a, b)));
    CHECK(std::isnan(t.p) == (a.size() < 8 || b.size() < 8));
  }
  // p by definition: how often a random split of the same values has a `greater` at least as far from one half.
  for (std::uint32_t seed = 1; seed <= 6; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    values a = normal(random, 20, 10, 3, true), b = normal(random, 25, 11.5, 3, true);
    const rank_test t = mann_whitney(a, b);
    values all = a;
    all.insert(all.end(), b.begin(), b.end());
    int hits = 0;
    constexpr int tries = 4000;
    for (int i = 0; i < tries; ++i) {
      std::shuffle(all.begin(), all.end(), random);
      const values first(all.begin(), all.begin() + 20), second(all.begin() + 20, all.end());
      hits += std::fabs(naive_greater(first, second) - 0.5) >= std::fabs(t.greater - 0.5) - 1e-12;
    }
    CHECK(t.p == doctest::Approx(static_cast<double>(hits) / tries).epsilon(0.1).scale(0.2));
  }
  CHECK(mann_whitney(values(50, 3.0), values(50, 3.0)).p == 1);
}

TEST_CASE("statistics: the interval holds the change that was planted, most of the time") {
  std::mt19937 random(11);
  int holds = 0, zero = 0;
  for (int i = 0; i < 200; ++i) {
    const confidence c = bootstrap_change(normal(random, 20, 100, 5), normal(random, 20, 120, 5));
    REQUIRE(c.low <= c.high);
    holds += c.low <= 0.2 && c.high >= 0.2;
    zero += c.low <= 0;
  }
  CHECK(holds >= 170);
  CHECK(holds < 200);
  CHECK(zero == 0);
  CHECK(std::isnan(bootstrap_change({1}, {1, 2}).low));
}

TEST_CASE("statistics: Benjamini and Hochberg") {
  // The example of their paper of 1995: of 15 p-values four are significant at a false discovery rate of 0.05.
  const values p = {0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344,
                    0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0000};
  const values q = adjusted_for_many(p);
  CHECK(std::count_if(q.begin(), q.end(), [](double x) { return x <= 0.05; }) == 4);
  CHECK(q[0] == doctest::Approx(0.0015));
  CHECK(q[14] == doctest::Approx(1));
  const values with_none = adjusted_for_many({0.01, std::nan(""), 0.04});
  CHECK(with_none[0] == doctest::Approx(0.02));
  CHECK(std::isnan(with_none[1]));
}

}  // namespace analysis_statistics_test
