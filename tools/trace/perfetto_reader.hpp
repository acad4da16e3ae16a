// SPDX-License-Identifier: Apache-2.0
// Reads Perfetto traces of cutrace (docs/perfetto.md), packet by packet: broken packets are reported and skipped.
// Memory holds the largest packet and the tables of interned ids.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <protozero/pbf_reader.hpp>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "trace/byte_window.hpp"
#include "trace/call_ring.hpp"
#include "trace/feed.hpp"
#include "trace/memory_budget.hpp"
#include "trace/perfetto_tables.hpp"
#include "trace/request_list.hpp"

namespace cutrace_reading {

class perfetto_reader {
 public:
  explicit perfetto_reader(feed& to) : to_(to), requests_(to) {
    to_.look_ahead([this](cutrace::event& e) {
      calls_.finish(e);
      place_in_stage(e);
    });
  }

  /// One file, to its end.
  void read(byte_window& from);
  /// After the last file.
  void finish();

  static constexpr std::uint64_t packet_limit = std::uint64_t{64} << 20;

 private:
  using pbf = protozero::pbf_reader;

  /// One note of an event: a debug annotation, or an argument of GPU work.
  struct parsed_note {
    cutrace::detail::note key = cutrace::detail::note::none;
    std::string_view name;  ///< where `numbered` is false
    cutrace::argument_kind kind = cutrace::argument_kind::word;
    bool is_text = false, numbered = false;  ///< numbered: the name is an interned id, which `key` stands for
    std::uint64_t value = 0;
    std::string_view text;
    interned_text* interned = nullptr;
  };
  bool next_packet(byte_window& from, std::string_view& packet, std::size_t& size);
  void read_packet(pbf packet);
  perfetto_sequence& sequence(std::uint32_t id);
  std::int64_t session_ns(std::uint64_t ns) const noexcept { return static_cast<std::int64_t>(ns - origin_ns_); }
  std::uint64_t time_of(perfetto_sequence& s, std::uint32_t clock, std::uint64_t timestamp);
  perfetto_track* track_of(perfetto_sequence& s, std::uint64_t uuid);
  void forget_tracks();

  // perfetto_describe.cpp, perfetto_interned.cpp, perfetto_about.cpp: what describes the trace
  void read_snapshot(perfetto_sequence& s, std::uint32_t id, bool first, pbf p);
  void read_defaults(perfetto_sequence& s, pbf p);
  void read_interned(perfetto_sequence& s, pbf p);
  void read_kernel(perfetto_sequence& s, pbf p);
  void read_kernel_argument(interned_kernel& k, pbf p);
  void read_specification(perfetto_sequence& s, pbf p);
  void read_track(pbf p);
  void name_track(perfetto_track& t, std::string_view name, std::uint64_t parent);
  void read_gpus(pbf p);
  void read_about(std::uint64_t ns, std::string_view what, pbf event);
  bool read_about_note(std::string_view what, const parsed_note& n);
  void begin_part(std::uint32_t part);
  void read_loss(std::int64_t ns, pbf event);
  void open_trace();
  void describe(const cutrace::event& e);
  void describe(cutrace::event_kind kind, std::uint32_t process, std::uint32_t thread, std::string_view name);

