// SPDX-License-Identifier: Apache-2.0
// Decoders of what the GPU did: kernels, copies, sets, graph replays, synchronisation. Each takes the bytes that are
// there, returns false where they are too few, and otherwise emits one event or counts why not.
#pragma once

#include <cstdio>
#include <cutrace/cupti/decode_context.hpp>
#include <cutrace/names.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace cupti {
namespace decoding {

CUTRACE_LOCAL inline std::uint32_t unsigned_of(std::int32_t v) noexcept {
  return v > 0 ? static_cast<std::uint32_t>(v) : 0;
}

CUTRACE_LOCAL inline bool kernel(const void* at, std::size_t available, decode_context& c, event_emitter& emitter) {
  kernel_record r;
  if (!load(at, available, kernel_record_bytes, r)) return false;
  c.learn(r.context, r.device);
  event e;
  e.kind = event_kind::kernel;
  set_times(e, r.start, r.end, c, emitter);
  set_place(e, r.device, r.context, r.stream);
  e.correlation_id = r.correlation;
  kernel_data& k = e.kernel;
  for (int i = 0; i < 3; ++i) {
    k.grid[i] = unsigned_of(r.grid[i]);
    k.block[i] = unsigned_of(r.block[i]);
    k.cluster[i] = r.cluster[i];
  }
  k.registers_per_thread = r.registers_per_thread;
  k.static_shared_bytes = unsigned_of(r.static_shared);
  k.dynamic_shared_bytes = unsigned_of(r.dynamic_shared);
  k.local_bytes_per_thread = r.local_per_thread;
  k.graph_id = r.graph;
  k.graph_node_id = r.graph_node;
  k.queued_ns = static_cast<std::int64_t>(r.queued);
  k.submitted_ns = static_cast<std::int64_t>(r.submitted);
  k.mangled_name = intern(emitter, r.name);
  e.name = emitter.demangle(k.mangled_name);
  emitter.emit(e);
  return true;
}

CUTRACE_LOCAL inline bool copy(const void* at, std::size_t available, decode_context& c, event_emitter& emitter) {
  memcpy_record r;
  if (!load(at, available, memcpy_record_bytes, r)) return false;
  c.learn(r.context, r.device);
  event e;
  e.kind = event_kind::memcpy;
  set_times(e, r.start, r.end, c, emitter);
  set_place(e, r.device, r.context, r.stream);
  e.correlation_id = r.correlation;
  const copy_form& form = copy_of(r.copy_kind);
  e.name = fixed(c, emitter, form.name);
  memcpy_data& m = e.memcpy_;
  m.bytes = r.bytes;
  m.direction = form.direction;
  m.source = memory_of(r.source_kind);
  m.destination = memory_of(r.destination_kind);
  m.asynchronous = (r.flags & CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC) != 0;
  m.source_device = m.destination_device = r.device;
  m.graph_id = r.graph;
  m.graph_node_id = r.graph_node;
  emitter.emit(e);
  return true;
}

/// Copy between two devices, whatever kind of copy the record names.
CUTRACE_LOCAL inline bool peer_copy(const void* at, std::size_t available, decode_context& c, event_emitter& emitter) {
  peer_record r;
  if (!load(at, available, peer_record_bytes, r)) return false;
  c.learn(r.context, r.device);
  event e;
  e.kind = event_kind::memcpy;
  set_times(e, r.start, r.end, c, emitter);
  set_place(e, r.device, r.context, r.stream);
  e.correlation_id = r.correlation;
  e.name = fixed(c, emitter, copy_of(CUPTI_ACTIVITY_MEMCPY_KIND_PTOP).name);
  memcpy_data& m = e.memcpy_;
  m.bytes = r.bytes;
  m.direction = copy_direction::peer;
  m.source = memory_of(r.source_kind);
  m.destination = memory_of(r.destination_kind);
  m.asynchronous = (r.flags & CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC) != 0;
  m.source_device = r.source_device;
  m.destination_device = r.destination_device;
  m.graph_id = r.graph;
  m.graph_node_id = r.graph_node;
  emitter.emit(e);
  return true;
}

CUTRACE_LOCAL inline bool set(const void* at, std::size_t available, decode_context& c, event_emitter& emitter) {
  memset_record r;
  if (!load(at, available, memset_record_bytes, r)) return false;
  c.learn(r.context, r.device);
  event e;
  e.kind = event_kind::memset;
  set_times(e, r.start, r.end, c, emitter);
  set_place(e, r.device, r.context, r.stream);
  e.correlation_id = r.correlation;
  e.name = fixed(c, emitter, "memset");
  memset_data& m = e.memset_;
  m.bytes = r.bytes;
  // For a node of a graph CUPTI 13.0 reports the value of some earlier memset (seen on an H200): better none than that.
  m.value = r.graph_node == 0 ? r.value : 0;
  m.memory = memory_of(r.memory_kind);
  m.asynchronous = (r.flags & CUPTI_ACTIVITY_FLAG_MEMSET_ASYNC) != 0;
  m.graph_id = r.graph;
  m.graph_node_id = r.graph_node;
  emitter.emit(e);
  return true;
}

/// Whole replay of a graph. Such an event has no data of its own: the graph's id is in the name and in kernel.graph_id.
CUTRACE_LOCAL inline bool graph(const void* at, std::size_t available, decode_context& c, event_emitter& emitter) {
  graph_record r;
  if (!load(at, available, graph_record_bytes, r)) return false;
  c.learn(r.context, r.device);
  event e;
  e.kind = event_kind::graph_launch;
  set_times(e, r.start, r.end, c, emitter);
  set_place(e, r.device, r.context, r.stream);
  e.correlation_id = r.correlation;
  char name[24];
  const int n = std::snprintf(name, sizeof(name), "graph %u", r.graph);
  e.name = emitter.intern(name, static_cast<std::size_t>(n));
  e.kernel.graph_id = r.graph;
  e.kernel.mangled_name = text{};
  emitter.emit(e);
  return true;
}

CUTRACE_LOCAL inline bool synchronization(const void* at, std::size_t available, decode_context& c,
                                          event_emitter& emitter) {
  sync_record r;
  if (!load(at, available, sync_record_bytes, r)) return false;
  event e;
  e.kind = event_kind::sync;
  set_times(e, r.start, r.end, c, emitter);
  set_place(e, c.device_of(r.context), r.context, r.stream);
  e.correlation_id = r.correlation;
  // CUpti_ActivitySynchronizationType, whose numbers sync_kind shares.
  const auto last = static_cast<std::uint32_t>(sync_kind::context);
  e.sync.what = r.type <= last ? static_cast<sync_kind>(r.type) : sync_kind::unknown;
  e.name = fixed(c, emitter, name_of_wait(e.sync.what));
  e.sync.event_id = id_or_0(r.event);
  emitter.emit(e);
  return true;
}

}  // namespace decoding
}  // namespace cupti
CUTRACE_END_NAMESPACE
