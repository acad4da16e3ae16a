// SPDX-License-Identifier: Apache-2.0
// What happens at the edges of a session: GPU work around a pause, stages that outlive a trace, and code of the program
// that the runtime calls and that calls the session back.
#include <doctest/doctest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cutrace/backend.hpp>
#include <cutrace/collect/sink_set.hpp>
#include <cutrace/cutrace.hpp>
#include <cutrace/run/backend_registry.hpp>
#include <cutrace/run/session_call.hpp>
#include <cutrace/sinks/memory.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "support/temporary_folder.hpp"

namespace session_edges_test {

using cutrace::event;
using cutrace::event_kind;

namespace {

/// A backend whose calls and GPU work the test reports by hand.
struct emitting_backend : cutrace::backend {
  cutrace::event_writer* writer = nullptr;
  std::uint32_t correlation = 1000;

  const char* name() const noexcept override { return "described"; }
  cutrace::backend_status start(cutrace::event_writer& w) override {
    writer = &w;
    w.name_function(7, false, {"cuTold", nullptr, 0, cutrace::copy_direction::unknown, -1, true});
    return {true, "described by the test"};
  }
  bool flush(std::uint32_t) noexcept override { return true; }
  bool stop(std::uint32_t) noexcept override { return true; }

  cutrace::api_call begin() {
    cutrace::api_call c{};
    c.function = 7;
    c.correlation = ++correlation;
    c.begin_ticks = writer->ticks();
    c.stage = writer->enter(c.function, c.correlation, c.begin_ticks, true);
    return c;
  }
  void end(cutrace::api_call& c) {
    c.end_ticks = writer->ticks();
    if (c.stage != cutrace::api_call::not_recorded) writer->exit(c);
  }
  void kernel_of(const cutrace::api_call& c, const char* kernel_name) {
    cutrace::gpu_work w{};
    w.kind = event_kind::kernel;
    w.name = kernel_name;
    w.times_are_ticks = true;
    w.begin = writer->ticks();
    w.end = writer->ticks();
    w.correlation = c.correlation;
    writer->gpu(w);
  }
  void launch(const char* kernel_name) {
    cutrace::api_call c = begin();
    end(c);
    kernel_of(c, kernel_name);
  }
};

struct traced {
  explicit traced(cutrace::session_options o = quiet()) : trace(o) { trace.add_backend(gpu); }
  static cutrace::session_options quiet() {
    cutrace::session_options o;
    o.backend = "none";
    o.sinks = "null";
    return o;
  }
  std::vector<event> all(event_kind kind) {
    trace.stop();
    std::vector<event> some;
    for (const event& e : sink->events())
      if (e.kind == kind) some.push_back(e);
    return some;
  }
  emitting_backend gpu;
  cutrace::session trace;
  cutrace::memory_sink* sink = &trace.emplace_sink<cutrace::memory_sink>();
};

/// Records of GPU work that ends while the collector is reading, in activity buffers that it reads one after the other.
struct slow_pass {
  emitting_backend& gpu;
  std::atomic<bool> all_wait{false};  ///< whether the buffers that one pass will read have been handed over
  std::int64_t began_ns = 0;
  static constexpr std::int64_t ms = 1000000;

