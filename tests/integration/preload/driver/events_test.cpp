// SPDX-License-Identifier: Apache-2.0
// GPU time by CUDA events on the stand-in driver: what is measured, that the rest is counted by cause, and that a
// program does not notice.
#include <doctest/doctest.h>

#include <set>

#include "../../run_command/run_support.hpp"

using run_support::jsonl_trace;
using run_support::run;

namespace {

using environment = std::map<std::string, std::string>;

/// Each kernel runs this long on the stand-in's own clock.
constexpr std::int64_t kernel_ns = 300000;
const environment usual = {{"CUTRACE_SIM_KERNEL_NS", std::to_string(kernel_ns)}};

run measured(const std::string& situation, environment e = usual) {
  if (e.count("CUTRACE_SIM_FAULTS") == 0) e["SUBJECT_AWAITS_EVENTS"] = "1";
  return run({"--method", "preload", "--gpu-events", "--sink", "jsonl"}, {EVENTS_SUBJECT, situation}, e);
}
run plain(const std::string& situation, const environment& e = usual) {
  return run({"--method", "preload", "--sink", "jsonl"}, {EVENTS_SUBJECT, situation}, e);
}

jsonl_trace trace_of(const run& r) {
  REQUIRE_MESSAGE(r.ended.exit_status == 0, r.ended.errors, r.ended.output);
  REQUIRE_MESSAGE(r.files(".jsonl").size() == 1, r.ended.errors);
  return jsonl_trace(r.files(".jsonl")[0]);
}

/// What the backend says of its measuring.
std::string note_of(const jsonl_trace& trace) {
  for (const nlohmann::json& n : trace.footer.at("notes"))
    if (n.get<std::string>().find("GPU times are those of CUDA events") != std::string::npos) return n;
  return {};
}

/// "12 while their stream ..." of the note: 12.
std::uint64_t count_of(const std::string& note, const std::string& cause) {
  const std::size_t at = note.find(" " + cause);
  if (at == std::string::npos) return 0;
  std::size_t begin = at;
  while (begin > 0 && note[begin - 1] >= '0' && note[begin - 1] <= '9') --begin;
  return std::stoull(note.substr(begin, at - begin));
}

const char* const causes[] = {"while their stream was captured",
                              "before the events of their context",
                              "with all events in flight",
                              "to which the driver refused",
                              "in more contexts than are kept",
                              "whose events failed",
                              "whose context ended",
                              "not done, or called, at the end",
                              "of threads without a current context"};

std::uint64_t missing(const std::string& note) {
  std::uint64_t n = 0;
  for (const char* cause : causes) n += count_of(note, cause);
  return n;
}

std::vector<nlohmann::json> work_of(const jsonl_trace& trace) {
  std::vector<nlohmann::json> all;
  for (const char* kind : {"kernel", "memcpy", "memset", "graph_launch"})
    for (const nlohmann::json& e : trace.of(kind)) all.push_back(e);
  return all;
}

/// Calls that succeeded and gave the GPU something to do.
std::size_t calls_of(const jsonl_trace& trace) {
  std::size_t n = 0;
  for (const nlohmann::json& e : trace.of("api")) {
    const std::string name = e.at("name");
    for (const char* one : {"cuLaunchKernel", "cuMemcpy", "cuMemset", "cuGraphLaunch"})
      n += name.rfind(one, 0) == 0 && e.at("result") == 0;
  }
  return n;
}

/// Each call that `calls_of` counts is measured, or counted by the cause why it is not.
void check_account(const jsonl_trace& trace) {
  const std::string note = note_of(trace);
  CAPTURE(note);
  REQUIRE_FALSE(note.empty());
  CHECK(trace.complete());
  CHECK(work_of(trace).size() == count_of(note, "measured"));
  CHECK(work_of(trace).size() + missing(note) == calls_of(trace));
}

}  // namespace

