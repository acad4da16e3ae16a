// SPDX-License-Identifier: Apache-2.0
// Short forms of events that wait in the order window until they can be delivered. A whole event has 288 bytes, most of
// them empty or the same as in others: frequent kinds wait in 64 bytes and are unpacked when they are delivered. More
// events wait than fit into a cache, so their size is what waiting costs. They lie in buckets, one for each part of the
// window's time, each of which has an array `words` for arguments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <cutrace/collect/function_table.hpp>
#include <cutrace/event.hpp>
#include <cutrace/marker/record.hpp>
#include <cutrace/request.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

/// What an unresolved event has besides the members of `event`.
struct pending_more {
  std::uint64_t request_word = 0;  ///< the request: id, hash or number of ids, as `form` says
  std::uint64_t naming_stage = 0;  ///< instance that named the request, 0 for none
  request_form form = request_form::none;
  std::uint32_t words_at = 0;     ///< api: index of its arguments in its bucket's `words`
  std::uint32_t call_thread = 0;  ///< GPU work: index of the thread of its call
};

/// An argument that brings its name along, as it stands in a bucket's `words`. Names are interned.
struct described_argument {
  static constexpr std::uint32_t words = 3;
  static constexpr std::uint32_t limit = 10;  ///< of one event

  static void put(const argument& a, std::uint64_t* to) noexcept {
    to[0] = argument::word_of(a.name.data);
    to[1] = std::uint64_t{a.name.size} << 32 | static_cast<std::uint64_t>(a.kind);
    to[2] = a.value;
  }
  static argument get(const std::uint64_t* from) noexcept {
    argument a;
    a.name = {reinterpret_cast<const char*>(from[0]), static_cast<std::uint32_t>(from[1] >> 32)};
    a.kind = static_cast<argument_kind>(from[1] & 0xff);
    a.value = from[2];
    return a;
  }
};

/// Whether the event carries the correlation id of a call.
inline bool comes_from_call(const event& e) noexcept {
  return e.is_gpu_work() || e.kind == event_kind::sync || e.is_cuda_event() || e.kind == event_kind::alarm;
}

/// Whatever has no shorter form. Times are those of the raw frame (clock.hpp), stage and requests are not looked
/// up yet.
struct pending_event : event, pending_more {};

/// A stage or a call: its record, without its times.
struct alignas(64) pending_host {
  struct whereabouts {
    std::uint32_t epoch;        ///< of a call's correlation id; its top bit is `is_enclosed`
    std::uint32_t stage_place;  ///< see stage_table::place_of; a call's: of `parent`, a stage's: of the id in `c`
  };

  std::uint64_t head, id, parent, a, b, c;  ///< see `record`
  union {
    const char* name;  ///< of a stage whose name was made at run time; nullptr: not known yet
    whereabouts at;    ///< of all others
  };
  std::uint32_t name_size_or_words_at;  ///< a call's: index of its fourth argument in its bucket's `words`
  std::uint32_t thread_id;

  /// In `epoch`: the call was made inside of another traced call, whose id is the last of its arguments.
  static constexpr std::uint32_t is_enclosed = 1u << 31;

  record_type type() const noexcept { return static_cast<record_type>(head & 0xff); }
  bool has(std::uint8_t flag) const noexcept { return (head & head_flags(flag)) != 0; }
  request_form form() const noexcept { return static_cast<request_form>(head >> 16 & 0xff); }
  std::uint32_t count() const noexcept { return static_cast<std::uint32_t>(head >> 24 & 0xff); }
  std::uint32_t site() const noexcept { return static_cast<std::uint32_t>(head >> 32); }

  void keep(const record& r, std::uint32_t thread) noexcept {
    head = r.head;
    id = r.id;
    parent = r.parent;
    a = r.a;
    b = r.b;
    c = r.c;
    thread_id = thread;
  }
};
static_assert(sizeof(pending_host) == 64, "one cache line");

/// What the record of a stage says of it, in whichever form. `e` is new.
template <class Record>
void unpack_stage(const Record& r, event& e, pending_more& more) noexcept {
  e.kind = event_kind::stage;
  e.stage_id = r.id;
  e.depth = static_cast<std::uint32_t>(r.b & 0xffff);
  e.stage.parent = r.parent;
  e.stage.adopted = r.has(flag_adopted);
  e.stage.span = r.has(flag_span);
  more.request_word = r.a;
  more.naming_stage = r.c;
  more.form = r.form();
}

/// What GPU work of one name often has in common, as it stands in the event: launches of one shape, copies of one size.
struct work_shape {
  static constexpr std::size_t size = offsetof(kernel_data, graph_node_id);
  static_assert(sizeof(memcpy_data) <= size && sizeof(memset_data) <= size && sizeof(sync_data) <= size,
                "a shape holds these completely");

  unsigned char bytes[size];  ///< of the union
  const char *name, *mangled;
  std::uint32_t name_size, mangled_size;

