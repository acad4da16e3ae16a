// SPDX-License-Identifier: Apache-2.0
// All numbers of the Prometheus sink, gathered event by event in bounded memory; page.hpp makes the page that shows
// them. What each metric means: docs/prometheus.md.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cutrace/analysis/category.hpp>
#include <cutrace/analysis/interval_set.hpp>
#include <cutrace/analysis/names.hpp>
#include <cutrace/analysis/token_times.hpp>
#include <cutrace/event.hpp>
#include <cutrace/sinks/prometheus/runs.hpp>
#include <cutrace/sinks/prometheus/text.hpp>
#include <cutrace/stats.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace prometheus {

// Requests as a serving dashboard sees them: time to the first token, and between tokens (token_times.hpp).

class request_table {
 public:
  explicit request_table(std::uint64_t quiet_ns) : quiet_ns_(quiet_ns) {}

  void add_stage(const event& e, std::uint64_t now_ns) {
    for (std::uint32_t i = 0; i < e.request_count; ++i) {
      of(e.requests[i].id, now_ns).times.stage(e.start_ns);
    }
  }

  void add_mark(const event& e, std::uint64_t now_ns) {
    const std::string_view name(e.name.data, e.name.size);
    const bool begin = analysis::is_request_begin(name), token = analysis::is_token(name);
    if (!begin && !token && !analysis::is_request_end(name)) return;
    for (std::uint32_t i = 0; i < e.request_count; ++i) {
      if (!begin && !token) {
        end(e.requests[i].id, e.start_ns);
        continue;
      }
      state& s = of(e.requests[i].id, now_ns);
      if (begin) {
        if (s.times.is_over(e.start_ns)) start_anew(s, now_ns);
        s.times.begin(e.start_ns);
      } else {
        take_token(s, e.start_ns, now_ns);
      }
    }
  }

  /// Observes a first token `quiet_ns` after it came, when the stages around it have ended, and forgets requests that
  /// had no stage and no mark for ten minutes.
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
    analysis::token_times times;
    std::uint64_t heard_ns = 0;        ///< time of its last stage or mark, by the collector's clock
    std::uint64_t first_heard_ns = 0;  ///< time of its first token, by the same clock
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

  void end(std::uint64_t id, std::int64_t at_ns) {
    const auto found = requests_.find(id);
    if (found != requests_.end()) found->second.times.end(at_ns);
  }
  void start_anew(state& s, std::uint64_t now_ns) {
    if (s.first_waits) observe_first(s);
    ++requests;
    s = {};
    s.heard_ns = now_ns;
  }

  void take_token(state& s, std::int64_t at_ns, std::uint64_t now_ns) {
    ++tokens;
    const std::int64_t gap_ns = s.times.token(at_ns);
    if (s.times.tokens == 1) {
      s.first_heard_ns = now_ns;
      s.first_waits = true;  // the stage around the mark, which may be the first to name the request, ends later
      if (s.times.begin_marked) observe_first(s);
    } else if (gap_ns >= 0) {
      between_tokens.observe(gap_ns);
    }
  }

  void observe_first(state& s) {
    s.first_waits = false;
    if (s.times.to_first_ns() >= 0) first_token.observe(s.times.to_first_ns());
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
  detail::seeded_map<std::uint64_t, state> requests_;  // seeded: a client may choose the numbers
};

// Names as labels, a bounded number of them: each series costs a scraper memory for ever, so names beyond the limit
// share one series, and how often that happened is counted.

class label_table {
 public:
  static constexpr std::uint32_t other = 0;  ///< "other": every name beyond the limit
  static constexpr std::uint32_t none = 1;   ///< "none": no name

  explicit label_table(std::size_t limit) : names_(limit, limit * analysis::name_table::longest) {
    label("other");
    label("none");
    label_of_name_.push_back(other);
  }

