// SPDX-License-Identifier: Apache-2.0
// The collector's tables answer from what was asked last; they must not do so when that has changed.
#include <doctest/doctest.h>

#include <cutrace/detail/stage_table.hpp>
#include <cutrace/detail/string_table.hpp>
#include <string>

using cutrace::text;
using cutrace::detail::stage_table;
using cutrace::detail::string_table;

TEST_CASE("a stage is found until enough others have ended after it, and not after that") {
  stage_table stages;
  REQUIRE(stages.find(1) == nullptr);
  stages.open(1)->parent = 77;
  CHECK(stages.find(1)->parent == 77);
  stages.close(1);
  for (std::uint64_t id = 2; id <= stage_table::closed_limit; ++id) {
    stages.open(id)->parent = id;
    stages.close(id);
  }
  REQUIRE(stages.find(1) != nullptr);
  CHECK(stages.find(1)->parent == 77);
  constexpr std::uint64_t other = std::uint64_t{5} << 40 | 7;
  stages.open(other);
  stages.close(other);
  CHECK(stages.find(1) == nullptr);
  CHECK(stages.find(2)->parent == 2);
}

TEST_CASE("stages of several threads do not stand in for each other") {
  stage_table stages;
  for (std::uint64_t thread = 1; thread <= 20; ++thread)
    for (std::uint64_t n = 0; n < 100; ++n) stages.open(thread << 40 | n)->parent = thread * 1000 + n;
  for (int round = 0; round < 2; ++round)
    for (std::uint64_t n = 0; n < 100; ++n)
      for (std::uint64_t thread = 1; thread <= 20; ++thread)
        REQUIRE(stages.find(thread << 40 | n)->parent == thread * 1000 + n);
}

TEST_CASE("one address for one content; a human form for each mangled name, asked for in any order") {
  string_table strings(1 << 20);
  const std::string mangled[] = {"_Z4gemmPfi", "_Z4ropePf", "plain", "_Znonsense"};
  const std::string human[] = {"gemm(float*, int)", "rope(float*)", "plain", "_Znonsense"};
  text first[4];
  for (int i = 0; i < 4; ++i) first[i] = strings.intern(mangled[i].data(), mangled[i].size());
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 4; ++i) {
      const text again = strings.intern(mangled[i].data(), mangled[i].size());
      CHECK(again.data == first[i].data);
      const text other = strings.demangle(first[(i + round) % 4]);  // not always the one interned last
      CHECK(std::string(other.data, other.size) == human[(i + round) % 4]);
      CHECK(strings.demangle(first[(i + round) % 4]).data == other.data);
    }
  }
  char buffer[] = "_Z4gemmPfi";  // equal content at another address
  CHECK(strings.demangle(text{buffer, sizeof(buffer) - 1}).data == strings.demangle(first[0]).data);
}
