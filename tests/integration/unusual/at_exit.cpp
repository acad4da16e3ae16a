// SPDX-License-Identifier: Apache-2.0
// A program that passes markers and opens sessions while it ends; unusual_test.cpp looks at what it leaves.
//
//   at_exit orders       markers in everything that runs at the end, before and after a session in a static object
//   at_exit late HOW     a session that is opened when cutrace's exit handler has run, and scoped, or leaked
#include <cstdio>
#include <cstdlib>
#include <cutrace/cutrace.hpp>
#include <string>
#include <thread>

namespace {

/// Passes each kind of marker when it is destroyed.
struct late_marker {
  const char* name;
  explicit late_marker(const char* n) : name(n) {}
  ~late_marker() {
    CUTRACE_STAGE_DYNAMIC(name);
    CUTRACE_COUNT("destroyed", 1);
    cutrace::span whole = CUTRACE_SPAN("span");
    const cutrace::adopted_stage keep(cutrace::context::of(whole));
    CUTRACE_MARK("late");
    std::printf("%s\n", name);
    std::fflush(stdout);
  }
};

late_marker before_main("static object before main");
thread_local late_marker of_thread("thread-local object");

void use(late_marker& m) {
  static late_marker* volatile last;
  last = &m;
  static_cast<void>(last);
}

int orders() {
  std::atexit([] { const late_marker m("handler before the session"); });
  use(of_thread);
  static late_marker before("static object before the session");
  static cutrace::session trace;
  static late_marker after("static object after the session");
  std::atexit([] { const late_marker m("handler after the session"); });
  std::thread([] { use(of_thread); }).join();  // which has no other marker
  return 5;
}

cutrace::session* leaked = nullptr;

void open_late(bool leaks) {
  cutrace::session_options o;
  o.sinks = "jsonl:late.jsonl";
  leaked = new cutrace::session(o);
  { CUTRACE_STAGE("late step"); }
  std::printf("active %d\n", leaked->active());
  std::fflush(stdout);
  if (!leaks) delete leaked;
}

int late(bool leaks) {
  if (leaks)
    std::atexit([] { open_late(true); });
  else
    std::atexit([] { open_late(false); });
  static const cutrace::session trace;
  CUTRACE_STAGE("step");
  return 5;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "orders") return orders();
  if (what == "late") return late(argc > 2 && std::string(argv[2]) == "leaked");
  return 2;
}
