// SPDX-License-Identifier: Apache-2.0
// Executable, plug-ins and an injected library in one process: one runtime, one trace. Each test runs host.cpp with
// other arguments on the stand-in driver and reads the JSONL that it leaves.
#include <doctest/doctest.h>

#include "../../support/child_process.hpp"
#include "../../support/jsonl_trace.hpp"

using nlohmann::json;
using test_support::finished_process;
using test_support::jsonl_trace;

namespace {

const std::string plugin_a = PLUGIN_A, plugin_b = PLUGIN_B, other_version = PLUGIN_OTHER_VERSION,
                  other_contract = PLUGIN_OTHER_CONTRACT, owner_plugin = PLUGIN_OWNER;

struct run_result {
  temporary_folder folder;
  finished_process process;
  jsonl_trace trace(const std::string& name = "t.jsonl") const { return jsonl_trace(folder.file(name)); }
};

void run(run_result& r, const char* program, std::vector<std::string> words, bool injected = true) {
  words.insert(words.begin(), program);
  std::map<std::string, std::string> environment = {{"CUTRACE_SINKS", "jsonl:t.jsonl"}};
  if (injected) environment["CUDA_INJECTION64_PATH"] = INJECTED_LIBRARY;
  r.process = test_support::run_process(words, r.folder.path(), environment);
  INFO("output: " << r.process.output << r.process.errors);
  REQUIRE_FALSE(r.process.hung);
  REQUIRE(r.process.exit_status == 0);
}

json one(const jsonl_trace& t, const std::string& type, const std::string& name) {
  for (const json& e : t.of(type))
    if (e.value("name", "") == name) return e;
  REQUIRE_MESSAGE(false, "no " << type << " named " << name);
  return {};
}

/// Each kernel named `kernel` was launched in the stage `stage` and belongs to `requests`.
void check_kernels(const jsonl_trace& t, const std::string& kernel, const std::string& stage, const json& requests,
                   std::size_t times = 1) {
  CAPTURE(kernel);
  CHECK(t.count("kernel", kernel) == times);
  for (const json& e : t.of("kernel")) {
    if (e.value("name", "") != kernel) continue;
    CHECK(e.value("stage", "") == stage);
    CHECK(e.value("attribution", "") == "by_call");
    CHECK(e.value("requests", json()) == requests);
  }
}

void check_host(const jsonl_trace& t, std::size_t times = 1) {
  CHECK(t.count("stage", "host_work") == times);
  CHECK(t.count("stage", "host_thread_work") == times);
  check_kernels(t, "kernel_in_host", "host_work", {1}, times);
}

void check_plugin(const jsonl_trace& t, const std::string& name, std::uint64_t request, std::size_t times = 1) {
  CAPTURE(name);
  CHECK(t.count("stage", name + "_work") == times);
  CHECK(t.count("stage", name + "_run_time_name") == times);
  check_kernels(t, "kernel_in_" + name, name + "_work", {request}, times);
}

/// One process, one runtime, nothing lost.
void check_one(const jsonl_trace& t) {
  CHECK(t.complete());
  CHECK(t.of("process").size() == 1);
}

std::size_t lines_of(const std::string& text) {
  std::size_t n = 0;
  for (const char c : text) n += c == '\n';
  return n;
}

}  // namespace

TEST_CASE("program, two plug-ins and the injected library: one trace") {
  run_result r;
  run(r, HOST,
      {"load=" + plugin_a, "load=" + plugin_b, "mark=0", "cuda", "owners", "mark=0", "work", "call=0",
       "call_inside=1"});
  // The program, two plug-ins and the injected library.
  CHECK(r.process.output.find("objects 4, runtimes 1") != std::string::npos);
  const jsonl_trace t = r.trace();
  check_one(t);
  check_host(t);
  check_plugin(t, "plugin_a", 101);
  check_plugin(t, "plugin_b", 102);
  CHECK(t.count("mark", "plugin_a_mark") == 1);  // the first one came before the session
  // Stages of two objects nest, since a thread has one state.
  const json around = one(t, "stage", "host_around_plugin"), inside = one(t, "stage", "plugin_b_work");
  CHECK(inside.at("parent") == around.at("stage_id"));
  CHECK(inside.at("depth") == 1);
  CHECK(inside.at("requests") == json{102});
  for (const json& k : t.of("kernel")) CHECK(k.at("tid") == around.at("tid"));
}

