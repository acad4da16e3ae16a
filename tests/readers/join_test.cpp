// SPDX-License-Identifier: Apache-2.0
// Two traces of one process as one: calls are matched by CUPTI's number, of which probes see 32 bits that wrap; what
// was made in a probed call refers to the joined call and gets its stage; a call without a partner stays.
#include "trace/join.hpp"

#include <map>
#include <random>
#include <set>

#include "reading.hpp"

namespace join_test {

namespace {

using namespace cutrace;
using namespace cutrace_reading;
using reading_test::events;
using reading_test::kept_trace;

constexpr std::uint64_t own = join_table::probe_epoch << 32;  ///< marks probed calls without a partner

event probed(const char* name, std::int64_t start_ns, std::int64_t end_ns, std::uint32_t id, std::uint32_t joined,
             std::uint32_t parent = 0) {
  event e = sample::api(name, start_ns, end_ns, id);
  e.api.joined = joined;
  e.api.enclosing = parent;
  return e;
}
event made_in(event e, std::uint64_t call) {
  e.ioctl_.enclosing = call;
  return e;
}

void write(const std::string& path, const events& all, std::uint64_t monotonic_ns, std::uint32_t pid = sample::pid,
           const char* backend = "cupti") {
  trace_info info = sample::info();
  info.process_id = pid;
  info.backend = backend;
  info.start = {0, 1790000000000000000u + monotonic_ns, monotonic_ns, monotonic_ns, 100};
  jsonl_sink sink(path);
  reading_test::write(sink, all, info, 0);
}

struct files {
  temporary_folder folder;
  std::string calls = folder.file("calls.jsonl"), probes = folder.file("probes.jsonl");
};

std::map<std::uint64_t, event> by_number(const kept_trace& t, event_kind kind) {
  std::map<std::uint64_t, event> all;
  for (const event& e : t.events())
    if (e.kind == kind) CHECK(all.emplace(e.correlation_id, e).second);
  return all;
}

}  // namespace

TEST_CASE("join: numbers of 32 bits that wrap, out of order, with partners missing on either side") {
  for (std::uint32_t seed = 1; seed <= 5; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    join_table table;
    // CUPTI's numbers, whole; a probe knows the lower half of most, in an order that threads have mixed a little.
    std::vector<std::uint64_t> numbers;
    std::uint64_t at = 0;
    for (std::uint64_t quarter = 0; quarter <= 8; ++quarter) {
      const std::uint64_t part = quarter == 0 ? 1 : (quarter << 30) - 1000;
      for (at = part; at < part + 2000; ++at)
        if ((at & UINT32_MAX) != 0) numbers.push_back(at);
    }
    std::vector<std::uint64_t> reported = numbers;
    for (std::size_t i = 0; i + 8 < reported.size(); ++i) std::swap(reported[i], reported[i + random() % 8]);
    std::map<std::uint32_t, std::uint64_t> expected;  // number of the joined trace, by the probe's
    std::set<std::uint64_t> seen;
    join_counts naive;
    std::uint32_t id = 0;
    std::set<std::uint64_t> in_calls;
    for (const std::uint64_t n : numbers)
      if (random() % 10 != 0) in_calls.insert(n);
    for (const std::uint64_t n : reported) {
      ++id;
      const bool reports = random() % 10 != 0;
      table.add_probed(id, 0, reports ? static_cast<std::uint32_t>(n) : 0);
      const bool both = reports && in_calls.count(n) != 0;
      expected[id] = both ? n : own | id;
      ++(both ? naive.both : naive.only_probes);
    }
    naive.only_calls = in_calls.size() - naive.both + 1;
    for (const std::uint64_t n : in_calls) table.add_call(n);
    table.add_call(0);
    const join_counts counts = table.finish();
    CHECK(counts.both == naive.both);
    CHECK(counts.only_probes == naive.only_probes);
    CHECK(counts.only_calls == naive.only_calls);
    std::size_t wrong = 0;
    for (const auto& [probe, number] : expected) wrong += table.number(probe) != number;
    CHECK(wrong == 0);
  }
}

TEST_CASE("join: two calls of CUPTI with one number, of which a probe saw one") {
  join_table table;
  table.add_probed(1, 0, 9);
  table.add_call(9);
  table.add_call(9);
  table.add_call(10);
  const join_counts counts = table.finish();
  CHECK(counts.both == 1);
  CHECK(counts.only_calls == 2);
  CHECK(table.take_partner(9));
  CHECK_FALSE(table.take_partner(9));
  CHECK_FALSE(table.take_partner(10));
  CHECK_FALSE(table.take_partner(0));
}

TEST_CASE("join: a number that CUPTI gave to two probed calls belongs to one of them") {
  join_table table;
  table.add_probed(1, 0, 9);
  table.add_probed(2, 1, 9);
  table.add_call(9);
  const join_counts counts = table.finish();
  CHECK(counts.both == 1);
  CHECK(counts.only_probes == 1);
  CHECK(table.number(1) == 9);
  CHECK(table.number(2) == (own | 2));
  CHECK(table.number(0) == 0);
  CHECK(table.enclosing(9) == 0);
}

TEST_CASE("join: one event for each call, parents by its number, stages of CUPTI's calls") {
  const files f;
  const std::uint64_t stage_id = (std::uint64_t{1} << 40) + 3;
  const request_ref requests[] = {sample::request_id(77), sample::request_name("chat")};
  // The probes began 1,000,000 ns before.
  const std::uint64_t epoch = std::uint64_t{1} << 32;
  const auto launch = [&](std::uint64_t id, std::int64_t at) {
    return sample::in_stage(sample::api("cuLaunchKernel", at, at + 100, id), "decode", stage_id, requests, 2);
  };
  write(f.calls,
        {sample::base(event_kind::thread, "main", 0, 0), launch(epoch | 5, 1000), launch(epoch | 6, 2000),
         sample::api("cuMemAlloc", 3000, 3400, epoch | 7), sample::stage("decode", 900, 4000, stage_id),
         sample::called_at(sample::gpu(event_kind::kernel, "gemm", 5000, 6000, epoch | 5), 1000)},
        2000000);
  const std::int64_t d = 1000000;
  write(f.probes,
        {sample::base(event_kind::thread, "main", 0, 0), sample::base(event_kind::thread, "other", 0, 0, 999),
         // Numbers of the time before a wrap, so that the next ones are after it.
         probed("cuInit", 5, 6, 6, 0x7fffff00), probed("cuInit", 10, 20, 1, 0xfffffe00u),
         made_in(sample::ioctl("NV_ESC_RM_ALLOC", d + 1010, d + 1020), 2),
         probed("cuLaunchKernel", d + 990, d + 1110, 2, 5), probed("cuInner", d + 3050, d + 3070, 4, 0, 3),
         made_in(sample::ioctl("NV_ESC_RM_FREE", d + 3060, d + 3065), 4),
         made_in(sample::ioctl("NV_ESC_RM_CONTROL", d + 3100, d + 3110), 3),
         probed("cuMemAlloc", d + 2990, d + 3410, 3, 7, 5), probed("cuOuter", d + 2980, d + 3420, 5, 0),
         made_in(sample::ioctl("NV_ESC_CARD_INFO", d + 4000, d + 4010), 0)},
        1000000, sample::pid, "ebpf");
  kept_trace t;
  const join_outcome o = join(f.calls, f.probes, t);
  CHECK(sentence_of(o.counts) == "2 calls in both, 4 only by probes, 1 only by CUPTI");
  CHECK(t.ends == 1);
  CHECK(t.info.process_id == sample::pid);
  const auto calls = by_number(t, event_kind::api);
  CHECK(calls.size() == 7);
  CHECK(calls.count(epoch | 5) == 1);
  CHECK(calls.count(epoch | 6) == 1);
  CHECK(calls.at(epoch | 5).start_ns == d + 1000);  // CUPTI's time, on the clock of the trace that began first
  CHECK(calls.at(epoch | 7).api.enclosing == (own | 5));
  CHECK(calls.at(own | 4).api.enclosing == (epoch | 7));
  CHECK(calls.at(own | 4).api.joined == 0);
  CHECK(calls.at(own | 1).start_ns == 10);
  std::map<std::string, event> ioctls;
  std::size_t threads = 0, out_of_order = 0;
  std::int64_t newest = INT64_MIN;
  for (const event& e : t.events()) {
    if (e.kind == event_kind::ioctl) ioctls[std::string(e.name.data, e.name.size)] = e;
    if (e.kind == event_kind::thread) ++threads;
    if (e.kind == event_kind::process || e.kind == event_kind::thread) continue;
    if (!e.late && e.end_ns < newest) ++out_of_order;
    if (!e.late) newest = e.end_ns;
  }
  CHECK(threads == 2);
  CHECK(out_of_order == 0);
  CHECK(ioctls.at("NV_ESC_RM_ALLOC").ioctl_.enclosing == (epoch | 5));
  CHECK(ioctls.at("NV_ESC_RM_ALLOC").stage_id == stage_id);
  CHECK(std::string(ioctls.at("NV_ESC_RM_ALLOC").stage_name.data) == "decode");
  CHECK(ioctls.at("NV_ESC_RM_ALLOC").request_count == 2);
  CHECK(ioctls.at("NV_ESC_RM_ALLOC").requests[0].id == 77);
  CHECK(ioctls.at("NV_ESC_RM_FREE").ioctl_.enclosing == (own | 4));
  CHECK(ioctls.at("NV_ESC_RM_CONTROL").ioctl_.enclosing == (epoch | 7));
  CHECK(ioctls.at("NV_ESC_RM_CONTROL").stage_id == 0);
  CHECK(ioctls.at("NV_ESC_CARD_INFO").ioctl_.enclosing == 0);
  std::size_t reported = 0;
  for (const std::string& n : t.notes())
    reported += n == sentence_of(o.counts) || n == "only CUPTI saw: cuLaunchKernel 1";
  CHECK(reported == 2);
}

TEST_CASE("join: what was made in a call that probes alone saw has the stage of the joined call around it") {
  const files f;
  const std::uint64_t stage_id = (std::uint64_t{1} << 40) + 3;
  write(f.calls, {sample::in_stage(sample::api("cuMemAlloc", 1000, 2000, 5), "load", stage_id, nullptr, 0)}, 1000000);
  write(f.probes,
        {made_in(sample::ioctl("NV_ESC_RM_ALLOC", 1500, 1510), 4), probed("cuInnermost", 1400, 1600, 4, 0, 3),
         probed("cuInner", 1300, 1700, 3, 0, 2), probed("cuMemAlloc", 990, 2010, 2, 5),
         // A damaged file: calls that enclose each other.
         made_in(sample::ioctl("NV_ESC_RM_FREE", 2500, 2510), 8), probed("cuA", 2400, 2600, 8, 0, 9),
         probed("cuB", 2400, 2600, 9, 0, 8)},
        1000000, sample::pid, "ebpf");
  kept_trace t;
  join(f.calls, f.probes, t);
  std::map<std::string, std::uint64_t> stages;
  for (const event& e : t.events()) stages[std::string(e.name.data, e.name.size)] = e.stage_id;
  CHECK(stages.at("cuInner") == stage_id);
  CHECK(stages.at("cuInnermost") == stage_id);
  CHECK(stages.at("NV_ESC_RM_ALLOC") == stage_id);
  CHECK(stages.at("NV_ESC_RM_FREE") == 0);
}

TEST_CASE("join: traces of two processes are refused") {
  const files f;
  write(f.calls, {sample::api("cuInit", 1, 2, 1)}, 1000000);
  write(f.probes, {probed("cuInit", 1, 2, 1, 1)}, 1000000, sample::pid + 1);
  kept_trace t;
  CHECK_THROWS_AS(join(f.calls, f.probes, t), reading_error);
  CHECK(t.opened == 0);
  CHECK_THROWS_AS(join(f.calls, f.folder.file("none.jsonl"), t), reading_error);
}

}  // namespace join_test
