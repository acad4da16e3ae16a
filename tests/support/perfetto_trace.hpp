// SPDX-License-Identifier: Apache-2.0
// A reader of Perfetto traces for tests, built on protozero's reader and on nothing of the sink: what trace_processor
// makes of a file, for the packets that cutrace writes. Field numbers stand in perfetto_min.proto,
// flags of sequences and the clocks 64 (deltas) and 65 (of the session) in sinks/perfetto/fields.hpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <protozero/pbf_reader.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "perfetto_state.hpp"

namespace perfetto_trace {

struct slice {
  std::uint64_t track = 0, start_ns = 0, end_ns = 0;
  std::string name, category;
  std::size_t depth = 0;
  notes args;
  std::vector<std::uint64_t> submits, waits_for;
  std::size_t bytes = 0;  ///< of its packets
};
struct gpu_slice {
  std::uint64_t event_id = 0, start_ns = 0, duration_ns = 0, context = 0;
  std::int32_t gpu = 0, pid = 0;
  std::string name, stage, queue, kernel, demangled, arch;  ///< `stage`: Perfetto's, such as "Kernel"
  int category = -1;
  std::vector<std::uint32_t> grid, block;
  notes args;
  std::size_t bytes = 0;
};
struct instant {
  std::uint64_t track = 0, ns = 0;
  std::string name;
  notes args;
};
struct counter_value {
  std::uint64_t track = 0, ns = 0;
  std::int64_t value = 0;
};
struct track {
  std::string name, process_name, thread_name;
  std::uint64_t parent = 0;
  std::int64_t pid = 0, tid = 0;
  bool counter = false;
};
struct gpu {
  std::string name, vendor, architecture, uuid;
};

class trace {
 public:
  std::vector<slice> slices;  ///< by track, of one track in the order of their ends
  std::vector<gpu_slice> gpu_slices;
  std::vector<instant> instants;
  std::vector<counter_value> counters;
  std::map<std::uint64_t, track> tracks;
  std::vector<gpu> gpus;
  std::vector<std::map<std::uint32_t, std::uint64_t>> snapshots;  ///< of sequence 1, which has no state
  std::size_t packets = 0, dropped = 0, resets = 0, unclosed = 0, bytes = 0, other_bytes = 0;

  /// Reads whole packets up to the end; what is left of one that was cut is passed over. @throws std::runtime_error for
  /// a packet that cutrace does not write
  explicit trace(std::string_view file) {
    pbf_reader top(file.data(), file.size());
    std::size_t read = 0;
    try {
      while (top.next(1, protozero::pbf_wire_type::length_delimited)) {
        const protozero::data_view p = top.get_view();
        const auto end = static_cast<std::size_t>(p.data() + p.size() - file.data());
        packet(pbf_reader(p), end - read);
        read = end;
      }
    } catch (const protozero::end_of_buffer_exception&) {
      // a packet was cut
      if (reading_) throw std::runtime_error("a whole packet ends within a field");
    }
    bytes = read;
    replay();
  }

 private:
  /// Begin and end of slices, as they stand in the file.
  struct edge {
    std::uint64_t track, ns;
    bool begins;
    slice what;
  };

  void packet(pbf_reader p, std::size_t size) {
    reading_ = true;
    ++packets;
    std::uint64_t timestamp = 0;
    std::uint32_t id = 0, flags = 0, clock = 0, lost = 0;
    bool stamped = false;
    protozero::data_view snapshot, event, interned, defaults, descriptor, gpu_event, info;
    while (p.next()) {
      switch (p.tag()) {
        case 6:
          snapshot = p.get_view();
          break;
        case 8:
          timestamp = p.get_uint64();
          stamped = true;
          break;
        case 10:
          id = p.get_uint32();
          break;
        case 11:
          event = p.get_view();
          break;
        case 12:
          interned = p.get_view();
          break;
        case 13:
          flags = p.get_uint32();
          break;
        case 42:
          lost = p.get_uint32();
          break;
        case 53:
          gpu_event = p.get_view();
          break;
        case 58:
          clock = p.get_uint32();
          break;
        case 59:
          defaults = p.get_view();
          break;
        case 60:
          descriptor = p.get_view();
          break;
        case 87:
          p.skip();
          break;
        case 128:
          info = p.get_view();
          break;
        default:
          throw std::runtime_error("unknown field of a packet: " + std::to_string(p.tag()));
      }
    }
    need(id != 0, "a packet without a sequence");
    sequence& s = sequences_[id];
    if (lost != 0) ++dropped;
    if ((flags & 1u) != 0) {
      if (s.valid) ++resets;
      s = sequence();
      s.valid = true;
    } else if (lost != 0) {
      s.valid = false;
    }
    if (defaults.data() != nullptr) read_defaults(s, pbf_reader(defaults));
    need((flags & 2u) == 0 || s.valid, "a packet needs a state that its sequence has not");
    if (interned.data() != nullptr) read_interned(s, pbf_reader(interned));
    if (snapshot.data() != nullptr) read_snapshot(s, id, pbf_reader(snapshot));
    if (descriptor.data() != nullptr) read_track(pbf_reader(descriptor));
    if (info.data() != nullptr) read_info(pbf_reader(info));
    const std::uint64_t ns = stamped ? time_of(s, clock != 0 ? clock : s.default_clock, timestamp) : 0;
    if (event.data() != nullptr) {
      need(stamped, "an event without a time");
      read_event(s, ns, flags, pbf_reader(event), size);
    } else if (gpu_event.data() != nullptr) {
      need(stamped && (flags & 2u) != 0, "an event without a time or state");
      read_gpu_event(s, ns, pbf_reader(gpu_event), size);
    } else {
      other_bytes += size;
    }
    reading_ = false;
  }

