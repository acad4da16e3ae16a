// SPDX-License-Identifier: Apache-2.0
// What each request cost, found while the trace runs, for session::on_request_done; the definitions are those of
// tools/report/request_costs.hpp. Fed event by event in the order of delivery; a request is reported once, when done:
//
//   a stage settles       when it ended, the last launch made in it has GPU work, and the trace went on for `settle_ns`
//                         after the last event of the stage
//   a request is done     when all of its stages have settled, and CUTRACE_MARK("request_end", id) marked its end or no
//                         event of it came for `quiet_ns`
//
// The costs are those that `cutrace report` would find in the events delivered up to that time. An id that comes back
// later is a new request. Memory is fixed: what finds no room is given up early and called unfinished or approximate.
// One thread at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cutrace/analysis/category.hpp>
#include <cutrace/analysis/interval_set.hpp>
#include <cutrace/analysis/names.hpp>
#include <cutrace/analysis/stage_work.hpp>
#include <cutrace/analysis/token_times.hpp>
#include <cutrace/config.hpp>
#include <cutrace/request_done.hpp>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace analysis {

// How long request_watch waits, and how much it keeps.

/// Times are trace time, in ns. With these numbers everything that is kept stays below 48 MiB.
struct request_watch_limits {
  std::int64_t settle_ns = 250000000;
  std::int64_t quiet_ns = 1000000000;
  std::int64_t missing_ns = 2000000000;    ///< after which a launch without GPU work is waited for no longer
  std::int64_t give_up_ns = 600000000000;  ///< after which a stage is given up that neither ends nor does anything
  std::size_t requests = 4096;             ///< open at a time
  std::size_t stages = 2048;               ///< instances that have not settled
  std::size_t calls = 65536;               ///< host calls whose end is remembered
  std::size_t launches = 131072;           ///< launches whose time in the queue is not known yet
  std::size_t busy_stretches = 32768;      ///< of the GPU
};

class request_watch {
 public:
  explicit request_watch(const request_watch_limits& limits = {})
      : limits_(limits), calls_(limits.calls), busy_(limits.busy_stretches, 4096) {}

  void add(const event& e) {
    const interval v = clip(interval_of(e), {0, INT64_MAX});
    switch (e.kind) {
      case event_kind::api:
      case event_kind::jit:
        return add_call(e, v);
      case event_kind::kernel:
      case event_kind::memcpy:
      case event_kind::memset:
      case event_kind::graph_launch:
        gpu_seen_ = true;
        busy_.insert(v);
        return add_work(e, v);
      case event_kind::stage:
        return add_stage(e, v);
      case event_kind::mark:
        return add_mark(e, v);
      case event_kind::window:
        recorded_.insert(v);
        return;
      case event_kind::loss:
        lost_ += e.loss.count;
        return;
      default:
        return;
    }
  }

  /// Settles what can be settled. All events that end before `horizon_ns` must have been added, late ones aside.
  void advance(std::int64_t horizon_ns) {
    if (horizon_ns < next_scan_ns_) return;
    next_scan_ns_ = horizon_ns + limits_.settle_ns / 8;
    for (auto at = stages_.begin(); at != stages_.end();) {
      watched_stage& s = at->second;
      const std::int64_t silent_ns = horizon_ns - s.last_ns;
      const bool waits = gpu_seen_ && s.waits_for_work();
      if (silent_ns < (!s.ended ? limits_.give_up_ns : waits ? limits_.missing_ns : limits_.settle_ns)) {
        ++at;
        continue;
      }
      settle(s, waits);
      at = stages_.erase(at);
    }
    last_stage_ = nullptr;
    const std::size_t first = done_.size();
    for (auto at = requests_.begin(); at != requests_.end();) {
      open_request& r = at->second;
      if (r.open != 0 || (!r.end_marked && horizon_ns - r.last_ns < limits_.quiet_ns)) {
        ++at;
        continue;
      }
      report(r);
      at = requests_.erase(at);
    }
    sort_done(first);
  }

