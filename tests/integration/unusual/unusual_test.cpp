// SPDX-License-Identifier: Apache-2.0
// What programs do not lose, and what their traces hold, when they do what few programs do. Each test runs unusual.cpp
// with an argument.
#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "../../support/child_process.hpp"
#include "../../support/jsonl_trace.hpp"
#include "../../support/sanitized.hpp"

using test_support::jsonl_trace;

namespace {

struct result {
  temporary_folder folder;
  test_support::finished_process process;
  jsonl_trace trace() const { return jsonl_trace(folder.file("t.jsonl")); }
};

void run(result& r, const std::vector<std::string>& words, int status = 0, const char* sinks = "jsonl:t.jsonl") {
  r.process = test_support::run_process(words, r.folder.path(),
                                        {{"CUTRACE_SINKS", sinks}, {"CUTRACE_BACKEND", "none"}, {"CUTRACE", "1"}});
  INFO("output: " << r.process.output << r.process.errors);
  REQUIRE_FALSE(r.process.hung);
  REQUIRE(r.process.exit_status == status);
}

}  // namespace

TEST_CASE("no further thread can be had: the program runs untraced, and that is said" * doctest::skip(sanitized)) {
  result r;
  run(r, {PROGRAM, "no_thread"}, 4, "null");
  CHECK(r.process.output == "active 0\n");
  CHECK(r.process.errors.find("no further thread can be started") != std::string::npos);
}

TEST_CASE("the session of a bound real-time thread has threads that are neither") {
  result r;
  run(r, {PROGRAM, "real_time"});
  CHECK(r.trace().complete());
}

TEST_CASE("all thread-specific keys are the program's" * doctest::skip(sanitized)) {
  result r;
  run(r, {PROGRAM, "all_keys"});
  CHECK(r.trace().complete());
  CHECK(r.trace().count("stage", "step") == 51);
}

TEST_CASE("a program whose main thread has left ends with its last thread") {
  result r;
  run(r, {PROGRAM, "main_thread_leaves"});
  CHECK(r.trace().complete());
  CHECK(r.trace().count("stage", "step") == 101);
}

TEST_CASE("a program whose main thread has left has not ended while its threads hand on to each other") {
  result r;
  run(r, {PROGRAM, "threads_hand_on"});
}

TEST_CASE("a thread that is cancelled while it waits for a flush") {
  result r;
  run(r, {PROGRAM, "cancelled"});
  CHECK(r.trace().complete());
}

TEST_CASE("a session begins while a library with a session of its own is loaded") {
  for (const std::string backend : {"cupti", "of_no_library"}) {
    CAPTURE(backend);
    result r;
    run(r, {PROGRAM, "plugin_loads", PLUGIN, backend});
    CHECK(r.process.output == "the library's session is open\n");
    CHECK(r.trace().complete());
    CHECK(r.trace().count("stage", "step") == 2);
  }
}

TEST_CASE("a child that the system call made ends as it likes, and leaves the trace alone") {
  for (const bool ends_session : {false, true}) {
    CAPTURE(ends_session);
    result r;
    std::vector<std::string> words = {PROGRAM, "system_call_fork"};
    if (ends_session) words.push_back("stop");
    run(r, words);
    CHECK(r.trace().complete());
    CHECK(r.trace().count("stage", "step") == 40);
    CHECK(r.trace().count("stage", "in child") == 0);
  }
}

TEST_CASE("a trace by the processor's counter stands in the frame of CLOCK_MONOTONIC") {
  result r;
  run(r, {PROGRAM, "by_counter"});
  CHECK(r.process.errors.empty());
}

TEST_CASE("a time namespace of its own: the header says that CLOCK_MONOTONIC is not that of the boot") {
  result usual, r;
  run(usual, {PROGRAM, "fibers"});
  run(r, {PROGRAM, "time_namespace"});
  if (r.process.output == "no time namespace here\n") {
    MESSAGE("left out: no time namespace here");
    return;
  }
  CHECK(r.trace().complete());
  const std::string boot = usual.trace().header.at("boot_id"), own = r.trace().header.at("boot_id");
  CHECK(own == boot + "+86400.000000005");
}

TEST_CASE("fibers that share a thread: no harm, all stages, and a line that says what is not known") {
  result r;
  run(r, {PROGRAM, "fibers"});
  const jsonl_trace t = r.trace();
  CHECK(t.complete());
  for (const char* stage : {"first", "second"}) CHECK(t.count("stage", stage) == 1);
  CHECK(t.count("stage", "step") == 2);
  CHECK(r.process.errors.find("end in another order than they began") != std::string::npos);
}

