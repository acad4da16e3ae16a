// SPDX-License-Identifier: Apache-2.0
// The canonical text form of a trace: one JSON object a line, header first, totals last. docs/jsonl.md is the schema. A
// file cut short by a crash is readable up to its last whole line; without a footer it is known to be incomplete. In
// parts (file_limits), each part can be read alone: it has a header and a footer, and repeats the descriptions of
// threads and devices.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cutrace/config.hpp>
#include <cutrace/output/json_text.hpp>
#include <cutrace/output/trace_file.hpp>
#include <cutrace/sink.hpp>
#include <cutrace/sinks/common/descriptions.hpp>
#include <cutrace/sinks/common/json_event.hpp>
#include <cutrace/sinks/common/json_membership.hpp>
#include <cutrace/sinks/common/json_trace.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace detail {

// Puts lines that come roughly in order of time into order, within a bound of lines and of bytes.

/// A heap by (time, order of arrival). Lines leave it in order as long as no line comes after more than `limit` lines
/// that belong behind it.
class paired_lines {
 public:
  explicit paired_lines(std::size_t limit) : limit_(limit) {}

  /// Takes a line and hands the earliest ones to `write(const std::string&, bool ends)` until the bounds hold. `ends`:
  /// it is the last one of its event.
  template <class Write>
  void add(std::int64_t ts_ns, std::string_view text, bool ends, Write write) {
    heap_.push_back(line{ts_ns, sequence_++, ends, std::string(text)});
    bytes_ += text.size();
    std::push_heap(heap_.begin(), heap_.end(), later);
    while (heap_.size() > limit_ || bytes_ > byte_limit) pop(write);
  }

  template <class Write>
  void drain(Write write) {
    while (!heap_.empty()) pop(write);
  }

  /// Of the lines that are kept back.
  std::size_t bytes() const noexcept { return bytes_; }

 private:
  struct line {
    std::int64_t ts_ns;
    std::uint64_t sequence;
    bool ends;
    std::string text;
  };
  static constexpr std::size_t byte_limit = 8u << 20;

  static bool later(const line& a, const line& b) noexcept {
    return a.ts_ns != b.ts_ns ? a.ts_ns > b.ts_ns : a.sequence > b.sequence;
  }

  template <class Write>
  void pop(Write& write) {
    std::pop_heap(heap_.begin(), heap_.end(), later);
    const line first = std::move(heap_.back());
    heap_.pop_back();
    bytes_ -= first.text.size();
    write(first.text, first.ends);
  }

  std::vector<line> heap_;
  std::size_t limit_;
  std::size_t bytes_ = 0;
  std::uint64_t sequence_ = 0;
};

}  // namespace detail
CUTRACE_END_NAMESPACE

CUTRACE_BEGIN_NAMESPACE

enum class jsonl_form : std::uint8_t {
  events,  ///< a line for each event, in the order of delivery (by end)
  paired,  ///< a line for each begin and one for each end, by time: {"ts":..,"op_id":..,"phase":"B"|"E",..}
};

struct jsonl_options {
  jsonl_form form = jsonl_form::events;
  /// Paired form: lines kept back to bring them into the order of time. A line stands in its place if at most this
  /// many lines have times between its own and the end of its event; the beginning of a longer event comes late, the
  /// rest stays in order. flush() does not write what is kept back; 0 keeps nothing back, for readers that follow live.
  std::size_t hold_lines = 16384;
  file_limits file = {};
};

class jsonl_sink : public sink {
 public:
  /// `path`: %p is the process id, %h the host's name, "-" standard output; compressed where it ends in ".gz". The file
  /// is created by `open`, mode 0600.
  explicit jsonl_sink(std::string path = "cutrace-%h-%p.jsonl", const jsonl_options& options = {})
      : path_(std::move(path)), form_(options.form), limits_(options.file), paired_(options.hold_lines) {}

  const char* name() const noexcept override { return "jsonl"; }
  const char* destination() const noexcept override { return file_.path().c_str(); }
  /// Path of the file, once open.
  const std::string& path() const noexcept { return file_.path(); }

  void open(const trace_info& info) override {
    file_.open(path_.c_str(), detail::publish::at_once, limits_);
    json_.clear();
    detail::info_fields(json_, info);
    info_ = json_.view();
    start_ns_ = newest_ns_ = info.start.trace_ns;
    write_header();
  }

  void write(event_view events) override {
    for (const event& e : events) {
      if (CUTRACE_UNLIKELY(file_.is_full(held()))) {
        file_.leave_out(1);
        continue;
      }
      if (form_ == jsonl_form::events) {
        write_event(e);
      } else {
        write_pair(e);
      }
      if (file_.has_parts()) newest_ns_ = e.end_ns;
      if (CUTRACE_UNLIKELY(file_.part_is_full(held()) && !file_.is_full(held()))) next_part();
    }
  }

  std::uint64_t left_out() const noexcept override { return file_.left_out(); }
  const char* left_out_because() const noexcept override { return file_.left_out_because(); }
  std::uint64_t arrived() const noexcept override { return file_.arrived(); }

  void flush() override {
    if (lines_ > lines_at_start_ && file_.part_is_old()) next_part();
    file_.flush();
  }

