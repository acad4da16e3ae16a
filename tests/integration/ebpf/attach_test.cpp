// SPDX-License-Identifier: Apache-2.0
// `cutrace attach` on processes that run already.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "../run_command/run_support.hpp"
#include "links.hpp"

namespace attach_test {

namespace {

using run_support::jsonl_trace;
using run_support::run;

/// The subject beside the test, which ends when the file `go` is there.
struct running {
  temporary_folder folder;
  pid_t process;
  explicit running(const char* what, const char* device = nullptr) : process(::fork()) {
    if (process == 0) {
      const int out = ::open(folder.file("stdout").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
      ::dup2(out, 1);
      ::setenv("LD_LIBRARY_PATH", DRIVER_FOLDER, 1);
      ::execl(SUBJECT, SUBJECT, what, folder.file("go").c_str(), device, nullptr);
      ::_exit(127);
    }
    int reported = 0;
    for (int patience = 0; patience < 5000 && reported == 0; ++patience) {
      std::ifstream(folder.file("stdout")) >> reported;
      ::usleep(2000);
    }
    REQUIRE(reported == process);
  }
  void go() const { std::ofstream(folder.file("go")) << "go"; }
  int end() const {
    go();
    int status = 0;
    ::waitpid(process, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  std::string output() const { return content_of(folder.file("stdout")); }
};

run attach(pid_t process, std::vector<std::string> options, const std::map<std::string, std::string>& variables = {}) {
  std::vector<std::string> words{CUTRACE_COMMAND, "attach", std::to_string(process), "--out", "./out",
                                 "--sink",        "jsonl"};
  words.insert(words.end(), options.begin(), options.end());
  return run(run::line{words}, variables);
}

TEST_CASE("a running process: its calls for a while, then it is as before") {
  const auto before = ebpf_tests::kernel_links();
  const running subject("until");
  const run r = attach(subject.process, {"--duration", "500ms", "--strict"});
  CAPTURE(r.ended.errors);
  CHECK(r.ended.exit_status == 0);
  CHECK(ebpf_tests::no_more_than(before));
  REQUIRE(r.files(".jsonl").size() == 1);
  const jsonl_trace trace(r.files(".jsonl")[0]);
  CHECK(trace.complete());
  CHECK(trace.header.at("process") == "ebpf_subject");
  CHECK(trace.header.at("pid") == subject.process);
  const std::size_t seen = trace.count("api", "cuLeaf");
  CHECK(subject.end() == 23);
  long made = 0;
  std::istringstream in(subject.output());
  in >> made >> made;  // its number, then the calls
  CHECK(seen > 0);
  CHECK(seen < static_cast<std::size_t>(made));
}

TEST_CASE("ioctls of a running process name the call that made them") {
  const running subject("until", "/dev/null");
  const run r =
      attach(subject.process, {"--duration", "300ms", "--kernel"}, {{"CUTRACE_IOCTL_DEVICES", "control=1:3"}});
  CAPTURE(r.ended.errors);
  CHECK(r.ended.exit_status == 0);
  CHECK(subject.end() == 23);
  REQUIRE(r.files(".jsonl").size() == 1);
  const jsonl_trace trace(r.files(".jsonl")[0]);
  CHECK(trace.complete());
  std::set<std::uint64_t> asked;
  for (const auto& e : trace.of("api"))
    if (e.at("name") == "cuAsk") asked.insert(e.at("correlation").get<std::uint64_t>());
  std::size_t inside = 0;
  for (const auto& e : trace.of("ioctl")) inside += asked.count(e.value("enclosing", std::uint64_t{0}));
  CHECK(trace.of("ioctl").size() > 0);
  // The first and the last may stand alone: their call was open when the probes came or went.
  CHECK(inside + 2 >= trace.of("ioctl").size());
}

TEST_CASE("probes of the user's own in a running process") {
  const running subject("until");
  const run r = attach(subject.process, {"--duration", "500ms", "--probe", "uprobe:" MINE ":mine_add", "--probe",
                                         "uprobe:cuLeaf", "--probe", "tracepoint:sys_enter"});
  CAPTURE(r.ended.errors);
  CHECK(r.ended.exit_status == 0);
  CHECK(subject.end() == 23);
  REQUIRE(r.files(".jsonl").size() == 1);
  const jsonl_trace trace(r.files(".jsonl")[0]);
  CHECK(trace.count("system", "mine_add") > 0);
  CHECK(trace.count("system", "sys_enter") > trace.count("system", "mine_add"));
  CHECK(trace.count("system", "cuLeaf") > 0);
}

TEST_CASE("the end of the process is the end") {
  const running subject("later");
  subject.go();  // it waits for its probes, and has the library only now
  const run r = attach(subject.process, {});
  CHECK(r.ended.exit_status == 0);
  CHECK(subject.end() == 0);
  CHECK(subject.output().find("done") != std::string::npos);
  REQUIRE_MESSAGE(r.files(".jsonl").size() == 1, r.ended.errors);
  CHECK(jsonl_trace(r.files(".jsonl")[0]).count("api", "cuLeaf") == 30);
}

TEST_CASE("a process that gets the number of one that has ended is not traced in its place") {
  if (::geteuid() != 0) return;
  temporary_folder folder;
  const std::string out = folder.file("out");
  const pid_t first = ::fork();
  if (first == 0)
    for (;;) ::pause();
  std::unique_ptr<run> r;
  std::thread attaching([&] {
    r = std::make_unique<run>(
        run::line{{CUTRACE_COMMAND, "attach", std::to_string(first), "--duration", "1s", "--out", out}});
  });
  // Once `out` is there, the command has checked its right to trace `first` and begins to load the probes.
  for (int patience = 0; patience < 10000 && !std::filesystem::exists(out); ++patience) ::usleep(500);
  ::kill(first, SIGKILL);
  ::waitpid(first, nullptr, 0);
  struct {
    std::uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, set_tid_size;
  } wanted{};  // clone_args of linux/sched.h
  wanted.exit_signal = SIGCHLD;
  wanted.set_tid = reinterpret_cast<std::uint64_t>(&first);
  wanted.set_tid_size = 1;
  const auto second = static_cast<pid_t>(::syscall(SYS_clone3, &wanted, sizeof(wanted)));
  if (second == 0)
    for (;;) ::syscall(SYS_pause);
  attaching.join();
  if (second > 0) {
    ::kill(second, SIGKILL);
    ::waitpid(second, nullptr, 0);
  }
  if (second != first) {
    MESSAGE("skipped: no number of a process can be chosen here");
    return;
  }
  CHECK(r->ended.exit_status == 125);
  CHECK(r->says("process " + std::to_string(first) + " has ended"));
}

TEST_CASE("no such process, no sense, no rights") {
  const run none = attach(999999999, {});
  CHECK(none.ended.exit_status == 125);
  CHECK(none.says("there is no process"));
  std::atomic<pid_t> id{0};
  std::atomic<bool> enough{false};
  std::thread other_thread([&] {
    for (id = static_cast<pid_t>(::syscall(SYS_gettid)); !enough;) ::usleep(1000);
  });
  while (id == 0) ::usleep(1000);
  const run thread = attach(id, {});
  enough = true;
  other_thread.join();
  CHECK(thread.ended.exit_status == 125);
  CHECK(thread.says("is a thread of process " + std::to_string(::getpid()) + ": cutrace attach"));
  const run odd = attach(::getpid(), {"--duration", "soon"});
  CHECK(odd.ended.exit_status == 125);
  CHECK(odd.says("--duration"));
  if (::geteuid() != 0) return;
  const run other(
      run::line{{"/bin/sh", "-c",
                 "chmod 777 . && exec setpriv --reuid 65534 --regid 65534 --clear-groups " CUTRACE_COMMAND " attach " +
                     std::to_string(::getpid())}});
  if (other.ended.exit_status == 127) return;  // no setpriv
  CHECK(other.ended.exit_status == 125);
  CHECK(other.says("is not yours to trace"));
}

}  // namespace

}  // namespace attach_test
