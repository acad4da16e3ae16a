// SPDX-License-Identifier: Apache-2.0
// Rows of a Chrome JSON trace: which (pid, tid) a slice goes to, and what the rows are called. Rows follow PyTorch's
// Kineto: threads under the process, streams under pid = index of the device. Both numbers are unsigned 32-bit: viewers
// turn anything else into 0. Where slices of a row overlap, it is split into lanes, each with its own tid (lane.hpp).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cutrace/config.hpp>
#include <cutrace/event.hpp>
#include <cutrace/output/json_text.hpp>
#include <cutrace/output/text_buffer.hpp>
#include <cutrace/sinks/common/lane.hpp>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace detail {

enum class row_kind : std::uint8_t { thread, spans, overhead, system, stream, stream_sync, context_sync };

struct host_row_key {
  row_kind kind;
  std::uint64_t id;
};
/// The row of a host event. A system event without a thread goes to the row of its CPU.
inline host_row_key host_row_of(const event& e) noexcept {
  if (e.kind == event_kind::stage && e.stage.span) return {row_kind::spans, 0};
  if (e.kind == event_kind::overhead || e.kind == event_kind::window) return {row_kind::overhead, 0};
  if (e.kind == event_kind::system && e.thread_id == 0) return {row_kind::system, e.system.cpu};
  return {row_kind::thread, e.thread_id};
}

struct row_place {
  std::string_view text;   ///< `,"pid":0,"tid":7,"ts":`, valid until the next place is asked for
  std::uint32_t base_tid;  ///< tid of the row's first lane; args give it as the stream
  std::uint32_t row;       ///< number of the row, in the order of their first use
};

class chrome_rows {
 public:
  /// GPUs have the pids 0 to 63, so a process with such an id (the first one of a container) gets another pid.
  static std::uint32_t host_pid(std::uint32_t process_id) noexcept {
    return process_id < gpu_pids ? moved_pid + process_id : process_id;
  }
  static std::uint32_t gpu_pid(std::uint32_t device) noexcept {
    return device < gpu_pids ? device : far_gpu_pid + (device & 0x0FFFFFFFu);
  }

  void name_process(std::uint32_t process_id, std::string_view name) { processes_[process_id] = name; }
  void name_device(std::uint32_t device, std::string_view name) { devices_[device] = name; }
  void name_thread(std::uint32_t process_id, std::uint32_t thread, std::string_view name) {
    if (thread_names_.size() < row_limit) thread_names_[{host_pid(process_id), thread}] = name;
  }

  /// Lane for a slice of the host. `owner`: see slice_lane.
  row_place host(host_row_key at, std::uint32_t process_id, std::int64_t start_ns, std::int64_t end_ns,
                 std::uint64_t owner) {
    return place(host_row(at.kind, process_id, at.id), start_ns, end_ns, owner);
  }
  /// Lane for a slice of a GPU. `id` is the stream, or the context for context_sync.
  row_place gpu(row_kind kind, std::uint32_t device, std::uint64_t id, std::int64_t start_ns, std::int64_t end_ns) {
    row* r = known(gpu_pid(device), kind, id);
    if (r == nullptr) {
      devices_.insert({device, std::string()});
      r = &find(gpu_pid(device), kind, id);
    }
    return place(*r, start_ns, end_ns, 0);
  }

  /// First lane of a thread, without taking room on it.
  std::uint32_t thread_tid(std::uint32_t process_id, std::uint32_t thread) {
    row& r = host_row(row_kind::thread, process_id, thread);
    if (r.lanes.empty()) add_lane(r, base_tid(r));
    return r.lanes.front().tid;
  }

  /// First lane of a stream, without taking room on it.
  std::uint32_t stream_tid(std::uint32_t device, std::uint64_t stream) {
    devices_.insert({device, std::string()});
    row& r = find(gpu_pid(device), row_kind::stream, stream);
    if (r.lanes.empty()) add_lane(r, base_tid(r));
    return r.lanes.front().tid;
  }

  bool full() const noexcept { return rows_.size() >= row_limit; }
  /// Rows are made anew, and numbered from 0. Tids that no thread or stream has are not given a second time.
  void forget() {
    rows_.clear();
    used_.clear();
    std::fill(std::begin(last_), std::end(last_), nullptr);
  }

