// SPDX-License-Identifier: Apache-2.0
// Idle gaps: all of them found, each with the cause that its definition gives when counted tick by tick, and examples
// that a reader can follow. Nesting of calls and live memory against plain models.
#include <doctest/doctest.h>

#include <cstdint>
#include <cutrace/sinks/common/finding_text.hpp>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "report/findings.hpp"
#include "report/trace_analysis.hpp"
#include "support/random_trace.hpp"
#include "support/sanitized.hpp"

namespace analysis_idle_test {

namespace {

using namespace cutrace;
using namespace cutrace::analysis;
using random_trace::tick;

bool has(const std::string& name, const char* part) { return name.find(part) != std::string::npos; }

/// The definition of idle_gap.hpp, with a loop over ticks.
idle_cause cause_of(const random_trace::trace& t, std::int64_t a, std::int64_t b, const random_trace::work& next) {
  if (next.call == SIZE_MAX) return idle_cause::unknown;
  const random_trace::call& launch = t.calls[next.call];
  const std::int64_t called = std::min(launch.start, b), gap = b - a;
  if (called <= a) return 2 * (launch.end - a) <= gap && gap > 30 ? idle_cause::dependency : idle_cause::launch_latency;
  std::int64_t in_stages = 0, waiting = 0, allocating = 0, launching = b - called, own = 0;
  bool waits_at_a = false, allocates_at_a = false;
  for (std::int64_t at = a; at < b; ++at) {
    bool stage = false;
    for (const random_trace::stage& s : t.stages) stage = stage || (s.start <= at && at < s.end);
    for (const random_trace::part& p : t.parts) stage = stage || (p.start <= at && at < p.end);
    in_stages += stage;
  }
  for (std::int64_t at = a; at < called; ++at) {
    const random_trace::call* now = nullptr;
    for (const random_trace::call& c : t.calls)
      if (c.outermost && c.thread == launch.thread && c.start <= at && at < c.end) now = &c;
    const bool waits = now != nullptr && (has(now->name, "Synchronize") || has(now->name, "MemcpyDtoH"));
    if (waits)
      ++waiting;
    else if (now != nullptr && has(now->name, "MemAlloc"))
      ++allocating;
    else if (now != nullptr && has(now->name, "Launch"))
      ++launching;
    else
      ++own;
    if (at == a) waits_at_a = waits;
    if (at == a) allocates_at_a = now != nullptr && has(now->name, "MemAlloc");
  }
  if (!t.stages.empty() && 2 * in_stages < gap) return idle_cause::no_work;
  if (waits_at_a && 2 * own <= gap && 2 * allocating <= gap) return idle_cause::sync_wait;
  if (allocates_at_a && 2 * own <= gap) return idle_cause::allocation;
  const std::int64_t most = std::max({waiting, allocating, launching, own});
  if (allocating == most) return idle_cause::allocation;
  if (own == most) return idle_cause::host_wait;
  return waiting == most ? idle_cause::sync_wait : idle_cause::launch_latency;
}

/// Name of the innermost stage that runs on the thread in each tick, "" outside; `own` where no call of those that
/// wait, allocate or launch runs.
void check_own_stage(const random_trace::trace& t, const trace_log& log, const idle_gap& g) {
  const gpu_work& w = log.work()[g.next];
  const trace_log::launch l = log.launch_of(w);
  std::map<std::string, std::int64_t> own;
  for (std::int64_t at = g.when.start_ns / tick; at < std::min(l.when.start_ns, g.when.end_ns) / tick; ++at) {
    bool busy = false;
    for (const random_trace::call& c : t.calls)
      busy = busy || (c.outermost && c.thread == log.thread_id(w.thread) && c.start <= at && at < c.end &&
                      (has(c.name, "Synchronize") || has(c.name, "MemcpyDtoH") || has(c.name, "MemAlloc") ||
                       has(c.name, "Launch")));
    if (busy) continue;
    const random_trace::stage* inner = nullptr;
    for (const random_trace::stage& s : t.stages)
      if (s.thread == log.thread_id(w.thread) && s.start <= at && at < s.end &&
          (inner == nullptr || s.start > inner->start || (s.start == inner->start && s.id > inner->id)))
        inner = &s;
    ++own[inner == nullptr ? std::string() : inner->name];
  }
  std::int64_t most = 0;
  for (const auto& o : own) most = std::max(most, o.second);
  REQUIRE(own[g.stage == 0 ? std::string() : log.names().name(log.stages()[g.stage].name)] == most);
}

std::unique_ptr<trace_log> log_of(const std::vector<event>& events) {
  auto log = std::make_unique<trace_log>();
  for (const event& e : events) log->add(e);
  log->seal();
  return log;
}

idle_report idle_of(const std::vector<event>& events) { return idle_finder(*log_of(events)).find(); }

constexpr std::int64_t us = 1000;

event launch(std::int64_t start_us, std::int64_t end_us, std::uint64_t id) {
  return sample::api("cuLaunchKernel", start_us * us, end_us * us, id);
}
event call(const char* name, std::int64_t start_us, std::int64_t end_us) {
  return sample::api(name, start_us * us, end_us * us, 0);
}
event kernel(std::int64_t start_us, std::int64_t end_us, std::int64_t called_us, std::uint64_t id) {
  return sample::called_at(sample::kernel("k", start_us * us, end_us * us, id), called_us * us);
}

void sort_by_end(std::vector<event>& events) {
  std::stable_sort(events.begin(), events.end(), [](const event& a, const event& b) { return a.end_ns < b.end_ns; });
}

/// Two kernels with a gap from 100 us to 200 us, and what the host did.
idle_blame blame_of(std::vector<event> host, std::int64_t second_called_us) {
  host.push_back(launch(10, 15, 1));
  host.push_back(kernel(20, 100, 10, 1));
  host.push_back(launch(second_called_us, second_called_us + 5, 2));
  host.push_back(kernel(200, 250, second_called_us, 2));
  sort_by_end(host);
  const idle_report r = idle_of(host);
  REQUIRE(r.all.count == 1);
  REQUIRE(r.all.ns == 100 * us);
  REQUIRE(r.blames.size() == 1);
  REQUIRE(r.blames[0].longest[0].when == interval{100 * us, 200 * us});
  return r.blames[0];
}

}  // namespace

TEST_CASE("analysis.idle: every gap of random traces, and its cause") {
  std::map<idle_cause, int> seen;
  for (std::uint32_t seed = 1; seed <= (sanitized ? 100 : 1000); ++seed) {
    CAPTURE(seed);
    const random_trace::trace t = random_trace::make(seed, seed % 4 == 0);
    const std::unique_ptr<trace_log> log = log_of(t.events);
    const idle_report r = idle_finder(*log, 100000).find();
    std::size_t gaps = 0;
    std::int64_t total = 0;
    std::array<std::int64_t, idle_cause_count> by_cause{};
    for (std::uint32_t device = 0; device < 2; ++device) {
      std::vector<interval> busy;
      for (const random_trace::work& w : t.works)
        if (w.device == device) busy.push_back({w.start, w.end});
      busy = merged(busy);
      for (std::size_t i = 1; i < busy.size(); ++i) {
        const std::int64_t a = busy[i - 1].end_ns, b = busy[i].start_ns;
        ++gaps;
        total += (b - a) * tick;
        const idle_gap* found = nullptr;
        for (const idle_gap& g : r.longest)
          if (g.device == device && g.when == interval{a * tick, b * tick}) found = &g;
        REQUIRE(found != nullptr);
        by_cause[static_cast<std::size_t>(found->cause)] += (b - a) * tick;
        bool possible = false;  // several pieces of work may end a gap at once
        for (const random_trace::work& w : t.works)
          possible = possible || (w.device == device && w.start == b && cause_of(t, a, b, w) == found->cause);
        CAPTURE(a);
        CAPTURE(b);
        REQUIRE_MESSAGE(possible, name_of(found->cause));
        ++seen[found->cause];
        if (found->cause == idle_cause::host_wait && found->call == 0) check_own_stage(t, *log, *found);
      }
    }
    REQUIRE(r.longest.size() == gaps);
    REQUIRE(r.all.ns == total);
    for (std::size_t c = 0; c < idle_cause_count; ++c) REQUIRE(r.by_cause[c].ns == by_cause[c]);
    std::int64_t blamed = 0;
    for (const idle_blame& b : r.blames) blamed += b.total.ns;
    REQUIRE(blamed == total);
    for (std::size_t i = 1; i < r.longest.size(); ++i)
      REQUIRE(r.longest[i - 1].when.length_ns() >= r.longest[i].when.length_ns());
  }
  CHECK(seen.size() == idle_cause_count);  // else the traces would prove nothing about the rest
}

TEST_CASE("analysis.idle: the call and the stage to blame") {
  CHECK(blame_of({}, 190).cause == idle_cause::host_wait);
  CHECK(blame_of({}, 190).call.empty());
  const idle_blame query = blame_of({call("cuModuleGetFunction", 110, 185)}, 190);
  CHECK(query.cause == idle_cause::host_wait);
  CHECK(query.call == "cuModuleGetFunction");
  const idle_blame sync = blame_of({call("cuStreamSynchronize", 16, 104)}, 150);
  CHECK(sync.cause == idle_cause::sync_wait);
  CHECK(sync.call == "cuStreamSynchronize");
  CHECK(blame_of({call("cuStreamSynchronize", 16, 104)}, 190).cause == idle_cause::host_wait);
  const idle_blame allocation = blame_of({call("cuMemAlloc_v2", 101, 180)}, 190);
  CHECK(allocation.cause == idle_cause::allocation);
  CHECK(allocation.call == "cuMemAlloc_v2");
  CHECK(blame_of({}, 105).cause == idle_cause::launch_latency);
  CHECK(blame_of({}, 50).cause == idle_cause::dependency);
  event stage = sample::stage("tokenize", 100 * us, 188 * us, 5);
  CHECK(blame_of({stage}, 190).cause == idle_cause::host_wait);
  event after = sample::stage("decode", 189 * us, 260 * us, 5);
  CHECK(blame_of({after}, 190).cause == idle_cause::no_work);
}

namespace {

event at(event stage, const char* file, std::uint32_t line) {
  stage.stage.file = sample::text_of(file);
  stage.stage.line = line;
  return stage;
}
event on(std::uint32_t thread, event e) {
  e.thread_id = thread;
  return e;
}
event adopted(event e) {
  e.stage.adopted = true;
  return e;
}
event span(event e) {
  e.stage.span = true;
  return e;
}

/// As blame_of; the second kernel is launched in stage 9, "decode".
struct blamed {
  idle_cause cause;
  std::string stage, site, launched_in;
  std::vector<finding> found;
};
blamed blame_in_stages(std::vector<event> host) {
  // Three times, so that it is a finding.
  std::vector<event> events;
  for (std::int64_t round = 0; round < 3; ++round) {
    const std::int64_t base = round * 300;
    const auto moved = [&](event e) {
      e.start_ns += base * us;
      e.end_ns += base * us;
      if (e.call_name.size != 0) e.call_start_ns += static_cast<std::uint64_t>(base * us);
      if (e.stage_id != 0) e.stage_id += static_cast<std::uint64_t>(1000 * round);
      if (e.kind == event_kind::stage && e.stage.parent != 0)
        e.stage.parent += static_cast<std::uint64_t>(1000 * round);
      return e;
    };
    const std::uint64_t id = static_cast<std::uint64_t>(round) * 10;
    for (const event& e : host) events.push_back(moved(e));
    events.push_back(moved(launch(10, 15, id + 1)));
    events.push_back(moved(kernel(20, 100, 10, id + 1)));
    events.push_back(moved(sample::in_stage(launch(190, 195, id + 2), "decode", 9)));
    events.push_back(moved(sample::in_stage(kernel(200, 290, 190, id + 2), "decode", 9)));
    events.push_back(moved(at(sample::stage("decode", 189 * us, 198 * us, 9), "server.cpp", 40)));
  }
  sort_by_end(events);
  trace_analysis a;
  for (const event& e : events) a.add(e);
  const trace_results r = a.finish();
  blamed b;
  const idle_gap* longest = nullptr;
  for (const idle_gap& g : r.idle.longest)
    if (g.when == interval{100 * us, 200 * us}) longest = &g;
  REQUIRE(longest != nullptr);
  const trace_log& log = a.log();
  const auto name = [&](std::uint32_t stage) {
    return stage == 0 ? std::string() : log.names().name(log.stages()[stage].name);
  };
  b.cause = longest->cause;
  b.stage = name(longest->stage);
  b.site = log.site(longest->stage);
  b.launched_in = name(log.work()[longest->next].stage);
  b.found = find_findings(log, r);
  return b;
}

}  // namespace

TEST_CASE("analysis.idle: to blame is the stage in which the thread was, not the one in which it launches next") {
  const blamed b = blame_in_stages({at(sample::stage("prepare", 102 * us, 187 * us, 5), "server.cpp", 20)});
  CHECK(b.cause == idle_cause::host_wait);
  CHECK(b.stage == "prepare");
  CHECK(b.site == "server.cpp:20");
  CHECK(b.launched_in == "decode");
  REQUIRE(!b.found.empty());
  CHECK(b.found[0].is == finding_kind::host_bound);
  CHECK(b.found[0].stage == "prepare");
  CHECK(b.found[0].site == "server.cpp:20");
  CHECK(b.found[0].next_stage == "decode");
  CHECK(b.found[0].thread_id == sample::main_thread);
  CHECK(b.found[0].meanwhile.empty());
  const std::string what = ascii::words_of(b.found[0], 900 * us).what;
  CHECK(what.find("in stage \"prepare\" (server.cpp:20) before it launches in \"decode\".") != std::string::npos);
}

TEST_CASE("analysis.idle: nested stages, stages of one name in two places, calls within, and adopted parts") {
  // The inner stage has most of the time outside of calls; the outer one the longer whole.
  CHECK(blame_in_stages(
            {sample::stage("batch", 100 * us, 188 * us, 5), sample::stage("tokenize", 110 * us, 170 * us, 6, 5, 1)})
            .stage == "tokenize");
  // Most of the inner one is a wait that is no work of its own: it ends before the gap's middle.
  CHECK(blame_in_stages({sample::stage("batch", 100 * us, 188 * us, 5),
                         sample::stage("sync", 101 * us, 140 * us, 6, 5, 1), call("cuStreamSynchronize", 102, 139)})
            .stage == "batch");
  // Two of a name add up to more than the one that is longest; its place is that of the longer of the two.
  const blamed two = blame_in_stages({at(sample::stage("copy_in", 100 * us, 130 * us, 5), "a.cpp", 1),
                                      at(sample::stage("mask", 130 * us, 164 * us, 6), "b.cpp", 2),
                                      at(sample::stage("copy_in", 164 * us, 188 * us, 7), "a.cpp", 3)});
  CHECK(two.stage == "copy_in");
  CHECK(two.site == "a.cpp:1");
  // Adopted from another thread, and stages within what was adopted.
  CHECK(blame_in_stages({adopted(sample::stage("serve", 95 * us, 188 * us, 5)),
                         on(77, sample::stage("serve", 20 * us, 299 * us, 5))})
            .stage == "serve");
}

TEST_CASE("analysis.idle: outside of any stage no other thread is chosen from, and what others did is listed") {
  const blamed b = blame_in_stages({on(77, sample::stage("tokenize", 101 * us, 180 * us, 5)),
                                    on(78, sample::stage("log", 120 * us, 130 * us, 6)),
                                    span(on(79, sample::stage("queue_wait", 99 * us, 189 * us, 7)))});
  CHECK(b.cause == idle_cause::host_wait);
  CHECK(b.stage.empty());
  REQUIRE(!b.found.empty());
  const finding& f = b.found[0];
  CHECK(f.is == finding_kind::host_bound);
  CHECK(f.stage.empty());
  CHECK(f.site.empty());
  REQUIRE(f.meanwhile.size() == 3);
  CHECK(f.meanwhile[0].stage == "queue_wait");
  CHECK(f.meanwhile[0].thread_id == 0);
  CHECK(f.meanwhile[1].stage == "tokenize");
  CHECK(f.meanwhile[1].thread_id == 77);
  CHECK(f.meanwhile[1].ns == 79 * us);
  CHECK(f.meanwhile[2].stage == "log");
  const std::string what = ascii::words_of(f, 900 * us).what;
  CHECK(what.find("outside of any stage before it launches in \"decode\". Meanwhile, in the longest: \"queue_wait\" "
                  "(a span) for 89.0 us, \"tokenize\" on thread 77 for 79.0 us") != std::string::npos);
}

TEST_CASE("analysis.idle: what was not recorded is not idle") {
  std::vector<event> events = {launch(10, 15, 1),
                               kernel(20, 100, 10, 1),
                               launch(190, 195, 2),
                               kernel(200, 250, 190, 2),
                               sample::base(event_kind::window, "recorded", 0, 120 * us),
                               sample::base(event_kind::window, "recorded", 180 * us, 300 * us)};
  const idle_report r = idle_of(events);
  CHECK(r.all.ns == 40 * us);
  CHECK(r.all.count == 2);
  CHECK(r.before_ns == 20 * us);
  CHECK(r.after_ns == 50 * us);
}

TEST_CASE("analysis.idle: a file that does not tell its start, and one with too many devices") {
  trace_analysis a(trace_log::first_event);
  const std::int64_t far = std::int64_t{1} << 58;
  a.add(sample::device(0, "described at time 0"));
  for (int i = 0; i < 1000; ++i) {
    event k = kernel(10 * i, 10 * i + 5, 0, 0);
    k.call_name = text{};
    k.start_ns += far;
    k.end_ns += far;
    k.device = static_cast<std::uint32_t>(i);
    a.add(k);
  }
  const trace_results r = a.finish();
  CHECK(a.log().window() == interval{far, far + 9995 * us});
  CHECK(r.time.everything.recorded_ns == 9995 * us);
  CHECK(r.time.everything.gpu_busy_ns() == 5000 * us);
  REQUIRE(r.devices.size() == trace_log::device_limit + 1);
  CHECK(r.devices.back().device == trace_log::other_devices);
  CHECK(r.devices.back().busy_ns == static_cast<std::int64_t>(1000 - trace_log::device_limit) * 5 * us);
}

TEST_CASE("analysis.idle: calls by depth") {
  call_depth depth;
  depth.add(call("cuLaunchKernel", 12, 14));
  depth.add(call("cuMemAlloc", 15, 18));
  depth.add(call("cudaLaunchKernel", 11, 19));
  depth.add(call("cudaMalloc", 20, 30));
  event other = call("cuMemAlloc", 21, 40);
  other.thread_id = 9;
  depth.add(other);
  event stage = sample::stage("a", 0, 50 * us, 1);
  stage.depth = 2;
  depth.add(stage);
  for (int i = 0; i < 1000; ++i) depth.add(call("cuCtxGetCurrent", 50 + i, 51 + i));
  const depth_report r = depth.result();
  CHECK(r[0].calls == 3 + 1000);
  CHECK(r[0].call_ns == (8 + 10 + 19 + 1000) * us);
  CHECK(r[1].calls == 2);
  CHECK(r[1].call_ns == 5 * us);
  CHECK(r[2].stages == 1);
  CHECK(r[2].stage_ns == 50 * us);
}

TEST_CASE("analysis.idle: live and peak bytes, by stage, and what was never freed") {
  for (std::uint32_t seed = 1; seed <= (sanitized ? 100 : 1000); ++seed) {
    std::mt19937 random(seed);
    memory_use use;
    std::map<std::uint64_t, std::pair<std::uint64_t, std::string>> live;
    std::map<std::string, std::uint64_t> live_of, peak_of;
    std::uint64_t now = 0, peak = 0, unknown = 0;
    static const std::string stages[] = {"", "load", "decode"};
    const bool calls = seed % 2 == 0;
    const auto drop = [&](std::uint64_t address) {
      now -= live[address].first;
      live_of[live[address].second] -= live[address].first;
      live.erase(address);
    };
    for (int i = 0; i < 60; ++i) {
      const std::uint64_t address = 1 + random() % 12, bytes = 1 + random() % 1000;
      const bool frees = random() % 2 == 0;
      const std::string& stage = stages[random() % 3];
      argument a = sample::argument_of("dptr", frees ? argument_kind::pointer : argument_kind::output, address);
      event e =
          calls
              ? sample::api(frees ? "cuMemFree_v2" : "cuMemAlloc_v2", i * us, i * us + 10, 1, &a, 1, frees ? 0 : bytes)
              : sample::memory(frees ? memory_operation::free : memory_operation::allocate, address, bytes, i * us, 1);
      if (!stage.empty()) e = sample::in_stage(e, stage, 1);
      use.add(e);
      if (frees && live.count(address) == 0) ++unknown;
      if (live.count(address) != 0) drop(address);
      if (frees) continue;
      live[address] = {bytes, stage};
      now += bytes;
      live_of[stage] += bytes;
      peak = std::max(peak, now);
      peak_of[stage] = std::max(peak_of[stage], live_of[stage]);
    }
    const memory_report r = use.result();
    CAPTURE(seed);
    REQUIRE(r.from_records == !calls);
    REQUIRE(r.live_bytes == now);
    REQUIRE(r.peak_bytes == peak);
    REQUIRE(r.live_allocations == live.size());
    REQUIRE(r.unknown_frees == unknown);
    for (const memory_owner& o : r.stages) {
      REQUIRE(o.live_bytes == live_of[o.stage]);
      REQUIRE(o.peak_bytes == peak_of[o.stage]);
    }
    const std::vector<memory_step>& steps = r.steps.begin()->second;
    REQUIRE(steps.back().live_bytes == now);
  }
}

}  // namespace analysis_idle_test