  std::int64_t now() const { return static_cast<std::int64_t>(gpu.writer->raw_ns(gpu.writer->ticks())); }
  void emit(cutrace::event_emitter& to, std::int64_t end_ns, int count) const {
    event e;
    e.kind = event_kind::kernel;
    e.name = {"ends meanwhile", 14};
    e.start_ns = e.end_ns = began_ns + end_ns;
    for (int i = 0; i < count; ++i) to.emit(e);
  }
  void hand_over(void (*decode)(const cutrace::activity_buffer&, cutrace::event_emitter&)) {
    REQUIRE(gpu.writer->submit({nullptr, 0, this, decode, [](const cutrace::activity_buffer&) {}}));
  }
};

std::string text_of(cutrace::text t) { return {t.data, t.size}; }

}  // namespace

TEST_CASE("a call that a pause cuts in two is reported if it began before, and so is its GPU work") {
  traced t;
  cutrace::api_call before = t.gpu.begin();
  t.trace.pause();
  t.gpu.end(before);
  cutrace::api_call within = t.gpu.begin();
  CHECK(within.stage == cutrace::api_call::not_recorded);
  t.trace.resume();
  t.gpu.end(within);
  t.gpu.kernel_of(before, "issued before");
  t.gpu.kernel_of(within, "issued while paused");
  t.gpu.launch("issued after");
  const std::vector<event> calls = t.all(event_kind::api);
  const std::vector<event> kernels = t.all(event_kind::kernel);
  CHECK(calls.size() == 2);
  REQUIRE(kernels.size() == 2);
  CHECK(text_of(kernels[0].name) == "issued before");
  CHECK(text_of(kernels[1].name) == "issued after");
  const cutrace::stats s = t.trace.stats();
  CHECK(s.quality_of[static_cast<std::size_t>(cutrace::quality::unattributed)] == 0);
  CHECK(s.produced == s.delivered + s.lost_total());
}

TEST_CASE("what the program launches while backends stop is no part of the trace") {
  struct : emitting_backend {
    bool stop(std::uint32_t) noexcept override {
      launch("issued while the trace ends");
      return true;
    }
  } gpu;
  cutrace::session trace(traced::quiet());
  cutrace::memory_sink& sink = trace.emplace_sink<cutrace::memory_sink>();
  trace.add_backend(gpu);
  gpu.launch("issued before");
  trace.stop();
  const cutrace::stats s = trace.stats();
  CHECK(s.by_kind[static_cast<std::size_t>(event_kind::api)] == 1);
  CHECK(s.by_kind[static_cast<std::size_t>(event_kind::kernel)] == 1);
  CHECK(s.quality_of[static_cast<std::size_t>(cutrace::quality::unattributed)] == 0);
  for (const event& e : sink.events())
    if (e.kind == event_kind::kernel) CHECK(text_of(e.name) == "issued before");
}

TEST_CASE("a session that leaves while another goes on ends neither its recording nor running work") {
  struct : emitting_backend {
    bool flush_unfinished(std::uint32_t) noexcept override {  // costs the times of that work
      forced = true;
      return true;
    }
    std::atomic<bool> forced{false};
  } gpu;
  cutrace::session first(traced::quiet());
  cutrace::memory_sink& sink = first.emplace_sink<cutrace::memory_sink>();
  first.add_backend(gpu);
  cutrace::api_call c = gpu.begin();
  gpu.end(c);
  cutrace::gpu_work running{};  // as somebody asked before what is unfinished
  running.kind = event_kind::kernel;
  running.name = "running";
  running.correlation = c.correlation;
  gpu.writer->gpu(running);
  REQUIRE(first.flush());
  cutrace::session second(traced::quiet());
  second.emplace_sink<cutrace::memory_sink>();
  second.stop();
  CHECK_FALSE(gpu.forced);
  REQUIRE(first.flush());
  { CUTRACE_STAGE("after"); }
  first.stop();
  std::int64_t work_end_ns = 0, stage_ns = 0;
  for (const event& e : sink.events()) {
    CHECK(e.kind != event_kind::window);  // the time behind it would count as not recorded
    if (e.kind == event_kind::kernel) work_end_ns = e.end_ns;
    if (e.kind == event_kind::stage) stage_ns = e.start_ns;
  }
  CHECK(stage_ns != 0);
  CHECK(work_end_ns > stage_ns);
}

TEST_CASE("a stage that outlives a trace is known to the next one") {
  cutrace::session* first = new cutrace::session(traced::quiet());
  emitting_backend early;
  first->add_backend(early);
  CUTRACE_STAGE("server", 41);
  CUTRACE_STAGE_DYNAMIC("named at run time", "a text");
  CUTRACE_STAGE("inner");
  early.launch("first");
  delete first;

  traced t;
  t.gpu.launch("second");
  {
    CUTRACE_STAGE("younger");
    t.gpu.launch("third");
  }
  const std::vector<event> kernels = t.all(event_kind::kernel);
  REQUIRE(kernels.size() == 2);
  CHECK(kernels[0].joined == cutrace::attribution::by_call);
  CHECK(text_of(kernels[0].stage_name) == "inner");
  CHECK(text_of(kernels[1].stage_name) == "younger");
  // The text went to the trace in which the stage began; that there was a request stays known.
  CHECK(kernels[0].request_total == 1);
  CHECK(kernels[0].request_count == 0);
}

TEST_CASE("a stage that outlives many traces is known to each of them") {
  traced* first = new traced;
  CUTRACE_STAGE("server", 7);
  first->gpu.launch("first");
  delete first;
  for (int round = 0; round < 20; ++round) {
    CAPTURE(round);
    traced t;
    if (round % 7 != 6 && round % 15 != 14) continue;  // in most of them nobody asks for it
    t.gpu.launch("kernel");
    const std::vector<event> kernels = t.all(event_kind::kernel);
    REQUIRE(kernels.size() == 1);
    CHECK(text_of(kernels[0].stage_name) == "server");
  }
}

TEST_CASE("part of a stage with a run-time name on a thread whose records are read first") {
  traced t;
  std::thread worker;
  cutrace::context handed;
  std::atomic<int> step{0};
  // The worker's state is the older one or the younger one: in one of the two turns it is read first.
  for (int turn = 0; turn < 2; ++turn) {
    const auto open = [&] {
      CUTRACE_STAGE_DYNAMIC("dynamic and handed on", 3);
      handed = cutrace::context::capture();
      step = 1;
      while (step != 2) std::this_thread::yield();
    };
    const auto adopt = [&] {
      { CUTRACE_STAGE("attached"); }
      while (step != 1) std::this_thread::yield();
      { cutrace::adopted_stage part(handed); }
      step = 2;
    };
    step = 0;
    if (turn == 0) {
      worker = std::thread(adopt);
      open();
    } else {
      worker = std::thread(open);
      adopt();
    }
    worker.join();
  }
  std::size_t named = 0;
  for (const event& e : t.all(event_kind::stage)) {
    CHECK(text_of(e.name) != "(name lost)");
    named += text_of(e.name) == "dynamic and handed on" ? 1 : 0;
  }
  CHECK(named == 4);
}

namespace {

/// Code of the program that the runtime calls, and that asks the session for everything it offers.
struct meddler : cutrace::sink {
  explicit meddler(cutrace::session& s) : trace(s) {}
  void write(cutrace::event_view) override { meddle(); }
  void close(const cutrace::trace_summary&) override { meddle(); }
  void meddle() {
    ++calls;
    trace.pause();
    trace.resume();
    flushed = trace.flush() || flushed;
    trace.stop();
    seen = trace.stats();
    try {
      trace.emplace_sink<cutrace::memory_sink>();
    } catch (const cutrace::config_error& e) {
      refused = e.what();
    }
    try {
      cutrace::session another(traced::quiet());
    } catch (const cutrace::config_error&) {
      ++sessions_refused;
    }
  }
  cutrace::session& trace;
  int calls = 0, sessions_refused = 0;
  bool flushed = false;
  cutrace::stats seen{};
  std::string refused;
};

}  // namespace

TEST_CASE("a sink that calls the session it belongs to is refused, and the trace goes on") {
  traced t;
  meddler& m = t.trace.emplace_sink<meddler>(t.trace);
  { CUTRACE_STAGE("one"); }
  CHECK(t.trace.flush());
  { CUTRACE_STAGE("two"); }
  CHECK(t.all(event_kind::stage).size() == 2);
  CHECK(m.calls >= 3);
  CHECK(m.sessions_refused == m.calls);
  CHECK_FALSE(m.flushed);
  CHECK(m.seen.produced == 0);
  CHECK(m.refused.find("cannot use the session") != std::string::npos);
}

TEST_CASE("an error handler that calls the session it belongs to does not wait for itself") {
  cutrace::session* trace = nullptr;
  int calls = 0;
  struct handler_state {
    cutrace::session** trace;
    int* calls;
  } state{&trace, &calls};
  cutrace::session_options o = traced::quiet();
  o.on_error = [](const char*, const char*, void* user) {
    const handler_state* s = static_cast<handler_state*>(user);
    ++*s->calls;
    if (*s->trace == nullptr) return;
    CHECK_FALSE((*s->trace)->flush());
    (*s->trace)->stop();
  };
  o.on_error_user = &state;
  cutrace::session first(o);
  trace = &first;
  cutrace::session second(traced::quiet());  // "joins that trace" is reported while the runtime begins a session
  CHECK(calls == 1);
  { CUTRACE_STAGE("still traced"); }
  CHECK(first.flush());
  CHECK(first.stats().by_kind[static_cast<std::size_t>(event_kind::stage)] == 1);
}

namespace {

unsigned threads_of_this_process() {
  unsigned n = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) n += task.exists();
  return n;
}

cutrace::session_options unheard() {
  cutrace::session_options o;
  o.sinks = "";
  o.backend = "none";
  return o;
}

}  // namespace

TEST_CASE("a session to which nobody listens starts nothing, until somebody does") {
  const unsigned before = threads_of_this_process();
  cutrace::session trace(unheard());
  CHECK(trace.active());
  { CUTRACE_STAGE("unheard"); }
  CHECK(threads_of_this_process() == before);
  CHECK(trace.flush());
  CHECK(trace.stats().produced == 0);
  cutrace::memory_sink& sink = trace.emplace_sink<cutrace::memory_sink>();
  CHECK(threads_of_this_process() > before);
  { CUTRACE_STAGE("heard"); }
  trace.stop();
  CHECK_FALSE(trace.active());
  std::vector<std::string> names;
  for (const event& e : sink.events())
    if (e.kind == event_kind::stage) names.emplace_back(e.name.data, e.name.size);
  CHECK(names == std::vector<std::string>{"heard"});
}

TEST_CASE("a pause before the first sink holds, and ends with the session") {
  {
    cutrace::session trace(unheard());
    trace.pause();
    cutrace::memory_sink& sink = trace.emplace_sink<cutrace::memory_sink>();
    { CUTRACE_STAGE("paused"); }
    trace.resume();
    { CUTRACE_STAGE("resumed"); }
    trace.stop();
    CHECK(trace.stats().by_kind[static_cast<std::size_t>(event_kind::stage)] == 1);
    CHECK(sink.events().size() >= 1);
  }
  {
    cutrace::session trace(unheard());
    trace.pause();
  }
  cutrace::session_options o = traced::quiet();
  cutrace::session trace(o);
  { CUTRACE_STAGE("not paused"); }
  trace.stop();
  CHECK(trace.stats().by_kind[static_cast<std::size_t>(event_kind::stage)] == 1);
}

