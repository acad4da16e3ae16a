// SPDX-License-Identifier: Apache-2.0
// A hooked call: what the trampoline calls before it, and after it. On the program's threads, inside their calls: takes
// no lock, allocates nothing after a thread's first call, keeps errno, and lets no exception out.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cutrace/backend.hpp>

#include "doors.hpp"
#include "open_calls.hpp"
#include "process.hpp"
#include "signatures.hpp"

CUTRACE_BEGIN_NAMESPACE
namespace preload CUTRACE_LOCAL {

struct calls {
  /// Called when a call comes and nobody records: opens the session of a process that wants one. Returns the session's
  /// writer, or null.
  using opener = event_writer* (*)();
  static opener& first_call() noexcept {
    static opener open = nullptr;
    return open;
  }

  static void enter(call_frame& f) noexcept {
    process& p = process::own();
    const hook& h = p.hooks.at(f.hook_index);
    f.of = &h;
    f.target = h.target;
    f.stack_words = h.stack_words;
    f.recorded = 0;
    if (CUTRACE_UNLIKELY(h.role >= call_role::ends_context))
      around_end(p, [&] { p.events.before_end(h.role, f.word[0]); });
    event_writer* w = p.writer.load(std::memory_order_acquire);
    if (CUTRACE_UNLIKELY(w == nullptr) && (w = nobody_records(p)) == nullptr) return;
    thread_calls* t = thread_calls::own();
    if (CUTRACE_UNLIKELY(t == nullptr || t->busy)) return w->count_loss(loss_cause::chunk_full, 1);
    const int kept = *t->error;
    t->busy = true;
    const auto frame = reinterpret_cast<std::uintptr_t>(&f);
    if (CUTRACE_UNLIKELY(t->depth != 0))
      t->leave_below(frame, [w](const open_call& c) { record_left(*w, c, w->ticks()); });
    if (CUTRACE_LIKELY(t->depth != thread_calls::limit))
      begin(p, *w, *t, f, frame);
    else
      w->count_loss(loss_cause::chunk_full, 1);
    t->busy = false;
    *t->error = kept;
  }

  static void leave(call_frame& f) noexcept {
    process& p = process::own();
    if (CUTRACE_LIKELY(f.recorded != 0)) {
      const std::uint64_t end = clock::ticks(p.use_counter);
      thread_calls& t = *thread_calls::existing();
      const int kept = *t.error;
      event_writer* w = p.writer.load(std::memory_order_acquire);
      const auto frame = reinterpret_cast<std::uintptr_t>(&f);
      t.busy = true;
      if (CUTRACE_UNLIKELY(t.depth != 0 && t.open[t.depth - 1].frame != frame))
        t.leave_below(frame - 1, [w, end](const open_call& c) {
          w != nullptr ? record_left(*w, c, end) : process::own().events.drop(c.timing);
        });
      if (CUTRACE_LIKELY(t.depth != 0 && t.open[t.depth - 1].frame == frame)) {
        --t.depth;
        if (CUTRACE_LIKELY(w != nullptr))
          report(*w, t, t.open[t.depth], f, end);
        else
          p.events.drop(t.open[t.depth].timing);
      } else if (w != nullptr) {  // taken off too early, by a call on a signal handler's own stack
        w->count_loss(loss_cause::unpaired, 1);
      }
      t.busy = false;
      *t.error = kept;
    }
    if (CUTRACE_UNLIKELY(f.of->role != call_role::none)) play(p, f);
  }

  /// An exception, or the end of the thread, leaves the innermost call of this thread. `here`: an address on the stack;
  /// calls with frames at or below it have been left, too.
  static void unwound(std::uintptr_t here) noexcept {
    event_writer* w = process::own().writer.load(std::memory_order_acquire);
    thread_calls* t = thread_calls::existing();
    if (w == nullptr || t == nullptr || t->busy) return;
    t->busy = true;
    const std::uint64_t now = w->ticks();
    t->leave_below(here, [&](const open_call& c) { record_left(*w, c, now); });
    if (t->depth != 0) record_left(*w, t->open[--t->depth], now);
    t->busy = false;
  }

  /// The thread ends, or the process or session does on this thread: all its open calls have been left.
  static void thread_ends(thread_calls& t) noexcept {
    event_writer* w = process::own().writer.load(std::memory_order_acquire);
    if (w == nullptr || t.busy) return;
    t.leave_all([w](const open_call& c) { record_left(*w, c, w->ticks()); });
  }

 private:
  static constexpr std::uint32_t id_block = 1024;

