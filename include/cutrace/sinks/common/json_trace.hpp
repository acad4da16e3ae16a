// SPDX-License-Identifier: Apache-2.0
// What a file says about its trace as a whole, as JSON fields: process and clocks at its head, totals at its end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cutrace/config.hpp>
#include <cutrace/names.hpp>
#include <cutrace/output/json_text.hpp>
#include <cutrace/sink.hpp>
#include <cutrace/version.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace detail {

/// Version of the JSONL schema, field `v`. Rises with each change; changes only add.
constexpr std::uint32_t json_schema_version = 1;

inline void clocks_object(json_text& json, const clock_anchor& a) {
  json.key("clocks");
  json.begin_object();
  json.field("trace_ns", a.trace_ns);
  json.field("realtime_ns", a.realtime_ns);
  json.field("monotonic_ns", a.monotonic_ns);
  json.field("boottime_ns", a.boottime_ns);
  json.field("error_ns", a.error_ns);
  json.end_object();
}

/// Fields of the header; `rank` and `world_size` only where the process has them.
inline void info_fields(json_text& json, const trace_info& i) {
  json.field("schema", "cutrace");
  json.field("cutrace_version", CUTRACE_VERSION_STRING);
  json.field("pid", i.process_id);
  json.field("process", i.process_name);
  json.field("command_line", i.command_line);
  json.field("host", i.host_name);
  json.field("boot_id", i.boot_id);
  json.field("backend", i.backend);
  json.field("backend_detail", i.backend_detail);
  json.field("clock", i.clock);
  if (i.rank >= 0) json.field("rank", i.rank);
  if (i.world_size > 0) json.field("world_size", i.world_size);
  clocks_object(json, i.start);
}

/// {"name":count,...} over the first `N` values of an enumeration.
template <class Enum, std::size_t N>
inline void counts_object(json_text& json, std::string_view key, const std::uint64_t (&counts)[N]) {
  json.key(key);
  json.begin_object();
  for (std::size_t i = 0; i < N; ++i) json.field(to_string(static_cast<Enum>(i)), counts[i]);
  json.end_object();
}

inline void sinks_array(json_text& json, const stats& s) {
  json.key("sinks");
  json.begin_array();
  for (std::uint32_t i = 0; i < s.sink_count && i < sink_limit; ++i) {
    json.begin_object();
    json.field("name", s.sinks[i].name);
    json.field("delivered", s.sinks[i].delivered);
    json.field("written", s.sinks[i].written);
    json.field("lost", s.sinks[i].lost);
    json.field("failed", s.sinks[i].failed);
    if (s.sinks[i].failure[0] != '\0') json.field("failure", s.sinks[i].failure);
    json.end_object();
  }
  json.end_array();
}

/// Fields of the footer, see stats and trace_summary.
inline void summary_fields(json_text& json, const trace_summary& summary) {
  const stats& s = summary.totals;
  json.field("produced", s.produced);
  json.field("delivered", s.delivered);
  json.field("lacking", s.lacking);
  json.field("pending", s.pending);
  json.field("lost_total", s.lost_total());
  counts_object<loss_cause>(json, "lost", s.lost);
  counts_object<quality>(json, "quality", s.quality_of);
  counts_object<attribution>(json, "unattributed", s.unattributed_by);
  counts_object<event_kind>(json, "kinds", s.by_kind);
  json.field("memory_bytes", s.memory_bytes);
  json.field("memory_limit_bytes", s.memory_limit_bytes);
  json.field("clock_error_ns", s.clock_error_ns);
  json.field("launches_seen", s.launches_seen);
  json.field("gpu_records_seen", s.gpu_records_seen);
  json.field("collector_cpu_ns", s.collector_cpu_ns);
  sinks_array(json, s);
  json.key("notes");
  json.begin_array();
  for (std::uint32_t i = 0; summary.notes != nullptr && i < summary.note_count; ++i) json.value(summary.notes[i]);
  json.end_array();
  if (summary.missing != nullptr) json.field("missing", std::string_view(summary.missing));
  clocks_object(json, summary.stop);
}

}  // namespace detail
CUTRACE_END_NAMESPACE