  static std::uint64_t time_of(sequence& s, std::uint32_t clock, std::uint64_t timestamp) {
    if (clock == 64) return s.last += timestamp;
    if (clock == 65) return s.session_origin + timestamp;
    need(clock == 3, "a time of an unknown clock");
    return timestamp;
  }

  void read_snapshot(sequence& s, std::uint32_t id, pbf_reader p) {
    std::map<std::uint32_t, std::uint64_t> clocks;
    while (p.next()) {
      if (p.tag() == 2) {
        need(p.get_enum() == 3, "CLOCK_MONOTONIC is the clock of the trace");
        continue;
      }
      pbf_reader c = p.get_message();
      std::uint32_t clock = 0;
      std::uint64_t ns = 0;
      while (c.next()) {
        if (c.tag() == 1)
          clock = c.get_uint32();
        else if (c.tag() == 2)
          ns = c.get_uint64();
        else
          need(c.tag() == 3 && c.get_bool(), "only deltas have flags");
      }
      clocks[clock] = ns;
    }
    need(clocks.count(3) == 1, "a snapshot without the clock of the trace");
    if (clocks.count(64) != 0) {
      s.last = clocks[3];
      s.session_origin = clocks[3] - clocks[65];
    }
    if (id == 1) {
      need(snapshots.empty() || snapshots.back()[3] <= clocks[3], "the clock of the trace goes backwards");
      snapshots.push_back(clocks);
    }
  }

  void read_track(pbf_reader p) {
    std::uint64_t uuid = 0;
    track t;
    while (p.next()) {
      switch (p.tag()) {
        case 1:
          uuid = p.get_uint64();
          break;
        case 2:
          t.name = p.get_string();
          break;
        case 5:
          t.parent = p.get_uint64();
          break;
        case 8:
          p.skip();
          t.counter = true;
          break;
        case 3:
        case 4: {
          const bool process = p.tag() == 3;
          pbf_reader one = p.get_message();
          while (one.next()) {
            if (one.tag() == 1)
              t.pid = one.get_int32();
            else if (one.tag() == 2 && process)
              one.skip();
            else if (one.tag() == 2)
              t.tid = one.get_int64();
            else
              (process ? t.process_name : t.thread_name) = one.get_string();
          }
          break;
        }
        default:
          need(false, "unknown field of a track");
      }
    }
    need(uuid != 0, "a track without a number");
    need(t.parent == 0 || tracks.count(t.parent) != 0, "a track before its parent");
    track& known = tracks[uuid];
    if (t.process_name.empty()) t.process_name = known.process_name;
    if (t.thread_name.empty()) t.thread_name = known.thread_name;
    known = t;
  }

  void read_info(pbf_reader p) {
    gpus.clear();
    while (p.next(1)) {
      gpu g;
      pbf_reader one = p.get_message();
      while (one.next()) {
        switch (one.tag()) {
          case 1:
            g.name = one.get_string();
            break;
          case 2:
            g.vendor = one.get_string();
            break;
          case 4:
            g.architecture = one.get_string();
            break;
          case 5:
            g.uuid = one.get_bytes();
            break;
          default:
            one.skip();
        }
      }
      gpus.push_back(g);
    }
  }

