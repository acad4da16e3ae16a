// SPDX-License-Identifier: Apache-2.0
// What CUPTI is asked to record of managed ("unified") memory, before the kind UNIFIED_MEMORY_COUNTER is enabled.
#pragma once

#include <cupti.h>

#include <cutrace/cupti/kinds.hpp>
#include <cutrace/cupti/library.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace cupti CUTRACE_LOCAL {

inline bool is_managed_memory(const kind& k) noexcept { return k.id == CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER; }

/// CUDA has not been initialised yet: the library may say so either way (NOT_READY: CUPTI 13.0, H200).
inline bool is_too_early(CUptiResult r) noexcept {
  return r == CUPTI_ERROR_NOT_INITIALIZED || r == CUPTI_ERROR_NOT_READY;
}

/// CUDA was not initialised in time for the configuration.
constexpr const char* managed_memory_missed =
    "cuptiActivityConfigureUnifiedMemoryCounter, nothing of managed memory was recorded";

/// Configures records of moves between host and devices, and of page faults of both. A call of its own asks for moves
/// between devices: its failure must not cost the others. CUPTI takes it when CUDA has been initialised
/// (cupti_activity.h): until then the result is one of is_too_early, and the call is to be repeated. Returns the first
/// configuration's result.
inline CUptiResult configure_managed_memory(const functions& api) noexcept {
  const auto config = [](CUpti_ActivityUnifiedMemoryCounterKind kind) {
    CUpti_ActivityUnifiedMemoryCounterConfig c{};
    c.scope = CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_SCOPE_PROCESS_ALL_DEVICES;
    c.kind = kind;
    c.enable = 1;
    return c;
  };
  if (api.cuptiActivityConfigureUnifiedMemoryCounter == nullptr) return CUPTI_ERROR_UM_PROFILING_NOT_SUPPORTED;
  CUpti_ActivityUnifiedMemoryCounterConfig basic[] = {
      config(CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_HTOD),
      config(CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_DTOH),
      config(CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_CPU_PAGE_FAULT_COUNT),
      config(CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_GPU_PAGE_FAULT)};
  const CUptiResult r = api.cuptiActivityConfigureUnifiedMemoryCounter(basic, 4);
  if (r != CUPTI_SUCCESS) return r;
  CUpti_ActivityUnifiedMemoryCounterConfig peers =
      config(CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_DTOD);
  api.cuptiActivityConfigureUnifiedMemoryCounter(&peers, 1);
  return CUPTI_SUCCESS;
}

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
