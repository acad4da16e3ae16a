// SPDX-License-Identifier: Apache-2.0
// Decoder of managed ("unified") memory: pages that the driver moved become copies without a call, page faults become
// counters. Same contract as decode_work.hpp.
#pragma once

#include <cinttypes>
#include <cstdio>
#include <cutrace/cupti/decode_context.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace cupti {
namespace decoding {

/// CUpti_ActivityUnifiedMemoryCounterKind.
enum class managed_counter : std::uint32_t { to_device = 1, to_host = 2, cpu_fault = 3, gpu_fault = 4, to_peer = 8 };

/// Pages moved from `source` to `destination`, device numbers; all ones is the CPU
/// (CUPTI_UNIFIED_MEMORY_CPU_DEVICE_ID). The record's stream is invalid, and it has no context.
CUTRACE_LOCAL inline bool migration(const unified_record& r, decode_context& c, event_emitter& emitter) {
  event e;
  e.kind = event_kind::memcpy;
  set_times(e, r.start, r.end, c, emitter);
  memcpy_data& m = e.memcpy_;
  switch (static_cast<managed_counter>(r.counter)) {
    case managed_counter::to_device:
      m.direction = copy_direction::host_to_device;
      e.name = fixed(c, emitter, "migration HtoD");
      m.source_device = m.destination_device = id_or_0(r.destination);
      break;
    case managed_counter::to_host:
      m.direction = copy_direction::device_to_host;
      e.name = fixed(c, emitter, "migration DtoH");
      m.source_device = m.destination_device = id_or_0(r.source);
      break;
    default:
      m.direction = copy_direction::peer;
      e.name = fixed(c, emitter, "migration PtoP");
      m.source_device = id_or_0(r.source);
      m.destination_device = id_or_0(r.destination);
      break;
  }
  e.device = m.source_device;
  e.process_id = r.process;
  m.bytes = r.value;
  m.source = m.destination = memory_kind::managed;
  m.asynchronous = true;  // no call waits for it as such
  emitter.emit(e);
  return true;
}

/// A counter that only rises. A record of a CPU fault counts one, and its value is the program counter; the value of a
/// GPU fault's record is the number of fault groups of the page.
CUTRACE_LOCAL inline bool page_fault(const unified_record& r, decode_context& c, event_emitter& emitter) {
  const bool gpu = static_cast<managed_counter>(r.counter) == managed_counter::gpu_fault;
  event e;
  e.kind = event_kind::counter;
  if (r.start == 0) emitter.count_quality(static_cast<std::uint32_t>(quality::no_timestamp));
  e.start_ns = e.end_ns = static_cast<std::int64_t>(r.start);
  e.process_id = r.process;
  std::uint64_t& total = c.faults[gpu ? r.source % decode_context::device_count : decode_context::device_count];
  if (gpu) {
    e.device = id_or_0(r.source);
    char label[40];
    const int n = std::snprintf(label, sizeof(label), "GPU %" PRIu32 " page faults", e.device);
    e.name = emitter.intern(label, static_cast<std::size_t>(n));
  } else {
    e.name = fixed(c, emitter, "CPU page faults");
  }
  const std::uint64_t change = gpu ? r.value : 1;
  total += change;
  e.counter.value = static_cast<std::int64_t>(total);
  e.counter.change = static_cast<std::int64_t>(change);
  emitter.emit(e);
  return true;
}

CUTRACE_LOCAL inline bool unified_memory(const void* at, std::size_t available, decode_context& c,
                                         event_emitter& emitter) {
  unified_record r;
  if (!load(at, available, unified_record_bytes, r)) return false;
  switch (static_cast<managed_counter>(r.counter)) {
    case managed_counter::to_device:
    case managed_counter::to_host:
    case managed_counter::to_peer:
      return migration(r, c, emitter);
    case managed_counter::cpu_fault:
    case managed_counter::gpu_fault:
      return page_fault(r, c, emitter);
  }
  // We do not ask for thrashing, throttling and remote maps; another CUPTI client of the process may have done so.
  emitter.count_loss(loss_cause::unknown_record, 1);
  return true;
}

}  // namespace decoding
}  // namespace cupti
CUTRACE_END_NAMESPACE
