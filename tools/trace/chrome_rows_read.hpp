// SPDX-License-Identifier: Apache-2.0
// Rows of a Chrome JSON trace of cutrace, each a pair of pid and tid: which thread a row belongs to, the names of
// threads and processes, and the devices. They stand at the end of a file, which is therefore looked through once
// before it is read.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "trace/byte_window.hpp"
#include "trace/complaints.hpp"
#include "trace/feed.hpp"
#include "trace/json_value.hpp"
#include "trace/memory_budget.hpp"

namespace cutrace_reading {

/// Where the sink moves process ids that would be those of GPUs, the first process id of GPUs with large numbers, and
/// the first row number that is no thread's (sinks/chrome/rows.hpp).
constexpr std::uint32_t moved_pid = 0x40000000u, far_gpu_pid = 0x60000000u, first_free_tid = 0x40000000u;
constexpr std::uint32_t host_process(std::uint64_t pid) noexcept {
  const auto n = static_cast<std::uint32_t>(pid);
  return n >= moved_pid && n < far_gpu_pid ? n - moved_pid : n;
}

class chrome_row_names {
 public:
  explicit chrome_row_names(feed& to) : to_(to) {}

  /// Looks through a file of cutrace; only its end where the file can be read from any position.
  void look_through(const std::string& path);
  /// "ph":"M" of any writer: names of processes and threads.
  void add(std::uint64_t pid, std::uint64_t tid, std::string_view what, std::string_view value);
  /// Adds an element of "deviceProperties". @returns false where `json` describes no device
  bool add_device(std::string_view json);

  /// Thread of a row of a process. @returns false for a row that is no known thread's
  bool thread_of(std::uint64_t pid, std::uint64_t tid, std::uint32_t& thread) const;
  bool is_spans(std::uint64_t pid, std::uint64_t tid) const { return spans_.count({pid, tid}) != 0; }
  bool knows(std::uint64_t pid, std::uint64_t tid) const { return rows_.count({pid, tid}) != 0; }
  /// The process that the file describes first among those that are no GPUs, 0: there is none.
  std::uint32_t host() const noexcept { return host_; }
  std::string host_name() const {
    const auto at = processes_.find(host_);
    return at != processes_.end() ? at->second : std::string();
  }

  /// Delivers the descriptions that are new since the last call.
  void describe(place at);

 private:
  void read_line(std::string_view line);
  void deliver(const cutrace::event& e, place at);
  template <class Key>
  void set(std::map<Key, std::string>& all, const Key& key, std::string_view value);

  feed& to_;
  counted_bytes bytes_;  ///< of the names, and of what was delivered
  simdjson::ondemand::parser parser_;
  std::string line_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::string> rows_;
  std::set<std::pair<std::uint64_t, std::uint64_t>> spans_;
  std::map<std::uint64_t, std::string> processes_, labels_;
  std::vector<cutrace::event> devices_;
  /// By kind, process, thread, device and address of the (interned) name.
  std::set<std::tuple<cutrace::event_kind, std::uint32_t, std::uint32_t, std::uint32_t, const char*>> delivered_;
  std::uint32_t host_ = 0;
  static constexpr std::size_t row_limit = std::size_t{1} << 20;
};

}  // namespace cutrace_reading
