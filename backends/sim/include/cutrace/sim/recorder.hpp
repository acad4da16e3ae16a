// SPDX-License-Identifier: Apache-2.0
// Between the simulated GPU and a session: the event writer while there is one, the clock that follows it, and GPU work
// that waits to be complete before it is recorded. Without a writer it records nothing.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <cutrace/backend.hpp>
#include <cutrace/sim/functions.hpp>
#include <cutrace/sim/moment.hpp>
#include <cutrace/sim/options.hpp>
#include <initializer_list>
#include <list>
#include <mutex>
#include <thread>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace sim {

class recorder final : public activity_buffers {
 public:
  /// A host call between its begin and its end.
  struct call {
    function what;
    std::uint32_t correlation = 0;
    std::uint64_t session = 0;  ///< 0: not recorded
    std::uint64_t begin_ticks = 0;
    std::uint64_t stage = 0;
  };

  /// Clock of the model: the writer's raw frame (clock.hpp), shifted to continue where CLOCK_MONOTONIC was. So times
  /// given to the writer are exact in its raw frame, and the clock never goes back when a session starts or ends.
  std::uint64_t now() {
    const std::lock_guard<std::mutex> hold(clock_lock_);
    return source() + offset_;
  }

  void attach(event_writer& w) {
    for (std::uint32_t f = 0; f < function_count; ++f)
      w.name_function(function_id(static_cast<function>(f)), false, describe(static_cast<function>(f)));
    switch_clock(&w);
    ++session_;
    w.offer(this);
    writer_.store(&w);
  }

  /// After it has returned, nothing of this object calls the writer.
  void detach() {
    if (event_writer* w = writer_.load()) w->offer(static_cast<const activity_buffers*>(nullptr));
    writer_.store(nullptr);
    while (users_.load() != 0) std::this_thread::yield();  // until no thread uses the writer
    switch_clock(nullptr);
  }

  void set_paused(bool paused) { paused_.store(paused); }
  void set_suspended(bool suspended) { suspended_.store(suspended); }

  call begin(function f) {
    call c{f, ++last_correlation_, 0, 0, 0};
    const use writer(*this);
    if (!writer || paused_ || suspended_) return c;
    c.session = session_;
    c.begin_ticks = writer->ticks();
    c.stage = writer->enter(function_id(f), c.correlation, c.begin_ticks, describe(f).makes_gpu_work);
    return c;
  }

  void end(const call& c, std::int32_t result, std::initializer_list<std::uint64_t> words) {
    if (c.session == 0) return;
    const use writer(*this);
    if (!writer || session_ != c.session) return;
    api_call a{};
    a.function = function_id(c.what);
    a.begin_ticks = c.begin_ticks;
    a.end_ticks = writer->ticks();
    a.correlation = c.correlation;
    a.result = result;
    a.stage = c.stage;
    a.words = words.begin();
    a.word_count = static_cast<std::uint32_t>(words.size());
    writer->exit(a);
  }

  /// Keeps GPU work until it has ended by the model's clock. `begin` and `end` are times of that clock; with `open`
  /// they are taken from there once known.
  void work(const call& c, gpu_work w, moment_ptr open = nullptr) {
    if (c.session == 0) return;
    w.correlation = c.correlation;
    const std::uint64_t since_ns = now() - offset_;
    std::size_t waiting_now = 0;
    {
      const std::lock_guard<std::mutex> hold(pending_lock_);
      pending_.push_back({w, c.session, since_ns, std::move(open)});
      waiting_now = pending_.size();
    }
    if (waiting_now % 4096 == 0) report();  // a program that never synchronises
  }

  /// Reports what has ended. Returns how many works have not ended.
  std::size_t report() {
    std::vector<waiting> done;
    std::size_t left = 0;
    const std::uint64_t until = now();
    const reporting mine(*this);
    {
      const std::lock_guard<std::mutex> hold(pending_lock_);
      for (waiting& w : pending_) {
        if (w.open != nullptr && w.open->known()) {
          w.work.begin = w.open->start_ns;
          w.work.end = w.open->end_ns;
          w.open = nullptr;
        }
        if (w.open == nullptr && w.work.end <= until) {
          done.push_back(w);
          mine.at->since_ns = std::min(mine.at->since_ns, w.since_ns);
        } else {
          pending_[left++] = w;
        }
      }
      pending_.resize(left);
    }
    const use writer(*this);
    for (waiting& w : done) {
      if (!writer || w.session != session_) continue;
      w.work.begin -= offset_;
      w.work.end -= offset_;
      writer->gpu(w.work);
    }
    return left;
  }

