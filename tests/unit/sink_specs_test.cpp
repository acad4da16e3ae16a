// SPDX-License-Identifier: Apache-2.0
// Sinks by name: what CUTRACE_SINKS may say, and what the messages say to whoever mistyped it.
#include <doctest/doctest.h>

#include <cutrace/sinks/memory.hpp>
#include <cutrace/sinks/sink_registry.hpp>
#include <string>
#include <vector>

#include "support/sample_events.hpp"
#include "support/temporary_folder.hpp"

namespace sink_specs_test {

namespace {

std::vector<std::string> names_of(const char* specification) {
  std::vector<std::string> names;
  for (const auto& s : cutrace::make_sinks(specification)) names.emplace_back(s->name());
  return names;
}

std::string message_of(const char* specification) {
  try {
    cutrace::make_sinks(specification);
  } catch (const cutrace::config_error& e) {
    return e.what();
  }
  return "no error";
}

using names = std::vector<std::string>;

}  // namespace

TEST_CASE("sink specs: names, in order, with blanks around them") {
  CHECK(names_of(nullptr).empty());
  CHECK(names_of("").empty());
  CHECK(names_of("  ").empty());
  CHECK(names_of("null") == names{"null"});
  CHECK(names_of(" calls , jsonl:a.jsonl,chrome:b.json, ascii,null") ==
        names{"calls", "jsonl", "chrome", "ascii", "null"});
  CHECK(names_of("jsonl:a:b?form=paired&hold=0") == names{"jsonl"});
}

TEST_CASE("sink specs: paths and options reach the sink") {
  const temporary_folder folder;
  const std::string path = folder.file("t:1.jsonl");
  const auto sinks = cutrace::make_sinks(("jsonl:" + path + "?form=paired").c_str());
  REQUIRE(sinks.size() == 1);
  sinks[0]->open(sample::info());
  sinks[0]->close(sample::summary(0));
  CHECK(content_of(path).rfind("{\"ts\":0,\"op_id\":0,\"phase\":\"B\"", 0) == 0);
}

TEST_CASE("sink specs: messages name the option, the word and what is accepted") {
  CHECK(message_of("null,jsnl:t") ==
        "CUTRACE_SINKS: \"jsnl:t\": unknown sink \"jsnl\" (did you mean \"jsonl\"?); a file stands behind a colon, as "
        "in jsonl:FILE; accepted: ascii, calls, chrome, "
        "html, jsonl, null, "
        "perfetto, prometheus");
  CHECK(message_of("null,,calls") == "CUTRACE_SINKS: \"null,,calls\": a sink's name is missing");
  CHECK(message_of("jsonl:") == "CUTRACE_SINKS: \"jsonl:\": a path must follow the colon");
  CHECK(message_of("null:file") == "CUTRACE_SINKS: \"null:file\": \"null\" takes no path");
  CHECK(message_of("jsonl?form=pairs") ==
        "CUTRACE_SINKS: \"jsonl?form=pairs\": form=pairs is not known; accepted: events, paired");
  CHECK(message_of("jsonl?hold=-1") ==
        "CUTRACE_SINKS: \"jsonl?hold=-1\": hold=-1 is not a whole number from 0 to 1000000");
  CHECK(message_of("ascii?width=79") ==
        "CUTRACE_SINKS: \"ascii?width=79\": width=79 is not a whole number from 80 to 400");
  CHECK(message_of("ascii?width=401").find("from 80 to 400") != std::string::npos);
  CHECK(message_of("ascii?wide=100").find("accepted: width") != std::string::npos);
  CHECK(names_of("ascii?width=80,ascii:-?width=400") == names{"ascii", "ascii"});
  CHECK(message_of("jsonl?hold=2x").find("whole number") != std::string::npos);
  CHECK(message_of("jsonl?hold=99999999999999999999").find("whole number") != std::string::npos);
  CHECK(
      message_of("jsonl?fold=2") ==
      "CUTRACE_SINKS: \"jsonl?fold=2\": unknown option \"fold\" of \"jsonl\"; accepted: form, hold, rotate, keep, max");
  CHECK(message_of("chrome:t.json?form=paired").find("accepted: rotate, keep, max") != std::string::npos);
  CHECK(message_of("html?memory=1").find("from 2 to 4096") != std::string::npos);
  CHECK(names_of("html,html:t.html?memory=64") == names{"html", "html"});
  CHECK(message_of("jsonl?form").find("key=value") != std::string::npos);
}

TEST_CASE("sink specs: words that were meant") {
  const std::vector<std::string_view> known{"ascii", "calls", "chrome", "jsonl", "perfetto", "prometheus"};
  const auto meant = [&](const char* word) { return std::string(cutrace::detail::nearest_word(word, known)); };
  for (const char* word : {"jsonl", "json", "jsnl", "JSONL", "josnl", "jsonll"}) CHECK(meant(word) == "jsonl");
  CHECK(meant("prefetto") == "perfetto");
  CHECK(meant("prom") == "prometheus");
  for (const char* word : {"", "x", "html", "csv", "text"}) CHECK(meant(word).empty());
}

TEST_CASE("sink specs: each word counts alone where refusals are taken") {
  std::vector<std::string> refused;
  const auto sinks = cutrace::make_sinks("null,,jsnl:t,calls:-,jsonl:-", "option", cutrace::builtin_sinks(), &refused);
  CHECK(sinks.size() == 2);
  REQUIRE(refused.size() == 3);
  CHECK(refused[0].find("a sink's name is missing") != std::string::npos);
  CHECK(refused[1].find("\"jsonl\"?") != std::string::npos);
  CHECK(refused[2].find("standard output is another sink's already") != std::string::npos);
  CHECK_THROWS_AS(cutrace::make_sinks("x,y", "option", cutrace::builtin_sinks(), &refused), cutrace::config_error);
  CHECK(message_of("calls;jsonl:t.jsonl").find("separated by commas") != std::string::npos);
  CHECK(message_of("jsonl:t.jsonl;calls").find("separated by commas") != std::string::npos);
  CHECK(names_of("jsonl:a;b.jsonl") == names{"jsonl"});
}

TEST_CASE("sink specs: metrics go to an address or a file") {
  const auto opened = [](const std::string& word) {
    auto sinks = cutrace::make_sinks(word.c_str());
    REQUIRE(sinks.size() == 1);
    sinks[0]->open(sample::info());
    return sinks;
  };
  CHECK(std::string(opened("prometheus::0")[0]->destination()).rfind("http://127.0.0.1:", 0) == 0);
  CHECK(std::string(opened("prometheus:0.0.0.0:0?stages=3")[0]->destination()).rfind("http://0.0.0.0:", 0) == 0);
  const temporary_folder folder;
  CHECK(opened("prometheus:" + folder.file("m:1") + "?every=1&readable=all")[0]->destination() == folder.file("m:1"));
  CHECK(message_of("prometheus?stages=0").find("from 1 to 1000") != std::string::npos);
  CHECK(message_of("prometheus?every=0").find("from 1 to 3600") != std::string::npos);
  CHECK(message_of("prometheus?readable=some").find("accepted: owner, all") != std::string::npos);
  CHECK(message_of("prometheus?port=1").find("accepted: stages, every, readable") != std::string::npos);
}

TEST_CASE("sink specs: the message names the caller's option") {
  CHECK_THROWS_WITH_AS(cutrace::make_sinks("x", "session_options::sinks"),
                       doctest::Contains("session_options::sinks: \"x\""), cutrace::config_error);
}

TEST_CASE("sink specs: a program adds sinks of its own, or puts one in place of another") {
  cutrace::sink_registry registry = cutrace::builtin_sinks();
  registry.add("mine", [](cutrace::sink_spec& spec) {
    const std::size_t bytes = spec.take_number("bytes", 1000, 5000);
    return std::unique_ptr<cutrace::sink>(new cutrace::memory_sink(bytes));
  });
  registry.add("null", [](cutrace::sink_spec&) { return std::unique_ptr<cutrace::sink>(new cutrace::memory_sink()); });
  const auto sinks = cutrace::make_sinks("mine?bytes=5000,null", "option", registry);
  REQUIRE(sinks.size() == 2);
  CHECK(std::string(sinks[0]->name()) == "memory");
  CHECK(std::string(sinks[1]->name()) == "memory");
}

}  // namespace sink_specs_test
