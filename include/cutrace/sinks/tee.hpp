// SPDX-License-Identifier: Apache-2.0
// One sink in front of several. A sink that fails gets no further call and is reported; the others go on.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cutrace/base/write_all.hpp>
#include <cutrace/config.hpp>
#include <cutrace/error.hpp>
#include <cutrace/sink.hpp>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

CUTRACE_BEGIN_NAMESPACE

class tee_sink : public sink {
 public:
  struct failure {
    std::string sink;     ///< its name
    std::string message;  ///< what it threw
    std::uint64_t lost;   ///< events that are not in its output, those of the failed batch included
  };

  /// `on_error` gets one line for each sink that fails; without it the line goes to stderr.
  explicit tee_sink(error_handler on_error = nullptr, void* user = nullptr) : on_error_(on_error), user_(user) {}

  /// Before `open`. The sink is owned, or kept alive by the caller.
  void add(std::unique_ptr<sink> s) {
    branches_.push_back(branch{s.get(), true, {s->name(), {}, 0}, 0});
    owned_.push_back(std::move(s));
  }
  void add(sink& s) { branches_.push_back(branch{&s, true, {s.name(), {}, 0}, 0}); }

  const char* name() const noexcept override { return "tee"; }

  /// @throws cutrace::error when none of the sinks opens; the message gives the reason of each
  void open(const trace_info& info) override {
    bool any = branches_.empty();
    std::string reasons = "no sink could be opened";
    for (branch& b : branches_) {
      attempt(b, [&] { b.target->open(info); });
      any = any || b.works;
      reasons += "; " + b.state.sink + ": " + b.state.message;
    }
    if (!any) throw error(reasons.c_str());
  }

  void write(event_view events) override {
    for (branch& b : branches_) {
      b.given += events.size;
      const bool worked = b.works;
      if (b.works) attempt(b, [&] { b.target->write(events); });
      if (b.works)
        count_left_out(b);
      else if (!worked || b.target->arrived() == UINT64_MAX)
        b.state.lost += events.size;
    }
  }
  void flush() override {
    for (branch& b : branches_) {
      if (b.works) attempt(b, [&] { b.target->flush(); });
    }
  }
  void close(const trace_summary& summary) override {
    for (branch& b : branches_) {
      if (b.works) attempt(b, [&] { b.target->close(summary); });
    }
  }

  /// Sinks that failed or left events out so far. Collector's thread, or after the session.
  std::vector<failure> failures() const {
    std::vector<failure> failed;
    for (const branch& b : branches_) {
      if (!b.works || b.state.lost != 0) failed.push_back(b.state);
    }
    return failed;
  }

 private:
  struct branch {
    sink* target;
    bool works;
    failure state;
    std::uint64_t left_out = 0;  ///< events left out by the sink itself, as far as counted here
    std::uint64_t given = 0;
  };

  template <class Call>
  void attempt(branch& b, Call call) {
    try {
      call();
    } catch (const std::exception& e) {
      fail(b, e.what());
    } catch (...) {
      fail(b, "threw something that is no std::exception");
    }
  }
  void count_left_out(branch& b) {
    const std::uint64_t fresh = b.target->left_out() - b.left_out;
    if (fresh == 0) return;
    b.state.lost += fresh;
    if (b.left_out == 0) report(b, b.target->left_out_because());
    b.left_out += fresh;
  }
  void fail(branch& b, const char* why) {
    b.works = false;
    const std::uint64_t arrived = b.target->arrived();
    if (arrived != UINT64_MAX) b.state.lost = b.given - std::min(arrived, b.given);
    report(b, why);
  }
  void report(branch& b, const char* why) {
    b.state.message = why;
    if (on_error_ != nullptr) {
      on_error_(b.state.sink.c_str(), why, user_);
    } else {
      detail::write_error_line("cutrace: sink %s %s: %s", b.state.sink.c_str(),
                               b.works ? "leaves events out" : "failed", why);
    }
  }

  std::vector<branch> branches_;
  std::vector<std::unique_ptr<sink>> owned_;
  error_handler on_error_;
  void* user_;
};

CUTRACE_END_NAMESPACE
