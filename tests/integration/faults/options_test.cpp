// SPDX-License-Identifier: Apache-2.0
// Options that cannot be used: one line that names the variable and what it accepts, and a program that runs on; an
// exception where the program's own code is to blame.
#include "faults_run.hpp"

namespace options_test {

using namespace faults;  // NOLINT(google-build-using-namespace)

namespace {

struct bad_option {
  const char* name;
  const char* value;
  std::vector<std::string> said;
};

const std::vector<bad_option> bad_options = {
    {"CUTRACE_SINKS", "jsnl:x.jsonl", {"CUTRACE_SINKS", "\"jsnl\"", "accepted", "ascii", "calls", "chrome", "jsonl"}},
    {"CUTRACE_SINKS", "jsonl:/nonexistent/folder/t.jsonl", {"/nonexistent/folder/t.jsonl", "No such file"}},
    {"CUTRACE_SINKS", "jsonl:x.jsonl;calls:x.calls", {"CUTRACE_SINKS", "commas"}},
    {"CUTRACE_SINKS", "jsonl:x.jsonl?form=xml", {"CUTRACE_SINKS", "form=xml", "events", "paired"}},
    {"CUTRACE_SINKS", "jsonl:x.jsonl?size=1", {"CUTRACE_SINKS", "\"size\"", "accepted"}},
    {"CUTRACE_SINKS", ",", {"CUTRACE_SINKS", "missing"}},
    {"CUTRACE", "maybe", {"CUTRACE=\"maybe\"", "0", "1"}},
    {"CUTRACE_MEMORY_LIMIT", "plenty", {"CUTRACE_MEMORY_LIMIT=\"plenty\"", "1M", "64G"}},
    {"CUTRACE_MEMORY_LIMIT", "64Q", {"CUTRACE_MEMORY_LIMIT=\"64Q\"", "1M"}},
    {"CUTRACE_MEMORY_LIMIT", "-1M", {"CUTRACE_MEMORY_LIMIT=\"-1M\"", "1M"}},
    {"CUTRACE_MEMORY_LIMIT", "1K", {"CUTRACE_MEMORY_LIMIT=\"1K\"", "1M"}},
    {"CUTRACE_MEMORY_LIMIT", "99999999999999999999G", {"CUTRACE_MEMORY_LIMIT", "64G"}},
    {"CUTRACE_OVERFLOW", "block", {"CUTRACE_OVERFLOW=\"block\"", "drop", "wait"}},
    {"CUTRACE_WINDOW_MS", "half a second", {"CUTRACE_WINDOW_MS=\"half a second\"", "60000"}},
    {"CUTRACE_WINDOW_MS", "0", {"CUTRACE_WINDOW_MS=\"0\"", "1 to 60000"}},
    {"CUTRACE_WINDOW_MS", "99999999999999999999", {"CUTRACE_WINDOW_MS", "60000"}},
    {"CUTRACE_CUPTI_QUERIES", "maybe", {"CUTRACE_CUPTI_QUERIES=\"maybe\"", "0", "1"}},
    {"CUTRACE_BACKEND", "cuda", {"CUTRACE_BACKEND=\"cuda\"", "auto", "none", "cupti"}},
};

/// Each is listed beside a sink that works, "jsonl:trace.jsonl", once before it and once behind it.
const std::vector<bad_option> bad_sinks = {
    {"CUTRACE_SINKS", "perfeto:x.pftrace", {"CUTRACE_SINKS", "\"perfeto\"", "did you mean \"perfetto\"?", "accepted"}},
    {"CUTRACE_SINKS", "calls:/nonexistent/c", {"/nonexistent/c", "No such file"}},
    {"CUTRACE_SINKS", "calls:x.calls?form=xml", {"CUTRACE_SINKS", "\"form\"", "accepted"}},
    {"CUTRACE_SINKS", "calls:x.calls;ascii:x.txt", {"CUTRACE_SINKS", "commas"}},
    {"CUTRACE_SINKS", "", {"CUTRACE_SINKS", "missing"}},
};

environment with(const bad_option& o) {
  environment env = {{"CUTRACE_SINKS", "jsonl:trace.jsonl"}};
  env[o.name] = o.value;
  return env;
}

}  // namespace

TEST_SUITE_BEGIN("faults.options");

TEST_CASE("faults: a bad variable leaves the program as it is, with one line, and no file behind") {
  for (const how h : both)
    for (const bad_option& bad : bad_options) {
      CAPTURE(name_of(h));
      CAPTURE(bad.name);
      CAPTURE(bad.value);
      const outcome o = traced(h, with(bad));
      CAPTURE(o.all_lines());
      check_unchanged(o, plain_output());
      REQUIRE(o.lines.size() == 1);
      CHECK(o.lines[0].find("the program runs untraced") != std::string::npos);
      for (const std::string& part : bad.said) CHECK(o.lines[0].find(part) != std::string::npos);
      CHECK(o.files == 0);
    }
}

TEST_CASE("faults: a sink that cannot be had costs the others nothing, with one line") {
  const std::string good = "jsonl:trace.jsonl";
  for (const how h : both)
    for (const bad_option& bad : bad_sinks)
      for (const std::string& list : {good + "," + bad.value, bad.value + ("," + good)}) {
        CAPTURE(name_of(h));
        CAPTURE(list);
        const outcome o = traced(h, {{bad.name, list}});
        CAPTURE(o.all_lines());
        check_unchanged(o, plain_output());
        REQUIRE(o.lines.size() == 1);
        CHECK(o.lines[0].find("; the other sinks work without it") != std::string::npos);
        for (const std::string& part : bad.said) CHECK(o.lines[0].find(part) != std::string::npos);
        CHECK(o.files == 1);
        REQUIRE(o.trace);
        CHECK(o.gpu_work() != 0);
        CHECK(o.noted(o.lines[0].substr(9)));
      }
  for (const char* second : {"chrome:t.jsonl", "calls:t.jsonl"}) {
    const outcome o = traced(how::own_session, {{"CUTRACE_SINKS", std::string("jsonl:t.jsonl,") + second}});
    REQUIRE(o.lines.size() == 1);
    CHECK(o.lines[0].find("is being written by another sink") != std::string::npos);
    CHECK(o.lines[0].find("%p") != std::string::npos);
    CHECK(o.files == 1);
  }
  const outcome o = traced(how::own_session, {{"CUTRACE_SINKS", "calls:-,jsonl:/dev/stdout"}});
  REQUIRE(o.lines.size() == 1);
  CHECK(o.lines[0].find("standard output is another sink's already") != std::string::npos);
}

TEST_CASE("faults: variables that nothing reads are named once, with what may have been meant") {
  const outcome o = traced(how::own_session, {{"CUTRACE_SINK", "ascii"}, {"CUTRACE_TEST_X", "1"}}, {"--sessions=3"});
  CAPTURE(o.all_lines());
  REQUIRE(o.lines.size() == 1);
  CHECK(o.lines[0] ==
        "cutrace: the environment has CUTRACE_SINK (did you mean CUTRACE_SINKS?), which cutrace does not know and "
        "leaves alone");
  CHECK(o.gpu_work() != 0);
  const outcome many =
      traced(how::injected,
             {{"CUTRACE_A", ""}, {"CUTRACE_B1", "1"}, {"CUTRACE_C1", "1"}, {"CUTRACE_D1", "1"}, {"CUTRACE_E1", "1"}});
  REQUIRE(many.lines.size() == 1);
  CHECK(many.lines[0].find(" and 1 more") != std::string::npos);
  const outcome off = traced(how::own_session, {{"CUTRACE_SINK", "ascii"}, {"CUTRACE", "0"}});
  CHECK(off.lines.empty());
}

TEST_CASE("faults: where the environment names files, it is said where they are") {
  for (const how h : both) {
    const outcome o = traced(h, {});
    CAPTURE(o.process.wrote);
    CHECK(o.process.wrote.find("/trace.jsonl (") != std::string::npos);
    CHECK(o.process.wrote.find(" bytes), /") != std::string::npos);
    CHECK(o.process.wrote.find("/trace.calls (") != std::string::npos);
    CHECK(traced(h, {{"CUTRACE_SINKS", "calls:/dev/null"}}).process.wrote.empty());
  }
}

TEST_CASE("faults: what the machine lacks at the start leaves the program as it is, with one line") {
  for (const how h : both) {
    CAPTURE(name_of(h));
    const outcome full = traced(h, {{"CUTRACE_SINKS", "jsonl:/dev/full"}});
    check_unchanged(full, plain_output());
    REQUIRE(full.lines.size() == 1);
    CHECK(full.lines[0].find("No space left") != std::string::npos);
  }
}

TEST_CASE("faults: options from code are named as such") {
  struct {
    const char* argument;
    std::vector<std::string> said;
  } const cases[] = {
      {"--sinks=jsnl", {"session_options::sinks", "jsonl"}},
      {"--backend=cuda", {"session_options::backend", "auto", "none"}},
      {"--memory=1000", {"session_options::memory_limit_bytes", "1M"}},
  };
  for (const auto& c : cases) {
    const outcome o = traced(how::own_session, {}, {c.argument});
    CAPTURE(o.process.output);
    CHECK(o.process.exit_status == 5);
    for (const std::string& part : c.said) CHECK(o.process.output.find(part) != std::string::npos);
    CHECK(o.all_lines().empty());
  }
}

TEST_SUITE_END();

}  // namespace options_test
