// SPDX-License-Identifier: Apache-2.0
// The GPU's half of a Perfetto trace: kernels, copies and whole graphs as render-stage events, one hardware queue for
// each stream, with CUDA contexts and kernels as interned data.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cutrace/config.hpp>
#include <cutrace/detail/json_text.hpp>
#include <cutrace/event.hpp>
#include <cutrace/sinks/chrome_args.hpp>
#include <cutrace/sinks/perfetto_about.hpp>
#include <cutrace/sinks/perfetto_kernels.hpp>
#include <cutrace/sinks/perfetto_notes.hpp>
#include <cutrace/sinks/perfetto_state.hpp>
#include <cutrace/sinks/perfetto_wire.hpp>
#include <map>
#include <string>

CUTRACE_BEGIN_NAMESPACE
namespace detail {

class perfetto_gpu {
 public:
  explicit perfetto_gpu(perfetto_state& state) : state_(state) {}

  bool full() const noexcept { return kernels_.full(); }
  void forget() { kernels_.clear(); }

  /// Work of the GPU except kernels, and the moments at which CUDA events were reached.
  void write(const event& e) { write_as<false>(e); }
  CUTRACE_INLINE void write_kernel(const event& e) { write_as<true>(e); }

  /// A synchronisation with a stream waits for what the stream did last.
  void note_sync(const event& e) {
    if (e.correlation_id == 0 || is_no_stream(e.stream) || e.sync.what == sync_kind::context) return;
    state_.waits[e.correlation_id % 64] = {e.correlation_id, state_.rows.queue(e.device, e.stream).last_event};
  }