  /// Slices that had to be put on a lane where they overlap others, for want of lanes or rows.
  std::uint64_t overlapping() const noexcept { return overlapping_; }

  /// Metadata of all rows used so far; `end_item` is called after each object.
  template <class EndItem>
  void write_names(json_text& json, EndItem end_item) const {
    for (const auto& p : processes_) {
      const std::uint32_t pid = host_pid(p.first);
      const std::string id = std::to_string(p.first);
      metadata(json, "process_name", pid, 0, "name", p.second.empty() ? "process " + id : p.second, end_item);
      metadata(json, "process_labels", pid, 0, "labels", pid == p.first ? "CPU" : "CPU, pid " + id, end_item);
      metadata(json, "process_sort_index", pid, 0, "sort_index", pid, end_item);
    }
    for (const auto& d : devices_) {
      const std::string label = "GPU " + std::to_string(d.first);
      const std::uint32_t pid = gpu_pid(d.first);
      metadata(json, "process_name", pid, 0, "name", d.second.empty() ? label : label + ": " + d.second, end_item);
      metadata(json, "process_labels", pid, 0, "labels", label, end_item);
      metadata(json, "process_sort_index", pid, 0, "sort_index", 5000000u + (d.first & 0x0FFFFFFFu), end_item);
    }
    for (const auto& r : rows_) write_row_names(json, r.second, end_item);
  }

 private:
  struct lane {
    std::uint32_t tid;
    slice_lane slices;
    std::uint8_t text_size;
    char text[64];  ///< longest: 40 characters
  };
  struct row {
    std::uint32_t pid;
    row_kind kind;
    std::uint64_t id;
    std::uint32_t number;
    std::vector<lane> lanes;
  };
  static constexpr std::uint32_t gpu_pids = 64;
  static constexpr std::uint32_t moved_pid = 0x40000000u;  // Linux process ids end at 2^22
  static constexpr std::uint32_t far_gpu_pid = 0x60000000u;
  static constexpr std::uint32_t first_free_tid = 0x40000000u;
  static constexpr std::size_t row_limit = 4096;
  static constexpr std::uint64_t other_id = ~std::uint64_t{0};  ///< of the row that others share, beyond the limit
  static constexpr std::size_t lane_limit = 256;

  using row_key = std::tuple<std::uint32_t, row_kind, std::uint64_t>;

  /// The slot of a row in last_: events of several threads and streams take turns, so one remembered row is not enough.
  static std::size_t slot_of(std::uint32_t pid, row_kind kind, std::uint64_t id) noexcept {
    return static_cast<std::size_t>((id + 7 * std::uint64_t{pid} + 3 * static_cast<std::uint64_t>(kind)) % 16);
  }
  row* known(std::uint32_t pid, row_kind kind, std::uint64_t id) const noexcept {
    row* r = last_[slot_of(pid, kind, id)];
    return r != nullptr && r->pid == pid && r->kind == kind && r->id == id ? r : nullptr;
  }
  row& host_row(row_kind kind, std::uint32_t process_id, std::uint64_t id) {
    row* r = known(host_pid(process_id), kind, id);
    if (r != nullptr) return *r;
    if (processes_.size() < row_limit) processes_.insert({process_id, std::string()});
    return find(host_pid(process_id), kind, id);
  }

  row& find(std::uint32_t pid, row_kind kind, std::uint64_t id) {
    auto at = rows_.find(row_key(pid, kind, id));
    if (at == rows_.end()) {
      // Beyond the limit all rows of one kind share one, split into lanes.
      if (rows_.size() >= row_limit) id = other_id;
      const auto number = static_cast<std::uint32_t>(rows_.size());
      at = rows_.insert({row_key(pid, kind, id), row{pid, kind, id, number, {}}}).first;
    }
    row& found = at->second;
    last_[slot_of(pid, kind, found.id)] = &found;
    return found;
  }

