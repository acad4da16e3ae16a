// SPDX-License-Identifier: Apache-2.0
// Times of the layers (user code, driver call, kernel, waiting) against a model that finds the layer of each tick, and
// the table of ioctls with the calls that made them.
#include <doctest/doctest.h>

#include <cstdint>
#include <map>
#include <random>
#include <vector>

#include "report/layers.hpp"
#include "report/trace_analysis.hpp"
#include "support/sample_events.hpp"

namespace analysis_layers_test {

namespace {

using namespace cutrace;
using namespace cutrace::analysis;

bool covers(const std::vector<interval>& list, std::int64_t t) {
  for (const interval v : list)
    if (v.start_ns <= t && t < v.end_ns) return true;
  return false;
}

std::map<std::uint32_t, layer_times> naive(const layer_sweep& s, std::uint32_t outside) {
  std::map<std::uint32_t, layer_times> result;
  const interval all = s.span();
  for (std::int64_t t = all.start_ns; t < all.end_ns; ++t) {
    if (!covers(s.recorded, t)) continue;
    std::size_t stage = s.stages.size();
    for (std::size_t i = 0; i < s.stages.size(); ++i) {
      const interval v = s.stages[i].when;
      if (v.start_ns > t || t >= v.end_ns) continue;
      const interval last = stage == s.stages.size() ? interval{INT64_MIN, 0} : s.stages[stage].when;
      if (v.start_ns != last.start_ns ? v.start_ns > last.start_ns : v.end_ns <= last.end_ns) stage = i;
    }
    layer l = layer::user_code;
    if (covers(s.calls, t)) l = layer::driver_call;
    if (covers(s.waits, t)) l = layer::waiting;
    if (covers(s.ioctls, t)) l = layer::kernel;
    if (covers(s.switched, t)) l = layer::waiting;
    ++result[stage == s.stages.size() ? outside : s.stages[stage].stage].ns[static_cast<std::size_t>(l)];
  }
  return result;
}

event made_in(event e, std::uint64_t call, std::uint32_t thread) {
  e.ioctl_.enclosing = call;
  e.thread_id = thread;
  return e;
}

}  // namespace

TEST_CASE("layers: each moment counts once, for the first layer that holds and the innermost stage") {
  for (std::uint32_t seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    layer_sweep s;
    const auto any = [&] {
      const auto begin = static_cast<std::int64_t>(random() % 200);
      return interval{begin, begin + static_cast<std::int64_t>(random() % 40)};
    };
    for (std::vector<interval>* list : {&s.calls, &s.waits, &s.ioctls, &s.switched})
      for (std::size_t n = random() % 6; n > 0; --n) list->push_back(any());
    for (std::size_t n = random() % 6; n > 0; --n)
      s.stages.push_back({any(), static_cast<std::uint32_t>(1 + random() % 3)});
    if (seed % 3 == 0) s.recorded = merged({any(), any(), any()});
    const auto found = s.find(0), expected = naive(s, 0);
    std::int64_t total = 0;
    CHECK(found.size() == expected.size());
    for (const auto& [stage, times] : found) {
      CHECK(expected.count(stage) == 1);
      CHECK(times.ns == expected.at(stage).ns);
      total += times.total_ns();
    }
    if (seed % 3 != 0) CHECK(total == s.span().length_ns());
  }
}

TEST_CASE("layers: threads and stages of a trace, ioctls with the calls that made them") {
  trace_analysis a;
  const std::uint32_t worker = sample::worker_thread;
  const auto add_call = [&](const char* name, std::int64_t start, std::int64_t end, std::uint64_t id,
                            std::uint32_t thread = sample::main_thread) {
    event e = sample::api(name, start, end, id);
    e.thread_id = thread;
    a.add(e);
  };
  const auto failed = made_in(sample::ioctl("NV_ESC_RM_CONTROL", 120, 150), 5, sample::main_thread);
  a.add(failed);
  add_call("cuMemAlloc", 100, 200, 5);
  event memory = made_in(sample::ioctl("NV_ESC_RM_ALLOC", 220, 230), 6, sample::main_thread);
  memory.ioctl_.command_name = sample::text_of("NV01_MEMORY_LOCAL_USER");
  memory.ioctl_.status = 0;
  memory.ioctl_.status_name = sample::text_of("NV_OK");
  a.add(memory);
  memory.start_ns = 240, memory.end_ns = 250;
  a.add(memory);
  add_call("cuMemCreate", 210, 260, 6);
  add_call("cuStreamSynchronize", 300, 400, 7);
  a.add(sample::stage("step", 90, 350, 11));
  a.add(made_in(sample::ioctl("NV_ESC_CARD_INFO", 1000, 1100), 0, worker));
  event off = sample::base(event_kind::system, "switched out", 130, 140);
  off.system.category = sample::text_of("sched");
  a.add(off);
  event interrupt = sample::base(event_kind::system, "irq", 150, 160);
  interrupt.system.category = sample::text_of("irq");
  a.add(interrupt);
  event work = sample::called_at(sample::gpu(event_kind::kernel, "gemm", 500, 900, 5), 100);
  work.call_name = sample::text_of("cuLaunchKernel");
  a.add(work);
  work.incomplete = true;
  work.end_ns = 1900;
  a.add(work);
  const layer_report r = a.finish(2000).layers;

  REQUIRE(r.threads.size() == 2);
  CHECK(r.threads[0].thread_id == sample::main_thread);
  CHECK(r.threads[0].span == interval{90, 400});
  CHECK(r.threads[0].times.ns == std::array<std::int64_t, 4>{60, 100, 40, 110});
  CHECK(r.threads[0].times.gpu_ns == 400);
  CHECK(r.threads[1].times.ns == std::array<std::int64_t, 4>{0, 0, 100, 0});
  REQUIRE(r.stages.size() == 2);
  CHECK(r.stages[0].name == "step");
  CHECK(r.stages[0].times.ns == std::array<std::int64_t, 4>{60, 100, 40, 60});
  CHECK(r.stages[1].name.empty());
  CHECK(r.stages[1].times.ns == std::array<std::int64_t, 4>{0, 0, 100, 50});
  CHECK(r.stages[1].times.gpu_ns == 400);
  REQUIRE(r.ioctls.size() == 3);
  CHECK(r.ioctls[0].name == "NV_ESC_CARD_INFO");
  CHECK(r.ioctls[0].in_calls == 0);
  CHECK(r.ioctls[1].command == "NV2080_CTRL_CMD_GPU_GET_INFO_V2");
  CHECK(r.ioctls[1].failed == 1);
  CHECK(r.ioctls[1].call == "cuMemAlloc");
  CHECK(r.ioctls[2].count == 2);
  CHECK(r.ioctls[2].failed == 0);
  CHECK(r.ioctls[2].total_ns == 20);
  CHECK(r.ioctls[2].call == "cuMemCreate");
  CHECK(r.ioctls[2].of_call == 2);
  CHECK(r.objects.made == 2);
  CHECK(r.objects.memory == 2);
}

TEST_CASE("layers: without ioctls there are none") {
  trace_analysis a;
  a.add(sample::api("cuMemAlloc", 100, 200, 5));
  const layer_report r = a.finish(300).layers;
  CHECK(r.threads.empty());
  CHECK(r.stages.empty());
  CHECK(r.ioctls.empty());
}

}  // namespace analysis_layers_test
