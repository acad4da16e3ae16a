// SPDX-License-Identifier: Apache-2.0
// The collector's tables answer from what was asked last; they must not do so when that has changed.
#include <doctest/doctest.h>

#include <cstring>
#include <cutrace/collect/stage_table.hpp>
#include <cutrace/collect/string_table.hpp>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace collector_tables_test {

using cutrace::text;
using cutrace::detail::stage_table;
using cutrace::detail::string_table;

TEST_CASE("a stage is found until enough others have ended after it, and not after that") {
  stage_table stages;
  REQUIRE(stages.find(1) == nullptr);
  stages.open(1)->word = 77;
  CHECK(stages.find(1)->word == 77);
  stages.close(1);
  for (std::uint64_t id = 2; id <= stage_table::closed_limit; ++id) {
    stages.open(id)->word = id;
    stages.close(id);
  }
  REQUIRE(stages.find(1) != nullptr);
  CHECK(stages.find(1)->word == 77);
  constexpr std::uint64_t other = std::uint64_t{5} << 40 | 7;
  stages.open(other);
  stages.close(other);
  CHECK(stages.find(1) == nullptr);
  CHECK(stages.find(2)->word == 2);
}

TEST_CASE("stages of several threads do not stand in for each other") {
  stage_table stages;
  for (std::uint64_t thread = 1; thread <= 20; ++thread)
    for (std::uint64_t n = 0; n < 100; ++n) stages.open(thread << 40 | n)->word = thread * 1000 + n;
  for (int round = 0; round < 2; ++round)
    for (std::uint64_t n = 0; n < 100; ++n)
      for (std::uint64_t thread = 1; thread <= 20; ++thread)
        REQUIRE(stages.find(thread << 40 | n)->word == thread * 1000 + n);
}

TEST_CASE("numbers are found while they are in the table, whatever was taken out of it before") {
  std::mt19937_64 random(23);
  cutrace::detail::id_places places;
  std::map<std::uint64_t, std::uint32_t> expected;
  std::vector<std::uint64_t> ids;  // three threads that count up, and some numbers of no order
  for (std::uint64_t n = 1; n <= 6000; ++n) {
    for (std::uint64_t thread = 1; thread <= 3; ++thread) ids.push_back(thread << 40 | n);
    if (n % 3 == 0) ids.push_back(random() | 1);
  }
  const auto find = [&](std::uint64_t id) {
    return places.find(id, [&](std::uint32_t place) { return ids[place] == id; });
  };
  CHECK(find(1) == places.none);
  std::uint64_t wrong = 0;
  for (std::uint32_t at = 0; at < ids.size(); ++at) {
    places.add(ids[at], at);
    expected[ids[at]] = at;
    if (expected.size() > 2500) {  // the oldest, or any of the last ones
      const std::size_t gone = at % 5 == 0 ? at - random() % 1000 : at - 2400;
      if (expected.erase(ids[gone]) != 0) places.remove(ids[gone], static_cast<std::uint32_t>(gone));
    }
    const std::uint64_t asked = ids[random() % ids.size()];
    const auto known = expected.find(asked);
    wrong += find(asked) != (known != expected.end() ? known->second : places.none);
    wrong += places.size() != expected.size();
    if (at % 4000 != 0) continue;
    for (const auto& one : expected) wrong += find(one.first) != one.second;
  }
  CHECK(wrong == 0);
}

TEST_CASE("stages that never end do not lock out those to come, nor does what is forgotten stay behind") {
  stage_table stages;
  CHECK(stages.open(0) == nullptr);
  for (std::uint64_t id = 1; id <= stage_table::open_limit; ++id) stages.open(id);
  const std::uint64_t full = stages.bytes();
  for (std::uint64_t id = 1; id <= 1000; ++id) {
    const std::uint64_t newest = stage_table::open_limit + id;
    cutrace::detail::known_stage* s = stages.open(newest);
    REQUIRE(s != nullptr);
    CHECK(s->requests == nullptr);
    CHECK(s->request_count == 0);
    CHECK(s->total == 0);
    stages.keep_requests(*s, cutrace::request_form::batch, 5, {7, 8, 9}, nullptr);
    CHECK(s->total == 5);
    CHECK(s->requests[2].id == 9);
    CHECK(stages.find(newest) == s);
    if (id % 2 == 0) stages.close(newest);
  }
  std::size_t kept = 0;
  for (std::uint64_t id = 1; id <= stage_table::open_limit + 1000; ++id) kept += stages.find(id) != nullptr;
  CHECK(kept == stage_table::open_limit);
  CHECK(stages.bytes() < full + (std::size_t{1} << 17));
}

TEST_CASE("the text of a request ends in NUL, whatever its size") {
  stage_table stages;
  const std::vector<std::uint64_t> none;
  for (std::size_t size = 0; size <= 480; ++size) {
    const std::string text(size, static_cast<char>('a' + size % 26));
    cutrace::detail::known_stage* s = stages.open(size + 1);
    stages.keep_requests(*s, cutrace::request_form::text, 0, none, &text);
    REQUIRE(s->request_count == 1);
    REQUIRE(s->requests[0].name.size == size);
    REQUIRE(std::strlen(s->requests[0].name.data) == size);
    REQUIRE(s->requests[0].name.data == text);
  }
}

TEST_CASE("where a stage was said to stand is asked again once another one stands there") {
  std::mt19937_64 random(41);
  stage_table stages;
  std::vector<std::pair<std::uint64_t, std::uint32_t>> told;
  std::uint64_t wrong = 0, gone = 0, elsewhere = 0;
  CHECK(stages.place_of(0) == stage_table::no_place);
  CHECK(stages.place_of(3) == stage_table::no_place);
  CHECK(stages.find_at(stage_table::no_place, 3) == nullptr);
  for (std::uint64_t id = 1; id <= 3 * stage_table::closed_limit; ++id) {
    const std::uint64_t named = std::uint64_t{id % 3 + 1} << 40 | id;
    stages.open(named)->word = id;
    told.emplace_back(named, stages.place_of(named));
    if (random() % 4 == 0) stages.place_of(told[random() % told.size()].first);
    stages.close(named);
    const auto& asked = told[random() % told.size()];
    const cutrace::detail::known_stage* const s = stages.find_at(asked.second, asked.first);
    const cutrace::detail::known_stage* const now = stages.find(asked.first);
    wrong += s != now || (s != nullptr && s->id != asked.first);
    gone += s == nullptr;
    elsewhere += stages.find_at(asked.second + 1, asked.first) != now;
  }
  CHECK(wrong == 0);
  CHECK(elsewhere == 0);
  CHECK(gone > 1000);
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
  for (int round = 0; round < 3; ++round) {  // another content at one address is another text
    for (const char* name : {"_Z4gemmPfi", "_Z4ropePfi", "_Z4gemm"}) {
      std::strcpy(buffer, name);
      const text known = strings.intern(buffer, std::strlen(buffer));
      CHECK(std::string(known.data, known.size) == name);
      CHECK((known.data == first[0].data) == (std::string(name) == mangled[0]));
    }
  }
}

}  // namespace collector_tables_test
