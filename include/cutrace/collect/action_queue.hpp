// SPDX-License-Identifier: Apache-2.0
// Actions that other threads hand to the collector's thread, to be run between two passes, and how they wait for them.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cutrace/base/helper_thread.hpp>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

class action_queue {
 public:
  /// Reserves room, so that a trace can end where no memory is left: few actions are queued at once, and what they
  /// capture fits into std::function without allocation.
  action_queue() {
    actions_.reserve(8);
    running_.reserve(8);
  }

  /// Has `action` run and waits for it. False after `timeout_ms`, or when no more actions are run.
  bool call(std::function<void()> action, std::uint32_t timeout_ms, wake_signal& wake) {
    std::unique_lock<std::mutex> hold(mutex_);
    if (ending_) return false;
    const std::uint64_t ticket = ask(std::move(action), wake);
    const auto limit = std::chrono::milliseconds(timeout_ms);
    changed_.wait_for(hold, limit, [&] { return done_ >= ticket || ended_; });
    return done_ >= ticket;
  }

  /// As `call`, but without a limit of time while `makes_progress()` is true, which is called each half of
  /// `patience_ms`. If it is false twice in a row, `replace()` makes another thread go on; if that fails, the result is
  /// false. (Once is not enough: a process that was stopped finds the first half over when it continues.) `is_slow()`
  /// is called once, if the action takes more than three seconds.
  template <class Progress, class Slow, class Replace>
  bool call_patiently(std::function<void()> action, std::uint32_t patience_ms, wake_signal& wake,
                      Progress makes_progress, Slow is_slow, Replace replace) {
    constexpr std::chrono::milliseconds some_time(3000);
    std::unique_lock<std::mutex> hold(mutex_);
    if (ending_) return false;
    const std::uint64_t ticket = ask(std::move(action), wake);
    const std::chrono::milliseconds half(patience_ms / 2 + 1);
    if (half > some_time) {
      if (changed_.wait_for(hold, some_time, [&] { return done_ >= ticket || ended_; })) return done_ >= ticket;
      hold.unlock();
      is_slow();
      hold.lock();
    }
    for (int without_progress = 0; without_progress < 2;) {
      if (changed_.wait_for(hold, half, [&] { return done_ >= ticket || ended_; })) return done_ >= ticket;
      without_progress = makes_progress() ? 0 : without_progress + 1;
      if (without_progress == 2 && replace()) without_progress = 0;
    }
    return false;
  }

  /// Runs the queued actions, each by `guarded(action)`. False when it is time to end. Collector's thread. A thread
  /// that replaces a stuck one runs the stuck action once more, from its start.
  template <class Guarded>
  bool run(Guarded guarded) {
    bool ending = false;
    {
      std::lock_guard<std::mutex> hold(mutex_);
      if (running_.empty()) {
        running_.swap(actions_);
        running_upto_ = asked_;
        running_at_ = 0;
      }
      ending = ending_ && actions_.empty();
    }
    for (; running_at_ < running_.size(); ++running_at_)
      if (!cancelled_.load(std::memory_order_acquire)) guarded(running_[running_at_]);
    if (!running_.empty()) {
      running_.clear();
      std::lock_guard<std::mutex> hold(mutex_);
      done_ = running_upto_;
      changed_.notify_all();
    }
    return !ending;
  }

  /// Makes the next `run` the last one.
  void end() {
    std::lock_guard<std::mutex> hold(mutex_);
    ending_ = true;
  }
  /// As `end`, and queued actions are not run: their callers have given up, and what the actions use may be gone.
  void cancel() {
    cancelled_.store(true, std::memory_order_release);
    end();
  }
  /// Nothing will be run any more: threads that still wait go on.
  void mark_ended() {
    std::lock_guard<std::mutex> hold(mutex_);
    ended_ = true;
    changed_.notify_all();
  }

 private:
  std::uint64_t ask(std::function<void()> action, wake_signal& wake) {
    actions_.push_back(std::move(action));
    wake.signal();
    return ++asked_;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::function<void()>> actions_;
  // Not on the stack of the collector's thread, which a child of fork() does not have: LeakSanitizer would report them.
  std::vector<std::function<void()>> running_;
  std::size_t running_at_ = 0;      ///< the one at work
  std::uint64_t running_upto_ = 0;  ///< ticket of the last one
  std::uint64_t asked_ = 0, done_ = 0;
  bool ending_ = false, ended_ = false;
  std::atomic<bool> cancelled_{false};
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
