// SPDX-License-Identifier: Apache-2.0
// Signals under `cutrace run`: each reaches the program once, whether a process sends it or the terminal. And what only
// a terminal sees: the line of progress. The terminals are pseudo terminals made here.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <thread>

#include "run_support.hpp"

namespace run_signals_test {

using run_support::jsonl_trace;

namespace {

using clock_type = std::chrono::steady_clock;
constexpr std::chrono::seconds patience{30};

/// The command in the background, its output in a pipe.
struct background {
  temporary_folder folder;
  pid_t id = -1;
  int output = -1;
  std::string text;
  clock_type::time_point begun = clock_type::now();

  explicit background(
      const std::vector<std::string>& options, const std::vector<std::string>& program,
      const std::function<void()>& before = [] {}) {
    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    std::vector<std::string> words{CUTRACE_COMMAND, "run", "--out", folder.file("out")};
    words.insert(words.end(), options.begin(), options.end());
    words.push_back("--");
    words.insert(words.end(), program.begin(), program.end());
    id = ::fork();
    if (id == 0) {
      std::vector<char*> arguments;
      for (std::string& w : words) arguments.push_back(w.data());
      arguments.push_back(nullptr);
      ::dup2(ends[1], 1);
      ::setpgid(0, 0);
      before();
      ::execv(arguments[0], arguments.data());
      ::_exit(127);
    }
    ::setpgid(id, id);
    ::close(ends[1]);
    output = ends[0];
  }
  ~background() {
    ::close(output);
    ::kill(-id, SIGKILL);  // what hangs; the group is empty otherwise
  }

