// SPDX-License-Identifier: Apache-2.0
// Reads cutrace's JSONL (docs/jsonl.md), in both of its forms, line by line: a line that cannot be read is one
// complaint, and the next line is tried. Unknown types and fields are reported and kept as they stand, for a sink that
// writes JSONL. Memory is that of the longest line, and of the begins whose ends have not come (paired form).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trace/byte_window.hpp"
#include "trace/feed.hpp"
#include "trace/json_facts.hpp"
#include "trace/json_fields.hpp"
#include "trace/json_value.hpp"
#include "trace/memory_budget.hpp"
#include "trace/request_list.hpp"

namespace cutrace_reading {

class jsonl_reader {
 public:
  explicit jsonl_reader(feed& to) : to_(to), requests_(to) {}

  /// One file, to its end.
  void read(byte_window& from);
  /// After the last file.
  void finish() {
    if (!next_part_.empty()) complain("the next part, " + next_part_ + ", was not given");
  }

  /// Longer lines are passed over, with a complaint.
  static constexpr std::size_t line_limit = std::size_t{16} << 20;

 private:
  struct open_operation {
    cutrace::event e;
    counted_vector<cutrace::request_ref> requests;
    counted_vector<cutrace::argument> arguments;
    counted_string more;
  };
  static constexpr std::size_t open_limit = std::size_t{1} << 18;

  /// The content of one line.
  struct jsonl_line {
    cutrace::event e;
    std::uint64_t version = 0, op_id = 0;
    std::int64_t dur_ns = 0, paired_ts_ns = 0;
    const std::vector<readable_field>* fields = nullptr;  ///< fields of the event's kind, once the kind is known
    std::size_t next = 0;                                 ///< expected index in `fields`: find_field
    bool has_type = false, is_header = false, is_footer = false, has_ts = false, paired = false, ends = false,
         has_next = false, broken = false, in_details = false;
  };

  void read_line(std::string_view line, bool last);
  void read_object(json_object object, jsonl_line& f);
  void find_type(json_object& object, jsonl_line& f);
  void read_field(std::string_view key, json_value& v, jsonl_line& f);
  bool read_line_field(std::string_view key, json_value& v, jsonl_line& f, field_watch& watch);
  void read_unknown(std::string_view key, json_value& v);
  void add_more(cutrace::event& e, std::string_view fields);
  void complete(jsonl_line& f);
  void deliver(jsonl_line& f);
  void deliver_pair(jsonl_line& f);
  void begin_operation(jsonl_line& f);
  void head(const jsonl_line& f);
  void foot(const jsonl_line& f);
  void look_at_version(std::uint64_t version);
  void complain(std::string_view what) { to_.problems().add(what, at_); }

  feed& to_;
  simdjson::ondemand::parser parser_;
  simdjson::ondemand::document document_;  ///< of the line that is read
  simdjson::dom::parser checker_;          ///< checks JSON that is kept as it stands
  request_list requests_;
  std::vector<cutrace::argument> arguments_;
  counted_map<std::uint64_t, open_operation> open_;
  std::string more_;  ///< fields of the line that are not known, for event::more
  trace_facts facts_;
  trace_totals totals_;
  place at_;
  std::uint64_t first_line_ = 1, stated_lines_ = 0, newest_version_ = 0;
  std::string next_part_;
  bool has_header_ = false, has_footer_ = false, stopped_ = false;
};

}  // namespace cutrace_reading
