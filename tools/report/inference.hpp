// SPDX-License-Identifier: Apache-2.0
// Figures of an inference server: how long single stages take on the host and on the GPU; how long requests take to
// their first token and from token to token; queues, batches and tokens over time.
//
// Tokens are counted, and timed from a request's begin, as in the Prometheus sink (token_times.hpp), by the marks
// request_begin, first_token and token. In a trace without marks of tokens, names of stages replace them: the first
// token comes with the end of the first prefill stage, and each decode stage ends with a token; what is nested in such
// a stage is a part of it. The time in stages whose names say so is the time in a queue, with marks and without.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cutrace/analysis/duration_histogram.hpp>
#include <cutrace/analysis/names.hpp>
#include <cutrace/analysis/token_times.hpp>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "report/request_parts.hpp"
#include "report/stage_costs.hpp"

CUTRACE_BEGIN_NAMESPACE
namespace analysis {

/// Names of the queue stages, and of the prefill and decode stages, for traces without marks of tokens. An empty list:
/// by words in stage names.
struct inference_names {
  std::vector<std::string> queue, prefill, decode;
};

inline const inference_names& by_words() noexcept {
  static const inference_names none;
  return none;
}

/// Exact mean and maximum; percentiles within 1/32 of their value.
struct time_distribution {
  duration_histogram times;
  std::uint64_t sum_ns = 0, longest_ns = 0;
  void add(std::int64_t ns) {
    const std::uint64_t v = static_cast<std::uint64_t>(std::max<std::int64_t>(ns, 0));
    times.add(v);
    sum_ns += v;
    longest_ns = std::max(longest_ns, v);
  }
  std::uint64_t count() const noexcept { return times.count(); }
  std::uint64_t percentile_ns(unsigned percent) const noexcept { return times.percentile_ns(percent); }
  std::uint64_t mean_ns() const noexcept { return count() == 0 ? 0 : sum_ns / count(); }
};

/// Instances of one stage name. `gpu` includes nested stages and has only the instances with GPU work.
struct stage_distribution {
  std::string name;
  bool span = false;  ///< made by CUTRACE_SPAN: may end on another thread
  time_distribution host, gpu;
};

struct inference_bin {
  interval when;
  std::uint64_t batches = 0,
                served = 0;   ///< batches: stages (no spans) whose requests are not the parent's; served: these
  std::uint64_t largest = 0;  ///< largest batch
  std::uint64_t tokens = 0;
  double mean_batch() const noexcept {
    return batches == 0 ? 0.0 : static_cast<double>(served) / static_cast<double>(batches);
  }
};

struct inference_report {
  std::vector<stage_distribution> stages;  ///< largest total host time first
  std::uint64_t requests = 0;
  std::uint64_t tokens = 0;
  std::int64_t recorded_ns = 0;
  bool by_marks = false, by_names = false;  ///< source of tokens and their times; `queue` always goes by names
  time_distribution queue, first_token, between_tokens, per_output_token;
  time_distribution latency, gpu_alone, gpu_in_batches;  ///< see request_cost
  time_distribution behind_others;                       ///< see request_part; of `accounted` requests only
  std::uint64_t accounted = 0;           ///< number of requests in `behind_others`: all, or an even sample
  std::vector<inference_bin> over_time;  ///< equal parts of the trace

  /// Requests may be known from marks of their tokens alone.
  bool has_requests() const noexcept { return requests != 0 || tokens != 0; }
  double tokens_per_s() const noexcept {
    return recorded_ns <= 0 ? 0.0 : static_cast<double>(tokens) * 1e9 / static_cast<double>(recorded_ns);
  }
};

/// Collects the marks of requests and tokens. inference_finder takes everything else from the trace's log.
class inference_marks {
 public:
  void add(const event& e) {
    if (e.kind != event_kind::mark || e.request_count == 0) return;
    const std::string_view name(e.name.data, e.name.size);
    const bool begin = is_request_begin(name), token = is_token(name);
    if (!begin && !token && !is_request_end(name)) return;
    const std::int64_t at_ns = time_of(e.start_ns);
    for (std::uint32_t i = 0; i < e.request_count; ++i) {
      if (!begin && !token) {
        const auto found = of_.find(e.requests[i].id);
        if (found != of_.end()) found->second.end(at_ns);
        continue;
      }
      marked_times& t = of_[e.requests[i].id];
      if (begin) {
        if (t.is_over(at_ns)) {
          earlier_.push_back(t);
          t = {};
        }
        t.begin(at_ns);
        continue;
      }
      if (t.tokens == 0) t.first_named = name == "first_token";
      at_.push_back({at_ns, t.token(at_ns)});
    }
  }
  struct marked_times : token_times {
    bool first_named = false;  ///< its first token in the trace has the mark first_token
  };
  struct token_mark {
    std::int64_t at_ns, gap_ns;  ///< gap_ns: since the request's previous token; -1: see token_times::token
  };
  /// By request id: of several requests with one id, the last.
  const detail::seeded_map<std::uint64_t, marked_times>& requests() const noexcept { return of_; }
  /// Requests that were marked as ended before another one of their id began.
  const std::vector<marked_times>& earlier() const noexcept { return earlier_; }
  const std::vector<token_mark>& tokens() const noexcept { return at_; }

