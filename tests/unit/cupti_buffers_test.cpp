// SPDX-License-Identifier: Apache-2.0
// The pool of activity buffers: as many as the budget allows, zeroed, aligned, recycled; who waits for room goes on
// when there is some.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <cutrace/cupti/buffers.hpp>
#include <thread>
#include <vector>

namespace cupti_buffers_test {

namespace {

using cutrace::cupti::buffer_pool;

/// The pool never unmaps its buffers, which CUPTI may hold until the process ends.
struct pool : buffer_pool {
  static constexpr std::uint32_t me = 5;

  unsigned char* take(std::uint64_t now_ns = 1) { return buffer_pool::take(me, now_ns, false, size); }
  struct taken {
    unsigned char* bytes;
    std::size_t size;
  };
  std::vector<taken> take_all() {
    std::vector<taken> all;
    while (unsigned char* b = take()) all.push_back({b, size});
    return all;
  }
  std::size_t size = 0;
};

constexpr std::size_t large = buffer_pool::large_bytes, little = buffer_pool::small_bytes;

bool is_zero(const pool::taken& b) {
  return std::all_of(b.bytes, b.bytes + b.size, [](unsigned char c) { return c == 0; });
}
std::size_t bytes_of(const std::vector<pool::taken>& all) {
  std::size_t n = 0;
  for (const pool::taken& b : all) n += b.size;
  return n;
}
std::size_t count_of(const std::vector<pool::taken>& all, std::size_t size) {
  return static_cast<std::size_t>(std::count_if(all.begin(), all.end(), [&](const auto& b) { return b.size == size; }));
}

}  // namespace

TEST_CASE("cupti buffers: no more than the budget allows, large ones until half is taken, and at least two") {
  pool p;
  CHECK(p.take() == nullptr);
  CHECK(p.bytes() == 0);
  p.allow(6 * large + 17);
  std::vector<pool::taken> all = p.take_all();
  CHECK(count_of(all, large) == 3);
  CHECK(count_of(all, little) == 3 * large / little);
  CHECK(bytes_of(all) == 6 * large);
  CHECK(p.bytes() == 6 * large);
  CHECK(p.out() == all.size());
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
  for (std::size_t i = 0; i < all.size(); ++i) {
    CHECK(reinterpret_cast<std::uintptr_t>(all[i].bytes) % 64 == 0);
    CHECK((i == 0 || all[i - 1].bytes + all[i - 1].size <= all[i].bytes));
    CHECK(is_zero(all[i]));
    p.give(all[i].bytes, 0);
  }
  CHECK(p.out() == 0);

  pool least;
  least.allow(1);
  CHECK(bytes_of(least.take_all()) == 2 * large);
  CHECK(least.take() == nullptr);
}

TEST_CASE("cupti buffers: a thousand threads have one each, and what is left is large again when they are back") {
  pool p;
  p.allow(std::size_t{11} << 20);
  const std::vector<pool::taken> all = p.take_all();
  CHECK(all.size() == 22 + 22 * large / little);
  for (const pool::taken& b : all) p.give(b.bytes, b.size);
  CHECK(p.take() != nullptr);
  CHECK(p.size == large);
  CHECK(p.bytes() == std::size_t{11} << 20);
}

TEST_CASE("cupti buffers: small ones share their memory, and one that is back goes out again first") {
  pool p;
  p.allow(8 * large);
  for (int i = 0; i < 4; ++i) p.take();
  std::vector<unsigned char*> small;
  for (std::size_t i = 0; i < large / little; ++i) {
    small.push_back(p.take());
    CHECK(p.size == little);
  }
  CHECK(p.bytes() == 5 * large);
  p.give(small[7], little);
  CHECK(p.take() == small[7]);
}

TEST_CASE("cupti buffers: a thread's first since a flush is small, whatever is free") {
  pool p;
  p.allow(8 * large);
  std::size_t size = 0;
  for (std::uint32_t t = 0; t < 64; ++t) {
    CHECK(p.buffer_pool::take(t, 1, true, size) != nullptr);
    CHECK(size == little);
  }
  CHECK(p.bytes() == large);  // all in one
  CHECK(p.buffer_pool::take(0, 1, false, size) != nullptr);
  CHECK(size == large);
}

TEST_CASE("cupti buffers: a larger budget adds to what exists, a smaller one takes nothing back") {
  pool p;
  p.allow(2 * large);
  const std::vector<pool::taken> first = p.take_all();
  p.allow(4 * large);
  const std::vector<pool::taken> more = p.take_all();
  CHECK(bytes_of(first) == 2 * large);
  CHECK(bytes_of(more) == 2 * large);
  p.allow(2 * large);
  for (const pool::taken& b : first) p.give(b.bytes, b.size);
  CHECK(p.take() == nullptr);  // two slots are still out
  for (const pool::taken& b : more) p.give(b.bytes, b.size);
  CHECK(p.out() == 0);
  CHECK(bytes_of(p.take_all()) == 2 * large);
}

TEST_CASE("cupti buffers: what comes back is zero again, however much of it was used") {
  pool p;
  p.allow(2 * large);
  unsigned char* const half = p.take();
  for (const bool small : {true, false}) {
    if (!small) p.give(half, 0);
    for (const std::size_t used : {std::size_t{1}, std::size_t{3000}, little, large}) {
      unsigned char* b = p.take();
      REQUIRE(b != nullptr);
      CHECK(p.size == (small ? little : large));
      std::memset(b, 0xab, std::min(used, p.size));
      p.give(b, used);
      const std::vector<pool::taken> all = p.take_all();
      for (const pool::taken& again : all) CHECK(is_zero(again));
      for (const pool::taken& again : all) p.give(again.bytes, 0);
    }
  }
}

TEST_CASE("cupti buffers: threads that take and give never share one, and none gets lost") {
  pool p;
  p.allow(6 * large);
  std::atomic<int> shared{0}, refused{0};
  std::vector<std::thread> threads;
  for (int t = 1; t <= 8; ++t)
    threads.emplace_back([&, t] {
      for (int n = 0; n < 3000; ++n) {
        std::size_t size = 0;
        unsigned char* b = p.buffer_pool::take(static_cast<std::uint32_t>(t), 1, n % 3 == 0, size);
        if (b == nullptr) {
          ++refused;
          std::this_thread::yield();
          continue;
        }
        if (b[0] != 0 || b[size - 1] != 0) ++shared;
        b[0] = b[size - 1] = static_cast<unsigned char>(t);
        if (n % 16 == 0) std::this_thread::yield();
        if (b[0] != t || b[size - 1] != t) ++shared;
        p.give(b, size);
      }
    });
  for (std::thread& t : threads) t.join();
  CHECK(shared == 0);
  CHECK(refused == 0);
  CHECK(p.out() == 0);
  CHECK(bytes_of(p.take_all()) == 6 * large);
}

TEST_CASE("cupti buffers: nobody waits unless more than half of what unfinished work leaves are taken") {
  constexpr std::uint32_t forever_us = 4000000000;
  const auto nobody = [] { FAIL_CHECK("a flush is asked for"); };
  pool p;
  p.allow(8 * large);
  p.wait_for_room(forever_us, nobody);  // all free
  const std::vector<unsigned char*> four = {p.take(), p.take(), p.take(), p.take()};
  p.wait_for_room(forever_us, nobody);  // half are free
  p.flushed();
  for (std::size_t i = 0; i < 2 * large / little; ++i) p.take();
  p.wait_for_room(forever_us, nobody);  // half of what the flush left is free
  int asked = 0;
  p.take();
  p.wait_for_room(200, [&] { ++asked; });
  CHECK(asked != 0);
  p.take_all();
  p.flushed();
  p.wait_for_room(forever_us, nobody);  // all taken, and a flush could not get one back
  for (unsigned char* b : four) p.returned(b);
  p.wait_for_room(200, nobody);  // in vain: these are the collector's
  p.close();
  p.wait_for_room(forever_us, nobody);
}

TEST_CASE("cupti buffers: who waits for what CUPTI has asks for a flush until one has ended") {
  pool p;
  p.allow(4 * large);
  const std::vector<pool::taken> all = p.take_all();
  int asked = 0;
  p.wait_for_room(4000000000, [&] {
    if (++asked == 3) p.flushed();
  });
  CHECK(asked == 3);
  for (const pool::taken& b : all) p.returned(b.bytes);
  asked = 0;
  p.wait_for_room(200, [&] { ++asked; });  // the collector has them
  CHECK(asked == 0);
}

TEST_CASE("cupti buffers: what was unfinished in one trace does not count in the next") {
  pool p;
  p.allow(4 * large);
  const std::vector<pool::taken> all = p.take_all();
  p.flushed();
  p.close();
  p.allow(4 * large);
  int asked = 0;
  p.wait_for_room(200, [&] { ++asked; });
  CHECK(asked != 0);
}

TEST_CASE("cupti buffers: who waits goes on when the collector has given back, and after the time allowed") {
  pool p;
  p.allow(4 * large);
  unsigned char* const two[] = {p.take(), p.take()};
  unsigned char* const small = p.take();
  const auto nothing = [] {};
  errno = 77;
  p.wait_for_room(200, nothing);  // in vain
  CHECK(errno == 77);
  CHECK(p.out() == 3);
  std::thread collector([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    p.give(two[0], 0);
  });
  p.wait_for_room(4000000000, nothing);
  collector.join();
  CHECK(p.out() == 2);
  p.give(small, 0);
}

TEST_CASE("cupti buffers: nobody waits longer than allowed, also where the pauses have grown") {
  using clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds allowed(60), too_long(90);
  clock::duration shortest = clock::duration::max();  // of several: a busy machine may let a thread sleep on
  for (int i = 0; i < 20 && shortest >= too_long; ++i) {
    const clock::time_point begin = clock::now();
    cutrace::wait_for_room(60000, [] { return false; });
    shortest = std::min(shortest, clock::now() - begin);
  }
  CHECK(shortest >= allowed);
  CHECK(shortest < too_long);
}

TEST_CASE("cupti buffers: those that CUPTI has are counted, and whose records they hold until they are read") {
  pool p;
  p.allow(8 * large);
  const auto held = [&] {
    std::vector<cutrace::activity_buffers::held> all;
    p.list(
        [](void* to, const cutrace::activity_buffers::held& one) {
          static_cast<std::vector<cutrace::activity_buffers::held>*>(to)->push_back(one);
        },
        &all);
    return all;
  };
  CHECK(p.at_cupti_bytes() == 0);
  unsigned char* first = p.take(100);
  unsigned char* second = p.take(200);
  CHECK(p.at_cupti_bytes() == 2 * large);
  p.returned(first);
  CHECK(p.at_cupti_bytes() == large);
  p.returned(second);
  CHECK(p.at_cupti_bytes() == 0);  // both wait for the collector
  REQUIRE(held().size() == 2);
  CHECK(held()[0].thread == pool::me);
  CHECK(held()[0].since_ns + held()[1].since_ns == 300);
  p.give(first, 0);
  REQUIRE(held().size() == 1);
  CHECK(held()[0].since_ns == 200);
  p.give(second, 0);
  CHECK(held().empty());
  p.take(300);
  REQUIRE(held().size() == 1);
  CHECK(held()[0].since_ns == 300);  // its age begins anew
}

TEST_CASE("cupti buffers: what is held back are full buffers of threads of which nothing has come for long") {
  pool p;
  p.allow(16 * large);
  std::size_t size = 0;
  const auto take = [&](std::uint32_t thread, std::uint64_t now_ns) {
    return static_cast<buffer_pool&>(p).take(thread, now_ns, false, size);
  };
  CHECK(p.held_back_bytes(1000) == 0);
  unsigned char* oldest = take(1, 100);
  CHECK(p.held_back_bytes(1000) == 0);  // may hold one record
  take(1, 500);
  take(1, 1500);
  CHECK(p.held_back_bytes(99) == 0);
  CHECK(p.held_back_bytes(100) == 2 * large);  // whatever the age of those behind it
  take(2, 900);
  take(3, 50);
  take(2, 950);
  CHECK(p.held_back_bytes(899) == 2 * large);
  CHECK(p.held_back_bytes(900) == 3 * large);
  while (size == large) take(4, 2000);
  take(2, 2000);  // a small one: what is full before it counts
  CHECK(p.held_back_bytes(900) == 4 * large);
  take(2, 2100);
  CHECK(p.held_back_bytes(900) == 4 * large + little);
  p.returned(oldest);
  CHECK(p.held_back_bytes(499) == 0);
  CHECK(p.held_back_bytes(500) == large);
}

}  // namespace cupti_buffers_test
