// SPDX-License-Identifier: Apache-2.0
// A thread of its own for all calls of a backend that may hang: polls for old records, the flush before a sink's flush,
// the begin and end of windows, and the final stop. Callers wait for this thread with a deadline.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cutrace/backend.hpp>
#include <cutrace/base/helper_thread.hpp>
#include <cutrace/collect/reporter.hpp>
#include <cutrace/run/sampling.hpp>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

class backend_pump {
 public:
  /// Backends are polled each `period_ms`.
  backend_pump(reporter& errors, std::uint32_t period_ms) : shared_(std::make_shared<shared>(errors, period_ms)) {}
  ~backend_pump() { stop(0); }

  /// `owned` backends die with the pump, unless one never returned from stop; the others belong to `session`.
  CUTRACE_NOINLINE void add(backend* b, bool owned, std::uint64_t session) {
    std::lock_guard<std::mutex> hold(shared_->mutex);
    start();
    shared_->backends.reserve(shared_->backends.size() + 1);  // else `b` would be lost without memory for its entry
    shared_->backends.push_back({b, std::unique_ptr<backend>(owned ? b : nullptr), session});
    if (!shared_->open) b->suspend();
  }

  /// Opens and closes windows as `how` says. `gate(true)` is called when a window opens (after the backends record
  /// again), `gate(false)` when it closes (before the backends rest), on the pump's thread, and not after `stop` has
  /// returned.
  CUTRACE_NOINLINE void sample(const sampling& how, std::function<void(bool)> gate) {
    {
      std::lock_guard<std::mutex> hold(shared_->mutex);
      shared_->samples = how;
      shared_->gate = std::move(gate);
      shared_->begun = sampling::clock::now();
      start();
      // Backends record already; a window that the program has opened before keeps them so.
      if (shared_->open_at(shared_->begun)) shared_->turn_gate(true);
    }
    request(shared::turning, 1000);
  }

  /// The program has opened `n` windows before there was a trace, which are still to be closed.
  void add_windows(std::uint32_t n) {
    std::lock_guard<std::mutex> hold(shared_->mutex);
    shared_->windows_wanted += n;
  }

  /// Opens a window. True: it is open, until close_window has been called as often as open_window. False: the deadline
  /// has passed; close_window must be called all the same.
  CUTRACE_NOINLINE bool open_window(std::uint32_t deadline_ms) {
    {
      std::lock_guard<std::mutex> hold(shared_->mutex);
      ++shared_->windows_wanted;
      if (!shared_->samples.gated()) return true;
      if (shared_->open && shared_->windows_wanted > 1) return true;  // open, and nobody is about to close it
    }
    static_cast<void>(request(shared::turning, deadline_ms));
    std::lock_guard<std::mutex> hold(shared_->mutex);
    return shared_->open;
  }
  CUTRACE_NOINLINE void close_window() {
    std::lock_guard<std::mutex> hold(shared_->mutex);
    if (shared_->windows_wanted == 0 || --shared_->windows_wanted != 0 || !shared_->samples.gated()) return;
    ++shared_->asked;
    shared_->changed.notify_all();
  }

  /// Whether a session brought backends along.
  bool has_backends_of(std::uint64_t session) {
    std::lock_guard<std::mutex> hold(shared_->mutex);
    return std::any_of(shared_->backends.begin(), shared_->backends.end(),
                       [session](const entry& e) { return e.session == session; });
  }
  /// Stops the backends that a session brought along and forgets them.
  CUTRACE_NOINLINE bool stop_of(std::uint64_t session, std::uint32_t deadline_ms) {
    {
      std::lock_guard<std::mutex> hold(shared_->mutex);
      shared_->session = session;
    }
    return request(shared::stopping_session, deadline_ms);
  }

  /// True when every backend handed over what it had before the call, within the deadline.
  bool flush(std::uint32_t deadline_ms, bool unfinished = false) {
    return request(unfinished ? shared::forcing : shared::flushing, deadline_ms);
  }

  /// Stops all backends. False when one did not return in time: its thread is then left behind, with all that it uses.
  CUTRACE_NOINLINE bool stop(std::uint32_t deadline_ms) {
    if (!thread_.joinable()) return true;
    const bool done = request(shared::stopping, deadline_ms);
    if (done) {
      thread_.join();
    } else {
      {
        std::lock_guard<std::mutex> hold(shared_->gate_mutex);
        shared_->gate = nullptr;
      }
      thread_.detach();  // shared_ keeps itself alive through the thread
      shared_->errors.report("backend", "a backend did not stop within its deadline; its last records are missing");
    }
    return done;
  }

