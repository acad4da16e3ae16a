// SPDX-License-Identifier: Apache-2.0
// Runs each function once the model's clock has reached its time; those of equal times in the order in which they were
// added. Serves host functions of streams and graphs, and writes of values and waits for them. One thread, started with
// the first function. With a clock that does not run by itself (tests), the owner calls `run_due` instead.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cutrace/sim/options.hpp>
#include <functional>
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

  void add(std::uint64_t at_ns, std::function<void()> f) {
    const std::lock_guard<std::mutex> hold(lock_);
    waiting_.emplace(std::make_pair(at_ns, ++last_), std::move(f));
    if (time_.runs && !thread_.joinable()) thread_ = std::thread([this] { loop(); });
    changed_.notify_all();
  }

  /// Runs what is due by the clock on the caller's thread.
  void run_due() {
    std::unique_lock<std::mutex> hold(lock_);
    while (!waiting_.empty() && waiting_.begin()->first.first <= time_.now()) run_first(hold);
  }

 private:
  using key = std::pair<std::uint64_t, std::uint64_t>;  // time, number

  void run_first(std::unique_lock<std::mutex>& hold) {
    const std::function<void()> f = std::move(waiting_.begin()->second);
    waiting_.erase(waiting_.begin());
    hold.unlock();
    f();
    hold.lock();
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
  std::map<key, std::function<void()>> waiting_;
  std::uint64_t last_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace sim
CUTRACE_END_NAMESPACE
