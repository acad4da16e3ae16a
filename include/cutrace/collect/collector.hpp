// SPDX-License-Identifier: Apache-2.0
// The collector: the one thread that reads chunks, decodes activity buffers, and orders and delivers events. What other
// threads request (add a sink, flush, end) is queued as an action, which runs between two passes.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cutrace/base/clocks.hpp>
#include <cutrace/base/helper_thread.hpp>
#include <cutrace/base/process_info.hpp>
#include <cutrace/collect/action_queue.hpp>
#include <cutrace/collect/delivery.hpp>
#include <cutrace/collect/ingest.hpp>
#include <cutrace/collect/record_writer.hpp>
#include <cutrace/collect/status_block.hpp>
#include <cutrace/collect/thread_registry.hpp>
#include <cutrace/collect/watch/work_watch.hpp>
#include <cutrace/event.hpp>
#include <cutrace/stats.hpp>
#include <functional>
#include <thread>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

class collector final : private event_emitter {
 public:
  struct limits {
    std::uint64_t window_ns;
    std::size_t detail_bytes;  ///< for window, stages, requests, unfinished work, stream order and call copies together
    std::size_t string_bytes;
  };

  /// `command`: writer of the status block that `cutrace run` reads, or nullptr.
  CUTRACE_NOINLINE collector(runtime_core& core, record_writer& writer, const limits& l, status_writer* command)
      : core_(core),
        writer_(writer),
        sinks_(core.errors),
        tables_(core, l.string_bytes, traced_process_id()),
        ingest_(tables_, window_, core.errors),
        delivery_(tables_, correction_, sinks_),
        watch_(tables_, ingest_.order(), ingest_.unfinished(), delivery_, core.threads),
        published_(command) {
    window_.configure(l.window_ns, l.detail_bytes);
    detail_bytes_ = l.detail_bytes;
    tables_.stages.set_limits(l.detail_bytes / 4, l.detail_bytes / 4 * 3);
    ingest_.set_unfinished_limit(l.detail_bytes / 4);
    ingest_.order().set_limit(l.detail_bytes / 16);
    tables_.held_calls.set_limit(l.detail_bytes / 8);
    correction_.set_floor(core.scale.error_ns);
    correction_.sample(core.scale);
    losses_.begin(core.lost);
    skip_leftovers();
  }
  ~collector() override { end(); }

  CUTRACE_NOINLINE void start(std::uint64_t start_monotonic_ns) {
    delivery_.set_start(start_monotonic_ns);
    thread_ = start_thread([](void* self) { static_cast<collector*>(self)->run(); }, this);
  }

  /// The initial sinks of the trace have been added. Before this call nothing is read: events of a quick backend would
  /// reach no sink, or only the first one. Any thread.
  void begin_delivery() noexcept { listened_to_.store(true, std::memory_order_release); }

  /// Runs `action` on the collector's thread and waits for it. False after `timeout_ms` (the action may still run
  /// later, so it must own what it touches) or when the collector has ended.
  bool call(std::function<void()> action, std::uint32_t timeout_ms) {
    return actions_.call(std::move(action), timeout_ms, core_.wake);
  }

  /// As `call`, but without a time limit while the action makes progress. If one call of a sink takes longer than
  /// `patience_ms`, the collector's thread is left in that call, and a new thread serves the other sinks. False where
  /// no new thread could be started, or when the collector has ended.
  bool call_patiently(std::function<void()> action, std::uint32_t patience_ms) {
    std::uint64_t before = sinks_.calls();
    const auto makes_progress = [&] {
      const std::uint64_t now = sinks_.calls();
      const bool held_up = now == before && sinks_.busy();
      before = now;
      return !held_up;
    };
    const auto is_slow = [&] {
      if (!sinks_.busy()) return;
      const std::string line = "sink '" + std::string(sinks_.current()) +
                               "' holds up the program, which waits for it; up to " +
                               std::to_string(patience_ms / 1000) + " s while it makes no progress";
      core_.errors.report("session", line.c_str());
    };
    return actions_.call_patiently(std::move(action), patience_ms, core_.wake, makes_progress, is_slow,
                                   [&] { return replace_thread(before); });
  }
  /// Whether a thread was left hanging in a sink. The collector, and all that it uses, must then never be destroyed.
  bool left_a_sink() const noexcept { return sinks_.left_one(); }

