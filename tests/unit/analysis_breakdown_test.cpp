// SPDX-License-Identifier: Apache-2.0
// Categories of calls, and the breakdown of wall time: one owner for each nanosecond, all of them together the window.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cutrace/analysis/breakdown.hpp>
#include <cutrace/analysis/category.hpp>
#include <numeric>
#include <random>
#include <vector>

#include "support/sample_events.hpp"

namespace analysis_breakdown_test {

namespace {

using namespace cutrace;
using analysis::breakdown;
using analysis::breakdown_table;
using analysis::category;
using analysis::owner;

std::int64_t sum(const breakdown_table& t) { return std::accumulate(t.ns.begin(), t.ns.end(), std::int64_t{0}); }

category of(const char* function) { return analysis::category_of_call(sample::text_of(function)); }

constexpr const char* functions[] = {"cuInit",         "cuMemAlloc_v2",       "cuMemcpyHtoD_v2",
                                     "cuLaunchKernel", "cuStreamSynchronize", "cuEventRecord"};

/// Host calls, stages and GPU work on several streams and devices; in the order of their ends where asked.
std::vector<event> random_trace(std::mt19937& random, std::size_t count, bool by_end) {
  std::vector<event> list;
  std::uniform_int_distribution<std::int64_t> start(-50, 950), length(0, 40);
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t from = start(random), to = from + length(random) * (random() % 20 == 0 ? 8 : 1);
    switch (random() % 6) {
      case 0:
        list.push_back(sample::kernel("k", from, to, i, random() % 3, random() % 2));
        break;
      case 1:
        list.push_back(sample::memcpy(copy_direction::host_to_device, 10, from, to, i));
        break;
      case 2:
        list.push_back(sample::memset(10, from, to, i));
        break;
      case 3:
        list.push_back(sample::stage("s", from, to, i + 1));
        break;
      default:
        list.push_back(sample::api(functions[random() % 6], from, to, i));
        break;
    }
  }
  for (event& e : list) e.incomplete = e.is_gpu_work() && random() % 8 == 0;
  if (by_end)
    std::stable_sort(list.begin(), list.end(), [](const event& a, const event& b) { return a.end_ns < b.end_ns; });
  return list;
}

owner owner_of(const event& e) {
  if (e.kind == event_kind::stage) return owner::host_stage;
  if (e.incomplete) return owner::gpu_unfinished;
  return e.is_gpu_work() ? analysis::gpu_owner(analysis::category_of(e))
                         : analysis::host_owner(analysis::category_of(e));
}

/// The definition, nanosecond by nanosecond.
std::array<std::int64_t, analysis::owner_count> counted(const std::vector<event>& events, std::int64_t end, bool host) {
  std::array<std::int64_t, analysis::owner_count> ns{};
  for (std::int64_t t = 0; t < end; ++t) {
    owner first = owner::nothing;
    for (const event& e : events)
      if (e.start_ns <= t && t < e.end_ns && !(host && e.is_gpu_work())) first = std::min(first, owner_of(e));
    ++ns[static_cast<std::size_t>(first)];
  }
  return ns;
}

}  // namespace

