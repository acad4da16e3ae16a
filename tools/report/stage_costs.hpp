// SPDX-License-Identifier: Apache-2.0
// What each stage cost, from a trace_log after `seal`: host, queue, transfer, execution, and idle time inside of it.
//
// All are lengths of unions over the instances of the stage, in ns:
//   host        the instances themselves and their adopted parts (continued on other threads, context.hpp)
//   calls       host calls made in the stage or in stages nested in it
//   queue       [end of the launching call, start of the work) of work of the stage and of nested ones
//   execution   kernels of the stage and of nested ones; transfer: copies; own: all work of the stage alone
//   idle inside: host without the time in which any GPU was at work, whoever had asked for the work
// Queue, transfer and execution overlap each other and the host; nothing is divided among the requests of a batch.
// Of a trace that was paused, sampled or cut, only what lies in the time recorded counts.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cutrace/analysis/containers.hpp>
#include <cutrace/analysis/intervals.hpp>
#include <cutrace/analysis/names.hpp>
#include <cutrace/analysis/stages.hpp>
#include <cutrace/analysis/trace_log.hpp>
#include <utility>
#include <vector>

#include "report/wall_time.hpp"

CUTRACE_BEGIN_NAMESPACE
namespace analysis {

// How much of any stretch of time some GPU was at work: the union of all work with its running length, 16 bytes for
// each busy stretch.

class busy_line {
 public:
  /// In order of start.
  void add(interval v) {
    if (v.empty()) return;
    if (line_.empty() || v.start_ns > until_ns_) {
      line_.push_back({v.start_ns, total_ns_});
      until_ns_ = v.start_ns;
    }
    total_ns_ += std::max<std::int64_t>(0, v.end_ns - until_ns_);
    until_ns_ = std::max(until_ns_, v.end_ns);
  }

  std::int64_t total_ns() const noexcept { return total_ns_; }

  /// Busy time in `v`. Cheapest for stretches in about the order of time.
  std::int64_t inside(interval v) noexcept {
    return v.empty() ? 0 : before(v.end_ns, near_end_) - before(v.start_ns, near_start_);
  }

 private:
  struct stretch {
    std::int64_t start_ns;
    std::int64_t before_ns;  ///< busy time before it
  };

  std::int64_t before(std::int64_t t_ns, std::size_t& near) noexcept {
    near = search_near(line_.size(), near, [&](std::size_t i) { return line_[i].start_ns < t_ns; });
    if (near == 0) return 0;
    const stretch& s = line_[near - 1];
    const std::int64_t after_ns = near < line_.size() ? line_[near].before_ns : total_ns_;
    return std::min(s.before_ns + (t_ns - s.start_ns), after_ns);
  }

  chunked<stretch> line_;
  std::int64_t total_ns_ = 0;
  std::int64_t until_ns_ = 0;
  std::size_t near_start_ = 0, near_end_ = 0;
};

// All intervals of a sealed trace_log in the order of their start: devices, calls and stages merged, not copied.

/// Merges lists that are each sorted by start, with a heap of their heads: O(n log k) for k lists.
class by_start {
 public:
  enum class source : std::uint8_t { work, call, inner_call, stage };

  explicit by_start(const trace_log& log) : log_(log) {
    for (const auto& d : log.devices()) push(source::work, d.second.order.size(), &d.second.order, 0);
    for (std::size_t t = 0; t < log.threads().size(); ++t) {
      push(source::call, log.threads()[t].calls().size(), nullptr, t);
      push(source::inner_call, log.threads()[t].inner().size(), nullptr, t);
    }
    push(source::stage, log.stage_order().size(), &log.stage_order(), 0);
  }

  /// Calls `work(const gpu_work&)`, `call(const host_call&)` or `stage(number)`.
  template <class Work, class Call, class Stage>
  void for_each(Work&& work, Call&& call, Stage&& stage) {
    while (!heads_.empty()) {
      std::pop_heap(heads_.begin(), heads_.end(), later);
      head& h = heads_.back();
      switch (h.from) {
        case source::work:
          work(log_.work()[(*h.order)[h.at]]);
          break;
        case source::call:
          call(log_.threads()[h.thread].calls()[h.at]);
          break;
        case source::inner_call:
          call(log_.threads()[h.thread].inner()[h.at]);
          break;
        case source::stage:
          stage((*h.order)[h.at]);
          break;
      }
      if (++h.at == h.size) {
        heads_.pop_back();
      } else {
        h.start_ns = start_of(h);
        std::push_heap(heads_.begin(), heads_.end(), later);
      }
    }
  }