TEST_CASE("a program prints and returns the same, measured or not") {
  for (const char* situation :
       {"streams", "capture", "contexts", "state", "crowd", "threads", "no_context", "forks", "leaves"}) {
    CAPTURE(std::string(situation));
    const environment quick = {{"CUTRACE_SIM_KERNEL_NS", "20000"}};
    const run with = measured(situation, quick), without = plain(situation, quick);
    CHECK(with.ended.exit_status == without.ended.exit_status);
    CHECK(with.ended.output == without.ended.output);
    CHECK(with.ended.output.find("worked\n") != std::string::npos);
    check_account(trace_of(with));
    CHECK(work_of(trace_of(without)).empty());
  }
}

TEST_CASE(
    "work is reported with its call, its stream and what the call says of it; its measured time is never too short") {
  const jsonl_trace trace = trace_of(measured("streams"));
  check_account(trace);
  std::map<std::uint64_t, nlohmann::json> calls;
  for (const nlohmann::json& e : trace.of("api")) calls[e.at("correlation")] = e;
  std::set<std::uint64_t> kernel_streams, reported;
  std::map<std::uint64_t, std::int64_t> last_end;
  std::size_t kernels = 0, own_default = 0;
  for (const nlohmann::json& e : work_of(trace)) {
    CHECK(e.at("by_events") == true);
    CHECK_FALSE(e.contains("skewed"));
    CHECK(e.at("device") == 0);
    REQUIRE(calls.count(e.at("correlation")) == 1);
    CHECK(reported.insert(e.at("correlation").get<std::uint64_t>()).second);
    const nlohmann::json& call = calls[e.at("correlation")];
    CHECK(e.at("call") == call.at("name"));
    CHECK(e.at("tid") == call.at("tid"));
    if (call.contains("bytes")) CHECK(e.at("bytes") == call.at("bytes"));
    if (e.contains("bytes"))
      CHECK(e.at("async") == (call.at("name").get<std::string>().find("Async") != std::string::npos));
    if (e.at("type") == "memset") CHECK(e.at("value") == call.at("args").at("uc"));
    if (e.at("type") != "kernel") continue;
    ++kernels;
    CHECK(e.at("name") == "empty");
    CHECK(e.at("dur_ns") >= kernel_ns - 100);  // 100 ns for rounding: events give milliseconds as float
    kernel_streams.insert(e.at("stream").get<std::uint64_t>());
    CHECK(e.at("grid").at(0) == call.at("args").at("gridDimX"));
    CHECK(e.at("block").at(0) == call.at("args").at("blockDimX"));
    own_default += e.at("grid").at(0) == 7;
    // One after the other on a stream.
    const std::int64_t start = e.at("ts_ns"), end = start + e.at("dur_ns").get<std::int64_t>();
    std::int64_t& before = last_end[e.at("stream").get<std::uint64_t>()];
    CHECK(start >= before - 1000);
    before = end;
  }
  CHECK(kernels >= 8);
  CHECK(own_default == 1);
  CHECK(kernel_streams.size() == 4);  // two made, the legacy one, the thread's own
}

TEST_CASE("a capture goes on undisturbed and holds nothing of ours, and replays are measured as one") {
  const run r = measured("capture");
  CHECK(r.ended.output == "5 nodes\nthe legacy stream: 1\nends: 0\nworked\n");
  const jsonl_trace trace = trace_of(r);
  check_account(trace);
  CHECK(count_of(note_of(trace), causes[0]) == 7);
  const auto replays = trace.of("graph_launch");
  REQUIRE(replays.size() == 3);
  for (const nlohmann::json& e : replays) CHECK(e.at("dur_ns") >= 5 * kernel_ns - 100);
}

TEST_CASE("contexts come and go") {
  const jsonl_trace trace = trace_of(measured("contexts"));
  check_account(trace);
  std::set<std::uint64_t> seen;
  for (const nlohmann::json& e : work_of(trace)) seen.insert(e.at("context").get<std::uint64_t>());
  CHECK(seen.size() >= 8);
  CHECK(count_of(note_of(trace), causes[4]) == 0);  // those that have ended make room
}

