// SPDX-License-Identifier: Apache-2.0
// The host's half of a Perfetto trace: stages, calls and instants as track events, a begin and an end packet for each
// slice; calls that cause GPU work name this work (gpu_correlation), from which viewers draw arrows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <cutrace/analysis/category.hpp>
#include <cutrace/config.hpp>
#include <cutrace/event.hpp>
#include <cutrace/event_fields.hpp>
#include <cutrace/output/json_text.hpp>
#include <cutrace/sinks/common/arguments.hpp>
#include <cutrace/sinks/perfetto/about.hpp>
#include <cutrace/sinks/perfetto/names.hpp>
#include <cutrace/sinks/perfetto/notes.hpp>
#include <cutrace/sinks/perfetto/state.hpp>
#include <cutrace/sinks/perfetto/wire.hpp>
#include <set>
#include <string>
#include <string_view>

CUTRACE_BEGIN_NAMESPACE
namespace detail {

class perfetto_host {
 public:
  perfetto_host(perfetto_state& state, bool arguments) : state_(state), arguments_(arguments) {}

  /// Calls, stages and everything else that takes time on the host; synchronisations too.
  void write_slice(const event& e) {
    const bool is_stage = e.kind == event_kind::stage;
    const std::int64_t end_ns = e.end_ns < e.start_ns ? e.start_ns : e.end_ns;
    perfetto_lane& lane = state_.rows.place(row_of(e), e.start_ns, end_ns, is_stage ? e.stage.parent : e.stage_id);
    perfetto_sequence& s = lane.sequence;
    if (!state_.packets.is_known(s)) begin_lane(lane);
    const std::uint32_t name = state_.name_number(s, e);
    // An alarm stands alone: whoever reads it must see whose work it is about.
    const bool is_alarm = e.kind == event_kind::alarm;
    const std::uint32_t requests = is_stage || is_alarm ? state_.requests_number(s, e) : 0;
    const std::uint32_t in_stage = is_alarm && e.stage_id != 0 ? state_.stage_number(s, e.stage_name) : 0;
    const trace_clock& clock = state_.packets.clock;

    char* to = state_.packets.out.room(packet_room + room_of_fields(e));
    char* packet = to + packet_at;
    to = s.put_head(to, true, clock, e.start_ns);
    char* const begin = open_message<pf::packet::track_event>(to);
    to = put_number<pf::event_field::type>(begin, pf::event_field::slice_begin);
    to = put_number<pf::event_field::name_iid>(to, name);
    to = put_number<pf::event_field::category_iids>(to, static_cast<std::uint64_t>(category_of(e)));
    if (e.kind == event_kind::api) {
      to = put_call(put_arrow(to, e), e.api);
    } else if (is_stage) {
      to = put_origin(put_part(to, e), e.stage);
      to = state_.put_requests<track_note>(to, e, requests);
    } else if (goes_by_fields(e.kind)) {
      to = put_described(to, e);
      if (in_stage != 0) to = put_text_number_note<track_note>(to, note::stage, in_stage);
      if (is_alarm) to = state_.put_requests<track_note>(to, e, requests);
    }
    to = perfetto_state::put_quality<track_note>(to, e);
    to = close_messages(packet, begin, to);

    // The end packet has the default track and clock of its sequence, and no interned number is in it.
    packet = to + packet_at;
    to = s.put_head(to, false, clock, end_ns);
    char* const end = open_message<pf::packet::track_event>(to);
    to = put_number<pf::event_field::type>(end, pf::event_field::slice_end);
    state_.packets.out.commit(close_messages(packet, end, to));
  }

  /// Marks, and device memory that is allocated or freed.
  void write_instant(const event& e) {
    perfetto_lane& lane = state_.rows.first_lane({perfetto_row_kind::thread, e.process_id, e.thread_id});
    perfetto_sequence& s = lane.sequence;
    if (CUTRACE_UNLIKELY(!state_.packets.is_known(s))) begin_lane(lane);
    const bool is_memory = e.kind == event_kind::memory;
    const std::uint32_t name = is_memory ? 0 : state_.name_number(s, e);
    const std::uint32_t requests = state_.requests_number(s, e);
    const trace_clock& clock = state_.packets.clock;

    char* to = state_.packets.out.room(packet_room + room_of_fields(e));
    char* const packet = to + packet_at;
    to = s.put_head(to, true, clock, e.start_ns);
    char* const body = open_message<pf::packet::track_event>(to);
    to = put_number<pf::event_field::type>(body, pf::event_field::instant);
    to = put_number<pf::event_field::category_iids>(to, static_cast<std::uint64_t>(category_of(e)));
    if (is_memory) {
      to = put_bytes<pf::event_field::name>(to, to_string(e.memory.operation));
      to = put_note<track_note>(to, note::bytes, e.memory.bytes);
      to = put_note<track_note>(to, note::address, e.memory.address);
      to = put_note<track_note>(to, note::device, e.device);
      if (analysis::in_host_memory(e)) {
        char* const kind = open_message<pf::event_field::debug_annotations>(to);
        to = put_bytes<pf::annotation::name>(kind, "memory");
        to = close_message(kind, put_bytes<pf::annotation::string_value>(to, to_string(e.memory.memory)));
      }
    } else {
      to = put_number<pf::event_field::name_iid>(to, name);
      to = put_origin(to, e.stage);
    }
    to = state_.put_requests<track_note>(to, e, requests);
    to = perfetto_state::put_quality<track_note>(to, e);
    state_.packets.out.commit(close_messages(packet, body, to));
  }

