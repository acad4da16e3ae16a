// SPDX-License-Identifier: Apache-2.0
// The pool of activity buffers: zeroed, aligned, bounded, used again.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <cutrace/cupti/buffers.hpp>
#include <set>
#include <vector>

namespace {

using cutrace::cupti::buffer_pool;

bool zero(const unsigned char* b, std::size_t bytes) {
  return std::all_of(b, b + bytes, [](unsigned char c) { return c == 0; });
}

/// Pools never free: these are the tests' own to keep.
buffer_pool& pool_of(std::size_t bytes) {
  auto* p = new buffer_pool();
  p->allow(bytes);
  return *p;
}

}  // namespace

TEST_CASE("cupti buffers: zeroed when they are given out, the first time and after use") {
  buffer_pool& pool = pool_of(2 * buffer_pool::buffer_bytes);
  unsigned char* b = pool.take();
  REQUIRE(b != nullptr);
  CHECK(zero(b, buffer_pool::buffer_bytes));
  for (const std::size_t used : {std::size_t{1}, std::size_t{4096}, buffer_pool::buffer_bytes}) {
    std::memset(b, 0xff, used);
    pool.give(b, used);
    CHECK(pool.take() == b);
    CHECK(zero(b, buffer_pool::buffer_bytes));
  }
}

TEST_CASE("cupti buffers: aligned to 8 bytes, as many as allowed and no more, none of them twice") {
  buffer_pool& pool = pool_of(5 * buffer_pool::buffer_bytes);
  std::set<unsigned char*> taken;
  for (int i = 0; i < 5; ++i) {
    unsigned char* b = pool.take();
    REQUIRE(b != nullptr);
    CHECK(reinterpret_cast<std::uintptr_t>(b) % 8 == 0);
    CHECK(taken.insert(b).second);
  }
  CHECK(pool.take() == nullptr);
  CHECK(pool.take() == nullptr);
  pool.give(*taken.begin(), 0);
  CHECK(pool.take() == *taken.begin());
  CHECK(pool.take() == nullptr);
}
