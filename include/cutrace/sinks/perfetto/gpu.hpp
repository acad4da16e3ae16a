// SPDX-License-Identifier: Apache-2.0
// The GPU's half of a Perfetto trace: kernels, copies and whole graphs as render-stage events, one hardware queue for
// each stream, with CUDA contexts and kernels as interned data.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <cutrace/config.hpp>
#include <cutrace/event.hpp>
#include <cutrace/names.hpp>
#include <cutrace/output/json_text.hpp>
#include <cutrace/sinks/common/arguments.hpp>
#include <cutrace/sinks/perfetto/about.hpp>
#include <cutrace/sinks/perfetto/fields.hpp>
#include <cutrace/sinks/perfetto/names.hpp>
#include <cutrace/sinks/perfetto/notes.hpp>
#include <cutrace/sinks/perfetto/packets.hpp>
#include <cutrace/sinks/perfetto/state.hpp>
#include <cutrace/sinks/perfetto/wire.hpp>
#include <map>
#include <protozero/pbf_writer.hpp>
#include <set>
#include <string>
#include <string_view>

CUTRACE_BEGIN_NAMESPACE
namespace detail {

// Kernels of a Perfetto trace: name, shape of the launch, stage. A program launches its kernels in few shapes, so their
// arguments (sizes, registers, stage, ...) are written once for each combination, and each launch only has the number
// of its combination (and grid and block in their own fields, for readers of those). One thread at a time.

class kernel_numbers {
  /// All members before the first that differs from launch to launch.
  static constexpr std::size_t shape_bytes = offsetof(kernel_data, graph_id);
  static_assert(shape_bytes % 8 == 0, "whole words");
  static constexpr std::size_t words = shape_bytes / 8 + 5;
  using table = number_table<words>;

 public:
  std::uint32_t of(const event& e) {
    table::key key;
    std::memcpy(key.data(), &e.kernel, shape_bytes);
    std::uint64_t* more = key.data() + shape_bytes / 8;
    more[0] = reinterpret_cast<std::uintptr_t>(e.name.data);  // interned, as all names: equal addresses are equal texts
    more[1] = reinterpret_cast<std::uintptr_t>(e.kernel.mangled_name.data);
    more[2] = e.stage_id != 0 ? reinterpret_cast<std::uintptr_t>(e.stage_name.data) : 0;
    more[3] = e.capture_stage_id != 0 ? reinterpret_cast<std::uintptr_t>(e.capture_stage_name.data) : 0;
    more[4] = static_cast<std::uint64_t>(e.joined) | std::uint64_t{e.name.size} << 8;
    return numbers_.of(key);
  }
  bool full() const noexcept { return numbers_.full(); }
  void clear() { numbers_.clear(); }

  /// Adds the meaning of `number`, which `of` gave for `e`, to interned data. `architecture` may be empty.
  static void describe(protozero::pbf_writer& data, std::uint32_t number, const event& e,
                       const std::string& architecture) {
    const kernel_data& k = e.kernel;
    protozero::pbf_writer kernel(data, pf::interned::compute_kernels);
    kernel.add_uint64(pf::interned::iid, number);
    const std::string_view mangled = view_of(k.mangled_name.size != 0 ? k.mangled_name : e.name);
    kernel.add_string(pf::interned::text, perfetto_text(mangled));
    kernel.add_string(pf::interned::kernel_demangled, perfetto_text(view_of(e.name)));
    if (!architecture.empty()) kernel.add_string(pf::interned::kernel_arch, architecture);
    const std::uint64_t blocks = volume(k.grid), threads = volume(k.block);
    argument(kernel, "grid_size", blocks);
    argument(kernel, "workgroup_size", threads);
    argument(kernel, "thread_count", blocks * threads);
    argument(kernel, "registers_per_thread", k.registers_per_thread);
    argument(kernel, "shared_mem_static", k.static_shared_bytes);
    argument(kernel, "shared_mem_dynamic", k.dynamic_shared_bytes);
    if (k.local_bytes_per_thread != 0) argument(kernel, "local_bytes_per_thread", k.local_bytes_per_thread);
    if (k.cluster[0] != 0) argument(kernel, "cluster_size", volume(k.cluster));
    if (k.priority != 0) argument(kernel, "priority", std::to_string(k.priority));
    if (e.stage_id != 0) argument(kernel, "stage", perfetto_text(view_of(e.stage_name)));
    if (e.capture_stage_id != 0) argument(kernel, "capture_stage", perfetto_text(view_of(e.capture_stage_name)));
    if (e.joined != attribution::by_call) argument(kernel, "attribution", std::string(to_string(e.joined)));
  }

