// SPDX-License-Identifier: Apache-2.0
// `cutrace run --method ioctl` on a machine without a GPU: device nodes that every machine has take the place of
// NVIDIA's, so that each ioctl fails with ENOTTY, and every one must be in the trace, with its name, in the file of its
// process; and the program must not notice anything.
#include <doctest/doctest.h>
#include <grp.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <tuple>

#include "../run_command/run_support.hpp"
#include "words.hpp"

namespace {

using run_support::jsonl_trace;
using run_support::run;
using test_support::finished_process;

const std::map<std::string, std::string> devices{{"CUTRACE_IOCTL_DEVICES", "control=1:3,uvm=1:5"}};

finished_process untraced(const std::vector<std::string>& words, const std::string& folder) {
  return test_support::run_process(words, folder, {});
}

/// The same program with and without: same output, same end.
struct both {
  run with;
  temporary_folder folder;
  finished_process without;
  explicit both(const std::vector<std::string>& program, const std::vector<std::string>& options = {})
      : with(
            [&] {
              std::vector<std::string> all{"--method", "ioctl", "--sink", "jsonl", "--quiet"};
              all.insert(all.end(), options.begin(), options.end());
              return all;
            }(),
            program, devices),
        without(untraced(program, folder.path())) {
    CAPTURE(with.ended.errors);
    CHECK(with.ended.output == without.output);
    CHECK(with.ended.exit_status == without.exit_status);
    CHECK(with.ended.signal == without.signal);
    CHECK_FALSE(with.ended.hung);
    CHECK_FALSE(without.hung);
  }
};

std::map<std::string, std::size_t> names(const std::string& file) {
  std::map<std::string, std::size_t> all;
  for (const auto& e : jsonl_trace(file).of("ioctl")) ++all[e.at("name").get<std::string>()];
  return all;
}
std::size_t ioctls(const std::string& file) { return jsonl_trace(file).of("ioctl").size(); }

std::string text_in(const std::string& file) {
  std::ifstream in(file);
  std::string all;
  std::getline(in, all);
  return all;
}
/// Waits until `holds`. A traced ioctl waits for the processor four times, which takes long where others want it, too.
template <class Condition>
bool comes(Condition holds) {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  while (!holds()) {
    if (std::chrono::steady_clock::now() > give_up) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}
bool appears(const std::string& file) {
  return comes([&] { return ::access(file.c_str(), F_OK) == 0; });
}

bool anything_written(const std::string& folder) { return run_support::is_written(folder, "NV_ESC_RM_CONTROL"); }

TEST_CASE("eight threads: every ioctl, with its name, its handles and its error") {
  const both b({SUBJECT, "/dev/null", "rounds", "8", "150"});
  const std::vector<std::string> files = b.with.files(".jsonl");
  REQUIRE(files.size() == 1);
  const std::map<std::string, std::size_t> expected{
      {"NV_ESC_RM_CONTROL", 2400}, {"NV_ESC_RM_ALLOC", 1200}, {"0xc0044601", 1200}};  // transfers: named by inner ioctl
  CHECK(names(files[0]) == expected);
  struct stat s {};
  REQUIRE(::stat(files[0].c_str(), &s) == 0);
  CHECK((s.st_mode & 0777) == 0600);
  const jsonl_trace trace(files[0]);
  std::set<long> threads;
  std::size_t transferred = 0;
  for (const auto& e : trace.of("ioctl")) {
    threads.insert(e.at("tid").get<long>());
    CHECK(e.at("errno") == ENOTTY);
    CHECK(e.count("status_name") == 0);
    CHECK(e.at("node") == "nvidiactl");
    CHECK(e.at("device_kind") == "control");
    CHECK(e.at("dur_ns").get<long>() >= 0);
    CHECK(e.count("enclosing") == 0);
    if (e.at("name") == "NV_ESC_RM_CONTROL") {
      CHECK(e.at("command_name") == "NV2080_CTRL_CMD_GPU_GET_INFO_V2");
      CHECK(e.at("client") == "0xc1d00001");
      CHECK(e.at("object") == "0x5c000002");
      transferred += e.count("transferred");
    }
    if (e.at("name") == "NV_ESC_RM_ALLOC") CHECK(e.at("command_name") == "NV01_DEVICE_0");
  }
  CHECK(threads.size() == 8);
  CHECK(transferred == 1200);
}

TEST_CASE("UVM's device has its own numbers") {
  const both b({SUBJECT, "/dev/zero", "rounds", "1", "3"});
  const std::vector<std::string> files = b.with.files(".jsonl");
  REQUIRE(files.size() == 1);
  CHECK(names(files[0]) ==
        std::map<std::string, std::size_t>{{"0xc020462a", 3}, {"0xc030462b", 3}, {"0xc01046d3", 3}, {"0xc0044601", 3}});
}

TEST_CASE("a node under NVIDIA's name") {
  temporary_folder folder;
  const std::string node = folder.file("nvidiactl");
  if (::mknod(node.c_str(), S_IFCHR | 0666, makedev(1, 3)) != 0) {
    MESSAGE("skipped: mknod: " << std::string(std::strerror(errno)));
    return;
  }
  const both b({SUBJECT, node, "rounds", "2", "1"});
  if (b.without.exit_status == 99) {
    MESSAGE("skipped: the folder takes no device nodes");
    return;
  }
  REQUIRE(b.with.files(".jsonl").size() == 1);
  CHECK(ioctls(b.with.files(".jsonl")[0]) == 2 * subject::words);
}

TEST_CASE("no device of NVIDIA, no trace, and nothing changed") {
  const both b({SUBJECT, "/dev/full", "rounds", "4", "50"});
  CHECK(b.with.files(".jsonl").empty());
  CHECK(b.with.says("made an ioctl on a device of NVIDIA"));
}

TEST_CASE("fork, vfork, exec of a process and of a thread: a file for each process") {
  const both b({SUBJECT, "/dev/null", "processes"});
  std::vector<std::size_t> counts;
  for (const std::string& file : b.with.files(".jsonl")) counts.push_back(ioctls(file));
  std::sort(counts.begin(), counts.end());
  // The killed child's, the forked one's, the executed one's, and the program's own: before and after its exec.
  CHECK(counts == std::vector<std::size_t>{subject::words, subject::words, subject::words, 2 * subject::words});
}

TEST_CASE("far more processes, one after the other, than the command may have files open: all are traced") {
  constexpr std::size_t processes = 60;
  const run r(run::line({"/bin/sh", "-c",
                         "ulimit -n 32; exec " CUTRACE_COMMAND
                         " run --method ioctl --sink jsonl --quiet --out out -- sh -c 'for i in $(seq " +
                             std::to_string(processes) + "); do " SUBJECT " /dev/null rounds 1 1 >/dev/null; done'"}),
              devices);
  CHECK(r.ended.exit_status == 0);
  CHECK(r.ended.errors == "");
  std::size_t all = 0;
  for (const std::string& file : r.files(".jsonl")) all += ioctls(file);
  CHECK(r.files(".jsonl").size() == processes);
  CHECK(all == processes * subject::words);
}

TEST_CASE("children are let through, and not noted, where that is asked for") {
  const both b({SUBJECT, "/dev/null", "processes"}, {"--children", "off"});
  REQUIRE(b.with.files(".jsonl").size() == 1);
  CHECK(ioctls(b.with.files(".jsonl")[0]) == 2 * subject::words);
}

TEST_CASE("signals, traps of the program's own and stops reach it unchanged") {
  const both b({SUBJECT, "/dev/null", "signals"});
  CHECK(b.without.output == "stopped: exit 0\n20 traps, 20 of the user\n");
  CHECK(ioctls(b.with.files(".jsonl").at(0)) == 20 * subject::words);
}

TEST_CASE("descriptors that are closed, copied and taken again") {
  const both b({SUBJECT, "/dev/null", "descriptors"});
  CHECK(ioctls(b.with.files(".jsonl").at(0)) == 3 * subject::words);
}

TEST_CASE("however it ends, it ends the same") {
  for (const std::vector<std::string>& end : {std::vector<std::string>{"exit", "0"},
                                              {"exit", "7"},
                                              {"_exit", "9"},
                                              {"signal", "9"},
                                              {"signal", "15"},
                                              {"signal", "6"}}) {
    CAPTURE(end[0] + " " + end[1]);
    const both b({SUBJECT, "/dev/null", end[0], end[1]});
    CHECK(b.without.output == "about to end\n");
    REQUIRE(b.with.files(".jsonl").size() == 1);
    CHECK(ioctls(b.with.files(".jsonl")[0]) == subject::words);
  }
}

TEST_CASE("a program with a filter of its own is traced; it cannot be a tracee of somebody else, too") {
  const run r({"--method", "ioctl", "--sink", "jsonl", "--quiet"}, {SUBJECT, "/dev/null", "own_filter"}, devices);
  CHECK(r.ended.exit_status == 0);
  CHECK(r.ended.output == "tracer by request: no\n4 failed as they should\n");
  CHECK(ioctls(r.files(".jsonl").at(0)) == subject::words);
}

TEST_CASE("a command that is killed leaves the program alone, and a trace that can be read") {
  temporary_folder folder;
  const std::string out = folder.file("out");
  const pid_t command = ::fork();
  if (command == 0) {
    ::setenv("CUTRACE_IOCTL_DEVICES", "control=1:3", 1);
    if (::chdir(folder.path().c_str()) != 0) ::_exit(1);
    ::execl(CUTRACE_COMMAND, CUTRACE_COMMAND, "run", "--method", "ioctl", "--sink", "jsonl", "--quiet", "--out", "out",
            "--", SUBJECT, "/dev/null", "until_notified", nullptr);
    ::_exit(1);
  }
  REQUIRE(appears(folder.file("begun")));
  REQUIRE(anything_written(out));
  ::kill(command, SIGKILL);
  int status = 0;
  ::waitpid(command, &status, 0);
  std::ofstream(folder.file("enough")) << "\n";
  REQUIRE(appears(folder.file("ended")));
  CHECK(text_in(folder.file("ended")) == "4 Inappropriate ioctl for device");
  std::vector<std::string> files;
  comes([&] { return !(files = test_support::files_with(out, ".jsonl")).empty(); });
  REQUIRE(files.size() == 1);  // closed, with its footer: who writes it sees the command's end
  CHECK(ioctls(files[0]) >= subject::words);
}

/// Starts `cutrace run --strict` on a program that makes ioctls until end_of is called; its trace has begun.
pid_t traced_until_notified(const temporary_folder& folder) {
  const pid_t command = ::fork();
  if (command == 0) {
    ::setenv("CUTRACE_IOCTL_DEVICES", "control=1:3", 1);
    if (::chdir(folder.path().c_str()) != 0 || std::freopen("errors", "w", stderr) == nullptr) ::_exit(1);
    ::execl(CUTRACE_COMMAND, CUTRACE_COMMAND, "run", "--strict", "--method", "ioctl", "--sink", "jsonl", "--out", "out",
            "--", SUBJECT, "/dev/null", "until_notified", nullptr);
    ::_exit(1);
  }
  REQUIRE(appears(folder.file("begun")));
  REQUIRE(anything_written(folder.file("out")));
  return command;
}
/// Notifies the program, and returns the command's status.
int end_of(pid_t command, const temporary_folder& folder) {
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  std::ofstream(folder.file("enough")) << "\n";
  int status = 0;
  ::waitpid(command, &status, 0);
  return status;
}

TEST_CASE("who writes the trace is killed: the program ends as ever, and what is in no trace is counted") {
  temporary_folder folder;
  const pid_t command = traced_until_notified(folder);
  const pid_t writer = run_support::writer_of(command);
  REQUIRE(writer > 0);
  ::kill(writer, SIGKILL);
  const int status = end_of(command, folder);
  CHECK(text_in(folder.file("ended")) == "4 Inappropriate ioctl for device");
  const std::string errors = content_of(folder.file("errors"));
  CAPTURE(errors);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 3);
  CHECK(errors.find(
            " ioctls are in no trace: the process that writes it could not start, or ended before it had them all") !=
        std::string::npos);
}

TEST_CASE("the tracer is killed: the program loses its ioctls, and that is said") {
  temporary_folder folder;
  const pid_t command = traced_until_notified(folder);
  const std::string program = text_in(folder.file("begun"));
  const auto tracer_of = [status = "/proc/" + program.substr(0, program.find(' ')) + "/status"] {
    std::ifstream in(status);
    for (std::string line; std::getline(in, line);)
      if (line.compare(0, 10, "TracerPid:") == 0) return static_cast<pid_t>(std::atoi(line.c_str() + 10));
    return -1;
  };
  const pid_t tracer = tracer_of();
  REQUIRE(tracer > 0);
  ::kill(tracer, SIGKILL);
  REQUIRE(comes([&] { return tracer_of() == 0; }));  // an ioctl that waits for it when it ends is made
  const int status = end_of(command, folder);
  CHECK(text_in(folder.file("ended")) == "0 Function not implemented");
  const std::string errors = content_of(folder.file("errors"));
  CAPTURE(errors);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 3);
  CHECK(errors.find("the tracer (cutrace-ioctl) was ended by signal 9: from then on") != std::string::npos);
}

