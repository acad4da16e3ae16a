// SPDX-License-Identifier: Apache-2.0
// The data of the HTML report as one JSON object: the head, the tables and the charts. The words are those of the
// terminal report. assets/html/ reads it; fields that are lists of lists stand there in the same order.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cutrace/analysis/breakdown.hpp>
#include <cutrace/analysis/category.hpp>
#include <cutrace/analysis/finding.hpp>
#include <cutrace/analysis/gap_owners.hpp>
#include <cutrace/analysis/operations.hpp>
#include <cutrace/names.hpp>
#include <cutrace/output/json_text.hpp>
#include <cutrace/sink.hpp>
#include <cutrace/sinks/ascii/head.hpp>
#include <cutrace/sinks/ascii/tables.hpp>
#include <cutrace/sinks/common/finding_text.hpp>
#include <cutrace/sinks/common/json_trace.hpp>
#include <cutrace/sinks/html/collect.hpp>
#include <cutrace/sinks/html/timeline.hpp>
#include <map>
#include <string>
#include <string_view>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace html {

// The longest idle stretches of the GPUs and what the host did meanwhile (analysis/gap_owners.hpp), from the rows of
// the HTML report's timeline.

class gap_finder {
 public:
  /// @param recorded where the trace was paused or sampled, what was recorded; else the whole window
  gap_finder(const timeline& from, std::vector<analysis::interval> recorded, std::size_t limit)
      : from_(from), owners_(std::move(recorded), limit) {}

  /// In order of device and time. Takes up to 72 bytes for each GPU event of one device meanwhile.
  CUTRACE_NOINLINE std::vector<analysis::owned_gap> find() {
    for (auto row = from_.rows().begin(); row != from_.rows().end();) {
      if (!row->first.on_gpu()) {
        ++row;
        continue;
      }
      const std::uint32_t device = row->first.device;
      std::vector<analysis::gap_owners::work> all;
      all.reserve(count_of(device));
      for (; row != from_.rows().end() && row->first.on_gpu() && row->first.device == device; ++row)
        row->second.for_each([&](const record& r) { all.push_back({{r.start_ns, r.end_ns()}, r.name}); });
      owners_.add_device(device, all);
    }
    for (const auto& row : from_.rows())
      if (!row.first.on_gpu()) explain(row.first.kind, row.second);
    explain(row_kind::driver_calls, from_.other_host());
    return owners_.result();
  }
  /// Gaps of all devices, found or not.
  std::uint64_t count() const noexcept { return owners_.count(); }

 private:
  std::size_t count_of(std::uint32_t device) const {
    std::uint64_t n = 0;
    for (const auto& row : from_.rows()) n += row.first.on_gpu() && row.first.device == device ? row.second.count() : 0;
    return static_cast<std::size_t>(n);
  }

  CUTRACE_NOINLINE void explain(row_kind kind, const packed_records& row) {
    if (kind == row_kind::spans || kind == row_kind::marks || kind == row_kind::ioctls || kind == row_kind::system)
      return;
    const bool is_stage = kind == row_kind::stages;
    row.for_each([&](const record& r) {
      owners_.add_host({r.start_ns, r.end_ns()}, r.name, is_stage,
                       is_stage ? analysis::category::other : category_of(r.name));
    });
  }

  analysis::category category_of(std::uint32_t name) {
    if (name >= categories_.size()) categories_.resize(from_.names().size(), unknown);
    std::uint8_t& c = categories_[name];
    if (c == unknown) {
      const std::string& s = from_.names().name(name);
      text t;
      t.data = s.data();
      t.size = static_cast<std::uint32_t>(s.size());
      c = static_cast<std::uint8_t>(analysis::category_of_call(t));
    }
    return static_cast<analysis::category>(c);
  }

  static constexpr std::uint8_t unknown = 255;
  const timeline& from_;
  analysis::gap_owners owners_;
  std::vector<std::uint8_t> categories_;
};

/// What only an analysis of the whole trace knows, to be shown instead of what the page finds itself, or beside it.
struct whole_trace {
  struct gap {
    std::uint32_t device = 0;
    analysis::interval when;
    std::string cause;                                      ///< in words
    analysis::owner looks_like = analysis::owner::nothing;  ///< whose color it has
    std::string place;                                      ///< stage or call to blame, empty: none
    std::string next;                                       ///< what ended it
  };
  /// Cells as they are shown; the first column stands on the left.
  struct table {
    std::string title, hint;
    std::vector<std::string> columns;
    std::vector<std::vector<std::string>> rows;
  };
  std::string answer;
  std::vector<analysis::finding> found;  ///< none: "nothing stands out"
  std::vector<gap> gaps;                 ///< in order of device and time
  std::uint64_t gap_count = 0;
  std::vector<table> tables;
};