 private:
  detail::seeded_map<std::uint64_t, marked_times> of_;
  std::vector<marked_times> earlier_;
  std::vector<token_mark> at_;
};

class inference_finder {
 public:
  static constexpr std::size_t parts = 40, accounts_limit = 1000;

  /// @param parents number of the enclosing stage instance, by stage_log number (stage_cost_finder::parents)
  inference_finder(const trace_log& log, const std::vector<request_cost>& costs,
                   const std::vector<std::uint32_t>& parents, const inference_marks& marks,
                   const inference_names& names)
      : log_(log), costs_(costs), parents_(parents), marks_(marks), names_(names) {}

  CUTRACE_ONE_COPY inference_report find() {
    r_.recorded_ns = log_.recorded_ns();
    bins();
    stages();
    requests();
    return std::move(r_);
  }

 private:
  enum class role : std::uint8_t { none, queue, prefill, decode, generate };

  static bool has_word(const std::string& name, std::initializer_list<const char*> words) {
    std::string low;
    for (const char c : name) low += c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    return std::any_of(words.begin(), words.end(), [&](const char* w) { return low.find(w) != std::string::npos; });
  }
  role role_of(std::uint32_t name) {
    const auto known = roles_.find(name);
    if (known != roles_.end()) return known->second;
    const std::string& text = log_.names().name(name);
    const auto is = [&](const std::vector<std::string>& given, std::initializer_list<const char*> words) {
      return given.empty() ? has_word(text, words) : std::find(given.begin(), given.end(), text) != given.end();
    };
    const role r = is(names_.queue, {"queue", "waiting"})                       ? role::queue
                   : is(names_.prefill, {"prefill", "prompt", "context_phase"}) ? role::prefill
                   : is(names_.decode, {"decode"})                              ? role::decode
                   : is(names_.decode, {"generate", "generation"})              ? role::generate
                                                                                : role::none;
    return roles_[name] = r;
  }

  void bins() {
    const interval w = log_.window();
    if (w.empty()) return;
    const std::int64_t step = std::max<std::int64_t>(w.length_ns() / static_cast<std::int64_t>(parts), 1);
    for (std::int64_t at = w.start_ns; at < w.end_ns && r_.over_time.size() < parts; at += step)
      r_.over_time.push_back(
          {{at, r_.over_time.size() + 1 == parts ? w.end_ns : std::min(at + step, w.end_ns)}, 0, 0, 0, 0});
  }
  inference_bin* bin_of(std::int64_t at_ns) {
    if (r_.over_time.empty() || at_ns < r_.over_time[0].when.start_ns) return nullptr;
    const std::int64_t step = r_.over_time[0].when.length_ns();
    const std::size_t n =
        static_cast<std::size_t>((at_ns - r_.over_time[0].when.start_ns) / std::max<std::int64_t>(step, 1));
    return &r_.over_time[std::min(n, r_.over_time.size() - 1)];
  }

  void stages() {
    const stage_log& all = log_.stages();
    // GPU time of each instance, nested ones included: work comes by start, so that unions grow at their ends.
    gpu_.resize(all.size());
    for_each_work<work_order::first_start_first>(log_, [&](const gpu_work& w) {
      if (w.is == work_class::unfinished || w.stage_unknown) return;
      std::uint32_t n = w.stage;
      for (int level = 0; n != stage_log::none && level < 64; ++level, n = parents_[n]) {
        gpu_[n].ns += interval{std::max(w.when.start_ns, gpu_[n].until_ns), w.when.end_ns}.length_ns();
        gpu_[n].until_ns = std::max(gpu_[n].until_ns, w.when.end_ns);
      }
    });
    std::map<std::uint32_t, stage_distribution> by_name;
    for (std::uint32_t n = 1; n < all.size(); ++n) {
      const stage_instance& s = all[n];
      if (!s.ended) continue;
      stage_distribution& d = by_name[s.name];
      d.host.add(s.when.length_ns());
      d.span = s.span;
      if (gpu_[n].until_ns != INT64_MIN) d.gpu.add(gpu_[n].ns);
      // An inner stage that serves what the one around it serves is not counted again.
      const std::uint32_t served = all.served(n);
      if (served == 0 || s.span || (parents_[n] != stage_log::none && serve_the_same(all, parents_[n], n))) continue;
      if (inference_bin* b = bin_of(s.when.start_ns)) {
        ++b->batches;
        b->served += served;
        b->largest = std::max<std::uint64_t>(b->largest, served);
      }
    }
    for (auto& one : by_name) {
      one.second.name = log_.names().name(one.first);
      r_.stages.push_back(std::move(one.second));
    }
    std::stable_sort(r_.stages.begin(), r_.stages.end(), [](const stage_distribution& a, const stage_distribution& b) {
      return a.host.sum_ns > b.host.sum_ns;
    });
  }

