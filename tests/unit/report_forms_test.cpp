// SPDX-License-Identifier: Apache-2.0
// The report for machines: JSON and CSV of any trace can be read by parsers that are not ours, hold every name as it
// is, and have the numbers of the analyses.
#include <doctest/doctest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "report/pages/csv.hpp"
#include "report/pages/json.hpp"
#include "support/hostile_events.hpp"
#include "support/planted_traces.hpp"
#include "support/random_trace.hpp"

namespace report_forms_test {

namespace {

using namespace cutrace;

struct forms {
  nlohmann::json document;
  std::map<std::string, std::vector<std::vector<std::string>>> tables;
  analysis::trace_results results;
};

/// RFC 4180, section 2.
std::vector<std::vector<std::string>> read_csv(const std::string& s) {
  std::vector<std::vector<std::string>> rows;
  for (std::size_t at = 0; at < s.size();) {
    rows.emplace_back();
    for (bool more = true; more;) {
      std::string field;
      if (at < s.size() && s[at] == '"') {
        for (++at;; ++at) {
          REQUIRE(at < s.size());
          if (s[at] != '"') {
            field += s[at];
          } else if (at + 1 < s.size() && s[at + 1] == '"') {
            field += s[at++];
          } else {
            break;
          }
        }
        ++at;
      } else {
        for (; at < s.size() && s[at] != ',' && s[at] != '\r'; ++at) {
          REQUIRE((s[at] != '"' && s[at] != '\n'));
          field += s[at];
        }
      }
      rows.back().push_back(field);
      REQUIRE(at < s.size());
      more = s[at] == ',';
      if (more) ++at;
    }
    REQUIRE(s.compare(at, 2, "\r\n") == 0);
    at += 2;
  }
  return rows;
}

forms forms_of(const std::vector<event>& events, std::uint64_t lost = 0, std::size_t top = SIZE_MAX) {
  analysis::trace_analysis a;
  for (const event& e : events) a.add(e);
  forms f;
  f.results = a.finish();
  const trace_summary end = sample::summary(events.size(), lost);
  const trace_info info = sample::info();
  analysis::finding_options rules;
  rules.lost = lost;
  const std::vector<analysis::finding> found = analysis::find_findings(a.log(), f.results, rules);
  const tables::report in{a, f.results, found, info, end, top};
  f.document = nlohmann::json::parse(report_json(in));  // refuses wrong UTF-8
  for (const tables::csv_out::file& one : report_csv(in)) {
    REQUIRE(f.tables.count(one.name) == 0);
    f.tables[one.name] = read_csv(one.text);
    for (const auto& row : f.tables[one.name]) REQUIRE(row.size() == f.tables[one.name][0].size());
  }
  return f;
}

/// Each table of the document is in the CSV files, with as many rows and the same fields.
void check_same_shape(const forms& f) {
  for (const auto& t : f.document.items()) {
    if (!t.value().is_structured()) continue;
    CAPTURE(t.key());
    REQUIRE(f.tables.count(t.key()) == 1);
    const auto& csv = f.tables.at(t.key());
    REQUIRE(csv.size() - 1 == (t.value().is_object() ? 1 : t.value().size()));
    if (t.value().empty()) continue;
    const nlohmann::json& first = t.value().is_object() ? t.value() : t.value()[0];
    for (const auto& field : first.items()) {
      if (field.value().is_array())
        CHECK(f.tables.count(field.key()) == 1);
      else
        CHECK(std::count(csv[0].begin(), csv[0].end(), field.key()) == 1);
    }
  }
}

}  // namespace

TEST_CASE("report.forms: a planted fault, with its evidence") {
  planted::fault fault;
  fault.kernel_ns = 100 * planted::us;
  fault.copy_bytes = 0;
  fault.synchronise = true;
  fault.lost = 12;
  const forms f = forms_of(planted::server(fault), 12);
  check_same_shape(f);
  CHECK(f.document["schema"] == "cutrace.report");
  CHECK(f.document["v"] == 1);
  const nlohmann::json& first = f.document["findings"][0];
  CHECK(first["kind"] == "synchronisation");
  CHECK(first["stage"] == "decode");
  CHECK(first["site"] == "server.cpp:120");
  REQUIRE(first["evidence"].size() > 0);
  CHECK(first["evidence"][0]["kind"] == "gap");
  CHECK(first["evidence"][0]["duration_ns"].get<std::int64_t>() > 0);
  CHECK(f.document["totals"]["lost"] == 12);
  CHECK(f.document["idle"]["ns"] == f.results.idle.all.ns);
  CHECK(f.document["devices"][0]["busy_ns"] == f.results.devices[0].busy_ns);
  CHECK(f.tables.at("evidence")[1][0] == "1");  // of the first finding
  CHECK(f.tables.at("findings")[1][0] == "1");
}

TEST_CASE("report.forms: every name comes back") {
  const forms f = forms_of(hostile::named_events());
  check_same_shape(f);
  std::size_t found = 0;
  for (const std::string& name : hostile::names()) {
    if (name.empty() || name.size() > analysis::name_table::longest) continue;
    const std::string valid = nlohmann::json(name).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    const std::string wanted = nlohmann::json::parse(valid);
    if (wanted.find("\xEF\xBF\xBD") != std::string::npos) continue;  // libraries differ in how many U+FFFD they write
    CAPTURE(wanted);
    for (const char* table : {"stages", "gpu_operations", "calls"}) {
      CAPTURE(table);
      std::size_t n = 0;
      for (const nlohmann::json& row : f.document[table]) n += row["name"] == wanted;
      CHECK(n == 1);
      const bool control = std::any_of(wanted.begin(), wanted.end(), [](unsigned char c) {
        return c == 0x7f || (c < 0x20 && c != '\t' && c != '\n' && c != '\r');
      });
      if (control) continue;
      std::size_t lines = 0;
      for (const auto& row : f.tables.at(table)) lines += row[0] == wanted;
      CHECK(lines == 1);
      ++found;
    }
  }
  CHECK(found > 30);
}

TEST_CASE("report.forms: no text is a formula, and numbers stay numbers") {
  const auto field = [](std::string_view s) {
    std::string out;
    tables::append_csv(out, s);
    return out;
  };
  for (const char* text : {"=1+2", "+1+2", "-2+3", "@SUM(A1)", "\t=1", "-", "+", "-.", "-1e5", "--1", "-1.2.3"}) {
    CAPTURE(text);
    CHECK(field(text) == std::string("'") + text);
  }
  CHECK(field("\r=1") == "\"'\r=1\"");
  CHECK(field("=HYPERLINK(\"x\",1)") == "\"'=HYPERLINK(\"\"x\"\",1)\"");
  for (const char* text : {"-2", "+2.5", "-.5", "7", "a=b", "", "a-b", "'="}) CHECK(field(text) == text);
}

TEST_CASE("report.forms: nothing at all has every table and no row") {
  const forms f = forms_of({});
  check_same_shape(f);
  CHECK(f.document["findings"].empty());
  CHECK(f.document["devices"].empty());
  CHECK(f.document["trace"]["recorded_ns"] == 0);
  CHECK(f.tables.at("requests").size() == 1);
}

TEST_CASE("report.forms: random traces") {
  for (std::uint32_t seed = 1; seed <= 40; ++seed) {
    CAPTURE(seed);
    const forms f = forms_of(random_trace::make(seed).events);
    check_same_shape(f);
    std::int64_t owners_ns = 0;
    for (const nlohmann::json& row : f.document["time"]) owners_ns += row["ns"].get<std::int64_t>();
    CHECK(owners_ns == f.results.time.everything.recorded_ns);
    CHECK(f.document["stages"].size() == f.results.stages.stages.size());
    CHECK(f.document["requests"].size() == f.results.requests.size());
  }
  CHECK(forms_of(random_trace::make(3).events, 0, 1).document["calls"].size() <= 1);
}

}  // namespace report_forms_test