TEST_CASE("who writes the trace gets no thread: the program runs to its end, and the command ends with it") {
  // The collector and the reader of records among them.
  for (const char* refused : {"1", "2", "3"}) {
    CAPTURE(refused);
    std::map<std::string, std::string> few = devices;
    few["LD_PRELOAD"] = FEW_THREADS;
    few["REFUSED_THREAD"] = refused;
    const run r({"--method", "ioctl", "--sink", "jsonl", "--strict"}, {SUBJECT, "/dev/null", "hidden_child"}, few);
    CAPTURE(r.ended.errors);
    CHECK_FALSE(r.ended.hung);
    CHECK(r.ended.exit_status == 3);
  }
}

TEST_CASE("a child that hides its descriptors is reported, unless children are left out") {
  const std::tuple<const char*, const char*, int> cases[] = {
      {"on", "--quiet", 0}, {"on", "--strict", 3}, {"off", "--strict", 0}};
  for (const auto& [children, option, wanted] : cases) {
    CAPTURE(children);
    CAPTURE(option);
    temporary_folder folder;
    const pid_t command = ::fork();
    if (command == 0) {
      ::setenv("CUTRACE_IOCTL_DEVICES", "control=1:3", 1);
      constexpr unsigned nobody = 65534;  // root can look at everything
      if (::chdir(folder.path().c_str()) != 0 || std::freopen("errors", "w", stderr) == nullptr) ::_exit(1);
      if (::getuid() == 0 && (::chown(".", nobody, nobody) != 0 || ::setgroups(0, nullptr) != 0 ||
                              ::setresgid(nobody, nobody, nobody) != 0 || ::setresuid(nobody, nobody, nobody) != 0))
        ::_exit(1);
      ::execl(CUTRACE_COMMAND, CUTRACE_COMMAND, "run", "--method", "ioctl", option, "--children", children, "--sink",
              "jsonl", "--out", "out", "--", SUBJECT, "/dev/null", "hidden_child", nullptr);
      ::_exit(126);
    }
    int status = 0;
    ::waitpid(command, &status, 0);
    if (WEXITSTATUS(status) == 126 || WEXITSTATUS(status) == 127) return;  // that user may not execute it
    const std::string errors = content_of(folder.file("errors"));
    CAPTURE(errors);
    CHECK(WEXITSTATUS(status) == wanted);
    CHECK((errors.find("hides what it has open") != std::string::npos) == (std::string(children) == "on"));
  }
}

