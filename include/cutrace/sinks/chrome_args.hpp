// SPDX-License-Identifier: Apache-2.0
// "args" of Chrome JSON slices under Kineto's keys (libkineto output_json.cpp, CuptiActivity.h); keys of our own are
// lower case with underscores. Written at a cursor, into room that the caller made: see text_digits.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cutrace/config.hpp>
#include <cutrace/detail/json_text.hpp>
#include <cutrace/detail/kept_slot.hpp>
#include <cutrace/detail/text_digits.hpp>
#include <cutrace/event.hpp>
#include <cutrace/names.hpp>
#include <cutrace/sinks/chrome_fields.hpp>
#include <cutrace/sinks/chrome_shapes.hpp>
#include <cutrace/sinks/json_event.hpp>
#include <cutrace/sinks/json_kept_arguments.hpp>
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

/// The same for interned names, of which a program has few.
class flow_starters {
 public:
  void clear() noexcept { *this = flow_starters(); }
  bool has(text call) noexcept {
    kept& k = kept_[(reinterpret_cast<std::uintptr_t>(call.data) >> 4) % slots];
    if (CUTRACE_UNLIKELY(!is_same_interned(k.call, call))) k = {call, starts_flow(view_of(call))};
    return k.starts;
  }

 private:
  static constexpr std::size_t slots = 64;
  struct kept {
    text call;
    bool starts = false;
  };
  kept kept_[slots] = {};
};

/// GB/s = bytes / ns; Kineto leaves it out where there is no duration.
inline char* put_bandwidth(char* to, std::uint64_t bytes, std::int64_t dur_ns) noexcept {
  to = put_field(to, ",\"bytes\":", bytes);
  if (dur_ns <= 0) return to;
  to = put_literal(to, ",\"memory bandwidth (GB/s)\":");
  const double rate = static_cast<double>(bytes) / static_cast<double>(dur_ns);
  // From an integer: printing a double exactly takes longer than the rest of the slice.
  if (rate < 1e9) return put_millionths(to, static_cast<std::uint64_t>(rate * 1e6 + 0.5));
  return put_double(to, rate);
}

inline char* put_graph(char* to, std::uint32_t graph, std::uint64_t node) noexcept {
  to = put_field_unless_0(to, ",\"graph id\":", graph);
  return put_field_unless_0(to, ",\"graph node id\":", node);
}

inline char* put_copy_args(char* to, const memcpy_data& c, std::int64_t dur_ns) noexcept {
  to = put_bandwidth(to, c.bytes, dur_ns);
  if (c.direction == copy_direction::peer) {
    to = put_field(to, ",\"fromDevice\":", c.source_device);
    to = put_field(to, ",\"toDevice\":", c.destination_device);
  }
  return put_graph(to, c.graph_id, c.graph_node_id);
}

/// `stream` is the row of the viewer; where that cannot be CUDA's number (0, or too large), `cuda_stream` tells it.
inline char* put_stream(char* to, const event& e, std::uint32_t base_tid) noexcept {
  if (is_no_stream(e.stream)) return put_literal(to, ",\"stream\":-1");
  if (e.kind == event_kind::sync) {
    to = put_field(to, ",\"stream\":", e.stream != 0 ? static_cast<std::int64_t>(e.stream) : std::int64_t{base_tid});
    return e.stream == 0 ? put_literal(to, ",\"cuda_stream\":0") : to;
  }
  to = put_field(to, ",\"stream\":", base_tid);
  return base_tid != e.stream ? put_field(to, ",\"cuda_stream\":", e.stream) : to;
}

