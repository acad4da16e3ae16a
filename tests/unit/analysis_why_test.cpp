// SPDX-License-Identifier: Apache-2.0
// Why a request took as long as it did: a server of 200 requests in which one was made slow in a known way, once for
// each cause; the time of each request adds up; text, JSON and page say the same.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "report/pages/why_html.hpp"
#include "report/pages/why_json.hpp"
#include "report/pages/why_text.hpp"
#include "report/why.hpp"
#include "support/random_trace.hpp"
#include "support/sample_events.hpp"
#include "support/sanitized.hpp"

namespace analysis_why_test {

namespace {

using namespace cutrace;
using namespace cutrace::analysis;

constexpr std::int64_t us = 1000, ms = 1000 * us;
constexpr std::uint64_t slow = 77;

/// How long each step of a request takes, and what else happens in it. Request 77 has such a plan of its own.
struct plan {
  std::int64_t queue_ms = 1, own_us = 100, prefill_us = 900, delay_us = 20, hole_ms = 0, copy_us = 0, call_us = 0;
  const char* call = nullptr;
  bool pageable = false, straggler = false, other_prefill = false, preempted = false, checkpoint = false,
       low_clock = false;
};

/// Collects the events of a trace.
struct builder {
  /// In the order of delivery.
  const std::vector<event>& events() {
    std::stable_sort(events_.begin(), events_.end(),
                     [](const event& a, const event& b) { return a.end_ns < b.end_ns; });
    return events_;
  }
  event placed(event e, const char* stage, std::uint64_t id, const std::vector<std::uint64_t>& requests) {
    lists_.emplace_back();
    for (const std::uint64_t r : requests) lists_.back().push_back(sample::request_id(r));
    return sample::in_stage(e, stage, id, lists_.back().data(), static_cast<std::uint32_t>(requests.size()));
  }
  void stage(const char* name, std::int64_t from, std::int64_t to, std::uint64_t id,
             const std::vector<std::uint64_t>& requests, std::uint32_t line, bool span = false) {
    event e = placed(sample::stage(name, from, to, id), name, id, requests);
    e.stage.line = line;
    e.stage.span = span;
    events_.push_back(e);
  }
  void kernel(const char* stage, std::uint64_t id, const std::vector<std::uint64_t>& requests, std::int64_t called,
              std::int64_t from, std::int64_t to) {
    const std::uint64_t c = ++correlation_;
    events_.push_back(placed(sample::api("cuLaunchKernel", called, called + 5 * us, c), stage, id, requests));
    events_.push_back(placed(sample::called_at(sample::kernel("gemm", from, to, c), called), stage, id, requests));
  }
  void call(const char* name, const char* stage, std::uint64_t id, const std::vector<std::uint64_t>& requests,
            std::int64_t from, std::int64_t to) {
    events_.push_back(placed(sample::api(name, from, to, ++correlation_), stage, id, requests));
  }
  std::int64_t batch(const std::vector<std::uint64_t>& requests, std::int64_t at, std::int64_t gpu_ns) {
    const std::uint64_t id = ++stages_;
    kernel("decode", id, requests, at + 20 * us, at + 40 * us, at + 40 * us + gpu_ns);
    call("cuStreamSynchronize", "decode", id, requests, at + 26 * us, at + 50 * us + gpu_ns);
    stage("decode", at, at + 60 * us + gpu_ns, id, requests, 80);
    return at + 60 * us + gpu_ns;
  }
  std::vector<event> events_;
  std::deque<std::vector<request_ref>> lists_;
  std::uint64_t correlation_ = 0, stages_ = 0;
};

class server : public builder {
 public:
  explicit server(const plan& p) {
    for (std::uint64_t i = 0; i < 200; ++i)
      request(i + 1, static_cast<std::int64_t>(i) * 60 * ms, i + 1 == slow ? p : plan());
    if (p.straggler)  // batches with request 9000, the straggler, are slow without request 77, too
      for (std::int64_t k = 0; k < 10; ++k) batch({9000, 9001}, 13000 * ms + k * 10 * ms, 6000 * us);
  }

