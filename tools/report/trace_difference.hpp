// SPDX-License-Identifier: Apache-2.0
// What became slower or faster between two programs, or two versions of one: by totals, stage, GPU operation and call.
//
//   value     of a total: the total itself; of a row by name: its mean duration in a run, total / count
//   change    mean of the values after - mean of the values before; as a share: divided by the mean before
//   p         repeated runs: permutation test over the runs' values, in the direction of the change. One run each:
//             Mann-Whitney's over the single durations, which is weaker: durations depend on each other, and two runs
//             of the same program may differ as well
//   q         p adjusted for the number of rows (Benjamini and Hochberg)
//   significant   a change of at least `least_share`, and q <= alpha. Few runs cannot reach such a q where
//             1 / (ways to split the runs) > alpha / rows. Then p <= alpha suffices where each run after lies beyond
//             each run before; `by_chance` is the number of rows expected to do so by chance
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "report/trace_profile.hpp"

CUTRACE_BEGIN_NAMESPACE
namespace analysis {

struct difference_side {
  std::size_t runs = 0;  ///< in which the row occurs
  double count = 0;      ///< count, total_ns and value_ns: means over `runs`
  double total_ns = 0;
  double value_ns = 0;
};

struct difference {
  std::string name;
  difference_side before, after;
  double change_ns = 0;     ///< of the value
  double change_share = 0;  ///< of the value before; infinite from 0 to more, 0 where the row occurs on one side only
  double total_change_ns = 0;  ///< of the total of a run, 0 in runs without the row
  confidence interval_of_share;
  double p = std::numeric_limits<double>::quiet_NaN();
  double q = std::numeric_limits<double>::quiet_NaN();
  bool significant = false;

  bool on_both_sides() const noexcept { return before.runs > 0 && after.runs > 0; }
  /// False where no test was possible: a total of one run, or fewer than eight durations on a side.
  bool was_tested() const noexcept { return !std::isnan(p); }
};

/// By how much the two halves of one run differ, although nothing was changed between them: compares mean durations of
/// the rows that have at least eight in each half.
struct half_differences {
  std::size_t rows = 0;
  double median_share = 0, largest_share = 0;  ///< without sign
  profile_group group = profile_group::stages;
  std::string name;  ///< of the row with the largest share
};
inline half_differences differences_of_halves(const trace_profile& p) {
  constexpr std::uint64_t least = 8;
  half_differences found;
  std::vector<double> shares;
  for (std::size_t g = 0; g < profile_group_count; ++g)
    for (const auto& one : p.rows[g]) {
      const profile_row& r = one.second;
      if (r.half_count[0] < least || r.half_count[1] < least || r.half_ns[0] <= 0) continue;
      const auto mean = [&r](std::size_t half) {
        return static_cast<double>(r.half_ns[half]) / static_cast<double>(r.half_count[half]);
      };
      shares.push_back(std::fabs(mean(1) / mean(0) - 1));
      if (shares.back() < found.largest_share) continue;
      found.largest_share = shares.back();
      found.group = static_cast<profile_group>(g);
      found.name = one.first;
    }
  found.rows = shares.size();
  if (shares.empty()) return found;
  std::sort(shares.begin(), shares.end());
  found.median_share = (shares[(shares.size() - 1) / 2] + shares[shares.size() / 2]) / 2;
  return found;
}

struct trace_difference {
  static constexpr double alpha = 0.05;
  static constexpr double least_share = 0.01;  ///< smallest share that counts as a change
  std::array<difference, total_figure_count> totals;
  std::array<std::vector<difference>, profile_group_count> rows;  ///< largest change of the total first
  bool repeated = false;  ///< several runs on a side; else p compares durations within two runs, and totals have no p
  bool adjusted = false;  ///< true: q decides; false: p decides, and `by_chance` rows are expected to look changed
  std::size_t tested = 0;
  double least_p = 1;  ///< smallest p that this number of runs can reach
  double by_chance = 0;
  half_differences halves;  ///< of the first run before

  const std::vector<difference>& of(profile_group g) const { return rows[static_cast<std::size_t>(g)]; }
  const difference& of(total_figure f) const { return totals[static_cast<std::size_t>(f)]; }
};

class difference_finder {
 public:
  difference_finder(const std::vector<trace_profile>& before, const std::vector<trace_profile>& after)
      : before_(before), after_(after) {
    result_.repeated = before.size() > 1 || after.size() > 1;
    result_.least_p = 1 / ways_to_part(before.size(), after.size());
    if (!before.empty()) result_.halves = differences_of_halves(before.front());
  }

  CUTRACE_NOINLINE trace_difference find() {
    for (std::size_t f = 0; f < total_figure_count; ++f) find_total(f);
    for (std::size_t g = 0; g < profile_group_count; ++g) {
      std::set<std::string> names;
      for (const auto* side : {&before_, &after_})
        for (const trace_profile& p : *side)
          for (const auto& row : p.rows[g]) names.insert(row.first);
      for (const std::string& name : names) result_.rows[g].push_back(find_row(g, name));
    }
    judge();
    for (auto& rows : result_.rows)
      std::stable_sort(rows.begin(), rows.end(), [](const difference& a, const difference& b) {
        return std::fabs(a.total_change_ns) > std::fabs(b.total_change_ns);
      });
    return std::move(result_);
  }