  /// Number of the label of `name`. Different names may share a label, since label_value changes and cuts them.
  std::uint32_t number(text name) {
    if (name.size == 0) return none;
    const std::uint32_t n = names_.number(name);
    if (CUTRACE_UNLIKELY(n == label_of_name_.size()))
      label_of_name_.push_back(label(label_value({name.data, name.size})));
    return label_of_name_[n];
  }

  std::size_t size() const noexcept { return labels_.size(); }
  const std::string& operator[](std::size_t number) const { return labels_[number]; }
  /// Events whose name found no room.
  std::uint64_t folded() const noexcept { return names_.refused(); }

 private:
  CUTRACE_NOINLINE std::uint32_t label(const std::string& value) {
    const auto added = numbers_.emplace(value, static_cast<std::uint32_t>(labels_.size()));
    if (added.second) labels_.push_back(value);
    return added.first->second;
  }

  analysis::name_table names_;
  std::vector<std::uint32_t> label_of_name_;  ///< by number of the name
  std::vector<std::string> labels_;
  detail::seeded_map<std::string, std::uint32_t> numbers_;
};

/// Devices by index, as labels: the first 16 that are seen, "other" for the rest.
class device_table {
 public:
  static constexpr std::size_t most = 16;
  static constexpr std::uint32_t other = most;

  std::uint32_t number(std::uint32_t device) {
    for (std::uint32_t i = 0; i < devices_.size(); ++i) {
      if (devices_[i] == device) return i;
    }
    if (devices_.size() == most) return other;
    devices_.push_back(device);
    return static_cast<std::uint32_t>(devices_.size() - 1);
  }
  std::string label(std::size_t number) const {
    return number == other ? std::string("other") : std::to_string(devices_[number]);
  }

 private:
  std::vector<std::uint32_t> devices_;
};

constexpr std::size_t copy_directions = static_cast<std::size_t>(copy_direction::peer) + 1;

/// Numbers of one stage on one device.
struct stage_work {
  histogram gpu_busy;
  histogram launch_delay;
  std::uint64_t kernels = 0;
};
struct stage_numbers {
  histogram host;
  histogram gpu_idle;
  std::array<std::unique_ptr<stage_work>, device_table::most + 1> on;  ///< by number of the device
};
struct device_numbers {
  std::array<std::uint64_t, analysis::category_count> operations{};
  std::array<std::uint64_t, copy_directions> copies{}, copy_bytes{};
  analysis::interval_set busy{1024};
  std::uint64_t live_bytes = 0;
};
struct user_value {
  bool known = false;
  bool gauge = false;
  std::int64_t value = 0;
};

/// One thread. `now_ns`: any monotonic clock in ns; it only measures for how long a run or a request had no event.
class metrics {
 public:
  /// @param stage_limit how many stage names get series of their own, and how many names of the program's counters
  metrics(std::size_t stage_limit, std::uint64_t quiet_ns)
      : stage_labels(stage_limit), user_labels(stage_limit), requests(quiet_ns), runs_(quiet_ns) {}

  void add(const event& e, std::uint64_t now_ns) {
    ++events;
    if (CUTRACE_UNLIKELY(e.stage_id != 0 && e.stage_name.size == 0 && e.kind != event_kind::mark)) ++without_stage;
    if (CUTRACE_UNLIKELY(e.request_total != 0 && e.request_count == 0)) ++without_requests;
    if (e.is_gpu_work()) return add_gpu_work(e, now_ns);
    switch (e.kind) {
      case event_kind::stage:
        add_stage(e, now_ns);
        break;
      case event_kind::mark:
        requests.add_mark(e, now_ns);
        break;
      case event_kind::api:
        ++calls[static_cast<std::size_t>(category_of_call(e))];
        if (analysis::call_failed(e)) ++failed_calls;
        break;
      case event_kind::alarm:
        if (e.alarm.rank == 1) ++(e.alarm.what.size != 0 && *e.alarm.what.data == 'f' ? faults : hangs);
        break;
      case event_kind::memory:
        add_memory(e);
        break;
      case event_kind::counter:
        add_counter(e);
        break;
      case event_kind::loss: {
        const std::size_t cause = static_cast<std::size_t>(e.loss.cause);
        if (cause < loss_cause_count) lost[cause] = saturated_sum(lost[cause], e.loss.count);
        break;
      }
      default:
        break;
    }
  }

