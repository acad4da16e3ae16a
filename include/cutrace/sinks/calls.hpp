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
#include <cutrace/detail/trace_file.hpp>
#include <cutrace/sink.hpp>
#include <cutrace/sinks/calls_text.hpp>
#include <string>
#include <string_view>
#include <utility>

CUTRACE_BEGIN_NAMESPACE

class calls_sink : public sink {
 public:
  /// Empty: standard error. Else %p is the process id, %h the host's name, "-" standard output; compressed where it
  /// ends in ".gz".
  explicit calls_sink(std::string path = {}, const file_limits& limits = {})
      : path_(std::move(path)), limits_(limits) {}

  const char* name() const noexcept override { return "calls"; }
  const char* destination() const noexcept override { return file_.path().c_str(); }

  void open(const trace_info& info) override {
    if (path_.empty()) {
      file_.adopt(STDERR_FILENO, "standard error");
    } else {
      file_.open(path_.c_str(), detail::publish::at_once, limits_);
    }
    header_.clear();
    detail::calls_header(header_, info);
    begin_part();
  }

  void write(event_view events) override {
    for (const event& e : events) {
      if (CUTRACE_UNLIKELY(file_.is_full())) {
        file_.leave_out(1);
        continue;
      }
      line_.clear();
      detail::calls_line(line_, e);
      file_.write(line_);
      empty_ = false;
      if (CUTRACE_UNLIKELY(file_.part_is_full() && !file_.is_full())) next_part();
    }
  }

  std::uint64_t left_out() const noexcept override { return file_.left_out(); }
  const char* left_out_because() const noexcept override { return file_.left_out_because(); }

  void flush() override {
    if (!empty_ && file_.part_is_old()) next_part();
    file_.flush();
  }

  void close(const trace_summary& summary) override {
    if (!file_.is_open()) return;  // it failed before and said so
    line_.clear();
    detail::calls_footer(line_, summary);
    file_.write(line_);
    file_.close();
  }

 private:
  void begin_part() {
    file_.write(header_);
    empty_ = true;
  }
  CUTRACE_NOINLINE void next_part() {
    file_.write("# goes on in " + file_.next_name() + "\n");
    file_.next_part();
    begin_part();
  }

  std::string path_;
  file_limits limits_;
  std::string header_;
  std::string line_;
  detail::trace_file file_;
  bool empty_ = true;  ///< no event is in this part
};

CUTRACE_END_NAMESPACE
