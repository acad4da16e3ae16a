// SPDX-License-Identifier: Apache-2.0
// What the analyses keep of a trace: of each event only the 30 to 60 bytes that they need, once for all analyses. Fed
// event by event, then sealed; after that the analyses are pure functions of the log.
//
// Memory grows with the trace (about 45 bytes an event): a file is one log, and a sink, which must stay small for any
// length, has one log after the other (idle_watch).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cutrace/analysis/category.hpp>
#include <cutrace/analysis/containers.hpp>
#include <cutrace/analysis/gpu_work.hpp>
#include <cutrace/analysis/intervals.hpp>
#include <cutrace/analysis/names.hpp>
#include <cutrace/analysis/stage_log.hpp>
#include <map>
#include <string>
#include <tuple>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace analysis {

// Host calls as a trace has them, 32 bytes each, by thread: of nested calls (the runtime's around the driver's) the
// outermost, so that a thread's list is in order and without overlap.

struct host_call {
  interval when;
  std::uint32_t name = 0;
  std::uint32_t stage = 0;        ///< stage_log number
  std::uint32_t correlation = 0;  ///< CUPTI's 32-bit id, without the count of its wraps
  category is = category::other;
  bool failed = false;
};

class thread_calls {
 public:
  /// In the order of delivery, which is that of the ends: a nested call comes before the one around it.
  void add(host_call c) {
    while (!calls_.empty() && is_nested(calls_.back().when, c.when)) {
      const host_call& inside = calls_.back();
      if (inside.is != c.is) inner_.push_back(inside);
      if (c.correlation == 0) c.correlation = inside.correlation;
      calls_.truncate(calls_.size() - 1);
    }
    if (!calls_.empty() && c.when.start_ns < calls_.back().when.end_ns) ordered_ = false;
    calls_.push_back(c);
  }

  /// Puts what came late into its place. Call it once, when all is added.
  CUTRACE_ONE_COPY void seal() {
    sort(inner_);
    if (ordered_) return;
    sort(calls_);
    std::size_t kept = 0;
    for (std::size_t i = 0; i < calls_.size(); ++i) {
      host_call c = calls_[i];
      if (kept > 0) {
        c.when.start_ns = std::max(c.when.start_ns, calls_[kept - 1].when.end_ns);
        if (calls_[i].when.empty() ? is_nested(calls_[i].when, calls_[kept - 1].when) : c.when.empty()) {
          if (c.is != calls_[kept - 1].is) inner_.push_back(calls_[i]);
          continue;
        }
        c.when.end_ns = std::max(c.when.start_ns, c.when.end_ns);
      }
      calls_[kept++] = c;
    }
    calls_.truncate(kept);
    sort(inner_);
    ordered_ = true;
  }

  const chunked<host_call>& calls() const noexcept { return calls_; }
  /// Nested calls of another category than the call around them, by start: loading a module inside of a launch.
  const chunked<host_call>& inner() const noexcept { return inner_; }

  template <class Each>
  void for_each(Each&& each) {
    for (chunked<host_call>* list : {&calls_, &inner_})
      for (std::size_t i = 0; i < list->size(); ++i) each((*list)[i]);
  }

  /// First call that ends after `t_ns`; `size()` where there is none. @param hint a place near it.
  std::size_t ending_after(std::int64_t t_ns, std::size_t hint) const noexcept {
    return search_near(calls_.size(), hint, [&](std::size_t i) { return calls_[i].when.end_ns <= t_ns; });
  }

  std::size_t memory_bytes() const noexcept { return calls_.memory_bytes() + inner_.memory_bytes(); }

 private:
  static CUTRACE_ONE_COPY void sort(chunked<host_call>& list) {
    // A call without length comes before a longer one that begins when it does, since it is not nested in that one.
    const auto before = [](const host_call& a, const host_call& b) {
      if (a.when.start_ns != b.when.start_ns) return a.when.start_ns < b.when.start_ns;
      if (a.when.empty() != b.when.empty()) return a.when.empty();
      return a.when.end_ns > b.when.end_ns;
    };
    bool sorted = true;
    for (std::size_t i = 1; i < list.size() && sorted; ++i) sorted = !before(list[i], list[i - 1]);
    if (sorted) return;
    std::vector<host_call> flat;
    flat.reserve(list.size());
    for (std::size_t i = 0; i < list.size(); ++i) flat.push_back(list[i]);
    std::sort(flat.begin(), flat.end(), before);
    for (std::size_t i = 0; i < flat.size(); ++i) list[i] = flat[i];
  }

