// SPDX-License-Identifier: Apache-2.0
// The simulated GPU's model: work whose times nobody can compute when it is issued, kernels that fault or never end.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <ostream>  // by which doctest from 2.4.10 on prints what a shared_ptr points to
#include <thread>

#include "../support/manual_gpu.hpp"

namespace sim_stuck_test {

using cutrace::sim::never_ns;
using cutrace::sim::status;
using cutrace::sim::stream;
using cutrace::sim::stream_kind;
using cutrace::sim::value_test;
using cutrace::sim::value_work;
using test_support::manual_gpu;

using issued = cutrace::sim::machine::issued;

issued launch(manual_gpu& g, stream* s, const char* name, std::uint64_t duration_ns) {
  cutrace::sim::kernel_work k;
  k.name = name;
  k.duration_ns = duration_ns;
  return g.machine.issue(s, k);
}

/// Moves the clock in steps of 1 us, so that what is due runs at its time.
void pass(manual_gpu& g, std::uint64_t ns) {
  for (const std::uint64_t end = g.time_ns + ns; g.time_ns < end;) {
    g.time_ns += std::min<std::uint64_t>(1000, end - g.time_ns);
    g.machine.values().run_due();
    g.machine.hosts().run_due();
  }
}

struct with_value : manual_gpu {
  alignas(8) std::uint64_t memory = 0;
  std::uint64_t address = reinterpret_cast<std::uint64_t>(&memory);
  with_value() { machine.pin(&memory, sizeof memory); }
  issued wait(cutrace::sim::stream* s, std::uint64_t value, value_test how = value_test::at_least,
              std::uint32_t bytes = 4) {
    return machine.issue(s, value_work{address, value, bytes, false, how});
  }
  issued write(cutrace::sim::stream* s, std::uint64_t value, std::uint32_t bytes = 4) {
    return machine.issue(s, value_work{address, value, bytes, true, value_test::at_least});
  }
};

TEST_CASE("sim stuck: what is behind a wait for a value goes on once the host writes it") {
  with_value g;
  stream* s = g.stream();
  CHECK(g.wait(s, 3).open != nullptr);
  const issued behind = launch(g, s, "k", 500);
  REQUIRE(behind.open != nullptr);
  pass(g, 5000000);
  CHECK_FALSE(behind.open->known());
  CHECK(g.machine.query(s) == status::not_ready);
  g.memory = 3;
  const std::uint64_t written = g.time_ns;
  pass(g, 2000000);
  REQUIRE(behind.open->known());
  CHECK(behind.open->start_ns >= written);
  CHECK(behind.open->end_ns == behind.open->start_ns + 500);
  CHECK(g.machine.query(s) == status::ok);
  CHECK(launch(g, s, "k", 10).open == nullptr);  // its times are known at once again
}

TEST_CASE("sim stuck: a stream's write comes in its order, and releases another's wait") {
  with_value g;
  stream *a = g.stream(), *b = g.stream();
  g.wait(a, 0x700000007, value_test::equal, 8);
  const issued behind = launch(g, a, "k", 100);
  g.kernel(b, 300000);
  g.write(b, 0x700000007, 8);
  pass(g, 250000);
  CHECK(g.memory == 0);
  CHECK_FALSE(behind.open->known());
  pass(g, 200000);
  CHECK(g.memory == 0x700000007);
  REQUIRE(behind.open->known());
  CHECK(behind.open->start_ns >= 1000000 + 301000);
  CHECK(g.machine.query(a) == status::ok);
  CHECK(g.machine.query(b) == status::ok);
}

TEST_CASE("sim stuck: the four ways to compare a value") {
  struct one {
    value_test how;
    std::uint64_t is, value;
    bool holds;
  };
  for (const one& c :
       {one{value_test::at_least, 5, 5, true}, one{value_test::at_least, 4, 5, false},
        one{value_test::at_least, 1, 0xfffffffeu, true}, one{value_test::equal, 6, 5, false},
        one{value_test::equal, 5, 5, true}, one{value_test::any_bit, 2, 5, false}, one{value_test::any_bit, 4, 5, true},
        one{value_test::nor, 0xf, 0xfffffff0u, false}, one{value_test::nor, 0xe, 0xfffffff0u, true}}) {
    CAPTURE(static_cast<int>(c.how));
    CAPTURE(c.is);
    with_value g;
    g.memory = c.is;
    stream* s = g.stream();
    g.wait(s, c.value, c.how);
    pass(g, 500000);
    CHECK((g.machine.query(s) == status::ok) == c.holds);
  }
  with_value g;
  g.memory = std::uint64_t{1} << 63;
  stream* wide = g.stream();
  g.wait(wide, 1, value_test::at_least, 8);
  pass(g, 500000);
  CHECK(g.machine.query(wide) == status::ok);  // the comparison is cyclic: 2^63 - 1 above 1
  g.memory = 0;
  g.wait(wide, 1, value_test::at_least, 8);
  pass(g, 500000);
  CHECK(g.machine.query(wide) == status::not_ready);
  CHECK(g.machine.issue(g.stream(), value_work{g.address + 2, 0, 4, false, value_test::equal}).what ==
        status::invalid_value);
  std::uint32_t pageable = 0;
  CHECK(g.machine
            .issue(g.stream(), value_work{reinterpret_cast<std::uint64_t>(&pageable), 0, 4, false, value_test::equal})
            .what == status::invalid_value);
}

TEST_CASE("sim stuck: a wait holds back other streams by event and by the legacy stream") {
  with_value g;
  stream *a = g.stream(stream_kind::blocking), *b = g.stream(stream_kind::blocking), *apart = g.stream();
  auto* e = g.machine.create_event(true);
  g.wait(a, 1);
  g.machine.record(e, a);
  CHECK(g.machine.query(e) == status::not_ready);
  g.machine.wait(apart, e);
  const issued by_event = launch(g, apart, "k", 10), by_legacy = launch(g, g.legacy(), "k", 10),
               behind_legacy = launch(g, b, "k", 10);
  for (const issued* i : {&by_event, &by_legacy, &behind_legacy}) REQUIRE(i->open != nullptr);
  CHECK(launch(g, g.stream(), "k", 10).open == nullptr);
  CHECK(g.machine.ask(g.machine.finish(g.context)) == status::not_ready);
  g.machine.destroy_stream(b);  // its work goes on
  g.memory = 1;
  pass(g, 200000);
  CHECK(g.machine.query(e) == status::ok);
  CHECK(by_event.open->start_ns >= 1001000);
  CHECK(behind_legacy.open->start_ns >= by_legacy.open->end_ns);
  CHECK(g.machine.ask(g.machine.finish(g.context)) == status::ok);
}

TEST_CASE("sim stuck: a host function that has not returned holds back what is behind it") {
  manual_gpu g;
  stream* s = g.stream();
  static manual_gpu* gpu = nullptr;
  static std::uint64_t copied = 0, returned = 0;
  gpu = &g;
  static std::uint64_t source = 1;
  g.machine.pin(&source, sizeof source);
  g.machine.pin(&copied, sizeof copied);
  g.machine.issue(s, cutrace::sim::host_work{[](void*) {
                                               gpu->time_ns += 700000;
                                               source = 42;
                                               returned = gpu->time_ns;
                                             },
                                             nullptr});
  const std::uint64_t device = g.machine.allocate(0, 8);
  g.copy(s, device, &source, 8);
  g.copy_out(s, &copied, device, 8);
  const issued behind = launch(g, s, "k", 50);
  pass(g, 900000);
  CHECK(returned != 0);
  CHECK(copied == 42);  // what the host function wrote
  CHECK(behind.open->start_ns >= returned);
}

TEST_CASE("sim stuck: a kernel without end, launched or in a graph") {
  manual_gpu g;
  g.machine.set_kernel_faults({{"spin", 0, 2}}, 1000);
  stream *s = g.stream(), *other = g.stream();
  CHECK(launch(g, s, "spin", 10).open == nullptr);  // the first of that name
  const issued endless = launch(g, s, "spin", 10), behind = launch(g, s, "k", 10);
  pass(g, 50000000);
  CHECK(endless.open->start_ns == 1000000 + 1010);
  CHECK_FALSE(endless.open->known());
  CHECK(behind.open->start_ns == never_ns);
  CHECK(g.machine.query(s) == status::not_ready);
  CHECK(g.machine.query(other) == status::ok);

  g.machine.set_kernel_faults({{"node", 0, 1}}, 1000);
  auto* graph = g.machine.create_graph();
  cutrace::sim::kernel_work k;
  k.duration_ns = 100;
  cutrace::sim::graph_node* last = nullptr;
  for (const char* name : {"before", "node", "after"}) {
    k.name = name;
    last = g.machine.add_node(
        graph, k,
        last != nullptr ? std::vector<cutrace::sim::graph_node*>{last} : std::vector<cutrace::sim::graph_node*>{});
  }
  auto* exec = g.machine.instantiate(graph);
  const auto r = g.machine.launch(exec, other), again = g.machine.launch(exec, g.stream());
  CHECK(r.nodes[0].open == nullptr);
  CHECK(r.nodes[1].open->start_ns == r.nodes[0].time.end_ns + 100);
  REQUIRE(r.open != nullptr);
  REQUIRE(again.open != nullptr);  // replays of one instance never overlap
  pass(g, 1000000);
  CHECK_FALSE(r.open->known());
  CHECK(again.nodes[0].open->start_ns == never_ns);
}

TEST_CASE("sim stuck: a graph behind a wait spans its nodes") {
  with_value g;
  auto* graph = g.machine.create_graph();
  cutrace::sim::kernel_work k;
  k.duration_ns = 100;
  auto* first = g.machine.add_node(graph, k, {});
  g.machine.add_node(graph, k, {first});
  auto* exec = g.machine.instantiate(graph);
  stream* s = g.stream();
  g.wait(s, 1);
  const auto r = g.machine.launch(exec, s);
  g.memory = 1;
  pass(g, 100000);
  REQUIRE(r.open->known());
  CHECK(r.open->start_ns == r.nodes[0].open->start_ns);
  CHECK(r.nodes[1].open->start_ns == r.nodes[0].open->end_ns + 100);
  CHECK(r.open->end_ns == r.nodes[1].open->end_ns);
}

TEST_CASE("sim stuck: a fault loses the context: what had ended stays, nothing else ends, calls get the code later") {
  manual_gpu g;
  g.machine.set_kernel_faults({{"bad", 700, 1}}, 60000);
  stream *s = g.stream(), *other = g.stream(), *late = g.stream();
  launch(g, other, "k", 9000);
  CHECK(launch(g, late, "k", 4000).open == nullptr);  // its end is known, and never comes
  auto* before = g.machine.create_event(true);
  launch(g, s, "k", 2000);
  g.machine.record(before, s);
  const issued bad = launch(g, s, "bad", 10);
  int runs = 0;
  g.machine.issue(other, cutrace::sim::host_work{[](void* p) { ++*static_cast<int*>(p); }, &runs});
  CHECK(g.context->lost->at_ns == 1000000 + 3000);
  CHECK(bad.open->start_ns == 1000000 + 3000);
  pass(g, 20000);
  CHECK(g.machine.query(before) == status::ok);
  CHECK(g.machine.query(s) == status::not_ready);
  CHECK(g.machine.query(late) == status::not_ready);
  CHECK(g.machine.query(other) == status::not_ready);  // would have ended after 10,000 ns
  CHECK(runs == 0);
  pass(g, 60000);
  CHECK(g.machine.query(before) == status::context_lost);
  CHECK(g.machine.query(other) == status::context_lost);
  CHECK(g.context->lost->code == 700);
  auto* fresh = g.machine.create_context(0, true, 0);
  CHECK(g.machine.query(g.machine.create_stream(fresh, stream_kind::non_blocking, 0)) == status::ok);
}

TEST_CASE("sim stuck: calls that wait already go on when a value comes, or fail when the context is lost") {
  cutrace::sim::options o;
  cutrace::sim::machine m(o);
  auto* c = m.create_context(0, true, 0);
  auto* s = m.create_stream(c, stream_kind::non_blocking, 0);
  auto* other = m.create_stream(c, stream_kind::non_blocking, 0);
  alignas(8) static std::uint64_t memory = 0;
  m.pin(&memory, sizeof memory);
  m.set_kernel_faults({{"bad", 719, 1}}, 5000000);
  m.issue(s, value_work{reinterpret_cast<std::uint64_t>(&memory), 1, 8, false, value_test::equal});
  status first = status::ok, second = status::ok;
  std::atomic<bool> went_on{false};
  std::thread waits([&] {
    first = m.await(m.finish(s));
    went_on = true;
    m.issue(s, value_work{reinterpret_cast<std::uint64_t>(&memory), 2, 8, false, value_test::equal});
    second = m.await(m.finish(s));
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  m.issue(other, value_work{reinterpret_cast<std::uint64_t>(&memory), 1, 8, true, value_test::equal});
  while (!went_on) std::this_thread::sleep_for(std::chrono::milliseconds(1));  // or the context is lost before
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  cutrace::sim::kernel_work bad;
  bad.name = "bad";
  m.issue(other, bad);
  waits.join();
  CHECK(first == status::ok);
  CHECK(second == status::context_lost);
}

}  // namespace sim_stuck_test