TEST_CASE("a session that waits joins the trace that another one began meanwhile") {
  cutrace::session waiting(unheard());
  cutrace::session first(traced::quiet());
  { CUTRACE_STAGE("before"); }
  cutrace::memory_sink& sink = waiting.emplace_sink<cutrace::memory_sink>();
  { CUTRACE_STAGE("both"); }
  waiting.stop();
  { CUTRACE_STAGE("after"); }
  first.stop();
  CHECK(first.stats().by_kind[static_cast<std::size_t>(event_kind::stage)] == 3);
  std::size_t stages = 0;
  for (const event& e : sink.events()) stages += e.kind == event_kind::stage && e.name.size == 4;
  CHECK(stages == 1);
}

namespace {

/// Keeps what the session says of itself when the sink opens.
struct informed_sink : cutrace::memory_sink {
  cutrace::clock_anchor start{};
  void open(const cutrace::trace_info& i) override { start = i.start; }
};

}  // namespace

TEST_CASE("the totals of a sink are those of what came since it was added") {
  constexpr std::size_t stage = static_cast<std::size_t>(event_kind::stage);
  cutrace::session first(traced::quiet());
  cutrace::memory_sink& whole = first.emplace_sink<cutrace::memory_sink>();
  for (int i = 0; i < 100; ++i) {
    CUTRACE_STAGE("before");
  }
  REQUIRE(first.flush());
  cutrace::session second(traced::quiet());
  cutrace::memory_sink& late = second.emplace_sink<cutrace::memory_sink>();
  { CUTRACE_STAGE("both"); }
  second.stop();
  { CUTRACE_STAGE("after"); }
  first.stop();
  const cutrace::stats part = late.totals(), all = whole.totals();
  CHECK(part.by_kind[stage] == 1);
  CHECK(part.delivered < 100);
  CHECK(part.produced == part.delivered + part.pending + part.lost_total());
  CHECK(all.by_kind[stage] == 102);
  CHECK(all.produced == all.delivered + all.lost_total());
  CHECK(first.stats().by_kind[stage] == 102);
}

TEST_CASE("of the totals of a sink every count is that of the time since it was added") {
  const auto counts_of = [](cutrace::stats& s) {
    std::vector<std::uint64_t*> list = {&s.delivered, &s.lacking, &s.launches_seen, &s.gpu_records_seen};
    const auto add_each = [&list](auto& counts) {
      for (std::uint64_t& one : counts) list.push_back(&one);
    };
    add_each(s.lost);
    add_each(s.quality_of);
    add_each(s.unattributed_by);
    add_each(s.by_kind);
    return list;
  };
  cutrace::stats before{}, now{};
  const std::vector<std::uint64_t*> then = counts_of(before), later = counts_of(now);
  for (std::size_t i = 0; i < then.size(); ++i) {
    *then[i] = 1000 + i;
    *later[i] = 2000 + 3 * i;
  }
  before.produced = 500;
  before.pending = 20;  // these are delivered to the sink, too
  now.produced = 700;
  now.pending = 7;
  before.memory_bytes = 4000;
  now.memory_bytes = 3000;
  cutrace::stats since = cutrace::detail::counted_since(before, now);
  const std::vector<std::uint64_t*> counted = counts_of(since);
  for (std::size_t i = 0; i < counted.size(); ++i) {
    CAPTURE(i);
    CHECK(*counted[i] == 1000 + 2 * i);
  }
  CHECK(since.produced == 220);
  CHECK(since.pending == 7);
  CHECK(since.memory_bytes == 3000);
}

TEST_CASE("for a sink that is added later, the trace begins when it is added") {
  cutrace::session first(traced::quiet());
  informed_sink& whole = first.emplace_sink<informed_sink>();
  { CUTRACE_STAGE("before"); }
  REQUIRE(first.flush());
  const std::uint64_t added_ns = cutrace::clock::monotonic_ns();
  cutrace::session second(traced::quiet());
  informed_sink& late = second.emplace_sink<informed_sink>();
  { CUTRACE_STAGE("both"); }
  second.stop();
  first.stop();
  CHECK(whole.start.monotonic_ns < added_ns);
  CHECK(late.start.monotonic_ns >= added_ns);
  // One time for both: that of the trace.
  const auto origin = [](const cutrace::clock_anchor& a) {
    return static_cast<std::int64_t>(a.monotonic_ns) - a.trace_ns;
  };
  CHECK(origin(late.start) == origin(whole.start));
  for (const event& e : late.events())
    if (e.kind == event_kind::stage) CHECK(e.start_ns >= late.start.trace_ns);
}

TEST_CASE("a session that leaves a trace with interruptions knows which part of its time was recorded") {
  const auto windows = [](const cutrace::memory_sink& sink) {
    std::vector<event> some;
    for (const event& e : sink.events())
      if (e.kind == event_kind::window) some.push_back(e);
    return some;
  };
  cutrace::session first(traced::quiet());
  cutrace::memory_sink& whole = first.emplace_sink<cutrace::memory_sink>();
  { CUTRACE_STAGE("recorded"); }
  first.pause();
  REQUIRE(first.flush());
  {
    cutrace::session paused(traced::quiet());
    cutrace::memory_sink& sink = paused.emplace_sink<cutrace::memory_sink>();
    { CUTRACE_STAGE("paused"); }
    paused.stop();
    // Readers take a trace without any window as recorded throughout.
    REQUIRE(windows(sink).size() == 1);
    CHECK(windows(sink)[0].start_ns == windows(sink)[0].end_ns);
  }
  first.resume();
  {
    cutrace::session open(traced::quiet());
    informed_sink& sink = open.emplace_sink<informed_sink>();
    { CUTRACE_STAGE("recorded"); }
    open.stop();
    REQUIRE(windows(sink).size() == 1);
    CHECK(windows(sink)[0].start_ns <= sink.start.trace_ns);
    for (const event& e : sink.events())
      if (e.kind == event_kind::stage) CHECK(e.end_ns <= windows(sink)[0].end_ns);
  }
  {
    cutrace::session both(traced::quiet());
    cutrace::memory_sink& sink = both.emplace_sink<cutrace::memory_sink>();
    { CUTRACE_STAGE("recorded"); }
    first.pause();
    both.stop();
    REQUIRE(windows(sink).size() == 1);  // no other one beside it
    CHECK(windows(sink)[0].start_ns < windows(sink)[0].end_ns);
  }
  first.resume();
  { CUTRACE_STAGE("recorded"); }
  first.stop();
  const std::vector<event> all = windows(whole);
  for (std::size_t i = 1; i < all.size(); ++i) CHECK(all[i - 1].end_ns <= all[i].start_ns);
  std::size_t stages = 0;
  for (const event& e : whole.events()) {
    if (e.kind != event_kind::stage) continue;
    ++stages;
    CHECK(text_of(e.name) == "recorded");
    CHECK(std::any_of(all.begin(), all.end(),
                      [&](const event& w) { return w.start_ns <= e.start_ns && e.end_ns <= w.end_ns; }));
  }
  CHECK(stages == 4);
}

