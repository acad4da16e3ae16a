// SPDX-License-Identifier: Apache-2.0
// What a Perfetto trace of cutrace has defined so far (docs/perfetto.md): tracks, and for each packet sequence its
// clock and interned ids (numbers). Numbers beyond any that the sink gives are refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cutrace/event.hpp>
#include <cutrace/sinks/perfetto/notes.hpp>
#include <deque>
#include <memory>
#include <new>

#include "trace/memory_budget.hpp"
#include "trace/spoken_names.hpp"

namespace cutrace_reading {

using request_vector = counted_vector<cutrace::request_ref>;

/// A text that lists requests is parsed at its first use. Open slices share the parsed requests.
struct interned_text {
  counted_string text;
  cutrace::text pooled{};
  std::shared_ptr<const request_vector> requests;
  std::uint32_t total = 0;
  bool is_pooled = false, is_read = false;
};

struct interned_name {
  cutrace::text text;
  spoken_copy copy;
  cutrace::memory_kind memory = cutrace::memory_kind::unknown;
  cutrace::sync_kind sync = cutrace::sync_kind::unknown;
};

struct interned_kernel {
  cutrace::text name, mangled, stage, capture_stage;
  std::uint32_t registers_per_thread = 0, static_shared_bytes = 0, dynamic_shared_bytes = 0, local_bytes_per_thread = 0,
                cluster = 0;
  std::int32_t priority = 0;
  cutrace::attribution joined = cutrace::attribution::by_call;
};

struct interned_queue {
  enum class meaning : std::uint8_t { none, kernel, memcpy, memset, graph, event, stream } what = meaning::none;
  std::uint64_t stream = 0;
};

/// Entries by number. Writers count up, in one count for all sequences: the numbers of one sequence begin anywhere and
/// have gaps, but mostly fit an array. A number far beyond the count of entries goes into a separate map: else a few
/// bytes of a file could demand an array of any size.
template <class T>
class interned_table {
 public:
  static constexpr std::uint64_t limit = std::uint64_t{1} << 18;
  /// Adds an entry or replaces it. nullptr: the number is 0 or beyond the limit.
  T* add(std::uint64_t number) {
    if (number == 0 || number >= limit) return nullptr;
    if (added_++ == 0) first_ = number - number % 64;
    const std::uint64_t place = number - first_;  // a number below first_ wraps: far beyond
    if (place >= all_.size()) {
      if (place > 16 * added_ + 64) return &(far_[number] = T());
      all_.resize(place + 1);
    }
    all_[place] = entry{T(), true};
    return &all_[place].what;
  }
  /// nullptr: there is no entry of this number.
  T* find(std::uint64_t number) noexcept {
    const std::uint64_t place = number - first_;
    if (place < all_.size() && all_[place].is_given) return &all_[place].what;
    if (far_.empty()) return nullptr;
    const auto at = far_.find(number);
    return at != far_.end() ? &at->second : nullptr;
  }
  /// Takes time proportional to what was added since the last `clear`.
  void clear() noexcept {
    all_.clear();
    if (!far_.empty()) far_ = {};
    added_ = 0;
  }

 private:
  struct entry {
    T what{};
    bool is_given = false;
  };
  counted_vector<entry> all_;
  counted_map<std::uint64_t, T> far_;
  std::uint64_t added_ = 0, first_ = 0;
};

struct perfetto_track {
  enum class kind : std::uint8_t {
    unknown,
    process,
    thread,
    spans,
    overhead,
    windows,
    stream_sync,
    context_sync,
    counter,
    about  ///< the trace itself: beginning, end, losses
  } what = kind::unknown;
  std::uint32_t process = 0, thread = 0, device = 0;
  std::uint64_t id = 0;  ///< stream or context
  cutrace::text name;
  std::int64_t last_value = 0;  ///< of a counter
  bool sampled = false;
};

/// A slice that has begun.
struct open_slice {
  cutrace::event e;
  std::shared_ptr<const request_vector> many;  ///< requests, where they are not just one
  cutrace::request_ref one;
  bool has_one = false;
  counted_vector<cutrace::argument> arguments;
  std::uint64_t ended_before_start_ns = 0;

  const cutrace::request_ref* requests() const noexcept { return many != nullptr ? many->data() : &one; }
  std::size_t request_count() const noexcept { return many != nullptr ? many->size() : has_one ? 1 : 0; }
  void clear() noexcept {
    ::new (static_cast<void*>(&e)) cutrace::event;  // in its place: no copy
    many.reset();
    has_one = false;
    arguments.clear();
    ended_before_start_ns = 0;
  }
};

struct perfetto_sequence {
  bool valid = false;
  std::uint64_t last_ns = 0, origin_ns = 0;
  std::uint64_t track_uuid = 0;
  std::uint32_t clock = 0;
  perfetto_track* track = nullptr;  ///< the track of `track_uuid`, once looked up
  std::uint64_t track_is_of = 0;    ///< perfetto_reader::tracks_generation_ when `track` was looked up
  interned_table<interned_name> names;
  interned_table<cutrace::detail::slice_category> categories;
  interned_table<cutrace::detail::note> annotations, arguments;
  interned_table<interned_text> texts;
  interned_table<interned_queue> queues;
  interned_table<interned_kernel> kernels;
  counted_map<std::uint64_t, std::uint32_t> context_processes;
  std::deque<open_slice, counting_allocator<open_slice>> open;
  std::size_t open_count = 0;

  /// Clears all but the open slices, which may end after the reset.
  void reset() {
    valid = true;
    last_ns = origin_ns = track_uuid = 0;
    clock = 0;
    track = nullptr;
    names.clear();
    categories.clear();
    annotations.clear();
    arguments.clear();
    texts.clear();
    queues.clear();
    kernels.clear();
    if (!context_processes.empty()) context_processes = {};
  }
};

}  // namespace cutrace_reading
