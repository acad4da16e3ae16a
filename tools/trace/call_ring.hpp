// SPDX-License-Identifier: Apache-2.0
// Calls by their correlation id, for formats in which GPU work does not repeat the data of its call: it gets name,
// begin and thread of its call from here. Direct-mapped: a call is forgotten when a later one takes its place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cutrace/event.hpp>
#include <vector>

namespace cutrace_reading {

class call_ring {
 public:
  /// Sets how many calls are kept at most, a power of two; 40 bytes each. Call it before the first `add`.
  void keep(std::size_t calls) noexcept { size_ = calls; }
  void add(const cutrace::event& call) {
    if (call.correlation_id == 0) return;
    if (entries_.empty()) entries_.resize(first_size);
    while (entries_.size() < size_ && slot(call.correlation_id).correlation != 0 &&
           slot(call.correlation_id).correlation != call.correlation_id)
      grow();
    slot(call.correlation_id) = {call.correlation_id, call.start_ns, call.name, call.thread_id, call.process_id};
  }
  /// What gets name, begin and thread of its call from here.
  static bool takes_call(const cutrace::event& e) noexcept {
    return e.is_gpu_work() || e.kind == cutrace::event_kind::sync || e.is_cuda_event();
  }
  /// Calls `join` for GPU events whose attribution says that the call is known; other events stay as they are.
  void finish(cutrace::event& e) const noexcept {
    const bool knows_call = e.joined == cutrace::attribution::by_call ||
                            e.joined == cutrace::attribution::outside_stage ||
                            e.joined == cutrace::attribution::stage_unknown;
    if (knows_call && takes_call(e)) join(e);
  }
  /// Fills in the fields of a GPU event that describe its call. @returns false where the call is not known:
  /// call_start_ns is then the start of the work
  bool join(cutrace::event& work) const noexcept {
    work.call_start_ns = work.start_ns;
    if (entries_.empty() || work.correlation_id == 0) return false;
    const entry& e = entries_[index(work.correlation_id, entries_.size())];
    if (e.correlation != work.correlation_id) return false;
    work.call_start_ns = e.start_ns;
    work.call_name = e.name;
    work.thread_id = e.thread;
    if (work.process_id == 0) work.process_id = e.process;
    return true;
  }

 private:
  struct entry {
    std::uint64_t correlation = 0;
    std::int64_t start_ns = 0;
    cutrace::text name;
    std::uint32_t thread = 0;
    std::uint32_t process = 0;
  };
  /// Calls of the processes of a merged trace differ in the upper 32 bits only, so these are mixed in.
  static std::size_t index(std::uint64_t correlation, std::size_t size) noexcept {
    return (correlation + (correlation >> 32) * 0x9E3779B1u) & (size - 1);
  }
  entry& slot(std::uint64_t correlation) noexcept { return entries_[index(correlation, entries_.size())]; }
  void grow() {
    std::vector<entry> larger(entries_.size() * 2);
    for (const entry& e : entries_)
      if (e.correlation != 0) larger[index(e.correlation, larger.size())] = e;
    entries_.swap(larger);
  }
  static constexpr std::size_t first_size = 1024;
  std::size_t size_ = std::size_t{1} << 16;  // a stream's queue holds about a thousand launches
  std::vector<entry> entries_;
};

}  // namespace cutrace_reading
