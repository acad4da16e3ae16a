// SPDX-License-Identifier: Apache-2.0
// Set-ups of real processes: drivers and libraries that are missing, broken, slow or taken, and what doctor says of
// them; and --try, which must agree.
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "doctor_run.hpp"

namespace setups_test {

using namespace doctor_run;  // NOLINT(google-build-using-namespace)

TEST_SUITE_BEGIN("doctor.setups");

namespace {

void check_no_driver(const outcome& o) {
  CHECK(o.process.exit_status == 1);
  CHECK(o.state("driver.library") == "broken");
  CHECK(o.reported("driver.library", "no CUDA driver"));
  CHECK(o.remedy("driver.library").find("--gpus all") != std::string::npos);
  for (const char* id : {"driver.init", "driver.devices", "cupti.subscriber", "try"}) {
    CAPTURE(id);
    CHECK(o.state(id) == "unknown");
    CHECK(o.what(id).find("because") != std::string::npos);
  }
  CHECK(o.because("cupti", "driver.library"));
  CHECK_FALSE(o.method("cupti").at("works"));
}

}  // namespace

TEST_CASE("doctor: no driver") {
  check_no_driver(run(on_standin({{"LD_PRELOAD", HIDDEN_DRIVER}}), {"--try"}));
  const environment none = {{"LD_LIBRARY_PATH", ""}};
  const outcome here = run(none, {"--try"});
  if (here.what("driver.library").find("libcuda.so.1 is ") == 0)
    MESSAGE("this machine has a driver: only the hidden one was looked at");
  else
    check_no_driver(here);
}

TEST_CASE("doctor: the stand-in driver") {
  const outcome o = run(on_standin(), {"--try"});
  CHECK(o.process.exit_status == 0);
  CHECK(o.reported("driver.library", STANDIN_FOLDER));
  CHECK(o.reported("driver.library", "CUDA 13."));
  CHECK(o.reported("driver.devices", "1 device: cutrace simulated GPU (compute capability 9.0)"));
  CHECK(o.reported("cupti.library", STANDIN_CUPTI_NAME));
  CHECK(o.reported("cupti.library", "CUPTI 13"));
  CHECK(o.reported("inject.library", "libcutrace_inject.so"));
  CHECK(o.reported("preload.library", "libcutrace_preload.so"));
  for (const char* id :
       {"driver.library", "driver.init", "driver.devices", "device_nodes", "cupti.library", "cupti.subscriber",
        "inject.library", "preload.library", "environment.tools", "environment.cutrace", "try"}) {
    CAPTURE(id);
    CAPTURE(o.what(id));
    CHECK(o.state(id) == "ok");
  }
  CHECK(o.reported("try", "1 of 1 memset, 1 of 1 copy"));
  CHECK(o.method("cupti").at("works"));
  CHECK(run(on_standin({{"CUTRACE_SIM_DEVICES", "3"}}))
            .reported("driver.devices", "3 devices: 3 x cutrace simulated GPU"));
}

TEST_CASE("doctor: a libcupti that is cut off, missing, or none") {
  const temporary_folder folder;
  const std::string cut = folder.file("libcupti.so.13");
  std::ofstream(cut, std::ios::binary) << content_of(STANDIN_CUPTI).substr(0, 3000);
  const std::string text = folder.file("text.so");
  std::ofstream(text) << std::string(200, 'x');
  const std::string short_one = folder.file("short.so");
  std::ofstream(short_one, std::ios::binary) << content_of(STANDIN_CUPTI).substr(0, 30);
  const std::pair<std::string, std::string> cases[] = {{cut, cut},  // the loader itself dies of it
                                                       {short_one, "file too short"},
                                                       {text, "invalid ELF header"},
                                                       {folder.file("absent.so"), "No such file"},
                                                       {NO_CUPTI, "has no function cuptiGetVersion"}};
  for (const auto& [library, words] : cases) {
    const std::string which = library;
    CAPTURE(which);
    const outcome o = run(on_standin({{"CUTRACE_CUPTI_LIBRARY", library}}), {"--try"});
    CAPTURE(o.what("cupti.library"));
    CHECK(o.process.exit_status == 1);
    CHECK(o.state("cupti.library") == "broken");
    CHECK(o.reported("cupti.library", words));
    CHECK(o.remedy("cupti.library").find("CUTRACE_CUPTI_LIBRARY") != std::string::npos);
    CHECK(o.state("cupti.subscriber") == "unknown");
    CHECK(o.state("try") == "broken");
    CHECK(o.because("cupti", "cupti.library"));
    CHECK(o.state("driver.init") == "ok");
  }
}

TEST_CASE("doctor: a broken libcupti among those on the usual paths") {
  const temporary_folder folder;
  std::filesystem::create_directories(folder.file("lib64"));
  const std::string cut = folder.file("lib64/" STANDIN_CUPTI_NAME);
  std::ofstream(cut, std::ios::binary) << content_of(STANDIN_CUPTI).substr(0, 3000);
  const outcome o = run(on_standin({{"CUDA_HOME", folder.path()}}));
  CHECK(o.state("cupti.library") == "ok");
  CHECK(o.state("cupti.files") == "limited");
  CHECK(o.reported("cupti.files", cut));
  CHECK(o.process.exit_status == 0);
  std::filesystem::remove(cut);
  CHECK(run(on_standin({{"CUDA_HOME", folder.path()}})).what("cupti.files").find(cut) == std::string::npos);
}

TEST_CASE("doctor: an output folder that cannot be written") {
  const temporary_folder folder;
  std::ofstream(folder.file("a_file")) << "x";
  std::filesystem::create_symlink("purged", folder.file("link"));
  for (const std::string& out : {folder.file("a_file"), folder.file("a_file/below"), std::string("/proc/cutrace-out"),
                                 folder.file("link"), folder.file("link/below"), folder.file("a,b")}) {
    CAPTURE(out);
    const outcome o = run(on_standin(), {"--out", out});
    CHECK(o.process.exit_status == 1);
    CHECK(o.state("output.folder") == "broken");
    CHECK(o.reported("output.folder", out));
    CHECK(o.remedy("output.folder").find("--out") != std::string::npos);
  }
  for (const std::string& out : {folder.path(), folder.file("new/and/deeper")}) {
    CAPTURE(out);
    const outcome o = run(on_standin(), {"--out", out});
    CHECK(o.process.exit_status == 0);
    CHECK(o.state("output.folder") == "ok");
  }
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 2);  // nothing was left behind
}

