// SPDX-License-Identifier: Apache-2.0
// Which stage a thread was in: own stages and parts of others' stages that it adopted, in each other in any way,
// against a stack that is followed tick by tick.
#include <doctest/doctest.h>

#include <cstdint>
#include <cutrace/analysis/stage_log.hpp>
#include <random>
#include <vector>

#include "support/sample_events.hpp"

namespace analysis_stage_log_test {

namespace {

using namespace cutrace;            // NOLINT(google-build-using-namespace)
using namespace cutrace::analysis;  // NOLINT(google-build-using-namespace)

struct scope {
  std::int64_t begin = 0, end = 0;
  std::uint64_t id = 0, parent = 0;
  bool adopted = false;
};

constexpr std::uint16_t worker = 1, others = 2;

/// A thread's scopes in the order of their ends, and the id of the innermost one in each tick, 0: none.
struct thread_of_scopes {
  std::vector<scope> scopes;
  std::vector<std::uint64_t> innermost;
  explicit thread_of_scopes(std::uint32_t seed) {
    std::mt19937 random(seed);
    std::vector<scope> open;
    std::uint64_t ids = 0;
    constexpr std::int64_t ticks = 300;
    for (std::int64_t now = 0; now < ticks; ++now) {
      // At most one begins in each tick, so that none has another one's times.
      if (!open.empty() && open.back().begin < now && (random() % 4 == 0 || now + 1 == ticks)) {
        while (!open.empty() && open.back().begin < now && (random() % 2 == 0 || now + 1 == ticks)) {
          open.back().end = now;
          scopes.push_back(open.back());
          open.pop_back();
        }
      }
      if (now + 5 < ticks && random() % 3 == 0 && open.size() < 6)
        open.push_back({now, 0, ++ids, open.empty() ? 0 : open.back().id, random() % 3 == 0});
      innermost.push_back(open.empty() ? 0 : open.back().id);
    }
  }
};

}  // namespace

TEST_CASE(
    "stages of a thread: the innermost one at any time, with adopted parts inside of own stages and around them") {
  std::size_t parts_in_stages = 0;
  for (std::uint32_t seed = 1; seed <= 200; ++seed) {
    CAPTURE(seed);
    const thread_of_scopes t(seed);
    name_table names;
    stage_log log;
    std::vector<std::vector<std::uint32_t>> begun(t.innermost.size() + 1);
    for (const scope& s : t.scopes) {
      cutrace::event e = sample::stage("stage", s.begin, s.end, s.id);
      e.stage.adopted = s.adopted;
      e.stage.parent = s.adopted ? 0 : s.parent;
      log.add(e, {s.begin, s.end}, worker, 0, names);
      if (!s.adopted) begun[static_cast<std::size_t>(s.begin)].push_back(log.of(e, names));
      parts_in_stages += s.adopted && s.parent != 0;
    }
    std::vector<std::uint32_t> order;
    for (const auto& some : begun) order.insert(order.end(), some.begin(), some.end());
    thread_stages stages(log, order, others + 1);
    std::mt19937 random(seed);
    std::vector<stage_piece> pieces;
    std::size_t hint = 0;
    for (int query = 0; query < 100; ++query) {
      const auto from = static_cast<std::int64_t>(random() % (t.innermost.size() - 1));
      const std::int64_t to =
          from + 1 + static_cast<std::int64_t>(random() % (t.innermost.size() - static_cast<std::size_t>(from) - 1));
      CAPTURE(from);
      CAPTURE(to);
      stages.innermost(worker, {from, to}, stage_log::none, hint, pieces);
      std::int64_t at = from;
      for (const stage_piece& p : pieces) {
        REQUIRE(p.when.start_ns == at);
        for (; at < p.when.end_ns; ++at) REQUIRE(log[p.stage].id == t.innermost[static_cast<std::size_t>(at)]);
      }
      REQUIRE(at == to);
      std::size_t place = 0;
      REQUIRE(log[stages.at(worker, from, place)].id == t.innermost[static_cast<std::size_t>(from)]);
    }
  }
  CHECK(parts_in_stages > 1000);
}

TEST_CASE("stages of a thread: what is around hundreds of others is found, own stages and adopted parts alike") {
  struct around_many {
    const char* what;
    bool adopted, span;  // the one around
    bool parts_inside;
  };
  for (const around_many& c : {around_many{"a part around own stages", true, false, false},
                               around_many{"an own stage around parts", false, false, true},
                               around_many{"an own stage around own stages", false, false, false},
                               around_many{"a part of a span that began on the thread", true, true, false}}) {
    CAPTURE(c.what);
    constexpr std::int64_t inside = 600, end = 10 * inside + 1000;
    name_table names;
    stage_log log;
    std::vector<std::uint32_t> order;
    const auto add = [&](scope s, std::uint16_t thread, bool span = false) {
      cutrace::event e = sample::stage("stage", s.begin, s.end, s.id, s.parent);
      e.stage.adopted = s.adopted;
      e.stage.span = span;
      log.add(e, {s.begin, s.end}, thread, 0, names);
      if (!s.adopted) order.push_back(log.of(e, names));
    };
    add({0, c.adopted ? 2 * end : end, 1, 0}, c.adopted && !c.span ? others : worker, c.span);
    if (c.adopted) add({0, end, 1, 0, true}, worker, c.span);
    for (std::int64_t i = 0; i < inside; ++i) {
      const auto id = static_cast<std::uint64_t>(100 + i);
      add({10 * i + 1, 10 * i + 8, id, c.parts_inside ? 0u : 1u}, c.parts_inside ? others : worker);
      if (c.parts_inside) add({10 * i + 2, 10 * i + 7, id, 0, true}, worker);
    }
    thread_stages stages(log, order, others + 1);
    std::size_t hint = 0;
    for (const std::int64_t t : {std::int64_t{0}, std::int64_t{2009}, 10 * inside + 500})
      CHECK(log[stages.at(worker, t, hint)].id == 1);
    CHECK(log[stages.at(worker, 2005, hint)].id == 300);
    CHECK(stages.at(worker, end, hint) == stage_log::none);
    std::vector<stage_piece> pieces;
    stages.innermost(worker, {10 * inside, 2 * end}, stage_log::none, hint, pieces);
    REQUIRE(pieces.size() == 2);
    CHECK(log[pieces[0].stage].id == 1);
    CHECK(pieces[0].when.end_ns == end);
    CHECK(pieces[1].stage == stage_log::none);
  }
}

}  // namespace analysis_stage_log_test
