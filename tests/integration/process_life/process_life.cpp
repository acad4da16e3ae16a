// SPDX-License-Identifier: Apache-2.0
// A program that lives and ends as its argument says; process_life_test.cpp looks at what it leaves. Its sinks come
// from CUTRACE_SINKS.
#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cutrace/collect/status_block.hpp>
#include <cutrace/cutrace.hpp>
#include <cutrace/sinks/jsonl.hpp>
#include <cutrace/sinks/memory.hpp>
#include <cwchar>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "../../support/forked_leaks.hpp"
#include "../../support/need.hpp"
#include "../../support/sanitized.hpp"

namespace {

using test_support::need;

void pass(int n) {
  for (int i = 0; i < n; ++i) {
    CUTRACE_STAGE("step", i);
    CUTRACE_MARK("within");
  }
}

int end_of(pid_t child) {
  int status = 0;
  need(::waitpid(child, &status, 0) == child, "waitpid");
  need(WIFEXITED(status), "the child ended by itself");
  return WEXITSTATUS(status);
}

/// Threads that open and close stages until `end` stops them, or for ever.
struct noise {
  explicit noise(int n) {
    for (int i = 0; i < n; ++i)
      threads.emplace_back([this] {
        while (!stop.load(std::memory_order_relaxed)) {
          for (int k = 0; k < 20; ++k) CUTRACE_STAGE("noise");
          has_begun = true;
          ::usleep(100);  // or the test reads gigabytes
        }
      });
  }
  void end() {
    stop = true;
    for (std::thread& t : threads) t.join();
  }
  std::atomic<bool> stop{false}, has_begun{false};
  std::vector<std::thread> threads;
};

// fork ------------------------------------------------------------------------------------------------------------

int fork_before_session() {
  const pid_t child = ::fork();
  {
    cutrace::session trace;
    pass(child == 0 ? 10 : 20);
  }
  return child == 0 ? 0 : end_of(child);
}

/// What a child of a traced process may do; nothing of it may reach the parent's files.
void live_as_child(cutrace::session& trace) {
  for (int i = 0; i < 100000; ++i) {
    CUTRACE_STAGE("in child", i);
    CUTRACE_MARK("in child");
  }
  CUTRACE_STAGE_DYNAMIC("in child", "text");
  if (sanitized) return;
  cutrace::span s = CUTRACE_SPAN("in child");
  s.end();
  std::thread([] { CUTRACE_STAGE("in child"); }).join();
  trace.pause();
  trace.resume();
  trace.flush();
  { cutrace::session another; }
  { CUTRACE_STAGE("in child"); }
}

/// `end`: return (through the session's destructor), stop, exit, _exit or quick_exit.
int fork_while_tracing(const std::string& end) {
  cutrace::session trace;
  noise& n = *new noise(2);  // never destroyed in the child, which has its threads' handles but not the threads
  pass(100);
  CUTRACE_STAGE("open while forking");
  for (int round = 0; round < 5; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      live_as_child(trace);
      if (end == "stop") trace.stop();
      if (end == "exit") std::exit(0);
      if (end == "_exit") ::_exit(0);
      if (end == "quick_exit") std::quick_exit(0);
      return 0;
    }
    need(end_of(child) == 0, "the child's status");
    pass(100);
  }
  n.end();
  delete &n;
  return 0;
}

// exit ------------------------------------------------------------------------------------------------------------

cutrace::session* leaked = nullptr;

int leak(const std::string& end) {
  leaked = new cutrace::session();
  pass(100);
  if (end == "exit") std::exit(7);
  if (end == "thread") std::thread([] { std::exit(7); }).join();
  if (end == "flush_quick_exit" || end == "flush_abort") {
    need(leaked->flush(), "flush");
    pass(50);
    if (end == "flush_abort") std::abort();
    std::quick_exit(7);
  }
  return 7;
}

int return_while_threads_run() {
  leaked = new cutrace::session();
  static noise* n = new noise(4);
  for (std::thread& t : n->threads) t.detach();
  pass(200);
  return 0;
}

// order of destruction ----------------------------------------------------------------------------------------------

