// SPDX-License-Identifier: Apache-2.0
// Perfetto's protobuf trace (.pftrace), which ui.perfetto.dev and trace_processor open: docs/perfetto.md. Streamed, so
// that the file is of use at any time: cut anywhere, it loses the packet that was cut. In parts, each part can be read
// alone: it uses nothing that earlier parts have defined. Needs protozero's headers.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cutrace/base/clocks.hpp>
#include <cutrace/base/process_info.hpp>
#include <cutrace/config.hpp>
#include <cutrace/output/json_text.hpp>
#include <cutrace/output/trace_file.hpp>
#include <cutrace/sink.hpp>
#include <cutrace/sinks/common/descriptions.hpp>
#include <cutrace/sinks/perfetto/about.hpp>
#include <cutrace/sinks/perfetto/gpu.hpp>
#include <cutrace/sinks/perfetto/host.hpp>
#include <cutrace/sinks/perfetto/state.hpp>
#include <memory>
#include <set>
#include <string>
#include <utility>

CUTRACE_BEGIN_NAMESPACE

struct perfetto_options {
  bool arguments = false;  ///< arguments of calls too; they triple the size of a call
  file_limits file = {};
};

class perfetto_sink : public sink {
 public:
  /// `path`: %p is the process id, %h the host's name, "-" standard output; compressed where it ends in ".gz". Created
  /// by `open`, mode 0600.
  explicit perfetto_sink(std::string path = "cutrace-%h-%p.pftrace", const perfetto_options& options = {})
      : path_(std::move(path)), options_(options), part_(new part(options.arguments)) {}

  const char* name() const noexcept override { return "perfetto"; }
  const char* destination() const noexcept override { return file_.path().c_str(); }
  /// Where it writes, once open.
  const std::string& path() const noexcept { return file_.path(); }

  void open(const trace_info& info) override {
    file_.open(path_.c_str(), detail::publish::at_once, options_.file);
    // The clocks of a trace that was recorded by another process or before this boot cannot be read any more.
    reads_clocks_ = info.process_id == static_cast<std::uint32_t>(::getpid()) &&
                    detail::view_of(info.boot_id) == detail::read_boot_id();
    start_ = info.start;
    newest_ns_ = info.start.trace_ns;
    process_id_ = info.process_id;
    process_name_ = detail::view_of(info.process_name);
    command_line_ = detail::view_of(info.command_line);
    tracks_ = detail::track_numbers(info);
    last_snapshot_ns_ = info.start.monotonic_ns;
    begin_part();
    write_about(info.start.trace_ns, "trace begins", [&](protozero::pbf_writer& e) { detail::add_info(e, info); });
  }

  void write(event_view events) override {
    const bool limited = file_.has_limits();
    for (const event& e : events) {
      if (CUTRACE_UNLIKELY(limited) && file_.is_full(out().size())) {
        file_.leave_out(1);
        continue;
      }
      write_event(e);
      file_.event_ends(out().size());
      if (CUTRACE_UNLIKELY(out().size() >= full)) write_out();
      if (CUTRACE_UNLIKELY(limited) && file_.has_parts()) watch_part(e);
    }
    if (CUTRACE_UNLIKELY(part_->state.full() || part_->gpu.full())) part_->forget();
  }

  std::uint64_t left_out() const noexcept override { return file_.left_out(); }
  const char* left_out_because() const noexcept override { return file_.left_out_because(); }
  std::uint64_t arrived() const noexcept override { return file_.arrived(); }

  void flush() override {
    if (part_->events != 0 && file_.part_is_old()) next_part();
    part_->gpu.write_devices();
    if (reads_clocks_)
      write_clocks(detail::read_anchor(start_.monotonic_ns - static_cast<std::uint64_t>(start_.trace_ns)),
                   snapshot_period_ns);
    write_all();
    file_.flush();
  }