TEST_CASE("fibers that adopt their context in each part: each at its stage, and no such line") {
  result r;
  run(r, {PROGRAM, "adopting_fibers"});
  CHECK(r.process.errors.find("another order") == std::string::npos);
}

TEST_CASE("markers in all that runs at the end, before and after the session's own end") {
  result r;
  run(r, {AT_EXIT, "orders"}, 5);
  const jsonl_trace t = r.trace();
  CHECK(t.complete());
  for (const char* traced : {"static object after the session", "handler after the session"})
    CHECK(t.count("stage", traced) == 1);
  CHECK(t.count("stage", "thread-local object") == 2);  // of the main thread, and of one without another marker
  for (const char* name :
       {"static object before main", "static object before the session", "handler before the session"}) {
    CHECK(t.count("stage", name) == 0);
    CHECK(r.process.output.find(std::string(name) + "\n") != std::string::npos);
  }
  CHECK(t.count("mark", "late") == 4);
  CHECK(t.count("stage", "span") == 8);  // and the part of each that adopts it
}

TEST_CASE("a session that an exit handler opens, after the runtime's own has run") {
  for (const char* how : {"scoped", "leaked"}) {
    CAPTURE(how);
    result r;
    run(r, {AT_EXIT, "late", how}, 5);
    CHECK(r.process.output.rfind("active 1\n", 0) == 0);
    CHECK(r.trace().complete());
    CHECK(r.trace().count("stage", "step") == 1);
    const jsonl_trace late(r.folder.file("late.jsonl"));
    CHECK(late.complete());
    CHECK(late.count("stage", "late step") == 1);
  }
}

TEST_CASE("memory runs out on the collector: nothing comes twice, and what is missing is counted" *
          doctest::skip(sanitized)) {
  for (const char* least : {"8192", "1024", "256", "1"}) {
    CAPTURE(least);
    result r;
    run(r, {SHORT_OF_MEMORY, least});
  }
}

TEST_CASE("each allocation fails in turn: sessions are inert or say what they lack, and never throw" *
          doctest::skip(sanitized)) {
  result r;
  ::setenv("CUTRACE_MEMORY_LIMIT", "1M", 1);
  run(r, {FAILING_ALLOCATION});
  ::unsetenv("CUTRACE_MEMORY_LIMIT");
}

TEST_CASE("a filter of system calls that kills: tracing needs none but those that its page lists" *
          doctest::skip(sanitized)) {
  result r;
  run(r, {SANDBOX, "all"}, 0, "jsonl:t.jsonl,chrome:t.json,perfetto:t.pftrace.gz,ascii:t.txt");
  if (r.process.output == "no seccomp here\n") {
    MESSAGE("left out: no seccomp here");
    return;
  }
  CHECK(r.trace().complete());
  CHECK(r.trace().count("stage", "step") == 60);
}

TEST_CASE("such a filter where files are there already and become large" * doctest::skip(sanitized)) {
  result r;
  std::ofstream(r.folder.file("t.jsonl")) << "of an earlier trace\n";
  run(r, {SANDBOX, "all", "much"}, 0, "jsonl:t.jsonl,chrome:t.json");
  if (r.process.output == "no seccomp here\n") return;
  CHECK(r.trace().complete());
  CHECK(r.trace().count("mark", "more") == 20000);
}

TEST_CASE("a filter of system calls that refuses some to all threads" * doctest::skip(sanitized)) {
  for (const std::vector<std::string>& refused :
       std::vector<std::vector<std::string>>{{"openat", "tgkill", "prlimit64", "mmap", "madvise"}, {"write"}}) {
    INFO(refused[0]);
    result r;
    std::vector<std::string> words = {SANDBOX, "refuse"};
    words.insert(words.end(), refused.begin(), refused.end());
    run(r, words);
    if (r.process.output == "no seccomp here\n") continue;
    CHECK(r.trace().complete() == (refused[0] != "write"));  // without it: no footer, and no line on stderr
  }
}

TEST_CASE("a thread in strict mode passes markers") {
  result r;
  run(r, {SANDBOX, "strict"});
  if (r.process.output == "no seccomp here\n") return;
  CHECK(r.trace().complete());
  CHECK(r.trace().count("stage", "step") == 1000);
}
