// SPDX-License-Identifier: Apache-2.0
// Waits of the host by stage and by what is waited for: a stream, an event recorded on a stream, a context. Found in
// calls alone, by their durations and the handles among their arguments. CUPTI's synchronisation records are not used.
//
// A handle says little to a reader, and CUDA may reuse it once its stream is destroyed: from one destruction to the
// next a handle is one stream. The stream's number is that of GPU work launched on it. Handles of the default stream
// count by thread, because they may mean a different stream on each thread (per-thread default streams).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cutrace/analysis/category.hpp>
#include <cutrace/analysis/containers.hpp>
#include <cutrace/analysis/intervals.hpp>
#include <cutrace/analysis/names.hpp>
#include <cutrace/analysis/trace_log.hpp>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace analysis {

enum class wait_for : std::uint8_t { stream, event, context };
constexpr const char* name_of(wait_for w) noexcept {
  return w == wait_for::stream ? "stream" : w == wait_for::event ? "event" : "context";
}

struct wait_row {
  std::string stage;  ///< innermost stage of the call; empty: none
  wait_for is = wait_for::context;
  bool stream_known = false;  ///< false: no GPU work was seen on the stream, or the trace has no arguments
  std::uint32_t process = 0, device = 0, context = 0;  ///< device and context where the stream is known
  std::uint64_t stream = 0;                            ///< waited for, or on which the event was recorded last
  std::uint64_t count = 0, failed = 0;
  std::int64_t total_ns = 0;
  std::int64_t longest_ns = 0;
};

/// Takes events in the order of delivery.
class wait_table {
 public:
  void add(const event& e) {
    if (e.is_gpu_work())
      learn(e);
    else if (e.kind == event_kind::api)
      add_call(e);
  }

  /// Longest total first. @param log sealed; finds the stages of calls that do not state theirs
  CUTRACE_ONE_COPY std::vector<wait_row> result(const trace_log& log) {
    std::size_t hint = 0;
    for (std::size_t i = 0; i < unplaced_.size(); ++i) {
      unplaced u = unplaced_[i];
      const std::string& stage = log.stage_of_call(u.key.process, u.thread, u.start_ns, hint);
      if (!stage.empty()) u.key.stage = stages_.number(text_of(stage));
      add_wait(u.key, u.ns, u.failed);
    }
    unplaced_.clear();
    // Several handles, one after the other, may have been of one stream.
    std::map<std::tuple<std::uint32_t, wait_for, bool, std::uint32_t, std::uint32_t, std::uint32_t, std::uint64_t>,
             wait_row>
        joined;
    for (const auto& [key, all] : sums_) {
      const place where = key.stream != no_stream ? place_of(streams_[key.stream]) : place();
      wait_row& r = joined[{key.stage, key.is, where.known, key.process, where.device, where.context, where.stream}];
      if (key.stage != 0) r.stage = stages_.name(key.stage);
      r.is = key.is;
      r.stream_known = where.known;
      r.process = key.process;
      r.device = where.device;
      r.context = where.context;
      r.stream = where.stream;
      r.count += all.count;
      r.failed += all.failed;
      add_ns(r.total_ns, all.total_ns);
      r.longest_ns = std::max(r.longest_ns, all.longest_ns);
    }
    std::vector<const wait_row*> rows;
    std::vector<ranked> order;
    for (const auto& r : joined) {
      order.push_back({r.second.total_ns, 0, static_cast<std::uint32_t>(rows.size())});
      rows.push_back(&r.second);
    }
    rank(order);
    std::vector<wait_row> list;
    for (const ranked& o : order) list.push_back(*rows[o.index]);
    return list;
  }