struct late_marker {
  const char* name;
  explicit late_marker(const char* n) : name(n) {}
  ~late_marker() {
    CUTRACE_STAGE_DYNAMIC(name);
    CUTRACE_MARK("late");
  }
};

void mark_in_key(void*) { CUTRACE_STAGE("in key destructor"); }

void touch_thread_locals(pthread_key_t key) {
  thread_local late_marker made_before_first_marker("in thread_local destructor");
  pthread_setspecific(key, &made_before_first_marker);
  CUTRACE_STAGE("step");
}

int late_markers() {
  static late_marker in_static("in static destructor");
  pthread_key_t before{}, after{};
  pthread_key_create(&before, &mark_in_key);
  auto trace = std::make_unique<cutrace::session>();
  pthread_key_create(&after, &mark_in_key);  // the runtime's own key lies between the two
  for (int i = 0; i < 50; ++i)
    std::thread([&] {
      touch_thread_locals(before);
      pthread_setspecific(after, &before);
    }).join();
  touch_thread_locals(before);
  // One that ends when the session is gone.
  std::atomic<bool> gone{false};
  std::thread last([&] {
    touch_thread_locals(after);
    while (!gone) std::this_thread::yield();
    touch_thread_locals(after);
  });
  trace.reset();
  gone = true;
  last.join();
  return 0;
}

std::atomic<bool> lingers{false}, may_end{false};

void linger(void*) {
  lingers = true;
  while (!may_end) std::this_thread::yield();
  CUTRACE_STAGE("after lingering");
}

/// A thread waits in a destructor that runs after the runtime's own. Threads that begin meanwhile must not get its
/// state.
int lingering_thread() {
  cutrace::session trace;
  pthread_key_t after{};
  pthread_key_create(&after, &linger);
  std::thread slow([&] {
    { CUTRACE_STAGE("before lingering"); }
    pthread_setspecific(after, &after);
    std::printf("%ld\n", static_cast<long>(::syscall(SYS_gettid)));
  });
  while (!lingers) std::this_thread::yield();
  std::vector<std::thread> threads;
  std::atomic<int> running{0};
  for (int i = 0; i < 20; ++i) {
    need(trace.flush(), "flush");  // the collector has looked whether the thread is gone
    threads.emplace_back([&running] {
      { CUTRACE_STAGE("step"); }
      ++running;
      while (!may_end) std::this_thread::yield();
    });
  }
  while (running != 20) std::this_thread::yield();
  may_end = true;
  slow.join();
  for (std::thread& t : threads) t.join();
  return 0;
}

struct failing_at_close : cutrace::sink {
  void write(cutrace::event_view) override {}
  void close(const cutrace::trace_summary&) override { throw cutrace::error("no room to close"); }
};

/// A sink that never returns from one of its functions, from `write` once it has seen a stage.
struct blocked_sink : cutrace::sink {
  explicit blocked_sink(std::string in) : where(std::move(in)) {}
  void write(cutrace::event_view events) override {
    for (const cutrace::event& e : events)
      if (e.kind == cutrace::event_kind::stage) stay("write");
    if (events.size != 0) stay("first write");
  }
  void flush() override { stay("flush"); }
  void close(const cutrace::trace_summary&) override { stay("close"); }
  void stay(const char* here) const {
    while (where == here) ::pause();
  }
  const char* name() const noexcept override { return where == "close" ? "closing" : "user"; }
  std::string where;
};

int blocked_sink_holds_up(const std::string& end, const std::string& where) {
  cutrace::session_options o;
  o.sink_deadline_ms = 300;
  static cutrace::session* trace = nullptr;
  trace = new cutrace::session(o);
  trace->emplace_sink<blocked_sink>(where);
  if (end == "twice") trace->emplace_sink<blocked_sink>("close");
  trace->emplace_sink<cutrace::jsonl_sink>("behind.jsonl");
  pass(100);
  if (end == "flush") {
    trace->flush(100);  // in vain
    pass(100);
  }
  if (end == "exit") std::exit(7);
  if (end == "other session") {
    {
      cutrace::session other(o);
      other.emplace_sink<blocked_sink>("close");
      other.emplace_sink<cutrace::jsonl_sink>("other.jsonl");
      pass(10);
    }
    pass(10);
  }
  trace->stop();
  pass(10);
  o.on_error = [](const char*, const char* line, void*) { std::printf("%s\n", line); };
  cutrace::session another(o);
  need(!another.active(), "a session after one that hangs is inert");
  o.sinks = "";
  cutrace::session idle(o);
  idle.emplace_sink<blocked_sink>("close");  // gets nothing
  delete trace;
  return 7;
}

