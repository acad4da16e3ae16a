// SPDX-License-Identifier: Apache-2.0
// Runs host functions of streams and graphs, each once the model's clock has reached its turn, in the order of tickets
// with equal times. One thread, started with the first function. With a clock that does not run by itself (tests), the
// owner calls `run_due` instead.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cutrace/sim/options.hpp>
#include <cutrace/sim/work.hpp>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

CUTRACE_BEGIN_NAMESPACE
namespace sim {

class host_worker {
 public:
  explicit host_worker(const time_source& time) : time_(time) {}
  ~host_worker() {
    {
      const std::lock_guard<std::mutex> hold(lock_);
      stopping_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }
  host_worker(const host_worker&) = delete;
  host_worker& operator=(const host_worker&) = delete;

  /// Queues a function; the ticket is for `wait`.
  std::uint64_t add(std::uint64_t at_ns, const host_work& work, bool separate_thread) {
    const std::lock_guard<std::mutex> hold(lock_);
    const std::uint64_t ticket = ++last_ticket_;
    waiting_.emplace(std::make_pair(at_ns, ticket), work);
    if (separate_thread && !thread_.joinable()) thread_ = std::thread([this] { loop(); });
    changed_.notify_all();
    return ticket;
  }

  bool done(std::uint64_t ticket) {
    const std::lock_guard<std::mutex> hold(lock_);
    return done_locked(ticket);
  }

  /// Until the function behind `ticket` has returned.
  void wait(std::uint64_t ticket) {
    std::unique_lock<std::mutex> hold(lock_);
    changed_.wait(hold, [&] { return done_locked(ticket) || stopping_; });
  }

  /// Runs what is due by the clock on the caller's thread.
  void run_due() {
    std::unique_lock<std::mutex> hold(lock_);
    while (!waiting_.empty() && waiting_.begin()->first.first <= time_.now()) run_first(hold);
  }

 private:
  using key = std::pair<std::uint64_t, std::uint64_t>;  // time, ticket

  bool done_locked(std::uint64_t ticket) const {
    if (ticket == running_) return false;
    return std::none_of(waiting_.begin(), waiting_.end(), [&](const auto& w) { return w.first.second == ticket; });
  }

  void run_first(std::unique_lock<std::mutex>& hold) {
    const auto first = *waiting_.begin();
    waiting_.erase(waiting_.begin());
    running_ = first.first.second;
    hold.unlock();
    first.second.function(first.second.user);
    hold.lock();
    running_ = 0;
    changed_.notify_all();
  }

  void loop() {
    std::unique_lock<std::mutex> hold(lock_);
    while (!stopping_) {
      if (waiting_.empty()) {
        changed_.wait(hold);
        continue;
      }
      const std::uint64_t due = waiting_.begin()->first.first;
      const std::uint64_t now = time_.now();
      if (due <= now)
        run_first(hold);
      else
        changed_.wait_for(hold, std::chrono::nanoseconds(std::min<std::uint64_t>(due - now, 1000000)));
    }
  }

  const time_source& time_;
  std::mutex lock_;
  std::condition_variable changed_;
  std::map<key, host_work> waiting_;
  std::uint64_t last_ticket_ = 0;
  std::uint64_t running_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace sim
CUTRACE_END_NAMESPACE
