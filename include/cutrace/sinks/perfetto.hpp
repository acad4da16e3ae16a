// SPDX-License-Identifier: Apache-2.0
// Perfetto's protobuf trace (.pftrace), which ui.perfetto.dev and trace_processor open: docs/perfetto.md. Streamed, so
// that the file is of use at any time: cut anywhere, it loses the packet that was cut. Needs protozero's headers.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cutrace/config.hpp>
#include <cutrace/detail/json_text.hpp>
#include <cutrace/detail/output_file.hpp>
#include <cutrace/detail/process_info.hpp>
#include <cutrace/sink.hpp>
#include <cutrace/sinks/perfetto_about.hpp>
#include <cutrace/sinks/perfetto_gpu.hpp>
#include <cutrace/sinks/perfetto_host.hpp>
#include <cutrace/sinks/perfetto_state.hpp>
#include <memory>
#include <set>
#include <string>
#include <utility>

CUTRACE_BEGIN_NAMESPACE

struct perfetto_options {
  bool arguments = false;  ///< arguments of calls too; they triple the size of a call
};

class perfetto_sink : public sink {
 public:
  /// `path`: %p is the process id, %h the host's name, "-" standard output. Created by `open`, mode 0600.
  explicit perfetto_sink(std::string path = "cutrace-%h-%p.pftrace", const perfetto_options& options = {})
      : path_(std::move(path)), host_(state_, options.arguments), gpu_(state_) {}

  const char* name() const noexcept override { return "perfetto"; }
  const char* destination() const noexcept override { return file_.path().c_str(); }
  /// Where it writes, once open.
  const std::string& path() const noexcept { return file_.path(); }

  void open(const trace_info& info) override {
    file_.open(path_.c_str());
    state_.process_id = info.process_id;
    state_.tracks = detail::track_numbers(info);
    state_.packets.clock = detail::trace_clock(info.start.monotonic_ns, info.start.trace_ns);
    // Of a trace that was made elsewhere the clocks cannot be read any more.
    reads_clocks_ = info.process_id == static_cast<std::uint32_t>(::getpid()) &&
                    detail::view_of(info.boot_id) == detail::read_small_file("/proc/sys/kernel/random/boot_id", 64);
    state_.packets.add(main, [&](protozero::pbf_writer& packet) {
      packet.add_uint32(detail::pf::packet::sequence_flags, detail::pf::packet::state_cleared);
      packet.add_bool(detail::pf::packet::first_packet_on_sequence, true);
      detail::add_clocks(packet, info.start);
    });
    last_snapshot_ns_ = info.start.monotonic_ns;
    host_.name_process(info.process_id, detail::view_of(info.process_name), detail::view_of(info.command_line));
    state_.packets.add(main, [&](protozero::pbf_writer& packet) {
      protozero::pbf_writer track(packet, detail::pf::packet::track_descriptor);
      track.add_uint64(detail::pf::track::uuid, state_.tracks.about());
      track.add_string(detail::pf::track::name, "cutrace");
      track.add_uint64(detail::pf::track::parent_uuid, state_.tracks.process(info.process_id));
    });
    write_about(info.start.trace_ns, "trace begins", [&](protozero::pbf_writer& e) { detail::add_info(e, info); });
  }

  void write(event_view events) override {
    state_.requests.begin_write();
    for (const event& e : events) {
      write_event(e);
      if (CUTRACE_UNLIKELY(state_.packets.out.size() >= full)) write_out();
    }
    if (CUTRACE_UNLIKELY(state_.full() || gpu_.full())) forget();
  }

  void flush() override {
    gpu_.write_devices();
    if (reads_clocks_) write_clocks(detail::read_clocks(), snapshot_period_ns);
    file_.write(state_.packets.out.view());
    state_.packets.out.clear();
    file_.flush();
  }

  void close(const trace_summary& summary) override {
    if (!file_.is_open()) return;  // it failed before and said so
    gpu_.write_devices();
    write_clocks(summary.stop, 1);
    write_about(summary.stop.trace_ns, "trace ends", [&](protozero::pbf_writer& e) {
      detail::add_summary(e, summary);
      detail::about_notes(e).add("overlapping_slices", state_.rows.overlapping());
    });
    file_.write(state_.packets.out.view());
    state_.packets.out.clear();
    file_.close();
  }

 private:
  static constexpr std::uint32_t main = detail::perfetto_rows::main_sequence;
  static constexpr std::size_t full = 2 * detail::output_file::block;
  static constexpr std::uint64_t snapshot_period_ns = 900000000;  ///< flush comes about once a second

