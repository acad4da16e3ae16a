// SPDX-License-Identifier: Apache-2.0
// The end of the ASCII report: what is missing, what is doubtful, what the report itself had to shorten. A trace
// without a flaw says so too.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cutrace/sink.hpp>
#include <cutrace/sinks/ascii_collect.hpp>
#include <cutrace/sinks/ascii_page.hpp>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace ascii {

/// What the memory limit did to the report.
CUTRACE_NOINLINE inline std::vector<std::string> shortened(const collection& data, const analysis::bounds& limits,
                                                           const analysis::breakdown_table& time,
                                                           const analysis::breakdown_table& host,
                                                           const std::vector<analysis::stage_time>& stages) {
  std::vector<std::string> list;
  const std::int64_t off_ns = std::max(time.uncertain_ns, host.uncertain_ns);
  if (off_ns > 0)
    list.push_back(joined({"memory limit: WHERE THE TIME WENT is approximate, off by at most ", duration(off_ns)}));
  if (std::any_of(stages.begin(), stages.end(), [](const analysis::stage_time& s) { return s.approximate; }))
    list.push_back("memory limit: times of stages marked with ~ are approximate");
  if (std::any_of(stages.begin(), stages.end(), [](const analysis::stage_time& s) { return s.number == 0; }))
    list.push_back(joined({"memory limit: stages beyond ", digits(limits.stages), " names share one row"}));
  if (data.gpu_operations.names_left_out() || data.calls.names_left_out())
    list.push_back("memory limit: names beyond the table share the row \"(other names)\"");
  if (data.other_streams.used)
    list.push_back(joined({"memory limit: streams beyond ", digits(limits.streams), " share one row of the timeline"}));
  if (data.time.devices_left_out()) list.push_back("memory limit: some devices have no row of their own");
  if (data.numbers.numbers().live_approximate)
    list.push_back("memory limit: more live allocations than can be followed; live and peak bytes are too small");
  return list;
}

class quality_section {
 public:
  quality_section(page& out, const trace_summary& end) : out_(out), end_(end), totals_(end.totals) {}

  CUTRACE_NOINLINE void print(const std::vector<std::string>& shortened, bool launches_without_records) {
    out_.heading("LOSSES AND NOTES");
    losses();
    qualities();
    sinks();
    if (launches_without_records)
      note({"launches were seen, but not one GPU record: GPU times are missing, not zero"}, tone::alarm);
    for (std::uint32_t i = 0; i < end_.note_count && end_.notes != nullptr; ++i)
      if (end_.notes[i] != nullptr) note({escaped(end_.notes[i])}, tone::plain);
    for (const std::string& s : shortened) note({s}, tone::plain);
  }

 private:
  CUTRACE_NOINLINE void note(std::initializer_list<piece> pieces, tone t) {
    std::string text = "  ";
    append(text, pieces);
    out_.paragraph(text, 4, t);
  }

  CUTRACE_NOINLINE void losses() {
    constexpr const char* why[loss_cause_count] = {
        "no free chunk (chunk_full): a larger CUTRACE_MEMORY_LIMIT, or CUTRACE_OVERFLOW=wait",
        "no room for activity buffers (buffer_limit): a larger CUTRACE_MEMORY_LIMIT",
        "dropped by CUPTI itself (cupti_dropped)",
        "of a kind or version that this build does not know (unknown_record)",
        "never completed (incomplete): the device was still at work when tracing ended",
        "by a sink that failed (sink_failed)"};
    if (totals_.lost_total() == 0) {
      note({"nothing lost: ", count(totals_.produced), " produced, ", count(totals_.delivered), " delivered"},
           tone::plain);
      return;
    }
    note({count(totals_.lost_total()), " of ", count(totals_.produced), " records LOST; ", count(totals_.delivered),
          " delivered"},
         tone::alarm);
    for (std::size_t c = 0; c < loss_cause_count; ++c)
      if (totals_.lost[c] > 0) note({{count(totals_.lost[c]), 13}, "  ", why[c]}, tone::alarm);
  }

  CUTRACE_NOINLINE void qualities() {
    constexpr const char* what[quality_count] = {
        "GPU records without times: their work is missing in all times above", "GPU operations without a known call",
        "GPU operations that seem to start before their call, by more than the clock's bound",
        "events delivered late, after later ones"};
    constexpr const char* reasons[] = {"",
                                       "",
                                       "made outside of stages",
                                       "no call seen",
                                       "call forgotten before its record came",
                                       "stage's record lost"};
    bool any = false;
    for (std::size_t q = 0; q < quality_count; ++q) {
      if (totals_.quality_of[q] == 0) continue;
      any = true;
      std::string s = joined({count(totals_.quality_of[q]), " ", what[q]});
      if (q == static_cast<std::size_t>(quality::unattributed))
        for (std::size_t a = 3; a < 6; ++a)
          if (totals_.unattributed_by[a] > 0) append(s, {"; ", reasons[a], ": ", count(totals_.unattributed_by[a])});
      note({s}, tone::plain);
    }
    if (!any) note({"all delivered records have times, a known call and their place in the order"}, tone::plain);
  }

  CUTRACE_NOINLINE void sinks() {
    for (std::uint32_t i = 0; i < std::min<std::size_t>(totals_.sink_count, sink_limit); ++i) {
      const sink_stats& s = totals_.sinks[i];
      if (!s.failed && s.lost == 0) continue;
      note({"sink ", label(text_of(s.name, sizeof(s.name)), 31), ": ", count(s.lost), " of ", count(s.delivered),
            " events not written. ", escaped(text_of(s.failure, sizeof(s.failure)))},
           tone::alarm);
    }
  }

  /// Text of a fixed field, whether it is terminated or not.
  static std::string_view text_of(const char* s, std::size_t size) noexcept {
    return {s, static_cast<std::size_t>(std::find(s, s + size, '\0') - s)};
  }

  page& out_;
  const trace_summary& end_;
  const stats& totals_;
};

}  // namespace ascii
CUTRACE_END_NAMESPACE
