// SPDX-License-Identifier: Apache-2.0
// What a traced process leaves behind, however it lives and ends. Each test runs process_life.cpp with an argument.
#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "../../support/child_process.hpp"
#include "../../support/jsonl_trace.hpp"
#include "../../support/sanitized.hpp"

using nlohmann::json;
using test_support::finished_process;
using test_support::jsonl_trace;

namespace {

struct run_result {
  temporary_folder folder;
  finished_process process;
  jsonl_trace trace() const { return jsonl_trace(folder.file("t.jsonl")); }
};

/// `lines` of stderr, all of them with `said` in them.
struct expected_errors {
  std::size_t lines = 0;
  std::string said;
};

void check_errors(const std::string& errors, const expected_errors& expected) {
  std::istringstream in(errors);
  std::size_t lines = 0;
  for (std::string line; std::getline(in, line);) {
    const bool is_expected = expected.lines != 0 && line.find(expected.said) != std::string::npos;
    // A slow machine may cause this line, and rightly.
    if (!is_expected && line.find("holds up the program, which waits for it") != std::string::npos) continue;
    ++lines;
    CHECK(is_expected);
  }
  CHECK(lines == expected.lines);
}

void run(run_result& r, const std::vector<std::string>& arguments, int status = 0,
         std::map<std::string, std::string> environment = {}, const expected_errors& expected = {}) {
  std::vector<std::string> words = {PROGRAM};
  words.insert(words.end(), arguments.begin(), arguments.end());
  environment.insert({"CUTRACE_SINKS", "jsonl:t.jsonl,chrome:t.json,ascii:t.txt"});
  environment.insert({"CUTRACE_BACKEND", "none"});
  environment.insert({"CUTRACE", "1"});
  r.process = test_support::run_process(words, r.folder.path(), environment);
  INFO("output: " << r.process.output << r.process.errors);
  REQUIRE_FALSE(r.process.hung);
  REQUIRE(r.process.exit_status == status);
  check_errors(r.process.errors, expected);
}

/// The other sinks are complete, too, and no half-written file is left.
void check_other_sinks(const run_result& r) {
  const json chrome = json::parse(content_of(r.folder.file("t.json")));
  const std::string steps = "\"name\":\"step\"";
  CHECK(chrome.dump().find(steps) != std::string::npos);
  CHECK(content_of(r.folder.file("t.txt")).find("step") != std::string::npos);
  CHECK(test_support::files_with(r.folder.path(), ".tmp").empty());
}

/// One complete trace with `n` steps, each once and each with its mark.
void check_steps(const run_result& r, std::size_t n) {
  const jsonl_trace t = r.trace();
  CHECK(t.complete());
  CHECK(t.count("stage", "step") == n);
  CHECK(t.count("mark", "within") == n);
  check_other_sinks(r);
}

}  // namespace

TEST_CASE("the control: a session that is stopped") {
  run_result r;
  run(r, {"plain"});
  check_steps(r, 100);
  CHECK(r.trace().events.size() == 100 + 100 + 2);  // and the process and its thread
}

TEST_CASE("a trace in parts: the line on what was written names the newest of those that are there") {
  const temporary_folder folder;
  std::ofstream(folder.file("t.9999.jsonl")) << "of an earlier trace";
  const auto process = test_support::run_process(
      {PROGRAM, "plain"}, folder.path(),
      {{"CUTRACE_SINKS", "jsonl:t.jsonl?rotate=8K&keep=2"}, {"CUTRACE_BACKEND", "none"}, {"CUTRACE", "1"}});
  CHECK(process.exit_status == 0);
  CHECK(std::filesystem::remove(folder.file("t.9999.jsonl")));
  std::vector<std::string> parts = test_support::files_with(folder.path(), ".jsonl");
  std::sort(parts.begin(), parts.end());
  REQUIRE(parts.size() == 2);
  CHECK(process.wrote.find("/t.0001.jsonl") == std::string::npos);
  const std::string bytes = std::to_string(std::filesystem::file_size(parts[0]) + std::filesystem::file_size(parts[1]));
  CHECK(process.wrote.find(parts[1] + " (the newest of 2 parts, " + bytes + " bytes)") != std::string::npos);
}

