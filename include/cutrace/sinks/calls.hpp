// SPDX-License-Identifier: Apache-2.0
// What a person reads while the program runs: a line for each call, stage and mark, GPU work indented.
//   [0.001234] cuMemAlloc(bytesize=4000000) -> 0x7f32a4000000 (12.3 us)
//   [0.001240]     kernel gemm grid 12x1x1 block 256x1x1 stream 7 12.3 us, queued 4.1 us, stage decode
// The number in brackets is the time of the beginning in seconds since the session began; lines come in the order of
// ends. Names are made safe for terminals.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cutrace/config.hpp>
#include <cutrace/detail/output_file.hpp>
#include <cutrace/sink.hpp>
#include <cutrace/sinks/calls_text.hpp>
#include <string>
#include <string_view>
#include <utility>

CUTRACE_BEGIN_NAMESPACE

class calls_sink : public sink {
 public:
  /// Empty: standard error. Else %p is the process id, %h the host's name, "-" standard output.
  explicit calls_sink(std::string path = {}) : path_(std::move(path)) {}

  const char* name() const noexcept override { return "calls"; }
  const char* destination() const noexcept override { return file_.path().c_str(); }

  void open(const trace_info& info) override {
    if (path_.empty()) {
      file_.adopt(STDERR_FILENO, "standard error");
    } else {
      file_.open(path_.c_str());
    }
    line_.clear();
    detail::calls_header(line_, info);
    file_.write(line_);
  }

  void write(event_view events) override {
    for (const event& e : events) {
      line_.clear();
      detail::calls_line(line_, e);
      file_.write(line_);
    }
  }

  void flush() override { file_.flush(); }

  void close(const trace_summary& summary) override {
    if (!file_.is_open()) return;  // it failed before and said so
    line_.clear();
    detail::calls_footer(line_, summary);
    file_.write(line_);
    file_.close();
  }

 private:
  std::string path_;
  std::string line_;
  detail::output_file file_;
};

CUTRACE_END_NAMESPACE
