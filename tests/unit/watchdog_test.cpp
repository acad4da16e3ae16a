// SPDX-License-Identifier: Apache-2.0
// The watchdog's bounds of stages and requests: for how long a stage may be open. Its alarms of GPU work are tested
// with whole programs (integration.stuck_programs).
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cutrace/cutrace.hpp>
#include <cutrace/run/settings.hpp>
#include <cutrace/sinks/memory.hpp>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace watchdog_test {

using namespace std::chrono_literals;
using cutrace::event;
using cutrace::event_kind;
using settings = cutrace::detail::watchdog_settings;

namespace {

struct alarms {
  std::mutex mutex;
  std::vector<std::string> texts;

  static void take(const char* text, void* self) {
    auto& a = *static_cast<alarms*>(self);
    const std::lock_guard<std::mutex> hold(a.mutex);
    a.texts.emplace_back(text);
  }
  std::size_t count() {
    const std::lock_guard<std::mutex> hold(mutex);
    return texts.size();
  }
  bool comes(std::size_t n) {
    for (int i = 0; i < 500 && count() < n; ++i) std::this_thread::sleep_for(10ms);
    return count() >= n;
  }
};

cutrace::session_options watched_by(alarms& a, const char* bounds) {
  cutrace::session_options o;
  o.backend = "none";
  o.sinks = "null";
  o.watchdog = bounds;
  o.on_alarm = alarms::take;
  o.on_alarm_user = &a;
  return o;
}

bool has(const std::string& text, const char* words) { return text.find(words) != std::string::npos; }

std::vector<event> alarms_in(const cutrace::memory_sink& sink) {
  std::vector<event> all;
  for (const event& e : sink.events())
    if (e.kind == event_kind::alarm) all.push_back(e);
  return all;
}
bool come_in(const cutrace::memory_sink& sink, cutrace::session& trace, std::size_t n) {
  for (int i = 0; i < 500 && alarms_in(sink).size() < n; ++i) {
    std::this_thread::sleep_for(10ms);
    trace.flush();
  }
  return alarms_in(sink).size() >= n;
}

}  // namespace

TEST_CASE("what the watchdog is asked for") {
  settings s;
  REQUIRE(settings::parse("10s", s));
  CHECK(s.bound_ms == 10000);
  CHECK(s.except.empty());
  REQUIRE(settings::parse("500ms,except=spin*,stage=a::b:2s,request=*:30s,except=poll,stage=decode:100ms", s));
  CHECK(s.bound_ms == 500);
  CHECK(s.except == std::vector<std::string>{"spin*", "poll"});
  REQUIRE(s.stages.size() == 2);
  CHECK(s.stages[0].name == "a::b");
  CHECK(s.stages[0].bound_ms == 2000);
  CHECK(s.stages[1].name == "decode");
  CHECK(s.stages[1].bound_ms == 100);
  REQUIRE(s.requests.size() == 1);
  CHECK(s.requests[0].name == "*");
  CHECK(s.requests[0].bound_ms == 30000);
  for (const char* wrong : {"", "10", "99ms", "10s,", "10s,except", "10s,except=", "10s,stage=decode", "10s,stage=:2s",
                            "10s,stage=decode:", "10s,stage=decode:99ms", "10s,request=7", "10s,kernel=x", "10s,stage",
                            "stage=decode:2s"}) {
    CAPTURE(wrong);
    settings t;
    t.bound_ms = 7;
    CHECK_FALSE(settings::parse(wrong, t));
    CHECK(t.bound_ms == 7);
  }
}

TEST_CASE("the handler of alarms may end the program: by then the sinks have the alarm") {
  struct ending {
    cutrace::memory_sink sink;
    std::size_t in_sink = 0;
    std::atomic<bool> called{false};
  } e;
  cutrace::session_options o;
  o.backend = "none";
  o.sinks = "null";
  o.watchdog = "60s,stage=slow:200ms";
  o.on_alarm = [](const char*, void* to) {
    ending& at = *static_cast<ending*>(to);
    at.in_sink = alarms_in(at.sink).size();
    at.called = true;
  };
  o.on_alarm_user = &e;
  cutrace::session trace(o);
  trace.add_sink(e.sink);
  {
    CUTRACE_STAGE("slow");
    for (int i = 0; i < 500 && !e.called; ++i) std::this_thread::sleep_for(10ms);
  }
  REQUIRE(e.called);
  CHECK(e.in_sink == 1);
  trace.stop();
}