class summary_writer {
 public:
  summary_writer(detail::json_text& json, const collection& data, const analysis::bounds& limits,
                 const ascii::identity& who, const trace_summary& end, const whole_trace* whole = nullptr)
      : json_(json),
        data_(data),
        limits_(limits),
        who_(who),
        end_(end),
        whole_(whole),
        time_(data.report.time.everything(end.stop.trace_ns)),
        host_(data.report.time.host(end.stop.trace_ns)),
        stages_(data.report.stages.rows()),
        numbers_(data.report.numbers.numbers()) {}

  /// Fields of the open object.
  CUTRACE_NOINLINE void write() {
    head();
    if (whole_ != nullptr) findings(), tables();
    owners();
    stages();
    devices();
    for (std::uint32_t n = 1; n < data_.events.names().size(); ++n) number_of_[data_.events.names().name(n)] = n;
    operations("gpu", data_.report.gpu_operations);
    operations("calls", data_.report.calls);
    copies();
    gaps();
    memory();
  }

  analysis::interval window() const noexcept { return time_.window; }

 private:
  static constexpr std::size_t shown_names = 500;
  static constexpr std::size_t shown_gaps = 500;  ///< of each device
  static constexpr std::size_t columns = 240;

  CUTRACE_NOINLINE void head() {
    json_.field("version", CUTRACE_VERSION_STRING);
    json_.field("process", std::string_view(who_.process_name));
    json_.field("pid", who_.process_id);
    json_.field("host", std::string_view(who_.host_name));
    json_.field("backend", std::string_view(ascii::backend_words(who_, numbers_.gpu_operations > 0)));
    json_.field("clock", std::string_view(who_.clock));
    if (who_.rank >= 0) json_.field("rank", who_.rank);
    if (who_.world_size > 0) json_.field("world_size", who_.world_size);
    json_.field("clock_error_ns", end_.totals.clock_error_ns);
    json_.field("ended_realtime_ms", end_.stop.realtime_ns / 1000000);
    json_.field("start_ns", time_.window.start_ns);
    json_.field("end_ns", time_.window.end_ns);
    json_.field("recorded_ns", time_.recorded_ns);
    json_.field("pieces", time_.pieces);
    json_.field("gpu_busy_ns", time_.gpu_busy_ns());
    json_.field("gpu_seen", numbers_.gpu_operations > 0);
    json_.field("produced", end_.totals.produced);
    json_.field("delivered", end_.totals.delivered);
    json_.field("lost_total", end_.totals.lost_total());
    if (end_.missing != nullptr) json_.field("missing", std::string_view(end_.missing));
    json_.field("launches", numbers_.launches());
    json_.field("kernels", numbers_.kernels + numbers_.graph_launches);
    json_.field("failed_calls", numbers_.failed_calls);
    json_.field("peak_bytes", numbers_.device.peak_live_bytes);
    json_.field("answer", std::string_view(whole_ != nullptr ? whole_->answer
                                                             : ascii::verdict(data_.report, time_, stages_).text()));
    json_.key("notes");
    json_.begin_array();
    notes();
    json_.end_array();
  }

  /// The last section of the terminal report, a line each.
  CUTRACE_NOINLINE void notes() {
    ascii::page page(4000, false);
    ascii::quality_section(page, end_)
        .print(ascii::shortened(data_.report, limits_, time_, host_, stages_),
               numbers_.launches() > 0 && numbers_.gpu_operations == 0);
    std::string_view rest = page.text();
    for (std::size_t at; (at = rest.find('\n')) != std::string_view::npos; rest.remove_prefix(at + 1)) {
      const std::string_view line = rest.substr(0, at);
      if (line.substr(0, 2) == "  ") json_.value(line.substr(line.find_first_not_of(' ')));
    }
    const timeline& t = data_.events;
    if (t.resolution_ns() > 0)
      json_.value(ascii::joined({"memory limit: the timeline shows neighbours shorter than ",
                                 ascii::duration(t.resolution_ns()), " as one; tables and charts count each"}));
    if (t.names().refused() > 0) json_.value("memory limit: some names of the timeline are \"(other names)\"");
    if (t.contexts().refused() > 0)
      json_.value("memory limit: some events of the timeline do not show their stage and requests");
  }

