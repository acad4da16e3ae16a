// SPDX-License-Identifier: Apache-2.0
// Ranges and marks of NVTX in the trace of a program that cutrace was injected into. Each test runs nvtx_program.cpp
// with an argument and reads the JSONL that it leaves.
#include <doctest/doctest.h>

#include <cstdlib>

#include "../../support/child_process.hpp"
#include "../../support/jsonl_trace.hpp"

using nlohmann::json;
using test_support::finished_process;
using test_support::jsonl_trace;

namespace {

using variables = std::map<std::string, std::string>;

struct run_result {
  temporary_folder folder;
  finished_process process;
  jsonl_trace trace(const std::string& name = "t.jsonl") const { return jsonl_trace(folder.file(name)); }
};

void run(run_result& r, const std::vector<std::string>& words, variables environment = {}) {
  environment.insert({"CUTRACE_SINKS", "jsonl:t.jsonl,chrome:t.json,calls:t.txt"});
  environment.insert({"CUTRACE_BACKEND", "none"});
  environment.insert({"NVTX_INJECTION64_PATH", INJECTED_LIBRARY});
  r.process = test_support::run_process(words, r.folder.path(), environment);
  INFO("output: " << r.process.output << r.process.errors);
  REQUIRE_FALSE(r.process.hung);
  REQUIRE(r.process.exit_status == 0);
}
jsonl_trace traced(run_result& r, const std::string& what, const variables& environment = {}) {
  run(r, {PROGRAM, what}, environment);
  CHECK(r.process.errors.empty());
  CHECK(json::accept(content_of(r.folder.file("t.json"))));
  return r.trace();
}

json one(const jsonl_trace& t, const std::string& type, const std::string& name) {
  json found;
  for (const json& e : t.of(type)) {
    if (e.value("name", "") != name) continue;
    CHECK_MESSAGE(found.is_null(), "more than one " << type << " named " << name);
    found = e;
  }
  REQUIRE_MESSAGE(!found.is_null(), "no " << type << " named " << name);
  return found;
}
json stage(const jsonl_trace& t, const std::string& name) { return one(t, "stage", name); }

std::int64_t end_of(const json& e) { return e.at("ts_ns").get<std::int64_t>() + e.at("dur_ns").get<std::int64_t>(); }
bool encloses(const json& outer, const json& inner) {
  return outer.at("ts_ns") <= inner.at("ts_ns") && end_of(outer) >= end_of(inner);
}

}  // namespace

TEST_CASE("pushed ranges are nested stages of their own origin, marks are instants") {
  run_result r;
  const jsonl_trace t = traced(r, "nesting");
  CHECK(t.complete());
  const json outer = stage(t, "outer"), inner = stage(t, "inn\u00e9r \U0001F600");
  CHECK(outer.at("origin") == "nvtx");
  CHECK(outer.count("domain") == 0);
  CHECK(outer.count("file") == 0);
  CHECK(outer.at("depth") == 0);
  CHECK(inner.at("depth") == 1);
  CHECK(inner.at("parent") == outer.at("stage_id"));
  CHECK(encloses(outer, inner));
  const json point = one(t, "mark", "point");
  CHECK(point.at("stage_id") == inner.at("stage_id"));
  CHECK(point.at("origin") == "nvtx");
  CHECK(point.at("dur_ns") == 0);
  one(t, "mark", "wide point");

  const json own = stage(t, "of cutrace"), in_stage = stage(t, "in a stage"), in_range = stage(t, "in a range");
  CHECK(own.count("origin") == 0);
  CHECK(in_stage.at("parent") == own.at("stage_id"));
  CHECK(in_stage.at("requests") == json{17});
  CHECK(in_range.at("parent") == in_stage.at("stage_id"));
  CHECK(in_range.count("origin") == 0);
  CHECK(one(t, "mark", "mark of a request").at("requests") == json{17});
  CHECK(t.of("stage").size() == 5);
  CHECK(content_of(r.folder.file("t.txt")).find("stage in a stage [nvtx]") != std::string::npos);
}

TEST_CASE("ranges that are pushed or popped with data of their own layout are ranges like others") {
  run_result r;
  const jsonl_trace t = traced(r, "with_payloads");
  CHECK(t.complete());
  const json prefill = stage(t, "prefill"), init = stage(t, "init"), reduce = stage(t, "all reduce");
  CHECK(init.at("parent") == prefill.at("stage_id"));
  CHECK(init.at("domain") == "NCCL");
  CHECK(encloses(prefill, init));
  CHECK(reduce.count("parent") == 0);
  json nameless, started;
  for (const json& e : t.of("stage"))
    if (e.value("parent", 0ull) == reduce.at("stage_id"))
      nameless = e;
    else if (e.value("span", false))
      started = e;
  REQUIRE(!nameless.is_null());
  CHECK(nameless.at("domain") == "NCCL");
  REQUIRE(!started.is_null());
  CHECK(started.at("domain") == "NCCL");
  CHECK(t.of("stage").size() == 5);
  REQUIRE(t.of("mark").size() == 1);
  CHECK(t.of("mark")[0].at("stage_id") == nameless.at("stage_id"));
}