 private:
  void compare(difference& d, const std::vector<double>& a, const std::vector<double>& b) const {
    d.before.runs = a.size();
    d.after.runs = b.size();
    d.before.value_ns = mean_of(a);
    d.after.value_ns = mean_of(b);
    // A run without the row adds nothing to its total.
    const auto of_a_run = [](const difference_side& side, std::size_t runs) {
      return runs == 0 ? 0.0 : side.total_ns * static_cast<double>(side.runs) / static_cast<double>(runs);
    };
    d.total_change_ns = of_a_run(d.after, after_.size()) - of_a_run(d.before, before_.size());
    if (!d.on_both_sides()) return;
    d.change_ns = d.after.value_ns - d.before.value_ns;
    if (d.before.value_ns > 0)
      d.change_share = d.change_ns / d.before.value_ns;
    else if (d.change_ns > 0)
      d.change_share = std::numeric_limits<double>::infinity();
    if (!result_.repeated) return;
    d.interval_of_share = bootstrap_change(a, b);
    d.p = permutation_p(a, b);
  }
  void find_total(std::size_t f) {
    difference& d = result_.totals[f];
    d.name = name_of(static_cast<total_figure>(f));
    std::vector<double> values[2];
    for (int side = 0; side < 2; ++side)
      for (const trace_profile& p : side == 0 ? before_ : after_)
        values[side].push_back(static_cast<double>(p.totals_ns[f]));
    d.before.count = d.after.count = 1;
    d.before.total_ns = mean_of(values[0]);
    d.after.total_ns = mean_of(values[1]);
    compare(d, values[0], values[1]);
  }
  difference find_row(std::size_t g, const std::string& name) const {
    difference d;
    d.name = name;
    std::vector<double> values[2];
    const profile_row* last[2] = {};
    for (int side = 0; side < 2; ++side) {
      difference_side& s = side == 0 ? d.before : d.after;
      for (const trace_profile& p : side == 0 ? before_ : after_) {
        const auto found = p.rows[g].find(name);
        if (found == p.rows[g].end() || found->second.count == 0) continue;
        last[side] = &found->second;
        values[side].push_back(found->second.mean_ns());
        s.count += static_cast<double>(found->second.count);
        s.total_ns += static_cast<double>(found->second.total_ns);
      }
      if (values[side].empty()) continue;
      s.count /= static_cast<double>(values[side].size());
      s.total_ns /= static_cast<double>(values[side].size());
    }
    compare(d, values[0], values[1]);
    if (result_.repeated || !d.on_both_sides()) return d;
    const rank_test t = mann_whitney(last[0]->sample, last[1]->sample);
    // Where a few outliers move the mean against the shift of the ranks, the change of the mean is not significant.
    d.p = !std::isnan(t.p) && (t.greater - 0.5) * d.change_ns < 0 ? 1.0 : t.p;
    return d;
  }

  void judge() {
    std::vector<difference*> all;
    for (difference& d : result_.totals) all.push_back(&d);
    for (auto& rows : result_.rows)
      for (difference& d : rows) all.push_back(&d);
    std::vector<double> p;
    for (const difference* d : all) {
      p.push_back(d->p);
      result_.tested += !std::isnan(d->p);
    }
    const double alpha = result_.alpha, rows = static_cast<double>(std::max<std::size_t>(result_.tested, 1));
    result_.adjusted = !result_.repeated || result_.least_p <= alpha / rows;
    if (!result_.adjusted && result_.least_p <= alpha)
      result_.by_chance = 2 * result_.least_p * rows;  // both directions
    const std::vector<double> q = adjusted_for_many(p);
    for (std::size_t i = 0; i < all.size(); ++i) {
      difference& d = *all[i];
      d.q = q[i];
      const bool beyond = d.p <= alpha && d.p <= (1 + 1e-9) / ways_to_part(d.before.runs, d.after.runs);
      d.significant = (result_.adjusted ? d.q <= alpha : beyond) && std::fabs(d.change_share) >= result_.least_share;
    }
  }

  const std::vector<trace_profile>& before_;
  const std::vector<trace_profile>& after_;
  trace_difference result_;
};

/// @param before, after one profile for each run, at least one each
inline trace_difference find_difference(const std::vector<trace_profile>& before,
                                        const std::vector<trace_profile>& after) {
  return difference_finder(before, after).find();
}

/// Whether `d`, a row of `all`, became slower by more than `share`, and with repeated runs significantly so. A row that
/// took no time before and takes some now did, by any share; one that takes less than a thousandth of the wall time
/// does not count.
inline bool is_slower(const trace_difference& all, const difference& d, double share) noexcept {
  const double wall_ns = all.of(total_figure::wall).after.total_ns;
  return d.on_both_sides() && d.change_share > share && d.after.total_ns >= wall_ns / 1000 &&
         (d.significant || !all.repeated);
}

}  // namespace analysis
CUTRACE_END_NAMESPACE
