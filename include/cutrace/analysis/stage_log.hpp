// SPDX-License-Identifier: Apache-2.0
// Instances of stages as a trace gives them, about 95 bytes each: when, inside of which other one, for which requests.
// An instance is known from the first event that belongs to it; its own record comes last, or never.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cutrace/analysis/containers.hpp>
#include <cutrace/analysis/intervals.hpp>
#include <cutrace/analysis/names.hpp>
#include <map>
#include <string>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace analysis {

struct stage_instance {
  std::uint64_t id = 0;
  std::uint64_t parent = 0;  ///< id, 0 at top level
  interval when;             ///< empty until the stage has ended
  std::uint32_t name = 0;
  std::uint32_t requests = 0;       ///< number of its list of requests, see `requests_of`
  std::uint32_t request_total = 0;  ///< as the marker named them; more than the list has where the list was cut
  std::uint32_t site = 0;           ///< number of its marker in the source, see trace_log::site; 0: not known
  std::uint16_t thread = 0;
  bool ended = false;
  bool span = false;  ///< a span (stage.hpp), which may be waiting: the host need not be at work
};

/// Part of a stage on a thread that adopted it (context.hpp).
struct adopted_part {
  interval when;
  std::uint32_t instance = 0;  ///< stage_log number
  std::uint16_t thread = 0;
};

class stage_log {
 public:
  static constexpr std::uint32_t none = 0;  ///< number of no stage

  /// @param requests without them, `requests_of` is always empty
  explicit stage_log(bool requests = true) : requests_(requests) {
    instances_.push_back({});
    lists_.push_back(0);
    lists_.push_back(0);
  }

  /// Number of the stage of any event that is not a stage itself. `names`: the table of the trace.
  std::uint32_t of(const event& e, name_table& names) {
    if (e.stage_id == 0) return none;
    recent& r = recent_[e.stage_id % recent_count];
    if (CUTRACE_LIKELY(r.id == e.stage_id)) return r.number;
    const std::uint32_t n = find_or_add(e.stage_id);
    stage_instance& s = instances_[n];
    if (s.name == 0 && e.stage_name.size != 0) s.name = names.number(e.stage_name);
    if (s.requests == 0) name_requests(s, e);
    if (s.name != 0) r = {e.stage_id, n};  // an event that lacks its stage's name may come before one that has it
    return n;
  }

  /// @param site number of the marker in the source, 0 where the trace does not say
  void add(const event& e, interval v, std::uint16_t thread, std::uint32_t site, name_table& names) {
    if (e.stage_id == 0) return;
    const recent& r = recent_[e.stage_id % recent_count];
    const std::uint32_t n = r.id == e.stage_id ? r.number : find_or_add(e.stage_id);
    stage_instance& s = instances_[n];
    s.name = names.number(e.name);
    name_requests(s, e);
    if (e.stage.adopted) return parts_.push_back({v, n, thread});
    if (s.ended) return;  // an id that came twice: the first one counts
    s.parent = e.stage.parent;
    s.when = v;
    s.thread = thread;
    s.site = site;
    s.ended = true;
    s.span = e.stage.span;
  }

  /// Takes over a stage of another log, without its requests, and returns its number here. `its`: names of `other`.
  /// @param ended_on number in this log of the thread that it ended on: its times are copied, too; -1: they are not
  std::uint32_t take(const stage_log& other, std::uint32_t number, const name_table& its, name_table& names,
                     std::int32_t ended_on = -1) {
    if (number == none) return none;
    const stage_instance& theirs = other[number];
    const std::uint32_t n = find_or_add(theirs.id);
    stage_instance& s = instances_[n];
    if (s.name == 0 && theirs.name != 0) s.name = names.number(text_of(its.name(theirs.name)));
    if (ended_on < 0 || s.ended) return n;
    s.parent = theirs.parent;
    s.when = theirs.when;
    s.thread = static_cast<std::uint16_t>(ended_on);
    s.ended = true;
    s.span = theirs.span;
    return n;
  }

  /// Instances are numbered from 1 on.
  std::size_t size() const noexcept { return instances_.size(); }
  const stage_instance& operator[](std::uint32_t number) const noexcept { return instances_[number]; }
  const chunked<adopted_part>& parts() const noexcept { return parts_; }
  /// Number of the enclosing instance, `none` where there is none or it is not known.
  std::uint32_t parent_of(std::uint32_t number) const {
    const std::uint64_t id = instances_[number].parent;
    const auto found = id != 0 ? index_.find(id) : index_.end();
    return found != index_.end() ? found->second : none;
  }

