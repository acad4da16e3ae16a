// SPDX-License-Identifier: Apache-2.0
// What session::on_request_done gives against what the report finds of the same events.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cutrace/analysis/request_watch.hpp>
#include <cutrace/cutrace.hpp>
#include <cutrace/sim/sim_backend.hpp>
#include <cutrace/sinks/make_file_sinks.hpp>
#include <cutrace/sinks/memory.hpp>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "report/trace_analysis.hpp"
#include "support/random_trace.hpp"

namespace request_done_test {

namespace {

using namespace cutrace;
using analysis::request_cost;
using analysis::request_watch;
using analysis::request_watch_limits;
using random_trace::tick;

void check_same(const request_done& reported, const request_cost& found) {
  CHECK(reported.start_ns == found.span.start_ns);
  CHECK(reported.end_ns == found.span.end_ns);
  CHECK(reported.stages == found.stages);
  CHECK(reported.batches == found.batches);
  CHECK(reported.host_ns == found.host_ns);
  CHECK(reported.idle_inside_ns == found.idle_inside_ns);
  CHECK(reported.queue_ns == found.queue_ns);
  CHECK(reported.execution_alone_ns == found.execution_alone_ns);
  CHECK(reported.transfer_alone_ns == found.transfer_alone_ns);
  CHECK(reported.execution_in_batches_ns == found.execution_in_batches_ns);
  CHECK(reported.transfer_in_batches_ns == found.transfer_in_batches_ns);
  CHECK(reported.estimated_share_ns == found.estimated_share_ns);
}

/// The report's numbers, by id.
std::map<std::uint64_t, request_cost> cost_by_report(const std::vector<event>& events) {
  analysis::trace_analysis a;
  for (const event& e : events) a.add(e);
  const analysis::trace_results r = a.finish();
  std::map<std::uint64_t, request_cost> by_id;
  for (const request_cost& c : r.requests) by_id[a.log().stages().request_ids()[c.request]] = c;
  return by_id;
}
void check_all(const std::vector<request_done>& reported, const std::map<std::uint64_t, request_cost>& found) {
  REQUIRE(reported.size() == found.size());
  for (const request_done& r : reported) {
    CAPTURE(r.id);
    REQUIRE(found.count(r.id) == 1);
    check_same(r, found.at(r.id));
  }
}

/// One request: a call from 10 to 20 that launches a kernel of [30, 50), in a stage of [5, stage_end).
struct one_request {
  std::vector<event> events;
  std::vector<request_ref> request;
  explicit one_request(std::uint64_t id, std::int64_t at = 0, std::uint64_t stage = 1, std::int64_t stage_end = 60)
      : request{sample::request_id(id)} {
    const auto in = [&](event e) {
      e = sample::in_stage(e, "decode", stage, request.data(), 1);
      return e;
    };
    events.push_back(in(sample::api("cuLaunchKernel", at + 10, at + 20, 100 + stage)));
    event kernel = in(sample::kernel("work", at + 30, at + 50, 100 + stage));
    kernel.thread_id = sample::main_thread;
    kernel.call_name = sample::text_of("cuLaunchKernel");
    kernel.call_start_ns = at + 10;
    events.push_back(kernel);
    event end = sample::stage("decode", at + 5, at + stage_end, stage);
    end.requests = request.data();
    end.request_count = end.request_total = 1;
    events.push_back(end);
  }
};
event end_mark(const one_request& r, std::int64_t at) {
  event e = sample::mark("request_end", at);
  e.requests = r.request.data();
  e.request_count = e.request_total = 1;
  return e;
}
request_watch_limits quick() {
  request_watch_limits limits;
  limits.settle_ns = 100;
  limits.quiet_ns = 1000;
  limits.missing_ns = 5000;
  limits.give_up_ns = 100000;
  return limits;
}

session_options quiet_session() {
  session_options o;
  o.backend = "none";
  o.sinks = "";
  return o;
}

}  // namespace

TEST_CASE("a request's text is there when it is reported, whatever became of the events") {
  request_watch watch(quick());
  for (int round = 0; round < 2; ++round) {
    one_request r(7, 100000 * round, 1 + static_cast<std::uint64_t>(round));
    std::string name = round == 0 ? "chat-17" : "a longer one, which no small string holds in itself";
    r.request[0].name = {name.data(), static_cast<std::uint32_t>(name.size())};
    for (const event& e : r.events) watch.add(e);
    watch.add(end_mark(r, 100000 * round + 60));
    const std::string expected = name;
    name.assign(name.size(), '?');
    watch.advance(100000 * round + 10000);
    REQUIRE(watch.done().size() == 1);
    CHECK(watch.done()[0].name.data == expected);
    watch.clear_done();
  }
}

TEST_CASE("request_done: a request that a batch names several times counts once, as in the report") {
  one_request step(7);
  std::vector<event> events = step.events;
  const auto served_by = [&](const std::vector<request_ref>& batch) {
    for (event& e : events) {
      e.requests = batch.data();
      e.request_count = e.request_total = static_cast<std::uint32_t>(batch.size());
    }
    request_watch watch(quick());
    for (const event& e : events) watch.add(e);
    watch.finish();
    const std::vector<request_done> done = watch.done();
    const std::map<std::uint64_t, request_cost> costs = cost_by_report(events);
    check_all(done, costs);
    return costs.at(7);
  };
  const request_ref a = sample::request_id(7), b = sample::request_id(8);
  const request_cost alone = served_by({a, a, a});  // its sequences
  CHECK(alone.stages == 1);
  CHECK(alone.batches == 0);
  CHECK(alone.execution_alone_ns == 20);
  CHECK(alone.queue_ns == 10);
  const request_cost shared = served_by({a, b, a});
  CHECK(shared.stages == 1);
  CHECK(shared.execution_in_batches_ns == 20);
  CHECK(shared.queue_ns == 10);
  CHECK(shared.estimated_share_ns == 10);
}

TEST_CASE("a request that a batch names several times counts once in reports, also where an event lacks the list") {
  const std::vector<request_ref> batch(3, sample::request_id(7));
  for (std::size_t without = 0; without < 3; ++without) {
    CAPTURE(without);
    one_request step(7);
    for (event& e : step.events) {
      e.requests = batch.data();
      e.request_total = 3;
      e.request_count = &e == &step.events[without] ? 0 : 3;  // for want of memory
    }
    const request_cost cost = cost_by_report(step.events).at(7);
    CHECK(cost.batches == 0);
    CHECK(cost.execution_alone_ns == 20);
  }
}

TEST_CASE("request_done: a stage counts in full where one of its events lacks the list of requests, as in the report") {
  const std::vector<request_ref> batch = {sample::request_id(7), sample::request_id(8)};
  for (std::size_t without = 0; without < 3; ++without) {
    CAPTURE(without);
    one_request step(7);
    if (without == 0) std::swap(step.events[0], step.events[1]);  // some event with the list comes before
    for (event& e : step.events) {
      e.requests = batch.data();
      e.request_total = 2;
      e.request_count = &e == &step.events[std::max<std::size_t>(without, 1)] ? 0 : 2;  // for want of memory
    }
    request_watch watch(quick());
    for (const event& e : step.events) watch.add(e);
    watch.finish();
    REQUIRE(watch.done().size() == 2);
    CHECK(watch.done()[0].host_ns == 55);
    CHECK(watch.done()[0].queue_ns == 10);
    CHECK(watch.done()[0].exact());
    check_all(watch.done(), cost_by_report(step.events));
  }
}

TEST_CASE("request_done: of random traces the same numbers as the report's, whenever stages settle") {
  for (std::uint32_t seed = 1; seed <= 400; ++seed) {
    CAPTURE(seed);
    random_trace::trace truth = random_trace::make(seed);
    std::map<std::uint64_t, bool> untimed;  // requests with work that has no times
    if (seed % 5 == 0)
      for (std::size_t i = 0; i < truth.events.size(); i += 3) {
        event& e = truth.events[i];
        e.incomplete = e.is_gpu_work();
        for (std::uint32_t k = 0; e.incomplete && k < e.request_count; ++k) untimed[e.requests[k].id] = true;
      }
    request_watch_limits limits;
    // Kernels take up to 60 ticks and begin up to 90 after their call. With every third seed all settle at the end.
    limits.settle_ns = seed % 3 == 0 ? INT64_MAX / 4 : 320 * tick;
    limits.quiet_ns = limits.give_up_ns = INT64_MAX / 4;
    request_watch watch(limits);
    std::int64_t horizon = 0;
    for (const event& e : truth.events) {
      watch.add(e);
      horizon = std::max(horizon, e.end_ns);
      watch.advance(horizon);
    }
    watch.finish();
    for (const request_done& r : watch.done()) {
      REQUIRE_FALSE(r.approximate);
      REQUIRE((untimed.count(r.id) == 0 || r.work_missing));
    }
    check_all(watch.done(), cost_by_report(truth.events));
  }
}

TEST_CASE("request_done: reported once, when its work has retired") {
  const one_request r(7);
  request_watch watch(quick());
  for (const event& e : r.events) watch.add(e);
  SUBCASE("after the mark request_end, as soon as its stages have settled") {
    watch.add(end_mark(r, 60));
    watch.advance(140);
    CHECK(watch.done().empty());
    watch.advance(160);
    REQUIRE(watch.done().size() == 1);
  }
  SUBCASE("without the mark after quiet_ns") {
    watch.advance(1000);
    CHECK(watch.done().empty());
    watch.advance(1060);
    REQUIRE(watch.done().size() == 1);
  }
  SUBCASE("at the end of the trace") {
    watch.finish();
    REQUIRE(watch.done().size() == 1);
  }
  const request_done d = watch.done()[0];
  CHECK(d.id == 7);
  CHECK(d.wall_ns() == 55);
  CHECK(d.host_ns == 55);
  CHECK(d.idle_inside_ns == 35);
  CHECK(d.queue_ns == 10);
  CHECK(d.execution_alone_ns == 20);
  CHECK(d.estimated_share_ns == 0);
  CHECK(d.exact());
  watch.finish();
  CHECK(watch.done().size() == 1);
}

TEST_CASE("request_done: those that are done at once come by their end") {
  std::vector<std::uint64_t> expected;
  request_watch watch;
  for (std::uint64_t i = 0; i < 64; ++i) {
    const std::uint64_t id = (i * 37 + 11) % 64;
    expected.push_back(id);
    const one_request r(id, static_cast<std::int64_t>(i) * 100, i + 1, static_cast<std::int64_t>(i) * 100 + 60);
    for (const event& e : r.events) watch.add(e);
  }
  watch.finish();
  std::vector<std::uint64_t> order;
  for (const request_done& d : watch.done()) order.push_back(d.id);
  CHECK(order == expected);
}

TEST_CASE("request_done: a launch whose kernel has not come is waited for, then called missing") {
  const one_request first(1), second(2, 1000, 2);
  request_watch watch(quick());
  for (const event& e : first.events) watch.add(e);  // so that the GPU is known to be traced
  watch.add(second.events[0]);
  watch.add(second.events[2]);
  watch.add(end_mark(second, 1060));
  watch.advance(3000);
  REQUIRE(watch.done().size() == 1);
  CHECK(watch.done()[0].id == 1);
  CHECK(watch.open_requests() == 1);
  SUBCASE("it comes") {
    watch.add(second.events[1]);
    watch.advance(3500);
    REQUIRE(watch.done().size() == 2);
    CHECK(watch.done()[1].execution_alone_ns == 20);
    CHECK(watch.done()[1].exact());
  }
  SUBCASE("it does not") {
    watch.advance(1060 + 5000);
    REQUIRE(watch.done().size() == 2);
    CHECK(watch.done()[1].work_missing);
    CHECK_FALSE(watch.done()[1].exact());
  }
}

TEST_CASE("request_done: an id that comes back is another request, what comes too late is counted") {
  const one_request first(9), again(9, 5000, 2);
  request_watch watch(quick());
  for (const event& e : first.events) watch.add(e);
  watch.advance(2000);
  REQUIRE(watch.done().size() == 1);
  watch.add(first.events[1]);
  CHECK(watch.too_late() == 1);
  CHECK(watch.open_requests() == 0);
  for (const event& e : again.events) watch.add(e);
  watch.finish();
  REQUIRE(watch.done().size() == 2);
  CHECK(watch.done()[1].start_ns == 5005);
  CHECK(watch.done()[1].execution_alone_ns == 20);
}

TEST_CASE("request_done: a request that comes too late, named several times by a batch, counts once") {
  one_request first(9), step(8, 20, 2);
  request_watch watch(quick());
  for (const event& e : first.events) watch.add(e);
  watch.advance(2000);
  REQUIRE(watch.done().size() == 1);
  const std::vector<request_ref> batch = {sample::request_id(9), sample::request_id(8), sample::request_id(9)};
  for (event& e : step.events) {
    e.requests = batch.data();
    e.request_count = e.request_total = 3;
    watch.add(e);
  }
  CHECK(watch.too_late() == 1);
  watch.finish();
  REQUIRE(watch.done().size() == 2);
  CHECK(watch.done()[1].estimated_share_ns == 10);  // of two requests
}

TEST_CASE("request_done: losses while it was open, late events, stages that never end") {
  const one_request r(3);
  request_watch watch(quick());
  event loss = sample::base(event_kind::loss, "lost records", 1, 1);
  loss.loss = loss_data{loss_cause::chunk_full, 5};
  watch.add(loss);  // before it began
  watch.add(r.events[0]);
  loss.loss.count = 2;
  watch.add(loss);
  event late = r.events[1];
  late.late = true;
  watch.add(late);
  SUBCASE("given up") {
    watch.advance(50 + 100000);
    watch.advance(50 + 200000);
  }
  SUBCASE("or the trace ends first") { watch.finish(); }
  REQUIRE(watch.done().size() == 1);
  const request_done d = watch.done()[0];
  CHECK(d.lost == 2);
  CHECK(d.late == 1);
  CHECK(d.unfinished);
  CHECK(d.stages == 1);
  CHECK(d.execution_alone_ns == 20);
  CHECK(d.start_ns == 50);
  CHECK(d.end_ns == 50);
}

TEST_CASE("request_done: of a stage that reaches over a pause the numbers are approximate") {
  // Each stage lies at [5, 60): in one window, in windows without a pause between, over a pause of which the second
  // window is known or still open, behind all windows.
  struct recorded {
    std::vector<analysis::interval> windows;
    bool exact;
  };
  const std::vector<recorded> cases = {{{{0, 100}}, true},
                                       {{{0, 30}, {30, 100}}, true},
                                       {{{0, 30}, {40, 100}}, false},
                                       {{{0, 30}}, false},
                                       {{{1, 3}}, true},
                                       {{}, true}};
  for (const recorded& c : cases) {
    request_watch watch(quick());
    one_request r(7);
    for (const analysis::interval w : c.windows)
      watch.add(sample::base(event_kind::window, "recorded", w.start_ns, w.end_ns));
    for (const event& e : r.events) watch.add(e);
    watch.add(end_mark(r, 60));
    watch.advance(10000);
    REQUIRE(watch.done().size() == 1);
    CAPTURE(c.windows.size());
    CHECK(watch.done()[0].approximate == !c.exact);
    CHECK(watch.done()[0].exact() == c.exact);
  }
}

TEST_CASE("request_done: memory is bounded, whatever never ends is reported early") {
  request_watch_limits limits = quick();
  limits.requests = 64;
  limits.stages = 32;
  limits.calls = 256;
  limits.launches = 16;
  request_watch watch(limits);
  constexpr std::uint64_t count = 5000;
  for (std::uint64_t n = 1; n <= count; ++n) {
    const one_request r(n, static_cast<std::int64_t>(n) * 10, n);
    watch.add(r.events[0]);
    watch.add(r.events[1]);  // and no end
    REQUIRE(watch.open_requests() <= 64);
    REQUIRE(watch.open_stages() <= 32);
  }
  watch.finish();
  REQUIRE(watch.done().size() == count);
  for (const request_done& d : watch.done()) CHECK(d.unfinished);
}

TEST_CASE("request_done: a session calls the program's function with the report's numbers of its own trace") {
  std::vector<request_done> reported;
  std::map<std::uint64_t, request_cost> found;
  {
    sim::gpu gpu;
    sim::sim_backend backend(gpu);
    session trace(quiet_session());
    memory_sink& all = trace.emplace_sink<memory_sink>();
    trace.on_request_done(
        [](const request_done& r, void* to) { static_cast<std::vector<request_done>*>(to)->push_back(r); }, &reported);
    trace.add_backend(backend);
    sim::stream& stream = gpu.create_stream();
    const std::uint64_t memory = gpu.allocate(1 << 16);
    REQUIRE(memory != 0);
    const std::vector<char> host(1 << 16);
    const std::uint64_t ids[] = {11, 12, 13};
    for (const std::uint64_t id : ids) {
      CUTRACE_STAGE("prefill", id);
      gpu.copy_in(stream, memory, host.data(), host.size());
      gpu.launch(stream, "prefill_kernel", {8, 1, 1}, {32, 1, 1}, 200000, 0);
      gpu.synchronize(stream);
    }
    for (int step = 0; step < 5; ++step) {
      CUTRACE_STAGE_BATCH("decode", ids, 3);
      for (int k = 0; k < 4; ++k) gpu.launch(stream, "decode_kernel", {8, 1, 1}, {32, 1, 1}, 50000, 0);
      gpu.synchronize(stream);
    }
    CUTRACE_MARK("request_end", std::uint64_t{12});
    trace.flush();
    trace.stop();
    found = cost_by_report(all.events());
  }
  check_all(reported, found);
  for (const request_done& r : reported) {
    CHECK(r.exact());
    CHECK(r.execution_alone_ns > 0);
    CHECK(r.execution_in_batches_ns > 0);
    CHECK(r.batches == 5);
    CHECK(r.estimated_share_ns < r.execution_in_batches_ns);
  }
}

TEST_CASE("request_done: a function that throws loses that request alone, and the trace goes on") {
  static int calls = 0;
  calls = 0;
  std::vector<std::string> errors;
  session_options o = quiet_session();
  o.on_error = [](const char*, const char* message, void* to) {
    static_cast<std::vector<std::string>*>(to)->push_back(message);
  };
  o.on_error_user = &errors;
  session trace(o);
  memory_sink& all = trace.emplace_sink<memory_sink>();
  trace.on_request_done([](const request_done& r, void*) {
    ++calls;
    if (r.id == 2) throw std::runtime_error("no room in the table");
  });
  for (std::uint64_t id = 1; id <= 3; ++id) CUTRACE_STAGE("step", id);
  trace.stop();
  CHECK(calls == 3);
  const stats s = trace.stats();
  REQUIRE(s.sink_count == 2);
  CHECK(std::string(s.sinks[1].name) == "on_request_done");
  CHECK(s.sinks[1].lost == 1);
  CHECK_FALSE(s.sinks[1].failed);
  CHECK(s.sinks[1].delivered == s.sinks[1].written + s.sinks[1].lost);
  CHECK(s.sinks[0].lost == 0);
  CHECK(all.events().size() >= 3);
  REQUIRE(errors.size() == 1);
  CHECK(errors[0].find("no room in the table") != std::string::npos);
}

TEST_CASE("request_done: without a function it is a mistake, and said so") {
  session trace(quiet_session());
  CHECK_THROWS_AS(trace.on_request_done(nullptr), config_error);
}

}  // namespace request_done_test
