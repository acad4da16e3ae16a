// SPDX-License-Identifier: Apache-2.0
// Proof that records.hpp describes what the CUPTI headers of this build say: a header that moved a member breaks the
// build, not the trace. Checked against the oldest layout of each record and, where they are there, newer ones.
#pragma once

#include <cupti.h>

#include <cstddef>
#include <cutrace/cupti/records.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace cupti {

#define CUTRACE_SAME(ours, member, theirs, their_member)                                                         \
  static_assert(offsetof(ours, member) == offsetof(theirs, their_member), "moved: " #theirs "::" #their_member); \
  static_assert(sizeof(ours::member) == sizeof(theirs::their_member), "resized: " #theirs "::" #their_member)
#define CUTRACE_FITS(ours, theirs) static_assert(ours##_bytes <= sizeof(theirs), "too long for " #theirs)

// Three members of a row in theirs, an array in ours.
#define CUTRACE_SAME_3(ours, member, theirs, x, y, z)                                                              \
  static_assert(offsetof(ours, member) == offsetof(theirs, x) && offsetof(theirs, y) == offsetof(theirs, x) + 4 && \
                    offsetof(theirs, z) == offsetof(theirs, x) + 8 && sizeof(ours::member) == 12,                  \
                "moved: " #theirs "::" #x)

#define CUTRACE_CHECK_KERNEL(theirs)                                             \
  CUTRACE_SAME(kernel_record, kind, theirs, kind);                               \
  CUTRACE_SAME(kernel_record, registers_per_thread, theirs, registersPerThread); \
  CUTRACE_SAME(kernel_record, start, theirs, start);                             \
  CUTRACE_SAME(kernel_record, end, theirs, end);                                 \
  CUTRACE_SAME(kernel_record, device, theirs, deviceId);                         \
  CUTRACE_SAME(kernel_record, context, theirs, contextId);                       \
  CUTRACE_SAME(kernel_record, stream, theirs, streamId);                         \
  CUTRACE_SAME_3(kernel_record, grid, theirs, gridX, gridY, gridZ);              \
  CUTRACE_SAME_3(kernel_record, block, theirs, blockX, blockY, blockZ);          \
  CUTRACE_SAME(kernel_record, static_shared, theirs, staticSharedMemory);        \
  CUTRACE_SAME(kernel_record, dynamic_shared, theirs, dynamicSharedMemory);      \
  CUTRACE_SAME(kernel_record, local_per_thread, theirs, localMemoryPerThread);   \
  CUTRACE_SAME(kernel_record, correlation, theirs, correlationId);               \
  CUTRACE_SAME(kernel_record, name, theirs, name);                               \
  CUTRACE_SAME(kernel_record, graph_node, theirs, graphNodeId);                  \
  CUTRACE_SAME(kernel_record, graph, theirs, graphId);                           \
  CUTRACE_SAME_3(kernel_record, cluster, theirs, clusterX, clusterY, clusterZ);  \
  CUTRACE_FITS(kernel_record, theirs)

#define CUTRACE_CHECK_COPY(ours, theirs)                  \
  CUTRACE_SAME(ours, kind, theirs, kind);                 \
  CUTRACE_SAME(ours, copy_kind, theirs, copyKind);        \
  CUTRACE_SAME(ours, source_kind, theirs, srcKind);       \
  CUTRACE_SAME(ours, destination_kind, theirs, dstKind);  \
  CUTRACE_SAME(ours, flags, theirs, flags);               \
  CUTRACE_SAME(ours, bytes, theirs, bytes);               \
  CUTRACE_SAME(ours, start, theirs, start);               \
  CUTRACE_SAME(ours, end, theirs, end);                   \
  CUTRACE_SAME(ours, device, theirs, deviceId);           \
  CUTRACE_SAME(ours, context, theirs, contextId);         \
  CUTRACE_SAME(ours, stream, theirs, streamId);           \
  CUTRACE_SAME(ours, correlation, theirs, correlationId); \
  CUTRACE_SAME(ours, graph_node, theirs, graphNodeId);    \
  CUTRACE_SAME(ours, graph, theirs, graphId);             \
  CUTRACE_FITS(ours, theirs)

#define CUTRACE_CHECK_SYNC(theirs)                               \
  CUTRACE_SAME(sync_record, kind, theirs, kind);                 \
  CUTRACE_SAME(sync_record, type, theirs, type);                 \
  CUTRACE_SAME(sync_record, start, theirs, start);               \
  CUTRACE_SAME(sync_record, end, theirs, end);                   \
  CUTRACE_SAME(sync_record, correlation, theirs, correlationId); \
  CUTRACE_SAME(sync_record, context, theirs, contextId);         \
  CUTRACE_SAME(sync_record, stream, theirs, streamId);           \
  CUTRACE_SAME(sync_record, event, theirs, cudaEventId);         \
  CUTRACE_FITS(sync_record, theirs)

#define CUTRACE_CHECK_OVERHEAD(theirs)                                \
  CUTRACE_SAME(overhead_record, kind, theirs, kind);                  \
  CUTRACE_SAME(overhead_record, overhead_kind, theirs, overheadKind); \
  CUTRACE_SAME(overhead_record, object_kind, theirs, objectKind);     \
  CUTRACE_SAME(overhead_record, object, theirs, objectId);            \
  CUTRACE_SAME(overhead_record, start, theirs, start);                \
  CUTRACE_SAME(overhead_record, end, theirs, end);                    \
  CUTRACE_FITS(overhead_record, theirs)

#define CUTRACE_CHECK_DEVICE(theirs)                                            \
  CUTRACE_SAME(device_record, memory_bandwidth, theirs, globalMemoryBandwidth); \
  CUTRACE_SAME(device_record, memory_bytes, theirs, globalMemorySize);          \
  CUTRACE_SAME(device_record, core_clock, theirs, coreClockRate);               \
  CUTRACE_SAME(device_record, multiprocessors, theirs, numMultiprocessors);     \
  CUTRACE_SAME(device_record, compute_major, theirs, computeCapabilityMajor);   \
  CUTRACE_SAME(device_record, compute_minor, theirs, computeCapabilityMinor);   \
  CUTRACE_SAME(device_record, id, theirs, id);                                  \
  CUTRACE_SAME(device_record, uuid, theirs, uuid);                              \
  CUTRACE_SAME(device_record, name, theirs, name);                              \
  CUTRACE_FITS(device_record, theirs)

#define CUTRACE_CHECK_CONTEXT(theirs)                              \
  CUTRACE_SAME(context_record, context, theirs, contextId);        \
  CUTRACE_SAME(context_record, device, theirs, deviceId);          \
  CUTRACE_SAME(context_record, api_kind, theirs, computeApiKind);  \
  CUTRACE_SAME(context_record, null_stream, theirs, nullStreamId); \
  CUTRACE_FITS(context_record, theirs)

#define CUTRACE_CHECK_CONTEXT2(theirs)                                        \
  CUTRACE_CHECK_CONTEXT(theirs);                                              \
  CUTRACE_SAME(context2_record, parent, theirs, parentContextId);             \
  CUTRACE_SAME(context2_record, green, theirs, isGreenContext);               \
  CUTRACE_SAME(context2_record, multiprocessors, theirs, numMultiprocessors); \
  CUTRACE_FITS(context2_record, theirs)

#define CUTRACE_CHECK_GRAPH(theirs)                               \
  CUTRACE_SAME(graph_record, correlation, theirs, correlationId); \
  CUTRACE_SAME(graph_record, start, theirs, start);               \
  CUTRACE_SAME(graph_record, end, theirs, end);                   \
  CUTRACE_SAME(graph_record, device, theirs, deviceId);           \
  CUTRACE_SAME(graph_record, graph, theirs, graphId);             \
  CUTRACE_SAME(graph_record, context, theirs, contextId);         \
  CUTRACE_SAME(graph_record, stream, theirs, streamId);           \
  CUTRACE_FITS(graph_record, theirs)

#define CUTRACE_CHECK_MEMORY2(theirs)                                   \
  CUTRACE_SAME(memory2_record, operation, theirs, memoryOperationType); \
  CUTRACE_SAME(memory2_record, memory_kind, theirs, memoryKind);        \
  CUTRACE_SAME(memory2_record, correlation, theirs, correlationId);     \
  CUTRACE_SAME(memory2_record, address, theirs, address);               \
  CUTRACE_SAME(memory2_record, bytes, theirs, bytes);                   \
  CUTRACE_SAME(memory2_record, timestamp, theirs, timestamp);           \
  CUTRACE_SAME(memory2_record, process, theirs, processId);             \
  CUTRACE_SAME(memory2_record, device, theirs, deviceId);               \
  CUTRACE_SAME(memory2_record, context, theirs, contextId);             \
  CUTRACE_SAME(memory2_record, stream, theirs, streamId);               \
  CUTRACE_FITS(memory2_record, theirs)

#define CUTRACE_CHECK_POOL(theirs)                                       \
  CUTRACE_SAME(pool_record, operation, theirs, memoryPoolOperationType); \
  CUTRACE_SAME(pool_record, correlation, theirs, correlationId);         \
  CUTRACE_SAME(pool_record, process, theirs, processId);                 \
  CUTRACE_SAME(pool_record, device, theirs, deviceId);                   \
  CUTRACE_SAME(pool_record, address, theirs, address);                   \
  CUTRACE_SAME(pool_record, size, theirs, size);                         \
  CUTRACE_SAME(pool_record, timestamp, theirs, timestamp);               \
  CUTRACE_FITS(pool_record, theirs)

#define CUTRACE_CHECK_CUDA_EVENT(ours, theirs)            \
  CUTRACE_SAME(ours, correlation, theirs, correlationId); \
  CUTRACE_SAME(ours, context, theirs, contextId);         \
  CUTRACE_SAME(ours, stream, theirs, streamId);           \
  CUTRACE_SAME(ours, event, theirs, eventId);             \
  CUTRACE_FITS(ours, theirs)

#define CUTRACE_CHECK_JIT(ours, theirs)                    \
  CUTRACE_SAME(ours, entry, theirs, jitEntryType);         \
  CUTRACE_SAME(ours, operation, theirs, jitOperationType); \
  CUTRACE_SAME(ours, device, theirs, deviceId);            \
  CUTRACE_SAME(ours, start, theirs, start);                \
  CUTRACE_SAME(ours, end, theirs, end);                    \
  CUTRACE_SAME(ours, correlation, theirs, correlationId);  \
  CUTRACE_FITS(ours, theirs)

#define CUTRACE_CHECK_UNIFIED(theirs)                         \
  CUTRACE_SAME(unified_record, counter, theirs, counterKind); \
  CUTRACE_SAME(unified_record, value, theirs, value);         \
  CUTRACE_SAME(unified_record, start, theirs, start);         \
  CUTRACE_SAME(unified_record, end, theirs, end);             \
  CUTRACE_SAME(unified_record, address, theirs, address);     \
  CUTRACE_SAME(unified_record, source, theirs, srcId);        \
  CUTRACE_SAME(unified_record, destination, theirs, dstId);   \
  CUTRACE_SAME(unified_record, process, theirs, processId);   \
  CUTRACE_SAME(unified_record, flags, theirs, flags);         \
  CUTRACE_FITS(unified_record, theirs)

#define CUTRACE_KIND(ours, theirs) \
  static_assert(static_cast<std::uint32_t>(record_kind::ours) == CUPTI_ACTIVITY_KIND_##theirs, "renumbered: " #theirs)
CUTRACE_KIND(memcpy, MEMCPY);
CUTRACE_KIND(memset, MEMSET);
CUTRACE_KIND(kernel, KERNEL);
CUTRACE_KIND(driver, DRIVER);
CUTRACE_KIND(runtime, RUNTIME);
CUTRACE_KIND(device, DEVICE);
CUTRACE_KIND(context, CONTEXT);
CUTRACE_KIND(concurrent_kernel, CONCURRENT_KERNEL);
CUTRACE_KIND(name, NAME);
CUTRACE_KIND(overhead, OVERHEAD);
CUTRACE_KIND(memcpy_peer, MEMCPY2);
CUTRACE_KIND(unified_memory, UNIFIED_MEMORY_COUNTER);
CUTRACE_KIND(cuda_event, CUDA_EVENT);
CUTRACE_KIND(environment, ENVIRONMENT);
CUTRACE_KIND(stream, STREAM);
CUTRACE_KIND(synchronization, SYNCHRONIZATION);
CUTRACE_KIND(external_correlation, EXTERNAL_CORRELATION);
CUTRACE_KIND(memory, MEMORY);
CUTRACE_KIND(internal_launch_api, INTERNAL_LAUNCH_API);
CUTRACE_KIND(memory2, MEMORY2);
CUTRACE_KIND(memory_pool, MEMORY_POOL);
CUTRACE_KIND(graph_trace, GRAPH_TRACE);

// In the headers of CUDA 11.8 and of all later releases up to 13.0.
CUTRACE_CHECK_KERNEL(CUpti_ActivityKernel8);
CUTRACE_CHECK_COPY(memcpy_record, CUpti_ActivityMemcpy5);
CUTRACE_CHECK_COPY(peer_record, CUpti_ActivityMemcpyPtoP4);
CUTRACE_SAME(peer_record, source_device, CUpti_ActivityMemcpyPtoP4, srcDeviceId);
CUTRACE_SAME(peer_record, destination_device, CUpti_ActivityMemcpyPtoP4, dstDeviceId);
CUTRACE_SAME(memset_record, value, CUpti_ActivityMemset4, value);
CUTRACE_SAME(memset_record, bytes, CUpti_ActivityMemset4, bytes);
CUTRACE_SAME(memset_record, start, CUpti_ActivityMemset4, start);
CUTRACE_SAME(memset_record, end, CUpti_ActivityMemset4, end);
CUTRACE_SAME(memset_record, device, CUpti_ActivityMemset4, deviceId);
CUTRACE_SAME(memset_record, context, CUpti_ActivityMemset4, contextId);
CUTRACE_SAME(memset_record, stream, CUpti_ActivityMemset4, streamId);
CUTRACE_SAME(memset_record, correlation, CUpti_ActivityMemset4, correlationId);
CUTRACE_SAME(memset_record, flags, CUpti_ActivityMemset4, flags);
CUTRACE_SAME(memset_record, memory_kind, CUpti_ActivityMemset4, memoryKind);
CUTRACE_SAME(memset_record, graph_node, CUpti_ActivityMemset4, graphNodeId);
CUTRACE_SAME(memset_record, graph, CUpti_ActivityMemset4, graphId);
CUTRACE_FITS(memset_record, CUpti_ActivityMemset4);
CUTRACE_CHECK_SYNC(CUpti_ActivitySynchronization);
CUTRACE_CHECK_OVERHEAD(CUpti_ActivityOverhead);
CUTRACE_CHECK_DEVICE(CUpti_ActivityDevice4);
CUTRACE_CHECK_CONTEXT(CUpti_ActivityContext);
CUTRACE_SAME(stream_record, context, CUpti_ActivityStream, contextId);
CUTRACE_SAME(stream_record, stream, CUpti_ActivityStream, streamId);
CUTRACE_SAME(stream_record, priority, CUpti_ActivityStream, priority);
CUTRACE_SAME(stream_record, flag, CUpti_ActivityStream, flag);
CUTRACE_SAME(stream_record, correlation, CUpti_ActivityStream, correlationId);
CUTRACE_SAME(name_record, object_kind, CUpti_ActivityName, objectKind);
CUTRACE_SAME(name_record, object, CUpti_ActivityName, objectId);
CUTRACE_SAME(name_record, name, CUpti_ActivityName, name);
CUTRACE_CHECK_GRAPH(CUpti_ActivityGraphTrace);
CUTRACE_SAME(memory_record, memory_kind, CUpti_ActivityMemory, memoryKind);
CUTRACE_SAME(memory_record, address, CUpti_ActivityMemory, address);
CUTRACE_SAME(memory_record, bytes, CUpti_ActivityMemory, bytes);
CUTRACE_SAME(memory_record, start, CUpti_ActivityMemory, start);
CUTRACE_SAME(memory_record, end, CUpti_ActivityMemory, end);
CUTRACE_SAME(memory_record, process, CUpti_ActivityMemory, processId);
CUTRACE_SAME(memory_record, device, CUpti_ActivityMemory, deviceId);
CUTRACE_SAME(memory_record, context, CUpti_ActivityMemory, contextId);
CUTRACE_CHECK_MEMORY2(CUpti_ActivityMemory3);
CUTRACE_CHECK_POOL(CUpti_ActivityMemoryPool2);
CUTRACE_CHECK_CUDA_EVENT(cuda_event_record, CUpti_ActivityCudaEvent);
CUTRACE_SAME(environment_record, device, CUpti_ActivityEnvironment, deviceId);
CUTRACE_SAME(environment_record, timestamp, CUpti_ActivityEnvironment, timestamp);
CUTRACE_SAME(environment_record, environment_kind, CUpti_ActivityEnvironment, environmentKind);
CUTRACE_CHECK_UNIFIED(CUpti_ActivityUnifiedMemoryCounter2);
static_assert(offsetof(environment_record, values) == offsetof(CUpti_ActivityEnvironment, data), "values");

#if CUDA_VERSION >= 12000
CUTRACE_CHECK_JIT(jit_record, CUpti_ActivityJit);
CUTRACE_KIND(jit, JIT);
#endif
#if CUPTI_API_VERSION >= 20  // CUDA 12.2
CUTRACE_CHECK_OVERHEAD(CUpti_ActivityOverhead2);
CUTRACE_SAME(overhead2_record, correlation, CUpti_ActivityOverhead2, correlationId);
#endif
#if CUPTI_API_VERSION >= 22  // CUDA 12.4
CUTRACE_CHECK_OVERHEAD(CUpti_ActivityOverhead3);
CUTRACE_SAME(overhead3_record, correlation, CUpti_ActivityOverhead3, correlationId);
CUTRACE_SAME(overhead3_record, data, CUpti_ActivityOverhead3, overheadData);
CUTRACE_CHECK_CONTEXT2(CUpti_ActivityContext2);
CUTRACE_CHECK_JIT(jit2_record, CUpti_ActivityJit2);
CUTRACE_SAME(jit2_record, process, CUpti_ActivityJit2, processId);
CUTRACE_SAME(jit2_record, thread, CUpti_ActivityJit2, threadId);
#endif
#if CUPTI_API_VERSION >= 24  // CUDA 12.6
CUTRACE_CHECK_KERNEL(CUpti_ActivityKernel9);
CUTRACE_CHECK_DEVICE(CUpti_ActivityDevice5);
CUTRACE_CHECK_CONTEXT2(CUpti_ActivityContext3);
CUTRACE_CHECK_GRAPH(CUpti_ActivityGraphTrace2);
CUTRACE_CHECK_MEMORY2(CUpti_ActivityMemory4);
#endif
#if CUPTI_API_VERSION >= 130000
CUTRACE_CHECK_KERNEL(CUpti_ActivityKernel10);
CUTRACE_CHECK_COPY(memcpy_record, CUpti_ActivityMemcpy6);
CUTRACE_CHECK_SYNC(CUpti_ActivitySynchronization2);
CUTRACE_CHECK_POOL(CUpti_ActivityMemoryPool3);
CUTRACE_CHECK_UNIFIED(CUpti_ActivityUnifiedMemoryCounter3);
CUTRACE_CHECK_CUDA_EVENT(cuda_event2_record, CUpti_ActivityCudaEvent2);
CUTRACE_SAME(cuda_event2_record, device, CUpti_ActivityCudaEvent2, deviceId);
CUTRACE_SAME(cuda_event2_record, timestamp, CUpti_ActivityCudaEvent2, deviceTimestamp);
#endif

#undef CUTRACE_KIND
#undef CUTRACE_SAME
#undef CUTRACE_SAME_3
#undef CUTRACE_FITS
#undef CUTRACE_CHECK_KERNEL
#undef CUTRACE_CHECK_COPY
#undef CUTRACE_CHECK_SYNC
#undef CUTRACE_CHECK_OVERHEAD
#undef CUTRACE_CHECK_DEVICE
#undef CUTRACE_CHECK_CONTEXT
#undef CUTRACE_CHECK_CONTEXT2
#undef CUTRACE_CHECK_GRAPH
#undef CUTRACE_CHECK_MEMORY2
#undef CUTRACE_CHECK_POOL
#undef CUTRACE_CHECK_CUDA_EVENT
#undef CUTRACE_CHECK_JIT
#undef CUTRACE_CHECK_UNIFIED

}  // namespace cupti
CUTRACE_END_NAMESPACE
