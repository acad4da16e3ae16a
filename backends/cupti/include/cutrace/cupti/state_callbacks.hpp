// SPDX-License-Identifier: Apache-2.0
// CUPTI's callback about its own state (12.4 and later): after a fatal error it finalizes itself, and no record comes
// any more. As structures of our own, since older headers have none.
#pragma once

#include <cupti.h>

#include <cstddef>
#include <cstdio>
#include <cutrace/backend.hpp>
#include <cutrace/cupti/library.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace cupti CUTRACE_LOCAL {

constexpr CUpti_CallbackDomain state_domain = static_cast<CUpti_CallbackDomain>(6);  // CUPTI_CB_DOMAIN_STATE
constexpr CUpti_CallbackId state_fatal_error = 1;                                    // CUPTI_CBID_STATE_FATAL_ERROR

/// CUpti_StateData. `message` may be null, and is valid inside of the callback.
struct state_notification {
  CUptiResult result;
  const char* message;
};

#if CUPTI_API_VERSION >= 24  // CUDA 12.6
static_assert(state_domain == CUPTI_CB_DOMAIN_STATE && state_fatal_error == CUPTI_CBID_STATE_FATAL_ERROR, "renumbered");
static_assert(offsetof(state_notification, message) == offsetof(CUpti_StateData, notification.message), "moved");
static_assert(sizeof(state_notification) == sizeof(CUpti_StateData), "resized");
#endif

/// Any thread of the program, inside of the callback.
inline void report_fatal_error(const functions& api, event_writer& w, const void* data) noexcept {
  const state_notification& n = *static_cast<const state_notification*>(data);
  const char* name = nullptr;
  api.cuptiGetResultString(n.result, &name);
  char line[320];
  std::snprintf(line, sizeof(line),
                "CUPTI met a fatal error and ended itself, there are no GPU records from here on: %.60s (%d)%s%.120s",
                name != nullptr ? name : "CUPTI error", static_cast<int>(n.result), n.message != nullptr ? ", " : "",
                n.message != nullptr ? n.message : "");
  w.report("cupti", line);
}

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