  /// The trace has ended: reports all requests.
  CUTRACE_NOINLINE void finish() {
    for (auto& s : stages_) settle(s.second, gpu_seen_ && s.second.waits_for_work());
    stages_.clear();
    last_stage_ = nullptr;
    const std::size_t first = done_.size();
    for (auto& r : requests_) report(r.second);
    sort_done(first);
    requests_.clear();
  }

  /// Requests that are done, in the order in which they were reported; those reported by one call, by their ends. The
  /// reader must call `clear_done`.
  const std::vector<request_done>& done() const noexcept { return done_; }
  void clear_done() noexcept { done_.clear(), done_names_.clear(); }
  /// Events of requests that had been reported already, too old to be another request of the same id.
  std::uint64_t too_late() const noexcept { return too_late_; }
  std::size_t open_requests() const noexcept { return requests_.size(); }
  std::size_t open_stages() const noexcept { return stages_.size(); }

 private:
  struct watched_stage {
    std::uint64_t id = 0;
    std::vector<std::uint64_t> requests;
    std::uint32_t total = 0;
    bool ended = false;
    bool again = false;  ///< had settled before: only its work counts
    bool approximate = false;
    bool untimed_work = false;  ///< a record of its work was fetched before the work had ended
    interval when;
    interval parts{INT64_MAX, INT64_MIN};  ///< from the first begin to the last end of adopted parts
    stage_work work;
    std::uint64_t late = 0;
    std::int64_t last_ns = INT64_MIN;
    std::int64_t launch_ns = INT64_MIN;  ///< begin of the newest launch; `worked_ns`: of the newest with work
    std::int64_t worked_ns = INT64_MIN;
    std::uint64_t launch_correlation = 0, worked_correlation = 0;

    bool waits_for_work() const noexcept { return launch_ns > worked_ns && launch_correlation != worked_correlation; }
  };
  struct open_request {
    request_done numbers;
    std::unique_ptr<char[]> name;  ///< text of `numbers.name`; events' names live only while sinks write them
    interval_set host{32, 64};
    std::uint32_t open = 0;  ///< stages that have not settled
    std::int64_t last_ns = INT64_MIN;
    bool end_marked = false;
  };
  static constexpr std::size_t remembered = 4096;

  static std::uint64_t thread_of(const event& e) noexcept { return std::uint64_t{e.process_id} << 32 | e.thread_id; }
  static std::size_t place_of(std::uint64_t id) noexcept { return (id * 0x9E3779B97F4A7C15u >> 40) % remembered; }

  /// An event whose list of requests was forgotten under the memory limit has the number: its stage is known by others.
  static bool serves_requests(const event& e) noexcept { return (e.request_total | e.request_count) != 0; }

  void add_call(const event& e, interval v) {
    if (!serves_requests(e)) return;
    calls_.add(thread_of(e), v);
    watched_stage* s = stage_of(e, v.start_ns);
    if (s == nullptr) return;
    heard(*s, e, v.end_ns);
    if (e.kind != event_kind::api || e.api.result != 0 || v.start_ns < s->launch_ns || !launches(e.name)) return;
    s->launch_ns = v.start_ns;
    s->launch_correlation = e.correlation_id;
  }

  void add_work(const event& e, interval v) {
    if (!serves_requests(e)) return;
    const bool called = e.call_name.size != 0;
    const std::int64_t call_ns = called ? time_of(e.call_start_ns) : v.start_ns;
    watched_stage* s = stage_of(e, call_ns);
    if (s == nullptr) return;
    heard(*s, e, v.end_ns);
    if (CUTRACE_UNLIKELY(e.incomplete))
      s->untimed_work = true;
    else
      s->work.add(e, v);
    if (!called) return;
    if (call_ns >= s->worked_ns) {
      s->worked_ns = call_ns;
      s->worked_correlation = e.correlation_id;
    }
    if (CUTRACE_UNLIKELY(e.incomplete)) return;
    const std::size_t before = s->work.launches();
    s->work.add_launch(e.thread_id == 0 ? 0 : thread_of(e), call_ns, v.start_ns);
    launches_ += s->work.launches() - before;
    if (CUTRACE_UNLIKELY(launches_ > limits_.launches)) resolve_all();
  }

