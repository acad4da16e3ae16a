// SPDX-License-Identifier: Apache-2.0
// Rows of a Perfetto trace: threads with as many lanes as their slices need, and hardware queues, one for each stream.
// Begin and end of a slice are packets of their own, matched by the order of their times, so slices that overlap partly
// must not share a lane. (Work of a queue may overlap: viewers draw it on further lines.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <cutrace/config.hpp>
#include <cutrace/sinks/common/lane.hpp>
#include <cutrace/sinks/perfetto/sequence.hpp>
#include <cutrace/sinks/perfetto/wire.hpp>
#include <deque>
#include <map>
#include <tuple>

CUTRACE_BEGIN_NAMESPACE
namespace detail {

/// As wide as `owner`, so that both are compared at once.
enum class perfetto_row_kind : std::uint32_t { thread, spans, overhead, windows, system, stream_sync, context_sync };

struct perfetto_row_key {
  perfetto_row_kind kind;
  std::uint32_t owner;  ///< process; of synchronisations the device
  std::uint64_t id;     ///< thread, stream or context; of `system` the CPU, of the others 0
  bool operator<(const perfetto_row_key& o) const noexcept {
    return std::tie(kind, owner, id) < std::tie(o.kind, o.owner, o.id);
  }
  bool operator==(const perfetto_row_key& o) const noexcept { return kind == o.kind && owner == o.owner && id == o.id; }
};

struct perfetto_row;

struct perfetto_lane {
  perfetto_lane(const perfetto_row& of, std::size_t number, bool nesting) : row(of), index(number), slices(nesting) {}
  const perfetto_row& row;
  std::size_t index;  ///< in its row
  perfetto_sequence sequence;
  slice_lane slices;

  /// Takes a slice if viewers would nest it rightly. Viewers take packets with equal times in the order of the file, so
  /// a slice that comes late must not even touch the slice after it.
  CUTRACE_INLINE bool place(std::int64_t start_ns, std::int64_t end_ns, std::uint64_t owner) {
    return slices.place(start_ns, end_ns, owner, true);
  }
};

struct perfetto_row {
  perfetto_row_key key;
  std::deque<perfetto_lane> lanes;  ///< never empty
};

/// Work of one stream.
struct perfetto_queue {
  std::uint32_t device = 0;
  std::uint64_t stream = 0;
  std::uint32_t number = 0;  ///< in gpu_specifications
  perfetto_sequence sequence;
  std::uint64_t last_event = 0;     ///< event_id of the last work, which synchronisations with the stream wait for
  std::uint64_t context = nowhere;  ///< of the packet before, which the sequence has described already
  static constexpr std::uint64_t nowhere = ~std::uint64_t{0};
};

class perfetto_rows {
 public:
  /// The lane that has room; `owner` as in slice_lane.
  CUTRACE_INLINE perfetto_lane& place(const perfetto_row_key& key, std::int64_t start_ns, std::int64_t end_ns,
                                      std::uint64_t owner) {
    perfetto_row& r = row(key);
    perfetto_lane& first = r.lanes.front();
    return CUTRACE_LIKELY(first.place(start_ns, end_ns, owner)) ? first : place_further(r, start_ns, end_ns, owner);
  }
  CUTRACE_ONE_COPY perfetto_lane& place_further(perfetto_row& r, std::int64_t start_ns, std::int64_t end_ns,
                                                std::uint64_t owner) {
    for (std::size_t i = 1; i < r.lanes.size(); ++i) {
      if (r.lanes[i].place(start_ns, end_ns, owner)) return r.lanes[i];
    }
    if (r.lanes.size() >= lane_limit) {
      ++overlapping_;
      return r.lanes.back();
    }
    add_lane(r).place(start_ns, end_ns, owner);
    return r.lanes.back();
  }
  /// The first lane, for what takes no time.
  perfetto_lane& first_lane(const perfetto_row_key& key) { return row(key).lanes.front(); }

  perfetto_queue& queue(std::uint32_t device, std::uint64_t stream) {
    auto at = queues_.find({device, stream});
    if (at == queues_.end()) {
      // Beyond the limit all further streams of a device share one.
      if (queues_.size() >= row_limit) stream = other_id;
      at = queues_.emplace(std::make_pair(device, stream), perfetto_queue()).first;
      perfetto_queue& q = at->second;
      if (q.number == 0) {
        q.device = device;
        q.stream = stream;
        q.number = static_cast<std::uint32_t>(queues_.size()) + first_queue - 1;
        q.sequence.id = next_sequence_++;
      }
    }
    return at->second;
  }

  /// Slices that had to be put on a lane where they overlap others, for want of lanes.
  std::uint64_t overlapping() const noexcept { return overlapping_; }

  static constexpr std::uint32_t main_sequence = 1;
  /// Number of the first queue in gpu_specifications, where smaller numbers are render stages (gpu_stage).
  static constexpr std::uint32_t first_queue = 16;
  static constexpr std::uint64_t other_id = ~std::uint64_t{0} - 1;

 private:
  static constexpr std::size_t row_limit = 4096;
  static constexpr std::size_t lane_limit = 256;

  perfetto_row& row(perfetto_row_key key) {
    auto at = rows_.find(key);
    if (at == rows_.end()) {
      // Beyond the limit all further rows of one kind and owner share one, split into lanes.
      if (rows_.size() >= row_limit) key.id = other_id;
      at = rows_.emplace(key, perfetto_row{key, {}}).first;
    }
    if (at->second.lanes.empty()) add_lane(at->second);
    return at->second;
  }
  perfetto_lane& add_lane(perfetto_row& r) {
    const bool nesting = r.key.kind == perfetto_row_kind::thread;
    r.lanes.emplace_back(r, r.lanes.size(), nesting);
    r.lanes.back().sequence.id = next_sequence_++;
    return r.lanes.back();
  }

  std::map<perfetto_row_key, perfetto_row> rows_;
  std::map<std::pair<std::uint32_t, std::uint64_t>, perfetto_queue> queues_;
  std::uint32_t next_sequence_ = main_sequence + 1;
  std::uint64_t overlapping_ = 0;
};

}  // namespace detail
CUTRACE_END_NAMESPACE
