// SPDX-License-Identifier: Apache-2.0
// A signal that ends the program has reached the handler of libcutrace_watch.so, and before the handler's first
// instruction another thread ends the trace: the signal ends the program all the same. To be run with that library
// preloaded.
#include <dlfcn.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <cutrace/run/early_end.hpp>
#include <new>
#include <thread>

#include "../../support/need.hpp"

namespace {

using cutrace::detail::process_watch;
using test_support::need;

constexpr int skipped = 77;

/// What the process that is watched and the one that traces it share.
struct steps {
  std::atomic<bool> in_handler{false}, disarmed{false};
};

[[noreturn]] void meet_signal(const process_watch& watch, steps& s) {
  watch.arm([](cutrace::detail::watched) noexcept { return false; });
  std::thread([&] {
    while (!s.in_handler) std::this_thread::yield();
    watch.disarm();
    s.disarmed = true;
  }).detach();
  if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) {
    std::printf("skipped: ptrace is refused here: %s\n", std::strerror(errno));
    std::fflush(stdout);
    ::_exit(skipped);
  }
  ::raise(SIGTERM);
  ::_exit(7);
}

}  // namespace

int main() {
  const auto* watch = static_cast<const process_watch*>(::dlsym(RTLD_DEFAULT, "cutrace_watch_1"));
  need(watch != nullptr, "libcutrace_watch.so is preloaded");
  void* shared = ::mmap(nullptr, sizeof(steps), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  need(shared != MAP_FAILED, "mmap");
  steps& s = *::new (shared) steps;
  const pid_t child = ::fork();
  if (child == 0) meet_signal(*watch, s);
  int status = 0;
  need(::waitpid(child, &status, 0) == child, "waitpid");
  if (WIFEXITED(status) && WEXITSTATUS(status) == skipped) return skipped;
  need(WIFSTOPPED(status) && WSTOPSIG(status) == SIGTERM, "it gets SIGTERM");
  need(::ptrace(PTRACE_SINGLESTEP, child, nullptr, SIGTERM) == 0, "PTRACE_SINGLESTEP");
  need(::waitpid(child, &status, 0) == child && WIFSTOPPED(status), "it stops in the handler");
  s.in_handler = true;
  while (!s.disarmed) std::this_thread::yield();
  int signal = 0;
  do {
    need(::ptrace(PTRACE_CONT, child, nullptr, signal) == 0, "PTRACE_CONT");
    need(::waitpid(child, &status, 0) == child, "waitpid");
    signal = WSTOPSIG(status);
  } while (WIFSTOPPED(status));
  need(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM, "SIGTERM ends it");
}
