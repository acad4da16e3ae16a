// SPDX-License-Identifier: Apache-2.0
// Every function of libcupti that the backend uses fails or is missing, one at a time. The list of functions is read
// from the backend's own header, so that a new one is tested, too.
#include <cupti.h>

#include <array>
#include <iterator>
#include <regex>
#include <set>

#include "faults_run.hpp"

namespace calls_test {

using namespace faults;  // NOLINT(google-build-using-namespace)

namespace {

std::set<std::string> used_functions() {
  const std::string text = content_of(CUPTI_LIBRARY_HEADER);
  static const std::regex name("\\bcupti[A-Z]\\w*");
  std::set<std::string> all;
  for (std::sregex_iterator at(text.begin(), text.end(), name), end; at != end; ++at) all.insert(at->str());
  return all;
}

/// Functions whose failure costs no record and is not reported.
const std::set<std::string> harmless = {
    "cuptiSubscribe",        // the newer form is used
    "cuptiEnableDomain",     // unsubscribing ends the callbacks as well
    "cuptiGetResultString",  // numbers do
    "cuptiGetTimestamp",     // CUPTI takes our clock
    "cuptiGetGraphId",       // this program has no graphs, nor for the next two
    "cuptiGetGraphNodeId",
    "cuptiGetGraphExecId",
    "cuptiActivityEnableLatencyTimestamps",  // not asked for, nor the next three
    "cuptiActivityEnableAllSyncRecords",
    "cuptiActivityEnableCudaEventDeviceTimestamps",
    "cuptiActivityConfigureUnifiedMemoryCounter",
    "cuptiGetStreamIdEx",  // waits have no stream then, nor a device
    "cuptiGetDeviceId",
    "cuptiGetContextId",  // this program waits for no context but its own
};
/// Without these there are no GPU records.
const std::set<std::string> gives_records = {"cuptiSubscribe_v2", "cuptiActivityEnable",
                                             "cuptiActivityRegisterCallbacks", "cuptiActivityFlushAll",
                                             "cuptiActivityGetNextRecord"};
/// Without these there are no calls.
const std::set<std::string> gives_calls = {"cuptiSubscribe_v2", "cuptiEnableCallback", "cuptiGetCallbackName"};
/// Absent from some release.
const std::set<std::string> optional_functions = {
    "cuptiSubscribe_v2",
    "cuptiGetTimestamp",
    "cuptiSetThreadIdType",
    "cuptiActivityRegisterTimestampCallback",
    "cuptiGetGraphId",
    "cuptiGetGraphNodeId",
    "cuptiGetGraphExecId",
    "cuptiActivityEnableLatencyTimestamps",
    "cuptiActivityEnableAllSyncRecords",
    "cuptiActivityEnableCudaEventDeviceTimestamps",
    "cuptiActivityConfigureUnifiedMemoryCounter",
    "cuptiGetStreamIdEx",
    "cuptiGetDeviceId",
    "cuptiGetContextId",
};

std::size_t expected_lines(const std::string& function, how h) {
  // The injected session ends when the program exits, and then no kind is disabled.
  if (function == "cuptiActivityDisable" && h == how::injected) return 0;
  return harmless.count(function) != 0 ? 0 : 1;
}

/// Under sanitizers, where a run takes ten times as long, each function has one choice of several, its neighbour
/// another.
bool is_run(const std::string& function, std::size_t choice, std::size_t choices) {
  static const std::set<std::string> all = used_functions();
  const auto number = static_cast<std::size_t>(std::distance(all.begin(), all.find(function)));
  return !sanitized || number % choices == choice;
}

/// GPU work has times within the program's run.
void check_times(const outcome& o) {
  const std::int64_t end = o.trace->footer.at("ts_ns");
  for (const char* type : {"kernel", "memcpy", "memset"})
    for (const json& e : o.trace->of(type)) {
      CHECK(e.at("ts_ns").get<std::int64_t>() > 0);
      CHECK(e.at("ts_ns").get<std::int64_t>() < end);
    }
}

}  // namespace

TEST_SUITE_BEGIN("faults.calls");

TEST_CASE("faults: the list of functions is that of the backend") {
  const auto all = used_functions();
  CHECK(all.size() >= 18);
  CHECK(all.count("cuptiFinalize") == 0);  // while another thread calls CUDA it is the program's end
  for (const auto* some : {&harmless, &gives_records, &gives_calls, &optional_functions})
    for (const std::string& f : *some) CHECK_MESSAGE(all.count(f) == 1, f);
}

TEST_CASE("faults: a function of CUPTI always fails") {
  for (const how h : both)
    for (const std::string& f : used_functions()) {
      if (!is_run(f, h == how::injected, 2)) continue;
      CAPTURE(name_of(h));
      CAPTURE(f);
      const outcome o = with_faults(h, f + "=999");
      CAPTURE(o.all_lines());
      check_unchanged(o, plain_output());
      check_numbers(o);
      REQUIRE(o.lines.size() == expected_lines(f, h));
      if (!o.lines.empty()) {
        CHECK(o.lines[0].find(f == "cuptiSubscribe_v2" ? "CUPTI refused" : f) != std::string::npos);
        CHECK(o.noted(o.lines[0].substr(9)));
      }
      CHECK(o.gpu_work() == (gives_records.count(f) != 0 ? 0 : clean(h).gpu_work()));
      CHECK(o.of("api") == (gives_calls.count(f) != 0 ? 0 : clean(h).of("api")));
      CHECK(o.of("stage") == 4);
      check_times(o);
      const bool records_lost = gives_records.count(f) != 0 && f != "cuptiSubscribe_v2";
      CHECK((o.noted("no GPU time") || o.noted("not one GPU record")) == (records_lost || f == "cuptiSubscribe_v2"));
    }
}

TEST_CASE("faults: a function of CUPTI fails once, sooner or later") {
  for (const std::string& f : used_functions())
    for (std::size_t i = 0; i < 3; ++i) {
      if (!is_run(f, i, 3)) continue;
      const std::string fault = f + "=999" + std::array{"@1", "@2", "@5"}[i];
      CAPTURE(fault);
      const outcome o = with_faults(how::injected, fault);
      CAPTURE(o.all_lines());
      check_unchanged(o, plain_output());
      check_numbers(o);
      CHECK(o.lines.size() <= 1);
      CHECK(o.of("stage") == 4);
    }
}

TEST_CASE("faults: each function of CUPTI answers with an error that other functions use for something ordinary") {
  for (const std::string& f : used_functions())
    for (std::size_t i = 0; i < 4; ++i) {
      if (!is_run(f, i, 4)) continue;
      // parameter, limit reached, not initialised, several clients
      const std::string fault = f + "=" + std::array{"1", "12", "15", "39"}[i];
      CAPTURE(fault);
      const outcome o = with_faults(how::own_session, fault);
      CAPTURE(o.all_lines());
      check_unchanged(o, plain_output());
      check_numbers(o);
      CHECK(o.lines.size() <= 1);
    }
}

TEST_CASE("faults: a function of CUPTI is missing") {
  for (const how h : both)
    for (const std::string& f : used_functions()) {
      if (!is_run(f, h == how::injected, 2)) continue;
      CAPTURE(name_of(h));
      CAPTURE(f);
      const outcome o = with_faults(h, "no_such_symbol=" + f);
      CAPTURE(o.all_lines());
      check_unchanged(o, plain_output());
      check_numbers(o);
      if (optional_functions.count(f) != 0) {
        REQUIRE(o.lines.size() == (f == "cuptiActivityRegisterTimestampCallback" ? 1 : 0));
        if (!o.lines.empty()) CHECK(o.lines[0].find("GPU times come from CUPTI's own clock") != std::string::npos);
        CHECK(o.gpu_work() == clean(h).gpu_work());
        CHECK(o.of("api") == clean(h).of("api"));
        check_times(o);
        continue;
      }
      REQUIRE(o.lines.size() == 1);
      CHECK(o.lines[0].find("has no function " + f) != std::string::npos);
      CHECK(o.noted("has no function " + f));
      CHECK(o.gpu_work() == 0);
      CHECK(o.of("stage") == 4);
    }
}

TEST_CASE("faults: names of the runtime API cannot be had, some of them or all") {
  const auto run = [](how h, const std::string& fault) {
    return traced(h, {{"CUTRACE_SIM_FAULTS", fault}, {"CUTRACE_KINDS", "+runtime"}}, {"--runtime=1"});
  };
  const auto named = [](const outcome& o) {
    std::size_t n = 0;
    for (const json& e : o.trace->of("api")) {
      n += e.value("runtime", "") == "cudaMalloc" ? 1 : 0;
      CHECK(e.at("api") == "driver");
      CHECK(e.contains("runtime") <= (e.at("name") == "cuMemAlloc"));
    }
    return n;
  };
  for (const how h : both) {
    CAPTURE(name_of(h));
    const outcome good = run(h, "");
    check_unchanged(good, plain_output());
    check_numbers(good);
    CHECK(good.all_lines().empty());
    CHECK(named(good) == 4);
    CHECK(good.calls.find(", by cudaMalloc") != std::string::npos);
    CHECK(good.of("api") == clean(h).of("api"));
    // The driver's functions come first: after `hooked` or `asked` calls for them it is the runtime's turn.
    const std::string detail = good.trace->header.at("backend_detail");
    const std::size_t hooked = std::stoul(detail.substr(detail.rfind(", ") + 2));
    const std::size_t asked = CUPTI_DRIVER_TRACE_CBID_SIZE - 1 + 64;
    for (const std::string& fault : {"cuptiEnableCallback=999@" + std::to_string(hooked + 30),
                                     "cuptiGetCallbackName=999@" + std::to_string(asked + 30)}) {
      CAPTURE(fault);
      const outcome o = run(h, fault);
      check_unchanged(o, plain_output());
      check_numbers(o);
      REQUIRE(o.lines.size() == 1);
      CHECK(o.lines[0].find("of the runtime domain, calls lack names of the runtime API") != std::string::npos);
      CHECK(o.of("api") == clean(h).of("api"));
      CHECK(o.gpu_work() == clean(h).gpu_work());
      CHECK(named(o) == 4);  // the name of another function is missing
    }
  }
  // After the only window the callbacks of the driver's domain are switched off, then those of the runtime's.
  for (const std::string kinds : {"+runtime", "+event"}) {
    CAPTURE(kinds);
    const outcome o = traced(
        how::own_session,
        {{"CUTRACE_SIM_FAULTS", "cuptiEnableDomain=999@2"}, {"CUTRACE_KINDS", kinds}, {"CUTRACE_SAMPLE", "20ms/3600s"}},
        {"--runtime=1", "--linger-ms=800"});
    CAPTURE(o.all_lines());
    check_unchanged(o, plain_output());
    REQUIRE(o.lines.size() == (kinds == "+runtime" ? 1 : 0));
    if (!o.lines.empty()) CHECK(o.lines[0].find("cannot be switched off between windows") != std::string::npos);
  }
  for (const std::string& f : used_functions())
    for (const std::string sample : {"", "20ms/40ms"}) {
      if (!is_run(f, !sample.empty(), 2)) continue;
      CAPTURE(f);
      CAPTURE(sample);
      const outcome o = traced(
          how::own_session,
          {{"CUTRACE_SIM_FAULTS", f + "=999"}, {"CUTRACE_KINDS", "+runtime,+event,+sync"}, {"CUTRACE_SAMPLE", sample}},
          {"--runtime=1", "--pause-ms=30"});
      CAPTURE(o.all_lines());
      check_unchanged(o, plain_output());
      check_numbers(o);
      CHECK(o.lines.size() <= 2);
      CHECK(named(o) <= 4);
    }
}

TEST_CASE("faults: CUPTI's clock can neither be set nor read") {
  const outcome o = with_faults(
      how::own_session, "no_such_symbol=cuptiActivityRegisterTimestampCallback,no_such_symbol=cuptiGetTimestamp");
  check_unchanged(o, plain_output());
  check_numbers(o);
  REQUIRE(o.lines.size() == 1);
  CHECK(o.lines[0].find("do not fit those of the host") != std::string::npos);
  CHECK(o.gpu_work() == clean(how::own_session).gpu_work());
}

TEST_CASE("faults: some kinds of records cannot be had, the others are there") {
  const outcome o = with_faults(how::own_session, "cuptiActivityEnable=999@4");
  REQUIRE(o.lines.size() == 1);
  CHECK(o.lines[0].find("no records of CONCURRENT_KERNEL") != std::string::npos);
  CHECK(o.of("kernel") == 0);
  CHECK(o.of("memcpy") == 8);
}

TEST_SUITE_END();

}  // namespace calls_test
