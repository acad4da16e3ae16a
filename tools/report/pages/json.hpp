// SPDX-License-Identifier: Apache-2.0
// The report about a file as one JSON document: everything that the analyses and findings compute. Fields are only
// added; `v` rises with each addition. Units stand in names, shares are from 0 to 1. docs/analyses.md has the list.
#pragma once

#include <cstdint>
#include <cutrace/output/json_text.hpp>
#include <cutrace/version.hpp>
#include <string>
#include <vector>

#include "report/pages/tables.hpp"

CUTRACE_BEGIN_NAMESPACE
namespace tables {

/// Version of the fields of reports.
constexpr std::uint32_t report_schema_version = 1;

/// Writes tables as arrays and objects into the JSON object that is open.
class json_out {
 public:
  explicit json_out(detail::json_text& json) : json_(json) {}

  template <class Fill>
  void object(const char* name, Fill&& fill) {
    json_.key(name);
    one([&](auto& row) { fill(row); });
  }
  template <class Item, class Fill>
  void table(const char* name, const std::vector<Item>& list, Fill&& fill) {
    json_.key(name);
    rows(list, fill);
  }
  template <class Finding, class Fill, class FillProof, class FillCompany>
  void findings(const std::vector<Finding>& found, Fill&& fill, FillProof&& fill_proof, FillCompany&& fill_company) {
    table("findings", found, [&](auto& row, const Finding& f) {
      fill(row, f);
      json_.key("evidence");
      rows(f.proof, fill_proof);
      json_.key("meanwhile");
      rows(f.meanwhile, fill_company);
    });
  }

 private:
  struct json_row {
    detail::json_text& json;
    template <class Value>
    void operator()(const char* name, const Value& value) {
      json.key(name);
      put(value);
    }
    void put(const std::string& s) { json.value(std::string_view(s)); }
    template <class Value>
    void put(const Value& v) {
      json.value(v);
    }
  };
  template <class Fill>
  void one(Fill&& fill) {
    json_.begin_object();
    json_row row{json_};
    fill(row);
    json_.end_object();
  }
  template <class Item, class Fill>
  void rows(const std::vector<Item>& list, Fill&& fill) {
    json_.begin_array();
    for (const Item& item : list) one([&](auto& row) { fill(row, item); });
    json_.end_array();
  }

  detail::json_text& json_;
};

}  // namespace tables

/// One line, which ends with a line break.
CUTRACE_NOINLINE inline std::string report_json(const tables::report& in) {
  detail::json_text json;
  json.begin_object();
  json.field("schema", "cutrace.report");
  json.field("v", tables::report_schema_version);
  json.field("cutrace_version", CUTRACE_VERSION_STRING);
  json.field("answer", std::string_view(ascii::answer_of(in.a, in.r, in.found, in.end)));
  tables::json_out out(json);
  tables::write_all(out, in);
  json.end_object();
  json.new_line();
  return std::string(json.view());
}

CUTRACE_END_NAMESPACE