TEST_CASE("domains: a pop ends the range of its own domain, which need not be the innermost") {
  run_result r;
  const jsonl_trace t = traced(r, "domains");
  CHECK(t.complete());
  const json a = stage(t, "a"), b = stage(t, "b"), c = stage(t, "c"), d = stage(t, "d");
  CHECK(a.at("domain") == "Triton");
  CHECK(b.at("domain") == "D\u00f6main");
  CHECK(c.count("domain") == 0);
  CHECK(d.at("domain") == "Triton");
  CHECK(b.at("parent") == a.at("stage_id"));
  CHECK(c.at("parent") == b.at("stage_id"));
  CHECK(d.at("parent") == c.at("stage_id"));
  CHECK(end_of(a) <= d.at("ts_ns"));
  CHECK(end_of(a) < end_of(b));
  CHECK(end_of(b) < end_of(c));
  CHECK(end_of(c) < end_of(d));
  CHECK(stage(t, "after destroy").at("domain") == "Triton");
  CHECK(stage(t, "after destroy").count("parent") == 0);
  CHECK(stage(t, "nonsense domain").count("domain") == 0);
  CHECK(content_of(r.folder.file("t.txt")).find("[nvtx Triton]") != std::string::npos);
  CHECK(content_of(r.folder.file("t.json")).find("\"domain\":\"Triton\"") != std::string::npos);
}

TEST_CASE("registered strings, payloads, categories and colours") {
  run_result r;
  const jsonl_trace t = traced(r, "facts");
  CHECK(t.complete());
  const json registered = stage(t, "registered");
  CHECK(registered.at("domain") == "facts");
  CHECK(registered.at("category") == 5);
  CHECK(registered.at("category_name") == "attention");
  CHECK(registered.at("color") == "0xff102030");
  CHECK(registered.at("payload") == -7);
  CHECK(stage(t, "registriert \u00e4").at("payload") == 2.5);
  CHECK(stage(t, "with a float").at("payload") == 0.5);
  CHECK(stage(t, "with a float").at("category") == 6);
  CHECK(stage(t, "with a float").count("category_name") == 0);
  CHECK(one(t, "mark", "mark with a payload").at("payload") == 4000000000u);
  CHECK(one(t, "mark", "mark of signed").at("payload") == -3);
  CHECK(stage(t, "payload of zero").at("payload") == 0);
  CHECK(one(t, "mark", "registered").at("domain") == "facts");
  CHECK(one(t, "mark", "registered").count("payload") == 0);
  const std::string chrome = content_of(r.folder.file("t.json"));
  CHECK(chrome.find("\"category_name\":\"attention\",\"color\":\"0xff102030\",\"payload\":-7") != std::string::npos);
}

TEST_CASE("started ranges are spans and may end on another thread; other ids do no harm") {
  run_result r;
  const jsonl_trace t = traced(r, "started");
  CHECK(t.complete());
  const json request = stage(t, "request"), local = stage(t, "local"), other = stage(t, "on the other thread");
  CHECK(request.at("span") == true);
  CHECK(request.at("payload") == 99);
  CHECK(request.at("domain") == "spans");
  CHECK(local.at("span") == true);
  CHECK(local.count("parent") == 0);
  CHECK(request.at("tid") == other.at("tid"));
  CHECK(end_of(request) <= end_of(other));
  CHECK(other.count("parent") == 0);  // a span is nobody's surroundings
  CHECK(t.of("stage").size() == 3);   // the one that never ended is not there
}

TEST_CASE("hostile names, attributes and handles") {
  run_result r;
  const jsonl_trace t = traced(r, "hostile");
  CHECK(t.complete());
  CHECK(stage(t, "quote \" backslash \\ newline \n").at("domain") == "dom\"ain\n\ufffd");
  stage(t, "invalid \ufffd\ufffd utf-8 \ufffd");
  stage(t, std::string(480, 'x'));
  std::string euros;
  for (int i = 0; i < 159; ++i) euros += "\u20ac";
  stage(t, euros);
  stage(t, "\ufffd\ufffdz");
  stage(t, "of the future");
  CHECK(t.count("stage", "(no message)") == 6);
  CHECK(t.count("stage", "too small") == 0);
  CHECK(stage(t, "in the last domain").at("domain") == "(too many domains)");
}

TEST_CASE("unbalanced pushes and pops") {
  run_result r;
  const jsonl_trace t = traced(r, "unbalanced");
  // Of 1,000 pushes 256 were open at once, of which 156 were popped and 100 ended with their thread. The others are
  // counted as lost.
  CHECK(t.count("stage", "leak") == 256);
  CHECK(t.footer.at("lost_total") == 744);
  CHECK(t.footer.at("produced") == t.footer.at("delivered").get<std::uint64_t>() + 744);
  CHECK(encloses(stage(t, "left open"), stage(t, "in what is left open")));
  CHECK(stage(t, "outlives").at("parent") == stage(t, "shorter").at("stage_id"));
  CHECK(end_of(stage(t, "outlives")) > end_of(stage(t, "between")));
  CHECK(stage(t, "between").count("parent") == 0);
  CHECK(stage(t, "second").at("parent") == stage(t, "around the pop").at("stage_id"));
  CHECK(stage(t, "after all").at("depth") == 0);
  CHECK(stage(t, "after all").count("parent") == 0);
}

