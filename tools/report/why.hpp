// SPDX-License-Identifier: Apache-2.0
// Why one request took as long as it did: where its time went (request_parts.hpp), compared with other requests of
// the same trace.
//
// Cohort: at most 500 other requests of the trace, evenly over their numbers, whose stages all ended and whose time was
// all recorded. A part is unusual where it took longer than in at least 90 % of the cohort; its excess is its time
// beyond the cohort's median. Causes are the parts by their excess, unusual ones first.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cutrace/analysis/stage_log.hpp>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "report/clock_log.hpp"
#include "report/request_parts.hpp"
#include "report/trace_analysis.hpp"

CUTRACE_BEGIN_NAMESPACE
namespace analysis {

/// Something that took a part of the request's time. Lists have the largest ns - typical_ns first.
struct why_share {
  std::string name;                   ///< of a stage, call, kernel, request or kind of copy
  std::string site;                   ///< of a stage's marker
  std::vector<std::string> requests;  ///< other requests that the stage served
  std::int64_t ns = 0;
  std::int64_t typical_ns = 0;  ///< `ns` if each instance had taken the median of the trace, 0 where not compared
  std::uint64_t count = 0;
  std::uint32_t thread_id = 0;  ///< 0: no thread, or several
};

struct why_cause {
  request_part is = request_part::between;
  std::int64_t ns = 0, typical_ns = 0;  ///< time of the request; median of the cohort
  bool unusual = false;
  std::vector<why_share> shares;  ///< what took `ns`
  std::vector<why_share> mates;   ///< gpu_batch: other requests of its batches that are slow in general (by_batch)
  /// span, between, own_code: other stages and spans that were open in the longest span, in the longest gap, or in
  /// the stage whose own code took longest beyond its median.
  std::vector<why_share> others;
  std::int64_t preempted_ns = 0;  ///< own_code: its threads were switched out; 0 without kernel events
  /// gpu_alone, gpu_batch: mean GPU clock while kernels of the request ran, and while any kernels of the trace ran. 0
  /// unless the trace has samples and the former is lower by more than a twentieth.
  double clock_mhz = 0, typical_clock_mhz = 0;
  std::int64_t excess_ns() const noexcept { return ns - typical_ns; }
  bool stands_out() const noexcept { return unusual && excess_ns() > 0; }
};

/// All stage instances of one name that serve the request.
struct why_row {
  std::string name, site;
  std::uint64_t count = 0;
  std::uint64_t batches = 0;
  bool span = false;
  std::int64_t host_ns = 0, gpu_ns = 0;  ///< sums over the instances
  std::vector<interval> host, gpu;       ///< merged
};

struct why_report {
  std::string name;  ///< of the request
  request_account account;
  std::size_t rank = 0;  ///< 1: the slowest of the trace
  std::size_t requests = 0, cohort = 0;
  bool sampled = false;       ///< not all requests whose stages ended are in the cohort, but every n-th
  std::int64_t begun_ns = 0;  ///< when the trace began
  std::int64_t typical_latency_ns = 0;
  std::vector<why_cause> causes;
  std::vector<why_row> rows;  ///< by their first start
  std::vector<std::string> not_looked_at;

  /// How many of `causes` the pages describe in a sentence: the first, and the next ones that stand out by at least a
  /// twentieth of the latency.
  std::size_t shown_causes() const noexcept {
    std::size_t n = causes.empty() ? 0 : 1;
    while (n != 0 && n < causes.size() && causes[n].stands_out() &&
           20 * causes[n].excess_ns() >= account.span.length_ns())
      ++n;
    return n;
  }
};

class why_finder {
 public:
  /// All arguments must outlive this. @param switched_out by thread id, unordered; empty: no kernel events in the trace
  why_finder(const trace_log& log, const trace_results& results,
             const std::map<std::uint32_t, std::vector<interval>>& switched_out, clock_log& clocks)
      : log_(log),
        results_(results),
        switched_(switched_out),
        clocks_(clocks),
        index_(log),
        accounts_(index_, results.requests),
        threads_(log.stages(), log.stage_order(), log.threads().size()) {
    for (std::uint32_t r = 0; r < results.requests.size(); ++r)
      if (results.requests[r].stages != 0) by_latency_.push_back(r);
    std::stable_sort(by_latency_.begin(), by_latency_.end(), [&](std::uint32_t a, std::uint32_t b) {
      return results.requests[a].span.length_ns() > results.requests[b].span.length_ns();
    });
  }