  void name_process(std::uint32_t id, std::string_view name, std::string_view command_line) {
    if (id == 0) return;
    processes_.insert(id);
    state_.packets.add(perfetto_rows::main_sequence, [&](protozero::pbf_writer& packet) {
      protozero::pbf_writer track(packet, pf::packet::track_descriptor);
      track.add_uint64(pf::track::uuid, state_.tracks.process(id));
      add_process(track, id, name, command_line);
    });
  }
  void name_thread(const event& e) {
    if (e.process_id == 0 || e.thread_id == 0) return;
    describe_process(e.process_id);
    describe_lane({perfetto_row_kind::thread, e.process_id, e.thread_id}, 0, view_of(e.name));
  }
  void describe_process(std::uint32_t id) {
    if (processes_.count(id) == 0) name_process(id, {}, {});
  }

 private:
  static constexpr std::size_t packet_room =
      2 * perfetto_sequence::head_room + 12 * number_field_room + perfetto_state::common_room;

  static perfetto_row_key row_of(const event& e) noexcept {
    switch (e.kind) {
      case event_kind::stage:
        if (e.stage.span) return {perfetto_row_kind::spans, e.process_id, 0};
        break;
      case event_kind::overhead:
        return {perfetto_row_kind::overhead, e.process_id, 0};
      case event_kind::window:
        return {perfetto_row_kind::windows, e.process_id, 0};
      case event_kind::system:
        if (e.thread_id == 0) return {perfetto_row_kind::system, e.process_id, e.system.cpu};
        break;
      case event_kind::sync:
        if (e.sync.what == sync_kind::context || is_no_stream(e.stream))
          return {perfetto_row_kind::context_sync, e.device, e.context};
        return {perfetto_row_kind::stream_sync, e.device, e.stream};
      default:
        break;
    }
    return {perfetto_row_kind::thread, e.process_id, e.thread_id};
  }

  CUTRACE_NOINLINE void begin_lane(perfetto_lane& lane) {
    const perfetto_row_key& row = lane.row.key;
    if (lane.sequence.generation == 0) {
      describe_process(is_gpu(row) ? state_.process_id : row.owner);
      if (lane.index != 0 && !lane.row.lanes.front().sequence.generation) describe_lane(row, 0, {});
      describe_lane(row, lane.index, {});
    }
    state_.packets.begin(lane.sequence, state_.tracks.lane(row, lane.index), perfetto_packets::add_lane_data);
  }
  static bool is_gpu(const perfetto_row_key& row) noexcept {
    return row.kind == perfetto_row_kind::stream_sync || row.kind == perfetto_row_kind::context_sync;
  }
  /// The first lane of a thread is described by the thread's ids; any other row or lane is a track with a name.
  void describe_lane(const perfetto_row_key& row, std::size_t index, std::string_view thread_name) {
    const bool is_thread = row.kind == perfetto_row_kind::thread && row.id != 0 && row.id != perfetto_rows::other_id &&
                           row.owner != 0 && index == 0;
    const std::uint32_t process = is_gpu(row) ? state_.process_id : row.owner;
    state_.packets.add(perfetto_rows::main_sequence, [&](protozero::pbf_writer& packet) {
      protozero::pbf_writer track(packet, pf::packet::track_descriptor);
      track.add_uint64(pf::track::uuid, state_.tracks.lane(row, index));
      if (is_thread) {
        protozero::pbf_writer thread(track, pf::track::thread);
        thread.add_int32(pf::track::thread_pid, static_cast<std::int32_t>(row.owner));
        thread.add_int64(pf::track::thread_tid, static_cast<std::int64_t>(row.id));
        if (!thread_name.empty()) thread.add_string(pf::track::thread_name, perfetto_text(thread_name));
        return;
      }
      track.add_string(pf::track::name, row_name(row, index));
      if (index != 0) {
        track.add_uint64(pf::track::parent_uuid, state_.tracks.lane(row, 0));
      } else if (process != 0) {
        track.add_uint64(pf::track::parent_uuid, state_.tracks.process(process));
      }
    });
  }

