// SPDX-License-Identifier: Apache-2.0
// Stages as NVTX ranges of the domain "cutrace": what a tool receives of them. Each test runs nvtx_emit.cpp with an
// argument, and recorder_tool.cpp writes down what it hears.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "../../support/child_process.hpp"
#include "../../support/jsonl_trace.hpp"

using test_support::jsonl_trace;

namespace {

using variables = std::map<std::string, std::string>;
using lines = std::vector<std::string>;

struct run_result {
  temporary_folder folder;
  test_support::finished_process process;
  jsonl_trace trace() const { return jsonl_trace(folder.file("t.jsonl")); }

  /// What the tool heard, without thread numbers: of all threads, or of each one.
  std::map<std::string, lines> by_thread() const {
    std::map<std::string, lines> heard;
    std::istringstream in(content_of(folder.file("heard")));
    for (std::string line; std::getline(in, line);) {
      const std::size_t at = line.find(' ');
      heard[line.substr(0, at)].push_back(line.substr(at + 1));
      heard["all"].push_back(line.substr(at + 1));
    }
    return heard;
  }
};

void run(run_result& r, const char* what, const char* tool = RECORDER, variables environment = {}) {
  environment.insert({"NVTX_INJECTION64_PATH", tool});
  environment.insert({"RECORDER_FILE", "heard"});
  environment.insert({"CUTRACE_BACKEND", "none"});
  r.process = test_support::run_process({PROGRAM, what}, r.folder.path(), environment);
  INFO("output: " << r.process.output << r.process.errors);
  REQUIRE_FALSE(r.process.hung);
  REQUIRE(r.process.exit_status == 0);
}

std::size_t count(const lines& all, const std::string& begin) {
  return static_cast<std::size_t>(std::count_if(
      all.begin(), all.end(), [&](const std::string& l) { return l.compare(0, begin.size(), begin) == 0; }));
}

void check_stages(const jsonl_trace& t) {
  CHECK(t.complete());
  for (const char* name : {"inner", "batch", "run time", "in adopted"}) CHECK(t.count("stage", name) == 1);
  CHECK(t.count("stage", "outer") == 2);
  CHECK(t.count("stage", "span") == 2);
  for (const auto& e : t.of("stage")) CHECK(e.at("dur_ns") >= 0);
}

}  // namespace

TEST_CASE("stages, spans and marks arrive in the domain cutrace, on their threads, names registered once") {
  run_result r;
  run(r, "all");
  CHECK(r.process.errors.empty());
  const auto heard = r.by_thread();
  REQUIRE(heard.size() == 3);  // two threads, and all
  const lines main_thread = {"attached",
                             "create cutrace",
                             "register outer",
                             "push cutrace registered outer payload 17",
                             "register inner",
                             "push cutrace registered inner",
                             "pop cutrace",
                             "register batch",
                             "push cutrace registered batch",
                             "pop cutrace",
                             "push cutrace text run time",
                             "pop cutrace",
                             "register point",
                             "mark cutrace registered point",
                             "register text",
                             "mark cutrace registered text",
                             "pop cutrace",
                             "register span",
                             "start cutrace registered span payload 99",
                             "register ends with the session",
                             "start cutrace registered ends with the session",
                             "end cutrace 2"};
  const lines other_thread = {"push cutrace registered outer payload 17",
                              "register in adopted",
                              "push cutrace registered in adopted",
                              "pop cutrace",
                              "pop cutrace",
                              "push cutrace registered span payload 99",
                              "pop cutrace",
                              "end cutrace 1"};
  for (const auto& [thread, reported] : heard) {
    if (thread == "all") continue;
    CHECK(reported == (reported.front() == "attached" ? main_thread : other_thread));
  }
  check_stages(r.trace());
}

TEST_CASE("CUTRACE_NVTX asks for it, too; 0 does not, and anything else is refused") {
  run_result on, off, nonsense;
  run(on, "all", RECORDER, {{"CUTRACE_NVTX", "1"}});
  CHECK(count(on.by_thread()["all"], "push cutrace") == 7);
  run(off, "all", RECORDER, {{"CUTRACE_NVTX", "0"}});
  CHECK_FALSE(std::filesystem::exists(off.folder.file("heard")));  // the tool has not even been loaded
  check_stages(off.trace());
  nonsense.process = test_support::run_process({PROGRAM, "all"}, nonsense.folder.path(), {{"CUTRACE_NVTX", "maybe"}});
  CHECK(nonsense.process.errors.find(
            "CUTRACE_NVTX=\"maybe\" cannot be used; accepted: 0 (off, the default), 1 (on); the program "
            "runs untraced") != std::string::npos);
}

TEST_CASE("each range that began ends once, whatever sessions come and go meanwhile") {
  run_result r;
  run(r, "turns");
  CHECK(r.by_thread()["all"] == lines{"attached", "create cutrace", "register across the end",
                                      "push cutrace registered across the end", "pop cutrace", "register shown again",
                                      "push cutrace registered shown again", "pop cutrace"});
}

TEST_CASE("a forked child says nothing") {
  run_result r;
  run(r, "fork");
  CHECK(r.by_thread()["all"] == lines{"attached", "create cutrace", "register around the fork",
                                      "push cutrace registered around the fork", "pop cutrace"});
}

TEST_CASE("many threads") {
  run_result r;
  run(r, "crowd");
  const auto heard = r.by_thread();
  for (const auto& [thread, reported] : heard) {
    if (thread == "all" || reported.front() == "attached") continue;
    CHECK(count(reported, "push cutrace registered step payload") == 100);
    CHECK(count(reported, "pop cutrace") == 100);
    CHECK(count(reported, "start cutrace registered crowd span") == 100);
    CHECK(count(reported, "end cutrace") == 100);
    CHECK(count(reported, "mark cutrace registered crowd mark") == 100);
  }
  CHECK(count(heard.at("all"), "push") == 600);
}

TEST_CASE("no tool, or none that listens: one line, and the trace is whole") {
  const variables said = {{"", "no tool listens"},
                          {"/no/such/library.so", "cannot be loaded"},
                          {NO_TOOL, "no tool for NVTX 3"},
                          {REFUSING_TOOL, "refused to begin"},
                          {INJECTED_LIBRARY, "names cutrace itself"},
                          {DEAF_TOOL, ""}};
  for (const auto& one : said) {
    const std::string &tool = one.first, &line = one.second;
    CAPTURE(tool);
    run_result r;
    run(r, "all", tool.c_str());
    const std::string& errors = r.process.errors;
    CHECK(errors.find(line) != std::string::npos);
    CHECK(std::count(errors.begin(), errors.end(), '\n') == (line.empty() ? 0 : 1));
    check_stages(r.trace());
    CHECK(r.trace().of("stage").size() == 8);
  }
}

TEST_CASE("cutrace ingests nothing of its own domain") {
  run_result r;
  run(r, "both", INJECTED_LIBRARY, {{"CUTRACE_SINKS", "null"}});
  const jsonl_trace t = r.trace();
  CHECK(t.complete());
  CHECK(t.count("stage", "by nvtx") == 1);
  CHECK(t.count("stage", "by cutrace") == 1);
  CHECK(t.of("stage").size() == 2);
  CHECK(t.of("mark").empty());
}