  void add_stage(const event& e, interval v) {
    if (!serves_requests(e)) return;
    watched_stage* s = stage_of(e, v.start_ns);
    if (s == nullptr) return;
    heard(*s, e, v.end_ns);
    if (e.stage.adopted) s->parts = {std::min(s->parts.start_ns, v.start_ns), std::max(s->parts.end_ns, v.end_ns)};
    if (e.stage.adopted || s->ended) return;
    s->when = v;
    s->ended = true;
  }

  void add_mark(const event& e, interval v) {
    if (e.is_cuda_event() || !is_request_end({e.name.data, e.name.size})) return;
    for (std::uint32_t i = 0; i < e.request_count; ++i) {
      const auto found = requests_.find(e.requests[i].id);
      if (found == requests_.end()) continue;
      found->second.end_marked = true;
      found->second.last_ns = std::max(found->second.last_ns, v.end_ns);
    }
  }

  static void heard(watched_stage& s, const event& e, std::int64_t end_ns) noexcept {
    s.last_ns = std::max(s.last_ns, end_ns);
    s.late += e.late;
  }

  bool launches(text name) {
    const std::uint32_t n = names_.number(name);
    if (n >= launches_by_name_.size()) launches_by_name_.resize(names_.size(), unknown);
    std::uint8_t& known = launches_by_name_[n];
    if (known == unknown) known = n != name_table::others && traits_of_call(name).launches;
    return known == 1;
  }

  /// The event's stage; nullptr where all its requests have been reported, or none is known.
  /// @param begin_ns begin of what the host did
  watched_stage* stage_of(const event& e, std::int64_t begin_ns) {
    if (e.stage_id == 0) return nullptr;
    if (CUTRACE_LIKELY(last_stage_ != nullptr && last_stage_->id == e.stage_id)) return last_stage_;
    const auto found = stages_.find(e.stage_id);
    return last_stage_ = found != stages_.end() ? &found->second : new_stage(e, begin_ns);
  }

  CUTRACE_ONE_COPY watched_stage* new_stage(const event& e, std::int64_t begin_ns) {
    std::vector<std::uint64_t> wanted;
    for (std::uint32_t i = 0; i < e.request_count; ++i)
      if (std::find(wanted.begin(), wanted.end(), e.requests[i].id) == wanted.end()) wanted.push_back(e.requests[i].id);
    const std::uint32_t repeats = e.request_count - static_cast<std::uint32_t>(wanted.size());
    const auto comes_late = [&](std::uint64_t id) {
      const reported& t = reported_[place_of(id)];
      return t.id == id && t.is && begin_ns <= t.until_ns && requests_.find(id) == requests_.end();
    };
    const auto late = std::remove_if(wanted.begin(), wanted.end(), comes_late);
    too_late_ += static_cast<std::uint64_t>(wanted.end() - late);
    wanted.erase(late, wanted.end());
    if (wanted.empty()) return nullptr;
    if (stages_.size() >= limits_.stages) make_room_for_stages();
    if (requests_.size() + wanted.size() > limits_.requests) make_room_for_requests();
    watched_stage& s = stages_[e.stage_id];
    s.id = e.stage_id;
    s.total = std::max(e.request_total, e.request_count) - repeats;
    s.again = s.ended = s.approximate = settled_[place_of(e.stage_id)] == e.stage_id;
    for (const std::uint64_t id : wanted) {
      open_request& r = requests_[id];
      if (r.numbers.stages == 0 && r.open == 0) begin(r, e, id);
      ++r.open;
    }
    s.requests = std::move(wanted);
    return &s;
  }

