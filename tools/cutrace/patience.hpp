// SPDX-License-Identifier: Apache-2.0
// Waiting for somebody else for as long as he gets on: a busy machine must cost time, not records.
#pragma once

#include <cstdint>
#include <cutrace/clock.hpp>

namespace cutrace_tool {

class patience {
 public:
  static constexpr std::uint64_t limit_ns = 10000000000;

  /// False once `done`, any number that changes with each step, has stayed the same for ten seconds.
  bool lasts(std::uint64_t done) noexcept {
    const std::uint64_t now = cutrace::clock::monotonic_ns();
    if (since_ns_ == 0 || done != done_) {
      since_ns_ = now;
      done_ = done;
    }
    return now - since_ns_ < limit_ns;
  }

 private:
  std::uint64_t since_ns_ = 0, done_ = 0;
};

}  // namespace cutrace_tool
