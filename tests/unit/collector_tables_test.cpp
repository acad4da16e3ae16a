// SPDX-License-Identifier: Apache-2.0
// The collector's tables keep their last answers, and must not give them again once the content has changed. A stage is
// adopted when another thread continues it (context.hpp).
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <cutrace/collect/stage_table.hpp>
#include <cutrace/collect/string_table.hpp>
#include <deque>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "support/sanitized.hpp"

namespace collector_tables_test {

using cutrace::text;
using cutrace::detail::stage_table;
using cutrace::detail::string_table;

namespace {

cutrace::detail::known_stage* open(stage_table& stages, std::uint64_t id) {
  bool entered = false;
  cutrace::detail::known_stage* s = stages.open(id, entered);
  if (s != nullptr && entered) stages.set_naming_stage(*s, id);
  return s;
}

/// Keeps nothing for longer than it must.
stage_table strict_table() {
  stage_table stages;
  stages.set_limits(0, std::size_t{64} << 20);
  return stages;
}

const auto nothing_awaited = [](std::uint32_t, std::int64_t) { return false; };

}  // namespace

TEST_CASE("a stage stays until its end is known and all events up to that moment have been delivered") {
  stage_table stages = strict_table();
  REQUIRE(stages.find(1) == nullptr);
  open(stages, 1)->word = 77;
  stages.release(nothing_awaited, 1000, 1000);
  CHECK(stages.find(1) != nullptr);  // open
  stages.close(1, 2000);
  stages.release(nothing_awaited, 2000, 9000);
  CHECK(stages.find(1) != nullptr);  // records are complete up to 2000, which is not past the end of the stage
  stages.release(nothing_awaited, 2001, 2001);
  REQUIRE(stages.find(1) != nullptr);  // events that end at 2001 may not be delivered yet
  CHECK(stages.find(1)->word == 77);
  stages.release(nothing_awaited, 3000, 2002);
  CHECK(stages.find(1) == nullptr);
  CHECK(stages.used_bytes() == 0);
}

TEST_CASE("a stage stays while GPU records of its calls can come, and records of other threads do not keep it") {
  stage_table stages = strict_table();
  std::uint32_t held_thread = 7;
  std::int64_t held_since = 1500;
  std::vector<std::uint32_t> asked;
  const auto awaited = [&](std::uint32_t thread, std::int64_t until) {
    asked.push_back(thread);
    return (thread == held_thread || thread == stage_table::many_threads) && held_since <= until;
  };
  const auto stage_with_calls = [&](std::uint64_t id, std::vector<std::uint32_t> threads) {
    open(stages, id);
    for (const std::uint32_t t : threads) stages.note_call(stages.place_of(id), id, t, 1600);
    stages.close(id, 1700);
  };
  stage_with_calls(1, {});
  stage_with_calls(2, {7});
  stage_with_calls(3, {8, 8});
  stage_with_calls(4, {8, 9});
  stages.release(awaited, 2000, 2001);
  CHECK(stages.find(1) == nullptr);  // nothing on the GPU
  CHECK(stages.find(2) != nullptr);
  CHECK(stages.find(3) == nullptr);
  CHECK(stages.find(4) != nullptr);  // of several threads, of which one may be the awaited one
  CHECK(std::count(asked.begin(), asked.end(), stage_table::no_thread) == 0);
  held_since = 1701;  // the buffer awaited now began after the stages ended
  stages.release(awaited, 3000, 3000);
  CHECK(stages.find(2) != nullptr);  // events that end at 3000 may not be delivered yet
  stages.release(awaited, 4000, 3001);
  CHECK(stages.find(2) == nullptr);
  CHECK(stages.find(4) == nullptr);
}

TEST_CASE("the stage that named requests stays for as long as a stage that serves them") {
  stage_table stages = strict_table();
  open(stages, 1);
  bool entered = false;
  cutrace::detail::known_stage* inner = stages.open(2, entered);
  REQUIRE(entered);
  stages.set_naming_stage(*inner, 1);
  stages.set_naming_stage(*inner, 1);  // reported once more
  stages.close(1, 100);
  stages.release(nothing_awaited, 1000, 1001);
  stages.release(nothing_awaited, 2000, 2001);
  CHECK(stages.find(1) != nullptr);
  stages.close(2, 2500);
  for (std::int64_t now = 3000; now < 6000; now += 1000) stages.release(nothing_awaited, now, now + 1);
  CHECK(stages.find(2) == nullptr);
  CHECK(stages.find(1) == nullptr);
}

TEST_CASE("a stage that was adopted stays until that part ends, whoever is read first") {
  stage_table stages = strict_table();
  open(stages, 1);
  stages.close(1, 100);
  bool entered = true;
  cutrace::detail::known_stage* s = stages.open(1, entered);
  CHECK_FALSE(entered);
  stages.adopt(*s, entered, 150);
  stages.release(nothing_awaited, 1000, 1001);
  stages.release(nothing_awaited, 2000, 2001);
  CHECK(stages.find(1) != nullptr);
  stages.adopted_part_ended(1, 2500);
  stages.release(nothing_awaited, 2400, 2401);
  CHECK(stages.find(1) != nullptr);
  stages.release(nothing_awaited, 3000, 3001);
  stages.release(nothing_awaited, 4000, 4001);
  CHECK(stages.find(1) == nullptr);

  s = stages.open(5, entered);  // by an adoption
  REQUIRE(entered);
  stages.adopt(*s, entered, 100);
  CHECK(s->closed);
  s->closed = false;  // now its own record is read
  stages.adopted_part_ended(5, 200);
  stages.release(nothing_awaited, 1000, 1001);
  stages.release(nothing_awaited, 2000, 2001);
  CHECK(stages.find(5) != nullptr);
  stages.close(5, 2100);
  stages.release(nothing_awaited, 3000, 3001);
  stages.release(nothing_awaited, 4000, 4001);
  CHECK(stages.find(5) == nullptr);
}

TEST_CASE("the stage around another one is known for as long as both are") {
  stage_table stages = strict_table();
  open(stages, 7);
  stages.set_parent(*open(stages, 8), 7);
  stages.set_parent(*open(stages, 9), 8);
  CHECK(stages.parent_of(9) == stages.find(8));
  CHECK(stages.parent_of(8) == stages.find(7));
  CHECK(stages.parent_of(7) == nullptr);
  CHECK(stages.parent_of(6) == nullptr);
  stages.close(8, 1000);
  stages.release(nothing_awaited, 1001, 1002);
  REQUIRE(stages.find(8) == nullptr);
  CHECK(stages.parent_of(9) == nullptr);
  open(stages, 10);  // where 8 stood
  CHECK(stages.parent_of(10) == nullptr);
}

TEST_CASE("one that has passed and is adopted once more stays, and what has passed is kept up to a limit") {
  stage_table stages;
  stages.set_limits(std::size_t{1} << 20, std::size_t{64} << 20);
  open(stages, 1);
  stages.close(1, 100);
  for (std::int64_t now = 1000; now < 5000; now += 1000) stages.release(nothing_awaited, now, now + 1);
  REQUIRE(stages.find(1) != nullptr);  // there is room
  bool entered = true;
  stages.adopt(*stages.open(1, entered), entered, 5000);
  for (std::uint64_t id = 2; id < 100000; ++id) {
    open(stages, id);
    stages.close(id, 6000);
  }
  stages.release(nothing_awaited, 7000, 7001);
  stages.release(nothing_awaited, 8000, 8001);
  CHECK(stages.find(1) != nullptr);
  CHECK(stages.find(2) == nullptr);
  CHECK(stages.find(99999) != nullptr);
  CHECK(stages.used_bytes() <= std::size_t{1} << 20);
}

TEST_CASE("stages of several threads do not stand in for each other") {
  stage_table stages;
  for (std::uint64_t thread = 1; thread <= 20; ++thread)
    for (std::uint64_t n = 0; n < 100; ++n) open(stages, thread << 40 | n)->word = thread * 1000 + n;
  for (int round = 0; round < 2; ++round)
    for (std::uint64_t n = 0; n < 100; ++n)
      for (std::uint64_t thread = 1; thread <= 20; ++thread)
        REQUIRE(stages.find(thread << 40 | n)->word == thread * 1000 + n);
}

TEST_CASE("a queue gives back what it took, in order, however it has grown") {
  std::mt19937 random(5);
  cutrace::detail::fifo<std::uint32_t> queue;
  CHECK(queue.bytes() == 0);
  std::deque<std::uint32_t> expected;
  std::uint32_t next = 0;
  std::uint64_t wrong = 0;
  for (int i = 0; i < 3000; ++i) {
    const std::size_t more = random() % (i < 2000 ? 40 : 20);
    for (std::size_t n = 0; n < more; ++n) {
      queue.add() = next;
      expected.push_back(next++);
    }
    if (i % 64 == 0) queue.shrink();
    const std::size_t fewer = std::min<std::size_t>(expected.size(), random() % 36);
    queue.pop_front(fewer);
    expected.erase(expected.begin(), expected.begin() + static_cast<std::ptrdiff_t>(fewer));
    wrong += queue.size() != expected.size() || queue.empty() != expected.empty();
    for (std::size_t at = 0; at < expected.size(); ++at) wrong += queue[at] != expected[at];
  }
  CHECK(wrong == 0);
  CHECK(next > 40000);
  queue.pop_front(queue.size() - 3);
  for (int i = 0; i < 20; ++i) queue.shrink();
  CHECK(queue.bytes() <= 24 * sizeof(next));
  for (std::size_t i = 0; i < 3; ++i) CHECK(queue[i] == next - 3 + i);
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
  constexpr std::size_t limit = std::size_t{4} << 20;
  stage_table stages;
  stages.set_limits(limit / 4, limit);
  CHECK(open(stages, 0) == nullptr);
  std::uint64_t id = 0;
  while (stages.used_bytes() + 200 < limit) open(stages, ++id);
  const std::uint64_t full = stages.bytes(), all = id;
  for (std::uint64_t n = 1; n <= 1000; ++n) {
    cutrace::detail::known_stage* s = open(stages, all + n);
    REQUIRE(s != nullptr);
    CHECK(s->requests == nullptr);
    CHECK(s->request_count == 0);
    CHECK(s->total == 0);
    stages.keep_requests(*s, cutrace::request_form::batch, 5, {7, 8, 9}, nullptr);
    CHECK(s->total == 5);
    CHECK(stages.find(all + n) == s);
    if (n % 2 == 0) stages.close(all + n, 10);
    REQUIRE(stages.used_bytes() <= limit);
  }
  std::size_t kept = 0;
  for (std::uint64_t n = 1; n <= all + 1000; ++n) kept += stages.find(n) != nullptr;
  CHECK(kept > all - 100);
  std::uint64_t oldest = 1;  // what is gone began before all that stay
  while (stages.find(oldest) == nullptr) ++oldest;
  CHECK(oldest > 1000);
  for (std::uint64_t n = oldest; n <= all; ++n) CHECK(stages.find(n) != nullptr);
  CHECK(stages.bytes() < full + (std::size_t{1} << 17));
}

TEST_CASE("where stages make room, no more of the old ones go than that takes, however long ago they began") {
  constexpr std::size_t limit = std::size_t{4} << 20;
  stage_table stages;
  stages.set_limits(limit / 4, limit);
  bool entered = false;
  constexpr std::uint64_t sessions = 2000, others = 200000, last = sessions + others;
  for (std::uint64_t id = 1; id <= sessions; ++id)
    stages.keep_requests(*stages.open(id, entered), cutrace::request_form::batch, 8, {1, 2, 3, 4, 5, 6, 7, 8}, nullptr);
  for (std::uint64_t id = sessions + 1; id <= last; ++id) {  // many come and go meanwhile
    open(stages, id);
    stages.close(id, static_cast<std::int64_t>(id));
    stages.release(nothing_awaited, static_cast<std::int64_t>(id) + 1, static_cast<std::int64_t>(id) + 2);
  }
  std::uint64_t id = last;
  while (stages.used_bytes() + 200 < limit) open(stages, ++id);
  while (stages.find(1)->request_count != 0) open(stages, ++id);
  std::size_t gone = 0;
  for (std::uint64_t one = 1; one <= sessions; ++one) gone += stages.find(one)->request_count == 0;
  CHECK(gone < sessions / 2);
  CHECK(stages.find(gone)->request_count == 0);  // the oldest
  while (stages.find(1) != nullptr) open(stages, ++id);
  for (gone = 0; stages.find(gone + 1) == nullptr;) ++gone;
  CHECK(gone < sessions / 4);
  for (std::uint64_t one = gone + 1; one <= sessions; ++one) CHECK(stages.find(one) != nullptr);
}

TEST_CASE("where stages make room, those that began first go, whatever ended meanwhile and left its place to others") {
  constexpr std::size_t limit = std::size_t{1} << 19;
  std::mt19937_64 random(47);
  stage_table stages;
  stages.set_limits(0, limit);
  std::map<std::uint64_t, bool> running;  // whether it has requests
  std::uint64_t wrong = 0, gone = 0, bare = 0;
  for (std::uint64_t id = 1; id <= 60000; ++id) {
    const bool with_requests = id % 4 == 0;
    cutrace::detail::known_stage* const s = open(stages, id);
    if (with_requests) stages.keep_requests(*s, cutrace::request_form::batch, 2, {id, 7}, nullptr);
    running.emplace_hint(running.end(), id, with_requests);
    if (id % 3 != 0) {  // an old one ends, or any other
      const auto ends =
          id % 2 == 0 ? running.begin() : running.lower_bound(id - random() % std::min<std::uint64_t>(id, 2000));
      stages.close(ends->first, static_cast<std::int64_t>(id));
      stages.release(nothing_awaited, static_cast<std::int64_t>(id) + 1, static_cast<std::int64_t>(id) + 2);
      running.erase(ends);
    }
    if (id % 500 != 0) continue;
    while (!running.empty() && stages.find(running.begin()->first) == nullptr) ++gone, running.erase(running.begin());
    bool bare_before = true;
    for (const auto& one : running) {
      const cutrace::detail::known_stage* const known = stages.find(one.first);
      wrong += known == nullptr || known->id != one.first;
      if (known == nullptr || !one.second) continue;
      wrong += known->request_count == 0 && !bare_before;
      bare_before = known->request_count == 0;
      bare += bare_before;
    }
  }
  CHECK(wrong == 0);
  CHECK(gone > 1000);
  CHECK(bare > 1000);
}

TEST_CASE("stages that are waited for without end take no more than the limit, and give it back") {
  constexpr std::size_t limit = std::size_t{4} << 20;
  stage_table stages;
  stages.set_limits(limit / 4, limit);
  const auto always_awaited = [](std::uint32_t, std::int64_t) { return true; };
  std::uint64_t most = 0;
  for (std::uint64_t id = 1; id <= 1000000; ++id) {
    open(stages, id);
    stages.note_call(stages.place_of(id), id, 1, 5);
    stages.close(id, 10);
    if (id % 5000 == 0) stages.release(always_awaited, 20, 20);
    if (id % 1000 == 0) most = std::max<std::uint64_t>(most, stages.bytes());
  }
  CHECK(most < limit + limit / 2);
  for (int i = 0; i < 100; ++i) stages.release(nothing_awaited, 30 + i, 31 + i);
  CHECK(stages.used_bytes() <= limit / 4);
  CHECK(stages.bytes() < limit);
}

TEST_CASE("requests stay below the limit, the oldest go first, and their number stays") {
  constexpr std::size_t limit = std::size_t{4} << 20;
  stage_table stages;
  stages.set_limits(limit / 4, limit);
  std::vector<std::uint64_t> ids(256);
  for (std::uint64_t id = 1; id <= 20000; ++id) {  // 41 MB
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = id * 1000 + i;
    cutrace::detail::known_stage* s = open(stages, id);
    stages.keep_requests(*s, cutrace::request_form::batch, 256, ids, nullptr);
    REQUIRE(stages.used_bytes() <= limit);
  }
  CHECK(stages.find(1)->requests == nullptr);
  CHECK(stages.find(1)->request_count == 0);
  CHECK(stages.find(1)->total == 256);
  std::uint64_t first = 1;
  while (stages.find(first)->request_count == 0) ++first;
  for (std::uint64_t id = first; id <= 20000; ++id) {
    REQUIRE(stages.find(id)->request_count == 256);
    REQUIRE(stages.find(id)->requests[255] == id * 1000 + 255);
  }
  CHECK(20000 - first > 500);
}

TEST_CASE("old stages make room for the requests of new ones, and a set that is larger than all is left out") {
  constexpr std::size_t limit = std::size_t{1} << 20;
  stage_table stages;
  stages.set_limits(limit / 4, limit);
  std::uint64_t id = 0;
  while (stages.used_bytes() + 200 < limit) open(stages, ++id);  // none of which has any
  const std::vector<std::uint64_t> some(1000, 5), many(200000, 6);
  cutrace::detail::known_stage* s = open(stages, ++id);
  stages.keep_requests(*s, cutrace::request_form::batch, some.size(), some, nullptr);
  CHECK(s->request_count == some.size());
  CHECK(stages.find(1) == nullptr);
  CHECK(stages.find(id - 1) != nullptr);
  s = open(stages, ++id);
  stages.keep_requests(*s, cutrace::request_form::batch, many.size(), many, nullptr);
  CHECK(stages.find(id) == s);
  CHECK(s->request_count == 0);
  CHECK(s->total == many.size());
  CHECK(stages.used_bytes() <= limit);
}

TEST_CASE("what a list of stages with requests takes does not grow with those that are gone") {
  stage_table stages = strict_table();
  bool entered = false;
  stages.keep_requests(*stages.open(1, entered), cutrace::request_form::batch, 1, {4}, nullptr);  // never ends
  std::uint64_t most = 0;
  for (std::uint64_t id = 2; id < 200000; ++id) {
    stages.keep_requests(*open(stages, id), cutrace::request_form::batch, 1, {id}, nullptr);
    stages.close(id, static_cast<std::int64_t>(id));
    stages.release(nothing_awaited, static_cast<std::int64_t>(id) + 1, static_cast<std::int64_t>(id) + 2);
    most = std::max<std::uint64_t>(most, stages.bytes());
  }
  CHECK(most < std::size_t{1} << 18);
  CHECK(stages.find(1)->request_count == 1);
}

TEST_CASE("the text of a request ends in NUL, whatever its size") {
  stage_table stages;
  const std::vector<std::uint64_t> none;
  for (std::size_t size = 0; size <= 480; ++size) {
    const std::string text(size, static_cast<char>('a' + size % 26));
    cutrace::detail::known_stage* s = open(stages, size + 1);
    s->form = cutrace::request_form::text;
    stages.keep_requests(*s, s->form, 0, none, &text);
    REQUIRE(s->has_text());
    const cutrace::request_ref one = s->text_request();
    REQUIRE(one.name.size == size);
    REQUIRE(std::strlen(one.name.data) == size);
    REQUIRE(one.name.data == text);
  }
}

TEST_CASE("a remembered place is looked up again once another stage has that place") {
  std::mt19937_64 random(41);
  stage_table stages = strict_table();
  std::vector<std::pair<std::uint64_t, std::uint32_t>> reported;
  std::uint64_t wrong = 0, gone = 0, elsewhere = 0;
  CHECK(stages.place_of(0) == stage_table::no_place);
  CHECK(stages.place_of(3) == stage_table::no_place);
  CHECK(stages.find_at(stage_table::no_place, 3) == nullptr);
  constexpr std::uint64_t ids = sanitized ? 20000 : 100000, kept = ids / 3;
  for (std::uint64_t id = 1; id <= ids; ++id) {
    const std::uint64_t named = std::uint64_t{id % 3 + 1} << 40 | id;
    open(stages, named)->word = id;
    reported.emplace_back(named, stages.place_of(named));
    if (random() % 4 == 0) stages.place_of(reported[random() % reported.size()].first);
    stages.close(named, static_cast<std::int64_t>(id));
    if (id > kept)
      stages.release(nothing_awaited, static_cast<std::int64_t>(id - kept), static_cast<std::int64_t>(id - kept + 1));
    const auto& asked = reported[random() % reported.size()];
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

TEST_CASE("names without end leave room to others, and what finds none is counted") {
  string_table strings(1 << 20);
  const auto name = [](const char* kind, int i) { return kind + std::to_string(i); };
  int kept = 0;
  for (; strings.refused() == 0; ++kept) {
    const std::string step = name("step ", kept);
    strings.intern_dynamic(step.data(), step.size());
  }
  CHECK(kept > 10000);
  const std::string step = "another step", first = "step 0";
  CHECK(strings.intern_dynamic(step.data(), step.size()).data == string_table::no_room.data);
  const text instead{"step", 4};
  CHECK(strings.intern_dynamic(step.data(), step.size(), instead).data == instead.data);
  CHECK(strings.refused() == 3);
  const text known = strings.intern_dynamic(first.data(), first.size());
  CHECK(std::string(known.data, known.size) == first);
  const text kernel = strings.intern("_Z4ropePf", 9);
  CHECK(std::string(strings.demangle(kernel).data) == "rope(float*)");
  CHECK(strings.refused() == 3);
  int others = 0;
  for (; strings.refused() == 3; ++others) {
    const std::string more = name("_Z4rope", others);
    strings.intern(more.data(), more.size());
  }
  CHECK(others > kept / 5);
  CHECK(others < kept / 2);
  CHECK(strings.intern("rest", 4).data == string_table::no_room.data);
  CHECK(strings.bytes() < (std::uint64_t{1} << 20) + 100);
}

TEST_CASE("a mangled name has no second form where there is no room for that, and is not counted") {
  string_table strings(80);
  const text kernel = strings.intern("_Z4ropePf", 9);
  CHECK(strings.demangle(kernel).data == kernel.data);
  CHECK(strings.refused() == 0);
}

}  // namespace collector_tables_test