TEST_CASE("calls find their category by parts of their names") {
  CHECK(of("cuInit") == category::init);
  CHECK(of("cuDevicePrimaryCtxRetain") == category::init);
  CHECK(of("cuModuleLoadDataEx") == category::init);
  CHECK(of("cuLibraryGetKernel") == category::init);
  CHECK(of("cuLinkAddData_v2") == category::init);
  CHECK(of("cudaGraphInstantiate") == category::init);
  CHECK(of("cuMemAlloc_v2") == category::memory);
  CHECK(of("cudaMallocAsync") == category::memory);
  CHECK(of("cudaFree") == category::memory);
  CHECK(of("cuMemHostAlloc") == category::memory);
  CHECK(of("cudaHostRegister") == category::memory);
  CHECK(of("cuMemsetD32Async") == category::memory);
  CHECK(of("cuMemcpyDtoHAsync_v2") == category::transfer);
  CHECK(of("cudaMemcpy2D") == category::transfer);
  CHECK(of("cuMemPrefetchAsync") == category::transfer);
  CHECK(of("cuLaunchKernelEx") == category::kernel);
  CHECK(of("cudaLaunchCooperativeKernel") == category::kernel);
  CHECK(of("cuGraphLaunch") == category::kernel);
  CHECK(of("cudaDeviceSynchronize") == category::sync);
  CHECK(of("cuEventQuery") == category::sync);
  CHECK(of("cuStreamWaitEvent") == category::other);  // the stream waits, not the host
  CHECK(of("cuGraphAddMemcpyNode") == category::other);
  CHECK(of("cuFuncSetSharedMemConfig") == category::other);
  CHECK(of("cuLaunchHostFunc") == category::other);
  CHECK(of("cuEventRecord") == category::other);
  CHECK(of("") == category::other);
  CHECK(analysis::category_of_call(sample::text_of("myCopy"), copy_direction::peer) == category::transfer);
}

TEST_CASE("each nanosecond has one owner, as by the definition") {
  const unsigned first_seed = std::random_device{}();
  for (unsigned round = 0; round < 60; ++round) {
    const unsigned seed = first_seed + round;
    CAPTURE(seed);
    std::mt19937 random(seed);
    const std::vector<event> events = random_trace(random, round * 2, round % 2 == 0);
    breakdown b;
    for (const event& e : events) b.add(e);
    const breakdown_table all = b.everything(1000), host = b.host(1000);
    REQUIRE(all.window.length_ns() >= 1000);
    REQUIRE(all.ns == counted(events, all.window.end_ns, false));
    REQUIRE(host.ns == counted(events, host.window.end_ns, true));
    REQUIRE(sum(all) == all.window.length_ns());
    REQUIRE(sum(host) == host.window.length_ns());
    const auto shares = analysis::permille_of(all);
    REQUIRE(std::accumulate(shares.begin(), shares.end(), 0u) == 1000);
  }
}

TEST_CASE("where everything overlaps, the stated order decides") {
  // Each event is 100 ns longer than the one before, so each owner has exactly the 100 ns that the ones before leave.
  event unfinished = sample::kernel("u", 0, 400, 11);
  unfinished.incomplete = true;
  const std::vector<event> events = {
      sample::kernel("k", 0, 100, 1),
      sample::memcpy(copy_direction::host_to_device, 1, 0, 200, 2),
      sample::memset(1, 0, 300, 3),
      unfinished,
      sample::api("cuModuleLoadData", 0, 500, 4),
      sample::api("cuMemAlloc", 0, 600, 5),
      sample::api("cuMemcpyHtoD", 0, 700, 6),
      sample::api("cuLaunchKernel", 0, 800, 7),
      sample::api("cuEventRecord", 0, 900, 8),
      sample::api("cuCtxSynchronize", 0, 1000, 9),
      sample::stage("s", 0, 1100, 10),
  };
  breakdown b;
  for (const event& e : events) b.add(e);
  const breakdown_table t = b.everything(1200);
  CHECK(t.gpu_busy_ns() == 300);
  CHECK(t.gpu_unfinished_ns() == 100);
  CHECK(t.gpu_idle_ns() == 800);
  for (std::size_t o = 0; o < analysis::owner_count; ++o) {
    CAPTURE(o);
    CHECK(t.ns[o] == 100);
    CHECK(t.count[o] == (static_cast<owner>(o) == owner::nothing ? 0 : 1));
  }
}

TEST_CASE("a bounded breakdown still adds up to the whole window, and is off by no more than it says") {
  const unsigned first_seed = std::random_device{}();
  for (unsigned round = 0; round < 60; ++round) {
    const unsigned seed = first_seed + round;
    CAPTURE(seed);
    std::mt19937 random(seed);
    const std::vector<event> events = random_trace(random, 200, true);
    analysis::bounds limits;
    limits.intervals = limits.row_intervals = 4;
    breakdown bounded(0, limits), exact;
    for (const event& e : events) bounded.add(e), exact.add(e);
    const breakdown_table t = bounded.everything(1000), truth = exact.everything(1000);
    REQUIRE(sum(t) == t.window.length_ns());
    for (std::size_t o = 0; o < analysis::owner_count; ++o) {
      REQUIRE(t.ns[o] >= 0);
      // A row is the difference of two unions, each of which may be off by the bound.
      REQUIRE(std::abs(t.ns[o] - truth.ns[o]) <= 2 * t.uncertain_ns);
    }
  }
}

