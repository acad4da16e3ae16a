// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <cutrace/collect/order_window.hpp>
#include <iterator>
#include <random>
#include <set>
#include <utility>
#include <vector>

namespace order_window_test {

using cutrace::detail::order_window;
using cutrace::detail::pending_event;

namespace {
void push(order_window& w, std::int64_t start, std::int64_t end, std::vector<std::uint64_t> words = {}) {
  pending_event& p = w.append(start, end);
  p.words_at = w.add_words(words.data(), words.size());
}
struct taker {
  std::vector<std::int64_t> ends;
  void operator()(order_window::bucket& b) {
    for (const order_window::place& p : b.order) ends.push_back(p.as<pending_event>().end_ns);
  }
};
}  // namespace

TEST_CASE("events of any order leave ordered by their end") {
  std::mt19937 random(7);
  order_window w;
  w.configure(16000000, 64 << 20);
  std::uniform_int_distribution<std::int64_t> when(0, 3000000000);
  for (int i = 0; i < 20000; ++i) {
    const std::int64_t end = when(random);
    push(w, end / 2, end);
  }
  taker t;
  w.advance(1000000000, [&](order_window::bucket& b) { t(b); });
  CHECK(!t.ends.empty());
  CHECK(t.ends.size() < 20000);
  for (const std::int64_t end : t.ends) CHECK(end < 1000000000 + 1000000);
  w.drain([&](order_window::bucket& b) { t(b); });
  CHECK(t.ends.size() == 20000);
  CHECK(std::is_sorted(t.ends.begin(), t.ends.end()));
  CHECK(w.size() == 0);
}

TEST_CASE("what is taken back was never there") {
  order_window w;
  w.configure(16000000, 1 << 20);
  push(w, 0, 10);
  w.append(0, 5);
  w.take_back();
  push(w, 0, 20);
  CHECK(w.size() == 2);
  taker t;
  w.drain([&](order_window::bucket& b) { t(b); });
  CHECK(t.ends == std::vector<std::int64_t>{10, 20});
}

TEST_CASE("GPU work shares a shape within its part of the window and nowhere else, be they many or few") {
  using cutrace::detail::pending_work;
  for (const std::uint64_t shapes : {1u, 200u, 5000u}) {
    std::mt19937_64 random(shapes);
    order_window w;
    w.configure(16000000, 64 << 20);
    std::vector<std::vector<std::uint64_t>> given(3001);  // by end: values that the work must keep
    std::int64_t end = 1;
    std::size_t wrong = 0, taken = 0;
    std::set<const cutrace::detail::work_shape*> in_use;
    const auto take = [&](order_window::bucket& b) {
      in_use.clear();
      for (const order_window::place& p : b.order) {
        const pending_work& work = p.as<pending_work>();
        cutrace::event out;
        work.unpack(out);
        const std::vector<std::uint64_t>& want = given[static_cast<std::size_t>(p.end_ns)];
        const std::uint64_t words[] = {out.kernel.grid[0], out.kernel.graph_node_id, out.stream, out.name.size};
        wrong += !std::equal(want.begin(), want.end(), words);
        in_use.insert(work.shape);
        ++taken;
      }
      wrong += in_use.size() != b.shapes.size();  // no work uses a shape of an earlier bucket
      if (shapes == 1) wrong += in_use.size() != 1;
    };
    const int rounds = shapes == 1 ? 1000 : 3;  // blocks, and so addresses of shapes, come again
    for (int round = 0; round < rounds; ++round) {
      for (int i = 0; i < 3000 / rounds; ++i, ++end) {
        const std::uint64_t shape = random() % shapes;
        cutrace::event e;
        e.kind = cutrace::event_kind::kernel;
        e.start_ns = e.end_ns = end;
        e.name = {"a kernel", static_cast<std::uint32_t>(shape % 8)};
        e.kernel.grid[0] = static_cast<std::uint32_t>(shape);
        e.kernel.graph_node_id = random();
        e.stream = random();
        given[static_cast<std::size_t>(end)] = {shape, e.kernel.graph_node_id, e.stream, shape % 8};
        w.append_work(e).keep(e);
      }
      w.drain(take);
    }
    CHECK(taken == 3000);
    CHECK(wrong == 0);
  }
}

TEST_CASE("two launches by turns are two shapes, whatever they differ in") {
  using change = void (*)(cutrace::event&);
  const change changes[] = {[](cutrace::event& e) { e.kernel.grid[2] = 2; },
                            [](cutrace::event& e) { e.kernel.block[1] = 4; },
                            [](cutrace::event& e) { e.kernel.cluster[2] = 2; },
                            [](cutrace::event& e) { e.kernel.registers_per_thread = 40; },
                            [](cutrace::event& e) { e.kernel.dynamic_shared_bytes = 4096; },
                            [](cutrace::event& e) { e.kernel.priority = -1; },
                            [](cutrace::event& e) { e.kernel.graph_id = 3; },
                            [](cutrace::event& e) { e.name.size = 3; }};
  std::size_t apart = 0;
  for (const change c : changes) {
    order_window w;
    w.configure(16000000, 64 << 20);
    for (std::int64_t i = 1; i <= 100; ++i) {
      cutrace::event e;
      e.kind = cutrace::event_kind::kernel;
      e.start_ns = e.end_ns = i;
      e.name = {"a kernel", 8};
      if (i % 2 == 0) c(e);
      w.append_work(e).keep(e);
    }
    w.drain([&](order_window::bucket& b) { apart += b.shapes.size() == 2; });
  }
  CHECK(apart >= 7);  // the hash leaves out the name's size: with the last change, one slot for two shapes
}

TEST_CASE("blocks go round, and no more of them are kept than was asked for") {
  using cutrace::detail::block_store;
  constexpr std::size_t limit = std::size_t{8} << 20, size = sizeof(cutrace::detail::memory_block);
  block_store store;
  store.set_limit(limit);
  std::set<const void*> first, again;
  for (int round = 0; round < 3; ++round) {
    std::vector<block_store::block> in_use;
    std::set<const void*> seen;
    for (std::size_t i = 0; i < 2 * limit / size; ++i) {
      in_use.push_back(store.take());
      std::memset(in_use.back()->bytes, static_cast<int>(i % 251), size);
      seen.insert(in_use.back().get());
      CHECK(reinterpret_cast<std::uintptr_t>(in_use.back().get()) % 64 == 0);
    }
    CHECK(seen.size() == in_use.size());
    std::size_t damaged = 0;
    for (std::size_t i = 0; i < in_use.size(); ++i)
      for (const unsigned char c : in_use[i]->bytes) damaged += c != i % 251;
    CHECK(damaged == 0);
    (round == 0 ? first : again) = seen;
    for (block_store::block& b : in_use) store.give(std::move(b));
    CHECK(store.bytes() >= limit - (std::size_t{2} << 20));
    CHECK(store.bytes() <= limit + (std::size_t{2} << 20));
  }
  std::vector<const void*> common;
  std::set_intersection(first.begin(), first.end(), again.begin(), again.end(), std::back_inserter(common));
  CHECK(common.size() * size >= limit - (std::size_t{2} << 20));
}

TEST_CASE("runs are merged as a stable sort would order them") {
  using pair = std::pair<int, int>;
  std::mt19937 random(11);
  std::vector<std::size_t> runs;
  std::vector<pair> scratch;
  for (int round = 0; round < 2000; ++round) {
    const int count = static_cast<int>(random() % 60), spread = 1 + static_cast<int>(random() % 40);
    const int rise = static_cast<int>(random() % 4);  // 0: no order at all
    std::vector<pair> list;
    for (int i = 0; i < count; ++i)
      list.emplace_back(rise * i / 3 + static_cast<int>(random() % static_cast<unsigned>(spread)), i);
    std::vector<pair> sorted = list;
    const auto less = [](const pair& a, const pair& b) { return a.first < b.first; };
    std::stable_sort(sorted.begin(), sorted.end(), less);
    cutrace::detail::sort_runs(list, runs, scratch, less);
    REQUIRE(list == sorted);
  }
}

TEST_CASE("of two that end together the enclosing one goes first, equal ones as they came") {
  order_window w;
  w.configure(16000000, 1 << 20);
  push(w, 50, 100);
  push(w, 10, 100);
  std::vector<std::int64_t> starts;
  w.drain([&](order_window::bucket& b) {
    for (const order_window::place& p : b.order) starts.push_back(p.as<pending_event>().start_ns);
  });
  CHECK(starts == std::vector<std::int64_t>{10, 50});
}

TEST_CASE("the window is bounded: its oldest part leaves early") {
  order_window w;
  w.configure(1000000000, 256 * (sizeof(pending_event) + 16));
  std::size_t out = 0;
  for (int i = 0; i < 10000; ++i) {
    push(w, 0, i * 1000000ll);
    w.advance(0, [&](order_window::bucket& b) { out += b.events.size(); });
    CHECK(w.size() <= 256);
  }
  w.drain([&](order_window::bucket& b) { out += b.events.size(); });
  CHECK(out == 10000);
}

TEST_CASE("latecomers join the oldest part, what is newer than that part does not") {
  order_window w;
  w.configure(16000000, 64 << 20);  // parts of 1 ms
  push(w, 0, 5500000);
  taker t;
  w.advance(6000000, [&](order_window::bucket& b) { t(b); });
  push(w, 0, 2000000);  // late: into the part that ends at 7 ms
  push(w, 0, 6900000);
  push(w, 0, 7100000);
  push(w, 0, 5000000);  // late again
  push(w, 0, 9000000);
  w.advance(7000000, [&](order_window::bucket& b) { t(b); });
  CHECK(t.ends == std::vector<std::int64_t>{5500000, 2000000, 5000000, 6900000});
  w.drain([&](order_window::bucket& b) { t(b); });
  CHECK(t.ends == std::vector<std::int64_t>{5500000, 2000000, 5000000, 6900000, 7100000, 9000000});
}

TEST_CASE("a time from the far future does not hold anything up") {
  order_window w;
  w.configure(16000000, 1 << 20);
  push(w, 0, 1000000);
  push(w, 0, INT64_MAX);
  push(w, 0, 2000000);
  std::size_t out = 0;
  w.advance(3000000, [&](order_window::bucket& b) { out += b.events.size(); });
  CHECK(out == 2);
  w.drain([&](order_window::bucket& b) { out += b.events.size(); });
  CHECK(out == 3);
}

TEST_CASE("argument words travel with their event") {
  order_window w;
  w.configure(16000000, 1 << 20);
  push(w, 0, 20, {11, 12});
  push(w, 0, 10, {21});
  w.drain([&](order_window::bucket& b) {
    REQUIRE(b.order.size() == 2);
    CHECK(b.words[b.order[0].as<pending_event>().words_at] == 21);
    CHECK(b.words[b.order[1].as<pending_event>().words_at + 1] == 12);
  });
}

}  // namespace order_window_test
