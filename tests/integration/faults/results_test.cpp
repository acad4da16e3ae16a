// SPDX-License-Identifier: Apache-2.0
// Calls that fail stand in the trace with the name of their result, and the program sees what it would see untraced.
#include "faults_run.hpp"

namespace results_test {

using namespace faults;  // NOLINT(google-build-using-namespace)

namespace {

std::vector<json> failed_calls(const outcome& o) {
  std::vector<json> some;
  for (const json& e : o.trace->of("api"))
    if (e.at("result") != 0) some.push_back(e);
  return some;
}

}  // namespace

TEST_SUITE_BEGIN("faults.results");

TEST_CASE("faults: without any, every call succeeds by name and nothing is said") {
  for (const how h : both) {
    CAPTURE(name_of(h));
    const outcome& o = clean(h);
    check_unchanged(o, plain_output());
    check_numbers(o);
    CHECK(o.all_lines().empty());
    CHECK(o.trace->complete());
    CHECK(o.process.exit_status == 40);
    CHECK(o.of("kernel") == 12);
    CHECK(o.of("memcpy") == 8);
    CHECK(o.of("memset") == 4);
    CHECK(failed_calls(o).empty());
    for (const json& e : o.trace->of("api")) CHECK(e.value("result_name", "") == "CUDA_SUCCESS");
  }
}

TEST_CASE("faults: a failing call has the name of its result in JSONL and in `calls`") {
  struct {
    const char* fault;
    const char* call;
    int code;
    const char* name;
  } const cases[] = {
      {"cuMemAlloc_v2=2@3", "cuMemAlloc", 2, "CUDA_ERROR_OUT_OF_MEMORY"},
      {"cuLaunchKernel=719@5", "cuLaunchKernel", 719, "CUDA_ERROR_LAUNCH_FAILED"},
      {"cuMemcpyHtoDAsync_v2=700@1", "cuMemcpyHtoDAsync", 700, "CUDA_ERROR_ILLEGAL_ADDRESS"},
      {"cuStreamSynchronize=999@2", "cuStreamSynchronize", 999, "CUDA_ERROR_UNKNOWN"},
      {"cuModuleLoadData=209", "cuModuleLoadData", 209, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
  };
  for (const how h : both)
    for (const auto& c : cases) {
      CAPTURE(name_of(h));
      CAPTURE(c.fault);
      const finished_process bare = untraced(h, {}, {{"CUTRACE_SIM_FAULTS", c.fault}});
      CHECK(bare.exit_status > 40);  // the program noticed
      CHECK(bare.errors.empty());    // the stand-in knows the function that the fault names
      const outcome o = with_faults(h, c.fault);
      check_unchanged(o, bare);
      check_numbers(o);
      const bool loses_context = c.code == 719 || c.code == 700;
      CHECK(o.all_lines().find("cutrace: GPU fault: ") == (loses_context ? 0 : std::string::npos));
      CHECK(o.all_lines().empty() != loses_context);
      const auto failed = failed_calls(o);
      REQUIRE_FALSE(failed.empty());
      CHECK(failed[0].at("name") == c.call);
      CHECK(failed[0].at("result") == c.code);
      CHECK(failed[0].value("result_name", "") == c.name);
      CHECK(o.calls.find(std::string(" -> ") + c.name) != std::string::npos);
    }
}

TEST_CASE("faults: a result that no header names keeps its number") {
  const outcome o = with_faults(how::own_session, "cuMemAlloc_v2=77@1,cuMemFree_v2=1001@1");
  const auto failed = failed_calls(o);
  REQUIRE(failed.size() == 2);
  CHECK(failed[0].at("result") == 77);
  CHECK(failed[1].at("result") == 1001);
  CHECK_FALSE(failed[0].contains("result_name"));
  CHECK(o.calls.find(" -> error 77") != std::string::npos);
  CHECK(o.calls.find(" -> error 1001") != std::string::npos);
}

TEST_CASE("faults: a call that fails makes no GPU record, all others do") {
  for (const how h : both) {
    const outcome o = with_faults(h, "cuLaunchKernel=719@2");
    CHECK(o.of("kernel") == clean(h).of("kernel") - 1);
    CHECK(o.of("memcpy") == clean(h).of("memcpy"));
    for (const char* type : {"kernel", "memcpy", "memset"})
      for (const json& e : o.trace->of(type)) CHECK(e.at("attribution") == "by_call");
  }
}

TEST_SUITE_END();

}  // namespace results_test
