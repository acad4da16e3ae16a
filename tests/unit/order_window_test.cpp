// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cutrace/detail/order_window.hpp>
#include <random>

using cutrace::detail::order_window;
using cutrace::detail::pending_event;

namespace {
pending_event at(std::int64_t start, std::int64_t end) {
  pending_event e;
  e.start_ns = start;
  e.end_ns = end;
  return e;
}
struct taker {
  std::vector<std::int64_t> ends;
  void operator()(order_window::bucket& b) {
    for (const order_window::place& p : b.order) ends.push_back(b.events[p.index].end_ns);
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
    w.push(at(end / 2, end), nullptr, 0);
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

TEST_CASE("of two that end together the enclosing one goes first, equal ones as they came") {
  order_window w;
  w.configure(16000000, 1 << 20);
  w.push(at(50, 100), nullptr, 0);
  w.push(at(10, 100), nullptr, 0);
  std::vector<std::int64_t> starts;
  w.drain([&](order_window::bucket& b) {
    for (const order_window::place& p : b.order) starts.push_back(b.events[p.index].start_ns);
  });
  CHECK(starts == std::vector<std::int64_t>{10, 50});
}

TEST_CASE("the window is bounded: its oldest part leaves early") {
  order_window w;
  w.configure(1000000000, 256 * (sizeof(pending_event) + 16));
  std::size_t out = 0;
  for (int i = 0; i < 10000; ++i) {
    w.push(at(0, i * 1000000ll), nullptr, 0);
    w.advance(0, [&](order_window::bucket& b) { out += b.events.size(); });
    CHECK(w.size() <= 256);
  }
  w.drain([&](order_window::bucket& b) { out += b.events.size(); });
  CHECK(out == 10000);
}

TEST_CASE("a time from the far future does not hold anything up") {
  order_window w;
  w.configure(16000000, 1 << 20);
  w.push(at(0, 1000000), nullptr, 0);
  w.push(at(0, INT64_MAX), nullptr, 0);
  w.push(at(0, 2000000), nullptr, 0);
  std::size_t out = 0;
  w.advance(3000000, [&](order_window::bucket& b) { out += b.events.size(); });
  CHECK(out == 2);
  w.drain([&](order_window::bucket& b) { out += b.events.size(); });
  CHECK(out == 3);
}

TEST_CASE("argument words travel with their event") {
  order_window w;
  w.configure(16000000, 1 << 20);
  const std::uint64_t first[2] = {11, 12}, second[1] = {21};
  w.push(at(0, 20), first, 2);
  w.push(at(0, 10), second, 1);
  w.drain([&](order_window::bucket& b) {
    REQUIRE(b.order.size() == 2);
    CHECK(b.words[b.events[b.order[0].index].words_at] == 21);
    CHECK(b.words[b.events[b.order[1].index].words_at + 1] == 12);
  });
}
