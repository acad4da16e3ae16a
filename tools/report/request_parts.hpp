// SPDX-License-Identifier: Apache-2.0
// Where the time of one request went: each moment between its begin and its end has one owner.
//
// Where several parts apply, the first in this order owns the moment:
//   gpu_alone      a kernel or graph of a stage that serves this request alone runs
//   gpu_batch      a kernel or graph of a stage that also serves other requests runs
//   copy           a copy or set of its stages runs
//   behind_others  its work was launched and has not started, while the device runs something else
//   launch_delay   its work was launched and has not started, while the device runs nothing
//   allocation     a call of its stages that allocates or frees device memory
//   waiting        a call that waits for the device
//   launching      a call that launches or copies
//   other_calls    any other call
//   own_code       one of its stages is open on some thread, with no call in it
//   span           a span of it (cutrace::span in stage.hpp) is open, in which it may only wait in a queue
//   between        nothing of it is open
//   not_recorded   the trace was paused, or sampling left this moment out; no other part has such time
// So all parts together are the request's latency. A nested stage serves the requests of the enclosing stage, unless
// it names requests of its own.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cutrace/analysis/trace_log.hpp>
#include <map>
#include <utility>
#include <vector>

#include "report/mask_sweep.hpp"
#include "report/request_costs.hpp"

CUTRACE_BEGIN_NAMESPACE
namespace analysis {

enum class request_part : std::uint8_t {
  gpu_alone,
  gpu_batch,
  copy,
  behind_others,
  launch_delay,
  allocation,
  waiting,
  launching,
  other_calls,
  own_code,
  span,
  between,
  not_recorded,
};
constexpr std::size_t request_part_count = 13;

inline const char* name_of(request_part p) noexcept {
  constexpr const char* names[] = {"gpu_alone",  "gpu_batch", "copy",        "behind_others", "launch_delay",
                                   "allocation", "waiting",   "launching",   "other_calls",   "own_code",
                                   "span",       "between",   "not_recorded"};
  return names[static_cast<std::size_t>(p)];
}

/// The part that the time of a call in a stage belongs to.
inline request_part part_of_call(const call_traits& is) noexcept {
  return is.allocates               ? request_part::allocation
         : is.waits || is.blocks    ? request_part::waiting
         : is.launches || is.copies ? request_part::launching
                                    : request_part::other_calls;
}

struct request_account {
  std::uint32_t request = 0;  ///< number, see stage_log
  interval span;
  std::array<std::int64_t, request_part_count> ns{};
  bool unended = false;  ///< the trace has no end of one of its stages
  std::int64_t time_ns(request_part p) const noexcept { return ns[static_cast<std::size_t>(p)]; }
};

/// Indexes of a sealed trace_log: GPU work, calls and adopted parts (continued on other threads, context.hpp) by stage
/// instance, and instances by request. Takes 4 bytes for each piece of GPU work, 8 for each call in a stage and 4 for
/// each pair of instance and request.
class request_index {
 public:
  struct call_place {
    std::uint16_t thread;
    std::uint32_t call;
  };

  /// @param of by request number, whether work and calls of the request's instances are listed; empty: of all
  /// @param with_calls false: `calls` are not listed
  CUTRACE_ONE_COPY explicit request_index(const trace_log& log, const std::vector<bool>& of = {},
                                          bool with_calls = true)
      : log_(log) {
    const stage_log& stages = log.stages();
    instances_.fill(stages.request_ids().size(), [&](auto&& put) {
      for (std::uint32_t n = 1; n < stages.size(); ++n)
        for (const std::uint32_t r : stages.requests_of(n)) put(r, n);
    });
    std::vector<bool> wanted(stages.size(), of.empty());
    wanted[stage_log::none] = false;
    for (std::uint32_t r = 0; r < of.size(); ++r)
      if (of[r])
        for (const std::uint32_t n : instances(r)) wanted[n] = true;
    works_.fill(stages.size(), [&](auto&& put) {
      for (const auto& d : log.devices())
        for (const std::uint32_t i : d.second.order)
          if (const gpu_work& w = log.work()[i]; wanted[w.stage] && !w.stage_unknown && w.is != work_class::unfinished)
            put(w.stage, i);
    });
    calls_.fill(stages.size(), [&](auto&& put) {
      for (std::size_t t = 0; with_calls && t < log.threads().size(); ++t)
        for (std::size_t i = 0; i < log.threads()[t].calls().size(); ++i)
          if (wanted[log.threads()[t].calls()[i].stage])
            put(log.threads()[t].calls()[i].stage,
                call_place{static_cast<std::uint16_t>(t), static_cast<std::uint32_t>(i)});
    });
    for (std::uint32_t i = 0; i < stages.parts().size(); ++i) parts_[stages.parts()[i].instance].push_back(i);
    for (const auto& d : log.devices())
      for (const std::uint32_t i : d.second.order) append_merged(busy_[d.first], log.work()[i].when);
  }