constexpr std::size_t gpu_args_room = 896;  ///< the longest of them, a kernel with all it may have, is below 768
inline char* put_gpu_args(char* to, const event& e, const decimal_text& correlation, std::uint32_t base_tid,
                          launch_shapes& shapes) noexcept {
  to = put_field(to, "\"device\":", e.device);
  to = put_field(to, ",\"context\":", e.context);
  to = put_stream(to, e, base_tid);
  if (e.correlation_id != 0) to = correlation.put(put_literal(to, ",\"correlation\":"));
  if (e.kind == event_kind::kernel) {
    // Kineto's files always have it; nanoseconds in the session here, 0 where it was not asked for.
    to = put_field(to, ",\"queued\":", e.kernel.queued_ns);
    to = put_text(to, shapes.of(e.device, e.kernel));
    to = put_graph(to, e.kernel.graph_id, e.kernel.graph_node_id);
  }
  if (e.kind == event_kind::graph_launch) to = put_graph(to, e.kernel.graph_id, 0);
  if (e.kind == event_kind::memcpy) to = put_copy_args(to, e.memcpy_, shown_duration_ns(e));
  if (e.kind == event_kind::memset) {
    to = put_bandwidth(to, e.memset_.bytes, shown_duration_ns(e));
    to = put_graph(to, e.memset_.graph_id, e.memset_.graph_node_id);
  }
  if (e.kind == event_kind::sync) {
    to = put_word(to, ",\"cuda_sync_kind\":", to_string(e.sync.what));
    to = put_field_unless_0(to, ",\"wait_on_cuda_event_id\":", e.sync.event_id);
  }
  return e.joined != attribution::by_call ? put_word(to, ",\"attribution\":", to_string(e.joined)) : to;
}

/// Arguments and result of a call, without its correlation id.
inline std::size_t api_args_room(const api_data& a) noexcept {
  return 160 + escaped_room(a.result_name.size) + escaped_room(a.runtime_name.size) +
         arguments_room(a.arguments, a.argument_count);
}
inline char* put_api_args(char* to, const api_data& a, kept_arguments& kept) {
  to = put_field(to, "\"cbid\":", a.function);
  if (a.runtime_name.size != 0) to = put_string(put_literal(to, ",\"runtime\":"), view_of(a.runtime_name));
  if (a.result != 0) {
    to = put_field(to, ",\"result\":", a.result);
    if (a.result_name.size != 0) to = put_string(put_literal(to, ",\"result_name\":"), view_of(a.result_name));
  }
  if (a.arguments != nullptr && a.argument_count != 0) {
    to = kept.put(put_literal(to, ",\"arguments\":"), a.arguments, a.argument_count);
  }
  return to;
}

/// Of an ioctl, under the names of docs/jsonl.md.
inline std::size_t ioctl_args_room(const ioctl_data& i) noexcept {
  return 480 + escaped_room(i.node.size) + escaped_room(i.command_name.size) + escaped_room(i.status_name.size);
}
CUTRACE_NOINLINE inline char* put_ioctl_args(char* to, const ioctl_data& i) {
  if (i.device == ioctl_device::unknown && i.request == 0) return to;
  to = put_word(to, "\"device_kind\":", to_string(i.device));
  if (i.node.size != 0) to = put_string(put_literal(to, ",\"node\":"), view_of(i.node));
  to = put_hex(put_literal(to, ",\"request_word\":"), i.request);
  to = put_field_unless_0(to, ",\"bytes\":", i.bytes);
  to = put_field(to, ",\"errno\":", i.error);
  if (i.status_name.size != 0) {
    to = put_hex(put_literal(to, ",\"status\":"), i.status);
    to = put_string(put_literal(to, ",\"status_name\":"), view_of(i.status_name));
  }
  if (i.has_command) {
    to = put_hex(put_literal(to, ",\"command\":"), i.command);
    if (i.command_name.size != 0) to = put_string(put_literal(to, ",\"command_name\":"), view_of(i.command_name));
  }
  if (i.client != 0) to = put_hex(put_literal(to, ",\"client\":"), i.client);
  if (i.parent != 0) to = put_hex(put_literal(to, ",\"parent_object\":"), i.parent);
  if (i.object != 0) to = put_hex(put_literal(to, ",\"object\":"), i.object);
  to = put_field_unless_0(to, ",\"enclosing\":", i.enclosing);
  return i.transferred ? put_literal(to, ",\"transferred\":true") : to;
}

/// What the kernel did, or a probe saw; likewise.
inline std::size_t system_args_room(const system_data& s) noexcept {
  return 256 + escaped_room(s.category.size) + arguments_room(s.arguments, s.argument_count);
}
CUTRACE_NOINLINE inline char* put_system_args(char* to, const system_data& s) {
  to = put_field(to, "\"cpu\":", s.cpu);
  if (s.category.size != 0) to = put_string(put_literal(to, ",\"category_name\":"), view_of(s.category));
  to = put_field_unless_0(to, ",\"enclosing\":", s.enclosing);
  if (s.has_result) to = put_field(to, ",\"result\":", s.result);
  if (s.arguments == nullptr || s.argument_count == 0) return to;
  return put_arguments(put_literal(to, ",\"arguments\":"), s.arguments, s.argument_count);
}