  chunked<host_call> calls_;
  chunked<host_call> inner_;
  bool ordered_ = true;
};

/// A device as the trace describes it, and the order of its work.
struct device_work {
  std::uint32_t device = 0;
  bool described = false;
  std::string name;
  device_data about{};
  std::vector<std::uint32_t> order;  ///< places of its work in trace_log::work, by start; filled by `seal`
};

class trace_log {
 public:
  /// As start of a trace whose file does not state it: the earliest begin of an event is taken, except of descriptions,
  /// losses, windows, system events and alarms.
  static constexpr std::int64_t first_event = INT64_MIN;
  /// Devices beyond `device_limit`, as only a broken file has, count as one device with this number.
  static constexpr std::uint32_t other_devices = UINT32_MAX;
  static constexpr std::size_t device_limit = 4096;  // a merge of 512 processes, each of which describes eight
  /// Streams beyond `stream_limit` share a lane with this stream number, one for each context.
  static constexpr std::uint64_t other_streams = UINT64_MAX;
  static constexpr std::size_t stream_limit = 60000;

  /// @param start_ns what began before is cut there, as in breakdown.hpp.
  /// @param name_bytes text of names that is kept, 0: all
  /// @param requests false: stages have no requests
  explicit trace_log(std::int64_t start_ns = 0, std::size_t name_bytes = 0, bool requests = true)
      : start_ns_(start_ns == first_event ? start_ns : time_of(start_ns)),
        names_(0, name_bytes),
        files_(0, name_bytes),
        stages_(requests) {
    threads_.emplace_back();  // of work whose thread is not known
    thread_keys_.push_back(0);
  }

  /// Takes over from the previous log what late work of its threads may need: the `most` stages that ended last, and
  /// the last `most` calls that can be why the host launched late (waits, blocking copies, allocations). To be called
  /// before the first event. @param before must be sealed
  CUTRACE_ONE_COPY void continue_from(const trace_log& before, std::size_t most) {
    std::vector<ended> last;
    for (const std::uint32_t n : before.stage_order_)
      last.push_back({before.stages_[n].when.end_ns, before.stages_[n].thread, n});
    stages_left_out_until_ = std::max(before.stages_left_out_until_, keep_last(last, most));
    for (std::size_t i = 0; i < before.stages_.parts().size(); ++i)  // of which none is taken
      stages_left_out_until_ = std::max(stages_left_out_until_, before.stages_.parts()[i].when.end_ns);
    for (const ended& l : last)
      stages_.take(before.stages_, static_cast<std::uint32_t>(l.index), before.names_, names_,
                   thread(before.thread_keys_[l.thread]));
    taken_stages_ = static_cast<std::uint32_t>(stages_.size() - 1);
    last.clear();
    others_left_out_until_ = before.others_left_out_until_;
    for (std::uint32_t t = 1; t < before.threads_.size(); ++t) {
      const chunked<host_call>& calls = before.threads_[t].calls();
      const std::int64_t left_out_ns = before.left_out_until(static_cast<std::uint16_t>(t));
      if (!calls.empty()) {
        const std::uint16_t here = thread(before.thread_keys_[t]);
        if (left_out_until_.size() <= here) left_out_until_.resize(here + 1u, INT64_MIN);
        left_out_until_[here] = std::max(left_out_ns, calls.back().when.end_ns);
      } else {  // threads may come and go without end: those that were silent have one time together
        others_left_out_until_ = std::max(others_left_out_until_, left_out_ns);
      }
      for (std::size_t i = 0; i < calls.size(); ++i) {
        const call_traits& is = before.traits_[calls[i].name].call;
        if (is.waits || is.blocks || is.allocates) last.push_back({calls[i].when.end_ns, t, i});
      }
    }
    keep_last(last, most);
    for (const ended& l : last) {
      host_call c = before.threads_[l.thread].calls()[l.index];
      const std::uint32_t name = names_.number(text_of(before.names_.name(c.name)));
      if (name == name_table::others) continue;
      if (name >= traits_.size()) traits_.resize(name + 1);
      traits_[name] = before.traits_[c.name];
      c.name = name;
      c.stage = stages_.take(before.stages_, c.stage, before.names_, names_);
      threads_[thread(before.thread_keys_[l.thread])].add(c);
    }
  }

