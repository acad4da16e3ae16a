// SPDX-License-Identifier: Apache-2.0
// Starting threads of our own in somebody else's program.
#pragma once

#include <csignal>
#include <cutrace/config.hpp>
#include <initializer_list>
#include <thread>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

/// True while the calling thread runs code of the runtime, so that what a sink, a backend or an error handler asks of
/// the session can be refused: it would wait for itself.
inline bool& inside_runtime() noexcept {
  static thread_local bool inside = false;
  return inside;
}

/// A thread that the kernel never picks for the program's signals: a program that waits for one with sigwait blocks it
/// in all of its own threads, and would be ended by it if one of ours let it through. Faults stay ours.
/// No template, since each kind of function that std::thread takes is compiled anew.
inline std::thread start_thread(void (*run)(void* state), void* state) {
  sigset_t all, before;
  sigfillset(&all);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT}) sigdelset(&all, fault);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  struct restore {
    const sigset_t& mask;
    ~restore() { pthread_sigmask(SIG_SETMASK, &mask, nullptr); }
  } at_end{before};
  return std::thread(run, state);
}

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
