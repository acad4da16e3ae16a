// SPDX-License-Identifier: Apache-2.0
// Names, categories and "args" of Chrome JSON slices, spelt as PyTorch's Kineto spells them (libkineto output_json.cpp,
// CuptiActivity.h): HTA, TraceLens and others match on these words. Keys of our own are lower case with underscores.
#pragma once

#include <cstdint>
#include <cutrace/config.hpp>
#include <cutrace/detail/json_text.hpp>
#include <cutrace/event.hpp>
#include <cutrace/names.hpp>
#include <cutrace/sinks/chrome_rows.hpp>
#include <cutrace/sinks/json_event.hpp>
#include <cutrace/sinks/json_membership.hpp>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>

CUTRACE_BEGIN_NAMESPACE
namespace detail {

/// Duration for a viewer: never negative, at most what a signed number holds.
inline std::int64_t shown_duration_ns(const event& e) noexcept {
  if (e.end_ns <= e.start_ns) return 0;
  const std::int64_t dur_ns = difference_ns(e.end_ns, e.start_ns);
  return dur_ns < 0 ? std::numeric_limits<std::int64_t>::max() : dur_ns;
}

/// CUPTI's invalid stream id, of synchronisations that wait for no stream in particular.
inline bool is_no_stream(std::uint64_t stream) noexcept { return stream == 0xFFFFFFFFu || stream == ~std::uint64_t{0}; }

inline std::string_view chrome_category(const event& e) noexcept {
  switch (e.kind) {
    case event_kind::stage:
    case event_kind::nvtx:
      return "user_annotation";
    case event_kind::api:
      return e.api.runtime_api ? "cuda_runtime" : "cuda_driver";
    case event_kind::kernel:
    case event_kind::graph_launch:
      return "kernel";
    case event_kind::memcpy:
      return "gpu_memcpy";
    case event_kind::memset:
      return "gpu_memset";
    case event_kind::sync:
      return "cuda_sync";
    default:
      return to_string(e.kind);
  }
}

/// Copies, sets and synchronisations are named by what they do, everything else by its own name.
inline void chrome_name(std::string& out, const event& e) {
  switch (e.kind) {
    case event_kind::memcpy:
      out.append("Memcpy ").append(to_string(e.memcpy_.direction)).append(" (").append(to_string(e.memcpy_.source));
      out.append(" -> ").append(to_string(e.memcpy_.destination)).append(")");
      return;
    case event_kind::memset:
      out.append("Memset (").append(to_string(e.memset_.memory)).append(")");
      return;
    case event_kind::sync:
      out.append(to_string(e.sync.what));
      return;
    case event_kind::graph_launch:
      out.append("CUDA graph");
      if (e.kernel.graph_id != 0) out.append(" ").append(std::to_string(e.kernel.graph_id));
      return;
    case event_kind::memory:
      out.append(to_string(e.memory.operation)).append(" ").append(std::to_string(e.memory.bytes)).append(" bytes");
      return;
    case event_kind::loss:
      out.append("lost: ").append(to_string(e.loss.cause));
      return;
    default:
      break;
  }
  // A kernel of this name is "Kernel" to Kineto's readers: the bare word is the category.
  const std::string_view name = view_of(e.name);
  out.append(e.kind == event_kind::kernel && name == "kernel" ? std::string_view("Kernel") : name);
}

/// Calls from which an arrow goes to GPU work: those that Kineto starts flows at, by the beginnings of their names.
inline bool starts_flow(std::string_view call) noexcept {
  if (call.substr(0, 4) == "cuda") {
    call.remove_prefix(4);
  } else if (call.substr(0, 2) == "cu") {
    call.remove_prefix(2);
  } else {
    return false;
  }
  for (const std::string_view word : {"Launch", "GraphLaunch", "Memcpy", "Memset", "StreamSynchronize",
                                      "DeviceSynchronize", "CtxSynchronize", "EventSynchronize", "StreamWaitEvent"}) {
    if (call.substr(0, word.size()) == word) return true;
  }
  return false;
}

/// GB/s = bytes / ns; Kineto leaves it out where there is no duration.
inline void bandwidth_arg(json_text& json, std::uint64_t bytes, std::int64_t dur_ns) {
  json.field("bytes", bytes);
  if (dur_ns <= 0) return;
  json.key("memory bandwidth (GB/s)");
  const double rate = static_cast<double>(bytes) / static_cast<double>(dur_ns);
  // From an integer: printing a double exactly takes longer than the rest of the slice.
  rate < 1e9 ? json.millionths(static_cast<std::uint64_t>(rate * 1e6 + 0.5)) : json.value(rate);
}

inline void graph_args(json_text& json, std::uint32_t graph, std::uint64_t node) {
  optional_field(json, "graph id", graph);
  optional_field(json, "graph node id", node);
}

inline void kernel_args(json_text& json, const kernel_data& k) {
  json.field("registers per thread", k.registers_per_thread);
  json.field("shared memory", std::uint64_t{k.static_shared_bytes} + k.dynamic_shared_bytes);
  triple(json, "grid", k.grid);
  triple(json, "block", k.block);
  if (k.cluster[0] != 0) triple(json, "cluster", k.cluster);
  json.field("priority", k.priority);
  graph_args(json, k.graph_id, k.graph_node_id);
}

inline void copy_args(json_text& json, const memcpy_data& c, std::int64_t dur_ns) {
  bandwidth_arg(json, c.bytes, dur_ns);
  if (c.direction == copy_direction::peer) {
    json.field("fromDevice", c.source_device);
    json.field("toDevice", c.destination_device);
  }
  graph_args(json, c.graph_id, c.graph_node_id);
}

/// Stage, requests and quality, of any slice.
inline void common_args(json_text& json, const event& e, membership_fields& stages) {
  if (e.kind != event_kind::stage) {
    stages.write(json, e);
  } else {  // its name is the slice's
    optional_field(json, "stage_id", e.stage_id);
    request_fields(json, e);
  }
  flag(json, "late", e.late);
  flag(json, "skewed", e.skewed);
  if (e.end_ns < e.start_ns) json.field("ended_before_start_ns", difference_ns(e.start_ns, e.end_ns));
}

/// `stream` is the row of the viewer; where that cannot be CUDA's number (0, or too large), `cuda_stream` tells it.
inline void gpu_args(json_text& json, const event& e, const row_place& at, std::int64_t dur_ns) {
  json.field("device", e.device);
  json.field("context", e.context);
  if (is_no_stream(e.stream)) {
    json.field("stream", -1);
  } else if (e.kind == event_kind::sync) {
    json.field("stream", e.stream != 0 ? static_cast<std::int64_t>(e.stream) : std::int64_t{at.base_tid});
    if (e.stream == 0) json.field("cuda_stream", e.stream);
  } else {
    json.field("stream", at.base_tid);
    if (at.base_tid != e.stream) json.field("cuda_stream", e.stream);
  }
  if (e.correlation_id != 0) json.field("correlation", e.correlation_id);
  if (e.kind == event_kind::kernel) kernel_args(json, e.kernel);
  if (e.kind == event_kind::graph_launch) graph_args(json, e.kernel.graph_id, 0);
  if (e.kind == event_kind::memcpy) copy_args(json, e.memcpy_, dur_ns);
  if (e.kind == event_kind::memset) {
    bandwidth_arg(json, e.memset_.bytes, dur_ns);
    graph_args(json, e.memset_.graph_id, e.memset_.graph_node_id);
  }
  if (e.kind == event_kind::sync) {
    json.field("cuda_sync_kind", to_string(e.sync.what));
    if (e.sync.event_id != 0) json.field("wait_on_cuda_event_id", e.sync.event_id);
  }
  if (e.joined != attribution::by_call) json.field("attribution", to_string(e.joined));
}

/// Arguments and result of a call, without its correlation id.
inline void api_args(json_text& json, const api_data& a) {
  json.field("cbid", a.function);
  if (a.result != 0) {
    json.field("result", a.result);
    optional_field(json, "result_name", a.result_name);
  }
  if (a.arguments != nullptr && a.argument_count != 0) {
    json.key("arguments");
    arguments_object(json, a.arguments, a.argument_count);
  }
}

/// One entry of "deviceProperties".
inline void device_properties(json_text& json, const event& e) {
  const device_data& d = e.device_;
  json.begin_object();
  json.field("id", e.device);
  json.field("name", e.name);
  json.field("totalGlobalMem", d.memory_bytes);
  json.field("computeMajor", d.compute_major);
  json.field("computeMinor", d.compute_minor);
  json.field("numSms", d.multiprocessors);
  json.field("memory_bandwidth_bytes_per_s", d.memory_bandwidth_bytes_per_s);
  json.field("core_clock_khz", d.core_clock_khz);
  std::string uuid;
  append_uuid(uuid, d.uuid);
  json.field("uuid", uuid);
  json.end_object();
}

}  // namespace detail
CUTRACE_END_NAMESPACE