  static bool is_kernel(const event& e) noexcept {
    return e.kind == event_kind::kernel || e.kind == event_kind::graph_launch;
  }
  CUTRACE_INLINE bool is_of(const event& e) const noexcept {
    const text other = is_kernel(e) ? e.kernel.mangled_name : text{nullptr, 0};
    return std::memcmp(bytes, &e.kernel, size) == 0 && name == e.name.data && name_size == e.name.size &&
           mangled == other.data && mangled_size == other.size;
  }
  void keep(const event& e) noexcept {
    const text other = is_kernel(e) ? e.kernel.mangled_name : text{nullptr, 0};
    std::memcpy(bytes, &e.kernel, size);
    name = e.name.data;
    name_size = e.name.size;
    mangled = other.data;
    mangled_size = other.size;
  }
  /// Into a new event of the same kind.
  CUTRACE_INLINE void unpack(event& e) const noexcept {
    std::memcpy(static_cast<void*>(&e.kernel), bytes, size);
    e.name = {name, name_size};
    if (is_kernel(e)) e.kernel.mangled_name = {mangled, mangled_size};
  }
};

/// GPU work and synchronisations, as backends report them.
struct alignas(64) pending_work {
  event_kind kind;
  attribution joined;
  bool by_events;
  std::uint16_t device;
  std::uint16_t call_function;  ///< see `function_word`
  std::uint32_t context;
  std::uint32_t call_word;  ///< see `word_of_call`
  std::uint64_t stage_id;
  std::uint64_t stream;
  std::int64_t call_start_ns;
  std::uint64_t graph_node_id;  ///< of kernels
  std::uint32_t correlation;    ///< as CUPTI counts
  std::uint32_t stage_place;    ///< of `stage_id`, see stage_table::place_of
  const work_shape* shape;      ///< in the same bucket

  /// Thread of the call, and epoch of `correlation`. One word, since bit-fields are read before they are written.
  static std::uint32_t word_of_call(std::uint32_t thread, std::uint32_t epoch) noexcept {
    return (thread & 0xffffffu) | epoch << 24;
  }
  std::uint32_t call_thread() const noexcept { return call_word & 0xffffffu; }

  /// Function of a call and whether it is of the runtime API.
  static constexpr std::uint16_t no_function = 0xffff, runtime_bit = 0x8000;
  static std::uint16_t function_word(std::uint32_t function, bool runtime) noexcept {
    if (function >= function_table::limit) return no_function;  // has no name either
    return static_cast<std::uint16_t>(function | (runtime ? runtime_bit : 0u));
  }

  /// Whether this form holds all of `e`.
  static bool holds(const event& e) noexcept {
    if ((e.thread_id | e.depth | e.request_total | e.request_count) != 0 || e.device > 0xffff) return false;
    if ((e.stage_name.size | e.capture_stage_name.size | e.call_name.size | e.more.size) != 0) return false;
    if (e.capture_stage_id != 0 || e.late || e.skewed || e.incomplete || e.correlation_id > 0xffffffffu) return false;
    switch (e.kind) {
      case event_kind::kernel:
      case event_kind::graph_launch:
        return e.kernel.queued_ns == 0 && e.kernel.submitted_ns == 0;
      case event_kind::memcpy:
      case event_kind::memset:
      case event_kind::sync:
        return true;
      default:
        return false;
    }
  }

  /// Keeps all of `e` but what comes from its call, the place of its stage, and its shape.
  void keep(const event& e) noexcept {
    kind = e.kind;
    by_events = e.by_events;
    device = static_cast<std::uint16_t>(e.device);
    context = e.context;
    stage_id = e.stage_id;
    stream = e.stream;
    graph_node_id = work_shape::is_kernel(e) ? e.kernel.graph_node_id : 0;
    correlation = static_cast<std::uint32_t>(e.correlation_id);
  }

  /// The event again, as far as it was kept. `e` is new; its times and its call's name are the caller's to fill in.
  CUTRACE_INLINE void unpack(event& e) const noexcept {
    e.kind = kind;
    e.joined = joined;
    e.by_events = by_events;
    e.device = device;
    e.context = context;
    e.correlation_id = correlation | std::uint64_t{call_word >> 24} << 32;
    e.stage_id = stage_id;
    e.stream = stream;
    e.call_start_ns = call_start_ns;
    shape->unpack(e);
    if (work_shape::is_kernel(e)) e.kernel.graph_node_id = graph_node_id;
  }
};
static_assert(sizeof(pending_work) == 64, "one cache line");

/// Offset of `stage_place`, the same in both short forms, so that it is prefetched without a branch on the form, which
/// no processor predicts.
constexpr std::size_t stage_place_at = offsetof(pending_work, stage_place);
static_assert(offsetof(pending_host, at.stage_place) == stage_place_at, "the same offset in both");
static_assert(sizeof(pending_event) >= stage_place_at + sizeof(std::uint32_t), "a whole event can be read there, too");

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
