// SPDX-License-Identifier: Apache-2.0
// The report for a person: where the time went, a timeline, stages, top operations and losses, on one page of text that
// is printed when the session ends. Memory stays bounded for a trace of any length.
#pragma once

#include <sys/ioctl.h>  // TIOCGWINSZ
#include <unistd.h>     // STDERR_FILENO

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cutrace/output/trace_file.hpp>
#include <cutrace/sink.hpp>
#include <cutrace/sinks/ascii/collect.hpp>
#include <cutrace/sinks/ascii/head.hpp>
#include <cutrace/sinks/ascii/tables.hpp>
#include <memory>
#include <string>
#include <vector>

CUTRACE_BEGIN_NAMESPACE

struct ascii_options {
  /// nullptr or "": standard error; "-": standard output; else a file, %p is the process id, %h the host's name.
  const char* path = nullptr;
  std::uint32_t width = 0;  ///< columns of a line, 80 to 400; 0: those of the terminal, 80 to 200, elsewhere 100
  bool color = false;       ///< ANSI bold and red for headings and alarms; everything is readable without
  std::uint32_t top = 10;   ///< rows of each table by name
  /// Memory for all that the sink gathers, at least 512 KiB. What does not fit makes results approximate; the report
  /// names these results.
  std::size_t memory_limit_bytes = std::size_t{8} << 20;
};

class ascii_sink : public sink {
 public:
  explicit ascii_sink(const char* path = nullptr) : ascii_sink(with_path(path)) {}
  explicit ascii_sink(const ascii_options& options)
      : path_(options.path != nullptr ? options.path : ""),
        width_(options.width),
        color_(options.color),
        top_(std::max<std::uint32_t>(options.top, 1)),
        limits_(analysis::bounds::for_bytes(options.memory_limit_bytes)) {}

  const char* name() const noexcept override { return "ascii"; }
  const char* destination() const noexcept override { return file_.path().c_str(); }

  /// @throws error, config_error when the file cannot be written; it gets its name when the report is complete.
  void open(const trace_info& info) override {
    if (path_.empty())
      file_.adopt(STDERR_FILENO, "standard error");
    else
      file_.open(path_.c_str(), detail::publish::at_close);
    who_ = ascii::identity(info);
    data_ = std::make_unique<ascii::collection>(who_.start_ns, limits_, 0);
  }

  void write(event_view events) override {
    if (data_ == nullptr) return;  // open failed and said so
    for (const event& e : events) data_->add(e);
  }

  /// 0: a report that could not be written contains no event.
  std::uint64_t arrived() const noexcept override { return 0; }

  /// @throws error when the report cannot be written.
  void close(const trace_summary& end) override {
    if (data_ == nullptr) return;
    const std::string text = report(end);
    data_.reset();  // first: after a failure nothing is written twice
    file_.write(text);
    file_.close();
  }

  /// The whole report as text. Call after `open` and after the last `write`, on the thread that calls `write`.
  CUTRACE_NOINLINE std::string report(const trace_summary& end) {
    data_->idle.settle(true);
    const ascii::collection& d = *data_;
    const analysis::breakdown_table time = d.time.everything(end.stop.trace_ns);
    const analysis::breakdown_table host = d.time.host(end.stop.trace_ns);
    const std::vector<analysis::stage_time> stages = d.stages.rows();
    const analysis::trace_numbers numbers = d.numbers.numbers();
    const analysis::idle_report idle = d.idle.report(time.window.end_ns);
    const std::vector<ascii::device_row> devices = ascii::device_rows(d);
    const bool gpu_seen = numbers.gpu_operations > 0;
    ascii::page out(columns(), color_, on_terminal() && ascii::terminal_takes_utf8());
    ascii::print_identity(out, who_, end, time, gpu_seen);
    const ascii::answer_source of{time,           idle,    stages, d.gpu_operations,        d.calls,
                                  devices.size(), nullptr, end,    end.totals.lost_total(), d.alarms};
    out.paragraph({"answer   ", ascii::answer(of).text()}, 9, ascii::tone::alarm);
    ascii::breakdown_section(out, time, host).print();
    if (!devices.empty()) ascii::print_idle(out, idle);
    ascii::timeline_section(out, d, time.window).print(stages);
    ascii::print_stages(out, stages, top_, gpu_seen, d.without_stage());
    ascii::print_operations(out, "GPU OPERATIONS", d.gpu_operations, top_);
    ascii::print_operations(out, "HOST CALLS", d.calls, top_);
    ascii::print_devices(out, devices, time.recorded_ns, idle.lengths);
    ascii::numbers_section(out, numbers, time.recorded_ns).print();
    ascii::quality_section(out, end).print(ascii::shortened(d, limits_, time, host, stages),
                                           numbers.launches() > 0 && numbers.gpu_operations == 0);
    return out.text();
  }

 private:
  static ascii_options with_path(const char* path) {
    ascii_options o;
    o.path = path;
    return o;
  }

  /// Columns of a line: `width_`, else those of the terminal now (tty_ioctl(4)), else 100.
  std::size_t columns() const noexcept {
    if (width_ != 0) return std::min<std::size_t>(std::max<std::size_t>(width_, 80), 400);
    winsize size{};
    const int fd = terminal();
    if (fd < 0 || ::ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 100;
    return std::min<std::size_t>(std::max<std::size_t>(size.ws_col, 80), 200);
  }

  /// Descriptor that the report goes to; -1 for a file, which gets no terminal ioctl: a sandbox may end a program that
  /// makes one.
  int terminal() const noexcept { return path_.empty() ? STDERR_FILENO : path_ == "-" ? STDOUT_FILENO : -1; }
  bool on_terminal() const noexcept { return terminal() >= 0 && ::isatty(terminal()) == 1; }

  std::string path_;
  std::uint32_t width_;
  bool color_;
  std::size_t top_;
  analysis::bounds limits_;
  detail::trace_file file_;
  ascii::identity who_;
  std::unique_ptr<ascii::collection> data_;
};

CUTRACE_END_NAMESPACE
