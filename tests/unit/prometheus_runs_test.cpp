// SPDX-License-Identifier: Apache-2.0
// Runs of stages (a run: one execution) and their GPU time: against a slow union, and when a run is settled, that is
// counted as final.
#include <doctest/doctest.h>

#include <algorithm>
#include <cutrace/sinks/prometheus/runs.hpp>
#include <cutrace/sinks/prometheus/text.hpp>
#include <random>
#include <vector>

namespace prometheus_runs_test {

using cutrace::analysis::interval;
using cutrace::prometheus::run;
using cutrace::prometheus::run_table;

namespace {

struct seen {
  std::vector<run> runs;
  void operator()(const run& r) { runs.push_back(r); }
};

}  // namespace

TEST_CASE(
    "a short union (its newest stretches are kept) is exact for short intervals in the order of their ends, and never "
    "too long") {
  const unsigned seed = std::random_device()();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 2000; ++round) {
    const bool hostile = round % 2 == 1;
    std::vector<interval> all;
    std::int64_t t = 0;
    const int n = 1 + static_cast<int>(random() % 40);
    for (int i = 0; i < n; ++i) {
      t += 5 + static_cast<std::int64_t>(random() % 20);
      const std::int64_t length = static_cast<std::int64_t>(random() % 15);
      all.push_back({t - length, t});
    }
    if (hostile) {
      std::shuffle(all.begin(), all.end(), random);
      all.push_back({-50, t});
    }
    cutrace::prometheus::short_union short_one;
    for (const interval v : all) short_one.add(v);
    const std::int64_t right = cutrace::analysis::union_length_ns(all);
    if (hostile)
      CHECK(short_one.length_ns() <= right);
    else
      CHECK(short_one.length_ns() == right);  // at most 14 long, ends 5 apart: reaches two older ones
    CHECK(short_one.length_ns() >= 0);
  }
}

TEST_CASE("a run is one observation, however late its work comes") {
  run_table table(1000);
  seen out;
  table.work(5, 2, 0, {0, 10}, 100, out);
  table.end(5, 2, {0, 50}, 200, out);
  table.work(5, 2, 0, {40, 90}, 900, out);  // after its end, and before it is quiet
  table.settle(1500, out);
  CHECK(out.runs.empty());
  table.settle(1900, out);
  REQUIRE(out.runs.size() == 1);
  CHECK(out.runs[0].gpu.length_ns() == 60);
  CHECK(out.runs[0].whole);
  CHECK(out.runs[0].host == interval{0, 50});
  table.settle_all(out);
  CHECK(out.runs.size() == 1);
}

TEST_CASE("a run on two devices has an entry for each, and its host time once") {
  run_table table(1000);
  seen out;
  table.end(5, 2, {0, 50}, 200, out);
  table.work(5, 2, 1, {0, 10}, 300, out);
  table.work(5, 2, 3, {5, 25}, 300, out);
  table.settle(1300, out);  // both know that the stage has ended
  REQUIRE(out.runs.size() == 2);
  CHECK(out.runs[0].whole != out.runs[1].whole);
  CHECK(out.runs[0].gpu.length_ns() + out.runs[1].gpu.length_ns() == 30);
}

TEST_CASE("the end of a run keeps the entries of all its devices, however long one of them was silent") {
  run_table table(1000);
  seen out;
  table.work(5, 2, 1, {0, 10}, 100, out);
  table.work(5, 2, 3, {5, 25}, 100, out);
  table.end(5, 2, {0, 5000}, 5100, out);
  table.settle(5200, out);
  CHECK(out.runs.empty());
  table.work(5, 2, 1, {4000, 4010}, 5300, out);
  table.work(5, 2, 3, {4000, 4020}, 5300, out);
  table.settle(6300, out);
  REQUIRE(out.runs.size() == 2);
  CHECK(out.runs[0].gpu.length_ns() == 20);
  CHECK(out.runs[1].gpu.length_ns() == 40);
}

TEST_CASE("a stage that goes on is not settled for being quiet a while") {
  run_table table(1000);
  seen out;
  table.work(5, 2, 0, {0, 10}, 0, out);
  table.settle(30000000000u, out);
  CHECK(out.runs.empty());
  table.settle(60000000001u, out);
  CHECK(out.runs.size() == 1);
}

TEST_CASE("more runs than places: each is settled once, those that go on last") {
  run_table table(1000);
  seen out;
  table.work(1000000, 2, 0, {0, 10}, 0, out);
  for (std::uint64_t id = 1; id <= 100000; ++id) table.end(id, 1, {0, 1}, id, out);
  CHECK(std::none_of(out.runs.begin(), out.runs.end(), [](const run& r) { return r.id == 1000000; }));
  table.settle_all(out);
  CHECK(out.runs.size() == 100001);
  std::sort(out.runs.begin(), out.runs.end(), [](const run& a, const run& b) { return a.id < b.id; });
  CHECK(std::adjacent_find(out.runs.begin(), out.runs.end(), [](const run& a, const run& b) { return a.id == b.id; }) ==
        out.runs.end());
}

TEST_CASE("a duration of exactly a bound lies inside of it") {
  cutrace::prometheus::histogram h;
  h.observe(1000);
  h.observe(1001);
  h.observe(-5);
  h.observe(INT64_MAX);
  CHECK(h.counts[0] == 2);
  CHECK(h.counts[1] == 1);
  CHECK(h.counts[cutrace::prometheus::bound_count] == 1);
  h.observe(INT64_MAX);
  h.observe(INT64_MAX);
  CHECK(h.sum_ns == UINT64_MAX);
  for (std::size_t i = 0; i < cutrace::prometheus::bound_count; ++i)
    CHECK(std::strtod(cutrace::prometheus::bounds[i].seconds, nullptr) * 1e9 ==
          doctest::Approx(static_cast<double>(cutrace::prometheus::bounds[i].ns)));
}

TEST_CASE("labels are valid UTF-8, without control characters, cut at a character") {
  using cutrace::prometheus::label_value;
  CHECK(label_value("caf\xc3\xa9") == "caf\xc3\xa9");
  CHECK(label_value("a\nb") ==
        "a\xEF\xBF\xBD"
        "b");
  CHECK(label_value("\xff") == "\xEF\xBF\xBD");
  CHECK(label_value("\xc2\x85") == "\xEF\xBF\xBD");
  CHECK(label_value("a\u202eb") == "a\uFFFDb");  // right-to-left override
  const std::string e_acute(200, 'x');
  CHECK(label_value(e_acute).size() == cutrace::prometheus::longest_label);
  std::string wide;
  for (int i = 0; i < 100; ++i) wide += "\xe6\xbc\xa2";
  CHECK(label_value(wide).size() == 126);
}

}  // namespace prometheus_runs_test
