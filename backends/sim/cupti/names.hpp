// SPDX-License-Identifier: Apache-2.0
// Names of callbacks and results. The driver's and the runtime's lists are made from the installed headers by the build
// (backends/sim/CMakeLists.txt): lines of the form `NAME(<function>)`, one for each enumerator of the callback ids.
#pragma once

#include <cupti.h>

#include <cstdint>

namespace standin {

inline const char* name_of_callback(CUpti_CallbackDomain domain, std::uint32_t id) {
#define NAME(function) {CUPTI_DRIVER_TRACE_CBID_##function, #function},
  struct pair {
    std::uint32_t id;
    const char* name;
  };
  static const pair driver[] = {
#include "standin_driver_names.inc"
  };
#undef NAME
#define NAME(function) {CUPTI_RUNTIME_TRACE_CBID_##function, #function},
  static const pair runtime[] = {
#include "standin_runtime_names.inc"
  };
#undef NAME
  if (domain == CUPTI_CB_DOMAIN_DRIVER_API) {
    for (const pair& p : driver)
      if (p.id == id) return p.name;
  } else if (domain == CUPTI_CB_DOMAIN_RUNTIME_API) {
    for (const pair& p : runtime)
      if (p.id == id) return p.name;
  }
  return nullptr;
}

/// One more than the largest callback id of the domain.
inline std::uint32_t size_of_domain(CUpti_CallbackDomain domain) {
  switch (domain) {
    case CUPTI_CB_DOMAIN_DRIVER_API:
      return CUPTI_DRIVER_TRACE_CBID_SIZE;
    case CUPTI_CB_DOMAIN_RUNTIME_API:
      return CUPTI_RUNTIME_TRACE_CBID_SIZE;
    case CUPTI_CB_DOMAIN_RESOURCE:
      return CUPTI_CBID_RESOURCE_SIZE;
    case CUPTI_CB_DOMAIN_SYNCHRONIZE:
      return CUPTI_CBID_SYNCHRONIZE_SIZE;
    case CUPTI_CB_DOMAIN_STATE:
      return CUPTI_CBID_STATE_SIZE;
    case CUPTI_CB_DOMAIN_NVTX:
      return 256;
    default:
      return 0;
  }
}

inline const char* name_of_result(CUptiResult r) {
  switch (r) {
    case CUPTI_SUCCESS:
      return "CUPTI_SUCCESS";
    case CUPTI_ERROR_INVALID_PARAMETER:
      return "CUPTI_ERROR_INVALID_PARAMETER";
    case CUPTI_ERROR_INVALID_DEVICE:
      return "CUPTI_ERROR_INVALID_DEVICE";
    case CUPTI_ERROR_INVALID_CONTEXT:
      return "CUPTI_ERROR_INVALID_CONTEXT";
    case CUPTI_ERROR_INVALID_OPERATION:
      return "CUPTI_ERROR_INVALID_OPERATION";
    case CUPTI_ERROR_OUT_OF_MEMORY:
      return "CUPTI_ERROR_OUT_OF_MEMORY";
    case CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT:
      return "CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT";
    case CUPTI_ERROR_MAX_LIMIT_REACHED:
      return "CUPTI_ERROR_MAX_LIMIT_REACHED";
    case CUPTI_ERROR_NOT_READY:
      return "CUPTI_ERROR_NOT_READY";
    case CUPTI_ERROR_NOT_COMPATIBLE:
      return "CUPTI_ERROR_NOT_COMPATIBLE";
    case CUPTI_ERROR_NOT_INITIALIZED:
      return "CUPTI_ERROR_NOT_INITIALIZED";
    case CUPTI_ERROR_QUEUE_EMPTY:
      return "CUPTI_ERROR_QUEUE_EMPTY";
    case CUPTI_ERROR_INVALID_STREAM:
      return "CUPTI_ERROR_INVALID_STREAM";
    case CUPTI_ERROR_INVALID_KIND:
      return "CUPTI_ERROR_INVALID_KIND";
    case CUPTI_ERROR_DISABLED:
      return "CUPTI_ERROR_DISABLED";
    case CUPTI_ERROR_NOT_SUPPORTED:
      return "CUPTI_ERROR_NOT_SUPPORTED";
    case CUPTI_ERROR_HARDWARE:
      return "CUPTI_ERROR_HARDWARE";
    case CUPTI_ERROR_UM_PROFILING_NOT_SUPPORTED:
      return "CUPTI_ERROR_UM_PROFILING_NOT_SUPPORTED";
    case CUPTI_ERROR_UM_PROFILING_NOT_SUPPORTED_ON_DEVICE:
      return "CUPTI_ERROR_UM_PROFILING_NOT_SUPPORTED_ON_DEVICE";
    case CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED:
      return "CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED";
    case CUPTI_ERROR_INSUFFICIENT_PRIVILEGES:
      return "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES";
    case CUPTI_ERROR_LEGACY_PROFILER_NOT_SUPPORTED:
      return "CUPTI_ERROR_LEGACY_PROFILER_NOT_SUPPORTED";
    case CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED:
      return "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED";
    case CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES:
      return "CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES";
    case CUPTI_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED:
      return "CUPTI_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED";
    case CUPTI_ERROR_MIG_DEVICE_NOT_SUPPORTED:
      return "CUPTI_ERROR_MIG_DEVICE_NOT_SUPPORTED";
    case CUPTI_ERROR_WSL_DEVICE_NOT_SUPPORTED:
      return "CUPTI_ERROR_WSL_DEVICE_NOT_SUPPORTED";
    default:
      return "CUPTI_ERROR_UNKNOWN";
  }
}

}  // namespace standin