  /// Requests with the longest latency first.
  const std::vector<std::uint32_t>& by_latency() const noexcept { return by_latency_; }
  std::string name_of_request(std::uint32_t request) const {
    const std::string& name = log_.stages().request_name(request);
    return name.empty() ? std::to_string(log_.stages().request_ids()[request]) : name;
  }

  CUTRACE_ONE_COPY why_report find(std::uint32_t request) {
    why_report r;
    r.name = name_of_request(request);
    r.account = accounts_.of(request);
    r.requests = by_latency_.size();
    r.rank =
        static_cast<std::size_t>(std::find(by_latency_.begin(), by_latency_.end(), request) - by_latency_.begin()) + 1;
    r.begun_ns = log_.window().start_ns;
    compare(r);
    rows(r);
    for (why_cause& c : r.causes) explain(c, r);
    if (const std::int64_t ns = r.account.time_ns(request_part::not_recorded))
      r.not_looked_at.push_back(std::to_string(ns) + " ns of its time, which lie outside of what was recorded");
    if (switched_.empty())
      r.not_looked_at.push_back(
          "whether the host's threads were preempted (no kernel events: cutrace run --method all)");
    if (clocks_.empty()) r.not_looked_at.push_back("the GPU's clocks (no records of them: CUTRACE_KINDS=+environment)");
    std::set<std::uint32_t> processes;
    for (const work_lane& l : log_.lanes()) processes.insert(l.process);
    if (processes.size() < 2)
      r.not_looked_at.push_back("other processes on the GPU (the trace is of one: cutrace merge)");
    return r;
  }

 private:
  /// Mean of clocks, weighted by the time for which each held.
  struct weighted_mean {
    double sum = 0, ns = 0;
    void add(clock_log& clocks, std::uint32_t device, interval v) {
      const double mhz = clocks.mean_mhz(device, v);
      if (mhz <= 0) return;
      sum += mhz * static_cast<double>(v.length_ns());
      ns += static_cast<double>(v.length_ns());
    }
    double value() const noexcept { return ns > 0 ? sum / ns : 0; }
  };

  static constexpr std::size_t cohort_limit = 500, shown = 3, sample_limit = 512;
  static constexpr std::uint16_t no_thread = UINT16_MAX;

  static std::int64_t median(std::vector<std::int64_t> list) {
    if (list.empty()) return 0;
    const auto middle = list.begin() + static_cast<std::ptrdiff_t>(list.size() / 2);
    std::nth_element(list.begin(), middle, list.end());
    return *middle;
  }

  void compare(why_report& r) {
    std::vector<const request_account*> cohort;
    for (const std::uint32_t other : sampled())
      if (other != r.account.request && account(other).time_ns(request_part::not_recorded) == 0)
        cohort.push_back(&account(other));
    r.sampled = step_ > 1;
    r.cohort = cohort.size();
    std::vector<std::int64_t> times;
    for (const request_account* a : cohort) times.push_back(a->span.length_ns());
    r.typical_latency_ns = median(times);
    for (std::size_t p = 0; p < request_part_count; ++p) {
      why_cause c;
      c.is = static_cast<request_part>(p);
      c.ns = r.account.ns[p];
      times.clear();
      for (const request_account* a : cohort) times.push_back(a->ns[p]);
      c.typical_ns = median(times);
      const std::size_t below = static_cast<std::size_t>(
          std::count_if(times.begin(), times.end(), [&](std::int64_t ns) { return ns < c.ns; }));
      c.unusual = !times.empty() && 10 * below >= 9 * times.size();
      if (c.ns != 0 && c.is != request_part::not_recorded) r.causes.push_back(std::move(c));
    }
    std::stable_sort(r.causes.begin(), r.causes.end(), [](const why_cause& a, const why_cause& b) {
      return a.stands_out() != b.stands_out() ? a.stands_out() : a.excess_ns() > b.excess_ns();
    });
  }