TEST_CASE("markers in inline functions and templates that all objects share") {
  run_result r;
  run(r, HOST, {"load=" + plugin_a, "load=" + plugin_b, "cuda", "work", "call=0", "call=1"});
  const jsonl_trace t = r.trace();
  check_one(t);
  CHECK(t.count("stage", "shared_inline") == 3);
  CHECK(t.count("stage", "shared_template") == 4);
  CHECK(t.count("mark", "shared_mark") == 4);
  check_kernels(t, "kernel_in_shared_inline", "shared_inline", {77}, 3);
  std::int64_t last = 0;
  for (const json& c : t.of("counter"))
    if (c.at("name") == "shared_count") last = c.at("value");
  CHECK(last == 3);  // one counter, whoever adds to it
}

TEST_CASE("a plug-in that is loaded while tracing is on") {
  run_result r;
  run(r, HOST, {"cuda", "work", "load=" + plugin_a, "call=0", "owners"});
  CHECK(r.process.output.find("objects 3, runtimes 1") != std::string::npos);
  const jsonl_trace t = r.trace();
  check_one(t);
  check_host(t);
  check_plugin(t, "plugin_a", 101);
}

TEST_CASE(
    "a program with a session of its own that is injected later: both files hold all that comes while both write") {
  run_result r;
  run(r, HOST_WITH_RUNTIME,
      {"session=jsonl:own.jsonl", "load=" + plugin_a, "mark=0", "cuda", "owners", "work", "call=0", "stop", "mark=0"});
  CHECK(r.process.output.find("runtimes 1") != std::string::npos);
  CHECK(lines_of(r.process.errors) == 1);
  CHECK(r.process.errors.find("joins that trace") != std::string::npos);
  for (const char* name : {"own.jsonl", "t.jsonl"}) {
    CAPTURE(name);
    const jsonl_trace t = r.trace(name);
    CHECK(t.headers == 1);
    CHECK(t.footers == 1);
    check_host(t);
    check_plugin(t, "plugin_a", 101);
  }
  CHECK(r.trace("own.jsonl").count("mark", "plugin_a_mark") == 1);
  // The mark before the injection may still have been on its way; the one after the program's own session is there.
  CHECK(r.trace().count("mark", "plugin_a_mark") >= 1);
}

TEST_CASE("an injected program that opens a session of its own") {
  run_result r;
  run(r, HOST_WITH_RUNTIME, {"cuda", "work", "session=jsonl:own.jsonl", "work", "owners", "stop", "work"});
  CHECK(r.process.output.find("objects 2, runtimes 1") != std::string::npos);
  CHECK(lines_of(r.process.errors) == 1);
  check_one(r.trace());
  check_host(r.trace(), 3);
  const jsonl_trace own = r.trace("own.jsonl");
  CHECK(own.footers == 1);
  CHECK(own.of("process").size() == 1);
  CHECK(own.count("stage", "host_work") >= 1);
  // The joining session also gets the events that the collector still held to order them (CUTRACE_WINDOW_MS).
  CHECK(own.count("stage", "host_work") <= 2);
}

TEST_CASE("a plug-in of another library version with the same contract shares the trace") {
  run_result r;
  run(r, HOST, {"load=" + other_version, "load=" + plugin_a, "cuda", "owners", "work", "call=0", "call=1"});
  CHECK(r.process.output.find("objects 4, runtimes 1") != std::string::npos);
  const jsonl_trace t = r.trace();
  check_one(t);
  check_host(t);
  check_plugin(t, "plugin_other_version", 103);
  check_plugin(t, "plugin_a", 101);
  run_result late;
  run(late, HOST, {"cuda", "load=" + other_version, "call=0", "owners"});
  CHECK(late.process.output.find("objects 3, runtimes 1") != std::string::npos);
  check_one(late.trace());
  check_plugin(late.trace(), "plugin_other_version", 103);
}

TEST_CASE("a plug-in of another version owns the runtime that the program and the other plug-in use") {
  run_result r;
  run(r, HOST,
      {"load=" + other_version, "load=" + plugin_a, "open=0,jsonl:t.jsonl", "cuda", "work", "call=0", "call=1"}, false);
  const jsonl_trace t = r.trace();
  check_one(t);
  CHECK(t.header.at("cutrace_version") == OTHER_VERSION);
  check_host(t);
  check_plugin(t, "plugin_other_version", 103);
  check_plugin(t, "plugin_a", 101);
}