  /// Observes what is complete by now. About once a second.
  void settle(std::uint64_t now_ns) {
    runs_.settle(now_ns, [this](const run& r) { observe(r); });
    requests.settle(now_ns);
  }
  /// Observes everything; at the end.
  void settle_all() {
    runs_.settle_all([this](const run& r) { observe(r); });
    requests.settle_all();
  }

  device_numbers& device(std::uint32_t number) {
    std::unique_ptr<device_numbers>& d = devices[number];
    if (d == nullptr) d.reset(new device_numbers());
    return *d;
  }

  label_table stage_labels;
  label_table user_labels;
  device_table device_labels;
  std::vector<std::unique_ptr<stage_numbers>> stages;                           ///< by number of the label
  std::array<std::unique_ptr<device_numbers>, device_table::most + 1> devices;  ///< by number of the device
  std::vector<user_value> user_values;                                          ///< by number of the label
  request_table requests;
  std::array<std::uint64_t, analysis::category_count> calls{};
  std::array<std::uint64_t, loss_cause_count> lost{};
  std::uint64_t events = 0, failed_calls = 0, unattributed = 0, skewed = 0, untimed = 0, incomplete = 0, faults = 0,
                hangs = 0, without_stage = 0, without_requests = 0;
  std::uint64_t pinned_live_bytes = 0, allocations_not_followed = 0;

 private:
  struct allocation {
    std::uint64_t bytes = 0;
    std::uint32_t device = 0;
    bool pinned = false;
  };
  static constexpr std::size_t allocations_most = 65536;

  stage_numbers& stage(std::uint32_t number) {
    if (number >= stages.size()) stages.resize(number + std::size_t{1});
    if (stages[number] == nullptr) stages[number].reset(new stage_numbers());
    return *stages[number];
  }
  stage_work& work(std::uint32_t stage_number, std::uint32_t device_number) {
    std::unique_ptr<stage_work>& w = stage(stage_number).on[device_number];
    if (w == nullptr) w.reset(new stage_work());
    return *w;
  }

  void add_stage(const event& e, std::uint64_t now_ns) {
    requests.add_stage(e, now_ns);
    if (e.stage.adopted) return;  // a run's part on another thread; the run itself has another event
    const std::uint32_t n = stage_labels.number(e.name);
    const analysis::interval v = analysis::interval_of(e);
    stage(n).host.observe(v.length_ns());
    if (e.stage_id != 0) runs_.end(e.stage_id, n, v, now_ns, [this](const run& r) { observe(r); });
  }

  void add_gpu_work(const event& e, std::uint64_t now_ns) {
    const std::uint32_t d = device_labels.number(e.device);
    device_numbers& on = device(d);
    const std::uint32_t n = stage_labels.number(e.stage_name);
    stage_work& w = work(n, d);
    ++on.operations[static_cast<std::size_t>(analysis::category_of(e))];
    if (e.kind == event_kind::kernel) ++w.kernels;
    if (e.kind == event_kind::memcpy) {
      const std::size_t direction = static_cast<std::size_t>(e.memcpy_.direction) % copy_directions;
      ++on.copies[direction];
      on.copy_bytes[direction] = saturated_sum(on.copy_bytes[direction], e.memcpy_.bytes);
    }
    const bool call_known = e.joined == attribution::by_call || e.joined == attribution::outside_stage;
    if (!call_known && e.joined != attribution::none) ++unattributed;
    if (e.skewed) ++skewed;
    if (CUTRACE_UNLIKELY(e.incomplete)) {  // how long it ran is not known
      ++incomplete;
      return;
    }
    // CUPTI had no room for its times: the collector delivers it as an instant at its call. Without a call, any work
    // that took less than a clock's tick looks so.
    const bool without_call = e.joined == attribution::no_callback || e.joined == attribution::expired;
    if (e.start_ns == e.end_ns && e.start_ns == e.call_start_ns && !without_call) {
      ++untimed;
      return;
    }
    const analysis::interval v = analysis::interval_of(e);
    on.busy.insert(v);
    any_busy_.insert(v);
    if (call_known && !e.skewed && e.call_start_ns <= e.start_ns && !later_node(e)) {
      const analysis::interval delay =
          analysis::clip({e.call_start_ns, e.start_ns}, {v.start_ns - hour_ns, v.start_ns});
      w.launch_delay.observe(delay.length_ns());
    }
    if (e.stage_id != 0) runs_.work(e.stage_id, n, d, v, now_ns, [this](const run& r) { observe(r); });
  }