  /// Every n-th request whose stages all ended, at most cohort_limit.
  const std::vector<std::uint32_t>& sampled() {
    if (!sampled_.empty()) return sampled_;
    std::vector<std::uint32_t> whole;
    for (std::uint32_t r = 0; r < results_.requests.size(); ++r) {
      bool ended = results_.requests[r].stages != 0;
      for (const std::uint32_t n : index_.instances(r)) ended = ended && log_.stages()[n].ended;
      if (ended) whole.push_back(r);
    }
    step_ = std::max<std::size_t>((whole.size() + cohort_limit - 1) / cohort_limit, 1);
    for (std::size_t i = 0; i < whole.size(); i += step_) sampled_.push_back(whole[i]);
    return sampled_;
  }
  const request_account& account(std::uint32_t request) {
    const auto found = known_.find(request);
    return found != known_.end() ? found->second : known_.emplace(request, accounts_.of(request)).first->second;
  }

  void rows(why_report& r) {
    std::map<std::uint32_t, std::size_t> row_of;
    for (const std::uint32_t n : index_.instances(r.account.request)) {
      const stage_instance& s = log_.stages()[n];
      const auto found = row_of.emplace(s.name, r.rows.size());
      if (found.second) {
        r.rows.emplace_back();
        r.rows.back().name = log_.names().name(s.name);
        r.rows.back().site = log_.site(n);
      }
      why_row& row = r.rows[found.first->second];
      ++row.count;
      row.batches += log_.stages().served(n) > 1;
      row.span = s.span;
      std::vector<interval> open;
      for (const host_place& p : places_of(n, false)) open.push_back(p.when);
      row.host.insert(row.host.end(), open.begin(), open.end());
      add_ns(row.host_ns, union_length_ns(std::move(open)));
      for (const std::uint32_t i : index_.works(n)) row.gpu.push_back(log_.work()[i].when);
    }
    for (why_row& row : r.rows) {
      row.host = merged(std::move(row.host));
      row.gpu = merged(std::move(row.gpu));
      for (const interval v : row.gpu) add_ns(row.gpu_ns, v.length_ns());
    }
    const auto start = [](const why_row& row) {
      return std::min(row.host.empty() ? INT64_MAX : row.host[0].start_ns,
                      row.gpu.empty() ? INT64_MAX : row.gpu[0].start_ns);
    };
    std::stable_sort(r.rows.begin(), r.rows.end(),
                     [&](const why_row& a, const why_row& b) { return start(a) < start(b); });
  }

  void explain(why_cause& c, const why_report& r) {
    switch (c.is) {
      case request_part::gpu_alone:
        clocks(c, r.account.request);
        return by_work(c, r.account.request);
      case request_part::copy:
        return by_work(c, r.account.request);
      case request_part::gpu_batch:
        clocks(c, r.account.request);
        return by_batch(c, r.account.request);
      case request_part::behind_others:
        return by_others(c, r.account.request);
      case request_part::launch_delay:
        return by_delay(c, r.account.request);
      case request_part::allocation:
      case request_part::waiting:
      case request_part::launching:
      case request_part::other_calls:
        return by_calls(c, r.account.request);
      case request_part::own_code:
        return by_own_code(c, r.account.request);
      case request_part::span:
        return by_spans(c, r);
      case request_part::between:
        return by_holes(c, r);
      case request_part::not_recorded:
        return;
    }
  }

  template <class Key>
  static void take_most(std::vector<why_share>& to, std::map<Key, why_share>& from) {
    for (auto& one : from) to.push_back(std::move(one.second));
    std::stable_sort(to.begin(), to.end(), [](const why_share& a, const why_share& b) {
      const std::int64_t x = a.ns - a.typical_ns, y = b.ns - b.typical_ns;
      return x != y ? x > y : a.ns > b.ns;
    });
    if (to.size() > shown) to.resize(shown);
  }