/// A sink that returns after the session has stopped waiting for it and is gone: its trace must still be in memory.
struct late_sink : cutrace::sink {
  static inline std::atomic<bool> may_return{false}, returned{false};
  void write(cutrace::event_view events) override {
    for (const cutrace::event& e : events)
      while (e.kind == cutrace::event_kind::stage && !may_return) ::usleep(1000);
    if (may_return) returned = true;
  }
};

int late_sink_returns() {
  cutrace::session_options o;
  o.sink_deadline_ms = 300;
  {
    cutrace::session trace(o);
    trace.emplace_sink<late_sink>();
    pass(100);
    trace.stop();
  }
  late_sink::may_return = true;
  while (!late_sink::returned) ::usleep(1000);
  for (int i = 0; i < 200; ++i) {  // its collector goes on from there
    pass(10);
    ::usleep(1000);
  }
  return 0;
}

/// A sink that takes its time to close.
struct slow_sink : cutrace::sink {
  void write(cutrace::event_view) override {}
  void close(const cutrace::trace_summary&) override { ::sleep(4); }
};

int slow_sink_closes() {
  cutrace::session trace;
  trace.emplace_sink<slow_sink>();
  pass(100);
  return 0;
}

/// A sink that ends the program while it is handed events.
struct exiting_sink : cutrace::sink {
  void write(cutrace::event_view events) override {
    for (const cutrace::event& e : events)
      if (e.kind == cutrace::event_kind::stage) std::exit(3);
  }
};

int exit_in_sink() {
  cutrace::session_options o;
  o.sink_deadline_ms = 300;
  static cutrace::session* trace = new cutrace::session(o);
  trace->emplace_sink<exiting_sink>();
  for (;;) {
    pass(10);
    ::usleep(1000);
  }
}

/// The program's error handler ends the program: while a session begins, or while the runtime ends the trace at exit.
int exit_in_handler(const std::string& when) {
  cutrace::session_options o;
  static cutrace::session* trace = nullptr;
  o.on_error = [](const char*, const char*, void* user) {
    if (user != nullptr) std::exit(3);
    if (trace != nullptr) static_cast<void>(trace->stats());
  };
  static char ends = 0;
  if (when == "begin") o.on_error_user = &ends;
  if (when == "begin") {
    o.backend = "auto";  // "joins that trace" is reported to the first session's handler
    trace = new cutrace::session(o);
    cutrace::session second;
    return 9;
  }
  trace = new cutrace::session(o);
  trace->emplace_sink<failing_at_close>();
  pass(10);
  std::exit(3);
}

/// A sink that keeps the collector from reading until it is let go.
struct holding_sink : cutrace::sink {
  void write(cutrace::event_view events) override {
    for (const cutrace::event& e : events)
      if (e.kind == cutrace::event_kind::stage) holds = true;
    while (holds && !free) ::usleep(1000);
  }
  std::atomic<bool> holds{false}, free{false};
};

/// `count` threads, all alive at once, each with a few stages in two rounds. With `before_a_pass`, the collector makes
/// no pass (reads nothing) while they live.
int many_threads(int count, bool before_a_pass) {
  cutrace::session trace;
  holding_sink* held = nullptr;
  if (before_a_pass) {
    held = &trace.emplace_sink<holding_sink>();
    for (pass(1); !held->holds;) ::usleep(1000);
  }
  std::atomic<int> first{0}, second{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i)
    threads.emplace_back([&] {
      pass(2);
      ++first;
      while (first != count) ::usleep(1000);
      pass(2);
      ++second;
      while (second != count) ::usleep(1000);
    });
  for (std::thread& t : threads) t.join();
  if (held != nullptr) held->free = true;
  return 0;
}