  /// Gives up: the thread hangs in a sink, and no other thread could be started. Nothing is written any more.
  void abandon() {
    core_.errors.report("session", "the trace ends here, its files are incomplete");
    sinks_.abandon();
    actions_.cancel();
    if (thread_.joinable()) thread_.detach();
  }

  /// Delivers all that has come and flushes the sinks. This and the next three functions are actions for `call`.
  CUTRACE_NOINLINE void deliver_all() {
    pass();
    const std::uint64_t now = core_.scale.now_ns();
    correction_.sample(core_.scale);
    sample_counters(now);
    report_losses(now);
    deliver_known();
  }
  /// As deliver_all, at the end of the trace: backends have stopped, and unfinished GPU work is ended now.
  CUTRACE_NOINLINE void deliver_rest() {
    pass();
    if (core_.fault.is_open()) report_fault(fault_state::due::rest);
    ingest_.end_unfinished(static_cast<std::int64_t>(core_.scale.now_ns()));
    deliver_all();
  }
  CUTRACE_NOINLINE void add_sink(sink* s, std::uint64_t session) {
    if (sinks_.has(s)) return;  // this action runs again on a new thread: the sink hangs in the write below
    const bool late = listened_to_.load(std::memory_order_relaxed);
    if (late) pass();
    std::vector<std::uint32_t> earlier = late ? delivered_calls(awaited_calls()) : std::vector<std::uint32_t>();
    delivery_.deliver_described();
    const std::vector<event> known = descriptions_.all();
    sinks_.add(s, session, late ? stats_now() : stats{}, std::move(earlier));
    sinks_.write_to_last(known.data(), known.size());
  }
  /// `stop`: when the session was asked to end. The time that ending takes is no part of the trace.
  CUTRACE_NOINLINE void close_sinks(std::uint64_t session, const clock_anchor& stop, const window_part& part) {
    std::vector<std::uint32_t> awaited;
    // What has come is read before it is asked what is still to come. Without memory for it the sinks close, too.
    guarded([&] { pass(), deliver_all(), awaited = awaited_calls(); });
    if (delivery_.late() > late_before_full_)
      core_.errors.report("collector", order_window::full_note, false);  // for the files: it is no error
    event window = window_of(part.start_ns, part.end_ns);
    delivery_.settle(window);
    sinks_.close(session, {stop, stats_now(), nullptr, 0, nullptr}, {part.any ? &window : nullptr, std::move(awaited)});
    publish();
  }

  /// The trace ends at `raw_ns`: what the collector reads later, as it ends the trace, stands there. Any thread.
  void set_end(std::uint64_t raw_ns) noexcept { end_ns_.store(raw_ns, std::memory_order_relaxed); }
  /// GPU work that ended before `raw_ns` is no part of the trace. Any thread.
  void set_start(std::uint64_t raw_ns) noexcept { ingest_.set_start(raw_ns); }

  /// A piece of the trace (times in the raw frame, clock.hpp) is complete. Any thread; does not wait.
  CUTRACE_NOINLINE void record_window(std::uint64_t start_ns, std::uint64_t end_ns) noexcept {
    guarded([&] { actions_.call([this, e = window_of(start_ns, end_ns)] { ingest_.take(e); }, 0, core_.wake); });
  }

  /// Ends the thread after a last pass. The sinks must have been closed.
  void end() {
    if (!thread_.joinable()) return;
    actions_.end();
    core_.wake.signal();
    thread_.join();
  }

  /// False where the program asked for rare flushes: then flush_closely requests none either. Before `start`.
  void set_flushes_closely(bool may) noexcept { may_flush_closely_ = may; }

  /// `handler` is called with the text of each alarm, without `cutrace: `, on the collector's thread. Before `start`.
  void set_alarm_handler(alarm_handler handler, void* user) noexcept {
    alarm_handler_ = handler;
    alarm_user_ = user;
  }