TEST_CASE("a plug-in of another contract stays off, and nothing else notices") {
  run_result r;
  run(r, HOST,
      {"load=" + other_contract, "load=" + plugin_a, "mark=0", "cuda", "owners", "work", "call=0", "call=1",
       "close=0"});
  // The plug-in of the other contract (CUTRACE_ABI_VERSION) is not counted.
  CHECK(r.process.output.find("objects 3, runtimes 1") != std::string::npos);
  CHECK(r.process.output.find(": gone") != std::string::npos);
  const jsonl_trace t = r.trace();
  check_one(t);
  check_host(t);
  check_plugin(t, "plugin_a", 101);
  CHECK(t.count("stage", "plugin_other_contract_work") == 0);
  CHECK(t.count("mark", "plugin_other_contract_mark") == 0);
  // Its kernels are there: they were launched outside of any stage that this runtime knows.
  CHECK(t.count("kernel", "kernel_in_plugin_other_contract") == 1);
  CHECK(one(t, "kernel", "kernel_in_plugin_other_contract").at("attribution") == "outside_stage");
}

TEST_CASE("plug-ins are unloaded before the session ends: really gone, their names stay") {
  run_result r;
  run(r, HOST,
      {"load=" + plugin_a, "load=" + plugin_b, "cuda", "call=0", "call=1", "close=0", "close=1", "work",
       "load=" + plugin_a, "call=2", "close=2"});
  CHECK(r.process.output.find("stays") == std::string::npos);
  CHECK(lines_of(r.process.output) == 3);
  const jsonl_trace t = r.trace();
  check_one(t);
  check_host(t);
  check_plugin(t, "plugin_a", 101, 2);
  check_plugin(t, "plugin_b", 102);
  CHECK(one(t, "stage", "plugin_a_work").at("file").get<std::string>().find("plugin.cpp") != std::string::npos);
  CHECK(one(t, "stage", "plugin_b_run_time_name").at("request_names") == json{"plugin_b_text"});
}

TEST_CASE("the plug-in that owns the runtime stays mapped when it is closed") {
  run_result r;
  run(r, HOST,
      {"load=" + owner_plugin, "open=0,jsonl:t.jsonl", "cuda", "work", "call=0", "close=0", "work", "load=" + plugin_a,
       "call=1", "owners"},
      false);
  CHECK(r.process.output.find("stays") != std::string::npos);
  CHECK(r.process.output.find("objects 3, runtimes 1") != std::string::npos);
  const jsonl_trace t = r.trace();  // closed by the runtime when the process exits
  check_one(t);
  check_host(t, 2);
  check_plugin(t, "plugin_owner", 104);
  check_plugin(t, "plugin_a", 101);
}

TEST_CASE("a plug-in that only joined a trace ends its session and is unloaded") {
  run_result r;
  run(r, HOST, {"cuda", "load=" + owner_plugin, "open=0,jsonl:plugin.jsonl", "call=0", "end=0", "close=0", "work"});
  CHECK(r.process.output.find("libplugin_owner.so: gone") != std::string::npos);
  check_one(r.trace());
  check_host(r.trace());
  check_plugin(r.trace(), "plugin_owner", 104);
  check_plugin(r.trace("plugin.jsonl"), "plugin_owner", 104);
  CHECK(r.trace("plugin.jsonl").footers == 1);
}

TEST_CASE("program and plug-in open sessions at once: one of them owns the runtime, both get everything") {
  for (int round = 0; round < 8; ++round) {
    CAPTURE(round);
    run_result r;
    run(r, HOST_WITH_RUNTIME,
        {"load=" + owner_plugin, "race=0,jsonl:t.jsonl,jsonl:plugin.jsonl", "owners", "cuda", "work", "call=0", "stop",
         "end=0"},
        false);
    CHECK(r.process.output.find("objects 2, runtimes 1") != std::string::npos);
    for (const char* name : {"t.jsonl", "plugin.jsonl"}) {
      const jsonl_trace t = r.trace(name);
      CHECK(t.footers == 1);
      check_host(t);
      check_plugin(t, "plugin_owner", 104);
    }
  }
}

TEST_CASE("CUTRACE=0 in an injected program: no file, no line") {
  temporary_folder folder;
  const finished_process p = test_support::run_process(
      {HOST, "load=" + plugin_a, "cuda", "work", "call=0", "owners"}, folder.path(),
      {{"CUTRACE_SINKS", "jsonl:t.jsonl"}, {"CUDA_INJECTION64_PATH", INJECTED_LIBRARY}, {"CUTRACE", "0"}});
  CHECK(p.exit_status == 0);
  CHECK(p.errors.empty());
  CHECK(p.wrote.empty());
  CHECK(p.output.find("runtimes 0") != std::string::npos);
  CHECK(test_support::files_with(folder.path(), ".jsonl").empty());
}