TEST_CASE("doctor: the default output folder below one whose name no sink can take") {
  const temporary_folder folder;
  for (const char* name : {"a,b", "plain"}) {
    CAPTURE(std::string(name));
    std::filesystem::create_directory(folder.file(name));
    outcome o{test_support::run_process({COMMAND, "doctor", "--json"}, folder.file(name), clean(on_standin())), {}};
    o.report = json::parse(o.process.output);
    CHECK(o.state("output.folder") == (std::string(name) == "plain" ? "ok" : "broken"));
  }
}

TEST_CASE("doctor: a file system that does not say how much room it has") {
  const temporary_folder folder;
  const std::string line =
      std::string("mkdir out && mount -t tmpfs -o size=0 none out && exec ") + COMMAND + " doctor --json --out out";
  const auto p = test_support::run_process({"/usr/bin/unshare", "--map-root-user", "--mount", "/bin/sh", "-c", line},
                                           folder.path(), clean(on_standin()));
  if (p.output.empty()) {
    MESSAGE("not looked at: nothing may be mounted here");
    return;
  }
  const outcome o{p, json::parse(p.output)};
  CHECK(o.state("output.folder") == "ok");
  CHECK(o.state("output.space") == "unknown");
  CHECK(o.reported("output.space", "not checked, because"));
}

TEST_CASE("doctor: an output folder without write permission") {
  const temporary_folder folder;
  std::filesystem::create_directories(folder.file("closed"));
  ::chmod(folder.path().c_str(), 0755);
  ::chmod(folder.file("closed").c_str(), 0555);
  words command{COMMAND, "doctor", "--json", "--out", folder.file("closed")};
  if (::getuid() == 0) {  // root may write anywhere
    const words nobody{"/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"};
    command.insert(command.begin(), nobody.begin(), nobody.end());
  }
  const temporary_folder ours;
  const auto p = test_support::run_process(command, ours.path(), clean(on_standin()));
  if (p.exit_status > 1) {
    MESSAGE("not looked at: no setpriv here, or nobody may not enter the build folder");
    return;
  }
  const outcome o{p, json::parse(p.output)};
  CHECK(o.process.exit_status == 1);
  CHECK(o.state("output.folder") == "broken");
  CHECK(o.reported("output.folder", "Permission denied"));
}

