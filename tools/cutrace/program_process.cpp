// SPDX-License-Identifier: Apache-2.0
#include "cutrace/program_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>

#include "cutrace/exit_status.hpp"

namespace cutrace_tool {

namespace {

/// All signals: any may be meant for the program, or be sent by it to its whole group, which includes this process. Not
/// SIGTTIN and SIGTTOU: by them the terminal stops background processes, this one included.
sigset_t handled_signals() {
  sigset_t all;
  ::sigfillset(&all);
  for (const int s : {SIGTTIN, SIGTTOU}) ::sigdelset(&all, s);
  return all;
}

/// The parent of a process, 0 where it cannot be determined.
pid_t parent_of(pid_t process) {
  const std::string fields = stat_behind_name(process);
  return fields.size() > 3 ? static_cast<pid_t>(std::strtol(fields.c_str() + 3, nullptr, 10)) : 0;
}

bool is_below(pid_t process, pid_t ancestor) {
  for (int depth = 0; process > 1 && depth < 64; ++depth) {
    if (process == ancestor) return true;
    process = parent_of(process);
  }
  return false;
}

/// This process was stopped along with the program and goes on: a shell continues the whole group, anybody else this
/// process alone.
void continue_with(pid_t child) {
  sigset_t only;
  ::sigemptyset(&only);
  ::sigaddset(&only, SIGCONT);
  const timespec no_wait{0, 0};
  ::sigtimedwait(&only, nullptr, &no_wait);
  for (int patience = 0; patience < 25; ++patience) {
    siginfo_t news{};
    if (::waitid(P_PID, static_cast<id_t>(child), &news, WEXITED | WCONTINUED | WNOHANG | WNOWAIT) == 0 &&
        news.si_pid == child)
      return;
    const timespec a_little{0, 2000000};
    ::nanosleep(&a_little, nullptr);
  }
  ::kill(child, SIGCONT);
}

}  // namespace

std::string stat_behind_name(pid_t process) {
  std::ifstream in("/proc/" + std::to_string(process) + "/stat");
  std::string line;
  std::getline(in, line);
  const std::size_t bracket = line.rfind(')');
  return bracket != std::string::npos ? line.substr(bracket + 1) : std::string();
}

program_process::program_process() : deaf_(::signal(SIGCHLD, SIG_DFL) == SIG_IGN) {
  const itimerval none{};
  static_cast<void>(::setitimer(ITIMER_REAL, &none, &alarm_));
  static_cast<void>(::prctl(PR_GET_PDEATHSIG, &at_parents_end_));
}

int program_process::start(const std::vector<std::string>& words, const std::map<std::string, std::string>& environment,
                           bool alone, const start_gate* gate) {
  std::vector<char*> arguments, variables;
  std::vector<std::string> texts;
  for (const std::string& w : words) arguments.push_back(const_cast<char*>(w.c_str()));
  arguments.push_back(nullptr);
  // In the order of the command's environment, and with what has no value there: a program that lists it prints the
  // same.
  std::map<std::string, std::string> left = environment;
  for (char** one = environ; *one != nullptr; ++one) {
    const std::string text = *one;
    const std::size_t equals = text.find('=');
    const auto known = left.find(text.substr(0, equals));
    if (equals == std::string::npos) {
      texts.push_back(text);
    } else if (known != left.end()) {
      texts.push_back(known->first + "=" + known->second);
      left.erase(known);
    }
  }
  for (const auto& [name, value] : left) texts.push_back(name + "=" + value);
  for (const std::string& t : texts) variables.push_back(const_cast<char*>(t.c_str()));
  char only[64];
  if (alone) variables.push_back(only);
  variables.push_back(nullptr);

  int failed[2];
  if (::pipe2(failed, O_CLOEXEC) != 0) return errno;
  sigset_t handled = handled_signals(), before;
  ::pthread_sigmask(SIG_BLOCK, &handled, &before);
  // What is buffered must not be written twice.
  std::fflush(nullptr);
  const pid_t own = ::getpid();
  child_ = ::fork();
  if (child_ == 0) {
    std::snprintf(only, sizeof(only), "CUTRACE_RUN_PID=%ld", static_cast<long>(::getpid()));
    if (deaf_) ::signal(SIGCHLD, SIG_IGN);
    static_cast<void>(::setitimer(ITIMER_REAL, &alarm_, nullptr));
    if (at_parents_end_ != 0) {
      static_cast<void>(::prctl(PR_SET_PDEATHSIG, at_parents_end_));
      if (::getppid() != own) ::raise(at_parents_end_);  // it ended before that, and the kernel sends nothing
    }
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    int why = gate != nullptr ? gate->in_child() : 0;
    if (why == 0) {
      ::execvpe(arguments[0], arguments.data(), variables.data());
      why = errno;
    }
    static_cast<void>(!::write(failed[1], &why, sizeof(why)));
    ::_exit(exit_not_found);
  }
  int why = child_ < 0 ? errno : 0;
  ::close(failed[1]);
  if (why == 0 && gate != nullptr && (why = gate->in_parent(child_)) != 0) {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }
  if (why == 0) {
    int reported = 0;
    ssize_t n;
    while ((n = ::read(failed[0], &reported, sizeof(reported))) < 0 && errno == EINTR) {
    }
    if (n == sizeof(reported)) {
      why = reported;
      ::waitpid(child_, nullptr, 0);
    }
  }
  ::close(failed[0]);
  if (why != 0) ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return why;
}

/// True when the program has ended.
bool program_process::reap(ending& e, const std::function<void()>& pause) {
  int status = 0;
  pid_t who;
  while ((who = ::waitpid(child_, &status, WNOHANG | WUNTRACED | WCONTINUED)) == child_) {
    if (WIFEXITED(status)) {
      e.status = WEXITSTATUS(status);
      return true;
    }
    if (WIFSIGNALED(status)) {
      e.signal = WTERMSIG(status);
      e.core = WCOREDUMP(status);
      return true;
    }
    if (!WIFSTOPPED(status)) continue;
    // Stopped from the terminal: this process stops, too, since the shell waits for it before it takes the terminal
    // back. Whoever stops the program alone (SIGSTOP) wants to continue it alone.
    const int by = WSTOPSIG(status);
    if (by != SIGTSTP && by != SIGTTIN && by != SIGTTOU) continue;
    pause();
    ::raise(SIGSTOP);
    continue_with(child_);
  }
  return who < 0 && errno == ECHILD;
}

program_process::ending program_process::wait(unsigned tick_ms, const std::function<void()>& tick,
                                              const std::function<void()>& pause, int wake_fd,
                                              const std::function<void(int)>& outlives) {
  using clock = std::chrono::steady_clock;
  constexpr unsigned look_ms = 250;  // where nothing ticks
  clock::time_point asked_to_end{};
  int asked_by = 0;
  bool said = false;
  const sigset_t handled = handled_signals();
  const int arrivals = wake_fd >= 0 ? ::signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK) : -1;
  ending e;
  while (!reap(e, pause)) {
    siginfo_t info{};
    const bool asked = asked_by != 0 && !said;
    if (asked && clock::now() - asked_to_end >= std::chrono::seconds(patience_after_signal_s)) {
      said = true;
      outlives(asked_by);
    }
    const unsigned limit_ms = tick_ms != 0 ? tick_ms : asked ? look_ms : 0;
    timespec limit{static_cast<time_t>(limit_ms / 1000), static_cast<long>(limit_ms % 1000) * 1000000};
    if (arrivals >= 0) {  // signals are only looked for here, and taken below
      pollfd both[2] = {{arrivals, POLLIN, 0}, {wake_fd, POLLIN, 0}};
      static_cast<void>(::poll(both, 2, static_cast<int>(limit_ms)));
      limit = {0, 0};
    }
    const int got = limit_ms != 0 ? ::sigtimedwait(&handled, &info, &limit) : ::sigwaitinfo(&handled, &info);
    if (got < 0) {
      if (errno == EAGAIN && tick_ms != 0) tick();
      continue;
    }
    if (got == SIGCHLD) continue;
    if (asked_by == 0 && (got == SIGINT || got == SIGTERM)) {
      asked_by = got;
      asked_to_end = clock::now();
    }
    // Signals of the terminal (Ctrl-C, Ctrl-Z, a new size) reach the whole group, and so the program, from the kernel.
    if (info.si_code == SI_KERNEL) continue;
    const bool queued = info.si_code == SI_QUEUE;
    // Not for the program: what it sends to its group or parent, and SIGPIPE of this process, whose stderr is gone.
    if ((info.si_code == SI_USER || queued) && (info.si_pid == ::getpid() || is_below(info.si_pid, child_))) continue;
    if (queued)
      ::sigqueue(child_, got, info.si_value);
    else
      ::kill(child_, got);
  }
  if (arrivals >= 0) ::close(arrivals);
  return e;
}

void end_like(const program_process::ending& e) {
  std::fflush(nullptr);
  if (e.signal == 0) ::_exit(e.status);
  const rlimit no_core{0, 0};  // the program has left its own
  ::setrlimit(RLIMIT_CORE, &no_core);
  ::signal(e.signal, SIG_DFL);
  sigset_t only;
  ::sigemptyset(&only);
  ::sigaddset(&only, e.signal);
  ::pthread_sigmask(SIG_UNBLOCK, &only, nullptr);
  ::raise(e.signal);
  ::_exit(exit_of_signal + e.signal);
}

}  // namespace cutrace_tool
