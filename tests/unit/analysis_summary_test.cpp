// SPDX-License-Identifier: Apache-2.0
// Plain numbers and tables by name: launches, allocations and live bytes, bandwidth, waits, top operations.
#include <doctest/doctest.h>

#include <cstdint>
#include <cutrace/analysis/names.hpp>
#include <cutrace/analysis/operations.hpp>
#include <cutrace/analysis/summary.hpp>
#include <cutrace/analysis/time_bins.hpp>
#include <string>
#include <vector>

#include "support/sample_events.hpp"

namespace analysis_summary_test {

namespace {

using namespace cutrace;
using analysis::category;
using analysis::operation;
using analysis::operation_table;
using analysis::summary;
using analysis::trace_numbers;

event runtime(event e) {
  e.api.runtime_api = true;
  return e;
}

}  // namespace

TEST_CASE("a launch that passes through both APIs is one launch") {
  summary s;
  for (std::uint64_t i = 0; i < 3; ++i) {
    s.add(sample::api("cuLaunchKernel", 0, 10, i));
    s.add(runtime(sample::api("cudaLaunchKernel", 0, 12, i)));
  }
  s.add(sample::api("cuGraphLaunch", 20, 30, 9));
  const trace_numbers n = s.numbers();
  CHECK(n.launches() == 4);
  CHECK(n.driver_calls == 4);
  CHECK(n.runtime_calls == 3);
}

TEST_CASE("live bytes follow allocations and frees by address") {
  summary s;
  s.add(sample::memory(memory_operation::allocate, 0x1000, 100, 1, 1));
  s.add(sample::memory(memory_operation::allocate, 0x2000, 200, 2, 2));
  s.add(sample::memory(memory_operation::free, 0x1000, 0, 3, 3));
  s.add(sample::memory(memory_operation::allocate, 0x3000, 50, 4, 4));
  s.add(sample::memory(memory_operation::free, 0x9000, 7, 5, 5));  // allocated before the trace
  s.add(sample::memory(memory_operation::free, 0x1000, 0, 5, 5));  // free already
  event pinned = sample::memory(memory_operation::allocate, 0x4000, 1000, 6, 6);
  pinned.memory.memory = memory_kind::pinned;
  s.add(pinned);
  const trace_numbers n = s.numbers();
  CHECK(n.device.allocations == 3);
  CHECK(n.device.allocated_bytes == 350);
  CHECK(n.device.frees == 3);
  CHECK(n.device.live_bytes == 250);
  CHECK(n.device.peak_live_bytes == 300);
  CHECK(n.host.live_bytes == 1000);
  CHECK_FALSE(n.live_approximate);
}

TEST_CASE("an address that is handed out again without a free counts once") {
  summary s;
  s.add(sample::memory(memory_operation::allocate, 0x1000, 100, 1, 1));
  s.add(sample::memory(memory_operation::allocate, 0x1000, 40, 2, 2));
  CHECK(s.numbers().device.live_bytes == 40);
}

TEST_CASE("an address that comes back as another kind of memory leaves the total that it was in") {
  summary s;
  event pinned = sample::memory(memory_operation::allocate, 0x1000, 100, 1, 1);
  pinned.memory.memory = memory_kind::pinned;
  s.add(pinned);
  s.add(sample::memory(memory_operation::allocate, 0x1000, 10, 2, 2));
  trace_numbers n = s.numbers();
  CHECK(n.host.live_bytes == 0);
  CHECK(n.host.peak_live_bytes == 100);
  CHECK(n.device.live_bytes == 10);
  CHECK(n.device.peak_live_bytes == 10);
  pinned.memory.operation = memory_operation::free;
  s.add(pinned);
  n = s.numbers();
  CHECK(n.host.live_bytes == 0);
  CHECK(n.device.live_bytes == 0);
}

TEST_CASE("more live allocations than the bounds hold are said to be approximate") {
  analysis::bounds limits;
  limits.live_allocations = 2;
  summary s(limits);
  for (std::uint64_t i = 0; i < 3; ++i) s.add(sample::memory(memory_operation::allocate, 0x1000 * (i + 1), 100, 1, i));
  CHECK(s.numbers().live_approximate);
  CHECK(s.numbers().device.allocations == 3);
}

TEST_CASE("bandwidth is weighted by bytes, not the mean of each copy's") {
  summary s;
  s.add(sample::memcpy(copy_direction::host_to_device, 1000, 0, 1000, 1));   // 1 GB/s
  s.add(sample::memcpy(copy_direction::host_to_device, 99000, 0, 1000, 2));  // 99 GB/s
  s.add(sample::memcpy(copy_direction::device_to_host, 64, 0, 0, 3));
  const trace_numbers n = s.numbers();
  const auto& up = n.copies[static_cast<std::size_t>(copy_direction::host_to_device)];
  CHECK(up.count == 2);
  CHECK(up.bytes_per_s() == doctest::Approx(50e9));
  CHECK(n.copies[static_cast<std::size_t>(copy_direction::device_to_host)].bytes_per_s() == 0.0);
}

TEST_CASE("each wait is counted in one API") {
  summary s;
  s.add(sample::api("cuStreamSynchronize", 10, 90, 1));
  s.add(runtime(sample::api("cudaStreamSynchronize", 0, 100, 1)));
  CHECK(s.numbers().sync_calls == 1);
  CHECK(s.numbers().sync_ns == 100);
}

TEST_CASE("a call that a driver call makes inside is no further wait, launch or allocation of the program") {
  summary s;
  std::uint64_t id = 0;
  for (const char* name : {"cuStreamSynchronize", "cuLaunchKernel", "cuMemAlloc_v2"}) {
    event inner = sample::api(name, 10, 90, ++id), outer = sample::api(name, 0, 100, ++id);
    inner.api.enclosing = outer.correlation_id;
    inner.api.bytes = outer.api.bytes = 4096;
    s.add(inner);
    s.add(outer);
  }
  CHECK(s.numbers().driver_calls == 6);
  CHECK(s.numbers().sync_calls == 1);
  CHECK(s.numbers().sync_ns == 100);
  CHECK(s.numbers().launches() == 1);
  CHECK(s.numbers().driver_allocation_calls == 1);
  CHECK(s.numbers().driver_allocation_bytes == 4096);
}

TEST_CASE("allocating calls whose sizes a file does not keep count, questions about allocations do not") {
  summary s;
  for (const char* name : {"cuMemAlloc_v2", "cuMemAllocAsync", "cuMemCreate", "cuMemGetAllocationGranularity",
                           "cuMemRetainAllocationHandle", "cuMemFree_v2"})
    s.add(sample::api(name, 0, 1, 1));
  event sized = sample::api("cuMemAlloc_v2", 0, 1, 1);
  sized.api.bytes = 4096;
  s.add(sized);
  CHECK(s.numbers().driver_allocation_calls == 1);
  CHECK(s.numbers().driver_allocation_bytes == 4096);
  CHECK(s.numbers().driver_unsized_allocation_calls == 3);
}

TEST_CASE("not ready is an answer, an error is a failure") {
  summary s;
  event query = sample::api("cuStreamQuery", 0, 1, 1), failed = sample::api("cuMemAlloc", 0, 1, 2);
  query.api.result = 600;
  failed.api.result = 2;
  failed.api.bytes = 4096;
  s.add(query);
  s.add(failed);
  CHECK(s.numbers().failed_calls == 1);
  CHECK(s.numbers().driver_allocation_calls == 0);
}

TEST_CASE("operations: by total time, copies by direction, equal text from different places is one name") {
  operation_table t;
  const std::string here = "gemm", there = "gemm";
  t.add(sample::kernel(here, 0, 10, 1));
  t.add(sample::kernel(there, 0, 30, 2));
  t.add(sample::kernel("softmax", 0, 25, 3));
  CHECK(t.add(sample::memcpy(copy_direction::device_to_host, 1, 0, 5, 4)) == category::transfer);
  const std::vector<operation> top = t.top(2);
  REQUIRE(top.size() == 2);
  CHECK(top[0].name == "gemm");
  CHECK(top[0].count == 2);
  CHECK(top[0].total_ns == 40);
  CHECK(top[0].shortest_ns == 10);
  CHECK(top[0].longest_ns == 30);
  CHECK(top[1].name == "softmax");
  CHECK(t.size() == 3);
  CHECK(t.total_ns() == 70);
  CHECK(t.top(3)[2].name == "[memcpy DtoH]");
}

TEST_CASE("operations: text that changes at one address is kept apart") {
  operation_table t;
  std::string buffer = "first!";
  t.add(sample::kernel(buffer, 0, 10, 1));
  buffer = "second";
  t.add(sample::kernel(buffer, 0, 10, 2));
  CHECK(t.size() == 2);
}

TEST_CASE("operations: names beyond the bounds share a row but keep their category") {
  analysis::bounds limits;
  limits.names = 1;
  operation_table t(limits);
  t.add(sample::api("cuMemAlloc", 0, 10, 1));
  CHECK(t.add(sample::api("cuLaunchKernel", 0, 1, 2)) == category::kernel);
  CHECK(t.add(sample::api("cuStreamSynchronize", 0, 2, 3)) == category::sync);
  CHECK(t.names_left_out());
  REQUIRE(t.top(9).size() == 2);
  CHECK(t.top(9)[1].name == "(other names)");
  CHECK(t.top(9)[1].total_ns == 3);
}

TEST_CASE("rows are ranked by their first number, then their second, and equal ones keep their order") {
  std::vector<analysis::ranked> rows = {{5, 0, 0}, {9, 1, 1}, {5, 0, 2}, {9, 7, 3}, {-1, 0, 4}, {5, 2, 5}};
  for (std::uint32_t i = 6; i < 60; ++i) rows.push_back({5, 0, i});  // more than an insertion sort takes
  analysis::rank(rows);
  std::vector<std::uint32_t> order;
  for (const analysis::ranked& r : rows) order.push_back(r.index);
  std::vector<std::uint32_t> expected = {3, 1, 5, 0, 2};
  for (std::uint32_t i = 6; i < 60; ++i) expected.push_back(i);
  expected.push_back(4);
  CHECK(order == expected);
}

TEST_CASE("timeline columns are all of the window, and show the largest share") {
  analysis::timeline_row row;
  row.add({0, 100}, 1);
  row.add({100, 160}, 2);
  row.add({160, 200}, 1);
  const analysis::interval window{0, 300};
  const std::vector<analysis::timeline_cell> cells = row.cells(window, 3);
  REQUIRE(cells.size() == 3);
  CHECK(cells[0].color == 1);
  CHECK(cells[0].ns == 100);
  CHECK(cells[1].color == 2);
  CHECK(cells[1].ns == 100);
  CHECK(cells[2].ns == 0);
  std::int64_t sum = 0;
  for (std::size_t c = 0; c < 7; ++c) sum += analysis::timeline_row::part({-5, 1000}, c, 7).length_ns();
  CHECK(sum == 1005);
}

}  // namespace analysis_summary_test