  void begin(open_request& r, const event& e, std::uint64_t id) {
    r.numbers.id = id;
    for (std::uint32_t i = 0; i < e.request_count; ++i) {
      const text name = e.requests[i].name;
      if (e.requests[i].id != id || name.size == 0) continue;
      r.name.reset(new char[name.size + 1]());
      std::copy_n(name.data, name.size, r.name.get());
      r.numbers.name = {r.name.get(), name.size};
    }
    r.numbers.start_ns = INT64_MAX;
    r.numbers.end_ns = INT64_MIN;
    r.numbers.lost = lost_;
  }

  void settle(watched_stage& s, bool work_missing) {
    launches_ -= s.work.launches();
    if (!s.work.resolve(calls_) || s.work.approximate()) s.approximate = true;
    settled_[place_of(s.id)] = s.id;
    for (const std::uint64_t id : s.requests) {
      open_request& r = requests_.find(id)->second;
      --r.open;
      r.last_ns = std::max(r.last_ns, s.last_ns);
      add_to(r, s);
      r.numbers.work_missing = r.numbers.work_missing || work_missing || s.untimed_work;
    }
  }

  void add_to(open_request& r, const watched_stage& s) {
    request_done& c = r.numbers;
    c.late += s.late;
    c.unfinished = c.unfinished || !s.ended;
    c.approximate = c.approximate || s.approximate;
    if (!s.ended && s.work.until_ns() == INT64_MIN && s.parts.end_ns == INT64_MIN) return;
    c.end_ns = std::max({c.end_ns, s.work.until_ns(), s.parts.end_ns});
    c.start_ns = std::min(c.start_ns, s.parts.start_ns);
    if (!s.again) {
      ++c.stages;
      c.batches += s.total > 1;
      if (s.ended) add_host(r, s.when);
    }
    add_ns(c.queue_ns, s.work.queue_ns());
    if (s.total <= 1) {
      add_ns(c.execution_alone_ns, s.work.execution_ns());
      add_ns(c.transfer_alone_ns, s.work.transfer_ns());
    } else {
      add_ns(c.execution_in_batches_ns, s.work.execution_ns());
      add_ns(c.transfer_in_batches_ns, s.work.transfer_ns());
      add_ns(c.estimated_share_ns, s.work.gpu_ns() / s.total);
    }
  }

  void add_host(open_request& r, interval when) {
    request_done& c = r.numbers;
    c.start_ns = std::min(c.start_ns, when.start_ns);
    c.end_ns = std::max(c.end_ns, when.end_ns);
    r.host.insert(when, [&](interval where, std::int64_t ns) {
      add_ns(c.host_ns, ns);
      const std::int64_t busy_ns = busy_.measure_ns(where);
      add_ns(c.idle_inside_ns, std::max<std::int64_t>(0, ns - busy_ns));
      if (busy_.folded() && where.start_ns < busy_.settled_until_ns() && busy_ns != 0 && busy_ns != ns)
        c.approximate = true;
    });
    // The trace was paused inside of it. A window is known when it has ended, so that the next one may be open yet.
    const std::int64_t recorded_ns = recorded_.measure_ns(when);
    const bool paused = recorded_ns != 0 && recorded_ns != when.length_ns();
    c.approximate = c.approximate || paused || r.host.approximate();
  }

  void report(open_request& r) {
    request_done& c = r.numbers;
    if (c.end_ns == INT64_MIN) c.end_ns = std::max<std::int64_t>(0, r.last_ns);  // only host calls of a lost stage
    if (c.start_ns == INT64_MAX) c.start_ns = c.end_ns;                          // no stage of it has ended
    c.lost = lost_ - c.lost;
    reported_[place_of(c.id)] = {c.id, c.end_ns, true};
    done_names_.push_back(std::move(r.name));
    done_.push_back(c);
  }

  void sort_done(std::size_t first) {
    std::sort(done_.begin() + static_cast<std::ptrdiff_t>(first), done_.end(),
              [](const request_done& a, const request_done& b) {
                return a.end_ns != b.end_ns ? a.end_ns < b.end_ns : a.id < b.id;
              });
  }

