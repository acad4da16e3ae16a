// SPDX-License-Identifier: Apache-2.0
// What describes a Perfetto trace: clocks, processes, threads and other tracks, devices.
#include <cutrace/sinks/perfetto/fields.hpp>

#include "trace/pbf_value.hpp"
#include "trace/perfetto_reader.hpp"
#include "trace/text_front.hpp"

namespace cutrace_reading {

namespace pf = cutrace::detail::pf;
using cutrace::event_kind;

void perfetto_reader::read_snapshot(perfetto_sequence& s, std::uint32_t id, bool first, pbf p) {
  std::uint64_t monotonic = 0, realtime = 0, boottime = 0, of_session = 0;
  bool has_session = false;
  while (p.next(pf::clocks::clock)) {
    pbf c = message(p);
    std::uint64_t clock = 0, ns = 0;
    while (c.next()) {
      if (c.tag() == pf::clocks::id && c.wire_type() == protozero::pbf_wire_type::varint) {
        clock = number32(c);
      } else if (c.tag() == pf::clocks::timestamp && c.wire_type() == protozero::pbf_wire_type::varint) {
        ns = number(c);
      } else {
        c.skip();
      }
    }
    if (clock == pf::clocks::monotonic) monotonic = ns;
    if (clock == pf::clocks::realtime) realtime = ns;
    if (clock == pf::clocks::boottime) boottime = ns;
    if (clock == pf::clocks::of_session) of_session = ns;
    has_session = has_session || clock == pf::clocks::of_session;
  }
  if (has_session) {
    s.last_ns = monotonic;
    s.origin_ns = monotonic - of_session;
    if (!knows_origin_) origin_ns_ = s.origin_ns;
    knows_origin_ = true;
    return;
  }
  if (id != 1) return;
  cutrace::clock_anchor anchor{};
  anchor.monotonic_ns = monotonic;
  anchor.realtime_ns = realtime;
  anchor.boottime_ns = boottime;
  if (first && has_facts_ && (facts_.start.monotonic_ns != monotonic || facts_.start.realtime_ns != realtime))
    throw reading_error("the files are of different traces; only the parts of one trace can be given together");
  if (first && has_facts_) {
    to_.next_file();
    forget_tracks();
  }
  if (!has_facts_) facts_.start = anchor;
  has_facts_ = true;
  totals_.stop = anchor;
}

void perfetto_reader::open_trace() {
  if (to_.is_open()) return;
  if (!knows_origin_) origin_ns_ = facts_.start.monotonic_ns;
  knows_origin_ = true;
  facts_.start.trace_ns = session_ns(facts_.start.monotonic_ns);
  facts_.process_id = main_process_;
  to_.open(facts_);
  for (const std::uint32_t part : parts_begun_) to_.part_begins(part);
  parts_begun_.clear();
  for (const cutrace::event& e : waiting_) {
    to_.begin() = e;
    to_.add(at_);
  }
  waiting_.clear();
}

/// Before the first event no clock of the session is known, so that the trace cannot be opened.
void perfetto_reader::describe(const cutrace::event& e) {
  if (!to_.is_open()) return waiting_.push_back(e);
  to_.begin() = e;
  to_.add(at_);
}

void perfetto_reader::describe(event_kind kind, std::uint32_t process, std::uint32_t thread, std::string_view name) {
  if (described_.size() >= 65536) return;
  cutrace::event e;
  e.kind = kind;
  e.process_id = process;
  e.thread_id = thread;
  e.name = to_.texts().intern(name);
  if (described_.emplace(kind, process, thread, e.name.data).second) describe(e);
}

void perfetto_reader::read_defaults(perfetto_sequence& s, pbf p) {
  while (p.next()) {
    if (p.tag() == pf::packet::timestamp_clock_id) {
      s.clock = number32(p);
    } else if (p.tag() == pf::packet::track_event) {
      pbf event = message(p);
      while (event.next()) {
        if (event.tag() == pf::event_field::track_uuid) {
          s.track_uuid = number(event);
          s.track = nullptr;
        } else {
          event.skip();
        }
      }
    } else {
      p.skip();
    }
  }
}

/// Parses "thread 42", "spans", "GPU 0 stream 7 (sync)". Further lanes of a row, as "thread 42 (2)", have the first
/// lane as parent and are copied from it.
void perfetto_reader::name_track(perfetto_track& t, std::string_view name, std::uint64_t parent) {
  const auto above = tracks_.find(parent);
  if (above != tracks_.end()) {
    const perfetto_track& p = above->second;
    if (p.what != perfetto_track::kind::process) {
      t = p;
      return;
    }
    t.process = p.process;
  }
  std::uint64_t n = 0;
  if (name == "spans") {
    t.what = perfetto_track::kind::spans;
  } else if (name == "tracing overhead") {
    t.what = perfetto_track::kind::overhead;
  } else if (name == "recorded windows") {
    t.what = perfetto_track::kind::windows;
  } else if (name == "cutrace") {
    t.what = perfetto_track::kind::about;
  } else if (take(name, "GPU ") && take_number(name, n)) {
    t.device = static_cast<std::uint32_t>(n);
    const bool stream = take(name, " stream ");
    if (!stream && !take(name, " context ")) return;
    t.what = stream ? perfetto_track::kind::stream_sync : perfetto_track::kind::context_sync;
    if (!take_number(name, t.id)) t.id = ~std::uint64_t{0} - 1;
  } else {
    t.what = perfetto_track::kind::thread;
    if (take(name, "thread ") && take_number(name, n)) t.thread = static_cast<std::uint32_t>(n);
  }
}

void perfetto_reader::read_track(pbf p) {
  std::uint64_t uuid = 0, parent = 0;
  perfetto_track t;
  std::string_view name, process_name, thread_name;
  bool is_process = false, is_thread = false, is_counter = false;
  while (p.next()) {
    switch (p.tag()) {
      case pf::track::uuid:
        uuid = number(p);
        break;
      case pf::track::name:
        name = bytes(p);
        break;
      case pf::track::parent_uuid:
        parent = number(p);
        break;
      case pf::track::counter:
        is_counter = true;
        p.skip();
        break;
      case pf::track::process:
      case pf::track::thread: {
        const bool process = p.tag() == pf::track::process;
        (process ? is_process : is_thread) = true;
        pbf one = message(p);
        while (one.next()) {
          if (one.tag() == pf::track::process_pid && one.wire_type() == protozero::pbf_wire_type::varint) {
            t.process = number32(one);
          } else if (!process && one.tag() == pf::track::thread_tid) {
            t.thread = number32(one);
          } else if (process && one.tag() == pf::track::process_name) {
            process_name = bytes(one);
          } else if (!process && one.tag() == pf::track::thread_name) {
            thread_name = bytes(one);
          } else {
            one.skip();
          }
        }
        break;
      }
      default:
        p.skip();
    }
  }
  if (uuid == 0) return complain("a track without a number");
  if (tracks_.size() > std::size_t{1} << 20) return complain("more tracks than can be kept");
  if (is_process) {
    t.what = perfetto_track::kind::process;
    if (main_process_ == 0) main_process_ = t.process;
    if (!process_name.empty()) describe(event_kind::process, t.process, 0, process_name);
  } else if (is_thread) {
    t.what = perfetto_track::kind::thread;
    if (!thread_name.empty()) describe(event_kind::thread, t.process, t.thread, thread_name);
  } else if (is_counter) {
    t.what = perfetto_track::kind::counter;
    t.name = to_.texts().intern(name);
    const auto above = tracks_.find(parent);
    if (above != tracks_.end()) t.process = above->second.process;
  } else {
    name_track(t, name, parent);
  }
  perfetto_track& known = tracks_[uuid];
  if (known.what == perfetto_track::kind::unknown) known = t;
}

void perfetto_reader::read_gpus(pbf p) {
  std::uint32_t index = 0;
  for (; p.next(pf::gpu_info::gpus); ++index) {
    const std::string_view one = bytes(p);
    if (one.empty() || !devices_.insert(std::to_string(index) + " " + std::string(one)).second) continue;
    device_bytes_.add(one.size());
    if (devices_.size() > 65536) return;
    cutrace::event e;
    e.kind = event_kind::device;
    e.process_id = main_process_;
    e.device = index;
    pbf g(one.data(), one.size());
    while (g.next()) {
      if (g.tag() == pf::gpu_info::name) {
        e.name = to_.texts().intern(bytes(g));
      } else if (g.tag() == pf::gpu_info::architecture) {
        std::string_view sm = bytes(g);
        std::uint64_t n = 0;
        if (take(sm, "sm_") && take_number(sm, n)) {
          e.device_.compute_major = static_cast<std::uint32_t>(n / 10);
          e.device_.compute_minor = static_cast<std::uint32_t>(n % 10);
        }
      } else if (g.tag() == pf::gpu_info::uuid) {
        const std::string_view uuid = bytes(g);
        for (std::size_t i = 0; i < uuid.size() && i < sizeof(e.device_.uuid); ++i)
          e.device_.uuid[i] = static_cast<std::uint8_t>(uuid[i]);
      } else if (g.tag() == pf::gpu_info::extra_info) {
        pbf more = message(g);
        std::string_view key, value;
        while (more.next()) {
          if (more.tag() == pf::gpu_info::key) {
            key = bytes(more);
          } else if (more.tag() == pf::gpu_info::value) {
            value = bytes(more);
          } else {
            more.skip();
          }
        }
        const std::uint64_t n = number_of(value);
        if (key == "memory_bytes") e.device_.memory_bytes = n;
        if (key == "memory_bandwidth_bytes_per_s") e.device_.memory_bandwidth_bytes_per_s = n;
        if (key == "multiprocessors") e.device_.multiprocessors = static_cast<std::uint32_t>(n);
        if (key == "core_clock_khz") e.device_.core_clock_khz = static_cast<std::uint32_t>(n);
      } else {
        g.skip();
      }
    }
    describe(e);
  }
}

}  // namespace cutrace_reading
