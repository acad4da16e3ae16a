// SPDX-License-Identifier: Apache-2.0
// All intervals of a sealed trace in the order of their start: devices, calls, stages merged, without a list of them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cutrace/analysis/trace_log.hpp>
#include <utility>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace analysis {

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
      head& h = heads_.front();
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
        h = heads_.back();
        heads_.pop_back();
        if (heads_.empty()) return;
      } else {
        h.start_ns = start_of(h);
      }
      sink_front();
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
    std::push_heap(heads_.begin(), heads_.end(), [](const head& a, const head& b) { return a.start_ns > b.start_ns; });
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

  void sink_front() noexcept {
    for (std::size_t i = 0;;) {
      std::size_t child = 2 * i + 1;
      if (child >= heads_.size()) return;
      if (child + 1 < heads_.size() && heads_[child + 1].start_ns < heads_[child].start_ns) ++child;
      if (heads_[i].start_ns <= heads_[child].start_ns) return;
      std::swap(heads_[i], heads_[child]);
      i = child;
    }
  }

  const trace_log& log_;
  std::vector<head> heads_;
};

/// Calls `each(const gpu_work&)` for the work of all devices, from the last start to the first.
template <class Each>
void for_each_work_backward(const trace_log& log, Each&& each) {
  struct place {
    const std::vector<std::uint32_t>* order;
    std::size_t left;
  };
  std::vector<place> devices;
  for (const auto& d : log.devices()) devices.push_back({&d.second.order, d.second.order.size()});
  const auto last_of = [&](const place& p) -> const gpu_work& { return log.work()[(*p.order)[p.left - 1]]; };
  for (;;) {
    place* last = nullptr;
    for (place& p : devices)
      if (p.left > 0 && (last == nullptr || last_of(p).when.start_ns > last_of(*last).when.start_ns)) last = &p;
    if (last == nullptr) return;
    const gpu_work& w = last_of(*last);
    --last->left;
    each(w);
  }
}

}  // namespace analysis
CUTRACE_END_NAMESPACE