  // For the watchdog, which runs these functions by `call`.

  /// Reports late stages. @returns whether GPU work or a call has made no progress for the bound. `upto`: set to a
  /// number above the correlation ids of all calls that have been read, for `judge`.
  CUTRACE_NOINLINE bool is_suspicious(const work_watch::bounds& b, std::uint32_t& upto) {
    upto = calls_until_now();
    raise(watch_.of_stages(b, now_ns()));
    return watch_.is_suspicious(b, now_ns());
  }
  /// Reports a hang after a forced flush at `flushed_ns`. `answered`: the flush returned in time, so all records of
  /// calls before `upto` have come. @returns whether there was a hang
  CUTRACE_NOINLINE bool judge(const work_watch::bounds& b, std::uint32_t upto, bool answered, std::int64_t flushed_ns,
                              const std::string& more) {
    pass();
    work_watch::report r = watch_.of_hang(b, upto, answered, flushed_ns, now_ns());
    if (r.alarms.empty()) return false;
    r.text += more;
    ingest_.deliver_unfinished(now_ns());
    raise(r);
    return true;
  }
  /// A number above the correlation ids of all calls that have been read.
  CUTRACE_NOINLINE std::uint32_t calls_until_now() {
    pass();
    watch_.settle();
    return ingest_.order().newest() + 1;
  }
  /// What runs and waits now, as text. `forced`: a forced flush was made and answered; `upto` is from before the flush.
  CUTRACE_NOINLINE std::string explain(bool forced, std::uint32_t upto) {
    pass();
    return watch_.of_now(forced, upto, now_ns());
  }
  /// Whether GPU records of calls before `upto` are still to come. An action for `call`.
  bool awaits_records(std::uint32_t upto) {
    pass();
    std::vector<std::uint32_t> ids = awaited_calls();
    ingest_.unfinished().for_each([&](const unfinished_work::entry& e) {
      if (!e.delivered) ids.push_back(static_cast<std::uint32_t>(e.work.correlation_id));
    });
    return std::any_of(ids.begin(), ids.end(), [upto](std::uint32_t id) { return is_before(id, upto); });
  }
  void begin_watch_anew() noexcept { watch_.begin_anew(now_ns()); }

  stats snapshot() const { return published_.snapshot(); }
  std::uint64_t clock_error_ns() const noexcept { return correction_.error_ns(); }
  void set_memory(std::uint64_t limit) noexcept { memory_limit_ = limit; }

 private:
  static constexpr std::chrono::microseconds near{1700}, usual{4000}, rare{10000};  ///< sleep between two turns
  /// See flush_closely.
  static constexpr std::uint64_t quiet_ns = 1000000, close_ns = 1000000;
  static constexpr std::uint64_t clock_period_ns = 200000000, counter_period_ns = 100000000,
                                 flush_period_ns = 1000000000;

  void run() {
    pthread_setname_np(pthread_self(), "cutrace");
    inside_runtime() = true;
    core_.pool.populate();
    core_.ring.populate();
    serve();
  }
  void go_on() {
    pthread_setname_np(pthread_self(), "cutrace");
    inside_runtime() = true;
    sinks_.go_on();
    guarded([this] { delivery_.go_on(); });
    serve();
  }

  /// Problem: a sink may block for good (a pipe that nobody reads, a server that is gone), and the other sinks have
  /// files to close. Solution: sinks are called only where the collector's state is consistent, so that another thread
  /// can go on. `call`: value of `sink_set::calls` during the call that does not return.
  bool replace_thread(std::uint64_t call) {
    const std::string line = "sink '" + std::string(sinks_.current()) +
                             "' has not returned in time: it gets no more events, and what it writes is incomplete";
    if (!sinks_.leave(call)) return true;
    core_.errors.report("session", line.c_str());
    clockid_t clock{};
    timespec used{};
    if (pthread_getcpuclockid(thread_.native_handle(), &clock) == 0 && clock_gettime(clock, &used) == 0)
      former_cpu_ns_ += static_cast<std::uint64_t>(used.tv_sec) * 1000000000 + static_cast<std::uint64_t>(used.tv_nsec);
    try {
      std::thread next = start_thread([](void* self) { static_cast<collector*>(self)->go_on(); }, this);
      thread_.detach();
      thread_ = std::move(next);
      return true;
    } catch (const std::exception& e) {
      core_.errors.report("session", e.what());
      return false;
    }
  }

