// SPDX-License-Identifier: Apache-2.0
// Every way to reach a driver, in every situation: each call is seen exactly once, and no result differs by a bit.
#include <doctest/doctest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "../../support/child_process.hpp"
#include "../../support/jsonl_trace.hpp"

namespace {

using test_support::finished_process;
using test_support::jsonl_trace;
using test_support::run_process;

const std::vector<std::string> linkages = {"dlsym", "by_address", "now", "lazy", "no_plt"};
const std::vector<std::string> situations = {"plain",
                                             "threads",
                                             "fork",
                                             "fork early",
                                             "exec",
                                             "nested",
                                             "callback",
                                             "longjmp",
                                             "exception",
                                             "eleven",
                                             "floating",
                                             "struct",
                                             "address",
                                             "errno",
                                             "everything",
                                             "handler",
                                             "handler in a thread",
                                             "threads that end",
                                             "threads at once",
                                             "plugins"};

using counts = std::map<std::string, std::uint64_t>;

/// cuGetProcAddress_v2 is recorded as cuGetProcAddress where the library was built with the table of CUDA's functions.
std::string plain(const std::string& name) { return name == "cuGetProcAddress_v2" ? "cuGetProcAddress" : name; }

/// What a subject said: lines without the numbers of processes, and the counts of each process.
struct account {
  std::string text;  ///< what does not differ between runs
  std::map<std::string, counts> of_process;

  explicit account(const std::string& output) {
    std::istringstream in(output);
    for (std::string line; std::getline(in, line);) {
      std::istringstream words(line);
      std::string process, verb, name;
      std::uint64_t n = 0;
      words >> process;
      const bool untraced = process == "untraced";
      if (untraced) words >> process;
      words >> verb >> name >> n;
      text += verb + " " + name + " " + std::to_string(n) + "\n";
      if (verb == "called" && !untraced) of_process[process][plain(name)] += n;
    }
  }
};

counts seen_in(const jsonl_trace& trace) {
  counts n;
  for (const nlohmann::json& e : trace.of("api")) ++n[plain(e.at("name"))];
  return n;
}

std::string text_of(const counts& all) {
  std::string text;
  for (const auto& [name, n] : all) text += name + " " + std::to_string(n) + "\n";
  return text;
}

struct traced_run {
  temporary_folder folder;
  finished_process ended;
  std::map<std::string, jsonl_trace> traces;  ///< by process

  traced_run(const std::string& linkage, const std::string& situation, const std::string& driver = SHAPES_FOLDER,
             std::map<std::string, std::string> more = {}) {
    std::map<std::string, std::string> environment = {{"LD_LIBRARY_PATH", driver + ":" + SHAPES_FOLDER},
                                                      {"LD_PRELOAD", PRELOADED_LIBRARY},
                                                      {"CUTRACE_OVERFLOW", "wait"},
                                                      {"CUTRACE_SINKS", "jsonl:trace.%p"}};
    for (const auto& [name, value] : more) environment[name] = value;
    ended = run_process({std::string(SUBJECTS) + "/preload_" + linkage, situation}, folder.path(), environment);
    for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
      const std::string file = entry.path().filename().string();
      if (file.rfind("trace.", 0) == 0) traces.emplace(file.substr(6), jsonl_trace(entry.path().string()));
    }
  }
};

finished_process untraced(const std::string& linkage, const std::string& situation,
                          std::map<std::string, std::string> more = {}) {
  temporary_folder folder;
  more["LD_LIBRARY_PATH"] = SHAPES_FOLDER;
  more["LD_PRELOAD"] = "";
  return run_process({std::string(SUBJECTS) + "/preload_" + linkage, situation}, folder.path(), more);
}

/// Counts of the driver itself beside those of the trace.
void compare(const account& said, const traced_run& run) {
  CHECK(run.traces.size() == said.of_process.size());
  for (const auto& [process, called] : said.of_process) {
    const auto trace = run.traces.find(process);
    REQUIRE(trace != run.traces.end());
    CHECK(trace->second.complete());
    CHECK(text_of(seen_in(trace->second)) == text_of(called));
  }
}

TEST_CASE("each call is seen exactly once, results are the same") {
  for (const std::string& linkage : linkages) {
    for (const std::string& situation : situations) {
      CAPTURE(linkage);
      CAPTURE(situation);
      const finished_process plain = untraced(linkage, situation);
      REQUIRE_MESSAGE(plain.exit_status == 0, plain.errors);
      const traced_run run(linkage, situation);
      REQUIRE_MESSAGE(run.ended.exit_status == 0, run.ended.errors, run.ended.signal);
      const account before(plain.output), now(run.ended.output);
      CHECK(before.text == now.text);
      compare(now, run);
    }
  }
}

