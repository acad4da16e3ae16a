// SPDX-License-Identifier: Apache-2.0
// How a program leaves without exit: by _exit, exec, or a signal that is left at its default.
//
// This library's signal handlers are invisible: the program reads SIG_DFL instead, and what it sets replaces them.
#include "watch.hpp"

#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstddef>

namespace {

using cutrace::detail::watched;
using namespace cutrace::watch;

using handler = void (*)(int);
using action = struct sigaction;
next<int(int, const action*, action*)> next_sigaction("sigaction");
next<handler(int, handler)> next_signal("signal"), next_bsd_signal("bsd_signal"), next_ssignal("ssignal"),
    next_sysv_signal("sysv_signal"), next_sysv_signal_too("__sysv_signal"), next_sigset("sigset");
next<void(int)> next_exit("_exit"), next_exit_too("_Exit");
next<int(const char*, char*const*, char*const*)> next_execve("execve"), next_execvpe("execvpe");
next<int(const char*, char*const*)> next_execv("execv"), next_execvp("execvp");
next<int(int, char* const*, char* const*)> next_fexecve("fexecve");
next<int(int, const char*, char* const*, char* const*, int)> next_execveat("execveat");

// Signals -----------------------------------------------------------------------------------------------------------

/// Those that people and systems end programs with: terminals, job schedulers, a pipe that nobody reads, timers,
/// limits; and that of abort.
constexpr int signals[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT, SIGABRT, SIGPIPE,   SIGALRM,
                           SIGUSR1, SIGUSR2, SIGXCPU, SIGXFSZ, SIGPROF, SIGVTALRM, SIGIO};
/// What the program would read where our handler stands.
action shown[sizeof(signals) / sizeof(signals[0])];

action* shown_of(int signal) noexcept {
  for (std::size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); ++i)
    if (signals[i] == signal) return &shown[i];
  return nullptr;
}

bool is_usual(const action& a) noexcept { return a.sa_handler == SIG_DFL; }  // whatever its flags say
bool is_ours(const action& a) noexcept;

/// Ends the trace, then the process by the same signal: it is sent again, and taken as soon as this returns, so that a
/// core file shows the program where it was. Also where another thread has put the default back since it came. Does
/// nothing where the program's own handler goes on to this one, which it has found by a way that this library does not
/// see.
void on_signal(int signal, siginfo_t*, void* context) {
  const int before = errno;
  const auto set = next_sigaction.get();
  action now{};
  if (set(signal, nullptr, &now) == 0 && !is_ours(now) && !is_usual(now)) return;
  happens(watched::end);
  action usual{};
  usual.sa_handler = SIG_DFL;
  set(signal, &usual, nullptr);
  ::sigdelset(&static_cast<ucontext_t*>(context)->uc_sigmask, signal);  // else blocked again if it came in sigsuspend
  if (::syscall(SYS_tgkill, ::syscall(SYS_getpid), ::syscall(SYS_gettid), signal) != 0 &&
      ::syscall(SYS_kill, ::syscall(SYS_getpid), signal) != 0)
    ::syscall(SYS_exit_group, 128 + signal);  // a seccomp filter forbids both
  errno = before;
}

bool is_ours(const action& a) noexcept { return (a.sa_flags & SA_SIGINFO) != 0 && a.sa_sigaction == &on_signal; }

/// One thread at a time sets a signal and looks at what stands there. A forked child may find it held for ever: after
/// a while it goes on without.
class one_at_a_time {
 public:
  one_at_a_time() noexcept {
    sigset_t all;
    ::sigfillset(&all);
    ::sigprocmask(SIG_SETMASK, &all, &before_);
    for (int i = 0; i < 10000 && busy_.exchange(true, std::memory_order_acquire); ++i) ::sched_yield();
  }
  one_at_a_time(const one_at_a_time&) = delete;
  one_at_a_time& operator=(const one_at_a_time&) = delete;
  ~one_at_a_time() {
    busy_.store(false, std::memory_order_release);
    ::sigprocmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  static inline std::atomic<bool> busy_{false};
  sigset_t before_;
};

/// Puts our handler where the signal is left at its default. The caller holds one_at_a_time.
void stand_in(int signal) noexcept {
  const auto set = next_sigaction.get();
  action was{};
  if (set(signal, nullptr, &was) != 0 || !is_usual(was)) return;
  *shown_of(signal) = was;
  action ours{};
  ours.sa_sigaction = &on_signal;
  ours.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
  ::sigfillset(&ours.sa_mask);
  set(signal, &ours, nullptr);
}

void arm(listener_function call) noexcept {
  const one_at_a_time alone;
  listener.store(call, std::memory_order_release);
  if (::getpid() == 1) return;  // the first process of a container is not ended by signals at their default
  for (const int signal : signals) stand_in(signal);
}

void disarm() noexcept {
  const one_at_a_time alone;
  listener.store(nullptr, std::memory_order_release);
  for (const int signal : signals) {
    action was{};
    if (next_sigaction.get()(signal, nullptr, &was) == 0 && is_ours(was))
      next_sigaction.get()(signal, shown_of(signal), nullptr);
  }
}

/// After the program has set a signal to its default. The caller holds one_at_a_time.
void has_default(int signal) noexcept {
  if (listener.load(std::memory_order_acquire) != nullptr && ::getpid() != 1) stand_in(signal);
}

/// What the program reads as the former handler, where that was `was`.
handler read_as(handler was) noexcept {
  return reinterpret_cast<void*>(was) == reinterpret_cast<void*>(&on_signal) ? SIG_DFL : was;
}

handler set_by(next<handler(int, handler)>& with, int signal, handler to) noexcept {
  if (shown_of(signal) == nullptr) return with.get()(signal, to);
  const one_at_a_time alone;
  const handler was = with.get()(signal, to);
  if (was == SIG_ERR) return was;
  if (to == SIG_DFL) has_default(signal);
  return read_as(was);
}

// exec --------------------------------------------------------------------------------------------------------------

/// Arguments of execl and its like, in the caller's frame: they may be called between vfork and exec.
#define COLLECT(all, first)                                                              \
  std::size_t count = 1;                                                                 \
  va_list counted, copied;                                                               \
  va_start(counted, first);                                                              \
  va_copy(copied, counted);                                                              \
  while (va_arg(counted, char*) != nullptr) ++count;                                     \
  va_end(counted);                                                                       \
  char** const all = static_cast<char**>(__builtin_alloca((count + 1) * sizeof(char*))); \
  all[0] = const_cast<char*>(first);                                                     \
  for (std::size_t i = 1; i <= count; ++i) all[i] = va_arg(copied, char*);

__attribute__((constructor(101))) void find_all() {
  next_sigaction.get(), next_signal.get(), next_exit.get(), next_exit_too.get(), next_execve.get(), next_execv.get();
  next_execvp.get(), next_execvpe.get();
}

}  // namespace

