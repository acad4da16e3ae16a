// SPDX-License-Identifier: Apache-2.0
// The clock of each GPU's multiprocessors over time, from the samples of CUTRACE_KINDS=+environment. A sample holds
// until the next one; the first one also holds for all time before it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cutrace/analysis/intervals.hpp>
#include <cutrace/analysis/names.hpp>
#include <map>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace analysis {

class clock_log {
 public:
  void add(const event& e) {
    if (e.kind != event_kind::counter || e.counter.value <= 0) return;
    const gpu_counter counter = gpu_counter::named(e.name);
    if (counter.of != " SM clock MHz") return;
    of_[counter.device].push_back({time_of(e.start_ns), static_cast<double>(e.counter.value)});
    sorted_ = false;
  }
  bool empty() const noexcept { return of_.empty(); }

  /// Mean in MHz over `v`, 0 where the device has no sample.
  double mean_mhz(std::uint32_t device, interval v) {
    sort();
    const auto found = of_.find(device);
    if (found == of_.end() || v.empty()) return 0;
    const std::vector<sample>& all = found->second;
    std::size_t at =
        static_cast<std::size_t>(std::upper_bound(all.begin(), all.end(), v.start_ns,
                                                  [](std::int64_t t_ns, const sample& s) { return t_ns < s.at_ns; }) -
                                 all.begin());
    at = at == 0 ? 0 : at - 1;
    double sum = 0;
    for (std::int64_t from = v.start_ns; from < v.end_ns; ++at) {
      const std::int64_t until = at + 1 < all.size() ? std::min(v.end_ns, all[at + 1].at_ns) : v.end_ns;
      sum += all[at].mhz * static_cast<double>(until - from);
      from = until;
    }
    return sum / static_cast<double>(v.length_ns());
  }

 private:
  struct sample {
    std::int64_t at_ns;
    double mhz;
  };
  void sort() {
    if (sorted_) return;
    for (auto& d : of_)
      std::stable_sort(d.second.begin(), d.second.end(),
                       [](const sample& a, const sample& b) { return a.at_ns < b.at_ns; });
    sorted_ = true;
  }
  std::map<std::uint32_t, std::vector<sample>> of_;  ///< by device
  bool sorted_ = true;
};

}  // namespace analysis
CUTRACE_END_NAMESPACE
