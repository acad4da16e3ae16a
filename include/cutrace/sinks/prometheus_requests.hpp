// SPDX-License-Identifier: Apache-2.0
// Requests as a serving dashboard sees them, from marks that say so: time to the first token, and between tokens.
//
//   CUTRACE_MARK("request_begin", id);   optional: else a request begins with the first stage that names it
//   CUTRACE_MARK("first_token", id);     or simply the first "token"
//   CUTRACE_MARK("token", id);           inside of a CUTRACE_STAGE_BATCH without an id: one token of each request
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cutrace/event.hpp>
#include <cutrace/sinks/prometheus_histogram.hpp>
#include <string_view>
#include <unordered_map>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace prometheus {

class request_table {
 public:
  explicit request_table(std::uint64_t quiet_ns) : quiet_ns_(quiet_ns) {}

  void add_stage(const event& e, std::uint64_t now_ns) {
    for (std::uint32_t i = 0; i < e.request_count; ++i) {
      state& s = of(e.requests[i].id, now_ns);
      if (!s.begin_marked) s.begin_ns = std::min(s.begin_ns, e.start_ns);
    }
  }

  void add_mark(const event& e, std::uint64_t now_ns) {
    const std::string_view name(e.name.data, e.name.size);
    const bool begin = name == "request_begin";
    const bool token = name == "token" || name == "first_token";
    if (!begin && !token) return;
    for (std::uint32_t i = 0; i < e.request_count; ++i) {
      state& s = of(e.requests[i].id, now_ns);
      if (begin) {
        s.begin_ns = e.start_ns;
        s.begin_marked = true;
      } else {
        take_token(s, e.start_ns, now_ns);
      }
    }
  }

  /// Observes first tokens after a while in which stages that began before them have ended, and forgets requests that
  /// were silent for long.
  void settle(std::uint64_t now_ns) {
    for (auto at = requests_.begin(); at != requests_.end();) {
      state& s = at->second;
      const std::uint64_t silent_ns = now_ns - s.heard_ns;
      if (s.first_waits && now_ns - s.first_heard_ns >= quiet_ns_) observe_first(s);
      at = silent_ns >= forget_ns ? requests_.erase(at) : std::next(at);
    }
  }
  void settle_all() {
    for (auto& r : requests_) {
      if (r.second.first_waits) observe_first(r.second);
    }
  }

  histogram first_token, between_tokens;
  std::uint64_t requests = 0;
  std::uint64_t tokens = 0;
  std::uint64_t forgotten = 0;  ///< for want of room; seen again they count as new

 private:
  struct state {
    std::int64_t begin_ns = INT64_MAX;
    std::int64_t first_ns = 0;
    std::int64_t last_ns = 0;
    std::uint64_t heard_ns = 0;        ///< clock of the collector
    std::uint64_t first_heard_ns = 0;  ///< of the first token
    bool begin_marked = false;
    bool has_token = false;
    bool first_waits = false;
  };
  static constexpr std::size_t most = 16384;
  static constexpr std::uint64_t forget_ns = 600000000000u;

  state& of(std::uint64_t id, std::uint64_t now_ns) {
    const auto found = requests_.find(id);
    if (found != requests_.end()) {
      found->second.heard_ns = now_ns;
      return found->second;
    }
    if (requests_.size() >= most) make_room();
    ++requests;
    state& s = requests_[id];
    s.heard_ns = now_ns;
    return s;
  }

  void take_token(state& s, std::int64_t at_ns, std::uint64_t now_ns) {
    ++tokens;
    if (!s.has_token) {
      s.has_token = true;
      s.first_ns = s.last_ns = at_ns;
      s.first_heard_ns = now_ns;
      s.first_waits = true;  // the stage around the mark, which may be the first to name the request, ends later
      if (s.begin_marked) observe_first(s);
      return;
    }
    if (at_ns < s.last_ns) return;  // came late: what lies before it was observed as one
    between_tokens.observe(at_ns - s.last_ns);
    s.last_ns = at_ns;
  }

  void observe_first(state& s) {
    s.first_waits = false;
    if (s.begin_ns <= s.first_ns) first_token.observe(elapsed(s.begin_ns, s.first_ns));
  }
  static std::int64_t elapsed(std::int64_t from_ns, std::int64_t to_ns) noexcept {
    std::int64_t d = 0;
    return __builtin_sub_overflow(to_ns, from_ns, &d) ? INT64_MAX : d;
  }

  /// The half that was silent longest goes.
  CUTRACE_NOINLINE void make_room() {
    std::vector<std::uint64_t> heard;
    for (const auto& r : requests_) heard.push_back(r.second.heard_ns);
    const auto middle = heard.begin() + static_cast<std::ptrdiff_t>(heard.size() / 2);
    std::nth_element(heard.begin(), middle, heard.end());
    const std::uint64_t limit = *middle;
    std::size_t left = heard.size() / 2;  // many may have been heard of at the same time
    for (auto at = requests_.begin(); at != requests_.end() && left > 0;) {
      if (at->second.heard_ns > limit) {
        ++at;
        continue;
      }
      if (at->second.first_waits) observe_first(at->second);
      ++forgotten;
      --left;
      at = requests_.erase(at);
    }
  }

  std::uint64_t quiet_ns_;
  std::unordered_map<std::uint64_t, state> requests_;
};

}  // namespace prometheus
CUTRACE_END_NAMESPACE
