// SPDX-License-Identifier: Apache-2.0
// Idle gaps: all of them found, each with the cause that its definition gives when counted tick by tick, and examples
// that a reader can follow. Nesting of calls and live memory against plain models.
#include <doctest/doctest.h>

#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <cutrace/analysis/idle_watch.hpp>
#include <cutrace/sinks/common/finding_text.hpp>
#include <deque>
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

/// The definition of idle_gaps.hpp, with a loop over ticks.
idle_cause cause_of(const random_trace::trace& t, std::int64_t a, std::int64_t b, const random_trace::work& next) {
  if (next.call == SIZE_MAX) return idle_cause::unknown;
  const random_trace::call& launch = t.calls[next.call];
  const std::int64_t called = std::min(launch.start, b), gap = b - a;
  if (called <= a) return 2 * (launch.end - a) <= gap && gap > 30 ? idle_cause::dependency : idle_cause::launch_latency;
  std::int64_t in_stages = 0, waiting = 0, allocating = 0, launching = b - called, own = 0;
  bool waits_at_a = false, allocates_at_a = false;
  std::vector<bool> in_stage(static_cast<std::size_t>(gap));
  const auto add = [&](std::int64_t start, std::int64_t end) {
    for (std::int64_t at = std::max(start, a); at < std::min(end, b); ++at)
      in_stage[static_cast<std::size_t>(at - a)] = true;
  };
  for (const random_trace::stage& s : t.stages) add(s.start, s.end);
  for (const random_trace::part& p : t.parts) add(p.start, p.end);
  for (const bool in : in_stage) in_stages += in;
  std::vector<const random_trace::call*> calls;
  for (const random_trace::call& c : t.calls)
    if (c.outermost && c.thread == launch.thread) calls.push_back(&c);
  for (std::int64_t at = a; at < called; ++at) {
    const random_trace::call* now = nullptr;
    for (const random_trace::call* c : calls)
      if (c->start <= at && at < c->end) now = c;
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
  // The launching thread adopted a stage of thread 77.
  CHECK(blame_in_stages({adopted(sample::stage("serve", 95 * us, 188 * us, 5)),
                         on(77, sample::stage("serve", 20 * us, 299 * us, 5))})
            .stage == "serve");
}

TEST_CASE(
    "analysis.idle: outside of any stage no stage of another thread is blamed; what other threads did is listed") {
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

// The same in logs one after the other, as a sink has them.

namespace {

struct watched {
  idle_report report;
  std::vector<named_gap> longest;
  std::int64_t off_ns = 0, uncertain_ns = 0;
  idle_total of_device[2];
};
/// @param log_bytes 0: one log
watched watch(const std::vector<event>& events, std::size_t log_bytes, std::int64_t end_ns = INT64_MIN) {
  bounds limits;
  limits.log_bytes = log_bytes;
  idle_watch w(0, limits, 100000);
  std::int64_t last_ns = end_ns;
  for (const event& e : events) {
    w.add(e);
    if (!e.is_description()) last_ns = std::max(last_ns, e.end_ns);
  }
  w.settle(true);
  return {w.report(last_ns), w.longest(), w.off_ns(), w.uncertain_ns(), {w.of_device(0), w.of_device(1)}};
}

/// Steps of a server, inside of one stage that ends with the program: its own code for 50 us, a launch, a kernel of 30
/// us, a wait for it.
std::vector<event> server(std::int64_t steps) {
  std::vector<event> events;
  for (std::int64_t i = 0; i < steps; ++i) {
    const std::int64_t t = 100 * i;
    const std::uint64_t id = static_cast<std::uint64_t>(3 * i) + 10;
    events.push_back(sample::stage("prepare", t * us, (t + 50) * us, id, 5, 1));
    events.push_back(sample::in_stage(launch(t + 50, t + 55, id), "decode", id + 1));
    events.push_back(sample::in_stage(kernel(t + 60, t + 90, t + 50, id), "decode", id + 1));
    events.push_back(sample::in_stage(call("cuStreamSynchronize", t + 55, t + 92), "decode", id + 1));
    events.push_back(sample::stage("decode", (t + 50) * us, (t + 95) * us, id + 1, 5, 1));
  }
  events.push_back(sample::stage("serve", 0, 100 * steps * us, 5));
  return events;
}

}  // namespace

TEST_CASE("analysis.idle: one log of a live trace is a whole trace") {
  for (std::uint32_t seed = 1; seed <= (sanitized ? 30 : 300); ++seed) {
    CAPTURE(seed);
    const random_trace::trace t = random_trace::make(seed, seed % 4 == 0);
    const std::unique_ptr<trace_log> log = log_of(t.events);
    const idle_report whole = idle_finder(*log, 100000).find();
    const watched live = watch(t.events, 0, log->window().end_ns);
    CHECK(live.off_ns == 0);
    REQUIRE(live.report.all.ns == whole.all.ns);
    REQUIRE(live.report.before_ns == whole.before_ns);
    REQUIRE(live.report.after_ns == whole.after_ns);
    for (std::size_t c = 0; c < idle_cause_count; ++c) REQUIRE(live.report.by_cause[c].ns == whole.by_cause[c].ns);
    REQUIRE(live.report.blames.size() == whole.blames.size());
    std::map<std::string, std::int64_t> blamed;
    const auto key = [](const idle_blame& b) {
      return std::to_string(b.device) + name_of(b.cause) + "/" + b.call + "/" + b.stage;
    };
    for (const idle_blame& b : whole.blames) blamed[key(b)] += b.total.ns;
    for (const idle_blame& b : live.report.blames) REQUIRE(blamed[key(b)] == b.total.ns);
    REQUIRE(live.longest.size() == whole.longest.size());
    for (std::size_t i = 0; i < whole.longest.size(); ++i)
      REQUIRE(live.longest[i].when.length_ns() == whole.longest[i].when.length_ns());
    for (std::uint32_t d = 0; d < 2; ++d) {
      idle_total of;
      for (const idle_gap& g : whole.longest)
        if (g.device == d) of.ns += g.when.length_ns(), ++of.count;
      REQUIRE(live.of_device[d].ns == of.ns);
      REQUIRE(live.of_device[d].count == of.count);
    }
  }
}

TEST_CASE("analysis.idle: many logs of a live trace say what one does") {
  const std::vector<event> events = server(sanitized ? 2000 : 20000);
  const idle_report whole = watch(events, 0).report;
  REQUIRE(whole.blames.size() >= 1);
  CHECK(whole.blames[0].stage == "prepare");
  CHECK(whole.blames[0].cause == idle_cause::host_wait);
  for (const std::size_t bytes : {1u, 20000u, 200000u}) {
    CAPTURE(bytes);
    const watched live = watch(events, bytes);
    CHECK(live.off_ns == 0);
    CHECK(live.report.all.ns == whole.all.ns);
    CHECK(live.report.all.count == whole.all.count);
    CHECK(live.report.before_ns == whole.before_ns);
    CHECK(live.report.after_ns == whole.after_ns);
    CHECK(live.report.lengths.count() == whole.lengths.count());
    CHECK(live.report.lengths.percentile_ns(50) == whole.lengths.percentile_ns(50));
    // Where two logs meet, a gap may lack what came before.
    CHECK(static_cast<double>(live.report.of(idle_cause::host_wait).ns) >=
          0.98 * static_cast<double>(whole.of(idle_cause::host_wait).ns));
    CHECK(live.report.blames[0].stage == "prepare");
    CHECK(live.report.blames[0].cause == idle_cause::host_wait);
    CHECK(live.report.of(idle_cause::no_work).count == 0);  // "serve" is open all the time, if unknown until its end
  }
}

namespace {

/// Three threads that each go on as `server` does, with waits of any length, on one device. Events come in bursts of
/// `burst_us`, in each burst thread by thread, as when the records of threads are read late.
std::vector<event> in_bursts(std::uint32_t seed, std::int64_t burst_us) {
  std::mt19937 random(seed);
  const auto below = [&random](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<unsigned>(n));
  };
  std::vector<std::vector<event>> of_thread(3);
  std::uint64_t id = 1;
  for (std::uint32_t thread = 0; thread < of_thread.size(); ++thread)
    for (std::int64_t t = below(300); t < 60000; t += 20 + below(400)) {
      const std::int64_t launched = t + below(80), begins = launched + 5 + below(20), ends = begins + 1 + below(60);
      const std::int64_t waits = launched + 5 + below(20), waited = std::max(ends + 2, waits + below(150));
      const char* stage = below(2) == 0 ? "decode" : "prefill";
      for (event e : {launch(launched, launched + 5, id), kernel(begins, ends, launched, id),
                      call(below(4) == 0 ? "cuMemAlloc_v2" : "cuStreamSynchronize", waits, waited)}) {
        e.stream = thread + 1;
        of_thread[thread].push_back(sample::in_stage(on(thread + 1, e), stage, id + 1));
      }
      of_thread[thread].push_back(on(thread + 1, sample::stage(stage, t * us, (waited + 5) * us, id + 1)));
      id += 2;
      t = waited + 5;
    }
  std::vector<event> events;
  std::size_t at[3] = {};
  for (std::int64_t until = burst_us; until < 70000 + burst_us; until += burst_us)
    for (std::size_t thread = 0; thread < of_thread.size(); ++thread)
      for (std::size_t& i = at[thread]; i < of_thread[thread].size() && of_thread[thread][i].end_ns <= until * us; ++i)
        events.push_back(of_thread[thread][i]);
  return events;
}

}  // namespace

TEST_CASE("analysis.idle: many logs of a trace that comes in bursts say for how much time they may be wrong") {
  std::int64_t all = 0, uncertain = 0, wrong = 0;
  for (std::uint32_t seed = 1; seed <= (sanitized ? 20 : 200); ++seed)
    for (const std::int64_t burst_us : {500, 3000, 20000}) {
      CAPTURE(seed);
      CAPTURE(burst_us);
      const std::vector<event> events = in_bursts(seed, burst_us);
      const watched one = watch(events, 0), many = watch(events, 20000);
      REQUIRE(one.uncertain_ns == 0);
      REQUIRE(many.off_ns == 0);
      REQUIRE(many.report.all.ns == one.report.all.ns);
      std::int64_t by_cause = 0;
      for (std::size_t c = 0; c < idle_cause_count; ++c)
        by_cause += std::abs(many.report.by_cause[c].ns - one.report.by_cause[c].ns);
      CHECK(by_cause / 2 <= many.uncertain_ns);
      all += one.report.all.ns;
      uncertain += burst_us == 500 ? many.uncertain_ns : 0;
      wrong += burst_us == 500 ? by_cause / 2 : 0;
    }
  CHECK(wrong > 0);
  CHECK(uncertain < all / 3 / 7);  // less than a seventh of what the bursts of 500 us have
}

TEST_CASE("analysis.idle: work that comes after its gap was counted is taken out of it") {
  // On another stream, delivered last: over many steps, at the edges of gaps, in the middle of one, before all others.
  const std::vector<interval> late = {{20500, 38800}, {41095, 41110}, {42140, 42170}, {44100, 44150}, {45090, 45160},
                                      {47110, 47120}, {47125, 47130}, {-500, -300},   {-100, 30}};
  std::vector<event> events = server(1000);
  std::uint64_t id = 900000;
  for (const interval v : late) {
    event e = kernel(v.start_ns, v.end_ns, v.start_ns, ++id);
    e.stream = 99;
    events.push_back(e);
  }
  for (event& e : events) {  // the trace begins at 0
    e.start_ns += 1000 * us;
    e.end_ns += 1000 * us;
    e.call_start_ns += 1000 * us;
  }
  const watched whole = watch(events, 0);
  for (const std::size_t bytes : {1u, 20000u, 400000u}) {
    CAPTURE(bytes);
    const watched live = watch(events, bytes);
    if (live.off_ns != 0) {  // fewer gaps are kept than the late work reaches back
      CHECK(bytes < 400000);
      CHECK(live.report.all.ns >= whole.report.all.ns);
      CHECK(live.report.all.ns <= whole.report.all.ns + live.off_ns);
      continue;
    }
    CHECK(live.report.all.ns == whole.report.all.ns);
    CHECK(live.report.all.count == whole.report.all.count);
    CHECK(live.report.before_ns == whole.report.before_ns);
    CHECK(live.report.after_ns == whole.report.after_ns);
    CHECK(live.report.lengths.count() == whole.report.lengths.count());
    for (const unsigned percent : {1u, 50u, 99u, 100u})
      CHECK(live.report.lengths.percentile_ns(percent) == whole.report.lengths.percentile_ns(percent));
  }
}

TEST_CASE("analysis.idle: where late work divides the longest gap, percentiles are within what is left") {
  const event before = kernel(0, 10, 0, 1), behind = kernel(5010, 5020, 5010, 2), late = kernel(1010, 1200, 1010, 3);
  bounds limits;
  idle_watch w(0, limits, 10);
  w.add(before);
  w.add(behind);
  w.settle(false);
  CHECK(w.report(5020 * us).lengths.percentile_ns(100) == static_cast<std::uint64_t>(5000 * us));
  w.add(late);
  w.settle(true);
  const idle_report live = w.report(5020 * us), whole = watch({before, late, behind}, 0).report;
  CHECK(live.lengths.count() == 2);
  for (const unsigned percent : {1u, 50u, 51u, 100u})
    CHECK(live.lengths.percentile_ns(percent) == whole.lengths.percentile_ns(percent));
  CHECK(live.lengths.percentile_ns(100) == static_cast<std::uint64_t>(3810 * us));  // its bucket's middle is above it
}

TEST_CASE("analysis.idle: a live trace in any order of delivery has the same gaps") {
  for (std::uint32_t seed = 1; seed <= (sanitized ? 20 : 200); ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    std::vector<event> events;
    for (int i = 0; i < 3000; ++i) {
      const std::int64_t start = 10 * i + static_cast<std::int64_t>(random() % 2000);
      event k = kernel(start, start + 1 + static_cast<std::int64_t>(random() % 6), start, 0);
      k.device = random() % 2;
      k.stream = random() % 4;
      events.push_back(k);
    }
    const idle_report whole = watch(events, 0).report;
    const watched live = watch(events, 30000 + random() % 60000);
    REQUIRE(live.off_ns == 0);
    REQUIRE(live.report.all.ns == whole.all.ns);
    REQUIRE(live.report.all.count == whole.all.count);
    REQUIRE(live.report.before_ns == whole.before_ns);
    REQUIRE(live.report.after_ns == whole.after_ns);
    std::int64_t by_cause = 0;
    for (const idle_total& t : live.report.by_cause) by_cause += t.ns;
    REQUIRE(by_cause == whole.all.ns);
  }
}

TEST_CASE("analysis.idle: windows of a live trace, one after the other and the last one open") {
  std::vector<event> events;
  const auto window = [&](std::int64_t a, std::int64_t b) {
    events.push_back(sample::base(event_kind::window, "recorded", a * us, b * us));
  };
  for (std::int64_t w = 0; w < 300; ++w) {
    const std::int64_t t = 1000 * w;
    for (std::int64_t i = 0; i < 3; ++i) {
      const std::uint64_t id = static_cast<std::uint64_t>(10 * w + i) + 1;
      events.push_back(launch(t + 20 + 50 * i, t + 25 + 50 * i, id));
      events.push_back(kernel(t + 30 + 50 * i, t + 60 + 50 * i, t + 20 + 50 * i, id));
    }
    window(t, t + 200);
    // What is recorded between windows makes none of that time recorded.
    events.push_back(
        sample::stage("prepare", (t + 300 + w % 7) * us, (t + 400) * us, static_cast<std::uint64_t>(w) + 1));
  }
  const idle_report whole = watch(events, 0).report;
  CHECK(whole.all.ns == (300 * 40 + 299 * 70) * us);
  for (const std::size_t bytes : {1u, 30000u}) {
    CAPTURE(bytes);
    // Where a log ends while a window is open, its begin is known only later.
    const watched live = watch(events, bytes);
    CHECK(live.off_ns == 0);
    CHECK(live.report.all.ns == whole.all.ns);
    std::int64_t by_cause = 0;
    for (const idle_total& t : live.report.by_cause) by_cause += t.ns;
    CHECK(by_cause == whole.all.ns);
    CHECK(live.report.before_ns == whole.before_ns);
    CHECK(live.report.after_ns == whole.after_ns);
  }
}

TEST_CASE("analysis.idle: windows that come behind the events of later ones") {
  const auto window = [](std::int64_t w) {
    return sample::base(event_kind::window, "recorded", 1000 * w * us, (1000 * w + 200) * us);
  };
  for (const std::int64_t behind : {1, 2, 5}) {
    for (const bool swapped : {false, true}) {
      std::vector<event> events;
      for (std::int64_t w = 0; w < 300 + behind; ++w) {
        for (std::int64_t i = 0; i < 3 && w < 300; ++i) {
          const std::uint64_t id = static_cast<std::uint64_t>(10 * w + i) + 1;
          const std::int64_t t = 1000 * w + 50 * i + w % 11;
          events.push_back(launch(t + 20, t + 25, id));
          events.push_back(kernel(t + 30, t + 60, t + 20, id));
        }
        // Of two neighbours, the later one first.
        if (w >= behind) events.push_back(window(swapped ? (w - behind) ^ 1 : w - behind));
      }
      const idle_report whole = watch(events, 0).report;
      CHECK(whole.all.count == 300 * 2 + 299 * 2);
      for (const std::size_t bytes : {1u, 10000u, 30000u}) {
        CAPTURE(behind);
        CAPTURE(swapped);
        CAPTURE(bytes);
        const watched live = watch(events, bytes);
        if (!swapped) {
          CHECK(live.off_ns == 0);
          CHECK(live.report.all.count == whole.all.count);
        }
        CHECK(std::abs(live.report.all.ns - whole.all.ns) <= live.off_ns);
      }
    }
  }
}

TEST_CASE("analysis.idle: the cause of a gap of which a window later leaves a part is uncertain") {
  // Each window begins in a stage. With the time before the window, which is not recorded, most of the gap is in none.
  // Logs end while a window is open.
  std::vector<event> events;
  for (std::int64_t w = 0; w < 40; ++w) {
    const std::int64_t t = 10000 * w;
    events.push_back(sample::stage("prepare", t * us, (t + 100) * us, static_cast<std::uint64_t>(w) + 1));
    for (std::int64_t i = 0; i < 150; ++i) {
      const auto id = static_cast<std::uint64_t>(150 * w + i) + 1;
      events.push_back(launch(t + 100 + 20 * i, t + 105 + 20 * i, id));
      events.push_back(kernel(t + 110 + 20 * i, t + 115 + 20 * i, t + 100 + 20 * i, id));
    }
    events.push_back(sample::base(event_kind::window, "recorded", t * us, (t + 3200) * us));
  }
  const idle_report whole = watch(events, 0).report;
  const watched live = watch(events, 20000);
  CHECK(live.report.all.ns == whole.all.ns);
  CHECK(live.uncertain_ns < whole.all.ns / 10);
  for (std::size_t c = 0; c < idle_cause_count; ++c)
    CHECK(std::abs(live.report.by_cause[c].ns - whole.by_cause[c].ns) <= live.uncertain_ns);
}

TEST_CASE("analysis.idle: the cause of what a window leaves of a gap is uncertain, before the window and behind it") {
  // Each window begins with an allocation and ends with one: that is why the host is late in this part of the gap
  // between two windows, but not in the whole gap, most of which is the program's own code.
  const std::int64_t first_us[] = {10, 300}, last_us[] = {300, 10};
  for (const int part : {0, 1}) {
    CAPTURE(part);
    std::vector<event> events;
    for (std::int64_t w = 0; w < 40; ++w) {
      const std::int64_t t = 10000 * w, work = t + first_us[part], end = work + 3000 + last_us[part];
      events.push_back(call("cuMemAlloc_v2", t, work));
      for (std::int64_t i = 0; i < 150; ++i) {
        const auto id = static_cast<std::uint64_t>(150 * w + i) + 1;
        events.push_back(launch(work + 20 * i, work + 5 + 20 * i, id));
        events.push_back(kernel(work + 10 + 20 * i, work + 15 + 20 * i, work + 20 * i, id));
      }
      events.push_back(call("cuMemAlloc_v2", end - last_us[part], end));
      events.push_back(sample::base(event_kind::window, "recorded", t * us, end * us));
    }
    const idle_report whole = watch(events, 0).report;
    const watched live = watch(events, 20000);
    CHECK(live.report.all.ns == whole.all.ns);
    CHECK(live.uncertain_ns < whole.all.ns / 5);
    for (std::size_t c = 0; c < idle_cause_count; ++c)
      CHECK(std::abs(live.report.by_cause[c].ns - whole.by_cause[c].ns) <= live.uncertain_ns);
  }
}

TEST_CASE("analysis.idle: a stage that was left out of the logs behind it makes the cause of a gap uncertain") {
  // The gap lies in a stage of another thread. Behind that, so many shorter stages end that it is not carried along;
  // the launch that ends the gap comes last, at once or behind calls that fill further logs, none of which leaves out
  // any stage.
  for (const int calls : {0, 4000}) {
    CAPTURE(calls);
    std::vector<event> events = {on(1, launch(0, 5, 1)), on(1, kernel(0, 10, 0, 1)),
                                 on(2, sample::stage("prepare", 10 * us, 10000 * us, 7, 0, 2))};
    for (std::int64_t i = 0; i < 4000; ++i) {
      const std::int64_t t_ns = 10000 * us + 10 * i;
      events.push_back(on(3, sample::stage("short", t_ns, t_ns + 5, static_cast<std::uint64_t>(i) + 100, 0, 3)));
    }
    for (int i = 0; i < calls; ++i) events.push_back(on(3, call("cuEventQuery", 10100 + i, 10100 + i)));
    const std::int64_t last_us = 10100 + calls;
    events.push_back(on(1, launch(last_us, last_us + 5, 2)));
    events.push_back(on(1, kernel(last_us + 10, last_us + 20, last_us, 2)));
    const watched one = watch(events, 0), many = watch(events, 40000);
    CHECK(one.uncertain_ns == 0);
    REQUIRE(one.report.of(idle_cause::no_work).ns == 0);
    REQUIRE(many.report.of(idle_cause::no_work).ns != 0);
    CHECK(many.uncertain_ns >= many.report.of(idle_cause::no_work).ns);
  }
}

TEST_CASE("analysis.idle: the cause of a gap before work whose call another log has is uncertain") {
  // Of a file whose work names its call by the id alone.
  std::vector<event> events, calls;
  for (std::int64_t i = 0; i < 2000; ++i) {
    calls.push_back(launch(100 * i, 100 * i + 5, static_cast<std::uint64_t>(i) + 1));
    events.push_back(kernel(100 * i + 60, 100 * i + 90, 0, static_cast<std::uint64_t>(i) + 1));
    events.back().call_name = text{};
  }
  events.insert(events.end(), calls.begin(), calls.end());
  const idle_report whole = watch(events, 0).report;
  CHECK(whole.of(idle_cause::unknown).ns == 0);
  const watched live = watch(events, 30000);
  CHECK(live.report.of(idle_cause::unknown).ns > 0);
  CHECK(live.uncertain_ns >= live.report.of(idle_cause::unknown).ns);
}

TEST_CASE("analysis.idle: the cause of a gap stays uncertain while its thread is silent for some logs") {
  // The thread fills the gap with launches for another device, another one with calls of one log and more, and the work
  // that ends the gap comes last.
  std::vector<event> events = {launch(0, 5, 1), kernel(0, 10, 0, 1)};
  for (std::int64_t i = 0; i < 97; ++i) {
    const std::int64_t t = 20 + 10 * i;
    const auto id = static_cast<std::uint64_t>(10 + i);
    events.push_back(launch(t, t + 9, id));
    events.push_back(kernel(t + 2, t + 3, t, id));
    events.back().device = 1;
    events.back().stream = 9;
  }
  events.push_back(launch(990, 995, 5000));
  for (event& e : events) e.thread_id = 1;
  for (std::int64_t i = 0; i < 4000; ++i)
    events.push_back(on(2, sample::api("cuCtxGetCurrent", 996 * us + 10 * i, 996 * us + 10 * i + 5, 0)));
  events.push_back(on(1, kernel(1040, 1050, 990, 5000)));
  const watched one = watch(events, 0), many = watch(events, 40000);
  REQUIRE(one.of_device[0].ns == 1030 * us);
  REQUIRE(many.of_device[0].ns == 1030 * us);
  CHECK(one.uncertain_ns == 0);
  if (one.report.of(idle_cause::launch_latency).ns != many.report.of(idle_cause::launch_latency).ns)
    CHECK(many.uncertain_ns >= 1030 * us);
}

TEST_CASE("analysis.idle: a window that is open for many logs") {
  std::vector<event> events = {sample::base(event_kind::window, "recorded", 0, 10 * us)};
  for (event e : server(2000)) {
    e.start_ns += 1000 * us;
    e.end_ns += 1000 * us;
    e.call_start_ns += 1000 * us;
    events.push_back(e);
  }
  events.push_back(sample::base(event_kind::window, "recorded", 1000 * us, 201000 * us));
  const idle_report whole = watch(events, 0).report, live = watch(events, 30000).report;
  CHECK(live.all.ns == whole.all.ns);
  CHECK(live.all.count == whole.all.count);
}

TEST_CASE("analysis.idle: more windows than are kept") {
  std::vector<event> events;
  for (std::int64_t w = 0; w < (sanitized ? 6000 : 10000); ++w) {
    const std::int64_t t = 1000 * w;
    const std::uint64_t id = static_cast<std::uint64_t>(2 * w) + 1;
    if (w >= 100)  // first windows without any work
      for (const std::int64_t at : {20, 120}) {
        events.push_back(launch(t + at, t + at + 5, id + static_cast<std::uint64_t>(at > 20)));
        events.push_back(kernel(t + at + 10, t + at + 40, t + at, id + static_cast<std::uint64_t>(at > 20)));
      }
    events.push_back(sample::base(event_kind::window, "recorded", t * us, (t + 200) * us));
  }
  const idle_report whole = watch(events, 0).report;
  CHECK(whole.before_ns == (100 * 200 + 30) * us);
  const watched live = watch(events, 200000);
  CHECK(live.off_ns == 0);
  CHECK(live.report.all.ns == whole.all.ns);
  CHECK(live.report.all.count == whole.all.count);
  CHECK(live.report.before_ns == whole.before_ns);
  CHECK(live.report.after_ns == whole.after_ns);
  // A device that works in the first window and the last: what lies between is said not to be known.
  event other = kernel(30, 40, 20, 1000000);
  other.device = 1;
  events.insert(events.begin(), other);
  CHECK(watch(events, 200000).off_ns > 0);
}

TEST_CASE("analysis.idle: a live trace of many threads, names and rows stays small") {
  bounds limits = bounds::for_bytes(1u << 20);
  idle_watch w(0, limits, 10);
  std::deque<std::string> names;
  for (std::int64_t i = 0; i < 20000; ++i) {
    names.push_back("kernel_" + std::to_string(i) + std::string(200, 'x'));
    event l =
        on(static_cast<std::uint32_t>(i % 2000) + 1, launch(10 * i, 10 * i + 1, static_cast<std::uint64_t>(i) + 1));
    event k = kernel(10 * i + 2, 10 * i + 4, 10 * i, static_cast<std::uint64_t>(i) + 1);
    k.name = sample::text_of(names.back());
    k.stage_name = k.name;
    k.stage_id = static_cast<std::uint64_t>(i) + 1;
    w.add(l);
    w.add(k);
  }
  w.settle(true);
  const idle_report r = w.report(200000 * us);
  CHECK(r.all.count == 19999);
  CHECK(r.blames.size() <= 1100);
  CHECK(w.longest().size() == 10);
}

TEST_CASE("analysis.idle: a file that does not say its start, and one with too many devices") {
  trace_analysis a(trace_log::first_event);
  const std::int64_t far = std::int64_t{1} << 58;
  a.add(sample::device(0, "described at time 0"));
  for (int i = 0; i < 5000; ++i) {
    event k = kernel(10 * i, 10 * i + 5, 0, 0);
    k.call_name = text{};
    k.start_ns += far;
    k.end_ns += far;
    k.device = static_cast<std::uint32_t>(i);
    a.add(k);
  }
  const trace_results r = a.finish();
  CHECK(a.log().window() == interval{far, far + 49995 * us});
  CHECK(r.time.everything.recorded_ns == 49995 * us);
  CHECK(r.time.everything.gpu_busy_ns() == 25000 * us);
  REQUIRE(r.devices.size() == trace_log::device_limit + 1);
  CHECK(r.devices.back().device == trace_log::other_devices);
  CHECK(r.devices.back().busy_ns == static_cast<std::int64_t>(5000 - trace_log::device_limit) * 5 * us);
}

TEST_CASE("analysis.idle: work of a file whose calls have no correlation ids takes linear time to join") {
  const auto seconds = [](std::int64_t n) {
    trace_log log;
    for (std::int64_t i = 0; i < n; ++i) {
      log.add(call("cuLaunchKernel", 10 * i, 10 * i + 1));
      event k = kernel(10 * i + 2, 10 * i + 4, 10 * i, static_cast<std::uint64_t>(i) + 1);
      k.call_name = text{};
      log.add(k);
    }
    const std::clock_t begun = std::clock();
    log.seal();
    return static_cast<double>(std::clock() - begun) / CLOCKS_PER_SEC;
  };
  const double few = seconds(4000);
  CHECK(seconds(40000) <= 20 * few + 0.1);
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

TEST_CASE("analysis.idle: a call without length is nested in one that it lies within, and in none beside it") {
  call_depth depth;
  for (const auto& [start, end] : {std::pair(10, 10), std::pair(12, 12), std::pair(14, 16), std::pair(20, 20),
                                   std::pair(20, 20), std::pair(10, 20), std::pair(20, 30)})
    depth.add(call("cuCtxGetCurrent", start, end));
  const depth_report r = depth.result();
  CHECK(r[0].calls == 5);
  CHECK(r[1].calls == 2);
  CHECK(r[2].calls == 0);
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
    const memory_report r = use.result(trace_log());
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

TEST_CASE("analysis.idle: memory whose record states no stage, as in Perfetto files, is that of the call's stage") {
  for (const bool of_call : {false, true}) {
    trace_analysis a;
    argument address = sample::argument_of("dptr", argument_kind::output, 4096);
    if (!of_call) a.add(sample::memory(memory_operation::allocate, 4096, 100, 15 * us, 1));
    a.add(sample::api("cuMemAlloc_v2", 10 * us, 20 * us, 1, &address, 1, 100));
    a.add(sample::stage("load", 5 * us, 50 * us, 1));
    const memory_report m = a.finish().memory;
    CHECK(m.from_records == !of_call);
    REQUIRE(m.stages.size() == 1);
    CHECK(m.stages[0].stage == "load");
    CHECK(m.stages[0].live_bytes == 100);
  }
}

TEST_CASE(
    "analysis.idle: memory whose record names neither stage nor thread, as CUPTI's, is that of the stage of its call") {
  trace_analysis a;
  argument address = sample::argument_of("dptr", argument_kind::output, 4096);
  std::uint64_t correlation = 0;
  for (const char* function : {"cuMemAlloc_v2", "cuMemAllocAsync", "cuMemAllocManaged", "cuGraphLaunch"}) {
    const std::int64_t at = static_cast<std::int64_t>(++correlation) * 10 * us;
    event record = sample::memory(memory_operation::allocate, 4096 * correlation, 100, at + us, correlation);
    record.thread_id = 0;
    a.add(record);
    event call = sample::api(function, at, at + 2 * us, correlation | std::uint64_t{3} << 32, &address, 1, 100);
    a.add(sample::in_stage(call, correlation == 2 ? "prefill" : "decode", correlation));
  }
  const memory_report m = a.finish().memory;
  REQUIRE(m.stages.size() == 3);
  CHECK(m.stages[0].stage == "decode");
  CHECK(m.stages[0].allocations == 2);
  for (const memory_owner& o : m.stages) CHECK(o.allocations == (o.stage == "decode" ? 2u : 1u));
}

TEST_CASE(
    "analysis.idle: of memory that calls allocate, which name no GPU, it is known on which it is where there is one") {
  const auto room = [](std::initializer_list<std::uint32_t> devices) {
    trace_analysis a;
    argument address = sample::argument_of("dptr", argument_kind::output, 4096);
    const std::uint64_t all_but_a_half = 150119448576u - (std::uint64_t{1} << 29);
    a.add(sample::api("cuMemAlloc_v2", 0, us, 1, &address, 1, all_but_a_half));
    for (const std::uint32_t device : devices) a.add(sample::device(device, "NVIDIA H200"));
    for (const std::uint32_t device : devices)
      for (std::int64_t at = 10 * us; at < 3000 * us; at += 1000 * us)
        a.add(sample::kernel("k", at, at + 10 * us, 0, 7, device));
    return a.finish().multiplex;
  };
  for (const std::uint32_t device : {0u, 3u}) {
    const std::vector<multiplex_report> alone = room({device});
    REQUIRE(alone.size() == 1);
    CHECK(alone[0].memory_known);
    CHECK(alone[0].windows == 0);
  }
  // Without the address of what was allocated nothing is known of it.
  trace_analysis without;
  without.add(sample::device(0, "NVIDIA H200"));
  without.add(sample::api("cuMemAlloc_v2", 0, us, 1));
  without.add(sample::kernel("k", 10 * us, 20 * us, 0));
  without.add(sample::kernel("k", 1000 * us, 1010 * us, 0));
  CHECK(!without.finish().multiplex.at(0).memory_known);
  const std::vector<multiplex_report> two = room({0, 1});
  REQUIRE(two.size() == 2);
  for (const multiplex_report& m : two) {
    CHECK(!m.memory_known);
    CHECK(m.windows == 2);
  }
}

}  // namespace analysis_idle_test