  /// Counts the instance `stage` in the share of its name, which has the site of the first instance. @returns the share
  why_share& count_in(std::map<std::uint32_t, why_share>& by_name, std::uint32_t stage) const {
    const std::uint32_t name = log_.stages()[stage].name;
    why_share& s = by_name[name];
    if (s.count++ == 0) {
      s.name = log_.names().name(name);
      s.site = log_.site(stage);
    }
    return s;
  }

  /// Mean clock while kernels of the device ran: of at most sample_limit pieces of work, evenly over the trace.
  double typical_clock(std::uint32_t device) {
    const auto known = typical_clock_.emplace(device, 0.0);
    if (!known.second || log_.devices().count(device) == 0) return known.first->second;
    const std::vector<std::uint32_t>& order = log_.devices().at(device).order;
    weighted_mean mean;
    for (std::size_t i = 0, step = order.size() / sample_limit + 1; i < order.size(); i += step)
      if (is_kernel(log_.work()[order[i]].is)) mean.add(clocks_, device, log_.work()[order[i]].when);
    return known.first->second = mean.value();
  }

  void clocks(why_cause& c, std::uint32_t request) {
    std::map<std::uint32_t, weighted_mean> by_device;
    for (const std::uint32_t n : index_.instances(request)) {
      if ((log_.stages().served(n) > 1) != (c.is == request_part::gpu_batch)) continue;
      for (const std::uint32_t i : index_.works(n)) {
        const gpu_work& w = log_.work()[i];
        if (!is_kernel(w.is)) continue;
        const std::uint32_t device = log_.lanes()[w.lane].device;
        by_device[device].add(clocks_, device, w.when);
      }
    }
    for (const auto& d : by_device) {
      const double own = d.second.value(), typical = typical_clock(d.first);
      if (own <= 0 || own >= 0.95 * typical || own - typical >= c.clock_mhz - c.typical_clock_mhz) continue;
      c.clock_mhz = own;
      c.typical_clock_mhz = typical;
    }
  }

  /// Kernels by name and stage, copies and sets by kind and stage.
  void by_work(why_cause& c, std::uint32_t request) {
    std::map<std::pair<std::uint32_t, std::uint32_t>, why_share> found;
    for (const std::uint32_t n : index_.instances(request))
      for (const std::uint32_t i : index_.works(n)) {
        const gpu_work& w = log_.work()[i];
        const bool kernel = is_kernel(w.is);
        if (kernel != (c.is == request_part::gpu_alone) || (kernel && log_.stages().served(n) > 1)) continue;
        const std::uint32_t kind = (static_cast<std::uint32_t>(w.is) << 1 | w.pageable) << 8;
        why_share& s = found[{kernel ? w.name : UINT32_MAX - kind, log_.stages()[n].name}];
        if (s.count++ == 0) {
          s.name = (kernel ? log_.names().name(w.name) : std::string(w.pageable ? "pageable " : "") + name_of(w.is)) +
                   " of stage " + log_.names().name(log_.stages()[n].name);
          s.site = log_.site(n);
        }
        add_ns(s.ns, w.when.length_ns());
        add_ns(s.typical_ns, typical_work(w));
      }
    take_most(c.shares, found);
  }

  /// Median duration over the trace of kernels of the same name, or of copies of the same kind and size (to a power of
  /// two); 0 where there are fewer than three.
  std::int64_t typical_work(const gpu_work& w) {
    if (medians_.empty()) {
      std::map<work_key, std::vector<std::int64_t>> all;
      for (std::size_t i = 0; i < log_.work().size(); ++i) {
        std::vector<std::int64_t>& list = all[key_of(log_.work()[i])];
        if (list.size() < 65536) list.push_back(log_.work()[i].when.length_ns());
      }
      for (auto& one : all) medians_[one.first] = one.second.size() < 3 ? 0 : median(std::move(one.second));
    }
    return medians_[key_of(w)];
  }
  using work_key = std::pair<std::uint32_t, std::uint32_t>;
  static work_key key_of(const gpu_work& w) {
    if (is_kernel(w.is)) return {w.name, 0};
    std::uint32_t size = 0;
    for (std::uint64_t bytes = w.amount; bytes > 1; bytes >>= 1) ++size;
    return {static_cast<std::uint32_t>(w.is), 1 + size};
  }