  /// Room for all fields that event_fields.hpp lists for the event's kind; most kinds write fewer.
  CUTRACE_ONE_COPY static std::size_t room_of_fields(const event& e) noexcept {
    std::size_t room = 0;
    const auto add = [&](const auto& field) {
      constexpr field_form form = std::decay_t<decltype(field)>::form;
      room += note_room + field.name.size();
      if constexpr (form == field_form::text) room += escaped_text_room(field.of(e).size);
      if constexpr (form == field_form::triple) room += triple_room;
      if constexpr (form == field_form::arguments) room += room_of(field.of(e).arguments, field.of(e).argument_count);
    };
    with_fields(e.kind, [&](const auto&... field) { (add(field), ...); });
    return room;
  }

  static std::size_t room_of(const argument* arguments, std::uint32_t count) noexcept {
    std::size_t room = 0;
    for (std::uint32_t i = 0; arguments != nullptr && i < count; ++i) {
      room += arguments[i].name.size + note_room;
      if (arguments[i].kind != argument_kind::string) continue;
      room += escaped_text_room(std::strlen(arguments[i].string_value()));
    }
    return room;
  }
  /// Of what append_perfetto_text makes of a text of this size: an escape takes four characters.
  static constexpr std::size_t escaped_text_room(std::size_t size) noexcept {
    return 4 * (size < perfetto_text_limit ? size : perfetto_text_limit) + 4;
  }

  static constexpr std::size_t triple_room = 3 * 10 + 3;  ///< "64x1x1"

  /// Writes the fields of rare kinds, under the names of docs/jsonl.md.
  CUTRACE_ONE_COPY char* put_described(char* to, const event& e) {
    with_fields(e.kind, [&](const auto&... field) { ((to = put_field(to, e, field)), ...); });
    return to;
  }
  template <class Field>
  char* put_field(char* to, const event& e, const Field& field) {
    constexpr field_form form = Field::form;
    if (!field.is_there(e)) return to;
    const auto& v = field.of(e);
    if constexpr (form == field_form::arguments) {
      for (std::uint32_t i = 0; i < v.argument_count; ++i) to = put_argument(to, v.arguments[i], i);
      return to;
    } else if constexpr (form == field_form::uuid || form == field_form::payload) {
      return to;  // kinds with these are written by hand
    } else {
      static const note key = note_of_field(field.name);
      char* const body = open_message<pf::event_field::debug_annotations>(to);
      to = key != note::none ? put_number<pf::annotation::name_iid>(body, static_cast<std::uint64_t>(key))
                             : put_bytes<pf::annotation::name>(body, field.name);
      if constexpr (form == field_form::word) {
        to = put_bytes<pf::annotation::string_value>(to, to_string(v));
      } else if constexpr (form == field_form::choice) {
        to = put_bytes<pf::annotation::string_value>(to, field.words[v ? 1 : 0]);
      } else if constexpr (form == field_form::text) {
        to = put_bytes<pf::annotation::string_value>(to, foreign(v));
      } else if constexpr (form == field_form::triple) {
        char text[triple_room];
        const int size = std::snprintf(text, sizeof(text), "%ux%ux%u", v[0], v[1], v[2]);
        to = put_bytes<pf::annotation::string_value>(to, std::string_view(text, static_cast<std::size_t>(size)));
      } else if constexpr (form == field_form::time) {
        to = put_number<pf::annotation::uint_value>(to, state_.packets.clock.of(v));
      } else if constexpr (std::is_signed_v<std::decay_t<decltype(v)>>) {
        to = put_signed<pf::annotation::int_value>(to, v);
      } else {
        to = put_number<pf::annotation::uint_value>(to, static_cast<std::uint64_t>(v));
      }
      return close_message(body, to);
    }
  }

  /// The result of a call, and its arguments where the options ask for them.
  CUTRACE_ONE_COPY char* put_call(char* to, const api_data& a) {
    if (a.result != 0) {
      to = put_signed_note<track_note>(to, note::result, a.result);
      if (a.result_name.size != 0) to = put_foreign<track_note>(to, note::result_name, a.result_name);
    }
    if (!arguments_) return to;
    if (a.runtime_name.size != 0) to = put_foreign<track_note>(to, note::runtime, a.runtime_name);
    for (std::uint32_t i = 0; a.arguments != nullptr && i < a.argument_count; ++i)
      to = put_argument(to, a.arguments[i], i);
    return to;
  }
  /// The arrow from a call to the GPU work that it causes or waits for. The number of GPU work is the correlation id of
  /// its call, for work in a graph that of the graph's launch.
  char* put_arrow(char* to, const event& e) const noexcept {
    const std::uint64_t work = e.correlation_id;
    const analysis::call_arrow arrow = work != 0 ? analysis::arrow_of_call(e.name) : analysis::call_arrow::none;
    if (arrow == analysis::call_arrow::none) return to;
    if (arrow == analysis::call_arrow::to_work) {
      char* const body = open_message<pf::event_field::gpu_correlation>(to);
      return close_short_message(body, put_number<pf::event_field::submission_event_ids>(body, work));
    }
    const perfetto_state::awaited& known = state_.waits[work % 64];
    if (known.correlation != work || known.event == 0) return to;
    char* const body = open_message<pf::event_field::gpu_correlation>(to);
    return close_short_message(body, put_number<pf::event_field::wait_event_ids>(body, known.event));
  }

