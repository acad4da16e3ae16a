// SPDX-License-Identifier: Apache-2.0
// The pool of activity buffers: as many as the budget allows, zeroed, aligned, recycled; who waits for room goes on
// when there is some.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <cutrace/cupti/buffers.hpp>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace cupti_buffers_test {

namespace {

using cutrace::cupti::buffer_pool;

/// The pool never frees its buffers, which CUPTI may hold until the process ends; here all are known and returned.
class pool : public buffer_pool {
 public:
  ~pool() {
    for (unsigned char* b : known_) std::free(head_of(b));
  }
  unsigned char* take() {
    unsigned char* b = buffer_pool::take();
    const std::lock_guard<std::mutex> hold(lock_);
    if (b != nullptr) known_.insert(b);
    return b;
  }
  std::vector<unsigned char*> take_all() {
    std::vector<unsigned char*> all;
    while (unsigned char* b = take()) all.push_back(b);
    return all;
  }

 private:
  std::mutex lock_;
  std::set<unsigned char*> known_;
};

bool is_zero(const unsigned char* b) {
  return std::all_of(b, b + buffer_pool::buffer_bytes, [](unsigned char c) { return c == 0; });
}

}  // namespace

TEST_CASE("cupti buffers: no more than the budget allows, and at least two") {
  pool p;
  CHECK(p.take() == nullptr);
  CHECK(p.made() == 0);
  p.allow(5 * pool::buffer_bytes + 17);
  std::vector<unsigned char*> all = p.take_all();
  CHECK(all.size() == 5);
  CHECK(std::set<unsigned char*>(all.begin(), all.end()).size() == 5);
  CHECK(p.made() == 5);
  CHECK(p.out() == 5);
  for (unsigned char* b : all) {
    CHECK(reinterpret_cast<std::uintptr_t>(b) % 8 == 0);  // ACTIVITY_RECORD_ALIGNMENT of cupti_common.h
    CHECK(is_zero(b));
    p.give(b, 0);
  }
  CHECK(p.out() == 0);

  pool small;
  small.allow(1);
  CHECK(small.take_all().size() == 2);
  CHECK(small.take() == nullptr);
}

TEST_CASE("cupti buffers: a larger budget adds to what exists, a smaller one takes nothing back") {
  pool p;
  p.allow(2 * pool::buffer_bytes);
  const std::vector<unsigned char*> first = p.take_all();
  p.allow(4 * pool::buffer_bytes);
  const std::vector<unsigned char*> more = p.take_all();
  CHECK(more.size() == 2);
  p.allow(2 * pool::buffer_bytes);
  for (unsigned char* b : first) p.give(b, pool::buffer_bytes);
  for (unsigned char* b : more) p.give(b, pool::buffer_bytes);
  CHECK(p.out() == 0);
  CHECK(p.take_all().size() == 4);  // none was lost although there are more than are allowed now
}

TEST_CASE("cupti buffers: what comes back is zero again, however much of it was used") {
  pool p;
  p.allow(2 * pool::buffer_bytes);
  for (const std::size_t used : {std::size_t{1}, std::size_t{4097}, pool::buffer_bytes}) {
    unsigned char* b = p.take();
    REQUIRE(b != nullptr);
    std::memset(b, 0xab, std::min(used, pool::buffer_bytes));
    p.give(b, used);
    for (unsigned char* again : p.take_all()) {
      CHECK(is_zero(again));
      p.give(again, 0);
    }
  }
}

TEST_CASE("cupti buffers: threads that take and give never share one, and none gets lost") {
  pool p;
  p.allow(6 * pool::buffer_bytes);
  std::atomic<int> shared{0}, refused{0};
  std::vector<std::thread> threads;
  for (int t = 1; t <= 8; ++t)
    threads.emplace_back([&, t] {
      for (int n = 0; n < 3000; ++n) {
        unsigned char* b = p.take();
        if (b == nullptr) {
          ++refused;
          std::this_thread::yield();
          continue;
        }
        if (b[0] != 0) ++shared;
        b[0] = static_cast<unsigned char>(t);
        if (n % 16 == 0) std::this_thread::yield();
        if (b[0] != t) ++shared;
        p.give(b, 1);
      }
    });
  for (std::thread& t : threads) t.join();
  CHECK(shared == 0);
  CHECK(refused < 8 * 3000);
  CHECK(p.made() <= 6);
  CHECK(p.out() == 0);
  CHECK(p.take_all().size() == 6);
}

TEST_CASE("cupti buffers: nobody waits unless the collector has buffers to read and half are taken") {
  constexpr std::uint32_t forever_us = 4000000000;
  pool p;
  p.allow(4 * pool::buffer_bytes);
  p.wait_for_room(forever_us);  // all free
  std::vector<unsigned char*> all = p.take_all();
  p.wait_for_room(forever_us);  // all taken, but the collector could not give one back
  p.queued(true);
  p.give(all[0], 0);
  p.give(all[1], 0);
  p.wait_for_room(forever_us);  // half are free
  CHECK(p.out() == 2);
}

TEST_CASE("cupti buffers: who waits goes on when the collector has given back, and after the time allowed") {
  pool p;
  p.allow(4 * pool::buffer_bytes);
  std::vector<unsigned char*> all = p.take_all();
  p.queued(true);
  errno = 77;
  p.wait_for_room(200);  // in vain
  CHECK(errno == 77);
  CHECK(p.out() == 4);
  std::thread collector([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    p.queued(false);
    p.give(all[0], 0);
  });
  p.wait_for_room(4000000000);
  collector.join();
  CHECK(p.out() == 3);
}

TEST_CASE("cupti buffers: one that CUPTI keeps is known by its age until it comes back") {
  pool p;
  p.allow(3 * pool::buffer_bytes);
  const auto now = [] { return cutrace::clock::monotonic_ns(); };
  CHECK_FALSE(p.kept_since(now()));
  const std::uint64_t before = now() - 1;
  unsigned char* first = p.take();
  const std::uint64_t between = now();
  unsigned char* second = p.take();
  CHECK_FALSE(p.kept_since(before));
  CHECK(p.kept_since(between));
  pool::returned(first);
  CHECK_FALSE(p.kept_since(between - 1));
  CHECK(p.kept_since(now()));
  pool::returned(second);
  CHECK_FALSE(p.kept_since(now()));  // both wait for the collector
  p.give(first, 0);
  p.give(second, 0);
  CHECK_FALSE(p.kept_since(now()));
  first = p.take();
  CHECK_FALSE(p.kept_since(between - 1));  // its age begins anew
  CHECK(p.kept_since(now()));
}

}  // namespace cupti_buffers_test
