// SPDX-License-Identifier: Apache-2.0
// The packets of a Perfetto trace in the making: what was written and is not in the file yet, and how sequences begin
// and learn what numbers mean. Sequence 1 holds what belongs to no row and has no state at all. One thread at a time.
#pragma once

#include <cstdint>
#include <cutrace/config.hpp>
#include <cutrace/output/text_buffer.hpp>
#include <cutrace/sinks/perfetto/about.hpp>
#include <cutrace/sinks/perfetto/fields.hpp>
#include <cutrace/sinks/perfetto/notes.hpp>
#include <cutrace/sinks/perfetto/rows.hpp>
#include <cutrace/sinks/perfetto/sequence.hpp>
#include <cutrace/sinks/perfetto/wire.hpp>
#include <protozero/pbf_writer.hpp>
#include <string>
#include <string_view>

CUTRACE_BEGIN_NAMESPACE
namespace detail {

/// Render stages of the GPU; the value is the number in gpu_specifications, gpu_stage_names has the names.
enum class gpu_stage : std::uint8_t { none, kernel, memcpy, memset, graph, event };
constexpr const char* gpu_stage_names[] = {"", "Kernel", "Memcpy", "Memset", "Graph", "Event"};

class perfetto_packets {
 public:
  text_buffer out;
  trace_clock clock;
  std::uint32_t generation = 1;  ///< rises when all numbers are forgotten

  /// A packet built by `fill(pbf_writer&)`.
  template <class Fill>
  void add(std::uint32_t sequence, Fill fill) {
    body_.clear();
    {
      protozero::pbf_writer packet(body_);
      packet.add_uint32(pf::packet::sequence_id, sequence);
      fill(packet);
    }
    char* to = out.room(body_.size() + number_field_room);
    out.commit(put_bytes<pf::trace_packet>(to, body_));
  }
  /// A packet on sequence 1 with the time `ns` of CLOCK_MONOTONIC, filled by `fill(pbf_writer&)`.
  template <class Fill>
  void add_at(std::uint64_t ns, Fill fill) {
    add(perfetto_rows::main_sequence, [&](protozero::pbf_writer& packet) {
      packet.add_uint64(pf::packet::timestamp, ns);
      packet.add_uint32(pf::packet::timestamp_clock_id, pf::clocks::monotonic);
      fill(packet);
    });
  }

  bool is_known(const perfetto_sequence& s) const noexcept { return s.generation == generation; }

  /// Before a sequence's first packet, and again when numbers have been forgotten: `more(interned data)` adds what
  /// all of its packets use.
  template <class More>
  void begin(perfetto_sequence& s, std::uint64_t track, More more) {
    const bool first = s.generation == 0;
    add(s.id, [&](protozero::pbf_writer& packet) {
      packet.add_uint32(pf::packet::sequence_flags, pf::packet::state_cleared);
      if (first) packet.add_bool(pf::packet::first_packet_on_sequence, true);
      {
        protozero::pbf_writer defaults(packet, pf::packet::defaults);
        defaults.add_uint32(pf::packet::timestamp_clock_id, pf::clocks::of_sequence);
        if (track != 0) {
          protozero::pbf_writer event(defaults, pf::packet::track_event);
          event.add_uint64(pf::event_field::track_uuid, track);
        }
      }
      protozero::pbf_writer snapshot(packet, pf::packet::clock_snapshot);
      add_clock(snapshot, pf::clocks::of_sequence, clock.origin(), true);
      add_clock(snapshot, pf::clocks::of_session, 0);
      add_clock(snapshot, pf::clocks::monotonic, clock.origin());
    });
    define(s, more);
    s.generation = generation;
    s.last_ns = clock.origin();
    s.names.clear();
    s.texts.clear();
    s.kernels.clear();
    s.contexts.clear();
  }

  /// Interned data, filled by `fill(pbf_writer&)`.
  template <class Fill>
  CUTRACE_ONE_COPY void define(const perfetto_sequence& s, Fill fill) {
    add(s.id, [&](protozero::pbf_writer& packet) {
      packet.add_uint32(pf::packet::sequence_flags, pf::packet::needs_state);
      protozero::pbf_writer data(packet, pf::packet::interned_data);
      fill(data);
    });
  }
  /// Interned data of one text, without protozero: some traces have a new text in each step.
  template <pf::field Table>
  CUTRACE_ONE_COPY void define_text(const perfetto_sequence& s, std::uint32_t number, std::string_view text) {
    char* to = out.room(text.size() + 8 * number_field_room);
    char* const packet = open_message<pf::trace_packet>(to);
    to = put_number<pf::packet::sequence_id>(packet, s.id);
    to = put_number<pf::packet::sequence_flags>(to, pf::packet::needs_state);
    char* const data = open_message<pf::packet::interned_data>(to);
    char* const one = open_message<Table>(data);
    to = put_bytes<pf::interned::text>(put_number<pf::interned::iid>(one, number), text);
    out.commit(close_messages(packet, data, one, to));
  }
  static void add_text(protozero::pbf_writer& data, pf::field table, std::uint64_t number, const std::string& text) {
    protozero::pbf_writer one(data, table);
    one.add_uint64(pf::interned::iid, number);
    one.add_string(pf::interned::text, text);
  }

  static void add_lane_data(protozero::pbf_writer& data) {
    for (std::uint32_t i = 1; i < slice_category_count; ++i) {
      add_text(data, pf::interned::event_categories, i, slice_category_names[i]);
    }
    for (std::uint32_t i = 1; i < note_count; ++i) add_text(data, pf::interned::annotation_names, i, note_names[i]);
  }
  static void add_queue_data(protozero::pbf_writer& data, const perfetto_queue& q) {
    for (std::uint32_t i = 1; i < sizeof(gpu_stage_names) / sizeof(gpu_stage_names[0]); ++i) {
      const auto stage = static_cast<gpu_stage>(i);
      const bool compute = stage == gpu_stage::kernel || stage == gpu_stage::graph;
      add_specification(data, i, gpu_stage_names[i], {}, compute ? pf::gpu::category_compute : pf::gpu::category_other);
    }
    const std::string stream = q.stream == perfetto_rows::other_id ? "others" : std::to_string(q.stream);
    add_specification(data, q.number, "Stream " + stream,
                      "CUDA stream " + stream + " of GPU " + std::to_string(q.device), pf::gpu::category_compute);
    for (std::uint32_t i = 1; i < note_count; ++i) add_text(data, pf::interned::compute_arg_names, i, note_names[i]);
  }
  static void add_context(protozero::pbf_writer& data, std::uint32_t context, std::uint32_t process) {
    protozero::pbf_writer one(data, pf::interned::graphics_contexts);
    one.add_uint64(pf::interned::iid, context);
    one.add_int32(pf::interned::context_pid, static_cast<std::int32_t>(process));
    one.add_enum(pf::interned::context_api, static_cast<std::int32_t>(pf::gpu::api_cuda));
  }

 private:
  static void add_specification(protozero::pbf_writer& data, std::uint32_t number, const std::string& name,
                                const std::string& description, std::uint32_t category) {
    protozero::pbf_writer one(data, pf::interned::gpu_specifications);
    one.add_uint64(pf::interned::iid, number);
    one.add_string(pf::interned::text, name);
    if (!description.empty()) one.add_string(pf::interned::specification_description, description);
    one.add_enum(pf::interned::specification_category, static_cast<std::int32_t>(category));
  }
  std::string body_;
};

}  // namespace detail
CUTRACE_END_NAMESPACE
