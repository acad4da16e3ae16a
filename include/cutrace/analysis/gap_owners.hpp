// SPDX-License-Identifier: Apache-2.0
// The longest stretches in which a GPU had nothing to do, and what the host did meanwhile: in each, the owner of most
// of its time by the same order as in the breakdown of the whole trace. For whoever keeps names and times and no more;
// idle_gaps.hpp tells why from the launching calls.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cutrace/analysis/breakdown.hpp>
#include <cutrace/analysis/category.hpp>
#include <cutrace/analysis/intervals.hpp>
#include <map>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace analysis {

struct owned_gap {
  std::uint32_t device = 0;
  interval when;
  owner cause = owner::nothing;
  std::uint32_t cause_name = 0;  ///< of the call or stage that had the largest part of it, 0: none
  std::uint32_t next_name = 0;   ///< of the work that ended it, 0: the trace ended
};

/// Numbers of names are the caller's own; 0 is none. First all devices, then what the host did, then `result`.
class gap_owners {
 public:
  struct work {
    interval when;
    std::uint32_t name;
  };

  /// @param recorded where the trace was paused or sampled, what was recorded; else the whole window
  /// @param limit gaps of each device that are kept, the longest ones
  gap_owners(std::vector<interval> recorded, std::size_t limit) : recorded_(std::move(recorded)), limit_(limit) {}

  /// All work of one device, in any order; it is sorted. Takes 48 bytes for each piece meanwhile. Devices in order.
  CUTRACE_NOINLINE void add_device(std::uint32_t device, std::vector<work>& all) {
    std::sort(all.begin(), all.end(), [](const work& a, const work& b) { return a.when.start_ns < b.when.start_ns; });
    std::vector<interval> busy;
    busy.reserve(all.size());
    for (const work& w : all) busy.push_back(w.when);
    busy = merged(std::move(busy));
    std::vector<interval> free;
    for (const interval& window : recorded_) {
      const std::vector<interval> more = gaps(busy, window);
      free.insert(free.end(), more.begin(), more.end());
    }
    count_ += free.size();
    if (free.size() > limit_) {
      std::nth_element(free.begin(), free.begin() + static_cast<std::ptrdiff_t>(limit_), free.end(),
                       [](const interval& a, const interval& b) { return a.length_ns() > b.length_ns(); });
      free.resize(limit_);
    }
    std::sort(free.begin(), free.end(), [](const interval& a, const interval& b) { return a.start_ns < b.start_ns; });
    first_of_device_.push_back(found_.size());
    for (const interval& v : free) {
      owned_gap g;
      g.device = device;
      g.when = v;
      const auto next = std::lower_bound(all.begin(), all.end(), v.end_ns,
                                         [](const work& w, std::int64_t at) { return w.when.start_ns < at; });
      if (next != all.end() && next->when.start_ns == v.end_ns) g.next_name = next->name;
      found_.emplace_back(g);
    }
  }

  /// Something that the host did: a call of category `c`, or a stage (whose category is `other`).
  void add_host(interval v, std::uint32_t name, bool is_stage, category c) {
    event e;
    e.kind = is_stage ? event_kind::stage : event_kind::api;
    const std::uint8_t by = static_cast<std::uint8_t>(is_stage ? owner::host_stage : host_owner(c));
    for (std::size_t d = 0; d < first_of_device_.size(); ++d) {
      const std::size_t end = d + 1 < first_of_device_.size() ? first_of_device_[d + 1] : found_.size();
      const auto last = found_.begin() + static_cast<std::ptrdiff_t>(end);
      auto at = std::lower_bound(found_.begin() + static_cast<std::ptrdiff_t>(first_of_device_[d]), last, v.start_ns,
                                 [](const found& f, std::int64_t t) { return f.gap.when.end_ns <= t; });
      for (; at != last && at->gap.when.start_ns < v.end_ns; ++at) {
        const interval part = clip(v, at->gap.when);
        e.start_ns = part.start_ns;
        e.end_ns = part.end_ns;
        at->host.add(e, c);
        at->by_owner[by][name] += part.length_ns();
      }
    }
  }

  /// In order of device and time.
  CUTRACE_NOINLINE std::vector<owned_gap> result() {
    std::vector<owned_gap> list;
    for (found& f : found_) {
      decide(f);
      list.push_back(f.gap);
    }
    return list;
  }
  /// Gaps of all devices, kept or not.
  std::uint64_t count() const noexcept { return count_; }

 private:
  struct found {
    found(const owned_gap& g) : gap(g), host(g.when.start_ns) {}  // NOLINT: made in place
    owned_gap gap;
    breakdown host;
    std::map<std::uint8_t, std::map<std::uint32_t, std::int64_t>> by_owner;  ///< time of each name, by owner
  };

  static void decide(found& f) {
    const breakdown_table t = f.host.host(f.gap.when.end_ns);
    f.gap.cause = largest_host_owner(t, true);
    const std::map<std::uint32_t, std::int64_t>& names = f.by_owner[static_cast<std::uint8_t>(f.gap.cause)];
    std::int64_t most_ns = 0;
    for (const auto& name : names) most_ns = std::max(most_ns, name.second);
    // An outer stage has at least the time of its inner ones, which say more. They end first, so they have the smaller
    // numbers.
    for (const auto& name : names)
      if (name.second > 0 && name.second >= most_ns - most_ns / 5) {
        f.gap.cause_name = name.first;
        return;
      }
  }

  std::vector<interval> recorded_;
  std::size_t limit_;
  std::vector<found> found_;
  std::vector<std::size_t> first_of_device_;
  std::uint64_t count_ = 0;
};

}  // namespace analysis
CUTRACE_END_NAMESPACE
