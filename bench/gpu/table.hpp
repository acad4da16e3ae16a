// SPDX-License-Identifier: Apache-2.0
// The table that a GPU benchmark ends with: a row a configuration, a column a metric, and beside each figure what the
// configuration adds to the untraced one of the same rounds, or its share of that one's speed.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "../support/pairs.hpp"
#include "rounds.hpp"

namespace bench {

enum class beside { added, share };

struct column {
  const char* metric;
  const char* heading;
  int decimals;
};

namespace detail {

inline std::string cell(const rounds& r, const std::string& name, const column& c, beside what) {
  const paired self = r.pairs(c.metric, name.c_str(), name.c_str());
  if (self.ours.empty()) return "-";
  char text[96];
  int n = std::snprintf(text, sizeof(text), "%.*f", c.decimals, median(self.ours));
  const paired p = r.pairs(c.metric, name.c_str(), "none");
  const std::size_t used = static_cast<std::size_t>(n), left = sizeof(text) - used;
  if (name == "none" || p.ours.empty()) return text;
  if (what == beside::added) {
    const ratio d = bootstrap_difference(p.ours, p.reference);
    std::snprintf(text + used, left, " %+.*f [%.*f, %.*f]", c.decimals, d.value, c.decimals, d.low, c.decimals, d.high);
  } else {
    const ratio s = bootstrap(p.ours, p.reference);
    std::snprintf(text + used, left, " x%.3f [%.3f, %.3f]", s.value, s.low, s.high);
  }
  return text;
}

}  // namespace detail

/// `names`: the rows, all contenders where there are none.
inline void print_table(const rounds& r, const std::vector<column>& columns, beside what,
                        const std::vector<std::string>& names = {}) {
  std::printf("%-15s", "");
  for (const column& c : columns) std::printf("  %-28s", c.heading);
  std::printf("\n");
  for (const std::string& name : names.empty() ? r.names() : names) {
    std::printf("%-15s", name.c_str());
    for (const column& c : columns) std::printf("  %-28s", detail::cell(r, name, c, what).c_str());
    if (const int n = r.failures(name.c_str())) std::printf("  FAILED in %d of %d", n, r.done());
    std::printf("\n");
  }
}

/// A comparison that matters. Nothing is printed where one of the two was not asked for or not measured: the table has
/// said so.
struct comparison {
  const char* what;
  const char* metric;
  const char* unit;
  const char *ours, *reference;
  double budget;  ///< 0: none
  bound direction = bound::at_most;
};

inline void print_comparisons(const rounds& r, const std::vector<comparison>& all) {
  for (const comparison& c : all) {
    const paired p = r.pairs(c.metric, c.ours, c.reference);
    if (p.ours.empty()) continue;
    if (c.budget != 0) {
      print_verdict(c.what, p.ours, p.reference, c.unit, c.budget, c.direction);
    } else {
      print_ratio(c.what, p.ours, p.reference, c.unit);
      std::printf("\n");
    }
  }
}

}  // namespace bench