  template <class T>
  struct range {
    const T *first, *last;
    const T* begin() const noexcept { return first; }
    const T* end() const noexcept { return last; }
    std::size_t size() const noexcept { return static_cast<std::size_t>(last - first); }
  };
  /// Work whose times are known.
  range<std::uint32_t> works(std::uint32_t instance) const noexcept { return works_.of(instance); }
  range<call_place> calls(std::uint32_t instance) const noexcept { return calls_.of(instance); }
  /// In the order of their numbers, in which the trace first named them.
  range<std::uint32_t> instances(std::uint32_t request) const noexcept { return instances_.of(request); }
  const std::vector<std::uint32_t>* parts(std::uint32_t instance) const {
    const auto found = parts_.find(instance);
    return found == parts_.end() ? nullptr : &found->second;
  }
  /// Stretches in which the device was at work, in order.
  const std::vector<interval>& busy(std::uint32_t device) const { return busy_.at(device); }
  const trace_log& log() const noexcept { return log_; }

 private:
  /// The lists of all owners (instances or requests) in one array, one after the other.
  template <class T>
  struct lists {
    std::vector<std::size_t> begins;
    std::vector<T> items;

    template <class ForEach>
    void fill(std::size_t owners, ForEach&& for_each) {
      begins.assign(owners + 1, 0);
      for_each([&](std::uint32_t owner, const T&) { ++begins[owner]; });
      std::size_t sum = 0;
      for (std::size_t& b : begins) sum += std::exchange(b, sum);
      items.resize(sum);
      for_each([&](std::uint32_t owner, const T& item) { items[begins[owner]++] = item; });
      for (std::size_t i = owners; i > 0; --i) begins[i] = begins[i - 1];
      if (!begins.empty()) begins[0] = 0;
    }
    range<T> of(std::uint32_t owner) const noexcept {
      return {items.data() + begins[owner], items.data() + begins[owner + 1]};
    }
  };

  const trace_log& log_;
  lists<std::uint32_t> works_, instances_;
  lists<call_place> calls_;
  std::map<std::uint32_t, std::vector<std::uint32_t>> parts_;
  std::map<std::uint32_t, std::vector<interval>> busy_;  ///< by device
};

class request_accounts {
 public:
  /// Both arguments must outlive this.
  request_accounts(const request_index& index, const std::vector<request_cost>& costs) : index_(index), costs_(costs) {}

  CUTRACE_ONE_COPY request_account of(std::uint32_t request) {
    const trace_log& log = index_.log();
    request_account a;
    a.request = request;
    a.span = costs_[request].span;
    items_.clear();
    for (const std::uint32_t n : index_.instances(request)) {
      const stage_instance& s = log.stages()[n];
      a.unended = a.unended || !s.ended;
      if (s.ended)
        add(s.span ? is_span : is_stage, s.when);
      else
        add(is_stage, seen_of(log, n));
      if (const std::vector<std::uint32_t>* parts = index_.parts(n))
        for (const std::uint32_t p : *parts) add(is_stage, log.stages().parts()[p].when);
      const bool alone = log.stages().served(n) <= 1;
      for (const std::uint32_t i : index_.works(n)) add_work(log, log.work()[i], alone);
      for (const request_index::call_place c : index_.calls(n)) add_call(log, log.threads()[c.thread].calls()[c.call]);
    }
    take_waits([this](interval v) { add(is_waiting, v); }, [this](interval v) { add(is_busy, v); });
    std::sort(items_.begin(), items_.end(),
              [](const item& x, const item& y) { return x.when.start_ns < y.when.start_ns; });
    const std::vector<interval> recorded = recorded_in(a.span);
    mask_sweep<classes> sweep(recorded);
    for (const item& i : items_) sweep.add(i.is, i.when);
    sweep.finish();
    for (std::uint32_t m = 0; m < 1u << classes; ++m) a.ns[static_cast<std::size_t>(part_of(m))] += sweep.exactly_ns(m);
    std::int64_t rest = a.span.length_ns();
    for (const std::int64_t ns : a.ns) rest -= ns;
    a.ns[static_cast<std::size_t>(request_part::not_recorded)] = rest;
    return a;
  }

