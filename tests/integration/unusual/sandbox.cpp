// SPDX-License-Identifier: Apache-2.0
// A program that forbids itself system calls while it is traced.
//
//   sandbox all [much]   all threads may make those alone that docs/one-runtime.md lists, or the process is killed
//   sandbox refuse N...  all threads are refused the calls of these names
//   sandbox strict       one thread may only read, write and end (SECCOMP_MODE_STRICT)
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <cutrace/cutrace.hpp>
#include <string>
#include <thread>
#include <vector>

#include "../../support/need.hpp"

namespace {

using test_support::need;

struct call {
  const char* name;
  unsigned number;
};
#define CALL(name) \
  { #name, SYS_##name }

/// What the runtime's threads and sinks of files do while they trace and when they end. docs/one-runtime.md has the
/// same list.
const std::vector<call> of_the_runtime = {
    CALL(futex),         CALL(write),           CALL(read),      CALL(openat), CALL(close),     CALL(fstat),
    CALL(clock_gettime), CALL(getpid),          CALL(gettid),    CALL(tgkill), CALL(prlimit64), CALL(mmap),
    CALL(mremap),        CALL(munmap),          CALL(mprotect),  CALL(brk),    CALL(madvise),   CALL(rt_sigprocmask),
    CALL(rt_sigpending), CALL(rt_sigtimedwait), CALL(exit),
#ifdef SYS_newfstatat
    CALL(newfstatat),
#endif
#ifdef SYS_rename
    CALL(rename),
#endif
    CALL(renameat),      CALL(ftruncate),       CALL(fallocate),
};
/// The program's own.
const std::vector<call> of_the_program = {CALL(clock_nanosleep), CALL(nanosleep), CALL(exit_group)};

/// For all threads. `listed`: what happens at the calls of the list, and at all others.
bool restrict_calls(const std::vector<call>& list, unsigned listed, unsigned others) {
  std::vector<sock_filter> program = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
  for (const call& c : list) {
    program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, c.number, 0, 1));
    program.push_back(BPF_STMT(BPF_RET | BPF_K, listed));
  }
  program.push_back(BPF_STMT(BPF_RET | BPF_K, others));
  const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter) == 0;
}

int no_seccomp() {
  std::printf("no seccomp here\n");
  return 0;
}

/// Long enough for all that the runtime does each second.
void work() {
  for (int i = 0; i < 60; ++i) {
    CUTRACE_STAGE("step");
    ::usleep(25000);
  }
}

int all(bool much) {
  std::vector<call> list = of_the_runtime;
  list.insert(list.end(), of_the_program.begin(), of_the_program.end());
  cutrace::session trace;
  if (!restrict_calls(list, SECCOMP_RET_ALLOW, SECCOMP_RET_KILL_PROCESS)) return no_seccomp();
  work();
  for (int i = 0; much && i < 20000; ++i) CUTRACE_MARK("more");  // files of more than a MiB get their blocks ahead
  trace.stop();
  return 0;
}

int refuse(int count, char** names) {
  std::vector<call> list;
  for (int i = 0; i < count; ++i)
    for (const call& c : of_the_runtime)
      if (std::strcmp(c.name, names[i]) == 0) list.push_back(c);
  need(list.size() == static_cast<std::size_t>(count), "all are known");
  cutrace::session trace;
  if (!restrict_calls(list, SECCOMP_RET_ERRNO | EPERM, SECCOMP_RET_ALLOW)) return no_seccomp();
  work();
  trace.stop();
  return 0;
}

/// In strict mode; on x86 Linux takes the time stamp counter from such a thread (arch/x86/kernel/process.c,
/// disable_TSC), and with it every clock that needs no system call.
bool has_clock() {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0) ::_exit(0);
    static_cast<void>(cutrace::clock::ticks(true));
    ::syscall(SYS_exit, 0);
  }
  int status = 1;
  need(child > 0 && ::waitpid(child, &status, 0) == child, "fork");
  return status == 0;
}

int strict() {
  if (!has_clock()) return no_seccomp();
  cutrace::session trace;
  std::atomic<bool> done{false}, possible{true};
  std::thread([&] {
    { CUTRACE_STAGE("step"); }  // a thread's first marker makes system calls
    possible = ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0;
    for (int i = 1; possible && i < 1000; ++i) CUTRACE_STAGE("step");
    done = true;
    ::syscall(SYS_exit, 0);  // the one way that is left
  }).detach();
  while (!done) ::usleep(1000);
  trace.stop();
  return possible ? 0 : no_seccomp();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "all") return all(argc > 2);
  if (what == "refuse") return refuse(argc - 2, argv + 2);
  if (what == "strict") return strict();
  return 2;
}