struct static_user {
  ~static_user() { pass(10); }
};
static_user destroyed_after_session;

int session_in_static() {
  static cutrace::session trace;
  static static_user destroyed_before_session;
  pass(100);
  return 0;
}

// load ------------------------------------------------------------------------------------------------------------

int storm(int threads) {
  cutrace::session_options o;
  o.overflow = cutrace::overflow_policy::wait;
  o.overflow_wait_us = 600 * 1000 * 1000;
  cutrace::session trace(o);
  for (int done = 0; done < threads; done += 50) {
    std::vector<std::thread> some;
    for (int i = 0; i < 50; ++i) some.emplace_back([] { pass(3); });
    for (std::thread& t : some) t.join();
  }
  trace.stop();
  std::printf("%llu KiB\n", static_cast<unsigned long long>(trace.stats().memory_bytes >> 10));
  return 0;
}

int pause_under_load(int rounds) {
  cutrace::session trace;
  noise n(4);
  while (!n.has_begun) ::usleep(100);  // on a busy machine it may else begin when all is over
  std::vector<std::thread> switches;
  for (int i = 0; i < 3; ++i)
    switches.emplace_back([&] {
      for (int k = 0; k < rounds; ++k) {
        trace.pause();
        trace.resume();
      }
    });
  for (std::thread& t : switches) t.join();
  trace.pause();
  { CUTRACE_STAGE("while paused"); }
  trace.resume();
  { CUTRACE_STAGE("after the last resume"); }
  n.end();
  trace.stop();
  const cutrace::stats s = trace.stats();
  need(s.produced == s.delivered + s.lost_total(), "produced = delivered + lost");
  return 0;
}

int stop_twice() {
  cutrace::session trace;
  pass(100);
  trace.stop();
  const cutrace::stats first = trace.stats();
  pass(5);
  trace.stop();
  const cutrace::stats second = trace.stats();
  need(first.produced != 0 && first.produced == second.produced && first.delivered == second.delivered,
       "statistics stay");
  trace.pause();
  trace.resume();
  need(trace.flush(), "flush after the end");
  pass(5);
  return 0;
}

/// Two threads open a session each at the same moment: both exist, and what comes then reaches both.
int start_at_once(int rounds) {
  for (int round = 0; round < rounds; ++round) {
    std::atomic<int> ready{0}, open{0};
    std::atomic<bool> done{false};
    std::size_t seen[2] = {};
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < 2; ++i)
      threads.emplace_back([&, i] {
        cutrace::memory_sink sink;
        ++ready;
        while (ready != 2) {
        }
        cutrace::session_options o;
        o.on_error = [](const char*, const char*, void*) {};  // "joins that trace", as it should be
        cutrace::session trace(o);
        trace.add_sink(sink);
        ++open;
        while (!done) std::this_thread::yield();
        trace.stop();
        for (const cutrace::event& e : sink.events()) seen[i] += std::string(e.name.data) == "both see this";
      });
    while (open != 2) std::this_thread::yield();
    for (int i = 0; i < 10; ++i) CUTRACE_STAGE("both see this");
    done = true;
    for (std::thread& t : threads) t.join();
    need(seen[0] == 10 && seen[1] == 10, "both sessions got all ten stages");
  }
  return 0;
}

/// cutrace writes to a standard stream that is a pipe without a reader: SIGPIPE must not end this program.
int unread(int stream) {
  int both[2];
  need(::pipe(both) == 0 && ::dup2(both[1], stream) == stream, "a pipe");
  ::close(both[0]);
  ::close(both[1]);
  {
    cutrace::session trace;
    pass(100);
  }
  sigset_t pending;
  need(::sigpending(&pending) == 0 && ::sigismember(&pending, SIGPIPE) == 0, "no SIGPIPE waits");
  need(::signal(SIGPIPE, SIG_DFL) == SIG_DFL, "SIGPIPE is the program's own");
  return 7;
}

