// SPDX-License-Identifier: Apache-2.0
// GPU work that a forced flush returned unfinished: what shows that it has ended, and what it keeps until then.
#include <doctest/doctest.h>

#include <cstdint>
#include <cutrace/backend.hpp>
#include <cutrace/cutrace.hpp>
#include <cutrace/sinks/memory.hpp>
#include <optional>
#include <string>
#include <vector>

namespace unfinished_work_test {

namespace {

using cutrace::event;
using cutrace::event_kind;
using cutrace::sync_kind;

/// Makes calls that launch, and hands over the records that the test makes of them.
struct probe_backend : cutrace::backend {
  cutrace::event_writer* writer = nullptr;
  std::vector<event> records;
  std::uint32_t last_id = 0;

  const char* name() const noexcept override { return "probe"; }
  cutrace::backend_status start(cutrace::event_writer& w) override {
    writer = &w;
    const cutrace::function_info launch{"cuLaunchKernel", nullptr, 0, cutrace::copy_direction::unknown, -1, true};
    w.name_function(1, false, launch);
    return {true, "described by the test"};
  }
  bool flush(std::uint32_t) noexcept override { return true; }
  bool stop(std::uint32_t) noexcept override { return true; }

  std::int64_t now() const { return static_cast<std::int64_t>(writer->raw_ns(writer->ticks())); }

