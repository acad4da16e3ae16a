// SPDX-License-Identifier: Apache-2.0
// A CUDA program that does 40 launches and leaves without returning from main, as its argument says; or that looks at
// its signals first. run_leaves_test.cpp compares it with itself untraced.
#undef NDEBUG  // one of them fails an assert

#include <dlfcn.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cassert>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "../../support/gpu_program.hpp"

namespace {

void work(int launches) {
  static test_support::gpu_device device;
  device.launch(nullptr, launches);
  DO(cuStreamSynchronize, nullptr);
}

void say(const char* text) { static_cast<void>(!::write(1, text, std::strlen(text))); }

int status_of(pid_t child) {
  int status = 0;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 99;
}

void own_handler(int) { say("own handler\n"); }
void handler_that_leaves(int) { ::_exit(21); }
void other_handler(int, siginfo_t*, void*) {}

const char* name_of(void (*h)(int)) {
  return h == SIG_DFL        ? "default"
         : h == SIG_IGN      ? "ignored"
         : h == &own_handler ? "own"
         : h == SIG_ERR      ? "error"
                             : "another";
}

/// All ways to set and to read what a signal does, while there is a trace.
void look_at_signals() {
  int (*const set)(int, const struct sigaction*, struct sigaction*) = &::sigaction;
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"  // of sigset
  for (const int s : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGABRT, SIGUSR1}) {
    struct sigaction a {
    }, b{};
    b.sa_flags = -1;
    ::sigaction(s, nullptr, &b);
    std::printf("%d: %s %x %d;", s, name_of(b.sa_handler), static_cast<unsigned>(b.sa_flags),
                ::sigismember(&b.sa_mask, SIGUSR2));
    std::printf(" signal %s", name_of(::signal(s, &own_handler)));
    std::printf(" %s", name_of(::signal(s, SIG_DFL)));
    std::printf(" %s", name_of(::signal(s, SIG_IGN)));
    std::printf(" %s;", name_of(::signal(s, SIG_DFL)));
    a.sa_handler = SIG_DFL;
    a.sa_flags = SA_RESTART | SA_NODEFER;
    ::sigaddset(&a.sa_mask, SIGUSR2);
    std::printf(" sigaction %d", set(s, &a, &a));  // one object for both
    std::printf(" %s", name_of(a.sa_handler));
    ::sigaction(s, nullptr, &b);
    std::printf(" %s %d %d %d", name_of(b.sa_handler), (b.sa_flags & SA_SIGINFO) != 0, (b.sa_flags & SA_NODEFER) != 0,
                ::sigismember(&b.sa_mask, SIGUSR2));
    b.sa_sigaction = &other_handler;
    b.sa_flags = SA_SIGINFO;
    ::sigaction(s, &b, &a);
    std::printf(" %s", name_of(a.sa_handler));
    ::sigaction(s, &a, &b);
    std::printf(" %d", b.sa_sigaction == &other_handler);
    std::printf(" %s", name_of(::sigset(s, SIG_DFL)));
    const pid_t child = ::fork();
    if (child == 0) {
      ::sigaction(s, nullptr, &b);
      ::_exit(b.sa_handler == SIG_DFL ? 7 : 8);
    }
    std::printf(" child %d", status_of(child));
    errno = 0;
    std::printf(" wrong %d %d\n", ::sigaction(SIGKILL, &a, nullptr), errno);
  }
  std::fflush(stdout);
}