  /// Events in the order of delivery; late ones are put into their place by `seal`.
  void add(const event& e) {
    interval v = clip(interval_of(e), {start_ns_, INT64_MAX});
    if (v.end_ns >= v.start_ns && !e.is_description()) last_ns_ = std::max(last_ns_, v.end_ns);
    v.end_ns = std::max(v.start_ns, v.end_ns);  // as recorded, an event may end before it begins
    if (e.kind < event_kind::process && e.kind != event_kind::loss) first_ns_ = std::min(first_ns_, v.start_ns);
    switch (e.kind) {
      case event_kind::api:
      case event_kind::jit:
        return add_call(e, v);
      case event_kind::kernel:
      case event_kind::memcpy:
      case event_kind::memset:
      case event_kind::graph_launch:
        return add_work(e, v);
      case event_kind::stage:
        return stages_.add(e, v, thread(e), site_of(e), names_);
      case event_kind::window:
        return add_recorded(v);
      case event_kind::device: {
        device_work& d = device(device_number(e.device));
        d.described = true;
        d.about = e.device_;
        d.name = std::string(e.name.data, std::min<std::size_t>(e.name.size, 128));
        return;
      }
      case event_kind::thread:
        return name_thread(e);
      case event_kind::loss:
        lost_[static_cast<std::size_t>(e.loss.cause) % loss_cause_count] += e.loss.count;
        return;
      default:
        return;
    }
  }

  /// Adds a recorded stretch of a trace that was not recorded all the time.
  void add_recorded(interval v) { windows_.push_back(v); }

  /// Sorts, and joins work with its calls. Nothing may be added afterwards. @param end_ns of the trace, where known.
  CUTRACE_ONE_COPY void seal(std::int64_t end_ns = INT64_MIN) {
    if (end_ns != INT64_MIN) last_ns_ = std::max(last_ns_, time_of(end_ns));
    for (thread_calls& t : threads_) t.seal();
    order_work();
    for (const auto& d : devices_) join(d.second.order);
    order_stages();
    place_calls();
    if (windows_.empty())
      windows_.push_back(window());
    else
      pieces_ = windows_.size();
    for (interval& v : windows_) v = clip(v, window());
    recorded_ = merged(std::move(windows_));
  }

  interval window() const noexcept {
    if (start_ns_ != first_event) return {start_ns_, std::max(start_ns_, last_ns_)};
    if (last_ns_ == INT64_MIN) return {};  // a file that says nothing of times
    return {std::min(first_ns_, last_ns_), last_ns_};
  }
  /// Merged. What was recorded of a trace that was paused or sampled, else the whole window.
  const std::vector<interval>& recorded() const noexcept { return recorded_; }
  std::int64_t recorded_ns() const noexcept {
    std::int64_t ns = 0;
    for (const interval v : recorded_) ns += v.length_ns();
    return ns;
  }
  /// Number of recorded stretches; 0 of a trace that was recorded all the time.
  std::size_t pieces() const noexcept { return pieces_; }
  /// Calls `each(interval)` for the parts of `v` that were recorded.
  /// @param hint where the search begins; set to the place found
  template <class Each>
  void for_recorded(interval v, std::size_t& hint, Each&& each) const {
    hint = search_near(recorded_.size(), hint, [&](std::size_t i) { return recorded_[i].end_ns <= v.start_ns; });
    for (std::size_t i = hint; i < recorded_.size() && recorded_[i].start_ns < v.end_ns; ++i)
      if (!clip(v, recorded_[i]).empty()) each(clip(v, recorded_[i]));
  }

