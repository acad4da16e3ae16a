// SPDX-License-Identifier: Apache-2.0
// The analyses of a whole trace against a model that counts tick by tick, over thousands of small random traces.
#include <doctest/doctest.h>

#include <algorithm>
#include <bitset>
#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "report/trace_analysis.hpp"
#include "support/random_trace.hpp"
#include "support/sanitized.hpp"

namespace analysis_trace_test {

namespace {

using namespace cutrace;
using namespace cutrace::analysis;
using random_trace::tick;
using random_trace::ticks;

constexpr std::uint32_t cases = sanitized ? 40 : 300;  // of each test
constexpr std::int64_t length = ticks + 200;

/// One bit a tick.
using bits = std::bitset<static_cast<std::size_t>(length)>;
struct line : bits {
  void set(std::int64_t start, std::int64_t end) {
    for (std::int64_t t = start; t < end; ++t) bits::set(static_cast<std::size_t>(t));
  }
  bool at(std::int64_t t) const { return test(static_cast<std::size_t>(t)); }
};
/// What was recorded of the trace under test.
line recorded;
std::int64_t count(const bits& is) { return static_cast<std::int64_t>((is & recorded).count()) * tick; }

work_class class_of(const random_trace::work& w) {
  if (w.kind == event_kind::memcpy)
    return w.direction == copy_direction::host_to_device ? work_class::host_to_device : work_class::device_to_host;
  return w.name[0] == 'n' ? work_class::communication : work_class::compute;
}

struct subject {
  /// @param in_windows only up to three windows of the trace are recorded; the last may reach beyond the trace
  subject(std::uint32_t seed, bool in_windows) : truth(random_trace::make(seed, seed % 4 == 0)) {
    recorded = line();
    if (!in_windows) recorded.set(0, length);
    std::mt19937 random(seed);
    const auto below = [&](std::int64_t n) { return static_cast<std::int64_t>(random() % 1000) % n; };
    for (std::int64_t at = 0, n = 1 + below(3); in_windows && n > 0; --n) {
      const std::int64_t start = at + below(500), end = std::min<std::int64_t>(length, start + 1 + below(400));
      if (start >= length) break;
      truth.events.push_back(sample::base(event_kind::window, "recorded", start * tick, end * tick));
      recorded.set(start, end);
      at = end;
    }
    for (const event& e : truth.events) analysis.add(e);
    results = analysis.finish(length * tick);
  }
  random_trace::trace truth;
  trace_analysis analysis;
  trace_results results;
};

/// Calls `check` for each of many traces; the seed of a failure is reported.
void for_each_trace(std::uint32_t first_seed, const std::function<void(const subject&)>& check, bool windows = false) {
  for (std::uint32_t seed = first_seed; seed < first_seed + cases; ++seed) {
    CAPTURE(seed);
    check(subject(seed, windows && seed % 3 == 0));
  }
}

}  // namespace

TEST_CASE("analysis.trace: each owner's time is what nobody before it has, all of it together the wall time") {
  for_each_trace(
      1000,
      [](const subject& s) {
        std::vector<line> owners(owner_count - 1);
        const auto line_of = [&](owner o) -> line& { return owners[static_cast<std::size_t>(o)]; };
        for (const random_trace::work& w : s.truth.works) line_of(owner_of(class_of(w))).set(w.start, w.end);
        for (const random_trace::call& c : s.truth.calls)
          line_of(host_owner(category_of_call(sample::text_of(c.name)))).set(c.start, c.end);
        for (const random_trace::stage& t : s.truth.stages) line_of(owner::host_stage).set(t.start, t.end);
        for (const random_trace::part& p : s.truth.parts) line_of(owner::host_stage).set(p.start, p.end);
        const std::size_t first_host = static_cast<std::size_t>(owner::host_init);
        for (const bool host : {false, true}) {
          const breakdown_table& t = host ? s.results.time.host : s.results.time.everything;
          std::int64_t sum = 0;
          bits taken;
          for (std::size_t o = 0; o < owner_count; ++o) {
            sum += t.ns[o];
            if (host && o < first_host) {
              REQUIRE(t.ns[o] == 0);
              continue;
            }
            const bits own = o < owners.size() ? owners[o] : ~bits();
            REQUIRE(t.ns[o] == count(own & ~taken));
            taken |= own;
          }
          REQUIRE(sum == count(~bits()));
          REQUIRE(sum == t.recorded_ns);
        }
      },
      true);
}

/// A call shorter than a tick of the clock has no length. If one call is late, other code sorts all of them.
TEST_CASE("analysis.trace: calls without length count, beside others at that moment") {
  for (const bool late : {false, true}) {
    trace_analysis analysis;
    std::vector<event> all;
    for (const auto& [start, end] : {std::pair(10, 10), std::pair(10, 20), std::pair(20, 20), std::pair(20, 20)})
      all.push_back(sample::api("cuMemAlloc_v2", start, end, 0));
    if (late) all.push_back(sample::api("cuMemAlloc_v2", 0, 5, 0));
    for (const event& e : all) analysis.add(e);
    const trace_results r = analysis.finish(30);
    CHECK(r.time.everything.count[static_cast<std::size_t>(owner::host_memory)] == all.size());
    CHECK(r.time.everything.ns[static_cast<std::size_t>(owner::host_memory)] == (late ? 15 : 10));
  }
}

TEST_CASE("analysis.trace: a call without length launches its work when it was made, beside a longer one") {
  for (const bool late : {false, true}) {
    CAPTURE(late);
    trace_analysis analysis;
    std::vector<event> all = {sample::api("cuLaunchKernel", 10, 10, 1), sample::api("cuStreamSynchronize", 10, 40, 2),
                              sample::called_at(sample::kernel("k", 20, 30, 1), 10)};
    if (late) all.push_back(sample::api("cuMemAlloc_v2", 0, 5, 3));
    for (const event& e : all) analysis.add(e);
    const launch_report r = analysis.finish(50).launches;
    CHECK(r.skew == 0);
    REQUIRE(r.delay.count() == 1);
    CHECK(r.delay.percentile_ns(50) == 10);
  }
}

TEST_CASE("analysis.trace: busy, idle, compute and the overlap of any two classes of work") {
  for_each_trace(
      2000,
      [](const subject& s) {
        for (const device_activity& d : s.results.devices) {
          std::vector<line> of(work_class_count);
          line busy;
          std::int64_t first = length, last = 0;
          for (const random_trace::work& w : s.truth.works) {
            if (w.device != d.device) continue;
            of[static_cast<std::size_t>(class_of(w))].set(w.start, w.end);
            busy.set(w.start, w.end);
            first = std::min(first, w.start);
            last = std::max(last, w.end);
          }
          REQUIRE(d.active == interval{first * tick, last * tick});
          line active;
          active.set(first, last);
          const std::int64_t active_ns = count(active);
          REQUIRE(d.busy_ns == count(busy));
          REQUIRE(d.busy_ns + d.idle_ns == active_ns);
          REQUIRE(d.compute_ns + d.non_compute_ns + d.idle_ns == active_ns);
          for (std::size_t a = 0; a < work_class_count; ++a) {
            REQUIRE(d.class_ns[a] == count(of[a]));
            REQUIRE(d.exposed_ns[a] == count(of[a] & ~of[0]));
            for (std::size_t b = 0; b < work_class_count; ++b) REQUIRE(d.overlap_ns[a][b] == count(of[a] & of[b]));
          }
          // Between the first and the last work, recorded or not: a gap that reaches into several windows is one in
          // each.
          std::uint64_t gaps = 0;
          std::int64_t begin = 0, end = length;
          while (begin < length && !busy.at(begin)) ++begin;
          while (end > 0 && !busy.at(end - 1)) --end;
          const auto idle = [&](std::int64_t t) { return t > begin && t < end && recorded.at(t) && !busy.at(t); };
          for (std::int64_t t = begin + 1; t < end; ++t) gaps += idle(t) && !idle(t - 1);
          REQUIRE(d.gap_count == gaps);
        }
      },
      true);
}

TEST_CASE("analysis.trace: work without times is in no measurement, and the time that it occupies is not idle") {
  const auto analysed = [](const std::vector<event>& events, trace_analysis& a) {
    for (const event& e : events) a.add(e);
    return a.finish(length * tick);
  };
  for (std::uint32_t seed = 2500; seed < 2500 + cases; ++seed) {
    CAPTURE(seed);
    const random_trace::trace truth = random_trace::make(seed, false);
    std::mt19937 random(seed);
    std::vector<event> marked, without;
    for (const event& e : truth.events) {
      const bool unfinished = e.is_gpu_work() && random() % 5 == 0;
      marked.push_back(e);
      marked.back().incomplete = unfinished;
      if (!unfinished) without.push_back(e);
    }
    trace_analysis a, b, c;
    const trace_results of = analysed(marked, a), absent = analysed(without, b), whole = analysed(truth.events, c);
    // What is measured is that of a trace without such work.
    REQUIRE(of.time.everything.gpu_busy_ns() == absent.time.everything.gpu_busy_ns());
    REQUIRE(of.launches.launched == absent.launches.launched);
    REQUIRE(of.launches.delay.count() == absent.launches.delay.count());
    REQUIRE(a.gpu_operations().total_ns() == b.gpu_operations().total_ns());
    REQUIRE(a.gpu_operations().total_count() == b.gpu_operations().total_count());
    REQUIRE(of.copies.size() == absent.copies.size());
    std::int64_t exposed_ns = 0;  // in all: of copies that start together, any one may have the time
    for (std::size_t i = 0; i < of.copies.size(); ++i) {
      REQUIRE(of.copies[i].gpu_ns == absent.copies[i].gpu_ns);
      exposed_ns += of.copies[i].exposed_ns - absent.copies[i].exposed_ns;
    }
    REQUIRE(exposed_ns == 0);
    for (const stage_cost& s : of.stages.stages)
      for (const stage_cost& other : absent.stages.stages) {
        if (s.name != other.name) continue;
        REQUIRE(s.gpu_own_ns == other.gpu_own_ns);
        REQUIRE(s.gpu_inclusive_ns == other.gpu_inclusive_ns);
        REQUIRE(s.queue_ns == other.queue_ns);
      }
    // What is idle is that of a trace in which the same work has times.
    REQUIRE(of.idle.all.ns == whole.idle.all.ns);
    REQUIRE(of.time.everything.gpu_idle_ns() == whole.time.everything.gpu_idle_ns());
    for (std::size_t o = static_cast<std::size_t>(owner::host_init); o < owner_count; ++o)
      REQUIRE(of.time.everything.ns[o] == whole.time.everything.ns[o]);
    REQUIRE(of.devices.size() == whole.devices.size());
    for (std::size_t i = 0; i < of.devices.size(); ++i) {
      const device_activity& d = of.devices[i];
      REQUIRE(d.idle_ns == whole.devices[i].idle_ns);
      REQUIRE(d.busy_ns + d.unfinished_ns == whole.devices[i].busy_ns);
      REQUIRE(d.busy_ns + d.unfinished_ns + d.idle_ns == d.active.length_ns());
    }
    for (const stage_cost& s : of.stages.stages)
      for (const stage_cost& other : whole.stages.stages)
        if (s.name == other.name) REQUIRE(s.gpu_idle_inside_ns == other.gpu_idle_inside_ns);
  }
}

TEST_CASE("analysis.trace: work that ends before it begins, as recorded, makes no time that there was not") {
  trace_analysis a;
  for (const event& e : {sample::kernel("k", 100, 200, 1), sample::kernel("k", 400, 300, 2)}) a.add(e);
  const trace_results r = a.finish(1000);
  REQUIRE(r.devices.size() == 1);
  CHECK(r.devices[0].active == interval{100, 400});
  CHECK(r.devices[0].idle_ns == 200);
  CHECK(r.idle.all.ns == 200);
  CHECK(r.idle.before_ns == 100);
  CHECK(r.idle.after_ns == 600);
}

TEST_CASE("analysis.trace: work of a program that makes streams without end stays on its device") {
  trace_analysis a;
  constexpr std::uint64_t streams = 70000;
  for (std::uint64_t i = 0; i < streams; ++i) {
    const std::int64_t start = static_cast<std::int64_t>(i) * 100;
    event e = sample::kernel("k", start, start + 10, 0);
    e.stream = i;
    e.device = i < streams - 100 ? 0 : i % 2;
    e.context = e.device + 1;
    a.add(e);
  }
  const trace_results r = a.finish();
  REQUIRE(r.devices.size() == 2);
  CHECK(r.devices[0].busy_ns == (streams - 50) * 10);
  CHECK(r.devices[1].busy_ns == 50 * 10);
  CHECK(r.devices[0].operations == streams - 50);
  CHECK(r.devices[1].streams == 1);
}

TEST_CASE("analysis.trace: a file without events and times is empty at time 0") {
  trace_analysis a(trace_log::first_event);
  const trace_results r = a.finish();
  CHECK(r.time.everything.window == interval{0, 0});
  CHECK(r.time.everything.recorded_ns == 0);
}

TEST_CASE("analysis.trace: work whose stage is not known any more is in no stage, and in no row of those without") {
  const auto of_stage = [](event e) {
    const cutrace::request_ref r = sample::request_id(1);
    e = sample::in_stage(e, "decode", 1, &r, 1);
    e.requests = nullptr;
    e.request_count = 0;
    return e;
  };
  event known = of_stage(sample::kernel("k", 100, 200, 1)), lost = known, expired = sample::kernel("k", 400, 500, 3);
  lost.start_ns = 150, lost.end_ns = 350;
  lost.stage_name = cutrace::text{};
  lost.joined = cutrace::attribution::stage_unknown;
  expired.joined = cutrace::attribution::expired;
  event outside = sample::kernel("k", 600, 650, 4);
  outside.joined = cutrace::attribution::outside_stage;
  trace_analysis a;
  for (const event& e : {known, lost, expired, outside, of_stage(sample::stage("decode", 0, 700, 1))}) a.add(e);
  const stage_report r = a.finish(1000).stages;
  REQUIRE(r.stages.size() == 1);
  CHECK(r.stages[0].gpu_inclusive_ns == 100);
  CHECK(r.gpu_unknown_operations == 2);
  CHECK(r.gpu_unknown_ns == 300);
  CHECK(r.gpu_outside_operations == 1);
  CHECK(r.gpu_outside_ns == 50);
  CHECK(r.gpu_busy_ns == 400);
}

TEST_CASE("analysis.trace: a stage whose first event lacks its name has the name of the next one") {
  const auto of_stage = [](event e, const char* name) { return sample::in_stage(e, name, 1, nullptr, 0); };
  event lost = of_stage(sample::kernel("k", 100, 200, 1), "");
  lost.joined = cutrace::attribution::stage_unknown;
  const event named = of_stage(sample::kernel("k", 200, 300, 2), "decode");
  trace_analysis a;
  for (const event& e : {lost, named, of_stage(sample::kernel("k", 300, 400, 3), "decode")}) a.add(e);
  const stage_report r = a.finish(1000).stages;
  CHECK(r.gpu_unknown_operations == 1);
  REQUIRE(r.stages.size() == 1);
  CHECK(r.stages[0].name == "decode");
  CHECK(r.stages[0].gpu_own_ns == 200);
}

TEST_CASE("analysis.trace: a row counts the requests of those stages whose records are there") {
  const auto of_stage = [](event e, std::uint64_t id, const cutrace::request_ref& r) {
    return sample::in_stage(e, "decode", id, &r, 1);
  };
  const cutrace::request_ref first = sample::request_id(1), second = sample::request_id(2),
                             third = sample::request_id(3);
  event adopted = of_stage(sample::stage("decode", 500, 600, 3), 3, third);
  adopted.stage.adopted = true;
  trace_analysis a;
  for (const event& e :
       {of_stage(sample::kernel("k", 100, 200, 1), 1, first), of_stage(sample::kernel("k", 200, 300, 2), 2, second),
        of_stage(sample::stage("decode", 50, 400, 1), 1, first), adopted})
    a.add(e);
  const stage_report r = a.finish(1000).stages;
  REQUIRE(r.stages.size() == 1);
  CHECK(r.stages[0].calls == 1);
  CHECK(r.stages[0].gpu_operations == 2);
  CHECK(r.stages[0].requests == 2);
}

TEST_CASE("analysis.trace: delays, skew and the length of the queue") {
  for_each_trace(
      3000,
      [](const subject& s) {
        std::uint64_t during = 0, waited = 0, unknown = 0;
        for (const random_trace::work& w : s.truth.works) {
          if (w.call == SIZE_MAX) {
            ++unknown;
            continue;
          }
          (w.start < s.truth.calls[w.call].end ? during : waited) += 1;
        }
        REQUIRE(s.results.launches.unknown == unknown);
        REQUIRE(s.results.launches.during_call == during);
        REQUIRE(s.results.launches.delay.count() == waited);
        REQUIRE(s.results.launches.skew == 0);
        for (const queue_report& q : s.results.queues) {
          std::int64_t first = length, last = 0;
          for (const random_trace::work& w : s.truth.works)
            if (w.device == q.device && w.call != SIZE_MAX) {
              first = std::min(first, s.truth.calls[w.call].start);
              last = std::max(last, w.start);
            }
          double sum = 0;
          std::uint64_t longest = 0;
          std::int64_t empty = 0, known = 0;
          for (std::int64_t t = first; t < last; ++t) {
            if (!recorded.at(t)) continue;
            ++known;
            std::uint64_t n = 0;
            for (const random_trace::work& w : s.truth.works)
              n += w.device == q.device && w.call != SIZE_MAX && s.truth.calls[w.call].start <= t && t < w.start;
            sum += static_cast<double>(n);
            longest = std::max(longest, n);
            empty += n == 0;
          }
          if (first >= last) continue;
          REQUIRE(q.span == interval{first * tick, last * tick});
          REQUIRE(q.longest == longest);
          REQUIRE(q.recorded_ns == known * tick);
          REQUIRE(q.empty_ns == empty * tick);
          REQUIRE(q.mean == doctest::Approx(known > 0 ? sum / static_cast<double>(known) : 0));
        }
      },
      true);
}

TEST_CASE("analysis.trace: work is joined to the call of its id, though its begin lies a little beside that call") {
  // Clocks are measured while a trace goes on: call and work may have been converted with different corrections.
  for (const std::int64_t begin_ns : {1000, 990, 1009, 1012}) {
    CAPTURE(begin_ns);
    trace_log log;
    for (const event& e : {sample::api("cuLaunchKernel", 100, 995, 1), sample::api("cuLaunchKernel", 1000, 1010, 2),
                           sample::api("cuLaunchKernel", 1011, 4000, 3),
                           sample::called_at(sample::kernel("k", 5000, 6000, 2), begin_ns)})
      log.add(e);
    log.seal();
    REQUIRE(log.work().size() == 1);
    const trace_log::launch found = log.launch_of(log.work()[0]);
    REQUIRE(found.call != nullptr);
    CHECK(found.when == interval{1000, 1010});
  }
}

TEST_CASE("analysis.trace: work whose call was lost is not joined to the call around its begin") {
  trace_log log;
  for (const event& e :
       {sample::api("cuStreamSynchronize", 100, 4000, 1), sample::called_at(sample::kernel("k", 5000, 6000, 2), 1000)})
    log.add(e);
  log.seal();
  REQUIRE(log.work().size() == 1);
  const trace_log::launch found = log.launch_of(log.work()[0]);
  CHECK(found.known);
  CHECK(found.call == nullptr);
  CHECK(found.when == interval{1000, 1000});
}

TEST_CASE("analysis.trace: a file that leaves joining to its reader says as much of lost stages as one that does not") {
  event call = sample::api("cuLaunchKernel", 100, 200, 1), work = sample::kernel("k", 300, 400, 1);
  work.joined = cutrace::attribution::stage_unknown;
  work.stage_id = 7;
  const event stage = sample::in_stage(sample::stage("decode", 50, 500, 7), "decode", 7, nullptr, 0);
  for (const bool joined : {true, false}) {
    CAPTURE(joined);
    if (joined) work = sample::called_at(work, 100);
    work.call_name = joined ? call.name : cutrace::text{};
    trace_analysis a;
    for (const event& e : {call, work, stage}) a.add(e);
    const stage_report r = a.finish(1000).stages;
    CHECK(r.gpu_unknown_operations == 1);
    REQUIRE(r.stages.size() == 1);
    CHECK(r.stages[0].gpu_own_ns == 0);
  }
}

TEST_CASE("analysis.trace: work is joined to calls of its own process alone, though others give out the same ids") {
  const auto of_process = [](event e, std::uint32_t process) {
    e.process_id = process;
    return e;
  };
  const auto kernel = [](std::int64_t start, std::int64_t end) {
    event e = sample::kernel("k", start, end, 1);
    e.call_name = cutrace::text{};
    return e;
  };
  const event call = sample::in_stage(sample::api("cuLaunchKernel", 100, 200, 1), "decode", 7, nullptr, 0);
  trace_analysis a;
  for (const event& e :
       {of_process(call, 1), of_process(sample::stage("decode", 50, 250, 7), 1), of_process(kernel(300, 400), 2),
        of_process(sample::api("cuLaunchKernel", 600, 620, 1), 3), of_process(kernel(650, 700), 3)})
    a.add(e);
  const trace_results r = a.finish(1000);
  CHECK(r.launches.unknown == 1);
  CHECK(r.launches.launched == 1);
  CHECK(r.launches.delay.percentile_ns(100) <= 31);
  REQUIRE(r.stages.stages.size() == 1);
  CHECK(r.stages.stages[0].gpu_own_ns == 0);
  CHECK(r.stages.gpu_outside_operations == 2);
}

TEST_CASE("analysis.trace: copies, their bytes and the time that no kernel hides") {
  for_each_trace(
      4000,
      [](const subject& s) {
        std::map<std::uint32_t, std::int64_t> exposed;
        std::uint64_t bytes = 0, small = 0;
        for (const copy_row& r : s.results.copies) {
          exposed[r.device] += r.exposed_ns;
          bytes += r.bytes;
          small += r.small_count;
        }
        for (const random_trace::work& w : s.truth.works) {
          if (w.kind != event_kind::memcpy) continue;
          bytes -= w.bytes;
          small -= w.bytes <= copy_row::small_bytes;
        }
        REQUIRE(bytes == 0);
        REQUIRE(small == 0);
        for (const device_activity& d : s.results.devices) {
          line kernel, copy;
          for (const random_trace::work& w : s.truth.works)
            if (w.device == d.device) (w.kind == event_kind::kernel ? kernel : copy).set(w.start, w.end);
          const std::int64_t expected = count(copy & ~kernel);
          REQUIRE(d.exposed_copy_ns == expected);
          REQUIRE(exposed[d.device] == expected);
        }
      },
      true);
}

/// Multiplex window: a stretch of idle time that is long enough for the work of a second tenant of the GPU.
TEST_CASE("analysis.trace: context switches and multiplex windows") {
  for_each_trace(
      5000,
      [](const subject& s) {
        auto stretches = idle_finder(s.analysis.log(), 1, 10 * tick).find().stretches;
        for (std::size_t i = 0; i < s.results.devices.size(); ++i) {
          const std::uint32_t device = s.results.devices[i].device;
          line busy;
          std::vector<random_trace::work> works;
          for (const random_trace::work& w : s.truth.works)
            if (w.device == device) {
              works.push_back(w);
              busy.set(w.start, w.end);
            }
          std::int64_t windows = 0, run = 0;
          const interval active = s.results.devices[i].active;
          const auto idle_at = [&](std::int64_t t) {
            return t * tick < active.end_ns && recorded.at(t) && !busy.at(t);
          };
          for (std::int64_t t = active.start_ns / tick; t * tick < active.end_ns; ++t) {
            run = idle_at(t) ? run + 1 : 0;
            if (!idle_at(t + 1) && run >= 20) windows += run;
          }
          const multiplex_report m = find_multiplex_windows(s.analysis.log(), s.analysis.log().devices().at(device),
                                                            stretches[device], {}, 20 * tick, std::uint64_t{1} << 40);
          REQUIRE(m.window_ns == windows * tick);
          bool same_start = false;
          std::sort(works.begin(), works.end(), [](const auto& a, const auto& b) { return a.start < b.start; });
          std::uint64_t switches = 0;
          std::int64_t idle = 0, until = 0;
          for (std::size_t k = 0; k < works.size(); until = std::max(until, works[k++].end)) {
            if (k == 0 || works[k].context == works[k - 1].context) continue;
            same_start = same_start || works[k].start == works[k - 1].start;
            ++switches;
            for (std::int64_t t = until; t < works[k].start; ++t) idle += recorded.at(t);
          }
          if (same_start) continue;  // their order is free
          REQUIRE(s.results.switches[i].switches == switches);
          REQUIRE(s.results.switches[i].idle_ns == idle * tick);
        }
      },
      true);
}

TEST_CASE("analysis.trace: stages: host, queue, execution, transfer, idle inside") {
  for_each_trace(
      6000,
      [](const subject& s) {
        struct lines {
          line host, own, all, execution, transfer, queue, calls;
        };
        std::map<std::string, lines> of;
        line busy;
        const auto climb = [&](std::uint64_t id, const std::function<void(lines&)>& each) {
          for (const random_trace::stage* t = s.truth.find(id); t != nullptr; t = s.truth.find(t->parent))
            each(of[t->name]);
        };
        for (const random_trace::stage& t : s.truth.stages) of[t.name].host.set(t.start, t.end);
        for (const random_trace::part& p : s.truth.parts) of[s.truth.find(p.stage)->name].host.set(p.start, p.end);
        for (const random_trace::call& c : s.truth.calls)
          climb(c.stage, [&](lines& l) { l.calls.set(c.start, c.end); });
        for (const random_trace::work& w : s.truth.works) {
          busy.set(w.start, w.end);
          if (const random_trace::stage* t = s.truth.find(w.stage)) of[t->name].own.set(w.start, w.end);
          climb(w.stage, [&](lines& l) {
            l.all.set(w.start, w.end);
            (w.kind == event_kind::kernel ? l.execution : l.transfer).set(w.start, w.end);
            if (w.call != SIZE_MAX) l.queue.set(s.truth.calls[w.call].end, w.start);
          });
        }
        REQUIRE(s.results.stages.stages.size() == of.size());
        for (const stage_cost& c : s.results.stages.stages) {
          const lines& l = of[c.name];
          REQUIRE(c.host_ns == count(l.host));
          REQUIRE(c.gpu_own_ns == count(l.own));
          REQUIRE(c.gpu_inclusive_ns == count(l.all));
          REQUIRE(c.execution_ns == count(l.execution));
          REQUIRE(c.transfer_ns == count(l.transfer));
          REQUIRE(c.queue_ns == count(l.queue));
          REQUIRE(c.call_ns == count(l.calls));
          REQUIRE(c.gpu_idle_inside_ns == count(l.host & ~busy));
          std::set<std::uint64_t> requests;
          for (const random_trace::stage& t : s.truth.stages)
            if (t.name == c.name) requests.insert(t.requests.begin(), t.requests.end());
          REQUIRE(c.requests == requests.size());
        }
      },
      true);
}

TEST_CASE("analysis.trace: stages one by one: time of each instance on the host, and of all GPUs together") {
  for_each_trace(6500, [](const subject& s) {
    std::map<std::uint64_t, line> gpu;  // by instance
    for (const random_trace::work& w : s.truth.works)
      for (const random_trace::stage* t = s.truth.find(w.stage); t != nullptr; t = s.truth.find(t->parent))
        gpu[t->id].set(w.start, w.end);
    struct sums {
      std::uint64_t count = 0, host = 0, with_work = 0, gpu = 0, longest = 0;
    };
    std::map<std::string, sums> of;
    for (const random_trace::stage& t : s.truth.stages) {
      sums& n = of[t.name];
      ++n.count;
      n.host += static_cast<std::uint64_t>((t.end - t.start) * tick);
      const auto work = gpu.find(t.id);
      if (work == gpu.end()) continue;
      const line& busy = work->second;
      const std::uint64_t ns = static_cast<std::uint64_t>(count(busy));
      ++n.with_work;
      n.gpu += ns;
      n.longest = std::max(n.longest, ns);
    }
    REQUIRE(s.results.inference.stages.size() == of.size());
    for (const stage_distribution& d : s.results.inference.stages) {
      const sums& n = of[d.name];
      REQUIRE(d.host.count() == n.count);
      REQUIRE(d.host.sum_ns == n.host);
      REQUIRE(d.gpu.count() == n.with_work);
      REQUIRE(d.gpu.sum_ns == n.gpu);
      REQUIRE(d.gpu.longest_ns == n.longest);
    }
  });
}

TEST_CASE("analysis.trace: requests: what was measured alone, in batches, and the estimated share") {
  for_each_trace(
      7000,
      [](const subject& s) {
        line busy;
        for (const random_trace::work& w : s.truth.works) busy.set(w.start, w.end);
        for (const request_cost& c : s.results.requests) {
          const std::uint64_t id = s.analysis.log().stages().request_ids()[c.request];
          line host;
          std::int64_t alone = 0, batches = 0, share = 0, queue = 0;
          std::int64_t first = length, last = 0;
          for (const random_trace::stage& t : s.truth.stages) {
            if (std::find(t.requests.begin(), t.requests.end(), id) == t.requests.end()) continue;
            host.set(t.start, t.end);
            first = std::min(first, t.start);
            last = std::max(last, t.end);
            for (const random_trace::part& p : s.truth.parts)
              if (p.stage == t.id) first = std::min(first, p.start), last = std::max(last, p.end);
            line kernels, gpu, waiting;
            for (const random_trace::work& w : s.truth.works) {
              if (w.stage != t.id) continue;
              // The end of its work as far as it was recorded.
              for (std::int64_t at = w.start; at < w.end; ++at)
                if (recorded.at(at)) last = std::max(last, at + 1);
              gpu.set(w.start, w.end);
              if (w.kind == event_kind::kernel) kernels.set(w.start, w.end);
              if (w.call != SIZE_MAX) waiting.set(s.truth.calls[w.call].end, w.start);
            }
            const std::int64_t execution = count(kernels);
            (t.requests.size() == 1 ? alone : batches) += execution;
            queue += count(waiting);
            if (t.requests.size() > 1) share += count(gpu) / static_cast<std::int64_t>(t.requests.size());
          }
          REQUIRE(c.span == interval{first * tick, last * tick});
          REQUIRE(c.host_ns == count(host));
          REQUIRE(c.idle_inside_ns == count(host & ~busy));
          REQUIRE(c.execution_alone_ns == alone);
          REQUIRE(c.execution_in_batches_ns == batches);
          REQUIRE(c.estimated_share_ns == share);
          REQUIRE(c.queue_ns == queue);
        }
      },
      true);
}

TEST_CASE("analysis.trace: a request none of whose stages has ended has no latency") {
  trace_analysis a;
  const request_ref ended = sample::request_id(1), open = sample::request_id(2);
  const auto launch = [&](const request_ref& r, std::int64_t at, std::uint64_t id) {
    a.add(sample::in_stage(sample::api("cuLaunchKernel", at, at + 10, id), "decode", id, &r, 1));
    a.add(sample::in_stage(sample::called_at(sample::kernel("gemm", at + 20, at + 80, id), at), "decode", id, &r, 1));
  };
  launch(ended, 100, 1);
  a.add(sample::in_stage(sample::stage("decode", 100, 200, 1), "decode", 1, &ended, 1));
  launch(open, 300, 2);
  const trace_results r = a.finish(1000);
  CHECK(r.inference.requests == 2);
  CHECK(r.inference.latency.count() == 1);
  CHECK(r.inference.latency.mean_ns() == 100);
}

TEST_CASE("analysis.trace: by names of stages, the first token is a prefill's") {
  trace_analysis a;
  auto add = [&a, id = 0u](const char* name, std::int64_t start, std::int64_t end, std::uint64_t of) mutable {
    const request_ref r = sample::request_id(of);
    ++id;
    a.add(sample::in_stage(sample::stage(name, start, end, id), name, id, &r, 1));
  };
  add("decode", 0, 10, 1);  // its prefill was before the trace
  add("prefill", 10, 110, 2);
  add("decode", 120, 130, 1);
  add("decode", 130, 140, 2);
  const inference_report r = a.finish().inference;
  CHECK(r.by_names);
  CHECK(r.tokens == 4);
  CHECK(r.between_tokens.count() == 2);
  CHECK(r.per_output_token.count() == 2);
  REQUIRE(r.first_token.count() == 1);
  CHECK(r.first_token.longest_ns == 100);
}

TEST_CASE(
    "analysis.trace: by names of stages, parts of a prefill or decode stage and the whole request are no tokens") {
  const auto tokens_in = [](const char* whole, bool with_prefill) {
    trace_analysis a;
    const request_ref request = sample::request_id(5);
    std::uint64_t id = 1;
    const auto add = [&](const char* name, std::int64_t start, std::int64_t end, std::uint64_t parent) {
      event e = sample::stage(name, start, end, ++id);
      e.stage.parent = parent;
      a.add(sample::in_stage(e, name, id, &request, 1));
      return id;
    };
    if (with_prefill) {
      const std::uint64_t prefill = id + 2;
      add("prefill_attention", 10, 20, prefill);
      add("prefill", 10, 100, 1);
    }
    for (std::int64_t at = 200; at < 600; at += 100) {
      const std::uint64_t step = id + 3;
      add("decode_attention", at + 10, at + 20, step);
      add("decode_mlp", at + 20, at + 30, step);
      add("decode", at, at + 50, 1);
    }
    a.add(sample::in_stage(sample::stage(whole, 0, 1000, 1), whole, 1, &request, 1));
    return a.finish().inference;
  };
  for (const char* whole : {"serve", "generate", "decode_request"}) {
    const inference_report r = tokens_in(whole, true);
    CAPTURE(whole);
    CHECK(r.tokens == 5);
    REQUIRE(r.first_token.count() == 1);
    CHECK(r.first_token.longest_ns == 100);
    CHECK(r.per_output_token.longest_ns == (550 - 100) / 4);
  }
  CHECK(tokens_in("generate", false).tokens == 4);
}

TEST_CASE("analysis.trace: by names of stages, a decode stage that looks something up in the prompt is a token") {
  trace_analysis a;
  const request_ref request = sample::request_id(5);
  std::uint64_t id = 0;
  const auto add = [&](const char* name, std::int64_t start, std::int64_t end, std::uint64_t parent) {
    event e = sample::stage(name, start, end, ++id);
    e.stage.parent = parent;
    a.add(sample::in_stage(e, name, id, &request, 1));
  };
  add("prefill", 0, 100, 0);
  for (std::int64_t at = 200; at < 600; at += 100) {
    add("prompt_lookup", at + 10, at + 20, id + 2);
    add("decode", at, at + 50, 0);
  }
  const inference_report r = a.finish().inference;
  CHECK(r.tokens == 5);
  REQUIRE(r.first_token.count() == 1);
  CHECK(r.first_token.longest_ns == 100);
  CHECK(r.per_output_token.longest_ns == (550 - 100) / 4);
}

TEST_CASE("analysis.trace: a request of marks alone has the times of its tokens, beside one that has a stage, too") {
  trace_analysis a;
  for (const std::uint64_t id : {1u, 2u}) {
    const request_ref r = sample::request_id(id);
    const auto add = [&](event e) { a.add(sample::in_stage(e, "serve", id == 1 ? 1 : 0, &r, 1)); };
    add(sample::mark("request_begin", 100));
    add(sample::mark("first_token", 150));
    add(sample::mark("token", 160));
    if (id == 1) add(sample::stage("serve", 90, 200, 1));
  }
  const inference_report r = a.finish().inference;
  CHECK(r.by_marks);
  CHECK(r.requests == 1);
  CHECK(r.tokens == 4);
  CHECK(r.between_tokens.count() == 2);
  CHECK(r.first_token.count() == 2);
  CHECK(r.first_token.sum_ns == 100);
  CHECK(r.per_output_token.count() == 2);
}

namespace {
/// A mark of a request, outside of stages.
void add_mark(trace_analysis& a, std::uint64_t request, const char* name, std::int64_t at_ns) {
  const request_ref r = sample::request_id(request);
  a.add(sample::in_stage(sample::mark(name, at_ns), "", 0, &r, 1));
}
}  // namespace

TEST_CASE("analysis.trace: a request that several threads or ranks mark as begun begins with the first mark") {
  trace_analysis a;
  const auto add = [&a](const char* name, std::int64_t at) { add_mark(a, 1, name, at); };
  add("request_begin", 100);
  add("request_begin", 130);
  add("first_token", 150);
  add("request_begin", 160);
  add("token", 170);
  const inference_report found = a.finish().inference;
  REQUIRE(found.first_token.count() == 1);
  CHECK(found.first_token.longest_ns == 50);
}

TEST_CASE("analysis.trace: a begin behind request_end is that of another request with the same id") {
  trace_analysis a;
  const auto add = [&a](const char* name, std::int64_t at) { add_mark(a, 1, name, at); };
  add("request_begin", 100);
  add("request_begin", 110);
  add("request_end", 200);  // cancelled
  add("request_begin", 1000);
  for (const std::int64_t at : {1050, 1070}) add("token", at);
  add("request_end", 1075);
  add("request_begin", 2000);
  for (const std::int64_t at : {2010, 2050}) add("token", at);
  const inference_report found = a.finish().inference;
  CHECK(found.tokens == 4);
  REQUIRE(found.first_token.count() == 2);
  CHECK(found.first_token.longest_ns == 50);
  REQUIRE(found.between_tokens.count() == 2);
  CHECK(found.between_tokens.longest_ns == 40);
  CHECK(found.per_output_token.longest_ns == 40);
}

TEST_CASE("analysis.trace: of a trace of windows, only token times that were recorded as a whole are counted") {
  const auto tokens_in = [](const std::vector<interval>& windows) {
    trace_analysis a;
    const auto add = [&a](std::uint64_t request, const char* name, std::int64_t at_ns) {
      add_mark(a, request, name, at_ns);
    };
    add(1, "request_begin", 100);
    add(1, "first_token", 150);
    add(1, "token", 170);
    add(2, "request_begin", 200);  // its first token may have come while nothing was recorded
    add(2, "token", 300);
    add(2, "token", 330);
    const request_ref third = sample::request_id(3);  // began before its first stage here
    a.add(sample::in_stage(sample::stage("serve", 400, 450, 1), "serve", 1, &third, 1));
    add(3, "first_token", 440);
    add(3, "token", 480);
    add(4, "request_begin", 900);  // its first token comes in the next window
    add(4, "first_token", 2100);
    add(4, "token", 2150);
    add(5, "request_begin", 800);  // its second token does
    add(5, "first_token", 860);
    add(5, "token", 2200);
    add(6, "first_token", 2300);  // before its begin
    add(6, "request_begin", 2310);
    for (const interval v : windows) a.add(sample::base(event_kind::window, "recorded", v.start_ns, v.end_ns));
    return a.finish(3000).inference;
  };
  const inference_report all = tokens_in({});
  CHECK(all.first_token.count() == 5);
  CHECK(all.first_token.sum_ns == 50 + 100 + 40 + 1200 + 60);
  CHECK(all.per_output_token.count() == 5);
  CHECK(all.per_output_token.sum_ns == 20 + 30 + 40 + 50 + 1340);
  const inference_report some = tokens_in({{0, 1000}, {2000, 3000}});
  CHECK(some.first_token.count() == 2);
  CHECK(some.first_token.sum_ns == 50 + 60);
  CHECK(some.per_output_token.count() == 4);
  CHECK(some.per_output_token.sum_ns == 20 + 30 + 40 + 50);
}

TEST_CASE("analysis.trace: times of marks are clamped as all times are") {
  trace_analysis a;
  const request_ref one = sample::request_id(1);
  a.add(sample::in_stage(sample::stage("decode", 0, 100, 1), "decode", 1, &one, 1));
  for (const std::int64_t at : {INT64_MIN + 1, INT64_MAX})
    a.add(sample::in_stage(sample::mark("token", at), "decode", 1, &one, 1));
  const trace_results r = a.finish(1000);
  CHECK(r.inference.tokens == 2);
  CHECK(r.inference.between_tokens.longest_ns == std::uint64_t{1} << 61);
  CHECK(r.inference.per_output_token.longest_ns == std::uint64_t{1} << 61);
}

TEST_CASE("analysis.trace: percentiles lie within a bucket of the nearest rank") {
  for_each_trace(8000, [](const subject& s) {
    for (const operation& o : s.analysis.gpu_operations().top(100)) {
      std::vector<std::uint64_t> ns;
      for (const random_trace::work& w : s.truth.works) {
        const char* copy = w.direction == copy_direction::host_to_device ? "[memcpy HtoD]" : "[memcpy DtoH]";
        if (o.name == (w.kind == event_kind::kernel ? w.name : copy))
          ns.push_back(static_cast<std::uint64_t>((w.end - w.start) * tick));
      }
      std::sort(ns.begin(), ns.end());
      REQUIRE(o.count == ns.size());
      for (const auto& p :
           {std::make_pair(50u, o.p50_ns), std::make_pair(90u, o.p90_ns), std::make_pair(99u, o.p99_ns)}) {
        const std::uint64_t exact = ns[(ns.size() * p.first + 99) / 100 - 1];
        REQUIRE(p.second >= exact - exact / 16);
        REQUIRE(p.second <= exact + exact / 16);
      }
    }
  });
}

}  // namespace analysis_trace_test