  /// [title, what, advice, ns to win, [[start, end, words] of each proof]]
  CUTRACE_NOINLINE void findings() {
    json_.key("findings");
    json_.begin_array();
    for (const analysis::finding& f : whole_->found) {
      const ascii::finding_words words = ascii::words_of(f, time_.recorded_ns);
      json_.begin_array();
      json_.value(std::string_view(words.title));
      json_.value(std::string_view(words.what));
      json_.value(std::string_view(words.advice));
      json_.value(f.win_ns);
      json_.begin_array();
      for (const analysis::evidence& e : f.proof) {
        json_.begin_array();
        json_.value(e.when.start_ns);
        json_.value(e.when.end_ns);
        json_.value(std::string_view(ascii::words_of(e, time_.window.start_ns)));
        json_.end_array();
      }
      json_.end_array();
      json_.end_array();
    }
    json_.end_array();
  }

  /// {title, hint, columns, rows}
  CUTRACE_NOINLINE void tables() {
    const auto list = [this](const std::vector<std::string>& cells) {
      json_.begin_array();
      for (const std::string& c : cells) json_.value(std::string_view(c));
      json_.end_array();
    };
    json_.key("tables");
    json_.begin_array();
    for (const whole_trace::table& t : whole_->tables) {
      json_.begin_object();
      json_.field("title", std::string_view(t.title));
      json_.field("hint", std::string_view(t.hint));
      json_.key("columns");
      list(t.columns);
      json_.key("rows");
      json_.begin_array();
      for (const std::vector<std::string>& row : t.rows) list(row);
      json_.end_array();
      json_.end_object();
    }
    json_.end_array();
  }

  /// [words, on the GPU, ns, permille, events, host alone ns, its permille, bottleneck]
  CUTRACE_NOINLINE void owners() {
    const auto shares = analysis::permille_of(time_);
    const auto host_shares = analysis::permille_of(host_);
    const std::size_t worst = static_cast<std::size_t>(analysis::bottleneck(time_));
    json_.key("owners");
    json_.begin_array();
    for (std::size_t i = 0; i < analysis::owner_count; ++i) {
      const analysis::owner o = static_cast<analysis::owner>(i);
      if (time_.count[i] == 0 && time_.ns[i] == 0 && host_.ns[i] == 0) continue;
      json_.begin_array();
      json_.value(ascii::words_of(o));
      json_.value(analysis::is_gpu(o));
      json_.value(time_.ns[i]);
      json_.value(shares[i]);
      json_.value(time_.count[i]);
      json_.value(host_.ns[i]);
      json_.value(host_shares[i]);
      json_.value(worst == i && time_.ns[i] > 0);
      json_.value(i);
      json_.end_array();
    }
    json_.end_array();
  }

  CUTRACE_NOINLINE void stages() {
    json_.key("stages");
    json_.begin_array();
    for (const analysis::stage_time& s : stages_) {
      json_.begin_object();
      json_.field("name", std::string_view(s.name));
      json_.field("calls", s.calls);
      json_.field("host_sum_ns", s.host_sum_ns);
      json_.field("longest_ns", s.longest_ns);
      json_.field("host_ns", s.host_ns);
      json_.field("gpu_own_ns", s.gpu_own_ns);
      json_.field("gpu_all_ns", s.gpu_inclusive_ns);
      json_.field("gpu_idle_ns", s.gpu_idle_inside_ns);
      json_.field("requests", s.requests);
      json_.field("requests_about", s.requests_cut ? ">=" : s.requests_exact ? "" : "~");
      json_.field("approximate", s.approximate);
      json_.end_object();
    }
    json_.end_array();
    json_.field("gpu_outside_ns", data_.report.stages.gpu_outside_ns());
  }

  CUTRACE_NOINLINE void devices() {
    json_.key("devices");
    json_.begin_array();
    for (const analysis::device_time& d : data_.report.time.devices()) {
      const auto name = data_.report.device_names.find(d.device);
      json_.begin_object();
      json_.field("device", d.device);
      json_.field("name", name == data_.report.device_names.end() ? std::string_view("(not described)")
                                                                  : std::string_view(name->second));
      json_.field("busy_ns", d.busy_ns);
      json_.field("active_ns", d.active.length_ns());
      json_.field("gaps", d.gap_count);
      json_.key("busy_permille");
      json_.begin_array();
      const auto curve = data_.busy().find(d.device);
      if (curve != data_.busy().end())
        for (const std::uint32_t p : curve->second.permille(time_.window, columns)) json_.value(p);
      json_.end_array();
      json_.end_object();
    }
    json_.end_array();
  }

