// SPDX-License-Identifier: Apache-2.0
// Which events of a trace are asked for: within a time, of a stage, a request, a device. A sink in front of another, so
// that it works behind any reader. What was chosen is a trace of its own: a choice of time leaves a window event,
// from which every reader knows that the time outside is unknown and not idle; and a choice of anything else leaves the
// trace without other work, which its summary says.
#pragma once

#include <cstdint>
#include <cutrace/sink.hpp>
#include <limits>
#include <set>
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

  /// Whether `e` belongs to what was chosen. Descriptions of processes, threads and devices always do, losses and
  /// windows whenever their time does.
  bool wants(const cutrace::event& e) const;
  bool of_time() const noexcept;  ///< a time was chosen
  /// "stage decode, request 7"; empty where nothing but a time was chosen, or nothing at all.
  std::string words() const;
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

/// What a choice is made for.
enum class chosen_for {
  file,        ///< a trace file, which is written also where it holds no event
  report,      ///< numbers: there are none where nothing was chosen, so the sink is not closed then
  comparison,  ///< as a report, and with a like choice of another trace, so it is not marked as incomplete
};

class filter_sink : public cutrace::sink {
 public:
  filter_sink(cutrace::sink& to, trace_choice choice, chosen_for purpose)
      : to_(to), choice_(std::move(choice)), purpose_(purpose) {}
  const char* name() const noexcept override { return to_.name(); }
  void open(const cutrace::trace_info& info) override;
  void write(cutrace::event_view events) override;
  void flush() override { to_.flush(); }
  /// Totals of losses and of events without stage, times or call are those of the whole trace; events by kind are those
  /// that were kept. A note of the summary says so.
  void close(const cutrace::trace_summary& summary) override;
  std::uint64_t kept() const noexcept { return kept_; }

 private:
  void pass_on();
  void note(const cutrace::event& e);  ///< collects what exists, for messages
  void add_window(std::int64_t stop_ns);

  cutrace::sink& to_;
  trace_choice choice_;
  chosen_for purpose_;
  std::vector<cutrace::event> batch_;
  std::uint64_t kept_ = 0, seen_ = 0, aside_ = 0, windows_ = 0;
  std::uint64_t by_kind_[cutrace::event_kind_count] = {};
  std::int64_t first_ns_ = std::numeric_limits<std::int64_t>::max();  ///< of the trace
  std::int64_t last_ns_ = std::numeric_limits<std::int64_t>::min();
  std::uint32_t process_id_ = 0;
  std::int64_t begin_ns_ = std::numeric_limits<std::int64_t>::max();  ///< of events that are no descriptions
  std::set<std::string> stages_, requests_;                           ///< at most one more than a message names
  std::set<std::uint32_t> devices_;

 public:
  /// Stages, requests or devices that the trace has, whichever were asked for, in words.
  std::string what_exists() const;
  /// Events kept, without descriptions, which are always kept, and without what is chosen by time alone.
  std::uint64_t chosen() const noexcept { return kept_ - aside_; }
};

struct chosen_outcome : cutrace_reading::outcome {
  bool nothing_chosen = false;  ///< no event belongs to the choice
  std::string there_is;         ///< what the trace has instead, in words

  /// Prints one line on stderr where nothing was chosen. @returns `status`, or that of a failure
  int status_or_nothing(int status) const;
};

/// As cutrace_reading::read (trace/trace_reader.hpp); `to` gets only what was chosen. @throws usage_error
chosen_outcome read_chosen(const std::vector<std::string>& files, cutrace::sink& to, choice_words& choice, bool quiet,
                           chosen_for purpose);

}  // namespace cutrace_tool