  void serve() {
    std::uint64_t seen = 0;
    for (;;) {
      guarded([this] { turn(); });
      if (!actions_.run([this](const std::function<void()>& a) { guarded(a); })) break;
      const bool rests = ingest_.produced() == seen && !gpu_works_;
      seen = ingest_.produced();
      core_.wake.sleep(rests ? rare : gpu_works_ ? near : usual, rests);
    }
    actions_.mark_ended();
  }

  void turn() {
    if (!listened_to_.load(std::memory_order_acquire)) return;
    pass();
    const std::uint64_t now = core_.scale.now_ns();
    periodic(now);
    flush_closely(now);
    const std::uint64_t window = window_.window_ns(), upto = std::min(now, end_ns_.load(std::memory_order_relaxed));
    advance(upto > window ? upto - window : 0);
  }

  std::int64_t now_ns() const noexcept { return static_cast<std::int64_t>(core_.scale.now_ns()); }

  /// While the GPU works and no thread launches more, a flush is requested about every two milliseconds. Should the GPU
  /// fault, the times of all work that ended before are then known (docs/cupti.md, 51), and no thread waits for the
  /// flush. From a launch to the first flush it takes quiet_ns and `near`, less than fault_state::times_kept_ns.
  void flush_closely(std::uint64_t now) noexcept {
    gpu_works_ = may_flush_closely_ && !held_.empty();
    const auto launched = std::max(static_cast<std::uint64_t>(ingest_.last_launch_ns()), held_.newest_ns());
    if (!gpu_works_ || now < launched + quiet_ns || now - asked_ns_ < close_ns) return;
    if (watch_.is_launch_under_way(static_cast<std::int64_t>(now))) return;
    asked_ns_ = now;
    writer_.request_poll();
  }

  CUTRACE_NOINLINE void report_fault(fault_state::due what) {
    guarded([&] {
      const fault_state::call& f = core_.fault.first();
      const work_watch::report r = watch_.of_fault(f, what, core_.fault.was_said());
      ingest_.note_lost_context(tables_.functions.find(f.function, false), false, f.result);  // it may be unrecorded
      // The program may end in its next line, and nothing that is unfinished will end any more.
      what == fault_state::due::calls ? ingest_.deliver_unfinished(now_ns()) : ingest_.end_unfinished(now_ns());
      raise(r);
      deliver_known();
    });
    core_.fault.set_reported(what);
  }
  /// Reports an alarm: its text on stderr, its events to the sinks, and then its text to the alarm handler, which may
  /// end the program.
  void raise(const work_watch::report& r) {
    std::string block = "cutrace: " + r.text;
    if (!r.text.empty()) write_error_text(&block[0], block.size());
    for (const pending_event& a : r.alarms) ingest_.attempt([&] { ingest_.take_complete(a); });
    if (r.text.empty() || alarm_handler_ == nullptr) return;
    deliver_known();
    alarm_handler_(r.text.c_str(), alarm_user_);
  }

  /// Delivers what has been read, and has the sinks make it visible.
  void deliver_known() {
    advance(order_window::everything);
    sinks_.flush();
    publish();
  }
  CUTRACE_ONE_COPY void advance(std::uint64_t watermark_ns) {
    delivery_.deliver_described();
    const std::uint64_t now = core_.scale.now_ns();
    window_.advance(watermark_ns, [this, now](order_window::bucket& b) { delivery_.deliver(b, now); });
    count_failed();
  }
  /// Counts events for which memory ran out as lost. They are counted as produced already.
  void count_failed() noexcept {
    losses_.add(loss_cause::out_of_memory, ingest_.take_failed() + delivery_.take_failed());
  }

