// SPDX-License-Identifier: Apache-2.0
// Small random traces for property tests: a few threads with nested stages and calls, two devices, late deliveries.
// What was drawn is kept as plain lists, so that tests can count it tick by tick.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cutrace/event.hpp>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include "support/sample_events.hpp"

namespace random_trace {

constexpr std::int64_t tick = 1000;  ///< ns; all times are whole ticks
constexpr std::int64_t ticks = 1400;

struct stage {
  std::int64_t start, end;
  std::uint64_t id, parent;
  std::string name;
  std::uint32_t thread;
  std::vector<std::uint64_t> requests;  ///< own or of the nearest enclosing stage that names any
};
/// Time of a stage on another thread, which adopted it.
struct part {
  std::int64_t start, end;
  std::uint64_t stage;
};
struct call {
  std::int64_t start, end;
  std::string name;
  std::uint32_t thread;
  std::uint64_t stage;  ///< id, 0 none
  bool outermost;
};
struct work {
  std::int64_t start, end;
  cutrace::event_kind kind;
  cutrace::copy_direction direction;
  std::string name;
  std::uint32_t device, context;
  std::uint64_t stream;
  std::size_t call;  ///< the outermost one of the launch; SIZE_MAX: not known
  std::uint64_t stage;
  std::uint64_t bytes;
  bool pageable;
};

struct trace {
  std::vector<stage> stages;
  std::vector<part> parts;
  std::vector<call> calls;
  std::vector<work> works;
  std::vector<cutrace::event> events;  ///< as delivered
  std::deque<std::vector<cutrace::request_ref>> requests;
  std::deque<std::string> texts;

  const stage* find(std::uint64_t id) const {
    for (const stage& s : stages)
      if (s.id == id) return &s;
    return nullptr;
  }
};

class maker {
 public:
  maker(std::uint32_t seed, bool correlation_only = false) : random_(seed), correlation_only_(correlation_only) {}

  trace make() {
    const std::uint32_t threads = 1 + below(3);
    for (std::uint32_t t = 0; t < threads; ++t) {
      std::int64_t at = below(60);
      level(100 + t, at, ticks - 100, 0, {}, 0);
    }
    deliver();
    return std::move(t_);
  }

 private:
  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(random_() % n); }

  void level(std::uint32_t thread, std::int64_t& at, std::int64_t until, std::uint64_t stage_id,
             const std::vector<std::uint64_t>& requests, std::uint32_t depth) {
    while (at < until) {
      const std::uint32_t what = below(12);
      if (what == 0 && depth < 3) {
        stage s;
        s.start = at;
        s.id = next_stage_++;
        s.parent = stage_id;
        s.name = std::string(1, static_cast<char>('a' + below(4)));
        s.thread = thread;
        for (std::uint32_t i = below(4); i > 0; --i) {
          const std::uint64_t r = 1 + below(5);
          if (std::find(s.requests.begin(), s.requests.end(), r) == s.requests.end()) s.requests.push_back(r);
        }
        if (s.requests.empty()) s.requests = requests;
        std::int64_t inside = at + below(3);
        level(thread, inside, std::min<std::int64_t>(until, at + 20 + below(200)), s.id, s.requests, depth + 1);
        at = s.end = std::min<std::int64_t>(inside, until);
        if (s.end <= s.start) continue;
        t_.stages.push_back(s);
        if (below(4) == 0) {
          const std::int64_t from = s.start + below(40);
          t_.parts.push_back({from, from + 1 + below(40), s.id});
        }
      } else if (what < 4) {
        at += below(what == 1 ? 60 : 8);
      } else {
        make_call(thread, at, until, stage_id);
      }
    }
    at = until;
  }

  void make_call(std::uint32_t thread, std::int64_t& at, std::int64_t until, std::uint64_t stage_id) {
    static const char* const names[] = {"LaunchKernel", "LaunchKernel",      "LaunchKernel", "MemcpyHtoDAsync",
                                        "MemcpyDtoH",   "StreamSynchronize", "MemAlloc",     "CtxGetCurrent"};
    const std::size_t which = below(8);
    const std::int64_t length = 1 + below(which == 5 ? 60 : 12);
    const bool wrapped = below(3) == 0;
    const std::int64_t start = at, end = start + length + (wrapped ? 2 : 0);
    if (end > until) {
      at = until;
      return;
    }
    at = end;
    t_.calls.push_back({start, end, (wrapped ? "cuda" : "cu") + std::string(names[which]), thread, stage_id, true});
    const std::size_t outer = t_.calls.size() - 1;
    // The first launch of a kernel loads its module: a call of another category inside.
    const std::string inner = below(3) == 0 ? "cuModuleLoadData" : "cu" + std::string(names[which]);
    if (wrapped) t_.calls.push_back({start + 1, end - 1, inner, thread, stage_id, false});
    if (which > 4) return;
    work w;
    w.start = start + below(below(4) == 0 ? 90 : 12);
    w.end = w.start + 1 + below(below(4) == 0 ? 60 : 8);
    w.kind = which < 3 ? cutrace::event_kind::kernel : cutrace::event_kind::memcpy;
    w.direction = which == 3 ? cutrace::copy_direction::host_to_device : cutrace::copy_direction::device_to_host;
    w.name = below(5) == 0 ? "ncclDevKernel_AllReduce" : "kernel" + std::to_string(below(3));
    w.device = below(2);
    w.context = 1 + below(2);
    w.stream = 7 + below(2);
    w.call = below(20) == 0 ? SIZE_MAX : outer;
    w.stage = stage_id;
    w.bytes = below(200000);
    w.pageable = below(2) == 0;
    t_.works.push_back(w);
  }

