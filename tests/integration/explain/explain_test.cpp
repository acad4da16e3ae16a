// SPDX-License-Identifier: Apache-2.0
// `cutrace explain` with processes that answer, with those that cannot or will not, and with those of other users and
// other namespaces.
#include <doctest/doctest.h>
#include <sys/wait.h>

#include <chrono>
#include <csignal>
#include <cstdio>

#include "../rights/rights_support.hpp"

namespace {

using rights::ground;

const std::string printed =
    "  evil \\x1b]0;title\\x07 \\x9b red \xEF\xBF\xBD\xc3\xa9\\x09"
    "end\n\nlast\n";

/// The subject while it runs; `words` stand in front of it.
struct subject {
  int to = -1;
  pid_t child = -1;
  std::string number;  ///< of the process to ask

  explicit subject(const std::string& how, std::vector<std::string> words = {}, const std::string& program = SUBJECT,
                   const std::string& folder = {}) {
    words.push_back(program);
    words.push_back(how);
    std::vector<char*> arguments;
    for (std::string& w : words) arguments.push_back(&w[0]);
    arguments.push_back(nullptr);
    int in[2], out[2];
    REQUIRE(::pipe2(in, O_CLOEXEC) == 0);
    REQUIRE(::pipe2(out, O_CLOEXEC) == 0);
    child = ::fork();
    if (child == 0) {
      if (!folder.empty()) ::setenv("XDG_RUNTIME_DIR", folder.c_str(), 1);
      ::dup2(in[0], 0);
      ::dup2(out[1], 1);
      ::execvp(arguments[0], arguments.data());
      ::_exit(127);
    }
    ::close(in[0]);
    ::close(out[1]);
    to = in[1];
    for (char c = 0; ::read(out[0], &c, 1) == 1 && c != '\n';) number += c;
    ::close(out[0]);
  }
  ~subject() { end(); }
  /// @returns its exit status
  int end() {
    if (child < 0) return -1;
    int status = -1;
    ::close(to);
    ::waitpid(child, &status, 0);
    child = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
};

test_support::finished_process explain(const std::string& process, std::vector<std::string> more = {}) {
  const temporary_folder output;
  std::vector<std::string> words{CUTRACE_COMMAND, "explain", process};
  words.insert(words.end(), more.begin(), more.end());
  return test_support::run_process(words, output.path());
}

/// One line on stderr that says so, status 125, nothing printed.
void check_refused(const test_support::finished_process& p, const std::string& words) {
  CHECK(p.exit_status == 125);
  CHECK(p.output.empty());
  CHECK_MESSAGE(p.errors.find(words) != std::string::npos, p.errors);
  CHECK(p.errors.rfind("cutrace: ", 0) == 0);
  CHECK(std::count(p.errors.begin(), p.errors.end(), '\n') == 1);
  CHECK(p.errors.find('\x1b') == std::string::npos);
}

}  // namespace

TEST_CASE("the text is printed, and steers no terminal") {
  const temporary_folder here;
  subject s("", {}, SUBJECT, here.path());
  const auto plain = explain(s.number), forced = explain(s.number, {"--force"});
  CHECK(plain.exit_status == 0);
  CHECK(plain.output == "a block\n" + printed);
  CHECK(plain.errors.empty());
  CHECK(forced.exit_status == 0);
  CHECK(forced.output == "a forced block\n" + printed);
  CHECK(std::distance(std::filesystem::directory_iterator(here.path()), {}) == 1);
  CHECK(s.end() == 0);
  CHECK(std::filesystem::is_empty(here.path()));
}

TEST_CASE("it is found in any folder, and where the main thread has ended") {
  const temporary_folder here;
  const std::string deep = here.path() + "/" + std::string(200, 'd');
  std::filesystem::create_directory(deep);
  ::chmod(deep.c_str(), 0700);
  for (const std::string& folder : {std::string(), deep, here.path()}) {
    CAPTURE(folder);
    const subject s("", {"/usr/bin/env", folder.empty() ? "-uXDG_RUNTIME_DIR" : "A=1"}, SUBJECT, folder);
    CHECK(explain(s.number).output == "a block\n" + printed);
  }
  const subject s("main_ended", {}, SUBJECT, here.path());
  ::usleep(100000);
  CHECK(explain(s.number).output == "a block\n" + printed);
}

TEST_CASE("it is found in other namespaces") {
  const temporary_folder here;
  for (const char* kind : {"--net", "--mount", "--pid"}) {
    CAPTURE(kind);
    if (test_support::run_process({"/usr/bin/unshare", "--fork", kind, "/bin/true"}, here.path()).exit_status != 0) {
      MESSAGE("not looked at: no namespaces can be made here: " << kind);
      continue;
    }
    std::vector<std::string> words{"/usr/bin/unshare", kind, "/bin/sh", "-c", "exec \"$0\" \"$@\""};
    if (kind == std::string("--mount")) words.back() = "mount -t tmpfs none /tmp && " + words.back();
    if (kind == std::string("--pid")) words.insert(words.begin() + 1, {"--fork", "--kill-child"});
    // With a /tmp of its own, which does not have the folder.
    subject s("", words, SUBJECT, kind == std::string("--mount") ? "/tmp/none" : here.path());
    if (kind == std::string("--pid")) {
      CHECK(s.number == "1");
      std::string children;
      std::ifstream("/proc/" + std::to_string(s.child) + "/task/" + std::to_string(s.child) + "/children") >> children;
      s.number = children;
    }
    const auto p = explain(s.number);
    CHECK_MESSAGE(p.output == "a block\n" + printed, p.errors);
  }
}

TEST_CASE("processes that cannot be asked, each with its reason") {
  const temporary_folder here;
  check_refused(explain("99999999"), "there is no process 99999999");
  check_refused(explain("0"), "\"0\" is no number of a process");
  check_refused(explain("-1"), "");
  check_refused(explain(std::to_string(::getpid())), "is not traced by cutrace");
  const std::vector<std::pair<const char*, const char*>> all{
      {"none",
       "has cutrace in it, but no control socket: it is not traced now, or was started without one (CUTRACE_CONTROL=1"},
      {"thread", " is a thread of process "},
      {"throws", " answers: no ?[31mtext"},
      {"version", " answers \"cutrace 2 ok\", which this version of cutrace does not know"},
      {"hangs_up", " does not answer at its control socket"},
      {"inherited", " is not the control socket of process "},
      {"removed", ".sock\", has been removed"}};
  for (const auto& [how, words] : all) {
    CAPTURE(how);
    const subject s(how, {}, SUBJECT, here.path());
    check_refused(explain(s.number), words);
    std::filesystem::remove(here.file("cutrace-1.sock"));
  }
}

TEST_CASE("a process that does not answer in time, since it is stopped or slow") {
  const temporary_folder here;
  const subject s("", {}, SUBJECT, here.path());
  ::kill(s.child, SIGSTOP);
  const auto begin = std::chrono::steady_clock::now();
  check_refused(explain(s.number, {"--timeout", "0.3"}), "does not answer in time: it is stopped");
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(4));
  ::kill(s.child, SIGCONT);
  CHECK(explain(s.number).output == "a block\n" + printed);
  const subject slow("slow", {}, SUBJECT, here.path());
  check_refused(explain(slow.number, {"--timeout", "0.3"}), "does not answer in time; --timeout waits longer");
  CHECK(explain(slow.number).output == "a block\n" + printed);
}

