// SPDX-License-Identifier: Apache-2.0
// Packets that a Perfetto trace has few of: clocks, descriptions of processes, threads and GPUs, what is known at the
// beginning and the totals at the end. Built with protozero, as parts of a packet that the caller has begun.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cutrace/config.hpp>
#include <cutrace/names.hpp>
#include <cutrace/output/json_text.hpp>
#include <cutrace/sink.hpp>
#include <cutrace/sinks/perfetto/fields.hpp>
#include <cutrace/sinks/perfetto/names.hpp>
#include <cutrace/sinks/perfetto/rows.hpp>
#include <cutrace/version.hpp>
#include <protozero/pbf_writer.hpp>
#include <string>
#include <string_view>

CUTRACE_BEGIN_NAMESPACE
namespace detail {

inline std::string perfetto_text(std::string_view s) {
  std::string out;
  append_perfetto_text(out, s);
  return out;
}

/// Numbers of tracks: the same for one thing within a trace, and different in traces of other processes, so that files
/// can be joined by writing them one after the other.
class track_numbers {
 public:
  track_numbers() = default;
  explicit track_numbers(const trace_info& info) {
    seed_ = mix(mix(info.start.monotonic_ns, info.process_id), info.start.realtime_ns);
    for (const char c : view_of(info.host_name)) seed_ = mix(seed_, static_cast<unsigned char>(c));
  }
  std::uint64_t process(std::uint32_t id) const noexcept { return mix(mix(seed_, 1), id) | 1; }
  std::uint64_t about() const noexcept { return mix(seed_, 2) | 1; }
  std::uint64_t counter(text name, std::uint32_t process) const noexcept {
    return mix(mix(mix(seed_, 3), reinterpret_cast<std::uintptr_t>(name.data) + name.size), process) | 1;
  }
  std::uint64_t lane(const perfetto_row_key& row, std::size_t index) const noexcept {
    return mix(mix(mix(mix(mix(seed_, 4), static_cast<std::uint64_t>(row.kind)), row.owner), row.id), index) | 1;
  }

 private:
  static std::uint64_t mix(std::uint64_t sum, std::uint64_t more) noexcept {
    sum = (sum ^ more ^ (sum >> 31)) * 0x9E3779B97F4A7C15u;
    return sum ^ sum >> 32;
  }
  std::uint64_t seed_ = 0;
};

inline void add_clock(protozero::pbf_writer& snapshot, std::uint32_t id, std::uint64_t ns, bool incremental = false) {
  protozero::pbf_writer clock(snapshot, pf::clocks::clock);
  clock.add_uint32(pf::clocks::id, id);
  clock.add_uint64(pf::clocks::timestamp, ns);
  if (incremental) clock.add_bool(pf::clocks::is_incremental, true);
}
inline void add_clocks(protozero::pbf_writer& packet, const clock_anchor& a) {
  protozero::pbf_writer snapshot(packet, pf::packet::clock_snapshot);
  add_clock(snapshot, pf::clocks::realtime, a.realtime_ns);
  add_clock(snapshot, pf::clocks::monotonic, a.monotonic_ns);
  add_clock(snapshot, pf::clocks::boottime, a.boottime_ns);
  snapshot.add_enum(pf::clocks::primary_trace_clock, static_cast<std::int32_t>(pf::clocks::monotonic));
}
inline void add_process(protozero::pbf_writer& track, std::uint32_t id, std::string_view name,
                        std::string_view command_line) {
  protozero::pbf_writer process(track, pf::track::process);
  process.add_int32(pf::track::process_pid, static_cast<std::int32_t>(id));
  if (!command_line.empty()) process.add_string(pf::track::process_cmdline, perfetto_text(command_line));
  if (!name.empty()) process.add_string(pf::track::process_name, perfetto_text(name));
}

inline std::string row_name(const perfetto_row_key& row, std::size_t lane) {
  const std::string id = row.id == perfetto_rows::other_id ? "others" : std::to_string(row.id);
  std::string name;
  switch (row.kind) {
    case perfetto_row_kind::thread:
      name = row.id == 0 ? "unknown thread" : "thread " + id;
      break;
    case perfetto_row_kind::spans:
      name = "spans";
      break;
    case perfetto_row_kind::overhead:
      name = "tracing overhead";
      break;
    case perfetto_row_kind::windows:
      name = "recorded windows";
      break;
    case perfetto_row_kind::system:
      name = "cpu " + id;
      break;
    case perfetto_row_kind::stream_sync:
      name = "GPU " + std::to_string(row.owner) + " stream " + id + " (sync)";
      break;
    case perfetto_row_kind::context_sync:
      name = "GPU " + std::to_string(row.owner) + " context " + id + " (sync)";
      break;
  }
  return lane == 0 ? name : name + " (" + std::to_string(lane + 1) + ")";
}

/// Annotations, key and value, of instants on the trace's own track: begin and end of trace and parts, losses.
class about_notes {
 public:
  explicit about_notes(protozero::pbf_writer& event) : event_(event) {}
  void add(const char* key, std::string_view value) {
    protozero::pbf_writer one(event_, pf::event_field::debug_annotations);
    one.add_string(pf::annotation::name, key);
    one.add_string(pf::annotation::string_value, perfetto_text(value));
  }
  void add(const std::string& key, std::uint64_t value) {
    protozero::pbf_writer one(event_, pf::event_field::debug_annotations);
    one.add_string(pf::annotation::name, key);
    one.add_uint64(pf::annotation::uint_value, value);
  }
  template <class Enum, std::size_t N>
  void add_counts(const char* key, const std::uint64_t (&counts)[N]) {
    for (std::size_t i = 0; i < N; ++i) add(std::string(key) + "." + to_string(static_cast<Enum>(i)), counts[i]);
  }

