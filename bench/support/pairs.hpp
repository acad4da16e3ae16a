// SPDX-License-Identifier: Apache-2.0
// Comparing two costs on a noisy machine: both measured in one run, alternating, and the ratio or difference of each
// pair judged by a bootstrap interval of its median.
#pragma once

#include <algorithm>
#include <cstdio>
#include <random>
#include <vector>

namespace bench {

inline double percentile(std::vector<double> v, double p) {
  if (v.empty()) return 0;
  std::sort(v.begin(), v.end());
  const double at = p * static_cast<double>(v.size() - 1);
  const std::size_t low = static_cast<std::size_t>(at);
  const std::size_t high = std::min(low + 1, v.size() - 1);
  return v[low] + (v[high] - v[low]) * (at - static_cast<double>(low));
}
inline double median(const std::vector<double>& v) { return percentile(v, 0.5); }

struct ratio {
  double value, low, high;  ///< median of the pairs, and its 95 % interval
};

/// Percentile bootstrap of the median, 10,000 resamples with a fixed seed (Efron and Tibshirani, An Introduction to the
/// Bootstrap). `pairs` holds one ratio or difference a pair; not empty.
inline ratio bootstrap_median(const std::vector<double>& pairs) {
  std::mt19937 random(42);
  std::uniform_int_distribution<std::size_t> pick(0, pairs.size() - 1);
  std::vector<double> medians(10000), sample(pairs.size());
  for (double& m : medians) {
    for (double& s : sample) s = pairs[pick(random)];
    std::nth_element(sample.begin(), sample.begin() + static_cast<std::ptrdiff_t>(sample.size() / 2), sample.end());
    m = sample[sample.size() / 2];
  }
  return {median(pairs), percentile(medians, 0.025), percentile(medians, 0.975)};
}

/// Of the pairs' ratios.
inline ratio bootstrap(const std::vector<double>& ours, const std::vector<double>& reference) {
  std::vector<double> pairs;
  for (std::size_t i = 0; i < ours.size(); ++i) pairs.push_back(ours[i] / reference[i]);
  return bootstrap_median(pairs);
}

/// Of the pairs' differences, in the unit of both.
inline ratio bootstrap_difference(const std::vector<double>& ours, const std::vector<double>& reference) {
  std::vector<double> pairs;
  for (std::size_t i = 0; i < ours.size(); ++i) pairs.push_back(ours[i] - reference[i]);
  return bootstrap_median(pairs);
}

enum class bound { at_most, at_least };  ///< costs have an upper budget, speeds a lower one

/// "pass" when the whole interval is within the budget, "fail" when all of it is beyond, else "unresolved".
inline const char* verdict(const ratio& r, double budget, bound b = bound::at_most) {
  if (b == bound::at_most) return r.high <= budget ? "pass" : r.low > budget ? "fail" : "unresolved";
  return r.low >= budget ? "pass" : r.high < budget ? "fail" : "unresolved";
}

/// Prints the start of a line, without its end. A comparison without a budget has nothing more to print.
inline void print_ratio(const char* what, const std::vector<double>& ours, const std::vector<double>& reference,
                        const char* unit) {
  const ratio r = bootstrap(ours, reference);
  std::printf("%-54s %9.2f %s  reference %9.2f %s  ratio %.3f [%.3f, %.3f] of %zu pairs", what, median(ours), unit,
              median(reference), unit, r.value, r.low, r.high, ours.size());
}

inline void print_verdict(const char* what, const std::vector<double>& ours, const std::vector<double>& reference,
                          const char* unit, double budget, bound b = bound::at_most) {
  print_ratio(what, ours, reference, unit);
  std::printf("  budget %s%.2f  %s%s\n", b == bound::at_least ? ">= " : "", budget,
              verdict(bootstrap(ours, reference), budget, b), ours.size() < 10 ? ", of fewer than ten pairs" : "");
}

/// Keeps the compiler from dropping a value.
template <class T>
inline void keep(const T& value) {
  __asm__ __volatile__("" : : "r,m"(value) : "memory");
}

/// What the machine is, for whoever reads the figures later.
inline void print_machine() {
  char model[256] = "unknown";
  if (std::FILE* f = std::fopen("/proc/cpuinfo", "re")) {
    char line[256];
    while (std::fgets(line, sizeof(line), f) != nullptr)
      if (std::sscanf(line, "model name : %255[^\n]", model) == 1) break;
    std::fclose(f);
  }
#if defined(__clang__)
  std::printf("%s, clang %d.%d\n", model, __clang_major__, __clang_minor__);
#else
  std::printf("%s, g++ %d.%d\n", model, __GNUC__, __GNUC_MINOR__);
#endif
}

}  // namespace bench
