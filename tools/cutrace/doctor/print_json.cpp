// SPDX-License-Identifier: Apache-2.0
// The report for scripts. The schema changes by additions only; `v` rises with each change.
#include <cutrace/output/json_text.hpp>
#include <cutrace/version.hpp>

#include "report.hpp"

namespace cutrace_tool::doctor {

namespace {

using cutrace::detail::json_text;

void put_names(json_text& j, method_set set) {
  j.begin_array();
  for (const method& m : methods)
    if ((set & m.bit) != 0) j.value(m.name);
  j.end_array();
}

}  // namespace

std::string as_json(const report& r) {
  json_text j;
  j.begin_object();
  j.field("v", 1);
  j.field("type", "doctor");
  j.field("cutrace", CUTRACE_VERSION_STRING);
  j.key("asked");
  put_names(j, r.asked);
  j.field("exit", r.exit_status);
  j.key("findings");
  j.begin_array();
  for (const finding& f : r.found) {
    j.begin_object();
    j.field("id", f.id);
    j.field("state", name_of(f.state));
    j.key("methods");
    put_names(j, f.methods);
    j.field("what", std::string_view(f.what));
    j.field("remedy", std::string_view(f.remedy));
    j.end_object();
  }
  j.end_array();
  j.key("methods");
  j.begin_array();
  for (const verdict& v : r.verdicts) {
    j.begin_object();
    j.field("name", v.about->name);
    j.field("offered", v.about->offered);
    j.field("machine", name_of(v.state));
    j.field("works", v.works());
    j.key("because");
    j.begin_array();
    for (const finding* f : v.because) j.value(f->id);
    j.end_array();
    j.end_object();
  }
  j.end_array();
  j.end_object();
  j.new_line();
  return std::string(j.view());
}

}  // namespace cutrace_tool::doctor
