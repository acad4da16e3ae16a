// SPDX-License-Identifier: Apache-2.0
// Sessions, markers and the way of an event from a marker to the sinks, on this process's real runtime.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cutrace/analysis/breakdown.hpp>
#include <cutrace/cutrace.hpp>
#include <cutrace/sinks/memory.hpp>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <vector>

namespace session_test {

using cutrace::event;
using cutrace::event_kind;

namespace {

cutrace::session_options quiet() {
  cutrace::session_options o;
  o.backend = "none";
  o.sinks = "";
  return o;
}

std::vector<event> of_kind(const std::vector<event>& all, event_kind kind) {
  std::vector<event> some;
  for (const event& e : all)
    if (e.kind == kind) some.push_back(e);
  return some;
}
const event& named(const std::vector<event>& all, const std::string& name) {
  for (const event& e : all)
    if (name == e.name.data && e.kind != event_kind::thread && e.kind != event_kind::process) return e;
  REQUIRE_MESSAGE(false, "no event named " << name);
  return all.front();
}
void check_identity(const cutrace::stats& s) {
  CHECK(s.produced == s.delivered + s.lost_total());
  CHECK(s.pending == 0);
  for (std::uint32_t i = 0; i < s.sink_count; ++i) CHECK(s.sinks[i].delivered == s.sinks[i].written + s.sinks[i].lost);
}

void function_scope() { CUTRACE_FUNCTION(); }

struct failing_sink : cutrace::sink {
  int writes = 0;
  bool closed = false;
  void write(cutrace::event_view) override {
    if (++writes == 2) throw cutrace::error("the disk is full");
  }
  void close(const cutrace::trace_summary&) override { closed = true; }
};

}  // namespace

TEST_CASE("nested stages: names, depth, parents, times inside each other") {
  cutrace::session trace(quiet());
  cutrace::memory_sink& sink = trace.emplace_sink<cutrace::memory_sink>();
  {
    CUTRACE_STAGE("outer");
    {
      CUTRACE_STAGE("inner");
      CUTRACE_STAGE("second of its block");
    }
    function_scope();
  }
  trace.stop();
  const std::vector<event> all = sink.events();
  const event outer = named(all, "outer"), inner = named(all, "inner"), twice = named(all, "second of its block");
  CHECK(outer.depth == 0);
  CHECK(inner.depth == 1);
  CHECK(twice.depth == 2);
  CHECK(outer.stage.parent == 0);
  CHECK(inner.stage.parent == outer.stage_id);
  CHECK(twice.stage.parent == inner.stage_id);
  CHECK(outer.start_ns <= inner.start_ns);
  CHECK(inner.start_ns <= twice.start_ns);
  CHECK(twice.end_ns <= inner.end_ns);
  CHECK(inner.end_ns <= outer.end_ns);
  CHECK(named(all, "function_scope").stage.parent == outer.stage_id);
  CHECK(std::string(outer.stage.file.data).find("session_test.cpp") != std::string::npos);
  CHECK(outer.thread_id != 0);
  check_identity(trace.stats());
}

TEST_CASE("requests: numbers, texts, batches; inherited by what is nested") {
  cutrace::session trace(quiet());
  cutrace::memory_sink& sink = trace.emplace_sink<cutrace::memory_sink>();
  std::uint64_t ids[20];
  for (std::uint64_t i = 0; i < 20; ++i) ids[i] = 100 + i;
  {
    CUTRACE_STAGE("numbered", 42);
    CUTRACE_STAGE("within numbered");
    CUTRACE_MARK("mark within");
    CUTRACE_MARK("mark of its own", 43);
  }
  {
    std::string text = "request-abc";
    CUTRACE_STAGE("texted", text);
    text = "changed meanwhile";
    CUTRACE_STAGE("within texted");
    CUTRACE_MARK("mark with text", "other");
  }
  {
    CUTRACE_STAGE_BATCH("batched", ids, 20);
    ids[0] = 7;  // the ids were copied
    CUTRACE_STAGE("within batched");
  }
  trace.stop();
  const std::vector<event> all = sink.events();
  for (const char* name : {"numbered", "within numbered", "mark within"}) {
    const event e = named(all, name);
    REQUIRE(e.request_count == 1);
    CHECK(e.requests[0].id == 42);
  }
  CHECK(named(all, "mark of its own").requests[0].id == 43);
  for (const char* name : {"texted", "within texted"}) {
    const event e = named(all, name);
    REQUIRE(e.request_count == 1);
    CHECK(std::string(e.requests[0].name.data) == "request-abc");
  }
  CHECK(std::string(named(all, "mark with text").requests[0].name.data) == "other");
  for (const char* name : {"batched", "within batched"}) {
    const event e = named(all, name);
    REQUIRE(e.request_count == 20);
    CHECK(e.request_total == 20);
    for (std::uint32_t i = 0; i < 20; ++i) CHECK(e.requests[i].id == 100 + i);
  }
  check_identity(trace.stats());
}

TEST_CASE("a run-time name is text of char, by its conversion where c_str() gives something else") {
  using name = cutrace::scoped_stage::dynamic;
  struct both {
    operator const char*() const noexcept { return "narrow"; }
    const wchar_t* c_str() const noexcept { return L"wide"; }
  };
  CHECK(std::string(name(both{}).name) == "narrow");
  CHECK(std::is_constructible<name, const std::string&>::value);
  CHECK_FALSE(std::is_constructible<name, const std::wstring&>::value);
}

TEST_CASE("run-time names and texts of any length and content") {
  cutrace::session trace(quiet());
  cutrace::memory_sink& sink = trace.emplace_sink<cutrace::memory_sink>();
  const std::string long_name(10240, 'n');
  const std::string hostile = "quote\" back\\slash \n \x01 \xff";
  {
    CUTRACE_STAGE_DYNAMIC(long_name.c_str(), std::string(5000, 'r'));
    CUTRACE_STAGE_DYNAMIC(hostile, hostile);
    CUTRACE_STAGE_DYNAMIC("", "");
    CUTRACE_STAGE_DYNAMIC(static_cast<const char*>(nullptr));
  }
  trace.stop();
  const std::vector<event> stages = of_kind(sink.events(), event_kind::stage);
  REQUIRE(stages.size() == 4);
  const auto cut = std::find_if(stages.begin(), stages.end(), [](const event& e) { return e.name.size > 100; });
  REQUIRE(cut != stages.end());
  CHECK(std::string(cut->name.data) == long_name.substr(0, 480));
  CHECK(cut->requests[0].name.size == 480);
  const event odd = named(stages, hostile);
  CHECK(std::string(odd.requests[0].name.data) == hostile);
}

TEST_CASE("an empty text names no request, as a null pointer does") {
  cutrace::session trace(quiet());
  cutrace::memory_sink& sink = trace.emplace_sink<cutrace::memory_sink>();
  {
    CUTRACE_STAGE("nobody's", "");
    CUTRACE_STAGE("around", 5);
    CUTRACE_STAGE("inside", std::string());
    CUTRACE_MARK("mark inside", static_cast<const char*>(nullptr));
    CUTRACE_MARK("mark with empty text", std::string_view());
  }
  trace.stop();
  const std::vector<event> all = sink.events();
  CHECK(named(all, "nobody's").request_count == 0);
  for (const char* name : {"inside", "mark inside", "mark with empty text"}) {
    const event e = named(all, name);
    REQUIRE(e.request_count == 1);
    CHECK(e.requests[0].id == 5);
  }
}

TEST_CASE("a huge batch keeps its count, and as many ids as fit") {
  cutrace::session trace(quiet());
  cutrace::memory_sink& sink = trace.emplace_sink<cutrace::memory_sink>();
  std::vector<std::uint64_t> ids(5000);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = i;
  { CUTRACE_STAGE_BATCH("big", ids.data(), ids.size()); }
  { CUTRACE_STAGE_BATCH("empty", ids.data(), 0); }
  trace.stop();
  const std::vector<event> all = sink.events();
  const event big = named(all, "big");
  CHECK(big.request_total == 5000);
  REQUIRE(big.request_count == 1600);
  CHECK(big.requests[1599].id == 1599);
  CHECK(named(all, "empty").request_count == 0);
  check_identity(trace.stats());
}

TEST_CASE("a stage that is announced while it runs announces those around it first") {
  cutrace::session trace(quiet());
  trace.emplace_sink<cutrace::memory_sink>();
  const std::uint64_t ids[] = {6, 8};
  const auto outer_is_known = [] {
    const cutrace::detail::thread_state* t = cutrace::detail::this_thread();
    const cutrace::detail::stage_frame* outer = t->top;
    while (outer->outer != nullptr) outer = outer->outer;
    return outer->announced_in(t->trace_number.load());
  };
  {
    CUTRACE_STAGE("outer");
    CUTRACE_STAGE("middle", 7);
    CHECK_FALSE(outer_is_known());
    CUTRACE_STAGE("with text", "chat");
    CHECK(outer_is_known());
  }
  {
    CUTRACE_STAGE("outer");
    CUTRACE_STAGE_BATCH("batch", ids, 2);
    CHECK(outer_is_known());
  }
  {
    CUTRACE_STAGE("outer");
    CUTRACE_STAGE_DYNAMIC("of run time");
    CHECK(outer_is_known());
  }
  CUTRACE_STAGE("outer");
  cutrace::span s = CUTRACE_SPAN("span", 7);
  CHECK_FALSE(outer_is_known());
  CHECK(cutrace::context::of(s));
  CHECK(outer_is_known());
}

TEST_CASE("a stage handed to another thread keeps its identity there") {
  cutrace::session trace(quiet());
  cutrace::memory_sink& sink = trace.emplace_sink<cutrace::memory_sink>();
  cutrace::context handed;
  {
    CUTRACE_STAGE("queued", 9);
    handed = cutrace::context::capture();
  }
  std::thread([&] {
    cutrace::adopted_stage adopted(handed);
    CUTRACE_STAGE("done elsewhere");
  }).join();
  CHECK_FALSE(cutrace::context::capture());
  trace.stop();
  const std::vector<event> all = sink.events();
  std::vector<event> queued;
  for (const event& e : all)
    if (std::string(e.name.data) == "queued") queued.push_back(e);
  REQUIRE(queued.size() == 2);
  CHECK(queued[0].stage_id == queued[1].stage_id);
  CHECK(queued[0].stage.adopted != queued[1].stage.adopted);
  CHECK(queued[0].thread_id != queued[1].thread_id);
  const event elsewhere = named(all, "done elsewhere");
  CHECK(elsewhere.stage.parent == queued[0].stage_id);
  REQUIRE(elsewhere.request_count == 1);
  CHECK(elsewhere.requests[0].id == 9);
}

TEST_CASE("a span moves, and ends on another thread") {
  cutrace::session trace(quiet());
  cutrace::memory_sink& sink = trace.emplace_sink<cutrace::memory_sink>();
  cutrace::span waiting = CUTRACE_SPAN("waiting", 5);
  CHECK(waiting);
  std::thread([s = std::move(waiting)]() mutable {
    s.end();
    s.end();
  }).join();
  CHECK_FALSE(waiting);
  {
    cutrace::span dropped = CUTRACE_SPAN("ends with its scope");
    CUTRACE_STAGE("not inside a span");
  }
  trace.stop();
  const std::vector<event> all = sink.events();
  CHECK(of_kind(all, event_kind::stage).size() == 3);
  CHECK(named(all, "waiting").stage.span);
  CHECK(named(all, "waiting").requests[0].id == 5);
  CHECK(named(all, "not inside a span").stage.parent == 0);
}

TEST_CASE("counters add up over threads and sites, gauges keep the last value") {
  cutrace::session trace(quiet());
  cutrace::memory_sink& sink = trace.emplace_sink<cutrace::memory_sink>();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([] {
      for (int i = 0; i < 1000; ++i) CUTRACE_COUNT("counted in session_test", 2);
    });
  for (std::thread& t : threads) t.join();
  CUTRACE_COUNT("counted in session_test", 1);
  CUTRACE_GAUGE("gauged in session_test", 17);
  CUTRACE_GAUGE("gauged in session_test", -3);
  trace.stop();
  std::int64_t last = 0, sum = 0, gauge = 0;
  for (const event& e : of_kind(sink.events(), event_kind::counter)) {
    if (std::string(e.name.data) == "counted in session_test") last = e.counter.value, sum += e.counter.change;
    if (std::string(e.name.data) == "gauged in session_test") gauge = e.counter.value;
  }
  CHECK(last == 8001);
  CHECK(sum == 8001);
  CHECK(gauge == -3);
}

TEST_CASE("paused, nothing is recorded; a stage that is open meanwhile still ends well") {
  cutrace::session trace(quiet());
  cutrace::memory_sink& sink = trace.emplace_sink<cutrace::memory_sink>();
  {
    CUTRACE_STAGE("open while paused");
    trace.pause();
    CUTRACE_STAGE("unseen");
    trace.resume();
  }
  { CUTRACE_STAGE("seen again"); }
  trace.stop();
  const std::vector<event> all = of_kind(sink.events(), event_kind::stage);
  CHECK(all.size() == 2);
  named(all, "open while paused");
  named(all, "seen again");
  check_identity(trace.stats());
}

TEST_CASE("a span that ends while paused is recorded to its end, also on a thread without a marker before") {
  cutrace::session trace(quiet());
  cutrace::memory_sink& sink = trace.emplace_sink<cutrace::memory_sink>();
  cutrace::span here = CUTRACE_SPAN("ended here", 1), there = CUTRACE_SPAN("ended there", 2);
  trace.pause();
  here.end();
  std::thread([&there] { there.end(); }).join();
  cutrace::span unseen = CUTRACE_SPAN("unseen");
  unseen.end();
  trace.resume();
  trace.stop();
  const std::vector<event> all = of_kind(sink.events(), event_kind::stage);
  CHECK(all.size() == 2);
  named(all, "ended here");
  named(all, "ended there");
  check_identity(trace.stats());
}

TEST_CASE("a trace in windows without any window is unknown, not idle") {
  std::string reported;
  cutrace::session_options o = quiet();
  o.sample = "requests";
  o.on_error = [](const char*, const char* line, void* to) { static_cast<std::string*>(to)->append(line); };
  o.on_error_user = &reported;
  cutrace::session trace(o);
  cutrace::memory_sink& sink = trace.emplace_sink<cutrace::memory_sink>();
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  { CUTRACE_STAGE("between windows"); }
  trace.stop();
  const std::vector<event> all = sink.events();
  REQUIRE(of_kind(all, event_kind::window).size() == 1);
  CHECK(of_kind(all, event_kind::stage).empty());
  CHECK(reported.find("before a window was opened") != std::string::npos);
  cutrace::analysis::breakdown time;
  for (const event& e : all) time.add(e);
  const cutrace::analysis::breakdown_table table = time.everything(0);
  CHECK(table.window.length_ns() >= 5000000);
  CHECK(table.recorded_ns == 0);
  CHECK(table.pieces == 1);
}

TEST_CASE("a sink that throws gets nothing more and is counted, the others go on") {
  std::string reported;
  cutrace::session_options o = quiet();
  o.on_error = [](const char*, const char* message, void* user) { static_cast<std::string*>(user)->append(message); };
  o.on_error_user = &reported;
  cutrace::session trace(o);
  failing_sink& bad = trace.emplace_sink<failing_sink>();
  cutrace::memory_sink& good = trace.emplace_sink<cutrace::memory_sink>();
  for (int i = 0; i < 5; ++i) {
    { CUTRACE_STAGE("step"); }
    CHECK(trace.flush());
  }
  trace.stop();
  CHECK(of_kind(good.events(), event_kind::stage).size() == 5);
  CHECK(bad.writes == 2);
  CHECK_FALSE(bad.closed);
  CHECK(reported.find("the disk is full") != std::string::npos);
  const cutrace::stats s = trace.stats();
  check_identity(s);
  REQUIRE(s.sink_count == 2);
  bool found = false;
  for (std::uint32_t i = 0; i < s.sink_count; ++i) {
    if (!s.sinks[i].failed) continue;
    found = true;
    CHECK(s.sinks[i].lost > 0);
    CHECK(std::string(s.sinks[i].failure) == "the disk is full");
  }
  CHECK(found);
}

TEST_CASE("a sink that joins late receives what was described before") {
  cutrace::session trace(quiet());
  { CUTRACE_STAGE("before"); }
  CHECK(trace.flush());
  cutrace::memory_sink& late = trace.emplace_sink<cutrace::memory_sink>();
  { CUTRACE_STAGE("after"); }
  trace.stop();
  const std::vector<event> all = late.events();
  CHECK(of_kind(all, event_kind::process).size() == 1);
  CHECK(!of_kind(all, event_kind::thread).empty());
  CHECK(of_kind(all, event_kind::stage).size() == 1);
}

TEST_CASE("a second session joins the first; each one's sinks close with it") {
  cutrace::session first(quiet());
  cutrace::memory_sink& a = first.emplace_sink<cutrace::memory_sink>();
  { CUTRACE_STAGE("one"); }
  {
    cutrace::session_options o = quiet();
    cutrace::session second(o);
    cutrace::memory_sink b;
    second.add_sink(b);
    { CUTRACE_STAGE("two"); }
    second.stop();
    CHECK(b.closed());
    CHECK_FALSE(a.closed());
    CHECK(of_kind(b.events(), event_kind::stage).size() >= 1);
  }
  { CUTRACE_STAGE("three"); }
  first.stop();
  CHECK(a.closed());
  CHECK(of_kind(a.events(), event_kind::stage).size() == 3);
}

TEST_CASE("sessions may follow each other; what lies between belongs to none") {
  for (int round = 0; round < 3; ++round) {
    { CUTRACE_STAGE("between"); }
    cutrace::session trace(quiet());
    cutrace::memory_sink& sink = trace.emplace_sink<cutrace::memory_sink>();
    { CUTRACE_STAGE("inside"); }
    trace.stop();
    trace.stop();
    const std::vector<event> stages = of_kind(sink.events(), event_kind::stage);
    REQUIRE(stages.size() == 1);
    CHECK(std::string(stages[0].name.data) == "inside");
    check_identity(trace.stats());
  }
}

TEST_CASE("options that cannot be used name themselves and what they accept") {
  const auto message = [](cutrace::session_options o) {
    try {
      cutrace::session trace(o);
    } catch (const cutrace::config_error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  cutrace::session_options o = quiet();
  o.backend = "magic";
  CHECK(message(o).find("session_options::backend") != std::string::npos);
  CHECK(message(o).find("none") != std::string::npos);
  o = quiet();
  o.sinks = "jsonl:/nonexistent-folder/t.jsonl";
  CHECK(message(o).find("/nonexistent-folder/t.jsonl") != std::string::npos);
  o = quiet();
  o.sinks = "papyrus";
  CHECK(message(o).find("papyrus") != std::string::npos);
  CHECK(message(o).find("jsonl") != std::string::npos);
  o = quiet();
  o.memory_limit_bytes = 5;
  CHECK(message(o).find("memory_limit_bytes") != std::string::npos);
  o = quiet();
  o.window_ms = ~0u;  // 49 days
  CHECK(message(o).find("session_options::window_ms") != std::string::npos);
  CHECK(message(o).find("from 1 to 60000") != std::string::npos);
  o = quiet();
  o.flush_period_ms = 60001;
  CHECK(message(o).find("session_options::flush_period_ms") != std::string::npos);
  for (const std::uint32_t deadline : {0u, ~0u}) {  // no sink could be that quick
    o = quiet();
    o.sink_deadline_ms = deadline;
    CHECK(message(o).find("session_options::sink_deadline_ms") != std::string::npos);
  }
  cutrace::session fine(quiet());  // a refused session leaves nothing behind
}

TEST_CASE("a session that leaves the command line out hands none to its sinks") {
  struct called_by : cutrace::sink {
    std::string line;
    void open(const cutrace::trace_info& info) override { line = info.command_line; }
    void write(cutrace::event_view) override {}
  };
  for (const bool omit : {false, true}) {
    cutrace::session_options options = quiet();
    options.omit_command_line = omit;
    cutrace::session trace(options);
    CHECK(trace.emplace_sink<called_by>().line.empty() == omit);
  }
}

TEST_CASE("threads come and go: their states and chunks are used again") {
  cutrace::session trace(quiet());
  cutrace::memory_sink& sink = trace.emplace_sink<cutrace::memory_sink>();
  std::uint64_t after_warm_up = 0;
  for (int i = 0; i < 400; ++i) {
    std::thread([] { CUTRACE_STAGE("short life"); }).join();
    if (i == 200) after_warm_up = (trace.flush(), trace.stats().memory_bytes);
    if (i % 20 == 0) trace.flush();
  }
  trace.stop();
  CHECK(of_kind(sink.events(), event_kind::stage).size() == 400);
  const cutrace::stats s = trace.stats();
  CHECK(s.lost_total() == 0);
  CHECK(s.memory_bytes < after_warm_up + (1u << 20));
}

}  // namespace session_test