TEST_CASE("calls that come while the trace ends are counted") {
  const jsonl_trace trace = trace_of(measured("goes_on", {{"CUTRACE_SIM_KERNEL_NS", "20000"}}));
  check_account(trace);
  CHECK(count_of(note_of(trace), causes[7]) > 0);
}

TEST_CASE("a copy between two GPUs names both") {
  environment e = usual;
  e["CUTRACE_SIM_DEVICES"] = "2";
  for (const char* situation : {"peers", "unseen_peer"}) {
    CAPTURE(std::string(situation));
    const jsonl_trace trace = trace_of(measured(situation, e));
    check_account(trace);
    const auto copies = trace.of("memcpy");
    REQUIRE(copies.size() == 2);
    for (const nlohmann::json& c : copies) {
      CHECK(c.at("direction") == "PtoP");
      CHECK(c.at("device") == 1);
      CHECK(c.at("source_device") == 0);
      CHECK(c.at("destination_device") == 1);
    }
  }
}

TEST_CASE("launches of a thread without a current context are counted") {
  const jsonl_trace trace = trace_of(measured("no_context"));
  check_account(trace);
  CHECK(count_of(note_of(trace), causes[8]) == 10);
  CHECK(work_of(trace).size() == 5);
}

TEST_CASE("events are bounded: what finds none is counted") {
  const jsonl_trace trace = trace_of(measured("crowd"));
  check_account(trace);
  CHECK(count_of(note_of(trace), causes[2]) > 0);
  CHECK(work_of(trace).size() > 1000);
}

TEST_CASE(
    "a program that leaves by _exit while the GPU is busy: what is not done is counted, within the time there is") {
  const run r = measured("quits");
  CHECK(r.ended.errors.find("did not stop within its deadline") == std::string::npos);
  const jsonl_trace trace = trace_of(r);
  check_account(trace);
  CHECK(work_of(trace).size() > 0);
  CHECK(count_of(note_of(trace), causes[7]) > 0);
}

TEST_CASE("a driver that refuses events, or fails later, costs their times alone") {
  for (const std::string fault :
       {"cuEventCreate=2", "cuEventRecord=400", "cuEventRecord=400@3", "cuEventQuery=999", "cuEventElapsedTime_v2=1",
        "cuCtxGetDevice=1", "cuCtxGetId=1", "cuStreamIsCapturing=900", "cuThreadExchangeStreamCaptureMode=1"}) {
    CAPTURE(fault);
    environment e = usual;
    e["CUTRACE_SIM_FAULTS"] = fault;
    const run r = measured("streams", e), before = plain("streams", e);
    CHECK(r.ended.exit_status == before.ended.exit_status);
    CHECK(r.ended.output == before.ended.output);
    if (r.ended.exit_status != 0) continue;
    const jsonl_trace trace = trace_of(r);
    CHECK(trace.complete());
    if (fault.find('@') == std::string::npos) CHECK(work_of(trace).size() == 0);
  }
}

TEST_CASE("stages and requests reach measured work") {
  const run r({"--method", "preload", "--gpu-events", "--sink", "jsonl"}, {STAGES_SUBJECT},
              {{"SUBJECT_AWAITS_EVENTS", "1"}});
  const jsonl_trace trace = trace_of(r);
  const auto kernels = trace.of("kernel");
  REQUIRE(kernels.size() == 30);
  for (const nlohmann::json& e : kernels) {
    CHECK(e.at("stage") == "work");
    REQUIRE(e.contains("requests"));
    CHECK(e.at("requests").size() == 1);
    CHECK(e.at("attribution") == "by_call");
  }
}

TEST_CASE("the other method has the GPU's own times, and refuses this") {
  CHECK(run({"--gpu-events"}, {"/bin/true"}).ended.exit_status == 125);
}