  /// All nodes of a graph's replay share one call, and wait for each other rather than for their launch: the first one
  /// to come shows the delay.
  bool later_node(const event& e) noexcept {
    const std::uint64_t graph = e.kind == event_kind::kernel   ? e.kernel.graph_id
                                : e.kind == event_kind::memcpy ? e.memcpy_.graph_id
                                : e.kind == event_kind::memset ? e.memset_.graph_id
                                                               : 0;
    if (graph == 0) return false;
    std::uint64_t& last = replays_[e.correlation_id % replays_.size()];
    return std::exchange(last, e.correlation_id) == e.correlation_id;
  }

  void observe(const run& r) {
    if (r.device != run::none) work(r.stage, r.device).gpu_busy.observe(r.gpu.length_ns());
    // Without any GPU record the GPU's time is unknown, not idle.
    if (r.whole && !any_busy_.empty())
      stage(r.stage).gpu_idle.observe(std::max<std::int64_t>(0, r.host.length_ns() - any_busy_.measure_ns(r.host)));
  }

  analysis::category category_of_call(const event& e) {
    const std::uint32_t n = call_names_.number(e.name);
    if (n == analysis::name_table::others) return analysis::category_of(e);
    if (n >= call_categories_.size()) call_categories_.resize(n + std::size_t{1}, unknown_category);
    std::uint8_t& c = call_categories_[n];
    if (c == unknown_category) c = static_cast<std::uint8_t>(analysis::category_of(e));
    return static_cast<analysis::category>(c);
  }

  void add_memory(const event& e) {
    const std::uint32_t d = device_labels.number(e.device);
    const auto known = live_.find(e.memory.address);
    if (known != live_.end()) {  // freed; or allocated again, and so freed without an event
      std::uint64_t& bytes = known->second.pinned ? pinned_live_bytes : device(known->second.device).live_bytes;
      bytes -= std::min(bytes, known->second.bytes);
      live_.erase(known);
    }
    if (e.memory.operation == memory_operation::free) return;
    if (live_.size() >= allocations_most) {
      ++allocations_not_followed;
      return;
    }
    const bool pinned = analysis::in_host_memory(e);
    live_[e.memory.address] = {e.memory.bytes, d, pinned};
    std::uint64_t& bytes = pinned ? pinned_live_bytes : device(d).live_bytes;
    bytes = saturated_sum(bytes, e.memory.bytes);
  }

  void add_counter(const event& e) {
    const std::uint64_t folded = user_labels.folded();
    const std::uint32_t n = user_labels.number(e.name);  // that of "other" also where the program calls a counter so
    if (user_labels.folded() != folded) return;          // values of different names have no sum
    if (n >= user_values.size()) user_values.resize(n + std::size_t{1});
    user_values[n] = {true, e.counter.gauge, e.counter.value};
  }

  static constexpr std::uint8_t unknown_category = 0xFF;
  static constexpr std::int64_t hour_ns = 3600000000000;

  run_table runs_;
  analysis::interval_set any_busy_{65536};
  analysis::name_table call_names_{1024, 64 * 1024};
  std::vector<std::uint8_t> call_categories_;
  std::array<std::uint64_t, 256> replays_{};
  detail::seeded_map<std::uint64_t, allocation> live_;
};

}  // namespace prometheus
CUTRACE_END_NAMESPACE
