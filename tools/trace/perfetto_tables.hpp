// SPDX-License-Identifier: Apache-2.0
// What a Perfetto trace of ours has told so far (docs/perfetto.md): tracks, and of each sequence its clock and what its
// numbers mean. Numbers beyond any that the sink gives are refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cutrace/event.hpp>
#include <cutrace/sinks/perfetto/notes.hpp>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "trace/spoken_names.hpp"

namespace cutrace_reading {

/// A text of a set of requests is read when it is used first.
struct told_text {
  std::string text;
  cutrace::text interned{};
  std::vector<cutrace::request_ref> requests;
  std::uint32_t total = 0;
  bool is_interned = false, is_read = false;
};

struct told_name {
  cutrace::text text;
  spoken_copy copy;
  cutrace::memory_kind memory = cutrace::memory_kind::unknown;
  cutrace::sync_kind sync = cutrace::sync_kind::unknown;
};

struct told_kernel {
  cutrace::text name, mangled, stage, capture_stage;
  std::uint32_t registers_per_thread = 0, static_shared_bytes = 0, dynamic_shared_bytes = 0, local_bytes_per_thread = 0,
                cluster = 0;
  std::int32_t priority = 0;
  cutrace::attribution joined = cutrace::attribution::by_call;
};

struct told_queue {
  enum class meaning : std::uint8_t { none, kernel, memcpy, memset, graph, event, stream } what = meaning::none;
  std::uint64_t stream = 0;
};

/// By number.
template <class T>
class told_table {
 public:
  static constexpr std::uint64_t limit = std::uint64_t{1} << 18;
  /// nullptr: the number is beyond all limits.
  T* add(std::uint64_t number) {
    if (number == 0 || number >= limit) return nullptr;
    if (number >= all_.size()) all_.resize(number + 1);
    all_[number] = entry{T(), true};
    return &all_[number].what;
  }
  /// nullptr: nobody has told.
  T* find(std::uint64_t number) noexcept {
    return number < all_.size() && all_[number].told ? &all_[number].what : nullptr;
  }
  void clear() noexcept { all_.clear(); }

 private:
  struct entry {
    T what{};
    bool told = false;
  };
  std::vector<entry> all_;
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
    about
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
  std::vector<cutrace::request_ref> requests;
  std::vector<cutrace::argument> arguments;
  std::uint64_t ended_before_start_ns = 0;
};

struct perfetto_sequence {
  bool valid = false;
  std::uint64_t last_ns = 0, origin_ns = 0;
  std::uint64_t track_uuid = 0;
  std::uint32_t clock = 0;
  perfetto_track* track = nullptr;  ///< of track_uuid, once looked up
  told_table<told_name> names;
  told_table<cutrace::detail::slice_category> categories;
  told_table<cutrace::detail::note> annotations, arguments;
  told_table<told_text> texts;
  told_table<told_queue> queues;
  told_table<told_kernel> kernels;
  std::unordered_map<std::uint64_t, std::uint32_t> context_processes;
  std::vector<open_slice> open;
  std::size_t open_count = 0;

  void reset() {
    const std::vector<open_slice> kept = std::move(open);
    const std::size_t count = open_count;
    *this = perfetto_sequence();
    open = kept;
    open_count = count;
    valid = true;
  }
};

}  // namespace cutrace_reading
