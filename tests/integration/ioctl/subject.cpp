// SPDX-License-Identifier: Apache-2.0
// A program that makes ioctls with NVIDIA's command words on whatever device it is given, and does what programs do
// with threads, processes and signals meanwhile. It prints what it saw: the same, whether it is traced or not, but for
// own_filter, which needs a tracer.
//   subject DEVICE WHAT [NUMBER...]
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "words.hpp"

namespace {

const char* device;

/// Fills a block as the driver's libraries do.
struct block {
  alignas(8) unsigned char bytes[64] = {};
  void word(std::size_t at, unsigned value) { std::memcpy(bytes + at, &value, sizeof(value)); }
  void address(std::size_t at, const void* value) { std::memcpy(bytes + at, &value, sizeof(value)); }
};

/// One of each word; returns how many failed with ENOTTY.
int one_round(int fd) {
  int failed = 0;
  const auto make = [&](unsigned long request, block& b) {
    if (::ioctl(fd, request, b.bytes) != 0 && errno == ENOTTY) ++failed;
  };
  block control;
  control.word(0, subject::client);
  control.word(4, subject::object);
  control.word(8, subject::control_command);
  make(subject::rm_control, control);
  block alloc;
  alloc.word(0, subject::client);
  alloc.word(4, subject::client);
  alloc.word(8, subject::object);
  alloc.word(12, subject::device_class);
  make(subject::rm_alloc, alloc);
  block transfer;
  transfer.word(0, subject::rm_control & 0xff);
  transfer.word(4, 32);
  transfer.address(8, control.bytes);
  make(subject::xfer, transfer);
  block other;
  make(subject::unknown, other);
  return failed;
}

int open_device() {
  const int fd = ::open(device, O_RDWR | O_CLOEXEC);
  if (fd < 0) {
    std::perror(device);
    std::exit(99);
  }
  return fd;
}

int rounds(int threads, int count) {
  std::atomic<int> failed{0};
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t)
    all.emplace_back([&failed, count] {
      const int fd = open_device();
      for (int i = 0; i < count; ++i) failed += one_round(fd);
      ::close(fd);
    });
  for (std::thread& t : all) t.join();
  std::printf("%d failed as they should\n", failed.load());
  return 0;
}

void report_child(const char* what, int status) {
  std::printf("%s: %s %d\n", what, WIFEXITED(status) ? "exit" : "signal",
              WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
}

int processes(char* self) {
  std::fflush(stdout);
  const pid_t forked = ::fork();
  if (forked == 0) {
    one_round(open_device());
    ::_exit(5);
  }
  int status = 0;
  ::waitpid(forked, &status, 0);
  report_child("fork", status);
  std::fflush(stdout);
  char rounds_word[] = "rounds", one[] = "1";
  char* words[] = {self, const_cast<char*>(device), rounds_word, one, one, nullptr};
  const pid_t executed = ::vfork();
  if (executed == 0) {
    ::execv(self, words);
    ::_exit(1);
  }
  ::waitpid(executed, &status, 0);
  report_child("vfork and exec", status);
  std::fflush(stdout);
  const pid_t killed = ::fork();
  if (killed == 0) {
    one_round(open_device());
    ::raise(SIGKILL);
  }
  ::waitpid(killed, &status, 0);
  report_child("killed", status);
  one_round(open_device());
  std::fflush(stdout);
  std::thread([&] { ::execv(self, words); }).join();
  return 1;  // never reached: the thread's exec replaces the whole process
}

volatile sig_atomic_t traps = 0, users = 0;

int signals() {
  std::signal(SIGTRAP, [](int) { traps = traps + 1; });
  std::signal(SIGUSR1, [](int) { users = users + 1; });
  const int fd = open_device();
  for (int i = 0; i < 20; ++i) {
    ::raise(SIGTRAP);
    ::kill(::getpid(), SIGUSR1);
    one_round(fd);
  }
  const pid_t parent = ::getpid();
  std::fflush(stdout);
  const pid_t child = ::fork();
  if (child == 0) {  // stopped by SIGSTOP like any program, and continued by SIGCONT
    ::kill(parent, SIGSTOP);
    std::string state;
    for (int patience = 0; patience < 1000 && state != "T"; ++patience) {
      char path[64], line[512] = "";
      std::snprintf(path, sizeof(path), "/proc/%d/stat", static_cast<int>(parent));
      std::FILE* f = std::fopen(path, "r");
      if (f != nullptr) {
        static_cast<void>(!std::fgets(line, sizeof(line), f));
        std::fclose(f);
      }
      const char* bracket = std::strrchr(line, ')');
      state = bracket != nullptr ? std::string(1, bracket[2]) : "";
      if (state == "t") state = "T";  // of a traced one
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    ::kill(parent, SIGCONT);
    ::_exit(state == "T" ? 0 : 1);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  report_child("stopped", status);
  std::printf("%d traps, %d of the user\n", static_cast<int>(traps), static_cast<int>(users));
  return 0;
}

/// The same number of a descriptor is another file each time.
int descriptors() {
  const int first = open_device();
  one_round(first);
  const int copy = ::dup(first);
  ::close(first);
  one_round(copy);
  const int other = ::open("/dev/full", O_RDWR | O_CLOEXEC);  // takes the number that is free again
  std::printf("number %s\n", other == first ? "taken again" : "another");
  one_round(other);
  ::dup2(copy, other);
  one_round(other);
  return 0;
}

/// Where it has no tracer yet, PTRACE_TRACEME succeeds and makes its parent the tracer.
int own_filter() {
  std::printf("tracer by request: %s\n", ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) == 0 ? "yes" : "no");
  sock_filter allow[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program = {1, allow};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    return 1;
  std::printf("%d failed as they should\n", one_round(open_device()));
  return 0;
}

int hidden_child() {
  const int fd = open_device();
  one_round(fd);
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_DUMPABLE, 0);
    one_round(fd);
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  return 0;
}

/// Goes on until its folder has a file "enough"; then says how its ioctls end.
int until_notified() {
  const int fd = open_device();
  std::FILE* f = std::fopen("begun.part", "w");
  std::fprintf(f, "%d %d\n", static_cast<int>(::getpid()), one_round(fd));
  std::fclose(f);
  if (::rename("begun.part", "begun") != 0) return 1;
  for (int patience = 0; patience < 10000 && ::access("enough", F_OK) != 0; ++patience) {
    one_round(fd);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  const int failed = one_round(fd);
  const int why = errno;
  f = std::fopen("ended.part", "w");
  std::fprintf(f, "%d %s\n", failed, std::strerror(why));
  std::fclose(f);
  return ::rename("ended.part", "ended");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 98;
  device = argv[1];
  const std::string what = argv[2];
  const int number = argc > 3 ? std::atoi(argv[3]) : 0;
  if (what == "rounds") return rounds(number, argc > 4 ? std::atoi(argv[4]) : 1);
  if (what == "processes") return processes(argv[0]);
  if (what == "signals") return signals();
  if (what == "descriptors") return descriptors();
  if (what == "own_filter") return own_filter();
  if (what == "until_notified") return until_notified();
  if (what == "hidden_child") return hidden_child();
  one_round(open_device());
  std::printf("about to end\n");
  std::fflush(stdout);
  if (what == "exit") return number;
  if (what == "_exit") ::_exit(number);
  if (what == "signal") ::raise(number);
  if (what == "daemon") {
    if (::fork() != 0) ::_exit(0);
    ::setsid();
    return until_notified();
  }
  return 97;
}
