// SPDX-License-Identifier: Apache-2.0
// The longest idle stretches of the GPUs and what the host did meanwhile (analysis/gap_owners.hpp), from the rows of
// the HTML report's timeline.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cutrace/analysis/category.hpp>
#include <cutrace/analysis/gap_owners.hpp>
#include <cutrace/sinks/html_timeline.hpp>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace html {

class gap_finder {
 public:
  /// @param recorded where the trace was paused or sampled, what was recorded; else the whole window
  gap_finder(const timeline& from, std::vector<analysis::interval> recorded, std::size_t limit)
      : from_(from), owners_(std::move(recorded), limit) {}

  /// In order of device and time. Takes up to 72 bytes for each GPU event of one device meanwhile.
  CUTRACE_NOINLINE std::vector<analysis::owned_gap> find() {
    for (auto row = from_.rows().begin(); row != from_.rows().end();) {
      if (!row->first.on_gpu()) {
        ++row;
        continue;
      }
      const std::uint32_t device = row->first.device;
      std::vector<analysis::gap_owners::work> all;
      all.reserve(count_of(device));
      for (; row != from_.rows().end() && row->first.on_gpu() && row->first.device == device; ++row)
        row->second.for_each([&](const record& r) { all.push_back({{r.start_ns, r.end_ns()}, r.name}); });
      owners_.add_device(device, all);
    }
    for (const auto& row : from_.rows())
      if (!row.first.on_gpu()) explain(row.first.kind, row.second);
    explain(row_kind::driver_calls, from_.other_host());
    return owners_.result();
  }
  /// Gaps of all devices, found or not.
  std::uint64_t count() const noexcept { return owners_.count(); }

 private:
  std::size_t count_of(std::uint32_t device) const {
    std::uint64_t n = 0;
    for (const auto& row : from_.rows()) n += row.first.on_gpu() && row.first.device == device ? row.second.count() : 0;
    return static_cast<std::size_t>(n);
  }

  CUTRACE_NOINLINE void explain(row_kind kind, const packed_records& row) {
    if (kind == row_kind::spans || kind == row_kind::marks || kind == row_kind::ioctls || kind == row_kind::system)
      return;
    const bool is_stage = kind == row_kind::stages;
    row.for_each([&](const record& r) {
      owners_.add_host({r.start_ns, r.end_ns()}, r.name, is_stage,
                       is_stage ? analysis::category::other : category_of(r.name));
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

  static constexpr std::uint8_t unknown = 255;
  const timeline& from_;
  analysis::gap_owners owners_;
  std::vector<std::uint8_t> categories_;
};

}  // namespace html
CUTRACE_END_NAMESPACE