  /// Requests are numbered from 0 on, in the order of their first sight.
  const std::vector<std::uint64_t>& request_ids() const noexcept { return request_ids_; }
  /// Text form, empty for numbers.
  const std::string& request_name(std::uint32_t request) const { return request_names_.name(request_texts_[request]); }
  struct request_list {
    const std::uint32_t* data;
    std::uint32_t size;
    const std::uint32_t* begin() const noexcept { return data; }
    const std::uint32_t* end() const noexcept { return data + size; }
  };
  request_list requests_of(std::uint32_t number) const noexcept {
    const std::uint32_t at = instances_[number].requests;
    return {request_lists_.data() + lists_[at], lists_[at + 1] - lists_[at]};
  }

  /// Number of requests that a stage serves; more than `requests_of` has where the stage's record was cut.
  std::uint32_t served(std::uint32_t number) const noexcept {
    return std::max(instances_[number].request_total, requests_of(number).size);
  }

  std::size_t memory_bytes() const noexcept {
    return instances_.memory_bytes() + parts_.memory_bytes() + index_bytes * (index_.size() + request_index_.size()) +
           index_bytes * list_index_.size() + 8 * request_ids_.capacity() +
           4 * (request_texts_.capacity() + listed_in_.capacity()) + 4 * request_lists_.capacity() +
           4 * lists_.capacity();
  }

 private:
  static constexpr std::size_t index_bytes = 40;  ///< of an id: its node, and its share of the buckets

  std::uint32_t find_or_add(std::uint64_t id) {
    const auto found = index_.find(id);
    if (found != index_.end()) return found->second;
    const std::uint32_t n = static_cast<std::uint32_t>(instances_.size());
    stage_instance s;
    s.id = id;
    instances_.push_back(s);
    index_.emplace(id, n);
    return n;
  }

  /// An event may lack the list, and then has the number of all names, of which one request may have several.
  void name_requests(stage_instance& s, const event& e) {
    if (!requests_ || (e.request_count == 0 && s.requests != 0)) return;
    std::uint32_t total = e.request_total;
    if (e.request_count != 0) {
      const auto same = [](std::uint64_t id, const request_ref& r) { return id == r.id; };
      if (last_ids_.size() != e.request_count || !std::equal(last_ids_.begin(), last_ids_.end(), e.requests, same))
        find_list(e);
      total -= std::min(total, last_repeats_);
      if (s.requests == 0) s.requests = last_list_, s.request_total = 0;
    }
    s.request_total = std::max(s.request_total, total);
  }

  /// Nested stages and steps of the same requests name the same list again: it is kept once, and has one number. A
  /// request that the list names several times, such as one of several sequences, is in it once.
  void find_list(const event& e) {
    last_ids_.clear();
    found_.clear();
    ++listings_;
    for (std::uint32_t i = 0; i < e.request_count; ++i) {
      const std::uint32_t n = request(e.requests[i]);
      last_ids_.push_back(e.requests[i].id);
      if (listed_in_[n] != listings_) found_.push_back(n);
      listed_in_[n] = listings_;
    }
    last_repeats_ = e.request_count - static_cast<std::uint32_t>(found_.size());
    // 0 in the index: new. Lists whose hashes agree are compared, and then only the newer one is found again.
    std::uint32_t& known = list_index_[detail::hash_bytes(reinterpret_cast<const char*>(found_.data()),
                                                          found_.size() * sizeof(found_[0]))];
    if (known == 0 || !std::equal(found_.begin(), found_.end(), request_lists_.begin() + lists_[known],
                                  request_lists_.begin() + lists_[known + 1])) {
      request_lists_.insert(request_lists_.end(), found_.begin(), found_.end());
      known = static_cast<std::uint32_t>(lists_.size() - 1);
      lists_.push_back(static_cast<std::uint32_t>(request_lists_.size()));
    }
    last_list_ = known;
  }

  std::uint32_t request(const request_ref& r) {
    const auto found = request_index_.find(r.id);
    if (found != request_index_.end()) return found->second;
    const std::uint32_t n = static_cast<std::uint32_t>(request_ids_.size());
    request_ids_.push_back(r.id);
    listed_in_.push_back(0);
    request_texts_.push_back(r.name.size == 0 ? 0 : request_names_.number(r.name));
    request_index_.emplace(r.id, n);
    return n;
  }

  struct recent {
    std::uint64_t id = 0;
    std::uint32_t number = 0;
  };
  static constexpr std::size_t recent_count = 1024;

