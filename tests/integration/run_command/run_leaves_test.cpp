// SPDX-License-Identifier: Apache-2.0
// Programs that leave without exit: what they print and how they end is as untraced, and their traces are whole.
#include <doctest/doctest.h>

#include <chrono>
#include <csignal>
#include <string>
#include <vector>

#include "run_support.hpp"

namespace run_leaves_test {

using run_support::jsonl_trace;
using run_support::run;

namespace {

const std::vector<std::string> methods = {"cupti", "preload"};

std::size_t calls(const jsonl_trace& t, const char* name) {
  std::size_t n = 0;
  for (const auto& e : t.of("api")) n += e.at("name") == name ? 1 : 0;
  return n;
}
std::size_t launches(const jsonl_trace& t) { return calls(t, "cuLaunchKernel"); }

double seconds_since(std::chrono::steady_clock::time_point t) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - t).count();
}

/// Runs it by itself and traced by each method.
void check_same(const std::vector<std::string>& program, std::size_t wanted) {
  const run plain(run::line{program});
  for (const std::string& method : methods) {
    INFO(method << " " << program[1]);
    const run traced({"--sink", "jsonl", "--method", method}, program);
    CHECK(traced.ended.exit_status == plain.ended.exit_status);
    CHECK(traced.ended.signal == plain.ended.signal);
    CHECK(traced.ended.output == plain.ended.output);
    CHECK(traced.ended.errors.find(plain.ended.errors) == 0);  // ours stand behind it
    REQUIRE(traced.files(".jsonl").size() == 1);
    const jsonl_trace t(traced.files(".jsonl")[0]);
    CHECK(t.complete());
    CHECK(launches(t) == wanted);
    if (method == "cupti") CHECK(t.of("kernel").size() == wanted);
    CHECK_FALSE(traced.says("not closed"));
  }
}

}  // namespace

TEST_CASE("programs that leave by _exit and its like: the trace is whole, all else is as untraced") {
  for (const char* how : {"_exit", "_Exit", "quick_exit", "thread", "handler"}) check_same({LEAVER, how}, 40);
  for (int turn = 0; turn < 20; ++turn) check_same({LEAVER, "many"}, 40);
}

TEST_CASE("programs that a signal ends, or abort") {
  for (const char* how : {"abort", "assert", "throw", "suspended", "own", "flagged"}) check_same({LEAVER, how}, 40);
  for (const char* number : {"1", "2", "3", "6", "10", "12", "13", "14", "15", "24"})
    check_same({LEAVER, "number", number}, 40);
}

TEST_CASE("signals look as they do without a trace, and the program's own handlers replace ours") {
  for (const char* how : {"signals", "ignored", "awaited", "abort_awaited", "chained"}) check_same({LEAVER, how}, 40);
}

TEST_CASE("a signal on the thread that ends the trace at exit: it ends the program when the trace is whole") {
  const run r({"--sink", "jsonl"}, {LEAVER, "at_exit"}, {{"CUTRACE_SIM_FAULTS", "slow_flush=700ms"}});
  CHECK(r.ended.signal == SIGTERM);
  CHECK_FALSE(r.says("not closed"));
  REQUIRE(r.files(".jsonl").size() == 1);
  const jsonl_trace t(r.files(".jsonl")[0]);
  CHECK(t.complete());
  CHECK(launches(t) == 40);
  CHECK(t.of("kernel").size() == 40);
}

TEST_CASE("children of a traced process leave as they want; its trace goes on") {
  check_same({LEAVER, "children"}, 40);
}

TEST_CASE("a program that becomes another one: all until then is in the file, an exec that fails ends nothing") {
  for (const std::string& m : methods) {
    const run plain(run::line{{LEAVER, "exec"}});
    const run traced({"--sink", "jsonl", "--method", m}, {LEAVER, "exec"});
    CHECK(traced.ended.exit_status == plain.ended.exit_status);
    CHECK(traced.ended.output == plain.ended.output);
    REQUIRE(traced.files(".jsonl").size() == 1);
    const jsonl_trace t(traced.files(".jsonl")[0]);
    CHECK(launches(t) == 40);
    CHECK(!t.torn);
    CHECK(t.footers == 0);
  }
}

TEST_CASE("Python: os._exit, workers of multiprocessing, and Ctrl-C stays a KeyboardInterrupt") {
  if (std::string(PYTHON).empty()) {
    MESSAGE("skipped: no python3 here");
    return;
  }
  for (const char* how : {"os._exit", "fork", "forkserver", "interrupt", "uncaught", "terminate", "handled", "asked"}) {
    const std::vector<std::string> program{PYTHON, LEAVES_PY, how};
    const run plain(run::line{program});
    for (const std::string& m : methods) {
      INFO(m << " " << how);
      const run traced({"--sink", "jsonl", "--method", m}, program);
      CHECK(traced.ended.exit_status == plain.ended.exit_status);
      CHECK(traced.ended.signal == plain.ended.signal);
      CHECK(traced.ended.output == plain.ended.output);
      CHECK(traced.ended.errors.find(plain.ended.errors) == 0);
      std::size_t processes = 0;
      for (std::size_t at = 0; (at = plain.ended.output.find("memset 30\n", at)) != std::string::npos; ++at)
        ++processes;
      CHECK(processes == (std::string(how).find("fork") == 0 ? 3 : 1));
      CHECK(traced.files(".jsonl").size() == processes);
      for (const std::string& file : traced.files(".jsonl")) {
        const jsonl_trace t(file);
        CHECK(t.complete());
        CHECK(calls(t, "cuMemsetD8Async") == 30);
        if (m == "cupti") CHECK(t.of("memset").size() == 30);
      }
      CHECK_FALSE(traced.says("not closed"));
    }
  }
}

TEST_CASE("before there is a trace, _exit is _exit") {
  for (const std::string& m : methods) {
    const run r({"--method", m}, {LEAVER, "early"});
    CHECK(r.ended.exit_status == 3);
    CHECK(r.file_count() == 0);
  }
}

TEST_CASE("a sink that holds up the trace does not hold up a program that leaves") {
  const auto begun = std::chrono::steady_clock::now();
  const run held(run::line{{"/bin/sh", "-c",
                            "mkfifo pipe; exec 3<>pipe; exec " + std::string(CUTRACE_COMMAND) +
                                " run --quiet --out out --sink jsonl:pipe -- " + LEAVER + " floods"}},
                 {{"CUTRACE_LEAVE_WAIT_MS", ""}});  // the default
  CHECK(held.ended.exit_status == 19);
  CHECK(seconds_since(begun) < 10);
}

TEST_CASE("the library is preloaded once, behind what the user preloads, also by a run in a run") {
  const run none({"--quiet"}, {"/bin/sh", "-c", "echo \"$LD_PRELOAD\""});
  CHECK(none.ended.output.find("libcutrace_watch.so\n") != std::string::npos);
  const run others({"--quiet"}, {"/bin/sh", "-c", "echo \"$LD_PRELOAD\""}, {{"LD_PRELOAD", "libm.so.6"}});
  CHECK(others.ended.output.find("libm.so.6:") == 0);  // what the user preloads comes first
  const run nested({"--quiet"}, {CUTRACE_COMMAND, "run", "--quiet", "--out", "inner", "--", "/bin/sh", "-c",
                                 "echo \"$LD_PRELOAD\""});
  CHECK(nested.ended.output.find(':') == std::string::npos);
}

}  // namespace run_leaves_test