TEST_CASE("doctor: CUPTI is taken by a tool that CUDA_INJECTION64_PATH brings, which cutrace run replaces") {
  const outcome o = run(on_standin({{"CUDA_INJECTION64_PATH", OTHER_TOOL}}), {"--try"});
  CHECK(o.state("cupti.subscriber") == "limited");
  CHECK(o.reported("cupti.subscriber", "the other tool"));
  CHECK(o.remedy("cupti.subscriber").find(OTHER_TOOL) != std::string::npos);
  CHECK(o.state("environment.tools") == "limited");
  CHECK(o.state("try") == "ok");
  CHECK(o.process.exit_status == 0);
  CHECK(o.method("cupti").at("machine") == "limited");
  // A tool that ends each process proves nothing about libcupti.
  const outcome ends = run(on_standin({{"CUDA_INJECTION64_PATH", OTHER_TOOL}, {"OTHER_TOOL_ENDS", "1"}}));
  CHECK(ends.state("cupti.library") == "ok");
  CHECK(ends.state("cupti.subscriber") == "limited");
  CHECK(ends.reported("cupti.subscriber", "cuInit, with the tools that the environment names, ended the process"));
  // cutrace's own library there is no other tool.
  const outcome own = run(on_standin({{"CUDA_INJECTION64_PATH", INJECTED_LIBRARY}}));
  CHECK(own.state("cupti.subscriber") == "ok");
  CHECK(own.state("environment.tools") == "ok");
}

TEST_CASE("doctor: CUPTI is taken by a tool that comes with each process") {
  const outcome o = run(on_standin({{"LD_PRELOAD", OTHER_TOOL}, {"OTHER_TOOL_AT_START", "1"}}), {"--try"});
  CHECK(o.state("cupti.subscriber") == "broken");
  CHECK(o.reported("cupti.subscriber", "the other tool"));
  CHECK(o.remedy("cupti.subscriber").find("LD_PRELOAD") != std::string::npos);
  CHECK(o.state("try") == "broken");
  CHECK(o.process.exit_status == 1);
}

TEST_CASE("doctor: a driver that hangs, crashes, refuses or shows nothing") {
  const outcome hangs = run(on_standin({{"CUTRACE_SIM_FAULTS", "cuInit=hang"}}), {"--patience", "1", "--try"});
  CHECK(hangs.state("driver.init") == "broken");
  CHECK(hangs.reported("driver.init", "cuInit did not return within 1 s"));
  CHECK(hangs.state("try") == "unknown");
  CHECK(hangs.process.exit_status == 1);

  const outcome crashes = run({{"LD_LIBRARY_PATH", CRASHING_FOLDER}, {"CUTRACE_CUPTI_LIBRARY", STANDIN_CUPTI}});
  CHECK(crashes.state("driver.init") == "broken");
  CHECK(crashes.reported("driver.init", "cuInit ended the process by signal 11"));
  CHECK(crashes.reported("driver.library", "CUDA 13.0"));

  const std::pair<const char*, const char*> refusals[] = {
      {"803", "reload the module"}, {"804", "compat/"}, {"802", "fabricmanager"}};
  for (const auto& [code, help] : refusals) {
    const outcome o = run(on_standin({{"CUTRACE_SIM_FAULTS", std::string("cuInit=") + code}}));
    CAPTURE(o.what("driver.init"));
    CHECK(o.state("driver.init") == "broken");
    CHECK(o.reported("driver.init", code));
    CHECK(o.remedy("driver.init").find(help) != std::string::npos);
  }

  const outcome nothing = run(on_standin({{"CUTRACE_SIM_FAULTS", "no_device"}}));
  CHECK(nothing.reported("driver.init", "CUDA_ERROR_NO_DEVICE"));
  CHECK(nothing.process.exit_status == 1);
}

