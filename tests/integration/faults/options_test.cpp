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
    {"CUTRACE_SINKS", "jsonl:x.jsonl,calls:/nonexistent/c", {"/nonexistent/c", "No such file"}},
    {"CUTRACE_SINKS", "jsonl:t.jsonl,chrome:t.jsonl", {"t.jsonl", "another sink", "%p"}},
    {"CUTRACE_SINKS", "chrome:t.jsonl,jsonl:t.jsonl", {"t.jsonl", "another sink", "%p"}},
    {"CUTRACE_SINKS", "jsonl:t.jsonl,calls:t.jsonl", {"t.jsonl", "another sink", "%p"}},
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