  /// Known from here on; told by the next write_devices.
  void describe(const event& e) {
    architectures_[e.device] =
        "sm_" + std::to_string(e.device_.compute_major) + std::to_string(e.device_.compute_minor);
    if (e.device >= device_limit) return;
    descriptions_[e.device] = gpu_description(e);
    changed_ = true;
  }
  /// The place in the list is the number of the device, so all are told at once.
  void write_devices() {
    if (!changed_) return;
    changed_ = false;
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
  /// Numbers of work without a correlation id, beyond all such ids (32 bits and their epochs).
  static constexpr std::uint64_t first_own_number = std::uint64_t{1} << 62;
  static constexpr std::uint32_t device_limit = 64;  ///< GpuInfo lists all devices up to the last one
  static constexpr std::size_t context_limit = 1024;

  template <bool IsKernel>
  CUTRACE_INLINE void write_as(const event& e) {
    perfetto_state& state = state_;  // which the compiler would read again after each byte that is written
    perfetto_queue& q = state.rows.queue(e.device, e.stream);
    perfetto_sequence& s = q.sequence;
    if (CUTRACE_UNLIKELY(!state.packets.is_known(s))) begin_queue(q);
    if (CUTRACE_UNLIKELY(!q.place.is_in(e.context))) change_context(q, e);
    const kernel_numbers::entry* const kernel = IsKernel ? &use_kernel(s, e) : nullptr;
    const std::uint32_t name = IsKernel ? 0 : state.name_number(s, e);
    const std::uint32_t requests = state.requests_number_of(s, e);
    const std::uint32_t in_stage = !IsKernel && e.stage_id != 0 ? state.stage_number(s, e.stage_name) : 0;
    const std::uint32_t captured =
        !IsKernel && e.capture_stage_id != 0 ? state.stage_number(s, e.capture_stage_name) : 0;
    const std::uint64_t number = e.correlation_id != 0 ? e.correlation_id : first_own_number + own_numbers_++;
    if (IsKernel || e.is_gpu_work()) q.last_event = number;
    const trace_clock& clock = state.packets.clock;
    const std::uint64_t start_ns = clock.of(e.start_ns);
    const std::uint64_t end_ns = clock.of(e.end_ns);

    char* to = state.packets.out.room(packet_room);
    char* const packet = to + packet_head::packet_at;
    to = s.put_head(to, s.needing_state, clock, e.start_ns);
    char* const body = open_message<pf::packet::gpu_render_stage_event>(to);
    to = put_number<pf::gpu::event_id>(body, number);
    if (end_ns > start_ns) {
      to = put_time(put_tag<pf::gpu::duration, protozero::pbf_wire_type::varint>(to), end_ns - start_ns);
    }
    to = q.place.put(to);
    char* launch;
    char* end;
    if constexpr (IsKernel) {
      const kernel_numbers::entry::open_launch opened = kernel->put(to);
      launch = opened.body;
      end = put_kernel(opened.end, e.kernel);
    } else {
      const gpu_stage stage = stage_of(e);
      to = put_number<pf::gpu::stage_iid>(to, static_cast<std::uint64_t>(stage));
      to = put_number<pf::gpu::name_iid>(to, name);
      launch = open_message<pf::gpu::launch>(to);
      end = put_launch(launch, e, stage);
      if (in_stage != 0) end = put_text_number_note<gpu_note>(end, note::stage, in_stage);
      if (captured != 0) end = put_text_number_note<gpu_note>(end, note::capture_stage, captured);
    }
    end = state.put_requests<gpu_note>(end, e, requests);
    end = perfetto_state::put_quality<gpu_note>(end, e);
    const bool has_launch = IsKernel || end != launch;
    state.packets.out.commit(has_launch ? close_messages(packet, body, launch, end) : close_messages(packet, body, to));
  }

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

  CUTRACE_INLINE const kernel_numbers::entry& use_kernel(perfetto_sequence& s, const event& e) {
    const kernel_numbers::entry& kernel = kernels_.of(e, state_.names);
    if (CUTRACE_UNLIKELY(s.kernels.first(kernel.number()))) {
      state_.use_name(s, kernel.name(), e);  // the same for each launch of this number
      const auto known = architectures_.find(e.device);
      state_.packets.tell(s, [&](protozero::pbf_writer& data) {
        kernel_numbers::describe(data, kernel.number(), e,
                                 known != architectures_.end() ? known->second : std::string());
      });
    }
    return kernel;
  }

  CUTRACE_NOINLINE void begin_queue(perfetto_queue& q) {
    write_devices();
    state_.packets.begin(q.sequence, 0,
                         [&](protozero::pbf_writer& data) { perfetto_packets::add_queue_data(data, q); });
    q.place.clear();
  }
  CUTRACE_NOINLINE void change_context(perfetto_queue& q, const event& e) {
    if (e.context != 0) tell_context(q.sequence, e);
    q.place.set(e.context, e.device, q.number);
  }
  /// The context that was used last stands first.
  void tell_context(perfetto_sequence& s, const event& e) {
    const auto known = std::find(s.contexts.begin(), s.contexts.end(), e.context);
    if (known != s.contexts.end()) {
      std::iter_swap(s.contexts.begin(), known);
      return;
    }
    if (s.contexts.size() >= context_limit) s.contexts.clear();  // told again; their meaning does not change
    s.contexts.insert(s.contexts.begin(), e.context);
    const std::uint32_t process = e.process_id != 0 ? e.process_id : state_.process_id;
    state_.packets.tell(s,
                        [&](protozero::pbf_writer& data) { perfetto_packets::add_context(data, e.context, process); });
  }

  CUTRACE_INLINE static char* put_graph(char* to, std::uint32_t graph, std::uint64_t node) noexcept {
    if (CUTRACE_LIKELY(graph == 0 && node == 0)) return to;
    to = put_note_unless_0<gpu_note>(to, note::graph_id, graph);
    return put_note_unless_0<gpu_note>(to, note::graph_node_id, node);
  }
  static char* put_attribution(char* to, const event& e) noexcept {
    return e.joined != attribution::by_call ? put_text_note<gpu_note>(to, note::attribution, to_string(e.joined)) : to;
  }

  /// What differs from launch to launch.
  CUTRACE_INLINE char* put_kernel(char* to, const kernel_data& k) const noexcept {
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
  std::uint64_t own_numbers_ = 0;
  std::map<std::uint32_t, std::string> architectures_;
  std::map<std::uint32_t, std::string> descriptions_;
  bool changed_ = false;
};

}  // namespace detail
CUTRACE_END_NAMESPACE