 private:
  static constexpr std::uint32_t no_stream = UINT32_MAX;
  static constexpr std::size_t asked_limit = 64;  ///< most launches per stream that `asked_` keeps
  struct place {
    bool known = false;
    std::uint32_t device = 0, context = 0;
    std::uint64_t stream = 0;
    bool operator==(const place& o) const noexcept {
      return device == o.device && context == o.context && stream == o.stream;
    }
  };
  struct known_stream {
    place where;
    std::uint32_t process = 0;
    bool is_default = false;  ///< its handle is 0
    std::size_t asked = 0;
  };
  struct recent_work {
    std::uint64_t call = 0;
    place where;
  };
  struct handle {
    std::uint32_t process;
    std::uint32_t thread;  ///< for handles of a default stream, else 0
    std::uint64_t value;
    bool operator==(const handle& o) const noexcept {
      return process == o.process && thread == o.thread && value == o.value;
    }
  };
  struct sum_key {
    std::uint32_t stage, process, stream;
    wait_for is;
    bool operator==(const sum_key& o) const noexcept {
      return stage == o.stage && process == o.process && stream == o.stream && is == o.is;
    }
  };
  struct hash {
    static std::size_t mixed(std::uint64_t a, std::uint64_t b) noexcept {
      return static_cast<std::size_t>(detail::hash_number(detail::hash_number(a) ^ b));
    }
    std::size_t operator()(const handle& h) const noexcept {
      return mixed(h.value, std::uint64_t{h.process} << 32 | h.thread);
    }
    std::size_t operator()(const sum_key& k) const noexcept {
      return mixed(std::uint64_t{k.stream} << 32 | k.stage,
                   std::uint64_t{k.process} << 8 | static_cast<unsigned>(k.is));
    }
  };
  struct sum {
    std::uint64_t count = 0, failed = 0;
    std::int64_t total_ns = 0, longest_ns = 0;
  };
  /// What a function does to streams and events.
  struct role {
    bool seen = false, waits = false, makes_work = false, has_default_stream = false, destroys_stream = false,
         destroys_event = false, records_event = false;
    wait_for is = wait_for::context;
  };

  /// A wait whose call does not state a stage: in some formats none does.
  struct unplaced {
    sum_key key;
    std::uint32_t thread;
    std::int64_t start_ns, ns;
    bool failed;
  };

  const role& role_of(text name) {
    const std::uint32_t n = functions_.number(name);
    if (n >= roles_.size()) roles_.resize(functions_.size());
    role& r = roles_[n];
    if (r.seen) return r;
    const std::string_view f(name.data, name.size);
    const auto has = [&](const char* part) { return f.find(part) != std::string_view::npos; };
    r.seen = true;
    const call_traits traits = traits_of_call(name);
    r.waits = traits.waits;
    r.makes_work = traits.launches || traits.copies || traits.sets;
    r.is = has("StreamSynchronize") ? wait_for::stream : has("EventSynchronize") ? wait_for::event : wait_for::context;
    r.has_default_stream = (traits.copies || traits.sets) && !is_asynchronous_call(name);
    r.destroys_stream = has("StreamDestroy");
    r.destroys_event = has("EventDestroy");
    r.records_event = has("EventRecord");
    return r;
  }

  static bool find(const event& e, const char* driver, const char* runtime, std::uint64_t& value) noexcept {
    for (std::uint32_t i = 0; i < e.api.argument_count; ++i) {
      const argument& a = e.api.arguments[i];
      const std::string_view name(a.name.data, a.name.size);
      if (name != driver && name != runtime) continue;
      value = a.value;
      return a.kind != argument_kind::string;
    }
    return false;
  }
  static bool find_stream(const event& e, handle& h, bool has_default) noexcept {
    h = {e.process_id, 0, 0};
    if (!find(e, "hStream", "stream", h.value) && !has_default) return false;
    if (h.value == 0 || h.value == 2) h.thread = e.thread_id;  // 2: CU_STREAM_PER_THREAD; 1: CU_STREAM_LEGACY, shared
    return true;
  }
  std::uint32_t stream_of(const handle& h) {
    const auto found = by_handle_.emplace(h, static_cast<std::uint32_t>(streams_.size()));
    if (found.second) {
      streams_.emplace_back();
      streams_.back().process = h.process;
      streams_.back().is_default = h.value == 0;
    }
    return found.first->second;
  }
  /// A default stream on which its thread launched nothing is that of the process's other threads, if they all agree.
  place place_of(const known_stream& s) const noexcept {
    if (s.where.known || !s.is_default) return s.where;
    place only;
    for (const known_stream& other : streams_) {
      if (!other.is_default || other.process != s.process || !other.where.known) continue;
      if (only.known && !(only == other.where)) return {};
      only = other.where;
    }
    return only;
  }
  static std::uint64_t call_key(const event& e) noexcept { return address_in_process(e, e.correlation_id); }

