// SPDX-License-Identifier: Apache-2.0
// `cutrace run --method all` on the stand-in driver: one trace of each process, in which each call stands once, whoever
// saw it, and the program notices nothing.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "../run_command/run_support.hpp"

namespace {

using nlohmann::json;
using run_support::jsonl_trace;
using run_support::run;

constexpr std::uint64_t own_numbers = std::uint64_t{1} << 52;  ///< of calls that probes alone saw

run traced(const std::vector<std::string>& program, std::vector<std::string> options = {},
           std::map<std::string, std::string> environment = {}) {
  std::vector<std::string> words{SUBJECT};
  words.insert(words.end(), program.begin(), program.end());
  options.insert(options.end(), {"--method", "all", "--sink", "jsonl"});
  return run(options, words, std::move(environment));
}

jsonl_trace trace_of(const run& r) {
  REQUIRE_MESSAGE(r.files(".jsonl").size() == 1, r.ended.errors);
  return jsonl_trace(r.files(".jsonl")[0]);
}

std::string counts_of(const jsonl_trace& t) {
  for (const json& note : t.footer.at("notes"))
    if (note.get<std::string>().find("calls in both") != std::string::npos) return note;
  return {};
}

TEST_CASE("eight threads: each call once, by CUPTI's number, with its thread; each kernel by the number of its call") {
  for (const std::string links : {"session", "pair"}) {
    CAPTURE(links);
    const run r = traced({"threads", "8", "1000"}, {"--strict"}, {{"CUTRACE_EBPF_LINKS", links}});
    CAPTURE(r.ended.errors);
    REQUIRE(r.ended.exit_status == 0);
    CHECK(r.ended.output == "done\n");
    const jsonl_trace t = trace_of(r);
    CHECK(t.complete());
    std::map<long, long> launches;
    std::set<std::uint64_t> numbers, of_launches;
    std::size_t calls = 0, probed_alone = 0;
    for (const json& e : t.of("api")) {
      ++calls;
      const std::uint64_t number = e.at("correlation");
      numbers.insert(number);
      CHECK(e.count("joined") == 0);
      probed_alone += number >= own_numbers;
      if (e.at("name") != "cuLaunchKernel") continue;
      CHECK(number < own_numbers);
      of_launches.insert(number);
      ++launches[e.at("tid").get<long>()];
    }
    CHECK(numbers.size() == calls);
    CHECK(launches.size() == 8);
    for (const auto& [thread, n] : launches) CHECK(n == 1000);
    std::set<std::uint64_t> of_kernels;
    for (const json& e : t.of("kernel")) of_kernels.insert(e.at("correlation").get<std::uint64_t>());
    CHECK(of_kernels == of_launches);
    // All calls that CUPTI saw have a probe on them; probes see those, too, that CUPTI is not asked for.
    const std::string counts = counts_of(t);
    CAPTURE(counts);
    CHECK(counts.find(", 0 only by CUPTI") != std::string::npos);
    CHECK(r.says(counts));
    CHECK(t.footer.at("delivered") == t.footer.at("produced"));
    CHECK(probed_alone > 0);
    CHECK(calls > 8000);
    CHECK(r.file_count() == 1);
  }
}

TEST_CASE("ioctls and nested calls name the call that they were made in, by CUPTI's number") {
  constexpr std::uint64_t inner_bit = 1u << 30;
  const run r = traced({"nested", "8", "250"}, {"--strict"}, {{"CUTRACE_IOCTL_DEVICES", "control=1:3"}});
  CAPTURE(r.ended.errors);
  REQUIRE(r.ended.exit_status == 0);
  CHECK(r.ended.output == "done\n");
  const jsonl_trace t = trace_of(r);
  CHECK(t.complete());
  std::map<std::uint64_t, json> calls;
  for (const json& e : t.of("api")) calls[e.at("correlation").get<std::uint64_t>()] = e;
  std::map<std::uint64_t, json> kernels;  // whose grid is the number of the launch
  for (const json& e : t.of("kernel")) kernels[e.at("correlation").get<std::uint64_t>()] = e;
  std::size_t inner = 0;
  std::map<std::uint64_t, std::size_t> objects;
  for (const json& e : t.of("ioctl")) {
    const std::uint64_t object = std::stoull(e.at("object").get<std::string>(), nullptr, 16);
    ++objects[object];
    REQUIRE(e.contains("enclosing"));
    const json* call = &calls.at(e.at("enclosing").get<std::uint64_t>());
    CHECK(call->at("tid") == e.at("tid"));
    CHECK(call->at("correlation") < own_numbers);
    if ((object & inner_bit) != 0) {
      ++inner;
      CHECK(call->at("name") == "cuCtxSynchronize");
      REQUIRE(call->contains("enclosing"));
      call = &calls.at(call->at("enclosing").get<std::uint64_t>());
    }
    CHECK(call->at("name") == "cuLaunchKernel");
    CHECK(kernels.at(call->at("correlation").get<std::uint64_t>()).at("grid")[0] == (object & ~inner_bit));
  }
  CHECK(objects.size() == 4000);
  CHECK(inner == 2000);

  const run text(run::line{{CUTRACE_COMMAND, "report", r.files(".jsonl")[0]}});
  CHECK(text.ended.output.find("TIME PER LAYER, BY THREAD") != std::string::npos);
  CHECK(text.ended.output.find("NV_ESC_RM_CONTROL") != std::string::npos);
  const run forms(run::line{{CUTRACE_COMMAND, "report", "--json", "--csv", "tables", r.files(".jsonl")[0]}});
  const json report = json::parse(forms.ended.output);
  REQUIRE(report.at("ioctls").size() == 1);
  CHECK(report["ioctls"][0].at("count") == 4000);
  CHECK(report["ioctls"][0].at("in_calls") == 4000);
  CHECK(report["ioctls"][0].at("failed") == 4000);  // the null device knows no ioctl
  CHECK(report["ioctls"][0].at("of_call") == 2000);
  CHECK(report.at("thread_layers").size() == 9);
  for (const char* table : {"thread_layers", "stage_layers", "ioctls", "driver_objects"})
    CHECK(std::filesystem::exists(forms.folder.file((std::string("tables/") + table + ".csv").c_str())));
}

#if defined(INFERENCE_SERVER)
TEST_CASE("a program that has a session of its own, with CUPTI's callbacks in it") {
  const run r({"--method", "all", "--sink", "jsonl"}, {INFERENCE_SERVER, "--device", "cuda", "--requests", "3"});
  CAPTURE(r.ended.errors);
  REQUIRE(r.ended.exit_status == 0);
  const jsonl_trace t = trace_of(r);
  const std::string counts = counts_of(t);
  CAPTURE(counts);
  CHECK(counts.find(", 0 only by CUPTI") != std::string::npos);
  std::size_t launches = 0;
  for (const json& e : t.of("api")) {
    if (e.at("name") != "cuLaunchKernel") continue;
    ++launches;
    CHECK(e.at("correlation").get<std::uint64_t>() < own_numbers);
    CHECK(e.contains("stage"));
  }
  CHECK(launches > 0);
  CHECK(t.of("kernel").size() == launches);
}
#endif

TEST_CASE("correlation ids that wrap at 2^32 are joined all the same") {
  const run r = traced({"work", "500"}, {"--strict"}, {{"CUTRACE_SIM_FAULTS", "correlation=4294967100"}});
  CAPTURE(r.ended.errors);
  CHECK(r.ended.exit_status == 0);
  const jsonl_trace t = trace_of(r);
  CHECK(t.count("api", "cuLaunchKernel") >= 500);
  CHECK(t.count("api", "cuLaunchKernel") <= 501);  // number 0 is none, so that this call has no partner
  CHECK(counts_of(t).find(" 1 only by CUPTI") != std::string::npos);
  std::set<std::uint64_t> numbers;
  for (const json& e : t.of("api"))
    if (e.contains("correlation") && e["correlation"] < own_numbers)
      numbers.insert(e["correlation"].get<std::uint64_t>() >> 32);
  CHECK(numbers.size() == 2);  // both sides of the wrap
}

TEST_CASE("children have joined traces of their own; a report and other forms are written as by CUPTI alone") {
  const run r = traced({"children", "20"}, {"--sink", "ascii,chrome", "--strict"});
  CAPTURE(r.ended.errors);
  CHECK(r.ended.exit_status == 0);
  std::multiset<std::size_t> launches;
  for (const std::string& file : r.files(".jsonl")) {
    const jsonl_trace t(file);
    CHECK(t.complete());
    CHECK(counts_of(t).find(", 0 only by CUPTI") != std::string::npos);
    launches.insert(t.count("api", "cuLaunchKernel"));
    CHECK(t.of("kernel").size() == t.count("api", "cuLaunchKernel"));
  }
  CHECK(launches == std::multiset<std::size_t>{20, 21, 22});
  CHECK(r.files(".txt").size() == 3);
  CHECK(r.files(".json").size() == 3);
  CHECK(r.says("WHERE THE TIME WENT"));
  const run alone = traced({"children", "20"}, {"--children", "off", "--quiet"});
  CHECK(trace_of(alone).count("api", "cuLaunchKernel") == 20);
  CHECK(alone.ended.errors == "");
}

TEST_CASE(
    "a program that executes another one after using CUDA has both traces, and that they are not joined is said") {
  const run r = traced({"exec", "30"});
  CAPTURE(r.ended.errors);
  CHECK(r.ended.exit_status == 0);
  CHECK(r.says("executed another program after it had used CUDA"));
  std::size_t kernels = 0;
  for (const std::string& file : r.files(".jsonl")) kernels += jsonl_trace(file).of("kernel").size();
  CHECK(kernels >= 30);
}

TEST_CASE("the program's end is its own") {
  CHECK(traced({"exit", "7"}, {"--quiet"}).ended.exit_status == 7);
  CHECK(traced({"signal", "6"}, {"--quiet"}).ended.signal == 6);
  const run nothing = traced({"none"});
  CHECK(nothing.ended.exit_status == 0);
  CHECK(nothing.ended.output == "done\n");
  CHECK(nothing.says("nothing was traced"));
}

TEST_CASE(
    "without the right to load BPF programs there are CUPTI and ptrace, which says that its ioctls name no call") {
  const run r(
      run::line{{"/bin/sh", "-c",
                 "CUTRACE_IOCTL_DEVICES=control=1:3 exec setpriv --bounding-set=-all --inh-caps=-all " CUTRACE_COMMAND
                 " run --out out --method all --sink jsonl -- " SUBJECT " nested 2 50"}});
  CAPTURE(r.ended.errors);
  REQUIRE(r.ended.exit_status == 0);
  CHECK(r.ended.output == "done\n");
  CHECK(r.says("Operation not permitted"));
  CHECK(r.says("ioctls are traced by ptrace, which does not see the calls that made them"));
  const jsonl_trace t = trace_of(r);
  CHECK(t.complete());
  CHECK(t.count("api", "cuLaunchKernel") == 100);
  CHECK(t.of("kernel").size() == 100);
  CHECK(t.of("ioctl").size() == 200);
  for (const json& e : t.of("ioctl")) CHECK_FALSE(e.contains("enclosing"));
}

TEST_CASE("a trace that could not be kept or joined is not trusted, and a warning says so where all else is quiet") {
  const run failed({"--method", "all", "--sink", "jsonl", "--quiet", "--strict"},
                   {"/bin/bash", "-c", "trap '' XFSZ; ulimit -f 100; exec " SUBJECT " work 3000"});
  CAPTURE(failed.ended.errors);
  CHECK(failed.ended.exit_status == 3);
  CHECK(failed.says("events could not be kept until the join: cannot write"));
  const run broken({"--method", "all", "--sink", "jsonl", "--quiet", "--strict"},
                   {"/bin/sh", "-c", SUBJECT " work 10; for f in out/.cutrace-run-*/calls.*; do echo no >$f; done"});
  CAPTURE(broken.ended.errors);
  CHECK(broken.ended.exit_status == 3);
  CHECK(broken.says("its traces could not be joined"));
}

TEST_CASE("what the limit of a file kept out of the joined trace is said") {
  const run r({"--method", "all", "--sink", "jsonl?max=4K", "--strict"}, {SUBJECT, "work", "50"});
  CAPTURE(r.ended.errors);
  CHECK(r.ended.exit_status == 3);
  CHECK(r.says(" events out: its file has reached its limit (max=)"));
}

TEST_CASE("a sink that traces cannot be joined for is refused, with what to do") {
  const run served({"--method", "all", "--sink", "prometheus:127.0.0.1:0"}, {SUBJECT, "none"});
  CHECK(served.ended.exit_status == 125);
  CHECK(served.says("use --method cupti"));
  const run cut({"--method", "all", "--duration", "1s"}, {SUBJECT, "none"});
  CHECK(cut.ended.exit_status == 125);
  CHECK(cut.says("cutrace cut"));
}

TEST_CASE("a time in the environment, which the option would be refused for, limits no half of the trace") {
  const run r({"--method", "all", "--sink", "jsonl"}, {SUBJECT, "work", "100"},
              {{"CUTRACE_START_AFTER", "60m"}, {"CUTRACE_DURATION", "1ms"}});
  CAPTURE(r.ended.errors);
  REQUIRE(r.ended.exit_status == 0);
  CHECK(
      r.says("without effect, since --method all traces the program from its beginning to its end: "
             "CUTRACE_START_AFTER=60m, CUTRACE_DURATION=1ms\n"));
  CHECK_FALSE(r.says("time of --duration is over"));
  CHECK(trace_of(r).of("kernel").size() == 100);
}

}  // namespace

int main(int argc, char** argv) {
  const run_support::run tried({"--method", "ebpf", "--quiet", "--sink", "null"}, {"/bin/true"}, {});
  if (tried.ended.exit_status != 0) {
    std::printf("skipped: %s\n", tried.ended.errors.c_str());
    return 77;
  }
  return doctest::Context(argc, argv).run();
}
