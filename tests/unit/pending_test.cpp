// SPDX-License-Identifier: Apache-2.0
// The short forms of events that wait in the order window: what a form holds comes out as it went in, and an event
// with more than that is refused.
#include <doctest/doctest.h>

#include <cstring>
#include <cutrace/collect/pending.hpp>
#include <functional>
#include <random>
#include <vector>

namespace pending_test {

using cutrace::attribution;
using cutrace::event;
using cutrace::event_kind;
using cutrace::detail::pending_work;
using cutrace::detail::work_shape;

namespace {

/// Each member that GPU work may have, with values up to what the short form has room for.
event work(event_kind kind, std::mt19937_64& random) {
  const auto word = [&random](std::uint64_t limit) { return random() % limit; };
  const auto small = [&](std::uint64_t limit) { return static_cast<std::uint32_t>(word(limit)); };
  event e;
  e.kind = kind;
  e.by_events = word(2) != 0;
  e.device = small(1u << 16);
  e.context = small(~0u);
  e.stream = random();
  e.correlation_id = small(~0u);
  e.stage_id = random();
  e.name = {"gemm", small(5)};
  if (kind == event_kind::memcpy) {
    e.memcpy_ = {random(),
                 cutrace::copy_direction::peer,
                 cutrace::memory_kind::pinned,
                 cutrace::memory_kind::array,
                 true,
                 small(~0u),
                 small(~0u),
                 small(~0u),
                 random()};
  } else if (kind == event_kind::memset) {
    e.memset_.bytes = random();
    e.memset_.value = small(~0u);
    e.memset_.memory = cutrace::memory_kind::managed;
    e.memset_.asynchronous = true;
    e.memset_.graph_id = small(~0u);
    e.memset_.graph_node_id = random();
  } else if (kind == event_kind::sync) {
    e.sync.what = cutrace::sync_kind::stream_wait_event;
    e.sync.event_id = small(~0u);
  } else {
    cutrace::kernel_data& k = e.kernel;
    for (int i = 0; i < 3; ++i) k.grid[i] = small(~0u), k.block[i] = small(~0u), k.cluster[i] = small(~0u);
    k.registers_per_thread = small(~0u);
    k.static_shared_bytes = small(~0u);
    k.dynamic_shared_bytes = small(~0u);
    k.local_bytes_per_thread = small(~0u);
    k.priority = static_cast<std::int32_t>(random());
    k.graph_id = small(~0u);
    k.graph_node_id = random();
    k.mangled_name = {"_Z4gemm", small(8)};
  }
  return e;
}

event through(const event& e) {
  pending_work waiting;
  std::memset(static_cast<void*>(&waiting), 0xa5, sizeof(waiting));  // as memory that was used before
  work_shape shape;
  std::memset(static_cast<void*>(&shape), 0x5a, sizeof(shape));
  shape.keep(e);
  CHECK(shape.is_of(e));
  waiting.keep(e);
  waiting.shape = &shape;
  waiting.joined = e.joined;
  waiting.call_start_ns = e.call_start_ns;
  waiting.call_word = cutrace::detail::pending_work::word_of_call(7, 3);
  event out;
  waiting.unpack(out);
  CHECK((waiting.call_thread() == 7 && waiting.call_word >> 24 == 3));
  CHECK((out.correlation_id >> 32) == 3);
  out.correlation_id &= 0xffffffffu;
  return out;
}

}  // namespace

TEST_CASE("GPU work waits in its short form without losing a bit") {
  std::mt19937_64 random(31);
  for (const event_kind kind :
       {event_kind::kernel, event_kind::graph_launch, event_kind::memcpy, event_kind::memset, event_kind::sync}) {
    for (int i = 0; i < 200; ++i) {
      event e = work(kind, random);
      e.joined = static_cast<attribution>(i % 6);
      e.call_start_ns = static_cast<std::int64_t>(random());
      REQUIRE(pending_work::holds(e));
      const event out = through(e);
      REQUIRE(std::memcmp(&out, &e, sizeof(event)) == 0);
    }
  }
}

TEST_CASE("work with more to say than the short form holds waits whole") {
  std::mt19937_64 random(37);
  const std::vector<std::function<void(event&)>> more = {[](event& e) { e.device = 1u << 16; },
                                                         [](event& e) { e.correlation_id = std::uint64_t{1} << 32; },
                                                         [](event& e) { e.thread_id = 1; },
                                                         [](event& e) { e.depth = 1; },
                                                         [](event& e) { e.late = true; },
                                                         [](event& e) { e.skewed = true; },
                                                         [](event& e) { e.request_total = 1; },
                                                         [](event& e) { e.request_count = 1; },
                                                         [](event& e) { e.stage_name.size = 1; },
                                                         [](event& e) { e.capture_stage_name.size = 1; },
                                                         [](event& e) { e.capture_stage_id = 1; },
                                                         [](event& e) { e.call_name.size = 1; },
                                                         [](event& e) { e.more.size = 1; },
                                                         [](event& e) { e.kernel.queued_ns = 1; },
                                                         [](event& e) { e.kernel.submitted_ns = 1; },
                                                         [](event& e) { e.kind = event_kind::jit; },
                                                         [](event& e) { e.kind = event_kind::api; }};
  for (std::size_t i = 0; i < more.size(); ++i) {
    event e = work(event_kind::kernel, random);
    REQUIRE(pending_work::holds(e));
    more[i](e);
    CAPTURE(i);
    CHECK_FALSE(pending_work::holds(e));
  }
}

}  // namespace pending_test
