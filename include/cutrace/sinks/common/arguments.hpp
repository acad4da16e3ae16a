// SPDX-License-Identifier: Apache-2.0
// "args" of Chrome JSON slices under Kineto's keys (libkineto output_json.cpp, CuptiActivity.h); cutrace's own keys are
// lower case with underscores. Written at a cursor, into room that the caller made: see text_buffer.hpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <cutrace/config.hpp>
#include <cutrace/event.hpp>
#include <cutrace/names.hpp>
#include <cutrace/output/json_text.hpp>
#include <cutrace/output/text_buffer.hpp>
#include <cutrace/sinks/common/json_event.hpp>
#include <initializer_list>
#include <limits>
#include <map>
#include <string>
#include <string_view>

CUTRACE_BEGIN_NAMESPACE
namespace detail {

// Single fields of a JSON object at a cursor: see text_buffer.hpp. Keys are literals that bring their punctuation
// along, so that a field is one move and a number.

/// `key` is a literal with comma, quotes and colon.
template <std::size_t N, class Integer>
CUTRACE_INLINE char* put_field(char* to, const char (&key)[N], Integer n) noexcept {
  return put_integer(put_literal(to, key), n);
}
template <std::size_t N>
CUTRACE_INLINE char* put_field_unless_0(char* to, const char (&key)[N], std::uint64_t n) noexcept {
  return n != 0 ? put_field(to, key, n) : to;
}
template <std::size_t N>
inline char* put_triple(char* to, const char (&key)[N], const std::uint32_t (&v)[3]) noexcept {
  to = put_decimal(put_literal(to, key), v[0]);
  *to++ = ',';
  to = put_decimal(to, v[1]);
  *to++ = ',';
  to = put_decimal(to, v[2]);
  *to++ = ']';
  return to;
}
/// to_string of an enumeration, in quotes: such a word needs no escaping.
template <std::size_t N>
inline char* put_word(char* to, const char (&key)[N], const char* word) noexcept {
  to = put_literal(to, key);
  *to++ = '"';
  to = put_text(to, word);
  *to++ = '"';
  return to;
}

/// Writes the comma before a field, unless the field is the first of its object.
inline char* put_separator(char* to) noexcept {
  if (to[-1] != '{') *to++ = ',';
  return to;
}

// How full a kernel's launch makes its GPU, as Kineto's files say it, from the device's description and what is fixed
// for its compute capability (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability";
// cuda_occupancy.h of CUDA 13.0). Pure functions.

/// All zero where the compute capability is not known.
struct multiprocessor_limits {
  std::uint32_t threads;             ///< most that are resident on a multiprocessor
  std::uint32_t blocks;              ///< most that are resident on a multiprocessor
  std::uint32_t shared_bytes;        ///< shared memory of a multiprocessor
  std::uint32_t shared_optin_bytes;  ///< most shared memory that one block can opt in to
};
constexpr std::uint32_t warp_threads = 32, multiprocessor_registers = 65536;

constexpr multiprocessor_limits limits_of(std::uint32_t major, std::uint32_t minor) noexcept {
  constexpr std::uint32_t kib = 1024;
  switch (major * 10 + minor) {
    case 70:
    case 72:
      return {2048, 32, 96 * kib, 96 * kib};
    case 75:
      return {1024, 16, 64 * kib, 64 * kib};
    case 80:
      return {2048, 32, 164 * kib, 163 * kib};
    case 86:
      return {1536, 16, 100 * kib, 99 * kib};
    case 87:
      return {1536, 16, 164 * kib, 163 * kib};
    case 89:
      return {1536, 24, 100 * kib, 99 * kib};
    case 90:
    case 100:
    case 103:
      return {2048, 32, 228 * kib, 227 * kib};
    case 120:
    case 121:
      return {1536, 24, 100 * kib, 99 * kib};
    default:
      return {0, 0, 0, 0};
  }
}

/// Blocks of one kernel that a multiprocessor holds at a time; 0 where that cannot be known.
inline std::uint32_t resident_blocks(const device_data& d, const kernel_data& k) noexcept {
  const multiprocessor_limits limits = limits_of(d.compute_major, d.compute_minor);
  const std::uint64_t threads = std::uint64_t{k.block[0]} * k.block[1] * k.block[2];
  if (limits.threads == 0 || threads == 0 || threads > 1024) return 0;
  const auto rounded = [](std::uint64_t n, std::uint64_t unit) { return (n + unit - 1) / unit * unit; };
  const std::uint64_t warps = rounded(threads, warp_threads) / warp_threads;
  std::uint64_t n = std::min<std::uint64_t>(limits.blocks, limits.threads / warp_threads / warps);
  if (k.registers_per_thread != 0) {
    constexpr std::uint64_t parts = 4, unit = 256;  // each quarter of the registers serves its own warps
    const std::uint64_t a_warp = rounded(std::uint64_t{k.registers_per_thread} * warp_threads, unit);
    n = std::min(n, multiprocessor_registers / parts / a_warp * parts / warps);
  }
  const std::uint64_t reserved = d.compute_major >= 8 ? 1024 : 0, unit = d.compute_major >= 8 ? 128 : 256;
  const std::uint64_t shared = rounded(std::uint64_t{k.static_shared_bytes} + k.dynamic_shared_bytes + reserved, unit);
  if (shared != 0) n = std::min(n, limits.shared_bytes / shared);
  return static_cast<std::uint32_t>(n);
}

/// The numbers that Kineto gives a kernel, by its CuptiActivity.h and by cuda_occupancy.h.
struct launch_fill {
  double blocks_per_multiprocessor;
  double warps_per_multiprocessor;
  std::uint32_t occupancy_percent;
};
/// @returns false where the device or its compute capability is not known
inline bool fill_of(const device_data& d, const kernel_data& k, launch_fill& fill) noexcept {
  if (d.multiprocessors == 0) return false;
  const auto volume = [](const std::uint32_t(&v)[3]) {
    return static_cast<double>(v[0]) * static_cast<double>(v[1]) * static_cast<double>(v[2]);
  };
  const double threads = volume(k.block);
  fill.blocks_per_multiprocessor = volume(k.grid) / static_cast<double>(d.multiprocessors);
  fill.warps_per_multiprocessor = fill.blocks_per_multiprocessor * threads / warp_threads;
  const multiprocessor_limits limits = limits_of(d.compute_major, d.compute_minor);
  if (limits.threads == 0) return false;
  const double blocks = std::min<double>(resident_blocks(d, k), fill.blocks_per_multiprocessor);
  fill.occupancy_percent = static_cast<std::uint32_t>(100.0 * blocks * threads / limits.threads + 0.5);
  return true;
}

// How kernels are launched, in Chrome JSON args under Kineto's keys.

inline char* put_shape(char* to, const kernel_data& k) noexcept {
  to = put_field(to, ",\"registers per thread\":", k.registers_per_thread);
  to = put_field(to, ",\"shared memory\":", std::uint64_t{k.static_shared_bytes} + k.dynamic_shared_bytes);
  to = put_triple(to, ",\"grid\":[", k.grid);
  to = put_triple(to, ",\"block\":[", k.block);
  if (k.cluster[0] != 0) to = put_triple(to, ",\"cluster\":[", k.cluster);
  return put_field(to, ",\"priority\":", k.priority);
}

/// No launch comes near 1e12, but a record may hold any number: larger ones are written as 1e12.
inline char* put_ratio(char* to, double ratio) noexcept {
  return put_millionths(to, ratio < 1e12 ? static_cast<std::uint64_t>(ratio * 1e6 + 0.5) : 1000000000000000000u);
}
inline char* put_fill(char* to, const launch_fill& f) noexcept {
  to = put_ratio(put_literal(to, ",\"blocks per SM\":"), f.blocks_per_multiprocessor);
  to = put_ratio(put_literal(to, ",\"warps per SM\":"), f.warps_per_multiprocessor);
  return put_field(to, ",\"est. achieved occupancy %\":", f.occupancy_percent);
}

/// Writes what put_shape writes and, for a device in `devices`, how full the launch makes this device.
inline char* put_launch(char* to, const event& e, const std::map<std::uint32_t, device_data>& devices) noexcept {
  to = put_shape(to, e.kernel);
  const auto known = devices.find(e.device);
  launch_fill fill;
  return known != devices.end() && fill_of(known->second, e.kernel, fill) ? put_fill(to, fill) : to;
}

/// Duration for a viewer: never negative, at most what a signed number holds.
inline std::int64_t shown_duration_ns(const event& e) noexcept {
  if (e.end_ns <= e.start_ns) return 0;
  const std::int64_t dur_ns = difference_ns(e.end_ns, e.start_ns);
  return dur_ns < 0 ? std::numeric_limits<std::int64_t>::max() : dur_ns;
}

/// CUPTI's invalid stream id, of synchronisations that wait for no stream in particular.
inline bool is_no_stream(std::uint64_t stream) noexcept { return stream == 0xFFFFFFFFu || stream == ~std::uint64_t{0}; }

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
  if (c.asynchronous) to = put_literal(to, ",\"async\":true");
  if (c.direction == copy_direction::peer) {
    to = put_field(to, ",\"fromDevice\":", c.source_device);
    to = put_field(to, ",\"toDevice\":", c.destination_device);
  }
  return put_graph(to, c.graph_id, c.graph_node_id);
}