  void add_call(const event& e) {
    const role& r = role_of(e.name);
    handle h;
    const bool has_stream = find_stream(e, h, r.has_default_stream);
    std::uint32_t stream = no_stream;
    if (has_stream && !r.destroys_stream) {
      stream = stream_of(h);
      known_stream& s = streams_[stream];
      if (r.makes_work && !s.where.known && e.correlation_id != 0) ask(s, stream, call_key(e));
    }
    std::uint64_t cuda_event = 0;
    const bool has_event = find(e, "hEvent", "event", cuda_event);
    const handle of_event{e.process_id, 0, cuda_event};
    if (e.api.result == 0) {
      if (r.destroys_stream && has_stream) by_handle_.erase(h);
      if (r.destroys_event && has_event) recorded_on_.erase(of_event);
      if (r.records_event && has_event && stream != no_stream) recorded_on_[of_event] = stream;
    }
    if (!r.waits || e.api.enclosing != 0) return;
    if (r.is == wait_for::event) {
      const auto on = has_event ? recorded_on_.find(of_event) : recorded_on_.end();
      stream = on != recorded_on_.end() ? on->second : no_stream;
    }
    if (r.is == wait_for::context) stream = no_stream;
    const std::uint32_t stage = e.stage_name.size == 0 ? 0 : stages_.number(e.stage_name);
    const sum_key key{stage, e.process_id, stream, r.is};
    const interval when = interval_of(e);
    if (stage == 0 && e.stage_id == 0)
      unplaced_.push_back({key, e.thread_id, when.start_ns, when.length_ns(), call_failed(e)});
    else
      add_wait(key, when.length_ns(), call_failed(e));
  }
  void add_wait(const sum_key& key, std::int64_t ns, bool failed) {
    sum& s = sums_[key];
    ++s.count;
    s.failed += failed;
    add_ns(s.total_ns, ns);
    s.longest_ns = std::max(s.longest_ns, ns);
  }

  /// Events arrive in order of their ends: the work of a call may arrive before the call or after it.
  void ask(known_stream& s, std::uint32_t number, std::uint64_t call) {
    const recent_work& w = recent_[call % recent_.size()];
    if (w.call == call) {
      s.where = w.where;
    } else if (s.asked < asked_limit) {
      asked_[call] = number;
      ++s.asked;
    }
  }
  void learn(const event& e) {
    if (e.correlation_id == 0) return;
    const std::uint64_t call = call_key(e);
    const place where{true, e.device, e.context, e.stream};
    recent_[call % recent_.size()] = {call, where};
    if (asked_.empty()) return;
    const auto found = asked_.find(call);
    if (found == asked_.end()) return;
    if (!streams_[found->second].where.known) streams_[found->second].where = where;
    asked_.erase(found);
  }

  name_table stages_, functions_;
  std::vector<role> roles_;  ///< by name number
  std::vector<known_stream> streams_;
  std::unordered_map<handle, std::uint32_t, hash> by_handle_, recorded_on_;
  std::vector<recent_work> recent_ = std::vector<recent_work>(4096);  ///< by call; newer ones replace older ones
  detail::seeded_map<std::uint64_t, std::uint32_t> asked_;  ///< calls whose GPU work will give the stream its number
  std::unordered_map<sum_key, sum, hash> sums_;
  chunked<unplaced> unplaced_;
};

}  // namespace analysis
CUTRACE_END_NAMESPACE
