// SPDX-License-Identifier: Apache-2.0
#include "trace/perfetto_reader.hpp"

#include <cutrace/sinks/perfetto/fields.hpp>

#include "trace/pbf_value.hpp"

namespace cutrace_reading {

namespace pf = cutrace::detail::pf;

namespace {

constexpr std::uint32_t sequence_limit = 1u << 20;

}  // namespace

void perfetto_reader::read(byte_window& from) {
  std::string_view packet;
  std::size_t size = 0;
  part_over_ = ended_ = false;
  while (next_packet(from, packet, size)) {
    at_.byte = from.offset();
    try {
      if (!packet.empty()) read_packet(pbf(packet.data(), packet.size()));
    } catch (const protozero::exception&) {
      complain("a broken packet");
    } catch (const wrong_wire_type& e) {
      complain(e.what());
    }
    from.drop(size);
  }
  at_.byte = from.offset() + from.size();
  if (from.source().broken() != nullptr) complain(from.source().broken());
  if (!ended_ && !part_over_) complain("no end of the trace: it was cut short, or is still being written");
  for (const perfetto_sequence& s : all_sequences_)
    for (std::size_t i = 0; i < s.open_count; ++i) complain("a slice that never ends");
  sequences_.clear();
  all_sequences_.clear();
  forget_tracks();
}

void perfetto_reader::forget_tracks() {
  ++tracks_generation_;
  if (!tracks_.empty()) tracks_ = {};
}

void perfetto_reader::finish() {
  if (!next_part_.empty()) complain("the next part, " + next_part_ + ", was not given");
  open_trace();
}

/// Finds the packet at the front of the window; `size` includes its tag and length. An empty `packet` is an unknown
/// field, to be skipped. @returns false where no further packet can be read
bool perfetto_reader::next_packet(byte_window& from, std::string_view& packet, std::size_t& size) {
  at_ = {from.offset(), 0};
  while (true) {
    // Tag and length: at most 15 bytes.
    std::size_t at = 0;
    std::uint64_t words[2] = {};
    bool whole = true;
    for (std::size_t w = 0; w < 2 && whole; ++w) {
      unsigned shift = 0;
      whole = false;
      while (at < from.size() && shift < 64) {
        const auto byte = static_cast<unsigned char>(from.data()[at++]);
        words[w] |= std::uint64_t{byte & 0x7Fu} << shift;
        shift += 7;
        if (byte < 0x80) {
          whole = true;
          break;
        }
      }
      if (!whole && shift >= 64) {
        complain("no packet begins here: the rest is left out");
        return false;
      }
      if (w == 0 && whole && (words[0] & 7) != 2) {
        complain("no packet begins here: the rest is left out");
        return false;
      }
    }
    if (whole && words[1] > packet_limit) {
      complain("a packet of more than 64 MiB: it and the rest are left out");
      return false;
    }
    if (whole && from.size() >= at + words[1]) {
      size = at + static_cast<std::size_t>(words[1]);
      const bool known = words[0] >> 3 == pf::trace_packet;
      if (!known) complain("an unknown field of the trace");
      packet = known ? std::string_view(from.data() + at, static_cast<std::size_t>(words[1])) : std::string_view();
      return true;
    }
    if (from.more()) continue;
    if (from.size() != 0) complain("the last packet is cut");
    return false;
  }
}

perfetto_sequence& perfetto_reader::sequence(std::uint32_t id) {
  if (id >= sequence_limit) id = 0;
  if (id >= sequences_.size()) sequences_.resize(id + 1);
  if (sequences_[id] == nullptr) sequences_[id] = &all_sequences_.emplace_back();
  return *sequences_[id];
}

std::uint64_t perfetto_reader::time_of(perfetto_sequence& s, std::uint32_t clock, std::uint64_t timestamp) {
  switch (clock) {
    case pf::clocks::of_sequence:
      return s.last_ns += timestamp;
    case pf::clocks::of_session:
      return s.origin_ns + timestamp;
    case pf::clocks::monotonic:
    case 0:
      return timestamp;
    default:
      complain("a time of an unknown clock");
      return timestamp;
  }
}

void perfetto_reader::read_packet(pbf p) {
  std::uint64_t timestamp = 0;
  std::uint32_t id = 0, flags = 0, clock = 0;
  bool first = false;
  std::string_view snapshot, event, interned, defaults, descriptor, gpu_event, gpus;
  while (p.next()) {
    switch (p.tag()) {
      case pf::packet::clock_snapshot:
        snapshot = bytes(p);
        break;
      case pf::packet::timestamp:
        timestamp = number(p);
        break;
      case pf::packet::sequence_id:
        id = number32(p);
        break;
      case pf::packet::track_event:
        event = bytes(p);
        break;
      case pf::packet::interned_data:
        interned = bytes(p);
        break;
      case pf::packet::sequence_flags:
        flags = number32(p);
        break;
      case pf::packet::gpu_render_stage_event:
        gpu_event = bytes(p);
        break;
      case pf::packet::timestamp_clock_id:
        clock = number32(p);
        break;
      case pf::packet::defaults:
        defaults = bytes(p);
        break;
      case pf::packet::track_descriptor:
        descriptor = bytes(p);
        break;
      case pf::packet::first_packet_on_sequence:
        first = number(p) != 0;
        break;
      case pf::packet::gpu_info:
        gpus = bytes(p);
        break;
      case pf::packet::previous_packet_dropped:
        p.skip();
        break;
      default:
        complain("unknown field " + std::to_string(p.tag()) + " of a packet");
        p.skip();
    }
  }
  const auto message_of = [](std::string_view s) { return pbf(s.data(), s.size()); };
  perfetto_sequence& s = sequence(id);
  if ((flags & pf::packet::state_cleared) != 0) s.reset();
  if ((flags & pf::packet::needs_state) != 0 && !s.valid) return complain("a packet whose sequence has not begun");
  if (!defaults.empty()) read_defaults(s, message_of(defaults));
  if (!interned.empty()) read_interned(s, message_of(interned));
  if (!snapshot.empty()) read_snapshot(s, id, first, message_of(snapshot));
  if (!descriptor.empty()) read_track(message_of(descriptor));
  if (!gpus.empty()) read_gpus(message_of(gpus));
  if (event.empty() && gpu_event.empty()) return;
  const std::uint64_t ns = time_of(s, clock != 0 ? clock : s.clock, timestamp);
  if (!event.empty()) read_event(s, ns, message_of(event));
  if (!gpu_event.empty()) read_gpu_event(s, ns, message_of(gpu_event));
}

perfetto_track* perfetto_reader::track_of(perfetto_sequence& s, std::uint64_t uuid) {
  if (uuid == s.track_uuid && s.track != nullptr && s.track_is_of == tracks_generation_) return s.track;
  const auto at = tracks_.find(uuid);
  if (at == tracks_.end()) return nullptr;
  if (uuid == s.track_uuid) {
    s.track = &at->second;
    s.track_is_of = tracks_generation_;
  }
  return &at->second;
}

}  // namespace cutrace_reading
