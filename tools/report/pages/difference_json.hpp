// SPDX-License-Identifier: Apache-2.0
// What `cutrace diff --json` writes: every row of the comparison, changed or not. Fields are only added; `v` rises
// with each addition. Times in ns, changes as shares (0.05 is 5 % slower), null where there is no value.
#pragma once

#include <cstdint>
#include <cutrace/output/json_text.hpp>
#include <cutrace/version.hpp>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "report/pages/difference_text.hpp"
#include "report/trace_difference.hpp"

CUTRACE_BEGIN_NAMESPACE
namespace tables {

constexpr std::uint32_t difference_schema_version = 1;

class difference_writer {
 public:
  explicit difference_writer(detail::json_text& json) : json_(json) {}

  void files(const char* key, const std::vector<std::string>& list) {
    json_.key(key);
    json_.begin_array();
    for (const std::string& file : list) json_.value(std::string_view(file));
    json_.end_array();
  }
  template <class List>
  void rows(const char* key, const List& list) {
    json_.key(key);
    json_.begin_array();
    for (const analysis::difference& d : list) row(d);
    json_.end_array();
  }

 private:
  void side(const char* key, const analysis::difference_side& s) {
    json_.key(key);
    json_.begin_object();
    json_.field("runs", s.runs);
    json_.field("count", s.count);
    json_.field("total_ns", s.total_ns);
    json_.field("mean_ns", s.value_ns);
    json_.end_object();
  }
  void row(const analysis::difference& d) {
    const double none = std::numeric_limits<double>::quiet_NaN();
    json_.begin_object();
    json_.field("name", std::string_view(d.name));
    side("before", d.before);
    side("after", d.after);
    json_.field("change_ns", d.on_both_sides() ? d.change_ns : none);
    json_.field("change_share", d.on_both_sides() && d.before.value_ns > 0 ? d.change_share : none);
    json_.field("change_share_low", d.interval_of_share.low);
    json_.field("change_share_high", d.interval_of_share.high);
    json_.field("total_change_ns", d.total_change_ns);
    json_.field("p", d.p);
    json_.field("q", d.q);
    json_.field("tested", d.was_tested());
    json_.field("significant", d.significant);
    json_.end_object();
  }
  detail::json_text& json_;
};

}  // namespace tables

/// One line, which ends with a line break. @param fail_over as in difference_page; negative: `slower` is left out
CUTRACE_NOINLINE inline std::string difference_json(const analysis::trace_difference& d,
                                                    const std::vector<std::string>& before,
                                                    const std::vector<std::string>& after, double fail_over) {
  detail::json_text json;
  json.begin_object();
  json.field("schema", "cutrace.diff");
  json.field("v", tables::difference_schema_version);
  json.field("cutrace_version", CUTRACE_VERSION_STRING);
  tables::difference_writer out(json);
  out.files("before", before);
  out.files("after", after);
  json.field("test", d.repeated ? "permutation_of_runs" : "durations_within_two_runs");
  json.field("alpha", d.alpha);
  json.field("least_share", d.least_share);
  json.field("least_p", d.repeated ? d.least_p : std::numeric_limits<double>::quiet_NaN());
  json.field("rows_tested", d.tested);
  json.field("adjusted", d.adjusted);
  json.field("rows_by_chance", d.by_chance);
  json.key("halves_of_the_first_before");
  json.begin_object();
  json.field("rows", d.halves.rows);
  const double none = std::numeric_limits<double>::quiet_NaN();
  json.field("median_share", d.halves.rows != 0 ? d.halves.median_share : none);
  json.field("largest_share", d.halves.rows != 0 ? d.halves.largest_share : none);
  json.field("largest_group", analysis::name_of(d.halves.group));
  json.field("largest_name", std::string_view(d.halves.name));
  json.end_object();
  out.rows("totals", d.totals);
  for (std::size_t g = 0; g < analysis::profile_group_count; ++g)
    out.rows(analysis::name_of(static_cast<analysis::profile_group>(g)), d.rows[g]);
  if (fail_over >= 0) {
    json.field("fail_over_share", fail_over);
    json.key("slower");
    json.begin_array();
    std::size_t n = 0;
    ascii::difference_page::for_each_slower(d, fail_over, [&](const char* group, const analysis::difference& row) {
      ++n;
      json.begin_object();
      json.field("group", group);
      json.field("name", std::string_view(row.name));
      json.field("change_share", row.change_share);
      json.end_object();
    });
    json.end_array();
    json.field("failed", n > 0);
  }
  json.end_object();
  json.new_line();
  return std::string(json.view());
}

CUTRACE_END_NAMESPACE