  bool requests_;
  chunked<stage_instance> instances_;
  chunked<adopted_part> parts_;
  detail::seeded_map<std::uint64_t, std::uint32_t> index_;  ///< number of an id
  std::vector<std::uint64_t> request_ids_;
  std::vector<std::uint32_t> request_texts_;  ///< by request: number of its name
  name_table request_names_{0, 0, ""};
  detail::seeded_map<std::uint64_t, std::uint32_t> request_index_;
  std::vector<std::uint32_t> listed_in_;      ///< by request: number of the listing that named it last
  std::vector<std::uint32_t> request_lists_;  ///< all lists, one after the other
  std::vector<std::uint32_t> lists_;          ///< begin of each in request_lists_, end of the last; list 0 is empty
  detail::seeded_map<std::uint64_t, std::uint32_t> list_index_;  ///< number of a list, by the hash of its content
  std::vector<std::uint32_t> found_;
  std::vector<std::uint64_t> last_ids_;  ///< of the list that was named last
  std::uint32_t last_list_ = 0, last_repeats_ = 0, listings_ = 0;
  recent recent_[recent_count];
};

// Which stage a thread was in, at any time: its own stages and the parts of others that it adopted, the innermost
// first. Spans belong to no thread: they may be waiting, and may end on another thread.

/// A stretch of a thread's time in one innermost stage.
struct stage_piece {
  interval when;
  std::uint32_t stage = stage_log::none;  ///< stage_log number
};

/// Finds the stages of a thread by time. 8 bytes a stage.
class thread_stages {
 public:
  /// @param stages must outlive this; nothing is added to it any more
  /// @param order numbers of the instances that ended, by start
  thread_stages(const stage_log& stages, const std::vector<std::uint32_t>& order, std::size_t threads)
      : stages_(stages), order_(order), of_thread_(threads) {
    for (const std::uint32_t n : order)
      if (!stages[n].span) of_thread_[stages[n].thread].push_back(n);
    for (std::size_t i = 0; i < stages.parts().size(); ++i)
      of_thread_[stages.parts()[i].thread].push_back(part_flag | static_cast<std::uint32_t>(i));
    for (auto& list : of_thread_) {
      if (!stages.parts().empty()) sort_nearly(list, [this](std::uint32_t e) { return when(e).start_ns; });
      outer_first(list);
      around_.push_back(places_around(list));
    }
  }

  /// Pieces that cover `v` without a gap, in order; outside of all stages with the stage `otherwise`.
  /// @param hint where the search in the thread's list begins; set to the place found. O(1) for calls in time order
  void innermost(std::uint16_t thread, interval v, std::uint32_t otherwise, std::size_t& hint,
                 std::vector<stage_piece>& pieces) {
    pieces.clear();
    const std::vector<std::uint32_t>& list = of_thread_[thread];
    const std::size_t first = hint =
        search_near(list.size(), hint, [&](std::size_t i) { return when(list[i]).start_ns < v.start_ns; });
    open_around(thread, first, v.start_ns);
    std::int64_t at_ns = v.start_ns;
    // Up to `until_ns`, from inside out as stages end.
    const auto advance = [&](std::int64_t until_ns) {
      while (at_ns < until_ns) {
        while (!open_.empty() && when(open_.back()).end_ns <= at_ns) open_.pop_back();
        const std::int64_t end_ns = open_.empty() ? until_ns : std::min(until_ns, when(open_.back()).end_ns);
        const std::uint32_t stage = open_.empty() ? otherwise : stage_of(open_.back());
        if (!pieces.empty() && pieces.back().stage == stage)
          pieces.back().when.end_ns = end_ns;
        else
          pieces.push_back({{at_ns, end_ns}, stage});
        at_ns = end_ns;
      }
    };
    for (std::size_t i = first; i < list.size() && when(list[i]).start_ns < v.end_ns; ++i) {
      advance(when(list[i]).start_ns);
      open_.push_back(list[i]);
    }
    advance(v.end_ns);
  }

  /// Innermost at one time, `none` outside of all. @param hint as of `innermost`
  std::uint32_t at(std::uint16_t thread, std::int64_t t_ns, std::size_t& hint) {
    const std::vector<std::uint32_t>& list = of_thread_[thread];
    hint = search_near(list.size(), hint, [&](std::size_t i) { return when(list[i]).start_ns <= t_ns; });
    open_around(thread, hint, t_ns);
    return open_.empty() ? stage_log::none : stage_of(open_.back());
  }
  bool empty(std::uint16_t thread) const noexcept { return of_thread_[thread].empty(); }

