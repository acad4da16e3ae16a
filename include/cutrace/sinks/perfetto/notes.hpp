// SPDX-License-Identifier: Apache-2.0
// What slices say beside their name: debug annotations of host slices, arguments of GPU work. Their keys are written as
// numbers; each sequence begins with the texts of all keys. Keys of kernels are those that Perfetto's GpuCompute page
// reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cutrace/config.hpp>
#include <cutrace/event.hpp>
#include <cutrace/sinks/perfetto/wire.hpp>
#include <string_view>

CUTRACE_BEGIN_NAMESPACE
namespace detail {

enum class note : std::uint8_t {
  none,
  request,
  requests,
  request_total,
  stage,
  capture_stage,
  attribution,
  bytes,
  address,
  device,
  result,
  result_name,
  adopted,
  thread,
  domain,
  category,
  color,
  payload,
  late,
  skewed,
  ended_before_start_ns,
  runtime,
  asynchronous,
  value,
  graph_id,
  graph_node_id,
  queued_ts_ns,
  submitted_ts_ns,
  source_device,
  destination_device,
  event_id,
  node,
  device_kind,
  request_word,
  error_number,
  status,
  status_name,
  command,
  command_name,
  client,
  parent_object,
  object,
  enclosing,
  transferred,
  by_events,
  cpu,
  incomplete,
};
constexpr const char* note_names[] = {
    "",
    "request",
    "requests",
    "request_total",
    "stage",
    "capture_stage",
    "attribution",
    "bytes",
    "address",
    "device",
    "result",
    "result_name",
    "adopted",
    "thread",
    "domain",
    "category",
    "color",
    "payload",
    "late",
    "skewed",
    "ended_before_start_ns",
    "runtime",
    "async",
    "value",
    "graph_id",
    "graph_node_id",
    "queued_ts_ns",
    "submitted_ts_ns",
    "source_device",
    "destination_device",
    "event_id",
    "node",
    "device_kind",
    "request_word",
    "errno",
    "status",
    "status_name",
    "command",
    "command_name",
    "client",
    "parent_object",
    "object",
    "enclosing",
    "transferred",
    "by_events",
    "cpu",
    "incomplete",
};
constexpr std::uint32_t note_count = sizeof(note_names) / sizeof(note_names[0]);
static_assert(note_count == static_cast<std::uint32_t>(note::incomplete) + 1, "a name for each");

/// The key of a field of event_fields.hpp; note::none: the field is written with its name.
constexpr note note_of_field(std::string_view field) noexcept {
  if (field == "category_name") return note::category;
  for (std::uint32_t i = 1; i < note_count; ++i)
    if (field == note_names[i]) return static_cast<note>(i);
  return note::none;
}
/// The inverse of note_of_field.
constexpr std::string_view field_of_note(note key) noexcept {
  return key == note::category ? std::string_view("category_name") : note_names[static_cast<std::uint8_t>(key)];
}

enum class slice_category : std::uint8_t {
  none,
  stage,
  nvtx,
  cuda_driver,
  cuda_runtime,
  overhead,
  jit,
  ioctl,
  window,
  cuda_sync,
  mark,
  memory,
  system,
  alarm
};
constexpr const char* slice_category_names[] = {"",         "stage",  "nvtx",   "cuda_driver", "cuda_runtime",
                                                "overhead", "jit",    "ioctl",  "window",      "cuda_sync",
                                                "mark",     "memory", "system", "alarm"};
constexpr std::uint32_t slice_category_count = sizeof(slice_category_names) / sizeof(slice_category_names[0]);
static_assert(slice_category_count == static_cast<std::uint32_t>(slice_category::alarm) + 1, "a name for each");

inline slice_category category_of(const event& e) noexcept {
  switch (e.kind) {
    case event_kind::stage:
      return e.stage.origin == stage_origin::nvtx ? slice_category::nvtx : slice_category::stage;
    case event_kind::nvtx:
      return slice_category::nvtx;
    case event_kind::api:
      return e.api.runtime_api ? slice_category::cuda_runtime : slice_category::cuda_driver;
    case event_kind::overhead:
      return slice_category::overhead;
    case event_kind::jit:
      return slice_category::jit;
    case event_kind::ioctl:
      return slice_category::ioctl;
    case event_kind::system:
      return slice_category::system;
    case event_kind::alarm:
      return slice_category::alarm;
    case event_kind::window:
      return slice_category::window;
    case event_kind::sync:
      return slice_category::cuda_sync;
    case event_kind::memory:
      return slice_category::memory;
    default:
      return slice_category::mark;
  }
}

/// Debug annotation of a track event, and argument of GPU work: the same thing under other field numbers.
struct track_note {
  static constexpr pf::field message = pf::event_field::debug_annotations, name = pf::annotation::name_iid,
                             of_int = pf::annotation::int_value, of_uint = pf::annotation::uint_value,
                             of_text = pf::annotation::string_value, of_text_iid = pf::annotation::string_value_iid;
};
struct gpu_note {
  static constexpr pf::field message = pf::gpu::launch_args, name = pf::gpu::arg_name_iid, of_int = pf::gpu::arg_int,
                             of_uint = pf::gpu::arg_uint, of_text = pf::gpu::arg_string,
                             of_text_iid = pf::gpu::arg_string_iid;
};

/// Longest note of a number.
constexpr std::size_t note_room = 4 * number_field_room;

template <class Form>
CUTRACE_INLINE char* put_note(char* to, note key, std::uint64_t value) noexcept {
  char* const body = open_message<Form::message>(to);
  return close_short_message(
      body, put_number<Form::of_uint>(put_number<Form::name>(body, static_cast<std::uint64_t>(key)), value));
}
template <class Form>
inline char* put_note_unless_0(char* to, note key, std::uint64_t value) noexcept {
  return value != 0 ? put_note<Form>(to, key, value) : to;
}
template <class Form>
inline char* put_signed_note(char* to, note key, std::int64_t value) noexcept {
  char* const body = open_message<Form::message>(to);
  return close_short_message(
      body, put_signed<Form::of_int>(put_number<Form::name>(body, static_cast<std::uint64_t>(key)), value));
}
template <class Form>
CUTRACE_INLINE char* put_text_number_note(char* to, note key, std::uint32_t number) noexcept {
  char* const body = open_message<Form::message>(to);
  return close_short_message(
      body, put_number<Form::of_text_iid>(put_number<Form::name>(body, static_cast<std::uint64_t>(key)), number));
}
/// Needs room for `text` and note_room.
template <class Form>
inline char* put_text_note(char* to, note key, std::string_view text) noexcept {
  char* const body = open_message<Form::message>(to);
  return close_message(body,
                       put_bytes<Form::of_text>(put_number<Form::name>(body, static_cast<std::uint64_t>(key)), text));
}

}  // namespace detail
CUTRACE_END_NAMESPACE