  const chunked<gpu_work>& work() const noexcept { return work_; }
  const std::map<std::uint32_t, device_work>& devices() const noexcept { return devices_; }
  const std::vector<work_lane>& lanes() const noexcept { return lanes_; }
  const std::vector<thread_calls>& threads() const noexcept { return threads_; }
  std::uint32_t thread_id(std::uint16_t thread) const noexcept {
    return static_cast<std::uint32_t>(thread_keys_[thread]);
  }
  /// Name of the thread; empty where the trace has no name for it, or several.
  std::string thread_name(std::uint32_t id) const {
    const auto found = thread_names_.find(id);
    return found == thread_names_.end() ? std::string() : found->second;
  }
  /// Calls of `thread` that ended up to this time may be in an earlier log only.
  std::int64_t left_out_until(std::uint16_t thread) const noexcept {
    const bool own = thread < left_out_until_.size() && left_out_until_[thread] != INT64_MIN;
    return own ? left_out_until_[thread] : others_left_out_until_;
  }
  const stage_log& stages() const noexcept { return stages_; }
  /// Name of the stage of the call that the thread was in at `t_ns`; empty where it was in none. After `seal`.
  /// @param hint where the search begins; set to the place found
  const std::string& stage_of_call(std::uint32_t process, std::uint32_t thread, std::int64_t t_ns,
                                   std::size_t& hint) const {
    static const std::string nothing;
    if (stages_.size() == 1) return nothing;
    const auto found = thread_numbers_.find(std::uint64_t{process} << 32 | thread);
    if (found == thread_numbers_.end()) return nothing;
    const chunked<host_call>& calls = threads_[found->second].calls();
    t_ns = std::max(t_ns, start_ns_);  // calls are cut there
    hint = threads_[found->second].ending_after(t_ns, hint);
    // Some formats have calls without length, which do not end after their begin.
    const bool inside = hint < calls.size() && calls[hint].when.start_ns <= t_ns;
    const std::size_t at = inside ? hint : hint - 1;
    if (at >= calls.size() || calls[at].when.end_ns < t_ns) return nothing;
    const std::uint32_t stage = calls[at].stage;
    return stage != stage_log::none ? names_.name(stages_[stage].name) : nothing;
  }
  /// Stages up to this number had ended in a log before.
  std::uint32_t taken_stages() const noexcept { return taken_stages_; }
  /// Stages, or adopted parts of them, that ended up to this time may be in an earlier log only.
  std::int64_t stages_left_out_until() const noexcept { return stages_left_out_until_; }
  /// Numbers of the instances that ended, by start.
  const std::vector<std::uint32_t>& stage_order() const noexcept { return stage_order_; }
  const name_table& names() const noexcept { return names_; }
  /// By name number; meaningless for names of other things than calls.
  const call_traits& traits(std::uint32_t name) const noexcept { return traits_[name].call; }
  /// Where that instance of a stage is marked in the source, "server.cpp:120"; empty where the trace does not say.
  std::string site(std::uint32_t stage) const {
    const marker& m = sites_[stages_[stage].site];
    return m.line == 0 ? std::string() : files_.name(m.file) + ":" + std::to_string(m.line);
  }
  std::uint64_t lost(loss_cause c) const noexcept { return lost_[static_cast<std::size_t>(c)]; }
  std::uint64_t lost_total() const noexcept {
    std::uint64_t n = 0;
    for (const std::uint64_t v : lost_) n += v;
    return n;
  }

  /// The launching call. `when` ends at its start where only the start is known; `known` is false where nothing is.
  struct launch {
    bool known = false;
    interval when;
    const host_call* call = nullptr;  ///< nullptr where the call itself was not seen
  };
  launch launch_of(const gpu_work& w) const noexcept {
    if (w.call_is == call_reference::index) {
      const host_call& c = threads_[w.thread].calls()[static_cast<std::size_t>(w.call)];
      return {true, c.when, &c};
    }
    if (w.call_is == call_reference::start) return {true, {w.call, w.call}, nullptr};
    return {};
  }

  /// From the end of its launching call to the work's start; empty where it did not wait, or where either is not known.
  interval wait_of(const gpu_work& w) const noexcept {
    if (w.is == work_class::unfinished) return {};
    const launch l = launch_of(w);
    return l.known && l.when.end_ns < w.when.start_ns ? interval{l.when.end_ns, w.when.start_ns} : interval{};
  }

  std::size_t memory_bytes() const noexcept {
    std::size_t n = work_.memory_bytes() + stages_.memory_bytes() + 4 * stage_order_.capacity();
    for (const thread_calls& t : threads_) n += t.memory_bytes();
    for (const auto& d : devices_) n += 4 * d.second.order.capacity();
    return n;
  }

 private:
  /// A call or a stage, by its place.
  struct ended {
    std::int64_t end_ns;
    std::uint32_t thread;
    std::size_t index;
  };
  /// Keeps the `most` elements that ended last, in the order of threads and places. Returns when the last one of the
  /// others ended, INT64_MIN where there is none.
  static std::int64_t keep_last(std::vector<ended>& list, std::size_t most) {
    std::int64_t left_out_until = INT64_MIN;
    if (list.size() > most) {
      std::nth_element(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(most), list.end(),
                       [](const ended& a, const ended& b) { return a.end_ns > b.end_ns; });
      for (std::size_t i = most; i < list.size(); ++i) left_out_until = std::max(left_out_until, list[i].end_ns);
      list.resize(most);
    }
    std::sort(list.begin(), list.end(), [](const ended& a, const ended& b) {
      return a.thread != b.thread ? a.thread < b.thread : a.index < b.index;
    });
    return left_out_until;
  }

