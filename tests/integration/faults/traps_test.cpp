// SPDX-License-Identifier: Apache-2.0
// What can go wrong in long runs and at an abrupt end: correlation ids that start again at 0, a CUDA error that loses
// the context, a CUPTI that hangs, a clock that is off.
#include <unistd.h>

#include "faults_run.hpp"

namespace traps_test {

using namespace faults;  // NOLINT(google-build-using-namespace)

TEST_SUITE_BEGIN("faults.traps");

TEST_CASE("faults: correlation ids start again at 0 in the middle of the work") {
  for (const how h : both) {
    CAPTURE(name_of(h));
    // So that the 0 itself, which stands for "none" in records, falls to a cuMemAlloc.
    std::vector<std::uint64_t> allocations;
    for (const json& e : clean(h).trace->of("api"))
      if (e.at("name") == "cuMemAlloc") allocations.push_back(e.at("correlation"));
    REQUIRE(allocations.size() == 4);
    const std::uint64_t first = (std::uint64_t{1} << 32) - (allocations[1] - 1);  // first id, 1 in a clean run
    const outcome o = with_faults(h, "correlation=" + std::to_string(first));
    check_unchanged(o, plain_output());
    check_numbers(o);
    CHECK(o.all_lines().empty());
    CHECK(o.gpu_work() == clean(h).gpu_work());
    std::map<std::uint64_t, json> call_of;
    for (const json& e : o.trace->of("api"))
      if (e.contains("correlation")) call_of[e.at("correlation")] = e;
    std::map<std::uint64_t, std::size_t> work_of_epoch;
    for (const char* type : {"kernel", "memcpy", "memset"})
      for (const json& e : o.trace->of(type)) {
        CHECK(e.at("attribution") == "by_call");
        const std::uint64_t id = e.at("correlation");
        ++work_of_epoch[id >> 32];
        REQUIRE(call_of.count(id) == 1);
        CHECK(call_of[id].at("name") == e.at("call"));
        CHECK(call_of[id].at("stage_id") == e.at("stage_id"));
      }
    CHECK(work_of_epoch.size() == 2);
    CHECK(call_of.size() == o.of("api") - 1);  // each call has its own, but for the one that got 0
    std::size_t without = 0;
    for (const json& e : o.trace->of("api"))
      if (!e.contains("correlation")) {
        ++without;
        CHECK(e.at("name") == "cuMemAlloc");
      }
    CHECK(without == 1);
  }
}

TEST_CASE("faults: a CUDA error that loses the context is noted in the files, and the trace is whole") {
  struct {
    const char* fault;
    const char* noted;
  } const cases[] = {{"cuStreamSynchronize=700@2", "cuStreamSynchronize returned CUDA_ERROR_ILLEGAL_ADDRESS (700)"},
                     {"cuLaunchKernel=719@4", "cuLaunchKernel returned CUDA_ERROR_LAUNCH_FAILED (719)"},
                     {"cuMemcpyDtoH_v2=214@1", "cuMemcpyDtoH returned CUDA_ERROR_ECC_UNCORRECTABLE (214)"}};
  for (const how h : both)
    for (const auto& c : cases) {
      CAPTURE(name_of(h));
      CAPTURE(c.fault);
      const finished_process as = untraced(h, {}, {{"CUTRACE_SIM_FAULTS", c.fault}});
      CHECK(as.exit_status == 41);
      const outcome o = with_faults(h, c.fault);
      check_unchanged(o, as);
      check_numbers(o);
      CHECK(o.all_lines().find(std::string("cutrace: GPU fault: ") + c.noted) == 0);
      CHECK(o.noted(c.noted));
    }
  CHECK_FALSE(with_faults(how::own_session, "cuMemAlloc_v2=2@2").noted("does no more work"));  // out of memory
}

TEST_CASE("faults: a CUDA error that loses the context is reported also while the session is paused") {
  const std::string fault = "cuStreamSynchronize=700@2",
                    what = "cuStreamSynchronize returned CUDA_ERROR_ILLEGAL_ADDRESS (700)";
  const finished_process as = untraced(how::own_session, {}, {{"CUTRACE_SIM_FAULTS", fault}});
  const outcome o = with_faults(how::own_session, fault, {"--paused=1"});
  check_unchanged(o, as);
  check_numbers(o);
  CHECK(o.all_lines().find("cutrace: GPU fault: " + what) == 0);
  CHECK(o.noted(what));
  CHECK(o.of("api") == 0);
}

TEST_CASE("faults: work that made the GPU fault is named from the host's calls where no records come") {
  const std::string fault = "fault:faulty_kernel=700@5,cuptiActivityFlushAll=hang";
  const words arguments = {"--stop-deadline-ms=500"};
  const outcome o = with_faults(how::own_session, fault, arguments);
  check_unchanged(o, untraced(how::own_session, arguments, {{"CUTRACE_SIM_FAULTS", fault}}));
  check_numbers(o);
  CAPTURE(o.all_lines());
  CHECK(o.all_lines().find("cutrace: GPU fault: cuStreamSynchronize returned CUDA_ERROR_ILLEGAL_ADDRESS (700); CUPTI's "
                           "records have not come yet") == 0);
  CHECK(o.all_lines().find("kernel cuLaunchKernel") != std::string::npos);
  CHECK(o.all_lines().find("stage \"round\", request 1\n") != std::string::npos);
  std::size_t named = 0;
  for (const json& e : o.trace->of("alarm")) named += e.at("call") == "cuLaunchKernel" && e.at("requests") == json{1};
  CHECK(named == 3);  // any of the round's launches
}

TEST_CASE("faults: where records come late, what made the GPU fault is named twice on stderr and once in the trace") {
  const std::string fault = "fault:faulty_kernel=700@5,slow_flush=120ms";
  const outcome o = with_faults(how::own_session, fault);
  check_unchanged(o, untraced(how::own_session, {}, {{"CUTRACE_SIM_FAULTS", fault}}));
  check_numbers(o);
  const std::string lines = o.all_lines();
  CAPTURE(lines);
  const std::size_t first = lines.find("records have not come yet"), second = lines.find("records have come now");
  REQUIRE(first != std::string::npos);
  REQUIRE(second != std::string::npos);
  CHECK(first < second);
  CHECK(lines.find("kernel faulty_kernel", second) != std::string::npos);
  std::vector<json> likeliest;
  for (const json& e : o.trace->of("alarm"))
    if (e.at("rank") == 1) likeliest.push_back(e);
  REQUIRE(likeliest.size() == 1);
  bool named = false;
  for (const json& e : o.trace->of("alarm"))
    named = named || (e.at("name") == "faulty_kernel" && e.at("requests") == json{1});
  CHECK(named);
}

TEST_CASE("faults: the clock is registered once in a process: each further time would spoil a record") {
  const outcome o = with_faults(how::own_session, "cuptiActivityRegisterTimestampCallback=999@2", {"--sessions=3"});
  check_unchanged(o, untraced(how::own_session, {"--sessions=3"}));
  CHECK(o.all_lines().empty());
  check_numbers(o);
  CHECK(o.gpu_work() == clean(how::own_session).gpu_work());
}

TEST_CASE("faults: GPU work that seems to begin before its call is reported as it is, and counted") {
  for (const how h : both) {
    CAPTURE(name_of(h));
    const outcome o = with_faults(h, "early=100us");
    check_unchanged(o, plain_output());
    check_numbers(o);
    CHECK(o.trace->complete());
    CHECK(clean(h).quality("skew") == 0);
    std::uint64_t skewed = 0;
    for (const char* type : {"kernel", "memcpy", "memset"})
      for (const json& e : o.trace->of(type)) {
        CHECK(e.at("attribution") == "by_call");
        if (!e.value("skewed", false)) continue;
        ++skewed;
        CHECK(e.at("ts_ns").get<std::int64_t>() < e.at("call_ts_ns").get<std::int64_t>());
      }
    CHECK(skewed > 0);
    CHECK(o.gpu_work() == clean(h).gpu_work());
    CHECK(o.quality("skew") == skewed);
  }
}

TEST_CASE("faults: threads in records have the kernel's numbers, not what pthread_self gives") {
  for (const how h : both) {
    std::size_t threads = 0;
    for (const json& e : clean(h).trace->of("overhead")) {
      if (!e.contains("tid")) continue;
      ++threads;
      CHECK(e.at("tid").get<std::uint64_t>() <= std::uint64_t{1} << 22);  // PID_MAX_LIMIT
    }
    CHECK(threads > 0);
  }
}

TEST_CASE("faults: what the administrator or a newer driver could change is said") {
  struct {
    const char* fault;
    const char* said;
  } const cases[] = {
      {"cuptiSubscribe_v2=35", "NVreg_RestrictProfilingToAdminUsers=0"},
      {"cuptiSubscribe_v2=15", ::access("/dev/nvidiactl", F_OK) == 0 ? "the driver may be older than this libcupti"
                                                                     : "this machine has no NVIDIA device"},
      {"cuptiSubscribe_v2=43", "CUPTI_ERROR_MIG_DEVICE_NOT_SUPPORTED"},
      {"cuptiActivityEnable=41", "CUPTI_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED"}};
  for (const auto& c : cases) {
    CAPTURE(c.fault);
    const outcome o = with_faults(how::own_session, std::string("cuptiActivityEnableAndDump=41,") + c.fault);
    check_unchanged(o, plain_output());
    check_numbers(o);
    REQUIRE(o.lines.size() == 1);
    CHECK(o.lines[0].find(c.said) != std::string::npos);
    CHECK(o.noted(c.said));
  }
}

TEST_CASE("faults: CUPTI meets a fatal error and ends itself, which is one line; what came before is kept") {
  for (const how h : both)
    for (const char* fault : {"cupti_fatal=3", "cupti_fatal=25"}) {
      CAPTURE(name_of(h));
      CAPTURE(fault);
      const outcome o = with_faults(h, fault);
      CAPTURE(o.all_lines());
      check_unchanged(o, plain_output());
      check_numbers(o);
      REQUIRE(o.lines.size() == 1);
      CHECK(o.lines[0].find("CUPTI met a fatal error and ended itself") != std::string::npos);
      CHECK(o.lines[0].find("CUPTI_ERROR_HARDWARE (9), an error that the stand-in was asked to meet") !=
            std::string::npos);
      CHECK(o.noted("CUPTI met a fatal error"));
      CHECK(o.of("stage") == 4);
      CHECK(o.of("api") < clean(h).of("api"));
      CHECK(o.gpu_work() < clean(h).gpu_work());
    }
}

TEST_CASE("faults: managed memory is recorded on request, once CUDA has been initialised") {
  // The work outlasts a flush period: a session that begins before CUDA enables managed memory at the next flush.
  const words arguments = {"--rounds=60", "--launches=20", "--pause-ms=20"};
  for (const how h : both) {
    CAPTURE(name_of(h));
    const environment env = {{"CUTRACE_KINDS", "+unified"}, {"CUTRACE_SIM_FAULTS", "unified=7"}};
    const outcome o = traced(h, env, arguments);
    CAPTURE(o.all_lines());
    check_unchanged(o, untraced(h, arguments));
    check_numbers(o);
    CHECK(o.all_lines().empty());
    std::size_t moves = 0;
    for (const json& e : o.trace->of("memcpy")) {
      if (e.at("name") != "migration HtoD") continue;
      ++moves;
      CHECK(e.at("bytes") == 65536);
      CHECK(e.at("source") == "Managed");
      CHECK(e.at("destination") == "Managed");
      CHECK(e.at("direction") == "HtoD");
      CHECK(e.at("attribution") == "no_callback");
      CHECK(e.at("dur_ns").get<std::int64_t>() > 0);
    }
    CHECK(moves == 7);
    std::int64_t last = 0;
    for (const json& e : o.trace->of("counter")) {
      if (e.at("name") != "GPU 0 page faults") continue;
      CHECK(e.at("change") == 1);
      CHECK(e.at("gauge") == false);
      last = std::max(last, e.at("value").get<std::int64_t>());
    }
    CHECK(last == 7);
    CHECK(with_faults(h, "unified=7").of("counter") == 0);  // not asked for
  }
}

TEST_CASE("faults: managed memory cannot be recorded: one line, and the rest is there") {
  struct {
    const char* fault;
    const char* said;
  } const cases[] = {
      {"cuptiActivityConfigureUnifiedMemoryCounter=28", "CUPTI_ERROR_UM_PROFILING_NOT_SUPPORTED (28)"},
      {"cuptiActivityConfigureUnifiedMemoryCounter=29", "CUPTI_ERROR_UM_PROFILING_NOT_SUPPORTED_ON_DEVICE (29)"},
      {"no_such_symbol=cuptiActivityConfigureUnifiedMemoryCounter", "CUPTI_ERROR_UM_PROFILING_NOT_SUPPORTED (28)"},
      {"cuptiActivityConfigureUnifiedMemoryCounter=15", "nothing of managed memory was recorded"}};
  for (const how h : both)
    for (const auto& c : cases) {
      CAPTURE(name_of(h));
      CAPTURE(c.fault);
      const outcome o = traced(h, {{"CUTRACE_KINDS", "+unified"}, {"CUTRACE_SIM_FAULTS", c.fault}});
      CAPTURE(o.all_lines());
      check_unchanged(o, plain_output());
      check_numbers(o);
      REQUIRE(o.lines.size() == 1);
      CHECK(o.lines[0].find(c.said) != std::string::npos);
      CHECK(o.noted(c.said));
      CHECK(o.gpu_work() == clean(h).gpu_work());
    }
}

TEST_CASE("faults: managed memory is enabled once CUDA is initialised, also where a later kind is refused") {
  const words arguments = {"--rounds=60", "--launches=20", "--pause-ms=20"};
  // A session of the program's own enables before CUDA is initialised: three kinds of descriptions, kernels, and then
  // whole graphs.
  const environment env = {{"CUTRACE_KINDS", "kernel,unified"},
                           {"CUTRACE_GRAPHS", "graph"},
                           {"CUTRACE_SIM_FAULTS", "cuptiActivityEnable=999@5,unified=7"}};
  const outcome o = traced(how::own_session, env, arguments);
  CAPTURE(o.all_lines());
  check_unchanged(o, untraced(how::own_session, arguments));
  check_numbers(o);
  REQUIRE(o.lines.size() == 1);
  CHECK(o.lines[0].find("no records of GRAPH_TRACE") != std::string::npos);
  CHECK(o.of("kernel") == std::size_t{60} * 20);
  std::size_t moves = 0;
  for (const json& e : o.trace->of("memcpy")) moves += e.at("name") == "migration HtoD" ? 1 : 0;
  CHECK(moves == 7);
}

TEST_CASE("faults: a call into CUPTI that never returns does not keep the program from ending") {
  // The periodic flush (each 100 ms) hangs, or, where the program ends before the first period does, the last one.
  for (const char* arguments : {"--linger-ms=600", "--linger-ms=0"}) {
    CAPTURE(arguments);
    const outcome o =
        with_faults(how::own_session, "cuptiActivityFlushAll=hang", {arguments, "--stop-deadline-ms=200"});
    CAPTURE(o.all_lines());
    check_unchanged(o, plain_output());
    REQUIRE(o.trace.has_value());
    CHECK(o.trace->footers == 1);
    CHECK(o.of("stage") == 4);
    CHECK(o.of("api") == clean(how::own_session).of("api"));
    CHECK(o.gpu_work() == 0);
    CHECK(o.noted("did not stop within its deadline"));
  }
}

TEST_SUITE_END();

}  // namespace traps_test