 private:
  static std::uint64_t volume(const std::uint32_t (&v)[3]) noexcept { return std::uint64_t{v[0]} * v[1] * v[2]; }
  static void argument(protozero::pbf_writer& kernel, const char* name, std::uint64_t value) {
    protozero::pbf_writer one(kernel, pf::interned::kernel_args);
    one.add_string(pf::gpu::arg_name, name);
    one.add_uint64(pf::gpu::arg_uint, value);
  }
  static void argument(protozero::pbf_writer& kernel, const char* name, const std::string& value) {
    protozero::pbf_writer one(kernel, pf::interned::kernel_args);
    one.add_string(pf::gpu::arg_name, name);
    one.add_string(pf::gpu::arg_string, value);
  }

  table numbers_;
};

class perfetto_gpu {
 public:
  explicit perfetto_gpu(perfetto_state& state) : state_(state) {}

  bool full() const noexcept { return kernels_.full(); }
  void forget() { kernels_.clear(); }

  /// Work of the GPU, and the moments at which CUDA events were reached.
  void write(const event& e) {
    perfetto_queue& q = state_.rows.queue(e.device, e.stream);
    perfetto_sequence& s = q.sequence;
    if (!state_.packets.is_known(s)) begin_queue(q);
    if (q.context != e.context) change_context(q, e);
    const bool is_kernel = e.kind == event_kind::kernel;
    const std::uint32_t name = state_.name_number(s, e);
    const std::uint32_t kernel = is_kernel ? use_kernel(s, e) : 0;
    const std::uint32_t requests = state_.requests_number(s, e);
    const std::uint32_t in_stage = !is_kernel && e.stage_id != 0 ? state_.stage_number(s, e.stage_name) : 0;
    const std::uint32_t captured =
        !is_kernel && e.capture_stage_id != 0 ? state_.stage_number(s, e.capture_stage_name) : 0;
    const std::uint64_t number = e.correlation_id != 0 ? e.correlation_id : first_free_number + free_numbers_++;
    if (e.is_gpu_work()) q.last_event = number;
    const trace_clock& clock = state_.packets.clock;
    const std::uint64_t start_ns = clock.of(e.start_ns), end_ns = clock.of(e.end_ns);
    const gpu_stage stage = stage_of(e);

    char* to = state_.packets.out.room(packet_room);
    char* const packet = to + packet_at;
    to = s.put_head(to, true, clock, e.start_ns);
    char* const body = open_message<pf::packet::gpu_render_stage_event>(to);
    to = put_number<pf::gpu::event_id>(body, number);
    if (end_ns > start_ns) to = put_number<pf::gpu::duration>(to, end_ns - start_ns);
    if (e.context != 0) to = put_number<pf::gpu::context>(to, e.context);
    if (e.device != 0) to = put_signed<pf::gpu::gpu_id>(to, static_cast<std::int32_t>(e.device));
    to = put_number<pf::gpu::hw_queue_iid>(to, q.number);
    to = put_number<pf::gpu::stage_iid>(to, static_cast<std::uint64_t>(stage));
    if (is_kernel) to = put_number<pf::gpu::kernel_iid>(to, kernel);
    to = put_number<pf::gpu::name_iid>(to, name);
    char* const launch = open_message<pf::gpu::launch>(to);
    char* end = is_kernel ? put_kernel(launch, e.kernel) : put_launch(launch, e, stage);
    if (in_stage != 0) end = put_text_number_note<gpu_note>(end, note::stage, in_stage);
    if (captured != 0) end = put_text_number_note<gpu_note>(end, note::capture_stage, captured);
    end = state_.put_requests<gpu_note>(end, e, requests);
    end = perfetto_state::put_quality<gpu_note>(end, e);
    state_.packets.out.commit(end != launch ? close_messages(packet, body, launch, end)
                                            : close_messages(packet, body, to));
  }