/// The number of the signal that killed the child, else 0.
int signal_of(pid_t child) {
  int status = 0;
  return ::waitpid(child, &status, 0) == child && WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

int children(int exit_status) {
  for (int i = 0; i < 3; ++i) {
    const pid_t left = ::fork();
    if (left == 0) ::_exit(30 + i);
    std::printf("%d ", status_of(left));
    const pid_t ended = ::fork();
    if (ended == 0) {
      ::raise(SIGTERM);
      ::_exit(1);
    }
    std::printf("%d ", signal_of(ended));
    const pid_t with_our_memory = ::vfork();
    if (with_our_memory == 0) ::_exit(40 + i);
    std::printf("%d ", status_of(with_our_memory));
    const pid_t other = ::vfork();
    if (other == 0) {
      ::execl("/bin/sh", "sh", "-c", "exit 50", static_cast<char*>(nullptr));
      ::_exit(127);
    }
    std::printf("%d\n", status_of(other));
  }
  work(20);
  std::fflush(stdout);
  ::_exit(exit_status);
}

/// A signal that only sigsuspend lets in, while it is left at its default.
void suspended() {
  sigset_t all, none;
  ::sigemptyset(&none);
  ::sigemptyset(&all);
  ::sigaddset(&all, SIGTERM);
  ::sigprocmask(SIG_BLOCK, &all, nullptr);
  ::kill(::getpid(), SIGTERM);
  ::sigsuspend(&none);
  say("sigsuspend has returned\n");
}

/// Blocks a signal that the program then takes by sigwait, so that it never ends the program.
void block(int signal) {
  sigset_t one;
  ::sigemptyset(&one);
  ::sigaddset(&one, signal);
  ::pthread_sigmask(SIG_BLOCK, &one, nullptr);
}
void await_termination() {
  sigset_t one;
  ::pthread_sigmask(SIG_BLOCK, nullptr, &one);
  ::kill(::getpid(), SIGTERM);
  int which = 0;
  ::sigwait(&one, &which);
  std::printf("got %d\n", which);
}

void execs(char** argv) {
  char* const variables[] = {const_cast<char*>("A=1"), nullptr};
  std::printf("%d", ::execl("/no/such/program", "x", static_cast<char*>(nullptr)));
  std::printf(" %d", ::execlp("no-such-program", "x", static_cast<char*>(nullptr)));
  std::printf(" %d", ::execle("/no/such/program", "x", static_cast<char*>(nullptr), variables));
  std::printf(" %d", ::execv("/no/such/program", argv));
  std::printf(" %d", ::execvp("no-such-program", argv));
  std::printf(" %d", ::execvpe("no-such-program", argv, variables));
  std::printf(" %d\n", ::execve("/no/such/program", argv, variables));
  std::fflush(stdout);
  work(20);
  ::execle("/bin/sh", "sh", "-c", "echo $0 $1 $A; exit 9", "zero", "one", static_cast<char*>(nullptr), variables);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string how = argc > 1 ? argv[1] : "";
  if (how == "early") ::_exit(3);  // before there is a trace
  if (how == "abort_awaited") block(SIGABRT);
  if (how == "awaited") block(SIGTERM);  // before there are other threads
  work(20);
  if (how == "children") return children(4);
  if (how == "exec") return execs(argv), 1;
  work(20);
  say("worked\n");
  if (how == "_exit") ::_exit(11);
  if (how == "_Exit") std::_Exit(12);
  if (how == "quick_exit") {
    std::at_quick_exit([] { say("at quick exit\n"); });
    std::quick_exit(13);
  }
  if (how == "thread") {
    std::thread([] { ::_exit(14); }).join();
  }
  if (how == "handler") {
    ::signal(SIGTERM, &handler_that_leaves);
    ::raise(SIGTERM);
  }
  if (how == "abort") std::abort();
  if (how == "assert") assert(argc == 0);
  if (how == "throw") throw std::runtime_error("nobody catches it");
  if (how == "suspended") suspended();
  if (how == "awaited") return await_termination(), 15;
  if (how == "signals") return look_at_signals(), 16;
  if (how == "own") {  // its handler, then the default again
    ::signal(SIGTERM, &own_handler);
    ::raise(SIGTERM);
    ::signal(SIGTERM, SIG_DFL);
    ::raise(SIGTERM);
  }
  if (how == "ignored") {
    ::signal(SIGINT, SIG_IGN);
    ::raise(SIGINT);
    say("goes on\n");
    return 17;
  }
  if (how == "many") {  // threads leave at once and while the trace ends
    std::vector<std::thread> all;
    for (int i = 0; i < 200; ++i)
      all.emplace_back([i] {
        ::usleep(static_cast<useconds_t>(i) * 50);
        ::_exit(18);
      });
    for (std::thread& t : all) t.join();
  }
  if (how == "at_exit") {  // this thread gets a signal while it ends the trace
    std::thread([main_thread = ::pthread_self()] {
      ::usleep(100000);
      ::pthread_kill(main_thread, SIGTERM);
    }).detach();
    return 24;
  }
  if (how == "abort_awaited") {  // SIGABRT is the program's to wait for
    int which = 0;
    sigset_t one;
    ::sigemptyset(&one);
    ::sigaddset(&one, SIGABRT);
    ::kill(::getpid(), SIGABRT);
    ::sigwait(&one, &which);
    std::printf("got %d\n", which);
    return 22;
  }
  if (how == "flagged") {  // a default with flags is one, too
    struct sigaction a {};
    a.sa_flags = SA_SIGINFO;
    a.sa_sigaction = nullptr;
    ::sigaction(SIGTERM, &a, nullptr);
    ::raise(SIGTERM);
  }
  if (how == "chained") {  // libc's own sigaction returns cutrace's handler, which the program's handler then calls
    static struct sigaction before;
    const auto set = reinterpret_cast<int (*)(int, const struct sigaction*, struct sigaction*)>(
        dlsym(dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD), "sigaction"));
    struct sigaction a {};
    a.sa_flags = SA_SIGINFO;
    a.sa_sigaction = [](int s, siginfo_t* i, void* c) {
      if ((before.sa_flags & SA_SIGINFO) != 0) before.sa_sigaction(s, i, c);
    };
    set(SIGTERM, &a, &before);
    ::raise(SIGTERM);
    say("goes on\n");
    return 23;
  }
  if (how == "looks_for_cupti") {  // there is none
    for (void* handle : {static_cast<void*>(RTLD_DEFAULT), static_cast<void*>(RTLD_NEXT), dlopen(nullptr, RTLD_NOW)})
      for (const char* name : {"cuptiSubscribe", "cuptiActivityRegisterCallbacks", "cuptiActivityEnable"}) {
        void* const found = dlsym(handle, name);
        std::printf("%d %d\n", found == nullptr, dlerror() != nullptr);
      }
    return 24;
  }
  if (how == "floods") {  // more than a pipe takes that nobody reads
    work(20000);
    ::_exit(19);
  }
  if (how == "number") ::raise(std::atoi(argv[2]));
  return 99;
}
