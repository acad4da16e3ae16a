// SPDX-License-Identifier: Apache-2.0
// The fields of one line of our JSONL, as docs/jsonl.md lists them. A field has one name and one type wherever it
// occurs, so one flat structure holds them all, and the kind of event says which of them count.
#pragma once

#include <cstdint>
#include <cutrace/event.hpp>
#include <string_view>

namespace cutrace_reading {

struct jsonl_fields {
  std::uint64_t version, correlation, stage_id, capture_stage_id, stream, graph_node_id, parent, address, bytes, count,
      memory_bytes, memory_bandwidth, total_requests, op_id;
  std::uint64_t value;  ///< two's complement
  std::int64_t ts_ns, dur_ns, call_ts_ns, queued_ts_ns, submitted_ts_ns, change, paired_ts_ns;
  cutrace::text name, stage, capture_stage, call, runtime, result_name, mangled_name, file, domain, category_name,
      other_type;
  const cutrace::request_ref* requests;
  const cutrace::argument* arguments;
  std::uint64_t payload, color;
  cutrace::ioctl_data ioctl;
  std::uint64_t enclosing, joined;
  std::int64_t result;
  cutrace::argument_kind payload_kind;
  std::uint32_t request_count, argument_count;
  std::uint32_t pid, tid, device, context, graph_id, function, registers_per_thread, static_shared_bytes,
      dynamic_shared_bytes, local_bytes_per_thread, source_device, destination_device, event_id, multiprocessors,
      compute_major, compute_minor, core_clock_khz, flags, depth, line, category, cpu;
  std::int32_t priority;
  std::uint32_t grid[3], block[3], cluster[3];
  std::uint8_t uuid[16];
  cutrace::event_kind kind;
  cutrace::attribution attribution;
  cutrace::copy_direction direction;
  cutrace::memory_kind source, destination, memory;
  cutrace::sync_kind sync;
  cutrace::memory_operation operation;
  cutrace::loss_cause cause;
  bool has_type, is_header, is_footer, unknown_type;
  bool has_ts, has_value, value_negative, late, skewed, by_events, incomplete, adopted, span, gauge, runtime_api,
      asynchronous, derived, nvtx, knows_call, has_result, paired, ends, has_next, broken;
};

/// The event that they describe. Request and argument arrays are taken as they are.
void fill(cutrace::event& e, const jsonl_fields& f) noexcept;

}  // namespace cutrace_reading
