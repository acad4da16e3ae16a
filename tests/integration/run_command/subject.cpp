// SPDX-License-Identifier: Apache-2.0
// A CUDA program that knows nothing of cutrace, and lives and ends as its arguments say; run_command_test.cpp runs it
// under `cutrace run`.
//   subject <what> [<number>]
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "../../support/gpu_program.hpp"

namespace {

using test_support::gpu_device;

const char* own_path = nullptr;

void work(int launches) {
  static gpu_device device;
  device.launch(nullptr, launches);
  DO(cuStreamSynchronize, nullptr);
}

void rest(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

pid_t start(const char* what, const std::string& number) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::execl(own_path, own_path, what, number.c_str(), static_cast<char*>(nullptr));
    ::_exit(127);
  }
  return child;
}

/// Starts this program `n` times, all at once. True when all succeeded.
bool start_all(int n, const char* what, bool ranks) {
  std::vector<pid_t> all;
  for (int i = 0; i < n; ++i) {
    if (ranks) ::setenv("RANK", std::to_string(i).c_str(), 1);
    all.push_back(start(what, "50"));
  }
  bool good = true;
  for (const pid_t p : all) {
    int status = 0;
    good = ::waitpid(p, &status, 0) == p && status == 0 && good;
  }
  return good;
}

/// Closes all descriptors but the standard streams, as daemons do; then opens files, which may get those numbers.
int close_all() {
  work(10);
  rest(30);
  for (int fd = 3; fd < 256; ++fd) ::close(fd);
  std::vector<int> own;
  for (int i = 0; i < 20; ++i) {
    own.push_back(::open(("own." + std::to_string(i)).c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600));
    if (own.back() < 0 || ::write(own.back(), "mine", 4) != 4) return 1;
  }
  work(3000);
  rest(1300);  // the trace is flushed once a second
  work(3000);
  return 0;
}

/// Waits until `holds`, for a minute at most: if a test fails, nothing stays behind.
template <class Condition>
void wait_until(Condition holds) {
  for (int patience = 0; patience < 6000 && !holds(); ++patience) rest(10);
}
bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

/// The program ends with 5. Its grandchild keeps nothing of it but the environment, and uses CUDA before the program
/// ends (`when` is "before") or once the file "enough" is in the working folder ("after"). It ends after that file, or
/// when the folder is gone.
int becomes_daemon(const std::string& when) {
  const std::string folder = std::filesystem::current_path().string(), begun = folder + "/begun";
  const auto is_enough = [&] { return exists(folder + "/enough") || !exists(folder); };
  if (::fork() != 0) {
    if (when == "before") wait_until([&] { return exists(begun); });
    return 5;
  }
  ::setsid();
  if (::fork() != 0) ::_exit(0);
  if (::chdir("/") != 0) return 1;
  for (int fd = 0; fd < 256; ++fd) ::close(fd);
  if (::open("/dev/null", O_RDWR) != 0 || ::dup(0) != 1 || ::dup(0) != 2) return 1;
  if (when == "after") wait_until(is_enough);
  work(10);
  ::close(::open(begun.c_str(), O_WRONLY | O_CREAT, 0600));
  wait_until(is_enough);
  for (int i = 0; i < 29; ++i) work(10);
  return 0;
}

/// In the trace that this program's command writes, so far.
std::size_t kernels_written() {
  std::size_t n = 0;
  std::error_code none;
  for (const auto& f : std::filesystem::directory_iterator("out", none)) {
    if (f.path().extension() != ".jsonl") continue;
    std::ifstream in(f.path());
    for (std::string line; std::getline(in, line);) n += line.find("\"type\":\"kernel\"") != std::string::npos;
  }
  return n;
}

/// 'Z': it has ended, and nobody has waited for it. NUL: there is no such process.
char state_of(int process) {
  std::ifstream in("/proc/" + std::to_string(process) + "/status");
  for (std::string line; std::getline(in, line);)
    if (line.compare(0, 7, "State:\t") == 0) return line[7];
  return 0;
}

volatile sig_atomic_t seen[65] = {};
void count(int s) { seen[s] = seen[s] + 1; }

