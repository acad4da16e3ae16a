// SPDX-License-Identifier: Apache-2.0
// The stage of a graph node's capture: what threads say in any order, what updates change, and that nothing grows.
#include <doctest/doctest.h>

#include <cutrace/collect/graph_table.hpp>
#include <string>

namespace graph_table_test {

using cutrace::text;
using cutrace::detail::graph_table;

namespace {

std::uint64_t node(std::uint64_t graph, std::uint32_t index) { return graph << 32 | index; }
text named(const char* s) { return {s, static_cast<std::uint32_t>(std::string(s).size())}; }

std::string name_of(const graph_table& t, std::uint64_t n, std::int64_t at = 1000) {
  const graph_table::capture* c = t.find(n, at);
  return c != nullptr ? c->name : "";
}

}  // namespace

TEST_CASE("a clone's node has the stage of its origin, whoever is heard first") {
  graph_table t;
  CHECK(t.empty());
  t.added(node(1, 0), 7, named("capture"));
  t.copied(node(2, 0), node(1, 0));
  CHECK(name_of(t, node(2, 0)) == "capture");
  t.copied(node(3, 5), node(4, 1));  // what graph 4 is comes later, from another thread
  CHECK(name_of(t, node(3, 5)).empty());
  t.added(node(4, 1), 8, named("elsewhere"));
  CHECK(name_of(t, node(3, 5)) == "elsewhere");
  CHECK(t.find(node(3, 5), 0)->stage == 8);
  CHECK(t.find(node(3, 4), 0) == nullptr);
  CHECK(t.find(node(9, 0), 0) == nullptr);
}

TEST_CASE("an instance's node is created inside of a stage, then reported as a clone: the clone counts") {
  graph_table t;
  t.added(node(1, 0), 7, named("capture"));
  t.added(node(2, 0), 9, named("instantiate"));
  t.copied(node(2, 0), node(1, 0));
  CHECK(name_of(t, node(2, 0)) == "capture");
  t.added(node(2, 1), 9, named("instantiate"));
  t.copied(node(2, 1), node(1, 1));  // its origin was captured outside of any stage
  CHECK(name_of(t, node(2, 1)).empty());
}

TEST_CASE("an update holds from its time on, also when the updating graph is gone or reported late") {
  graph_table t;
  t.added(node(1, 0), 7, named("one"));
  t.copied(node(2, 0), node(1, 0));
  t.updated(2, 3, 100);
  t.updated(2, 4, 200);
  t.added(node(4, 0), 12, named("three"));
  t.added(node(3, 0), 11, named("two"));
  t.gone(3);
  CHECK(name_of(t, node(2, 0), 99) == "one");
  CHECK(name_of(t, node(2, 0), 100) == "two");
  CHECK(name_of(t, node(2, 0), 199) == "two");
  CHECK(name_of(t, node(2, 0), 200) == "three");
  t.updated(2, 3, 150);  // heard late
  CHECK(name_of(t, node(2, 0), 160) == "two");
  CHECK(name_of(t, node(2, 0), 300) == "three");
}

TEST_CASE("nodes of a child graph keep their stage; after an update of the whole graph it is not known") {
  graph_table t;
  t.added(node(1, 0), 7, named("outer"));
  t.copied(node(10, 0), node(1, 0));
  t.added(node(2, 0), 8, named("inner"));
  t.copied(node(11, 0), node(2, 0));   // clone of the child graph
  t.copied(node(10, 3), node(11, 0));  // which moves into the instance
  CHECK(name_of(t, node(10, 3)) == "inner");
  t.added(node(5, 0), 9, named("newer"));
  t.updated(10, 5, 100);
  CHECK(name_of(t, node(10, 0), 100) == "newer");
  CHECK(name_of(t, node(10, 3), 100).empty());
  CHECK(name_of(t, node(10, 3), 99) == "inner");
}

TEST_CASE("the stage of a whole graph is that of all its nodes") {
  graph_table t;
  for (std::uint32_t i = 0; i < 4; ++i) t.added(node(1, i), 7, named("capture"));
  t.copied(node(2, 0), node(1, 0));
  t.copied(node(2, 1), node(1, 1));
  REQUIRE(t.find_common(2, 0) != nullptr);
  CHECK(t.find_common(2, 0)->stage == 7);
  t.added(node(2, 9), 9, named("the driver's own"));
  REQUIRE(t.find_common(2, 0) != nullptr);
  CHECK(t.find_common(2, 0)->stage == 7);
  t.added(node(1, 2), 8, named("other"));
  t.copied(node(2, 2), node(1, 2));
  CHECK(t.find_common(2, 0) == nullptr);
}

TEST_CASE("graphs that come and go for ever take no memory for ever") {
  graph_table t;
  const auto live = [&t](std::uint32_t first, std::uint32_t graphs) {
    for (std::uint32_t g = first; g < first + graphs; g += 2) {
      for (std::uint32_t i = 0; i < 16; ++i) {
        t.added(node(g, i), g, named("capture"));
        t.copied(node(g + 1, i), node(g, i));
      }
      CHECK(name_of(t, node(g + 1, 15)) == "capture");
      t.gone(g);
      t.gone(g + 1);
    }
  };
  live(1, 20000);
  const std::uint64_t before = t.bytes();
  live(30001, 100000);
  CHECK(t.bytes() <= before + before / 8);
}

TEST_CASE("an executable graph that is updated for ever remembers its last stages") {
  graph_table t;
  t.added(node(1, 0), 1, named("first"));
  t.copied(node(2, 0), node(1, 0));
  std::uint64_t before = 0;
  for (std::uint32_t g = 3; g < 200003; ++g) {
    t.added(node(g, 0), g, named("again"));
    t.updated(2, g, g);
    t.gone(g);
    if (g == 100000) before = t.bytes();
  }
  CHECK(t.find(node(2, 0), 200002)->stage == 200002);
  CHECK(t.find(node(2, 0), 200000)->stage == 200000);
  CHECK(t.find(node(2, 0), 2) == nullptr);  // forgotten, and not mistaken for another
  CHECK(t.bytes() <= before + 4096);
}

TEST_CASE("clones of clones without end, whose origin nobody knows") {
  graph_table t;
  for (std::uint32_t g = 2; g < 100000; ++g) {
    t.copied(node(g, 0), node(g - 1, 0));
    t.gone(g - 1);
  }
  CHECK(t.find(node(99999, 0), 0) == nullptr);
}

TEST_CASE("more nodes than the table takes: the rest has no stage") {
  graph_table t;
  t.added(node(1, graph_table::node_limit - 1), 7, named("last that fits"));
  t.added(node(2, 0), 8, named("beyond"));
  t.added(node(3, 0xffffffffu), 9, named("absurd"));
  CHECK(name_of(t, node(1, graph_table::node_limit - 1)) == "last that fits");
  CHECK(name_of(t, node(2, 0)).empty());
  CHECK(name_of(t, node(3, 0xffffffffu)).empty());
}

}  // namespace graph_table_test
