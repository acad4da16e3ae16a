// SPDX-License-Identifier: Apache-2.0
// Drivers and libcupti libraries that are missing, wrong, old or taken: the program runs as ever, one line says what is
// missing and why, and the trace holds the rest.
#include "faults_run.hpp"

namespace library_test {

using namespace faults;  // NOLINT(google-build-using-namespace)

namespace {

/// No GPU time and no calls, one line that says why; stages are there.
void check_stages_only(const outcome& o, const std::vector<std::string>& parts) {
  check_numbers(o);
  CAPTURE(o.all_lines());
  REQUIRE(o.lines.size() == 1);
  for (const std::string& part : parts) CHECK(o.lines[0].find(part) != std::string::npos);
  CHECK(o.lines[0].compare(0, 16, "cutrace: cupti: ") == 0);
  CHECK(o.noted(o.lines[0].substr(9)));
  CHECK(o.trace->header.at("backend_detail").get<std::string>().size() > 20);
  CHECK(o.gpu_work() == 0);
  CHECK(o.of("stage") == 4);
  CHECK(o.of("api") == 0);
}

const std::string missing_cupti = "/nonexistent/libcupti.so.13";

}  // namespace

TEST_SUITE_BEGIN("faults.library");

TEST_CASE("faults: no driver") {
  const environment env = {{"FAULTY_RUN_HIDE", "libcuda.so"}};
  const finished_process as = untraced(how::own_session, {}, env);
  CHECK(as.output == "no driver\n");
  const outcome o = traced(how::own_session, env);
  check_unchanged(o, as);
  check_numbers(o);
  REQUIRE(o.lines.size() == 1);
  CHECK(o.lines[0].find("no CUDA driver") != std::string::npos);
  CHECK(o.noted("no CUDA driver"));
}

TEST_CASE("faults: a driver that does not say its version, as one whose kernel module is missing") {
  const outcome o = with_faults(how::own_session, "cuDriverGetVersion=803");
  check_unchanged(o, plain_output());
  check_stages_only(o, {"does not say its version"});
}

TEST_CASE("faults: a driver without device is no fault of the tracer") {
  const environment env = {{"CUTRACE_SIM_FAULTS", "no_device"}};
  for (const how h : both) {
    CAPTURE(name_of(h));
    const finished_process as = untraced(h, {}, env);
    CHECK(as.output == "no device: cuInit=100\n");
    const outcome o = traced(h, env);
    check_unchanged(o, as);
    CHECK(o.all_lines().empty());
    if (h == how::injected) continue;  // cuInit fails before the driver loads what is injected
    check_numbers(o);
    const auto calls = o.trace->of("api");
    REQUIRE(calls.size() == 1);
    CHECK(calls[0].at("result_name") == "CUDA_ERROR_NO_DEVICE");
  }
}

TEST_CASE("faults: the named libcupti is missing, or is something else") {
  const temporary_folder folder;
  const std::string text = folder.file("libcupti.so.13");
  std::ofstream(text) << "INPUT(-lcupti)\n";
  const std::string other = OTHER_LIBRARY;
  for (const how h : both) {
    CAPTURE(name_of(h));
    for (const std::string& file : {missing_cupti, text, folder.path(), other}) {
      CAPTURE(file);
      const outcome o = traced(h, {{"CUTRACE_CUPTI_LIBRARY", file}});
      check_unchanged(o, plain_output());
      check_stages_only(o, {file, file == other ? "cuptiGetVersion" : "CUTRACE_CUPTI_LIBRARY", "no GPU time"});
    }
  }
}

TEST_CASE("faults: no libcupti anywhere") {
  for (const how h : both) {
    CAPTURE(name_of(h));
    const outcome o = traced(h, {{"FAULTY_RUN_HIDE", "libcupti"}, {"CUTRACE_CUPTI_LIBRARY", ""}});
    check_unchanged(o, plain_output());
    check_stages_only(o, {"no libcupti was found", "CUTRACE_CUPTI_LIBRARY", "libcupti.so." CUDA_MAJOR});
  }
}

TEST_CASE("faults: the loader finds libcupti where no variable names it") {
  const outcome o = traced(how::own_session, {{"CUTRACE_CUPTI_LIBRARY", ""}});
  check_numbers(o);
  CHECK(o.gpu_work() == clean(how::own_session).gpu_work());
}

TEST_CASE("faults: another client has taken CUPTI, and is named") {
  struct {
    const char* argument;
    const char* fault;
    const char* said;
  } const cases[] = {{"--first-client=profiler of somebody", "", "profiler of somebody"},
                     {"--first-client=", "", "another tool"},
                     {"--first-client=", "no_such_symbol=cuptiSubscribe_v2", "another tool"}};
  for (const how h : both)
    for (const auto& c : cases) {
      CAPTURE(name_of(h));
      const outcome o = with_faults(h, c.fault, {c.argument});
      check_unchanged(o, plain_output());
      check_stages_only(o, {"taken by", c.said, "no GPU time"});
    }
}

TEST_CASE("faults: an older libcupti, and one of another major version, are named in one line") {
  struct {
    const char* version;
    const char* said;
  } const cases[] = {
      {"17", "CUDA 11,"}, {"18", "CUDA 11 or 12,"}, {"22", "CUDA 12"}, {"120600", "CUDA 12"}, {"140000", "CUDA 14"}};
  for (const how h : both)
    for (const auto& c : cases) {
      CAPTURE(name_of(h));
      CAPTURE(c.version);
      const outcome o = with_faults(h, std::string("version=") + c.version);
      check_unchanged(o, plain_output());
      check_numbers(o);
      REQUIRE(o.lines.size() == 1);
      CHECK(o.lines[0].find(std::string("is of ") + c.said) != std::string::npos);
      CHECK(o.lines[0].find("the driver of CUDA " CUDA_MAJOR) != std::string::npos);
      CHECK(o.lines[0].find("libcupti.so") != std::string::npos);  // which one
      CHECK(o.noted(c.said));
      CHECK(o.gpu_work() == clean(h).gpu_work());
    }
}

TEST_CASE("faults: the libcupti of CUDA 11.8 is found by its own name, after all others") {
  const temporary_folder libraries;
  const std::filesystem::path standin = std::filesystem::path(STANDIN_CUPTI).parent_path();
  std::filesystem::copy_file(standin / "libcuda.so.1", libraries.file("libcuda.so.1"));
  std::filesystem::copy_file(STANDIN_CUPTI, libraries.file("libcupti.so.11.8"));
  const environment env = {{"LD_LIBRARY_PATH", libraries.path()},
                           {"CUTRACE_CUPTI_LIBRARY", ""},
                           {"FAULTY_RUN_HIDE", "libcupti.so." CUDA_MAJOR},
                           {"CUTRACE_SIM_FAULTS", "version=18"}};
  const outcome o = traced(how::own_session, env);
  check_unchanged(o, plain_output());
  check_numbers(o);
  REQUIRE(o.lines.size() == 1);
  CHECK(o.lines[0].find("libcupti.so.11.8 is of CUDA 11, the driver of CUDA " CUDA_MAJOR) != std::string::npos);
  CHECK(o.gpu_work() == clean(how::own_session).gpu_work());
}

TEST_CASE("faults: the libcupti that the program has loaded already is used, not another one beside it") {
  const temporary_folder libraries;
  std::string own;
  SUBCASE("under its own name") { own = libraries.file("libcupti.so.12"); }
  SUBCASE("out of a Python wheel, whose tool (auditwheel) has put a checksum into the name") {
    own = libraries.file("libcupti-0a1b2c3d.so.12");
  }
  std::filesystem::copy_file(STANDIN_CUPTI, own);
  for (const how h : both) {
    CAPTURE(name_of(h));
    // Its version differs from the driver's, so that the line about it says which one it is.
    // The copy's SONAME is that of the stand-in: the loader must not find the copy by it.
    const environment env = {{"CUTRACE_CUPTI_LIBRARY", ""},
                             {"CUTRACE_SIM_FAULTS", "version=22"},
                             {"FAULTY_RUN_HIDE", "libcupti.so." CUDA_MAJOR}};
    const outcome o = traced(h, env, {"--load=" + own});
    CAPTURE(o.all_lines());
    check_unchanged(o, plain_output());
    check_numbers(o);
    REQUIRE(o.lines.size() == 1);
    CHECK(o.lines[0].find(own + " is of CUDA 12") != std::string::npos);
    CHECK(o.gpu_work() == clean(h).gpu_work());
  }
}

TEST_CASE("faults: CUPTI stays taken, and the next session says so") {
  const outcome o = with_faults(how::own_session, "cuptiUnsubscribe=999", {"--sessions=2"});
  CHECK(o.process.exit_status == 40);
  REQUIRE(o.lines.size() == 2);
  CHECK(o.lines[0].find("cuptiUnsubscribe") != std::string::npos);
  CHECK(o.lines[1].find("taken by cutrace") != std::string::npos);
  check_numbers(o);  // of the second session, which overwrote the first one's file
}

TEST_CASE("faults: the second session of a process is as good as the first") {
  const outcome o = with_faults(how::own_session, "", {"--sessions=2"});
  CHECK(o.all_lines().empty());
  check_numbers(o);
  CHECK(o.gpu_work() == clean(how::own_session).gpu_work());
}

TEST_SUITE_END();

}  // namespace library_test