  /// Reports what has not ended as unfinished, without times.
  void record_unfinished() {
    std::vector<waiting> left;
    const reporting mine(*this);
    {
      const std::lock_guard<std::mutex> hold(pending_lock_);
      left.swap(pending_);
      for (const waiting& w : left) mine.at->since_ns = std::min(mine.at->since_ns, w.since_ns);
    }
    const use writer(*this);
    for (waiting& w : left) {
      if (!writer || w.session != session_) continue;
      w.work.begin = w.work.end = 0;
      writer->gpu(w.work);
    }
  }

  /// There are no buffers here: all work that is not reported yet is listed as one buffer.
  void list(void (*take)(void*, const held&), void* to) const override {
    const std::lock_guard<std::mutex> hold(pending_lock_);
    std::uint64_t since_ns = none;
    for (const waiting& w : pending_) since_ns = std::min(since_ns, w.since_ns);
    for (const held& h : holders_) since_ns = std::min(since_ns, h.since_ns);
    if (since_ns != none) take(to, {any, since_ns});
  }
  /// The list of pending work is the simulated GPU's, not cutrace's: nothing counts towards its memory limit.
  std::uint64_t bytes() const noexcept override { return 0; }

  void describe_event(const cutrace::event& e) {
    const use writer(*this);
    if (writer) writer->describe(e);
  }

 private:
  static constexpr std::uint64_t none = ~std::uint64_t{0};
  struct waiting {
    gpu_work work;
    std::uint64_t session;
    std::uint64_t since_ns;  ///< raw
    moment_ptr open;
  };
  /// Stands in the list for as long as a thread reports what it has taken out of `pending_`.
  struct reporting {
    explicit reporting(recorder& r) : of(r) {
      const std::lock_guard<std::mutex> hold(of.pending_lock_);
      at = of.holders_.insert(of.holders_.end(), held{any, none});
    }
    ~reporting() {
      const std::lock_guard<std::mutex> hold(of.pending_lock_);
      of.holders_.erase(at);
    }
    reporting(const reporting&) = delete;
    reporting& operator=(const reporting&) = delete;
    recorder& of;
    std::list<held>::iterator at;
  };

  /// The writer for as long as this object lives; `detach` waits for these.
  class use {
   public:
    explicit use(recorder& r) : recorder_(r) {
      ++recorder_.users_;
      writer_ = recorder_.writer_.load();
    }
    ~use() { --recorder_.users_; }
    use(const use&) = delete;
    use& operator=(const use&) = delete;
    explicit operator bool() const { return writer_ != nullptr; }
    bool operator!() const { return writer_ == nullptr; }
    event_writer* operator->() const { return writer_; }

   private:
    recorder& recorder_;
    event_writer* writer_;
  };

  std::uint64_t source() const {
    return clock_writer_ != nullptr ? clock_writer_->raw_ns(clock_writer_->ticks()) : clock::monotonic_ns();
  }
  void switch_clock(event_writer* w) {
    const std::lock_guard<std::mutex> hold(clock_lock_);
    const std::uint64_t before = source() + offset_;
    clock_writer_ = w;
    offset_ = before - source();  // wraps where the new clock is ahead; additions wrap back
  }

  std::mutex clock_lock_;
  event_writer* clock_writer_ = nullptr;
  std::atomic<std::uint64_t> offset_{0};
  std::atomic<event_writer*> writer_{nullptr};
  std::atomic<std::uint32_t> users_{0};
  std::atomic<std::uint64_t> session_{0};
  std::atomic<std::uint32_t> last_correlation_{0};
  std::atomic<bool> paused_{false}, suspended_{false};
  mutable std::mutex pending_lock_;
  std::vector<waiting> pending_;
  std::list<held> holders_;
};

}  // namespace sim
CUTRACE_END_NAMESPACE