  CUTRACE_NOINLINE void resolve_all() {
    for (auto& s : stages_)
      if (!s.second.work.resolve(calls_)) s.second.approximate = true;
    launches_ = 0;
  }

  /// The quarter that was silent longest goes, ended ones first.
  CUTRACE_NOINLINE void make_room_for_stages() {
    struct candidate {
      bool open;
      std::int64_t last_ns;
      std::uint64_t id;
    };
    std::vector<candidate> all;
    for (const auto& s : stages_) all.push_back({!s.second.ended, s.second.last_ns, s.first});
    std::sort(all.begin(), all.end(),
              [](const candidate& a, const candidate& b) { return a.open != b.open ? b.open : a.last_ns < b.last_ns; });
    for (std::size_t i = 0; i < all.size() / 4 + 1 && i < all.size(); ++i) {
      const auto at = stages_.find(all[i].id);
      settle(at->second, false);
      stages_.erase(at);
    }
    last_stage_ = nullptr;
  }

  /// Reports the quarter of requests silent longest. Their stages settle, also for other requests that they serve.
  CUTRACE_NOINLINE void make_room_for_requests() {
    for (const auto& s : stages_)
      for (const std::uint64_t id : s.second.requests) {
        open_request& r = requests_.find(id)->second;
        r.last_ns = std::max(r.last_ns, s.second.last_ns);
      }
    std::vector<std::pair<std::int64_t, std::uint64_t>> all;
    for (const auto& r : requests_) all.push_back({r.second.last_ns, r.first});
    std::sort(all.begin(), all.end());
    all.resize(std::min(all.size(), all.size() / 4 + 1));
    detail::seeded_set<std::uint64_t> leaving;
    for (const auto& one : all) {
      leaving.insert(one.second);
      open_request& r = requests_.find(one.second)->second;
      r.numbers.unfinished = r.numbers.unfinished || r.open != 0;
    }
    const auto leaves = [&](std::uint64_t id) { return leaving.count(id) != 0; };
    for (auto s = stages_.begin(); s != stages_.end();) {
      const std::vector<std::uint64_t>& of = s->second.requests;
      if (std::none_of(of.begin(), of.end(), leaves)) {
        ++s;
        continue;
      }
      settle(s->second, false);
      s = stages_.erase(s);
    }
    last_stage_ = nullptr;
    for (const auto& one : all) {
      const auto at = requests_.find(one.second);
      report(at->second);
      requests_.erase(at);
    }
  }

  struct reported {
    std::uint64_t id = 0;
    std::int64_t until_ns = INT64_MIN;
    bool is = false;
  };
  static constexpr std::uint8_t unknown = 2;

  request_watch_limits limits_;
  outer_calls calls_;
  interval_set busy_;
  interval_set recorded_{4096};  ///< windows that have ended
  std::unordered_map<std::uint64_t, watched_stage> stages_;
  detail::seeded_map<std::uint64_t, open_request> requests_;  ///< their ids may be chosen by a client
  watched_stage* last_stage_ = nullptr;
  name_table names_{1024, 64u << 10};
  std::vector<std::uint8_t> launches_by_name_;  ///< by number of the name: 1, 0 or `unknown`
  std::size_t launches_ = 0;                    ///< of all stages, not yet resolved
  std::uint64_t lost_ = 0;
  std::uint64_t too_late_ = 0;
  bool gpu_seen_ = false;
  std::int64_t next_scan_ns_ = INT64_MIN;
  std::vector<request_done> done_;
  std::vector<std::unique_ptr<char[]>> done_names_;
  std::vector<reported> reported_ = std::vector<reported>(remembered);  ///< by place_of(id): the newest of each place
  std::vector<std::uint64_t> settled_ = std::vector<std::uint64_t>(remembered);
};

}  // namespace analysis
CUTRACE_END_NAMESPACE