TEST_CASE("another user's process is asked by root alone") {
  if (!rights::is_root()) return;
  const ground g;
  const std::string program = g.copy(SUBJECT, 0, 0755), command = g.copy(CUTRACE_COMMAND, 0, 0755);
  const std::vector<std::string> as_nobody{"/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"};
  const temporary_folder here;
  const subject roots("", {}, program, here.path());
  check_refused(rights::run_as_nobody(g, {command, "explain", roots.number}),
                "is of user 0, this command of user 65534: only that user and root may ask it (sudo cutrace explain ");
  std::filesystem::create_directory(g.callers + "/run");
  ::chmod((g.callers + "/run").c_str(), 0700);
  REQUIRE(::chown((g.callers + "/run").c_str(), rights::nobody, rights::nobody) == 0);
  const subject theirs("", as_nobody, program, g.callers + "/run");
  if (theirs.number.empty()) {
    MESSAGE("skipped: there is no setpriv");
    return;
  }
  CHECK(explain(theirs.number).output == "a block\n" + printed);
  CHECK(rights::run_as_nobody(g, {command, "explain", theirs.number}).output == "a block\n" + printed);
  const subject hidden("hidden", as_nobody, program, g.callers + "/run");
  check_refused(rights::run_as_nobody(g, {command, "explain", hidden.number}), "hides itself (PR_SET_DUMPABLE)");
  CHECK(explain(hidden.number).output == "a block\n" + printed);
}