  /// Has the backends polled at once. Any thread, also one that holds locks of a backend: where the pump's lock is
  /// taken, nothing happens until the next regular poll.
  void request_poll() noexcept {
    const std::unique_lock<std::mutex> hold(shared_->mutex, std::try_to_lock);
    if (!hold.owns_lock()) return;
    shared_->wanted |= shared::polling;
    ++shared_->asked;
    shared_->changed.notify_all();
  }

  template <class Action>
  void for_each(Action action) {
    std::lock_guard<std::mutex> hold(shared_->mutex);
    for (entry& e : shared_->backends) action(*e.which);
  }

 private:
  struct entry {
    backend* which;
    std::unique_ptr<backend> owner;
    std::uint64_t session;
  };
  struct shared {
    // Bits of `wanted`. turning: only wakes the thread, which opens or closes the window where that is due.
    enum what : unsigned { turning = 0, flushing = 1, stopping_session = 2, stopping = 4, polling = 8, forcing = 16 };
    /// After a window has closed, backends are still polled for that long: for work that was running when it closed.
    static constexpr std::chrono::seconds linger{1};
    /// A request that a thread waits for, on its stack. Made and destroyed with the lock held.
    struct asker {
      asker(shared& in, unsigned wanted_one, std::uint64_t number)
          : of(in), what(wanted_one), ticket(number), next(in.askers) {
        in.askers = this;
      }
      asker(const asker&) = delete;
      asker& operator=(const asker&) = delete;
      ~asker() {
        asker** at = &of.askers;
        while (*at != this) at = &(*at)->next;
        *at = next;
      }
      shared& of;
      const unsigned what;
      const std::uint64_t ticket;
      asker* next;
      bool served = false, ok = false;
    };
    shared(reporter& r, std::uint32_t period) : errors(r), period_ms(period) {}
    reporter& errors;
    const std::uint32_t period_ms;  ///< between two polls
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<entry> backends;
    unsigned wanted = 0;
    std::uint32_t deadline_ms = 0;
    std::uint64_t session = 0;  ///< whose backends stop
    std::uint64_t asked = 0;
    std::uint64_t done = 0;
    asker* askers = nullptr;  ///< all that wait
    bool ended = false;

    sampling samples;
    std::mutex gate_mutex;
    std::function<void(bool)> gate;
    sampling::clock::time_point begun, closed;
    std::uint32_t windows_wanted = 0;  ///< by the program
    bool open = true;

    void turn_gate(bool to) {
      std::lock_guard<std::mutex> hold(gate_mutex);
      if (gate) gate(to);
    }
    bool open_at(sampling::clock::time_point t) const { return samples.open(t - begun, windows_wanted != 0); }
    bool rests(sampling::clock::time_point t) const { return !open && t - closed > linger; }
    /// When to look at the clock again.
    sampling::clock::time_point next(sampling::clock::time_point t) const {
      const sampling::clock::duration poll = rests(t) ? std::chrono::hours(1) : std::chrono::milliseconds(period_ms);
      const sampling::clock::duration edge =
          samples.gated() ? samples.until_edge(t - begun) : sampling::clock::duration::max();
      return t + (poll < edge ? poll : edge);
    }
  };
  using held = std::shared_ptr<shared>;

  /// With the lock held.
  CUTRACE_NOINLINE void start() {
    if (thread_.joinable()) return;
    std::unique_ptr<held> state(new held(shared_));
    thread_ = start_thread(&backend_pump::run, state.get());
    state.release();  // the thread's, which may outlive the pump
  }

  CUTRACE_NOINLINE bool request(typename shared::what what, std::uint32_t deadline_ms) {
    std::unique_lock<std::mutex> hold(shared_->mutex);
    if (!thread_.joinable() || shared_->ended) return true;
    shared_->wanted |= what;
    shared_->deadline_ms = deadline_ms;
    typename shared::asker mine(*shared_, what, ++shared_->asked);
    shared_->changed.notify_all();
    shared_->changed.wait_for(hold, std::chrono::milliseconds(deadline_ms), [&mine] { return mine.served; });
    return mine.ok;
  }