  /// A row of `others`: the stages of one name that one other thread was in, or all spans of one name.
  struct company {
    std::uint32_t name = 0;    ///< of the stage
    std::uint16_t thread = 0;  ///< number in the log; meaningless for a span
    bool span = false;
    std::int64_t ns = 0;
  };
  /// Most time first. Looks at all spans of the trace.
  CUTRACE_ONE_COPY std::vector<company> others(std::uint16_t thread, interval v) {
    std::vector<company> found;
    std::vector<stage_piece> pieces;
    for (std::size_t t = 0; t < of_thread_.size(); ++t) {
      if (t == thread || of_thread_[t].empty()) continue;
      std::map<std::uint32_t, std::int64_t> by_name;
      std::size_t hint = 0;
      innermost(static_cast<std::uint16_t>(t), v, stage_log::none, hint, pieces);
      for (const stage_piece& p : pieces)
        if (p.stage != stage_log::none) by_name[stages_[p.stage].name] += p.when.length_ns();
      for (const auto& n : by_name) found.push_back({n.first, static_cast<std::uint16_t>(t), false, n.second});
    }
    std::map<std::uint32_t, std::vector<interval>> spans;
    for (const std::uint32_t n : order_)
      if (stages_[n].span && !clip(stages_[n].when, v).empty())
        spans[stages_[n].name].push_back(clip(stages_[n].when, v));
    for (auto& s : spans) {
      company c{s.first, 0, true, 0};
      for (const interval part : merged(std::move(s.second))) c.ns += part.length_ns();
      found.push_back(c);
    }
    std::stable_sort(found.begin(), found.end(), [](const company& a, const company& b) { return a.ns > b.ns; });
    return found;
  }

 private:
  static constexpr std::uint32_t part_flag = 1u << 31;

  interval when(std::uint32_t e) const noexcept {
    return (e & part_flag) != 0 ? stages_.parts()[e & ~part_flag].when : stages_[e].when;
  }
  std::uint32_t stage_of(std::uint32_t e) const noexcept {
    return (e & part_flag) != 0 ? stages_.parts()[e & ~part_flag].instance : e;
  }

  /// Of stages that begin at the same time, the outer one comes first; of stages with equal times, the one with the
  /// lower id, which began first.
  CUTRACE_ONE_COPY void outer_first(std::vector<std::uint32_t>& list) const {
    const auto around = [this](std::uint32_t a, std::uint32_t b) {
      if (when(a).end_ns != when(b).end_ns) return when(a).end_ns > when(b).end_ns;
      return stages_[stage_of(a)].id < stages_[stage_of(b)].id;
    };
    for (std::size_t i = 0, end = 0; i < list.size(); i = end) {
      for (end = i + 1; end < list.size() && when(list[end]).start_ns == when(list[i]).start_ns;) ++end;
      if (end > i + 1)
        std::sort(list.begin() + static_cast<std::ptrdiff_t>(i), list.begin() + static_cast<std::ptrdiff_t>(end),
                  around);
    }
  }

  /// For each place of a list the place around it, counted from 1: of those before it that end after it, the last one;
  /// 0: none. What ends no later than a stage that began after it is the innermost one no more, also where scopes
  /// interleave (fibers).
  CUTRACE_ONE_COPY std::vector<std::uint32_t> places_around(const std::vector<std::uint32_t>& list) const {
    std::vector<std::uint32_t> around(list.size());
    for (std::uint32_t i = 0; i < list.size(); ++i) {
      around[i] = i;
      while (around[i] != 0 && when(list[around[i] - 1]).end_ns <= when(list[i]).end_ns)
        around[i] = around[around[i] - 1];
    }
    return around;
  }

  /// Sets `open_` to the stages at places before `first` that run at `t_ns`, the outermost first.
  void open_around(std::uint16_t thread, std::size_t first, std::int64_t t_ns) {
    open_.clear();
    for (std::size_t place = first; place != 0; place = around_[thread][place - 1])
      if (when(of_thread_[thread][place - 1]).end_ns > t_ns) open_.push_back(of_thread_[thread][place - 1]);
    std::reverse(open_.begin(), open_.end());
  }

  const stage_log& stages_;
  const std::vector<std::uint32_t>& order_;
  std::vector<std::vector<std::uint32_t>> of_thread_;  ///< numbers of stages, or flagged places of parts, by start
  std::vector<std::vector<std::uint32_t>> around_;     ///< by place in `of_thread_`, see `places_around`
  std::vector<std::uint32_t> open_;
};

}  // namespace analysis
CUTRACE_END_NAMESPACE