/// Field `stream`: the row of the viewer. Where this cannot be CUDA's number (0, or too large), field `cuda_stream`
/// gives CUDA's number.
inline char* put_stream(char* to, const event& e, std::uint32_t base_tid) noexcept {
  if (is_no_stream(e.stream)) return put_literal(to, ",\"stream\":-1");
  if (e.kind == event_kind::sync) {
    to = put_field(to, ",\"stream\":", e.stream != 0 ? static_cast<std::int64_t>(e.stream) : std::int64_t{base_tid});
    return e.stream == 0 ? put_literal(to, ",\"cuda_stream\":0") : to;
  }
  to = put_field(to, ",\"stream\":", base_tid);
  return base_tid != e.stream ? put_field(to, ",\"cuda_stream\":", e.stream) : to;
}

constexpr std::size_t gpu_args_room = 896;  ///< the longest args, of a kernel with all its fields, are below 768
/// `process`: that of the trace. Rows of GPUs have none, so work of another one, in a merged trace, names its own.
inline char* put_gpu_args(char* to, const event& e, std::uint32_t base_tid,
                          const std::map<std::uint32_t, device_data>& devices, std::uint32_t process) noexcept {
  to = put_field(to, "\"device\":", e.device);
  to = put_field(to, ",\"context\":", e.context);
  if (e.process_id != process) to = put_field(to, ",\"process\":", e.process_id);
  to = put_stream(to, e, base_tid);
  if (e.correlation_id != 0) to = put_field(to, ",\"correlation\":", e.correlation_id);
  if (e.kind == event_kind::kernel) {
    // All of Kineto's files have "queued"; here in nanoseconds of the session, 0 where this time was not asked for.
    to = put_field(to, ",\"queued\":", e.kernel.queued_ns);
    to = put_launch(to, e, devices);
    to = put_graph(to, e.kernel.graph_id, e.kernel.graph_node_id);
  }
  if (e.kind == event_kind::graph_launch) to = put_graph(to, e.kernel.graph_id, 0);
  if (e.kind == event_kind::memcpy) to = put_copy_args(to, e.memcpy_, shown_duration_ns(e));
  if (e.kind == event_kind::memset) {
    to = put_bandwidth(to, e.memset_.bytes, shown_duration_ns(e));
    if (e.memset_.asynchronous) to = put_literal(to, ",\"async\":true");
    to = put_graph(to, e.memset_.graph_id, e.memset_.graph_node_id);
  }
  if (e.kind == event_kind::sync) {
    to = put_word(to, ",\"cuda_sync_kind\":", to_string(e.sync.what));
    to = put_field_unless_0(to, ",\"wait_on_cuda_event_id\":", e.sync.event_id);
  }
  return e.joined != attribution::by_call ? put_word(to, ",\"attribution\":", to_string(e.joined)) : to;
}