  /// A synchronisation with a stream waits for what the stream did last.
  void note_sync(const event& e) {
    if (e.correlation_id == 0 || is_no_stream(e.stream) || e.sync.what == sync_kind::context) return;
    state_.waits[e.correlation_id % 64] = {e.correlation_id, state_.rows.queue(e.device, e.stream).last_event};
  }

  /// Keeps the description of a device; the next write_devices writes it.
  void describe(const event& e) {
    architectures_[e.device] =
        "sm_" + std::to_string(e.device_.compute_major) + std::to_string(e.device_.compute_minor);
    if (e.device >= device_limit) return;
    std::string described = gpu_description(e);
    std::string& known = descriptions_[e.device];
    if (known == described) return;  // by another process of a merge
    known = std::move(described);
    unwritten_.insert(e.device);
  }
  /// The place in the list is the number of the device, so all are written at once.
  void write_devices() {
    if (unwritten_.empty()) return;
    unwritten_.clear();
    state_.packets.add(perfetto_rows::main_sequence, [&](protozero::pbf_writer& packet) {
      protozero::pbf_writer info(packet, pf::packet::gpu_info);
      for (std::uint32_t i = 0; i <= descriptions_.rbegin()->first; ++i) {
        const auto at = descriptions_.find(i);
        info.add_message(pf::gpu_info::gpus, at != descriptions_.end() ? at->second : std::string());
      }
    });
  }

 private:
  static constexpr std::size_t packet_room =
      perfetto_sequence::head_room + 24 * number_field_room + perfetto_state::common_room + 16 * note_room;
  /// First event_id of work without a correlation id, beyond all correlation ids (32 bits, and 8 that count wraps).
  static constexpr std::uint64_t first_free_number = std::uint64_t{1} << 62;
  /// As in reports, for merged traces of many hosts. GpuInfo lists all devices up to the last one.
  static constexpr std::uint32_t device_limit = 4096;
  static constexpr std::size_t context_limit = 1024;

  static gpu_stage stage_of(const event& e) noexcept {
    switch (e.kind) {
      case event_kind::kernel:
        return gpu_stage::kernel;
      case event_kind::memcpy:
        return gpu_stage::memcpy;
      case event_kind::memset:
        return gpu_stage::memset;
      case event_kind::graph_launch:
        return gpu_stage::graph;
      default:
        return gpu_stage::event;
    }
  }

  std::uint32_t use_kernel(perfetto_sequence& s, const event& e) {
    const std::uint32_t number = kernels_.of(e);
    if (s.kernels.first(number)) {
      const auto known = architectures_.find(e.device);
      state_.packets.define(s, [&](protozero::pbf_writer& data) {
        kernel_numbers::describe(data, number, e, known != architectures_.end() ? known->second : std::string());
      });
    }
    return number;
  }

  CUTRACE_NOINLINE void begin_queue(perfetto_queue& q) {
    // Those of other devices can wait: in a merge of many processes the list is long.
    if (unwritten_.count(q.device) != 0) write_devices();
    state_.packets.begin(q.sequence, 0,
                         [&](protozero::pbf_writer& data) { perfetto_packets::add_queue_data(data, q); });
    q.context = perfetto_queue::nowhere;
  }
  CUTRACE_NOINLINE void change_context(perfetto_queue& q, const event& e) {
    if (e.context != 0) add_context(q.sequence, e);
    q.context = e.context;
  }
  /// The context that was used last stands first.
  void add_context(perfetto_sequence& s, const event& e) {
    const auto known = std::find(s.contexts.begin(), s.contexts.end(), e.context);
    if (known != s.contexts.end()) {
      std::iter_swap(s.contexts.begin(), known);
      return;
    }
    if (s.contexts.size() >= context_limit) s.contexts.clear();  // written again; their meaning does not change
    s.contexts.insert(s.contexts.begin(), e.context);
    const std::uint32_t process = e.process_id != 0 ? e.process_id : state_.process_id;
    state_.packets.define(
        s, [&](protozero::pbf_writer& data) { perfetto_packets::add_context(data, e.context, process); });
  }

