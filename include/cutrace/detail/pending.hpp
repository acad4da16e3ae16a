// SPDX-License-Identifier: Apache-2.0
// How events wait for their turn. An event is 288 bytes, most of which say nothing or what tables know: what comes by
// the million waits as the 64 or 128 bytes that it is made of, and takes its shape when it is delivered. The window is
// larger than caches are, so these bytes are what waiting costs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cutrace/detail/function_table.hpp>
#include <cutrace/detail/record.hpp>
#include <cutrace/event.hpp>
#include <cutrace/request.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

/// What an event that is not resolved yet has besides.
struct pending_more {
  std::uint64_t request_word = 0;
  std::uint64_t request_owner = 0;
  request_form form = request_form::none;
  std::uint32_t words_at = 0;     ///< api: arguments, in the words of its bucket
  std::uint32_t call_thread = 0;  ///< GPU work: index of the thread of its call
};

/// Whatever has no shorter form. Times are those of the raw frame, stage and requests are not looked up yet.
struct pending_event : event, pending_more {};

/// A stage or a call: its record, without its times.
struct alignas(64) pending_host {
  std::uint64_t head, id, parent, a, b, c;  ///< see `record`
  union {
    const char* name;     ///< of a stage whose name was made at run time; nullptr: not known yet
    std::uint64_t epoch;  ///< of a call's correlation id; with `is_enclosed`, its last word is the id of that call
  };
  std::uint32_t name_size_or_words_at;  ///< a call's words beyond the third, in those of its bucket
  std::uint32_t thread_id;

  static constexpr std::uint64_t is_enclosed = std::uint64_t{1} << 32;

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
void show_stage(const Record& r, event& e, pending_more& more) noexcept {
  e.kind = event_kind::stage;
  e.stage_id = r.id;
  e.depth = static_cast<std::uint32_t>(r.b & 0xffff);
  e.stage.parent = r.parent;
  e.stage.adopted = r.has(flag_adopted);
  e.stage.span = r.has(flag_span);
  more.request_word = r.a;
  more.request_owner = r.c;
  more.form = r.form();
}

/// GPU work and synchronisations, as backends tell of them.
struct alignas(64) pending_work {
  event_kind kind;
  attribution joined;
  bool by_events;
  std::uint8_t cluster_x, cluster_y, cluster_z;
  std::uint16_t device;
  std::uint32_t context;
  std::uint32_t call_thread;
  std::uint64_t correlation_id;
  std::uint64_t stage_id;
  std::uint64_t stream;
  std::int64_t call_start_ns;
  std::int16_t priority;
  std::uint16_t call_function;  ///< see `function_word`
  std::uint32_t name_size;
  const char* name;
  struct launch {
    const char* mangled;
    std::uint32_t mangled_size;
    std::uint32_t graph_id;
    std::uint64_t graph_node_id;
    std::uint32_t grid[3], block[3];
    std::uint32_t registers_per_thread, static_shared_bytes, dynamic_shared_bytes, local_bytes_per_thread;
  };
  union {
    launch kernel;  ///< of graph launches, too
    memcpy_data memcpy_;
    memset_data memset_;
    sync_data sync;
  };

  /// Function of a call and whether it is of the runtime API.
  static constexpr std::uint16_t no_function = 0xffff, runtime_bit = 0x8000;
  static std::uint16_t function_word(std::uint32_t function, bool runtime) noexcept {
    if (function >= function_table::limit) return no_function;  // has no name either
    return static_cast<std::uint16_t>(function | (runtime ? runtime_bit : 0u));
  }

  /// Whether nothing of it would be left out here.
  static bool holds(const event& e) noexcept {
    if ((e.thread_id | e.depth | e.request_total | e.request_count) != 0 || e.device > 0xffff) return false;
    if ((e.stage_name.size | e.capture_stage_name.size | e.call_name.size | e.more.size) != 0) return false;
    if (e.capture_stage_id != 0 || e.late || e.skewed) return false;
    switch (e.kind) {
      case event_kind::kernel:
      case event_kind::graph_launch: {
        const kernel_data& k = e.kernel;
        return (k.cluster[0] | k.cluster[1] | k.cluster[2]) <= 0xff && k.queued_ns == 0 && k.submitted_ns == 0 &&
               k.priority == static_cast<std::int16_t>(k.priority);
      }
      case event_kind::memcpy:
      case event_kind::memset:
      case event_kind::sync:
        return true;
      default:
        return false;
    }
  }

  /// All but what its call tells.
  void keep(const event& e) noexcept {
    kind = e.kind;
    by_events = e.by_events;
    device = static_cast<std::uint16_t>(e.device);
    context = e.context;
    correlation_id = e.correlation_id;
    stage_id = e.stage_id;
    stream = e.stream;
    name_size = e.name.size;
    name = e.name.data;
    switch (e.kind) {
      case event_kind::memcpy:
        memcpy_ = e.memcpy_;
        return;
      case event_kind::memset:
        memset_ = e.memset_;
        return;
      case event_kind::sync:
        sync = e.sync;
        return;
      default:
        break;
    }
    const kernel_data& k = e.kernel;
    cluster_x = static_cast<std::uint8_t>(k.cluster[0]);
    cluster_y = static_cast<std::uint8_t>(k.cluster[1]);
    cluster_z = static_cast<std::uint8_t>(k.cluster[2]);
    priority = static_cast<std::int16_t>(k.priority);
    kernel.mangled = k.mangled_name.data;
    kernel.mangled_size = k.mangled_name.size;
    kernel.graph_id = k.graph_id;
    kernel.graph_node_id = k.graph_node_id;
    for (int i = 0; i < 3; ++i) kernel.grid[i] = k.grid[i], kernel.block[i] = k.block[i];
    kernel.registers_per_thread = k.registers_per_thread;
    kernel.static_shared_bytes = k.static_shared_bytes;
    kernel.dynamic_shared_bytes = k.dynamic_shared_bytes;
    kernel.local_bytes_per_thread = k.local_bytes_per_thread;
  }

  /// The event again, as far as it was kept. `e` is new; its times and its call's name are the caller's to fill in.
  void show(event& e, pending_more& more) const noexcept {
    e.kind = kind;
    e.joined = joined;
    e.by_events = by_events;
    e.device = device;
    e.context = context;
    e.correlation_id = correlation_id;
    e.stage_id = stage_id;
    e.stream = stream;
    e.call_start_ns = call_start_ns;
    e.name = {name, name_size};
    more.call_thread = call_thread;
    switch (kind) {
      case event_kind::memcpy:
        e.memcpy_ = memcpy_;
        return;
      case event_kind::memset:
        e.memset_ = memset_;
        return;
      case event_kind::sync:
        e.sync = sync;
        return;
      default:
        break;
    }
    kernel_data& k = e.kernel;
    k.cluster[0] = cluster_x;
    k.cluster[1] = cluster_y;
    k.cluster[2] = cluster_z;
    k.priority = priority;
    k.mangled_name = {kernel.mangled, kernel.mangled_size};
    k.graph_id = kernel.graph_id;
    k.graph_node_id = kernel.graph_node_id;
    for (int i = 0; i < 3; ++i) k.grid[i] = kernel.grid[i], k.block[i] = kernel.block[i];
    k.registers_per_thread = kernel.registers_per_thread;
    k.static_shared_bytes = kernel.static_shared_bytes;
    k.dynamic_shared_bytes = kernel.dynamic_shared_bytes;
    k.local_bytes_per_thread = kernel.local_bytes_per_thread;
  }
};
static_assert(sizeof(pending_work) == 128, "two cache lines");

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