TEST_CASE("doctor: interrupted while the driver hangs, it leaves no process behind") {
  int held[2];  // the end for writing is open in doctor and in whatever doctor starts
  REQUIRE(::pipe(held) == 0);
  const pid_t doctor = ::fork();
  if (doctor == 0) {
    ::close(held[0]);
    const int nowhere = ::open("/dev/null", O_WRONLY);
    ::dup2(nowhere, 1);
    ::setenv("LD_LIBRARY_PATH", STANDIN_FOLDER, 1);
    ::setenv("CUTRACE_SIM_FAULTS", "cuInit=hang", 1);
    ::execl(COMMAND, COMMAND, "doctor", "--patience", "300", static_cast<char*>(nullptr));
    ::_exit(127);
  }
  ::close(held[1]);
  const std::string id = std::to_string(doctor);
  for (int i = 0; i < 3000 && content_of("/proc/" + id + "/task/" + id + "/children").empty(); ++i) ::usleep(10000);
  CHECK_FALSE(content_of("/proc/" + id + "/task/" + id + "/children").empty());
  ::kill(doctor, SIGINT);
  ::waitpid(doctor, nullptr, 0);
  pollfd end{held[0], POLLIN, 0};
  CHECK(::poll(&end, 1, 30000) == 1);
  ::close(held[0]);
}

TEST_CASE("doctor: a CUPTI that hangs, refuses, is of another CUDA, or loses records") {
  const auto with = [](const char* faults) {
    return run(on_standin({{"CUTRACE_SIM_FAULTS", faults}}), {"--try", "--patience", "2"});
  };
  const outcome hangs = with("cuptiSubscribe_v2=hang");
  CHECK(hangs.reported("cupti.subscriber", "cuptiSubscribe did not return within 2 s"));
  CHECK(hangs.state("cupti.subscriber") == "broken");
  CHECK(hangs.state("try") == "broken");

  const outcome forbids = with("cuptiActivityEnable=35");
  CHECK(forbids.state("cupti.subscriber") == "broken");
  CHECK(forbids.reported("cupti.subscriber", "INSUFFICIENT_PRIVILEGES"));
  CHECK(forbids.remedy("cupti.subscriber").find("NVreg_RestrictProfilingToAdminUsers") != std::string::npos);

  const outcome older = with("version=20");
  CHECK(older.state("cupti.library") == "limited");
  CHECK(older.reported("cupti.library", "is of CUDA 12"));

  const outcome loses = with("drop=1");
  CHECK(loses.state("cupti.subscriber") == "ok");
  CHECK(loses.state("try") == "broken");
  CHECK(loses.reported("try", "0 of 1 memset, 1 of 1 copy"));
  CHECK(loses.process.exit_status == 1);
}

TEST_CASE("doctor: library and kernel module of different releases") {
  const temporary_folder folder;
  std::filesystem::copy_file(STANDIN_CUDA, folder.file("libcuda.so.570.86.10"));
  std::filesystem::create_symlink("libcuda.so.570.86.10", folder.file("libcuda.so.1"));
  made_machine m;
  const environment env = {{"LD_LIBRARY_PATH", folder.path()}, {"CUTRACE_DOCTOR_ROOT", m.root()}};
  const auto with_module = [&](const char* release, const char* faults) {
    m.file("/proc/driver/nvidia/version", std::string("NVRM version: NVIDIA UNIX x86_64 Kernel Module  ") + release +
                                              "  Tue Feb 11 01:01:01 UTC 2025\nGCC version:  gcc version 12.2.0");
    environment e = on_standin(env);
    e["LD_LIBRARY_PATH"] = folder.path();
    e["CUTRACE_SIM_FAULTS"] = faults;
    return run(e);
  };
  const outcome same = with_module("570.86.10", "");
  CHECK(same.state("driver.module") == "ok");
  CHECK(same.reported("driver.module", "kernel module 570.86.10, as the library"));
  const outcome works = with_module("580.95.05", "");
  CHECK(works.state("driver.module") == "limited");
  CHECK(works.reported("driver.module", "kernel module 580.95.05, but the library is of 570.86.10"));
  const outcome refuses = with_module("580.95.05", "cuInit=803");
  CHECK(refuses.state("driver.module") == "broken");
  CHECK(refuses.because("cupti", "driver.module"));
  // On Jetson and WSL the file's number is no release.
  std::filesystem::rename(folder.file("libcuda.so.570.86.10"), folder.file("libcuda.so.1.1"));
  std::filesystem::remove(folder.file("libcuda.so.1"));
  std::filesystem::create_symlink("libcuda.so.1.1", folder.file("libcuda.so.1"));
  const outcome jetson = with_module("540.3.0", "");
  CHECK(jetson.state("driver.module") == "ok");
  CHECK(jetson.reported("driver.module", "does not say whether it is of the same release"));
}