  /// Runs `action` and reports what it throws: no failure here, lack of memory included, may end the traced program.
  template <class Action>
  void guarded(const Action& action) noexcept {
    try {
      action();
    } catch (const std::exception& e) {
      core_.errors.report("collector", e.what());
    } catch (...) {
      core_.errors.report("collector", "something that is no std::exception was thrown");
    }
  }

  /// Activity buffers are taken off the queue first and decoded last: the chunks read in between hold all calls whose
  /// records can be in these buffers.
  CUTRACE_ONE_COPY void pass() {
    const std::uint64_t now = core_.scale.now_ns();
    window_.set_now(now);  // again while it reads: a pass may take long, and events end meanwhile
    ingest_.order().set_now(static_cast<std::int64_t>(now));
    const fault_state::due fault_due = core_.fault.what_is_due(now);
    held_.begin_list();
    writer_.with_held([this](const activity_buffers& of) { held_.list(of); });
    std::vector<activity_buffer>& full = buffers_;
    if (decoded_ == full.size()) {  // else memory ran out in the pass before
      full.clear();
      decoded_ = 0;
    }
    activity_buffer b;
    while (full.size() < record_writer::buffer_capacity && writer_.next_buffer(b)) full.push_back(b);
    writer_.take_descriptions([this](event& e) { describe(e); });
    std::uint32_t threads = 0;
    const bool renamed = core_.thread_names.changed_since(names_seen_);
    core_.threads.for_each([&](traced_thread& t) {
      read_thread(t, renamed);
      ++threads;
    });
    if (threads > core_.pool.thread_limit() && losses_.of(loss_cause::chunk_full) != 0) report_crowd(threads);
    while (decoded_ != full.size()) {
      const activity_buffer one = full[decoded_++];
      window_.set_now(core_.scale.now_ns());
      guarded([&] { one.decode(one, *this); });
      one.release(one);
      trim();
    }
    held_.end_list(now);  // valid now: all that was there when it was listed has been read
    core_.ring.populate();
    hold_calls();
    release_stages();
    if (CUTRACE_UNLIKELY(fault_due != fault_state::due::nothing)) report_fault(fault_due);
  }

  /// Copies calls that the ring is about to overwrite and whose GPU records may be in a buffer that is not decoded yet:
  /// one that CUPTI requested during an earlier call or during the call itself.
  void hold_calls() {
    // Ids follow the begins of calls only roughly: a thread may be held up after it got its call's id and before it
    // reads its begin time. Looking at each call costs 2.5 ns an event.
    constexpr std::uint64_t disorder_ns = 1000000000;
    tables_.ring.pass_old(
        ring_upto_,
        [this](const correlation_ring::call& c) {
          return held_.empty() || returned_ns(c) + disorder_ns < held_.oldest_ns();
        },
        [this](std::uint32_t id, const correlation_ring::call& c) {
          if (CUTRACE_UNLIKELY(is_call_awaited(c))) tables_.held_calls.keep(id, c);
        });
  }
  bool is_call_awaited(const correlation_ring::call& c) const noexcept {
    return c.stage != api_call::not_recorded && held_.is_awaited(c.thread_index, returned_ns(c));
  }
  /// Ids, sorted, of calls whose GPU records are in buffers that the backend had at the last pass.
  CUTRACE_NOINLINE std::vector<std::uint32_t> awaited_calls() {
    watch_.settle();
    std::vector<std::uint32_t> ids;
    ingest_.order().without_record().for_each([&](std::uint32_t id) {
      correlation_ring::call c{};
      const bool found = correlation_ring::is_found(tables_.ring.find(id, c)) ||
                         correlation_ring::is_found(tables_.held_calls.find(id, c));
      if (found && is_call_awaited(c)) ids.push_back(id);
    });
    std::sort(ids.begin(), ids.end());
    return ids;
  }
  /// Those of these calls, sorted ids, that do not wait in the window.
  CUTRACE_NOINLINE std::vector<std::uint32_t> delivered_calls(std::vector<std::uint32_t> ids) const {
    std::vector<std::uint32_t> waiting;
    window_.for_each_host([&](const pending_host& h) {
      const std::uint32_t id = static_cast<std::uint32_t>(h.id);
      if (h.type() == record_type::api && std::binary_search(ids.begin(), ids.end(), id)) waiting.push_back(id);
    });
    std::sort(waiting.begin(), waiting.end());
    const auto waits = [&](std::uint32_t id) { return std::binary_search(waiting.begin(), waiting.end(), id); };
    ids.erase(std::remove_if(ids.begin(), ids.end(), waits), ids.end());
    return ids;
  }
  /// By when a call is taken to have returned; raw frame.
  std::uint64_t returned_ns(const correlation_ring::call& c) const noexcept {
    return core_.scale.to_ns(c.begin_ticks) + 20000000;
  }

