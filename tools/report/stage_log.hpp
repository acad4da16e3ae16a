// SPDX-License-Identifier: Apache-2.0
// Instances of stages as a trace tells them, about 65 bytes each: when, inside of which other one, for which requests.
// An instance is known from the first event that belongs to it; its own record comes last, or never.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cutrace/analysis/intervals.hpp>
#include <cutrace/analysis/names.hpp>
#include <string>
#include <vector>

#include "report/containers.hpp"

CUTRACE_BEGIN_NAMESPACE
namespace analysis {

struct stage_instance {
  std::uint64_t id = 0;
  std::uint64_t parent = 0;  ///< id, 0 at top level
  interval when;             ///< empty until the stage has ended
  std::uint32_t name = 0;
  std::uint32_t requests = 0;       ///< number of its list of requests, see `requests_of`
  std::uint32_t request_total = 0;  ///< as the marker named them; more than the list has where that was cut
  std::uint32_t site = 0;           ///< number of its marker in the source, see trace_log::site; 0: not known
  std::uint16_t thread = 0;
  bool ended = false;
  bool span = false;  ///< may be waiting: no sign of the host at work
};

/// Part of a stage on a thread that adopted it.
struct adopted_part {
  interval when;
  std::uint32_t instance = 0;  ///< number
  std::uint16_t thread = 0;
};

class stage_log {
 public:
  static constexpr std::uint32_t none = 0;  ///< number of no stage

  stage_log() {
    instances_.push_back({});
    lists_.push_back(0);
    lists_.push_back(0);
  }

  /// The stage of any event that is not a stage itself. `names` is the trace's.
  std::uint32_t of(const event& e, name_table& names) {
    if (e.stage_id == 0) return none;
    recent& r = recent_[e.stage_id % recent_count];
    if (CUTRACE_LIKELY(r.id == e.stage_id)) return r.number;
    const std::uint32_t n = find_or_add(e.stage_id);
    r = {e.stage_id, n};
    stage_instance& s = instances_[n];
    if (s.name == 0) s.name = names.number(e.stage_name);
    if (s.requests == 0) name_requests(s, e);
    return n;
  }

  /// @param site number of the marker in the source, 0 where the trace does not tell
  void add(const event& e, interval v, std::uint16_t thread, std::uint32_t site, name_table& names) {
    if (e.stage_id == 0) return;
    const recent& r = recent_[e.stage_id % recent_count];
    const std::uint32_t n = r.id == e.stage_id ? r.number : find_or_add(e.stage_id);
    stage_instance& s = instances_[n];
    s.name = names.number(e.name);
    if (s.requests == 0) name_requests(s, e);
    if (e.stage.adopted) return parts_.push_back({v, n, thread});
    if (s.ended) return;  // an id that came twice: the first one counts
    s.parent = e.stage.parent;
    s.when = v;
    s.thread = thread;
    s.site = site;
    s.ended = true;
    s.span = e.stage.span;
  }

  /// Instances are numbered from 1 on.
  std::size_t size() const noexcept { return instances_.size(); }
  const stage_instance& operator[](std::uint32_t number) const noexcept { return instances_[number]; }
  const chunked<adopted_part>& parts() const noexcept { return parts_; }
  /// Number of the enclosing instance, `none` where there is none or it is not known.
  std::uint32_t parent_of(std::uint32_t number) const {
    const std::uint64_t id = instances_[number].parent;
    const std::uint32_t n = id == 0 ? id_index::none : index_.find(id, at());
    return n == id_index::none ? none : n;
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

  /// How many requests it serves; more than `requests_of` where its record was cut.
  std::uint32_t served(std::uint32_t number) const noexcept {
    return std::max(instances_[number].request_total, requests_of(number).size);
  }

  std::size_t memory_bytes() const noexcept {
    return instances_.memory_bytes() + parts_.memory_bytes() + index_.memory_bytes() + request_index_.memory_bytes() +
           8 * request_ids_.capacity() + 4 * request_texts_.capacity() + 4 * request_lists_.capacity() +
           4 * lists_.capacity();
  }

 private:
  struct id_at {
    const chunked<stage_instance>& instances;
    std::uint64_t operator()(std::uint32_t place) const noexcept { return instances[place].id; }
  };
  id_at at() const noexcept { return {instances_}; }

  std::uint32_t find_or_add(std::uint64_t id) {
    const std::uint32_t found = index_.find(id, at());
    if (found != id_index::none) return found;
    const std::uint32_t n = static_cast<std::uint32_t>(instances_.size());
    stage_instance s;
    s.id = id;
    instances_.push_back(s);
    index_.add(id, n, at());
    return n;
  }

  /// Nested stages and consecutive steps mostly serve the same requests: the same list is kept once.
  void name_requests(stage_instance& s, const event& e) {
    if (e.request_count == 0) return;
    s.request_total = e.request_total;
    const auto same = [](std::uint64_t id, const request_ref& r) { return id == r.id; };
    if (last_ids_.size() == e.request_count && std::equal(last_ids_.begin(), last_ids_.end(), e.requests, same)) {
      s.requests = last_list_;
      return;
    }
    last_ids_.clear();
    found_.clear();
    for (std::uint32_t i = 0; i < e.request_count; ++i) {
      last_ids_.push_back(e.requests[i].id);
      found_.push_back(request(e.requests[i]));
    }
    for (const std::uint32_t last : last_lists_)
      if (last != 0 && lists_[last + 1] - lists_[last] == found_.size() &&
          std::equal(found_.begin(), found_.end(), request_lists_.begin() + lists_[last])) {
        s.requests = last_list_ = last;
        return;
      }
    request_lists_.insert(request_lists_.end(), found_.begin(), found_.end());
    s.requests = last_list_ = static_cast<std::uint32_t>(lists_.size() - 1);
    lists_.push_back(static_cast<std::uint32_t>(request_lists_.size()));
    last_lists_[next_list_++ % last_count] = s.requests;
  }

  std::uint32_t request(const request_ref& r) {
    const auto id_of = [this](std::uint32_t place) { return request_ids_[place]; };
    const std::uint32_t found = request_index_.find(r.id, id_of);
    if (found != id_index::none) return found;
    const std::uint32_t n = static_cast<std::uint32_t>(request_ids_.size());
    request_ids_.push_back(r.id);
    request_texts_.push_back(r.name.size == 0 ? 0 : request_names_.number(r.name));
    request_index_.add(r.id, n, id_of);
    return n;
  }

  struct recent {
    std::uint64_t id = 0;
    std::uint32_t number = 0;
  };
  static constexpr std::size_t recent_count = 1024, last_count = 8;

  chunked<stage_instance> instances_;
  chunked<adopted_part> parts_;
  id_index index_;
  std::vector<std::uint64_t> request_ids_;
  std::vector<std::uint32_t> request_texts_;  ///< by request: number of its name
  name_table request_names_{0, 0, ""};
  id_index request_index_;
  std::vector<std::uint32_t> request_lists_;  ///< all lists, one after the other
  std::vector<std::uint32_t> lists_;          ///< begin of each list in it, and the end of the last; list 0 is empty
  std::vector<std::uint32_t> found_;
  std::vector<std::uint64_t> last_ids_;  ///< of the list that was named last
  std::uint32_t last_list_ = 0;
  std::uint32_t last_lists_[last_count] = {};
  std::size_t next_list_ = 0;
  recent recent_[recent_count];
};

}  // namespace analysis
CUTRACE_END_NAMESPACE
