// SPDX-License-Identifier: Apache-2.0
// The fields of one event of Chrome JSON with those of its "args", as cutrace's sink and PyTorch's Kineto write them.
#pragma once

#include <cstdint>
#include <cutrace/event.hpp>
#include <string_view>

namespace cutrace_reading {

struct chrome_fields {
  std::string_view phase, category, name_text;  ///< valid until the parser's next document
  std::int64_t ts_ns, dur_ns, value, queued_ns, ended_before_start_ns, result;
  std::uint64_t pid, tid, correlation, external_id, stream, cuda_stream, stage_id, capture_stage_id, graph_node_id,
      parent, bytes, count, address, request_total, payload, color;
  cutrace::text stage, capture_stage, result_name, runtime, domain, category_name;
  std::string_view meta_value;  ///< "name" or "labels" of "args"
  std::uint32_t device, context, function, registers_per_thread, shared_bytes, graph_id, from_device, to_device, thread,
      event_id, category_number, process;
  std::int32_t priority;
  std::uint32_t grid[3], block[3], cluster[3];
  cutrace::event said;  ///< fields and kind, where event_fields.hpp describes the kind
  std::size_t next;     ///< expected index of the next field: find_field
  cutrace::argument_kind payload_kind;
  cutrace::attribution attribution;
  cutrace::sync_kind sync;
  cutrace::memory_kind memory;
  bool has_ts, has_phase, has_grid, has_stream, has_cuda_stream, no_stream, has_attribution, late, skewed, by_events,
      incomplete, asynchronous, adopted, nvtx, text_pid, has_sync, goes_by_fields, args_wait, broken;
};

}  // namespace cutrace_reading
