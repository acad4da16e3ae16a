// SPDX-License-Identifier: Apache-2.0
// Keeps runs of stages (a run: one execution of a stage) until all of their GPU work is known. Then each run becomes
// one observation for each device, of its time on that GPU, and one of the time in which it ran on the host and no GPU
// of the process was at work (metrics.hpp). A stage ends on the host before its work ends on the GPU, and records of
// GPUs come late; so each entry (a run, or its part on one device) waits until nothing was heard of it for a while.
// Fixed memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cutrace/analysis/intervals.hpp>
#include <cutrace/config.hpp>
#include <memory>

CUTRACE_BEGIN_NAMESPACE
namespace prometheus {

/// Length of a union of intervals that come roughly in the order of their ends. Only its `kept_most` newest stretches
/// are kept; of older ones, only the sum of their lengths. What an interval that comes late adds among the older ones
/// is left out, so the length is never too large.
class short_union {
 public:
  void add(analysis::interval v) noexcept {
    v.start_ns = std::max(v.start_ns, counted_until_ns_);
    if (v.empty()) return;
    std::size_t at = size_;  // stretches before `at` end before v begins
    while (at > 0 && kept_[at - 1].end_ns >= v.start_ns) --at;
    std::size_t after = at;
    for (; after < size_ && kept_[after].start_ns <= v.end_ns; ++after) {
      v.start_ns = std::min(v.start_ns, kept_[after].start_ns);
      v.end_ns = std::max(v.end_ns, kept_[after].end_ns);
    }
    if (after > at) {
      kept_[at] = v;
      std::copy(kept_ + after, kept_ + size_, kept_ + at + 1);
      size_ -= after - at - 1;
      return;
    }
    if (size_ == kept_most) {
      if (at == 0) return;  // older than everything that is kept, and late: left out
      counted_ns_ += kept_[0].length_ns();
      counted_until_ns_ = kept_[0].end_ns;
      std::copy(kept_ + 1, kept_ + size_, kept_);
      --size_;
      --at;
    }
    std::copy_backward(kept_ + at, kept_ + size_, kept_ + size_ + 1);
    kept_[at] = v;
    ++size_;
  }
  std::int64_t length_ns() const noexcept {
    std::int64_t total = counted_ns_;
    for (std::size_t i = 0; i < size_; ++i) total += kept_[i].length_ns();
    return total;
  }

 private:
  static constexpr std::size_t kept_most = 4;
  analysis::interval kept_[kept_most] = {};
  std::size_t size_ = 0;
  std::int64_t counted_ns_ = 0;
  std::int64_t counted_until_ns_ = INT64_MIN;
};

struct run {
  std::uint64_t id = 0;         ///< id of this run of its stage; 0: the entry is free
  std::uint64_t heard_ns = 0;   ///< clock of the collector, when something was last heard of it
  std::uint32_t stage = 0;      ///< number of the stage's label
  std::uint32_t device = none;  ///< number of the device's label; none: no GPU work yet
  bool ended = false;           ///< the stage's own event has come
  bool whole = false;           ///< `host` is that event's time; true in only one of a run's entries
  analysis::interval host;
  short_union gpu;
  static constexpr std::uint32_t none = UINT32_MAX;
};

/// Set-associative: an id has eight places. Where they are taken, the run that ended and was silent longest is settled
/// early (handed to `settled`, its place reused); its later work would become an observation of its own.
class run_table {
 public:
  explicit run_table(std::uint64_t quiet_ns) : quiet_ns_(quiet_ns), slots_(new run[slot_count]()) {}

  template <class Settled>
  void work(std::uint64_t id, std::uint32_t stage, std::uint32_t device, analysis::interval v, std::uint64_t now_ns,
            Settled&& settled) {
    run& r = entry(id, stage, device, now_ns, settled);
    r.gpu.add(v);
  }
  template <class Settled>
  void end(std::uint64_t id, std::uint32_t stage, analysis::interval host, std::uint64_t now_ns, Settled&& settled) {
    run& r = entry(id, stage, run::none, now_ns, settled);
    r.host = host;
    r.whole = true;
    run* set = set_of(id);
    for (std::size_t i = 0; i < ways; ++i) {
      if (set[i].id != id) continue;
      set[i].ended = true;
      set[i].heard_ns = now_ns;  // only now the entries of other devices may be settled once they are quiet
    }
  }
  /// Settles the entries that were silent for quiet_ns; those of runs whose end has not come, for a minute at least.
  template <class Settled>
  void settle(std::uint64_t now_ns, Settled&& settled) {
    for (std::size_t i = 0; i < slot_count; ++i) {
      run& r = slots_[i];
      if (r.id == 0 || now_ns - r.heard_ns < (r.ended ? quiet_ns_ : std::max(quiet_ns_, unended_ns))) continue;
      settled(r);
      r = run();
    }
  }
  template <class Settled>
  void settle_all(Settled&& settled) {
    for (std::size_t i = 0; i < slot_count; ++i) {
      if (slots_[i].id != 0) settled(slots_[i]);
      slots_[i] = run();
    }
  }

 private:
  static constexpr std::size_t ways = 8, slot_count = 8192;
  static constexpr std::uint64_t unended_ns = 60000000000u;

  run* set_of(std::uint64_t id) const noexcept {
    const std::uint64_t mixed = id * 0x9E3779B97F4A7C15u;
    return &slots_[(mixed >> 32) % (slot_count / ways) * ways];
  }

  /// The entry of (id, device); `run::none` takes any entry of the id.
  template <class Settled>
  run& entry(std::uint64_t id, std::uint32_t stage, std::uint32_t device, std::uint64_t now_ns, Settled& settled) {
    run* set = set_of(id);
    bool ended = false;
    run* room = set;
    for (std::size_t i = 0; i < ways; ++i) {
      run& r = set[i];
      if (r.id == id) {
        ended = ended || r.ended;
        if (device == run::none || r.device == device || r.device == run::none) {
          if (device != run::none) r.device = device;
          r.heard_ns = now_ns;
          return r;
        }
      }
      if (preferred(r, *room)) room = &r;
    }
    if (room->id != 0) settled(*room);
    *room = run();
    room->id = id;
    room->stage = stage;
    room->device = device;
    room->ended = ended;
    room->heard_ns = now_ns;
    return *room;
  }
  static bool preferred(const run& a, const run& b) noexcept {
    if (a.id == 0 || b.id == 0) return a.id == 0 && b.id != 0;
    if (a.ended != b.ended) return a.ended;
    return a.heard_ns < b.heard_ns;
  }

  std::uint64_t quiet_ns_;
  std::unique_ptr<run[]> slots_;
};

}  // namespace prometheus
CUTRACE_END_NAMESPACE
