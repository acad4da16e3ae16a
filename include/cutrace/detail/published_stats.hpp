// SPDX-License-Identifier: Apache-2.0
// The totals as others see them while the collector works: threads of this process, and `cutrace run`.
#pragma once

#include <cutrace/detail/status_block.hpp>
#include <cutrace/stats.hpp>
#include <mutex>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

class published_stats {
 public:
  explicit published_stats(status_writer* command) : command_(command) {}

  /// Collector's thread.
  CUTRACE_NOINLINE void publish(const stats& s) {
    if (command_ != nullptr) command_->tell(s);
    std::lock_guard<std::mutex> hold(mutex_);
    last_ = s;
  }
  CUTRACE_NOINLINE stats snapshot() const {
    std::lock_guard<std::mutex> hold(mutex_);
    return last_;
  }

 private:
  status_writer* command_;
  mutable std::mutex mutex_;
  stats last_{};
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