  void write_event(const event& e) {
    switch (e.kind) {
      case event_kind::process:
        return host_.name_process(e.process_id, detail::view_of(e.name), {});
      case event_kind::thread:
        return host_.name_thread(e);
      case event_kind::device:
        return gpu_.describe(e);
      case event_kind::context:
      case event_kind::stream:
        return;  // told with the work in them
      case event_kind::counter:
        return write_counter(e);
      case event_kind::loss:
        return write_loss(e);
      case event_kind::memory:
        return host_.write_instant(e);
      case event_kind::mark:
        return e.is_cuda_event() ? gpu_.write(e) : host_.write_instant(e);
      case event_kind::kernel:
      case event_kind::memcpy:
      case event_kind::memset:
      case event_kind::graph_launch:
        return gpu_.write(e);
      case event_kind::sync:
        gpu_.note_sync(e);
        return host_.write_slice(e);
      case event_kind::stage:
      case event_kind::api:
      case event_kind::overhead:
      case event_kind::jit:
      case event_kind::nvtx:
      case event_kind::ioctl:
      case event_kind::window:
        return host_.write_slice(e);
    }
  }

  /// An instant on the trace's own track, with annotations.
  template <class Fill>
  void write_about(std::int64_t trace_ns, const char* what, Fill fill) {
    state_.packets.add_at(state_.packets.clock.of(trace_ns), [&](protozero::pbf_writer& packet) {
      protozero::pbf_writer event(packet, detail::pf::packet::track_event);
      begin_about(event, what);
      fill(event);
    });
  }
  void begin_about(protozero::pbf_writer& event, const char* what) const {
    event.add_enum(detail::pf::event_field::type, static_cast<std::int32_t>(detail::pf::event_field::instant));
    event.add_uint64(detail::pf::event_field::track_uuid, state_.tracks.about());
    event.add_string(detail::pf::event_field::categories, "cutrace");
    event.add_string(detail::pf::event_field::name, what);
  }

  void write_loss(const event& e) {
    state_.packets.add_at(state_.packets.clock.of(e.start_ns), [&](protozero::pbf_writer& packet) {
      // Readers drop the state of a sequence that has lost packets. This one has none; both are said for strict ones.
      packet.add_uint32(detail::pf::packet::sequence_flags, detail::pf::packet::state_cleared);
      packet.add_uint32(detail::pf::packet::previous_packet_dropped, detail::pf::packet::data_loss_present);
      protozero::pbf_writer event(packet, detail::pf::packet::track_event);
      begin_about(event, "records lost");
      detail::about_notes notes(event);
      notes.add("cause", detail::view_of(to_string(e.loss.cause)));
      notes.add("count", e.loss.count);
    });
  }

  void write_counter(const event& e) {
    const std::uint64_t track = state_.tracks.counter(e.name, e.process_id);
    if (CUTRACE_UNLIKELY(counters_.insert(track).second)) describe_counter(e, track);
    state_.packets.add_at(state_.packets.clock.of(e.start_ns), [&](protozero::pbf_writer& packet) {
      protozero::pbf_writer event(packet, detail::pf::packet::track_event);
      event.add_enum(detail::pf::event_field::type, static_cast<std::int32_t>(detail::pf::event_field::counter));
      event.add_uint64(detail::pf::event_field::track_uuid, track);
      event.add_int64(detail::pf::event_field::counter_value, e.counter.value);
    });
  }
  CUTRACE_NOINLINE void describe_counter(const event& e, std::uint64_t track) {
    host_.describe_process(e.process_id);
    state_.packets.add(main, [&](protozero::pbf_writer& packet) {
      protozero::pbf_writer descriptor(packet, detail::pf::packet::track_descriptor);
      descriptor.add_uint64(detail::pf::track::uuid, track);
      descriptor.add_string(detail::pf::track::name, detail::perfetto_text(detail::view_of(e.name)));
      if (e.process_id != 0) {
        descriptor.add_uint64(detail::pf::track::parent_uuid, state_.tracks.process(e.process_id));
      }
      descriptor.add_message(detail::pf::track::counter, std::string());
    });
  }

  /// Unless the last one is not `period_ns` old: snapshots of CLOCK_MONOTONIC, the clock of the trace, must rise.
  void write_clocks(const clock_anchor& now, std::uint64_t period_ns) {
    if (now.monotonic_ns < last_snapshot_ns_ || now.monotonic_ns - last_snapshot_ns_ < period_ns) return;
    last_snapshot_ns_ = now.monotonic_ns;
    state_.packets.add(main, [&](protozero::pbf_writer& packet) { detail::add_clocks(packet, now); });
  }

  CUTRACE_NOINLINE void forget() {
    state_.forget();
    gpu_.forget();
    host_.forget();
  }

  void write_out() { state_.packets.out.drop_front(file_.write_blocks(state_.packets.out.view())); }

  std::string path_;
  detail::output_file file_;
  detail::perfetto_state state_;
  detail::perfetto_host host_;
  detail::perfetto_gpu gpu_;
  std::set<std::uint64_t> counters_;
  std::uint64_t last_snapshot_ns_ = 0;
  bool reads_clocks_ = false;
};

CUTRACE_END_NAMESPACE
