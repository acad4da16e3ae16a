// SPDX-License-Identifier: Apache-2.0
// The kinds of CUPTI's activity records that are switched on, and by which choice of the options.
#pragma once

#include <cupti.h>

#include <cutrace/cupti/options.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace cupti CUTRACE_LOCAL {

struct kind {
  CUpti_ActivityKind id;
  const char* name;
  unsigned bit;  ///< in a set of kinds
  int group;     ///< record_group, or `always`

  static constexpr int always = -1;
  static constexpr int of(record_group g) noexcept { return static_cast<int>(g); }
  bool enabled(unsigned bits) const noexcept { return (bits >> bit & 1u) != 0; }
  /// Switching kernels off can deadlock before CUPTI 13.0 Update 1 (NVIDIA bug 5350647).
  bool may_end(std::uint32_t version) const noexcept {
    return id != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL || version >= 130001;
  }
  /// Whether the kind is off between recording windows. Not GRAPH_TRACE: a graph that was instantiated while it was off
  /// would crash the program at its next replay (CUPTI 13.0). Nor `always`: few records, which later windows need.
  bool may_rest(std::uint32_t version) const noexcept {
    return group != always && id != CUPTI_ACTIVITY_KIND_GRAPH_TRACE && may_end(version);
  }
};

// clang-format off
constexpr kind kinds[] = {
    {CUPTI_ACTIVITY_KIND_DEVICE, "DEVICE", 0, kind::always},
    {CUPTI_ACTIVITY_KIND_CONTEXT, "CONTEXT", 1, kind::always},
    {CUPTI_ACTIVITY_KIND_STREAM, "STREAM", 2, kind::always},
    {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, "CONCURRENT_KERNEL", 3, kind::of(record_group::kernel)},
    {CUPTI_ACTIVITY_KIND_MEMCPY, "MEMCPY", 4, kind::of(record_group::memcpy)},
    {CUPTI_ACTIVITY_KIND_MEMCPY2, "MEMCPY2", 5, kind::of(record_group::memcpy)},
    {CUPTI_ACTIVITY_KIND_MEMSET, "MEMSET", 6, kind::of(record_group::memset)},
    {CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, "SYNCHRONIZATION", 7, kind::of(record_group::sync)},
    {CUPTI_ACTIVITY_KIND_OVERHEAD, "OVERHEAD", 8, kind::of(record_group::overhead)},
    {CUPTI_ACTIVITY_KIND_MEMORY2, "MEMORY2", 9, kind::of(record_group::memory)},
    {CUPTI_ACTIVITY_KIND_MEMORY_POOL, "MEMORY_POOL", 10, kind::of(record_group::memory)},
    {CUPTI_ACTIVITY_KIND_JIT, "JIT", 11, kind::of(record_group::jit)},
    {CUPTI_ACTIVITY_KIND_CUDA_EVENT, "CUDA_EVENT", 13, kind::of(record_group::event)},
    {CUPTI_ACTIVITY_KIND_ENVIRONMENT, "ENVIRONMENT", 14, kind::of(record_group::environment)},
    {CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER, "UNIFIED_MEMORY_COUNTER", 15, kind::of(record_group::unified)},
    {CUPTI_ACTIVITY_KIND_GRAPH_TRACE, "GRAPH_TRACE", 12, kind::of(record_group::kernel)},
};
// clang-format on

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
