// SPDX-License-Identifier: Apache-2.0
// How programs end under `cutrace run`, or cannot begin: exit codes, what is said, and what is in the files.
#include <doctest/doctest.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>

#include "../../support/sanitized.hpp"
#include "run_support.hpp"

namespace run_ends_test {

using run_support::jsonl_trace;
using run_support::kernels;
using run_support::run;

TEST_CASE("the exit status is the program's") {
  for (const int status : {0, 1, 3, 42, 125, 255}) {
    const run r({"--quiet"}, {SUBJECT, "exit", std::to_string(status)});
    CHECK(r.ended.exit_status == status);
    CHECK(jsonl_trace(r.files(".jsonl").at(0)).complete());
  }
}

TEST_CASE("a signal that ends the program ends the command, and a shell sees 128 and its number") {
  for (const int signal : {SIGTERM, SIGSEGV, SIGKILL, SIGPIPE, SIGUSR1, SIGXFSZ, SIGPROF}) {
    if (sanitized && signal == SIGSEGV) continue;  // the sanitizer's own way to end
    INFO(signal);
    const run r({"--sink", "jsonl"}, {SUBJECT, "signal", std::to_string(signal)});
    CHECK(r.ended.signal == signal);
    CHECK(r.says("its trace was not closed") == (signal == SIGSEGV || signal == SIGKILL));
    const std::string line =
        std::string(CUTRACE_COMMAND) + " run --quiet --out out -- " + SUBJECT + " signal " + std::to_string(signal);
    const run shell(run::line{{"/bin/sh", "-c", line + "; exit $?"}});
    CHECK(shell.ended.exit_status == 128 + signal);
  }
}

TEST_CASE("not found, not executable") {
  for (const char* name : {"/no/such/program", "no-such-program-of-cutrace"}) {
    const run r({}, {name});
    CHECK(r.ended.exit_status == 127);
    CHECK(r.says(name));
    CHECK(r.says("No such file"));
    CHECK(!std::filesystem::exists(r.out()));  // nothing is left behind
  }
  const temporary_folder folder;
  std::ofstream(folder.file("plain")) << "no program";
  for (const std::string& name : {folder.file("plain"), folder.path()}) {
    const run r({}, {name});
    CHECK(r.ended.exit_status == 126);
    CHECK(r.says("Permission denied"));
  }
}

TEST_CASE("a program that ends at once") {
  const run r({}, {SUBJECT, "work", "1"});
  CHECK(r.ended.exit_status == 0);
  CHECK(kernels(r.files(".jsonl").at(0)) == 1);
  const run nothing({}, {SUBJECT, "nothing", "9"});
  CHECK(nothing.ended.exit_status == 9);
}

TEST_CASE("no CUDA at all: one line") {
  const run r({}, {SUBJECT, "nothing"});
  CHECK(r.ended.exit_status == 0);
  CHECK(r.ended.errors ==
        "cutrace: nothing was traced: no process of " SUBJECT
        " reported that it used CUDA or NVTX; one without cutrace's variables (env -i, sudo) cannot\n");
  CHECK(!std::filesystem::exists(r.out()));  // nothing to put in it
  const run quiet({"--quiet"}, {"/bin/true"});
  CHECK(quiet.ended.errors.find("cutrace: nothing was traced: no process of /bin/true reported") == 0);
  const run off({}, {SUBJECT, "work", "5"}, {{"CUTRACE", "0"}});
  CHECK(off.says("CUTRACE=0 in the environment turns tracing off"));
  CHECK(off.ended.output == "worked\n");
}

TEST_CASE("CUDA, but no GPU work") {
  const run r({}, {SUBJECT, "starts_cuda"});
  CHECK(r.ended.exit_status == 0);
  CHECK(r.says("launched no GPU work"));
}

#if defined(STATIC_SUBJECT)
TEST_CASE("a static program is named as one") {
  const run r({}, {STATIC_SUBJECT});
  CHECK(r.ended.exit_status == 7);
  CHECK(r.says("is linked statically"));
}
#endif

TEST_CASE("a setuid program is named as one") {
  if (::geteuid() != 0 || sanitized) {
    MESSAGE("skipped: only root can make a file that runs as somebody else, and no sanitizer runs in it");
    return;
  }
  const temporary_folder folder;
  const std::string copy = folder.file("setuid_subject");
  std::filesystem::copy(SUBJECT, copy);
  ::chmod(folder.path().c_str(), 0755);
  REQUIRE(::chown(copy.c_str(), 65534, 65534) == 0);
  REQUIRE(::chmod(copy.c_str(), 04755) == 0);
  const run r({}, {copy, "nothing", "4"});
  CHECK(r.ended.exit_status == 4);
  CHECK(r.says("runs with other rights than yours (setuid)"));
}

TEST_CASE("fork: the parent's trace is whole, the child harms nothing") {
  const run r({"--sink", "jsonl"}, {SUBJECT, "fork", "6"});
  CHECK(r.ended.exit_status == 6);
  REQUIRE(r.files(".jsonl").size() == 1);
  CHECK(jsonl_trace(r.files(".jsonl")[0]).complete());
  const run first({"--sink", "jsonl"}, {SUBJECT, "fork_first"});
  CHECK(first.ended.exit_status == 0);
  REQUIRE(first.files(".jsonl").size() == 2);
  const std::size_t a = kernels(first.files(".jsonl")[0]), b = kernels(first.files(".jsonl")[1]);
  CHECK(a + b == 30);
}

TEST_CASE("exec of another program: two traces of one process, neither overwrites the other") {
  const run r({"--sink", "jsonl,chrome"}, {SUBJECT, "exec"});
  CHECK(r.ended.exit_status == 0);
  CHECK(r.ended.output == "worked\n");
  REQUIRE(r.files(".jsonl").size() == 2);
  std::size_t first = 0, second = 0;
  for (const std::string& f : r.files(".jsonl")) {
    const jsonl_trace t(f);
    CHECK(!t.torn);
    (f.find("-2.jsonl") == std::string::npos ? first : second) = t.of("kernel").size();
    CHECK(t.complete() == (f.find("-2.jsonl") != std::string::npos));
  }
  CHECK(first == 2000);  // flushed while it still ran
  CHECK(second == 50);
  CHECK(r.says("its trace was not closed"));
  CHECK(r.says("program 2 of it"));
}

TEST_CASE("killed: the command knows what had been seen, and the file holds whole lines") {
  const run r({"--sink", "jsonl"}, {SUBJECT, "killed"});
  CHECK(r.ended.signal == SIGKILL);
  REQUIRE(r.files(".jsonl").size() == 1);
  const jsonl_trace t(r.files(".jsonl")[0]);
  CHECK(t.headers == 1);
  CHECK(t.footers == 0);
  CHECK(!t.torn);
  CHECK(t.of("kernel").size() >= 2000);
  CHECK(r.says("its trace was not closed: it was killed"));
  CHECK(r.says(",0"));  // the number of events: thousands, with a comma
  CHECK(r.says("(not complete)"));
  CHECK(r.file_count() == 1);
}

TEST_CASE("killed, and nobody waits for it: it does not count as running, and its files are finished") {
  // As where the first process of a container waits for none of those that are left to it.
  REQUIRE(::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0);
  const std::string line = std::string(SUBJECT) + " killed & exec " + SUBJECT + " until_dead $!";
  const run r({"--sink", "jsonl,chrome"}, {"/bin/sh", "-c", line});
  CHECK(::waitpid(-1, nullptr, WNOHANG) > 0);
  ::prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0);
  CHECK(r.says("its trace was not closed"));
  CHECK_FALSE(r.says("still runs"));
  CHECK(r.files(".json").size() == 1);
  CHECK(r.files(".tmp").empty());
}

