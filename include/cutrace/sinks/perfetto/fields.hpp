// SPDX-License-Identifier: Apache-2.0
// Field numbers of the packets that a Perfetto trace is made of, as in Perfetto v58's protos/perfetto/trace: the
// comment behind each group names the file. Only fields that cutrace writes.
#pragma once

#include <cstdint>
#include <cutrace/config.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace detail {
namespace pf {

using field = std::uint32_t;

constexpr field trace_packet = 1;  // trace.proto

namespace packet {  // trace_packet.proto
constexpr field clock_snapshot = 6, timestamp = 8, sequence_id = 10, track_event = 11, interned_data = 12,
                sequence_flags = 13, previous_packet_dropped = 42, gpu_render_stage_event = 53, timestamp_clock_id = 58,
                defaults = 59, track_descriptor = 60, first_packet_on_sequence = 87, gpu_info = 128;
constexpr std::uint32_t state_cleared = 1, needs_state = 2;
constexpr std::uint32_t data_loss_present = 1;
}  // namespace packet

namespace clocks {  // clock_snapshot.proto
constexpr field clock = 1, primary_trace_clock = 2;
constexpr field id = 1, timestamp = 2, is_incremental = 3;
constexpr std::uint32_t realtime = 1, monotonic = 3, boottime = 6;
constexpr std::uint32_t of_sequence = 64;  ///< deltas to the packet before
constexpr std::uint32_t of_session = 65;   ///< nanoseconds since the session began
}  // namespace clocks

namespace track {  // track_descriptor.proto, process_descriptor.proto, thread_descriptor.proto,
                   // counter_descriptor.proto
constexpr field uuid = 1, name = 2, process = 3, thread = 4, parent_uuid = 5, counter = 8, sibling_order_rank = 12;
constexpr field process_pid = 1, process_cmdline = 2, process_name = 6;
constexpr field thread_pid = 1, thread_tid = 2, thread_name = 5;
}  // namespace track

namespace event_field {  // track_event.proto; gpu_correlation and its fields: gpu_track_event.proto
constexpr field category_iids = 3, debug_annotations = 4, type = 9, name_iid = 10, track_uuid = 11, categories = 22,
                name = 23, counter_value = 30, correlation_id = 52, gpu_correlation = 3000;
constexpr std::uint32_t slice_begin = 1, slice_end = 2, instant = 3, counter = 4;
constexpr field submission_event_ids = 1, wait_event_ids = 2;  ///< of gpu_correlation
}  // namespace event_field

namespace annotation {  // debug_annotation.proto
constexpr field name_iid = 1, bool_value = 2, uint_value = 3, int_value = 4, double_value = 5, string_value = 6,
                pointer_value = 7, name = 10, dict_entries = 11, string_value_iid = 17;
}  // namespace annotation

namespace gpu {  // gpu_render_stage_event.proto
constexpr field event_id = 1, duration = 2, context = 5, gpu_id = 11, hw_queue_iid = 13, stage_iid = 14,
                kernel_iid = 19, name_iid = 20, launch = 21;
constexpr field launch_grid = 1, launch_workgroup = 2, launch_args = 3;
constexpr field x = 1, y = 2, z = 3;
constexpr field arg_name_iid = 1, arg_name = 2, arg_int = 3, arg_uint = 4, arg_string = 6, arg_string_iid = 7;
constexpr std::uint32_t category_other = 0, category_compute = 2;
constexpr std::uint32_t api_cuda = 4;
}  // namespace gpu

namespace interned {  // interned_data.proto, gpu_interned_data.proto
constexpr field event_categories = 1, event_names = 2, annotation_names = 3, graphics_contexts = 23,
                gpu_specifications = 24, string_values = 29, compute_kernels = 1000, compute_arg_names = 1001;
constexpr field iid = 1, text = 2;                 ///< of most tables
constexpr field context_pid = 2, context_api = 3;  ///< of graphics_contexts
constexpr field specification_description = 3, specification_category = 4;
constexpr field kernel_demangled = 3, kernel_arch = 4, kernel_args = 5;
}  // namespace interned

namespace gpu_info {  // gpu_info.proto
constexpr field gpus = 1;
constexpr field name = 1, vendor = 2, model = 3, architecture = 4, uuid = 5, extra_info = 6;
constexpr field key = 1, value = 2;
}  // namespace gpu_info

}  // namespace pf
}  // namespace detail
CUTRACE_END_NAMESPACE
