// SPDX-License-Identifier: Apache-2.0
// The order of what stands on streams, and what is known to be done: against a slow model of streams that drain, and
// case by case.
#include <doctest/doctest.h>

#include <cstdint>
#include <cutrace/collect/watch/stream_order.hpp>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

namespace stream_order_test {

namespace {

using cutrace::event;
using cutrace::event_kind;
using cutrace::detail::issued_call;
using cutrace::detail::known_stream;
using cutrace::detail::stream_order;
using role = cutrace::detail::stream_use::role;

struct bench {
  stream_order order;
  std::uint32_t last = 0;
  std::int64_t later_ns = 0;  ///< added to the times of calls

  /// Goes on where ids wrap.
  static std::int64_t time_of(std::uint32_t id) { return std::int64_t{static_cast<std::int32_t>(id)} * 10; }

  std::uint32_t call(role what, std::uint64_t stream, std::uint64_t event = 0, std::uint32_t context = 1,
                     bool per_thread = false, bool succeeded = true) {
    issued_call& c = order.add();
    c.correlation = ++last;
    c.thread = 1;
    c.what = what;
    c.succeeded = succeeded;
    c.handle = event;
    c.begin_ns = time_of(last) + later_ns;
    order.set_now(c.begin_ns);
    order.take(stream, context, per_thread);
    return last;
  }
  void create(std::uint64_t stream, bool blocking) {
    issued_call& c = order.add();
    c.correlation = ++last;
    c.what = role::stream_created;
    c.flags = blocking ? 0 : 1;
    order.take(stream, 1, false);
  }
  static event record(std::uint32_t id, std::uint64_t stream, event_kind kind = event_kind::kernel) {
    event e;
    e.kind = kind;
    e.correlation_id = id;
    e.context = 1;
    e.stream = stream;
    e.start_ns = time_of(id) + 1;
    e.end_ns = time_of(id) + 5;
    return e;
  }
  void ended(std::uint32_t id, std::uint64_t stream) { order.ended(record(id, stream)); }

