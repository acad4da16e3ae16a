// SPDX-License-Identifier: Apache-2.0
// Lines for the user: why CUPTI cannot be used, or not fully, and what can be done about it.
#pragma once

#include <cupti.h>
#include <unistd.h>

#include <cstdint>
#include <cutrace/cupti/library.hpp>
#include <string>

CUTRACE_BEGIN_NAMESPACE
namespace cupti CUTRACE_LOCAL {

/// For a failure of cuptiSubscribe. `holder`: the client that has CUPTI, as far as CUPTI names it; else empty.
inline std::string explain_refusal(const functions& api, CUptiResult r, const char* holder) {
  std::string line = "CUPTI refused to be used, " + api.explain(r);
  if (r == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED || r == CUPTI_ERROR_MAX_LIMIT_REACHED)
    line += std::string("; it is taken by ") + (*holder != '\0' ? holder : "another tool of this process");
  else if (r == CUPTI_ERROR_NOT_INITIALIZED && ::access("/dev/nvidiactl", F_OK) != 0)
    line += "; this machine has no NVIDIA device (no /dev/nvidiactl)";
  else if (r == CUPTI_ERROR_NOT_INITIALIZED)
    line += "; the driver may be older than this libcupti";
  else if (r == CUPTI_ERROR_INSUFFICIENT_PRIVILEGES)
    line += "; the administrator can allow it with the module option NVreg_RestrictProfilingToAdminUsers=0";
  return line + ": no GPU time";
}

/// A warning where library and driver are of different CUDA major versions; empty where they fit.
inline std::string explain_mismatch(const library& lib, std::uint32_t version, int driver_major) {
  const int major = cuda_major_of(version, lib.path());
  if (major == driver_major || (major == 0 && (driver_major == 11 || driver_major == 12))) return {};
  return lib.path() + " is of CUDA " + (major != 0 ? std::to_string(major) : "11 or 12") + ", the driver of CUDA " +
         std::to_string(driver_major) + ": records may be missing; name a matching library in CUTRACE_CUPTI_LIBRARY";
}

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
