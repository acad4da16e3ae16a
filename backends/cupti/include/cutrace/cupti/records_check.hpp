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
  static_assert(sizeof(ours::member) == sizeof(theirs::their_member), "resized: " #theirs "::" #their_member);
// Three consecutive members in theirs, an array in ours.
#define CUTRACE_SAME_3(ours, member, theirs, x, y, z)                                                              \
  static_assert(offsetof(ours, member) == offsetof(theirs, x) && offsetof(theirs, y) == offsetof(theirs, x) + 4 && \
                    offsetof(theirs, z) == offsetof(theirs, x) + 8 && sizeof(ours::member) == 12,                  \
                "moved: " #theirs "::" #x);
#define CUTRACE_FITS(ours, theirs) static_assert(ours##_bytes <= sizeof(theirs), "too long for " #theirs)
#define CUTRACE_CHECK(table, ours, theirs) \
  CUTRACE_##table(CUTRACE_SAME, CUTRACE_SAME_3, ours, theirs) CUTRACE_FITS(ours, theirs)

// One table for each record: member of O, which is ours, and of T, which is CUPTI's.
// clang-format off
#define CUTRACE_KERNEL(X, X3, O, T) \
  X(O, kind, T, kind) X(O, registers_per_thread, T, registersPerThread) X(O, start, T, start) X(O, end, T, end) \
  X(O, device, T, deviceId) X(O, context, T, contextId) X(O, stream, T, streamId) \
  X3(O, grid, T, gridX, gridY, gridZ) X3(O, block, T, blockX, blockY, blockZ) \
  X(O, static_shared, T, staticSharedMemory) X(O, dynamic_shared, T, dynamicSharedMemory) \
  X(O, local_per_thread, T, localMemoryPerThread) X(O, correlation, T, correlationId) X(O, name, T, name) \
  X(O, graph_node, T, graphNodeId) X(O, graph, T, graphId) X3(O, cluster, T, clusterX, clusterY, clusterZ)
#define CUTRACE_COPY(X, X3, O, T) \
  X(O, kind, T, kind) X(O, copy_kind, T, copyKind) X(O, source_kind, T, srcKind) \
  X(O, destination_kind, T, dstKind) X(O, flags, T, flags) X(O, bytes, T, bytes) X(O, start, T, start) \
  X(O, end, T, end) X(O, device, T, deviceId) X(O, context, T, contextId) X(O, stream, T, streamId) \
  X(O, correlation, T, correlationId) X(O, graph_node, T, graphNodeId) X(O, graph, T, graphId)
#define CUTRACE_PEER(X, X3, O, T) \
  CUTRACE_COPY(X, X3, O, T) X(O, source_device, T, srcDeviceId) X(O, destination_device, T, dstDeviceId)
#define CUTRACE_MEMSET(X, X3, O, T) \
  X(O, value, T, value) X(O, bytes, T, bytes) X(O, start, T, start) X(O, end, T, end) X(O, device, T, deviceId) \
  X(O, context, T, contextId) X(O, stream, T, streamId) X(O, correlation, T, correlationId) X(O, flags, T, flags) \
  X(O, memory_kind, T, memoryKind) X(O, graph_node, T, graphNodeId) X(O, graph, T, graphId)
#define CUTRACE_SYNC(X, X3, O, T) \
  X(O, kind, T, kind) X(O, type, T, type) X(O, start, T, start) X(O, end, T, end) \
  X(O, correlation, T, correlationId) X(O, context, T, contextId) X(O, stream, T, streamId) \
  X(O, event, T, cudaEventId)
#define CUTRACE_OVERHEAD(X, X3, O, T) \
  X(O, kind, T, kind) X(O, overhead_kind, T, overheadKind) X(O, object_kind, T, objectKind) \
  X(O, object, T, objectId) X(O, start, T, start) X(O, end, T, end)
#define CUTRACE_OVERHEAD_CALL(X, X3, O, T) \
  X(O, correlation, T, correlationId)
#define CUTRACE_OVERHEAD_DATA(X, X3, O, T) \
  CUTRACE_OVERHEAD_CALL(X, X3, O, T) X(O, data, T, overheadData)
#define CUTRACE_DEVICE(X, X3, O, T) \
  X(O, memory_bandwidth, T, globalMemoryBandwidth) X(O, memory_bytes, T, globalMemorySize) \
  X(O, core_clock, T, coreClockRate) X(O, multiprocessors, T, numMultiprocessors) \
  X(O, compute_major, T, computeCapabilityMajor) X(O, compute_minor, T, computeCapabilityMinor) X(O, id, T, id) \
  X(O, uuid, T, uuid) X(O, name, T, name)
#define CUTRACE_CONTEXT(X, X3, O, T) \
  X(O, context, T, contextId) X(O, device, T, deviceId) X(O, api_kind, T, computeApiKind) \
  X(O, null_stream, T, nullStreamId)
#define CUTRACE_CONTEXT2(X, X3, O, T) \
  CUTRACE_CONTEXT(X, X3, O, T) X(O, parent, T, parentContextId) X(O, green, T, isGreenContext) \
  X(O, multiprocessors, T, numMultiprocessors)
#define CUTRACE_STREAM(X, X3, O, T) \
  X(O, context, T, contextId) X(O, stream, T, streamId) X(O, priority, T, priority) X(O, flag, T, flag) \
  X(O, correlation, T, correlationId)
#define CUTRACE_NAME(X, X3, O, T) \
  X(O, object_kind, T, objectKind) X(O, object, T, objectId) X(O, name, T, name)
#define CUTRACE_GRAPH(X, X3, O, T) \
  X(O, correlation, T, correlationId) X(O, start, T, start) X(O, end, T, end) X(O, device, T, deviceId) \
  X(O, graph, T, graphId) X(O, context, T, contextId) X(O, stream, T, streamId)
#define CUTRACE_MEMORY(X, X3, O, T) \
  X(O, memory_kind, T, memoryKind) X(O, address, T, address) X(O, bytes, T, bytes) X(O, start, T, start) \
  X(O, end, T, end) X(O, process, T, processId) X(O, device, T, deviceId) X(O, context, T, contextId)
#define CUTRACE_MEMORY2(X, X3, O, T) \
  X(O, operation, T, memoryOperationType) X(O, memory_kind, T, memoryKind) X(O, correlation, T, correlationId) \
  X(O, address, T, address) X(O, bytes, T, bytes) X(O, timestamp, T, timestamp) X(O, process, T, processId) \
  X(O, device, T, deviceId) X(O, context, T, contextId) X(O, stream, T, streamId)
#define CUTRACE_POOL(X, X3, O, T) \
  X(O, operation, T, memoryPoolOperationType) X(O, correlation, T, correlationId) X(O, process, T, processId) \
  X(O, device, T, deviceId) X(O, address, T, address) X(O, size, T, size) X(O, timestamp, T, timestamp)
#define CUTRACE_CUDA_EVENT(X, X3, O, T) \
  X(O, correlation, T, correlationId) X(O, context, T, contextId) X(O, stream, T, streamId) \
  X(O, event, T, eventId)
#define CUTRACE_CUDA_EVENT2(X, X3, O, T) \
  CUTRACE_CUDA_EVENT(X, X3, O, T) X(O, device, T, deviceId) X(O, timestamp, T, deviceTimestamp)
#define CUTRACE_JIT(X, X3, O, T) \
  X(O, entry, T, jitEntryType) X(O, operation, T, jitOperationType) X(O, device, T, deviceId) \
  X(O, start, T, start) X(O, end, T, end) X(O, correlation, T, correlationId)
#define CUTRACE_JIT2(X, X3, O, T) \
  CUTRACE_JIT(X, X3, O, T) X(O, process, T, processId) X(O, thread, T, threadId)
#define CUTRACE_ENVIRONMENT(X, X3, O, T) \
  X(O, device, T, deviceId) X(O, timestamp, T, timestamp) X(O, environment_kind, T, environmentKind)
#define CUTRACE_UNIFIED(X, X3, O, T) \
  X(O, counter, T, counterKind) X(O, value, T, value) X(O, start, T, start) X(O, end, T, end) \
  X(O, address, T, address) X(O, source, T, srcId) X(O, destination, T, dstId) X(O, process, T, processId) \
  X(O, flags, T, flags)
// clang-format on

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
CUTRACE_CHECK(KERNEL, kernel_record, CUpti_ActivityKernel8);
CUTRACE_CHECK(COPY, memcpy_record, CUpti_ActivityMemcpy5);
CUTRACE_CHECK(PEER, peer_record, CUpti_ActivityMemcpyPtoP4);
CUTRACE_CHECK(MEMSET, memset_record, CUpti_ActivityMemset4);
CUTRACE_CHECK(SYNC, sync_record, CUpti_ActivitySynchronization);
CUTRACE_CHECK(OVERHEAD, overhead_record, CUpti_ActivityOverhead);
CUTRACE_CHECK(DEVICE, device_record, CUpti_ActivityDevice4);
CUTRACE_CHECK(CONTEXT, context_record, CUpti_ActivityContext);
CUTRACE_CHECK(STREAM, stream_record, CUpti_ActivityStream);
CUTRACE_CHECK(NAME, name_record, CUpti_ActivityName);
CUTRACE_CHECK(GRAPH, graph_record, CUpti_ActivityGraphTrace);
CUTRACE_CHECK(MEMORY, memory_record, CUpti_ActivityMemory);
CUTRACE_CHECK(MEMORY2, memory2_record, CUpti_ActivityMemory3);
CUTRACE_CHECK(POOL, pool_record, CUpti_ActivityMemoryPool2);
CUTRACE_CHECK(CUDA_EVENT, cuda_event_record, CUpti_ActivityCudaEvent);
CUTRACE_CHECK(ENVIRONMENT, environment_record, CUpti_ActivityEnvironment);
static_assert(offsetof(environment_record, values) == offsetof(CUpti_ActivityEnvironment, data), "values");
CUTRACE_CHECK(UNIFIED, unified_record, CUpti_ActivityUnifiedMemoryCounter2);

#if CUDA_VERSION >= 12000
CUTRACE_CHECK(JIT, jit_record, CUpti_ActivityJit);
CUTRACE_KIND(jit, JIT);
#endif
#if CUPTI_API_VERSION >= 20  // CUDA 12.2
CUTRACE_CHECK(OVERHEAD, overhead_record, CUpti_ActivityOverhead2);
CUTRACE_CHECK(OVERHEAD_CALL, overhead2_record, CUpti_ActivityOverhead2);
#endif
#if CUPTI_API_VERSION >= 22  // CUDA 12.4
CUTRACE_CHECK(OVERHEAD, overhead_record, CUpti_ActivityOverhead3);
CUTRACE_CHECK(OVERHEAD_DATA, overhead3_record, CUpti_ActivityOverhead3);
CUTRACE_CHECK(CONTEXT2, context2_record, CUpti_ActivityContext2);
CUTRACE_CHECK(JIT2, jit2_record, CUpti_ActivityJit2);
#endif
#if CUPTI_API_VERSION >= 24  // CUDA 12.6
CUTRACE_CHECK(KERNEL, kernel_record, CUpti_ActivityKernel9);
CUTRACE_CHECK(DEVICE, device_record, CUpti_ActivityDevice5);
CUTRACE_CHECK(CONTEXT2, context2_record, CUpti_ActivityContext3);
CUTRACE_CHECK(GRAPH, graph_record, CUpti_ActivityGraphTrace2);
CUTRACE_CHECK(MEMORY2, memory2_record, CUpti_ActivityMemory4);
#endif
#if CUPTI_API_VERSION >= 130000
CUTRACE_CHECK(KERNEL, kernel_record, CUpti_ActivityKernel10);
CUTRACE_CHECK(COPY, memcpy_record, CUpti_ActivityMemcpy6);
CUTRACE_CHECK(SYNC, sync_record, CUpti_ActivitySynchronization2);
CUTRACE_CHECK(POOL, pool_record, CUpti_ActivityMemoryPool3);
CUTRACE_CHECK(UNIFIED, unified_record, CUpti_ActivityUnifiedMemoryCounter3);
CUTRACE_CHECK(CUDA_EVENT2, cuda_event2_record, CUpti_ActivityCudaEvent2);
#endif

#undef CUTRACE_KIND
#undef CUTRACE_SAME
#undef CUTRACE_SAME_3
#undef CUTRACE_FITS
#undef CUTRACE_CHECK
#undef CUTRACE_KERNEL
#undef CUTRACE_COPY
#undef CUTRACE_PEER
#undef CUTRACE_MEMSET
#undef CUTRACE_SYNC
#undef CUTRACE_OVERHEAD
#undef CUTRACE_OVERHEAD_CALL
#undef CUTRACE_OVERHEAD_DATA
#undef CUTRACE_DEVICE
#undef CUTRACE_CONTEXT
#undef CUTRACE_CONTEXT2
#undef CUTRACE_STREAM
#undef CUTRACE_NAME
#undef CUTRACE_GRAPH
#undef CUTRACE_MEMORY
#undef CUTRACE_MEMORY2
#undef CUTRACE_POOL
#undef CUTRACE_CUDA_EVENT
#undef CUTRACE_CUDA_EVENT2
#undef CUTRACE_JIT
#undef CUTRACE_JIT2
#undef CUTRACE_ENVIRONMENT
#undef CUTRACE_UNIFIED

}  // namespace cupti
CUTRACE_END_NAMESPACE
