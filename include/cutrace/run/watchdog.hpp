// SPDX-License-Identifier: Apache-2.0
// Notices GPU work that does not end within the bound that the user sets. Off by default. A forced flush makes CUPTI
// hand over the records of unfinished work, whose times are then lost for good. So one is made only where a stream with
// unfinished work, or a call, has made no progress for the bound.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cutrace/base/helper_thread.hpp>
#include <cutrace/collect/collector.hpp>
#include <cutrace/run/backend_pump.hpp>
#include <cutrace/run/settings.hpp>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

class watchdog {
 public:
  /// `health` returns lines on the state of the devices, for the end of an alarm's text. All references must outlive
  /// this.
  watchdog(const watchdog_settings& s, const tick_scale& scale, collector& c, backend_pump& pump,
           std::function<std::string()> health)
      : scale_(scale), collector_(c), pump_(pump), health_(std::move(health)), shortest_ms_(s.bound_ms) {
    bounds_.bound_ns = std::int64_t{s.bound_ms} * 1000000;
    bounds_.except = s.except;
    take(s.stages, bounds_.open.stages);
    take(s.requests, bounds_.open.requests);
    thread_ = start_thread([](void* self) { static_cast<watchdog*>(self)->run(); }, this);
  }
  ~watchdog() {
    {
      const std::lock_guard<std::mutex> hold(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  watchdog(const watchdog&) = delete;
  watchdog& operator=(const watchdog&) = delete;

 private:
  using clock_type = std::chrono::steady_clock;
  /// Deadlines of answers: of CUPTI, which may be what hangs, and of the collector.
  static constexpr std::uint32_t answer_ms = 1000, collector_ms = 2000;

  void take(const std::vector<watchdog_settings::named>& from, std::vector<stage_watch::bound>& to) {
    for (const watchdog_settings::named& n : from) {
      to.push_back({n.name, std::int64_t{n.bound_ms} * 1000000});
      shortest_ms_ = std::min(shortest_ms_, n.bound_ms);
    }
  }

  void run() {
    pthread_setname_np(pthread_self(), "cutrace-watch");
    inside_runtime() = true;
    const auto period =
        std::chrono::milliseconds(std::min<std::uint32_t>(std::max<std::uint32_t>(shortest_ms_ / 10, 20), 500));
    std::unique_lock<std::mutex> hold(mutex_);
    for (;;) {
      const clock_type::time_point asleep = clock_type::now();
      if (changed_.wait_for(hold, period, [this] { return ends_; })) return;
      hold.unlock();
      // A process that was stopped (SIGSTOP, a debugger) has made no progress either, but nothing in it hangs.
      const bool stopped =
          clock_type::now() - asleep > period + std::chrono::milliseconds(std::max(shortest_ms_ / 4, 200u));
      if (stopped)
        collector_.call([this] { collector_.begin_watch_anew(); }, collector_ms);
      else
        look();
      hold.lock();
    }
  }

  void look() {
    struct answer {
      bool suspicious = false;
      std::uint32_t upto = 0;
    };
    const auto found = std::make_shared<answer>();  // the action may run later than it is waited for
    const work_watch::bounds bounds = bounds_;
    collector& c = collector_;
    if (!c.call([&c, bounds, found] { found->suspicious = c.is_suspicious(bounds, found->upto); }, collector_ms))
      return;
    if (!found->suspicious) return;
    const clock_type::time_point now = clock_type::now();
    if (forced_ != clock_type::time_point{} && now - forced_ < std::chrono::seconds(1)) return;
    forced_ = now;
    const std::int64_t flushed_ns = static_cast<std::int64_t>(scale_.now_ns());
    const bool answered = pump_.flush(answer_ms, true);
    const std::string more = health_ ? health_() : std::string();
    c.call(
        [&c, bounds, found, answered, flushed_ns, more] { c.judge(bounds, found->upto, answered, flushed_ns, more); },
        collector_ms);
  }

  const tick_scale& scale_;
  collector& collector_;
  backend_pump& pump_;
  std::function<std::string()> health_;
  std::uint32_t shortest_ms_;  ///< of all bounds
  work_watch::bounds bounds_;
  clock_type::time_point forced_{};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