/// Room for put_api_args: arguments and result of a call, without its correlation id.
inline std::size_t api_args_room(const api_data& a) noexcept {
  return 160 + escaped_room(a.result_name.size) + escaped_room(a.runtime_name.size) +
         arguments_room(a.arguments, a.argument_count);
}
inline char* put_api_args(char* to, const api_data& a) {
  to = put_field(to, "\"cbid\":", a.function);
  if (a.runtime_name.size != 0) to = put_string(put_literal(to, ",\"runtime\":"), view_of(a.runtime_name));
  if (a.result != 0) {
    to = put_field(to, ",\"result\":", a.result);
    if (a.result_name.size != 0) to = put_string(put_literal(to, ",\"result_name\":"), view_of(a.result_name));
  }
  if (a.arguments != nullptr && a.argument_count != 0) {
    to = put_arguments(put_literal(to, ",\"arguments\":"), a.arguments, a.argument_count);
  }
  return to;
}

constexpr std::size_t stage_args_room = 128;
/// Args that only a stage has. `spans`: the stage is on the row that spans of all threads share.
inline char* put_stage_args(char* to, const event& e, bool spans) noexcept {
  if (e.stage.parent != 0) to = put_field(to, "\"parent\":", e.stage.parent);
  if (e.stage.adopted) to = put_literal(put_separator(to), "\"adopted\":true");
  if (spans && e.thread_id != 0) to = put_field(put_separator(to), "\"thread\":", e.thread_id);
  return to;
}
/// Room for put_common_args, the args of any slice: stage and requests, rendered in `membership`, and event quality.
constexpr std::size_t common_args_room = 128;  ///< plus the size of `membership`
inline char* put_common_args(char* to, const event& e, std::string_view membership) noexcept {
  if (!membership.empty()) to = put_text(put_separator(to), membership);
  if (CUTRACE_LIKELY(!(e.late || e.skewed || e.by_events || e.incomplete) && e.start_ns <= e.end_ns)) return to;
  if (e.late) to = put_literal(put_separator(to), "\"late\":true");
  if (e.skewed) to = put_literal(put_separator(to), "\"skewed\":true");
  if (CUTRACE_UNLIKELY(e.by_events)) to = put_literal(put_separator(to), "\"by_events\":true");
  if (CUTRACE_UNLIKELY(e.incomplete)) to = put_literal(put_separator(to), "\"incomplete\":true");
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
