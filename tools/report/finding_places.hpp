// SPDX-License-Identifier: Apache-2.0
// Helpers of the rules: evidence from the log, and the stage in which something took most time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cutrace/analysis/finding.hpp>
#include <cutrace/analysis/idle_gaps.hpp>
#include <cutrace/analysis/trace_log.hpp>
#include <map>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace analysis {

inline evidence proof_of(const trace_log& log, const gpu_work& w) {
  evidence e;
  e.is = evidence::kind::work;
  e.when = w.when;
  e.device = log.lanes()[w.lane].device;
  e.stream = log.lanes()[w.lane].stream;
  e.thread_id = log.thread_id(w.thread);
  if (const host_call* call = log.launch_of(w).call) e.correlation = call->correlation;
  e.name = w.name != 0 ? log.names().name(w.name) : name_of(w.is);
  return e;
}

inline evidence proof_of(const trace_log& log, const idle_gap& g) {
  evidence e = proof_of(log, log.work()[g.next]);
  e.is = evidence::kind::gap;
  e.when = g.when;
  return e;
}

/// Collects GPU work of a finding: the stage and the kernel with the most time, and the longest pieces of work.
class work_places {
 public:
  explicit work_places(const trace_log& log) : log_(log) {}

  /// @param ns part of its time that counts; where it is 0, the work is counted and nothing else
  void add(const gpu_work& w, std::int64_t ns) {
    ++count_;
    bytes_ += is_copy(w.is) ? w.amount : 0;
    if (ns <= 0) return;
    by_stage_[log_.stages()[w.stage].name].add(w, ns);
    add_ns(by_name_[w.name], ns);
    const auto longer = [](const gpu_work* a, const gpu_work* b) { return a->when.length_ns() > b->when.length_ns(); };
    longest_.push_back(&w);
    std::push_heap(longest_.begin(), longest_.end(), longer);
    if (longest_.size() <= finding::proofs) return;
    std::pop_heap(longest_.begin(), longest_.end(), longer);
    longest_.pop_back();
  }

  std::uint64_t count() const noexcept { return count_; }

  /// Fills in count, bytes, stage, site, kernel (empty where work without a name took most time), number of stages as
  /// `places`, and evidence of the finding.
  CUTRACE_ONE_COPY void report(finding& f) const {
    f.count = count_;
    f.bytes = bytes_;
    std::uint32_t name = 0, stage = 0;
    std::int64_t most_ns = -1;
    for (const auto& n : by_name_)
      if (n.second > most_ns) name = n.first, most_ns = n.second;
    most_ns = -1;
    for (const auto& s : by_stage_)
      if (s.second.ns > most_ns) stage = s.second.longest, most_ns = s.second.ns;
    if (stage != stage_log::none) f.stage = log_.names().name(log_.stages()[stage].name);
    f.site = log_.site(stage);
    if (name != 0) f.kernel = log_.names().name(name);
    f.places = by_stage_.size();
    for (const gpu_work* w : longest_) f.proof.push_back(proof_of(log_, *w));
    std::sort(f.proof.begin(), f.proof.end(),
              [](const evidence& a, const evidence& b) { return a.when.length_ns() > b.when.length_ns(); });
  }

 private:
  struct stage_time {
    std::int64_t ns = 0, longest_ns = -1;
    std::uint32_t longest = stage_log::none;  ///< instance with the longest piece
    void add(const gpu_work& w, std::int64_t part_ns) {
      add_ns(ns, part_ns);
      if (part_ns > longest_ns) longest = w.stage, longest_ns = part_ns;
    }
  };

  const trace_log& log_;
  std::uint64_t count_ = 0, bytes_ = 0;
  std::map<std::uint32_t, stage_time> by_stage_;   ///< by name number of the stage
  std::map<std::uint32_t, std::int64_t> by_name_;  ///< by name number of the work
  std::vector<const gpu_work*> longest_;
};

/// Gaps of one device with the same remedy.
class gap_places {
 public:
  /// Takes the rows that `counts(row)` picks, and blames one of those that `named(row)` picks, too.
  template <class Counts, class Named>
  gap_places(const trace_log& log, const idle_report& idle, Counts&& counts, Named&& named) : log_(log) {
    for (const idle_blame& b : idle.blames)
      if (counts(b)) add(b);
    worst_ = most_blamed(idle.blames, [&](const idle_blame& b) { return counts(b) && named(b); });
  }
  template <class Counts>
  gap_places(const trace_log& log, const idle_report& idle, Counts&& counts)
      : gap_places(log, idle, counts, [](const idle_blame&) { return true; }) {}

  std::int64_t ns() const noexcept { return ns_; }
  std::uint64_t count() const noexcept { return count_; }

  CUTRACE_ONE_COPY void report(finding& f) {
    f.cost_ns = ns_;
    f.count = count_;
    f.places = places_;
    if (worst_ != nullptr) {
      f.stage = worst_->stage;
      if (!worst_->longest.empty()) f.site = log_.site(worst_->longest[0].stage);
      f.call = worst_->call;
    }
    std::sort(longest_.begin(), longest_.end(),
              [](const idle_gap& a, const idle_gap& b) { return a.when.length_ns() > b.when.length_ns(); });
    if (longest_.size() > finding::proofs) longest_.resize(finding::proofs);
    for (const idle_gap& g : longest_) f.proof.push_back(proof_of(log_, g));
  }

  /// Looks at the longest gap of the row that is blamed: fills in thread and stage of the
  /// work that ended the gap, and the stages that were open on other threads during the gap.
  CUTRACE_ONE_COPY void name_company(finding& f) const {
    if (worst_ == nullptr || worst_->longest.empty()) return;
    const idle_gap& g = worst_->longest[0];
    const gpu_work& next = log_.work()[g.next];
    f.thread_id = log_.thread_id(next.thread);
    if (next.stage != stage_log::none) f.next_stage = log_.names().name(log_.stages()[next.stage].name);
    thread_stages stages(log_.stages(), log_.stage_order(), log_.threads().size());
    for (const thread_stages::company& c : stages.others(next.thread, g.when)) {
      if (f.meanwhile.size() == finding::companions) break;
      f.meanwhile.push_back({log_.names().name(c.name), c.span ? 0 : log_.thread_id(c.thread), c.ns});
    }
  }

 private:
  void add(const idle_blame& b) {
    add_ns(ns_, b.total.ns);
    count_ += b.total.count;
    ++places_;
    longest_.insert(longest_.end(), b.longest.begin(), b.longest.end());
  }

  const trace_log& log_;
  const idle_blame* worst_ = nullptr;
  std::int64_t ns_ = 0;
  std::uint64_t count_ = 0;
  std::size_t places_ = 0;
  std::vector<idle_gap> longest_;
};

}  // namespace analysis
CUTRACE_END_NAMESPACE
