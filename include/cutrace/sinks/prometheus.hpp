// SPDX-License-Identifier: Apache-2.0
// Numbers for dashboards: histograms of stages, launch delays and requests, counters and gauges, in Prometheus's text
// format, served at an address or written to a file again and again (for node_exporter's textfile collector). Labels
// are stages, devices and categories, a bounded number of them; never kernels or requests. See docs/prometheus.md.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <cutrace/clock.hpp>
#include <cutrace/config.hpp>
#include <cutrace/output/output_file.hpp>
#include <cutrace/output/path_pattern.hpp>
#include <cutrace/sink.hpp>
#include <cutrace/sinks/prometheus/address.hpp>
#include <cutrace/sinks/prometheus/metrics.hpp>
#include <cutrace/sinks/prometheus/page.hpp>
#include <cutrace/sinks/prometheus/server.hpp>
#include <memory>
#include <string>
#include <utility>

CUTRACE_BEGIN_NAMESPACE

struct prometheus_options {
  /// An address to serve at (prometheus/address.hpp), else a file: %p is the process id, %h the host's name, "-"
  /// standard output. Pipes and standard output get one page, at the end.
  std::string to = "cutrace-%h-%p.prom";
  std::size_t stages = 32;         ///< most stage names, and most counter names, that get series of their own
  std::uint32_t every_s = 5;       ///< seconds between two versions of the file
  std::uint32_t settle_ms = 2000;  ///< how long late GPU records of a stage that ended are waited for
  bool readable_by_all = false;    ///< the file gets mode 0644 instead of 0600: for collectors of another user
};

class prometheus_sink : public sink {
 public:
  explicit prometheus_sink(prometheus_options options = {}) : options_(std::move(options)) {}

  const char* name() const noexcept override { return "prometheus"; }
  /// The file, or the page's URL.
  const char* destination() const noexcept override { return serves_ ? server_.url().c_str() : file_.path().c_str(); }

  /// @throws config_error, error where the address or the file cannot be had
  void open(const trace_info& info) override {
    start_realtime_ns_ = info.start.realtime_ns;
    metrics_ = std::make_unique<prometheus::metrics>(options_.stages, std::uint64_t{options_.settle_ms} * 1000000);
    serves_ = prometheus::is_address(options_.to);
    if (serves_) {
      server_.start(detail::expand_path(options_.to), text(true));
      return;
    }
    open_file(options_.to.c_str());
    struct stat as {};
    again_ = ::stat(file_.path().c_str(), &as) != 0 || S_ISREG(as.st_mode);
    if (options_.to == "-") again_ = false;
  }

  void write(event_view events) override {
    if (metrics_ == nullptr || events.size == 0) return;
    const std::uint64_t now = clock::monotonic_ns();
    for (const event& e : events) metrics_->add(e, now);
    taken_ += events.size;
  }

  void flush() override {
    if (metrics_ == nullptr) return;
    const std::uint64_t now = clock::monotonic_ns();
    metrics_->settle(now);
    if (serves_) return server_.publish(text(true));
    if (!again_ || now < next_file_ns_) return;
    next_file_ns_ = now + std::uint64_t{options_.every_s} * 1000000000;
    file_.write(text(true));
    file_.close();
    in_file_ = taken_;
    // The pattern is now the file's path, since %u would choose another name. Opened at once, so that no other process
    // takes the name.
    open_file(detail::pattern_of_path(file_.path()).c_str());
  }

  /// Events in the last version of the file. A page that is served has all of them.
  std::uint64_t arrived() const noexcept override { return serves_ ? UINT64_MAX : in_file_; }

  void close(const trace_summary& summary) override {
    if (metrics_ == nullptr || (!serves_ && !file_.is_open())) return;  // a failure, reported before
    metrics_->settle_all();
    for (std::size_t i = 0; i < loss_cause_count; ++i)
      metrics_->lost[i] = std::max(metrics_->lost[i], summary.totals.lost[i]);
    const std::string last = text(false);
    metrics_.reset();
    if (serves_) return server_.stop();
    file_.write(last);
    file_.close();
  }

 private:
  void open_file(const char* pattern) {
    file_.open(pattern, detail::publish::at_close);
    if (options_.readable_by_all) file_.let_all_read();
  }
  CUTRACE_NOINLINE std::string text(bool running) const {
    return prometheus::renderer(*metrics_).render(start_realtime_ns_, running);
  }

  prometheus_options options_;
  std::unique_ptr<prometheus::metrics> metrics_;
  detail::output_file file_;
  prometheus::metrics_server server_;
  std::uint64_t start_realtime_ns_ = 0;
  std::uint64_t next_file_ns_ = 0;
  std::uint64_t taken_ = 0, in_file_ = 0;  ///< events received, and those in the file
  bool serves_ = false;
  bool again_ = false;
};

CUTRACE_END_NAMESPACE