namespace {
/// Starts when the test lets it.
struct slow_start : emitting_backend {
  std::atomic<bool> starts{false}, goes_on{false};
  cutrace::backend_status start(cutrace::event_writer& w) override {
    const cutrace::backend_status status = emitting_backend::start(w);
    starts = true;
    while (!goes_on) std::this_thread::yield();
    return status;
  }
};
}  // namespace

TEST_CASE("a session that joins while the backend of the first one starts gets the GPU work of its calls") {
  static slow_start* gpu = nullptr;
  gpu = new slow_start;  // the first session's
  static const cutrace::detail::backend_registration known("slow start", false,
                                                           []() -> cutrace::backend* { return gpu; });
  cutrace::session_options o = traced::quiet();
  o.backend = "slow start";
  std::thread first([&o] { cutrace::session of_thread(o); });
  while (!gpu->starts) std::this_thread::yield();
  cutrace::session second(traced::quiet());
  cutrace::memory_sink& sink = second.emplace_sink<cutrace::memory_sink>();
  gpu->launch("ends before the backend has started");
  gpu->goes_on = true;
  first.join();
  second.stop();
  std::size_t calls = 0, kernels = 0;
  for (const event& e : sink.events()) {
    calls += e.kind == event_kind::api;
    kernels += e.kind == event_kind::kernel;
  }
  CHECK(calls == 1);
  CHECK(kernels == 1);
}

TEST_CASE("what another session gets alone, while the first one starts, does not count for the first one") {
  static slow_start* gpu = nullptr;
  gpu = new slow_start;  // the first session's
  static const cutrace::detail::backend_registration known("slow start 2", false,
                                                           []() -> cutrace::backend* { return gpu; });
  cutrace::session_options o = unheard();
  o.backend = "slow start 2";
  cutrace::memory_sink sink;
  std::thread first([&] {
    cutrace::session of_thread(o);
    of_thread.add_sink(sink);
    CUTRACE_STAGE("first's");
  });
  while (!gpu->starts) std::this_thread::yield();
  {
    cutrace::session second(traced::quiet());
    for (int i = 0; i < 10; ++i) {
      CUTRACE_STAGE("second's");
    }
  }
  gpu->goes_on = true;
  first.join();
  const std::vector<event> seen = sink.events();
  const auto is_stage = [](const event& e) { return e.kind == event_kind::stage; };
  CHECK(sink.totals().by_kind[static_cast<std::size_t>(event_kind::stage)] ==
        static_cast<std::uint64_t>(std::count_if(seen.begin(), seen.end(), is_stage)));
}

TEST_CASE("a session that joins makes no event of the others late, and gets what has not been delivered") {
  cutrace::session_options o = traced::quiet();
  o.window_ms = 2000;
  traced t(o);
  cutrace::api_call launch = t.gpu.begin();
  t.gpu.end(launch);
  cutrace::gpu_work w{};
  w.kind = event_kind::kernel;
  w.name = "its record comes later";
  w.times_are_ticks = true;
  w.correlation = launch.correlation;
  w.begin = w.end = t.gpu.writer->ticks();
  CUTRACE_MARK("behind the kernel");
  cutrace::session joins(traced::quiet());
  cutrace::memory_sink& part = joins.emplace_sink<cutrace::memory_sink>();
  t.gpu.writer->gpu(w);
  joins.stop();
  const std::vector<event> seen = part.events();
  const auto is_call = [](const event& e) { return e.kind == event_kind::api; };
  CHECK(std::count_if(seen.begin(), seen.end(), is_call) == 1);
  CHECK(t.all(event_kind::kernel).size() == 1);
  CHECK(t.trace.stats().quality_of[static_cast<std::size_t>(cutrace::quality::late)] == 0);
}

namespace {
/// A backend that holds records of all calls back.
struct holding_backend final : emitting_backend, cutrace::activity_buffers {
  std::uint64_t since_ns = 0;
  cutrace::backend_status start(cutrace::event_writer& w) override {
    since_ns = w.raw_ns(w.ticks());
    w.offer(this);
    return emitting_backend::start(w);
  }
  bool stop(std::uint32_t) noexcept override {
    writer->offer(static_cast<const cutrace::activity_buffers*>(nullptr));
    return true;
  }
  void list(void (*take)(void* to, const held& one), void* to) const override { take(to, {any, since_ns}); }
  std::uint64_t bytes() const noexcept override { return 0; }
};
}  // namespace

TEST_CASE("a call that began long before a session joined is missed where its record does not come in time") {
  const auto pass_time = [] { std::this_thread::sleep_for(std::chrono::milliseconds(150)); };
  holding_backend gpu;
  cutrace::session_options o = traced::quiet();
  o.window_ms = 2000;
  cutrace::session stays(o);
  stays.emplace_sink<cutrace::memory_sink>();
  stays.add_backend(gpu);
  cutrace::api_call delivered = gpu.begin();
  gpu.end(delivered);
  REQUIRE(stays.flush());
  cutrace::api_call slow = gpu.begin();
  pass_time();
  CUTRACE_MARK("long before the call ends");
  pass_time();
  gpu.end(slow);
  cutrace::session joins(traced::quiet());
  cutrace::memory_sink& part = joins.emplace_sink<cutrace::memory_sink>();
  joins.stop();
  const std::vector<event> seen = part.events();
  const auto is_call = [](const event& e) { return e.kind == event_kind::api; };
  CHECK(std::count_if(seen.begin(), seen.end(), is_call) == 1);
  CHECK(part.totals().lost[static_cast<std::size_t>(cutrace::loss_cause::unpaired)] == 1);
  stays.stop();
}

TEST_CASE("what a session without sinks records, while the first one starts, is in the first one's file") {
  static slow_start* gpu = nullptr;
  gpu = new slow_start;  // the first session's
  static const cutrace::detail::backend_registration known("slow start 3", false,
                                                           []() -> cutrace::backend* { return gpu; });
  const temporary_folder folder;
  const std::string sinks = "calls:" + folder.file("t.txt");
  cutrace::session_options o = unheard();
  o.backend = "slow start 3";
  o.sinks = sinks.c_str();
  std::thread first([&] { cutrace::session of_thread(o); });
  while (!gpu->starts) std::this_thread::yield();
  cutrace::session_options none = traced::quiet();
  none.sinks = "jsonl:/no/such/folder/t.jsonl";
  CHECK_THROWS_AS(cutrace::session{none}, cutrace::config_error);
  none.sinks = "";
  {
    cutrace::session second(none);
    CUTRACE_STAGE("second's");
  }
  gpu->goes_on = true;
  first.join();
  CHECK(content_of(folder.file("t.txt")).find("second's") != std::string::npos);
}

TEST_CASE("a session without sinks that leaves delivers nothing of the others ahead of its turn") {
  cutrace::session_options o = traced::quiet();
  o.window_ms = 60000;
  cutrace::session first(o);
  cutrace::memory_sink& sink = first.emplace_sink<cutrace::memory_sink>();
  {
    cutrace::session second(unheard());
    CUTRACE_STAGE("second's");
  }
  const std::vector<event> early = sink.events();
  CHECK(std::none_of(early.begin(), early.end(), [](const event& e) { return e.kind == event_kind::stage; }));
  first.stop();
  const std::vector<event> all = sink.events();
  CHECK(std::any_of(all.begin(), all.end(), [](const event& e) { return e.kind == event_kind::stage; }));
}