  bool read_until(const std::string& what) {
    const auto give_up = clock_type::now() + patience;
    while (text.find(what) == std::string::npos && clock_type::now() < give_up) {
      pollfd p{output, POLLIN, 0};
      char buffer[4096];
      if (::poll(&p, 1, 1000) <= 0) continue;
      const ssize_t n = ::read(output, buffer, sizeof(buffer));
      if (n <= 0) break;
      text.append(buffer, static_cast<std::size_t>(n));
    }
    return text.find(what) != std::string::npos;
  }
  int wait() {
    read_until("nothing that ever comes");
    if (clock_type::now() > begun + patience) ::kill(-id, SIGKILL);  // it hangs
    int status = 0;
    ::waitpid(id, &status, 0);
    return status;
  }
  /// The file of the trace that ends so, once it is there.
  std::string file(const std::string& ending) const {
    for (const auto give_up = clock_type::now() + patience; clock_type::now() < give_up;) {
      if (std::filesystem::is_directory(folder.file("out"))) {
        const std::vector<std::string> found = test_support::files_with(folder.file("out"), ending);
        if (!found.empty()) return found[0];
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return {};
  }
  int count_of(int signal) const {
    const std::string what = std::to_string(signal) + ":";
    const std::size_t line = text.rfind('\n', text.size() - 2);
    const std::size_t at = text.find(what, line == std::string::npos ? 0 : line);
    return at == std::string::npos ? -1 : std::atoi(text.c_str() + at + what.size());
  }
};

/// Waits until the file has these words.
bool comes_to_hold(const std::string& path, const std::string& words) {
  const auto give_up = clock_type::now() + patience;
  while (content_of(path).find(words) == std::string::npos) {
    if (clock_type::now() > give_up) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

std::function<void()> errors_to(const std::string& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  return [fd] { ::dup2(fd, 2); };
}

/// A terminal, with a session on it that runs `inside` as its leader.
struct terminal {
  int master = -1;
  pid_t leader = -1;
  std::string text;

  bool open(const std::function<int()>& inside) {
    winsize size{24, 90, 0, 0};
    leader = ::forkpty(&master, nullptr, nullptr, &size);
    if (leader < 0) return false;
    if (leader == 0) ::_exit(inside());
    return true;
  }
  ~terminal() {
    if (master >= 0) ::close(master);
  }
  void read_for(std::chrono::milliseconds time, const std::string& until = {}) {
    const auto give_up = clock_type::now() + time;
    while (clock_type::now() < give_up && (until.empty() || text.find(until) == std::string::npos)) {
      pollfd p{master, POLLIN, 0};
      char buffer[4096];
      if (::poll(&p, 1, 20) <= 0) continue;
      const ssize_t n = ::read(master, buffer, sizeof(buffer));
      if (n <= 0) return;  // EIO: all have left
      text.append(buffer, static_cast<std::size_t>(n));
    }
  }
  /// To the end; the leader's status.
  int finish() {
    const auto begun = clock_type::now();
    read_for(patience);
    if (clock_type::now() - begun >= patience) ::kill(leader, SIGKILL);  // it hangs; the rest gets a hangup
    int status = 0;
    ::waitpid(leader, &status, 0);
    return status;
  }
  void type(char c) const { CHECK(::write(master, &c, 1) == 1); }
};

int execute(std::vector<std::string> words) {
  std::vector<char*> arguments;
  for (std::string& w : words) arguments.push_back(w.data());
  arguments.push_back(nullptr);
  ::execv(arguments[0], arguments.data());
  return 127;
}

bool no_terminal(terminal& t, const std::function<int()>& inside) {
  if (t.open(inside)) return false;
  MESSAGE("skipped: this machine gives no pseudo terminal");
  return true;
}

}  // namespace

TEST_CASE("a signal sent to the command reaches the program, once") {
  background b({"--quiet"}, {SUBJECT, "signals"});
  REQUIRE(b.read_until("ready\n"));
  for (const int s : {SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH, SIGALRM, SIGPIPE, SIGABRT, SIGRTMIN + 1}) {
    ::kill(b.id, s);
    REQUIRE(b.read_until("got " + std::to_string(s) + "\n"));
  }
  ::kill(b.id, SIGTERM);
  const int status = b.wait();
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  for (const int s :
       {SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH, SIGALRM, SIGPIPE, SIGABRT, SIGRTMIN + 1, SIGTERM}) {
    INFO(s);
    CHECK(b.count_of(s) == 1);
  }
  CHECK(test_support::files_with(b.folder.file("out"), ".jsonl").size() == 1);
}

TEST_CASE("what the program sends to its group does not end the command") {
  const std::string signals = "HUP INT QUIT ABRT USR1 USR2 PIPE ALRM TERM SEGV PROF XCPU";
  background b({"--quiet"},
               {"/bin/sh", "-c", "trap : " + signals + "; for s in " + signals + "; do kill -$s 0; done; exit 7"});
  const int status = b.wait();
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 7);
}

TEST_CASE("the caller ignores SIGCHLD: the command ends with the program, which finds it ignored") {
  const auto deaf = [] { ::signal(SIGCHLD, SIG_IGN); };
  for (const char* method : {"cupti", "preload", "ioctl"}) {
    INFO(method);
    background ends({"--quiet", "--method", method}, {SUBJECT, "nothing", "9"}, deaf);
    const int status = ends.wait();
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 9);
    background looks({"--quiet", "--method", method}, {SUBJECT, "dispositions"}, deaf);
    looks.wait();
    CHECK(looks.text.find("signal " + std::to_string(SIGCHLD) + " is not as usual\n") != std::string::npos);
  }
}

TEST_CASE("an alarm that the caller has set before it executes the command ends the program") {
  for (const char* method : {"cupti", "ioctl"}) {
    INFO(method);
    background b({"--quiet", "--method", method}, {SUBJECT, "slow", "60000"}, [] { ::alarm(1); });
    const int status = b.wait();
    CHECK(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == SIGALRM);
  }
}

TEST_CASE("a command that is to die with its caller does not leave the program behind") {
  background b({"--quiet"}, {"/bin/sh", "-c", "echo ready; exec sleep 60"}, [] {
    if (::fork() != 0)
      for (;;) ::pause();
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  });
  REQUIRE(b.read_until("ready\n"));
  ::kill(b.id, SIGKILL);
  b.wait();  // until the last process that has the pipe ends
  CHECK(clock_type::now() < b.begun + patience);
}

TEST_CASE("a command that dies before the program has asked for its parent's end does not leave it behind, either") {
  background b({"--quiet"}, {"/bin/sh", "-c", "exec sleep 60"}, [] {
    if (::fork() != 0)
      for (;;) ::pause();
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::setenv("LD_PRELOAD", LATE_PRCTL, 1);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  ::kill(b.id, SIGKILL);  // the caller, which waits for ever
  b.wait();
  CHECK(clock_type::now() < b.begun + patience);
}

TEST_CASE("of a variable that stands twice in the environment the program gets the one that getenv finds") {
  background b({"--quiet"}, {"/usr/bin/printenv", "TWICE"}, [] {
    static char first[] = "TWICE=first", second[] = "TWICE=second";
    static char* both[] = {first, second, nullptr};
    environ = both;
  });
  b.wait();
  CHECK(b.text == "first\n");
}

TEST_CASE("a program that lists its environment prints the same, where nothing is put into it") {
  background b({"--quiet", "--method", "ioctl"}, {"/usr/bin/env"}, [] {
    static char second[] = "B=2", bare[] = "bare", first[] = "A=1", nameless[] = "=3";
    static char* all[] = {second, bare, first, nameless, nullptr};
    environ = all;
  });
  b.wait();
  CHECK(b.text == "B=2\nbare\nA=1\n=3\n");
}

TEST_CASE("a signal that ends the program: the command reports, and ends by it") {
  background b({"--quiet"}, {SUBJECT, "slow", "60000"});
  std::this_thread::sleep_for(std::chrono::milliseconds(600));
  ::kill(b.id, SIGTERM);
  const int status = b.wait();
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGTERM);
}

TEST_CASE("--duration: report and files are there when it is over, and the program goes on") {
  const temporary_folder to;
  background b({"--duration", "300ms", "--sink", "ascii,jsonl,html"}, {SUBJECT, "signals"}, errors_to(to.file("err")));
  CHECK(comes_to_hold(to.file("err"), "cutrace: 3 files"));
  int status = 0;
  REQUIRE(::waitpid(b.id, &status, WNOHANG) == 0);
  const auto files = [&](const char* end) { return test_support::files_with(b.folder.file("out"), end).size(); };
  for (const char* end : {".txt", ".jsonl", ".html"}) CHECK(files(end) == 1);
  CHECK(jsonl_trace(test_support::files_with(b.folder.file("out"), ".jsonl").at(0)).footers == 1);
  ::kill(b.id, SIGTERM);
  status = b.wait();
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  const std::string err = content_of(to.file("err"));
  CHECK(err.find("the time of --duration is over") < err.find("WHERE THE TIME WENT"));
  CHECK(err.find("WHERE THE TIME WENT") == err.rfind("WHERE THE TIME WENT"));
  CHECK(err.find("warning") == std::string::npos);
}

TEST_CASE("killed with SIGKILL: reports are made of what had been written") {
  const temporary_folder to;
  background b({"--sink", "ascii,jsonl,html"}, {"/bin/sh", "-c", "echo $$; exec " SUBJECT " slow 60000"},
               errors_to(to.file("err")));
  REQUIRE(b.read_until("\n"));
  REQUIRE(comes_to_hold(b.file(".jsonl"), "\"type\":\"kernel\""));
  ::kill(std::atoi(b.text.c_str()), SIGKILL);
  const int status = b.wait();
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGKILL);
  const std::string err = content_of(to.file("err"));
  CHECK(err.find("WHERE THE TIME WENT") != std::string::npos);
  CHECK(err.find("its trace was not closed") != std::string::npos);
  CHECK(test_support::files_with(b.folder.file("out"), ".txt").size() == 1);
  CHECK(test_support::files_with(b.folder.file("out"), ".html").size() == 1);
  std::size_t files = 0;
  for ([[maybe_unused]] const auto& f : std::filesystem::directory_iterator(b.folder.file("out"))) ++files;
  CHECK(files == 3);
}

TEST_CASE("a program that outlives a signal is traced on, and it is said how to look at its trace") {
  const temporary_folder to;
  background b({"--sink", "jsonl"}, {SUBJECT, "signals"}, errors_to(to.file("err")));
  REQUIRE(b.read_until("ready\n"));
  ::kill(b.id, SIGINT);
  CHECK(comes_to_hold(to.file("err"), "cutrace report '"));
  ::kill(b.id, SIGINT);
  const std::string said = content_of(to.file("err"));
  const std::string file = test_support::files_with(b.folder.file("out"), ".jsonl").at(0);
  CHECK(said.find("still runs, 5 s after SIGINT, and is traced on: ") != std::string::npos);
  CHECK(said.find("cutrace report '" + file + "'\n") != std::string::npos);
  ::kill(b.id, SIGTERM);
  const int status = b.wait();
  CHECK(WIFEXITED(status));
  CHECK(b.count_of(SIGINT) == 2);
  const std::string err = content_of(to.file("err"));
  CHECK(err.find("still runs") == err.rfind("still runs"));
  CHECK(jsonl_trace(file).footers == 1);
}

TEST_CASE("a program that outlives a signal and is traced no longer is not said to be traced on") {
  const temporary_folder to;
  background b({"--sink", "null", "--duration", "1ms"}, {SUBJECT, "signals"}, errors_to(to.file("err")));
  REQUIRE(b.read_until("ready\n"));
  ::kill(b.id, SIGINT);
  CHECK(comes_to_hold(to.file("err"), "still runs, 5 s after SIGINT; its trace has ended\n"));
  ::kill(b.id, SIGTERM);
  CHECK(WIFEXITED(b.wait()));
}

TEST_CASE("stopped and continued, the program is stopped and goes on") {
  background b({"--quiet"}, {SUBJECT, "signals"});
  REQUIRE(b.read_until("ready\n"));
  ::kill(b.id, SIGTSTP);  // the program does not handle it
  int status = 0;
  for (int i = 0; i < 1000 && ::waitpid(b.id, &status, WUNTRACED | WNOHANG) == 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  CHECK(WIFSTOPPED(status));
  ::kill(-b.id, SIGCONT);  // as a shell's fg does
  CHECK(b.read_until("got " + std::to_string(SIGCONT) + "\n"));
  ::kill(b.id, SIGTERM);
  status = b.wait();
  CHECK(WIFEXITED(status));
  CHECK(b.count_of(SIGCONT) == 1);
}

TEST_CASE("Ctrl-C of a terminal reaches the program once") {
  const temporary_folder folder;
  terminal t;
  if (no_terminal(t, [&] {
        return execute({CUTRACE_COMMAND, "run", "--quiet", "--out", folder.file("out"), "--", SUBJECT, "signals"});
      }))
    return;
  t.read_for(patience, "ready");
  REQUIRE(t.text.find("ready") != std::string::npos);
  t.type('\x03');
  t.read_for(patience, "got " + std::to_string(SIGINT) + "\r");
  t.type('\x1c');  // Ctrl-backslash: SIGQUIT
  t.read_for(patience, "got " + std::to_string(SIGQUIT) + "\r");
  ::kill(t.leader, SIGTERM);
  const int status = t.finish();
  CHECK(WIFEXITED(status));
  CHECK(t.text.find(std::to_string(SIGINT) + ":1 ") != std::string::npos);
  CHECK(t.text.find(std::to_string(SIGQUIT) + ":1 ") != std::string::npos);
}

TEST_CASE("Ctrl-Z gives the terminal back, and the job goes on") {
  const temporary_folder folder;
  terminal t;
  // A minimal shell, with job control: the command runs as its foreground job.
  if (no_terminal(t, [&] {
        ::signal(SIGTTOU, SIG_IGN);
        const pid_t job = ::fork();
        if (job == 0) {
          ::setpgid(0, 0);
          ::tcsetpgrp(0, ::getpid());
          ::signal(SIGTTOU, SIG_DFL);
          return execute({CUTRACE_COMMAND, "run", "--out", folder.file("out"), "--", SUBJECT, "signals"});
        }
        ::setpgid(job, job);
        ::tcsetpgrp(0, job);
        int status = 0;
        if (::waitpid(job, &status, WUNTRACED) != job || !WIFSTOPPED(status)) return 10;
        ::tcsetpgrp(0, ::getpgrp());
        if (::write(1, "STOPPED\n", 8) != 8) return 11;
        ::tcsetpgrp(0, job);
        ::kill(-job, SIGCONT);
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        ::kill(job, SIGTERM);
        if (::waitpid(job, &status, 0) != job) return 12;
        return WIFEXITED(status) ? WEXITSTATUS(status) : 13;
      }))
    return;
  t.read_for(patience, "ready");
  t.type('\x1a');
  const int status = t.finish();
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(t.text.find("STOPPED") != std::string::npos);
}

TEST_CASE("progress on a terminal: one line, erased at the end, and none when quiet") {
  const temporary_folder folder;
  for (const bool quiet : {false, true}) {
    terminal t;
    if (no_terminal(t, [&] {
          std::vector<std::string> words{CUTRACE_COMMAND, "run", "--out", folder.file("out")};
          if (quiet) words.push_back("--quiet");
          words.insert(words.end(), {"--", SUBJECT, "slow", "2500"});
          return execute(words);
        }))
      return;
    const int status = t.finish();
    CHECK(WIFEXITED(status));
    const std::size_t last = t.text.rfind("[cutrace ");
    CHECK((last != std::string::npos) == !quiet);
    if (quiet) {
      CHECK(t.text.empty());
      continue;
    }
    CHECK(t.text.find(" events, 0 lost, ", last) != std::string::npos);
    CHECK(t.text.find(" written", last) != std::string::npos);
    CHECK(t.text.find("\r\033[K", last) != std::string::npos);  // erased, then the report
    CHECK(t.text.find("WHERE THE TIME WENT", last) != std::string::npos);
  }
}

TEST_CASE("no progress where stderr is no terminal, even if the program has one") {
  const temporary_folder folder;
  terminal t;
  if (no_terminal(t, [&] {
        const int file = ::open(folder.file("err").c_str(), O_WRONLY | O_CREAT, 0600);
        ::dup2(file, 2);
        return execute({CUTRACE_COMMAND, "run", "--out", folder.file("out"), "--", SUBJECT, "slow", "1500"});
      }))
    return;
  t.finish();
  CHECK(t.text.empty());
  const std::string err = content_of(folder.file("err"));
  CHECK(err.find("[cutrace ") == std::string::npos);
  CHECK(err.find('\r') == std::string::npos);
  CHECK(err.find("WHERE THE TIME WENT") != std::string::npos);
}

}  // namespace run_signals_test