/// The program's own wide output, after what cutrace had to say.
int wide_errors() {
  {
    cutrace::session trace;
    pass(100);
  }
  return std::fwprintf(stderr, L"wide\n") == 5 ? 7 : 1;
}

/// No file may become larger than one byte.
int small_files() {
  const rlimit one{1, 1};
  need(::setrlimit(RLIMIT_FSIZE, &one) == 0, "setrlimit");
  {
    cutrace::session trace;
    pass(100);
  }
  return 7;
}

/// The trace that the command wants cannot begin. That of the program's own session can, and is not the command's.
int own_session() {
  {
    cutrace::session_options o;
    o.sinks = "null";
    cutrace::session own(o);
    need(own.active(), "a session with sinks of its own");
    pass(100);
  }
  cutrace::detail::status_block block;
  std::ifstream in(std::getenv("CUTRACE_RUN") + ("/" + std::to_string(::getpid()) + ".1.status"), std::ios::binary);
  need(in.read(reinterpret_cast<char*>(&block), sizeof(block)).good(), "status");
  need(block.state_now() == cutrace::detail::run_state::untraced, "the command's trace was never made");
  need(std::strstr(block.message, "no/such/folder") != nullptr, "why");
  need(block.stages == 0, "stages are not the command's");
  return 7;
}

/// Sinks of the program's own sessions fail, more of them than are counted; that of the command does not.
int many_sessions() {
  const pid_t child = ::fork();
  if (child == 0) {
    cutrace::session_options o;
    o.sinks = "";
    o.on_error = [](const char*, const char*, void*) {};
    cutrace::session first(o);
    o.sinks = "jsonl:/dev/full";
    for (int i = 0; i < 20; ++i) {
      cutrace::session own(o);
      pass(10);
    }
    std::exit(0);
  }
  need(end_of(child) == 0, "the child ended well");
  cutrace::detail::status_block block;
  std::ifstream in(std::getenv("CUTRACE_RUN") + ("/" + std::to_string(child) + ".1.status"), std::ios::binary);
  need(in.read(reinterpret_cast<char*>(&block), sizeof(block)).good(), "status");
  need(block.state_now() == cutrace::detail::run_state::ended, "the command's trace has ended");
  need(block.sink_count == 1, "the command has one sink");
  need(block.sinks[0].failed == 0, "it did not fail");
  need(block.sinks[0].lost == 0, "it lost nothing");
  need(block.sinks[0].written > 400, "it has all");
  return 7;
}

int plain() {
  cutrace::session trace;
  pass(100);
  need(trace.flush(), "flush");
  trace.stop();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const std::string what = argv[1], how = argc > 2 ? argv[2] : "";
  if (what == "plain") return plain();
  if (what == "unread") return unread(std::atoi(how.c_str()));
  if (what == "wide_errors") return wide_errors();
  if (what == "small_files") return small_files();
  if (what == "own_session") return own_session();
  if (what == "many_sessions") return many_sessions();
  if (what == "fork_before_session") return fork_before_session();
  if (what == "fork_while_tracing") return fork_while_tracing(how);
  if (what == "leak") return leak(how);
  if (what == "return_while_threads_run") return return_while_threads_run();
  if (what == "late_markers") return late_markers();
  if (what == "lingering_thread") return lingering_thread();
  if (what == "blocked_sink") return blocked_sink_holds_up(how, argc > 3 ? argv[3] : "write");
  if (what == "slow_sink") return slow_sink_closes();
  if (what == "late_sink") return late_sink_returns();
  if (what == "exit_in_sink") return exit_in_sink();
  if (what == "exit_in_handler") return exit_in_handler(how);
  if (what == "many_threads") return many_threads(std::atoi(how.c_str()), false);
  if (what == "many_threads_before_a_pass") return many_threads(std::atoi(how.c_str()), true);
  if (what == "session_in_static") return session_in_static();
  if (what == "storm") return storm(std::atoi(how.c_str()));
  if (what == "pause_under_load") return pause_under_load(std::atoi(how.c_str()));
  if (what == "stop_twice") return stop_twice();
  if (what == "start_at_once") return start_at_once(std::atoi(how.c_str()));
  return 2;
}