  /// Forgets the stages that nothing refers to any more. The window gets the memory that the other tables leave.
  void release_stages() {
    stage_table& stages = tables_.stages;
    stages.release(
        [this](std::uint32_t thread, std::int64_t until_ns) {
          return held_.is_awaited(thread, static_cast<std::uint64_t>(until_ns));
        },
        static_cast<std::int64_t>(held_.listed_ns()),
        static_cast<std::int64_t>(std::min<std::uint64_t>(window_.delivered_ns(), INT64_MAX)));
    const std::uint64_t taken =
        stages.bytes() + ingest_.unfinished().bytes() + ingest_.order().bytes() + tables_.held_calls.bytes();
    window_.set_limit(taken < detail_bytes_ ? detail_bytes_ - static_cast<std::size_t>(taken) : 0);
  }

  /// A thread keeps its chunk until the pass after its end, so threads beyond the number of chunks get none.
  void report_crowd(std::uint32_t threads) {
    if (crowd_reported_) return;
    crowd_reported_ = true;
    const std::string line = "there is memory for the events of " + std::to_string(core_.pool.thread_limit()) +
                             " threads at once, and there are " + std::to_string(threads) +
                             ": events of the others are lost; raise CUTRACE_MEMORY_LIMIT";
    core_.errors.report("collector", line.c_str());
  }

  /// Keeps window and stages within their limits while much arrives at once: waiting events are delivered early, and
  /// the stages that only these events refer to are forgotten.
  void trim() {
    const bool crowded = tables_.stages.crowded();
    if (CUTRACE_LIKELY(!crowded && !window_.over_limit())) return;
    if (crowded) release_stages();
    if (tables_.stages.crowded() && tables_.stages.waits_for_delivery()) window_.set_limit(0);
    if (!window_.over_limit()) return;
    late_before_full_ = std::min(late_before_full_, delivery_.late());
    advance(0);
    release_stages();
  }

  CUTRACE_ONE_COPY void read_thread(traced_thread& t, bool renamed) {
    const bool ended =
        t.state.load(std::memory_order_acquire) == thread_registry::ended && thread_registry::is_gone(&t);
    if (!t.attached || renamed) {
      t.attached = true;
      tables_.set_thread(t.index, t.thread_id);  // also of a thread that finds no chunk
      name_thread(t);
    }
    if (t.reading == nullptr) {
      t.reading = t.first.load(std::memory_order_acquire);
      t.read = 0;
    }
    while (t.reading != nullptr) {
      chunk* c = t.reading;
      const std::uint32_t next = c->next.load(std::memory_order_acquire);  // read first: if set, `committed` is final
      const std::uint32_t committed = c->committed.load(std::memory_order_acquire);
      if (committed != t.read) {
        const std::uint32_t lap = c->lap.load(std::memory_order_relaxed);  // stable until all is read
        window_.set_now(core_.scale.now_ns());
        ingest_.read(t, c->records() + (t.read - lap), c->records() + (committed - lap));
        t.read = committed;
        c->consumed.store(committed, std::memory_order_release);
        trim();
      }
      if (next == 0) break;
      t.reading = core_.pool.at(next - 1);
      t.read = 0;
      core_.pool.give(c);
    }
    const std::uint64_t lost = t.lost.load(std::memory_order_relaxed);
    lose(loss_cause::chunk_full, lost - t.lost_seen);
    t.lost_seen = lost;
    if (!ended) return;
    if (t.reading != nullptr) core_.pool.give(t.reading);
    core_.thread_names.forget(t.thread_id);
    guarded([&] { descriptions_.thread_ended(t.thread_id); });
    thread_registry::recycle(&t);
  }

