// SPDX-License-Identifier: Apache-2.0
// The sink behind session::on_request_done: hands requests that are done to the program's function.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cutrace/analysis/request_watch.hpp>
#include <cutrace/clock.hpp>
#include <cutrace/request_done.hpp>
#include <cutrace/sink.hpp>
#include <exception>

CUTRACE_BEGIN_NAMESPACE

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
      // Descriptions overtake the window. A time from the future would settle what is still at work.
      if (!e.late && e.kind < event_kind::process)
        horizon_ns_ = std::max(horizon_ns_, std::min(e.end_ns, written_at_ns_));
    }
    watch_.advance(horizon_ns_);
    tell();
  }

  /// Where nothing happens, time goes on all the same: whatever was recorded as long after the last event as that time
  /// ago it was written would have come by now.
  void flush() override {
    if (horizon_ns_ == INT64_MIN) return;
    watch_.advance(horizon_ns_ + std::max<std::int64_t>(0, now_ns() - written_at_ns_));
    tell();
  }

  void close(const trace_summary&) override {
    watch_.finish();
    tell();
  }

  /// Requests whose handler threw, and events that came after their request had been told.
  std::uint64_t left_out() const noexcept override { return failures_ + watch_.too_late(); }
  const char* left_out_because() const noexcept override {
    return failures_ > 0 ? because_ : "they came after their request had been told";
  }

 private:
  std::int64_t now_ns() const noexcept { return static_cast<std::int64_t>(clock::monotonic_ns()) - before_ns_; }

  void tell() {
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

CUTRACE_END_NAMESPACE
