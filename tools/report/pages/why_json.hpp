// SPDX-License-Identifier: Apache-2.0
// Why a request took as long as it did, for machines: the same results as the text. Fields are only added; `v` rises
// with each addition. docs/analyses.md has the list.
#pragma once

#include <cstdint>
#include <cutrace/output/json_text.hpp>
#include <cutrace/version.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "report/pages/why_text.hpp"
#include "report/why.hpp"

CUTRACE_BEGIN_NAMESPACE
namespace tables {

constexpr std::uint32_t why_schema_version = 1;

inline void put_texts(detail::json_text& json, const char* key, const std::vector<std::string>& list) {
  json.key(key);
  json.begin_array();
  for (const std::string& s : list) json.value(std::string_view(s));
  json.end_array();
}

inline void put_shares(detail::json_text& json, const char* key, const std::vector<analysis::why_share>& list) {
  json.key(key);
  json.begin_array();
  for (const analysis::why_share& s : list) {
    json.begin_object();
    json.field("name", std::string_view(s.name));
    json.field("site", std::string_view(s.site));
    json.field("ns", s.ns);
    json.field("typical_ns", s.typical_ns);
    json.field("count", s.count);
    json.field("thread", s.thread_id);
    put_texts(json, "requests", s.requests);
    json.end_object();
  }
  json.end_array();
}

}  // namespace tables

/// One line for all reports, which ends with a line break.
CUTRACE_NOINLINE inline std::string why_json(const std::vector<analysis::why_report>& reports) {
  detail::json_text json;
  json.begin_object();
  json.field("schema", "cutrace.why");
  json.field("v", tables::why_schema_version);
  json.field("cutrace_version", CUTRACE_VERSION_STRING);
  json.key("requests");
  json.begin_array();
  for (const analysis::why_report& r : reports) {
    json.begin_object();
    json.field("request", std::string_view(r.name));
    json.field("answer", std::string_view(ascii::why_answer(r)));
    json.field("start_ns", r.account.span.start_ns);
    json.field("latency_ns", r.account.span.length_ns());
    json.field("not_recorded_ns", r.account.time_ns(analysis::request_part::not_recorded));
    json.field("ended", !r.account.unended);
    json.field("rank", static_cast<std::uint64_t>(r.rank));
    json.field("of_requests", static_cast<std::uint64_t>(r.requests));
    json.field("cohort", static_cast<std::uint64_t>(r.cohort));
    json.field("cohort_latency_ns", r.typical_latency_ns);
    json.key("causes");
    json.begin_array();
    for (const analysis::why_cause& c : r.causes) {
      json.begin_object();
      json.field("part", analysis::name_of(c.is));
      json.field("what", std::string_view(ascii::cause_words(c)));
      json.field("ns", c.ns);
      json.field("cohort_ns", c.typical_ns);
      json.field("excess_ns", c.excess_ns());
      json.field("unusual", c.stands_out());
      json.field("preempted_ns", c.preempted_ns);
      json.field("clock_mhz", static_cast<std::uint64_t>(c.clock_mhz + 0.5));
      json.field("typical_clock_mhz", static_cast<std::uint64_t>(c.typical_clock_mhz + 0.5));
      tables::put_shares(json, "shares", c.shares);
      tables::put_shares(json, "mates", c.mates);
      tables::put_shares(json, "meanwhile", c.others);
      json.end_object();
    }
    json.end_array();
    json.key("stages");
    json.begin_array();
    for (const analysis::why_row& row : r.rows) {
      json.begin_object();
      json.field("name", std::string_view(row.name));
      json.field("site", std::string_view(row.site));
      json.field("count", row.count);
      json.field("batches", row.batches);
      json.field("span", row.span);
      json.field("host_ns", row.host_ns);
      json.field("gpu_ns", row.gpu_ns);
      json.end_object();
    }
    json.end_array();
    tables::put_texts(json, "not_looked_at", r.not_looked_at);
    json.end_object();
  }
  json.end_array();
  json.end_object();
  json.new_line();
  return std::string(json.view());
}

CUTRACE_END_NAMESPACE