TEST_CASE("a trace in parts of which one stays: the line on what was written does not speak of several") {
  const temporary_folder folder;
  const auto process = test_support::run_process(
      {PROGRAM, "plain"}, folder.path(),
      {{"CUTRACE_SINKS", "jsonl:t.jsonl?rotate=8K&keep=1"}, {"CUTRACE_BACKEND", "none"}, {"CUTRACE", "1"}});
  const std::vector<std::string> parts = test_support::files_with(folder.path(), ".jsonl");
  REQUIRE(parts.size() == 1);
  CHECK(process.wrote.find(parts[0] + " (the only part that is left, ") != std::string::npos);
}

TEST_CASE("nobody reads stderr or stdout: the program hears nothing of it") {
  for (const std::string sinks : {"jsonl:/no/such/folder/t.jsonl", "jsonl:/dev/full,ascii,calls", "ascii:-",
                                  "calls:-,jsonl", "jsonl:/dev/stdout,calls:/dev/stderr"}) {
    for (const std::string stream : {"2", "1"}) {
      INFO(sinks << " and stream " << stream);
      run_result r;
      r.process = test_support::run_process({PROGRAM, "unread", stream}, r.folder.path(),
                                            {{"CUTRACE_SINKS", sinks}, {"CUTRACE_BACKEND", "none"}, {"CUTRACE", "1"}});
      CHECK(r.process.signal == 0);
      CHECK(r.process.exit_status == 7);
      CHECK(r.process.output.find("FAILED") == std::string::npos);
    }
  }
}

TEST_CASE("stderr takes wide output after a line of cutrace") {
  for (const char* sinks : {"jsonl:/no/such/folder/t.jsonl", "jsonl:/dev/full"}) {
    run_result r;
    r.process = test_support::run_process({PROGRAM, "wide_errors"}, r.folder.path(),
                                          {{"CUTRACE_SINKS", sinks}, {"CUTRACE_BACKEND", "none"}, {"CUTRACE", "1"}});
    CHECK(r.process.exit_status == 7);
    CHECK(r.process.errors.rfind("cutrace: ", 0) == 0);
    CHECK(r.process.errors.find("\nwide\n") != std::string::npos);
  }
}

TEST_CASE("a limit on the size of files ends no program: SIGXFSZ is kept from it") {
  run_result r;
  std::filesystem::create_directory(r.folder.file("status"));
  r.process = test_support::run_process({PROGRAM, "small_files"}, r.folder.path(),
                                        {{"CUTRACE_SINKS", "jsonl:t.jsonl,chrome:t.json,perfetto:t.pftrace.gz"},
                                         {"CUTRACE_BACKEND", "none"},
                                         {"CUTRACE_RUN", r.folder.file("status")},
                                         {"CUTRACE", "1"}});
  CHECK(r.process.signal == 0);
  CHECK(r.process.exit_status == 7);
}

TEST_CASE("cutrace run hears why its trace could not begin, also where the program has a trace of its own") {
  run_result r;
  run(r, {"own_session"}, 7, {{"CUTRACE_SINKS", "jsonl:/no/such/folder/t.jsonl"}, {"CUTRACE_RUN", r.folder.path()}});
}

TEST_CASE("cutrace run hears of its own sinks alone, however many the program's sessions have") {
  run_result r;
  run(r, {"many_sessions"}, 7,
      {{"CUTRACE_SINKS", "jsonl:" + r.folder.file("t.jsonl")}, {"CUTRACE_RUN", r.folder.path()}});
}

TEST_CASE("fork before the session: each process has a trace of its own") {
  run_result r;
  run(r, {"fork_before_session"}, 0, {{"CUTRACE_SINKS", "jsonl:%p.jsonl"}});
  const std::vector<std::string> files = test_support::files_with(r.folder.path(), ".jsonl");
  REQUIRE(files.size() == 2);
  std::size_t steps = 0;
  for (const std::string& f : files) {
    const jsonl_trace t(f);
    CHECK(t.complete());
    CHECK(std::filesystem::path(f).stem().string() == std::to_string(t.header.at("pid").get<int>()));
    for (const json& e : t.events) CHECK(e.at("pid") == t.header.at("pid"));
    const std::size_t n = t.count("stage", "step");
    CHECK((n == 10 || n == 20));
    steps += n;
  }
  CHECK(steps == 30);
}

