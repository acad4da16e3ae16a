// SPDX-License-Identifier: Apache-2.0
// Run-time errors: one line each to the handler or to stderr, each distinct one once, and kept as notes for the files.
// And what was lost, by cause.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cutrace/base/write_all.hpp>
#include <cutrace/error.hpp>
#include <cutrace/event.hpp>
#include <cutrace/stats.hpp>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

class reporter {
 public:
  /// Waits until no other thread is inside the handler that was set before, so that its owner may free `user` next; for
  /// five seconds at most, because a handler that never returns must not hold the program.
  CUTRACE_NOINLINE void set_handler(error_handler handler, void* user) noexcept {
    std::unique_lock<std::mutex> hold(mutex_);
    handler_ = handler;
    user_ = user;
    const std::thread::id own = std::this_thread::get_id();  // a handler may stop its session itself
    returned_.wait_for(hold, std::chrono::seconds(5), [&] {
      return std::all_of(inside_.begin(), inside_.end(), [&](std::thread::id id) { return id == own; });
    });
  }
  void clear() noexcept {
    std::lock_guard<std::mutex> hold(mutex_);
    notes_.clear();
  }

  /// Any thread. `show` is false for what belongs into the files but is no error.
  CUTRACE_NOINLINE void report(const char* component, const char* message, bool show = true) noexcept {
    error_handler handler = nullptr;
    void* user = nullptr;
    try {
      std::string line = std::string(component) + ": " + message;
      std::lock_guard<std::mutex> hold(mutex_);
      for (const std::string& known : notes_)
        if (known == line) return;
      if (notes_.size() >= note_limit) return;  // never a flood
      notes_.push_back(std::move(line));
      if (show && handler_ != nullptr) {
        inside_.push_back(std::this_thread::get_id());
        handler = handler_;
        user = user_;
      }
    } catch (...) {  // out of memory: the line is lost, the program goes on
      return;
    }
    if (!show) return;
    if (handler == nullptr) {
      write_error_line("cutrace: %s: %s", component, message);
      return;
    }
    handler(component, message, user);
    std::lock_guard<std::mutex> hold(mutex_);
    inside_.erase(std::find(inside_.begin(), inside_.end(), std::this_thread::get_id()));
    returned_.notify_all();
  }

  /// Notes of one component so far.
  CUTRACE_NOINLINE std::size_t count_of(const std::string& component) const {
    const std::string beginning = component + ": ";
    std::lock_guard<std::mutex> hold(mutex_);
    std::size_t n = 0;
    for (const std::string& note : notes_) n += note.compare(0, beginning.size(), beginning) == 0;
    return n;
  }

  CUTRACE_NOINLINE std::vector<std::string> notes() const {
    std::lock_guard<std::mutex> hold(mutex_);
    return notes_;
  }

 private:
  static constexpr std::size_t note_limit = 32;
  mutable std::mutex mutex_;
  std::vector<std::string> notes_;
  std::condition_variable returned_;
  std::vector<std::thread::id> inside_;  ///< threads that are in the handler now
  error_handler handler_ = nullptr;
  void* user_ = nullptr;
};

/// Losses by cause: what was noticed, and how much of it stands in the trace as an event already. Collector's thread.
class loss_counts {
 public:
  /// What backends counted before this trace is not of it. Both arrays here and in `take` are indexed by cause.
  void begin(const std::atomic<std::uint64_t>* of_backends) noexcept {
    for (std::size_t i = 0; i < loss_cause_count; ++i) before_[i] = of_backends[i].load(std::memory_order_relaxed);
  }
  void add(loss_cause cause, std::uint64_t n) noexcept { lost_[static_cast<std::size_t>(cause)] += n; }
  std::uint64_t of(loss_cause cause) const noexcept { return lost_[static_cast<std::size_t>(cause)]; }

  /// Adds what backends have counted since the last call, and returns how much that was.
  std::uint64_t take(const std::atomic<std::uint64_t>* of_backends) noexcept {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < loss_cause_count; ++i) {
      const std::uint64_t now = of_backends[i].load(std::memory_order_relaxed);
      lost_[i] += now - before_[i];
      sum += now - before_[i];
      before_[i] = now;
    }
    return sum;
  }

  /// Calls `report(loss_data)` for each cause that has grown since the last call.
  template <class Report>
  void report(Report report_one) {
    for (std::size_t i = 0; i < loss_cause_count; ++i) {
      if (lost_[i] == reported_[i]) continue;
      const loss_data grown{static_cast<loss_cause>(i), lost_[i] - reported_[i]};
      reported_[i] = lost_[i];
      report_one(grown);
    }
  }

  void fill(stats& s) const noexcept {
    for (std::size_t i = 0; i < loss_cause_count; ++i) s.lost[i] = lost_[i];
  }

 private:
  std::uint64_t lost_[loss_cause_count] = {};
  std::uint64_t reported_[loss_cause_count] = {};
  std::uint64_t before_[loss_cause_count] = {};
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
