// SPDX-License-Identifier: Apache-2.0
// A libcupti that does nothing but remember its client's callback, so that callback_cost can call it as CUPTI would,
// without the cost of CUPTI around it.
#include <cupti.h>

#include <cutrace/cupti/functions.hpp>

#define QUIET(name) extern "C" __attribute__((visibility("default"))) CUptiResult CUPTIAPI name

namespace {
CUpti_CallbackFunc client = nullptr;
}

/// The subscriber's callback, null before it subscribes.
extern "C" __attribute__((visibility("default"))) CUpti_CallbackFunc quiet_cupti_client() { return client; }

QUIET(cuptiGetVersion)(uint32_t* version) {
  *version = CUPTI_API_VERSION;
  return CUPTI_SUCCESS;
}
QUIET(cuptiSubscribe)(CUpti_SubscriberHandle*, CUpti_CallbackFunc callback, void*) {
  client = callback;
  return CUPTI_SUCCESS;
}
QUIET(cuptiGetCallbackName)(CUpti_CallbackDomain domain, uint32_t id, const char** name) {
  const cutrace::cupti::function_entry* f =
      domain == CUPTI_CB_DOMAIN_DRIVER_API ? cutrace::cupti::find_driver(id) : nullptr;
  if (f == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  *name = f->symbol;
  return CUPTI_SUCCESS;
}
QUIET(cuptiGetResultString)(CUptiResult, const char** text) {
  *text = "a result";
  return CUPTI_SUCCESS;
}
QUIET(cuptiActivityGetNextRecord)(uint8_t*, size_t, CUpti_Activity**) { return CUPTI_ERROR_MAX_LIMIT_REACHED; }
QUIET(cuptiActivityGetNumDroppedRecords)(CUcontext, uint32_t, size_t* dropped) {
  *dropped = 0;
  return CUPTI_SUCCESS;
}
QUIET(cuptiActivityRegisterTimestampCallback)(CUpti_TimestampCallbackFunc) { return CUPTI_SUCCESS; }
QUIET(cuptiActivityRegisterCallbacks)(CUpti_BuffersCallbackRequestFunc, CUpti_BuffersCallbackCompleteFunc) {
  return CUPTI_SUCCESS;
}
QUIET(cuptiActivitySetAttribute)(CUpti_ActivityAttribute, size_t*, void*) { return CUPTI_SUCCESS; }
QUIET(cuptiUnsubscribe)(CUpti_SubscriberHandle) { return CUPTI_SUCCESS; }
QUIET(cuptiEnableCallback)(uint32_t, CUpti_SubscriberHandle, CUpti_CallbackDomain, CUpti_CallbackId) {
  return CUPTI_SUCCESS;
}
QUIET(cuptiEnableDomain)(uint32_t, CUpti_SubscriberHandle, CUpti_CallbackDomain) { return CUPTI_SUCCESS; }
QUIET(cuptiActivityEnable)(CUpti_ActivityKind) { return CUPTI_SUCCESS; }
QUIET(cuptiActivityDisable)(CUpti_ActivityKind) { return CUPTI_SUCCESS; }
QUIET(cuptiActivityFlushAll)(uint32_t) { return CUPTI_SUCCESS; }
