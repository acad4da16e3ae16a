// SPDX-License-Identifier: Apache-2.0
// A thread that takes blocks of text, in order, for work that would hold up whoever makes them: compression. One thread
// hands blocks over.
#pragma once

#include <pthread.h>
#include <unistd.h>

#include <condition_variable>
#include <cstddef>
#include <cutrace/base/helper_thread.hpp>
#include <cutrace/config.hpp>
#include <cutrace/error.hpp>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

CUTRACE_BEGIN_NAMESPACE
namespace detail {

class block_worker {
 public:
  static constexpr std::size_t block_limit = 8;  ///< blocks that may wait; at this number `hand` waits

  /// Starts the thread. `consume` may throw std::exception: then nothing more is consumed, and the next call here
  /// throws its message. @throws std::system_error where no thread can be had
  explicit block_worker(std::function<void(const std::string& block)> consume)
      : consume_(std::move(consume)), owner_(::getpid()), thread_(start_thread(&run, this)) {}
  block_worker(const block_worker&) = delete;
  block_worker& operator=(const block_worker&) = delete;

  /// Drops the blocks that wait; the block that is being consumed is finished first. In a forked child, which has no
  /// such thread and a mutex in an unknown state, nothing is touched.
  struct stop {
    void operator()(block_worker* w) const noexcept {
      if (w->owner_ == ::getpid()) delete w;
    }
  };
  using owner = std::unique_ptr<block_worker, stop>;

  /// Takes the text and leaves `block` empty, with the memory of an older block. @throws error where `consume` failed
  void hand(std::string& block) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return waiting_.size() < block_limit || failed_; });
    throw_failure();
    waiting_.emplace_back();
    waiting_.back().swap(block);
    if (!spare_.empty()) {
      block.swap(spare_.back());
      spare_.pop_back();
    }
    changed_.notify_all();
  }

  /// Returns when all that was handed over is consumed, and the thread does nothing. @throws error likewise
  void wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return (waiting_.empty() && !busy_) || failed_; });
    throw_failure();
  }

 private:
  ~block_worker() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      waiting_.clear();
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  void throw_failure() const {
    if (failed_) throw error(failure_.c_str());
  }

  static void run(void* self) {
    ::pthread_setname_np(::pthread_self(), "cutrace-zip");
    static_cast<block_worker*>(self)->loop();
  }
  void loop() noexcept {
    std::unique_lock<std::mutex> lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return !waiting_.empty() || stopping_; });
      if (waiting_.empty()) return;
      std::string block = std::move(waiting_.front());
      waiting_.pop_front();
      busy_ = true;
      changed_.notify_all();  // there is room for another
      lock.unlock();
      std::string failure;
      const bool works = consumed(block, failure);
      block.clear();
      lock.lock();
      busy_ = false;
      if (!works) {
        failed_ = true;
        failure_ = std::move(failure);
        waiting_.clear();
      }
      if (spare_.size() < 2) spare_.push_back(std::move(block));
      changed_.notify_all();
      if (failed_) return;
    }
  }
  bool consumed(const std::string& block, std::string& failure) noexcept {
    try {
      consume_(block);
      return true;
    } catch (const std::exception& e) {
      failure = e.what();
    } catch (...) {
      failure = "threw something that is no std::exception";
    }
    return false;
  }

  std::function<void(const std::string&)> consume_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> waiting_;
  std::deque<std::string> spare_;  ///< empty blocks, whose memory is used again
  std::string failure_;
  bool busy_ = false;
  bool failed_ = false;
  bool stopping_ = false;
  const pid_t owner_;
  std::thread thread_;  ///< last: it uses all of the above
};

}  // namespace detail
CUTRACE_END_NAMESPACE