 private:
  protozero::pbf_writer& event_;
};

inline void add_info(protozero::pbf_writer& event, const trace_info& i) {
  about_notes notes(event);
  notes.add("cutrace_version", view_of(CUTRACE_VERSION_STRING));
  notes.add("process", view_of(i.process_name));
  notes.add("command_line", view_of(i.command_line));
  notes.add("host", view_of(i.host_name));
  notes.add("boot_id", view_of(i.boot_id));
  notes.add("backend", view_of(i.backend));
  notes.add("backend_detail", view_of(i.backend_detail));
  notes.add("clock", view_of(i.clock));
  notes.add("clock_error_ns", i.start.error_ns);
  if (i.rank >= 0) notes.add("rank", static_cast<std::uint64_t>(i.rank));
  if (i.world_size > 0) notes.add("world_size", static_cast<std::uint64_t>(i.world_size));
}

/// The totals, as the footers of other formats name them.
inline void add_summary(protozero::pbf_writer& event, const trace_summary& summary) {
  const stats& s = summary.totals;
  about_notes notes(event);
  notes.add("produced", s.produced);
  notes.add("delivered", s.delivered);
  notes.add("pending", s.pending);
  notes.add("lost_total", s.lost_total());
  notes.add_counts<loss_cause>("lost", s.lost);
  notes.add_counts<quality>("quality", s.quality_of);
  notes.add_counts<attribution>("unattributed", s.unattributed_by);
  notes.add_counts<event_kind>("kinds", s.by_kind);
  notes.add("memory_bytes", s.memory_bytes);
  notes.add("memory_limit_bytes", s.memory_limit_bytes);
  notes.add("clock_error_ns", s.clock_error_ns);
  notes.add("launches_seen", s.launches_seen);
  notes.add("gpu_records_seen", s.gpu_records_seen);
  notes.add("lacking", s.lacking);
  notes.add("collector_cpu_ns", s.collector_cpu_ns);
  for (std::uint32_t i = 0; i < s.sink_count && i < sink_limit; ++i) {
    const std::string sink = "sinks." + perfetto_text(view_of(s.sinks[i].name)) + ".";
    notes.add(sink + "delivered", s.sinks[i].delivered);
    notes.add(sink + "written", s.sinks[i].written);
    // Before "lost": earlier readers take what they do not know for it.
    if (s.sinks[i].failed) notes.add(sink + "failed", std::uint64_t{1});
    if (s.sinks[i].failure[0] != '\0') notes.add((sink + "failure").c_str(), view_of(s.sinks[i].failure));
    notes.add(sink + "lost", s.sinks[i].lost);
  }
  for (std::uint32_t i = 0; summary.notes != nullptr && i < summary.note_count; ++i) {
    notes.add("note", view_of(summary.notes[i]));
  }
  if (summary.missing != nullptr) notes.add("missing", view_of(summary.missing));
}

/// One device as an entry of Perfetto's GpuInfo.
inline std::string gpu_description(const event& e) {
  std::string out;
  protozero::pbf_writer gpu(out);
  const std::string name = perfetto_text(view_of(e.name));
  const device_data& d = e.device_;
  gpu.add_string(pf::gpu_info::name, name);
  gpu.add_string(pf::gpu_info::vendor, "NVIDIA");
  gpu.add_string(pf::gpu_info::model, name);
  gpu.add_string(pf::gpu_info::architecture, "sm_" + std::to_string(d.compute_major) + std::to_string(d.compute_minor));
  gpu.add_bytes(pf::gpu_info::uuid, reinterpret_cast<const char*>(d.uuid), sizeof(d.uuid));
  const std::pair<const char*, std::uint64_t> more[] = {
      {"memory_bytes", d.memory_bytes},
      {"memory_bandwidth_bytes_per_s", d.memory_bandwidth_bytes_per_s},
      {"multiprocessors", d.multiprocessors},
      {"core_clock_khz", d.core_clock_khz}};
  for (const auto& m : more) {
    protozero::pbf_writer info(gpu, pf::gpu_info::extra_info);
    info.add_string(pf::gpu_info::key, m.first);
    info.add_string(pf::gpu_info::value, std::to_string(m.second));
  }
  return out;
}

}  // namespace detail
CUTRACE_END_NAMESPACE