TEST_CASE("devices: busy is the union over streams, kernels that of kernels") {
  breakdown b;
  b.add(sample::kernel("k", 100, 200, 1, 7, 0));
  b.add(sample::kernel("k", 150, 250, 2, 8, 0));
  b.add(sample::memcpy(copy_direction::device_to_host, 1, 400, 500, 3, 7, 0));
  b.add(sample::kernel("k", 0, 10, 4, 7, 1));
  const std::vector<analysis::device_time> list = b.devices();
  REQUIRE(list.size() == 2);
  CHECK(list[0].busy_ns == 250);
  CHECK(list[0].active == analysis::interval{100, 500});
  CHECK(list[0].kernel_ns == 150);
  CHECK(list[0].streams == 2);
  CHECK(list[1].busy_ns == 10);
  CHECK(list[1].streams == 1);
}

TEST_CASE("devices: in a trace of windows what lies in the folded past is estimated, and marked") {
  analysis::bounds limits;
  limits.row_intervals = 4;  // when full, the oldest half is folded: only its length is kept
  for (const bool windows : {false, true})
    for (const int kernels : {3, 50}) {
      breakdown b(0, limits);
      for (int i = 0; i < kernels; ++i) b.add(sample::kernel("k", 100 * i, 100 * i + 50, 1, 7, 0));
      if (windows) b.add(sample::base(event_kind::window, "recorded", 0, 5000));
      const std::vector<analysis::device_time> list = b.devices();
      REQUIRE(list.size() == 1);
      CHECK(list[0].approximate == (windows && kernels > 3));
      if (!list[0].approximate) CHECK(list[0].busy_ns == 50 * kernels);
    }
}

TEST_CASE("devices: what work without times occupies is neither busy nor idle") {
  breakdown b;
  event unfinished = sample::kernel("u", 150, 450, 3, 7, 0);
  unfinished.incomplete = true;
  b.add(sample::kernel("k", 100, 200, 1, 7, 0));
  b.add(unfinished);
  b.add(sample::kernel("k", 400, 420, 2, 8, 0));
  unfinished.device = 1;
  b.add(unfinished);
  const std::vector<analysis::device_time> list = b.devices();
  REQUIRE(list.size() == 2);
  CHECK(list[0].busy_ns == 120);
  CHECK(list[0].unfinished_ns == 230);
  CHECK(list[0].active == analysis::interval{100, 450});
  CHECK(list[0].kernel_ns == 120);
  CHECK(list[1].busy_ns == 0);
  CHECK(list[1].unfinished_ns == 300);
  CHECK(list[1].active == analysis::interval{150, 450});
}

TEST_CASE("devices: work without times counts in a bounded breakdown, too, and is marked as estimated once folded") {
  analysis::bounds limits;
  limits.row_intervals = 16;
  for (const bool windows : {false, true})
    for (const int count : {10, 100}) {
      breakdown b(0, limits);
      for (int i = 0; i < count; ++i) {
        event unfinished = sample::kernel("u", 100 * i, 100 * i + 50, 1);
        unfinished.incomplete = true;
        b.add(unfinished);
        b.add(sample::kernel("k", 100 * i, 100 * i + 20, 2, 8, 0));
      }
      if (windows) b.add(sample::base(event_kind::window, "recorded", 0, 10000));
      const std::vector<analysis::device_time> list = b.devices();
      REQUIRE(list.size() == 1);
      CHECK(list[0].approximate == (count == 100));
      CHECK(b.devices_approximate() == (count == 100));
      if (!windows || count == 10) CHECK(list[0].unfinished_ns == 30 * count);
    }
}