  CUTRACE_INLINE static char* put_graph(char* to, std::uint32_t graph, std::uint64_t node) noexcept {
    if (CUTRACE_LIKELY(graph == 0 && node == 0)) return to;
    to = put_note_unless_0<gpu_note>(to, note::graph_id, graph);
    return put_note_unless_0<gpu_note>(to, note::graph_node_id, node);
  }
  static char* put_attribution(char* to, const event& e) noexcept {
    return e.joined != attribution::by_call ? put_text_note<gpu_note>(to, note::attribution, to_string(e.joined)) : to;
  }

  template <pf::field Field>
  static char* put_size(char* to, const std::uint32_t (&v)[3]) noexcept {
    char* const body = open_message<Field>(to);
    return close_short_message(
        body, put_number<pf::gpu::z>(put_number<pf::gpu::y>(put_number<pf::gpu::x>(body, v[0]), v[1]), v[2]));
  }
  char* put_kernel(char* to, const kernel_data& k) const noexcept {
    to = put_size<pf::gpu::launch_grid>(to, k.grid);
    to = put_size<pf::gpu::launch_workgroup>(to, k.block);
    to = put_graph(to, k.graph_id, k.graph_node_id);
    const trace_clock& clock = state_.packets.clock;
    if (CUTRACE_UNLIKELY(k.queued_ns != 0)) to = put_note<gpu_note>(to, note::queued_ts_ns, clock.of(k.queued_ns));
    if (CUTRACE_UNLIKELY(k.submitted_ns != 0)) {
      to = put_note<gpu_note>(to, note::submitted_ts_ns, clock.of(k.submitted_ns));
    }
    return to;
  }
  static char* put_launch(char* to, const event& e, gpu_stage stage) noexcept {
    switch (stage) {
      case gpu_stage::memcpy: {
        const memcpy_data& c = e.memcpy_;
        to = put_note<gpu_note>(to, note::bytes, c.bytes);
        if (c.asynchronous) to = put_note<gpu_note>(to, note::asynchronous, 1);
        if (c.direction == copy_direction::peer) {
          to = put_note<gpu_note>(to, note::source_device, c.source_device);
          to = put_note<gpu_note>(to, note::destination_device, c.destination_device);
        }
        return put_attribution(put_graph(to, c.graph_id, c.graph_node_id), e);
      }
      case gpu_stage::memset: {
        const memset_data& m = e.memset_;
        to = put_note<gpu_note>(to, note::bytes, m.bytes);
        if (m.asynchronous) to = put_note<gpu_note>(to, note::asynchronous, 1);
        if (m.graph_node_id == 0) to = put_note<gpu_note>(to, note::value, m.value);
        return put_attribution(put_graph(to, m.graph_id, m.graph_node_id), e);
      }
      case gpu_stage::graph:
        return put_attribution(put_graph(to, e.kernel.graph_id, 0), e);
      case gpu_stage::kernel:
      case gpu_stage::event:
      case gpu_stage::none:
        break;
    }
    return put_attribution(to, e);
  }

  perfetto_state& state_;
  kernel_numbers kernels_;
  std::uint64_t free_numbers_ = 0;
  std::map<std::uint32_t, std::string> architectures_;
  std::map<std::uint32_t, std::string> descriptions_;
  std::set<std::uint32_t> unwritten_;  ///< devices whose description has changed since
};

}  // namespace detail
CUTRACE_END_NAMESPACE