  std::int64_t gpu_of(std::uint32_t instance) {
    if (stage_gpu_.empty()) stage_gpu_.assign(log_.stages().size(), -1);
    std::int64_t& ns = stage_gpu_[instance];
    if (ns >= 0) return ns;
    std::vector<interval> list;
    for (const std::uint32_t i : index_.works(instance)) list.push_back(log_.work()[i].when);
    ns = 0;
    for (const interval v : merged(std::move(list))) ns += v.length_ns();
    return ns;
  }

  /// Ended stage instances of this name, at most sample_limit, evenly over the trace.
  const std::vector<std::uint32_t>& like(std::uint32_t name) {
    std::vector<std::uint32_t>& list = of_name_[name];
    if (!list.empty()) return list;
    for (std::uint32_t n = 1; n < log_.stages().size(); ++n)
      if (log_.stages()[n].name == name && log_.stages()[n].ended) list.push_back(n);
    const std::size_t step = (list.size() + sample_limit - 1) / sample_limit;
    std::size_t kept = 0;
    for (std::size_t i = 0; step != 0 && i < list.size(); i += step) list[kept++] = list[i];
    list.resize(kept);
    return list;
  }
  std::int64_t typical_gpu(std::uint32_t name) {
    const auto known = typical_gpu_.find(name);
    if (known != typical_gpu_.end()) return known->second;
    std::vector<std::int64_t> times;
    for (const std::uint32_t n : like(name)) times.push_back(gpu_of(n));
    return typical_gpu_[name] = median(std::move(times));
  }

  /// The stages of the batches that the request shared, and those requests in them whose batches are slow in general.
  void by_batch(why_cause& c, std::uint32_t request) {
    std::map<std::uint32_t, why_share> stages;
    std::map<std::uint32_t, std::pair<std::int64_t, std::uint64_t>> with;  // by other request: excess, batches shared
    std::int64_t excess = 0;
    for (const std::uint32_t n : index_.instances(request)) {
      if (log_.stages().served(n) <= 1) continue;
      const std::uint32_t name = log_.stages()[n].name;
      const std::int64_t more = gpu_of(n) - typical_gpu(name);
      why_share& s = count_in(stages, n);
      add_ns(s.ns, gpu_of(n));
      add_ns(s.typical_ns, typical_gpu(name));
      if (more > 0) excess += more;
      for (const std::uint32_t mate : log_.stages().requests_of(n))
        if (mate != request) with[mate].first += more, ++with[mate].second;
    }
    take_most(c.shares, stages);
    // Another request (a mate) is a reason if its batches are slow in general, also without this request.
    for (const auto& m : with) {
      if (2 * m.second.first < excess || excess == 0) continue;
      why_share s;
      for (const std::uint32_t n : index_.instances(m.first)) {
        if (log_.stages().served(n) <= 1 || serves(n, request)) continue;
        add_ns(s.ns, gpu_of(n));
        add_ns(s.typical_ns, typical_gpu(log_.stages()[n].name));
      }
      if (s.ns == 0 || 5 * s.ns < 6 * s.typical_ns) continue;
      s.name = name_of_request(m.first);
      s.count = m.second.second;
      c.mates.push_back(std::move(s));
    }
    std::stable_sort(c.mates.begin(), c.mates.end(),
                     [](const why_share& a, const why_share& b) { return a.ns - a.typical_ns > b.ns - b.typical_ns; });
    if (c.mates.size() > shown) c.mates.resize(shown);
  }

  /// Merged stretches in which work of the request had been launched and not started, by device.
  std::map<std::uint32_t, std::vector<interval>> waits_of(std::uint32_t request) const {
    std::map<std::uint32_t, std::vector<interval>> waits;
    for (const std::uint32_t n : index_.instances(request))
      for (const std::uint32_t i : index_.works(n)) {
        const gpu_work& w = log_.work()[i];
        if (const interval v = log_.wait_of(w); !v.empty()) waits[log_.lanes()[w.lane].device].push_back(v);
      }
    for (auto& d : waits) d.second = merged(std::move(d.second));
    return waits;
  }