  cutrace::text keep(const std::string& s) {
    t_.texts.push_back(s);
    return sample::text_of(t_.texts.back());
  }
  void place(cutrace::event& e, std::uint64_t stage_id) {
    const stage* s = t_.find(stage_id);
    if (s == nullptr) return;
    e.stage_id = stage_id;
    e.stage_name = keep(s->name);
    name_requests(e, *s);
  }
  void name_requests(cutrace::event& e, const stage& s) {
    t_.requests.emplace_back();
    for (const std::uint64_t id : s.requests) t_.requests.back().push_back(sample::request_id(id));
    e.requests = t_.requests.back().data();
    e.request_count = e.request_total = static_cast<std::uint32_t>(s.requests.size());
  }

  void deliver() {
    using namespace cutrace;
    std::vector<event>& list = t_.events;
    for (const stage& s : t_.stages) {
      event e = sample::stage(s.name, s.start * tick, s.end * tick, s.id, s.parent, 0, s.thread);
      e.name = e.stage_name = keep(s.name);
      name_requests(e, s);
      list.push_back(e);
    }
    for (const part& p : t_.parts) {
      const stage& s = *t_.find(p.stage);
      event e = sample::stage(s.name, p.start * tick, p.end * tick, s.id, s.parent, 0, 99);
      e.name = e.stage_name = keep(s.name);
      e.stage.adopted = true;
      name_requests(e, s);
      list.push_back(e);
    }
    for (std::size_t i = 0; i < t_.calls.size(); ++i) {
      const call& c = t_.calls[i];
      const std::size_t correlation = c.outermost ? i + 1 : i;  // the two share one
      event e = sample::api("", c.start * tick, c.end * tick, correlation);
      e.name = keep(c.name);
      e.thread_id = c.thread;
      e.api.runtime_api = c.name.substr(0, 4) == "cuda";
      place(e, c.stage);
      list.push_back(e);
    }
    for (const work& w : t_.works) {
      event e = w.kind == event_kind::kernel
                    ? sample::kernel("", w.start * tick, w.end * tick, 0, w.stream, w.device)
                    : sample::memcpy(w.direction, w.bytes, w.start * tick, w.end * tick, 0, w.stream, w.device);
      if (w.kind == event_kind::kernel) e.name = keep(w.name);
      if (w.kind == event_kind::memcpy && w.pageable) e.memcpy_.source = memory_kind::pageable;
      e.context = w.context;
      e.thread_id = 0;
      e.call_name = text{};
      if (w.call != SIZE_MAX) {
        const bool nested = w.call + 1 < t_.calls.size() && !t_.calls[w.call + 1].outermost;
        e.correlation_id = w.call + 1;
        if (!correlation_only_) {
          const call& c = t_.calls[nested ? w.call + 1 : w.call];
          e.thread_id = c.thread;
          e.call_name = keep(c.name);
          e.call_start_ns = c.start * tick;
        }
      }
      place(e, w.stage);
      list.push_back(e);
    }
    std::stable_sort(list.begin(), list.end(), [](const event& a, const event& b) {
      return a.end_ns != b.end_ns ? a.end_ns < b.end_ns : a.start_ns > b.start_ns;
    });
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (below(20) != 0) continue;
      const std::size_t to = std::min<std::size_t>(list.size() - 1, i + below(10));
      std::rotate(list.begin() + static_cast<std::ptrdiff_t>(i), list.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                  list.begin() + static_cast<std::ptrdiff_t>(to) + 1);
    }
  }

  std::mt19937 random_;
  bool correlation_only_;
  trace t_;
  std::uint64_t next_stage_ = 1;
};

inline trace make(std::uint32_t seed, bool correlation_only = false) { return maker(seed, correlation_only).make(); }

}  // namespace random_trace
