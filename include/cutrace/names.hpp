// SPDX-License-Identifier: Apache-2.0
// The words for the enumerations of event.hpp and stats.hpp, as every file format, report and message spells them. Any
// thread. Copy directions, kinds of memory and of synchronisation are spelt as in PyTorch's Kineto, since readers of
// its files match on them.
#pragma once

#include <cutrace/event.hpp>
#include <cutrace/stats.hpp>

CUTRACE_BEGIN_NAMESPACE

constexpr const char* to_string(event_kind kind) noexcept {
  switch (kind) {
    case event_kind::stage:
      return "stage";
    case event_kind::mark:
      return "mark";
    case event_kind::counter:
      return "counter";
    case event_kind::api:
      return "api";
    case event_kind::kernel:
      return "kernel";
    case event_kind::memcpy:
      return "memcpy";
    case event_kind::memset:
      return "memset";
    case event_kind::sync:
      return "sync";
    case event_kind::memory:
      return "memory";
    case event_kind::graph_launch:
      return "graph_launch";
    case event_kind::overhead:
      return "overhead";
    case event_kind::jit:
      return "jit";
    case event_kind::nvtx:
      return "nvtx";
    case event_kind::ioctl:
      return "ioctl";
    case event_kind::loss:
      return "loss";
    case event_kind::process:
      return "process";
    case event_kind::thread:
      return "thread";
    case event_kind::device:
      return "device";
    case event_kind::context:
      return "context";
    case event_kind::stream:
      return "stream";
    case event_kind::window:
      return "window";
    case event_kind::other:
      return "other";
    case event_kind::system:
      return "system";
    case event_kind::alarm:
      return "alarm";
  }
  return "unknown";
}

constexpr const char* to_string(ioctl_device d) noexcept {
  switch (d) {
    case ioctl_device::unknown:
      break;
    case ioctl_device::control:
      return "control";
    case ioctl_device::gpu:
      return "gpu";
    case ioctl_device::modeset:
      return "modeset";
    case ioctl_device::uvm:
      return "uvm";
    case ioctl_device::uvm_tools:
      return "uvm_tools";
    case ioctl_device::caps:
      return "caps";
  }
  return "unknown";
}

constexpr const char* to_string(attribution a) noexcept {
  switch (a) {
    case attribution::none:
      return "none";
    case attribution::by_call:
      return "by_call";
    case attribution::outside_stage:
      return "outside_stage";
    case attribution::no_callback:
      return "no_callback";
    case attribution::expired:
      return "expired";
    case attribution::stage_unknown:
      return "stage_unknown";
  }
  return "unknown";
}

constexpr const char* to_string(loss_cause cause) noexcept {
  switch (cause) {
    case loss_cause::chunk_full:
      return "chunk_full";
    case loss_cause::buffer_limit:
      return "buffer_limit";
    case loss_cause::cupti_dropped:
      return "cupti_dropped";
    case loss_cause::unknown_record:
      return "unknown_record";
    case loss_cause::unpaired:
      return "unpaired";
    case loss_cause::sink_failed:
      return "sink_failed";
    case loss_cause::out_of_memory:
      return "out_of_memory";
  }
  return "unknown";
}

constexpr const char* to_string(quality q) noexcept {
  switch (q) {
    case quality::no_timestamp:
      return "no_timestamp";
    case quality::unattributed:
      return "unattributed";
    case quality::skew:
      return "skew";
    case quality::late:
      return "late";
    case quality::stage_unknown:
      return "stage_unknown";
    case quality::requests_unknown:
      return "requests_unknown";
    case quality::incomplete:
      return "incomplete";
  }
  return "unknown";
}

constexpr const char* to_string(copy_direction direction) noexcept {
  switch (direction) {
    case copy_direction::unknown:
      break;
    case copy_direction::host_to_device:
      return "HtoD";
    case copy_direction::device_to_host:
      return "DtoH";
    case copy_direction::device_to_device:
      return "DtoD";
    case copy_direction::host_to_host:
      return "HtoH";
    case copy_direction::peer:
      return "PtoP";
  }
  return "Unknown";
}

constexpr const char* to_string(memory_kind kind) noexcept {
  switch (kind) {
    case memory_kind::unknown:
      break;
    case memory_kind::pageable:
      return "Pageable";
    case memory_kind::pinned:
      return "Pinned";
    case memory_kind::device:
      return "Device";
    case memory_kind::array:
      return "Array";
    case memory_kind::managed:
      return "Managed";
    case memory_kind::device_static:
      return "Device Static";
    case memory_kind::managed_static:
      return "Managed Static";
  }
  return "Unknown";
}

constexpr const char* to_string(sync_kind kind) noexcept {
  switch (kind) {
    case sync_kind::unknown:
      break;
    case sync_kind::event:
      return "Event Sync";
    case sync_kind::stream_wait_event:
      return "Stream Wait Event";
    case sync_kind::stream:
      return "Stream Sync";
    case sync_kind::context:
      return "Context Sync";
  }
  return "Unknown";
}

/// Name of a wait's event, whether a record of CUPTI or a traced call shows it. Sinks for viewers that know Kineto
/// write to_string(sync_kind) instead.
constexpr const char* name_of_wait(sync_kind what) noexcept {
  switch (what) {
    case sync_kind::unknown:
      break;
    case sync_kind::event:
      return "event synchronize";
    case sync_kind::stream_wait_event:
      return "stream wait event";
    case sync_kind::stream:
      return "stream synchronize";
    case sync_kind::context:
      return "context synchronize";
  }
  return "synchronize";
}

constexpr const char* to_string(stage_origin origin) noexcept {
  switch (origin) {
    case stage_origin::marker:
      return "marker";
    case stage_origin::nvtx:
      return "nvtx";
  }
  return "unknown";
}

constexpr const char* to_string(memory_operation operation) noexcept {
  switch (operation) {
    case memory_operation::allocate:
      return "allocate";
    case memory_operation::free:
      return "free";
  }
  return "unknown";
}

namespace detail {

/// Whether sinks for viewers write an event of this kind by event_fields.hpp alone. They have code of their own for the
/// other kinds, of which there are many events, or which viewers want in another form.
constexpr bool goes_by_fields(event_kind kind) noexcept {
  switch (kind) {
    case event_kind::stage:
    case event_kind::mark:
    case event_kind::counter:
    case event_kind::api:
    case event_kind::kernel:
    case event_kind::memcpy:
    case event_kind::memset:
    case event_kind::sync:
    case event_kind::memory:
    case event_kind::graph_launch:
    case event_kind::loss:
      return false;
    default:
      return true;
  }
}

}  // namespace detail

CUTRACE_END_NAMESPACE