namespace {
/// A backend whose records lie in a buffer of its own, which the collector has not read yet.
struct buffering_backend final : emitting_backend {
  static inline std::atomic<bool> alive{false};
  static inline std::atomic<int> read_dead{0}, read{0};
  buffering_backend() { alive = true; }
  ~buffering_backend() override { alive = false; }
  bool stop(std::uint32_t) noexcept override {
    writer->submit({nullptr, 0, this,
                    [](const cutrace::activity_buffer&, cutrace::event_emitter&) { ++(alive ? read : read_dead); },
                    [](const cutrace::activity_buffer&) {}});
    return true;
  }
};
}  // namespace

TEST_CASE("the buffers of a backend have been read when its session, which has no sinks, has ended beside others") {
  cutrace::session first(traced::quiet());
  first.emplace_sink<cutrace::memory_sink>();
  for (int i = 0; i < 10; ++i) {
    buffering_backend gpu;
    cutrace::session second(unheard());
    second.add_backend(gpu);
    second.stop();
  }
  first.stop();
  CHECK(buffering_backend::read == 10);
  CHECK(buffering_backend::read_dead == 0);
}

TEST_CASE("what the backends of a session without sinks have reported has been delivered when it has ended") {
  cutrace::session_options o = traced::quiet();
  o.window_ms = 60000;
  cutrace::session first(o);
  cutrace::memory_sink& sink = first.emplace_sink<cutrace::memory_sink>();
  emitting_backend gpu;
  cutrace::session second(unheard());
  second.add_backend(gpu);
  gpu.launch("the second's");
  second.stop();
  const std::vector<event> early = sink.events();
  CHECK(std::any_of(early.begin(), early.end(), [](const event& e) { return e.kind == event_kind::kernel; }));
}

TEST_CASE("a session that leaves cuts no window of those that stay") {
  constexpr std::size_t window = static_cast<std::size_t>(event_kind::window);
  cutrace::session first(traced::quiet());
  cutrace::memory_sink& whole = first.emplace_sink<cutrace::memory_sink>();
  first.pause();
  REQUIRE(first.flush());
  first.resume();
  for (int i = 0; i < 3; ++i) {
    cutrace::session second(traced::quiet());
    cutrace::memory_sink& part = second.emplace_sink<cutrace::memory_sink>();
    { CUTRACE_STAGE("recorded"); }
    second.stop();
    CHECK(part.totals().by_kind[window] == 1);
    const std::vector<event> seen = part.events();
    CHECK(std::count_if(seen.begin(), seen.end(), [](const event& e) { return e.kind == event_kind::window; }) == 1);
    CHECK(part.totals().produced == part.totals().delivered + part.totals().lost_total());
  }
  first.stop();
  CHECK(whole.totals().by_kind[window] == 2);
  std::vector<event> all;
  for (const event& e : whole.events())
    if (e.kind == event_kind::window) all.push_back(e);
  REQUIRE(all.size() == 2);  // before the pause, and from there to the end
  for (const event& e : whole.events())
    if (e.kind == event_kind::stage) CHECK((all[1].start_ns <= e.start_ns && e.end_ns <= all[1].end_ns));
}

TEST_CASE("a session that joins a paused trace and is the last to end knows that nothing was recorded") {
  cutrace::session first(traced::quiet());
  first.pause();
  REQUIRE(first.flush());
  cutrace::session second(traced::quiet());
  cutrace::memory_sink& sink = second.emplace_sink<cutrace::memory_sink>();
  first.stop();
  { CUTRACE_STAGE("paused"); }
  second.stop();
  std::vector<event> windows;
  for (const event& e : sink.events()) {
    CHECK(e.kind != event_kind::stage);
    if (e.kind == event_kind::window) windows.push_back(e);
  }
  REQUIRE(windows.size() == 1);  // else readers take all of the time as recorded
  CHECK(windows[0].start_ns == windows[0].end_ns);
}

namespace {

/// A backend that takes its time to stop, and loses records meanwhile.
struct slowly_stopping : emitting_backend {
  static constexpr std::int64_t takes_ns = 300000000;
  bool stop(std::uint32_t) noexcept override {
    const std::uint64_t until = writer->raw_ns(writer->ticks()) + static_cast<std::uint64_t>(takes_ns);
    while (writer->raw_ns(writer->ticks()) < until) continue;
    writer->count_loss(cutrace::loss_cause::buffer_limit, 3);
    return true;
  }
};

struct end_seeing : cutrace::memory_sink {
  std::int64_t stop_ns = 0;
  void close(const cutrace::trace_summary& summary) override {
    stop_ns = static_cast<std::int64_t>(summary.stop.trace_ns);
    cutrace::memory_sink::close(summary);
  }
};

}  // namespace

TEST_CASE("the time that the end of a trace takes is no part of it") {
  slowly_stopping gpu;
  cutrace::session trace(traced::quiet());
  trace.add_backend(gpu);
  end_seeing& sink = trace.emplace_sink<end_seeing>();
  CUTRACE_COUNT("counted before the end", 2);
  trace.stop();
  int counters = 0, losses = 0;
  for (const event& e : sink.events()) {
    if (e.kind == event_kind::counter) ++counters;
    if (e.kind == event_kind::loss) ++losses;
    CHECK(e.end_ns < sink.stop_ns + slowly_stopping::takes_ns);
    CHECK_FALSE(e.late);
  }
  CHECK(counters == 1);
  CHECK(losses == 1);
}

TEST_CASE("a sink that is added later gets the names of threads that run then, whatever was described before") {
  traced t;
  const auto describe = [&](event_kind kind, std::uint32_t id, cutrace::text name) {
    event e;
    e.kind = kind;
    e.thread_id = kind == event_kind::thread ? id : 0;
    e.context = kind == event_kind::context ? id : 1;
    e.stream = kind == event_kind::stream ? id : 0;
    e.name = name;
    t.gpu.writer->describe(e);
  };
  describe(event_kind::context, 1, {});
  for (std::uint32_t i = 1; i <= 20000; ++i) describe(event_kind::stream, i, {});  // a stream for each request
  REQUIRE(t.trace.flush());
  describe(event_kind::context, 2, {});
  for (int i = 0; i < 10000; ++i)
    describe(event_kind::thread, 1, i % 2 == 0 ? cutrace::text{"request", 7} : cutrace::text{"idle", 4});
  describe(event_kind::thread, 2, {"newest", 6});
  REQUIRE(t.trace.flush());
  cutrace::memory_sink& late = t.trace.emplace_sink<cutrace::memory_sink>();
  t.trace.stop();
  std::vector<std::uint32_t> contexts;
  std::vector<std::uint64_t> streams;
  std::vector<std::string> names;
  for (const event& e : late.events()) {
    if (e.kind == event_kind::context) contexts.push_back(e.context);
    if (e.kind == event_kind::stream) streams.push_back(e.stream);
    if (e.kind == event_kind::thread && e.thread_id <= 2) names.push_back(text_of(e.name));
  }
  CHECK(contexts == std::vector<std::uint32_t>{1, 2});
  std::sort(names.begin(), names.end());
  CHECK(names == std::vector<std::string>{"idle", "newest"});  // of each thread the newest
  REQUIRE(!streams.empty());
  CHECK(streams.back() == 20000);
  CHECK(streams.front() + streams.size() == 20001);  // the newest ones
  CHECK(streams.size() >= 4000);
  CHECK(streams.size() <= 8192);
}

