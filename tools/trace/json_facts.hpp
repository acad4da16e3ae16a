// SPDX-License-Identifier: Apache-2.0
// Header and footer of a trace as JSON objects (docs/jsonl.md), which the Chrome JSON of cutrace has too.
#pragma once

#include <string>

#include "trace/complaints.hpp"
#include "trace/feed.hpp"
#include "trace/json_value.hpp"

namespace cutrace_reading {

/// Reports fields that are wrong or unknown.
class field_watch {
 public:
  field_watch(complaints& problems, place at) : problems_(problems), at_(at) {}
  void wrong(std::string_view key, value_state state) { problems_.add(wrong_field(key, state), at_); }
  void unknown(std::string_view key) { problems_.add("unknown field \"" + std::string(key.substr(0, 64)) + "\"", at_); }
  void check(std::string_view key, value_state state) {
    if (state != value_state::good) wrong(key, state);
  }

 private:
  complaints& problems_;
  place at_;
};

/// Reads one field of a header. @returns false where headers have no such field
bool read_header_field(std::string_view key, json_value& v, trace_facts& to, field_watch& watch);
/// Reads one field of a footer. @returns false where footers have no such field
bool read_footer_field(std::string_view key, json_value& v, trace_totals& to, field_watch& watch);

}  // namespace cutrace_reading