TEST_CASE("fork while tracing: the child's markers go nowhere, the parent's files are whole and not doubled") {
  for (const char* end : {"return", "stop", "exit", "_exit", "quick_exit"}) {
    CAPTURE(end);
    if (sanitized && std::string(end) != "_exit") continue;
    run_result r;
    // Each of five children opens a session, which is refused with a line; nothing else is said.
    run(r, {"fork_while_tracing", end}, 0, {{"CUTRACE_MEMORY_LIMIT", "256M"}},
        {sanitized ? 0u : 5u, "forked from a traced one"});
    const jsonl_trace t = r.trace();
    CHECK(t.headers == 1);
    CHECK(t.footers == 1);
    CHECK(t.count("stage", "step") == 600);
    CHECK(t.count("mark", "within") == 600);
    CHECK(t.count("stage", "open while forking") == 1);
    CHECK(t.count("stage", "in child") == 0);
    CHECK(t.count("mark", "in child") == 0);
    CHECK(t.of("process").size() == 1);
    for (const json& e : t.events) REQUIRE(e.at("pid") == t.header.at("pid"));
    check_other_sinks(r);
  }
}

TEST_CASE("exit without stop: files are complete") {
  for (const char* end : {"exit", "thread", "return"}) {
    CAPTURE(end);
    run_result r;
    run(r, {"leak", end}, 7);
    check_steps(r, 100);
  }
}

TEST_CASE("quick_exit ends the trace; after abort it is readable up to the last flush") {
  for (const char* end : {"flush_quick_exit", "flush_abort"}) {
    CAPTURE(end);
    run_result r;
    const bool aborts = std::string(end) == "flush_abort";
    run(r, {"leak", end}, aborts ? -1 : 7);
    CHECK(r.process.signal == (aborts ? SIGABRT : 0));
    const jsonl_trace t = r.trace();
    CHECK(t.headers == 1);
    CHECK(t.footers == (aborts ? 0 : 1));
    CHECK_FALSE(t.torn);
    CHECK(t.count("stage", "step") >= 100);
    CHECK(t.count("mark", "within") >= 100);
  }
}

TEST_CASE("main returns while threads still pass markers") {
  run_result r;
  run(r, {"return_while_threads_run"}, 0, {{"CUTRACE_MEMORY_LIMIT", "256M"}});
  const jsonl_trace t = r.trace();
  CHECK(t.headers == 1);
  CHECK(t.footers == 1);
  CHECK(t.count("stage", "step") == 200);
  CHECK(t.footer.at("produced").get<std::uint64_t>() ==
        t.footer.at("delivered").get<std::uint64_t>() + t.footer.at("lost_total").get<std::uint64_t>());
  check_other_sinks(r);
}

TEST_CASE("markers in destructors of threads and of the program") {
  run_result r;
  run(r, {"late_markers"});
  const jsonl_trace t = r.trace();
  CHECK(t.complete());
  CHECK(t.count("stage", "in thread_local destructor") == 50);
  CHECK(t.count("mark", "late") == 50);
  CHECK(t.count("stage", "in key destructor") == 100);  // one by the key before the runtime's, one by that after it
  CHECK(t.count("stage", "in static destructor") == 0);
  std::set<std::uint64_t> threads;
  for (const json& e : t.of("thread")) threads.insert(e.at("tid").get<std::uint64_t>());
  for (const json& e : t.of("stage")) CHECK(threads.count(e.at("tid").get<std::uint64_t>()) == 1);
}

TEST_CASE("a thread that lingers in its last destructor keeps its state") {
  run_result r;
  run(r, {"lingering_thread"});
  const jsonl_trace t = r.trace();
  CHECK(t.complete());
  CHECK(t.count("stage", "step") == 20);
  REQUIRE(t.count("stage", "after lingering") == 1);
  // Threads that came meanwhile did not take it over.
  std::set<std::uint64_t> others;
  std::uint64_t lingered = 0;
  for (const json& e : t.of("stage")) {
    if (e.at("name") == "step")
      others.insert(e.at("tid").get<std::uint64_t>());
    else
      lingered = e.at("tid");
  }
  CHECK(others.size() == 20);
  CHECK(others.count(lingered) == 0);
  CHECK(std::to_string(lingered) + "\n" == r.process.output);
}

TEST_CASE("a sink that never returns does not keep the program from ending") {
  for (const char* end : {"stop", "exit", "flush"})
    for (const char* where : {"first write", "write", "flush", "close"}) {
      CAPTURE(end);
      CAPTURE(where);
      run_result r;
      run(r, {"blocked_sink", end, where}, 7, {}, {1, "' has not returned in time: it gets no more events"});
      if (std::string(end) != "exit") {
        const std::string why =
            "an earlier trace of this process never ended, a sink of it holds it up; the program runs untraced\n";
        CHECK(r.process.output == why + why);
      }
      // The sinks before and behind it have everything, and their end.
      const std::size_t steps = std::string(end) == "flush" ? 200 : 100;
      check_steps(r, steps);
      const jsonl_trace behind(r.folder.file("behind.jsonl"));
      CHECK(behind.complete());
      CHECK(behind.count("stage", "step") == steps);
    }
}