  char* put_argument(char* to, const argument& a, std::uint32_t position) {
    char* const body = open_message<pf::event_field::debug_annotations>(to);
    scratch_.clear();
    if (a.name.size != 0 && a.name.size <= argument_name_limit) {
      append_perfetto_text(scratch_, view_of(a.name));
    }
    // An argument whose name is longer, with its escapes, than the room made for it is named by its position.
    if (scratch_.empty() || scratch_.size() > a.name.size) scratch_ = "arg" + std::to_string(position);
    to = put_bytes<pf::annotation::name>(body, scratch_);
    switch (a.kind) {
      case argument_kind::integer:
        return close_message(body, put_number<pf::annotation::int_value>(to, a.value));
      case argument_kind::unsigned_integer:
      case argument_kind::bytes:
        return close_message(body, put_number<pf::annotation::uint_value>(to, a.value));
      case argument_kind::floating:
        return close_message(body, put_double(to, a.value));
      case argument_kind::string: {
        const std::string_view s = a.string_value();
        scratch_.clear();
        append_perfetto_text(scratch_, s);
        return close_message(body, put_bytes<pf::annotation::string_value>(to, scratch_));
      }
      default:
        return close_message(body, put_number<pf::annotation::pointer_value>(to, a.value));
    }
  }
  static constexpr std::size_t argument_name_limit = 256;
  /// `bits` of a double.
  static char* put_double(char* to, std::uint64_t bits) noexcept {
    to = put_tag<pf::annotation::double_value, protozero::pbf_wire_type::fixed64>(to);
    std::memcpy(to, &bits, sizeof(bits));  // little-endian, as both processors that are supported (config.hpp)
    return to + sizeof(bits);
  }

  /// Notes that the event is an adopted part of a stage (one continued on another thread), and the thread of a span.
  CUTRACE_INLINE static char* put_part(char* to, const event& e) noexcept {
    if (CUTRACE_UNLIKELY(e.stage.adopted)) to = put_note<track_note>(to, note::adopted, 1);
    if (CUTRACE_UNLIKELY(e.stage.span) && e.thread_id != 0) to = put_note<track_note>(to, note::thread, e.thread_id);
    return to;
  }
  /// Domain, category, color and payload that NVTX gave.
  CUTRACE_ONE_COPY char* put_origin(char* to, const stage_data& s) {
    if (CUTRACE_LIKELY(s.origin == stage_origin::marker)) return to;
    if (s.domain.size != 0) to = put_foreign<track_note>(to, note::domain, s.domain);
    if (s.category_name.size != 0) {
      to = put_foreign<track_note>(to, note::category, s.category_name);
    } else if (s.category != 0) {
      to = put_note<track_note>(to, note::category, s.category);
    }
    to = put_note_unless_0<track_note>(to, note::color, s.color);
    if (s.payload_kind == argument_kind::integer || s.payload_kind == argument_kind::unsigned_integer) {
      const bool is_signed = s.payload_kind == argument_kind::integer;
      to = is_signed ? put_signed_note<track_note>(to, note::payload, static_cast<std::int64_t>(s.payload))
                     : put_note<track_note>(to, note::payload, s.payload);
    } else if (s.payload_kind == argument_kind::floating) {
      char* const body = open_message<track_note::message>(to);
      to = put_number<track_note::name>(body, static_cast<std::uint64_t>(note::payload));
      to = close_message(body, put_double(to, s.payload));
    }
    return to;
  }

  /// A text of the program, escaped.
  std::string_view foreign(text t) {
    scratch_.clear();
    append_perfetto_text(scratch_, view_of(t));
    return scratch_;
  }
  template <class Form>
  char* put_foreign(char* to, note key, text t) {
    return put_text_note<Form>(to, key, foreign(t));
  }

  perfetto_state& state_;
  bool arguments_;
  std::set<std::uint32_t> processes_;
  std::string scratch_;
};

}  // namespace detail
CUTRACE_END_NAMESPACE
