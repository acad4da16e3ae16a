// SPDX-License-Identifier: Apache-2.0
// Which events of a trace are asked for: within a time, of a stage, a request, a device. A sink in front of another, so
// that it works behind any reader.
#pragma once

#include <cstdint>
#include <cutrace/sink.hpp>
#include <limits>
#include <string>
#include <vector>

#include "trace/trace_reader.hpp"

namespace CLI {
class App;
}

namespace cutrace_tool {

/// A time as the user wrote it: "1.5s", "200ms", "40us", "1000ns". @throws usage_error naming `option`
std::int64_t parse_time(const std::string& text, const char* option);

struct trace_choice {
  std::int64_t from_ns = std::numeric_limits<std::int64_t>::min();
  std::int64_t to_ns = std::numeric_limits<std::int64_t>::max();
  std::vector<std::string> stages;    ///< names; empty: all
  std::vector<std::string> requests;  ///< numbers or names; empty: all
  std::vector<std::uint32_t> devices;

  /// Whether it belongs to what was chosen. What describes processes, threads and devices always does, losses and
  /// windows whenever the time does.
  bool wants(const cutrace::event& e) const;
};

/// The choice as the command line says it.
struct choice_words {
  trace_choice choice;
  std::string from, to;

  /// --from, --to, --stage, --request and --device.
  void add_options(CLI::App& command);
  bool empty() const;
  /// The choice with its times. @throws usage_error
  const trace_choice& parsed();
};

class filter_sink : public cutrace::sink {
 public:
  filter_sink(cutrace::sink& to, trace_choice choice) : to_(to), choice_(std::move(choice)) {}
  const char* name() const noexcept override { return to_.name(); }
  void open(const cutrace::trace_info& info) override { to_.open(info); }
  void write(cutrace::event_view events) override;
  void flush() override { to_.flush(); }
  /// The totals are those of the whole trace; a note says what was kept.
  void close(const cutrace::trace_summary& summary) override;
  std::uint64_t kept() const noexcept { return kept_; }

 private:
  cutrace::sink& to_;
  trace_choice choice_;
  std::vector<cutrace::event> batch_;
  std::uint64_t kept_ = 0, seen_ = 0, described_ = 0;

 public:
  /// Without what always is kept.
  std::uint64_t chosen() const noexcept { return kept_ - described_; }
};

struct chosen_outcome : cutrace_reading::outcome {
  bool nothing_chosen = false;  ///< although something was asked for

  /// One line on stderr, where that is so.
  void tell_nothing_chosen() const;
};

/// As read_trace, of what was chosen. @throws usage_error
chosen_outcome read_chosen(const std::vector<std::string>& files, cutrace::sink& to, choice_words& choice, bool quiet);

}  // namespace cutrace_tool
