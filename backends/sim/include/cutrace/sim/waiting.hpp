// SPDX-License-Identifier: Apache-2.0
// How a face makes a host call block: until the model's clock has reached a moment, and a host function has returned.
#pragma once

#include <chrono>
#include <cutrace/sim/machine.hpp>
#include <thread>

CUTRACE_BEGIN_NAMESPACE
namespace sim {

/// Sleeps while the moment is far, yields while it is near. The clock must run by itself.
inline void wait_until(machine& m, const machine::until& u) {
  for (;;) {
    const std::uint64_t now = m.now();
    if (now >= u.at_ns) break;
    const std::uint64_t left = u.at_ns - now;
    if (left > 100000)
      std::this_thread::sleep_for(std::chrono::nanoseconds(left - 60000));
    else
      std::this_thread::yield();
  }
  if (u.host_ticket != 0) m.hosts().wait(u.host_ticket);
}

}  // namespace sim
CUTRACE_END_NAMESPACE
