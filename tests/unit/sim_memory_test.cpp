// SPDX-License-Identifier: Apache-2.0
// Memory of the simulated GPU: limits, reuse, kinds of addresses, and the bytes that copies and sets move.
#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

#include "../support/manual_gpu.hpp"

namespace sim_memory_test {

using cutrace::memory_kind;
using cutrace::sim::status;
using test_support::manual_gpu;

TEST_CASE("sim memory: allocations count against the limit and come back") {
  manual_gpu g;  // 1 MiB
  const std::uint64_t a = g.machine.allocate(0, 600 << 10);
  CHECK(a % 512 == 0);
  CHECK(g.machine.live_bytes(0) == 600 << 10);
  CHECK(g.machine.allocate(0, 600 << 10) == 0);
  CHECK(g.machine.allocate(0, 0) == 0);
  CHECK(g.machine.allocate(0, ~std::uint64_t{0}) == 0);
  CHECK(g.machine.free(a + 1) == 0);
  CHECK(g.machine.free(a) == 600 << 10);
  CHECK(g.machine.free(a) == 0);
  CHECK(g.machine.live_bytes(0) == 0);
  for (int i = 0; i < 100; ++i) {  // far more in all than the address range holds
    const std::uint64_t p = g.machine.allocate(0, 900 << 10);
    REQUIRE(p != 0);
    g.machine.free(p);
  }
}

TEST_CASE("sim memory: live allocations never overlap") {
  manual_gpu g;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> live;
  std::uint64_t state = 1;
  for (int i = 0; i < 2000; ++i) {
    state = cutrace::sim::mix(state);
    if (state % 3 == 0 && !live.empty()) {
      const std::size_t pick = (state >> 8) % live.size();
      CHECK(g.machine.free(live[pick].first) == live[pick].second);
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(pick));
      continue;
    }
    const std::uint64_t bytes = 1 + (state >> 16) % 20000;
    if (const std::uint64_t p = g.machine.allocate(0, bytes)) live.emplace_back(p, bytes);
  }
  std::sort(live.begin(), live.end());
  for (std::size_t i = 1; i < live.size(); ++i) CHECK(live[i - 1].first + live[i - 1].second <= live[i].first);
  CHECK(live.size() > 10);
}

TEST_CASE("sim memory: an address says what it is") {
  manual_gpu g;
  std::vector<char> host(100);
  const std::uint64_t d = g.machine.allocate(0, 1000);
  const auto kind = [&](std::uint64_t address) { return g.machine.where(address).kind; };
  const auto h = reinterpret_cast<std::uint64_t>(host.data());
  CHECK(kind(d) == memory_kind::device);
  CHECK(kind(d + 999) == memory_kind::device);
  CHECK(kind(d + 1000) == memory_kind::unknown);
  CHECK(kind(h) == memory_kind::pageable);
  CHECK(g.machine.pin(host.data(), 100));
  CHECK_FALSE(g.machine.pin(host.data() + 50, 10));
  CHECK(kind(h + 99) == memory_kind::pinned);
  CHECK(kind(h + 100) == memory_kind::pageable);
  CHECK(g.machine.unpin(host.data()));
  CHECK_FALSE(g.machine.unpin(host.data()));
  g.machine.free(d);
  CHECK(kind(d) == memory_kind::unknown);
}

TEST_CASE("sim memory: bytes go there and back") {
  manual_gpu g;
  std::vector<unsigned char> in(5000), out(5000, 0);
  std::iota(in.begin(), in.end(), static_cast<unsigned char>(3));
  const std::uint64_t a = g.machine.allocate(0, 5000), b = g.machine.allocate(0, 5000);
  auto* s = g.stream();
  g.copy(s, a, in.data(), 5000);
  cutrace::sim::copy_work within;
  within.source.address = a;
  within.destination.address = b;
  within.width_bytes = 5000;
  const auto r = g.machine.issue(s, within);
  CHECK(r.what == status::ok);
  CHECK(r.done.copy.direction == cutrace::copy_direction::device_to_device);
  cutrace::sim::set_work set;
  set.address = b + 100;
  set.value = 0x01020304;
  set.element_bytes = 4;
  set.width = 2;
  CHECK(g.machine.issue(s, set).what == status::ok);
  g.copy_out(s, out.data(), b, 5000);
  CHECK(out[99] == in[99]);
  CHECK(out[100] == 4);
  CHECK(out[103] == 1);
  CHECK(out[107] == 1);
  CHECK(std::equal(in.begin() + 108, in.end(), out.begin() + 108));
}

TEST_CASE("sim memory: boxes with a pitch") {
  manual_gpu g;
  std::vector<unsigned char> in(12), out(12, 0);
  std::iota(in.begin(), in.end(), static_cast<unsigned char>(0));
  const std::uint64_t d = g.machine.allocate(0, 1000);
  cutrace::sim::copy_work up;
  up.source = {reinterpret_cast<std::uint64_t>(in.data()), 4, 0};
  up.destination = {d, 100, 0};
  up.width_bytes = 4;
  up.height = 3;
  CHECK(g.machine.issue(g.stream(), up).what == status::ok);
  g.copy_out(g.stream(), out.data(), d + 200, 4);
  CHECK(out[0] == 8);
  CHECK(out[3] == 11);
}

TEST_CASE("sim memory: a copy that leaves its allocation is refused and moves nothing") {
  manual_gpu g;
  std::vector<unsigned char> in(200, 9), out(100, 1);
  const std::uint64_t d = g.machine.allocate(0, 100);
  cutrace::sim::copy_work c;
  c.source.address = reinterpret_cast<std::uint64_t>(in.data());
  c.destination.address = d;
  c.width_bytes = 101;
  CHECK(g.machine.issue(g.stream(), c).what == status::invalid_value);
  g.copy_out(g.stream(), out.data(), d, 100);
  CHECK(out[0] == 0);
  g.machine.free(d);
  c.width_bytes = 100;
  CHECK(g.machine.issue(g.stream(), c).what == status::invalid_value);
}

}  // namespace sim_memory_test
