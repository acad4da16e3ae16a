// SPDX-License-Identifier: Apache-2.0
// What ingestion fills and delivery looks up: the process's tables, and those of one trace. Collector's thread only.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cutrace/backend.hpp>
#include <cutrace/collect/runtime_core.hpp>
#include <cutrace/collect/stage_table.hpp>
#include <cutrace/collect/string_table.hpp>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

/// The activity buffers whose GPU records are still to come, as they were listed in the last pass of the collector.
class held_buffers {
 public:
  /// A pass begins: the buffers are listed before those that have come are read, and valid once these have been read.
  void begin_list() noexcept { next_.clear(); }
  void list(const activity_buffers& of) {
    of.list([](void* to, const activity_buffers::held& h) { static_cast<held_buffers*>(to)->next_.push_back(h); },
            this);
  }
  /// `now_ns`: when the pass began; raw frame, as all times here.
  void end_list(std::uint64_t now_ns) {
    // By thread; the buffers of one thread by age, the oldest first.
    std::sort(next_.begin(), next_.end(), [](const activity_buffers::held& a, const activity_buffers::held& b) {
      return a.thread != b.thread ? a.thread < b.thread : a.since_ns < b.since_ns;
    });
    held_.swap(next_);
    oldest_ns_ = listed_ns_ = now_ns;
    newest_ns_ = 0;
    for (const activity_buffers::held& h : held_) {
      oldest_ns_ = std::min(oldest_ns_, h.since_ns);
      newest_ns_ = std::max(newest_ns_, h.since_ns);
    }
  }

  bool empty() const noexcept { return held_.empty(); }
  std::uint64_t listed_ns() const noexcept { return listed_ns_; }
  /// Since when the backend has the oldest and the newest one; `listed_ns` and 0 where it has none.
  std::uint64_t oldest_ns() const noexcept { return oldest_ns_; }
  std::uint64_t newest_ns() const noexcept { return newest_ns_; }
  /// Whether GPU records of calls that `thread` made can still come. The last of these calls returned at `until_ns`.
  bool is_awaited(std::uint32_t thread, std::uint64_t until_ns) const noexcept {
    if (until_ns < oldest_ns_) return false;
    if (thread == stage_table::many_threads) return true;
    return holds_back(thread, until_ns) || holds_back(activity_buffers::any, until_ns);
  }

 private:
  bool holds_back(std::uint32_t thread, std::uint64_t until_ns) const noexcept {
    const auto first =
        std::lower_bound(held_.begin(), held_.end(), thread,
                         [](const activity_buffers::held& h, std::uint32_t wanted) { return h.thread < wanted; });
    return first != held_.end() && first->thread == thread && first->since_ns <= until_ns;
  }

  std::vector<activity_buffers::held> held_, next_;  ///< of the last pass and of this one. Sorted
  std::uint64_t oldest_ns_ = 0, newest_ns_ = 0, listed_ns_ = 0;
};

struct event_tables {
  static constexpr text name_lost{"(name lost)", 11};

  /// `process`: the one that is traced.
  CUTRACE_NOINLINE event_tables(runtime_core& core, std::size_t string_bytes, std::uint32_t process)
      : scale(core.scale),
        sites(core.sites),
        functions(core.functions),
        ring(core.ring),
        graphs(core.graphs),
        strings(string_bytes),
        process_id(process),
        thread_ids_(thread_slots) {}

  /// Name of a call's function.
  static text name_of(const known_function* f) noexcept {
    return f != nullptr ? f->text_of_name() : text{"(unknown function)", 18};
  }

  void set_thread(std::uint32_t index, std::uint32_t kernel_id) noexcept {
    thread_ids_[index % thread_slots] = {index, kernel_id};
  }
  /// Linux thread id (gettid) of the thread with this index, 0 while no record of it has been read.
  std::uint32_t thread_id_of(std::uint32_t index) const noexcept {
    const thread_id& known = thread_ids_[index % thread_slots];
    return known.index == index ? known.kernel_id : 0;
  }

  const tick_scale& scale;
  const site_table& sites;
  const function_table& functions;
  const correlation_ring& ring;
  call_copies held_calls;  ///< that `ring` has overwritten, or is about to
  graph_table& graphs;
  string_table strings;
  stage_table stages;
  const std::uint32_t process_id;

 private:
  static constexpr std::size_t thread_slots = 1u << 16;  ///< threads come and go while their work waits
  struct thread_id {
    std::uint32_t index = 0, kernel_id = 0;
  };
  std::vector<thread_id> thread_ids_;
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