  static bool serve_the_same(const stage_log& all, std::uint32_t a, std::uint32_t b) {
    if (all[a].requests == all[b].requests) return true;
    const stage_log::request_list x = all.requests_of(a), y = all.requests_of(b);
    return x.size == y.size && std::is_permutation(x.begin(), x.end(), y.begin());
  }

  /// Whether all of `v` was recorded.
  bool whole(interval v) {
    if (log_.pieces() == 0) return true;
    std::int64_t ns = 0;
    log_.for_recorded(v, piece_, [&](interval part) { ns += part.length_ns(); });
    return ns == v.length_ns();
  }

  void requests() {
    std::vector<std::uint32_t> all;
    detail::seeded_set<std::uint64_t> in_stages;
    for (const request_cost& c : costs_) {
      if (c.stages == 0) continue;
      in_stages.insert(log_.stages().request_ids()[c.request]);
      ++r_.requests;
      if (!c.span.empty()) r_.latency.add(c.span.length_ns());  // empty: none of its stages has ended
      r_.gpu_alone.add(c.execution_alone_ns + c.transfer_alone_ns);
      r_.gpu_in_batches.add(c.execution_in_batches_ns + c.transfer_in_batches_ns);
      all.push_back(c.request);
    }
    r_.by_marks = !marks_.tokens().empty();
    if (r_.by_marks) {
      for (const inference_marks::token_mark& t : marks_.tokens()) {
        if (inference_bin* b = bin_of(t.at_ns)) ++b->tokens;
        if (t.gap_ns >= 0 && whole({t.at_ns - t.gap_ns, t.at_ns})) r_.between_tokens.add(t.gap_ns);
      }
      r_.tokens = marks_.tokens().size();
      for (const auto& [id, times] : marks_.requests())
        if (in_stages.count(id) == 0) add_times(times, false);
      for (const inference_marks::marked_times& times : marks_.earlier()) add_times(times, false);
    }
    if (all.empty()) return;
    const std::size_t step = (all.size() + accounts_limit - 1) / accounts_limit;
    std::vector<bool> sampled(costs_.size());
    for (std::size_t i = 0; i < all.size(); i += step) sampled[all[i]] = true;
    const request_index index(log_, sampled, false);  // works of `sampled` alone, and no calls
    request_accounts accounts(index, costs_);
    for (const std::uint32_t request : all) tokens_of(index, request);
    for (std::size_t i = 0; i < all.size(); i += step) {
      r_.behind_others.add(accounts.behind_others_ns(all[i]));
      ++r_.accounted;
    }
  }

  /// What the stages of a request bring, in the order of `mine`. A stage called "generate" is a decode stage where none
  /// is called "decode". One around a prefill stage is the whole request and brings no token, unless it follows on an
  /// earlier prefill stage and has no decode stage in it: a step that looks something up in the prompt. A stage within
  /// one that brings a token is a part of it.
  /// With marks of tokens, only what a queue is matters.
  template <class Instances>
  std::vector<role> roles_of(const Instances& mine) {
    const stage_log& all = log_.stages();
    std::vector<role> roles;
    bool decodes = false;
    for (const std::uint32_t n : mine) {
      roles.push_back(role_of(all[n].name));
      decodes = decodes || roles.back() == role::decode;
    }
    if (r_.by_marks) return roles;
    const auto brings_token = [](role r) { return r == role::prefill || r == role::decode; };
    for (role& r : roles)
      if (r == role::generate) r = decodes ? role::none : role::decode;
    const auto for_around = [&](std::uint32_t n, auto&& each) {
      for (int level = 0; level < 64 && (n = parents_[n]) != stage_log::none; ++level) {
        const auto at = std::lower_bound(mine.begin(), mine.end(), n);
        if (at != mine.end() && *at == n) each(static_cast<std::size_t>(at - mine.begin()));
      }
    };
    std::vector<bool> around_prefill(roles.size()), around_decode(roles.size());
    std::int64_t prefilled_ns = INT64_MAX;
    std::size_t i = 0;
    for (const std::uint32_t n : mine) {
      const role is = roles[i++];
      if (!brings_token(is)) continue;
      if (is == role::prefill && all[n].ended) prefilled_ns = std::min(prefilled_ns, all[n].when.end_ns);
      for_around(n, [&](std::size_t around) { (is == role::prefill ? around_prefill : around_decode)[around] = true; });
    }
    i = 0;
    for (const std::uint32_t n : mine) {
      const bool follows = all[n].ended && all[n].when.start_ns >= prefilled_ns;
      if (roles[i] == role::decode && around_prefill[i] && (around_decode[i] || !follows)) roles[i] = role::none;
      ++i;
    }
    std::vector<std::size_t> inside;
    i = 0;
    for (const std::uint32_t n : mine) {
      bool is_part = false;
      if (brings_token(roles[i]))
        for_around(n, [&](std::size_t around) { is_part = is_part || brings_token(roles[around]); });
      if (is_part) inside.push_back(i);
      ++i;
    }
    for (const std::size_t part : inside) roles[part] = role::none;
    return roles;
  }

