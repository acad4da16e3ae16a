// SPDX-License-Identifier: Apache-2.0
// Activity records: what the driver reports, as NVIDIA's structs.
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "tracer.hpp"

namespace standin {

namespace {

void fill(kernel_record& r, const standin_work& w, bool serial) {
  r.kind = serial ? CUPTI_ACTIVITY_KIND_KERNEL : CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  r.registersPerThread = static_cast<std::uint16_t>(w.registers);
  r.partitionedGlobalCacheRequested = CUPTI_ACTIVITY_PARTITIONED_GLOBAL_CACHE_CONFIG_UNKNOWN;
  r.deviceId = w.device;
  r.contextId = w.context;
  r.streamId = w.stream;
  r.gridX = static_cast<std::int32_t>(w.grid[0]);
  r.gridY = static_cast<std::int32_t>(w.grid[1]);
  r.gridZ = static_cast<std::int32_t>(w.grid[2]);
  r.blockX = static_cast<std::int32_t>(w.block[0]);
  r.blockY = static_cast<std::int32_t>(w.block[1]);
  r.blockZ = static_cast<std::int32_t>(w.block[2]);
  r.staticSharedMemory = static_cast<std::int32_t>(w.static_shared);
  r.dynamicSharedMemory = static_cast<std::int32_t>(w.dynamic_shared);
  r.localMemoryPerThread = w.local;
  r.correlationId = w.correlation;
  r.gridId = static_cast<std::int64_t>(w.correlation);
  r.name = w.name;
  r.launchType =
      w.cooperative ? CUPTI_ACTIVITY_LAUNCH_TYPE_COOPERATIVE_SINGLE_DEVICE : CUPTI_ACTIVITY_LAUNCH_TYPE_REGULAR;
  r.sharedMemoryExecuted = w.static_shared + w.dynamic_shared + 1024;
  r.graphNodeId = w.graph_node;
  r.graphId = w.graph;
  r.channelID = 8;
  r.channelType = CUPTI_CHANNEL_TYPE_COMPUTE;
  r.clusterX = w.cluster[0];
  r.clusterY = w.cluster[1];
  r.clusterZ = w.cluster[2];
}

/// The fields that records of copies and of sets share.
template <class Record>
void fill_common(Record& r, const standin_work& w) {
  r.bytes = w.bytes;
  r.deviceId = w.device;
  r.contextId = w.context;
  r.streamId = w.stream;
  r.correlationId = w.correlation;
  r.graphNodeId = w.graph_node;
  r.graphId = w.graph;
  r.channelID = 9;
  r.channelType = CUPTI_CHANNEL_TYPE_ASYNC_MEMCPY;
}

void fill(memcpy_record& r, const standin_work& w) {
  fill_common(r, w);
  r.kind = CUPTI_ACTIVITY_KIND_MEMCPY;
  r.copyKind = w.copy_kind;
  r.srcKind = w.source_kind;
  r.dstKind = w.destination_kind;
  r.flags = w.asynchronous ? CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC : CUPTI_ACTIVITY_FLAG_NONE;
  r.copyCount = 1;
}

void fill(peer_record& r, const standin_work& w) {
  fill_common(r, w);
  r.kind = CUPTI_ACTIVITY_KIND_MEMCPY2;
  r.copyKind = w.copy_kind;
  r.srcKind = w.source_kind;
  r.dstKind = w.destination_kind;
  r.flags = w.asynchronous ? CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC : CUPTI_ACTIVITY_FLAG_NONE;
  r.srcDeviceId = w.source_device;
  r.srcContextId = w.source_context;
  r.dstDeviceId = w.destination_device;
  r.dstContextId = w.destination_context;
}

void fill(memset_record& r, const standin_work& w) {
  fill_common(r, w);
  r.kind = CUPTI_ACTIVITY_KIND_MEMSET;
  r.value = w.value;
  r.flags = w.asynchronous ? CUPTI_ACTIVITY_FLAG_MEMSET_ASYNC : CUPTI_ACTIVITY_FLAG_NONE;
  r.memoryKind = w.destination_kind;
}

}  // namespace

bool tracer::take(std::atomic<std::uint64_t>& counter) {
  std::uint64_t n = counter.load(std::memory_order_relaxed);
  while (n != 0)
    if (counter.compare_exchange_weak(n, n - 1)) return true;
  return false;
}

void tracer::gpu_record(const void* record, std::size_t size, completion when) {
  if (take(drop_)) {
    records.count_dropped(1);
    return;
  }
  when.late_ns = late_ns_.load(std::memory_order_relaxed);
  when.early_ns = early_ns_.load(std::memory_order_relaxed);
  if (take(incomplete_)) {
    when.end_ns = ~std::uint64_t{0};
    when.open = nullptr;
  }
  when.zero_time = take(zero_time_);
  records.append(record, size, &when);
  if (!take(unknown_)) return;
  unknown_record strange{};
  strange.kind = unknown_kind;
  records.append(&strange, sizeof strange);
}

void tracer::managed_memory(std::uint32_t device, completion when) {
  if (!on(CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER)) return;
  const bool moves = unified_configured[CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_HTOD];
  const bool faults = unified_configured[CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_GPU_PAGE_FAULT];
  if ((!moves && !faults) || !take(unified_)) return;
  unified_record r{};
  r.kind = CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER;
  r.address = 0x7f0000000000;
  r.processId = static_cast<std::uint32_t>(getpid());
  if (moves) {
    r.counterKind = CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_HTOD;
    r.value = 65536;
    r.srcId = CUPTI_UNIFIED_MEMORY_CPU_DEVICE_ID;
    r.dstId = device;
    r.flags = CUPTI_ACTIVITY_UNIFIED_MEMORY_MIGRATION_CAUSE_COHERENCE;
    records.append(&r, sizeof r, &when);
  }
  if (!faults) return;
  r.counterKind = CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_GPU_PAGE_FAULT;
  r.value = 1;
  r.srcId = device;
  r.dstId = 0;
  r.flags = CUPTI_ACTIVITY_UNIFIED_MEMORY_ACCESS_TYPE_READ;
  records.append(&r, sizeof r, &when);
}

/// Between devices that do not reach each other's memory the driver copies by way of the host: two halves, one on each
/// device, each with device memory as source and destination kind (an H200, CUPTI 13.0).
void tracer::staged_copy(standin_work w, const completion& when) {
  if (!on(CUPTI_ACTIVITY_KIND_MEMCPY)) return;
  completion first = when, second = when;
  first.end_ns = second.start_ns = when.start_ns + (when.end_ns - when.start_ns) / 2;  // with `open` both get the whole
  memcpy_record out{}, in{};
  fill(out, w);
  out.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_DTOH;
  out.deviceId = w.source_device;
  out.contextId = w.source_context;
  gpu_record(&out, sizeof out, first);
  fill(in, w);
  in.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_HTOD;
  in.deviceId = w.destination_device;
  in.contextId = w.destination_context;
  gpu_record(&in, sizeof in, second);
}

void tracer::work(const standin_work& w) {
  const bool graph_level = on(CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
  const completion when{w.start_ns, w.end_ns, w.open, w.lost};
  if (w.kind == standin_graph) {
    if (!graph_level) return;
    if (graph_trace_crash_ && w.made_traced == 0) {
      std::fprintf(stderr,
                   "cutrace stand-in: graph %u was instantiated while GRAPH_TRACE was off; "
                   "CUPTI 13.0 crashes in its replay\n",
                   w.graph);
      std::abort();
    }
    graph_record r{};
    r.kind = CUPTI_ACTIVITY_KIND_GRAPH_TRACE;
    r.correlationId = w.correlation;
    r.deviceId = r.endDeviceId = w.device;
    r.contextId = r.endContextId = w.context;
    r.streamId = w.stream;
    r.graphId = w.graph;
    return gpu_record(&r, sizeof r, when);
  }
  if (w.graph != 0 && graph_level) return;
  if (w.kind == standin_kernel && (on(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) || on(CUPTI_ACTIVITY_KIND_KERNEL))) {
    kernel_record r{};
    fill(r, w, !on(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
    if (latency_timestamps) r.queued = r.submitted = clock.now();
    gpu_record(&r, sizeof r, when);
    managed_memory(w.device, when);
  } else if (w.kind == standin_memcpy && on(CUPTI_ACTIVITY_KIND_MEMCPY)) {
    memcpy_record r{};
    fill(r, w);
    gpu_record(&r, sizeof r, when);
  } else if (w.kind == standin_peer && w.staged) {
    staged_copy(w, when);
  } else if (w.kind == standin_peer && on(CUPTI_ACTIVITY_KIND_MEMCPY2)) {
    peer_record r{};
    fill(r, w);
    gpu_record(&r, sizeof r, when);
  } else if (w.kind == standin_memset && on(CUPTI_ACTIVITY_KIND_MEMSET)) {
    memset_record r{};
    fill(r, w);
    gpu_record(&r, sizeof r, when);
  }
}

void tracer::sync(const standin_sync& s) {
  if (!on(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION)) return;
  if (s.query && s.result != CUDA_SUCCESS && !all_sync_records) return;
  sync_record r{};
  r.kind = CUPTI_ACTIVITY_KIND_SYNCHRONIZATION;
  r.type = static_cast<CUpti_ActivitySynchronizationType>(s.type);
  clock.advance();
  r.start = clock.map(s.start_ns);
  r.end = clock.map(s.end_ns);
  r.correlationId = s.correlation;
  r.contextId = s.context;
  r.streamId = s.stream;
  r.cudaEventId = s.event;
  r.cudaEventSyncId = s.event;
  r.returnValue = s.result;
  records.append(&r, sizeof r);
}

void tracer::memory(const standin_memory& m) {
  if (!on(CUPTI_ACTIVITY_KIND_MEMORY2)) return;
  memory_record r{};
  r.kind = CUPTI_ACTIVITY_KIND_MEMORY2;
  r.memoryOperationType =
      m.release ? CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE : CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION;
  r.memoryKind = static_cast<CUpti_ActivityMemoryKind>(m.kind);
  r.correlationId = m.correlation;
  r.address = m.address;
  r.bytes = m.bytes;
  clock.advance();
  r.timestamp = clock.map(m.at_ns);
  r.processId = static_cast<std::uint32_t>(getpid());
  r.deviceId = m.device;
  r.contextId = m.context;
  r.streamId = m.stream;
  r.isAsync = m.asynchronous;
  records.append(&r, sizeof r);
}

void tracer::event(const standin_event& e) {
  // As CUPTI 13.0, which makes none without the other kind.
  if (!on(CUPTI_ACTIVITY_KIND_CUDA_EVENT) || !on(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION)) return;
  event_record r{};
  r.kind = CUPTI_ACTIVITY_KIND_CUDA_EVENT;
  r.correlationId = e.correlation;
  r.contextId = e.context;
  r.streamId = e.stream;
  r.eventId = e.event;
  r.deviceId = e.device;
  r.cudaEventSyncId = e.event;
  if (!event_timestamps) {
    records.append(&r, sizeof r);
    return;
  }
  const completion when{e.at_ns, e.at_ns, e.open, e.lost};
  records.append(&r, sizeof r, &when);
}

void tracer::stream(const standin_stream& s) {
  if (!on(CUPTI_ACTIVITY_KIND_STREAM)) return;
  stream_record r{};
  r.kind = CUPTI_ACTIVITY_KIND_STREAM;
  r.contextId = s.context;
  r.streamId = s.stream;
  r.priority = static_cast<std::uint32_t>(s.priority);
  r.flag = static_cast<CUpti_ActivityStreamFlag>(s.flag);
  r.correlationId = s.correlation;
  records.append(&r, sizeof r);
}

void tracer::context(const standin_context& c) {
  if (!on(CUPTI_ACTIVITY_KIND_CONTEXT)) return;
  context_record r{};
  r.kind = CUPTI_ACTIVITY_KIND_CONTEXT;
  r.contextId = c.context;
  r.deviceId = c.device;
  r.computeApiKind = CUPTI_ACTIVITY_COMPUTE_API_CUDA;
  r.nullStreamId = static_cast<std::uint16_t>(c.null_stream);
  r.parentContextId = CUPTI_INVALID_CONTEXT_ID;
  records.append(&r, sizeof r);
}

void tracer::device(const standin_device& d) {
  if (!on(CUPTI_ACTIVITY_KIND_DEVICE)) return;
  device_record r{};
  r.kind = CUPTI_ACTIVITY_KIND_DEVICE;
  r.flags = CUPTI_ACTIVITY_FLAG_DEVICE_CONCURRENT_KERNELS;
  r.globalMemoryBandwidth = d.bandwidth_bytes_per_s / 1000;  // kBytes/sec
  r.globalMemorySize = d.memory_bytes;
  r.constantMemorySize = 65536;
  r.l2CacheSize = d.l2_bytes;
  r.numThreadsPerWarp = 32;
  r.coreClockRate = d.core_clock_khz;
  r.numMemcpyEngines = 3;
  r.numMultiprocessors = d.multiprocessors;
  r.maxWarpsPerMultiprocessor = 64;
  r.maxBlocksPerMultiprocessor = 32;
  r.maxSharedMemoryPerMultiprocessor = 233472;
  r.maxRegistersPerMultiprocessor = r.maxRegistersPerBlock = 65536;
  r.maxSharedMemoryPerBlock = 49152;
  r.maxThreadsPerBlock = r.maxBlockDimX = r.maxBlockDimY = 1024;
  r.maxBlockDimZ = 64;
  r.maxGridDimX = 2147483647;
  r.maxGridDimY = r.maxGridDimZ = 65535;
  r.computeCapabilityMajor = d.major;
  r.computeCapabilityMinor = d.minor;
  r.id = d.id;
  std::memcpy(r.uuid.bytes, d.uuid, sizeof d.uuid);
  r.name = d.name;
  r.isCudaVisible = 1;
  r.numaId = invalidNumaId;
  records.append(&r, sizeof r);
}

}  // namespace standin
