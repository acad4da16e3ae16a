// SPDX-License-Identifier: Apache-2.0
// `cutrace run --sink perfetto`: the trace of a real run holds what the JSONL file of the same run holds.
#include <doctest/doctest.h>

#include <cstdint>
#include <set>
#include <string>
#include <tuple>

#include "../../support/perfetto_trace.hpp"
#include "run_support.hpp"

namespace run_perfetto_test {

using run_support::jsonl_trace;
using run_support::run;

TEST_CASE("a Perfetto trace and a JSONL trace of one run report the same") {
  const run r({"--sink", "jsonl,perfetto"}, {SUBJECT, "work", "5"});
  CHECK(r.ended.exit_status == 0);
  REQUIRE(r.files(".pftrace").size() == 1);
  REQUIRE(r.files(".jsonl").size() == 1);
  const perfetto_trace::trace t(content_of(r.files(".pftrace")[0]));
  const jsonl_trace lines(r.files(".jsonl")[0]);
  REQUIRE(lines.complete());

  const auto begin = lines.header.at("clocks").at("monotonic_ns").get<std::int64_t>() -
                     lines.header.at("clocks").at("trace_ns").get<std::int64_t>();
  using found = std::tuple<std::string, std::int64_t, std::int64_t>;
  std::multiset<found> kernels, calls, kernels_reported, calls_reported;
  std::set<std::uint64_t> launched;
  for (const auto& g : t.gpu_slices) {
    if (g.stage != "Kernel") continue;
    const auto start = static_cast<std::int64_t>(g.start_ns);
    kernels.insert({g.name, start - begin, static_cast<std::int64_t>(g.duration_ns)});
  }
  for (const auto& s : t.slices) {
    const auto start = static_cast<std::int64_t>(s.start_ns);
    if (s.category == "cuda_driver" || s.category == "cuda_runtime")
      calls.insert({s.name, start - begin, static_cast<std::int64_t>(s.end_ns) - start});
    launched.insert(s.submits.begin(), s.submits.end());
  }
  const auto reported = [](const nlohmann::json& e) {
    return found(e.at("name").get<std::string>(), e.at("ts_ns").get<std::int64_t>(),
                 e.at("dur_ns").get<std::int64_t>());
  };
  for (const auto& e : lines.of("kernel")) kernels_reported.insert(reported(e));
  for (const auto& e : lines.of("api")) calls_reported.insert(reported(e));
  CHECK(kernels.size() == 5);
  CHECK(kernels == kernels_reported);
  CHECK(calls == calls_reported);
  for (const auto& g : t.gpu_slices) {
    if (g.stage == "Kernel") CHECK(launched.count(g.event_id) == 1);
  }
  CHECK(t.unclosed == 0);
  CHECK(t.dropped == 0);
  CHECK(t.snapshots.size() >= 2);
  CHECK(t.gpus.size() == 1);
}

}  // namespace run_perfetto_test