TEST_CASE("a program that ends by a bare exit_group leaves a trace that was not closed") {
  const run r({"--sink", "jsonl"}, {SUBJECT, "leaves", "5"});
  CHECK(r.ended.exit_status == 5);
  CHECK(r.says("or left before the trace could end"));
}

TEST_CASE("a program that closes all descriptors: the trace is whole, and its own files hold what it wrote") {
  const run r({"--sink", "jsonl,chrome,ascii"}, {SUBJECT, "close_all"});
  CHECK(r.ended.exit_status == 0);
  for (int i = 0; i < 20; ++i) CHECK(content_of(r.folder.file("own." + std::to_string(i))) == "mine");
  const jsonl_trace t(r.files(".jsonl").at(0));
  CHECK(t.complete());
  CHECK(t.of("kernel").size() == 6010);
  CHECK(r.files(".json").size() == 1);
  CHECK(r.says("nothing lost"));
}

TEST_CASE("a child that outlives the program is reported") {
  const run r({"--sink", "jsonl"}, {SUBJECT, "outlived"});
  CHECK(r.ended.exit_status == 0);
  CHECK(r.says("still runs"));
}

TEST_CASE("children that end while the command looks after them: their traces are whole, and it says so") {
  const std::map<std::string, std::string> late = {{"LD_PRELOAD", LATE_LOOK}};
  for (const std::vector<std::string>& words : {std::vector<std::string>{SUBJECT, "outlived", "2000"},
                                                {SUBJECT, "outlived", "2100"},
                                                {SUBJECT, "ends_first"}}) {
    INFO(words[1]);
    const run r({"--sink", "jsonl", "--strict"}, words, late);
    INFO(r.ended.errors);
    CHECK(r.ended.exit_status == 0);
    REQUIRE(r.files(".jsonl").size() == 1);
    CHECK(jsonl_trace(r.files(".jsonl")[0]).complete());
    CHECK_FALSE(r.says("not closed"));
    CHECK_FALSE(r.says("nothing was traced"));
  }
}