  void close(const trace_summary& summary) override {
    if (!file_.is_open()) return;  // opening or writing failed before, which was reported
    part_->gpu.write_devices();
    write_clocks(summary.stop, 1);
    write_about(summary.stop.trace_ns, "trace ends", [&](protozero::pbf_writer& e) {
      detail::add_summary(e, summary);
      overlapping_ += part_->state.rows.overlapping();
      detail::about_notes(e).add("overlapping_slices", overlapping_);
    });
    write_all();
    file_.close();
  }

 private:
  static constexpr std::uint32_t main = detail::perfetto_rows::main_sequence;
  static constexpr std::size_t full = 2 * detail::output_file::block;

  /// State of one file: what it holds so far.
  struct part {
    explicit part(bool arguments) : host(state, arguments), gpu(state) {}
    void forget() {
      state.forget();
      gpu.forget();
    }
    detail::perfetto_state state;
    detail::perfetto_host host;
    detail::perfetto_gpu gpu;
    std::set<std::uint64_t> counters;
    std::uint64_t events = 0;  ///< counted where there are parts
  };
  static constexpr std::uint64_t snapshot_period_ns = 900000000;  ///< flush comes about once a second

  detail::text_buffer& out() noexcept { return part_->state.packets.out; }

  /// Writes the clocks, the process, and the track for what concerns the trace as a whole.
  void begin_part() {
    detail::perfetto_state& state = part_->state;
    state.process_id = process_id_;
    state.tracks = tracks_;
    state.packets.clock = detail::trace_clock(start_.monotonic_ns, start_.trace_ns);
    state.packets.add(main, [&](protozero::pbf_writer& packet) {
      packet.add_uint32(detail::pf::packet::sequence_flags, detail::pf::packet::state_cleared);
      packet.add_bool(detail::pf::packet::first_packet_on_sequence, true);
      detail::add_clocks(packet, start_);
    });
    part_->host.name_process(process_id_, process_name_, command_line_);
    state.packets.add(main, [&](protozero::pbf_writer& packet) {
      protozero::pbf_writer track(packet, detail::pf::packet::track_descriptor);
      track.add_uint64(detail::pf::track::uuid, tracks_.about());
      track.add_string(detail::pf::track::name, "cutrace");
      track.add_uint64(detail::pf::track::parent_uuid, tracks_.process(process_id_));
    });
  }

  /// Totals are not known before the end of the trace, and stand in the last part only.
  CUTRACE_NOINLINE void next_part() {
    part_->gpu.write_devices();
    write_about(newest_ns_, "part ends", [&](protozero::pbf_writer& e) {
      detail::about_notes notes(e);
      notes.add("part", file_.part());
      notes.add("next", file_.next_name());
    });
    write_all();
    file_.next_part();
    overlapping_ += part_->state.rows.overlapping();
    part_.reset(new part(options_.arguments));
    begin_part();
    write_about(newest_ns_, "part begins",
                [&](protozero::pbf_writer& e) { detail::about_notes(e).add("part", file_.part()); });
    for (const event& e : descriptions_.all()) write_event(e);
  }
  CUTRACE_NOINLINE void watch_part(const event& e) {
    ++part_->events;
    newest_ns_ = e.end_ns;
    if (descriptions_.wanted(e)) descriptions_.add(e, e);
    if (file_.part_is_full(out().size()) && !file_.is_full(out().size())) next_part();
  }

  void write_event(const event& e) {
    switch (e.kind) {
      case event_kind::process:
        return part_->host.name_process(e.process_id, detail::view_of(e.name), {});
      case event_kind::thread:
        return part_->host.name_thread(e);
      case event_kind::device:
        return part_->gpu.describe(e);
      case event_kind::context:
      case event_kind::stream:
        return;  // written with the work in them
      case event_kind::other:
        return;
      case event_kind::counter:
        return write_counter(e);
      case event_kind::loss:
        return write_loss(e);
      case event_kind::memory:
        return part_->host.write_instant(e);
      case event_kind::mark:
        return e.is_cuda_event() ? part_->gpu.write(e) : part_->host.write_instant(e);
      case event_kind::kernel:
      case event_kind::memcpy:
      case event_kind::memset:
      case event_kind::graph_launch:
        return part_->gpu.write(e);
      case event_kind::sync:
        part_->gpu.note_sync(e);
        return part_->host.write_slice(e);
      default:
        return part_->host.write_slice(e);
    }
  }

