// SPDX-License-Identifier: Apache-2.0
// A thread of its own for everything that may hang in a backend: periodic flushes, the flush before a sink's flush,
// and the final stop. Who waits for it does so with a deadline.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cutrace/backend.hpp>
#include <cutrace/detail/own_thread.hpp>
#include <cutrace/detail/reporter.hpp>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

class backend_pump {
 public:
  backend_pump(reporter& errors, std::uint32_t period_ms) : shared_(std::make_shared<shared>(errors, period_ms)) {}
  ~backend_pump() { stop(0); }

  /// `owned` backends die with the pump, unless one never returned from stop; the others belong to `session`.
  CUTRACE_NOINLINE void add(backend* b, bool owned, std::uint64_t session) {
    std::lock_guard<std::mutex> hold(shared_->mutex);
    if (!thread_.joinable()) {
      std::unique_ptr<held> state(new held(shared_));
      thread_ = start_thread(&backend_pump::run, state.get());
      state.release();  // the thread's, which may outlive the pump
    }
    shared_->backends.push_back({b, std::unique_ptr<backend>(owned ? b : nullptr), session});
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
  bool flush(std::uint32_t deadline_ms) { return request(shared::flushing, deadline_ms); }

  /// Stops all backends. False when one did not return in time: its thread is then left behind, with all that it uses.
  CUTRACE_NOINLINE bool stop(std::uint32_t deadline_ms) {
    if (!thread_.joinable()) return true;
    const bool done = request(shared::stopping, deadline_ms);
    if (done) {
      thread_.join();
    } else {
      thread_.detach();  // shared_ keeps itself alive through the thread
      shared_->errors.report("backend", "a backend did not stop within its deadline; its last records are missing");
    }
    return done;
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
    enum what { idle, flushing, stopping, stopping_session };
    shared(reporter& r, std::uint32_t period) : errors(r), period_ms(period) {}
    reporter& errors;
    std::uint32_t period_ms;
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<entry> backends;
    what wanted = idle;
    std::uint32_t deadline_ms = 0;
    std::uint64_t session = 0;  ///< whose backends stop
    std::uint64_t asked = 0;
    std::uint64_t done = 0;
    bool ok = true;
    bool ended = false;
  };
  using held = std::shared_ptr<shared>;

  CUTRACE_NOINLINE bool request(typename shared::what what, std::uint32_t deadline_ms) {
    std::unique_lock<std::mutex> hold(shared_->mutex);
    if (!thread_.joinable() || shared_->ended) return true;
    shared_->wanted = what;
    shared_->deadline_ms = deadline_ms;
    const std::uint64_t ticket = ++shared_->asked;
    shared_->changed.notify_all();
    const auto limit = std::chrono::milliseconds(deadline_ms);
    const bool in_time = shared_->changed.wait_for(hold, limit, [&] { return shared_->done >= ticket; });
    return in_time && shared_->ok;
  }

  CUTRACE_NOINLINE static void run(void* state) {
    const std::unique_ptr<held> own(static_cast<held*>(state));
    const held& s = *own;
    inside_runtime() = true;
    std::unique_lock<std::mutex> hold(s->mutex);
    for (;;) {
      s->changed.wait_for(hold, std::chrono::milliseconds(s->period_ms), [&] { return s->asked > s->done; });
      const std::uint64_t ticket = s->asked;
      const typename shared::what what = ticket > s->done ? s->wanted : shared::flushing;
      const std::uint32_t deadline = ticket > s->done ? s->deadline_ms : 1000;
      const std::uint64_t session = s->session;
      hold.unlock();
      // Without the lock: `backends` only grows while this thread runs, and shrinks only here.
      const bool ok = serve(*s, what, deadline, session);
      hold.lock();
      s->ok = ok;
      s->done = ticket;
      s->ended = what == shared::stopping;
      s->changed.notify_all();
      if (s->ended) return;
    }
  }

  /// A backend that throws, against its contract, has failed; the program goes on.
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
      if (b != nullptr) ok = (what == shared::flushing ? b->flush(deadline_ms) : b->stop(deadline_ms)) && ok;
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
