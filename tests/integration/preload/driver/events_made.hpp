// SPDX-License-Identifier: Apache-2.0
// What the backend that measures GPU time by CUDA events does in a program, as the stand-in driver sees it: work before
// the events of its context are made is counted and not measured.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "../../../support/standin_calls.hpp"

namespace events_made {

/// Contexts that have their events: the backend's thread creates them in the context, and leaves it.
inline std::atomic<int> contexts{0};

inline void see(const char* function) {
  static thread_local bool creates = false;
  if (std::strcmp(function, "cuEventCreate") == 0) creates = true;
  if (!creates || std::strcmp(function, "cuCtxSetCurrent") != 0) return;
  creates = false;
  ++contexts;
}

/// With SUBJECT_AWAITS_EVENTS `await` waits for them. Else it only waits a little: nobody measures, or the driver
/// refuses events.
inline bool watched() { return std::getenv("SUBJECT_AWAITS_EVENTS") != nullptr; }

/// Before the first context.
inline void watch() {
  if (!watched()) return;
  test_support::resolve<void (*)(void (*)(const char*))>(false, "cutrace_sim_set_call_hook")(&see);
}

/// For the events of one more context, or of `more`.
inline void await(int more = 1) {
  static int expected = 0;
  expected += more;
  for (int patience = 0; patience < 30000 && contexts < expected && watched(); ++patience) ::usleep(1000);
  if (!watched()) ::usleep(50000);
}

}  // namespace events_made