  bool serves(std::uint32_t stage, std::uint32_t request) const {
    if (stage == stage_log::none) return false;
    const stage_log::request_list list = log_.stages().requests_of(stage);
    return std::find(list.begin(), list.end(), request) != list.end();
  }

  /// Work of others that ran while work of the request waited, by process, stage (without one: by name or kind) and the
  /// requests that it served.
  void by_others(why_cause& c, std::uint32_t request) {
    std::map<std::array<std::uint32_t, 4>, why_share> found;
    const auto waits = waits_of(request);
    std::uint32_t own_process = 0;
    for (const std::uint32_t n : index_.instances(request))
      for (const std::uint32_t i : index_.works(n)) own_process = log_.lanes()[log_.work()[i].lane].process;
    for (const auto& d : waits) {
      std::size_t at = 0;
      for (const std::uint32_t i : log_.devices().at(d.first).order) {
        const gpu_work& w = log_.work()[i];
        if (w.is == work_class::unfinished || serves(w.stage, request)) continue;
        while (at < d.second.size() && d.second[at].end_ns <= w.when.start_ns) ++at;
        if (at == d.second.size()) break;
        for (std::size_t k = at; k < d.second.size() && d.second[k].start_ns < w.when.end_ns; ++k) {
          const stage_instance& stage = log_.stages()[w.stage];
          const std::uint32_t process = log_.lanes()[w.lane].process;
          const bool staged = w.stage != stage_log::none;
          const std::uint32_t work = w.name != 0 ? w.name : UINT32_MAX - static_cast<std::uint32_t>(w.is);
          why_share& s = found[{process, staged, staged ? stage.name : work, stage.requests}];
          if (s.count++ == 0) name_company(s, w, process == own_process ? 0 : process);
          add_ns(s.ns, clip(w.when, d.second[k]).length_ns());
        }
      }
    }
    take_most(c.shares, found);
  }

  void name_company(why_share& s, const gpu_work& w, std::uint32_t process) const {
    const stage_instance& stage = log_.stages()[w.stage];
    s.name = w.stage != stage_log::none ? log_.names().name(stage.name)
             : w.name != 0              ? log_.names().name(w.name)
                                        : std::string(name_of(w.is));
    if (process != 0) s.name += " of process " + std::to_string(process);
    s.site = log_.site(w.stage);
    for (const std::uint32_t r : log_.stages().requests_of(w.stage))
      if (s.requests.size() < 8) s.requests.push_back(name_of_request(r));
  }

  /// Stages whose work waited, with the part of the wait in which the device was idle.
  void by_delay(why_cause& c, std::uint32_t request) {
    std::map<std::uint32_t, why_share> found;
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<interval>> waits;  // by stage's name and device
    for (const std::uint32_t n : index_.instances(request))
      for (const std::uint32_t i : index_.works(n)) {
        const interval waited = log_.wait_of(log_.work()[i]);
        if (waited.empty()) continue;
        count_in(found, n);
        waits[{log_.stages()[n].name, log_.lanes()[log_.work()[i].lane].device}].push_back(waited);
      }
    for (auto& w : waits) {
      const std::vector<interval> list = merged(std::move(w.second));
      const std::int64_t busy_ns = intersection_length_ns(list, index_.busy(w.first.second));
      add_ns(found[w.first.first].ns, union_length_ns(list) - busy_ns);
    }
    take_most(c.shares, found);
  }

  void by_calls(why_cause& c, std::uint32_t request) {
    std::map<std::pair<std::uint32_t, std::uint32_t>, why_share> found;
    for (const std::uint32_t n : index_.instances(request)) {
      std::set<std::pair<std::uint16_t, std::int64_t>>
          pageable;  // calls whose copies are from or to pageable host memory
      for (const std::uint32_t i : index_.works(n)) {
        const gpu_work& w = log_.work()[i];
        if (w.pageable && w.call_is == call_reference::index) pageable.insert({w.thread, w.call});
      }
      for (const request_index::call_place at : index_.calls(n)) {
        const host_call& call = log_.threads()[at.thread].calls()[at.call];
        if (part_of_call(log_.traits(call.name)) != c.is) continue;
        why_share& s = found[{call.name, log_.stages()[n].name}];
        if (s.count++ == 0) {
          s.name = log_.names().name(call.name) +
                   (pageable.count({at.thread, static_cast<std::int64_t>(at.call)}) != 0 ? " (pageable memory)" : "") +
                   " of stage " + log_.names().name(log_.stages()[n].name);
          s.site = log_.site(n);
          s.thread_id = log_.thread_id(at.thread);
        }
        add_ns(s.ns, call.when.length_ns());
      }
    }
    take_most(c.shares, found);
  }