  /// Only `time_ns(request_part::behind_others)` of the account, computed from GPU work alone. For 1,000 requests in
  /// ten million events and an index without calls, the inference tables take 0.56 s, with whole accounts 0.75 s.
  CUTRACE_ONE_COPY std::int64_t behind_others_ns(std::uint32_t request) {
    const trace_log& log = index_.log();
    std::vector<interval> own, behind;
    for (const std::uint32_t n : index_.instances(request))
      for (const std::uint32_t i : index_.works(n)) {
        const gpu_work& w = log.work()[i];
        own.push_back(w.when);
        add_wait(log, w);
      }
    take_waits([](interval) {}, [&](interval busy) { behind.push_back(busy); });
    behind = intersection(merged(std::move(behind)), recorded_in(costs_[request].span));
    return union_length_ns(behind) - intersection_length_ns(behind, merged(std::move(own)));
  }

 private:
  enum item_class : std::uint8_t {
    is_alone,
    is_batch,
    is_copied,
    is_waiting,
    is_busy,
    is_allocating,
    is_syncing,
    is_launching,
    is_other,
    is_stage,
    is_span,
  };
  static constexpr std::size_t classes = 11;
  struct item {
    interval when;
    std::uint8_t is;
  };

  static request_part part_of(std::uint32_t m) noexcept {
    const auto has = [m](item_class c) { return (m >> c & 1u) != 0; };
    return has(is_alone)        ? request_part::gpu_alone
           : has(is_batch)      ? request_part::gpu_batch
           : has(is_copied)     ? request_part::copy
           : has(is_waiting)    ? (has(is_busy) ? request_part::behind_others : request_part::launch_delay)
           : has(is_allocating) ? request_part::allocation
           : has(is_syncing)    ? request_part::waiting
           : has(is_launching)  ? request_part::launching
           : has(is_other)      ? request_part::other_calls
           : has(is_stage)      ? request_part::own_code
           : has(is_span)       ? request_part::span
                                : request_part::between;
  }

  /// Parts of `span` that were recorded.
  std::vector<interval> recorded_in(interval span) const {
    std::vector<interval> parts;
    std::size_t piece = 0;
    index_.log().for_recorded(span, piece, [&](interval v) { parts.push_back(v); });
    return parts;
  }

  /// Of a stage whose end the trace lacks: from its first call to its last, launches of its GPU work included.
  interval seen_of(const trace_log& log, std::uint32_t n) const {
    interval v{INT64_MAX, INT64_MIN};
    const auto see = [&](interval w) { v = {std::min(v.start_ns, w.start_ns), std::max(v.end_ns, w.end_ns)}; };
    for (const request_index::call_place c : index_.calls(n)) see(log.threads()[c.thread].calls()[c.call].when);
    for (const std::uint32_t i : index_.works(n))
      if (log.launch_of(log.work()[i]).known) see(log.launch_of(log.work()[i]).when);
    return v.start_ns > v.end_ns ? interval{} : v;
  }

  void add(item_class is, interval v) {
    if (!v.empty()) items_.push_back({v, is});
  }

  void add_work(const trace_log& log, const gpu_work& w, bool alone) {
    add(is_kernel(w.is) ? (alone ? is_alone : is_batch) : is_copied, w.when);
    add_wait(log, w);
  }

  void add_wait(const trace_log& log, const gpu_work& w) {
    const interval waited = log.wait_of(w);
    if (!waited.empty()) waits_[log.lanes()[w.lane].device].push_back(waited);
  }
  /// Calls `waiting(interval)` for each stretch in which work waits, and `behind(interval)` for each part of it
  /// in which the device is busy. Overlapping waits are merged first. Empties `waits_`.
  template <class Waiting, class Behind>
  void take_waits(Waiting waiting, Behind behind) {
    for (auto& d : waits_) {
      const std::vector<interval>& busy = index_.busy(d.first);
      for (const interval w : merged(std::move(d.second))) {
        waiting(w);
        auto at = std::partition_point(busy.begin(), busy.end(), [&](interval b) { return b.end_ns <= w.start_ns; });
        for (; at != busy.end() && at->start_ns < w.end_ns; ++at) behind(clip(*at, w));
      }
      d.second.clear();
    }
  }

  void add_call(const trace_log& log, const host_call& c) {
    // item_class has the classes of calls in the order in which request_part has their parts.
    const int nth = static_cast<int>(part_of_call(log.traits(c.name))) - static_cast<int>(request_part::allocation);
    add(static_cast<item_class>(is_allocating + nth), c.when);
  }

  const request_index& index_;
  const std::vector<request_cost>& costs_;
  std::vector<item> items_;
  std::map<std::uint32_t, std::vector<interval>> waits_;  ///< by device
};

}  // namespace analysis
CUTRACE_END_NAMESPACE
