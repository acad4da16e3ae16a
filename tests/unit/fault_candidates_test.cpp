// SPDX-License-Identifier: Apache-2.0
// Which work a fault is blamed on: random streams, faults and flushes, against a model of what CUPTI gives times to
// (docs/cupti.md, 51). If one kernel alone is named, it must be the culprit. Head: a stream's first unfinished work.
// Then what is said of calls that stand on streams.
#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cutrace/collect/collector.hpp>
#include <random>
#include <string>
#include <vector>

namespace fault_candidates_test {

namespace {

using cutrace::event;
using cutrace::event_kind;
using cutrace::function_info;
using cutrace::text;
using namespace cutrace::detail;

using due = fault_state::due;

constexpr std::int64_t us = 1000, ms = 1000000, base_ns = 1000 * ms;
constexpr std::int32_t trap = 719, assertion = 710, illegal = 700;

struct kernel {
  std::int64_t called, ended;
  bool timed = false;
  std::int64_t issued = 0;
};

/// One stream, whose kernel `culprit` faults. Times from base_ns on.
struct run {
  std::int32_t result = trap;
  std::vector<kernel> kernels;
  std::size_t culprit = 0;
  std::int64_t lost = 0, returned = 0;
  struct flush {
    std::int64_t begin, end;
  };
  std::vector<flush> flushes;

  /// Gives times to the kernels before the culprit that had ended when a flush began, if the flush began no later than
  /// `kept` after the fault.
  void set_times(std::int64_t kept) {
    for (std::size_t i = 0; i < culprit; ++i)
      for (const flush& f : flushes)
        kernels[i].timed = kernels[i].timed || (kernels[i].ended <= f.begin && f.begin <= lost + kept);
  }
};

/// What the collector judges from.
struct bench {
  runtime_core& core = runtime_core::own();
  event_tables tables{core, std::size_t{1} << 16, static_cast<std::uint32_t>(::getpid())};
  stream_order order;
  unfinished_work unfinished;
  clock_correction correction;
  sink_set sinks{core.errors};
  delivery events{tables, correction, sinks};
  work_watch watch;
  explicit bench(thread_registry& threads) : watch(tables, order, unfinished, events, threads) {}