namespace {

/// Lets a daemon go on, whose trace is complete some time after that, or not after half a minute.
bool becomes_complete(const run& r, std::size_t launches) {
  std::ofstream(r.folder.file("enough")) << "\n";
  for (int patience = 0; patience < 300; ++patience) {
    const std::vector<std::string> files = r.files(".jsonl");
    if (files.size() == 1 && jsonl_trace(files[0]).complete()) return kernels(files[0]) == launches;
    ::usleep(100000);
  }
  return false;
}

}  // namespace

TEST_CASE("a daemon outlives the program: it is traced to its end, and the command says that it still runs") {
  const run r({"--sink", "jsonl", "--quiet"}, {SUBJECT, "daemon", "before"});
  CHECK(r.ended.exit_status == 5);
  CHECK(r.says("run_subject (pid "));
  CHECK(r.says("still runs"));
  CHECK(r.says(r.out()));
  CHECK(!r.says("nothing was traced"));
  CHECK(becomes_complete(r, 300));
}

TEST_CASE("a daemon that uses CUDA long after the program has ended: its folder waits for it, the command does not") {
  const run r({"--sink", "jsonl", "--strict"}, {SUBJECT, "daemon", "after"});
  CHECK(r.ended.exit_status == 5);
  CHECK(r.says("nothing was traced yet: run_subject (pid "));
  CHECK(r.says("still runs"));
  CHECK(r.says(r.out()));
  CHECK(std::count(r.ended.errors.begin(), r.ended.errors.end(), '\n') == 1);
  CHECK(std::filesystem::is_directory(r.out()));
  CHECK(becomes_complete(r, 300));
  CHECK(r.file_count() == 1);
}

TEST_CASE("a process that is left behind and is not to be traced is not waited for") {
  const run r({"--children", "off"}, {SUBJECT, "daemon", "after"});
  CHECK(r.ended.exit_status == 5);
  CHECK(r.says("nothing was traced: "));
  CHECK(!std::filesystem::exists(r.out()));
}

