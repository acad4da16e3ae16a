// SPDX-License-Identifier: Apache-2.0
// The struct that CUPTI fills for each activity kind, for the version of the headers in use, and its size. CUPTI gives
// structs new names with each change: a new header version gets its own block here.
#pragma once

#include <cupti.h>

#include <cstddef>
#include <cstdint>

namespace standin {

#if CUPTI_API_VERSION >= 130000 && CUPTI_API_VERSION < 130200
using kernel_record = CUpti_ActivityKernel10;
using memcpy_record = CUpti_ActivityMemcpy6;
using peer_record = CUpti_ActivityMemcpyPtoP4;
using memset_record = CUpti_ActivityMemset4;
using memory_record = CUpti_ActivityMemory4;
using api_record = CUpti_ActivityAPI;
using device_record = CUpti_ActivityDevice5;
using context_record = CUpti_ActivityContext3;
using stream_record = CUpti_ActivityStream;
using sync_record = CUpti_ActivitySynchronization2;
using event_record = CUpti_ActivityCudaEvent2;
using overhead_record = CUpti_ActivityOverhead3;
using external_record = CUpti_ActivityExternalCorrelation;
using graph_record = CUpti_ActivityGraphTrace2;
using unified_record = CUpti_ActivityUnifiedMemoryCounter3;
#else
#error "the stand-in libcupti does not know the record structs of this CUPTI version yet: add a block above"
#endif

/// A kind that no header has, for the fault `unknown`.
constexpr std::uint32_t unknown_kind = 0x7001;
struct alignas(8) unknown_record {
  std::uint32_t kind;
  std::uint32_t payload[7];
};

/// 0 for kinds that this library never writes.
inline std::size_t record_size(std::uint32_t kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return sizeof(kernel_record);
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return sizeof(memcpy_record);
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
      return sizeof(peer_record);
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return sizeof(memset_record);
    case CUPTI_ACTIVITY_KIND_MEMORY2:
      return sizeof(memory_record);
    case CUPTI_ACTIVITY_KIND_DRIVER:
      return sizeof(api_record);
    case CUPTI_ACTIVITY_KIND_DEVICE:
      return sizeof(device_record);
    case CUPTI_ACTIVITY_KIND_CONTEXT:
      return sizeof(context_record);
    case CUPTI_ACTIVITY_KIND_STREAM:
      return sizeof(stream_record);
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
      return sizeof(sync_record);
    case CUPTI_ACTIVITY_KIND_CUDA_EVENT:
      return sizeof(event_record);
    case CUPTI_ACTIVITY_KIND_OVERHEAD:
      return sizeof(overhead_record);
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
      return sizeof(external_record);
    case CUPTI_ACTIVITY_KIND_GRAPH_TRACE:
      return sizeof(graph_record);
    case CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER:
      return sizeof(unified_record);
    case unknown_kind:
      return sizeof(unknown_record);
    default:
      return 0;
  }
}

}  // namespace standin
