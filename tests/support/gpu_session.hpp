// SPDX-License-Identifier: Apache-2.0
// A session for programs that count what they launched: nothing is lost for want of room.
#pragma once

#include <cstdlib>
#include <cutrace/session.hpp>

namespace test_support {

/// `windows`: session_options::sample. Sinks of the environment, where it names any.
inline cutrace::session_options patient_session(const char* windows = nullptr) {
  cutrace::session_options o;
  o.sinks = std::getenv("CUTRACE_SINKS") != nullptr ? nullptr : "null";
  o.backend = "cupti";
  o.sample = windows;
  o.memory_limit_bytes = std::size_t{512} << 20;
  o.overflow = cutrace::overflow_policy::wait;
  o.overflow_wait_us = 60 * 1000 * 1000;
  return o;
}

}  // namespace test_support