  /// What was committed or handed over after the last session had ended belongs to no session.
  CUTRACE_NOINLINE void skip_leftovers() {
    writer_.drop_buffers();
    core_.threads.for_each([this](traced_thread& t) { skip_records(t, core_.pool); });
  }

  void periodic(std::uint64_t now) {
    if (now - clock_at_ >= clock_period_ns) {
      clock_at_ = now;
      correction_.sample(core_.scale);
    }
    if (now - counter_at_ >= counter_period_ns) {
      counter_at_ = now;
      watch_.settle();
      tables_.held_calls.release([this](const correlation_ring::call& c) { return is_call_awaited(c); });
      sample_counters(now);
      report_losses(now);
      publish();
    }
    if (now - flush_at_ >= flush_period_ns) {
      flush_at_ = now;
      if (only_ours_are_left()) end_program();
      sinks_.flush();
      core_.threads.for_each([this](traced_thread& t) {
        name_thread(t);
        thread_registry::mark_if_gone(&t);
      });
    }
  }

  /// Exits as the C library does when the last thread of a program has ended. Exit handlers end this thread, too.
  CUTRACE_NOINLINE void end_program() {
    if (program_ended_) return;
    program_ended_ = true;
    std::thread([] { std::exit(0); }).detach();
  }

  event moment(event_kind kind, text name, std::uint64_t raw_ns) const {
    event e;
    e.kind = kind;
    e.process_id = traced_process_id();
    e.name = name;
    e.start_ns = e.end_ns = static_cast<std::int64_t>(std::min(raw_ns, end_ns_.load(std::memory_order_relaxed)));
    return e;
  }

  event window_of(std::uint64_t start_ns, std::uint64_t end_ns) const {
    event e = moment(event_kind::window, {"recorded", 8}, end_ns);
    e.start_ns = std::min(static_cast<std::int64_t>(start_ns), e.end_ns);
    return e;
  }

  CUTRACE_NOINLINE void sample_counters(std::uint64_t now) {
    core_.sites.for_each_counter([&](site_table::entry& c) {
      const std::int64_t value = static_cast<std::int64_t>(c.cell.load(std::memory_order_relaxed));
      if (value == c.sampled) return;
      event e = moment(event_kind::counter, c.name, now);
      e.counter = counter_data{value, value - c.sampled, c.kind == static_cast<std::uint8_t>(site_kind::gauge)};
      c.sampled = value;
      ingest_.take(e);
    });
  }

  void lose(loss_cause cause, std::uint64_t n) noexcept {
    losses_.add(cause, n);
    if (n != 0) ingest_.add_produced(n);
  }

  /// Losses are also events in the trace, at the time when they were noticed.
  CUTRACE_NOINLINE void report_losses(std::uint64_t now) {
    ingest_.add_produced(losses_.take(core_.lost));
    if (tables_.strings.refused() != 0) core_.errors.report("collector", string_table::refusal);
    losses_.report([&](const loss_data& data) {
      event e = moment(event_kind::loss, {"lost records", 12}, now);
      e.loss = data;
      ingest_.take(e);
    });
  }

  CUTRACE_NOINLINE void name_thread(traced_thread& t) {
    text name;
    if (!thread_name_changed(t, core_.thread_names, core_.scale.now_ns(), tables_.strings, name)) return;
    event e = moment(event_kind::thread, name, core_.scale.now_ns());
    e.thread_id = t.thread_id;
    describe(e);
  }

  /// Descriptions go to the sinks before the events that refer to them, and are kept for later sinks.
  CUTRACE_NOINLINE void describe(event& e) {
    e.process_id = traced_process_id();
    e.name = tables_.strings.intern(e.name.data, e.name.size);
    e.start_ns = e.end_ns = delivery_.session_ns(e.start_ns);
    descriptions_.add(e);
    ingest_.add_produced(1);
    if (!delivery_.describe(e)) losses_.add(loss_cause::out_of_memory, 1);
  }