TEST_CASE("the same under sanitizers, which have nothing to say") {
  struct sanitizer {
    std::string name, runtime;
  };
  const std::vector<sanitizer> sanitizers = {
#include "sanitizers.inc"
  };
  for (const sanitizer& s : sanitizers) {
    // ThreadSanitizer ignores our library, which is not instrumented: it does not see its atomics.
    std::map<std::string, std::string> options = {
        {"ASAN_OPTIONS", "detect_stack_use_after_return=1"},
        {"TSAN_OPTIONS", "ignore_noninstrumented_modules=1:die_after_fork=0"}};
    // Each situation in one way to reach the driver, the plain one in all: the cross product is the test above.
    const std::vector<std::string> ways = {"dlsym", "now", "lazy", "no_plt"};
    std::vector<std::pair<std::string, std::string>> pairs;
    for (const std::string& way : ways) pairs.emplace_back(way, "plain");
    // A sanitizer's allocator may be locked by one of our threads at the fork, and stays so in the child
    // (one-runtime.md).
    for (std::size_t i = 0; i < situations.size(); ++i)
      if (situations[i] != "fork") pairs.emplace_back(ways[i % ways.size()], situations[i]);
    for (const auto& [way, situation] : pairs) {
      const std::string program = s.name + "_" + way;
      CAPTURE(program);
      INFO(situation);
      const finished_process plain = untraced(program, situation, options);
      REQUIRE_MESSAGE(plain.exit_status == 0, plain.errors);
      std::map<std::string, std::string> preloaded = options;
      preloaded["LD_PRELOAD"] = s.runtime + ":" + PRELOADED_LIBRARY;
      const traced_run run(program, situation, SHAPES_FOLDER, preloaded);
      REQUIRE_MESSAGE(run.ended.exit_status == 0, run.ended.errors, run.ended.signal);
      CHECK(run.ended.errors.find("Sanitizer") == std::string::npos);
      const account before(plain.output), now(run.ended.output);
      CHECK(before.text == now.text);
      compare(now, run);
    }
  }
}

const nlohmann::json* find(const std::vector<nlohmann::json>& events, std::uint64_t correlation) {
  for (const nlohmann::json& e : events)
    if (e.at("correlation") == correlation) return &e;
  return nullptr;
}

TEST_CASE("a call that is made in another one names it") {
  const std::map<std::string, std::string> outer = {{"nested", "cuNested"}, {"callback", "cuCallback"}};
  for (const auto& one : outer) {
    const std::string &situation = one.first, &name = one.second;
    CAPTURE(situation);
    const traced_run run("dlsym", situation);
    REQUIRE(run.traces.size() == 1);
    const std::vector<nlohmann::json> calls = run.traces.begin()->second.of("api");
    std::size_t inner = 0;
    for (const nlohmann::json& e : calls) {
      if (e.at("name") != "cuLeaf") {
        CHECK_FALSE(e.contains("enclosing"));
        continue;
      }
      ++inner;
      REQUIRE(e.contains("enclosing"));
      const nlohmann::json* o = find(calls, e.at("enclosing"));
      REQUIRE(o != nullptr);
      CHECK(o->at("name") == name);
      CHECK(o->at("ts_ns") <= e.at("ts_ns"));
      CHECK(e.at("ts_ns").get<std::int64_t>() + e.at("dur_ns").get<std::int64_t>() <=
            o->at("ts_ns").get<std::int64_t>() + o->at("dur_ns").get<std::int64_t>());
    }
    CHECK(inner == (situation == "nested" ? 100 : 50));
  }
}

TEST_CASE("a call that was left says so, and nothing counts as nested in it afterwards") {
  for (const char* situation : {"longjmp", "exception"}) {
    CAPTURE(situation);
    const traced_run run("now", situation);
    REQUIRE(run.traces.size() == 1);
    std::size_t left = 0;
    for (const nlohmann::json& e : run.traces.begin()->second.of("api")) {
      if (e.at("name") == "cuCallback") left += e.value("result_name", "") == "did not return";
      if (e.at("name") == "cuLeaf") CHECK_FALSE(e.contains("enclosing"));
    }
    CHECK(left == 150);
  }
}