  /// @returns its correlation id
  std::uint32_t launch() {
    const std::uint32_t id = ++last_id;
    cutrace::api_call c{};
    c.function = 1;
    c.correlation = id;
    c.stage = cutrace::api_call::stage_of_thread;
    c.begin_ticks = writer->begin_call(1, id, true);
    writer->end_call(c);
    return id;
  }
  static event work(std::uint32_t id, std::uint32_t context, std::uint64_t stream) {
    event e;
    e.kind = event_kind::kernel;
    e.correlation_id = id;
    e.context = context;
    e.stream = stream;
    return e;
  }
  void unfinished(std::uint32_t id, std::uint32_t context, std::uint64_t stream) {
    event e = work(id, context, stream);
    e.incomplete = true;
    records.push_back(e);
  }
  std::int64_t complete(std::uint32_t id, std::uint32_t context, std::uint64_t stream) {
    event e = work(id, context, stream);
    e.start_ns = now();
    e.end_ns = e.start_ns + 10;
    records.push_back(e);
    return e.start_ns;
  }
  std::int64_t waited(std::uint32_t id, sync_kind what, std::uint32_t context, std::uint64_t stream) {
    event e = work(id, context, stream);
    e.kind = event_kind::sync;
    e.sync = {what, 0};
    e.end_ns = now();
    e.start_ns = e.end_ns - 5;
    records.push_back(e);
    return e.end_ns;
  }
  void hand_over() {
    cutrace::activity_buffer b{};
    b.owner = this;
    b.decode = [](const cutrace::activity_buffer& one, cutrace::event_emitter& to) {
      for (const event& e : static_cast<probe_backend*>(one.owner)->records) to.emit(e);
    };
    b.release = [](const cutrace::activity_buffer&) {};
    REQUIRE(writer->submit(b));
  }
};

cutrace::session_options quiet(std::size_t memory = 0) {
  cutrace::session_options o;
  o.backend = "none";
  o.sinks = "null";
  o.memory_limit_bytes = memory;
  return o;
}

struct run {
  cutrace::session trace;
  cutrace::memory_sink& sink;
  probe_backend backend;
  explicit run(std::size_t memory = 0) : trace(quiet(memory)), sink(trace.emplace_sink<cutrace::memory_sink>()) {
    trace.add_backend(backend);
  }
  /// The kernel that the call with this correlation id launched, if the sink has received it.
  std::optional<event> of(std::uint32_t id) const {
    for (const event& e : sink.events())
      if (e.kind == event_kind::kernel && (e.correlation_id & 0xffffffffu) == id) return e;
    return std::nullopt;
  }
  /// Hands over the records made so far, and has them delivered.
  void deliver() {
    backend.hand_over();
    REQUIRE(trace.flush());
    backend.records.clear();
  }
  std::uint64_t incomplete() const {
    return trace.stats().quality_of[static_cast<std::size_t>(cutrace::quality::incomplete)];
  }
};

}  // namespace

TEST_CASE("unfinished work: lasts from its call to the begin of the next work on its stream") {
  run r;
  const std::uint32_t before = r.backend.launch(), a = r.backend.launch(), b = r.backend.launch();
  r.backend.unfinished(a, 1, 7);
  r.backend.unfinished(b, 1, 7);
  r.backend.complete(before, 1, 7);  // was launched before them
  r.deliver();
  CHECK(r.of(before));
  CHECK_FALSE(r.of(a));
  CHECK(r.trace.stats().pending == 2);
  const std::uint32_t elsewhere = r.backend.launch(), other_context = r.backend.launch();
  r.backend.complete(elsewhere, 1, 8);
  r.backend.complete(other_context, 2, 7);
  r.deliver();
  CHECK_FALSE(r.of(a));
  const std::uint32_t next = r.backend.launch();
  r.backend.complete(next, 1, 7);
  r.deliver();
  const std::optional<event> first = r.of(a), second = r.of(b), last = r.of(next);
  REQUIRE((first && second && last));
  for (const event* e : {&*first, &*second}) {
    CHECK(e->incomplete);
    CHECK(e->start_ns == e->call_start_ns);
    CHECK(e->end_ns == last->start_ns);
    CHECK(e->duration_ns() > 0);
    CHECK(std::string(e->call_name.data) == "cuLaunchKernel");
  }
  CHECK(first->start_ns < second->start_ns);
  CHECK_FALSE(last->incomplete);
  CHECK(r.incomplete() == 2);
  r.trace.stop();
  CHECK(r.trace.stats().produced == r.trace.stats().delivered);
}

TEST_CASE("unfinished work: a wait that returned shows that what was launched before it has ended") {
  for (const sync_kind what : {sync_kind::stream, sync_kind::context}) {
    run r;
    const std::uint32_t a = r.backend.launch(), b = r.backend.launch(), waiting = r.backend.launch();
    const std::uint32_t later = r.backend.launch();
    r.backend.unfinished(a, 1, 7);
    r.backend.unfinished(b, 1, 8);
    r.backend.unfinished(later, 1, 7);
    r.backend.waited(waiting, sync_kind::stream_wait_event, 1, 7);  // the stream waits, not the host
    r.backend.waited(waiting, sync_kind::stream, 2, 7);
    r.deliver();
    CHECK_FALSE(r.of(a));
    r.backend.waited(waiting, what, 1, 7);
    r.deliver();
    REQUIRE(r.of(a));
    std::optional<event> sync;
    for (const event& e : r.sink.events())
      if (e.kind == event_kind::sync) sync = e;
    REQUIRE(sync);
    CHECK(r.of(a)->end_ns == sync->end_ns);
    CHECK(r.of(b).has_value() == (what == sync_kind::context));
    CHECK_FALSE(r.of(later));
    r.trace.stop();
    REQUIRE(r.of(later));
    CHECK(r.of(later)->end_ns > sync->end_ns);
    CHECK(r.incomplete() == 3);
  }
}

TEST_CASE("unfinished work: keeps its stage and requests while others come and go") {
  run r(std::size_t{4} << 20);
  std::uint32_t endless = 0;
  const std::vector<std::uint64_t> requests = {5, 6, 7};
  {
    CUTRACE_STAGE_BATCH("endless", requests.data(), requests.size());
    endless = r.backend.launch();
  }
  r.backend.unfinished(endless, 1, 7);
  r.deliver();
  for (int i = 0; i < 20000; ++i) {
    CUTRACE_STAGE_BATCH("short", requests.data(), requests.size());
    if (i % 1000 == 0) REQUIRE(r.trace.flush());
  }
  r.trace.stop();
  const std::optional<event> e = r.of(endless);
  REQUIRE(e);
  CHECK(e->incomplete);
  CHECK(std::string(e->stage_name.data, e->stage_name.size) == "endless");
  REQUIRE(e->request_count == 3);
  CHECK(e->requests[2].id == 7);
  CHECK(r.trace.stats().lacking == 0);
}

TEST_CASE("unfinished work: more than there is memory for is delivered at once") {
  run r(std::size_t{4} << 20);
  const std::uint64_t before = r.trace.stats().memory_bytes;
  constexpr std::uint32_t all = 5000;
  for (std::uint32_t i = 0; i < all; ++i) r.backend.unfinished(r.backend.launch(), 1, i);
  r.deliver();
  const std::uint64_t at_once = r.incomplete();
  CHECK(at_once > 0);
  CHECK(at_once < all);
  CHECK(r.trace.stats().pending == all - at_once);
  CHECK(r.trace.stats().memory_bytes < before + (std::uint64_t{2} << 20));
  r.trace.stop();
  CHECK(r.incomplete() == all);
  CHECK(r.trace.stats().produced == r.trace.stats().delivered + r.trace.stats().lost_total());
}

}  // namespace unfinished_work_test
