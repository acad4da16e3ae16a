// SPDX-License-Identifier: Apache-2.0
// One line about a CUPTI call that failed: what it means to the user, then CUPTI's own words.
#pragma once

#include <cupti.h>

#include <cutrace/backend.hpp>
#include <cutrace/cupti/process_state.hpp>
#include <string>

CUTRACE_BEGIN_NAMESPACE
namespace cupti CUTRACE_LOCAL {

/// Reports a CUPTI call that failed; nothing for CUPTI_SUCCESS. `what`: the call, then what is missing because of the
/// failure. Any thread.
inline void complain(event_writer& w, const char* what, CUptiResult r) noexcept {
  // After a fatal error CUPTI refuses every call; the error itself has been reported.
  if (r == CUPTI_SUCCESS || process_state::get().fatal.load(std::memory_order_relaxed)) return;
  try {
    w.report("cupti", (std::string(what) + ": " + process_state::get().api.explain(r)).c_str());
  } catch (...) {  // out of memory: the line is lost
  }
}

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
