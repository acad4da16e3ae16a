// SPDX-License-Identifier: Apache-2.0
// The calls that a thread is in, innermost last. Each is known by the address of its frame, so that those which a
// longjmp or an exception has left are recognised: frames of calls that go on lie above the one of a new call.
#pragma once

#include <pthread.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cutrace/config.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace preload CUTRACE_LOCAL {

struct open_call {
  std::uintptr_t frame;
  std::uint64_t begin_ticks;
  std::uint64_t stage;
  std::uint32_t hook;  ///< number of the hooked function
  std::uint32_t correlation;
  std::uint32_t timing;  ///< an event_ticket (event_pool.hpp)
};

struct thread_calls {
  static constexpr std::uint32_t limit = 100;
  static constexpr std::size_t bytes = 4096;

  std::uint32_t depth;
  bool busy;  ///< our own code runs: a call that comes meanwhile, from a signal's handler, is passed on and counted
  std::uint32_t next_id, ids_left;        ///< correlation ids that the thread has taken in advance
  int* error;                             ///< this thread's errno
  std::uintptr_t stack_begin, stack_end;  ///< of its own stack: handlers of signals may have another
  open_call open[limit];

  /// Code with this frame runs: takes off the calls that have been left by then. These are calls whose frames lie at or
  /// below it on the same kind of stack (the thread's own, or another: a signal handler's), and all calls on another
  /// stack once the thread is back on its own. Calls `left(call)` for each.
  template <class Left>
  void leave_below(std::uintptr_t frame, Left left) noexcept {
    const bool own_stack = is_own(frame);
    while (depth != 0) {
      const std::uintptr_t top = open[depth - 1].frame;
      if (is_own(top) == own_stack ? top > frame : !own_stack) return;
      left(open[--depth]);
    }
  }
  template <class Left>
  void leave_all(Left left) noexcept {
    while (depth != 0) left(open[--depth]);
  }

  /// The calling thread's object, made at first use; null before set_up, and where there is no memory. Lives until the
  /// thread ends; calls by later destructors get another one.
  static thread_calls* own() noexcept {
    thread_calls* t = current();
    return t != nullptr ? t : attach();
  }
  static thread_calls* existing() noexcept { return current(); }

  /// To be called once, before the first call. `ended(thread_calls&)` is called on each thread that has an object, when
  /// the thread ends; not on one that calls `exit`.
  static void set_up(void (*ended)(thread_calls&)) noexcept {
    at_end() = ended;
    usable() = pthread_key_create(&key(), &end) == 0;
  }

 private:
  bool is_own(std::uintptr_t address) const noexcept { return address >= stack_begin && address < stack_end; }

  void find_stack() noexcept {
    pthread_attr_t attributes;
    void* lowest = nullptr;
    std::size_t size = 0;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0) return;
    if (pthread_attr_getstack(&attributes, &lowest, &size) == 0) {
      stack_begin = reinterpret_cast<std::uintptr_t>(lowest);
      stack_end = stack_begin + size;
    }
    pthread_attr_destroy(&attributes);
  }

  static thread_calls*& current() noexcept {
    static thread_local thread_calls* calls = nullptr;
    return calls;
  }
  static pthread_key_t& key() noexcept {
    static pthread_key_t k;
    return k;
  }
  static bool& usable() noexcept {
    static bool is = false;
    return is;
  }
  static void (*&at_end() noexcept)(thread_calls&) {
    static void (*f)(thread_calls&) = nullptr;
    return f;
  }
  /// The object is a mapping, not malloc's: it goes back where the thread ends. find_stack does use malloc, once a
  /// thread (glibc's pthread_getattr_np).
  __attribute__((noinline)) static thread_calls* attach() noexcept {
    if (!usable()) return nullptr;
    void* page = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return nullptr;
    current() = static_cast<thread_calls*>(page);
    current()->error = &errno;
    const int kept = errno;
    current()->find_stack();
    errno = kept;
    pthread_setspecific(key(), page);
    return current();
  }
  static void end(void* page) noexcept {
    thread_calls* t = static_cast<thread_calls*>(page);
    at_end()(*t);
    current() = nullptr;
    munmap(page, bytes);
  }
};
static_assert(sizeof(thread_calls) <= thread_calls::bytes, "one page a thread");

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
