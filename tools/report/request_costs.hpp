// SPDX-License-Identifier: Apache-2.0
// What each request cost. What was measured for a batch stays apart from what was measured for the request alone; the
// share of a batch is an estimate and is called one.
//
//   span       first start .. last end of the stages that name the request, of their parts that other threads adopted
//              (adopted_stage in context.hpp), and of their GPU work; its length is the latency
//   host       union of those stages, without parts that other threads adopted
//   idle       the part of `host` in which no GPU was at work
//   alone      GPU time of stages that serve no other request; in batches: GPU time of stages that serve several
//   estimate   sum over batches of (GPU time of the batch / requests of the batch)
//   queue      time in which launched work had not started
// GPU and queue times are unions within an instance of a stage, summed over the instances: work of nested stages counts
// in the nested stage, whose requests are those of the enclosing one unless it names its own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "report/stage_costs.hpp"

CUTRACE_BEGIN_NAMESPACE
namespace analysis {

struct request_cost {
  std::uint32_t request = 0;  ///< number, see stage_log
  std::uint32_t stages = 0;   ///< instances
  std::uint32_t batches = 0;  ///< instances that serve other requests, too
  interval span;
  std::int64_t host_ns = 0;
  std::int64_t idle_inside_ns = 0;
  std::int64_t queue_ns = 0;
  std::int64_t execution_alone_ns = 0, transfer_alone_ns = 0;
  std::int64_t execution_in_batches_ns = 0, transfer_in_batches_ns = 0;  ///< the batches' time, not the request's
  std::int64_t estimated_share_ns = 0;
};

/// By request number. Empty where no stage names a request. @param stage_costs of the same trace, after `find`
CUTRACE_ONE_COPY inline std::vector<request_cost> find_request_costs(const trace_log& log,
                                                                     stage_cost_finder& stage_costs) {
  const stage_log& stages = log.stages();
  std::vector<request_cost> list(stages.request_ids().size());
  if (list.empty()) return list;

  const std::vector<instance_work>& of = stage_costs.instances();
  std::vector<std::int64_t> host_until(list.size(), INT64_MIN);
  std::size_t piece = 0;
  const auto add = [&](std::uint32_t n, bool ended) {
    const stage_log::request_list requests = stages.requests_of(n);
    const stage_instance& s = stages[n];
    const instance_work& w = of[n];
    const std::uint32_t total = stages.served(n);
    for (const std::uint32_t r : requests) {
      request_cost& c = list[r];
      const interval whole{ended ? s.when.start_ns : INT64_MAX,
                           std::max(ended ? s.when.end_ns : INT64_MIN, w.gpu_until)};
      if (c.stages == 0)
        c.span = whole;
      else
        c.span = {std::min(c.span.start_ns, whole.start_ns), std::max(c.span.end_ns, whole.end_ns)};
      ++c.stages;
      if (ended) {
        log.for_recorded({std::max(s.when.start_ns, host_until[r]), s.when.end_ns}, piece, [&](interval fresh) {
          add_ns(c.host_ns, fresh.length_ns());
          add_ns(c.idle_inside_ns, fresh.length_ns() - stage_costs.busy().inside(fresh));
        });
        host_until[r] = std::max(host_until[r], s.when.end_ns);
      }
      add_ns(c.queue_ns, w.queue_ns);
      if (total <= 1) {
        add_ns(c.execution_alone_ns, w.execution_ns);
        add_ns(c.transfer_alone_ns, w.transfer_ns);
      } else {
        ++c.batches;
        add_ns(c.execution_in_batches_ns, w.execution_ns);
        add_ns(c.transfer_in_batches_ns, w.transfer_ns);
        add_ns(c.estimated_share_ns, w.gpu_ns / total);
      }
    }
  };
  for (const std::uint32_t n : log.stage_order()) add(n, true);
  for (std::uint32_t n = 1; n < stages.size(); ++n)
    if (!stages[n].ended && of[n].gpu_until != INT64_MIN) add(n, false);
  for (std::size_t i = 0; i < stages.parts().size(); ++i)
    for (const std::uint32_t r : stages.requests_of(stages.parts()[i].instance)) {
      const interval part = stages.parts()[i].when;
      if (list[r].stages != 0)
        list[r].span = {std::min(list[r].span.start_ns, part.start_ns), std::max(list[r].span.end_ns, part.end_ns)};
    }
  for (std::uint32_t r = 0; r < list.size(); ++r) {
    list[r].request = r;
    if (list[r].span.start_ns == INT64_MAX) list[r].span.start_ns = list[r].span.end_ns;  // no stage has ended
  }
  return list;
}

}  // namespace analysis
CUTRACE_END_NAMESPACE
