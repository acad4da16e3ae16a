// SPDX-License-Identifier: Apache-2.0
// Requests that wait for a worker. Any thread. It can stay shut until everything is in it, so that a run with one
// worker makes the same batches each time.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

#include "request.hpp"

namespace server {

class request_queue {
 public:
  void push(request_pointer r) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      waiting_.push_back(std::move(r));
      CUTRACE_GAUGE("queue_depth", waiting_.size());
    }
    changed_.notify_one();
  }

  /// Lets workers take requests.
  void open() { set(open_); }
  /// No more requests will come.
  void close() { set(closed_); }

  /// The oldest request; null while the queue is shut or empty. With `wait`, null only when it is closed and empty.
  request_pointer take(bool wait) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (wait) changed_.wait(lock, [this] { return closed_ || (open_ && !waiting_.empty()); });
    if (!(open_ || closed_) || waiting_.empty()) return nullptr;
    request_pointer r = std::move(waiting_.front());
    waiting_.pop_front();
    CUTRACE_GAUGE("queue_depth", waiting_.size());
    return r;
  }

 private:
  void set(bool& flag) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      flag = true;
    }
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<request_pointer> waiting_;
  bool open_ = false;
  bool closed_ = false;
};

}  // namespace server
