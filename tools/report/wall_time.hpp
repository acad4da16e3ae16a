// SPDX-License-Identifier: Apache-2.0
// Where the wall time went, from a trace_log after `seal`: the tables of breakdown.hpp, but exact for any length.
//
// time(owner) = length of union(owner) without the union of all owners before it in the enumeration; `nothing` is the
// rest, so that all owners together are 100 % of the time recorded. Host alone: the same computation with the owners of
// the host only. Only what lies in the time recorded counts.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cutrace/analysis/breakdown.hpp>
#include <cutrace/analysis/trace_log.hpp>
#include <memory>
#include <vector>

#include "report/mask_sweep.hpp"

CUTRACE_BEGIN_NAMESPACE
namespace analysis {

struct wall_time {
  breakdown_table everything;  ///< GPU, all devices together, before host
  breakdown_table host;        ///< host alone, whatever the GPU did
};

inline owner owner_of(work_class c) noexcept {
  return is_kernel(c)                  ? owner::gpu_kernel
         : is_copy(c)                  ? owner::gpu_transfer
         : c == work_class::unfinished ? owner::gpu_unfinished
                                       : owner::gpu_memory;
}

/// Takes all intervals of a trace in order of their start (`by_start` in stage_costs.hpp).
class wall_sweep {
 public:
  explicit wall_sweep(const trace_log& log) : log_(log), sweep_(std::make_unique<mask_sweep<owners>>(log.recorded())) {
    // Parts of stages on other threads are rare: `add` merges them from a list of their own.
    for (std::size_t i = 0; i < log.stages().parts().size(); ++i) parts_.push_back(log.stages().parts()[i].when);
    std::sort(parts_.begin(), parts_.end(), [](interval a, interval b) { return a.start_ns < b.start_ns; });
  }

  void work(const gpu_work& w) { add(owner_of(w.is), w.when); }
  void call(const host_call& c) { add(host_owner(c.is), c.when); }
  void stage(std::uint32_t number) {
    const stage_instance& s = log_.stages()[number];
    if (!s.span) add(owner::host_stage, s.when);
  }

  /// Call it once, after all intervals.
  CUTRACE_ONE_COPY wall_time result() {
    add_parts(INT64_MAX);
    sweep_->finish();
    return {table(0), table(static_cast<std::size_t>(owner::host_init))};
  }

 private:
  static constexpr std::size_t owners = static_cast<std::size_t>(owner::nothing);

  void add(owner o, interval v) {
    if (CUTRACE_UNLIKELY(next_part_ < parts_.size())) add_parts(v.start_ns);
    sweep_->add(static_cast<std::size_t>(o), v);
    ++count_[static_cast<std::size_t>(o)];
  }
  CUTRACE_ONE_COPY void add_parts(std::int64_t upto_ns) {
    for (; next_part_ < parts_.size() && parts_[next_part_].start_ns <= upto_ns; ++next_part_)
      sweep_->add(static_cast<std::size_t>(owner::host_stage), parts_[next_part_]);
  }

  breakdown_table table(std::size_t first) const {
    breakdown_table t;
    t.window = log_.window();
    t.pieces = log_.pieces();
    std::int64_t total = 0;
    t.recorded_ns = log_.recorded_ns();
    for (std::uint32_t m = 1; m < 1u << owners; ++m) {
      const std::uint32_t seen = m >> first << first;
      if (seen == 0) continue;
      t.ns[static_cast<std::size_t>(__builtin_ctz(seen))] += sweep_->exactly_ns(m);
      total += sweep_->exactly_ns(m);
    }
    t.ns[owners] = t.recorded_ns - total;
    for (std::size_t o = first; o < owners; ++o) t.count[o] = count_[o];
    return t;
  }

  const trace_log& log_;
  std::unique_ptr<mask_sweep<owners>> sweep_;
  std::array<std::uint64_t, owner_count> count_{};
  std::vector<interval> parts_;
  std::size_t next_part_ = 0;
};

}  // namespace analysis
CUTRACE_END_NAMESPACE