TEST_CASE("a call that an exception leaves ends when it does, not when the next one comes") {
  const traced_run run("now", "caught");
  REQUIRE(run.traces.size() == 1);
  const jsonl_trace& trace = run.traces.begin()->second;
  const nlohmann::json& clocks = trace.header.at("clocks");
  for (const nlohmann::json& e : trace.of("api")) {
    if (e.at("name") != "cuCallback") continue;
    const std::int64_t end = e.at("ts_ns").get<std::int64_t>() + e.at("dur_ns").get<std::int64_t>() +
                             clocks.at("monotonic_ns").get<std::int64_t>() - clocks.at("trace_ns").get<std::int64_t>();
    CHECK(end <= std::stoll(run.ended.output) + clocks.at("error_ns").get<std::int64_t>());
  }
  CHECK(trace.count("api", "cuCallback") == 1);
}

TEST_CASE("a function that was added after the build is traced, by its symbol and without") {
  const traced_run run("by_address", "added", LATER_FOLDER);
  REQUIRE_MESSAGE(run.ended.exit_status == 0, run.ended.errors);
  REQUIRE(run.traces.size() == 1);
  CHECK(run.traces.begin()->second.count("api", "cuAddedAfterwards") == 50);
  // An older driver lacks it, and reports that to the program.
  CHECK(traced_run("by_address", "added").ended.exit_status == 1);
}

TEST_CASE("a driver that the program drops and opens again is traced, and is not looked into meanwhile") {
  const traced_run run("dlsym", "reopened");
  REQUIRE_MESSAGE(run.ended.exit_status == 0, run.ended.errors, run.ended.signal);
  REQUIRE(run.traces.size() == 1);
  CHECK(run.traces.begin()->second.count("api", "cuInit") == 2);
}

TEST_CASE("weak names that the loader left empty are looked at once") {
  const traced_run run("weak", "asks");
  REQUIRE_MESSAGE(run.ended.exit_status == 0, run.ended.errors, run.ended.signal);
  CHECK(std::atoi(run.ended.output.c_str()) < 150);  // of 100 calls of dlsym; three times each where it looked again
}

TEST_CASE("libraries that hand out their functions themselves are found soon after they were loaded") {
  for (const std::string& linkage : linkages) {
    CAPTURE(linkage);
    const traced_run run(linkage, "handed out");
    REQUIRE_MESSAGE(run.ended.exit_status == 0, run.ended.errors, run.ended.signal);
    compare(account(run.ended.output), run);
  }
}

TEST_CASE("what is no exported symbol is named in the trace") {
  const traced_run run("now", "address");
  REQUIRE(run.traces.size() == 1);
  const std::string notes = run.traces.begin()->second.footer.at("notes").dump();
  CHECK(notes.find("looked up, but not exported by the driver: cuHidden") != std::string::npos);
}

TEST_CASE("a driver that is too old for events is traced without GPU time, and that is said") {
  const traced_run run("now", "everything", SHAPES_FOLDER, {{"CUTRACE_GPU_EVENTS", "1"}});
  CHECK(run.ended.exit_status == 0);
  CHECK(run.ended.errors.find("the driver lacks functions of CUDA 12.0") != std::string::npos);
  compare(account(run.ended.output), run);
}

TEST_CASE("the library refuses to be an auditor, and the program goes on without it") {
  for (const std::string& linkage : linkages) {
    const traced_run run(linkage, "everything", SHAPES_FOLDER, {{"LD_PRELOAD", ""}, {"LD_AUDIT", PRELOADED_LIBRARY}});
    CHECK(run.ended.exit_status == 0);
    CHECK(run.ended.errors.find("cannot be used by LD_AUDIT: LD_PRELOAD is the way") != std::string::npos);
    CHECK(run.traces.empty());
    CHECK(account(run.ended.output).text == account(untraced(linkage, "everything").output).text);
  }
}

TEST_CASE("a process without a call of the driver is left alone") {
  for (const std::string& linkage : linkages) {
    const traced_run run(linkage, "idle");
    CHECK(run.ended.exit_status == 0);
    CHECK(run.ended.errors.empty());
    CHECK(run.traces.empty());
  }
  const traced_run off("now", "everything", SHAPES_FOLDER, {{"CUTRACE", "0"}});
  CHECK(off.ended.exit_status == 0);
  CHECK(off.ended.errors.empty());
  CHECK(off.traces.empty());
}

}  // namespace