  struct name_traits {
    call_traits call;
    bool communication = false;
    bool known = false;
  };

  const name_traits& traits_of(std::uint32_t n, const event& e) {
    if (CUTRACE_UNLIKELY(n >= traits_.size())) traits_.resize(names_.size());
    name_traits& t = traits_[n];
    if (CUTRACE_UNLIKELY(!t.known)) {
      t.known = true;
      if (e.kind == event_kind::api) t.call = traits_of_call(e.name, e.api.direction);
      if (e.kind == event_kind::jit) t.call.is = category::init;
      if (e.kind == event_kind::kernel) t.communication = is_communication(e.name);
    }
    return t;
  }

  /// One name may be marked in several places, so places have numbers of their own.
  std::uint32_t site_of(const event& e) {
    if (e.stage.file.size == 0 || e.stage.line == 0) return 0;
    const std::uint32_t file = files_.number({e.stage.file.data, std::min<std::uint32_t>(e.stage.file.size, 256)});
    const auto found = site_numbers_.emplace(std::uint64_t{file} << 32 | e.stage.line, sites_.size());
    if (found.second) sites_.push_back({file, e.stage.line});
    return found.first->second;
  }

  void name_thread(const event& e) {
    if (thread_names_.size() >= UINT16_MAX) return;
    const std::string name(e.name.data, std::min<std::size_t>(e.name.size, 64));
    const auto known = thread_names_.emplace(e.thread_id, name);
    if (!known.second && known.first->second != name) known.first->second.clear();
  }

  void add_call(const event& e, interval v) {
    host_call c;
    c.when = v;
    c.name = names_.number(e.name);
    c.stage = stages_.of(e, names_);
    c.correlation = static_cast<std::uint32_t>(e.correlation_id);
    c.is = traits_of(c.name, e).call.is;
    c.failed = e.kind == event_kind::api && call_failed(e);
    threads_[thread(e)].add(c);
  }

  void add_work(const event& e, interval v) {
    gpu_work w;
    w.when = v;
    w.stage = stages_.of(e, names_);
    w.stage_unknown = is_stage_unknown(e);
    w.correlation = static_cast<std::uint32_t>(e.correlation_id);
    w.lane = lane(e);
    w.thread = e.thread_id == 0 ? std::uint16_t{0} : thread(e);
    if (e.call_name.size != 0) {
      w.call = time_of(e.call_start_ns);
      w.call_is = call_reference::start;
    } else if (e.correlation_id != 0) {  // a file of another tool, which leaves the joining to its reader
      w.call_is = call_reference::correlation;
    }
    bool communication = false;
    if (e.kind == event_kind::kernel) {
      w.name = names_.number(e.name);
      communication = traits_of(w.name, e).communication;
      w.amount = std::uint64_t{e.kernel.grid[0]} * e.kernel.grid[1] * e.kernel.grid[2];
      w.graph = e.kernel.graph_id != 0;
    } else if (e.kind == event_kind::memcpy) {
      w.amount = e.memcpy_.bytes;
      w.pageable = e.memcpy_.source == memory_kind::pageable || e.memcpy_.destination == memory_kind::pageable;
      w.asynchronous = e.memcpy_.asynchronous;
      w.graph = e.memcpy_.graph_id != 0;
    } else if (e.kind == event_kind::memset) {
      w.amount = e.memset_.bytes;
      w.graph = e.memset_.graph_id != 0;
    } else {
      w.name = names_.number(e.name);
      w.graph = true;
    }
    w.is = class_of(e, communication);
    work_.push_back(w);
  }

  std::uint16_t thread(const event& e) {
    if (CUTRACE_LIKELY(e.thread_id == last_thread_id_ && e.process_id == last_process_id_)) return last_thread_;
    last_thread_id_ = e.thread_id;
    last_process_id_ = e.process_id;
    return last_thread_ = thread(std::uint64_t{e.process_id} << 32 | e.thread_id);
  }
  std::uint16_t thread(std::uint64_t key) {
    const auto found = thread_numbers_.find(key);
    if (found != thread_numbers_.end()) return found->second;
    if (threads_.size() >= UINT16_MAX) return 0;  // further threads share number 0, the unknown thread
    const std::uint16_t n = static_cast<std::uint16_t>(threads_.size());
    thread_numbers_.emplace(key, n);
    threads_.emplace_back();
    thread_keys_.push_back(key);
    return n;
  }