  // perfetto_events.cpp, perfetto_notes.cpp: events
  void read_event(perfetto_sequence& s, std::uint64_t ns, pbf p);
  void read_counter(perfetto_track& track, std::int64_t ns, std::int64_t value);
  void begin_slice(open_slice& to, const perfetto_track& track, cutrace::detail::slice_category category,
                   const interned_name* name, std::int64_t ns);
  void apply_host_notes(perfetto_sequence& s, open_slice& to);
  void end_slice(perfetto_sequence& s, std::uint64_t ns);
  void finish_slice(open_slice& from, std::int64_t end_ns);
  void complete(cutrace::event& e, open_slice& from);
  /// Instances of stages of one process with one name and one set of requests.
  struct stage_instances {
    struct run {
      std::int64_t start_ns = 0, end_ns = 0;
      std::uint64_t number = 0;
    };
    using runs = counted_vector<run>;
    /// The first that ends after `ns`.
    runs::iterator ending_after(std::int64_t ns) noexcept {
      return std::upper_bound(ended.begin(), ended.end(), ns, [](auto t, const run& r) { return t < r.end_ns; });
    }
    std::uint64_t open = 0;  ///< number of the instance that has not ended, 0: none
    std::uint64_t used = 0;  ///< the next free number when something was last found to belong to `open`
    bool of_requests = false;
    runs ended;  ///< by end_ns
  };
  static std::uint64_t stage_key(std::uint32_t process, cutrace::text name, const cutrace::request_ref* requests,
                                 std::size_t count) noexcept;
  void forget_runs();
  std::uint64_t stage_number(std::uint32_t process, cutrace::text name, const cutrace::request_ref* requests,
                             std::size_t count);
  void end_stage(cutrace::event& e, const open_slice& of);
  void place_in_stage(cutrace::event& e);
  void read_gpu_event(perfetto_sequence& s, std::uint64_t ns, pbf p);
  void read_launch(perfetto_sequence& s, open_slice& to, pbf p);
  parsed_note read_note(perfetto_sequence& s, pbf p);
  parsed_note read_gpu_note(perfetto_sequence& s, pbf p);
  bool apply_common(open_slice& to, const parsed_note& n);
  void apply_host(open_slice& to, const parsed_note& n);
  bool apply_described(cutrace::event& e, const parsed_note& n);
  template <class Field>
  void read_described(const Field& field, const parsed_note& n, cutrace::event& e);
  void apply_gpu(open_slice& to, const parsed_note& n);
  void read_requests(interned_text& t);
  cutrace::text text_of(const parsed_note& n);
  void complain(std::string_view what) { to_.problems().add(what, at_); }

  feed& to_;
  request_list requests_;
  call_ring calls_;
  counted_vector<perfetto_sequence*> sequences_;  ///< by number
  std::deque<perfetto_sequence, counting_allocator<perfetto_sequence>> all_sequences_;
  counted_map<std::uint64_t, perfetto_track> tracks_;
  std::uint64_t tracks_generation_ = 0;  ///< how often `tracks_` was emptied
  std::set<std::string> devices_;
  counted_bytes device_bytes_;
  /// Processes and threads that were described, by kind, process, thread and address of the (interned) name.
  std::set<std::tuple<cutrace::event_kind, std::uint32_t, std::uint32_t, const char*>> described_;
  std::vector<std::uint32_t> parts_begun_;  ///< before the first event; all but the last hold descriptions alone
  std::vector<cutrace::event> waiting_;     ///< descriptions that came before the clocks
  trace_facts facts_;
  trace_totals totals_;
  std::uint64_t origin_ns_ = 0;  ///< CLOCK_MONOTONIC of session time 0
  std::uint32_t main_process_ = 0;
  place at_;
  open_slice scratch_;
  std::vector<std::string_view> notes_;  ///< of the event at hand
  const char* last_stage_name_ = nullptr;
  std::uint32_t last_stage_process_ = 0;
  std::uint64_t last_stage_number_ = 0, next_stage_number_ = 1;
  counted_map<std::uint64_t, stage_instances> stages_;  ///< by process, name and requests
  static constexpr std::size_t run_limit = 16384;
  std::size_t ended_runs_ = 0;  ///< in all of `stages_`; beyond `run_limit` the older half is forgotten
  /// Instances opened since runs were last forgotten. They may never end: the file may have no stages, but their work.
  static constexpr std::size_t open_limit = 32768;
  std::size_t opened_runs_ = 0;
  std::string next_part_;
  bool knows_origin_ = false, has_facts_ = false, ended_ = false, part_over_ = false;
};

}  // namespace cutrace_reading
