// SPDX-License-Identifier: Apache-2.0
// Differences between traces: changes that were planted are found with their size, and runs of the same program are
// not reported as changed.
#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "report/pages/difference_json.hpp"
#include "support/hostile_events.hpp"
#include "support/random_trace.hpp"
#include "support/sample_events.hpp"

namespace analysis_difference_test {

namespace {

using namespace cutrace;
using namespace cutrace::analysis;

using speeds = std::map<std::string, double>;  ///< kernel: factor of its time

constexpr int kernels = 12, repetitions = 60;

/// A loop of twelve kernels, each launched in a stage. In each run every kernel has a speed of its own (`spread`), and
/// every launch its own noise.
trace_profile run_of(std::uint32_t seed, const speeds& factors = {}, std::size_t keep = 0, double spread = 0.02) {
  std::mt19937 random(seed);
  std::normal_distribution<double> noise(1, 0.02), own(1, spread);
  double speed[kernels];
  for (double& s : speed) s = own(random);
  static std::vector<std::string> names;
  if (names.empty())
    for (int k = 0; k < kernels; ++k) names.push_back("kernel" + std::to_string(k));
  trace_analysis a;
  std::int64_t now = 0;
  std::uint64_t id = 0;
  for (int i = 0; i < repetitions; ++i) {
    const std::int64_t began = now;
    for (std::size_t k = 0; k < names.size(); ++k) {
      const std::string& name = names[k];
      const auto f = factors.find(name);
      const double ns = (f == factors.end() ? 1 : f->second) * speed[k] * noise(random) * 40000;
      ++id;
      a.add(sample::api("cuLaunchKernel", now, now + 3000, id));
      now += 5000;
      const std::int64_t end = now + static_cast<std::int64_t>(ns);
      a.add(sample::called_at(sample::kernel(name.c_str(), now, end, id), now - 5000));
      now = end;
    }
    a.add(sample::stage("step", began, now, static_cast<std::uint64_t>(i) + 1));
  }
  const trace_results r = a.finish();
  return profile_of(a, r, keep);
}

std::vector<trace_profile> runs(std::size_t n, std::uint32_t seed, const speeds& factors = {}, double spread = 0.02) {
  std::vector<trace_profile> list;
  for (std::size_t i = 0; i < n; ++i)
    list.push_back(run_of(seed * 100 + static_cast<std::uint32_t>(i), factors, 0, spread));
  return list;
}

const difference* row(const trace_difference& d, profile_group g, const std::string& name) {
  for (const difference& r : d.of(g))
    if (r.name == name) return &r;
  return nullptr;
}

std::size_t significant(const trace_difference& d) {
  std::size_t n = 0;
  for (const difference& r : d.totals) n += r.significant;
  for (const auto& rows : d.rows)
    for (const difference& r : rows) n += r.significant;
  return n;
}

std::string text_of(const trace_difference& d, double fail_over = -1, std::size_t top = 10) {
  report_options o;
  o.top = top;
  return ascii::difference_page(d, 1, 1, fail_over, o).text();
}

/// Wherever the text is broken into lines.
bool says(const std::string& text, const std::string& words) {
  std::string flat;
  for (const char c : text)
    if ((c != ' ' && c != '\n') || (!flat.empty() && flat.back() != ' ')) flat += c == '\n' ? ' ' : c;
  return flat.find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("difference: the profile has the figures of the tables") {
  for (std::uint32_t seed = 1; seed <= 30; ++seed) {
    CAPTURE(seed);
    trace_analysis a;
    for (const event& e : random_trace::make(seed).events) a.add(e);
    const trace_results r = a.finish();
    const trace_profile p = profile_of(a, r, 4);
    std::uint64_t work = 0, calls = 0;
    for (const auto& o : p.of(profile_group::gpu_operations)) {
      work += o.second.count;
      CHECK(o.second.sample.size() == std::min<std::uint64_t>(4, o.second.count));
    }
    CHECK(work == a.log().work().size());
    for (const auto& o : p.of(profile_group::calls)) calls += o.second.count;
    std::uint64_t logged = 0;
    for (const thread_calls& t : a.log().threads()) logged += t.calls().size();
    CHECK(calls == logged);
    for (const stage_cost& s : r.stages.stages) {
      if (s.calls == 0) continue;
      const profile_row& mine = p.of(profile_group::stages).at(s.name);
      CHECK(mine.count == s.calls);
      CHECK(mine.total_ns == static_cast<std::int64_t>(s.host_sum_ns));
    }
    CHECK(p.totals_ns[0] == r.time.everything.recorded_ns);
    CHECK(p.totals_ns[1] + p.totals_ns[2] == p.totals_ns[0]);
  }
}

TEST_CASE("difference: a kernel 20 % slower is found among repeated runs, with its size, and nothing else is") {
  for (const std::size_t n : {4u, 7u, 12u}) {
    CAPTURE(n);
    const trace_difference d = find_difference(runs(n, 1), runs(n, 2, {{"kernel5", 1.2}}));
    const difference* slow = row(d, profile_group::gpu_operations, "kernel5");
    REQUIRE(slow != nullptr);
    CHECK(slow->significant);
    CHECK(slow->change_share > 0.15);
    CHECK(slow->change_share < 0.25);
    CHECK(slow->interval_of_share.low < 0.2 + 0.03);
    CHECK(slow->interval_of_share.high > 0.2 - 0.03);
    CHECK(d.of(profile_group::gpu_operations)[0].name == "kernel5");
    CHECK(slow->before.count == repetitions);
    CHECK(is_slower(d, *slow, 0.05));
    CHECK(!is_slower(d, *slow, 0.3));
    for (const difference& r : d.of(profile_group::gpu_operations))
      if (r.name != "kernel5") CHECK(!is_slower(d, r, 0.05));
    const std::string text = text_of(d, 0.05);
    CHECK(says(text, "GPU operation \"kernel5\" +"));
    CHECK(says(text, "FAILED"));
  }
}

TEST_CASE("difference: the verdict names the slow kernel first among many stages that are slower, too") {
  const auto with_stages = [](double factor) {
    trace_analysis a;
    std::int64_t now = 0;
    std::uint64_t id = 0;
    for (int i = 0; i < 100; ++i) {
      const auto ns = static_cast<std::int64_t>((20000 + i) * factor);
      a.add(sample::api("cuLaunchKernel", now + 500, now + 900, ++id));
      a.add(sample::called_at(sample::kernel("slow", now + 1000, now + 1000 + ns, id), now + 500));
      for (const char* name : {"one", "two", "three", "four", "five", "six", "fewer"}) {
        if (factor > 1 && i >= 20 && std::string(name) == "fewer") continue;  // takes less in all, though more each
        a.add(sample::stage(name, now, now + ns, ++id));
        now += ns + 1000;
      }
    }
    const trace_results r = a.finish();
    return profile_of(a, r, 4096);
  };
  const trace_difference d = find_difference({with_stages(1)}, {with_stages(1.5)});
  const std::string text = text_of(d, 0.05);
  CAPTURE(text);
  // Wall time, the stage and the GPU operation that grew most, then what is left, up to four.
  CHECK(says(text, "FAILED: slower by more than +5.0 %: \"wall\" +"));
  CHECK(says(text, ", \"five\" +50.0 %, \"slow\" +50.0 %, "));
  CHECK(says(text, " and 6 more"));
}

TEST_CASE("difference: the other way round it is faster, and fails nothing") {
  const trace_difference d = find_difference(runs(7, 2, {{"kernel5", 1.2}}), runs(7, 1));
  const difference* fast = row(d, profile_group::gpu_operations, "kernel5");
  CHECK(fast->significant);
  CHECK(fast->change_share < -0.1);
  CHECK(says(text_of(d, 0.05), "passed"));
}

TEST_CASE("difference: equal runs are not reported as changed") {
  std::size_t wrong = 0, single = 0, fails = 0, sized = 0;
  for (std::uint32_t seed = 1; seed <= 25; ++seed) {
    const trace_difference d = find_difference(runs(7, 2 * seed, {}, 0.06), runs(7, 2 * seed + 1, {}, 0.06));
    CHECK(d.adjusted);
    CHECK(d.tested >= 15);
    wrong += significant(d) > 0;
    bool low = false, larger = false, failed = false;
    for (const difference& r : d.of(profile_group::gpu_operations)) {
      low = low || r.p <= 0.05;
      larger = larger || r.change_share > 0.02;
    }
    single += low;
    sized += larger;
    ascii::difference_page::for_each_slower(d, 0.02, [&](const char*, const difference&) { failed = true; });
    fails += failed;
  }
  CHECK(single >= 10);  // p without the adjustment would report many of the 25 as changed
  CHECK(sized >= 20);   // and size alone nearly all
  CHECK(wrong <= 4);
  CHECK(fails <= 4);
}

TEST_CASE("difference: the same runs twice") {
  const std::vector<trace_profile> same = runs(5, 3);
  const trace_difference d = find_difference(same, same);
  CHECK(significant(d) == 0);
  for (const difference& r : d.of(profile_group::gpu_operations)) CHECK(r.p == 1);
  CHECK(says(text_of(d), "no stage and no GPU operation changed beyond chance"));
}

TEST_CASE("difference: the change of a run's total counts runs without the row, too") {
  std::vector<trace_profile> before(4), after(4);
  const auto has = [](trace_profile& p, std::int64_t ns) {
    profile_row& r = p.of(profile_group::gpu_operations)["rare"];
    r.count = 1;
    r.total_ns = ns;
  };
  has(before[2], 1000);
  const trace_difference gone = find_difference(before, after);
  CHECK(row(gone, profile_group::gpu_operations, "rare")->total_change_ns == -250);
  for (trace_profile& p : after) has(p, 1000);
  const trace_difference often = find_difference(before, after);
  const difference& d = *row(often, profile_group::gpu_operations, "rare");
  CHECK(d.change_ns == 0);
  CHECK(d.total_change_ns == 750);
  after.resize(2);  // each side by its own number of runs
  CHECK(row(find_difference(before, after), profile_group::gpu_operations, "rare")->total_change_ns == 750);
}

TEST_CASE("difference: GPU time where there was none before is no change of 0 %") {
  std::vector<trace_profile> before(3), after = before;
  for (trace_profile& p : after) p.totals_ns[static_cast<std::size_t>(total_figure::gpu_busy)] = 5000000;
  for (const std::size_t n : {std::size_t{3}, std::size_t{1}}) {
    before.resize(n), after.resize(n);
    const std::string text = text_of(find_difference(before, after));
    CHECK(says(text, "GPU busy 0 ns -> 5.00 ms; "));
    CHECK_FALSE(says(text, "GPU busy 0 ns -> 5.00 ms ("));
  }
}

TEST_CASE("difference: too few runs are reported as that") {
  const trace_difference d = find_difference(runs(2, 1), runs(2, 2, {{"kernel5", 2}}));
  CHECK(d.least_p == doctest::Approx(1.0 / 6));
  CHECK(significant(d) == 0);
  CHECK(says(text_of(d), "Too few runs"));
  const trace_difference three = find_difference(runs(3, 1), runs(3, 2, {{"kernel5", 2}}));
  CHECK(row(three, profile_group::gpu_operations, "kernel5")->significant);
  CHECK(!three.adjusted);
  CHECK(three.by_chance > 0);
  CHECK(says(text_of(three), "would by chance"));
}

TEST_CASE("difference: one run each compares durations, and says what that is worth") {
  const trace_difference d = find_difference({run_of(1, {}, 4096)}, {run_of(1, {{"kernel5", 1.2}}, 4096)});
  const difference* slow = row(d, profile_group::gpu_operations, "kernel5");
  CHECK(slow->significant);
  CHECK(slow->p < 1e-6);
  CHECK(!row(d, profile_group::gpu_operations, "kernel6")->significant);
  CHECK(std::isnan(d.of(total_figure::wall).p));
  CHECK(says(text_of(d), "Two runs of the same program may differ"));
  CHECK(is_slower(d, *slow, 0.05));
}

TEST_CASE("difference: a row that could not be tested is not reported as unchanged") {
  // Of totals and of the GPU time of stages a run has one figure; without samples no row can be tested.
  const trace_difference d = find_difference({run_of(1, {}, 4)}, {run_of(1, {{"kernel5", 2}}, 4)});
  const difference* slow = row(d, profile_group::gpu_operations, "kernel5");
  CHECK(!slow->was_tested());
  CHECK(!slow->significant);
  const std::string text = text_of(d);
  CHECK(says(text, "GPU operation \"kernel5\" +100"));
  CHECK(says(text, " each (not tested: one run each)"));
  CHECK(says(text, "11 others without a change of 1.0 %, not tested: one run each"));
  CHECK(!says(text, "beyond chance"));
  const nlohmann::json j = nlohmann::json::parse(difference_json(d, {"a"}, {"b"}, -1));
  for (const nlohmann::json& one : j["gpu_operations"]) CHECK(one["tested"] == false);
  const trace_difference same = find_difference({run_of(1, {}, 4)}, {run_of(1, {}, 4)});
  CHECK(says(text_of(same), "no stage and no GPU operation changed"));
  CHECK(!says(text_of(same), "beyond chance"));
  const trace_difference tested = find_difference({run_of(1, {}, 64)}, {run_of(1, {}, 64)});
  CHECK(says(text_of(tested), "changed beyond chance"));
  CHECK(nlohmann::json::parse(difference_json(tested, {"a"}, {"b"}, -1))["gpu_operations"][0]["tested"] == true);
}

TEST_CASE("difference: too few durations for a test do not count as tested where ranks and mean disagree") {
  const auto run = [](const std::vector<std::int64_t>& durations) {
    trace_profile p;
    small_random random(1);
    std::int64_t at = 0;
    for (const std::int64_t ns : durations) {
      p.of(profile_group::stages)["load"].add({at, at + ns}, 0, 1000, random);
      at += ns;
    }
    return p;
  };
  const trace_difference d = find_difference({run({10, 10, 100})}, {run({11, 11, 20})});
  CHECK(row(d, profile_group::stages, "load")->change_share < -0.6);
  CHECK(!row(d, profile_group::stages, "load")->was_tested());
}

TEST_CASE("difference: the halves of a run differ by what was planted") {
  trace_analysis a;
  std::int64_t now = 0;
  const auto add = [&](const char* name, int times, std::int64_t ns) {
    for (int i = 0; i < times; ++i, now += 100000) a.add(sample::kernel(name, now, now + ns, 0));
  };
  add("steady", 20, 5000);
  add("slower", 20, 10000);
  add("few", 7, 1000);
  add("steady", 20, 5000);
  add("slower", 20, 13000);
  add("few", 7, 9000);
  const trace_results r = a.finish();
  const trace_profile p = profile_of(a, r, 0);
  const profile_row& slower = p.of(profile_group::gpu_operations).at("slower");
  CHECK(slower.half_count == std::array<std::uint64_t, 2>{20, 20});
  CHECK(slower.half_ns == std::array<std::int64_t, 2>{200000, 260000});
  const half_differences h = differences_of_halves(p);
  CHECK(h.rows == 2);
  CHECK(h.largest_share == doctest::Approx(0.3));
  CHECK(h.median_share == doctest::Approx(0.15));
  CHECK(h.name == "slower");
  CHECK(h.group == profile_group::gpu_operations);
  const trace_difference d = find_difference({p}, {run_of(1)});
  CHECK(says(text_of(d),
             "The two halves of the run before differ from each other by 15.0 % in the median of 2 rows, at "
             "most by 30.0 % (GPU operation \"slower\")."));
  const nlohmann::json j = nlohmann::json::parse(difference_json(d, {"a"}, {"b"}, -1))["halves_of_the_first_before"];
  CHECK(j["rows"] == 2);
  CHECK(j["largest_share"].get<double>() == doctest::Approx(0.3));
  CHECK(j["largest_name"] == "slower");
  CHECK(j["largest_group"] == "gpu_operations");
  CHECK(differences_of_halves(trace_profile()).rows == 0);
}

TEST_CASE("difference: what is new and what is gone") {
  trace_profile a = run_of(1), b = run_of(2);
  b.of(profile_group::gpu_operations).erase("kernel3");
  b.of(profile_group::gpu_operations)["fused"] = a.of(profile_group::gpu_operations)["kernel3"];
  const trace_difference d = find_difference({a, a, a}, {b, b, b});
  const difference* gone = row(d, profile_group::gpu_operations, "kernel3");
  CHECK(gone->after.runs == 0);
  CHECK(gone->total_change_ns < 0);
  CHECK(!gone->significant);
  CHECK(!is_slower(d, *row(d, profile_group::gpu_operations, "fused"), 0));
  const std::string text = text_of(d);
  CHECK(says(text, "gone"));
  CHECK(says(text, "new"));
}

TEST_CASE("difference: what took no time before and takes some now is slower by more than any share") {
  const auto run = [](std::int64_t load_ns, std::int64_t busy_ns) {
    trace_profile p;
    small_random random(1);
    for (int i = 0; i < 20; ++i) {
      p.of(profile_group::stages)["load"].add({i, i + load_ns}, 10, 1000, random);
      p.of(profile_group::stages)["idle"].add({i, i}, 10, 1000, random);
    }
    p.totals_ns[static_cast<std::size_t>(total_figure::wall)] = 1000;
    p.totals_ns[static_cast<std::size_t>(total_figure::gpu_busy)] = busy_ns;
    return p;
  };
  const trace_profile none = run(0, 0), some = run(10, 500);
  for (const trace_difference& d :
       {find_difference({none}, {some}), find_difference({none, none, none, none}, {some, some, some, some})}) {
    CAPTURE(d.repeated);
    const difference& busy = d.of(total_figure::gpu_busy);
    CHECK(is_slower(d, busy, 5));
    CHECK(is_slower(d, *row(d, profile_group::stages, "load"), 5));
    CHECK(row(d, profile_group::stages, "load")->significant);
    CHECK(busy.significant == d.repeated);
    CHECK(!is_slower(d, *row(d, profile_group::stages, "idle"), 0));
    CHECK(!is_slower(d, d.of(total_figure::transfers), 0));
    const std::string text = text_of(d, 5);
    CAPTURE(text);
    CHECK(says(text, "FAILED: slower by more than +500 %: \"gpu_busy\" from 0, \"load\" from 0"));
    CHECK(says(text, "stage \"load\" from 0 each"));
    const nlohmann::json j = nlohmann::json::parse(difference_json(d, {"a"}, {"b"}, 5));
    CHECK(j["failed"] == true);
    REQUIRE(j["slower"].size() == 2);
    for (const nlohmann::json& one : j["slower"]) CHECK(one["change_share"].is_null());
  }
  const trace_difference back = find_difference({some}, {none});
  CHECK(!is_slower(back, back.of(total_figure::gpu_busy), 0));
  CHECK(!is_slower(back, *row(back, profile_group::stages, "load"), 0));
}

TEST_CASE("difference: text fits, and JSON has each row") {
  std::vector<event> events = hostile::named_events();
  trace_analysis a;
  for (const event& e : events) a.add(e);
  const trace_results r = a.finish();
  const trace_profile odd = profile_of(a, r, 16);
  for (const trace_difference& d :
       {find_difference({odd}, {run_of(1, {}, 16)}), find_difference({odd, odd, odd}, {run_of(1), odd, run_of(3)}),
        find_difference({trace_profile()}, {trace_profile()}),
        find_difference(runs(5, 1), runs(5, 2, {{"kernel1", 9}}))}) {
    const std::string text = text_of(d, 0.05, 1000);
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = text.find('\n', at);
      REQUIRE(end != std::string::npos);
      CAPTURE(text.substr(at, end - at));
      CHECK(end - at <= 100);
      for (std::size_t i = at; i < end; ++i) CHECK((text[i] >= ' ' && text[i] < 0x7f));
      at = end + 1;
    }
    const nlohmann::json j = nlohmann::json::parse(difference_json(d, {"a\"b"}, {"c"}, 0.05));
    CHECK(j["schema"] == "cutrace.diff");
    CHECK(j["before"][0] == "a\"b");
    CHECK(j["gpu_operations"].size() == d.of(profile_group::gpu_operations).size());
    CHECK(j["failed"] == !j["slower"].empty());
    for (const nlohmann::json& one : j["totals"]) CHECK(one["name"].is_string());
  }
}

}  // namespace analysis_difference_test