TEST_CASE("doctor: an injection library that is missing or another one") {
  const outcome missing = run(on_standin({{"CUTRACE_INJECT_LIBRARY", "/nonexistent/libcutrace_inject.so"}}), {"--try"});
  CHECK(missing.state("inject.library") == "broken");
  CHECK(missing.reported("inject.library", "/nonexistent/libcutrace_inject.so"));
  CHECK(missing.state("try") == "unknown");
  CHECK(missing.process.exit_status == 1);
  const outcome other = run(on_standin({{"CUTRACE_INJECT_LIBRARY", NO_CUPTI}}));
  CHECK(other.state("inject.library") == "broken");
  CHECK(other.reported("inject.library", "it is not cutrace's library"));
  const outcome preload = run(on_standin({{"CUTRACE_PRELOAD_LIBRARY", NO_CUPTI}}));
  CHECK(preload.process.exit_status == 0);  // which is about the default method
  CHECK(preload.state("inject.library") == "ok");
  CHECK(preload.reported("preload.library", "it is not cutrace's library"));
  CHECK(preload.because("preload", "preload.library"));
}

TEST_CASE("doctor: variables that turn tracing off") {
  const std::pair<environment, const char*> cases[] = {{{{"CUTRACE", "0"}}, "turns tracing off"},
                                                       {{{"CUTRACE", "perhaps"}}, "perhaps"},
                                                       {{{"CUTRACE_KINDS", "colours"}}, "colours"},
                                                       {{{"CUTRACE_BACKEND", "none"}}, "no GPU work"}};
  for (const auto& [variables, part] : cases) {
    const std::string which = part;
    CAPTURE(which);
    const outcome o = run(on_standin(variables), {"--try"});
    CHECK(o.state("environment.cutrace") == "broken");
    CHECK(o.reported("environment.cutrace", part));
    CHECK(o.state("try") == "broken");
    CHECK(o.process.exit_status == 1);
  }
}

TEST_CASE("doctor: sinks that cannot be made, and variables that nothing reads") {
  const std::pair<environment, std::pair<std::string, std::string>> all[] = {
      {{{"CUTRACE_SINKS", "jsonk:t"}}, {"broken", "did you mean \"jsonl\"?"}},
      {{{"CUTRACE_SINKS", "null,jsonl:t?rotat=5M"}}, {"limited", "unknown option \"rotat\""}},
      {{{"CUTRACE_SINK", "jsonl:t"}}, {"limited", "did you mean CUTRACE_SINKS?"}},
      {{{"CUTRACE_GPU_EVENTS", "1"}}, {"ok", "none is set wrongly"}},
      {{{"CUTRACE_GPU_EVENTS", "x"}}, {"limited", "CUTRACE_GPU_EVENTS=\"x\" is neither 0 nor 1"}}};
  for (const auto& [variables, expected] : all) {
    const outcome o = run(on_standin(variables));
    CAPTURE(o.what("environment.cutrace"));
    CHECK(o.state("environment.cutrace") == expected.first);
    CHECK(o.reported("environment.cutrace", expected.second));
  }
}

TEST_CASE("doctor --try: choices of what is recorded do not keep its records out") {
  const outcome o = run(on_standin({{"CUTRACE_START_AFTER", "10s"}, {"CUTRACE_KINDS", "kernel"}}), {"--try"});
  CAPTURE(o.what("try"));
  CHECK(o.state("try") == "ok");
}

TEST_SUITE_END();

}  // namespace setups_test
