// SPDX-License-Identifier: Apache-2.0
// Ioctls that the driver's library made, as a trace gives them: by name and command, with their time, their failures,
// and the program's driver API call that made them; and, for layers.hpp, the intervals of ioctls and those in which
// threads were switched out. Keeps about 20 bytes for each ioctl, 16 for each interval switched out.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <cutrace/analysis/intervals.hpp>
#include <cutrace/analysis/names.hpp>
#include <map>
#include <string>
#include <utility>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace analysis {

struct ioctl_row {
  std::string name;     ///< of the escape (NV_ESC_* of /dev/nvidia*) or UVM command
  std::string command;  ///< control command or class of the object, empty: none
  std::uint64_t count = 0;
  std::uint64_t failed = 0;  ///< the system call failed, or the driver's status in the argument is an error
  std::uint64_t total_ns = 0, longest_ns = 0;
  std::uint64_t in_calls = 0;  ///< ioctls whose call is known
  std::string call;            ///< the call that made most of them; empty: none is known
  std::uint64_t of_call = 0;   ///< ioctls made by `call`
};

/// Objects that the driver made with the kernel, by what their class is for.
struct driver_objects {
  std::uint64_t made = 0, failed = 0, freed = 0;
  std::uint64_t memory = 0, channels = 0, contexts = 0, address_spaces = 0;
};

class ioctl_table {
 public:
  /// Events in the order of delivery: a call arrives after the ioctls that were made in it.
  void add(const event& e) {
    if (e.kind == event_kind::ioctl) return add_ioctl(e);
    if (e.kind == event_kind::system) return add_system(e);
    if (e.kind != event_kind::api || rows_by_call_.empty()) return;
    const auto found = rows_by_call_.find(e.correlation_id);
    if (found == rows_by_call_.end()) return;
    const std::string call(e.name.data, e.name.size);
    for (const auto& [number, n] : found->second) rows_[number].calls[call] += n;
    rows_by_call_.erase(found);
  }

  bool empty() const noexcept { return rows_.empty(); }
  /// Intervals of the ioctls, by thread; unordered.
  const std::map<std::uint32_t, std::vector<interval>>& threads() const noexcept { return threads_; }
  /// Intervals in which the trace says that a thread was switched out, by thread; unordered.
  const std::map<std::uint32_t, std::vector<interval>>& switched() const noexcept { return switched_; }
  const driver_objects& objects() const noexcept { return objects_; }

  /// Most time first.
  CUTRACE_ONE_COPY std::vector<ioctl_row> result() const {
    std::vector<ioctl_row> all;
    for (const row& r : rows_) {
      all.push_back(r.reported);
      for (const auto& [call, n] : r.calls) {
        if (n > all.back().of_call) {
          all.back().of_call = n;
          all.back().call = call;
        }
        all.back().in_calls += n;
      }
    }
    std::stable_sort(all.begin(), all.end(),
                     [](const ioctl_row& a, const ioctl_row& b) { return a.total_ns > b.total_ns; });
    return all;
  }

 private:
  static constexpr std::size_t row_limit = 4096;  ///< further names, which only a broken file has, share one row

  struct row {
    ioctl_row reported;
    std::map<std::string, std::uint64_t> calls;
  };

  CUTRACE_NOINLINE void add_ioctl(const event& e) {
    const interval v = interval_of(e);
    const bool failed = e.ioctl_.error != 0 || (e.ioctl_.status_name.size != 0 && e.ioctl_.status != 0);
    const std::size_t n = row_of(e);
    ioctl_row& r = rows_[n].reported;
    ++r.count;
    r.failed += failed;
    r.total_ns += static_cast<std::uint64_t>(v.length_ns());
    r.longest_ns = std::max(r.longest_ns, static_cast<std::uint64_t>(v.length_ns()));
    threads_[e.thread_id].push_back(v);
    if (e.ioctl_.enclosing != 0) ++rows_by_call_[e.ioctl_.enclosing][n];
    count_object(r, failed);
  }

  /// Keeps the intervals in which a thread was switched out: "sched" events that have a duration.
  CUTRACE_NOINLINE void add_system(const event& e) {
    const text& of = e.system.category;
    const interval v = interval_of(e);
    if (of.size == 5 && std::memcmp(of.data, "sched", 5) == 0 && !v.empty() && e.thread_id != 0)
      switched_[e.thread_id].push_back(v);
  }

  std::size_t row_of(const event& e) {
    std::pair<std::string, std::string> key{
        std::string(e.name.data, std::min<std::size_t>(e.name.size, 256)),
        std::string(e.ioctl_.command_name.data, std::min<std::size_t>(e.ioctl_.command_name.size, 256))};
    if (rows_.size() >= row_limit && numbers_.count(key) == 0) key = {"(others)", ""};
    const auto found = numbers_.emplace(key, rows_.size());
    if (found.second) {
      rows_.emplace_back();
      rows_.back().reported.name = key.first;
      rows_.back().reported.command = key.second;
    }
    return found.first->second;
  }

  /// Classes by their names in NVIDIA's headers (src/common/sdk/nvidia/inc/class of the open kernel modules).
  void count_object(const ioctl_row& r, bool failed) {
    const auto has = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
    if (has(r.name, "RM_FREE") && !failed) ++objects_.freed;
    const bool mapped = has(r.name, "RM_ALLOC_MEMORY");
    if (!has(r.name, "RM_ALLOC") && !has(r.name, "RM_VID_HEAP_CONTROL")) return;
    ++(failed ? objects_.failed : objects_.made);
    if (failed) return;
    if (mapped || has(r.name, "HEAP") || has(r.command, "MEMORY")) ++objects_.memory;
    if (has(r.command, "CHANNEL_GPFIFO")) ++objects_.channels;
    if (has(r.command, "CONTEXT_SHARE") || has(r.command, "CHANNEL_GROUP")) ++objects_.contexts;
    if (has(r.command, "VASPACE")) ++objects_.address_spaces;
  }

  std::vector<row> rows_;
  std::map<std::pair<std::string, std::string>, std::size_t> numbers_;
  std::map<std::uint32_t, std::vector<interval>> threads_, switched_;
  detail::seeded_map<std::uint64_t, std::map<std::size_t, std::uint64_t>>
      rows_by_call_;  ///< by id of a call that has not arrived: ioctls by row
  driver_objects objects_;
};

}  // namespace analysis
CUTRACE_END_NAMESPACE