TEST_CASE("several sinks that never return, of two sessions") {
  run_result r;
  run(r, {"blocked_sink", "twice"}, 7, {}, {2, "' has not returned in time"});
  check_steps(r, 100);
  run(r, {"blocked_sink", "other session", "nowhere"}, 7, {}, {2, "session: "});  // one says that it joins
  CHECK(r.process.errors.find("'closing' has not returned in time") != std::string::npos);
  check_steps(r, 120);
  CHECK(jsonl_trace(r.folder.file("behind.jsonl")).complete());
  CHECK(jsonl_trace(r.folder.file("other.jsonl")).complete());
}

TEST_CASE("a sink that holds up the end of the program is named") {
  run_result r;
  run(r, {"slow_sink"}, 0, {}, {1, "sink 'user' holds up the program, which waits for it; up to 30 s"});
  check_steps(r, 100);
}

TEST_CASE("a sink that returns after it was given up does no harm") {
  run_result r;
  // Without files: on a busy machine their sinks may take longer than this session allows, too.
  run(r, {"late_sink"}, 0, {{"CUTRACE_SINKS", "null"}}, {1, "sink 'user' has not returned in time"});
}

TEST_CASE("a sink that ends the program") {
  run_result r;
  run(r, {"exit_in_sink"}, 3);
}

TEST_CASE("an error handler that ends the program, or that is called when it ends") {
  for (const char* when : {"begin", "at exit"}) {
    CAPTURE(when);
    run_result r;
    run(r, {"exit_in_handler", when}, 3);
  }
}

TEST_CASE("many threads at once: all of them are traced") {
  run_result r;
  run(r, {"many_threads", "600"});
  check_steps(r, 2400);
}

TEST_CASE("more threads than chunks: what they lose is counted, and the trace says why") {
  for (const char* how : {"many_threads", "many_threads_before_a_pass"}) {
    CAPTURE(how);
    run_result r;
    run(r, {how, "100"}, 0, {{"CUTRACE_MEMORY_LIMIT", "1M"}}, {1, "raise CUTRACE_MEMORY_LIMIT"});
    const jsonl_trace t = r.trace();
    CHECK(t.headers == 1);
    CHECK(t.footers == 1);
    CHECK(t.count("stage", "step") > 0);
    CHECK(t.count("stage", "step") < 400);
  }
}

TEST_CASE("a session in a static object ends when the program does") {
  run_result r;
  run(r, {"session_in_static"});
  check_steps(r, 110);  // what is destroyed before the session is traced, what comes after it is not
}

TEST_CASE("many short-lived threads") {
  const int threads = sanitized ? 500 : 3000;
  run_result r;
  run(r, {"storm", std::to_string(threads)});
  check_steps(r, static_cast<std::size_t>(threads) * 3);
}

TEST_CASE("pause and resume from several threads under load") {
  run_result r;
  run(r, {"pause_under_load", sanitized ? "50" : "500"}, 0, {{"CUTRACE_MEMORY_LIMIT", "256M"}});
  const jsonl_trace t = r.trace();
  CHECK(t.headers == 1);
  CHECK(t.footers == 1);
  CHECK(t.count("stage", "while paused") == 0);
  CHECK(t.count("stage", "after the last resume") == 1);
  CHECK(t.count("stage", "noise") > 0);
}

TEST_CASE("a session that is stopped twice") {
  run_result r;
  run(r, {"stop_twice"});
  check_steps(r, 100);
}

TEST_CASE("two threads start sessions at once") {
  run_result r;
  run(r, {"start_at_once", "40"}, 0, {{"CUTRACE_SINKS", "null"}});
}

TEST_CASE("CUTRACE=0: no file, no line, no harm") {
  for (const char* what : {"leak", "fork_before_session", "late_markers", "session_in_static"}) {
    CAPTURE(what);
    run_result r;
    run(r, {what}, std::string(what) == "leak" ? 7 : 0, {{"CUTRACE", "0"}});
    for (const char* ending : {".jsonl", ".json", ".txt", ".tmp"})
      CHECK(test_support::files_with(r.folder.path(), ending).empty());
  }
}