TEST_CASE("the bottleneck is the GPU where it works half of the time, else what the host did while it was idle") {
  breakdown b;
  b.add(sample::kernel("k", 0, 100, 1));
  b.add(sample::memcpy(copy_direction::device_to_host, 1, 100, 110, 3));
  b.add(sample::api("cuMemAlloc", 110, 190, 1));
  b.add(sample::stage("s", 190, 200, 1));
  CHECK(analysis::bottleneck(b.everything(220)) == owner::gpu_kernel);
  CHECK(analysis::bottleneck(b.everything(221)) == owner::host_memory);
  CHECK(analysis::bottleneck(b.everything(279)) == owner::host_memory);
  CHECK(analysis::bottleneck(b.everything(281)) == owner::nothing);  // 81 without any work, 80 of cuMemAlloc
  CHECK(analysis::largest_host_owner(b.everything(281), false) == owner::host_memory);
  CHECK(analysis::bottleneck(b.host(281)) == owner::nothing);
  CHECK(analysis::largest_host_owner(breakdown().everything(100), false) == owner::nothing);
}

TEST_CASE("a span may be waiting and owns no time, but the thread that adopted a part of it is in that part") {
  event span = sample::stage("request", 0, 1000, 1), part = sample::stage("request", 200, 800, 1);
  span.stage.span = part.stage.span = part.stage.adopted = true;
  breakdown b;
  b.add(part);
  b.add(span);
  const breakdown_table all = b.everything(1000), host = b.host(1000);
  for (const breakdown_table& t : {all, host}) {
    CHECK(t.time_ns(owner::host_stage) == 600);
    CHECK(t.time_ns(owner::nothing) == 400);
    CHECK(t.events(owner::host_stage) == 0);
  }
}

TEST_CASE("what began before the window counts from its start only") {
  breakdown b(1000);
  b.add(sample::kernel("k", 0, 1500, 1));
  b.add(sample::kernel("k", 0, 900, 1));
  const breakdown_table t = b.everything(2000);
  CHECK(t.window == analysis::interval{1000, 2000});
  CHECK(t.time_ns(owner::gpu_kernel) == 500);
  CHECK(sum(t) == 1000);
}

TEST_CASE("no events: an empty window has no shares and no bottleneck") {
  breakdown b;
  const breakdown_table t = b.everything(0);
  CHECK(t.window.empty());
  CHECK(sum(t) == 0);
  const auto shares = analysis::permille_of(t);
  CHECK(std::accumulate(shares.begin(), shares.end(), 0u) == 0);
  CHECK(analysis::bottleneck(t) == owner::nothing);
}

TEST_CASE("a trace in pieces: what was not recorded is nobody's, and no idle time") {
  breakdown b;
  const auto piece = [](std::int64_t start, std::int64_t end) {
    event e;
    e.kind = event_kind::window;
    e.start_ns = start;
    e.end_ns = end;
    return e;
  };
  b.add(sample::kernel("k", 100, 160, 1));
  b.add(piece(100, 200));
  b.add(sample::kernel("k", 1000, 1010, 1));
  b.add(piece(1000, 1100));
  const analysis::breakdown_table t = b.everything(2000);
  CHECK(t.window.length_ns() == 2000);
  CHECK(t.pieces == 2);
  CHECK(t.recorded_ns == 200);
  CHECK(t.time_ns(owner::gpu_kernel) == 70);
  CHECK(t.time_ns(owner::nothing) == 130);
  CHECK(analysis::permille_of(t)[0] == 350);
  // Of work that reaches beyond its window, what lies in it.
  b.add(sample::kernel("k", 1050, 1500, 1));
  const analysis::breakdown_table more = b.everything(2000);
  CHECK(more.recorded_ns == 200);
  CHECK(more.time_ns(owner::gpu_kernel) == 120);
  CHECK(more.time_ns(owner::nothing) == 80);
  CHECK(b.devices()[0].busy_ns == 120);
}

}  // namespace analysis_breakdown_test
