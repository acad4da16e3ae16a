// SPDX-License-Identifier: Apache-2.0
// Chunks of two sizes: threads that hardly record have a small one, half of the memory stays whole, and none is shared.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cutrace/collect/chunk_pool.hpp>
#include <vector>

namespace chunk_pool_test {

using cutrace::detail::chunk;
using cutrace::detail::chunk_bytes;
using cutrace::detail::chunk_pool;
using cutrace::detail::chunk_records;
using cutrace::detail::quarter_records;

namespace {

std::size_t bytes_of(const chunk* c) { return (c->capacity + 1) * std::size_t{64}; }

/// Until there are none.
std::vector<chunk*> take_all(chunk_pool& pool, std::uint32_t records, bool first) {
  std::vector<chunk*> all;
  while (chunk* c = pool.take(records, first)) all.push_back(c);
  return all;
}

bool are_apart(std::vector<chunk*> all) {
  std::sort(all.begin(), all.end());
  for (std::size_t i = 1; i < all.size(); ++i)
    if (reinterpret_cast<char*>(all[i - 1]) + bytes_of(all[i - 1]) > reinterpret_cast<char*>(all[i])) return false;
  return true;
}

}  // namespace

TEST_CASE("chunk pool: as many threads as it says have a chunk each, small ones until half is cut") {
  chunk_pool pool;
  REQUIRE(pool.resize(20));
  CHECK(pool.thread_limit() == 50);
  const std::vector<chunk*> all = take_all(pool, 1, true);
  REQUIRE(all.size() == pool.thread_limit());
  CHECK(std::count_if(all.begin(), all.end(), [](chunk* c) { return c->capacity == quarter_records; }) == 40);
  CHECK(are_apart(all));
  for (chunk* c : all) {
    CHECK(pool.at(c->index) == c);
    CHECK(c->committed.load() == 0);
    std::fill(reinterpret_cast<unsigned char*>(c->records()), reinterpret_cast<unsigned char*>(c) + bytes_of(c), 0xab);
  }
  for (chunk* c : all) pool.give(c);
  CHECK(take_all(pool, 1, true).size() == 50);
}

TEST_CASE("chunk pool: what does not fit a small one gets a large one, also when threads have cut what they could") {
  chunk_pool pool;
  REQUIRE(pool.resize(20));
  std::vector<chunk*> small;
  for (int i = 0; i < 40; ++i) small.push_back(pool.take(1, true));
  CHECK(pool.running_low() == false);
  const std::vector<chunk*> large = take_all(pool, quarter_records + 1, true);
  CHECK(large.size() == 10);
  for (const chunk* c : large) CHECK(c->capacity == chunk_records);
  CHECK(pool.take(1, false) == nullptr);
  pool.give(small.back());
  CHECK(pool.take(quarter_records + 1, false) == nullptr);
  CHECK(pool.take(quarter_records, false) == small.back());
}

TEST_CASE("chunk pool: a thread that goes on has a large one while half of the memory is free") {
  chunk_pool pool;
  REQUIRE(pool.resize(8));
  std::vector<chunk*> all;
  for (int i = 0; i < 5; ++i) all.push_back(pool.take(1, false));
  for (const chunk* c : all) CHECK(c->capacity == chunk_records);
  CHECK(pool.running_low());
  CHECK(pool.take(1, false)->capacity == quarter_records);
  CHECK(pool.bytes() == 8 * chunk_bytes);
}

}  // namespace chunk_pool_test