  struct host_place {
    std::uint16_t thread;
    interval when;
  };
  /// Where the instance was open: on its own thread, if it has ended, and on those that adopted it.
  /// @param at_work without the time of a span, which may only wait
  std::vector<host_place> places_of(std::uint32_t n, bool at_work) const {
    const stage_instance& s = log_.stages()[n];
    std::vector<host_place> places;
    if (s.ended && !(at_work && s.span)) places.push_back({s.thread, s.when});
    if (const std::vector<std::uint32_t>* parts = index_.parts(n))
      for (const std::uint32_t p : *parts)
        places.push_back({log_.stages().parts()[p].thread, log_.stages().parts()[p].when});
    return places;
  }

  /// Time in which the instance was the innermost of a thread, without its calls. @param where receives the stretches
  std::int64_t own_of(std::uint32_t n, std::map<std::uint16_t, std::vector<interval>>* where = nullptr) {
    std::map<std::uint16_t, std::vector<interval>> own;
    for (const host_place& place : places_of(n, true)) {
      std::size_t hint = 0;
      threads_.innermost(place.thread, place.when, stage_log::none, hint, pieces_);
      for (const stage_piece& p : pieces_)
        if (p.stage == n) own[place.thread].push_back(p.when);
    }
    std::int64_t ns = 0;
    for (const auto& t : own)
      for (const interval whole : merged(t.second))
        log_.for_recorded(whole, piece_, [&](interval v) {
          ns += v.length_ns();
          if (where != nullptr) (*where)[t.first].push_back(v);
        });
    for (const request_index::call_place at : index_.calls(n))
      if (own.count(at.thread) != 0)
        log_.for_recorded(log_.threads()[at.thread].calls()[at.call].when, piece_,
                          [&](interval v) { ns -= v.length_ns(); });
    return std::max<std::int64_t>(ns, 0);
  }
  std::int64_t typical_own(std::uint32_t name) {
    const auto known = typical_own_.find(name);
    if (known != typical_own_.end()) return known->second;
    std::vector<std::int64_t> times;
    for (const std::uint32_t n : like(name)) times.push_back(own_of(n));
    return typical_own_[name] = median(std::move(times));
  }

  void by_own_code(why_cause& c, std::uint32_t request) {
    std::map<std::uint32_t, why_share> found;
    std::map<std::uint16_t, std::vector<interval>> where;
    interval longest;
    std::uint16_t longest_thread = no_thread;
    std::int64_t most = INT64_MIN;
    for (const std::uint32_t n : index_.instances(request)) {
      const std::vector<host_place> places = places_of(n, true);
      if (places.empty()) continue;
      const std::int64_t own = own_of(n, &where), typical = typical_own(log_.stages()[n].name);
      why_share& s = count_in(found, n);
      if (s.count == 1 && places.size() == 1) s.thread_id = log_.thread_id(places[0].thread);
      add_ns(s.ns, own);
      add_ns(s.typical_ns, typical);
      if (own - typical <= most) continue;
      most = own - typical, longest = {}, s.site = log_.site(n);
      for (const host_place& p : places)
        if (p.when.length_ns() >= longest.length_ns()) longest = p.when, longest_thread = p.thread;
    }
    take_most(c.shares, found);
    for (auto& t : where) {
      const auto out = switched_.find(log_.thread_id(t.first));
      if (out == switched_.end()) continue;
      const std::vector<interval> own = merged(std::move(t.second)), away = merged(out->second);
      std::size_t at = 0;
      for (const interval v : own) {
        while (at < away.size() && away[at].end_ns <= v.start_ns) ++at;
        for (std::size_t k = at; k < away.size() && away[k].start_ns < v.end_ns; ++k)
          add_ns(c.preempted_ns, clip(away[k], v).length_ns());
      }
    }
    if (longest_thread != no_thread) company(c, longest_thread, longest, request);
  }

