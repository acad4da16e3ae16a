// SPDX-License-Identifier: Apache-2.0
// Activity records that are dropped, unknown, unfinished, without time, late or out of order: each is counted to the
// unit, and what arrives is attributed.
#include "faults_run.hpp"

namespace records_test {

using namespace faults;  // NOLINT(google-build-using-namespace)

namespace {

void check_attributed(const outcome& o) {
  for (const char* type : {"kernel", "memcpy", "memset"})
    for (const json& e : o.trace->of(type)) {
      CHECK(e.at("attribution") == "by_call");
      CHECK(e.value("stage", "") == "round");
      CHECK_FALSE(e.value("call", "").empty());
    }
}

/// How much work has a record that never completed; such work lasts from its call on.
std::size_t incomplete(const outcome& o) {
  std::size_t n = 0;
  for (const char* type : {"kernel", "memcpy", "memset"})
    for (const json& e : o.trace->of(type)) {
      if (!e.value("incomplete", false)) continue;
      ++n;
      CHECK(e.at("ts_ns") == e.at("call_ts_ns"));
      CHECK(e.at("dur_ns").get<std::int64_t>() > 0);
    }
  return n;
}

/// Runs with a fault in records, which must cause no message.
outcome quiet(how h, const std::string& fault, const words& arguments = {}) {
  const outcome o = with_faults(h, fault, arguments);
  CAPTURE(fault);
  CHECK(o.all_lines().empty());
  check_unchanged(o, plain_output());
  check_numbers(o);
  check_attributed(o);
  return o;
}

}  // namespace

TEST_SUITE_BEGIN("faults.records");

TEST_CASE("faults: dropped records are counted to the unit") {
  for (const how h : both)
    for (const std::uint64_t n : {1u, 7u, 23u}) {
      const outcome o = quiet(h, "drop=" + std::to_string(n));
      CHECK(o.lost("cupti_dropped") == n);
      CHECK(o.trace->footer.at("lost_total") == n);
      CHECK(o.gpu_work() == clean(h).gpu_work() - n);
    }
}

TEST_CASE("faults: every record is dropped, which is said aloud") {
  for (const how h : both) {
    CAPTURE(name_of(h));
    const outcome o = with_faults(h, "drop=1000000");
    check_unchanged(o, plain_output());
    check_numbers(o);
    REQUIRE(o.lines.size() == 1);
    CHECK(o.lines[0].find("not one GPU record arrived") != std::string::npos);
    CHECK(o.noted("not one GPU record arrived"));
    CHECK(o.lost("cupti_dropped") == clean(h).gpu_work());
    CHECK(o.trace->footer.at("gpu_records_seen") == 0);
    CHECK(o.trace->footer.at("launches_seen") != 0);
  }
}

TEST_CASE("faults: no record arrives, and the major versions differ: both are said") {
  const outcome o = with_faults(how::own_session, "version=22,drop=1000000");
  REQUIRE(o.lines.size() == 2);
  CHECK(o.lines[1].find("not one GPU record arrived") != std::string::npos);
}

TEST_CASE("faults: unknown records are counted, and the known ones beside them read") {
  for (const how h : both) {
    const outcome o = quiet(h, "unknown=5");
    CHECK(o.lost("unknown_record") == 5);
    CHECK(o.trace->footer.at("lost_total") == 5);
    CHECK(o.gpu_work() == clean(h).gpu_work());
  }
}

TEST_CASE("faults: records that never complete come with the last, forced flush") {
  for (const how h : both) {
    const outcome o = quiet(h, "incomplete=3");
    CHECK(o.quality("incomplete") == 3);
    CHECK(o.trace->footer.at("lost_total") == 0);
    CHECK(o.gpu_work() == clean(h).gpu_work());
    CHECK(incomplete(o) == 3);
  }
}

TEST_CASE("faults: work without times is delivered, at the time of its call") {
  for (const how h : both) {
    const outcome o = quiet(h, "zero_time=4");
    CHECK(o.quality("no_timestamp") == 4);
    CHECK(o.trace->footer.at("lost_total") == 0);
    CHECK(o.gpu_work() == clean(h).gpu_work());
    std::size_t timeless = 0;
    for (const char* type : {"kernel", "memcpy", "memset"})
      for (const json& e : o.trace->of(type)) {
        timeless += e.at("dur_ns") == 0;
        CHECK(e.at("ts_ns").get<std::int64_t>() > 0);
        if (e.at("dur_ns") == 0) CHECK(e.at("ts_ns") == e.at("call_ts_ns"));
      }
    CHECK(timeless == 4);
  }
}

TEST_CASE("faults: late and shuffled records still find their calls") {
  for (const how h : both)
    for (const char* fault : {"late=60ms", "shuffle", "shuffle,late=60ms"}) {
      const outcome o = quiet(h, fault, {"--linger-ms=300"});
      CHECK(o.trace->complete());
      CHECK(o.gpu_work() == clean(h).gpu_work());
    }
}

TEST_CASE("faults: work that goes on after the end of the program is delivered as such") {
  for (const how h : both) {
    CAPTURE(name_of(h));
    const outcome o = with_faults(h, "late=1000s");
    check_unchanged(o, plain_output());
    check_numbers(o);
    CHECK(o.lines.empty());
    CHECK(o.trace->footer.at("lost_total") == 0);
    CHECK(o.quality("incomplete") == clean(h).gpu_work());
    CHECK(incomplete(o) == clean(h).gpu_work());
  }
}

TEST_CASE("faults: several at once") {
  for (const how h : both) {
    const outcome o = quiet(h, "drop=2,incomplete=3,unknown=4,shuffle");
    CHECK(o.lost("cupti_dropped") == 2);
    CHECK(o.quality("incomplete") == 3);
    CHECK(incomplete(o) == 3);
    CHECK(o.lost("unknown_record") == 4);
    CHECK(o.gpu_work() == clean(h).gpu_work() - 2);
  }
}

TEST_CASE("faults: activity buffers run out, which is counted") {
  // The smallest limit allows one large buffer and 64 small ones; each launching thread of CUPTI 13 holds one.
  constexpr std::size_t rounds = sanitized ? 5 : 20;
  const words arguments = {"--threads=150", "--rounds=" + std::to_string(rounds)};
  const finished_process as = untraced(how::own_session, arguments);
  for (const how h : both)
    for (const char* version : {"", "version=18"}) {  // 18: a release that crashes when it gets no buffer
      CAPTURE(name_of(h));
      CAPTURE(version);
      const outcome o = traced(h,
                               {{"CUTRACE_MEMORY_LIMIT", "1M"},
                                {"CUTRACE_FLUSH_PERIOD_MS", "60000"},  // none comes back meanwhile
                                {"CUTRACE_WINDOW_MS", "60000"},        // which bounds that period
                                {"CUTRACE_SIM_FAULTS", version}},
                               arguments);
      CAPTURE(o.all_lines());
      check_unchanged(o, as);
      check_numbers(o);
      CHECK(o.lines.size() <= (*version != '\0' ? 2 : 1));  // so many threads find no chunks either, which is said
      CHECK(o.lost("buffer_limit") > 0);
      CHECK(o.lost("cupti_dropped") == 0);
      // Synchronisations and descriptions may be lost as well, so that this is no equation.
      CHECK(o.gpu_work() + o.lost("buffer_limit") >= 150 * rounds * 6);
      CHECK(o.gpu_work() < 150 * rounds * 6);
    }
}

TEST_SUITE_END();

}  // namespace records_test