TEST_CASE("of threads that came and went not all are described to a sink that is added later") {
  cutrace::session trace(traced::quiet());
  trace.emplace_sink<cutrace::memory_sink>();
  for (int i = 0; i < 2500; ++i) {
    std::thread([] { CUTRACE_STAGE("step"); }).join();
    if (i % 100 == 0) REQUIRE(trace.flush());
  }
  REQUIRE(trace.flush());
  cutrace::memory_sink& late = trace.emplace_sink<cutrace::memory_sink>();
  trace.stop();
  const std::vector<event>& all = late.events();
  const auto is_thread = [](const event& e) { return e.kind == event_kind::thread; };
  CHECK(std::count_if(all.begin(), all.end(), is_thread) >= 1000);
  CHECK(std::count_if(all.begin(), all.end(), is_thread) < 1500);
}

TEST_CASE("of threads that have ended only the last ones are described to later sinks") {
  cutrace::detail::known_descriptions known;
  const auto begins = [&known](std::uint32_t id) {
    event e;
    e.kind = event_kind::thread;
    e.thread_id = id;
    known.add(e);
  };
  const auto is_known = [&known](std::uint32_t id) {
    const std::vector<event> all = known.all();
    return std::any_of(all.begin(), all.end(), [id](const event& e) { return e.thread_id == id; });
  };
  begins(1);  // runs all the time
  for (std::uint32_t id = 2; id <= 30000; ++id) {
    begins(id);
    known.thread_ended(id);
    if (id > 29000) known.thread_ended(id);  // noted again, it takes no room of another one
    if (id == 3) begins(2);                  // another thread, to which the system gave the same number
  }
  begins(30001);
  CHECK(is_known(1));
  CHECK(is_known(2));
  CHECK_FALSE(is_known(3));
  for (std::uint32_t id = 29000; id <= 30001; ++id) CHECK(is_known(id));
  CHECK(known.all().size() < 2000);
}

TEST_CASE("descriptions for later sinks have bounds, within which they keep up with what is described anew") {
  cutrace::detail::known_descriptions known;
  const auto describe = [&known](event_kind kind, std::uint32_t id, cutrace::text name) {
    event e;
    e.kind = kind;
    e.thread_id = e.device = id;
    e.name = name;
    known.add(e);
  };
  for (std::uint32_t id = 1; id <= 20000; ++id) {
    describe(event_kind::thread, id, {"first", 5});
    describe(event_kind::device, id, {"device", 6});
  }
  describe(event_kind::thread, 1, {"renamed", 7});
  const std::vector<event> all = known.all();
  CHECK(all.size() == 2 * known.limit);
  for (const event& e : all)
    if (e.kind == event_kind::thread && e.thread_id == 1) CHECK(text_of(e.name) == "renamed");
}