  CUTRACE_NOINLINE static event_writer* nobody_records(process& p) noexcept {
    if (p.off.load(std::memory_order_relaxed) || first_call() == nullptr ||
        p.session.load(std::memory_order_relaxed) == process::settled)
      return p.writer.load(std::memory_order_acquire);
    const int kept = errno;
    event_writer* w = first_call()();
    errno = kept;
    return w;
  }

  /// What is done after a call of some role, beside recording it.
  CUTRACE_NOINLINE static void play(process& p, const call_frame& f) noexcept {
    const bool succeeded = static_cast<std::int32_t>(f.result[0]) == 0;
    const auto out = [&f]() { return *reinterpret_cast<const std::uint64_t*>(f.word[0]); };
    switch (f.of->role) {
      case call_role::gives_functions:
        if (succeeded)
          doors::hook_answer(p, reinterpret_cast<const char*>(f.word[0]), reinterpret_cast<void**>(f.word[1]),
                             f.word[3]);
        break;
      case call_role::names_kernel:
        if (succeeded && p.events.learns()) p.events.names().set(out(), reinterpret_cast<const char*>(f.word[2]));
        break;
      case call_role::converts_kernel:
        if (succeeded && p.events.learns()) p.events.names().set(out(), p.events.names().find(f.word[1]));
        break;
      case call_role::enters_context:
        if (succeeded && p.events.on()) p.events.expect_work();
        break;
      case call_role::ends_context:
      case call_role::ends_primary:
        around_end(p, [&] { p.events.after_end(f.of->role, f.word[0], succeeded); });
        break;
      default:
        break;
    }
  }
  template <class Do>
  static void around_end(process& p, Do act) noexcept {
    if (p.off.load(std::memory_order_relaxed)) return;
    const int kept = errno;
    act();
    errno = kept;
  }

  static void begin(process& p, event_writer& w, thread_calls& t, call_frame& f, std::uintptr_t frame) noexcept {
    if (CUTRACE_UNLIKELY(t.ids_left == 0)) {
      t.next_id = 1 + p.ids_taken.fetch_add(id_block, std::memory_order_relaxed);
      t.ids_left = std::min(id_block, 0u - t.next_id);  // up to the wrap: id 0 means none
    }
    open_call& c = t.open[t.depth];
    c.frame = frame;
    c.hook = f.hook_index;
    c.correlation = t.next_id;
    c.begin_ticks = clock::ticks(p.use_counter);
    // Entered as GPU work only where GPU records will come: for them the runtime keeps the call's stage and time.
    const bool wanted = CUTRACE_UNLIKELY(f.of->timed && p.measures.load(std::memory_order_relaxed));
    const bool timed = wanted && p.events.on();
    c.stage = w.enter(f.hook_index, c.correlation, c.begin_ticks, timed);
    if (CUTRACE_UNLIKELY(c.stage == api_call::not_recorded)) return;
    c.timing = CUTRACE_UNLIKELY(wanted) ? p.events.begin(*f.of, f) : 0;
    ++t.next_id;
    --t.ids_left;
    ++t.depth;
    f.recorded = 1;
  }

  static std::uint32_t enclosing(const thread_calls& t) noexcept {
    return t.depth != 0 ? t.open[t.depth - 1].correlation : 0;
  }

  static void report(event_writer& w, const thread_calls& t, const open_call& of, const call_frame& f,
                     std::uint64_t end) noexcept {
    std::uint64_t words[cupti::word_limit];
    api_call c{};
    c.function = of.hook;
    c.begin_ticks = of.begin_ticks;
    c.end_ticks = end;
    c.correlation = of.correlation;
    c.enclosing = enclosing(t);
    c.result = static_cast<std::int32_t>(f.result[0]);
    c.stage = of.stage;
    c.words = words;
    c.word_count = f.of->shape.read(f, c.result == 0, words);
    if (CUTRACE_UNLIKELY(of.timing != 0)) {
      event_timer& events = process::own().events;
      c.result == 0 ? events.end(of.timing, f.of->timing, of.correlation, words) : events.drop(of.timing);
    }
    w.exit(c);
  }

  static void record_left(event_writer& w, const open_call& of, std::uint64_t end) noexcept {
    const thread_calls& t = *thread_calls::existing();
    api_call c{};
    c.function = of.hook;
    c.begin_ticks = of.begin_ticks;
    c.end_ticks = end;
    c.correlation = of.correlation;
    c.enclosing = enclosing(t);
    c.result = did_not_return;
    c.stage = of.stage;
    process::own().events.drop(of.timing);
    w.exit(c);
  }
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