 private:
  struct head {
    std::int64_t start_ns;
    std::size_t at, size, thread;
    const std::vector<std::uint32_t>* order;
    source from;
  };

  void push(source from, std::size_t size, const std::vector<std::uint32_t>* order, std::size_t thread) {
    if (size == 0) return;
    head h{0, 0, size, thread, order, from};
    h.start_ns = start_of(h);
    heads_.push_back(h);
    std::push_heap(heads_.begin(), heads_.end(), later);
  }

  std::int64_t start_of(const head& h) const noexcept {
    switch (h.from) {
      case source::work:
        return log_.work()[(*h.order)[h.at]].when.start_ns;
      case source::call:
        return log_.threads()[h.thread].calls()[h.at].when.start_ns;
      case source::inner_call:
        return log_.threads()[h.thread].inner()[h.at].when.start_ns;
      default:
        return log_.stages()[(*h.order)[h.at]].when.start_ns;
    }
  }

  static bool later(const head& a, const head& b) noexcept { return a.start_ns > b.start_ns; }

  const trace_log& log_;
  std::vector<head> heads_;
};

enum class work_order : std::uint8_t { first_start_first, last_start_first };

/// Calls `each(const gpu_work&)` for the work of all devices, of several that start at once the first device's first.
template <work_order Order, class Each>
void for_each_work(const trace_log& log, Each&& each) {
  constexpr bool forward = Order == work_order::first_start_first;
  struct head {
    std::int64_t start_ns;
    std::size_t device, left;
    const std::vector<std::uint32_t>* order;
    bool operator<(const head& o) const noexcept {  // comes later: the heap's first is the greatest
      if (start_ns == o.start_ns) return device > o.device;
      return forward ? start_ns > o.start_ns : start_ns < o.start_ns;
    }
  };
  const auto work_of = [&](const head& h) -> const gpu_work& {
    return log.work()[(*h.order)[forward ? h.order->size() - h.left : h.left - 1]];
  };
  std::vector<head> heads;
  for (const auto& d : log.devices()) {
    if (d.second.order.empty()) continue;
    head h{0, heads.size(), d.second.order.size(), &d.second.order};
    h.start_ns = work_of(h).when.start_ns;
    heads.push_back(h);
  }
  std::make_heap(heads.begin(), heads.end());
  while (!heads.empty()) {
    std::pop_heap(heads.begin(), heads.end());
    head& h = heads.back();
    each(work_of(h));
    if (--h.left == 0) {
      heads.pop_back();
      continue;
    }
    h.start_ns = work_of(h).when.start_ns;
    std::push_heap(heads.begin(), heads.end());
  }
}

struct stage_cost : stage_time {
  std::int64_t call_ns = 0;
  std::int64_t queue_ns = 0;
  std::int64_t execution_ns = 0;
  std::int64_t transfer_ns = 0;
};

struct stage_report {
  std::vector<stage_cost> stages;   ///< most host time first
  std::int64_t gpu_busy_ns = 0;     ///< union over all devices
  std::int64_t gpu_outside_ns = 0;  ///< union of work that belongs to no stage
  std::uint64_t gpu_outside_operations = 0;
  std::int64_t gpu_unknown_ns = 0;  ///< union of work whose stage is no longer known
  std::uint64_t gpu_unknown_operations = 0;
};

/// GPU work of one instance of a stage, work of nested ones left out: unions, in ns.
struct instance_work {
  std::int64_t execution_ns = 0, transfer_ns = 0, gpu_ns = 0, queue_ns = 0;
  std::int64_t execution_until = INT64_MIN, transfer_until = INT64_MIN;
  std::int64_t gpu_until = INT64_MIN;  ///< end of the last work, INT64_MIN where there is none
  std::int64_t queue_from = INT64_MAX;
};

class stage_cost_finder {
 public:
  explicit stage_cost_finder(const trace_log& log) : log_(log) {}

