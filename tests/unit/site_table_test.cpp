// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cutrace/collect/site_table.hpp>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace site_table_test {

using cutrace::detail::site_kind;
using cutrace::detail::site_table;

TEST_CASE("a site keeps its id, and different sites have different ones") {
  site_table t;
  const std::uint32_t a = t.add(0, "decode", 6, "server.cpp", 10);
  CHECK(t.add(0, "decode", 6, "server.cpp", 10) == a);
  CHECK(t.add(0, "decode", 6, "server.cpp", 11) != a);
  CHECK(t.add(0, "prefill", 7, "server.cpp", 10) != a);
  CHECK(std::string(t.at(a).name.data) == "decode");
  CHECK(t.at(a).line == 10);
}

TEST_CASE("counters of one name are one counter, wherever they stand") {
  site_table t;
  cutrace::detail::site a{{0}, site_kind::counter, "tokens", "a.cpp", 1, {nullptr}};
  cutrace::detail::site b{{0}, site_kind::counter, "tokens", "b.cpp", 2, {nullptr}};
  cutrace::detail::site g{{0}, site_kind::gauge, "tokens", "b.cpp", 2, {nullptr}};
  t.add(a);
  t.add(b);
  t.add(g);
  CHECK(a.cell.load() == b.cell.load());
  CHECK(a.cell.load() != g.cell.load());
  a.cell.load()->fetch_add(3);
  int seen = 0;
  t.for_each_counter([&](site_table::entry& e) { seen += static_cast<int>(e.cell.load()); });
  CHECK(seen == 3);
}

TEST_CASE("many threads that meet the same sites agree on their ids") {
  site_table t;
  constexpr int threads = 8, sites = 300;
  std::vector<std::vector<std::uint32_t>> ids(threads, std::vector<std::uint32_t>(sites));
  std::vector<std::thread> all;
  for (int k = 0; k < threads; ++k)
    all.emplace_back([&, k] {
      for (int i = 0; i < sites; ++i) {
        const std::string name = "site " + std::to_string(i);
        ids[static_cast<std::size_t>(k)][static_cast<std::size_t>(i)] = t.add(0, name.data(), name.size(), "f.cpp", 1);
      }
    });
  for (std::thread& one : all) one.join();
  for (int k = 1; k < threads; ++k) CHECK(ids[static_cast<std::size_t>(k)] == ids[0]);
  CHECK(std::set<std::uint32_t>(ids[0].begin(), ids[0].end()).size() == sites);
}

TEST_CASE("a full table says so instead of failing") {
  site_table t;
  std::uint32_t last = 0;
  for (int i = 0; i < 10000; ++i) {
    const std::string name = std::to_string(i);
    last = t.add(0, name.data(), name.size(), "f.cpp", 1);
  }
  CHECK(last == site_table::full_id);
  CHECK(std::string(t.at(last).name.data) == "(too many call sites)");
  CHECK(std::string(t.at(t.add(0, "7", 1, "f.cpp", 1)).name.data) == "7");  // known ones stay
}

TEST_CASE("names beyond 16,384 bytes are cut, and an unknown id is readable") {
  site_table t;
  const std::string name(20000, 'x');
  CHECK(t.at(t.add(0, name.data(), name.size(), "f.cpp", 1)).name.size == 16384);
  CHECK(t.at(0).name.size > 0);
  CHECK(t.at(0xffffffff).name.size > 0);
}

}  // namespace site_table_test