  CUTRACE_NOINLINE static void run(void* state) {
    const std::unique_ptr<held> own(static_cast<held*>(state));
    const held& s = *own;
    inside_runtime() = true;
    std::unique_lock<std::mutex> hold(s->mutex);
    for (;;) {
      s->changed.wait_until(hold, s->next(sampling::clock::now()), [&] { return s->asked > s->done; });
      const std::uint64_t ticket = s->asked;
      unsigned what = s->wanted;
      const std::uint32_t deadline = (what & ~unsigned{shared::polling}) != 0 ? s->deadline_ms : 1000;
      const std::uint64_t session = s->session;
      s->wanted = 0;
      const bool turns = s->open != s->open_at(sampling::clock::now());
      if (turns) {
        turn(*s, hold);
        what |= s->open ? 0u : unsigned{shared::flushing};
      } else if (ticket == s->done && !s->rests(sampling::clock::now())) {
        what = shared::polling;
      }
      hold.unlock();
      // Without the lock: `backends` only grows while this thread runs, and shrinks only here.
      unsigned failed = 0;
      for (const auto one :
           {shared::stopping_session, shared::polling, shared::flushing, shared::forcing, shared::stopping})
        if ((what & one) != 0 && !serve(*s, one, deadline, session)) failed |= one;
      hold.lock();
      // Each has its own answer: it may look when later requests have been served.
      for (typename shared::asker* a = s->askers; a != nullptr; a = a->next) {
        if (a->served || a->ticket > ticket) continue;
        a->served = true;
        a->ok = (a->what & failed) == 0;
      }
      s->done = ticket;
      s->ended = (what & shared::stopping) != 0;
      s->changed.notify_all();
      if (s->ended) return;
    }
  }

  /// Has a backend rest or go on, which may take for ever.
  static void call_unlocked(shared& s, std::size_t i, void (backend::*what)() noexcept,
                            std::unique_lock<std::mutex>& hold) noexcept {
    backend* const b = s.backends[i].which;
    hold.unlock();
    (b->*what)();
    hold.lock();
  }

  /// Opens or closes the window. Calls are let in last and shut out first, so that none is recorded without its GPU
  /// work.
  CUTRACE_NOINLINE static void turn(shared& s, std::unique_lock<std::mutex>& hold) {
    const bool open = !s.open;
    if (!open) {
      const std::size_t count = s.backends.size();  // what is added from here on is suspended there
      s.open = false;
      hold.unlock();
      s.turn_gate(false);
      hold.lock();
      for (std::size_t i = 0; i < count; ++i) call_unlocked(s, i, &backend::suspend, hold);
      s.closed = sampling::clock::now();
      return;
    }
    std::size_t i = 0;
    for (; i < s.backends.size(); ++i) call_unlocked(s, i, &backend::restart, hold);
    hold.unlock();
    s.turn_gate(true);
    hold.lock();
    for (; i < s.backends.size(); ++i) call_unlocked(s, i, &backend::restart, hold);  // added meanwhile
    s.open = true;
  }

  static bool ask(backend& b, typename shared::what what, std::uint32_t deadline_ms, std::uint32_t period_ms) noexcept {
    if (what == shared::polling) return b.poll(period_ms, deadline_ms);
    if (what == shared::forcing) return b.flush_unfinished(deadline_ms);
    return what == shared::flushing ? b.flush(deadline_ms) : b.stop(deadline_ms);
  }

  /// Calls every backend, or those of `session` where these stop. @returns whether all succeeded
  CUTRACE_NOINLINE static bool serve(shared& s, typename shared::what what, std::uint32_t deadline_ms,
                                     std::uint64_t session) noexcept {
    bool ok = true;
    for (std::size_t i = 0;;) {
      backend* b = nullptr;
      {
        std::lock_guard<std::mutex> hold(s.mutex);
        if (i == s.backends.size()) return ok;
        if (what != shared::stopping_session || s.backends[i].session == session) b = s.backends[i].which;
      }
      if (b != nullptr) ok = ask(*b, what, deadline_ms, s.period_ms) && ok;
      std::lock_guard<std::mutex> hold(s.mutex);
      if (b != nullptr && what == shared::stopping_session)
        s.backends.erase(s.backends.begin() + static_cast<std::ptrdiff_t>(i));
      else
        ++i;
    }
  }

  std::shared_ptr<shared> shared_;
  std::thread thread_;
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
