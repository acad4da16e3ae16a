// SPDX-License-Identifier: Apache-2.0
// Decoders of what is no work of the GPU: descriptions of devices, contexts and streams, memory, overhead of the
// tracing itself, compilation, CUDA events. Same contract as decode_work.hpp.
#pragma once

#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <cutrace/cupti/decode_context.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace cupti {
namespace decoding {

CUTRACE_LOCAL inline bool device(const void* at, std::size_t available, decode_context&, event_emitter& emitter) {
  device_record r;
  if (!load(at, available, device_record_bytes, r)) return false;
  event e;
  e.kind = event_kind::device;
  e.device = r.id;
  e.name = intern(emitter, r.name);
  device_data& d = e.device_;
  d.memory_bytes = r.memory_bytes;
  d.memory_bandwidth_bytes_per_s = r.memory_bandwidth * 1000;  // CUPTI: kBytes/s
  d.multiprocessors = r.multiprocessors;
  d.compute_major = r.compute_major;
  d.compute_minor = r.compute_minor;
  d.core_clock_khz = r.core_clock;
  std::memcpy(d.uuid, r.uuid, sizeof(d.uuid));
  emitter.emit(e);
  return true;
}

/// `stream` of the event is the context's default stream. Work in a green context or under MPS carries the id of that
/// context and no more, so the event's name says what is special about the context.
CUTRACE_LOCAL inline bool context(const void* at, std::size_t available, decode_context& c, event_emitter& emitter) {
  context_record r;
  if (!load(at, available, context_record_bytes, r)) return false;
  c.learn(r.context, r.device);
  char label[80];
  int n = r.api_kind == CUPTI_ACTIVITY_COMPUTE_API_CUDA_MPS ? std::snprintf(label, sizeof(label), "MPS") : 0;
  context2_record newer;
  if (c.cupti_version >= 22 && load(at, available, context2_record_bytes, newer) && newer.green != 0)
    n += std::snprintf(label + n, sizeof(label) - static_cast<std::size_t>(n),
                       "%sgreen context, %u multiprocessors, of context %u", n != 0 ? ", " : "",
                       unsigned{newer.multiprocessors}, id_or_0(newer.parent));
  event e;
  e.kind = event_kind::context;
  set_place(e, r.device, r.context, r.null_stream);
  if (n != 0) e.name = emitter.intern(label, static_cast<std::size_t>(n));
  emitter.emit(e);
  return true;
}

CUTRACE_LOCAL inline bool stream(const void* at, std::size_t available, decode_context& c, event_emitter& emitter) {
  stream_record r;
  if (!load(at, available, stream_record_bytes, r)) return false;
  event e;
  e.kind = event_kind::stream;
  set_place(e, c.device_of(r.context), r.context, r.stream);
  e.correlation_id = r.correlation;
  e.stream_.priority = static_cast<std::int32_t>(r.priority);  // CUDA's priorities are negative or 0
  e.stream_.flags = r.flag;
  emitter.emit(e);
  return true;
}

/// A name given through NVTX. The event describes the object by its ids and this name only.
CUTRACE_LOCAL inline bool name(const void* at, std::size_t available, decode_context&, event_emitter& emitter) {
  name_record r;
  if (!load(at, available, name_record_bytes, r)) return false;
  event e;
  switch (r.object_kind) {
    case CUPTI_ACTIVITY_OBJECT_PROCESS:
      e.kind = event_kind::process;
      e.process_id = r.object.process_or_device;
      break;
    case CUPTI_ACTIVITY_OBJECT_THREAD:
      e.kind = event_kind::thread;
      e.process_id = r.object.process_or_device;
      e.thread_id = r.object.thread_or_context;
      break;
    case CUPTI_ACTIVITY_OBJECT_DEVICE:
      e.kind = event_kind::device;
      e.device = r.object.process_or_device;
      break;
    case CUPTI_ACTIVITY_OBJECT_CONTEXT:
      e.kind = event_kind::context;
      set_place(e, r.object.process_or_device, r.object.thread_or_context, 0);
      break;
    case CUPTI_ACTIVITY_OBJECT_STREAM:
      e.kind = event_kind::stream;
      set_place(e, r.object.process_or_device, r.object.thread_or_context, r.object.stream);
      break;
    default:
      emitter.count_loss(loss_cause::unknown_record, 1);
      return true;
  }
  e.name = intern(emitter, r.name);
  emitter.emit(e);
  return true;
}

CUTRACE_LOCAL inline const char* overhead_name(std::uint32_t kind) noexcept {
  static constexpr const char* cupti_kinds[] = {
      "CUPTI buffer flush",    "CUPTI instrumentation", "CUPTI resource",          "module loading",
      "lazy function loading", "command buffer full",   "activity buffer request", "unified memory tracing start"};
  if (kind == CUPTI_ACTIVITY_OVERHEAD_DRIVER_COMPILER) return "driver compiler";
  const std::uint32_t n = kind >> 16;  // CUpti_ActivityOverheadKind: 1<<16, 2<<16, ... 8<<16
  return n >= 1 && n <= 8 && (kind & 0xffff) == 0 ? cupti_kinds[n - 1] : "overhead";
}

/// CUPTI since 12.4 allocates details for the one kind that has a structure for them, and they are the client's to
/// free (CUpti_ActivityOverhead3). Freed for that kind only: elsewhere the member's content is not documented.
CUTRACE_LOCAL inline void free_details(const void* at, std::size_t available, std::uint32_t kind, decode_context& c) {
  constexpr std::uint32_t command_buffer_full = 6u << 16;
  overhead3_record r;
  if (c.cupti_version < 22 || kind != command_buffer_full || !load(at, available, overhead3_record_bytes, r)) return;
  if (r.data != nullptr) c.free_data(r.data);
}

CUTRACE_LOCAL inline bool overhead(const void* at, std::size_t available, decode_context& c, event_emitter& emitter) {
  overhead_record r;
  if (!load(at, available, overhead_record_bytes, r)) return false;
  free_details(at, available, r.overhead_kind, c);
  event e;
  e.kind = event_kind::overhead;
  set_times(e, r.start, r.end, c, emitter);
  overhead2_record newer;
  if (c.cupti_version >= 20 && load(at, available, overhead2_record_bytes, newer)) {
    e.correlation_id = newer.correlation;
  }
  if (r.object_kind == CUPTI_ACTIVITY_OBJECT_PROCESS || r.object_kind == CUPTI_ACTIVITY_OBJECT_THREAD) {
    e.process_id = r.object.process_or_device;
    if (r.object_kind == CUPTI_ACTIVITY_OBJECT_THREAD) e.thread_id = r.object.thread_or_context;
  } else if (r.object_kind != CUPTI_ACTIVITY_OBJECT_UNKNOWN) {
    set_place(e, r.object.process_or_device, r.object.thread_or_context, r.object.stream);
  }
  e.name = fixed(c, emitter, overhead_name(r.overhead_kind));
  emitter.emit(e);
  return true;
}

CUTRACE_LOCAL inline void emit_memory(event& e, std::uint64_t time, memory_operation operation,
                                      event_emitter& emitter) {
  if (time == 0) emitter.count_quality(static_cast<std::uint32_t>(quality::no_timestamp));
  e.start_ns = e.end_ns = static_cast<std::int64_t>(time);
  e.memory.operation = operation;
  emitter.emit(e);
}

/// One record for the whole life of an allocation becomes two events, or one while the allocation still lives.
CUTRACE_LOCAL inline bool memory(const void* at, std::size_t available, decode_context& c, event_emitter& emitter) {
  memory_record r;
  if (!load(at, available, memory_record_bytes, r)) return false;
  event e;
  e.kind = event_kind::memory;
  e.process_id = r.process;
  set_place(e, r.device, r.context, 0);
  e.memory.address = r.address;
  e.memory.bytes = r.bytes;
  e.memory.memory = memory_of(r.memory_kind);
  e.name = fixed(c, emitter, "allocate");
  emit_memory(e, r.start, memory_operation::allocate, emitter);
  if (r.end == 0) return true;
  e.name = fixed(c, emitter, "free");
  emit_memory(e, r.end, memory_operation::free, emitter);
  return true;
}

CUTRACE_LOCAL inline bool memory2(const void* at, std::size_t available, decode_context& c, event_emitter& emitter) {
  memory2_record r;
  if (!load(at, available, memory2_record_bytes, r)) return false;
  if (r.operation != CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION &&
      r.operation != CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE) {
    emitter.count_loss(loss_cause::unknown_record, 1);
    return true;
  }
  const bool allocates = r.operation == CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION;
  event e;
  e.kind = event_kind::memory;
  e.process_id = r.process;
  set_place(e, r.device, r.context, r.stream);
  e.correlation_id = r.correlation;
  e.memory.address = r.address;
  e.memory.bytes = r.bytes;
  e.memory.memory = memory_of(r.memory_kind);
  e.name = fixed(c, emitter, allocates ? "allocate" : "free");
  emit_memory(e, r.timestamp, allocates ? memory_operation::allocate : memory_operation::free, emitter);
  return true;
}

/// A pool holds memory that allocations are cut from; to count it as allocated would count it twice. So its size is a
/// gauge, sampled whenever the pool is created, trimmed or destroyed.
CUTRACE_LOCAL inline bool memory_pool(const void* at, std::size_t available, decode_context& c,
                                      event_emitter& emitter) {
  pool_record r;
  if (!load(at, available, pool_record_bytes, r)) return false;
  const bool destroyed = r.operation == CUPTI_ACTIVITY_MEMORY_POOL_OPERATION_TYPE_DESTROYED;
  if (!destroyed && r.operation != CUPTI_ACTIVITY_MEMORY_POOL_OPERATION_TYPE_CREATED &&
      r.operation != CUPTI_ACTIVITY_MEMORY_POOL_OPERATION_TYPE_TRIMMED) {
    emitter.count_loss(loss_cause::unknown_record, 1);
    return true;
  }
  event e;
  e.kind = event_kind::counter;
  if (r.timestamp == 0) emitter.count_quality(static_cast<std::uint32_t>(quality::no_timestamp));
  e.start_ns = e.end_ns = static_cast<std::int64_t>(r.timestamp);
  e.process_id = r.process;
  e.device = r.device;
  e.correlation_id = r.correlation;
  char label[48];
  const int n = std::snprintf(label, sizeof(label), "memory pool 0x%" PRIx64 " bytes", r.address);
  e.name = emitter.intern(label, static_cast<std::size_t>(n));
  const std::uint64_t now = destroyed ? 0 : r.size;
  e.counter.value = static_cast<std::int64_t>(now);
  e.counter.change = static_cast<std::int64_t>(now - c.exchange_gauge(r.address, now));
  e.counter.gauge = true;
  emitter.emit(e);
  return true;
}

/// Clocks, temperature, power and fan as gauges of their device. A fan at 0 % counts as absent.
CUTRACE_LOCAL inline bool environment(const void* at, std::size_t available, decode_context& c,
                                      event_emitter& emitter) {
  struct gauge {
    std::uint32_t kind, value;
    const char* name;
  };
  static constexpr gauge gauges[] = {{1, 0, "SM clock MHz"}, {1, 1, "memory clock MHz"}, {2, 0, "temperature C"},
                                     {3, 0, "power mW"},     {3, 1, "power limit mW"},   {4, 0, "fan %"}};
  environment_record r;
  if (!load(at, available, environment_record_bytes, r)) return false;
  for (const gauge& g : gauges) {
    if (g.kind != r.environment_kind || (g.kind == 4 && r.values[0] == 0)) continue;
    event e;
    e.kind = event_kind::counter;
    if (r.timestamp == 0) emitter.count_quality(static_cast<std::uint32_t>(quality::no_timestamp));
    e.start_ns = e.end_ns = static_cast<std::int64_t>(r.timestamp);
    e.device = r.device;
    char label[40];
    const int n = std::snprintf(label, sizeof(label), "GPU %u %s", r.device, g.name);
    e.name = emitter.intern(label, static_cast<std::size_t>(n));
    const std::uint64_t key = ~((std::uint64_t{r.device} << 8) | (g.kind << 1) | g.value);  // no address of a pool
    e.counter.value = r.values[g.value];
    e.counter.change = e.counter.value - static_cast<std::int64_t>(c.exchange_gauge(key, r.values[g.value]));
    e.counter.gauge = true;
    emitter.emit(e);
  }
  return true;
}

/// A recorded CUDA event is an instant on its stream, once the device's timestamps for it are switched on (CUDA 12.8
/// and later); without them there is no time to show and the record is passed over.
CUTRACE_LOCAL inline bool cuda_event(const void* at, std::size_t available, decode_context& c, event_emitter& emitter) {
  cuda_event_record r;
  if (!load(at, available, cuda_event_record_bytes, r)) return false;
  if (c.cupti_version < 26) return true;
  cuda_event2_record newer;
  if (!load(at, available, cuda_event2_record_bytes, newer)) return false;
  if (newer.timestamp == 0) return true;
  event e;
  e.kind = event_kind::mark;
  e.start_ns = e.end_ns = static_cast<std::int64_t>(newer.timestamp);
  set_place(e, newer.device, r.context, r.stream);
  e.correlation_id = r.correlation;
  e.name = fixed(c, emitter, "CUDA event");
  emitter.emit(e);
  return true;
}

CUTRACE_LOCAL inline bool jit(const void* at, std::size_t available, decode_context& c, event_emitter& emitter) {
  // CUpti_ActivityJitEntryType and CUpti_ActivityJitOperationType, both from 1.
  static constexpr const char* names[2][3] = {
      {"PTX to cubin: cache load", "PTX to cubin: cache store", "PTX to cubin: compile"},
      {"NVVM IR to PTX: cache load", "NVVM IR to PTX: cache store", "NVVM IR to PTX: compile"}};
  jit_record r;
  if (!load(at, available, jit_record_bytes, r)) return false;
  event e;
  e.kind = event_kind::jit;
  set_times(e, r.start, r.end, c, emitter);
  e.device = r.device;
  e.correlation_id = r.correlation;
  jit2_record newer;
  if (c.cupti_version >= 22 && load(at, available, jit2_record_bytes, newer)) {
    e.process_id = newer.process;
    e.thread_id = newer.thread;
  }
  const bool named = r.entry >= 1 && r.entry <= 2 && r.operation >= 1 && r.operation <= 3;
  e.name = fixed(c, emitter, named ? names[r.entry - 1][r.operation - 1] : "just-in-time compiler");
  emitter.emit(e);
  return true;
}

}  // namespace decoding
}  // namespace cupti
CUTRACE_END_NAMESPACE
