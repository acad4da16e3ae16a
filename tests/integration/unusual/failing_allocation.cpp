// SPDX-License-Identifier: Apache-2.0
// Each allocation of a session's life fails in turn, alone or with all that come after it, on the program's thread or
// on any. The session is then inert, or its trace lacks what it says that it lacks; it never throws, and one that
// begins when there is memory again is whole.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cutrace/cutrace.hpp>
#include <cutrace/sinks/memory.hpp>
#include <new>

#include "../../support/need.hpp"
#include "../../support/replaced_allocation.hpp"

namespace {

using test_support::need;

struct {
  std::atomic<long> until_failure{-1};  ///< allocations; negative: none fails
  bool only_first_thread = false, all_from_there = false;
  std::atomic<bool> has_failed{false};
} memory;
thread_local bool is_first_thread = false;
thread_local std::size_t bytes_before = 0;

void* get(std::size_t bytes, std::size_t alignment) noexcept {
  // Of allocations of one size in a row only the first is counted and may fail: queues make thousands of nodes.
  const bool is_first = bytes != bytes_before || memory.until_failure == 0;
  bytes_before = bytes;
  if (is_first && memory.until_failure >= 0 && (is_first_thread || !memory.only_first_thread) &&
      --memory.until_failure < 0) {
    if (memory.all_from_there) memory.until_failure = 0;
    memory.has_failed = true;
    return nullptr;
  }
  return alignment != 0 ? std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment)
                        : std::malloc(bytes);
}
void* get_or_throw(std::size_t bytes, std::size_t alignment) {
  void* p = get(bytes, alignment);
  if (p == nullptr) throw std::bad_alloc();
  return p;
}

void step() {
  CUTRACE_STAGE("step");
  CUTRACE_MARK("mark");
  CUTRACE_COUNT("steps", 1);
  const unsigned long requests[] = {1, 2, 3};
  CUTRACE_STAGE_BATCH("batch", requests, 3);
  cutrace::span s = CUTRACE_SPAN("span");
}

void one_life() noexcept {  // what is thrown ends the process
  cutrace::session trace;
  step();
  trace.flush();
  trace.pause();
  trace.resume();
  cutrace::session joining;
  step();
  joining.stop();
  trace.stop();
  const cutrace::stats s = trace.stats();
  need(s.produced == s.delivered + s.lost_total(), "what is lost is counted");
}

cutrace::memory_sink first_sink, second_sink;

/// A session that waits for its first sink, which may find no memory. The second one does.
void waiting_life() noexcept {
  cutrace::session_options o;
  o.sinks = "";
  cutrace::session trace(o);
  try {
    trace.add_sink(first_sink);
  } catch (const cutrace::config_error&) {
  }
  memory.until_failure = -1;
  if (!trace.active()) return;
  trace.add_sink(second_sink);
  step();
  trace.stop();
  int stages = 0;
  for (const cutrace::event& e : second_sink.events()) stages += e.kind == cutrace::event_kind::stage ? 1 : 0;
  need(stages == 3, "a sink that finds memory gets all");
}

/// Whether the n-th allocation was one of the session's.
bool fails(void (*life)() noexcept, long n) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    is_first_thread = true;
    memory.until_failure = n;
    life();
    memory.until_failure = -1;
    cutrace::session trace;
    need(trace.active(), "a session begins when there is memory");
    step();
    trace.stop();
    const std::size_t stage = static_cast<std::size_t>(cutrace::event_kind::stage);
    need(trace.stats().by_kind[stage] == 3, "and records all");
    ::_exit(memory.has_failed ? 0 : 3);
  }
  int status = 0;
  need(::waitpid(child, &status, 0) == child, "waitpid");
  if (status != 0 && !(WIFEXITED(status) && WEXITSTATUS(status) == 3)) {
    std::printf("allocation %ld: status %x\n", n, static_cast<unsigned>(status));
    need(false, "each process ends by itself");
  }
  return status == 0;
}

void try_each(void (*life)() noexcept, bool only_first_thread, bool all_from_there) {
  memory.only_first_thread = only_first_thread;
  memory.all_from_there = all_from_there;
  long n = 0;
  while (fails(life, n)) ++n;
  std::printf("%ld allocations\n", n);
  need(n > (life == one_life ? 50 : 30), "there were some");
}

}  // namespace

void* test_support::allocate(std::size_t bytes, std::size_t alignment) { return get_or_throw(bytes, alignment); }
void* operator new(std::size_t n, const std::nothrow_t&) noexcept { return get(n, 0); }
void* operator new(std::size_t n, std::align_val_t a, const std::nothrow_t&) noexcept {
  return get(n, static_cast<std::size_t>(a));
}

int main() {
  try_each(one_life, true, false);
  try_each(one_life, true, true);
  try_each(one_life, false, false);  // not all from there on: the collector would deliver nothing
  try_each(waiting_life, true, false);
  try_each(waiting_life, true, true);
  return 0;
}