  /// An instant on the trace's own track, with annotations.
  template <class Fill>
  void write_about(std::int64_t trace_ns, const char* what, Fill fill) {
    part_->state.packets.add_at(part_->state.packets.clock.of(trace_ns), [&](protozero::pbf_writer& packet) {
      protozero::pbf_writer event(packet, detail::pf::packet::track_event);
      begin_about(event, what);
      fill(event);
    });
  }
  void begin_about(protozero::pbf_writer& event, const char* what) const {
    event.add_enum(detail::pf::event_field::type, static_cast<std::int32_t>(detail::pf::event_field::instant));
    event.add_uint64(detail::pf::event_field::track_uuid, part_->state.tracks.about());
    event.add_string(detail::pf::event_field::categories, "cutrace");
    event.add_string(detail::pf::event_field::name, what);
  }

  void write_loss(const event& e) {
    part_->state.packets.add_at(part_->state.packets.clock.of(e.start_ns), [&](protozero::pbf_writer& packet) {
      // Readers drop the state of a sequence that has lost packets. This sequence has no state; both fields are set for
      // strict readers.
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
    const std::uint64_t track = part_->state.tracks.counter(e.name, e.process_id);
    if (CUTRACE_UNLIKELY(part_->counters.insert(track).second)) describe_counter(e, track);
    part_->state.packets.add_at(part_->state.packets.clock.of(e.start_ns), [&](protozero::pbf_writer& packet) {
      protozero::pbf_writer event(packet, detail::pf::packet::track_event);
      event.add_enum(detail::pf::event_field::type, static_cast<std::int32_t>(detail::pf::event_field::counter));
      event.add_uint64(detail::pf::event_field::track_uuid, track);
      event.add_int64(detail::pf::event_field::counter_value, e.counter.value);
    });
  }
  CUTRACE_NOINLINE void describe_counter(const event& e, std::uint64_t track) {
    part_->host.describe_process(e.process_id);
    part_->state.packets.add(main, [&](protozero::pbf_writer& packet) {
      protozero::pbf_writer descriptor(packet, detail::pf::packet::track_descriptor);
      descriptor.add_uint64(detail::pf::track::uuid, track);
      descriptor.add_string(detail::pf::track::name, detail::perfetto_text(detail::view_of(e.name)));
      if (e.process_id != 0) {
        descriptor.add_uint64(detail::pf::track::parent_uuid, part_->state.tracks.process(e.process_id));
      }
      descriptor.add_message(detail::pf::track::counter, std::string());
    });
  }

  /// Writes a snapshot of the clocks unless the last one is less than `period_ns` old: snapshots of CLOCK_MONOTONIC,
  /// the clock of the trace, must rise.
  void write_clocks(const clock_anchor& now, std::uint64_t period_ns) {
    if (now.monotonic_ns < last_snapshot_ns_ || now.monotonic_ns - last_snapshot_ns_ < period_ns) return;
    last_snapshot_ns_ = now.monotonic_ns;
    part_->state.packets.add(main, [&](protozero::pbf_writer& packet) { detail::add_clocks(packet, now); });
  }

  void write_out() { out().drop_front(file_.write_blocks(out().view())); }
  void write_all() {
    file_.write(out().view());
    out().clear();
  }

  std::string path_;
  perfetto_options options_;
  detail::trace_file file_;
  std::unique_ptr<part> part_;
  detail::kept_descriptions<event> descriptions_;
  detail::track_numbers tracks_;
  clock_anchor start_{};
  std::uint32_t process_id_ = 0;
  std::string process_name_, command_line_;
  std::int64_t newest_ns_ = 0;  ///< end of the newest event, where there are parts
  std::uint64_t last_snapshot_ns_ = 0;
  std::uint64_t overlapping_ = 0;  ///< overlapping slices of earlier parts
  bool reads_clocks_ = false;
};

CUTRACE_END_NAMESPACE