inline std::size_t stage_args_room(const stage_data& s) noexcept {
  return 320 + escaped_room(s.domain.size) + escaped_room(s.category_name.size);
}
/// What NVTX told of a stage or mark.
CUTRACE_NOINLINE inline char* put_origin(char* to, const stage_data& s) {
  to = put_word(put_separator(to), "\"origin\":", to_string(s.origin));
  if (s.domain.size != 0) to = put_string(put_literal(to, ",\"domain\":"), view_of(s.domain));
  to = put_field_unless_0(to, ",\"category\":", s.category);
  if (s.category_name.size != 0) to = put_string(put_literal(to, ",\"category_name\":"), view_of(s.category_name));
  if (s.color != 0) to = put_hex(put_literal(to, ",\"color\":"), s.color);
  if (s.payload_kind != argument_kind::word)
    to = put_argument_value(put_literal(to, ",\"payload\":"), argument{{}, s.payload_kind, s.payload});
  return to;
}
/// What only a stage says. `spans`: on a row that it shares with spans of other threads.
inline char* put_stage_args(char* to, const event& e, bool spans) noexcept {
  if (e.stage.parent != 0) to = put_field(to, "\"parent\":", e.stage.parent);
  if (e.stage.adopted) to = put_literal(put_separator(to), "\"adopted\":true");
  if (spans && e.thread_id != 0) to = put_field(put_separator(to), "\"thread\":", e.thread_id);
  if (e.stage.origin != stage_origin::marker) to = put_origin(to, e.stage);
  return to;
}
/// Both of them, for slices of the host but calls.
inline std::size_t host_args_room(const event& e) noexcept {
  return e.kind == event_kind::stage    ? stage_args_room(e.stage)
         : e.kind == event_kind::ioctl  ? ioctl_args_room(e.ioctl_)
         : e.kind == event_kind::system ? system_args_room(e.system)
                                        : 0;
}
inline char* put_host_args(char* to, const event& e, bool spans) {
  if (e.kind == event_kind::stage) return put_stage_args(to, e, spans);
  if (e.kind == event_kind::system) return put_system_args(to, e.system);
  return e.kind == event_kind::ioctl ? put_ioctl_args(to, e.ioctl_) : to;
}

/// Stage and requests as they stand rendered in `membership`, and the event's quality. Of any slice.
constexpr std::size_t common_args_room = 128;  ///< and the size of `membership`
inline char* put_common_args(char* to, const event& e, std::string_view membership) noexcept {
  if (!membership.empty()) to = put_text(put_separator(to), membership);
  if (CUTRACE_LIKELY(!(e.late || e.skewed || e.by_events) && e.start_ns <= e.end_ns)) return to;
  if (e.late) to = put_literal(put_separator(to), "\"late\":true");
  if (e.skewed) to = put_literal(put_separator(to), "\"skewed\":true");
  if (CUTRACE_UNLIKELY(e.by_events)) to = put_literal(put_separator(to), "\"by_events\":true");
  if (e.end_ns < e.start_ns) {
    to = put_field(put_separator(to), "\"ended_before_start_ns\":", difference_ns(e.start_ns, e.end_ns));
  }
  return to;
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
  const multiprocessor_limits limits = limits_of(d.compute_major, d.compute_minor);
  if (limits.threads != 0) {  // the same for each device of its compute capability
    json.field("maxThreadsPerBlock", 1024);
    json.field("maxThreadsPerMultiprocessor", limits.threads);
    json.field("regsPerBlock", multiprocessor_registers);
    json.field("warpSize", warp_threads);
    json.field("sharedMemPerBlock", 48 * 1024);
    json.field("regsPerMultiprocessor", multiprocessor_registers);
    json.field("sharedMemPerBlockOptin", limits.shared_optin_bytes);
    json.field("sharedMemPerMultiprocessor", limits.shared_bytes);
  }
  json.field("memory_bandwidth_bytes_per_s", d.memory_bandwidth_bytes_per_s);
  json.field("core_clock_khz", d.core_clock_khz);
  std::string uuid;
  append_uuid(uuid, d.uuid);
  json.field("uuid", uuid);
  json.end_object();
}

}  // namespace detail
CUTRACE_END_NAMESPACE