/// Runs a script as the program; the command stands still until the script has made a file "ended". Returns the
/// command's status.
int command_stopped_during(const std::string& script, const temporary_folder& folder) {
  std::ofstream(folder.file("program.sh")) << "kill -STOP $PPID\n" << script << "echo >ended\n";
  const pid_t command = ::fork();
  if (command == 0) {
    ::setenv("CUTRACE_IOCTL_DEVICES", "control=1:3", 1);
    if (::chdir(folder.path().c_str()) != 0 || std::freopen("errors", "w", stderr) == nullptr) ::_exit(1);
    ::execl(CUTRACE_COMMAND, CUTRACE_COMMAND, "run", "--strict", "--method", "ioctl", "--sink", "jsonl", "--out", "out",
            "--", "sh", "program.sh", nullptr);
    ::_exit(1);
  }
  const bool ended = appears(folder.file("ended"));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // the tracer ends, too
  ::kill(command, SIGCONT);
  REQUIRE(ended);
  int status = 0;
  ::waitpid(command, &status, 0);
  return status;
}

TEST_CASE("records that find no room until the program has ended are counted in its trace") {
  temporary_folder folder;
  const int status = command_stopped_during(SUBJECT " /dev/null rounds 1 6000 >/dev/null\n", folder);
  const std::string errors = content_of(folder.file("errors"));
  CAPTURE(errors);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 3);
  const std::vector<std::string> files = test_support::files_with(folder.file("out"), ".jsonl");
  REQUIRE(files.size() == 1);
  const jsonl_trace trace(files[0]);
  CHECK(trace.of("ioctl").size() + trace.footer.at("lost_total").get<std::size_t>() == 6000 * subject::words);
}

