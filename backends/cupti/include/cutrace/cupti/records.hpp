// SPDX-License-Identifier: Apache-2.0
// The part of each CUPTI activity record that is the same in every release from CUDA 11.8 on, as structures of our own:
// CUPTI fills its newest layout whatever headers we were built with, and layouts only ever grow at the end.
// records_check.hpp proves each offset against the headers at hand.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cutrace/config.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace cupti {

/// CUpti_ActivityKind, by number: headers before 12.0 lack some names, the library may be newer than its headers.
enum class record_kind : std::uint32_t {
  memcpy = 1,
  memset = 2,
  kernel = 3,
  driver = 4,
  runtime = 5,
  device = 8,
  context = 9,
  concurrent_kernel = 10,
  name = 11,
  overhead = 17,
  memcpy_peer = 22,
  unified_memory = 25,
  cuda_event = 36,
  stream = 37,
  environment = 20,
  synchronization = 38,
  external_correlation = 39,
  memory = 45,
  internal_launch_api = 48,
  memory2 = 49,
  memory_pool = 50,
  graph_trace = 51,
  jit = 52,
};

/// Byte count that must be there before a record is read: up to and with its last member that we use.
#define CUTRACE_RECORD_BYTES(type, last) constexpr std::size_t type##_bytes = offsetof(type, last) + sizeof(type::last)

/// KERNEL and CONCURRENT_KERNEL; CUpti_ActivityKernel8 (11.8) and later.
struct kernel_record {
  std::uint32_t kind;
  std::uint8_t cache_config, shared_config;
  std::uint16_t registers_per_thread;
  std::uint32_t cache_requested, cache_executed;
  std::uint64_t start, end, completed;
  std::uint32_t device, context, stream;
  std::int32_t grid[3], block[3];
  std::int32_t static_shared, dynamic_shared;
  std::uint32_t local_per_thread, local_total;
  std::uint32_t correlation;
  std::int64_t grid_id;
  const char* name;
  void* reserved0;
  std::uint64_t queued, submitted;
  std::uint8_t launch_type, carveout[3];
  std::uint32_t shared_executed;
  std::uint64_t graph_node;
  std::uint32_t shared_limit;
  std::uint32_t graph;
  void* access_policy;
  std::uint32_t channel, channel_type;
  std::uint32_t cluster[3];
};
CUTRACE_RECORD_BYTES(kernel_record, cluster);

/// MEMCPY; CUpti_ActivityMemcpy5 (11.6) and later.
struct memcpy_record {
  std::uint32_t kind;
  std::uint8_t copy_kind, source_kind, destination_kind, flags;
  std::uint64_t bytes, start, end;
  std::uint32_t device, context, stream, correlation, runtime_correlation, pad;
  void* reserved0;
  std::uint64_t graph_node;
  std::uint32_t graph;
};
CUTRACE_RECORD_BYTES(memcpy_record, graph);

/// MEMCPY2, copies between devices; CUpti_ActivityMemcpyPtoP4 (11.6) and later.
struct peer_record {
  std::uint32_t kind;
  std::uint8_t copy_kind, source_kind, destination_kind, flags;
  std::uint64_t bytes, start, end;
  std::uint32_t device, context, stream;
  std::uint32_t source_device, source_context, destination_device, destination_context;
  std::uint32_t correlation;
  void* reserved0;
  std::uint64_t graph_node;
  std::uint32_t graph;
};
CUTRACE_RECORD_BYTES(peer_record, graph);

/// MEMSET; CUpti_ActivityMemset4 (11.6) and later.
struct memset_record {
  std::uint32_t kind, value;
  std::uint64_t bytes, start, end;
  std::uint32_t device, context, stream, correlation;
  std::uint16_t flags, memory_kind;
  std::uint32_t pad;
  void* reserved0;
  std::uint64_t graph_node;
  std::uint32_t graph;
};
CUTRACE_RECORD_BYTES(memset_record, graph);

/// SYNCHRONIZATION; CUpti_ActivitySynchronization and later. All ones: no such stream or event.
struct sync_record {
  std::uint32_t kind, type;
  std::uint64_t start, end;
  std::uint32_t correlation, context, stream, event;
};
CUTRACE_RECORD_BYTES(sync_record, event);

/// CUpti_ActivityObjectKindId: process and thread, or device, context and stream. Used by OVERHEAD and NAME.
struct object_id {
  std::uint32_t process_or_device, thread_or_context, stream;
};

/// OVERHEAD; CUpti_ActivityOverhead.
struct overhead_record {
  std::uint32_t kind, overhead_kind, object_kind;
  object_id object;
  std::uint64_t start, end;
};
CUTRACE_RECORD_BYTES(overhead_record, end);

/// OVERHEAD since CUDA 12.2, API version 20; CUpti_ActivityOverhead2.
struct overhead2_record {
  overhead_record base;
  std::uint32_t correlation;
};
CUTRACE_RECORD_BYTES(overhead2_record, correlation);

/// OVERHEAD since CUDA 12.4, API version 22; CUpti_ActivityOverhead3. `data` is ours to free.
struct overhead3_record {
  overhead_record base;
  std::uint32_t correlation, reserved0;
  void* data;
};
CUTRACE_RECORD_BYTES(overhead3_record, data);