extern "C" {

EXPORTED extern const cutrace::detail::process_watch cutrace_watch_1;
const cutrace::detail::process_watch cutrace_watch_1{&arm, &disarm};

EXPORTED int sigaction(int signal, const action* to, action* before) noexcept {
  if (shown_of(signal) == nullptr) return next_sigaction.get()(signal, to, before);
  const bool is_default = to != nullptr && is_usual(*to);
  const one_at_a_time alone;
  const action read = *shown_of(signal);
  const int result = next_sigaction.get()(signal, to, before);
  if (result != 0) return result;
  if (before != nullptr && is_ours(*before)) *before = read;
  if (is_default) has_default(signal);
  return result;
}
EXPORTED handler signal(int number, handler to) noexcept { return set_by(next_signal, number, to); }
EXPORTED handler bsd_signal(int number, handler to) noexcept { return set_by(next_bsd_signal, number, to); }
EXPORTED handler ssignal(int number, handler to) noexcept { return set_by(next_ssignal, number, to); }
EXPORTED handler sysv_signal(int number, handler to) noexcept { return set_by(next_sysv_signal, number, to); }
EXPORTED handler __sysv_signal(int number, handler to) noexcept { return set_by(next_sysv_signal_too, number, to); }
/// The real one also returns whether the signal is blocked, so it is called before one_at_a_time blocks all of them.
EXPORTED handler sigset(int number, handler to) noexcept {
  const handler was = next_sigset.get()(number, to);
  if (shown_of(number) == nullptr || was == SIG_ERR) return was;
  const one_at_a_time alone;
  if (to == SIG_DFL) has_default(number);
  return read_as(was);
}

EXPORTED void _exit(int status) {
  happens(watched::end);
  if (const auto real = next_exit.get()) real(status);
  for (;;) ::syscall(SYS_exit_group, status);
}
EXPORTED void _Exit(int status) noexcept {
  happens(watched::end);
  if (const auto real = next_exit_too.get()) real(status);
  for (;;) ::syscall(SYS_exit_group, status);
}

EXPORTED int execve(const char* file, char* const* arguments, char* const* variables) noexcept {
  happens(watched::exec);
  return next_execve.get()(file, arguments, variables);
}
EXPORTED int execv(const char* file, char* const* arguments) noexcept {
  happens(watched::exec);
  return next_execv.get()(file, arguments);
}
EXPORTED int execvp(const char* file, char* const* arguments) noexcept {
  happens(watched::exec);
  return next_execvp.get()(file, arguments);
}
EXPORTED int execvpe(const char* file, char* const* arguments, char* const* variables) noexcept {
  happens(watched::exec);
  return next_execvpe.get()(file, arguments, variables);
}
EXPORTED int fexecve(int file, char* const* arguments, char* const* variables) noexcept {
  happens(watched::exec);
  return next_fexecve.get()(file, arguments, variables);
}
EXPORTED int execveat(int folder, const char* file, char* const* arguments, char* const* variables,
                      int flags) noexcept {
  happens(watched::exec);
  return next_execveat.get()(folder, file, arguments, variables, flags);
}
EXPORTED int execl(const char* file, const char* first, ...) noexcept {
  COLLECT(all, first)
  va_end(copied);
  return execv(file, all);
}
EXPORTED int execlp(const char* file, const char* first, ...) noexcept {
  COLLECT(all, first)
  va_end(copied);
  return execvp(file, all);
}
EXPORTED int execle(const char* file, const char* first, ...) noexcept {
  COLLECT(all, first)
  char** const variables = va_arg(copied, char**);
  va_end(copied);
  return execve(file, all, variables);
}
}