  CUTRACE_INLINE row_place place(row& r, std::int64_t start_ns, std::int64_t end_ns, std::uint64_t owner) {
    if (CUTRACE_LIKELY(!r.lanes.empty() && r.lanes.front().slices.place(start_ns, end_ns, owner)))
      return place_on(r, r.lanes.front());
    return place_further(r, start_ns, end_ns, owner);
  }
  CUTRACE_ONE_COPY row_place place_further(row& r, std::int64_t start_ns, std::int64_t end_ns, std::uint64_t owner) {
    for (std::size_t i = 1; i < r.lanes.size(); ++i) {
      if (r.lanes[i].slices.place(start_ns, end_ns, owner)) return place_on(r, r.lanes[i]);
    }
    if (r.lanes.size() >= lane_limit) {
      ++overlapping_;
      return place_on(r, r.lanes.back());
    }
    lane& added = add_lane(r, r.lanes.empty() ? base_tid(r) : free_tid());
    added.slices.place(start_ns, end_ns, owner);
    return place_on(r, added);
  }
  static row_place place_on(const row& r, const lane& l) noexcept {
    return {std::string_view(l.text, l.text_size), r.lanes.front().tid, r.number};
  }

  static lane& add_lane(row& r, std::uint32_t tid) {
    lane l{tid, slice_lane(r.kind == row_kind::thread), 0, {}};
    char* to = put_decimal(put_literal(l.text, ",\"pid\":"), r.pid);
    to = put_decimal(put_literal(to, ",\"tid\":"), tid);
    l.text_size = static_cast<std::uint8_t>(put_literal(to, ",\"ts\":") - l.text);
    r.lanes.push_back(std::move(l));
    return r.lanes.back();
  }

  /// The number that Kineto uses where it is free and fits; HTA takes stream 0 for "no stream", so 0 is never used.
  std::uint32_t base_tid(const row& r) {
    std::uint64_t wish = 0;
    if (r.kind == row_kind::thread || r.kind == row_kind::stream) wish = r.id;
    if (r.kind == row_kind::stream_sync && r.id != 0) wish = r.id < first_free_tid ? r.id + 1000000u : 0;
    if (wish == 0 || wish >= first_free_tid) return free_tid();
    const auto tid = static_cast<std::uint32_t>(wish);
    return used_.insert({r.pid, tid}).second ? tid : free_tid();
  }
  std::uint32_t free_tid() noexcept { return next_tid_++; }

  std::string row_name(const row& r) const {
    const std::string id = r.id == other_id && r.number >= row_limit ? "others" : std::to_string(r.id);
    switch (r.kind) {
      case row_kind::thread: {
        const auto named = thread_names_.find({r.pid, static_cast<std::uint32_t>(r.id)});
        if (r.id == 0) return "unknown thread";
        return named == thread_names_.end() ? "thread " + id : "thread " + id + " (" + named->second + ")";
      }
      case row_kind::spans:
        return "spans";
      case row_kind::overhead:
        return "tracing overhead";
      case row_kind::system:
        return "cpu " + id;
      case row_kind::stream:
        return "stream " + id + " ";  // Kineto's spelling
      case row_kind::stream_sync:
        return "stream " + id + " (sync)";
      case row_kind::context_sync:
        return "context " + id + " (sync)";
    }
    return id;
  }

  template <class EndItem>
  void write_row_names(json_text& json, const row& r, EndItem end_item) const {
    const std::string name = row_name(r);
    for (std::size_t i = 0; i < r.lanes.size(); ++i) {
      std::string lane_name = name;
      if (i != 0) lane_name += (name.back() == ' ' ? "(" : " (") + std::to_string(i + 1) + ")";
      metadata(json, "thread_name", r.pid, r.lanes[i].tid, "name", lane_name, end_item);
      metadata(json, "thread_sort_index", r.pid, r.lanes[i].tid, "sort_index", r.lanes.front().tid, end_item);
    }
  }

  template <class Value, class EndItem>
  static void metadata(json_text& json, const char* what, std::uint32_t pid, std::uint32_t tid, const char* key,
                       const Value& value, EndItem& end_item) {
    json.begin_object();
    json.field("ph", "M");
    json.field("name", what);
    json.field("pid", pid);
    json.field("tid", tid);
    json.key("ts");
    json.microseconds(0);
    json.key("args");
    json.begin_object();
    json.field(key, value);
    json.end_object();
    json.end_object();
    end_item();
  }

  std::map<std::uint32_t, std::string> processes_;
  std::map<std::uint32_t, std::string> devices_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::string> thread_names_;
  std::map<row_key, row> rows_;
  std::set<std::pair<std::uint32_t, std::uint32_t>> used_;
  row* last_[16] = {};
  std::uint32_t next_tid_ = first_free_tid;
  std::uint64_t overlapping_ = 0;
};

}  // namespace detail
CUTRACE_END_NAMESPACE
