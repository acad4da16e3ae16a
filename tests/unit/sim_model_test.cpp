// SPDX-License-Identifier: Apache-2.0
// The simulated GPU's model: streams, engines, events, the default stream, and reproducible durations.
#include <doctest/doctest.h>

#include "../support/manual_gpu.hpp"

namespace sim_model_test {

using cutrace::sim::interval;
using cutrace::sim::status;
using cutrace::sim::stream_kind;
using test_support::manual_gpu;

TEST_CASE("sim: works of one stream follow each other, streams overlap") {
  manual_gpu g;
  auto* a = g.stream();
  auto* b = g.stream();
  const interval first = g.kernel(a, 500), second = g.kernel(a, 300), other = g.kernel(b, 400);
  CHECK(first.start_ns == 0);
  CHECK(first.end_ns == 500);
  CHECK(second.start_ns == 500);
  CHECK(second.end_ns == 800);
  CHECK(other.start_ns == 0);
  g.time_ns += 5000;
  CHECK(g.kernel(a, 10).start_ns == 0);  // idle again: it starts at base(), the latency behind its launch
}

TEST_CASE("sim: kernels beyond the device's slots wait for the first that ends") {
  auto o = manual_gpu::plain();
  o.concurrent_kernels = 2;
  manual_gpu g(o);
  CHECK(g.kernel(g.stream(), 500).start_ns == 0);
  CHECK(g.kernel(g.stream(), 300).start_ns == 0);
  CHECK(g.kernel(g.stream(), 100).start_ns == 300);
}

TEST_CASE("sim: one copy engine for each direction") {
  manual_gpu g;
  const std::uint64_t d = g.machine.allocate(0, 4096);
  std::vector<char> host(4096);
  g.machine.pin(host.data(), host.size());
  const interval up = g.copy(g.stream(), d, host.data(), 1000);
  const interval up_too = g.copy(g.stream(), d, host.data(), 1000);
  const interval down = g.copy_out(g.stream(), host.data(), d, 1000);
  CHECK(up.end_ns == 1010);        // 1,000 bytes at 1 a ns, and 10 ns of latency
  CHECK(up_too.start_ns == 1010);  // same engine, though on another stream
  CHECK(down.start_ns == 0);
  CHECK(g.kernel(g.stream(), 1).start_ns == 0);
}

TEST_CASE("sim: the legacy default stream synchronises with blocking streams only") {
  manual_gpu g;
  auto* blocking = g.stream(stream_kind::blocking);
  auto* free_running = g.stream(stream_kind::non_blocking);
  g.kernel(blocking, 500);
  g.kernel(free_running, 9000);
  CHECK(g.kernel(g.legacy(), 100).start_ns == 500);
  CHECK(g.kernel(blocking, 10).start_ns == 600);
  CHECK(g.kernel(g.stream(stream_kind::per_thread), 10).start_ns == 600);
  CHECK(g.kernel(g.stream(stream_kind::non_blocking), 10).start_ns == 0);
}

TEST_CASE("sim: events carry a stream's progress to others and measure it") {
  manual_gpu g;
  auto* a = g.stream();
  auto* b = g.stream();
  auto* begin = g.machine.create_event(true);
  auto* end = g.machine.create_event(true);
  CHECK(g.machine.wait(b, end) == status::ok);  // never recorded: nothing to wait for
  CHECK(g.kernel(b, 10).start_ns == 0);
  CHECK(g.machine.record(begin, a) == status::ok);
  g.kernel(a, 2000000);
  CHECK(g.machine.record(end, a) == status::ok);
  CHECK(g.machine.wait(b, end) == status::ok);
  CHECK(g.kernel(b, 10).start_ns == 2000000);
  double ms = 0;
  CHECK(g.machine.elapsed(begin, end, ms) == status::not_ready);
  CHECK(g.machine.query(end) == status::not_ready);
  g.time_ns += 2001000;
  CHECK(g.machine.query(end) == status::ok);
  CHECK(g.machine.elapsed(begin, end, ms) == status::ok);
  CHECK(ms == doctest::Approx(2.0));
}

TEST_CASE("sim: a blocking call gets the moment until which it waits") {
  manual_gpu g;
  auto* a = g.stream();
  auto* b = g.stream();
  g.kernel(a, 700);
  g.kernel(b, 900);
  CHECK(g.machine.finish(a).at_ns == g.base() + 700);
  CHECK(g.machine.finish(g.context).at_ns == g.base() + 900);
  CHECK(g.machine.query(a) == status::not_ready);
  g.time_ns += 1700;
  CHECK(g.machine.query(a) == status::ok);
  CHECK(g.machine.query(b) == status::not_ready);
}

TEST_CASE("sim: host functions run once their turn has come") {
  manual_gpu g;
  auto* s = g.stream();
  int runs = 0;
  g.kernel(s, 1000);
  const auto r = g.machine.issue(s, cutrace::sim::host_work{[](void* p) { ++*static_cast<int*>(p); }, &runs});
  CHECK(r.what == status::ok);
  g.machine.hosts().run_due();
  CHECK(runs == 0);
  CHECK(g.machine.query(s) == status::not_ready);
  g.time_ns += 2000;
  CHECK(g.machine.query(s) == status::not_ready);  // due, but has not run
  g.machine.hosts().run_due();
  CHECK(runs == 1);
  CHECK(g.machine.query(s) == status::ok);
}

TEST_CASE("sim: durations depend on the seed, the stream and the work's place in it, not on other streams") {
  const auto durations = [](std::uint64_t seed, bool disturbed) {
    auto o = manual_gpu::plain();
    o.seed = seed;
    manual_gpu g(o);
    auto* a = g.stream();
    auto* b = g.stream();
    std::vector<std::uint64_t> all;
    for (int i = 0; i < 20; ++i) {
      if (disturbed) g.kernel(b, 0);
      const interval t = g.kernel(a, 0);
      all.push_back(t.end_ns - t.start_ns);
    }
    return all;
  };
  const auto first = durations(7, false);
  CHECK(first == durations(7, false));
  CHECK(first == durations(7, true));
  CHECK(first != durations(8, false));
  CHECK(first[0] != first[1]);
  for (const std::uint64_t d : first) {  // one wave: 3.5 us times 0.8 to 1.3
    CHECK(d >= 2800);
    CHECK(d <= 4550);
  }
}

TEST_CASE("sim: launches that no GPU takes are refused") {
  manual_gpu g;
  cutrace::sim::kernel_work k;
  k.block[0] = 2048;
  CHECK(g.machine.issue(g.stream(), k).what == status::invalid_value);
  k.block[0] = 1;
  k.grid[2] = 0;
  CHECK(g.machine.issue(g.stream(), k).what == status::invalid_value);
}

TEST_CASE("sim: handles end with their objects") {
  manual_gpu g;
  auto* s = g.stream();
  auto* e = g.machine.create_event(true);
  CHECK(g.machine.alive(s));
  CHECK(g.machine.destroy_stream(s));
  CHECK_FALSE(g.machine.alive(s));
  CHECK_FALSE(g.machine.destroy_stream(s));
  CHECK_FALSE(g.machine.destroy_stream(g.legacy()));
  CHECK(g.machine.destroy_event(e));
  CHECK_FALSE(g.machine.destroy_event(e));
  auto* legacy = g.legacy();
  CHECK(g.machine.destroy_context(g.context));
  CHECK_FALSE(g.machine.alive(legacy));
}

}  // namespace sim_model_test
