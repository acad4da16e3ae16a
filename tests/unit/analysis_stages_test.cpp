// SPDX-License-Identifier: Apache-2.0
// What stages cost: own and inclusive GPU time, GPU idle inside, adopted parts (on threads that continue a stage),
// requests; against a plain model.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cutrace/analysis/stages.hpp>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "support/sample_events.hpp"

namespace analysis_stages_test {

namespace {

using namespace cutrace;
using analysis::interval;
using analysis::stage_table;
using analysis::stage_time;

stage_time row(const stage_table& table, const std::string& name) {
  for (const stage_time& s : table.rows())
    if (s.name == name) return s;
  FAIL("no row for stage ", name);
  return {};
}

/// What the table should say, from lists of intervals by name.
struct model {
  std::map<std::string, std::vector<interval>> host, own, inclusive;
  std::vector<interval> gpu;

  std::int64_t idle_inside(const std::string& name) {
    const std::vector<interval> h = analysis::merged(host[name]), g = analysis::merged(gpu);
    return analysis::union_length_ns(h) - analysis::intersection_length_ns(h, g);
  }
};

constexpr const char* names[] = {"request", "prefill", "decode", "sample"};

/// A stage with GPU work that may outlast it, and stages inside of it. Not in order of delivery.
void build(std::mt19937& random, interval at, std::size_t level, std::vector<std::uint64_t> path,
           std::vector<std::string> around, std::vector<event>& events, model& truth, std::uint64_t& next_id) {
  const std::string name = names[level];
  const std::uint64_t id = next_id++, parent = path.empty() ? 0 : path.back();
  event s = sample::stage(names[level], at.start_ns, at.end_ns, id, parent, static_cast<std::uint32_t>(level));
  events.push_back(s);
  truth.host[name].push_back(at);
  path.push_back(id);
  around.push_back(name);
  for (auto k = random() % 3; k > 0; --k) {
    const std::int64_t start = at.start_ns + static_cast<std::int64_t>(random() % 100);
    const interval v{start, start + static_cast<std::int64_t>(random() % 200)};
    events.push_back(sample::in_stage(sample::kernel("k", v.start_ns, v.end_ns, id), names[level], id));
    truth.gpu.push_back(v);
    truth.own[name].push_back(v);
    for (const std::string& n : around) truth.inclusive[n].push_back(v);
  }
  if (level + 1 == 4) return;
  std::int64_t from = at.start_ns + 1;
  while (from + 20 < at.end_ns) {
    const std::int64_t to = std::min(at.end_ns - 1, from + 10 + static_cast<std::int64_t>(random() % 150));
    if (random() % 2 == 0) build(random, {from, to}, level + 1, path, around, events, truth, next_id);
    from = to + 1;
  }
}

std::vector<event> random_run(std::mt19937& random, model& truth) {
  std::vector<event> events;
  std::uint64_t id = 1;
  for (int i = 0; i < 3; ++i) {
    const std::int64_t start = static_cast<std::int64_t>(random() % 1500);
    build(random, {start, start + 600}, 0, {}, {}, events, truth, id);
  }
  return events;
}

}  // namespace

TEST_CASE("own, inclusive and idle times equal the model's, in order of delivery and in any other") {
  const unsigned first_seed = std::random_device{}();
  for (unsigned round = 0; round < 100; ++round) {
    const unsigned seed = first_seed + round;
    CAPTURE(seed);
    std::mt19937 random(seed);
    model truth;
    std::vector<event> events = random_run(random, truth);
    if (round % 2 == 0)
      std::stable_sort(events.begin(), events.end(),
                       [](const event& a, const event& b) { return a.end_ns < b.end_ns; });
    else
      std::shuffle(events.begin(), events.end(), random);
    stage_table table;
    for (const event& e : events) table.add(e);
    for (const auto& expected : truth.host) {
      const std::string& name = expected.first;
      CAPTURE(name);
      const stage_time s = row(table, name);
      REQUIRE(s.calls == expected.second.size());
      REQUIRE(s.host_ns == analysis::union_length_ns(expected.second));
      REQUIRE(s.gpu_own_ns == analysis::union_length_ns(truth.own[name]));
      REQUIRE(s.gpu_inclusive_ns == analysis::union_length_ns(truth.inclusive[name]));
      REQUIRE(s.gpu_idle_inside_ns == truth.idle_inside(name));
      REQUIRE_FALSE(s.approximate);
    }
  }
}

/// Of windows: recorded only at times. Folded past: old intervals, kept only as a histogram (interval_set.hpp).
TEST_CASE("in a trace of windows GPU work of a stage that lies in the folded past is estimated, and marked") {
  analysis::bounds limits;
  limits.row_intervals = 4;
  for (const bool windows : {false, true})
    for (const int kernels : {3, 50}) {
      stage_table table(0, limits);
      if (windows) table.add(sample::base(event_kind::window, "recorded", 0, 6000));
      table.add(sample::stage("decode", 0, 6000, 1));
      for (int i = 0; i < kernels; ++i)
        table.add(sample::in_stage(sample::kernel("k", 100 * i, 100 * i + 50, 1, 7, 0), "decode", 1));
      CHECK(row(table, "decode").approximate == (windows && kernels > 3));
    }
}

TEST_CASE("a bounded table says where it is approximate, and its unions stay within what it says") {
  const unsigned first_seed = std::random_device{}();
  for (unsigned round = 0; round < 50; ++round) {
    const unsigned seed = first_seed + round;
    CAPTURE(seed);
    std::mt19937 random(seed);
    model truth;
    std::vector<event> events = random_run(random, truth);
    std::stable_sort(events.begin(), events.end(), [](const event& a, const event& b) { return a.end_ns < b.end_ns; });
    analysis::bounds limits;
    limits.intervals = limits.row_intervals = 4;
    stage_table table(0, limits);
    for (const event& e : events) table.add(e);
    for (const auto& expected : truth.host) {
      const stage_time s = row(table, expected.first);
      REQUIRE(std::abs(s.host_ns - analysis::union_length_ns(expected.second)) <= s.uncertain_ns);
      if (!s.approximate) REQUIRE(s.gpu_idle_inside_ns == truth.idle_inside(expected.first));
      REQUIRE(s.gpu_idle_inside_ns >= 0);
      REQUIRE(s.gpu_idle_inside_ns <= s.host_ns);
    }
  }
}

/// A server with many requests in flight: each is a stage that stays open while the work inside of it is done.
TEST_CASE("within the bounds of a report the GPU work of hundreds of open stages reaches them") {
  stage_table table(0, analysis::bounds::for_bytes(8u << 20));
  constexpr std::uint64_t requests = 180;
  for (std::uint64_t i = 0; i < 4 * requests; ++i) {
    const std::uint64_t request = 1 + i % requests, inner = 10000 + i;
    const std::int64_t at = static_cast<std::int64_t>(100 * i);
    table.add(sample::in_stage(sample::kernel("k", at + 10, at + 20, inner), "prefill", inner));
    table.add(sample::stage("prefill", at, at + 50, inner, request, 1));
  }
  for (std::uint64_t i = 0; i < requests; ++i)
    table.add(sample::stage("request", 0, static_cast<std::int64_t>(400 * requests + i), 1 + i));
  CHECK(row(table, "request").gpu_inclusive_ns == 10 * 4 * requests);
  CHECK_FALSE(row(table, "request").approximate);
  CHECK(table.given_up() == 0);
}

TEST_CASE("where too much work waits at open stages, that of the oldest is given up, counted, and marked") {
  analysis::bounds limits;
  limits.waiting_work = 64;
  stage_table table(0, limits);
  const auto kernel_in = [&](std::uint64_t id) {
    const std::int64_t at = static_cast<std::int64_t>(100 * id);
    table.add(sample::in_stage(sample::kernel("k", at, at + 10, id), "inner", id));
    table.add(sample::stage("inner", at, at + 50, id, id + 1000000, 1));
  };
  for (std::uint64_t id = 1; id <= 1000; ++id) kernel_in(id);
  table.add(sample::stage("outer", 0, 200000, 1000001));
  table.add(sample::stage("outer", 0, 200000, 1001000));
  const stage_time outer = row(table, "outer");
  CHECK(outer.gpu_inclusive_ns == 10);  // the newest one's
  CHECK(outer.approximate);
  CHECK(table.given_up() > 900);
  CHECK(table.given_up() < 1000);
}

TEST_CASE("an adopted part adds host time, but is no call of its own") {
  stage_table table;
  table.add(sample::stage("decode", 0, 100, 1));
  event part = sample::stage("decode", 50, 180, 1, 0, 0, sample::worker_thread);
  part.stage.adopted = true;
  table.add(part);
  const stage_time s = row(table, "decode");
  CHECK(s.calls == 1);
  CHECK(s.adopted_parts == 1);
  CHECK(s.host_sum_ns == 100);
  CHECK(s.host_ns == 180);
}

TEST_CASE("requests are counted once, and a cut batch is known to be more") {
  const request_ref batch[] = {sample::request_id(1), sample::request_id(2), sample::request_name("chat")};
  stage_table table;
  for (std::uint64_t i = 0; i < 5; ++i)
    table.add(sample::in_stage(sample::stage("decode", 0, 10, i + 1), "decode", i + 1, batch, 3));
  CHECK(row(table, "decode").requests == 3);
  CHECK(row(table, "decode").requests_exact);
  CHECK_FALSE(row(table, "decode").requests_cut);
  event cut = sample::in_stage(sample::stage("decode", 0, 10, 9), "decode", 9, batch, 3);
  cut.request_total = 40;
  table.add(cut);
  CHECK(row(table, "decode").requests_cut);
}

TEST_CASE("GPU work outside of stages has its own sum") {
  stage_table table;
  table.add(sample::kernel("k", 0, 10, 1));
  table.add(sample::kernel("k", 5, 20, 2));
  CHECK(table.gpu_outside_ns() == 20);
  CHECK(table.gpu_outside_operations() == 2);
  CHECK(table.rows().empty());
}

TEST_CASE("names beyond the bounds share one row, and nothing is lost") {
  analysis::bounds limits;
  limits.stages = 2;
  stage_table table(0, limits);
  const char* four[] = {"a", "b", "c", "d"};
  for (std::uint64_t i = 0; i < 4; ++i)
    table.add(sample::stage(four[i], static_cast<std::int64_t>(10 * i), static_cast<std::int64_t>(10 * i + 5), i + 1));
  REQUIRE(table.rows().size() == 3);
  CHECK(row(table, "(other stages)").calls == 2);
  CHECK(row(table, "(other stages)").host_ns == 10);
}

TEST_CASE("ids that form a ring do not hang the table") {
  stage_table table;
  table.add(sample::stage("a", 0, 10, 1, 2));
  table.add(sample::stage("b", 0, 10, 2, 1));
  table.add(sample::in_stage(sample::kernel("k", 0, 5, 1), "a", 1));
  CHECK(row(table, "b").gpu_inclusive_ns == 5);
}

TEST_CASE("the distinct count is exact up to its limit and close beyond it") {
  analysis::distinct_count few(64), many(1024), all;
  for (std::uint64_t round = 0; round < 3; ++round)
    for (std::uint64_t i = 0; i < 64; ++i) few.add(i);
  CHECK(few.exact());
  CHECK(few.count() == 64);
  for (std::uint64_t i = 0; i < 100000; ++i) many.add(i * 7), all.add(i * 7 % 5000);
  CHECK_FALSE(many.exact());
  CHECK(std::abs(static_cast<double>(many.count()) - 100000.0) < 15000.0);  // about five standard errors
  CHECK(all.exact());
  CHECK(all.count() == 5000);
}

}  // namespace analysis_stages_test