TEST_CASE("a window that was opened before the first sink closes no other one") {
  cutrace::session_options o = unheard();
  o.sample = "requests";
  cutrace::session trace(o);
  CHECK_FALSE(trace.open_window());
  cutrace::memory_sink& sink = trace.emplace_sink<cutrace::memory_sink>();
  { CUTRACE_STAGE("in the first"); }
  CHECK(trace.open_window());
  trace.close_window();  // one of the two
  { CUTRACE_STAGE("in the second"); }
  trace.close_window();
  for (int patience = 0; patience < 200; ++patience) {  // closing waits for nothing
    { CUTRACE_STAGE("outside"); }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  CHECK(trace.open_window());
  { CUTRACE_STAGE("in the third"); }
  trace.close_window();
  trace.stop();
  std::vector<std::string> names;
  std::size_t outside = 0;
  for (const event& e : sink.events()) {
    if (e.kind != event_kind::stage) continue;
    const std::string name(e.name.data, e.name.size);
    if (name == "outside")
      ++outside;
    else
      names.push_back(name);
  }
  CHECK(names == std::vector<std::string>{"in the first", "in the second", "in the third"});
  CHECK(outside < 100);
}

TEST_CASE("threads that add the first sinks of a session at once begin one trace, which ends with it") {
  struct closed_sink : cutrace::sink {
    bool closed = false;
    const char* name() const noexcept override { return "closed"; }
    void write(cutrace::event_view) override {}
    void close(const cutrace::trace_summary&) override { closed = true; }
  };
  for (int round = 0; round < 20; ++round) {
    closed_sink sinks[3];
    cutrace::session session(unheard());
    std::atomic<int> ready{0};
    std::vector<std::thread> threads;
    for (closed_sink& one : sinks)
      threads.emplace_back([&] {
        ++ready;
        while (ready < 3) std::this_thread::yield();
        try {
          session.add_sink(one);
        } catch (const cutrace::config_error&) {  // it has been stopped
        }
      });
    if (round % 2 != 0) {  // whoever stops the session waits until its trace has begun
      while (ready < 3) std::this_thread::yield();
      session.stop();
    }
    for (std::thread& t : threads) t.join();
    session.stop();
    if (round % 2 == 0)
      for (const closed_sink& one : sinks) CHECK(one.closed);
    CHECK_FALSE(session.active());
  }
}

TEST_CASE("work that ends while the collector reads is delivered in order, or marked late") {
  constexpr int many = 5000;  // the ordering window has room for some 7,000 of the records
  cutrace::session_options o = traced::quiet();
  o.memory_limit_bytes = 4 << 20;
  o.window_ms = 16;
  traced t(o);
  slow_pass pass{t.gpu};
  pass.hand_over([](const cutrace::activity_buffer& b, cutrace::event_emitter&) {
    while (!static_cast<slow_pass*>(b.owner)->all_wait) std::this_thread::yield();
  });
  pass.hand_over([](const cutrace::activity_buffer& b, cutrace::event_emitter& to) {
    slow_pass& p = *static_cast<slow_pass*>(b.owner);
    p.began_ns = p.now();
    std::this_thread::sleep_for(std::chrono::milliseconds(70));
    p.emit(to, 10 * slow_pass::ms, 1);
  });
  pass.hand_over([](const cutrace::activity_buffer& b, cutrace::event_emitter& to) {
    const slow_pass& p = *static_cast<slow_pass*>(b.owner);
    p.emit(to, 10 * slow_pass::ms, many);
    p.emit(to, 60 * slow_pass::ms, many);
  });
  pass.hand_over([](const cutrace::activity_buffer& b, cutrace::event_emitter& to) {
    const slow_pass& p = *static_cast<slow_pass*>(b.owner);
    p.emit(to, 30 * slow_pass::ms, 1);
    p.emit(to, 60 * slow_pass::ms, many);
    p.emit(to, 5 * slow_pass::ms, 1);
  });
  pass.all_wait = true;
  const std::vector<event> kernels = t.all(event_kind::kernel);
  REQUIRE(kernels.size() == 3 * many + 3);
  const std::int64_t began_ns = kernels[0].end_ns - 10 * slow_pass::ms;
  std::int64_t newest_ns = INT64_MIN;
  int late = 0;
  for (const event& e : kernels) {
    REQUIRE(e.late == (e.end_ns < newest_ns));
    newest_ns = std::max(newest_ns, e.end_ns);
    late += e.late;
    if (e.end_ns - began_ns == 30 * slow_pass::ms) CHECK_FALSE(e.late);
  }
  CHECK(late == 1);
}

TEST_CASE("a stage without a name is a stage all the same: its calls and its GPU work belong to it") {
  traced t;
  const auto work = [&t] { t.gpu.launch("k"); };
  {
    CUTRACE_STAGE("");
    work();
  }
  for (const char* name : {"", static_cast<const char*>(nullptr)}) {
    CUTRACE_STAGE_DYNAMIC(name);
    work();
  }
  { CUTRACE_STAGE(""); }
  CUTRACE_MARK("");
  const std::vector<event> stages = t.all(event_kind::stage), kernels = t.all(event_kind::kernel);
  REQUIRE(stages.size() == 4);
  REQUIRE(kernels.size() == 3);
  for (const event& e : stages) CHECK(text_of(e.name) == "(unnamed)");
  for (const event& e : kernels) CHECK(text_of(e.stage_name) == "(unnamed)");
  for (const event& e : t.all(event_kind::api)) CHECK(text_of(e.stage_name) == "(unnamed)");
  for (const event& e : t.all(event_kind::mark)) CHECK(text_of(e.name) == "(unnamed)");
  const cutrace::stats s = t.trace.stats();
  CHECK(s.lacking == 0);
  CHECK(s.quality_of[static_cast<std::size_t>(cutrace::quality::stage_unknown)] == 0);
}

namespace {
/// Whether the notes of the trace say that events were marked late.
struct notes_sink : cutrace::sink {
  bool say_late = false;
  void write(cutrace::event_view) override {}
  void close(const cutrace::trace_summary& s) override {
    for (std::uint32_t i = 0; i < s.note_count; ++i)
      say_late = say_late || std::string(s.notes[i]).find("marked late") != std::string::npos;
  }
};
}  // namespace

TEST_CASE("more events than the ordering window has room for: the trace says that some are late where some are") {
  // The window is full twice. A late event comes behind the first time, behind both, or not at all.
  for (const int late_behind : {0, 1, 2}) {
    CAPTURE(late_behind);
    cutrace::session_options o = traced::quiet();
    o.memory_limit_bytes = 1 << 20;
    o.window_ms = 5000;
    o.overflow = cutrace::overflow_policy::wait;
    o.overflow_wait_us = 10000000;
    traced t(o);
    auto& notes = t.trace.emplace_sink<notes_sink>();
    cutrace::api_call first = t.gpu.begin();
    t.gpu.end(first);
    cutrace::gpu_work early{};
    early.kind = event_kind::kernel;
    early.name = "early";
    early.times_are_ticks = true;
    early.begin = early.end = t.gpu.writer->ticks();
    early.correlation = first.correlation;
    for (const int full : {1, 2}) {
      for (int i = 0; i < 20000; ++i) {
        CUTRACE_STAGE("step");
      }
      REQUIRE(t.trace.flush());
      if (full == late_behind) t.gpu.writer->gpu(early);
    }
    t.trace.stop();
    const cutrace::stats s = t.trace.stats();
    REQUIRE(s.lost_total() == 0);
    // On a busy machine others may come late, too.
    const std::uint64_t late = s.quality_of[static_cast<std::size_t>(cutrace::quality::late)];
    if (late_behind != 0) CHECK(late > 0);
    CHECK(notes.say_late == (late > 0));
  }
}

namespace {
struct sleepy_sink final : cutrace::sink {
  const char* name() const noexcept override { return "sleepy"; }
  void write(cutrace::event_view) override { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }
};
}  // namespace

TEST_CASE("stages and calls without room count as one lost event each, and openings of stages as none") {
  cutrace::session_options o = traced::quiet();
  o.memory_limit_bytes = 1 << 20;
  traced t(o);
  t.trace.emplace_sink<sleepy_sink>();
  constexpr std::uint64_t steps = 50000;
  for (std::uint64_t i = 0; i < steps; ++i) {
    CUTRACE_STAGE("step");
    cutrace::api_call call = t.gpu.begin();  // the collector is to know the stage from here on
    t.gpu.end(call);
  }
  t.trace.stop();
  const cutrace::stats s = t.trace.stats();
  const auto count = [&](event_kind k) { return s.by_kind[static_cast<std::size_t>(k)]; };
  REQUIRE(s.lost_total() > 0);
  CHECK(count(event_kind::stage) + count(event_kind::api) + s.lost_total() == 2 * steps);
}

TEST_CASE("a thread waits for room once where there are more threads than chunks") {
  using clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds allowed(400);
  cutrace::session_options o = traced::quiet();
  o.memory_limit_bytes = 1 << 20;
  o.overflow = cutrace::overflow_policy::wait;
  o.overflow_wait_us = 400000;
  cutrace::session trace(o);
  std::atomic<std::size_t> ready{0};
  std::atomic<bool> waited{false};
  clock::duration others{};
  std::vector<std::thread> threads;
  while (!waited && threads.size() < 2000) {  // how many have a chunk depends on the sessions before
    threads.emplace_back([&] {
      clock::time_point begin = clock::now();
      CUTRACE_MARK("first");
      const bool in_vain = clock::now() - begin >= allowed;
      begin = clock::now();
      for (int i = 0; i < 10; ++i) CUTRACE_MARK("another");
      if (in_vain) others = clock::now() - begin;
      waited = waited || in_vain;
      ++ready;
      while (!waited) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    });
    while (ready != threads.size()) std::this_thread::yield();
  }
  for (std::thread& t : threads) t.join();
  trace.stop();
  REQUIRE(waited);
  CHECK(others < 5 * allowed);
  const cutrace::stats s = trace.stats();
  CHECK(s.by_kind[static_cast<std::size_t>(event_kind::mark)] + s.lost_total() == 11 * threads.size());
}

namespace {
/// Marks stages itself, more than there is room for, when it gets a mark.
struct marking_sink final : cutrace::sink {
  std::atomic<bool> has_mark{false}, all_taken{false}, done{false};
  std::chrono::steady_clock::duration took{};
  const char* name() const noexcept override { return "marking"; }
  void write(cutrace::event_view events) override {
    for (const event& e : events) has_mark = has_mark || e.kind == event_kind::mark;
    if (!has_mark || done) return;
    while (!all_taken) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < 300 && took < std::chrono::seconds(1); ++i) {
      CUTRACE_STAGE("the sink's");
      took = std::chrono::steady_clock::now() - begin;
    }
    took = std::chrono::steady_clock::now() - begin;
    done = true;
  }
};
}  // namespace

