// SPDX-License-Identifier: Apache-2.0
// The data of the HTML report as one JSON object: the head, the tables and the charts. The words are those of the
// terminal report. The scripts of assets/html/ read the object; they know the fields of inner lists by their position.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cutrace/analysis/breakdown.hpp>
#include <cutrace/analysis/category.hpp>
#include <cutrace/analysis/finding.hpp>
#include <cutrace/analysis/idle_watch.hpp>
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
#include <string>
#include <string_view>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace html {

/// The owner (breakdown.hpp: what a nanosecond is counted for) whose colour a gap of cause `c` has.
inline analysis::owner looks_of(analysis::idle_cause c) noexcept {
  constexpr analysis::owner of[] = {analysis::owner::host_stage,  analysis::owner::host_sync,
                                    analysis::owner::host_launch, analysis::owner::host_memory,
                                    analysis::owner::nothing,     analysis::owner::nothing,
                                    analysis::owner::nothing};
  return of[static_cast<std::size_t>(c)];
}

/// Results that only an analysis of the whole trace has. The page shows them instead of its own results, or beside
/// them.
struct whole_trace {
  /// Cells as text; the first column is aligned left.
  struct table {
    std::string title, hint;
    std::vector<std::string> columns;
    std::vector<std::vector<std::string>> rows;
  };
  std::string answer;
  std::vector<analysis::finding> found;   ///< none: "nothing stands out"
  std::vector<analysis::named_gap> gaps;  ///< the longest
  analysis::idle_report idle;
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
        idle_(data.report.idle.report(time_.window.end_ns)),
        stages_(data.report.stages.rows()),
        numbers_(data.report.numbers.numbers()) {}

  /// Fields of the open object.
  CUTRACE_NOINLINE void write() {
    head();
    if (whole_ != nullptr) findings(), tables();
    owners();
    stages();
    devices();
    operations("gpu", data_.report.gpu_operations);
    operations("calls", data_.report.calls);
    copies();
    idle();
    gaps();
    memory();
  }

  analysis::interval window() const noexcept { return time_.window; }

 private:
  static constexpr std::size_t shown_names = 500;
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
    const ascii::answer_source of{time_,
                                  idle_,
                                  stages_,
                                  data_.report.gpu_operations,
                                  data_.report.calls,
                                  data_.report.time.devices().size(),
                                  nullptr,
                                  end_,
                                  end_.totals.lost_total(),
                                  data_.report.alarms};
    json_.field("answer", std::string_view(whole_ != nullptr ? whole_->answer : ascii::answer(of).text()));
    json_.key("notes");
    json_.begin_array();
    notes();
    json_.end_array();
  }

  /// The last section of the terminal report, and what the page lacks for want of memory, a line each.
  CUTRACE_NOINLINE void notes() {
    ascii::page page(4000, false, true);
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
      json_.value(t.contexts().stages_refused()
                      ? "memory limit: some events of the timeline do not show their stage and requests"
                      : "memory limit: some events of the timeline do not show their requests");
  }

  /// [title, what, advice, ns that a fix can win, [[start, end, words] of each proof]]
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

  /// [words, whether on the GPU, ns, permille, events, ns of the host alone (whatever the GPU did), permille of those,
  /// whether it is the bottleneck, number of the owner]
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
    for (const ascii::device_row& d : ascii::device_rows(data_.report)) {
      json_.begin_object();
      json_.field("device", d.device);
      json_.field("name", d.name.empty() ? std::string_view("(not described)") : d.name);
      json_.field("busy_ns", d.busy_ns);
      json_.field("active_ns", d.active_ns);
      json_.field("idle_ns", d.idle_ns);
      json_.field("gaps", d.gaps);
      json_.field("approximate", d.approximate);
      json_.field("idle_approximate", d.idle_approximate);
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

  /// [name, category, count, total, mean, shortest, longest, failed, p50, p90, p99]; times in ns. The percentiles are
  /// missing where they are not known.
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
      if (o.percentiles)
        for (const std::uint64_t ns : {o.p50_ns, o.p90_ns, o.p99_ns}) json_.value(ns);
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

  /// [words of the cause, gaps, ns, stage and call to blame for most of it]
  CUTRACE_NOINLINE void idle() {
    json_.key("idle");
    json_.begin_array();
    const analysis::idle_report& r = whole_ != nullptr ? whole_->idle : idle_;
    const auto row = [this](const char* cause, const analysis::idle_total& t, const std::string& whom) {
      if (t.ns == 0) return;
      json_.begin_array();
      json_.value(cause);
      json_.value(t.count);
      json_.value(t.ns);
      json_.value(std::string_view(whom));
      json_.end_array();
    };
    for (std::size_t c = 0; c < analysis::idle_cause_count; ++c) {
      const analysis::idle_cause cause = static_cast<analysis::idle_cause>(c);
      const analysis::idle_blame* most = r.most_of(cause);
      row(ascii::words_of_cause(cause), r.by_cause[c], most == nullptr ? std::string() : whom(most->stage, most->call));
    }
    row("before the first and after the last work", {r.around_ns(), 0}, "");
    json_.end_array();
  }
  static std::string whom(const std::string& stage, const std::string& call) {
    return stage + (stage.empty() || call.empty() ? "" : ": ") + call;
  }

  /// [device, start, length, words of the cause, number of the owner, stage and call to blame, name of what came next],
  /// in order of device and time
  CUTRACE_NOINLINE void gaps() {
    std::vector<analysis::named_gap> list = whole_ != nullptr ? whole_->gaps : data_.report.idle.longest();
    std::sort(list.begin(), list.end(), [](const analysis::named_gap& a, const analysis::named_gap& b) {
      return a.device != b.device ? a.device < b.device : a.when.start_ns < b.when.start_ns;
    });
    json_.key("gaps");
    json_.begin_array();
    for (const analysis::named_gap& g : list) {
      json_.begin_array();
      json_.value(g.device);
      json_.value(g.when.start_ns);
      json_.value(g.when.length_ns());
      json_.value(ascii::words_of_cause(g.cause));
      json_.value(static_cast<unsigned>(looks_of(g.cause)));
      json_.value(std::string_view(whom(g.stage, g.call)));
      json_.value(std::string_view(g.next));
      json_.end_array();
    }
    json_.end_array();
    json_.field("gap_count", (whole_ != nullptr ? whole_->idle : idle_).all.count);
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
  analysis::idle_report idle_;
  std::vector<analysis::stage_time> stages_;
  analysis::trace_numbers numbers_;
};

}  // namespace html
CUTRACE_END_NAMESPACE
