// SPDX-License-Identifier: Apache-2.0
// The report for a browser: one file with where the time went, a timeline to zoom, tables to sort and charts. It loads
// nothing from anywhere, so it can be mailed, kept beside a ticket and opened in ten years. Memory stays bounded for a
// trace of any length.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cutrace/analysis/bounds.hpp>
#include <cutrace/analysis/finding.hpp>
#include <cutrace/output/json_text.hpp>
#include <cutrace/output/output_file.hpp>
#include <cutrace/sink.hpp>
#include <cutrace/sinks/ascii/head.hpp>
#include <cutrace/sinks/html/collect.hpp>
#include <cutrace/sinks/html/page.hpp>
#include <cutrace/sinks/html/summary.hpp>
#include <memory>
#include <string>
#include <utility>

CUTRACE_BEGIN_NAMESPACE

struct html_options {
  /// A file; %p is the process id, %h the host's name, "-" standard output. Created by `open`, mode 0600.
  std::string path = "cutrace-%h-%p.html";
  /// Memory for all that the sink gathers, at least 2 MiB. A third, 8 MiB at most, is for tables and charts, as in the
  /// terminal report; two thirds of the rest are for the events of the timeline, about eleven bytes each. Events that
  /// do not fit are joined with their neighbours. While the file is written, the GPU events of one device take up to 72
  /// bytes each more.
  std::size_t memory_limit_bytes = std::size_t{32} << 20;
};

class html_sink : public sink {
 public:
  explicit html_sink(html_options options = {})
      : path_(std::move(options.path)),
        memory_(std::max(options.memory_limit_bytes, std::size_t{2} << 20)),
        report_memory_(std::min(memory_ / 3, std::size_t{8} << 20)),
        limits_(analysis::bounds::for_bytes(report_memory_)) {}

  const char* name() const noexcept override { return "html"; }
  const char* destination() const noexcept override { return file_.path().c_str(); }

  /// @throws error, config_error when the file cannot be written; it gets its name when the report is complete.
  void open(const trace_info& info) override {
    file_.open(path_.c_str(), detail::publish::at_close);
    who_ = ascii::identity(info);
    data_ = std::make_unique<html::collection>(who_.start_ns, limits_, (memory_ - report_memory_) / 3 * 2);
  }

  void write(event_view events) override {
    if (data_ == nullptr) return;  // open failed and said so
    for (const event& e : events) data_->add(e);
  }

  /// Shows what an analysis of the whole trace has found: the answer, the findings at the page's top, causes of gaps,
  /// and further tables. Call before `close`. A trace that is being recorded has no such analysis.
  void show(html::whole_trace whole) { whole_ = std::make_unique<html::whole_trace>(std::move(whole)); }

  /// 0: a report that could not be written contains no event.
  std::uint64_t arrived() const noexcept override { return 0; }

  /// @throws error when the report cannot be written.
  void close(const trace_summary& end) override {
    if (data_ == nullptr) return;
    const std::unique_ptr<html::collection> data = std::move(data_);  // after a failure nothing is written twice
    data->report.idle.settle(true);
    const ascii::utf8_names names(true);
    detail::json_text json;
    html::model_writer model(json, *data);
    json.begin_object();
    html::summary_writer(json, *data, limits_, who_, end, whole_.get()).write();
    model.write(who_.process_id);
    json.end_object();
    html::write_page(file_,
                     ascii::label(who_.process_name, 60) + " (pid " + std::to_string(who_.process_id) + ") - cutrace",
                     json.view(), model);
    file_.close();
  }

 private:
  std::string path_;
  std::size_t memory_;
  std::size_t report_memory_;
  analysis::bounds limits_;
  detail::output_file file_;
  ascii::identity who_;
  std::unique_ptr<html::collection> data_;
  std::unique_ptr<html::whole_trace> whole_;
};

CUTRACE_END_NAMESPACE