  /// A call on a stream, at base_ns.
  void call(std::uint32_t correlation, stream_use::role what, std::uint64_t stream, std::uint32_t function,
            std::uint64_t handle = 0, std::uint32_t flags = 0, std::uint64_t value = 0) {
    issued_call& c = order.add();
    c.correlation = correlation;
    c.thread = 1;
    c.what = what;
    c.function = static_cast<std::uint16_t>(function);
    c.begin_ns = base_ns;
    c.handle = handle;
    c.value = value;
    c.flags = flags;
    order.set_now(base_ns);
    order.take(stream, 1, false);
  }
};
void name_function(std::uint32_t id, const char* name) {
  function_info f{};
  f.name = name;
  runtime_core::own().functions.add(id, false, f);
}

/// Numbers of the kernels that are named.
std::vector<std::size_t> blamed(const run& r) {
  bench b(runtime_core::own().threads);
  for (std::size_t i = 0; i < r.kernels.size(); ++i) {
    const kernel& k = r.kernels[i];
    if (k.called > r.returned) continue;
    unfinished_work::entry e{};
    e.work.kind = event_kind::kernel;
    e.work.name = text{"k", 1};
    e.work.context = 1;
    e.work.stream = 1;
    e.work.correlation_id = i + 1;
    e.work.call_start_ns = base_ns + k.called;
    if (!k.timed) {
      b.unfinished.add(e);
      continue;
    }
    e.work.end_ns = base_ns + k.ended;
    b.order.ended(e.work);
  }
  fault_state fault;
  fault.begin();
  const auto at = [](std::int64_t t) { return static_cast<std::uint64_t>(base_ns + t); };
  for (const run::flush& f : r.flushes) {
    if (f.begin >= r.returned) continue;
    fault.flush_begins(at(f.begin));
    if (f.end < r.returned) fault.flushed(at(f.end));
  }
  fault.hold({0, 0, 0, r.result, 0}, at(r.returned), [&fault] { fault.set_reported(due::records); });
  std::vector<std::size_t> named;
  for (const pending_event& a : b.watch.of_fault(fault.first(), due::records, false).alarms)
    named.push_back(a.correlation_id - 1);
  return named;
}

using numbers = std::vector<std::size_t>;

/// Kernels 0 to 4, of which the first was flushed long before, and the others were called from 10 ms on.
run five() {
  run r;
  r.kernels = {
      {0, 1 * ms, true}, {10 * ms, 0}, {10 * ms + 50 * us, 0}, {10 * ms + 100 * us, 0}, {10 * ms + 150 * us, 0}};
  r.culprit = 1;
  r.lost = 11 * ms;
  r.returned = 300 * ms;
  return r;
}
void flush_each(run& r, std::int64_t from, std::int64_t period) {
  for (std::int64_t t = from; t < r.returned; t += period) r.flushes.push_back({t, t + 50 * us});
}

}  // namespace

TEST_CASE("the head is the only candidate where flushes followed one another since the next kernel was called") {
  run r = five();
  flush_each(r, 13 * ms, 2 * ms);
  CHECK(blamed(r) == numbers{1});
  r = five();
  flush_each(r, 13 * ms + 100 * us, 2 * ms);  // kernel 2, called more than 3 ms before, may have faulted at once
  CHECK(blamed(r) == numbers{1, 2, 3, 4});
  r.result = illegal;
  CHECK(blamed(r) == numbers{1});
  r = five();
  r.kernels[1].called = 6 * ms;  // the driver loads it for 4 ms
  flush_each(r, 13 * ms, 2 * ms);
  CHECK(blamed(r) == numbers{1});
}

TEST_CASE("what ended last before the head shows until when the context was not lost") {
  run r = five();
  r.kernels[0].ended = 12 * ms;
  flush_each(r, 15 * ms, 2 * ms);
  CHECK(blamed(r) == numbers{1});
  r.kernels[0].ended = 11 * ms;
  CHECK(blamed(r) == numbers{1, 2, 3, 4});
}

TEST_CASE("flushes that are too far apart, or of which one took long, prove nothing") {
  run r = five();
  flush_each(r, 11 * ms, 2 * ms);
  CHECK(blamed(r) == numbers{1});
  run pause = r;
  pause.flushes.erase(pause.flushes.begin() + 3);
  CHECK(blamed(pause) == numbers{1, 2, 3, 4});
  run long_one = r;
  long_one.flushes.erase(long_one.flushes.begin() + 4, long_one.flushes.begin() + 20);
  long_one.flushes[3].end = long_one.flushes[4].begin - 1;
  CHECK(blamed(long_one) == numbers{1, 2, 3, 4});
  run held_up = r;  // by the fault, until the error is returned
  held_up.flushes.resize(4);
  held_up.flushes[3].end = held_up.returned + ms;
  CHECK(blamed(held_up) == numbers{1});
  held_up.flushes[3].end = held_up.returned - ms;  // another one comes before the error is returned
  held_up.flushes.push_back({held_up.returned - ms / 2, held_up.returned - ms / 4});
  CHECK(blamed(held_up) == numbers{1});
  held_up.flushes[3].end = held_up.returned - 3 * ms;  // something else held it up, and then there was a fault
  CHECK(blamed(held_up) == numbers{1, 2, 3, 4});
  held_up.flushes.pop_back();
  CHECK(blamed(held_up) == numbers{1, 2, 3, 4});
  held_up.flushes = {{11 * ms, 11 * ms + 50 * us}, {13 * ms, 18 * ms}, {18 * ms + 50 * us, 18 * ms + 60 * us}};
  held_up.returned = 19 * ms;
  CHECK(blamed(held_up) == numbers{1});
  held_up.result = illegal;  // times are kept for longer than such a flush takes
  held_up.returned = 17 * ms;
  held_up.flushes[0] = {10 * ms + 20 * us, 16 * ms};
  held_up.flushes[1] = {16 * ms + 50 * us, 16 * ms + 60 * us};
  CHECK(blamed(held_up) == numbers{1});
  run none = r;
  none.flushes.clear();
  CHECK(blamed(none) == numbers{1, 2, 3, 4});
  none.kernels.resize(2);
  CHECK(blamed(none) == numbers{1});
}

TEST_CASE("a launch is under way while a thread is in one, unless for so long that its stream must be full") {
  static thread_registry threads;
  bench b(threads);
  const char* const names[] = {"cuLaunchKernel", "cuGraphLaunch", "cuStreamSynchronize"};
  for (std::uint32_t i = 0; i < 3; ++i) name_function(4000 + i, names[i]);
  const auto now = [&](std::uint64_t ticks) { return static_cast<std::int64_t>(b.core.scale.to_ns(ticks)); };
  const std::uint64_t begin = cutrace::clock::ticks(b.core.scale.use_counter);
  CHECK_FALSE(b.watch.is_launch_under_way(now(begin)));
  traced_thread* const t = threads.attach(nullptr, b.core.scale.use_counter);
  REQUIRE(t != nullptr);
  CHECK_FALSE(b.watch.is_launch_under_way(now(begin)));
  for (std::uint32_t i = 0; i < 3; ++i) {
    t->enter_call(4000 + i, begin, 0);
    CHECK(b.watch.is_launch_under_way(now(begin) + 20 * ms - 1) == (i < 2));
    CHECK_FALSE(b.watch.is_launch_under_way(now(begin) + 20 * ms));
    t->leave_call();
    CHECK_FALSE(b.watch.is_launch_under_way(now(begin)));
  }
}

TEST_CASE("after a misaligned address what ended last is named, whatever calls stand on streams") {
  using role = stream_use::role;
  for (const role other : {role::none, role::graph, role::host_function}) {
    CAPTURE(static_cast<int>(other));
    bench b(runtime_core::own().threads);
    b.call(1, other == role::graph ? other : role::work, 0x10, 0);
    event e;
    e.kind = event_kind::kernel;
    e.name = text{"k", 1};
    e.context = 1;
    e.stream = 1;
    e.correlation_id = 1;
    e.end_ns = base_ns + 10 * ms;
    b.order.ended(e);
    if (other == role::host_function) b.call(2, other, 0x20, 0);
    fault_state fault;
    fault.begin();
    fault.hold({0, 0, 0, fault_state::misaligned_address, 0}, static_cast<std::uint64_t>(base_ns + 100 * ms),
               [&fault] { fault.set_reported(due::records); });
    CHECK(b.watch.of_fault(fault.first(), due::records, false).alarms.size() == 1);
  }
}

TEST_CASE("a fault that came after the collector last looked at its clock waits for its records") {
  fault_state fault;
  fault.begin();
  fault.hold({0, 0, 0, trap, 0}, 1000 * ms + 1, [&fault] {
    CHECK(fault.what_is_due(1000 * ms) == due::nothing);
    CHECK(fault.what_is_due(1080 * ms) == due::nothing);
    CHECK(fault.what_is_due(1081 * ms) == due::calls);
    fault.set_reported(due::records);
  });
}

TEST_CASE(
    "where records come late a fault is reported from calls first, and again when they are there, or after a while") {
  for (const bool come : {true, false}) {
    fault_state fault;
    fault.begin();
    fault.hold({0, 0, 0, trap, 0}, 1000 * ms, [&fault] {
      CHECK(fault.what_is_due(1081 * ms) == due::calls);
      fault.set_reported(due::calls);  // lets the thread go on
    });
    CHECK(fault.was_said());
    CHECK(fault.what_is_due(2000 * ms) == due::nothing);
    fault.end();
    if (come) fault.records_came();
    CHECK(fault.what_is_due(come ? 1200 * ms : 2001 * ms) == (come ? due::records : due::rest));
    CHECK(fault.is_open());
    fault.set_reported(due::records);
    CHECK_FALSE(fault.is_open());
    CHECK(fault.what_is_due(9000 * ms) == due::nothing);
  }
}

TEST_CASE("a fault that was taken before the session's end is still to be reported, one that comes later is not") {
  fault_state fault;
  fault.begin();
  fault.hold({0, 0, 0, trap, 0}, 1000 * ms, [&fault] { fault.end(); });
  CHECK(fault.is_open());
  fault.set_reported(due::rest);
  fault.begin();
  fault.end();
  fault.hold({0, 0, 0, trap, 0}, 1000 * ms, [] { FAIL("nobody listens"); });
  CHECK_FALSE(fault.is_open());
}

TEST_CASE("while records have not come the calls that may have faulted are named, in the order of their stream") {
  using role = stream_use::role;
  name_function(4080, "cuLaunchKernel");
  name_function(4081, "cuGraphLaunch");
  bench b(runtime_core::own().threads);
  fault_state::call f;
  f.result = trap;
  f.at_ns = base_ns + 300 * ms;
  b.call(1, role::work, 0x10, 4080);
  b.call(2, role::stream_wait, 0x10, 4082);  // which proves that the first has ended
  b.call(3, role::graph, 0x10, 4081);
  b.call(4, role::event_record, 0x10, 4083, 0x77);
  b.call(5, role::work, 0x10, 4080);
  b.call(6, role::wait_value, 0x20, 4084);
  b.call(7, role::work, 0x20, 4080);
  issued_call& later = b.order.add();
  later.correlation = 8;
  later.what = role::work;
  later.begin_ns = f.at_ns + 1;
  b.order.take(0x30, 1, false);
  unfinished_work::entry e{};  // an earlier forced flush returned it
  e.work.kind = event_kind::kernel;
  e.work.name = text{"k", 1};
  e.work.context = 1;
  e.work.stream = 10;
  e.work.correlation_id = 5;
  e.work.call_start_ns = base_ns;
  b.order.unfinished(e.work);
  b.unfinished.add(e);
  const work_watch::report now = b.watch.of_fault(f, due::calls, false), rest = b.watch.of_fault(f, due::rest, true);
  CAPTURE(now.text);
  CHECK(now.text.find("CUPTI's records have not come yet") != std::string::npos);
  CHECK(now.text.find("one of 3 pieces of work faulted") != std::string::npos);
  CHECK(now.text.find("1. graph cuGraphLaunch\n") != std::string::npos);
  CHECK(now.text.find("known from its call alone: head of its stream") != std::string::npos);
  CHECK(now.alarms.empty());  // they are delivered once
  CHECK(rest.text.empty());
  REQUIRE(rest.alarms.size() == 3);
  CHECK(rest.alarms[0].correlation_id == 3);
  CHECK(rest.alarms[0].alarm.behind == 2);
  CHECK(rest.alarms[1].correlation_id == 5);
  CHECK(std::string(rest.alarms[1].name.data) == "k");
  CHECK(rest.alarms[2].correlation_id == 7);
  const work_watch::report with_records = b.watch.of_fault(f, due::records, true);
  CAPTURE(with_records.text);
  CHECK(with_records.text.find("CUPTI's records have come now") != std::string::npos);
  CHECK(with_records.alarms.size() == 1);
}

TEST_CASE("a host that waits for a stream on which a function stands is not called stuck by itself") {
  static thread_registry threads;
  bench b(threads);
  name_function(4010, "cuStreamSynchronize");
  name_function(4011, "cuLaunchHostFunc");
  name_function(4012, "cuMemAlloc_v2");
  traced_thread* const t = threads.attach(nullptr, b.core.scale.use_counter);
  REQUIRE(t != nullptr);
  const std::uint64_t begin = cutrace::clock::ticks(b.core.scale.use_counter);
  const std::int64_t begin_ns = static_cast<std::int64_t>(b.core.scale.to_ns(begin));
  t->enter_call(4010, begin, 0);
  work_watch::bounds bounds;
  bounds.bound_ns = 10000 * ms;
  b.call(1, stream_use::role::host_function, 0x10, 4011);
  b.order.settle();
  b.order.streams()[0].progress_ns = begin_ns + ms;  // the host waits for longer than the stream stands still
  std::int64_t now = begin_ns + bounds.bound_ns;
  CHECK_FALSE(b.watch.is_suspicious(bounds, now));
  CHECK(b.watch.of_hang(bounds, 2, true, now, now).alarms.empty());
  now += ms;
  REQUIRE(b.watch.is_suspicious(bounds, now));
  const work_watch::report r = b.watch.of_hang(bounds, 2, true, now, now);
  CAPTURE(r.text);
  REQUIRE(r.alarms.size() == 1);
  CHECK(r.text.find("host_function cuLaunchHostFunc\n") != std::string::npos);
  now += bounds.bound_ns;
  CHECK_FALSE(b.watch.is_suspicious(bounds, now));
  t->enter_call(4012, begin, 0);  // which needs no stream
  CHECK(b.watch.is_suspicious(bounds, now));
}

TEST_CASE("work that could begin only now does not hang, however long its stream has waited for another one") {
  static thread_registry threads;
  bench b(threads);
  work_watch::bounds bounds;
  bounds.bound_ns = 10000 * ms;
  b.call(1, stream_use::role::work, 0x10, 4030);
  b.call(2, stream_use::role::event_record, 0x10, 4031, 0x77);
  b.call(3, stream_use::role::wait_event, 0x20, 4032, 0x77);
  b.call(4, stream_use::role::work, 0x20, 4030);
  b.order.settle();
  const auto record_of = [](std::uint32_t id, std::uint64_t stream) {
    event e;
    e.kind = event_kind::kernel;
    e.context = 1;
    e.stream = stream;
    e.correlation_id = id;
    e.name = text{"k", 1};
    return e;
  };
  event first = record_of(1, 10);
  first.start_ns = base_ns;
  first.end_ns = base_ns + 9900 * ms;
  b.order.ended(first);
  b.order.set_now(first.end_ns + ms);
  b.order.settle();
  unfinished_work::entry second{};
  static_cast<event&>(second.work) = record_of(4, 20);
  second.work.call_start_ns = base_ns;
  b.order.unfinished(second.work);
  b.unfinished.add(second);
  std::int64_t now = base_ns + bounds.bound_ns + 100 * ms;  // the second kernel has run for 0.2 s
  if (b.watch.is_suspicious(bounds, now)) CHECK(b.watch.of_hang(bounds, 5, true, now, now).text == "");
  now = first.end_ns + bounds.bound_ns + 2 * ms;
  REQUIRE(b.watch.is_suspicious(bounds, now));
  CHECK(b.watch.of_hang(bounds, 5, true, now, now).alarms.size() == 1);
}

TEST_CASE("work that was launched a moment ago does not hang, whatever stood before it without records") {
  static thread_registry threads;
  bench b(threads);
  work_watch::bounds bounds;
  bounds.bound_ns = 10000 * ms;
  b.call(1, stream_use::role::work, 0x10, 4040);  // of a kind that is not recorded
  b.order.settle();
  const std::int64_t now = base_ns + bounds.bound_ns + 100 * ms;
  issued_call& c = b.order.add();
  c.correlation = 2;
  c.thread = 1;
  c.what = stream_use::role::work;
  c.begin_ns = now - 10 * ms;
  b.order.take(0x10, 1, false);
  unfinished_work::entry late{};
  late.work.kind = event_kind::kernel;
  late.work.name = text{"k", 1};
  late.work.context = 1;
  late.work.stream = 10;
  late.work.correlation_id = 2;
  late.work.call_start_ns = c.begin_ns;
  REQUIRE(b.watch.is_suspicious(bounds, now));
  b.order.unfinished(late.work);
  b.unfinished.add(late);
  CHECK(b.watch.of_hang(bounds, 3, true, now, now).text == "");
}

TEST_CASE("a wait for a stream that goes on does not hang, nor does a wait for such a wait") {
  static thread_registry threads;
  bench b(threads);
  work_watch::bounds bounds;
  bounds.bound_ns = 10000 * ms;
  for (std::uint32_t id = 1; id <= 100; ++id) b.call(id, stream_use::role::work, 0x10, 4050);
  b.call(101, stream_use::role::event_record, 0x10, 4051, 0x77);
  b.call(102, stream_use::role::wait_event, 0x20, 4052, 0x77);
  b.call(103, stream_use::role::event_record, 0x20, 4051, 0x78);
  b.call(104, stream_use::role::wait_event, 0x30, 4052, 0x78);
  b.call(105, stream_use::role::work, 0x30, 4050);
  b.order.settle();
  std::int64_t now = base_ns;
  for (std::uint32_t id = 1; id <= 50; ++id) {
    event e;
    e.kind = event_kind::kernel;
    e.context = 1;
    e.stream = 10;
    e.correlation_id = id;
    e.name = text{"k", 1};
    e.start_ns = now;
    e.end_ns = now += 500 * ms;
    b.order.ended(e);
    b.order.set_now(now);
    CAPTURE(id);
    CHECK_FALSE(b.watch.is_suspicious(bounds, now));
  }
  now += bounds.bound_ns;
  REQUIRE(b.watch.is_suspicious(bounds, now));
  const work_watch::report r = b.watch.of_hang(bounds, 1, true, now, now);
  CAPTURE(r.text);
  CHECK(r.alarms.size() == 2);  // now all of them stand still; the one without work is not reported
}

TEST_CASE("a stream of a green context does not wait for the legacy default stream") {
  bench b(runtime_core::own().threads);
  order_window window;
  window.configure(500000000, std::size_t{1} << 20);
  ingest reads(b.tables, window, b.core.errors);
  const function_info::parameter made[] = {{"phStream", cutrace::argument_kind::output},
                                           {"greenCtx", cutrace::argument_kind::pointer},
                                           {"flags", cutrace::argument_kind::unsigned_integer},
                                           {"priority", cutrace::argument_kind::integer}};
  function_info f{};
  f.name = "cuGreenCtxStreamCreate";
  f.parameters = made;
  f.parameter_count = 4;
  b.core.functions.add(4060, false, f);
  const function_info::parameter launched[] = {{"hStream", cutrace::argument_kind::pointer}};
  f = {};
  f.name = "cuLaunchKernel";
  f.parameters = launched;
  f.parameter_count = 1;
  f.makes_gpu_work = true;
  b.core.functions.add(4061, false, f);
  traced_thread t;
  t.index = 1;
  std::uint64_t id = 0;
  const auto call = [&](std::uint32_t function, std::uint8_t count, std::uint64_t stream, std::uint64_t context,
                        std::uint64_t flags) {
    const record r{make_api_head(0, count, function, 0, 1), 1000, 2000, ++id, 0, stream, context, flags};
    reads.read(t, &r, &r + 1);
  };
  call(4060, 3, 0x40, 0x1000, 1);
  call(4061, 1, 0, 0, 0);
  call(4061, 1, 0x40, 0, 0);
  reads.order().settle();
  for (std::uint32_t s = 0; s < reads.order().streams().size(); ++s)
    CHECK(reads.order().implied_wait(s) == issued_call::no_stream);
  CHECK(reads.order().streams().size() == 2);
}

TEST_CASE("the record of a call gives back each number that was put into its head") {
  using namespace cutrace::detail;
  for (std::uint32_t bit = 0; bit < 16; ++bit) {
    CAPTURE(bit);
    const std::uint32_t one = 1u << bit, id = one & 0xfff;  // ids of functions have 12 bits
    for (const std::uint32_t others : {0u, 0xfffu}) {
      const auto context = static_cast<std::uint16_t>(one), other_context = static_cast<std::uint16_t>(others << 4);
      const auto holds = [](std::uint32_t function, std::uint32_t runtime_function, std::uint16_t of) {
        const record r{make_api_head(flag_failed, 10, function, runtime_function, of), 0, 0, 0, 0, 0, 0, 0};
        return r.type() == record_type::api && r.has(flag_failed) && r.count() == 10 &&
               function_of(r.site()) == (function & 0xfff) &&
               runtime_function_of(r.site()) == (runtime_function & 0xfff) && context_of(r.head) == of;
      };
      CHECK(holds(id, others, other_context));
      CHECK(holds(others, id, other_context));
      CHECK(holds(others, others, context));
      CHECK(holds(one, others, other_context));  // one that has more bits spoils no other number
      CHECK(holds(others, one, other_context));
    }
  }
}

TEST_CASE("contexts whose numbers lie 256 apart are not taken for one another") {
  bench b(runtime_core::own().threads);
  order_window window;
  window.configure(500000000, std::size_t{1} << 20);
  ingest reads(b.tables, window, b.core.errors);
  function_info f{};
  f.name = "cuLaunchKernel";
  f.makes_gpu_work = true;
  b.core.functions.add(4062, false, f);
  f = {};
  f.name = "cuCtxSynchronize";
  b.core.functions.add(4063, false, f);
  traced_thread t;
  t.index = 1;
  std::uint64_t id = 0;
  const auto call = [&](std::uint32_t function, std::uint16_t context) {
    const record r{make_api_head(0, 0, function, 0, context), 1000, 2000, ++id, 0, 0, 0, 0};
    reads.read(t, &r, &r + 1);
  };
  call(4062, 1);
  call(4062, 257);
  call(4062, 512);
  call(4063, 257);
  reads.order().settle();
  REQUIRE(reads.order().streams().size() == 3);  // the default stream of each
  std::size_t waiting = 0;
  for (const known_stream& s : reads.order().streams()) {
    CAPTURE(s.context);
    CHECK(s.calls.empty() == (s.context == 257));
    waiting += s.calls.size();
  }
  CHECK(waiting == 2);
}

TEST_CASE("work whose call is not known may have faulted, too, and proves nothing of other work") {
  using cutrace::attribution;
  for (const attribution second_joined : {attribution::by_call, attribution::no_callback, attribution::expired}) {
    bench b(runtime_core::own().threads);
    fault_state::call f;
    f.result = trap;
    f.at_ns = base_ns + 300 * ms;
    f.flushed_since_ns = base_ns + 100 * ms;
    const auto add = [&](std::uint64_t stream, std::uint32_t id, attribution joined, std::int64_t called) {
      unfinished_work::entry e{};
      e.work.kind = event_kind::kernel;
      e.work.name = text{"k", 1};
      e.work.context = 1;
      e.work.stream = stream;
      e.work.correlation_id = id;
      e.work.joined = joined;
      const bool known = joined == attribution::by_call;
      e.work.call_start_ns = known ? base_ns + called : f.at_ns + 50 * ms;  // else the time at which it was seen
      b.unfinished.add(e);
    };
    add(1, 1, attribution::by_call, 10 * ms);
    add(1, 2, second_joined, 20 * ms);  // 80 ms before the series of flushes began
    add(2, 3, second_joined, 20 * ms);
    const work_watch::report r = b.watch.of_fault(f, due::records, false);
    CAPTURE(r.text);
    CAPTURE(static_cast<int>(second_joined));
    CHECK(r.alarms.size() == 3);
    CHECK((r.text.find("call is not known") != std::string::npos) == (second_joined != attribution::by_call));
  }
}

TEST_CASE("what the host has waited for by an event, and waits themselves, are no candidates") {
  bench b(runtime_core::own().threads);
  const auto add = [&](event_kind kind, std::uint64_t stream, std::uint32_t id) {
    unfinished_work::entry e{};
    e.work.kind = kind;
    e.work.name = text{"k", 1};
    e.work.context = 1;
    e.work.stream = stream;
    e.work.correlation_id = id;
    e.work.call_start_ns = base_ns;
    b.order.unfinished(e.work);
    b.unfinished.add(e);
  };
  b.call(1, stream_use::role::work, 0x10, 4070);
  b.call(2, stream_use::role::event_record, 0x10, 4071, 0x77);
  add(event_kind::kernel, 10, 1);  // a forced flush returned it, and then it ended
  b.call(3, stream_use::role::event_wait, 0, 4072, 0x77);
  b.call(4, stream_use::role::work, 0x20, 4070);
  add(event_kind::kernel, 20, 4);
  add(event_kind::sync, 20, 5);
  fault_state::call f;
  f.result = trap;
  f.at_ns = base_ns + 300 * ms;
  const work_watch::report r = b.watch.of_fault(f, due::records, false);
  CAPTURE(r.text);
  REQUIRE(r.alarms.size() == 1);
  CHECK(r.alarms[0].correlation_id == 4);
}

TEST_CASE("work of the context that returned the error comes first, whatever else is unfinished") {
  using role = stream_use::role;
  // What failed: a call of no stream, a wait for a stream, or for an event, of another context than the thread's.
  for (const role failed : {role::none, role::stream_wait, role::event_wait}) {
    CAPTURE(static_cast<int>(failed));
    bench b(runtime_core::own().threads);
    const auto call = [&](std::uint32_t id, std::uint32_t context, std::uint64_t stream, role what, bool succeeds) {
      issued_call& c = b.order.add();
      c.correlation = id;
      c.thread = 1;
      c.what = what;
      c.handle = what == role::event_record || what == role::event_wait ? 0x77 : 0;
      c.succeeded = succeeds;
      c.begin_ns = base_ns;
      b.order.take(stream, context, false);
    };
    for (const std::uint32_t context : {1u, 2u}) {
      call(2 * context, context, 0x10 * context, role::work, true);
      call(2 * context + 1, context, 0x10 * context, role::event_record, true);
      unfinished_work::entry e{};
      e.work.kind = event_kind::kernel;
      e.work.name = text{"k", 1};
      e.work.context = context;
      e.work.stream = context;
      e.work.correlation_id = 2 * context;
      e.work.call_start_ns = base_ns;
      b.order.unfinished(e.work);
      b.unfinished.add(e);
    }
    fault_state::call f;
    f.result = trap;
    f.at_ns = base_ns + 300 * ms;
    f.correlation = 9;
    f.context = failed == role::none ? 2 : 1;
    if (failed != role::none) call(f.correlation, f.context, 0x20, failed, false);
    const work_watch::report r = b.watch.of_fault(f, due::records, false);
    CAPTURE(r.text);
    REQUIRE(r.alarms.size() == 2);
    CHECK(r.alarms[0].context == 2);
    f.context = f.correlation = 0;  // not known: both are as likely
    const work_watch::report unknown = b.watch.of_fault(f, due::records, false);
    REQUIRE(unknown.alarms.size() == 2);
    CHECK(unknown.alarms[0].context == 1);
  }
}

TEST_CASE("work whose times were lost is no candidate where the thread that launched it has waited for it since") {
  using role = stream_use::role;
  name_function(4090, "cuMemcpyDtoH");
  for (const std::int32_t result : {trap, illegal, fault_state::misaligned_address})
    for (const role waits : {role::stream_wait, role::context_wait, role::event_wait, role::work})
      for (const std::uint32_t launcher : {1u, 2u}) {
        CAPTURE(result);
        CAPTURE(static_cast<int>(waits));
        CAPTURE(launcher);
        bench b(runtime_core::own().threads);
        const auto add = [&](std::uint32_t id, std::uint32_t thread) {
          unfinished_work::entry e{};
          e.work.kind = event_kind::kernel;
          e.work.name = text{"k", 1};
          e.work.context = 1;
          e.work.stream = 10;
          e.work.correlation_id = id;
          e.work.call_start_ns = base_ns;
          e.work.call_thread = thread;
          e.seen_ns = base_ns + 400 * ms;  // by the flush after the fault
          b.order.unfinished(e.work);
          b.unfinished.add(e);
        };
        b.call(1, role::work, 0x10, 4070);
        b.call(2, role::event_record, 0x10, 4071, 0x77);
        if (waits == role::work) {  // a copy to the host
          issued_call& c = b.order.add();
          c.correlation = 3;
          c.thread = 1;
          c.what = waits;
          c.waits = true;
          c.begin_ns = base_ns;
          b.order.take(0x10, 1, false);
          add(3, 1);
        } else {
          b.call(3, waits, 0x10, 4072, 0x77);
        }
        b.call(4, role::work, 0x10, 4070);
        add(1, launcher);
        add(4, 1);
        fault_state::call f;
        f.result = result;
        f.at_ns = base_ns + 300 * ms;
        const work_watch::report r = b.watch.of_fault(f, due::records, false);
        CAPTURE(r.text);
        // Another thread's launch may have come after the wait, although its call began before.
        const bool both = launcher != 1 || result == fault_state::misaligned_address;
        CHECK(r.alarms.size() == (both ? 2 + (waits == role::work && result == fault_state::misaligned_address) : 1));
        CHECK(r.alarms.back().correlation_id == 4);
      }
}

TEST_CASE("of the calls that copy, those to the host return when the copy is done") {
  const auto waits = [](const char* name, const char* parameter) {
    const function_info::parameter only{parameter, cutrace::argument_kind::pointer};
    function_info f{};
    f.name = name;
    f.makes_gpu_work = true;
    f.parameters = &only;
    f.parameter_count = 1;
    return stream_use::of(f).waits;
  };
  CHECK(waits("cuMemcpyDtoH", "dstHost"));
  CHECK(waits("cuMemcpyAtoH", "dstHost"));
  CHECK_FALSE(waits("cuMemcpyDtoHAsync", "hStream"));
  CHECK_FALSE(waits("cuMemcpyHtoD", "dstDevice"));
  CHECK_FALSE(waits("cuMemcpyDtoD", "dstDevice"));
}

TEST_CASE("requests that are not known any more are at least counted") {
  event e;
  e.stage_id = 1;
  e.stage_name = text{"decode", 6};
  e.request_total = 4;
  CHECK(alarm_text::belonging(e, "") == "stage \"decode\", 4 requests, which are not known any more");
  e.request_total = 1;
  CHECK(alarm_text::belonging(e, "") == "stage \"decode\", 1 request, which is not known any more");
}

TEST_CASE("what a stream waits for in memory") {
  name_function(4020, "cuStreamWaitValue32_v2");
  name_function(4021, "cuStreamBatchMemOp_v2");
  const auto said = [](std::uint32_t function, std::uint32_t flags) {
    bench b(runtime_core::own().threads);
    b.call(1, stream_use::role::wait_value, 0x10, function, 0x7000, flags, 0x2);
    return b.watch.of_now(true, 0, base_ns + ms);
  };
  CHECK(said(4020, 0).find("waits for the value at 0x7000 to be at least 0x2\n") != std::string::npos);
  CHECK(said(4020, 3).find("waits for the value at 0x7000 to be without some bit outside of 0x2\n") !=
        std::string::npos);
  const std::string batch = said(4021, 0);
  CHECK(batch.find("memory operations of a batch, one of which may be a wait\n") != std::string::npos);
  CHECK(batch.find("0x7000") == std::string::npos);
}

TEST_CASE("of random faults the culprit is among the candidates, and is the one where there is one") {
  std::mt19937_64 random(7);
  const auto below = [&random](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  int alone = 0, not_the_first = 0;
  for (int round = 0; round < 5000; ++round) {
    run r;
    const std::int32_t results[] = {trap, assertion, illegal};
    r.result = results[round % 3];
    const std::int64_t kept = fault_state::times_kept_ns(r.result);
    const std::size_t n = 2 + static_cast<std::size_t>(below(10));
    r.culprit = static_cast<std::size_t>(below(static_cast<std::int64_t>(n)));
    std::int64_t called = 0, issued = 0, free = 0;
    const std::int64_t longest = below(2) == 0 ? 100 * us : kept;
    for (std::size_t i = 0; i < n; ++i) {
      called = std::max(called, issued) + 5 * us + below(below(4) == 0 ? kept : 100 * us);
      issued = called + 3 * us + below(below(4) == 0 ? 4 * ms : us);  // the driver makes room for it
      free = std::max(free, issued) + below(longest);
      r.kernels.push_back({called, free, false, issued});
    }
    r.lost = r.kernels[r.culprit].ended;
    r.returned = r.lost + kept + (r.result == assertion ? below(ms) : 40 * ms + below(200 * ms));
    const std::int64_t period = kept / 8 + below(kept);
    for (std::int64_t t = -below(2 * kept); t < r.returned;) {
      // No flush begins during a launch; a launch that begins during a flush may hold it up, and so does the fault.
      const auto calls = [&](std::int64_t from, std::int64_t to) {
        return std::any_of(r.kernels.begin(), r.kernels.end(),
                           [=](const kernel& k) { return k.called <= to && from < k.issued; });
      };
      if (calls(t, t)) {
        t += 10 * us;
        continue;
      }
      const bool late = t > (below(2) == 0 ? r.lost : r.lost + kept) && r.result != illegal;
      const std::int64_t short_end = t + 50 * us;
      const std::int64_t end = late ? std::max(short_end, r.returned + below(4 * ms) - 3 * ms)
                               : calls(t, short_end) && below(2) == 0 ? short_end + below(3 * kept)
                                                                      : short_end;
      r.flushes.push_back({t, end});
      t = std::max(end, t + period / 2 + below(period));
    }
    r.set_times(kept);
    const numbers named = blamed(r);
    CAPTURE(round);
    REQUIRE(std::count(named.begin(), named.end(), r.culprit) == 1);
    alone += named.size() == 1;
    not_the_first += named.size() > 1 && named.front() != r.culprit;
  }
  CHECK(alone > 500);
  CHECK(not_the_first > 100);  // times before the culprit were lost: naming the head alone would be wrong
}

}  // namespace fault_candidates_test
