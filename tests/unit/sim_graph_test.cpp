// SPDX-License-Identifier: Apache-2.0
// Graphs of the simulated GPU: dependencies, replay, and capture from streams with its errors.
#include <doctest/doctest.h>

#include "../support/manual_gpu.hpp"

namespace sim_graph_test {

using cutrace::sim::graph;
using cutrace::sim::graph_node;
using cutrace::sim::status;
using cutrace::sim::stream_kind;
using test_support::manual_gpu;

namespace {

cutrace::sim::kernel_work kernel(std::uint64_t duration_ns) {
  cutrace::sim::kernel_work k;
  k.name = "k";
  k.duration_ns = duration_ns;
  return k;
}

}  // namespace

TEST_CASE("sim graph: a diamond runs its sides at the same time") {
  manual_gpu g;
  graph* made = g.machine.create_graph();
  graph_node* top = g.machine.add_node(made, kernel(1000), {});
  graph_node* left = g.machine.add_node(made, kernel(300), {top});
  graph_node* right = g.machine.add_node(made, kernel(700), {top});
  graph_node* bottom = g.machine.add_node(made, kernel(50), {left, right});
  REQUIRE(bottom != nullptr);
  auto* exec = g.machine.instantiate(made);
  auto* s = g.stream();
  const auto r = g.machine.launch(exec, s);
  REQUIRE(r.what == status::ok);
  REQUIRE(r.nodes.size() == 4);
  const auto at = [&](std::size_t i) { return r.nodes[i].time.start_ns - g.base(); };
  CHECK(at(0) == 0);
  CHECK(at(1) == 1100);  // 100 ns from node to node
  CHECK(at(2) == 1100);
  CHECK(at(3) == 1900);
  CHECK(r.time.end_ns - g.base() == 1950);
  CHECK(g.kernel(s, 1).start_ns == 1950);  // the stream goes on after the graph
  for (const auto& n : r.nodes) CHECK((n.node->id >> 32) == exec->id());
  CHECK(r.nodes[3].node->origin == bottom);
}

TEST_CASE("sim graph: replays of one instance do not overlap, of two instances they do") {
  manual_gpu g;
  graph* made = g.machine.create_graph();
  g.machine.add_node(made, kernel(1000), {});
  auto* one = g.machine.instantiate(made);
  auto* two = g.machine.instantiate(made);
  CHECK(one->id() != two->id());
  CHECK(g.machine.launch(one, g.stream()).time.start_ns == g.base());
  CHECK(g.machine.launch(one, g.stream()).time.start_ns == g.base() + 1000);
  CHECK(g.machine.launch(two, g.stream()).time.start_ns == g.base());
}

TEST_CASE("sim graph: an instance is independent of later changes") {
  manual_gpu g;
  graph* made = g.machine.create_graph();
  graph_node* n = g.machine.add_node(made, kernel(1000), {});
  auto* exec = g.machine.instantiate(made);
  CHECK(made->remove(n));
  CHECK(g.machine.destroy_graph(made));
  CHECK(g.machine.launch(exec, g.stream()).nodes.size() == 1);
  CHECK(g.machine.destroy_exec(exec));
  CHECK_FALSE(g.machine.alive(exec));
}

TEST_CASE("sim graph: edges make no circles and stay within the graph") {
  manual_gpu g;
  graph* a = g.machine.create_graph();
  graph* b = g.machine.create_graph();
  graph_node* n1 = g.machine.add_node(a, kernel(1), {});
  graph_node* n2 = g.machine.add_node(a, kernel(1), {n1});
  graph_node* n3 = g.machine.add_node(a, kernel(1), {n2});
  graph_node* other = g.machine.add_node(b, kernel(1), {});
  CHECK_FALSE(a->add_edge(n3, n1));
  CHECK_FALSE(a->add_edge(n1, n1));
  CHECK_FALSE(a->add_edge(other, n1));
  CHECK(a->add_edge(n1, n3));
  CHECK(g.machine.add_node(a, kernel(1), {other}) == nullptr);
}

TEST_CASE("sim graph: copies and sets happen at each launch, not before") {
  manual_gpu g;
  unsigned char source = 1, out = 0;
  const std::uint64_t d = g.machine.allocate(0, 1);
  cutrace::sim::copy_work up;
  up.source.address = reinterpret_cast<std::uint64_t>(&source);
  up.destination.address = d;
  up.width_bytes = 1;
  graph* made = g.machine.create_graph();
  REQUIRE(g.machine.add_node(made, up, {}) != nullptr);
  auto* exec = g.machine.instantiate(made);
  g.copy_out(g.stream(), &out, d, 1);
  CHECK(out == 0);
  for (unsigned char v = 5; v < 8; ++v) {
    source = v;
    CHECK(g.machine.launch(exec, g.stream()).what == status::ok);
    g.copy_out(g.stream(), &out, d, 1);
    CHECK(out == v);
  }
}

TEST_CASE("sim capture: work becomes nodes with the order of its streams") {
  manual_gpu g;
  auto* a = g.stream();
  auto* b = g.stream();
  auto* fork = g.machine.create_event(false);
  auto* join = g.machine.create_event(false);
  REQUIRE(g.machine.begin_capture(a) == status::ok);
  graph_node* n1 = g.machine.issue(a, kernel(10)).node;
  REQUIRE(n1 != nullptr);
  CHECK(g.machine.record(fork, a) == status::ok);
  CHECK(g.machine.wait(b, fork) == status::ok);
  graph_node* n2 = g.machine.issue(b, kernel(10)).node;
  graph_node* n3 = g.machine.issue(a, kernel(10)).node;
  CHECK(g.machine.record(join, b) == status::ok);
  CHECK(g.machine.wait(a, join) == status::ok);
  graph_node* n4 = g.machine.issue(a, kernel(10)).node;
  graph* made = nullptr;
  CHECK(g.machine.end_capture(b, made) == status::capture_unmatched);
  REQUIRE(g.machine.end_capture(a, made) == status::ok);
  CHECK(made->nodes().size() == 4);
  CHECK(n2->after == std::vector<graph_node*>{n1});
  CHECK(n3->after == std::vector<graph_node*>{n1});
  CHECK(n4->after == std::vector<graph_node*>{n3, n2});
  CHECK(g.kernel(a, 10).start_ns == 0);  // nothing has run so far
  CHECK(g.kernel(b, 10).start_ns == 0);
}

TEST_CASE("sim capture: what may not be done") {
  manual_gpu g;
  auto* s = g.stream();
  graph* made = nullptr;
  SUBCASE("on the legacy stream") { CHECK(g.machine.begin_capture(g.legacy()) == status::capture_unsupported); }
  SUBCASE("end without begin") { CHECK(g.machine.end_capture(s, made) == status::invalid_value); }
  SUBCASE("a synchronisation breaks it") {
    g.machine.begin_capture(s);
    CHECK(g.machine.finish(s).what == status::capture_unsupported);
    CHECK(g.machine.issue(s, kernel(1)).what == status::capture_invalidated);
    CHECK(g.machine.end_capture(s, made) == status::capture_invalidated);
    CHECK(made == nullptr);
    CHECK(g.kernel(s, 1).start_ns == 0);  // the stream is usable again
  }
  SUBCASE("forked work must be joined") {
    auto* other = g.stream();
    auto* e = g.machine.create_event(false);
    g.machine.begin_capture(s);
    g.machine.issue(s, kernel(1));
    g.machine.record(e, s);
    g.machine.wait(other, e);
    g.machine.issue(other, kernel(1));
    g.machine.issue(s, kernel(1));
    CHECK(g.machine.end_capture(s, made) == status::capture_unjoined);
    CHECK(g.machine.issue(other, kernel(1)).node == nullptr);
  }
  SUBCASE("the legacy stream would wait for a capturing one") {
    auto* blocking = g.stream(stream_kind::blocking);
    g.machine.begin_capture(blocking);
    CHECK(g.machine.issue(g.legacy(), kernel(1)).what == status::capture_implicit);
    CHECK(g.machine.end_capture(blocking, made) == status::ok);
    CHECK(g.machine.issue(g.legacy(), kernel(1)).what == status::ok);
  }
  SUBCASE("an event of an ended capture") {
    auto* e = g.machine.create_event(false);
    g.machine.begin_capture(s);
    g.machine.record(e, s);
    g.machine.end_capture(s, made);
    CHECK(g.machine.wait(s, e) == status::captured_event);
    CHECK(g.machine.finish(e).what == status::captured_event);
  }
}

}  // namespace sim_graph_test