  void close(const trace_summary& summary) override {
    if (!file_.is_open()) return;  // opening or writing failed before, which was reported
    begin_footer(summary.stop.trace_ns);
    detail::summary_fields(json_, summary);
    end_footer();
    file_.close();
  }

 private:
  void write_header() {
    lines_ = 0;
    begin("header", start_ns_, 0);
    if (form_ == jsonl_form::paired) paired_begin('B', start_ns_, 0, "trace", "header");
    json_.raw(info_);
    if (file_.has_parts()) json_.field("part", file_.part());
    write_line();
    for (const std::string& lines : descriptions_.all()) file_.write(lines);
    lines_ += descriptions_.all().size() * (form_ == jsonl_form::paired ? 2 : 1);
    lines_at_start_ = lines_;
  }

  void begin_footer(std::int64_t ts_ns) {
    paired_.drain([this](const std::string& line, bool ends) { write_held(line, ends); });
    begin("footer", ts_ns, 0);
    if (form_ == jsonl_form::paired) paired_begin('E', ts_ns, 0, "trace", "footer");
  }
  void end_footer() {
    if (file_.has_parts()) json_.field("part", file_.part());
    json_.field("lines", lines_);
    write_line();
  }

  /// Totals are not known before the end of the trace, and stand in the last part only.
  CUTRACE_NOINLINE void next_part() {
    begin_footer(newest_ns_);
    json_.field("next", file_.next_name());
    end_footer();
    file_.next_part();
    write_header();
  }

  /// Opens a line of the canonical form; the paired form writes its own beginning.
  void begin(std::string_view type, std::int64_t ts_ns, std::int64_t dur_ns) {
    json_.clear();
    json_.begin_object();
    if (form_ == jsonl_form::paired) return;
    json_.field("v", detail::json_schema_version);
    json_.field("type", type);
    json_.field("ts_ns", ts_ns);
    json_.field("dur_ns", dur_ns);
  }

  void write_event(const event& e) {
    begin(detail::type_word(e), e.start_ns, detail::difference_ns(e.end_ns, e.start_ns));
    detail::optional_field(json_, "name", e.name);
    detail::event_fields(json_, e, stages_);
    write_line();
    file_.event_ends();
    if (CUTRACE_UNLIKELY(file_.has_parts() && descriptions_.wanted(e))) descriptions_.add(e, std::string(json_.view()));
  }

  void write_pair(const event& e) {
    const std::uint64_t op = ++operations_;
    const std::int64_t end_ns = e.end_ns < e.start_ns ? e.start_ns : e.end_ns;
    const std::string_view type = detail::type_word(e);
    begin(type, e.start_ns, 0);
    paired_begin('B', e.start_ns, op, detail::view_of(e.name), type);
    detail::event_fields(json_, e, stages_);
    hold_line(e.start_ns, false);
    const bool kept = file_.has_parts() && descriptions_.wanted(e);
    std::string both;
    if (CUTRACE_UNLIKELY(kept)) both = json_.view();
    begin(type, end_ns, 0);
    paired_begin('E', end_ns, op, detail::view_of(e.name), type);
    json_.field("dur_ns", detail::difference_ns(e.end_ns, e.start_ns));
    hold_line(end_ns, true);
    if (CUTRACE_UNLIKELY(kept)) descriptions_.add(e, both.append(json_.view()));
  }

  void paired_begin(char phase, std::int64_t ts, std::uint64_t op, std::string_view name, std::string_view type) {
    json_.field("ts", ts);
    json_.field("op_id", op);
    json_.field("phase", std::string_view(&phase, 1));
    json_.field("name", name);
    json_.key("details");
    json_.begin_object();
    json_.field("v", detail::json_schema_version);
    json_.field("type", type);
  }

  void write_line() {
    finish_line();
    file_.write(json_.view());
  }

  void hold_line(std::int64_t ts_ns, bool ends) {
    finish_line();
    paired_.add(ts_ns, json_.view(), ends, [this](const std::string& line, bool last) { write_held(line, last); });
  }
  void write_held(const std::string& line, bool ends) {
    file_.write(line);
    if (ends) file_.event_ends();
  }

  /// What is kept back, for the limits of the file. How little it will be when compressed is not known.
  std::size_t held() const noexcept { return file_.is_compressed() ? 0 : paired_.bytes(); }

  void finish_line() {
    if (form_ == jsonl_form::paired) json_.end_object();
    json_.end_object();
    json_.new_line();
    ++lines_;
  }

  std::string path_;
  jsonl_form form_;
  file_limits limits_;
  detail::paired_lines paired_;
  detail::trace_file file_;
  detail::json_text json_;
  detail::membership_fields stages_;
  std::string info_;  ///< fields of the header
  detail::kept_descriptions<std::string> descriptions_;
  std::int64_t start_ns_ = 0;
  std::int64_t newest_ns_ = 0;        ///< end of the newest event of a part
  std::uint64_t lines_ = 0;           ///< lines in this part
  std::uint64_t lines_at_start_ = 0;  ///< lines in this part before its first event
  std::uint64_t operations_ = 0;
};

CUTRACE_END_NAMESPACE
