// SPDX-License-Identifier: Apache-2.0
// Is a difference more than chance? Tests that assume no distribution of the values, each from its textbook
// definition, and the same answer for the same values in each run: random numbers start from a constant.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cutrace/config.hpp>
#include <limits>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace analysis {

/// SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, OOPSLA 2014).
class small_random {
 public:
  explicit small_random(std::uint64_t seed) noexcept : state_(seed) {}
  std::uint64_t next() noexcept {
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  /// Below `n`; the bias of the remainder is below n / 2^64.
  std::size_t below(std::size_t n) noexcept { return static_cast<std::size_t>(next() % n); }

 private:
  std::uint64_t state_;
};

/// Arithmetic mean; 0 for an empty list.
inline double mean_of(const std::vector<double>& v) noexcept {
  double sum = 0;
  for (const double x : v) sum += x;
  return v.empty() ? 0.0 : sum / static_cast<double>(v.size());
}

/// Number of ways to split a + b runs into groups of sizes a and b; infinite above 1e15.
inline double ways_to_part(std::size_t a, std::size_t b) noexcept {
  double ways = 1;
  for (std::size_t i = 1; i <= std::min(a, b) && ways < 1e15; ++i)
    ways *= static_cast<double>(a + b - i + 1) / static_cast<double>(i);
  return ways < 1e15 ? std::round(ways) : std::numeric_limits<double>::infinity();
}

namespace detail_permutation {

/// Counts the choices of `left` values from `at` on that bring `sum` to `limit` or beyond.
inline void count(const std::vector<double>& v, std::size_t at, std::size_t left, double sum, double limit,
                  std::uint64_t& hits, std::uint64_t& all) {
  if (left == 0) {
    ++all;
    hits += sum >= limit;
    return;
  }
  for (std::size_t i = at; i + left <= v.size(); ++i) count(v, i + 1, left - 1, sum + v[i], limit, hits, all);
}

}  // namespace detail_permutation

/// Permutation test of two means: of all ways to split the values into groups of these sizes, the share in which the
/// means differ by at least the measured difference, in the measured direction (one-sided). Exact up to 20,000 ways,
/// else estimated from 10,000 random ones. 1 where a group is empty or the means are the same.
CUTRACE_NOINLINE inline double permutation_p(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.empty() || b.empty()) return 1;
  const double change = mean_of(b) - mean_of(a);
  if (!(change < 0) && !(change > 0)) return 1;
  std::vector<double> all = a;
  all.insert(all.end(), b.begin(), b.end());
  double scale = 0, observed = 0;
  for (double& x : all) {
    if (change < 0) x = -x;
    scale += std::fabs(x);
  }
  for (std::size_t i = a.size(); i < all.size(); ++i) observed += all[i];
  const double limit = observed - 1e-12 * scale;  // 1e-12: rounding depends on the order of summation
  std::uint64_t hits = 0, tried = 0;
  if (ways_to_part(a.size(), b.size()) <= 20000) {
    detail_permutation::count(all, 0, b.size(), 0, limit, hits, tried);
    return static_cast<double>(hits) / static_cast<double>(tried);
  }
  small_random random(all.size());
  hits = tried = 1;  // the measured split
  for (; tried < 10001; ++tried) {
    double sum = 0;
    for (std::size_t i = 0; i < b.size(); ++i) {
      std::swap(all[i], all[i + random.below(all.size() - i)]);
      sum += all[i];
    }
    hits += sum >= limit;
  }
  return static_cast<double>(hits) / static_cast<double>(tried);
}

struct confidence {
  double low = std::numeric_limits<double>::quiet_NaN(), high = std::numeric_limits<double>::quiet_NaN();
};

/// 95 % interval of mean(b) / mean(a) - 1 by the percentile bootstrap (Efron and Tibshirani 1993, chapter 13), 2,000
/// resamples. Of few values it is too narrow. Not a number where a group has fewer than two.
CUTRACE_NOINLINE inline confidence bootstrap_change(const std::vector<double>& a, const std::vector<double>& b) {
  confidence c;
  if (a.size() < 2 || b.size() < 2) return c;
  small_random random(a.size() << 32 | b.size());
  const auto resampled = [&](const std::vector<double>& v) {
    double sum = 0;
    for (std::size_t i = 0; i < v.size(); ++i) sum += v[random.below(v.size())];
    return sum / static_cast<double>(v.size());
  };
  std::vector<double> changes;
  for (int i = 0; i < 2000; ++i) {
    const double before = resampled(a), after = resampled(b);
    if (before > 0) changes.push_back(after / before - 1);
  }
  if (changes.empty()) return c;
  std::sort(changes.begin(), changes.end());
  c.low = changes[changes.size() * 25 / 1000];
  c.high = changes[std::min(changes.size() - 1, changes.size() * 975 / 1000)];
  return c;
}

struct rank_test {
  double greater = 0.5;  ///< probability that a value of `b` exceeds one of `a`, ties by half
  double p = std::numeric_limits<double>::quiet_NaN();  ///< two-sided
};

/// Mann-Whitney's U by its normal approximation, corrected for ties and continuity (Conover 1999, section 5.1). No p
/// with fewer than 8 values in a group, for which the approximation is too coarse.
CUTRACE_NOINLINE inline rank_test mann_whitney(const std::vector<double>& a, const std::vector<double>& b) {
  rank_test r;
  if (a.empty() || b.empty()) return r;
  struct value {
    double x;
    bool second;
  };
  std::vector<value> all;
  for (const double x : a) all.push_back({x, false});
  for (const double x : b) all.push_back({x, true});
  std::sort(all.begin(), all.end(), [](const value& x, const value& y) { return x.x < y.x; });
  const double na = static_cast<double>(a.size()), nb = static_cast<double>(b.size()), n = na + nb;
  double ranks = 0, ties = 0;
  for (std::size_t i = 0; i < all.size();) {
    std::size_t end = i, seconds = 0;
    for (; end < all.size() && all[end].x <= all[i].x; ++end) seconds += all[end].second;
    const double t = static_cast<double>(end - i);
    ranks += static_cast<double>(seconds) * (static_cast<double>(i + end + 1) / 2);
    ties += t * t * t - t;
    i = end;
  }
  const double u = ranks - nb * (nb + 1) / 2;
  r.greater = u / (na * nb);
  if (a.size() < 8 || b.size() < 8) return r;
  const double variance = na * nb / 12 * (n + 1 - ties / (n * (n - 1)));
  const double distance = std::max(0.0, std::fabs(u - na * nb / 2) - 0.5);
  r.p = variance <= 0 ? 1.0 : std::erfc(distance / std::sqrt(variance) / std::sqrt(2.0));
  return r;
}

/// Benjamini and Hochberg's adjustment (1995): of the rows whose adjusted value is at most q, at most a share of q is
/// expected to be there by chance. NaN stays NaN and does not count as a test.
CUTRACE_NOINLINE inline std::vector<double> adjusted_for_many(const std::vector<double>& p) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < p.size(); ++i)
    if (!std::isnan(p[i])) order.push_back(i);
  std::sort(order.begin(), order.end(), [&](std::size_t x, std::size_t y) { return p[x] < p[y]; });
  std::vector<double> q = p;
  double least = 1;
  for (std::size_t i = order.size(); i-- > 0;) {
    least = std::min(least, p[order[i]] * static_cast<double>(order.size()) / static_cast<double>(i + 1));
    q[order[i]] = least;
  }
  return q;
}

}  // namespace analysis
CUTRACE_END_NAMESPACE