TEST_CASE("a process whose records all found no room has a trace that counts them") {
  temporary_folder folder;
  // Four processes fill the ring to its last record, each with one record more for its end.
  constexpr std::size_t room = 1u << 14;  // default_records of record_ring.hpp
  static_assert(room % subject::words == 0 && subject::words == 4, "else some records of the fifth have room");
  const std::string begin = SUBJECT " /dev/null ";
  std::string script = begin + "rounds 1 " + std::to_string(room / subject::words - 4) + " >/dev/null\n";
  for (int i = 0; i < 3; ++i) script += begin + "rounds 1 1 >/dev/null\n";
  script += begin + "exit 0 >/dev/null\nsleep 60 >/dev/null 2>&1 &\necho $! >sleeps\n";  // so the tracer lives on
  const int status = command_stopped_during(script, folder);
  ::kill(std::atoi(text_in(folder.file("sleeps")).c_str()), SIGKILL);
  CHECK(WEXITSTATUS(status) == 3);
  std::vector<std::size_t> lost_all;
  const std::vector<std::string> files = test_support::files_with(folder.file("out"), ".jsonl");
  for (const std::string& file : files) {
    const jsonl_trace trace(file);
    if (trace.of("ioctl").empty()) lost_all.push_back(trace.footer.at("lost_total").get<std::size_t>());
  }
  CHECK(files.size() == 5);
  CHECK(lost_all == std::vector<std::size_t>{subject::words});  // of the last one
}

