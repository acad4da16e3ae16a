// SPDX-License-Identifier: Apache-2.0
// Waiting for another process for as long as it makes progress: a busy machine must cost time, not records.
#pragma once

#include <cstdint>
#include <cutrace/clock.hpp>

namespace cutrace_tool {

class patience {
 public:
  explicit patience(std::uint64_t limit_ns = 10000000000) noexcept : limit_ns_(limit_ns) {}

  /// False once `done`, any number that changes with each step, has stayed the same for that long.
  bool lasts(std::uint64_t done) noexcept {
    const std::uint64_t now = cutrace::clock::monotonic_ns();
    if (since_ns_ == 0 || done != done_) {
      since_ns_ = now;
      done_ = done;
    }
    return now - since_ns_ < limit_ns_;
  }

 private:
  std::uint64_t limit_ns_, since_ns_ = 0, done_ = 0;
};

}  // namespace cutrace_tool