  std::uint16_t lane(const event& e) {
    if (last_lane_ < lanes_.size()) {
      const work_lane& l = lanes_[last_lane_];
      if (CUTRACE_LIKELY(l.stream == e.stream && l.device == e.device && l.context == e.context &&
                         l.process == e.process_id))
        return last_lane_;
    }
    const auto key = [&e](std::uint64_t stream) { return std::make_tuple(e.process_id, e.device, e.context, stream); };
    std::uint64_t stream = e.stream;
    auto found = lane_numbers_.find(key(stream));
    // A program may make streams without end: beyond the limit, those of a context are one lane.
    if (found == lane_numbers_.end() && lanes_.size() >= stream_limit)
      found = lane_numbers_.find(key(stream = other_streams));
    if (found == lane_numbers_.end()) {
      if (lanes_.size() >= UINT16_MAX) return last_lane_;  // thousands of contexts, as only a broken file has
      found = lane_numbers_.emplace(key(stream), static_cast<std::uint16_t>(lanes_.size())).first;
      const std::uint32_t number = device_number(e.device);
      device(number);
      lanes_.push_back({e.process_id, number, e.context, stream});
    }
    return last_lane_ = found->second;
  }

  std::uint32_t device_number(std::uint32_t number) const {
    return devices_.size() < device_limit || devices_.count(number) != 0 ? number : other_devices;
  }
  device_work& device(std::uint32_t number) {
    device_work& d = devices_[number];
    d.device = number;
    return d;
  }

  CUTRACE_ONE_COPY void order_work() {
    std::vector<std::vector<std::uint32_t>> of_lane(lanes_.size());
    for (std::size_t i = 0; i < work_.size(); ++i) of_lane[work_[i].lane].push_back(static_cast<std::uint32_t>(i));
    std::map<std::uint32_t, std::vector<std::vector<std::uint32_t>>> of_device;
    for (std::size_t l = 0; l < lanes_.size(); ++l) of_device[lanes_[l].device].push_back(std::move(of_lane[l]));
    for (auto& d : of_device)
      device(d.first).order = merge_nearly_sorted(d.second, [this](std::uint32_t i) { return work_[i].when.start_ns; });
  }
  CUTRACE_ONE_COPY void order_stages() {
    std::vector<std::vector<std::uint32_t>> of_thread(threads_.size());
    for (std::uint32_t n = 1; n < stages_.size(); ++n)
      if (stages_[n].ended) of_thread[stages_[n].thread].push_back(n);
    stage_order_ = merge_nearly_sorted(of_thread, [this](std::uint32_t n) { return stages_[n].when.start_ns; });
  }

  /// Finds the stage of calls in formats that do not state it: the innermost stage around the call on its thread.
  CUTRACE_ONE_COPY void place_calls() {
    thread_stages by_time(stages_, stage_order_, threads_.size());
    for (std::size_t t = 1; t < threads_.size(); ++t) {
      const std::uint16_t thread = static_cast<std::uint16_t>(t);
      std::size_t hint = 0;
      if (!by_time.empty(thread))
        threads_[t].for_each([&](host_call& c) {
          if (c.stage == stage_log::none) c.stage = by_time.at(thread, c.when.start_ns, hint);
        });
    }
  }

  /// Turns the begin of a call, or its correlation id, into its place among the calls of its thread.
  CUTRACE_ONE_COPY void join(const std::vector<std::uint32_t>& order) {
    std::vector<std::size_t> hints(threads_.size(), 0);
    for (const std::uint32_t i : order) {
      gpu_work& w = work_[i];
      if (w.call_is == call_reference::correlation) {
        join_by_correlation(w);
        continue;
      }
      if (w.call_is != call_reference::start) continue;
      const std::size_t at = hints[w.thread] = threads_[w.thread].ending_after(w.call, hints[w.thread]);
      // The begin that `w` names and the call itself may have been converted to the trace's time before and after a
      // measurement of the clocks: this begin may lie a little before the call, in the call before it, or after a short
      // call's end.
      for (const std::size_t near : {at, at + 1, at - 1}) {
        const auto& calls = threads_[w.thread].calls();
        if (near >= calls.size() || !is_launch_of(w, calls[near], near == at)) continue;
        w.call = static_cast<std::int64_t>(near);
        w.call_is = call_reference::index;
        break;
      }
    }
  }
  /// @param there `c` is the first call that ends after the begin that `w` names
  static bool is_launch_of(const gpu_work& w, const host_call& c, bool there) noexcept {
    if (w.correlation != 0 && c.correlation != 0) return w.correlation == c.correlation;
    return there && c.when.start_ns <= w.call;
  }

