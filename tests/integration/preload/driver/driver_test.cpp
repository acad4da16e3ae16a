// SPDX-License-Identifier: Apache-2.0
// `cutrace run --method preload` beside the CUPTI backend, on the stand-in driver: the same calls with the same
// content, and what only hooked calls report.
#include <doctest/doctest.h>

#include <set>

#include "../../run_command/run_support.hpp"

using run_support::jsonl_trace;
using run_support::run;

namespace {

const std::set<std::string> handles = {"f", "hStream", "stream", "phStream", "hfunc", "module", "ctx"};

/// A call without what differs between two runs: times, ids, addresses.
std::string content(const nlohmann::json& call) {
  nlohmann::json c = {{"name", call.at("name")}, {"result", call.at("result")}};
  for (const char* field : {"result_name", "direction", "bytes", "stage"})
    if (call.contains(field)) c[field] = call.at(field);
  const nlohmann::json arguments = call.value("args", nlohmann::json::object());
  for (const auto& [name, value] : arguments.items())
    if (!value.is_string() && handles.count(name) == 0) c["args"][name] = value;
  return c.dump();
}

std::map<std::string, std::size_t> contents(const jsonl_trace& trace, bool launches) {
  std::map<std::string, std::size_t> all;
  for (const nlohmann::json& e : trace.of("api"))
    if ((e.at("name").get<std::string>().rfind("cuLaunchKernel", 0) == 0) == launches) ++all[content(e)];
  return all;
}

std::string text_of(const std::map<std::string, std::size_t>& all) {
  std::string text;
  for (const auto& [call, n] : all) text += std::to_string(n) + " " + call + "\n";
  return text;
}

run traced(const std::string& method, const std::string& program, std::vector<std::string> options = {}) {
  options.insert(options.begin(), {"--method", method, "--sink", "ascii,jsonl"});
  return run(options, {program}, {{"CUTRACE_CUPTI_QUERIES", "1"}});
}

jsonl_trace trace_of(const run& r) {
  REQUIRE_MESSAGE(r.ended.exit_status == 0, r.ended.errors);
  REQUIRE(r.files(".jsonl").size() == 1);
  return jsonl_trace(r.files(".jsonl")[0]);
}

}  // namespace

TEST_CASE("hooked calls say what CUPTI's callbacks report") {
  const run by_hooks = traced("preload", DRIVER_SUBJECT), by_cupti = traced("cupti", DRIVER_SUBJECT);
  CHECK(by_hooks.ended.output == "worked\n");
  const jsonl_trace hooked = trace_of(by_hooks), reported = trace_of(by_cupti);
  CHECK(hooked.complete());
  // CUPTI's first callback comes when cuInit has begun.
  auto seen = contents(hooked, false);
  CHECK(seen.erase(R"({"args":{"Flags":0},"name":"cuInit","result":0,"result_name":"CUDA_SUCCESS"})") == 1);
  CHECK(text_of(seen) == text_of(contents(reported, false)));
  CHECK(seen.size() > 20);
  CHECK(hooked.count("api", "cuLaunchKernel") == reported.count("kernel", "empty") - 5);
  CHECK(hooked.count("api", "cuLaunchKernelEx") == 5);
}

TEST_CASE("a launch gives its grid, its blocks and its shared memory") {
  const jsonl_trace trace = trace_of(traced("preload", DRIVER_SUBJECT));
  const auto launches = contents(trace, true);
  const std::string block = R"("blockDimX":32,"blockDimY":4,"blockDimZ":1,)";
  for (unsigned i = 1; i <= 20; ++i) {
    const std::string grid = R"("gridDimX":)" + std::to_string(i) + R"(,"gridDimY":2,"gridDimZ":3,)";
    const std::string one = "{\"args\":{" + block + grid + "\"sharedMemBytes\":" + std::to_string(16 * i) +
                            R"(},"name":"cuLaunchKernel","result":0,"result_name":"CUDA_SUCCESS"})";
    CHECK_MESSAGE(launches.count(one) == 1, one);
    if (launches.count(one) != 0) CHECK(launches.at(one) == 5);
  }
  for (unsigned i = 11; i <= 15; ++i) {
    const std::string one =
        R"({"args":{"blockDimX":64,"blockDimY":1,"blockDimZ":1,"gridDimX":)" + std::to_string(i) +
        R"(,"gridDimY":1,"gridDimZ":1,"sharedMemBytes":128},"name":"cuLaunchKernelEx","result":0,)" +
        R"("result_name":"CUDA_SUCCESS"})";
    CHECK_MESSAGE(launches.count(one) == 1, one);
  }
}

TEST_CASE("the command trusts a trace without GPU time, where the method has none") {
  const run r = traced("preload", DRIVER_SUBJECT, {"--strict"});
  CHECK(r.ended.exit_status == 0);
  CHECK(r.says("nothing lost"));
  CHECK_FALSE(r.says("warning"));
  CHECK_FALSE(r.says("not one GPU record arrived"));
  const jsonl_trace trace = trace_of(r);
  CHECK(trace.header.at("backend") == "preload");
  CHECK(trace.of("kernel").empty());
}

TEST_CASE("what is asked of the GPU's records is refused, and other preloaded libraries stay") {
  for (const std::string option : {"--kinds=+memory", "--graphs=graph"})
    CHECK(run({"--method", "preload", option}, {"/bin/true"}).ended.exit_status == 125);
  const run r({"--method", "preload", "--quiet"}, {"/bin/sh", "-c", "echo $LD_PRELOAD"},
              {{"LD_PRELOAD", "libdl.so.2 libm.so.6"}});
  const std::string watch =
      std::string(PRELOADED_LIBRARY).substr(0, std::string(PRELOADED_LIBRARY).rfind('/')) + "/libcutrace_watch.so";
  CHECK(r.ended.output == std::string(PRELOADED_LIBRARY) + ":libdl.so.2:libm.so.6:" + watch + "\n");
  // A preload library that an outer run has put there is removed.
  const run inner({"--quiet"}, {"/bin/sh", "-c", "echo $LD_PRELOAD-$CUTRACE_BACKEND"},
                  {{"LD_PRELOAD", "libm.so.6 " PRELOADED_LIBRARY}, {"CUTRACE_BACKEND", "preload"}});
  CHECK(inner.ended.output == "libm.so.6:" + watch + "-\n");
}

TEST_CASE("a program with a session of its own has hooked calls in that trace") {
  const run r = traced("preload", SESSION_SUBJECT);
  const jsonl_trace trace = trace_of(r);
  CHECK(trace.complete());
  CHECK(trace.header.at("backend") == "preload");
  std::size_t staged = 0;
  for (const nlohmann::json& e : trace.of("api")) staged += e.value("stage", "") == "work";
  CHECK(trace.count("stage", "work") == 3);
  CHECK(staged == 3 * 2);
}
