// SPDX-License-Identifier: Apache-2.0
// What the host half and the GPU half of a Perfetto trace share: packets, rows, and the numbers of names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cutrace/config.hpp>
#include <cutrace/event.hpp>
#include <cutrace/output/json_text.hpp>
#include <cutrace/sinks/perfetto/names.hpp>
#include <cutrace/sinks/perfetto/packets.hpp>
#include <cutrace/sinks/perfetto/rows.hpp>
#include <cutrace/sinks/perfetto/sequence.hpp>
#include <string>

CUTRACE_BEGIN_NAMESPACE
namespace detail {

struct perfetto_state {
  perfetto_packets packets;
  perfetto_rows rows;
  slice_names names;
  request_sets requests;
  number_table<2> stages;
  track_numbers tracks;
  std::uint32_t process_id = 0;

  /// The GPU work that a waiting call, with this correlation id, has waited for. The synchronisation's record comes
  /// shortly before the call's.
  struct awaited {
    std::uint64_t correlation = 0;
    std::uint64_t event = 0;
  };
  awaited waits[64];

  bool full() const noexcept { return names.full() || requests.full() || stages.full(); }
  void forget() {
    names.clear();
    requests.clear();
    stages.clear();
    ++packets.generation;
  }

  CUTRACE_INLINE std::uint32_t name_number(perfetto_sequence& s, const event& e) {
    const std::uint32_t number = names.of(e);
    use_name(s, number, e);
    return number;
  }
  /// Writes the name of `e` into the sequence unless the sequence has it.
  CUTRACE_INLINE void use_name(perfetto_sequence& s, std::uint32_t number, const event& e) {
    if (CUTRACE_LIKELY(!s.names.first(number))) return;
    std::string text;
    slice_names::render(text, e);
    packets.define_text<pf::interned::event_names>(s, number, text);
  }
  /// Stages and request sets share one table: the former have odd numbers, the latter even ones.
  CUTRACE_INLINE std::uint32_t stage_number(perfetto_sequence& s, text stage) {
    const std::uint32_t number = 2 * stages.of({{reinterpret_cast<std::uintptr_t>(stage.data), stage.size}}) + 1;
    if (CUTRACE_UNLIKELY(s.texts.first(number)))
      packets.define_text<pf::interned::string_values>(s, number, perfetto_text(view_of(stage)));
    return number;
  }
  /// A single request number as it is; several requests, or names, as an interned text. Room: two times note_room.
  template <class Form>
  CUTRACE_INLINE char* put_requests(char* to, const event& e, std::uint32_t number) noexcept {
    if (number != 0) return put_text_number_note<Form>(to, note::requests, number);
    if (request_sets::has(e) && request_sets::is_plain(e)) to = put_note<Form>(to, note::request, e.requests[0].id);
    return e.request_total > e.request_count ? put_note<Form>(to, note::request_total, e.request_total) : to;
  }
  /// Number of the text of the event's requests; 0: none, or a single number. Call before the event's packet is begun:
  /// this may write a packet of its own.
  std::uint32_t requests_number(perfetto_sequence& s, const event& e) {
    if (!request_sets::has(e) || request_sets::is_plain(e)) return 0;
    const request_sets::entry& set = requests.of(e);
    const std::uint32_t number = 2 * set.number;
    if (s.texts.first(number)) packets.define_text<pf::interned::string_values>(s, number, request_sets::text_of(set));
    return number;
  }

  template <class Form>
  CUTRACE_INLINE static char* put_quality(char* to, const event& e) noexcept {
    if (CUTRACE_UNLIKELY(e.late)) to = put_note<Form>(to, note::late, 1);
    if (CUTRACE_UNLIKELY(e.skewed)) to = put_note<Form>(to, note::skewed, 1);
    if (CUTRACE_UNLIKELY(e.by_events)) to = put_note<Form>(to, note::by_events, 1);
    if (CUTRACE_UNLIKELY(e.incomplete)) to = put_note<Form>(to, note::incomplete, 1);
    if (CUTRACE_UNLIKELY(e.end_ns < e.start_ns)) {
      to = put_note<Form>(to, note::ended_before_start_ns,
                          static_cast<std::uint64_t>(e.start_ns) - static_cast<std::uint64_t>(e.end_ns));
    }
    return to;
  }
  static constexpr std::size_t common_room = 8 * note_room;
};

}  // namespace detail
CUTRACE_END_NAMESPACE