TEST_CASE("names of threads") {
  run_result r;
  const jsonl_trace t = traced(r, "threads");
  std::map<json, std::string> names;
  for (const json& e : t.of("thread")) names[e.at("tid")] = e.at("name");
  CHECK(names[stage(t, "in main").at("tid")] == "the main one");
  CHECK(names[stage(t, "in worker").at("tid")] == "w\u00f6rker");
}

TEST_CASE("many threads at once") {
  run_result r;
  const jsonl_trace t = traced(r, "crowd");
  CHECK(t.complete());
  CHECK(t.count("stage", "registered step") == 400);
  CHECK(t.count("stage", "inner step") == 400);
  CHECK(t.count("stage", "span") == 400);
  for (const json& e : t.of("stage")) {
    if (e.at("name") == "registered step") CHECK((e.at("domain") == "even" || e.at("domain") == "odd"));
    if (e.at("name") == "inner step") CHECK(e.at("depth") == 1);
  }
}

TEST_CASE("a forked child leaves nothing, the parent goes on") {
  run_result r;
  const jsonl_trace t = traced(r, "fork");
  CHECK(t.complete());
  stage(t, "in parent");
  stage(t, "span of the parent");
  CHECK(t.of("stage").size() == 2);
  CHECK(t.of("mark").empty());
}

TEST_CASE("ranges that are open when the process ends, and calls after that") {
  run_result r;
  const jsonl_trace t = traced(r, "ends_late");
  CHECK(t.complete());
  stage(t, "before exit");
  CHECK(t.count("stage", "after exit") == 0);
  CHECK(t.count("mark", "after exit") == 0);
}

TEST_CASE("CUTRACE=0: NVTX finds a tool that wants nothing") {
  run_result r;
  run(r, {PROGRAM, "ends_late"}, {{"CUTRACE", "0"}});
  CHECK(r.process.errors.empty());
  CHECK(test_support::files_with(r.folder.path(), ".jsonl").empty());
}

TEST_CASE("options that cannot be used: one line, and the program goes on") {
  run_result r;
  run(r, {PROGRAM, "crowd"}, {{"CUTRACE_SINKS", "nonsense"}});
  CHECK(r.process.errors.find("CUTRACE_SINKS") != std::string::npos);
  CHECK(r.process.errors.find("; the program runs untraced\n") != std::string::npos);
  CHECK(r.process.errors.find('\n') == r.process.errors.size() - 1);
}

TEST_CASE("GPU work belongs to the range in which it was launched, whoever brings the library in") {
  for (const char* order : {"gpu_nvtx_first", "gpu_cuda_first", "gpu_both_at_once"}) {
    CAPTURE(order);
    run_result r;
    const jsonl_trace t = traced(r, order, {{"CUTRACE_BACKEND", "cupti"}, {"CUDA_INJECTION64_PATH", INJECTED_LIBRARY}});
    CHECK(t.complete());
    CHECK(t.of("process").size() == 1);
    const std::map<std::string, std::string> launched = {{"kernel_in_layer", "layer"},
                                                         {"kernel_in_attention", "attention"},
                                                         {"kernel_after_layer", "attention"},
                                                         {"kernel_in_request", "in request"}};
    for (const auto& [kernel, range] : launched) {
      const json k = one(t, "kernel", kernel);
      CHECK(k.at("stage") == range);
      CHECK(k.at("stage_id") == stage(t, range).at("stage_id"));
      CHECK(k.at("attribution") == "by_call");
    }
    CHECK(one(t, "kernel", "kernel_in_request").at("requests") == json{42});
    CHECK(stage(t, "layer").at("domain") == "model");
    for (const char* outside : {"kernel_outside", "kernel_beside_span"})
      CHECK(one(t, "kernel", outside).at("attribution") == "outside_stage");
  }
}

TEST_CASE("a program with its own session and NVTX: before, across, after, paused") {
  run_result r;
  run(r, {SESSION_PROGRAM}, {{"NVTX_INJECTION64_PATH", ""}});
  CHECK(r.process.errors.empty());
  const jsonl_trace first = r.trace("first.jsonl"), second = r.trace("second.jsonl");
  CHECK(first.complete());
  CHECK(stage(first, "registered before").at("domain") == "made before");
  CHECK(encloses(stage(first, "registered before"), stage(first, "inner")));
  CHECK(stage(first, "inner").at("parent") == stage(first, "registered before").at("stage_id"));
  // The pop of the range that was pushed in the pause has not ended the one around it.
  CHECK(one(first, "mark", "after the pause").at("stage") == "inner");
  CHECK(encloses(stage(first, "registered before"), stage(first, "popped with data")));
  stage(first, "ended in the pause");
  CHECK(first.of("stage").size() == 4);
  CHECK(first.of("mark").size() == 1);
  CHECK(second.complete());
  stage(second, "registered before");
  CHECK(second.of("stage").size() == 1);
}