  /// Adds the stages that were open on other threads during `v`.
  void company(why_cause& c, std::uint16_t thread, interval v, std::uint32_t request) {
    for (const thread_stages::company& o : threads_.others(thread, v)) {
      if (c.others.size() == shown) break;
      if (o.span && std::any_of(index_.instances(request).begin(), index_.instances(request).end(),
                                [&](std::uint32_t n) { return log_.stages()[n].name == o.name; }))
        continue;
      why_share s;
      s.name = log_.names().name(o.name);
      s.ns = o.ns;
      s.thread_id = o.span ? 0 : log_.thread_id(o.thread);
      c.others.push_back(std::move(s));
    }
  }

  void by_spans(why_cause& c, const why_report& r) {
    std::map<std::uint32_t, why_share> found;
    interval longest;
    for (const std::uint32_t n : index_.instances(r.account.request)) {
      const stage_instance& s = log_.stages()[n];
      if (!s.span || !s.ended) continue;
      add_ns(count_in(found, n).ns, s.when.length_ns());
      if (s.when.length_ns() > longest.length_ns()) longest = s.when;
    }
    take_most(c.shares, found);
    if (!longest.empty()) company(c, no_thread, longest, r.account.request);
  }

  /// The longest stretch in which nothing of the request was open, and what stands on its two sides.
  void by_holes(why_cause& c, const why_report& r) {
    std::vector<interval> all;
    for (const why_row& row : r.rows) {
      all.insert(all.end(), row.host.begin(), row.host.end());
      all.insert(all.end(), row.gpu.begin(), row.gpu.end());
    }
    interval longest;
    for (const interval hole : gaps(merged(std::move(all)), r.account.span))
      log_.for_recorded(hole, piece_, [&](interval v) {
        if (v.length_ns() > longest.length_ns()) longest = v;
      });
    if (longest.empty()) return;
    const why_row *before = nullptr, *after = nullptr;
    std::int64_t before_ns = 0, after_ns = 0;
    for (const why_row& row : r.rows) {
      for (const std::vector<interval>* list : {&row.host, &row.gpu})
        for (const interval v : *list) {
          if (v.end_ns <= longest.start_ns && (before == nullptr || v.end_ns > before_ns))
            before = &row, before_ns = v.end_ns;
          if (v.start_ns >= longest.end_ns && (after == nullptr || v.start_ns < after_ns))
            after = &row, after_ns = v.start_ns;
        }
    }
    why_share s;
    s.name = (before == nullptr ? std::string("the begin") : before->name) + " -> " +
             (after == nullptr ? std::string("the end") : after->name);
    s.count = 1;
    s.ns = longest.length_ns();
    c.shares.push_back(std::move(s));
    company(c, no_thread, longest, r.account.request);
  }

  const trace_log& log_;
  const trace_results& results_;
  const std::map<std::uint32_t, std::vector<interval>>& switched_;
  clock_log& clocks_;
  request_index index_;
  request_accounts accounts_;
  thread_stages threads_;
  std::vector<std::uint32_t> by_latency_, sampled_;
  std::size_t step_ = 1;
  std::map<std::uint32_t, request_account> known_;
  std::map<work_key, std::int64_t> medians_;
  std::vector<std::int64_t> stage_gpu_;  ///< by instance, -1: not known yet
  std::map<std::uint32_t, std::vector<std::uint32_t>> of_name_;
  std::map<std::uint32_t, std::int64_t> typical_gpu_, typical_own_;
  std::map<std::uint32_t, double> typical_clock_;
  std::vector<stage_piece> pieces_;
  std::size_t piece_ = 0;  ///< index of the recorded piece that the last lookup found
};

}  // namespace analysis
CUTRACE_END_NAMESPACE