TEST_CASE("strict: a trace that is not whole is a failure of its own, unless the program failed") {
  CHECK(run({"--strict"}, {SUBJECT, "work", "5"}).ended.exit_status == 0);
  CHECK(run({"--strict"}, {SUBJECT, "nothing"}).ended.exit_status == 3);
  CHECK(run({"--strict"}, {SUBJECT, "nothing", "8"}).ended.exit_status == 8);
  CHECK(run({"--strict"}, {SUBJECT, "leaves", "0"}).ended.exit_status == 3);
  const run full({"--strict", "--sink", "jsonl:/dev/full"}, {SUBJECT, "work", "50"});
  CHECK(full.ended.exit_status == 3);
  CHECK(full.says("No space left"));
  const run limited({"--strict", "--sink", "jsonl?max=4K"}, {SUBJECT, "work", "50"});
  CHECK(limited.ended.exit_status == 3);
  CHECK(limited.says(" events out: its file has reached its limit (max=)"));
  // Launches, and no GPU record: its CUPTI drops them all.
  const run empty({"--strict"}, {SUBJECT, "work", "5"}, {{"CUTRACE_SIM_FAULTS", "drop=1000"}});
  CHECK(empty.ended.exit_status == 3);
  CHECK(empty.says("launches were seen, but not one GPU record arrived"));
  const run some({}, {SUBJECT, "work", "50"}, {{"CUTRACE_SIM_FAULTS", "drop=10"}});
  CHECK(some.ended.exit_status == 0);
  CHECK(some.says("events were lost: cupti_dropped "));
  const run refused({"--strict"}, {SUBJECT, "work", "5"}, {{"CUTRACE_CUPTI_LIBRARY", "/no/libcupti.so"}});
  CHECK(refused.ended.exit_status == 3);
  CHECK(refused.says("no GPU time: cupti: "));
  const run not_strict({}, {SUBJECT, "work", "5"}, {{"CUTRACE_CUPTI_LIBRARY", "/no/libcupti.so"}});
  CHECK(not_strict.ended.exit_status == 0);
  CHECK(not_strict.says("/no/libcupti.so"));
}

TEST_CASE("a trace that cannot begin in the process: why is said") {
  const run r({"--sink", "jsonl:/proc/t.jsonl"}, {SUBJECT, "work", "5"});
  CHECK(r.ended.exit_status == 0);
  CHECK(r.says("not traced: "));
  CHECK(r.says("/proc/t.jsonl"));
}

TEST_CASE("a process that may write no file large enough for what it reports: that is said") {
  const run r({"--sink", "null"}, {"/bin/sh", "-c", "ulimit -f 1; exec " SUBJECT " work 5"});
  CHECK(r.ended.exit_status == 0);
  CHECK(r.says("cannot be reported to cutrace run: File too large"));
}

TEST_CASE("core dumps that the driver writes of the GPU are named, with the command that opens them") {
  // Stands for the driver, which aborts the program when it has written the file.
  const auto dies = [](const std::string& file) {
    return std::vector<std::string>{
        "/bin/sh", "-c",
        "touch -d '1 hour ago' core_1_a_2.nvcudmp; mkdir -p 'd[1]'; echo x >\"" + file + "\"; kill -ABRT $$"};
  };
  const std::string name = "core_1764050000_host_4711.nvcudmp";
  const std::string words = "cutrace: the GPU faulted, its core dump is ";
  for (const char* method : {"preload", "ioctl"}) {
    const run r({"--method", method}, dies(name), {{"CUDA_ENABLE_COREDUMP_ON_EXCEPTION", "1"}});
    CAPTURE(r.ended.errors);
    CHECK(r.says(words + name + ": cuda-gdb -ex 'target cudacore " + name + "'\n"));
    CHECK_FALSE(r.says("core_1_a_2"));  // of another run
    CHECK(r.ended.signal == SIGABRT);
  }
  const run named({"--method", "preload"}, dies("d[1]/4711.x%y"),
                  {{"CUDA_ENABLE_COREDUMP_ON_EXCEPTION", "1"}, {"CUDA_COREDUMP_FILE", "d[1]/%p.x%y"}});
  CAPTURE(named.ended.errors);
  CHECK(named.says(words + "d[1]/4711.x%y: "));
  for (const char* off : {"", "0"}) {
    const run none({"--method", "preload"}, dies(name), {{"CUDA_ENABLE_COREDUMP_ON_EXCEPTION", off}});
    CHECK_FALSE(none.says("core dump"));
  }
}

}  // namespace run_ends_test