/// Counts signals until SIGTERM, and says which come; then how many of each there were.
int signals() {
  const int all[] = {SIGINT,  SIGTERM,  SIGHUP,  SIGQUIT, SIGUSR1, SIGUSR2,
                     SIGALRM, SIGWINCH, SIGCONT, SIGPIPE, SIGABRT, SIGRTMIN + 1};
  for (const int s : all) {
    struct sigaction a {};
    a.sa_handler = &count;
    ::sigaction(s, &a, nullptr);
  }
  work(5);
  std::printf("ready\n");
  std::fflush(stdout);
  for (bool said[65] = {}; seen[SIGTERM] == 0; rest(5))
    for (const int s : all)
      if (seen[s] != 0 && !said[s]) {
        said[s] = true;
        std::printf("got %d\n", s);
        std::fflush(stdout);
      }
  rest(50);  // a signal that is delivered twice comes again in this time
  for (const int s : all) std::printf("%d:%d ", s, static_cast<int>(seen[s]));
  std::printf("\n");
  return 0;
}

/// A copy of standard input, and a line on stderr.
int echo() {
  work(5);
  char buffer[4096];
  for (ssize_t n; (n = ::read(0, buffer, sizeof(buffer))) > 0;)
    if (::write(1, buffer, static_cast<std::size_t>(n)) != n) return 1;
  std::fprintf(stderr, "the program's own line\n");
  return 0;
}

int dispositions() {
  sigset_t blocked;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  for (int s = 1; s < 32; ++s) {
    struct sigaction a {};
    ::sigaction(s, nullptr, &a);
    if (a.sa_handler != SIG_DFL || ::sigismember(&blocked, s) == 1) std::printf("signal %d is not as usual\n", s);
  }
  const std::unique_ptr<DIR, int (*)(DIR*)> open(::opendir("/proc/self/fd"), &::closedir);
  while (const dirent* entry = ::readdir(open.get())) {
    const int fd = std::atoi(entry->d_name);
    if (entry->d_name[0] != '.' && fd > 2 && fd != ::dirfd(open.get())) std::printf("descriptor %d is open\n", fd);
  }
  std::printf("looked\n");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  own_path = argv[0];
  const std::string what = argc > 1 ? argv[1] : "";
  const int number = argc > 2 ? std::atoi(argv[2]) : 0;
  if (what == "work") {
    work(number);
    std::printf("worked\n");
    return 0;
  }
  if (what == "exit") return work(5), number;
  if (what == "signal") {
    work(5);
    rest(300);
    ::raise(number);
    return 1;
  }
  if (what == "killed") {  // after the trace file has got the first launches
    work(2000);
    wait_until([] { return kernels_written() >= 2000; });
    work(1);
    return ::raise(SIGKILL);
  }
  if (what == "until_dead") {  // a process that it does not wait for has ended
    wait_until([&] { return state_of(number) == 'Z'; });
    return 0;
  }
  if (what == "leaves") return work(5), ::syscall(SYS_exit_group, number), 1;  // no exit handler runs
  if (what == "children") return start_all(number, "work", false) ? 0 : 1;
  if (what == "ranks") return start_all(number, "work", true) ? 0 : 1;
  if (what == "works_and_has_children") return work(7), start_all(number, "work", false) ? 0 : 1;
  if (what == "fork") {
    work(5);
    const pid_t child = ::fork();
    if (child == 0) ::_exit(0);
    int status = 0;
    return ::waitpid(child, &status, 0) == child && status == 0 ? number : 1;
  }
  if (what == "fork_first") {
    const pid_t child = ::fork();
    work(child == 0 ? 20 : 10);
    if (child == 0) return 0;
    int status = 0;
    return ::waitpid(child, &status, 0) == child && status == 0 ? 0 : 1;
  }
  if (what == "exec") {
    work(2000);
    rest(1500);
    ::execl(own_path, own_path, "work", "50", static_cast<char*>(nullptr));
    return 1;
  }
  if (what == "close_all") return close_all();
  if (what == "daemon") return becomes_daemon(argc > 2 ? argv[2] : "");
  if (what == "signals") return signals();
  if (what == "echo") return echo();
  if (what == "slow") {
    for (int i = 0; i < number / 50; ++i) work(10), rest(50);
    return 0;
  }
  if (what == "nothing") return number;
  if (what == "starts_cuda") return DO(cuInit, 0), 0;
  if (what == "dispositions") return dispositions();
  if (what == "outlived") {  // a child goes on after the program has ended
    start("slow", argc > 2 ? argv[2] : "3000");
    rest(500);
    return 0;
  }
  if (what == "ends_first") {  // its child uses CUDA a moment later
    if (::fork() == 0) rest(100), work(5);
    return 0;
  }
  std::fprintf(stderr, "unknown: %s\n", what.c_str());
  return 2;
}