  /// [name, category, count, total, mean, shortest, longest, failed, p50, p90, p99]; times in ns
  CUTRACE_NOINLINE void operations(const char* key, const analysis::operation_table& table) {
    json_.key(key);
    json_.begin_array();
    const std::vector<analysis::operation> rows = table.top(shown_names);
    for (const analysis::operation& o : rows) {
      json_.begin_array();
      json_.value(std::string_view(o.name));
      json_.value(analysis::name_of(o.is));
      json_.value(o.count);
      json_.value(o.total_ns);
      json_.value(static_cast<std::uint64_t>(o.mean_ns()));
      json_.value(o.shortest_ns);
      json_.value(o.longest_ns);
      json_.value(o.failed);
      const auto number = number_of_.find(o.name);
      if (number != number_of_.end() && number->second < data_.events.histograms().size()) {
        const analysis::duration_histogram& h = data_.events.histograms()[number->second];
        if (h.count() == o.count)
          for (const unsigned percent : {50u, 90u, 99u})
            json_.value(std::min(std::max(h.percentile_ns(percent), o.shortest_ns), o.longest_ns));
      }
      json_.end_array();
    }
    json_.end_array();
    json_.key(std::string(key) + "_short");
    json_.begin_array();
    for (const std::string& name : ascii::short_names(rows)) json_.value(std::string_view(name));
    json_.end_array();
    json_.field(std::string(key) + "_names", table.size());
    json_.field(std::string(key) + "_total_ns", table.total_ns());
  }

  /// [direction, count, bytes, ns on the GPU]
  CUTRACE_NOINLINE void copies() {
    json_.key("copies");
    json_.begin_array();
    for (std::size_t d = 0; d < analysis::copy_direction_count; ++d) {
      const analysis::copy_total& c = numbers_.copies[d];
      if (c.count == 0) continue;
      json_.begin_array();
      json_.value(to_string(static_cast<copy_direction>(d)));
      json_.value(c.count);
      json_.value(c.bytes);
      json_.value(c.gpu_ns);
      json_.end_array();
    }
    json_.end_array();
  }

  /// [device, start, length, words of the cause, number of the owner, name of the cause, name of what came next]
  CUTRACE_NOINLINE void gaps() {
    const auto row = [this](std::uint32_t device, analysis::interval when, std::string_view cause,
                            analysis::owner looks_like, std::string_view place, std::string_view next) {
      json_.begin_array();
      json_.value(device);
      json_.value(when.start_ns);
      json_.value(when.length_ns());
      json_.value(cause);
      json_.value(static_cast<unsigned>(looks_like));
      json_.value(place);
      json_.value(next);
      json_.end_array();
    };
    json_.key("gaps");
    json_.begin_array();
    std::uint64_t all = 0;
    if (whole_ != nullptr) {
      for (const whole_trace::gap& g : whole_->gaps) row(g.device, g.when, g.cause, g.looks_like, g.place, g.next);
      all = whole_->gap_count;
    } else {
      gap_finder finder(data_.events, data_.recorded(time_.window), shown_gaps);
      for (const analysis::owned_gap& g : finder.find())
        row(g.device, g.when, ascii::words_of(g.cause), g.cause, name(g.cause_name), name(g.next_name));
      all = finder.count();
    }
    json_.end_array();
    json_.field("gap_count", all);
  }
  std::string_view name(std::uint32_t number) const {
    return number == 0 ? std::string_view() : std::string_view(data_.events.names().name(number));
  }

  CUTRACE_NOINLINE void memory() {
    json_.key("memory");
    json_.begin_array();
    for (const level_curve::step& s : data_.memory.steps()) {
      json_.begin_array();
      json_.value(s.at_ns);
      json_.value(s.level);
      json_.end_array();
    }
    json_.end_array();
  }

  detail::json_text& json_;
  const collection& data_;
  const analysis::bounds& limits_;
  const ascii::identity& who_;
  const trace_summary& end_;
  const whole_trace* whole_;
  analysis::breakdown_table time_;
  analysis::breakdown_table host_;
  std::vector<analysis::stage_time> stages_;
  analysis::trace_numbers numbers_;
  std::map<std::string_view, std::uint32_t> number_of_;
};

}  // namespace html
CUTRACE_END_NAMESPACE
