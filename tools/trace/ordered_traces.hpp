// SPDX-License-Identifier: Apache-2.0
// Several trace files read at once, each by a thread of its own, and their events handed over one by one in the order
// of their ends on a common clock. No event is copied: each reader waits until what it has was taken.
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
#include "trace/trace_reader.hpp"

namespace cutrace_reading {

/// In the order of the calls. Texts of events live until `release`, or until this is destroyed.
class ordered_traces {
 public:
  explicit ordered_traces(const std::vector<std::string>& files);
  ~ordered_traces();
  ordered_traces(const ordered_traces&) = delete;
  ordered_traces& operator=(const ordered_traces&) = delete;

  std::size_t size() const noexcept { return sources_.size(); }
  /// Reads the heads of all. @throws what a reader throws, as do the next two
  void open();
  const trace_facts& facts(std::size_t i) const;
  /// Calls `add(i, event)` for each event of trace `i`, whose times become those of the common clock by adding
  /// `offset_ns(i)`, and `before_more()` when what was handed over so far is about to become invalid.
  void deliver(const std::function<std::int64_t(std::size_t)>& offset_ns,
               const std::function<void(std::size_t, const cutrace::event&)>& add,
               const std::function<void()>& before_more);
  /// After `deliver`.
  const trace_totals& totals(std::size_t i) const;
  /// The readers end. What each of them has to say.
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

/// What can be counted in one trace and in another, in both. Launches and errors of clocks are the caller's.
void add_counts(cutrace::stats& sum, const cutrace::stats& more);

/// Ends a sink's trace that began at `start` and lasted until `stop_ns` of its own time.
void close_at(cutrace::sink& to, const cutrace::clock_anchor& start, std::int64_t stop_ns, const cutrace::stats& totals,
              const std::vector<std::string>& notes, const std::string& missing);

}  // namespace cutrace_reading