TEST_CASE("a sink with stages of its own does not wait for the room that only its own thread can make") {
  cutrace::session_options o = traced::quiet();
  o.memory_limit_bytes = 1 << 20;
  o.overflow = cutrace::overflow_policy::wait;
  o.overflow_wait_us = 2000000;
  cutrace::session trace(o);
  marking_sink& sink = trace.emplace_sink<marking_sink>();
  CUTRACE_MARK("first");
  while (!sink.has_mark) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::atomic<int> steps{0};
  std::thread fills([&] {
    for (; !sink.done; ++steps) {
      CUTRACE_STAGE("step");
    }
  });
  for (int before = -1; before != steps;) {  // until that thread waits
    before = steps;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  sink.all_taken = true;
  fills.join();
  CHECK(sink.took < std::chrono::seconds(1));
  trace.stop();
}

namespace {
struct variable {
  variable(const char* n, const char* v) : name(n) { ::setenv(n, v, 1); }
  ~variable() { ::unsetenv(name); }
  const char* name;
};
}  // namespace

TEST_CASE("a trace whose names have no more room says so, and has all events") {
  std::string reported;
  cutrace::session_options o = traced::quiet();
  o.memory_limit_bytes = std::size_t{8} << 20;
  o.on_error = [](const char*, const char* line, void* to) { static_cast<std::string*>(to)->append(line); };
  o.on_error_user = &reported;
  cutrace::session trace(o);
  for (int i = 0; i < 10000; ++i) {
    { CUTRACE_STAGE_DYNAMIC("step " + std::to_string(i)); }
    if (i % 1000 == 0) CHECK(trace.flush());
  }
  trace.stop();
  CHECK(trace.stats().by_kind[static_cast<std::size_t>(event_kind::stage)] == 10000);
  CHECK(trace.stats().lost_total() == 0);
  CHECK(reported.find("there is no room for more names") != std::string::npos);
}

TEST_CASE("a variable that cannot be used never reaches the program, however late it is read") {
  std::string reported;
  cutrace::session_options o = unheard();
  o.on_error = [](const char*, const char* line, void* to) { static_cast<std::string*>(to)->append(line); };
  o.on_error_user = &reported;
  for (const char* name : {"CUTRACE_MEMORY_LIMIT", "CUTRACE_WINDOW_MS", "CUTRACE_OVERFLOW", "CUTRACE"}) {
    const variable bad(name, "nonsense");
    reported.clear();
    cutrace::session trace(o);
    CHECK_FALSE(trace.active());
    cutrace::memory_sink& sink = trace.emplace_sink<cutrace::memory_sink>();
    { CUTRACE_STAGE("untraced"); }
    trace.stop();
    CHECK(sink.events().empty());
    CHECK(reported.find(std::string(name) + "=\"nonsense\"") != std::string::npos);
    CHECK(reported.find("runs untraced") != std::string::npos);
  }
  {
    const variable nowhere("CUTRACE_SINKS", "jsonl:/no/such/folder/t.jsonl");
    reported.clear();
    o.sinks = nullptr;
    cutrace::session trace(o);
    CHECK_FALSE(trace.active());
    trace.emplace_sink<cutrace::memory_sink>();
    CHECK(reported.find("cannot open") != std::string::npos);
    CHECK(reported.find("runs untraced") != std::string::npos);
  }
  cutrace::session_options bad = unheard();
  bad.backend = "nonsense";
  CHECK_THROWS_AS(cutrace::session{bad}, cutrace::config_error);
}

TEST_CASE("a session of a traced process that cannot open its file does not say that the program runs untraced") {
  const variable nowhere("CUTRACE_SINKS", "jsonl:/no/such/folder/t.jsonl");
  std::string reported;
  cutrace::session_options o = unheard();
  o.sinks = nullptr;
  o.on_error = [](const char*, const char* line, void* to) { static_cast<std::string*>(to)->append(line); };
  o.on_error_user = &reported;
  cutrace::session first(traced::quiet());
  cutrace::memory_sink& sink = first.emplace_sink<cutrace::memory_sink>();
  cutrace::session joins(o);
  CHECK_FALSE(joins.active());
  CHECK(reported.find("cannot open") != std::string::npos);
  CHECK(reported.find("the trace of another one goes on") != std::string::npos);
  CHECK(reported.find("untraced") == std::string::npos);
  { CUTRACE_STAGE("traced all the same"); }
  first.stop();
  CHECK(sink.events().size() >= 1);
}

TEST_CASE("a session whose trace cannot begin with its first sink is not active, and has no totals of an older trace") {
  {
    cutrace::session before(traced::quiet());
    before.emplace_sink<cutrace::memory_sink>();
    { CUTRACE_STAGE("older"); }
  }
  std::string reported;
  cutrace::session_options o = unheard();
  o.memory_limit_bytes = std::size_t{1} << 30;
  o.on_error = [](const char*, const char* line, void* to) { static_cast<std::string*>(to)->append(line); };
  o.on_error_user = &reported;
  cutrace::session trace(o);
  CHECK(trace.active());
  {
    std::size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    rlimit usual{};
    REQUIRE(getrlimit(RLIMIT_AS, &usual) == 0);
    rlimit scarce = usual;
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    scarce.rlim_cur = pages * page + (std::size_t{64} << 20);  // less than the trace needs
    REQUIRE(setrlimit(RLIMIT_AS, &scarce) == 0);
    trace.emplace_sink<cutrace::memory_sink>();
    REQUIRE(setrlimit(RLIMIT_AS, &usual) == 0);
  }
  CHECK(reported.find("runs untraced") != std::string::npos);
  CHECK_FALSE(trace.active());
  trace.emplace_sink<cutrace::memory_sink>();
  CHECK_FALSE(trace.active());
  trace.stop();
  CHECK(trace.stats().produced == 0);
}

TEST_CASE("a session without a trace has no totals of another, neither before its end nor after it") {
  cutrace::session idle(unheard());
  cutrace::session other(traced::quiet());
  other.emplace_sink<cutrace::memory_sink>();
  { CUTRACE_STAGE("the other's"); }
  REQUIRE(other.flush());
  CHECK(other.stats().produced != 0);
  CHECK(idle.stats().produced == 0);
  idle.stop();
  CHECK(idle.stats().produced == 0);
}

TEST_CASE("a session ends, too, where it asks for no totals, as those of older headers") {
  cutrace::session first(traced::quiet());
  first.emplace_sink<cutrace::memory_sink>();
  const cutrace::session_options o = unheard();
  cutrace::detail::session_request r{};
  r.size = sizeof(r);
  r.operation = cutrace::detail::session_operation::begin;
  r.options = &o;
  const cutrace::detail::table* runtime = cutrace::detail::find_runtime();
  REQUIRE(runtime != nullptr);
  REQUIRE(runtime->session_call(&r) == 0);
  r.operation = cutrace::detail::session_operation::end;
  r.totals = nullptr;
  CHECK(runtime->session_call(&r) == 0);
}

TEST_CASE("a trace without a backend names who wanted none: the program, or the environment") {
  struct detail_sink : cutrace::sink {
    std::string detail;
    void open(const cutrace::trace_info& info) override { detail = info.backend_detail; }
    void write(cutrace::event_view) override {}
  };
  cutrace::session_options o = unheard();
  const variable none("CUTRACE_BACKEND", "none");
  for (const char* who : {"session_options::backend", "CUTRACE_BACKEND"}) {
    cutrace::session trace(o);
    CHECK(trace.emplace_sink<detail_sink>().detail == std::string("switched off by ") + who + "=none");
    o.backend = nullptr;
  }
}

}  // namespace session_edges_test