TEST_CASE("what the program leaves running keeps its ioctls, and a warning says that it is not traced any more") {
  const run r({"--method", "ioctl", "--sink", "jsonl", "--quiet", "--strict"},
              {"/bin/sh", "-c", SUBJECT " /dev/null daemon; while [ ! -e begun ]; do sleep 0.1; done; sleep 0.3"},
              devices);
  CAPTURE(r.ended.errors);
  CHECK(r.ended.exit_status == 3);
  CHECK(r.says(" still runs, and is not traced any more"));
  REQUIRE(appears(r.folder.file("begun")));
  std::ofstream(r.folder.file("enough")) << "\n";
  REQUIRE(appears(r.folder.file("ended")));
  CHECK(text_in(r.folder.file("ended")) == "4 Inappropriate ioctl for device");
}

TEST_CASE("other forms of the trace") {
  const run r({"--method", "ioctl", "--sink", "calls,chrome,ascii,jsonl"}, {SUBJECT, "/dev/null", "rounds", "1", "2"},
              devices);
  CHECK(r.ended.exit_status == 0);
  REQUIRE(r.files(".calls.txt").size() == 1);
  const std::string calls = content_of(r.files(".calls.txt")[0]);
  CHECK(calls.find("ioctl nvidiactl NV_ESC_RM_CONTROL NV2080_CTRL_CMD_GPU_GET_INFO_V2 object 0x5c000002 -> errno 25") !=
        std::string::npos);
  REQUIRE(r.files(".json").size() == 1);
  CHECK(content_of(r.files(".json")[0]).find("NV2080_CTRL_CMD_GPU_GET_INFO_V2") != std::string::npos);
}

TEST_CASE("what the method does not have is refused before the program begins") {
  for (const std::vector<std::string>& options :
       {std::vector<std::string>{"--kinds", "kernel"}, {"--nvtx", "on"}, {"--duration", "1s"}}) {
    CAPTURE(options[0]);
    std::vector<std::string> all{"--method", "ioctl"};
    all.insert(all.end(), options.begin(), options.end());
    const run r(all, {SUBJECT, "/dev/null", "exit", "0"}, devices);
    CHECK(r.ended.exit_status == 125);
    CHECK(r.ended.output.empty());
  }
  const run r({"--method", "ioctl"}, {SUBJECT, "/dev/null", "exit", "0"}, {{"CUTRACE_IOCTL_DEVICES", "disk=1:3"}});
  CHECK(r.ended.exit_status == 125);
  CHECK(r.says("CUTRACE_IOCTL_DEVICES"));
  std::map<std::string, std::string> ignored = devices;
  ignored.insert({{"CUTRACE_SAMPLE", "requests"}, {"CUTRACE_DURATION", "100ms"}});
  const run noted({"--method", "ioctl"}, {SUBJECT, "/dev/null", "exit", "0"}, ignored);
  CHECK(
      noted.says("without effect, since --method ioctl sees the program from outside: CUTRACE_DURATION=100ms, "
                 "CUTRACE_SAMPLE=requests\n"));
  CHECK_FALSE(noted.says("taken from the environment"));
  const run missing({"--method", "ioctl"}, {"/no/such/program"}, devices);
  CHECK(missing.ended.exit_status == 127);
}

}  // namespace
