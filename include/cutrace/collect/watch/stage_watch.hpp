// SPDX-License-Identifier: Apache-2.0
// Stages that are open for longer than they may be. Only stages that somebody has set a bound for are watched, by their
// name or by a request that they serve. Collector's thread only.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cutrace/collect/delivery.hpp>
#include <cutrace/collect/event_tables.hpp>
#include <cutrace/collect/watch/alarm_text.hpp>
#include <iterator>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

class stage_watch {
 public:
  struct bound {
    std::string name;  ///< "*" at its end stands for any rest
    std::int64_t bound_ns;
  };
  struct bounds {
    std::vector<bound> stages;    ///< the first that fits a stage's name counts
    std::vector<bound> requests;  ///< by the request's text or number: for all stages that serve it
  };

  stage_watch(event_tables& tables, delivery& events) : tables_(tables), delivery_(events) {}

  /// What has become too late since the last call, each stage once, the oldest first. A stage is watched from the first
  /// call that sees it. `now_ns`: raw frame.
  std::vector<suspect> late(const bounds& b, std::int64_t now_ns) {
    std::vector<suspect> all;
    if (b.stages.empty() && b.requests.empty()) return all;
    ++look_;
    tables_.stages.for_each_open([&](const known_stage& s) {
      auto found = open_.find(s.id);
      if (found == open_.end()) {
        if (open_.size() == limit) return;
        found = open_.emplace(s.id, bound_of(s, b, now_ns)).first;
      }
      watched& w = found->second;
      w.look = look_;
      if (w.bound_ns == 0 || now_ns - w.since_ns < w.bound_ns) return;
      all.push_back(of_stage(s, w.since_ns, now_ns));
      const std::string why = w.why + " may be open for " + alarm_text::seconds(w.bound_ns);
      all.back().alarm.alarm.why =
          tables_.strings.intern_dynamic(why.data(), why.size(), {"it is open for longer than it may be", 36});
      w.bound_ns = 0;
    });
    for (auto at = open_.begin(); at != open_.end();) at = at->second.look == look_ ? std::next(at) : open_.erase(at);
    std::stable_sort(all.begin(), all.end(),
                     [](const suspect& a, const suspect& c) { return a.alarm.call_start_ns < c.alarm.call_start_ns; });
    return all;
  }
  /// The process was stopped meanwhile: all open stages count as open since `now_ns`.
  void begin_anew(std::int64_t now_ns) noexcept {
    for (auto& w : open_) w.second.since_ns = now_ns;
  }

 private:
  struct watched {
    std::int64_t since_ns = 0, bound_ns = 0;  ///< `bound_ns` 0: it has no bound, or was reported
    std::string why{};                        ///< whose bound it is
    std::uint64_t look = 0;                   ///< number of the `late` call that saw it last
  };
  static constexpr std::size_t limit = 10000;  ///< some 1 MiB

  watched bound_of(const known_stage& s, const bounds& b, std::int64_t now_ns) {
    watched w;
    w.since_ns = now_ns;
    const std::string_view stage(s.name, s.name_size);
    for (const bound& n : b.stages)
      if (alarm_text::fits(n.name, stage)) {
        w.bound_ns = n.bound_ns;
        w.why = "this stage";
        break;
      }
    if (b.requests.empty()) return w;
    const event e = delivery_.complete(of_stage(s, now_ns, now_ns).alarm);
    for (std::uint32_t i = 0; i < e.request_count; ++i) {
      const text named = e.requests[i].name;
      const std::string request =
          named.size != 0 ? std::string(named.data, named.size) : std::to_string(e.requests[i].id);
      for (const bound& n : b.requests)
        if (alarm_text::fits(n.name, request)) {
          if (w.bound_ns != 0 && w.bound_ns <= n.bound_ns) break;
          w.bound_ns = n.bound_ns;
          w.why = "a stage of request " + request;
          break;
        }
    }
    return w;
  }
  suspect of_stage(const known_stage& s, std::int64_t since_ns, std::int64_t now_ns) const {
    suspect l;
    pending_event& a = l.alarm;
    a.kind = event_kind::alarm;
    a.process_id = tables_.process_id;
    a.start_ns = a.end_ns = now_ns;
    a.name = s.name_text();
    a.stage_id = s.id;
    a.joined = attribution::by_call;
    a.call_start_ns = since_ns;
    a.call_thread = static_cast<std::uint32_t>(s.id >> 40);  // as traced_thread::next_stage counts
    alarm_data d{};
    d.work = text{"stage", 5};
    d.unfinished_ns = now_ns - since_ns;
    a.alarm = d;
    return l;
  }

  event_tables& tables_;
  delivery& delivery_;
  std::unordered_map<std::uint64_t, watched> open_;  ///< by id
  std::uint64_t look_ = 0;
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
