// SPDX-License-Identifier: Apache-2.0
// The longest stretches in which a GPU had nothing to do, and what the host did meanwhile: in each, the owner of most
// of its time by the same order as in the breakdown of the whole trace.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cutrace/analysis/breakdown.hpp>
#include <cutrace/analysis/category.hpp>
#include <cutrace/analysis/intervals.hpp>
#include <cutrace/sinks/html_timeline.hpp>
#include <map>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace html {

struct idle_gap {
  std::uint32_t device = 0;
  analysis::interval when;
  analysis::owner cause = analysis::owner::nothing;
  std::uint32_t cause_name = 0;  ///< of the call or stage that had the largest part of it, 0: none
  std::uint32_t next_name = 0;   ///< of the work that ended it, 0: the trace ended
};

class gap_finder {
 public:
  /// @param recorded where the trace was paused or sampled, what was recorded; else the whole window
  gap_finder(const timeline& from, std::vector<analysis::interval> recorded, std::size_t limit)
      : from_(from), recorded_(std::move(recorded)), limit_(limit) {}

  /// In order of device and time. Takes up to 72 bytes for each GPU event of one device meanwhile.
  CUTRACE_NOINLINE std::vector<idle_gap> find() {
    std::map<std::uint32_t, std::vector<analysis::interval>> none;
    for (auto row = from_.rows().begin(); row != from_.rows().end();) {
      if (!row->first.on_gpu()) {
        ++row;
        continue;
      }
      const std::uint32_t device = row->first.device;
      std::vector<work> all;
      all.reserve(count_of(device));
      for (; row != from_.rows().end() && row->first.on_gpu() && row->first.device == device; ++row)
        row->second.for_each([&](const record& r) { all.push_back({{r.start_ns, r.end_ns()}, r.name}); });
      find_in(device, all);
    }
    for (const auto& row : from_.rows())
      if (!row.first.on_gpu()) explain(row.first.kind, row.second);
    explain(row_kind::driver_calls, from_.other_host());
    for (found& f : found_) decide(f);
    std::vector<idle_gap> list;
    for (const found& f : found_) list.push_back(f.gap);
    return list;
  }
  /// Gaps of all devices, found or not.
  std::uint64_t count() const noexcept { return count_; }

 private:
  struct work {
    analysis::interval when;
    std::uint32_t name;
  };
  struct share {
    std::uint32_t name = 0;
    std::int64_t ns = 0;
  };
  struct found {
    found(const idle_gap& g) : gap(g), host(g.when.start_ns) {}  // NOLINT: made in place
    idle_gap gap;
    analysis::breakdown host;
    std::map<std::uint8_t, std::map<std::uint32_t, std::int64_t>> by_owner;  ///< time of each name, by owner
  };

  std::size_t count_of(std::uint32_t device) const {
    std::uint64_t n = 0;
    for (const auto& row : from_.rows()) n += row.first.on_gpu() && row.first.device == device ? row.second.count() : 0;
    return static_cast<std::size_t>(n);
  }

  CUTRACE_NOINLINE void find_in(std::uint32_t device, std::vector<work>& all) {
    std::sort(all.begin(), all.end(), [](const work& a, const work& b) { return a.when.start_ns < b.when.start_ns; });
    std::vector<analysis::interval> busy;
    busy.reserve(all.size());
    for (const work& w : all) busy.push_back(w.when);
    busy = analysis::merged(std::move(busy));
    std::vector<analysis::interval> free;
    for (const analysis::interval& window : recorded_) {
      const std::vector<analysis::interval> more = analysis::gaps(busy, window);
      free.insert(free.end(), more.begin(), more.end());
    }
    count_ += free.size();
    const auto longer = [](const analysis::interval& a, const analysis::interval& b) {
      return a.length_ns() > b.length_ns();
    };
    if (free.size() > limit_) {
      std::nth_element(free.begin(), free.begin() + static_cast<std::ptrdiff_t>(limit_), free.end(), longer);
      free.resize(limit_);
    }
    std::sort(free.begin(), free.end(), [](const auto& a, const auto& b) { return a.start_ns < b.start_ns; });
    first_of_device_.push_back(found_.size());
    for (const analysis::interval& v : free) {
      idle_gap g;
      g.device = device;
      g.when = v;
      const auto next = std::lower_bound(all.begin(), all.end(), v.end_ns,
                                         [](const work& w, std::int64_t at) { return w.when.start_ns < at; });
      if (next != all.end() && next->when.start_ns == v.end_ns) g.next_name = next->name;
      found_.emplace_back(g);
    }
  }

  CUTRACE_NOINLINE void explain(row_kind kind, const packed_records& row) {
    if (kind == row_kind::spans || kind == row_kind::marks || kind == row_kind::ioctls) return;
    row.for_each([&](const record& r) {
      event e;
      const bool is_stage = kind == row_kind::stages;
      e.kind = is_stage ? event_kind::stage : event_kind::api;
      const analysis::category c = is_stage ? analysis::category::other : category_of(r.name);
      const std::uint8_t owner =
          static_cast<std::uint8_t>(is_stage ? analysis::owner::host_stage : analysis::host_owner(c));
      for (std::size_t d = 0; d < first_of_device_.size(); ++d) {
        const std::size_t end = d + 1 < first_of_device_.size() ? first_of_device_[d + 1] : found_.size();
        const auto last = found_.begin() + static_cast<std::ptrdiff_t>(end);
        auto at = std::lower_bound(found_.begin() + static_cast<std::ptrdiff_t>(first_of_device_[d]), last, r.start_ns,
                                   [](const found& f, std::int64_t t) { return f.gap.when.end_ns <= t; });
        for (; at != last && at->gap.when.start_ns < r.end_ns(); ++at) {
          const analysis::interval v = analysis::clip({r.start_ns, r.end_ns()}, at->gap.when);
          e.start_ns = v.start_ns;
          e.end_ns = v.end_ns;
          at->host.add(e, c);
          at->by_owner[owner][r.name] += v.length_ns();
        }
      }
    });
  }

  analysis::category category_of(std::uint32_t name) {
    if (name >= categories_.size()) categories_.resize(from_.names().size(), unknown);
    std::uint8_t& c = categories_[name];
    if (c == unknown) {
      const std::string& s = from_.names().name(name);
      text t;
      t.data = s.data();
      t.size = static_cast<std::uint32_t>(s.size());
      c = static_cast<std::uint8_t>(analysis::category_of_call(t));
    }
    return static_cast<analysis::category>(c);
  }

  static void decide(found& f) {
    analysis::breakdown_table t = f.host.host(f.gap.when.end_ns);
    f.gap.cause = analysis::largest_host_owner(t, true);
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

  static constexpr std::uint8_t unknown = 255;
  const timeline& from_;
  std::vector<analysis::interval> recorded_;
  std::size_t limit_;
  std::vector<found> found_;
  std::vector<std::size_t> first_of_device_;
  std::vector<std::uint8_t> categories_;
  std::uint64_t count_ = 0;
};

}  // namespace html
CUTRACE_END_NAMESPACE