  /// @param wall is fed in the same pass over all intervals, since that pass takes longest
  CUTRACE_ONE_COPY stage_report find(wall_sweep& wall) {
    const stage_log& stages = log_.stages();
    row_of_.assign(log_.names().size(), 0);
    rows_.emplace_back();  // of no stage
    instance_row_.assign(stages.size(), 0);
    instances_.resize(stages.size());
    parent_.assign(stages.size(), 0);
    for (std::uint32_t n = 1; n < stages.size(); ++n) {
      std::uint32_t& number = row_of_[stages[n].name];
      if (number == 0) {
        number = static_cast<std::uint32_t>(rows_.size());
        rows_.emplace_back();
        rows_.back().result.number = stages[n].name;
      }
      instance_row_[n] = number;
      parent_[n] = stages.parent_of(n);
      if (!stages[n].ended) continue;
      stage_cost& c = rows_[number].result;
      const std::uint64_t ns = static_cast<std::uint64_t>(stages[n].when.length_ns());
      ++c.calls;
      c.spans += stages[n].span;
      c.host_sum_ns += ns;
      c.longest_ns = std::max(c.longest_ns, ns);
    }
    forward(wall);
    backward();
    host();
    return report();
  }

  /// By stage_log number, after `find`.
  const std::vector<instance_work>& instances() const noexcept { return instances_; }
  busy_line& busy() noexcept { return busy_; }
  /// Number of the enclosing instance, stage_log::none where there is none.
  const std::vector<std::uint32_t>& parents() const noexcept { return parent_; }

 private:
  struct row {
    stage_cost result;
    std::int64_t own_until = INT64_MIN, all_until = INT64_MIN, execution_until = INT64_MIN, transfer_until = INT64_MIN,
                 call_until = INT64_MIN, host_until = INT64_MIN, queue_from = INT64_MAX;
  };

  /// Lengthens a union by an interval that starts no earlier than those before. @returns the part that is new
  static interval grow(std::int64_t& length_ns, std::int64_t& until_ns, interval v) noexcept {
    v.start_ns = std::max(v.start_ns, until_ns);
    add_ns(length_ns, v.length_ns());
    until_ns = std::max(until_ns, v.end_ns);
    return v;
  }

  template <class Each>
  void with_enclosing(std::uint32_t instance, Each&& each) {
    for (int level = 0; instance != stage_log::none && level < 64; ++level) {
      each(rows_[instance_row_[instance]]);
      instance = parent_[instance];
    }
  }

  void forward(wall_sweep& wall) {
    by_start(log_).for_each(
        [&](const gpu_work& w) {
          wall.work(w);
          log_.for_recorded(w.when, piece_, [&](interval v) { busy_.add(v); });
          row& own = w.stage_unknown ? unknown_ : rows_[w.stage == 0 ? 0 : instance_row_[w.stage]];
          ++own.result.gpu_operations;
          if (w.is == work_class::unfinished) return;  // such work keeps the device busy for an unknown time
          log_.for_recorded(w.when, piece_, [&](interval v) {
            grow(own.result.gpu_own_ns, own.own_until, v);
            if (w.stage == stage_log::none || w.stage_unknown) return;
            instance_work& i = instances_[w.stage];
            grow(i.gpu_ns, i.gpu_until, v);
            if (is_kernel(w.is)) grow(i.execution_ns, i.execution_until, v);
            if (is_copy(w.is)) grow(i.transfer_ns, i.transfer_until, v);
            with_enclosing(w.stage, [&](row& r) {
              grow(r.result.gpu_inclusive_ns, r.all_until, v);
              if (is_kernel(w.is)) grow(r.result.execution_ns, r.execution_until, v);
              if (is_copy(w.is)) grow(r.result.transfer_ns, r.transfer_until, v);
            });
          });
        },
        [&](const host_call& c) {
          wall.call(c);
          log_.for_recorded(c.when, piece_, [&](interval v) {
            with_enclosing(c.stage, [&](row& r) { grow(r.result.call_ns, r.call_until, v); });
          });
        },
        [&](std::uint32_t stage) { wall.stage(stage); });
  }

  /// Queue times. A wait ends when its work starts: visited from the last start to the first, the ends of waits come in
  /// order, and their union grows at its front.
  void backward() {
    for_each_work<work_order::last_start_first>(log_, [&](const gpu_work& w) {
      const interval waited = log_.wait_of(w);
      if (w.stage == stage_log::none || waited.empty()) return;
      const auto wait = [&](std::int64_t& queue_ns, std::int64_t& from_ns) {
        log_.for_recorded({waited.start_ns, std::min(waited.end_ns, from_ns)}, piece_,
                          [&](interval v) { add_ns(queue_ns, v.length_ns()); });
        from_ns = std::min(from_ns, waited.start_ns);
      };
      wait(instances_[w.stage].queue_ns, instances_[w.stage].queue_from);
      with_enclosing(w.stage, [&](row& r) { wait(r.result.queue_ns, r.queue_from); });
    });
  }

