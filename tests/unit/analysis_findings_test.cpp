// SPDX-License-Identifier: Apache-2.0
// Findings: of a trace with one planted fault exactly that one comes first, of a clean trace there is none; what a fix
// is said to win is what the same program without the fault wins.
#include <doctest/doctest.h>

#include <cstdint>
#include <cutrace/sinks/common/finding_text.hpp>
#include <string>
#include <vector>

#include "report/findings.hpp"
#include "support/planted_traces.hpp"
#include "support/random_trace.hpp"
#include "support/sanitized.hpp"

namespace analysis_findings_test {

namespace {

using namespace cutrace;
using namespace cutrace::analysis;
using planted::fault;
using planted::us;

struct outcome {
  std::vector<finding> found;
  std::int64_t recorded_ns = 0;
};

outcome analysed(const std::vector<event>& events) {
  trace_analysis a;
  for (const event& e : events) a.add(e);
  const trace_results r = a.finish();
  return {find_findings(a.log(), r), r.time.everything.recorded_ns};
}

std::string list_of(const std::vector<finding>& found) {
  std::string s;
  for (const finding& f : found) s += std::string(name_of(f.is)) + " " + std::to_string(f.win_ns / us) + " us; ";
  return s;
}

/// The first finding of the faulty trace; its prediction, against what the program without the fault really wins.
finding first(finding_kind expected, const std::vector<event>& faulty, const std::vector<event>& mended) {
  const outcome bad = analysed(faulty), good = analysed(mended);
  CAPTURE(list_of(bad.found));
  REQUIRE(!bad.found.empty());
  const finding& f = bad.found[0];
  CHECK_MESSAGE(f.is == expected, name_of(f.is));
  CHECK(f.count >= 1);
  CHECK(f.cost_ns <= bad.recorded_ns);
  CHECK(f.win_ns <= f.cost_ns);
  const double won = static_cast<double>(bad.recorded_ns - good.recorded_ns);
  CHECK(static_cast<double>(f.win_ns) >= 0.75 * won);
  CHECK(static_cast<double>(f.win_ns) <= 1.25 * won);
  CHECK_MESSAGE((good.found.empty() || good.found[0].is != expected), list_of(good.found));
  REQUIRE(!f.proof.empty());
  for (const evidence& e : f.proof) {
    CHECK(!e.when.empty());
    CHECK(e.when.end_ns <= bad.recorded_ns);
    CHECK(!e.name.empty());
  }
  const ascii::finding_words words = ascii::words_of(f, bad.recorded_ns);
  CHECK(!words.title.empty());
  CHECK(words.what.find(ascii::duration(f.cost_ns).view()) != std::string::npos);
  CHECK(words.advice.size() > 20);
  return f;
}

}  // namespace

TEST_CASE("analysis.findings: nothing stands out in a clean trace") {
  const outcome o = analysed(planted::server({}));
  CHECK_MESSAGE(o.found.empty(), list_of(o.found));
  CHECK(analysed({}).found.empty());
}

TEST_CASE("analysis.findings: transfers dominate") {
  fault f;
  f.copy_bytes = 100000000;  // 2 ms
  fault mended = f;
  mended.copy_bytes = 5000000;
  const finding found = first(finding_kind::transfers_dominate, planted::server(f), planted::server(mended));
  CHECK(found.stage == "decode");
  CHECK(found.bytes == 200 * f.copy_bytes);
}

TEST_CASE("analysis.findings: pageable copies") {
  fault f;
  f.copy_bytes = 1000000;
  f.pageable = true;
  f.bytes_per_ns = planted::pageable_bytes_per_ns;
  f.own_stream_for_copies = false;
  f.kernel_ns = 300 * us;
  fault mended = f;
  mended.pageable = false;
  mended.bytes_per_ns = planted::pinned_bytes_per_ns;
  const finding found = first(finding_kind::pageable_copies, planted::server(f), planted::server(mended));
  CHECK(found.bytes_per_s > 5.5e9);
  CHECK(found.bytes_per_s < 6e9);
}

TEST_CASE("analysis.findings: blocking copies in the loop") {
  fault f;
  f.kernel_ns = 100 * us;
  f.copy_bytes = 0;
  f.own_code_ns = 2 * us;
  f.blocking_result = true;
  fault mended = f;
  mended.blocking_result = false;
  const finding found = first(finding_kind::blocking_copies, planted::server(f), planted::server(mended));
  CHECK(found.call == "cuMemcpyDtoH");
  CHECK(found.stage == "decode");
}

TEST_CASE("analysis.findings: synchronising in the loop") {
  fault f;
  f.kernel_ns = 100 * us;
  f.copy_bytes = 0;
  f.synchronise = true;
  fault mended = f;
  mended.synchronise = false;
  const finding found = first(finding_kind::synchronisation, planted::server(f), planted::server(mended));
  CHECK(found.call == "cuStreamSynchronize");
  CHECK(found.site == "server.cpp:120");
  CHECK(found.stage == "decode");
  CHECK(found.count == 199);
}

TEST_CASE("analysis.findings: many tiny kernels") {
  fault f;
  f.kernel_ns = 2 * us;
  f.kernels = 50;
  f.launch_call_ns = 6 * us;
  f.copy_bytes = 0;
  f.own_code_ns = 0;
  fault graph = f;  // one launch for what were fifty, a microsecond from node to node
  graph.kernels = 1;
  graph.kernel_ns = 50 * 2 * us + 49 * us;
  const finding found = first(finding_kind::launch_bound, planted::server(f), planted::server(graph));
  CHECK(found.count == 200 * 50);
  CHECK(found.kernel == "gemm");
  CHECK(found.typical_ns >= 1900);
  CHECK(found.typical_ns <= 2100);
}

TEST_CASE("analysis.findings: gaps before copies alone are not those of tiny kernels") {
  std::vector<event> events = {sample::device(0, "NVIDIA H200")};
  for (std::int64_t i = 0; i < 200; ++i) {
    const std::int64_t at = i * 142 * us;
    const std::uint64_t id = static_cast<std::uint64_t>(i) + 1;
    events.push_back(sample::api("cuMemcpyHtoDAsync_v2", at, at + 40 * us, id));
    events.push_back(sample::called_at(
        sample::memcpy(copy_direction::host_to_device, 5000000, at + 42 * us, at + 142 * us, id), at));
  }
  for (const finding& f : analysed(events).found) CHECK(f.is != finding_kind::launch_bound);
}

TEST_CASE("analysis.findings: of tiny kernels, kernel and stage belong together") {
  // The longest gaps lie before a stage that sets memory, most tiny kernels are in a stage without gaps.
  std::vector<event> events = {sample::device(0, "NVIDIA H200")};
  std::uint64_t id = 0;
  for (std::int64_t i = 0; i < 100; ++i) {
    std::int64_t at = i * 200 * us;
    const auto stage = [&](const char* name, int pieces, std::int64_t call_ns, auto&& work) {
      const std::uint64_t instance = 1000 + id;
      const std::int64_t start = at;
      for (int k = 0; k < pieces; ++k) {
        const bool sets = std::string(name) == "clear";
        event call = sample::api(sets ? "cuMemsetD8Async" : "cuLaunchKernel", at, at + call_ns, ++id);
        events.push_back(sample::in_stage(call, name, instance));
        events.push_back(sample::in_stage(sample::called_at(work(at + call_ns, id), at), name, instance));
        at += call_ns + us;
      }
      events.push_back(sample::stage(name, start, at, instance));
    };
    stage("clear", 1, 80 * us, [](std::int64_t t, std::uint64_t n) { return sample::memset(4096, t, t + 2 * us, n); });
    stage("attention", 2, 20 * us,
          [](std::int64_t t, std::uint64_t n) { return sample::kernel("softmax", t, t + 2 * us, n); });
    stage("mlp", 8, us, [](std::int64_t t, std::uint64_t n) { return sample::kernel("gelu", t, t + 2 * us, n); });
  }
  const outcome o = analysed(events);
  REQUIRE_MESSAGE(!o.found.empty(), list_of(o.found));
  CHECK(o.found[0].is == finding_kind::launch_bound);
  CHECK(o.found[0].count == 1000);
  CHECK(o.found[0].stage == "attention");
  CHECK(o.found[0].kernel == "softmax");
}

TEST_CASE("analysis.findings: the stage that is blamed has most of the gaps, whatever calls it spends them in") {
  // "prepare" keeps the GPU waiting in three calls in turn, 300 us in all; "sample" does so with its own code, 150 us.
  std::vector<event> events = {sample::device(0, "NVIDIA H200")};
  std::uint64_t id = 0;
  std::int64_t at = 0;
  const auto gap = [&](const char* stage, const char* call, std::int64_t ns) {
    const std::uint64_t instance = 1000 + id;
    const std::int64_t start = at;
    if (call != nullptr) {
      event e = sample::api(call, at + us, at + ns - us, ++id);
      events.push_back(sample::in_stage(e, stage, instance));
    }
    at += ns;
    events.push_back(sample::stage(stage, start, at, instance));
    events.push_back(sample::api("cuLaunchKernel", at, at + us, ++id));
    events.push_back(sample::called_at(sample::kernel("k", at + 2 * us, at + 50 * us, id), at));
    at += 50 * us;
  };
  for (int i = 0; i < 50; ++i) {
    for (const char* call : {"cuModuleGetFunction", "cuFuncSetAttribute", "cuPointerGetAttributes"})
      gap("prepare", call, 100 * us);
    gap("sample", nullptr, 150 * us);
  }
  trace_analysis a;
  for (const event& e : events) a.add(e);
  const trace_results r = a.finish();
  const std::vector<finding> found = find_findings(a.log(), r);
  REQUIRE(!found.empty());
  CHECK(found[0].is == finding_kind::host_bound);
  CHECK(found[0].stage == "prepare");
  REQUIRE(r.idle.most_of(idle_cause::host_wait) != nullptr);
  CHECK(r.idle.most_of(idle_cause::host_wait)->stage == "prepare");
}

TEST_CASE("analysis.findings: allocation in the loop") {
  fault f;
  f.kernel_ns = 100 * us;
  f.copy_bytes = 0;
  f.allocate = true;
  fault mended = f;
  mended.allocate = false;
  const finding found = first(finding_kind::allocation, planted::server(f), planted::server(mended));
  CHECK((found.call == "cuMemAlloc_v2" || found.call == "cuMemFree_v2"));
}

TEST_CASE("analysis.findings: the GPU waits for the host") {
  fault f;
  f.kernel_ns = 100 * us;
  f.copy_bytes = 0;
  f.own_code_ns = 250 * us;
  fault mended = f;
  mended.own_code_ns = 10 * us;
  const finding found = first(finding_kind::host_bound, planted::server(f), planted::server(mended));
  CHECK(found.stage == "decode");
  CHECK(found.call.empty());
}

TEST_CASE("analysis.findings: one stream only") {
  const finding found = first(finding_kind::single_stream, planted::two_requests(false), planted::two_requests(true));
  CHECK(found.count >= 398);
}

TEST_CASE("analysis.findings: one stream only, for requests that take turns") {
  std::vector<request_ref> requests;
  for (std::uint64_t r = 0; r < 16; ++r) requests.push_back(sample::request_id(500 + r));
  std::vector<event> events = {sample::device(0, "NVIDIA H200")};
  for (std::uint64_t i = 1; i <= 160; ++i) {
    const std::int64_t at = static_cast<std::int64_t>(i) * 201 * us;
    const auto placed = [&](event e) { return sample::in_stage(e, "decode", i, &requests[i % 16], 1); };
    events.push_back(placed(sample::api("cuLaunchKernel", at, at + 5 * us, i)));
    events.push_back(placed(sample::stage("decode", at, at + 6 * us, i)));
    events.push_back(placed(sample::called_at(sample::kernel("gemm", at + 10 * us, at + 210 * us, i), at)));
  }
  const outcome o = analysed(events);
  REQUIRE(!o.found.empty());
  CHECK_MESSAGE(o.found[0].is == finding_kind::single_stream, list_of(o.found));
}

TEST_CASE("analysis.findings: copies and kernels that never overlap") {
  fault f;
  f.copy_bytes = 15000000;  // 300 us
  f.own_stream_for_copies = false;
  fault mended = f;
  mended.own_stream_for_copies = true;
  first(finding_kind::unused_overlap, planted::server(f), planted::server(mended));
}

TEST_CASE("analysis.findings: slow copies are those of the stage in which no kernel hides them") {
  std::vector<event> events = {sample::device(0, "NVIDIA H200")};
  std::uint64_t id = 0;
  const auto copy = [&](const char* stage, copy_direction to, std::uint64_t bytes, std::int64_t from,
                        std::int64_t until) {
    event e = sample::memcpy(to, bytes, from, until, ++id);
    e.memcpy_.source = e.memcpy_.destination = memory_kind::pageable;
    events.push_back(sample::in_stage(e, stage, id));
    events.push_back(sample::stage(stage, from, until, id));
  };
  for (std::int64_t at = 0; at < 50 * 2000 * us; at += 2000 * us) {
    copy("load", copy_direction::host_to_device, 8000000, at + 10 * us, at + 1500 * us);
    events.push_back(sample::kernel("k", at, at + 1600 * us, ++id));
    copy("tokens", copy_direction::device_to_host, 500000, at + 1600 * us, at + 2000 * us);
  }
  const outcome o = analysed(events);
  REQUIRE(!o.found.empty());
  CHECK(o.found[0].is == finding_kind::pageable_copies);
  CHECK(o.found[0].cost_ns == 50 * 400 * us);
  CHECK(o.found[0].count == 100);
  CHECK(o.found[0].stage == "tokens");
  CHECK(o.found[0].places == 1);
  for (const evidence& e : o.found[0].proof) CHECK(e.when.length_ns() == 400 * us);
}

TEST_CASE("analysis.findings: low bandwidth") {
  fault f;
  f.copy_bytes = 1000000;
  f.bytes_per_ns = 4;
  f.own_stream_for_copies = false;
  fault mended = f;
  mended.bytes_per_ns = planted::pinned_bytes_per_ns;
  const finding found = first(finding_kind::low_bandwidth, planted::server(f), planted::server(mended));
  CHECK(!found.small_ones);
  CHECK(found.peak_bytes_per_s == 63e9);
}

TEST_CASE("analysis.findings: copies that share the link have no low bandwidth where it is full") {
  // Eight copies at a time of 16 MB each, 50 GB/s in all.
  for (const auto direction : {copy_direction::host_to_device, copy_direction::device_to_host}) {
    std::vector<event> events = {sample::device(0, "NVIDIA H200")};
    std::uint64_t id = 0;
    for (std::int64_t at = 0; at < 100000 * us; at += 2560 * us)
      for (std::uint64_t stream = 1; stream <= 8; ++stream) {
        event e = sample::memcpy(direction, 16000000, at, at + 2560 * us, ++id, stream);
        e.memcpy_.source = e.memcpy_.destination = memory_kind::pinned;
        events.push_back(e);
      }
    const outcome o = analysed(events);
    CAPTURE(list_of(o.found));
    REQUIRE(o.found.size() == 1);
    CHECK(o.found[0].is == finding_kind::transfers_dominate);
  }
}

TEST_CASE("analysis.findings: slow copies within a device have nothing to do with the host's memory or the link") {
  std::vector<event> events = {sample::device(0, "NVIDIA H200")};
  std::uint64_t id = 0;
  for (std::int64_t at = 0; at < 10000 * us; at += 100 * us)
    events.push_back(sample::memcpy(copy_direction::device_to_device, 10000000, at, at + 100 * us, ++id));
  const outcome o = analysed(events);
  REQUIRE(o.found.size() == 1);
  CHECK(o.found[0].is == finding_kind::low_bandwidth);
  CHECK(o.found[0].peak_bytes_per_s == 2.4e12);
  const std::string advice = ascii::words_of(o.found[0], o.recorded_ns).advice;
  for (const char* word : {"pinned", "link", "nvidia-smi"})
    CHECK_MESSAGE(advice.find(word) == std::string::npos, advice);
}

TEST_CASE("analysis.findings: losses, which have no time") {
  fault f;
  f.lost = 1234;
  const outcome o = analysed(planted::server(f));
  REQUIRE(o.found.size() == 1);
  CHECK(o.found[0].is == finding_kind::losses);
  CHECK(o.found[0].count == 1234);
  finding_options options;
  options.lost = 5000;  // as the file's footer says
  trace_analysis a;
  for (const event& e : planted::server({})) a.add(e);
  const trace_results r = a.finish();
  REQUIRE(find_findings(a.log(), r, options).size() == 1);
}

TEST_CASE("analysis.findings: all that a device can win is no more than the time recorded") {
  for (std::uint32_t seed = 1; seed <= (sanitized ? 100 : 1000); ++seed) {
    CAPTURE(seed);
    random_trace::trace t = random_trace::make(seed);
    trace_analysis a;
    if (seed % 2 == 0) a.add(sample::device(0, "NVIDIA H200"));
    for (const event& e : t.events) a.add(e);
    const trace_results r = a.finish();
    finding_options all;
    all.least_share = 0;
    std::int64_t sum[2] = {};
    std::int64_t last = INT64_MAX;
    for (const finding& f : find_findings(a.log(), r, all)) {
      REQUIRE(f.win_ns > 0);
      REQUIRE(f.win_ns <= last);
      REQUIRE(!f.proof.empty());
      last = f.win_ns;
      sum[f.device] += f.win_ns;
    }
    REQUIRE(sum[0] <= r.time.everything.recorded_ns);
    REQUIRE(sum[1] <= r.time.everything.recorded_ns);
  }
}

}  // namespace analysis_findings_test