  // event_emitter
  void emit(const event& e) override {
    if (e.kind != event_kind::device && e.kind != event_kind::context && e.kind != event_kind::stream)
      return ingest_.take(e);
    event copy = e;
    if (copy.start_ns == 0) copy.start_ns = copy.end_ns = static_cast<std::int64_t>(core_.scale.now_ns());
    ingest_.attempt([&] { describe(copy); });
  }
  text intern(const char* data, std::size_t size) override {
    return or_lost([&] { return tables_.strings.intern(data, size); });
  }
  text demangle(text mangled) override {
    return or_lost([&] { return tables_.strings.demangle(mangled); });
  }
  template <class Name>
  static text or_lost(Name name) {
    try {
      return name();
    } catch (const std::bad_alloc&) {
      return event_tables::name_lost;
    }
  }
  void count_loss(loss_cause cause, std::uint64_t n) override { lose(cause, n); }
  void count_quality(std::uint32_t index) override {
    if (index < quality_count) ++quality_[index];
  }

  CUTRACE_NOINLINE stats stats_now() {
    count_failed();
    ingest_.add_produced(losses_.take(core_.lost));
    stats s{};
    delivery_.fill(s);
    for (std::size_t i = 0; i < quality_count; ++i) s.quality_of[i] += quality_[i];
    losses_.fill(s);
    s.produced = ingest_.produced();
    s.pending = window_.size() + ingest_.unfinished().waiting() + delivery_.described();
    s.memory_bytes = core_.pool.bytes() + core_.ring.bytes() + core_.threads.bytes() + site_table::bytes() +
                     window_.bytes() + tables_.strings.bytes() + tables_.stages.bytes() + core_.graphs.bytes() +
                     ingest_.unfinished().bytes() + ingest_.order().bytes() + tables_.held_calls.bytes();
    writer_.with_held([&](const activity_buffers& of) { s.memory_bytes += of.bytes(); });
    s.memory_limit_bytes = memory_limit_;
    s.clock_error_ns = correction_.error_ns();
    s.launches_seen = ingest_.launches();
    s.gpu_records_seen = ingest_.gpu_records();
    s.collector_cpu_ns = former_cpu_ns_ + read_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    sinks_.fill(s);
    return s;
  }
  void publish() {
    const stats all = stats_now();
    stats of_command = all;
    if (const std::uint64_t session = published_.command_session()) sinks_.fill(of_command, session);
    published_.publish(all, of_command);
  }

  runtime_core& core_;
  record_writer& writer_;
  sink_set sinks_;
  clock_correction correction_;
  order_window window_;
  event_tables tables_;
  ingest ingest_;
  delivery delivery_;
  work_watch watch_;
  alarm_handler alarm_handler_ = nullptr;
  void* alarm_user_ = nullptr;
  bool may_flush_closely_ = true, gpu_works_ = false;  ///< see flush_closely
  std::vector<activity_buffer> buffers_;
  std::size_t detail_bytes_ = 0, decoded_ = 0;  ///< decoded_: of buffers_
  held_buffers held_;
  std::uint32_t ring_upto_ = 0;  ///< see correlation_ring::pass_old
  known_descriptions descriptions_;
  loss_counts losses_;
  std::uint64_t quality_[quality_count] = {};
  std::uint64_t clock_at_ = 0, counter_at_ = 0, flush_at_ = 0, asked_ns_ = 0, memory_limit_ = 0;
  std::uint64_t former_cpu_ns_ = 0;  ///< of threads that were left in sinks
  std::uint32_t names_seen_ = 0;     ///< see given_thread_names::changed_since
  bool program_ended_ = false, crowd_reported_ = false;
  std::uint64_t late_before_full_ = UINT64_MAX;  ///< late events when the window was full for the first time

  std::atomic<std::uint64_t> end_ns_{UINT64_MAX};
  std::atomic<bool> listened_to_{false};
  action_queue actions_;
  published_stats published_;
  std::thread thread_;
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