  CUTRACE_ONE_COPY void join_by_correlation(gpu_work& w) {
    if (!correlations_known_) {
      correlations_known_ = true;
      for (std::uint16_t t = 0; t < threads_.size(); ++t) {
        const auto process = static_cast<std::uint32_t>(thread_keys_[t] >> 32);
        for (std::uint32_t i = 0; i < threads_[t].calls().size(); ++i)
          if (const std::uint32_t correlation = threads_[t].calls()[i].correlation)
            correlated_.push_back({id_of(process, correlation), i, t});
      }
      sort_nearly(correlated_, [](const correlated_call& c) { return c.id; });
    }
    const std::int64_t wanted = id_of(lanes_[w.lane].process, w.correlation);
    last_correlated_ =
        search_near(correlated_.size(), last_correlated_, [&](std::size_t i) { return correlated_[i].id < wanted; });
    w.call_is = call_reference::none;
    if (last_correlated_ == correlated_.size() || correlated_[last_correlated_].id != wanted) return;
    const correlated_call& found = correlated_[last_correlated_];
    w.thread = found.thread;
    w.call = static_cast<std::int64_t>(found.index);
    w.call_is = call_reference::index;
    if (w.stage != 0) return;
    w.stage = threads_[w.thread].calls()[found.index].stage;
    w.stage_unknown = w.stage_unknown && stages_[w.stage].name == 0;
  }

  std::int64_t start_ns_;
  std::int64_t first_ns_ = INT64_MAX;
  std::int64_t last_ns_ = INT64_MIN;
  name_table names_;
  std::vector<name_traits> traits_;
  struct marker {
    std::uint32_t file = 0, line = 0;
  };
  name_table files_;
  std::vector<marker> sites_{marker{}};  ///< places of stage markers in the source; the first means none
  detail::seeded_map<std::uint64_t, std::uint32_t> site_numbers_;
  stage_log stages_;
  std::uint32_t taken_stages_ = 0;
  std::vector<std::uint32_t> stage_order_;
  chunked<gpu_work> work_;
  std::vector<thread_calls> threads_;
  std::vector<std::uint64_t> thread_keys_;  ///< process id << 32 | thread id
  std::vector<std::int64_t> left_out_until_;
  std::int64_t others_left_out_until_ = INT64_MIN;  ///< of threads that have none of their own
  std::int64_t stages_left_out_until_ = INT64_MIN;
  detail::seeded_map<std::uint64_t, std::uint16_t> thread_numbers_;
  detail::seeded_map<std::uint32_t, std::string> thread_names_;  ///< empty where the trace has several for that id
  std::uint32_t last_thread_id_ = 0, last_process_id_ = 0;
  std::uint16_t last_thread_ = 0;
  std::vector<work_lane> lanes_;
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::uint64_t>, std::uint16_t> lane_numbers_;
  std::uint16_t last_lane_ = 0;
  std::map<std::uint32_t, device_work> devices_;
  std::vector<interval> windows_;
  std::vector<interval> recorded_;
  std::size_t pieces_ = 0;
  std::uint64_t lost_[loss_cause_count] = {};
  struct correlated_call {
    std::int64_t id;      ///< id_of
    std::uint32_t index;  ///< among the calls of its thread
    std::uint16_t thread;
  };
  /// Processes of a merged trace give out the same correlation ids.
  static std::int64_t id_of(std::uint32_t process, std::uint32_t correlation) noexcept {
    return static_cast<std::int64_t>(std::uint64_t{process} << 32 | correlation);
  }
  /// By id. In a seeded hash table a report of 10^6 events takes 0.57 s instead of 0.40.
  std::vector<correlated_call> correlated_;
  std::size_t last_correlated_ = 0;
  bool correlations_known_ = false;
};

}  // namespace analysis
CUTRACE_END_NAMESPACE