  void read_event(const sequence& s, std::uint64_t ns, std::uint32_t flags, pbf_reader p, std::size_t size) {
    slice e;
    int type = 0;
    std::int64_t value = 0;
    bool uses_state = false;
    e.track = s.default_track;
    while (p.next()) {
      switch (p.tag()) {
        case 3:
          e.category = meaning(s.categories, p.get_uint64(), "category");
          uses_state = true;
          break;
        case 4:
          e.args.insert(read_note(s, p.get_message()));
          break;
        case 9:
          type = p.get_enum();
          break;
        case 10:
          e.name = meaning(s.names, p.get_uint64(), "name");
          uses_state = true;
          break;
        case 11:
          e.track = p.get_uint64();
          break;
        case 22:
          e.category = p.get_string();
          break;
        case 23:
          e.name = p.get_string();
          break;
        case 30:
          value = p.get_int64();
          break;
        case 3000: {
          pbf_reader c = p.get_message();
          while (c.next()) {
            std::vector<std::uint64_t>& ids = c.tag() == 1 ? e.submits : e.waits_for;
            ids.push_back(c.get_uint64());
          }
          break;
        }
        default:
          need(false, "unknown field of a track event");
      }
    }
    need(!uses_state || (flags & 2u) != 0, "interned numbers without the flag");
    need(tracks.count(e.track) == 1, "an event on a track that nobody has described");
    if (type == 1 || type == 2) {
      e.bytes = size;
      edges_.push_back({e.track, ns, type == 1, e});
    } else if (type == 3) {
      instants.push_back({e.track, ns, e.name, e.args});
      other_bytes += size;
    } else {
      need(type == 4, "unknown type of event");
      counters.push_back({e.track, ns, value});
      other_bytes += size;
    }
  }

  void read_gpu_event(const sequence& s, std::uint64_t ns, pbf_reader p, std::size_t size) {
    gpu_slice g;
    g.start_ns = ns;
    g.bytes = size;
    while (p.next()) {
      switch (p.tag()) {
        case 1:
          g.event_id = p.get_uint64();
          break;
        case 2:
          g.duration_ns = p.get_uint64();
          break;
        case 5:
          g.context = p.get_uint64();
          g.pid = meaning(s.contexts, g.context, "context");
          break;
        case 11:
          g.gpu = p.get_int32();
          break;
        case 13:
          g.queue = meaning(s.specifications, p.get_uint64(), "queue").name;
          break;
        case 14: {
          const specification& stage = meaning(s.specifications, p.get_uint64(), "stage");
          g.stage = stage.name;
          g.category = stage.category;
          break;
        }
        case 19: {
          const kernel& k = meaning(s.kernels, p.get_uint64(), "kernel");
          g.kernel = k.name;
          g.demangled = k.demangled;
          g.arch = k.arch;
          g.args.insert(k.args.begin(), k.args.end());
          break;
        }
        case 20:
          g.name = meaning(s.names, p.get_uint64(), "name");
          break;
        case 21: {
          pbf_reader launch = p.get_message();
          while (launch.next()) {
            const std::uint32_t tag = launch.tag();
            pbf_reader one = launch.get_message();
            if (tag == 3) {
              g.args.insert(read_arg(s, one));
              continue;
            }
            std::vector<std::uint32_t>& size_of = tag == 1 ? g.grid : g.block;
            while (one.next()) size_of.push_back(one.get_uint32());
          }
          break;
        }
        default:
          need(false, "unknown field of GPU work");
      }
    }
    need(g.event_id != 0 && !g.queue.empty() && !g.stage.empty(), "GPU work without number, queue or stage");
    gpu_slices.push_back(g);
  }

  /// Slices of each track: an end closes what began last and is open, in the order of times, and of the file where
  /// equal.
  void replay() {
    std::stable_sort(edges_.begin(), edges_.end(),
                     [](const edge& a, const edge& b) { return std::tie(a.track, a.ns) < std::tie(b.track, b.ns); });
    std::vector<slice> open;
    std::uint64_t track_now = 0;
    for (edge& e : edges_) {
      if (e.track != track_now) {
        unclosed += open.size();
        open.clear();
        track_now = e.track;
      }
      if (e.begins) {
        e.what.start_ns = e.ns;
        e.what.depth = open.size();
        open.push_back(e.what);
      } else {
        need(!open.empty(), "an end without a begin");
        open.back().end_ns = e.ns;
        open.back().bytes += e.what.bytes;
        slices.push_back(open.back());
        open.pop_back();
      }
    }
    unclosed += open.size();
  }

  std::map<std::uint32_t, sequence> sequences_;
  std::vector<edge> edges_;
  bool reading_ = false;
};

}  // namespace perfetto_trace
