// SPDX-License-Identifier: Apache-2.0
// However program and command end: the program ends as it would, nothing is left in the kernel, and the trace can be
// read. Also with whose rights the program runs and the files are made.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "../run_command/run_support.hpp"
#include "links.hpp"

namespace ebpf_ends_test {

namespace {

using run_support::jsonl_trace;
using run_support::run;

const std::map<std::string, std::string> driver{{"LD_LIBRARY_PATH", DRIVER_FOLDER}};

run traced(const std::vector<std::string>& program, std::map<std::string, std::string> environment = driver) {
  std::vector<std::string> all{SUBJECT};
  all.insert(all.end(), program.begin(), program.end());
  return run({"--method", "ebpf", "--sink", "jsonl", "--quiet"}, all, environment);
}

/// The command beside the test, with its program's number, which the program prints first. Where a test ends early,
/// both end with it.
struct beside {
  temporary_folder folder;
  pid_t command = -1, program = -1;
  mutable bool ended = false;
  explicit beside(const std::vector<std::string>& program_words) {
    std::vector<std::string> words{CUTRACE_COMMAND, "run",   "--method",         "ebpf", "--sink", "jsonl",
                                   "--quiet",       "--out", folder.file("out"), "--",   SUBJECT};
    words.insert(words.end(), program_words.begin(), program_words.end());
    command = ::fork();
    if (command == 0) {
      ::dup2(::open(folder.file("stdout").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 1);
      ::dup2(::open(folder.file("stderr").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 2);
      ::setenv("LD_LIBRARY_PATH", DRIVER_FOLDER, 1);
      ::setpgid(0, 0);
      std::vector<char*> arguments;
      for (const std::string& w : words) arguments.push_back(const_cast<char*>(w.c_str()));
      arguments.push_back(nullptr);
      ::execv(arguments[0], arguments.data());
      ::_exit(127);
    }
    for (int patience = 0; patience < 5000 && program <= 0; ++patience) {
      std::ifstream(folder.file("stdout")) >> program;
      ::usleep(2000);
    }
    if (program <= 0) kill_all();
    REQUIRE(program > 0);
  }
  ~beside() { kill_all(); }
  beside(const beside&) = delete;
  beside& operator=(const beside&) = delete;
  int end() const {
    int status = 0;
    ::waitpid(command, &status, 0);
    ended = true;
    return status;
  }
  void kill_all() const {
    if (ended) return;
    ::kill(-command, SIGKILL);  // its process group, which the program is in
    ::kill(command, SIGKILL);
    end();
  }
  /// Whether the program has printed this within some seconds.
  bool prints(const std::string& text) const {
    for (int patience = 0; patience < 5000; ++patience) {
      if (content_of(folder.file("stdout")).find(text) != std::string::npos) return true;
      ::usleep(2000);
    }
    return false;
  }
  std::vector<std::string> files() const { return test_support::files_with(folder.file("out"), ".jsonl"); }
};

TEST_CASE("the program's status and signal are the command's") {
  for (const std::string status : {"0", "7", "255"}) {
    const run r = traced({"exit", status});
    CHECK(r.ended.exit_status == std::stoi(status));
    CHECK(r.ended.output == "done\n");
    CHECK(jsonl_trace(r.files(".jsonl").at(0)).of("api").size() == 5);
  }
  for (const int signal : {SIGTERM, SIGSEGV, SIGKILL}) {
    const run r = traced({"signal", std::to_string(signal)});
    CHECK(r.ended.signal == signal);
    CHECK(jsonl_trace(r.files(".jsonl").at(0)).complete());
  }
}

TEST_CASE("signals are passed on; after them nothing is left in the kernel") {
  const auto before = ebpf_tests::kernel_links();
  const beside b({"for_ever"});
  CHECK_FALSE(ebpf_tests::kernel_links() == before);
  REQUIRE(b.prints("waiting\n"));
  ::kill(b.command, SIGINT);
  const int status = b.end();
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGINT);
  CHECK(ebpf_tests::no_more_than(before));
  REQUIRE(b.files().size() == 1);
  const jsonl_trace trace(b.files()[0]);
  CHECK(trace.complete());
  CHECK(trace.count("api", "cuLeaf") == 10);
  REQUIRE(trace.count("api", "cuWaitForEver") == 1);  // killed inside of it
  for (const auto& e : trace.of("api"))
    if (e.at("name") == "cuWaitForEver") CHECK(e.at("result_name") == "did not return");
}

TEST_CASE("the target is killed: its trace is whole and nothing is left") {
  const auto before = ebpf_tests::kernel_links();
  const beside b({"for_ever"});
  REQUIRE(b.prints("waiting\n"));
  ::kill(b.program, SIGKILL);
  const int status = b.end();
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGKILL);
  CHECK(ebpf_tests::no_more_than(before));
  REQUIRE(b.files().size() == 1);
  CHECK(jsonl_trace(b.files()[0]).complete());
  CHECK(jsonl_trace(b.files()[0]).count("api", "cuWaitForEver") == 1);
}

TEST_CASE("the command is killed: the program goes on as if nothing had been") {
  const auto before = ebpf_tests::kernel_links();
  temporary_folder go;
  const beside b({"until", go.file("go")});
  REQUIRE(run_support::is_written(b.folder.file("out"), "cuLeaf"));
  ::kill(b.command, SIGKILL);
  b.end();
  CHECK(ebpf_tests::no_more_than(before));
  CHECK(::kill(b.program, 0) == 0);
  ::usleep(100000);
  std::ofstream(go.file("go")) << "go";
  CHECK(b.prints(" calls\n"));
  // The process that writes the trace finds its pipe closed, and completes the trace.
  bool closed = false;
  for (int patience = 0; patience < 2500 && !closed; ++patience) {
    closed = b.files().size() == 1 && jsonl_trace(b.files()[0]).footers == 1;
    ::usleep(2000);
  }
  CHECK(closed);
  CHECK(jsonl_trace(b.files().at(0)).count("api", "cuLeaf") > 0);
}

TEST_CASE("processes beyond those that the kernel's table has room for are counted with their parent") {
  constexpr int room = 16384, children = room + 16;
  int numbers = 0;
  std::ifstream("/proc/sys/kernel/pid_max") >> numbers;
  if (numbers < children + 1000) {
    MESSAGE("skipped: kernel.pid_max is " << numbers);
    return;
  }
  const beside b({"crowd", std::to_string(children)});
  bool done = false;
  for (int patience = 0; patience < 10 && !done; ++patience) done = b.prints("done\n");
  ::kill(b.command, SIGCONT);
  REQUIRE(done);
  CHECK(b.end() == 0);
  REQUIRE(b.files().size() == 1);
  CHECK(jsonl_trace(b.files()[0]).footer.at("lost").at("chunk_full") == children + 1 - room);
}

TEST_CASE("who writes the trace is killed: the program ends as ever, and it is said that records are in no trace") {
  temporary_folder go;
  const beside b({"until", go.file("go")});
  pid_t writer = -1;
  for (int patience = 0; patience < 5000 && (writer = run_support::writer_of(b.command)) < 0; ++patience)
    ::usleep(2000);
  REQUIRE(writer > 0);
  ::kill(writer, SIGKILL);
  ::usleep(100000);
  std::ofstream(go.file("go")) << "go";
  const int status = b.end();
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 23);
  CHECK(content_of(b.folder.file("stdout")).find(" calls\n") != std::string::npos);
  const std::string errors = content_of(b.folder.file("stderr"));
  CAPTURE(errors);
  CHECK(errors.find("records of process " + std::to_string(b.program) + " are in no trace") != std::string::npos);
}

TEST_CASE("the trace cannot be written: the program runs to its end, and the command ends with it and says so") {
  // More records than the writing process holds.
  const run r({"--method", "ebpf", "--sink", "jsonl", "--strict"},
              {"/bin/sh", "-c", "rm -rf out; exec \"$0\" threads 4 400000", SUBJECT}, driver);
  CAPTURE(r.ended.errors);
  CHECK(r.ended.exit_status == 3);
  CHECK(r.ended.output.find("done\n") != std::string::npos);
  CHECK(r.says("No such file or directory"));
  CHECK(r.says("nothing was traced: the output folder"));
  CHECK(!r.says("did not stop within its deadline"));
}

/// Whether other users can use what was built: not in /root, where only root can look.
bool is_built_for_all() {
  std::filesystem::path folder = std::filesystem::canonical(SUBJECT).parent_path();
  for (; folder != folder.root_path(); folder = folder.parent_path())
    if ((std::filesystem::status(folder).permissions() & std::filesystem::perms::others_exec) ==
        std::filesystem::perms::none)
      return false;
  return true;
}

TEST_CASE("root's rights are for the probes alone: program and files are the user's") {
  if (::geteuid() != 0) {
    MESSAGE("skipped: not root, so that there is no other user");
    return;
  }
  if (!is_built_for_all()) {
    MESSAGE("skipped: no other user can reach the folder of this build");
    return;
  }
  temporary_folder folder;
  ::chmod(folder.path().c_str(), 0777);
  const std::string out = folder.file("out"), subject = folder.file("subject"), library = folder.file("libcuda.so.1");
  std::filesystem::copy_file(SUBJECT, subject);
  std::filesystem::copy_file(std::string(DRIVER_FOLDER) + "/libcuda.so.1", library);
  ::chmod(subject.c_str(), 0755);
  ::chmod(library.c_str(), 0755);
  const run r({"--method", "ebpf", "--sink", "jsonl", "--quiet", "--out", out}, {subject, "rights"},
              {{"LD_LIBRARY_PATH", folder.path()}, {"SUDO_UID", "65534"}, {"SUDO_GID", "65534"}});
  CAPTURE(r.ended.errors);
  CHECK(r.ended.exit_status == 0);
  CHECK(r.ended.output.find("uid 65534 65534 gid 65534 65534 capabilities 0000000000000000 home /nonexistent") == 0);
  const std::vector<std::string> files = test_support::files_with(out, ".jsonl");
  REQUIRE(files.size() == 1);
  CHECK(jsonl_trace(files[0]).of("api").size() == 3);
  struct stat s {};
  REQUIRE(::stat(files[0].c_str(), &s) == 0);
  CHECK(s.st_uid == 65534);
  CHECK(s.st_gid == 65534);
  CHECK((s.st_mode & 0777) == 0600);
  REQUIRE(::stat(out.c_str(), &s) == 0);
  CHECK(s.st_uid == 65534);
}

TEST_CASE("a program with more rights than the user is not followed into, and that is said") {
  if (::geteuid() != 0) {
    MESSAGE("skipped: only root can make a program that has another user's rights");
    return;
  }
  if (!is_built_for_all()) {
    MESSAGE("skipped: no other user can reach the folder of this build");
    return;
  }
  temporary_folder folder;
  ::chmod(folder.path().c_str(), 0777);
  const std::string out = folder.file("out"), subject = folder.file("subject"), other = folder.file("other");
  const std::string library = folder.file("libcuda.so.1");
  for (const std::string& copy : {subject, other}) std::filesystem::copy_file(SUBJECT, copy);
  std::filesystem::copy_file(std::string(DRIVER_FOLDER) + "/libcuda.so.1", library);
  for (const std::string& file : {subject, library}) ::chmod(file.c_str(), 0755);
  REQUIRE(::chown(other.c_str(), 65533, 65533) == 0);
  ::chmod(other.c_str(), 04755);
  const run r(
      {"--method", "ebpf", "--sink", "jsonl", "--quiet", "--out", out},
      {"/bin/sh", "-c", subject + " rights; " + other + " rights; exec " + other + " rights"},
      {{"LD_LIBRARY_PATH", folder.path()}, {"SUBJECT_LIBRARY", library}, {"SUDO_UID", "65534"}, {"SUDO_GID", "65534"}});
  CAPTURE(r.ended.errors);
  CHECK(r.ended.exit_status == 0);
  if (r.ended.output.find("uid 65534 65533") == std::string::npos) {
    MESSAGE("skipped: setuid programs do not get their rights here");
    return;
  }
  std::size_t calls = 0;
  for (const std::string& file : test_support::files_with(out, ".jsonl")) calls += jsonl_trace(file).of("api").size();
  CHECK(calls == 3);
  CHECK(r.says("executed a program with more rights than it had"));
}

TEST_CASE("without the rights it is refused, with what to do, and nothing is started") {
  if (::geteuid() != 0) return;
  const run r(run::line{{"/bin/sh", "-c",
                         "chmod 777 . && exec setpriv --reuid 65534 --regid 65534 --clear-groups " CUTRACE_COMMAND
                         " run --method ebpf --quiet --out ./out -- /bin/echo started"}});
  if (r.ended.exit_status == 127) return;  // no setpriv
  CHECK(r.ended.exit_status == 125);
  CHECK(r.ended.output.empty());
  CHECK(r.says("CAP_BPF and CAP_PERFMON"));
}

TEST_CASE(
    "where no call was seen, it is said that a driver in an unknown folder may have been called before its probes") {
  const run r({"--method", "ebpf", "--strict"}, {"/bin/true"}, driver);
  CHECK(r.ended.exit_status == 3);
  CHECK(r.says("cutrace: nothing was traced: no process of /bin/true was seen to call CUDA's driver; one in a folder"));
}

TEST_CASE("a user who may write no file runs the program all the same") {
  const run limited(run::line({"/bin/sh", "-c",
                               "ulimit -f 0; " CUTRACE_COMMAND
                               " run --quiet --method ebpf --sink null --out out -- /bin/sh -c 'exit 7' 2>/dev/null"}));
  CHECK(limited.ended.exit_status == 7);
}

TEST_CASE("options and variables that make no sense are refused") {
  const run duration({"--method", "ebpf", "--duration", "1s"}, {SUBJECT, "exit", "0"}, driver);
  CHECK(duration.ended.exit_status == 125);
  CHECK(duration.says("--method ebpf sees from outside"));
  std::map<std::string, std::string> odd = driver;
  odd["CUTRACE_EBPF_RING"] = "5K";
  const run ring({"--method", "ebpf"}, {SUBJECT, "exit", "0"}, odd);
  CHECK(ring.ended.exit_status == 125);
  CHECK(ring.says("a power of two from 4K"));
}

}  // namespace

}  // namespace ebpf_ends_test
