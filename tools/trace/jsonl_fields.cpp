// SPDX-License-Identifier: Apache-2.0
#include "trace/jsonl_fields.hpp"

#include <cstring>

namespace cutrace_reading {

using namespace cutrace;  // NOLINT(google-build-using-namespace)

namespace {

void fill_kernel(event& e, const jsonl_fields& f) noexcept {
  kernel_data& k = e.kernel;
  std::memcpy(k.grid, f.grid, sizeof(k.grid));
  std::memcpy(k.block, f.block, sizeof(k.block));
  std::memcpy(k.cluster, f.cluster, sizeof(k.cluster));
  k.registers_per_thread = f.registers_per_thread;
  k.static_shared_bytes = f.static_shared_bytes;
  k.dynamic_shared_bytes = f.dynamic_shared_bytes;
  k.local_bytes_per_thread = f.local_bytes_per_thread;
  k.priority = f.priority;
  k.mangled_name = f.mangled_name;
  k.queued_ns = f.queued_ts_ns;
  k.submitted_ns = f.submitted_ts_ns;
}

void fill_origin(stage_data& s, const jsonl_fields& f) noexcept {
  s.origin = f.nvtx ? stage_origin::nvtx : stage_origin::marker;
  s.domain = f.domain;
  s.category = f.category;
  s.category_name = f.category_name;
  s.color = static_cast<std::uint32_t>(f.color);
  s.payload_kind = f.payload_kind;
  s.payload = f.payload;
}

void fill_gpu(event& e, const jsonl_fields& f) noexcept {
  e.joined = f.attribution;
  e.device = f.device;
  e.context = f.context;
  e.stream = f.stream;
  e.call_name = f.call;
  e.call_start_ns = f.knows_call ? f.call_ts_ns : f.ts_ns;
}

void fill_device(event& e, const jsonl_fields& f) noexcept {
  e.device = f.device;
  e.device_.memory_bytes = f.memory_bytes;
  e.device_.memory_bandwidth_bytes_per_s = f.memory_bandwidth;
  e.device_.multiprocessors = f.multiprocessors;
  e.device_.compute_major = f.compute_major;
  e.device_.compute_minor = f.compute_minor;
  e.device_.core_clock_khz = f.core_clock_khz;
  std::memcpy(e.device_.uuid, f.uuid, sizeof(f.uuid));
}

void fill_copy(event& e, const jsonl_fields& f) noexcept {
  memcpy_data& c = e.memcpy_;
  c.bytes = f.bytes;
  c.direction = f.direction;
  c.source = f.source;
  c.destination = f.destination;
  c.asynchronous = f.asynchronous;
  c.source_device = f.source_device;
  c.destination_device = f.destination_device;
  c.graph_id = f.graph_id;
  c.graph_node_id = f.graph_node_id;
}

void fill_call(event& e, const jsonl_fields& f) noexcept {
  e.api.function = f.function;
  e.api.result = static_cast<std::int32_t>(f.result);
  e.api.result_name = f.result_name;
  e.api.arguments = f.arguments;
  e.api.argument_count = f.argument_count;
  e.api.runtime_api = f.runtime_api;
  e.api.direction = f.direction;
  e.api.bytes = f.bytes;
  e.api.runtime_name = f.runtime;
  e.api.enclosing = f.enclosing;
  e.api.joined = f.joined;
}

}  // namespace

void fill(event& e, const jsonl_fields& f) noexcept {
  e.kind = f.kind;
  e.late = f.late;
  e.skewed = f.skewed;
  e.by_events = f.by_events;
  e.incomplete = f.incomplete;
  e.process_id = f.pid;
  e.thread_id = f.tid;
  e.start_ns = f.ts_ns;
  e.end_ns = static_cast<std::int64_t>(static_cast<std::uint64_t>(f.ts_ns) + static_cast<std::uint64_t>(f.dur_ns));
  e.name = f.name;
  e.correlation_id = f.correlation;
  e.stage_id = f.stage_id;
  e.stage_name = f.stage;
  e.requests = f.requests;
  e.request_count = f.request_count;
  e.request_total = f.total_requests != 0 ? static_cast<std::uint32_t>(f.total_requests) : f.request_count;
  e.capture_stage_id = f.capture_stage_id;
  e.capture_stage_name = f.capture_stage;
  switch (f.kind) {
    case event_kind::stage:
      e.depth = f.depth;
      e.stage.parent = f.parent;
      e.stage.adopted = f.adopted;
      e.stage.span = f.span;
      e.stage.file = f.file;
      e.stage.line = f.line;
      return fill_origin(e.stage, f);
    case event_kind::mark:
      if (f.context != 0) fill_gpu(e, f);
      return fill_origin(e.stage, f);
    case event_kind::counter:
      e.counter.value = static_cast<std::int64_t>(f.value);
      e.counter.change = f.change;
      e.counter.gauge = f.gauge;
      return;
    case event_kind::api:
      return fill_call(e, f);
    case event_kind::ioctl:
      e.ioctl_ = f.ioctl;
      e.ioctl_.bytes = static_cast<std::uint32_t>(f.bytes);
      e.ioctl_.enclosing = f.enclosing;
      return;
    case event_kind::system:
      e.system.category = f.category_name;
      e.system.enclosing = f.enclosing;
      e.system.cpu = f.cpu;
      e.system.arguments = f.arguments;
      e.system.argument_count = f.argument_count;
      e.system.result = f.result;
      e.system.has_result = f.has_result;
      return;
    case event_kind::kernel:
      fill_kernel(e, f);
      [[fallthrough]];
    case event_kind::graph_launch:
      e.kernel.graph_id = f.graph_id;
      e.kernel.graph_node_id = f.graph_node_id;
      return fill_gpu(e, f);
    case event_kind::memcpy:
      fill_copy(e, f);
      return fill_gpu(e, f);
    case event_kind::memset:
      e.memset_.bytes = f.bytes;
      e.memset_.value = static_cast<std::uint32_t>(f.value);
      e.memset_.memory = f.memory;
      e.memset_.asynchronous = f.asynchronous;
      e.memset_.graph_id = f.graph_id;
      e.memset_.graph_node_id = f.graph_node_id;
      return fill_gpu(e, f);
    case event_kind::sync:
      e.sync.what = f.sync;
      e.sync.event_id = f.event_id;
      return fill_gpu(e, f);
    case event_kind::memory:
      e.memory.address = f.address;
      e.memory.bytes = f.bytes;
      e.memory.operation = f.operation;
      e.memory.memory = f.memory;
      return fill_gpu(e, f);
    case event_kind::loss:
      e.loss.cause = f.cause;
      e.loss.count = f.count;
      return;
    case event_kind::device:
      return fill_device(e, f);
    case event_kind::context:
      e.device = f.device;
      e.context = f.context;
      e.context_.derived = f.derived;
      return;
    case event_kind::stream:
      e.device = f.device;
      e.context = f.context;
      e.stream = f.stream;
      e.stream_.priority = f.priority;
      e.stream_.flags = f.flags;
      e.stream_.derived = f.derived;
      return;
    case event_kind::overhead:
    case event_kind::jit:
    case event_kind::nvtx:
    case event_kind::process:
    case event_kind::thread:
    case event_kind::window:
      return;
    case event_kind::other:
      e.other.type = f.other_type;
      return;
  }
}

}  // namespace cutrace_reading