  /// Correlation ids of what is not known to be done on the stream of that handle.
  std::vector<std::uint32_t> on(std::uint64_t handle) {
    order.settle();
    std::vector<std::uint32_t> ids;
    for (const known_stream& s : order.streams())
      if (s.handle == handle && !s.free)
        for (std::size_t i = 0; i < s.calls.size(); ++i) ids.push_back(s.calls[i].correlation);
    return ids;
  }
};
using ids = std::vector<std::uint32_t>;

constexpr std::uint64_t a = 0x1000, b = 0x2000, e1 = 0x77, e2 = 0x78;

}  // namespace

TEST_CASE("what ends shows that all before it on its stream is done") {
  bench t;
  const auto k1 = t.call(role::work, a), k2 = t.call(role::work, a), other = t.call(role::work, b);
  const auto w = t.call(role::wait_value, a), k3 = t.call(role::work, a);
  CHECK(t.on(a) == ids{k1, k2, w, k3});
  t.ended(k1, 14);
  CHECK(t.on(a) == ids{k2, w, k3});
  t.ended(k3, 14);
  CHECK(t.on(a).empty());
  CHECK(t.on(b) == ids{other});
  CHECK(t.order.find_id(1, 14) != issued_call::no_stream);
}

TEST_CASE("a node of a graph that ended does not show that the launch has") {
  bench t;
  const auto g = t.call(role::graph, a);
  t.ended(g, 14);
  CHECK(t.on(a) == ids{g});
  const auto k = t.call(role::work, a);
  t.ended(k, 14);
  CHECK(t.on(a).empty());
}

TEST_CASE("a node of a graph that runs on another device does not identify the stream of the launch") {
  bench t;
  const auto g = t.call(role::graph, a);
  event elsewhere = bench::record(g, 30);
  elsewhere.context = 2;
  t.order.ended(elsewhere);
  CHECK(t.order.find_id(2, 30) == issued_call::no_stream);
  t.ended(g, 14);
  CHECK(t.order.find_id(1, 14) != issued_call::no_stream);
  const auto k = t.call(role::work, a);
  t.ended(k, 14);
  CHECK(t.on(a).empty());
}

TEST_CASE("waits of the host prove what they cover, failed ones nothing") {
  bench t;
  const auto k1 = t.call(role::work, a);
  t.call(role::stream_wait, a, 0, 1, false, false);
  CHECK(t.on(a) == ids{k1});
  t.call(role::event_record, a, e1);
  const auto k2 = t.call(role::work, a);
  t.call(role::event_wait, 0, e1);
  CHECK(t.on(a) == ids{k2});
  t.call(role::stream_wait, a);
  CHECK(t.on(a).empty());
  const auto k3 = t.call(role::work, a), k4 = t.call(role::work, 0, 0, 2);
  t.call(role::context_wait, 0, 0, 1);
  CHECK(t.on(a).empty());
  CHECK(t.on(1) == ids{k4});  // another context's default stream
  CHECK(k3 < k4);
}

TEST_CASE("a wait for an event is done when what was before the event is") {
  bench t;
  const auto k1 = t.call(role::work, a);
  t.call(role::event_record, a, e1);
  const auto k2 = t.call(role::work, a), w = t.call(role::wait_event, b, e1), k3 = t.call(role::work, b);
  CHECK(t.on(b) == ids{w, k3});
  t.ended(k1, 14);
  CHECK(t.on(a) == ids{k2});  // the event record behind k1 is done with it
  CHECK(t.on(b) == ids{k3});
}

TEST_CASE("an event that was never recorded holds up nothing, one that is recorded anew holds up later waits only") {
  bench t;
  t.call(role::wait_event, b, e2);
  CHECK(t.on(b).empty());
  const auto k1 = t.call(role::work, a);
  t.call(role::event_record, a, e1);
  const auto w1 = t.call(role::wait_event, b, e1), k2 = t.call(role::work, a);
  const auto again = t.call(role::event_record, a, e1);
  const auto w2 = t.call(role::wait_event, b, e1);
  t.ended(k1, 14);
  CHECK(t.on(a) == ids{k2, again});
  CHECK(t.on(b) == ids{w2});
  CHECK(w1 < w2);
}

TEST_CASE("calls into a capturing stream do not count, nor those of streams that join it") {
  bench t;
  t.call(role::begins_capture, a);
  t.call(role::work, a);
  t.call(role::event_record, a, e1);
  t.call(role::wait_event, b, e1);
  t.call(role::work, b);
  CHECK(t.on(a).empty());
  CHECK(t.on(b).empty());
  t.call(role::ends_capture, a, 0, 1, false, false);  // a capture that became invalid ends, too
  const auto k1 = t.call(role::work, a), k2 = t.call(role::work, b);
  CHECK(t.on(a) == ids{k1});
  CHECK(t.on(b) == ids{k2});
}

TEST_CASE("a handle that is given out again is another stream") {
  bench t;
  t.create(a, false);
  const auto k1 = t.call(role::work, a);
  t.call(role::stream_gone, a);
  t.create(a, true);
  const auto k2 = t.call(role::work, a);
  CHECK(t.on(a) == ids{k1, k2});  // two of them
  t.ended(k1, 14);
  CHECK(t.on(a) == ids{k2});
  t.ended(k2, 15);
  CHECK(t.on(a).empty());
  CHECK(t.order.find_id(1, 15) != issued_call::no_stream);
  CHECK(t.order.find_id(1, 14) == issued_call::no_stream);
  for (int i = 0; i < 10000; ++i) {
    t.create(b, false);
    const auto k = t.call(role::work, b);
    t.ended(k, 16);
    t.call(role::stream_gone, b);
  }
  CHECK(t.on(b).empty());
  CHECK(t.order.streams().size() < 5000);  // gone ones are forgotten once per 1,024 calls
  CHECK(t.order.bytes() < 4u << 20);
}

TEST_CASE("the legacy default stream and blocking ones wait for one another, in the same context") {
  bench t;
  t.create(a, true);
  t.create(b, false);
  const auto k1 = t.call(role::work, a), k2 = t.call(role::work, 0), k3 = t.call(role::work, b);
  t.order.settle();
  std::map<std::uint64_t, std::uint32_t> at;
  for (std::size_t i = 0; i < t.order.streams().size(); ++i)
    at[t.order.streams()[i].handle] = static_cast<std::uint32_t>(i);
  CHECK(t.order.implied_wait(at[1]) == at[a]);
  CHECK(t.order.implied_wait(at[a]) == issued_call::no_stream);
  CHECK(t.order.implied_wait(at[b]) == issued_call::no_stream);
  t.ended(k1, 14);
  const auto k4 = t.call(role::work, a);
  t.order.settle();
  CHECK(t.order.implied_wait(at[1]) == issued_call::no_stream);
  CHECK(t.order.implied_wait(at[a]) == at[1]);
  CHECK(k2 < k3);
  CHECK(k3 < k4);
}

TEST_CASE("default streams of threads are one a thread, the legacy one is one a context") {
  bench t;
  const auto k1 = t.call(role::work, 0, 0, 1, true);
  const auto k2 = t.call(role::work, 2, 0, 1, false);
  const auto k3 = t.call(role::work, 1, 0, 1, true);
  CHECK(t.on(2) == ids{k1, k2});
  CHECK(t.on(1) == ids{k3});
}

TEST_CASE("the record of a thread's wait for its default stream, which names the legacy one, identifies nothing") {
  bench t;
  const auto wait = t.call(role::stream_wait, 0, 0, 1, true);
  t.order.ended(bench::record(wait, 7, event_kind::sync));  // as CUPTI writes it (docs/cupti.md, 49)
  const auto k1 = t.call(role::work, 0, 0, 1, true), k2 = t.call(role::work, 0, 0, 1, true);
  t.ended(k1, 12);
  CHECK(t.on(2) == ids{k2});
  t.ended(k2, 12);
  CHECK(t.on(2).empty());
}

TEST_CASE("a wait whose stream CUPTI could not name identifies nothing") {
  bench t;
  const auto wait = t.call(role::stream_wait, a);
  t.order.ended(bench::record(wait, 0, event_kind::sync));
  const auto k1 = t.call(role::work, a), k2 = t.call(role::work, a);
  t.ended(k1, 12);
  CHECK(t.on(a) == ids{k2});
  const std::size_t before = t.order.bytes();
  for (int i = 0; i < 20000; ++i) {
    t.create(b, false);
    const auto unnamed = t.call(role::stream_wait, b);
    t.order.settle();
    t.order.ended(bench::record(unnamed, 0, event_kind::sync));
    t.call(role::stream_gone, b);
  }
  t.order.settle();
  CHECK(t.order.bytes() < before + 65536);
}

TEST_CASE("after a forced flush all without a record is done, and what stood before it") {
  bench t;
  const auto w = t.call(role::wait_value, a), k1 = t.call(role::work, a), k2 = t.call(role::work, a);
  const auto wb = t.call(role::wait_value, b), empty_copy = t.call(role::work, b), kb = t.call(role::work, b);
  t.order.settle();
  t.order.all_recorded(t.last + 1, {k1, k2, kb});
  CHECK(t.on(a) == ids{w, k1, k2});
  CHECK(t.on(b) == ids{kb});
  CHECK(wb < empty_copy);
}

TEST_CASE("after a forced flush what stands behind unfinished work without a record is not done") {
  bench t;
  const auto k1 = t.call(role::work, a), k2 = t.call(role::work, a), empty_copy = t.call(role::work, a);
  t.order.all_recorded(t.last + 1, {k2});
  CHECK(t.on(a) == ids{k2, empty_copy});
  CHECK(k1 < k2);
}

TEST_CASE("calls of other threads that are read later stand where they belong, also when ids wrap") {
  bench t;
  t.last = 0xfffffff0u;
  const auto k1 = t.call(role::work, a);
  t.last += 30;
  const auto k3 = t.call(role::work, a);
  CHECK(t.on(a) == ids{k1, k3});
  t.last -= 20;
  const auto k2 = t.call(role::work, a);
  CHECK(t.on(a) == ids{k1, k2, k3});
  t.ended(k2, 14);
  CHECK(t.on(a) == ids{k3});
}

TEST_CASE("a stream that was idle for billions of calls is watched again from its next call on") {
  bench t;
  const auto first = t.call(role::work, a);
  t.ended(first, 14);
  t.call(role::work, b);
  t.call(role::stream_wait, b);
  t.call(role::event_record, a, e1);
  CHECK(t.on(a).empty());
  for (const std::uint32_t id : {0x40000000u, 0x80000010u}) {  // of other streams
    t.last = id;
    const auto other = t.call(role::work, 0x3000);
    t.ended(other, 99);
    CHECK(t.on(0x3000).empty());
  }
  const auto on_a = t.call(role::work, a), on_b = t.call(role::work, b);
  CHECK(t.on(a) == ids{on_a});
  CHECK(t.on(b) == ids{on_b});
  const auto wait = t.call(role::wait_event, 0x3000, e1), behind = t.call(role::work, 0x3000);
  CHECK(t.on(0x3000) == ids{behind});  // the event is long over
  CHECK(wait < behind);
  t.ended(on_a, 14);
  CHECK(t.on(a).empty());
}

TEST_CASE("a call whose thread was held up is not taken for one behind billions of others") {
  constexpr std::int64_t second_ns = 1000000000;
  bench t;
  const auto held_up_call = [&t] {  // its id is the one before the newest, its begin 1 ms after that one's
    t.order.settle();
    const std::uint32_t newest = t.last;
    const std::int64_t later_ns = t.later_ns;
    t.last = newest - 2;
    t.later_ns += 1000000;
    const std::uint32_t id = t.call(role::work, b);
    t.last = newest;
    t.later_ns = later_ns;
    return id;
  };
  ids on_a;
  for (int i = 0; i < 5; ++i) {
    t.later_ns += 3 * second_ns;
    t.last += 1;
    on_a.push_back(t.call(role::work, a));
  }
  const auto first = held_up_call();
  CHECK(t.on(a) == on_a);
  CHECK(t.on(b) == ids{first});
  // Also where the newest call itself has come behind billions of others.
  t.last += 0x80000010u;
  t.later_ns += 3600 * second_ns;
  const auto behind = t.call(role::work, a);
  const auto second = held_up_call();
  CHECK(t.on(a) == ids{behind});
  CHECK(t.on(b) == ids{second});
}

TEST_CASE(
    "streams are watched again when billions of calls were made that are not recorded, as by a thread that polls") {
  for (const std::uint32_t polls : {0x80000010u, 0xc0000000u, 0xf0000000u}) {
    CAPTURE(polls);
    bench t;
    t.ended(t.call(role::work, a), 14);
    t.call(role::work, b);
    t.call(role::stream_wait, b);
    t.call(role::event_record, a, e1);
    const auto runs_on = t.call(role::work, 0x3000);
    CHECK(t.on(a).empty());
    t.last += polls;
    t.later_ns = 3600000000000;
    const auto on_a = t.call(role::work, a), on_b = t.call(role::work, b);
    CHECK(t.on(a) == ids{on_a});
    CHECK(t.on(b) == ids{on_b});
    CHECK(t.order.newest() == on_b);
    t.call(role::wait_event, 0x4000, e1);
    const auto behind = t.call(role::work, 0x4000);
    CHECK(t.on(0x4000) == ids{behind});  // the event is long over
    t.ended(on_a, 14);
    CHECK(t.on(a).empty());
    if (polls < 0xc0000000u) t.ended(runs_on, 15);
    const auto next = t.call(role::work, 0x3000);
    CHECK(t.on(0x3000) == ids{next});
    t.ended(next, 15);
    CHECK(t.on(0x3000).empty());
  }
}

TEST_CASE("beyond its limit a stream counts what is behind") {
  bench t;
  t.order.set_limit(100 * sizeof(issued_call));
  for (int i = 0; i < 20000; ++i) t.call(role::work, a);
  t.order.settle();
  CHECK(t.on(a).size() == 100);
  CHECK(t.order.streams()[0].more == 19900);
  CHECK(t.order.bytes() < 2u << 20);
  t.ended(1, 14);
  CHECK(t.on(a).size() == 99);
  t.ended(t.last, 14);
  CHECK(t.on(a).empty());
  CHECK(t.order.streams()[0].more == 0);
}

TEST_CASE("a call that is done and is read late changes nothing for the one that hangs") {
  bench t;
  t.ended(t.call(role::work, a), 14);
  const auto late = ++t.last;  // of another thread
  const auto hangs = t.call(role::work, a);
  t.ended(late, 14);
  REQUIRE(t.on(a) == ids{hangs});
  known_stream& s = t.order.streams()[0];
  s.alarmed = hangs;
  s.patient_since_ns = 1;
  const std::int64_t progress_ns = s.progress_ns;
  t.last = late - 1;
  t.call(role::work, a);
  CHECK(t.on(a) == ids{hangs});
  CHECK(s.alarmed == hangs);
  CHECK(s.patient_since_ns == 1);
  CHECK(s.progress_ns == progress_ns);
}

TEST_CASE("streams that had long queues keep no more memory than the limit") {
  bench t;
  t.order.set_limit(1000 * sizeof(issued_call));
  for (std::uint64_t stream = a; stream < a + 100; ++stream) {
    for (int i = 0; i < 900; ++i) t.call(role::work, stream);
    t.call(role::stream_wait, stream);
    const auto last = t.call(role::work, stream);  // one stays
    REQUIRE(t.on(stream) == ids{last});
  }
  for (int i = 0; i < 3; ++i) t.order.settle();
  CHECK(t.order.bytes() - t.order.without_record().bytes() < (1u << 16) * 4);
}

TEST_CASE("destroyed streams of which nothing is heard any more do not pile up") {
  bench t;
  const auto hangs = t.call(role::work, a);
  for (std::uint64_t stream = 0x10000; stream < 0x10000 + 20000; ++stream) {
    t.call(role::host_function, stream);
    t.call(role::stream_gone, stream);
    if (stream % 500 == 0) t.order.settle();
  }
  t.order.settle();
  CHECK(t.order.streams().size() < 3000);
  CHECK(t.order.bytes() < (std::size_t{2} << 20));
  CHECK(t.on(0x10000 + 19999).size() == 1);  // the latest are still known
  CHECK(t.on(a) == ids{hangs});
}

TEST_CASE("random programs: what is left is what a model of draining streams has left") {
  for (std::uint32_t seed = 1; seed <= 50; ++seed) {
    CAPTURE(seed);
    std::mt19937 draw(seed);
    bench t;
    constexpr std::uint64_t handles[] = {0x10, 0x20, 0x30};
    struct item {
      std::uint32_t id;
      role what;
      std::uint64_t on;        // of a wait: the stream of the awaited event
      std::uint32_t upto = 0;  // id of the event's record: all before it there must be done
    };
    std::map<std::uint64_t, std::vector<item>> queues;  // what has not ended
    std::map<std::uint64_t, std::pair<std::uint64_t, std::uint32_t>> events;
    const auto passable = [&](const item& i) {
      if (i.what == role::event_record) return true;
      if (i.what != role::wait_event) return false;
      const auto& other = queues[i.on];
      return other.empty() || other.front().id >= i.upto;
    };
    const auto drain = [&] {
      for (bool again = true; again;) {
        again = false;
        for (auto& q : queues)
          while (!q.second.empty() && passable(q.second.front())) q.second.erase(q.second.begin()), again = true;
      }
    };
    for (int step = 0; step < 400; ++step) {
      const std::uint64_t h = handles[draw() % 3];
      const std::uint64_t e = 0x90 + draw() % 3;
      switch (draw() % 5) {
        case 0:
        case 1:
          queues[h].push_back({t.call(role::work, h), role::work, 0});
          break;
        case 2: {
          const auto id = t.call(role::event_record, h, e);
          queues[h].push_back({id, role::event_record, 0});
          events[e] = {h, id};
          break;
        }
        case 3: {
          const auto id = t.call(role::wait_event, h, e);
          if (events.count(e) != 0 && events[e].first != h)
            queues[h].push_back({id, role::wait_event, events[e].first, events[e].second});
          break;
        }
        default:
          drain();
          if (!queues[h].empty() && queues[h].front().what == role::work) {
            t.ended(queues[h].front().id, h);
            queues[h].erase(queues[h].begin());
          }
      }
    }
    drain();
    for (const std::uint64_t h : handles) {
      std::vector<std::uint32_t> left;
      for (const item& i : queues[h]) left.push_back(i.id);
      std::vector<std::uint32_t> known = t.on(h);
      // A wait for an event of the same stream holds up nothing, and stays in the list behind other work.
      REQUIRE(known.empty() == left.empty());
      if (!left.empty()) CHECK(known.front() == left.front());
    }
  }
}

TEST_CASE("calls without a record: those that leave one, have succeeded and were not captured") {
  bench t;
  const auto waiting = [&t] {
    t.order.settle();
    std::set<std::uint32_t> all;
    t.order.without_record().for_each([&all](std::uint32_t id) { all.insert(id); });
    return all;
  };
  using some = std::set<std::uint32_t>;
  const auto k1 = t.call(role::work, a), k2 = t.call(role::work, b), g = t.call(role::graph, b);
  t.call(role::event_record, a, e1);
  t.call(role::work, a, 0, 1, false, false);
  t.call(role::begins_capture, b);
  t.call(role::work, b);
  t.call(role::ends_capture, b);
  CHECK(waiting() == some{k1, k2, g});
  t.call(role::stream_wait, a);  // it is done, but its record is still to come
  CHECK(waiting() == some{k1, k2, g});
  t.ended(g, 15);
  CHECK(waiting() == some{k1, k2});
  t.order.unfinished(bench::record(k1, 14));
  CHECK(waiting() == some{k2});
  t.ended(t.last + 1, 14);  // a record that comes before its call is read
  t.call(role::work, a);
  CHECK(waiting() == some{k2});
}

TEST_CASE("calls without a record: they take as much memory as the order's limit allows, and the order counts it") {
  stream_order order;
  order.set_limit(std::size_t{64} << 10);
  CHECK(order.without_record().bytes() > std::size_t{8} << 10);
  CHECK(order.without_record().bytes() < std::size_t{64} << 10);
  CHECK(order.bytes() >= order.without_record().bytes());
}

TEST_CASE("calls without a record: any order, ids that wrap, many of them") {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    cutrace::detail::calls_without_record calls;
    calls.set_limit(std::size_t{64} << 10);
    std::set<std::uint32_t> expected;
    std::vector<std::uint32_t> open;
    std::uint32_t id = seed % 2 != 0 ? 0xffff0000u : 0;
    for (int step = 0; step < 200000; ++step) {
      id += 1 + static_cast<std::uint32_t>(random() % 3);
      if (id < 3) ++id;  // 0 is no id
      const bool record_first = random() % 8 == 0;
      if (record_first) calls.came(id);
      calls.made(id);
      if (record_first) continue;
      expected.insert(id);
      open.push_back(id);
      while (open.size() > 500 || (!open.empty() && random() % 3 == 0)) {
        std::swap(open.back(), open[random() % open.size()]);
        calls.came(open.back());
        expected.erase(open.back());
        open.pop_back();
      }
    }
    std::set<std::uint32_t> found;
    calls.for_each([&found](std::uint32_t waits) { CHECK(found.insert(waits).second); });
    CHECK(found == expected);
  }
}

}  // namespace stream_order_test
