// SPDX-License-Identifier: Apache-2.0
// A program that does what its argument says while it is traced; unusual_test.cpp looks at what it leaves. Its sinks
// come from CUTRACE_SINKS.
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cutrace/base/helper_thread.hpp>
#include <cutrace/collect/runtime_core.hpp>
#include <cutrace/cutrace.hpp>
#include <cutrace/sink.hpp>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "../../support/forked_leaks.hpp"
#include "../../support/need.hpp"

#ifndef CLONE_NEWTIME  // glibc before 2.33
#define CLONE_NEWTIME 0x00000080
#endif

namespace {

using test_support::need;

int step() {
  CUTRACE_STAGE("step");
  return 0;
}

// threads ---------------------------------------------------------------------------------------------------------

void* wait_for_ever(void*) {
  for (;;) ::pause();
}

/// The kernel gives this user no further thread.
int no_thread() {
  if (::getuid() == 0) {  // whom no limit holds
    // The limit counts all threads of a user: one of another process that ends meanwhile would make room.
    const uid_t nobody_else = 40000 + static_cast<uid_t>(::getpid()) % 20000;
    need(::setgroups(0, nullptr) == 0 && ::setgid(65534) == 0 && ::setuid(nobody_else) == 0, "setuid");
  }
  const rlimit few{3, 3};
  need(::setrlimit(RLIMIT_NPROC, &few) == 0, "setrlimit");
  for (pthread_t t{}; ::pthread_create(&t, nullptr, &wait_for_ever, nullptr) == 0;) {
  }
  {
    cutrace::session trace;
    step();
    std::printf("active %d\n", trace.active());
  }
  std::fflush(stdout);
  ::_exit(4);
}

/// Names of the threads of this process that are bound to fewer processors than it was given, or run in a real-time
/// class.
std::vector<std::string> bound_threads(int given) {
  std::vector<std::string> bound;
  DIR* all = ::opendir("/proc/self/task");
  while (const dirent* one = ::readdir(all)) {
    const pid_t thread = std::atoi(one->d_name);
    if (thread == 0 || thread == ::getpid()) continue;
    cpu_set_t on;
    CPU_ZERO(&on);
    need(::sched_getaffinity(thread, sizeof(on), &on) == 0, "sched_getaffinity");
    if (CPU_COUNT(&on) != given || ::sched_getscheduler(thread) != SCHED_OTHER) bound.push_back(one->d_name);
  }
  ::closedir(all);
  return bound;
}

/// A SCHED_FIFO thread bound to one processor opens the session: a thread that inherited both might never run.
int real_time() {
  cpu_set_t before, one;
  CPU_ZERO(&before);
  CPU_ZERO(&one);
  need(::sched_getaffinity(0, sizeof(before), &before) == 0, "sched_getaffinity");
  int last = 0;
  for (int i = 0; i < CPU_SETSIZE; ++i)
    if (CPU_ISSET(i, &before)) last = i;
  CPU_SET(last, &one);
  need(::sched_setaffinity(0, sizeof(one), &one) == 0, "sched_setaffinity");
  sched_param high{};
  high.sched_priority = 20;
  if (::sched_setscheduler(0, SCHED_FIFO, &high) != 0) std::printf("no real-time class here\n");
  cutrace::session trace;
  need(bound_threads(CPU_COUNT(&before)).empty(), "threads of ours inherit neither class nor processors");
  step();
  trace.stop();
  need(trace.stats().by_kind[static_cast<std::size_t>(cutrace::event_kind::stage)] == 1, "the stage is there");
  return 0;
}

/// The program takes all thread-specific keys before the session, and keeps a value in each.
int all_keys() {
  static unsigned char mine[4096];
  std::memset(mine, 0x11, sizeof(mine));
  std::vector<pthread_key_t> keys;
  for (pthread_key_t k{}; ::pthread_key_create(&k, nullptr) == 0;) keys.push_back(k);
  for (const pthread_key_t k : keys) ::pthread_setspecific(k, mine);
  {
    cutrace::session trace;
    for (int i = 0; i < 50; ++i) std::thread([] { step(); }).join();
    step();
  }
  for (const pthread_key_t k : keys) need(::pthread_getspecific(k) == mine, "keys keep their values");
  for (const unsigned char c : mine) need(c == 0x11, "and these are nobody else's");
  return 0;
}

std::atomic<bool> last_one{false};

/// The thread begins the next one and ends, until a second has passed: none of them lives for long.
void* hand_on(void* begun) {
  if (cutrace::clock::monotonic_ns() - *static_cast<const std::uint64_t*>(begun) > 1000000000) {
    last_one = true;
    return nullptr;
  }
  pthread_t next{};
  need(::pthread_create(&next, nullptr, &hand_on, begun) == 0 && ::pthread_detach(next) == 0, "pthread_create");
  return nullptr;
}

/// `main` ends, and each thread hands on to the next, while a thread of the tracer looks whether it is alone.
int threads_hand_on() {
  cutrace::detail::start_thread(
      [](void*) {
        while (!cutrace::detail::only_ours_are_left()) continue;
        ::_exit(last_one ? 0 : 9);
      },
      nullptr)
      .detach();
  static std::uint64_t begun = cutrace::clock::monotonic_ns();
  hand_on(&begun);
  ::pthread_exit(nullptr);
}

/// `main` ends, its threads go on; nobody ends the process.
int main_thread_leaves() {
  static cutrace::session* trace = new cutrace::session();
  static_cast<void>(trace);
  step();
  std::thread([] {
    for (int i = 0; i < 100; ++i) {
      step();
      ::usleep(3000);
    }
  }).detach();
  ::pthread_exit(nullptr);
}

struct slow_sink final : cutrace::sink {
  const char* name() const noexcept override { return "slow"; }
  void write(cutrace::event_view) override { ::usleep(600000); }
};
cutrace::session* flushed = nullptr;

/// A thread is cancelled while it waits for a flush.
int cancelled() {
  cutrace::session trace;
  trace.emplace_sink<slow_sink>();
  flushed = &trace;
  pthread_t waiting{};
  ::pthread_create(
      &waiting, nullptr,
      [](void*) -> void* {
        step();
        flushed->flush();
        ::pthread_testcancel();
        return nullptr;
      },
      nullptr);
  ::usleep(200000);
  ::pthread_cancel(waiting);
  void* result = nullptr;
  ::pthread_join(waiting, &result);
  need(result == PTHREAD_CANCELED, "it is cancelled once the flush is over");
  need(trace.flush(), "and others can flush");
  return 0;
}

/// A library whose static session waits while this thread's session loads libraries: both want the loader's lock, and
/// the runtime.
int plugin_loads(const char* path, const char* backend) {
  { const cutrace::session first; }  // the runtime is there
  std::thread other([path] {
    if (::dlopen(path, RTLD_NOW | RTLD_LOCAL) == nullptr) std::printf("%s\n", ::dlerror());
  });
  ::usleep(100000);
  cutrace::session_options o;
  o.backend = backend;
  o.sinks = "null";
  std::unique_ptr<cutrace::session> trace;
  try {
    trace = std::make_unique<cutrace::session>(o);
  } catch (const cutrace::config_error&) {  // no backend of that name in this build
  }
  other.join();
  step();
  return 0;
}

// children ----------------------------------------------------------------------------------------------------------

/// A child that no fork handler hears of, which ends by exit.
int system_call_fork(bool ends_session) {
  cutrace::session trace;
  for (int i = 0; i < 20; ++i) step();
  need(trace.flush(), "flush");
  std::fflush(stdout);
  const pid_t child = static_cast<pid_t>(::syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
  if (child == 0) {
    for (int i = 0; i < 100000; ++i) CUTRACE_STAGE("in child");
    if (ends_session) trace.stop();
    std::exit(3);
  }
  int status = 0;
  need(::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 3,
       "the child ends as it says");
  for (int i = 0; i < 20; ++i) step();
  return 0;
}

/// A child whose CLOCK_MONOTONIC is a day ahead.
int time_namespace() {
  if (::unshare(CLONE_NEWTIME) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWTIME) != 0) {
    std::printf("no time namespace here\n");
    return 0;
  }
  const int offsets = ::open("/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC);
  need(offsets >= 0 && ::write(offsets, "monotonic 86400 5\n", 18) == 18, "timens_offsets");
  ::close(offsets);
  const pid_t child = ::fork();
  if (child == 0) {
    {
      cutrace::session trace;
      step();
    }
    std::exit(0);
  }
  int status = 0;
  need(::waitpid(child, &status, 0) == child && status == 0, "the child");
  return 0;
}

// clocks ------------------------------------------------------------------------------------------------------------

struct mark_times final : cutrace::sink {
  void open(const cutrace::trace_info& i) override { start = i.start, clock = i.clock; }
  void write(cutrace::event_view events) override {
    for (const cutrace::event& e : events)
      if (e.kind == cutrace::event_kind::mark) seen.push_back(e.start_ns);
  }
  cutrace::clock_anchor start{};
  std::string clock;
  std::vector<std::int64_t> seen;
};

/// A trace by the processor's counter, also where the kernel does not trust it, as in many virtual machines.
int by_counter() {
  { const cutrace::session first; }  // has chosen a clock
  cutrace::detail::runtime_core::own().scale = cutrace::detail::calibrate(true);
  cutrace::session trace;
  mark_times& marks = trace.emplace_sink<mark_times>();
  std::vector<std::uint64_t> before, after;
  std::thread([&] {
    for (int i = 0; i < 20; ++i) {
      before.push_back(cutrace::clock::monotonic_ns());
      CUTRACE_MARK("now");
      after.push_back(cutrace::clock::monotonic_ns());
      ::usleep(30000);
    }
  }).join();
  trace.stop();
  need(marks.clock != "monotonic", "by the counter");
  need(marks.seen.size() == before.size(), "all marks are there");
  for (std::size_t i = 0; i < before.size(); ++i) {
    const std::int64_t zero = static_cast<std::int64_t>(marks.start.monotonic_ns) - marks.start.trace_ns;
    const std::int64_t at = zero + marks.seen[i], near = 1000000;
    need(at > static_cast<std::int64_t>(before[i]) - near && at < static_cast<std::int64_t>(after[i]) + near,
         "at the times when they were passed");
  }
  return 0;
}

// fibers ------------------------------------------------------------------------------------------------------------

struct fiber {
  static constexpr std::size_t stack_bytes = std::size_t{256} << 10;
  explicit fiber(void (*run)()) {
    stack = ::mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ::getcontext(&here);
    here.uc_stack.ss_sp = stack;
    here.uc_stack.ss_size = stack_bytes;
    here.uc_link = &outside;
    ::makecontext(&here, run, 0);
  }
  void resume() { ::swapcontext(&outside, &here); }
  static void suspend(fiber& self) { ::swapcontext(&self.here, &outside); }
  void free_stack() { ::munmap(stack, stack_bytes); }

  ucontext_t here{};
  void* stack = nullptr;
  static ucontext_t outside;
};
ucontext_t fiber::outside;
fiber *first = nullptr, *second = nullptr;

/// Scopes of two fibers of this thread interleave; the stack of the one that ends first goes.
int fibers() {
  cutrace::session trace;
  fiber a([] {
    CUTRACE_STAGE("first");
    fiber::suspend(*first);
  });
  fiber b([] {
    CUTRACE_STAGE("second");
    fiber::suspend(*second);
  });
  first = &a, second = &b;
  a.resume();
  b.resume();
  a.resume();
  a.free_stack();
  step();  // within the second
  b.resume();
  b.free_stack();
  return step();  // in none
}

struct parents final : cutrace::sink {
  const char* name() const noexcept override { return "parents"; }
  void write(cutrace::event_view events) override {
    for (const cutrace::event& e : events)
      if (e.kind == cutrace::event_kind::mark) seen.push_back(e.stage_id);
  }
  std::vector<std::uint64_t> seen;
};
cutrace::context of_first, of_second;

/// The same with spans: each part of a fiber, up to its next suspension, adopts the context of the fiber's span.
int adopting_fibers() {
  cutrace::session trace;
  parents& marks = trace.emplace_sink<parents>();
  cutrace::span one = CUTRACE_SPAN("first"), other = CUTRACE_SPAN("second");
  of_first = cutrace::context::of(one), of_second = cutrace::context::of(other);
  fiber a([] {
    for (int i = 0; i < 3; ++i) {
      {
        cutrace::adopted_stage keep(of_first);
        CUTRACE_MARK("in first");
      }
      fiber::suspend(*first);
    }
  });
  fiber b([] {
    for (int i = 0; i < 3; ++i) {
      {
        cutrace::adopted_stage keep(of_second);
        CUTRACE_MARK("in second");
      }
      fiber::suspend(*second);
    }
  });
  first = &a, second = &b;
  for (int i = 0; i < 3; ++i) a.resume(), b.resume();
  one.end();
  other.end();
  trace.stop();
  need(marks.seen.size() == 6, "all marks are there");
  for (std::size_t i = 0; i < 6; ++i)
    need(marks.seen[i] == (i % 2 == 0 ? of_first : of_second).id(), "each at the stage that its part had adopted");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "no_thread") return no_thread();
  if (what == "real_time") return real_time();
  if (what == "all_keys") return all_keys();
  if (what == "threads_hand_on") return threads_hand_on();
  if (what == "main_thread_leaves") return main_thread_leaves();
  if (what == "cancelled") return cancelled();
  if (what == "plugin_loads") return plugin_loads(argv[2], argv[3]);
  if (what == "system_call_fork") return system_call_fork(argc > 2);
  if (what == "by_counter") return by_counter();
  if (what == "time_namespace") return time_namespace();
  if (what == "fibers") return fibers();
  if (what == "adopting_fibers") return adopting_fibers();
  return 2;
}