  void host() {
    struct piece {
      interval when;
      std::uint32_t row;
      bool operator<(const piece& o) const noexcept { return when.start_ns < o.when.start_ns; }
    };
    std::vector<piece> parts;
    for (std::size_t i = 0; i < log_.stages().parts().size(); ++i) {
      const adopted_part& p = log_.stages().parts()[i];
      parts.push_back({p.when, instance_row_[p.instance]});
      ++rows_[instance_row_[p.instance]].result.adopted_parts;
    }
    std::sort(parts.begin(), parts.end());
    const auto add = [&](std::uint32_t number, interval v) {
      row& r = rows_[number];
      log_.for_recorded(v, piece_, [&](interval part) {
        const interval fresh = grow(r.result.host_ns, r.host_until, part);
        add_ns(r.result.gpu_idle_inside_ns, fresh.length_ns() - busy_.inside(fresh));
      });
    };
    std::size_t at = 0;
    for (const std::uint32_t n : log_.stage_order()) {
      for (; at < parts.size() && parts[at].when.start_ns <= log_.stages()[n].when.start_ns; ++at)
        add(parts[at].row, parts[at].when);
      add(instance_row_[n], log_.stages()[n].when);
    }
    for (; at < parts.size(); ++at) add(parts[at].row, parts[at].when);
  }

  stage_report report() {
    count_requests();
    stage_report r;
    r.gpu_busy_ns = busy_.total_ns();
    r.gpu_outside_ns = rows_[0].result.gpu_own_ns;
    r.gpu_outside_operations = rows_[0].result.gpu_operations;
    r.gpu_unknown_ns = unknown_.result.gpu_own_ns;
    r.gpu_unknown_operations = unknown_.result.gpu_operations;
    std::vector<ranked> order;
    for (std::uint32_t i = 1; i < rows_.size(); ++i) {
      const stage_cost& s = rows_[i].result;
      if (s.calls + s.adopted_parts + s.gpu_operations > 0) order.push_back({s.host_ns, tie_ns(s), i});
    }
    rank(order);
    for (const ranked& o : order) {
      r.stages.push_back(std::move(rows_[o.index].result));
      r.stages.back().name = log_.names().name(r.stages.back().number);
    }
    return r;
  }

  /// Distinct requests of each stage's name. Instances without a record do not count: GPU work names their requests,
  /// too, but the sinks in the traced program (stages.hpp) count records of stages only.
  void count_requests() {
    const stage_log& stages = log_.stages();
    std::vector<bool> recorded(stages.size());
    for (std::uint32_t n = 1; n < stages.size(); ++n) recorded[n] = stages[n].ended;
    for (std::size_t i = 0; i < stages.parts().size(); ++i) recorded[stages.parts()[i].instance] = true;
    std::vector<std::vector<std::uint32_t>> seen(rows_.size());
    for (std::uint32_t n = 1; n < stages.size(); ++n) {
      if (!recorded[n]) continue;
      std::vector<std::uint32_t>& s = seen[instance_row_[n]];
      const stage_log::request_list list = stages.requests_of(n);
      if (stages[n].request_total > list.size) rows_[instance_row_[n]].result.requests_cut = true;
      for (const std::uint32_t request : list) {
        if ((request >> 5) >= s.size()) s.resize((request >> 5) + 1, 0);
        const std::uint32_t bit = 1u << (request & 31u);
        rows_[instance_row_[n]].result.requests += (s[request >> 5] & bit) == 0;
        s[request >> 5] |= bit;
      }
    }
  }

  const trace_log& log_;
  std::vector<std::uint32_t> row_of_;        ///< by name number
  std::vector<std::uint32_t> instance_row_;  ///< by instance
  std::vector<std::uint32_t> parent_;        ///< by instance
  std::vector<row> rows_;
  std::vector<instance_work> instances_;
  busy_line busy_;
  std::size_t piece_ = 0;  ///< index of the recorded piece that the last lookup found
  row unknown_;            ///< GPU work whose stage is not known any more
};

}  // namespace analysis
CUTRACE_END_NAMESPACE
