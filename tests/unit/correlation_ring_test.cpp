// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <cutrace/collect/correlation_ring.hpp>
#include <thread>
#include <vector>

#include "support/sanitized.hpp"

namespace correlation_ring_test {

using cutrace::attribution;
using ring = cutrace::detail::correlation_ring;

namespace {

long faults_of_thread() {
  rusage r{};
  getrusage(RUSAGE_THREAD, &r);
  return r.ru_minflt;
}
/// Whether the kernel backs memory when it is asked to (from 5.14 on), and all faults of the thread are the ring's.
bool is_counted() {
#ifdef MADV_POPULATE_WRITE
  void* const at = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const bool has = at != MAP_FAILED && madvise(at, 4096, MADV_POPULATE_WRITE) == 0;
  munmap(at, 4096);
  return has && !sanitized;
#else
  return false;
#endif
}

}  // namespace

TEST_CASE("a call is found by its id, as often as asked") {
  ring r;
  REQUIRE(r.reset(10));
  r.put(7, 0x700, 123, 5, 42);
  ring::call c{};
  for (int nodes = 0; nodes < 3; ++nodes) {  // all nodes of a graph launch share one id
    CHECK(r.find(7, c) == attribution::by_call);
    CHECK(c.stage == 0x700);
    CHECK(c.begin_ticks == 123);
    CHECK(c.thread_index == 5);
    CHECK(c.function == 42);
  }
}

TEST_CASE("a call outside of any stage is known, and says so") {
  ring r;
  REQUIRE(r.reset(10));
  r.put(8, 0, 1, 5, 42);
  ring::call c{};
  CHECK(r.find(8, c) == attribution::outside_stage);
}

TEST_CASE("an entry that was overwritten is expired, one that never was is no callback") {
  ring r;
  REQUIRE(r.reset(10));
  r.put(5, 1, 1, 1, 1);
  r.put(5 + 1024, 2, 1, 1, 1);  // the same place
  ring::call c{};
  CHECK(r.find(5, c) == attribution::expired);
  CHECK(r.find(5 + 1024, c) == attribution::by_call);
  CHECK(r.find(6, c) == attribution::no_callback);
  CHECK(r.find(5 + 2048, c) == attribution::no_callback);
  CHECK(r.find(0, c) == attribution::no_callback);
}

TEST_CASE("calls that will be overwritten before long are passed once, half a ring before") {
  ring r;
  REQUIRE(r.reset(14));
  constexpr std::uint32_t size = 1u << 14;
  std::uint32_t upto = 0;
  std::vector<std::uint32_t> passed;
  const auto pass = [&] {
    r.pass_old(
        upto, [](const ring::call&) { return false; },
        [&](std::uint32_t id, const ring::call& c) {
          CHECK(c.begin_ticks == id);
          passed.push_back(id);
        });
  };
  pass();
  for (std::uint32_t id = 1; id <= size / 2; ++id) r.put(id, 5, id, 3, 1);
  pass();
  CHECK(passed.empty());
  for (std::uint32_t id = size / 2 + 1; id <= 5 * size; ++id) {
    if (id % 7 != 0) r.put(id, 5, id, 3, 1);  // others make no GPU work
    if (id % 1000 == 0) pass();
  }
  // All but the newest half ring, where the ring knows its newest id to within 4,096: each once, in order.
  REQUIRE(passed.size() > 5 * size * 6 / 7 - size - 4096);
  std::uint32_t expected = 0;
  for (const std::uint32_t id : passed) {
    do ++expected;
    while (expected > size / 2 && expected % 7 == 0);
    REQUIRE(id == expected);
  }
  // Who comes too late finds those that are still there.
  for (std::uint32_t id = 5 * size + 1; id <= 9 * size; ++id) r.put(id, 5, id, 3, 1);
  passed.clear();
  pass();
  REQUIRE(!passed.empty());
  CHECK(passed.size() <= size / 2);
  CHECK(passed.back() >= 8 * size);
}

TEST_CASE("calls are passed over where the next younger one says that none is wanted") {
  ring r;
  REQUIRE(r.reset(14));
  constexpr std::uint32_t size = 1u << 14;
  std::uint32_t upto = 0, seen = 0, asked = 0;
  bool none_wanted = true;
  const auto pass = [&] {
    r.pass_old(
        upto,
        [&](const ring::call& c) {
          asked = static_cast<std::uint32_t>(c.begin_ticks);
          return none_wanted;
        },
        [&](std::uint32_t, const ring::call&) { ++seen; });
  };
  const auto put = [&](std::uint32_t from, std::uint32_t to) {
    for (std::uint32_t id = from; id <= to; ++id)
      if (id % 10 == 0) r.put(id, 5, id, 3, 1);  // the other ids make no GPU work
  };
  put(1, 2 * size);
  pass();
  CHECK(seen == 0);
  CHECK(asked >= upto);
  CHECK(asked < upto + 10);
  none_wanted = false;
  const std::uint32_t passed_over = upto;
  put(2 * size + 1, 2 * size + size / 4);
  pass();
  CHECK(upto > passed_over);
  CHECK(seen >= (upto - passed_over) / 10);  // of those that came since, and of no others
  CHECK(seen <= (upto - passed_over) / 10 + 1);
  // The next younger call is too many ids away: all are looked at.
  none_wanted = true;
  seen = asked = 0;
  for (std::uint32_t id = 3 * size; id <= 5 * size; ++id)
    if (id % 1000 == 0) r.put(id, 5, id, 3, 1);
  pass();
  CHECK(asked == 0);
  CHECK(seen != 0);
}

TEST_CASE("copies of calls are found by id, within their memory, until nothing of theirs can come") {
  cutrace::detail::call_copies copies;
  copies.set_limit(1000);
  ring::call c{};
  c.thread_index = 3;
  for (std::uint32_t id = 1; id <= 100; ++id) {
    c.stage = id % 2;
    c.begin_ticks = id;
    copies.keep(id, c);
  }
  CHECK(copies.size() > 5);
  CHECK(copies.bytes() <= 1000);
  ring::call found{};
  CHECK(copies.find(1, found) == attribution::by_call);
  CHECK(found.begin_ticks == 1);
  CHECK(copies.find(2, found) == attribution::outside_stage);
  CHECK(copies.find(100, found) == attribution::expired);
  copies.release([](const ring::call& one) { return one.begin_ticks == 2; });
  CHECK(copies.size() == 1);
  CHECK(copies.find(1, found) == attribution::expired);
  CHECK(copies.find(2, found) == attribution::outside_stage);
}

TEST_CASE("ids wrap at 32 bits: the old call of the same id is not taken for the new one") {
  ring r;
  REQUIRE(r.reset(10));
  ring::call c{};
  r.put(3, 0xa, 1, 1, 1);
  // The counter goes all the way round; only calls that make no GPU work lie between, but for a few that move it on.
  for (std::uint32_t id = 100000; id < 0xffff0000u; id += 500000) r.put((id & ~1023u) | 512, 1, 1, 1, 1);
  r.put(0xfffffe00u, 1, 1, 1, 1);
  CHECK(r.find(0xfffffe00u, c) == attribution::by_call);
  r.put(0x2301u, 1, 1, 1, 1);  // past the wrap, at another place than id 3
  CHECK(r.find(3, c) == attribution::no_callback);
  r.put(3, 0xb, 1, 1, 1);
  CHECK(r.find(3, c) == attribution::by_call);
  CHECK(c.stage == 0xb);
  CHECK(r.find(0xfffffe00u, c) == attribution::by_call);  // from before the wrap, its records still to come
}

TEST_CASE("a trace may begin at any id, and after any number of calls since the last one") {
  ring::call c{};
  for (const std::uint32_t first : {1u, 0x7fffffffu, 0x80000000u, 0x80000001u, 0x80001001u, 0xfffffff0u}) {
    CAPTURE(first);
    ring r;
    REQUIRE(r.reset(14));
    std::uint32_t upto = 0, passed = 0;
    for (std::uint32_t i = 0; i < 100000; ++i) {
      const std::uint32_t id = first + i;
      if (id == 0) continue;
      r.put(id, 5, id, 3, 1);
      REQUIRE(r.find(id, c) == attribution::by_call);
      // The first id is taken as signed: the epoch of a large one is -1, its lower 8 bits 0xff.
      CHECK(c.epoch == (((first >> 31 != 0 ? 0xffu : 0u) + (id < first ? 1u : 0u)) & 0xff));
      if (i % 100 == 0)
        r.pass_old(
            upto, [](const ring::call&) { return false; }, [&](std::uint32_t, const ring::call&) { ++passed; });
    }
    CHECK(passed > 90000);
    // Later traces: in each, the first two calls come in the wrong order.
    std::uint32_t last = first + 99999;
    for (const std::uint32_t gap : {10u, 0x7ffffff0u, 0x80000010u, 0xb0000000u}) {
      CAPTURE(gap);
      const std::uint32_t before = r.epoch(last), id = last + gap;
      r.begin_trace();
      r.put(id, 6, 1, 3, 1);
      r.put(id - 1, 6, 1, 3, 1);
      for (const std::uint32_t one : {id, id - 1}) CHECK(r.find(one, c) == attribution::by_call);
      CHECK(r.epoch(id) == ((before + (id < last ? 1u : 0u)) & 0xff));
      last = id;
    }
  }
}

TEST_CASE("memory comes before the calls that fill it, in steps, and calls stay") {
  ring r;
  CHECK(r.bytes() == 0);
  REQUIRE(r.reset(18));  // 8 MiB
  r.put(3, 0x300, 1, 5, 42);
  r.populate();
  CHECK(r.bytes() == std::size_t{2} << 20);
  std::uint32_t id = 3;
  const bool counted = is_counted();
  // As the collector's thread does: again and again, while calls come. Twice round.
  while (id < 2u << 18) {
    const long before = faults_of_thread();
    for (int i = 0; i < 5000; ++i) {
      ++id;
      r.put(id, id, id, 5, 42);
    }
    if (counted) CHECK(faults_of_thread() - before <= 4);
    r.populate();
  }
  CHECK(r.bytes() == std::size_t{8} << 20);
  ring::call c{};
  for (std::uint32_t known = id - (1u << 18) + 1; known <= id; ++known) {
    REQUIRE(r.find(known, c) == attribution::by_call);
    REQUIRE(c.stage == known);
  }
}

TEST_CASE("what calls went over while the collector was busy counts as memory") {
  const std::size_t step = std::size_t{2} << 20;
  ring r;
  REQUIRE(r.reset(18));  // four steps of 65,536 calls
  r.put(1000000, 1, 1, 1, 1);
  r.populate();
  const std::size_t begin = r.bytes();  // the call's step, and the next one if it is near its end
  CHECK(begin <= 2 * step);
  for (std::uint32_t id = 1000001; id < 1000001 + 3 * 65536; ++id) r.put(id, id, id, 1, 1);
  r.populate();
  CHECK(r.bytes() == 4 * step);
}

TEST_CASE("no mixture of two neighbouring calls passes for one of them") {
  struct fields {
    std::uint32_t id, both;
    std::uint64_t stage, begin;
    std::uint32_t function;
  };
  const auto check_of = [](const fields& f) { return ring::check_of(f.id, f.both, f.stage, f.begin, f.function); };
  unsigned passed = 0;
  // Differences of one bit and of a few, the same ones in several fields: what neighbouring calls look like.
  for (std::uint32_t step = 1; step <= 4096; step *= 2)
    for (std::uint32_t thread_step = 1; thread_step <= 64; ++thread_step)
      for (std::uint32_t begin_step : {1u, 4u, step, thread_step, step << 8}) {
        const fields a{step * 5, 1, std::uint64_t{step} * 5 << 8, std::uint64_t{step} * 5, 307};
        const fields b{a.id + step, a.both + thread_step, a.stage + (std::uint64_t{step} << 8), a.begin + begin_step,
                       a.function ^ (step & 0xff)};
        for (unsigned from_b = 1; from_b < 31; ++from_b) {  // all mixtures; 0 and 31 are a and b themselves
          const fields m{from_b & 1 ? b.id : a.id, from_b & 2 ? b.both : a.both, from_b & 4 ? b.stage : a.stage,
                         from_b & 8 ? b.begin : a.begin, from_b & 16 ? b.function : a.function};
          const auto same = [&](const fields& o) {
            return m.id == o.id && m.both == o.both && m.stage == o.stage && m.begin == o.begin &&
                   m.function == o.function;
          };
          if (same(a) || same(b)) continue;
          passed += check_of(m) == check_of(a) || check_of(m) == check_of(b);
        }
      }
  CHECK(passed == 0);
}

TEST_CASE("writers in many threads never leave a torn entry") {
  ring r;
  REQUIRE(r.reset(2));  // so few entries that a writer which is held up finds its own taken
  std::atomic<bool> stop{false};
  std::atomic<std::uint32_t> next{1};
  std::vector<std::thread> writers;
  for (std::uint32_t t = 1; t <= 6; ++t)
    writers.emplace_back([&, t] {
      while (!stop) {
        const std::uint32_t id = next.fetch_add(1);
        r.put(id, std::uint64_t{id} << 8, id, t, id & 0xfff);
      }
    });
  std::uint64_t found = 0, torn = 0;
  for (int i = 0; i < 500000; ++i) {
    const std::uint32_t id = next.load() - 1;
    ring::call c{};
    if (id == 0 || r.find(id, c) != attribution::by_call) continue;
    ++found;
    torn += c.stage != std::uint64_t{id} << 8 || c.begin_ticks != id || c.function != (id & 0xfff);
  }
  stop = true;
  for (std::thread& t : writers) t.join();
  CHECK(torn == 0);
  r.put(next, 0x77, 1, 1, 1);  // (A writer that was held up may have put an old call over a newer one.)
  ring::call c{};
  CHECK(r.find(next, c) == attribution::by_call);
  static_cast<void>(found);
}

}  // namespace correlation_ring_test
