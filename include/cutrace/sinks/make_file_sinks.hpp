// SPDX-License-Identifier: Apache-2.0
// The sinks for programs, chrome, jsonl, perfetto and prometheus, as sink_registry.hpp names them, and the one behind
// session::on_request_done. Compiled in one source file of a program; in more it does no harm. Without protozero's
// headers the name "perfetto" remains, and says what is missing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cutrace/analysis/request_watch.hpp>
#include <cutrace/clock.hpp>
#include <cutrace/config.hpp>
#include <cutrace/request_done.hpp>
#include <cutrace/sink.hpp>
#include <cutrace/sinks/chrome.hpp>
#include <cutrace/sinks/jsonl.hpp>
#include <cutrace/sinks/prometheus.hpp>
#include <cutrace/sinks/sink_registry.hpp>
#include <cutrace/sinks/sink_spec.hpp>
#include <exception>
#include <memory>
#include <string>

// Included nowhere else, so no two files of a program can see it differently.
#if !defined(CUTRACE_WITHOUT_PERFETTO) && defined(__has_include)
#if __has_include(<protozero/pbf_writer.hpp>)
#include <cutrace/sinks/perfetto.hpp>
#define CUTRACE_HAS_PERFETTO_SINK 1
#endif
#endif

CUTRACE_BEGIN_NAMESPACE

/// The sink behind session::on_request_done: hands requests that are done to the program's function.
class request_done_sink final : public sink {
 public:
  request_done_sink(request_done_handler handler, void* user, const analysis::request_watch_limits& limits = {})
      : handler_(handler), user_(user), watch_(limits) {}

  const char* name() const noexcept override { return "on_request_done"; }

  void open(const trace_info& about) override {
    before_ns_ = static_cast<std::int64_t>(about.start.monotonic_ns) - about.start.trace_ns;
  }

  void write(event_view events) override {
    written_at_ns_ = now_ns();
    for (const event& e : events) {
      watch_.add(e);
      // Descriptions come ahead of events that still wait to be ordered, so they do not count. No later than now: a
      // time in the future would settle requests that are still at work.
      if (!e.late && e.kind < event_kind::process)
        horizon_ns_ = std::max(horizon_ns_, std::min(e.end_ns, written_at_ns_));
    }
    watch_.advance(horizon_ns_);
    report();
  }

  /// Where no event comes, the horizon (events that end before it have come) moves on by the time since the last write:
  /// an event that ends before the new horizon would have come by now.
  void flush() override {
    if (horizon_ns_ == INT64_MIN) return;
    watch_.advance(horizon_ns_ + std::max<std::int64_t>(0, now_ns() - written_at_ns_));
    report();
  }

  void close(const trace_summary&) override {
    watch_.finish();
    report();
  }

  /// Requests whose handler threw, and events that came after their request had been reported.
  std::uint64_t left_out() const noexcept override { return failures_ + watch_.too_late(); }
  const char* left_out_because() const noexcept override {
    return failures_ > 0 ? because_ : "they came after their request had been reported";
  }

 private:
  std::int64_t now_ns() const noexcept { return static_cast<std::int64_t>(clock::monotonic_ns()) - before_ns_; }

  void report() {
    for (const request_done& r : watch_.done()) {
      try {
        handler_(r, user_);
      } catch (const std::exception& e) {
        failed(e.what());
      } catch (...) {
        failed("something that is no std::exception");
      }
    }
    watch_.clear_done();
  }
  CUTRACE_NOINLINE void failed(const char* what) noexcept {
    if (failures_++ == 0) std::snprintf(because_, sizeof(because_), "the function that it calls threw: %s", what);
  }

  request_done_handler handler_;
  void* user_;
  analysis::request_watch watch_;
  std::int64_t before_ns_ = 0;  ///< CLOCK_MONOTONIC at the trace's time 0
  std::int64_t horizon_ns_ = INT64_MIN;
  std::int64_t written_at_ns_ = 0;
  std::uint64_t failures_ = 0;
  char because_[160] = "";
};

namespace detail CUTRACE_LOCAL {

CUTRACE_WEAK std::unique_ptr<sink> make_chrome_sink(sink_spec& spec) {
  const file_limits limits = take_file_limits(spec);
  const std::string path = spec.take_path();
  return std::unique_ptr<sink>(new chrome_sink(path.empty() ? "cutrace-%h-%p.json" : path, limits));
}
CUTRACE_WEAK std::unique_ptr<sink> make_jsonl_sink(sink_spec& spec) {
  jsonl_options options;
  if (spec.take_choice("form", {"events", "paired"}) == "paired") options.form = jsonl_form::paired;
  options.hold_lines = spec.take_number("hold", options.hold_lines, 1000000);
  options.file = take_file_limits(spec);
  const std::string path = spec.take_path();
  return std::unique_ptr<sink>(path.empty() ? new jsonl_sink("cutrace-%h-%p.jsonl", options)
                                            : new jsonl_sink(path, options));
}
#if defined(CUTRACE_HAS_PERFETTO_SINK)
CUTRACE_WEAK std::unique_ptr<sink> make_perfetto_sink(sink_spec& spec) {
  perfetto_options options;
  options.arguments = spec.take_choice("arguments", {"no", "yes"}) == "yes";
  options.file = take_file_limits(spec);
  const std::string path = spec.take_path();
  return std::unique_ptr<sink>(path.empty() ? new perfetto_sink("cutrace-%h-%p.pftrace", options)
                                            : new perfetto_sink(path, options));
}
#else
CUTRACE_WEAK std::unique_ptr<sink> make_perfetto_sink(sink_spec& spec) {
  spec.fail(
      "this program was built without the perfetto sink: the headers of protozero were missing (Debian: "
      "libprotozero-dev); install them and build again, or choose chrome, whose files ui.perfetto.dev opens too");
}
#endif
CUTRACE_WEAK std::unique_ptr<sink> make_prometheus_sink(sink_spec& spec) {
  prometheus_options options;
  const std::string to = spec.take_plain_path();
  if (!to.empty()) options.to = to;
  options.stages = spec.take_number("stages", options.stages, 1000, 1);
  options.every_s = static_cast<std::uint32_t>(spec.take_number("every", options.every_s, 3600, 1));
  options.readable_by_all = spec.take_choice("readable", {"owner", "all"}) == "all";
  return std::unique_ptr<sink>(new prometheus_sink(options));
}
CUTRACE_WEAK std::unique_ptr<sink> make_request_done_sink(request_done_handler handler, void* user) {
  return std::unique_ptr<sink>(new request_done_sink(handler, user));
}

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