TEST_CASE("a stage that is open for longer than its bound is reported once, others are not") {
  alarms a;
  cutrace::memory_sink sink;
  std::chrono::steady_clock::time_point first;
  {
    cutrace::session trace(watched_by(a, "60s,stage=slow*:200ms"));
    trace.add_sink(sink);
    {
      CUTRACE_STAGE("outer");
      CUTRACE_STAGE("slow one", 7);
      CUTRACE_STAGE("inner");
      REQUIRE(a.comes(1));
      first = std::chrono::steady_clock::now();
      std::this_thread::sleep_for(400ms);
    }
    CHECK(a.count() == 1);
    {
      CUTRACE_STAGE("slow two");  // gets an alarm too, although "slow one" was reported
      REQUIRE(come_in(sink, trace, 2));
    }
    CHECK(a.count() == 1);  // only the trace has it: on_alarm is called for stages every 5 s at most
    std::this_thread::sleep_until(first + 5s);
    CUTRACE_STAGE("slow three");
    REQUIRE(a.comes(2));
  }
  CHECK(a.count() == 2);
  CHECK(has(a.texts[1], "hang: stages have not ended: 2\n"));
  const std::string& text = a.texts[0];
  CAPTURE(text);
  CHECK(has(text, "hang: stages have not ended: 1\n"));
  CHECK(has(text, "  stage slow one\n     open on thread "));
  CHECK(has(text, "stage \"slow one\" in \"outer\", request 7\n"));
  CHECK(has(text, "this stage may be open for 200.0 ms\n"));
  CHECK_FALSE(has(text, "stage outer"));
  const std::vector<event> in = alarms_in(sink);
  REQUIRE(in.size() == 3);
  CHECK(std::string(in[0].name.data) == "slow one");
  CHECK(std::string(in[0].alarm.what.data) == "hang");
  CHECK(std::string(in[0].alarm.work.data) == "stage");
  CHECK(in[0].alarm.unfinished_ns >= 200000000);
  CHECK(in[0].thread_id == static_cast<std::uint32_t>(gettid()));
  REQUIRE(in[0].request_count == 1);
  CHECK(in[0].requests[0].id == 7);
}

TEST_CASE("a bound of a request holds for each stage that serves it, by number or by text; the shorter bound counts") {
  alarms a;
  {
    const cutrace::session trace(watched_by(a, "60s,stage=both:60s,request=chat*:200ms,request=8:300ms"));
    {
      CUTRACE_STAGE("both", "chat-1");
      REQUIRE(a.comes(1));
    }
    {
      CUTRACE_STAGE("other", "batch-1");
      std::this_thread::sleep_for(500ms);
    }
    CHECK(a.count() == 1);
  }
  CHECK(has(a.texts[0], "a stage of request chat-1 may be open for 200.0 ms\n"));
  alarms b;
  {
    const cutrace::session trace(watched_by(b, "60s,stage=decode:60s,request=8:300ms"));
    const std::uint64_t ids[] = {6, 8};
    CUTRACE_STAGE_BATCH("decode", ids, 2);
    REQUIRE(b.comes(1));
  }
  CHECK(has(b.texts[0], "a stage of request 8 may be open for 300.0 ms\n"));
}

TEST_CASE("names write no lines and steer no terminal in the block that the handler gets") {
  alarms a;
  {
    const cutrace::session trace(watched_by(a, "60s,stage=*:200ms"));
    CUTRACE_STAGE("decode", "chat\n  forged\x1b[2J\x7f");
    REQUIRE(a.comes(1));
  }
  CAPTURE(a.texts[0]);
  CHECK(has(a.texts[0], "stage \"decode\", request chat?  forged?[2J?\n"));
}

TEST_CASE("an alarm after the end of the session that asked for it is in the trace, and its handler is not called") {
  alarms a;
  auto first = std::make_unique<cutrace::session>(watched_by(a, "60s,stage=slow:200ms"));
  cutrace::session_options o;
  o.backend = "none";
  o.sinks = "null";
  cutrace::session second(o);
  cutrace::memory_sink& sink = second.emplace_sink<cutrace::memory_sink>();
  first.reset();
  {
    CUTRACE_STAGE("slow");
    REQUIRE(come_in(sink, second, 1));
  }
  CHECK(alarms_in(sink).size() == 1);
  CHECK(a.count() == 0);
}

TEST_CASE("a span that ends while the session is paused is no alarm, whichever thread ends it") {
  bool in_time = false;  // a busy machine may hold this thread up until they are open for too long
  for (int round = 0; round < 50 && !in_time; ++round) {
    alarms a;
    {
      cutrace::session trace(watched_by(a, "60s,stage=queue:300ms"));
      const auto begin = std::chrono::steady_clock::now();
      cutrace::span here = CUTRACE_SPAN("queue", 1), there = CUTRACE_SPAN("queue", 2);
      std::this_thread::sleep_for(50ms);
      trace.pause();
      here.end();
      std::thread([&there] { there.end(); }).join();
      in_time = std::chrono::steady_clock::now() - begin < 300ms;
      trace.resume();
      std::this_thread::sleep_for(1s);
    }
    if (in_time) CHECK(a.count() == 0);
  }
  if (!in_time) MESSAGE("skipped: this machine is too busy, or too slow");
}

TEST_CASE("stages that end in time are no alarm, however many there are") {
  alarms a;
  auto longest = 0ns;
  {
    const cutrace::session trace(watched_by(a, "60s,stage=*:1s"));
    for (int i = 0; i < 20000; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      {
        CUTRACE_STAGE("quick");
        if (i % 40 == 0) std::this_thread::sleep_for(5ms);
      }
      longest = std::max<std::chrono::nanoseconds>(longest, std::chrono::steady_clock::now() - begin);
    }
  }
  if (longest < 1s) CHECK(a.count() == 0);  // a busy machine may hold this thread up for longer
}

}  // namespace watchdog_test
