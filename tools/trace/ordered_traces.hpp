// SPDX-License-Identifier: Apache-2.0
// Several trace files read at once, each by a thread of its own, and their events given to one sink in the order of
// their ends on a common clock. Each reader waits until its batch has been taken.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "trace/feed.hpp"
#include "trace/merge_clocks.hpp"
#include "trace/trace_reader.hpp"

namespace cutrace_reading {

/// The functions are called in the order in which they stand here. Texts of events live until `release`.
class ordered_traces {
 public:
  explicit ordered_traces(const std::vector<std::string>& files);
  ~ordered_traces();
  ordered_traces(const ordered_traces&) = delete;
  ordered_traces& operator=(const ordered_traces&) = delete;

  std::size_t size() const noexcept { return sources_.size(); }
  /// Reads the head of every trace. @throws what a reader throws
  void open();
  const trace_facts& facts(std::size_t i) const;
  /// Copies each event, shifts its times by `places[i]`, has `adjust(i, copy)` edit it, and gives it to `to` unless
  /// `adjust` returned false. @returns the latest end that was given, at least 0. @throws what a reader throws
  std::int64_t deliver(const std::vector<clock_place>& places, cutrace::sink& to,
                       const std::function<bool(std::size_t, cutrace::event&)>& adjust);
  /// After `deliver`.
  const trace_totals& totals(std::size_t i) const;
  /// Lets the readers finish. @returns the outcome of each
  std::vector<outcome> release();

 private:
  class source;
  void read_one(std::size_t i);

  const std::vector<std::string>& files_;
  std::mutex lock_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<source>> sources_;
  std::vector<std::thread> threads_;
};

/// Adds the counts that add up across traces. `launches_seen` and `clock_error_ns` do not: the caller combines them.
void add_counts(cutrace::stats& sum, const cutrace::stats& more);

/// Closes a sink whose trace began at `start`, time 0 of the trace, and ended `stop_ns` later.
void close_at(cutrace::sink& to, const cutrace::clock_anchor& start, std::int64_t stop_ns, const cutrace::stats& totals,
              const std::vector<std::string>& notes, const std::string& missing);

}  // namespace cutrace_reading