  void tokens_of(const request_index& index, std::uint32_t request) {
    const stage_log& all = log_.stages();
    inference_marks::marked_times times;
    if (r_.by_marks) {
      const auto found = marks_.requests().find(all.request_ids()[request]);
      if (found != marks_.requests().end()) times = found->second;
    }
    std::vector<interval> queued;
    std::vector<std::int64_t> ends;
    std::int64_t first_ns = INT64_MAX;
    const auto mine = index.instances(request);
    const std::vector<role> roles = roles_of(mine);
    std::size_t place = 0;
    for (const std::uint32_t n : mine) {
      const role is = roles[place++];
      const stage_instance& s = all[n];
      if (!s.ended) continue;
      times.stage(s.when.start_ns);
      if (is == role::queue) queued.push_back(s.when);
      if (r_.by_marks || (is != role::prefill && is != role::decode)) continue;
      const std::int64_t end_ns = std::max(s.when.end_ns, gpu_[n].until_ns);
      if (is == role::prefill)
        first_ns = std::min(first_ns, end_ns);
      else
        ends.push_back(end_ns);
    }
    if (!r_.by_marks && (first_ns != INT64_MAX || !ends.empty())) {
      r_.by_names = true;
      std::sort(ends.begin(), ends.end());
      if (first_ns != INT64_MAX) ends.insert(ends.begin(), first_ns);
      for (const std::int64_t at : ends) {
        const std::int64_t gap_ns = times.token(at);
        if (gap_ns >= 0 && whole({at - gap_ns, at})) r_.between_tokens.add(gap_ns);
        if (inference_bin* b = bin_of(at)) ++b->tokens;
      }
      r_.tokens += ends.size();
    }
    if (!queued.empty()) {
      std::int64_t ns = 0;
      for (const interval v : merged(std::move(queued))) ns += v.length_ns();
      r_.queue.add(ns);
    }
    add_times(times, first_ns != INT64_MAX);
  }

  /// @param prefilled a prefill stage of the request has ended
  void add_times(const inference_marks::marked_times& times, bool prefilled) {
    if (times.tokens == 0) return;
    // By names a prefill ends with the first token; what lacks it was decoding when the trace began, or was paused.
    // With marks, a trace of several windows may lack the begin of a request, or its first token.
    const bool marked = log_.pieces() == 0 || (times.begin_marked && times.first_named);
    const bool seen = (r_.by_marks ? marked : prefilled) && whole({times.begin_ns, times.first_ns});
    if (seen && times.to_first_ns() >= 0) r_.first_token.add(times.to_first_ns());
    if (times.tokens > 1 && whole({times.first_ns, times.last_ns}))
      r_.per_output_token.add((times.last_ns - times.first_ns) / static_cast<std::int64_t>(times.tokens - 1));
  }

  const trace_log& log_;
  /// GPU time of a stage instance, nested instances included.
  struct gpu_time {
    std::int64_t ns = 0, until_ns = INT64_MIN;
  };
  const std::vector<request_cost>& costs_;
  const std::vector<std::uint32_t>& parents_;
  const inference_marks& marks_;
  const inference_names& names_;
  std::map<std::uint32_t, role> roles_;
  std::size_t piece_ = 0;      ///< index of the recorded piece that the last lookup found
  std::vector<gpu_time> gpu_;  ///< by stage_log number
  inference_report r_;
};

}  // namespace analysis
CUTRACE_END_NAMESPACE
