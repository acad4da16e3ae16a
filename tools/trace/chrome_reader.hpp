// SPDX-License-Identifier: Apache-2.0
// Reads Chrome JSON: that of cutrace's sink, event by event in the order of the file, and that of PyTorch's Kineto,
// which is not ordered by time: the reader sorts a block of events before it delivers the block.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trace/byte_window.hpp"
#include "trace/call_ring.hpp"
#include "trace/chrome_fields_read.hpp"
#include "trace/chrome_rows_read.hpp"
#include "trace/feed.hpp"
#include "trace/json_facts.hpp"
#include "trace/json_splitter.hpp"
#include "trace/json_value.hpp"
#include "trace/request_list.hpp"

namespace cutrace_reading {

class chrome_reader {
 public:
  explicit chrome_reader(feed& to) : to_(to), requests_(to), rows_(to) {}

  /// Reads one file to its end. @param path opened once more for the names of rows; empty: cannot be opened again
  void read(byte_window& from, const std::string& path);
  /// After the last file.
  void finish();

 private:
  /// Most events of one block: 144 MiB, and 20 MiB for the calls among them.
  static constexpr std::size_t block_limit = std::size_t{1} << 19;

  void read_head(std::string_view key, std::string_view text);
  bool parse(std::string_view text, json_object& object);
  void begin_events(const std::string& path);
  void read_event(std::string_view text);
  bool read_fields(json_object object, chrome_fields& f);
  void read_field(std::string_view key, json_value& v, chrome_fields& f);
  void read_args(json_value& v, chrome_fields& f);
  bool read_number_arg(std::string_view key, json_value& v, chrome_fields& f);
  bool read_word_arg(std::string_view key, json_value& v, chrome_fields& f);
  value_state read_time(json_value& v, std::int64_t& ns);

  // chrome_events.cpp
  bool make(cutrace::event& e, const chrome_fields& f);
  bool make_slice(cutrace::event& e, const chrome_fields& f);
  bool make_instant(cutrace::event& e, const chrome_fields& f);
  void make_gpu(cutrace::event& e, const chrome_fields& f);
  void make_host(cutrace::event& e, const chrome_fields& f);
  void make_origin(cutrace::stage_data& s, const chrome_fields& f);
  void deliver(cutrace::event& e, const chrome_fields& f);
  void deliver_block();
  void join_stage(cutrace::event& work);
  void complain(std::string_view what) { to_.problems().add(what, at_); }

  struct external_name {
    std::uint64_t id = 0;
    cutrace::text name;
  };
  static constexpr std::size_t external_size = std::size_t{1} << 18;

  feed& to_;
  simdjson::ondemand::parser parser_, head_parser_;
  simdjson::ondemand::document head_document_;
  std::string padded_;
  request_list requests_;
  std::vector<cutrace::argument> arguments_;
  call_ring calls_;
  chrome_row_names rows_;
  trace_facts facts_;
  trace_totals totals_;
  std::vector<cutrace::event> block_;
  std::vector<external_name> externals_;
  std::string next_part_;
  std::int64_t base_ns_ = 0, origin_ns_ = 0;
  std::uint64_t own_stages_ = 0;
  place at_;
  bool ours_ = false, began_ = false, totals_seen_ = false, has_origin_ = false, lanes_said_ = false, has_path_ = false;
};

}  // namespace cutrace_reading