 private:
  void request(std::uint64_t id, std::int64_t at, const plan& p) {
    stage("queue_wait", at, at + p.queue_ms * ms, ++stages_, {id}, 10, true);
    at += p.queue_ms * ms;
    const std::uint64_t prefill = ++stages_;
    const std::int64_t begin = at;
    at += p.own_us * us;
    if (p.preempted)
      events_.push_back(sample::system("sched", "switched out", begin + 10 * us, at - 10 * us, sample::main_thread));
    if (p.call != nullptr) {
      call(p.call, "prefill", prefill, {id}, at, at + p.call_us * us);
      at += p.call_us * us;
    }
    if (p.copy_us != 0) {
      const std::uint64_t c = ++correlation_;
      events_.push_back(placed(sample::api("cuMemcpyHtoDAsync", at, at + 10 * us, c), "prefill", prefill, {id}));
      event copy =
          sample::memcpy(copy_direction::host_to_device, 4000000, at + 15 * us, at + 15 * us + p.copy_us * us, c);
      if (p.pageable) copy.memcpy_.source = memory_kind::pageable;
      events_.push_back(placed(sample::called_at(copy, at), "prefill", prefill, {id}));
      at += 15 * us + p.copy_us * us;
    }
    if (p.other_prefill) {  // launched before, runs while this one waits
      const std::uint64_t other = ++stages_;
      kernel("prefill", other, {555}, at - 50 * us, at - 40 * us, at + 12 * ms);
      stage("prefill", at - 60 * us, at - 30 * us, other, {555}, 50);
    }
    const std::int64_t starts = at + (p.other_prefill ? 12 * ms : 5 * us + p.delay_us * us);
    kernel("prefill", prefill, {id}, at, starts, starts + p.prefill_us * us);
    if (p.low_clock) {
      events_.push_back(sample::counter("GPU 0 memory clock MHz", 0, 1));
      events_.push_back(sample::counter("GPU 0 SM clock MHz", 0, 1980));
      events_.push_back(sample::counter("GPU 0 SM clock MHz", starts - 1, 660));
      events_.push_back(sample::counter("GPU 0 SM clock MHz", starts + p.prefill_us * us, 1980));
    }
    call("cuStreamSynchronize", "prefill", prefill, {id}, at + 6 * us, starts + p.prefill_us * us + 5 * us);
    at = starts + p.prefill_us * us + 10 * us;
    stage("prefill", begin, at, prefill, {id}, 50);
    for (int k = 0; k < 5; ++k) {
      if (k == 3 && p.hole_ms != 0) {
        if (p.checkpoint) {
          const std::uint64_t other = ++stages_;
          event e = placed(sample::stage("checkpoint", at, at + p.hole_ms * ms, other), "checkpoint", other, {});
          e.thread_id = 78;
          events_.push_back(e);
        }
        at += p.hole_ms * ms;
      }
      std::vector<std::uint64_t> mates = {id, 1000 + id};
      if (p.straggler) mates.push_back(9000);
      at = batch(mates, at + 50 * us, p.straggler ? 6000 * us : 700 * us);
    }
  }
};

struct answer {
  why_report report;
  std::string text, page;
  nlohmann::json json;
  const why_cause& first() const { return report.causes.at(0); }
};

answer why(const std::vector<event>& events, const std::function<std::uint32_t(const why_finder&)>& choose) {
  trace_analysis a;
  for (const event& e : events) a.add(e);
  const trace_results r = a.finish();
  clock_log clocks;
  for (const event& e : events) clocks.add(e);
  why_finder finder(a.log(), r, a.ioctls().switched(), clocks);
  answer w;
  w.report = finder.find(choose(finder));
  w.text = why_text(w.report, 100, false);
  w.json = nlohmann::json::parse(why_json({w.report}))["requests"][0];
  w.page = why_html({w.report}, "server");
  return w;
}

/// Request 77 is the slowest (but for those that share the straggler's batches); its first cause is the part
/// `expected`, and all three forms say so, with `words`.
answer planted(const plan& p, request_part expected, std::int64_t least_excess_ns,
               const std::vector<std::string>& words) {
  server s(p);
  const answer w = why(s.events(), [&](const why_finder& f) { return f.by_latency().at(p.straggler ? 2 : 0); });
  CAPTURE(w.text);
  CHECK(w.report.name == "77");
  CHECK(w.report.rank == (p.straggler ? 3 : 1));  // 9000 and 9001 live longer
  CHECK(w.report.requests >= 200);
  REQUIRE(!w.report.causes.empty());
  CHECK_MESSAGE(w.first().is == expected, name_of(w.first().is));
  CHECK(w.first().unusual);
  CHECK(w.first().excess_ns() >= least_excess_ns);
  std::int64_t sum = 0;
  for (const std::int64_t ns : w.report.account.ns) sum += ns;
  CHECK(sum == w.report.account.span.length_ns());
  CHECK(w.json["causes"][0]["part"] == name_of(expected));
  CHECK(w.json["causes"][0]["excess_ns"] == w.first().excess_ns());
  const std::string said = w.json["causes"][0]["what"].get<std::string>();
  std::string flat;  // the text without its line breaks
  for (const char c : w.text)
    if ((c != ' ' && c != '\n') || (!flat.empty() && flat.back() != ' ')) flat += c == '\n' ? ' ' : c;
  CHECK(flat.find(said) != std::string::npos);
  CHECK(w.page.find(why_page::html_text(said)) != std::string::npos);
  for (const std::string& one : words) CHECK_MESSAGE(said.find(one) != std::string::npos, said, " lacks ", one);
  return w;
}

}  // namespace

TEST_CASE("samples of a clock in a file, where counters have no device, are of the GPU that their name gives") {
  clock_log clocks;
  clocks.add(sample::counter("GPU 0 SM clock MHz", 0, 1980));
  clocks.add(sample::counter("GPU 11 SM clock MHz", 0, 660));
  clocks.add(sample::counter("GPU x SM clock MHz", 0, 5));
  clocks.add(sample::counter("my SM clock MHz", 0, 5));
  CHECK(clocks.mean_mhz(0, {10, 20}) == 1980);
  CHECK(clocks.mean_mhz(11, {10, 20}) == 660);
}

TEST_CASE("analysis.why: a long queue") {
  plan p;
  p.queue_ms = 25;
  planted(p, request_part::span, 23 * ms, {"It waited in \"queue_wait\" (server.cpp:10) 25.0 ms"});
}

TEST_CASE("analysis.why: code of the program before a launch") {
  plan p;
  p.own_us = 15000;
  planted(p, request_part::own_code, 14 * ms, {"\"prefill\" (server.cpp:50) 15.", "usually 10"});
}

TEST_CASE("analysis.why: a GPU whose clock was low while the request's kernels ran") {
  plan p;
  p.prefill_us = 15000;
  p.low_clock = true;
  const answer w = planted(p, request_part::gpu_alone, 12 * ms, {"clock was at 660 MHz then, at 1,9"});
  CHECK(w.json["causes"][0]["clock_mhz"] == 660);
  CHECK(w.text.find("the GPU's clocks (no records") == std::string::npos);
  plan usual;
  usual.prefill_us = 15000;
  const answer other = planted(usual, request_part::gpu_alone, 12 * ms, {});
  CHECK(other.json["causes"][0]["clock_mhz"] == 0);
  CHECK(other.text.find("the GPU's clocks (no records") != std::string::npos);
}

TEST_CASE("analysis.why: a host whose thread was switched out") {
  plan p;
  p.own_us = 15000;
  p.preempted = true;
  const answer w = planted(p, request_part::own_code, 14 * ms, {"switched out for 15.0 ms"});
  CHECK(w.report.not_looked_at.size() == 2);  // not a third one: the trace has scheduler events
  p.preempted = false;
  const std::vector<std::string> missing = planted(p, request_part::own_code, 14 * ms, {}).report.not_looked_at;
  REQUIRE(missing.size() == 3);
  // `ebpf` alone has no scheduler events, and with --kernel no requests.
  CHECK(missing[0].find("cutrace run --method all") != std::string::npos);
}

TEST_CASE("analysis.why: another request's prefill in the way") {
  plan p;
  p.other_prefill = true;
  const answer w =
      planted(p, request_part::behind_others, 11 * ms, {"\"prefill\" (server.cpp:50) of request 555 12.0 ms"});
  CHECK(w.json["causes"][0]["shares"][0]["requests"][0] == "555");
}

TEST_CASE("analysis.why: its own kernel is slow") {
  plan p;
  p.prefill_us = 12000;
  planted(p, request_part::gpu_alone, 11 * ms, {"\"gemm of stage prefill\" (server.cpp:50) 12.0 ms, usually"});
}

TEST_CASE("analysis.why: pageable copies") {
  plan p;
  p.copy_us = 9000;
  p.pageable = true;
  planted(p, request_part::copy, 9 * ms, {"\"pageable copy HtoD of stage prefill\" (server.cpp:50) 9.00 ms."});
}

TEST_CASE("analysis.why: allocation") {
  plan p;
  p.call = "cuMemAlloc_v2";
  p.call_us = 8000;
  planted(p, request_part::allocation, 8 * ms, {"\"cuMemAlloc_v2 of stage prefill\" (server.cpp:50) 8.00 ms"});
}

TEST_CASE("analysis.why: a wait for other work, and another call") {
  plan p;
  p.call = "cuCtxSynchronize";
  p.call_us = 9000;
  planted(p, request_part::waiting, 8 * ms, {"\"cuCtxSynchronize of stage prefill\" (server.cpp:50) 9.00 ms"});
  p.call = "cuModuleLoadData";
  planted(p, request_part::other_calls, 8 * ms, {"\"cuModuleLoadData of stage prefill\" (server.cpp:50) 9.00 ms"});
}

TEST_CASE("analysis.why: a GPU that starts late although it is idle") {
  plan p;
  p.delay_us = 7000;
  planted(p, request_part::launch_delay, 6 * ms, {"\"prefill\" (server.cpp:50) 7.0"});
}

TEST_CASE("analysis.why: a batch mate whose batches are slow everywhere") {
  plan p;
  p.straggler = true;
  const answer w = planted(
      p, request_part::gpu_batch, 25 * ms,
      {"\"decode\" (server.cpp:80) 30.0 ms in 5 pieces, usually 3.50 ms", "Request 9000 took part in 5 of them"});
  REQUIRE(w.first().mates.size() == 1);  // not 1077, which is in no batch without request 77
  CHECK(w.first().mates[0].name == "9000");
}

/// Request 7 of 31, with the events that `add` gives it; the others are a decode step each. `add(builder, time)`.
template <class Add>
answer seventh(Add&& add) {
  builder b;
  for (std::int64_t r = 0; r < 30; ++r) b.batch({100 + static_cast<std::uint64_t>(r)}, r * 100 * ms, 1 * ms);
  add(b, 3000 * ms);
  return why(b.events(), [](const why_finder& f) {
    for (const std::uint32_t r : f.by_latency())
      if (f.name_of_request(r) == "7") return r;
    return f.by_latency().at(0);
  });
}

TEST_CASE("analysis.why: what was in the way has the name of its own stage, kernel and process") {
  enum { other_process, without_stage, in_turn };
  const auto of = [](int kind) {
    return seventh([&](builder& b, std::int64_t at) {
      const std::uint64_t own = ++b.stages_;
      b.kernel("decode", own, {7}, at, at + 12 * ms, at + 13 * ms);
      b.stage("decode", at - 1 * us, at + 10 * us, own, {7}, 80);
      const auto other = [&](const char* kernel, std::int64_t from, std::int64_t to) {
        return sample::called_at(sample::kernel(kernel, from, to, ++b.correlation_, 9), at - 100 * us);
      };
      if (kind == without_stage) {
        b.events_.push_back(other("tiny_fill", at + 10 * us, at + 20 * us));
        b.events_.push_back(other("huge_gemm", at + 20 * us, at + 12 * ms));
      }
      for (const char* name : {"heartbeat", "train_step"}) {
        if (kind != other_process) continue;
        const bool first = name[0] == 'h';
        const std::uint64_t id = ++b.stages_;
        event work = other("gemm", first ? at + 10 * us : at + 20 * us, first ? at + 20 * us : at + 12 * ms);
        event stage = sample::stage(name, at - 110 * us, at - 90 * us, id);
        for (event* e : {&work, &stage}) {
          *e = b.placed(*e, name, id, {});
          e->process_id = e->thread_id = e->context = 5151;
          b.events_.push_back(*e);
        }
      }
      for (std::int64_t i = 0; kind == in_turn && i < 36; ++i)
        b.events_.push_back(b.placed(other("gemm", at + i * 300 * us + 10 * us, at + i * 300 * us + 310 * us), "decode",
                                     ++b.stages_, {500 + static_cast<std::uint64_t>(i % 12)}));
    });
  };
  const answer process = of(other_process), kernel = of(without_stage), turns = of(in_turn);
  for (const answer* w : {&process, &kernel, &turns}) {
    CAPTURE(w->text);
    CHECK(w->first().is == request_part::behind_others);
    REQUIRE(w->first().shares.size() >= 2);
  }
  CHECK(process.first().shares[0].name == "train_step of process 5151");
  CHECK(process.first().shares[0].ns == 11980 * us);
  CHECK(process.first().shares[1].name == "heartbeat of process 5151");
  CHECK(process.first().shares[1].ns == 10 * us);
  CHECK(kernel.first().shares[0].name == "huge_gemm");
  CHECK(kernel.first().shares[1].name == "tiny_fill");
  CHECK(turns.first().shares[0].count == 3);  // of one request, though eleven others came in between
}

TEST_CASE("analysis.why: a launch is not late while the GPU is busy") {
  const answer w = seventh([](builder& b, std::int64_t at) {
    b.events_.push_back(
        sample::called_at(sample::kernel("other", at, at + 20 * ms, ++b.correlation_, 9), at - 10 * us));
    const std::uint64_t behind = ++b.stages_, late = ++b.stages_;
    b.kernel("prefill", behind, {7}, at + 1 * us, at + 20 * ms, at + 21 * ms);
    b.stage("prefill", at, at + 10 * us, behind, {7}, 50);
    b.kernel("decode", late, {7}, at + 22 * ms, at + 32 * ms, at + 33 * ms);
    b.stage("decode", at + 22 * ms - 1 * us, at + 22 * ms + 10 * us, late, {7}, 80);
  });
  for (const why_cause& c : w.report.causes) {
    if (c.is != request_part::launch_delay) continue;
    REQUIRE(!c.shares.empty());
    CHECK(c.shares[0].name == "decode");
    CHECK(c.shares[0].ns == c.ns);
    return;
  }
  FAIL("no launch_delay");
}

TEST_CASE("analysis.why: a mate whose batches are slow with this request only is no reason") {
  const answer w = seventh([](builder& b, std::int64_t at) {
    for (std::int64_t k = 0; k < 20; ++k) b.batch({8, 9}, at + k * 20 * ms, 1 * ms);
    b.batch({7, 8}, at + 1000 * ms, 15 * ms);
    b.batch({8, 9}, at + 1020 * ms, 1 * ms);
  });
  CAPTURE(w.text);
  CHECK(w.first().is == request_part::gpu_batch);
  CHECK(w.first().mates.empty());
}

TEST_CASE("analysis.why: work without times is no GPU time of its stage or batch") {
  const auto of_seventh = [](bool unfinished) {
    return seventh([&](builder& b, std::int64_t at) {
      const std::uint64_t id = ++b.stages_;
      b.kernel("decode", id, {7, 8}, at + 1 * us, at + 10 * us, at + 20 * us);
      if (unfinished) {
        b.kernel("decode", id, {7, 8}, at + 30 * us, at + 30 * us, at + 900 * ms);
        b.events_.back().incomplete = true;
      }
      b.stage("decode", at, at + 50 * us, id, {7, 8}, 80);
    });
  };
  const auto gpu_ns = [](const answer& w) {
    std::int64_t ns = w.report.rows.at(0).gpu_ns;
    for (const why_cause& c : w.report.causes)
      if (c.is == request_part::gpu_batch) ns += c.shares.at(0).ns;
    return ns;
  };
  CHECK(gpu_ns(of_seventh(false)) == 20 * us);
  CHECK(gpu_ns(of_seventh(true)) == 20 * us);
}

TEST_CASE("analysis.why: a stage continued on another thread counts there, too") {
  const auto with_part = [](builder& b, std::uint64_t request, std::int64_t at, std::int64_t part_ns) {
    const std::uint64_t id = ++b.stages_, last = ++b.stages_;
    b.stage("handle", at, at + 200 * us, id, {request}, 10);
    b.stage("handle", at + 100 * us, at + 100 * us + part_ns, id, {request}, 10);
    b.events_.back().stage.adopted = true;
    b.events_.back().thread_id = sample::worker_thread;
    b.stage("respond", at + part_ns + 1 * ms, at + part_ns + 1500 * us, last, {request}, 20);
  };
  const answer own = seventh([&](builder& b, std::int64_t at) {
    with_part(b, 200, at, 1 * ms);
    with_part(b, 7, at + 100 * ms, 50 * ms);
    with_part(b, 201, at + 200 * ms, 1 * ms);
  });
  CAPTURE(own.text);
  CHECK(own.first().is == request_part::own_code);
  REQUIRE(!own.first().shares.empty());
  CHECK(own.first().shares[0].name == "handle");
  CHECK(own.first().shares[0].ns == 50200 * us);
  CHECK(own.first().shares[0].typical_ns == 1200 * us);
  CHECK(own.report.rows[0].host_ns == 50100 * us);
  const answer hole = seventh([&](builder& b, std::int64_t at) { with_part(b, 7, at, 50 * ms); });
  for (const why_cause& c : hole.report.causes)
    if (c.is == request_part::between) CHECK(c.shares.at(0).ns == 900 * us);
}

TEST_CASE("analysis.why: a sentence names something, however evenly the time is spread") {
  std::vector<std::string> names;
  for (int i = 0; i < 25; ++i) names.push_back("kernel_" + std::to_string(i));
  const answer w = seventh([&](builder& b, std::int64_t at) {
    const std::uint64_t id = ++b.stages_;
    for (std::int64_t i = 0; i < 25; ++i) {
      const std::int64_t from = at + 100 * us + i * 2 * ms;
      b.kernel("forward", id, {7}, at + i * us, from, from + 2 * ms);
      b.events_.back().name = sample::text_of(names[static_cast<std::size_t>(i)]);
    }
    b.stage("forward", at, at + 60 * us, id, {7}, 30);
  });
  CAPTURE(w.text);
  CHECK(w.first().is == request_part::gpu_alone);
  CHECK(w.json["causes"][0]["what"].get<std::string>().find("Its own kernels: \"kernel_") == 0);
}

TEST_CASE("analysis.why: nothing of it is open, and what another thread does meanwhile") {
  plan p;
  p.hole_ms = 20;
  p.checkpoint = true;
  planted(p, request_part::between, 19 * ms,
          {"longest between \"decode -> decode\" 20.", "Meanwhile: \"checkpoint\" for 20.0 ms on thread 78"});
}

TEST_CASE("analysis.why: a usual request has no cause") {
  server s{plan()};
  const answer w = why(s.events(), [](const why_finder& f) { return f.by_latency().at(100); });
  CHECK(w.text.find("no part of it took longer than in 90 % of the others") != std::string::npos);
  CHECK(w.json["ended"] == true);
  const answer alone =
      why({s.events().begin(), s.events().begin() + 3}, [](const why_finder& f) { return f.by_latency().at(0); });
  CHECK(alone.report.cohort == 0);
  CHECK(alone.text.find("there is no other request to compare it with") != std::string::npos);
}

TEST_CASE("analysis.why: what was not recorded is no cause, and a stage without an end was open in between") {
  std::vector<event> events;
  std::deque<std::vector<request_ref>> lists;
  const auto placed = [&](event e, std::uint64_t id, std::uint64_t request) {
    lists.push_back({sample::request_id(request)});
    return sample::in_stage(e, "prefill", id, lists.back().data(), 1);
  };
  for (std::uint64_t r = 1; r <= 20; ++r) {
    const std::int64_t at = static_cast<std::int64_t>(r) * 100 * ms;
    const bool slow_one = r == 7;
    const std::int64_t later = slow_one ? 9 * ms : 100 * us;
    events.push_back(placed(sample::api("cuLaunchKernel", at, at + 5 * us, 2 * r), r, r));
    events.push_back(placed(sample::api("cuLaunchKernel", at + later, at + later + 5 * us, 2 * r + 1), r, r));
    if (!slow_one) events.push_back(placed(sample::stage("prefill", at, at + later + 10 * us, r), r, r));
    if (slow_one)
      events.push_back(placed(sample::stage("respond", at + later + 20 * us, at + later + 30 * us, 1000), 1000, r));
    if (slow_one) events.push_back(placed(sample::stage("tokenize", at - 20 * us, at - 10 * us, 1001), 1001, r));
  }
  std::vector<event> in_windows = events;
  in_windows.push_back(sample::base(event_kind::window, "recorded", 0, 701 * ms));
  in_windows.push_back(sample::base(event_kind::window, "recorded", 708 * ms, 3000 * ms));
  for (std::vector<event>* list : {&events, &in_windows})
    std::stable_sort(list->begin(), list->end(), [](const event& a, const event& b) { return a.end_ns < b.end_ns; });
  const auto slowest = [](const why_finder& f) { return f.by_latency().at(0); };
  const answer open = why(events, slowest);
  CHECK(open.report.name == "7");
  CHECK(open.first().is == request_part::own_code);
  CHECK(open.report.account.unended);
  const answer hole = why(in_windows, slowest);
  CHECK(hole.report.account.time_ns(request_part::not_recorded) == 7 * ms);
  CHECK(hole.json["not_recorded_ns"] == 7 * ms);
  CHECK(hole.json["answer"].get<std::string>().find("7.00 ms of it were not recorded") != std::string::npos);
  for (const why_cause& c : hole.report.causes) CHECK(c.is != request_part::not_recorded);
  std::int64_t sum = 0;
  for (const std::int64_t ns : hole.report.account.ns) sum += ns;
  CHECK(sum == hole.report.account.span.length_ns());
}

TEST_CASE("analysis.why: parts of random traces' requests add up to their latency, as by a count of ticks") {
  using random_trace::tick;
  for (std::uint32_t seed = 1; seed <= (sanitized ? 10 : 60); ++seed) {
    CAPTURE(seed);
    const random_trace::trace t = random_trace::make(seed);
    trace_analysis a;
    for (const event& e : t.events) a.add(e);
    const trace_results r = a.finish();
    const request_index index(a.log()), without_calls(a.log(), {}, false);
    request_accounts accounts(index, r.requests), of_work(without_calls, r.requests);
    for (const request_cost& c : r.requests) {
      if (c.stages == 0) continue;
      const request_account account = accounts.of(c.request);
      REQUIRE(of_work.behind_others_ns(c.request) == account.time_ns(request_part::behind_others));
      const std::uint64_t id = a.log().stages().request_ids()[c.request];
      std::array<std::int64_t, request_part_count> counted{};
      for (std::int64_t at = c.span.start_ns / tick; at < c.span.end_ns / tick; ++at) {
        bool alone = false, batch = false, copies = false, waits = false, busy = false, open = false;
        bool calls[4] = {};
        std::vector<std::uint32_t> devices;
        for (const random_trace::stage& s : t.stages) {
          if (std::find(s.requests.begin(), s.requests.end(), id) == s.requests.end()) continue;
          open = open || (s.start <= at && at < s.end);
          for (const random_trace::part& p : t.parts) open = open || (p.stage == s.id && p.start <= at && at < p.end);
          for (const random_trace::work& w : t.works) {
            if (w.stage != s.id) continue;
            const bool runs = w.start <= at && at < w.end, kernel = w.kind == event_kind::kernel;
            alone = alone || (runs && kernel && s.requests.size() == 1);
            batch = batch || (runs && kernel && s.requests.size() > 1);
            copies = copies || (runs && !kernel);
            if (w.call != SIZE_MAX && t.calls[w.call].end <= at && at < w.start)
              waits = true, devices.push_back(w.device);
          }
          for (const random_trace::call& k : t.calls) {
            if (k.stage != s.id || !k.outermost || at < k.start || at >= k.end) continue;
            const auto has = [&](const char* part) { return k.name.find(part) != std::string::npos; };
            calls[has("MemAlloc")                           ? 0
                  : has("Synchronize") || has("MemcpyDtoH") ? 1
                  : has("Launch") || has("Memcpy")          ? 2
                                                            : 3] = true;
          }
        }
        for (const random_trace::work& w : t.works)
          busy = busy ||
                 (w.start <= at && at < w.end && std::find(devices.begin(), devices.end(), w.device) != devices.end());
        const request_part part = alone      ? request_part::gpu_alone
                                  : batch    ? request_part::gpu_batch
                                  : copies   ? request_part::copy
                                  : waits    ? (busy ? request_part::behind_others : request_part::launch_delay)
                                  : calls[0] ? request_part::allocation
                                  : calls[1] ? request_part::waiting
                                  : calls[2] ? request_part::launching
                                  : calls[3] ? request_part::other_calls
                                  : open     ? request_part::own_code
                                             : request_part::between;
        counted[static_cast<std::size_t>(part)] += tick;
      }
      for (std::size_t p = 0; p < request_part_count; ++p) {
        CAPTURE(name_of(static_cast<request_part>(p)));
        REQUIRE(account.ns[p] == counted[p]);
      }
    }
  }
}

}  // namespace analysis_why_test
