// SPDX-License-Identifier: Apache-2.0
// The alarms of a trace (faults, hangs): how many there were, and of each of the first 16 the likeliest candidate (the
// GPU work, host call or stage that may be the cause). The first fault is among them, whatever came before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cutrace/event.hpp>
#include <string>
#include <string_view>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace analysis {

class alarm_log {
 public:
  struct alarm {
    std::string what, work, name, stage;
    std::vector<std::string> requests;  ///< at most `shown`
    std::uint32_t request_total = 0, candidates = 0;
    std::int64_t at_ns = 0, unfinished_ns = 0;
  };
  static constexpr std::size_t limit = 16, shown = 4;

  /// Counts an alarm by its first candidate (rank 1). Ignores all other events.
  void add(const event& e) {
    if (e.kind != event_kind::alarm || e.alarm.rank != 1) return;
    ++count_;
    const bool fault = std::string_view(e.alarm.what.data, e.alarm.what.size) == "fault";
    if (first_.size() == limit && (!fault || has_fault_)) return;
    if (first_.size() == limit) first_.pop_back();  // hangs alone so far
    has_fault_ = has_fault_ || fault;
    alarm a;
    a.what = of(e.alarm.what);
    a.work = of(e.alarm.work);
    a.name = of(e.name);
    a.stage = of(e.stage_name);
    a.request_total = e.request_total;
    for (std::uint32_t i = 0; i < e.request_count && i < shown; ++i)
      a.requests.push_back(e.requests[i].name.size != 0 ? of(e.requests[i].name) : std::to_string(e.requests[i].id));
    a.candidates = e.alarm.candidates;
    a.at_ns = e.start_ns;
    a.unfinished_ns = e.alarm.unfinished_ns;
    first_.push_back(std::move(a));
  }

  std::uint64_t count() const noexcept { return count_; }
  /// The most important: the first fault, else the first of all. nullptr: there is none.
  const alarm* first() const noexcept {
    for (const alarm& a : first_)
      if (a.what == "fault") return &a;
    return first_.empty() ? nullptr : &first_.front();
  }

 private:
  static std::string of(text t) { return std::string(t.size != 0 ? t.data : "", t.size); }

  std::vector<alarm> first_;
  std::uint64_t count_ = 0;
  bool has_fault_ = false;
};

}  // namespace analysis
CUTRACE_END_NAMESPACE