/// DEVICE; CUpti_ActivityDevice4 (11.6) and later. Bandwidth in kB/s, clock in kHz.
struct device_record {
  std::uint32_t kind, flags;
  std::uint64_t memory_bandwidth, memory_bytes;
  std::uint32_t constant_bytes, l2_bytes, warp, core_clock, copy_engines, multiprocessors;
  std::uint32_t limits[14];
  std::uint32_t compute_major, compute_minor, id, ecc;
  std::uint8_t uuid[16];
  const char* name;
};
CUTRACE_RECORD_BYTES(device_record, name);

/// CONTEXT; CUpti_ActivityContext and later.
struct context_record {
  std::uint32_t kind, context, device;
  std::uint16_t api_kind, null_stream;
};
CUTRACE_RECORD_BYTES(context_record, null_stream);

/// CONTEXT since CUDA 12.4, API version 22; CUpti_ActivityContext2. `parent` is 0 or all ones where there is none.
struct context2_record {
  std::uint32_t kind, context, device;
  std::uint16_t api_kind, null_stream;
  std::uint32_t parent;
  std::uint8_t green, pad;
  std::uint16_t multiprocessors;
};
CUTRACE_RECORD_BYTES(context2_record, multiprocessors);

/// STREAM; CUpti_ActivityStream.
struct stream_record {
  std::uint32_t kind, context, stream, priority, flag, correlation;
};
CUTRACE_RECORD_BYTES(stream_record, correlation);

/// NAME; CUpti_ActivityName.
struct name_record {
  std::uint32_t kind, object_kind;
  object_id object;
  std::uint32_t pad;
  const char* name;
};
CUTRACE_RECORD_BYTES(name_record, name);

/// GRAPH_TRACE; CUpti_ActivityGraphTrace (11.7) and later.
struct graph_record {
  std::uint32_t kind, correlation;
  std::uint64_t start, end;
  std::uint32_t device, graph, context, stream;
};
CUTRACE_RECORD_BYTES(graph_record, stream);

/// MEMORY, one record for the life of an allocation; CUpti_ActivityMemory.
struct memory_record {
  std::uint32_t kind, memory_kind;
  std::uint64_t address, bytes, start, end, allocate_pc, free_pc;
  std::uint32_t process, device, context;
};
CUTRACE_RECORD_BYTES(memory_record, context);

/// MEMORY2, one record for each operation; CUpti_ActivityMemory3 (11.6) and later.
struct memory2_record {
  std::uint32_t kind, operation, memory_kind, correlation;
  std::uint64_t address, bytes, timestamp, pc;
  std::uint32_t process, device, context, stream;
};
CUTRACE_RECORD_BYTES(memory2_record, stream);

/// MEMORY_POOL; CUpti_ActivityMemoryPool2 (11.6) and later.
struct pool_record {
  std::uint32_t kind, operation, pool_type, correlation, process, device;
  std::uint64_t keep_bytes, address, size, release_threshold, timestamp;
};
CUTRACE_RECORD_BYTES(pool_record, timestamp);

/// CUDA_EVENT; CUpti_ActivityCudaEvent.
struct cuda_event_record {
  std::uint32_t kind, correlation, context, stream, event;
};
CUTRACE_RECORD_BYTES(cuda_event_record, event);

/// CUDA_EVENT since CUDA 12.8, API version 26; CUpti_ActivityCudaEvent2. `timestamp` is 0 unless asked for.
struct cuda_event2_record {
  std::uint32_t kind, correlation, context, stream, event, pad, device, pad2;
  void* reserved0;
  std::uint64_t timestamp;
};
CUTRACE_RECORD_BYTES(cuda_event2_record, timestamp);

/// JIT; CUpti_ActivityJit and later.
struct jit_record {
  std::uint32_t kind, entry, operation, device;
  std::uint64_t start, end;
  std::uint32_t correlation;
};
CUTRACE_RECORD_BYTES(jit_record, correlation);

/// JIT since CUDA 12.4, API version 22; CUpti_ActivityJit2.
struct jit2_record {
  std::uint32_t kind, entry, operation, device;
  std::uint64_t start, end;
  std::uint32_t correlation, pad;
  std::uint64_t operation_correlation, cache_bytes;
  const char* cache_path;
  std::uint32_t process, thread;
};
CUTRACE_RECORD_BYTES(jit2_record, thread);

/// ENVIRONMENT; CUpti_ActivityEnvironment. `values` by environment_kind: 1 speed (clock of the multiprocessors and of
/// the memory, MHz), 2 temperature (C), 3 power (mW, limit in mW), 4 cooling (fan, percent).
struct environment_record {
  std::uint32_t kind, device;
  std::uint64_t timestamp;
  std::uint32_t environment_kind;
  std::uint32_t values[2];
};
CUTRACE_RECORD_BYTES(environment_record, values);

/// UNIFIED_MEMORY_COUNTER; CUpti_ActivityUnifiedMemoryCounter2 (7.0) and later. Each counter gives `value`, `end`,
/// `source` and `destination` its own meaning; `stream` is documented as invalid.
struct unified_record {
  std::uint32_t kind, counter;
  std::uint64_t value, start, end, address;
  std::uint32_t source, destination, stream, process, flags;
};
CUTRACE_RECORD_BYTES(unified_record, flags);

#undef CUTRACE_RECORD_BYTES

}  // namespace cupti
CUTRACE_END_NAMESPACE
