// SPDX-License-Identifier: Apache-2.0
// A trace: what exists while at least one session lives. Puts writer, backends, collector and sinks together, and
// takes them apart in the right order.
#pragma once

#include <algorithm>
#include <atomic>
#include <cutrace/base/clocks.hpp>
#include <cutrace/base/process_info.hpp>
#include <cutrace/collect/collector.hpp>
#include <cutrace/run/backend_pump.hpp>
#include <cutrace/run/backend_registry.hpp>
#include <cutrace/run/control_socket.hpp>
#include <cutrace/run/gpu_health.hpp>
#include <cutrace/run/keep_for_ever.hpp>
#include <cutrace/run/nvtx_output.hpp>
#include <cutrace/run/session_call.hpp>
#include <cutrace/run/settings.hpp>
#include <cutrace/run/watchdog.hpp>
#include <list>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

/// How the memory limit is divided; the parts are 48ths, so that the default of 48 MiB reads as MiB. What is not named
/// here goes to call sites and names of functions.
struct memory_plan {
  std::uint32_t chunks;
  unsigned ring_bits;
  std::size_t buffer_bytes, detail_bytes, string_bytes;

  static memory_plan of(std::size_t limit) noexcept {
    const std::size_t part = limit / 48;
    memory_plan p{};
    p.chunks = static_cast<std::uint32_t>(std::max<std::size_t>(part * 11 / chunk_bytes, 4));
    p.ring_bits = 10;
    while ((std::size_t{32} << (p.ring_bits + 1)) <= part * 8 && p.ring_bits < 22) ++p.ring_bits;
    p.buffer_bytes = part * 11;
    p.detail_bytes = part * 14;  // what waits in the window, and stages with their requests
    p.string_bytes = part * 2;
    return p;
  }
};

class trace {
 public:
  /// Starts everything but backends and sinks. `command`: the status of `cutrace run`, or nullptr. @throws config_error
  /// for an unknown backend, error without memory
  CUTRACE_NOINLINE trace(runtime_core& core, record_writer& writer, const settings& s, status_writer* command)
      : core_(core),
        settings_(s),
        writer_(writer),
        pump_(core.errors, s.flush_period_ms),
        process_(process_info::read()) {
    const memory_plan plan = memory_plan::of(s.memory_limit_bytes);
    wanted_ = find_backend(s.backend, s.backend_option);
    core_.errors.clear();
    core_.errors.set_handler(s.on_error, s.on_error_user);
    if (!core_.pool.resize(plan.chunks))
      throw error("no memory for the trace: lower CUTRACE_MEMORY_LIMIT or raise the process's limit of address space");
    // The ring stays where it is for good: a thread of an earlier session may be in the middle of a call.
    if (!core_.ring.is_made() && !core_.ring.reset(plan.ring_bits))
      throw error("no memory for the correlation ring: lower CUTRACE_MEMORY_LIMIT");
    core_.ring.begin_trace();
    core_.overflow_wait_us.store(s.overflow_wait_us, std::memory_order_relaxed);
    writer_.set_buffer_budget(plan.buffer_bytes);
    writer_.set_in_windows(s.samples.gated());
    writer_.set_poll([this] { pump_.request_poll(); });
    start_ = read_anchor(0);
    start_.trace_ns = 0;
    if (const std::uint64_t since = remote_process::own().since_ns) {
      const std::uint64_t before = start_.monotonic_ns - since;
      start_.monotonic_ns -= before;
      start_.realtime_ns -= before;
      start_.boottime_ns -= before;
    }
    collector_.reset(new collector(
        core_, writer_, {std::uint64_t{s.window_ms} * 1000000, plan.detail_bytes, plan.string_bytes}, command));
    collector_->set_memory(s.memory_limit_bytes);
    collector_->set_alarm_handler(s.on_alarm, s.on_alarm_user);
    collector_->set_flushes_closely(s.flush_period_ms <= settings{}.flush_period_ms);
    core_.fault.begin();
    collector_->start(start_.monotonic_ns);
    core_.threads.begin_trace();
    ended_ = true;  // until its backend is there
  }
  CUTRACE_NOINLINE ~trace() { stop(); }

  /// Starts the backend of the options and opens the gate. Loads libraries, whose constructors may wait for sessions of
  /// other threads: the caller must hold no lock that a session takes. Called once, before all but sinks and `flush`.
  CUTRACE_NOINLINE void begin() {
    if (settings_.emit_nvtx) open_nvtx_output();
    open_stages_at_once();
    if (wanted_ != nullptr) start_backend(wanted_(), true, 0);
    patiently([] {});  // waits until the collector's thread has its memory, so that this is no part of the trace
    note_begin();
    begins_now();
    if (settings_.samples.gated() && !settings_.samples.open({})) {
      resting_ = in_pieces_ = true;
      open_ = false;
      open_since_ns_ = 0;
    }
    turn_gate([this] { ended_ = false; });  // now: what a backend saw while it started is no part of the trace
    if (!has_backend()) no_backend(settings_.backend);
    describe_process();
    if (settings_.samples.gated())
      pump_.sample(settings_.samples, [this](bool open) { turn_gate([&] { resting_ = !open; }); });
    if (settings_.watchdog.bound_ms != 0) {
      health_.start();
      watchdog_.reset(
          new watchdog(settings_.watchdog, core_.scale, *collector_, pump_, [this] { return devices_block(); }));
    }
    if (settings_.watchdog.bound_ms != 0 || settings_.control) open_control();
  }

  /// Opens a sink on the calling thread. One that is added later sees nothing of the time before, so that the trace
  /// begins now for it: else that time would count as idle. Throws what its `open` throws.
  CUTRACE_NOINLINE void open_sink(sink& s) {
    trace_info info = current_info();
    if (delivers_) info.start = read_anchor(start_.monotonic_ns);
    s.open(info);
  }

  /// Hands an open sink to the collector. @throws bad_alloc without memory, error where a sink holds up the trace
  CUTRACE_NOINLINE void take_sink(std::unique_ptr<sink> s, std::uint64_t session) {
    sink* raw = s.get();
    sinks_.push_back({std::move(s), session, core_.scale.now_ns()});
    const auto added = std::make_shared<bool>(false);
    if (!patiently([this, raw, session, added] {
          collector_->add_sink(raw, session);
          *added = true;
        }))
      throw error("a sink holds up the trace, which ends here; sinks that were given to it must not be destroyed");
    if (*added) return;
    sinks_.pop_back();
    throw std::bad_alloc();
  }

  /// Another session has joined while the backend starts: what its threads do from here on is recorded.
  void begin_early() {
    begins_now();
    turn_gate([this] { ended_ = false; });
  }

  /// Events are delivered from here on, to the sinks that have been handed over and to later ones.
  void begin_delivery() noexcept {
    delivers_ = true;
    collector_->begin_delivery();
  }

  /// Nothing more will be written: the collector's thread is lost.
  bool abandoned() const noexcept { return abandoned_; }
  /// A sink did not return in time. Neither it nor this object may ever be destroyed.
  bool left_a_sink() const noexcept { return left_a_sink_; }

  CUTRACE_NOINLINE void start_backend(backend* b, bool owned, std::uint64_t session) {
    std::unique_ptr<backend> own(owned ? b : nullptr);
    backend_status status{};
    try {
      status = b->start(writer_);
    } catch (const config_error&) {
      throw;
    } catch (const std::exception& e) {
      std::snprintf(status.detail, sizeof(status.detail), "%s", e.what());
    }
    if (!has_backend() || status.active) name_backend(b->name(), status.detail);
    gpu_expected_ = gpu_expected_ || status.active;
    if (!status.active) core_.errors.report(b->name(), status.detail, !settings_.by_command);
    // The headers of the sinks that are open name what was there before.
    if (status.active && !owned)
      core_.errors.report(b->name(), (std::string("added by the program: ") + status.detail).c_str(), false);
    reported_at_start_ = core_.errors.count_of(current_info().backend);
    try {
      pump_.add(b, owned, session);
    } catch (...) {  // no thread is to be had: nobody would stop it
      b->stop(settings_.stop_deadline_ms);
      throw;
    }
    static_cast<void>(own.release());  // the pump's from here on
  }

  CUTRACE_NOINLINE bool flush(std::uint32_t timeout_ms, bool unfinished) {
    const bool reported = pump_.flush(timeout_ms, unfinished);
    return collector_->call([this] { collector_->deliver_all(); }, timeout_ms) && reported;
  }
  /// By session::flush_unfinished: at most once a second, else as flush.
  CUTRACE_NOINLINE bool flush_unfinished(std::uint32_t timeout_ms) {
    const std::uint64_t now = clock::monotonic_ns();
    std::uint64_t last = unfinished_asked_ns_.load(std::memory_order_relaxed);
    const bool again = last == 0 || now - last >= 1000000000;
    return flush(timeout_ms, again && unfinished_asked_ns_.compare_exchange_strong(last, now));
  }

  /// Calls backend::meets_client of all backends. @returns whether one held CUPTI, or took its records
  CUTRACE_NOINLINE bool meets_client(bool records, std::uint32_t timeout_ms) {
    bool met = false;
    pump_.for_each([&](backend& b) { met = b.meets_client(records) || met; });
    if (met && records) flush(timeout_ms, true);
    return met;
  }

  /// The session of the alarm handler leaves, others go on. The handler is not called any more when this returns: the
  /// collector's thread, which calls it, has forgotten it.
  CUTRACE_NOINLINE void drop_alarm_handler() {
    patiently([this] { collector_->set_alarm_handler(nullptr, nullptr); });
  }

  /// Nor the error handler.
  CUTRACE_NOINLINE void drop_handlers() {
    drop_alarm_handler();
    core_.errors.set_handler(nullptr, nullptr);
  }

  /// A session that is not the last one leaves: its sinks close, the others go on. `recording_is_over`: for them, too,
  /// so that the work which has not ended is delivered now, unless they have sinks, for which it would lose its times.
  CUTRACE_NOINLINE void close_session(std::uint64_t session, bool recording_is_over) {
    asked_to_end_ = read_anchor(start_.monotonic_ns);
    const std::uint64_t until_ns = core_.scale.now_ns();
    const bool had_backends = pump_.has_backends_of(session);
    pump_.stop_of(session, settings_.stop_deadline_ms);
    const auto left = [session](const owned_sink& s) { return s.session == session; };
    if (std::none_of(sinks_.begin(), sinks_.end(), left)) {
      // What it has recorded is for the sinks of others, or for those to come: delivered now, ahead of its turn, it
      // would hold the program up, and make late what ended earlier. Not so where it had backends: these, and the code
      // and literals that their events refer to, may go now.
      if (had_backends) patiently([this] { collector_->deliver_all(); });
      return;
    }
    begin_delivery();
    const bool at_once = recording_is_over && !others_listen(session);
    pump_.flush(settings_.stop_deadline_ms, at_once);
    if (at_once) patiently([this] { collector_->deliver_rest(); });
    if (!close_sinks(session, until_ns) || left_a_sink()) return;
    sinks_.erase(std::remove_if(sinks_.begin(), sinks_.end(), left), sinks_.end());
  }

  /// Whether sessions other than this one have sinks.
  bool others_listen(std::uint64_t session) const noexcept {
    return std::any_of(sinks_.begin(), sinks_.end(), [session](const owned_sink& s) { return s.session != session; });
  }
  /// Whether GPU work of calls before `upto` is unfinished, or its records are still to come; false where nobody
  /// answers in time. `upto` 0: of all calls until now, and it is set to that number.
  CUTRACE_NOINLINE bool awaits_records(std::uint32_t& upto, std::uint32_t timeout_ms) {
    if (!pump_.flush(timeout_ms)) return false;
    struct answer {
      std::uint32_t upto;
      bool awaits;
    };
    const auto known = std::make_shared<answer>(answer{upto, false});  // the action may run later than it is waited for
    collector& c = *collector_;
    const auto ask = [&c, known] {
      if (known->upto == 0) known->upto = c.calls_until_now();
      known->awaits = c.awaits_records(known->upto);
    };
    if (!collector_->call(ask, timeout_ms)) return false;
    upto = known->upto;
    return known->awaits;
  }

  /// Backends flush and stop, chunks drain, the window closes, the sinks of all sessions that are left close: what
  /// comes with the last, forced flush reaches every one of them. `deadline_ms` of the backends, 0: that of the
  /// settings.
  CUTRACE_NOINLINE void stop_all(const std::vector<std::uint64_t>& sessions, std::uint32_t deadline_ms) {
    asked_to_end_ = read_anchor(start_.monotonic_ns);
    collector_->set_end(core_.scale.now_ns());
    control_.reset();
    watchdog_.reset();
    health_.stop();
    writer_.set_poll({});
    core_.fault.end();
    turn_gate([&] { ended_ = true; });  // first, while backends still see the calls whose work is to be left out
    const bool backends_stopped = pump_.stop(deadline_ms != 0 ? deadline_ms : settings_.stop_deadline_ms);
    if (in_pieces_ && open_since_ns_ == 0)
      core_.errors.report("session", "the program ended before a window was opened: nothing of it was recorded",
                          !settings_.by_command);
    nvtx_output().close();
    patiently([this] { collector_->deliver_rest(); });
    last_ = collector_->snapshot();
    if (gpu_expected_ && last_.launches_seen != 0 && last_.gpu_records_seen == 0) {
      // Shown, unless the backend has reported what went wrong while it ran.
      const bool explained = core_.errors.count_of(current_info().backend) > reported_at_start_;
      core_.errors.report("session",
                          "GPU work was launched, but not one GPU record arrived: the trace holds no GPU time",
                          !explained && !settings_.by_command);
    }
    for (const std::uint64_t session : sessions) close_sinks(session, core_.scale.now_ns());
    last_ = collector_->snapshot();
    stopped_ = true;
    if (abandoned_) return;
    collector_->end();
    if (!backends_stopped) keep_for_ever(std::move(collector_));  // a backend may still call: what it uses stays
  }

  CUTRACE_NOINLINE void pause() {
    turn_gate([&] { paused_ = true; });
    pump_.for_each([](backend& b) { b.pause(); });
  }
  CUTRACE_NOINLINE void resume() {
    pump_.for_each([](backend& b) { b.resume(); });
    turn_gate([&] { paused_ = false; });
  }
  void add_windows(std::uint32_t n) { pump_.add_windows(n); }
  bool open_window(std::uint32_t timeout_ms) { return pump_.open_window(timeout_ms); }
  void close_window() { pump_.close_window(); }

  /// The backend that was started first, and what it says of itself.
  std::string backend_line() const {
    const trace_info now = current_info();
    return std::string(now.backend) + ": " + now.backend_detail;
  }
  bool gpu_expected() const noexcept { return gpu_expected_; }

  stats totals() const { return stopped_ ? last_ : collector_->snapshot(); }

 private:
  struct owned_sink {
    std::unique_ptr<sink> what;
    std::uint64_t session;
    std::uint64_t added_ns;  ///< raw frame
  };

  /// Runs `action` on the collector's thread, also where a sink holds that thread up: see collector::replace_thread.
  bool patiently(const std::function<void()>& action) {
    if (abandoned_) return false;
    const bool done = collector_->call_patiently(action, settings_.sink_deadline_ms);
    left_a_sink_ = !done || collector_->left_a_sink();
    if (done) return true;
    abandoned_ = true;
    turn_gate([&] { ended_ = true; });
    collector_->abandon();
    return false;
  }

  void stop() {
    if (!stopped_) stop_all({}, 0);
  }

  /// What NVML said last, as a part of the block of text of an alarm or of `cutrace explain`.
  std::string devices_block() const {
    std::string block, lines = health_.lines(clock::monotonic_ns());
    for (std::size_t at = 0, end; at < lines.size(); at = end + 1) {
      end = std::min(lines.find('\n', at), lines.size());
      block += (block.empty() ? "  devices:\n     " : "     ") + lines.substr(at, end - at) + '\n';
    }
    return block;
  }
  CUTRACE_NOINLINE void open_control() {
    control_.reset(new control_socket([this](bool force) { return explain(force); }));
    std::string why;
    if (control_->open(why)) return;
    control_.reset();
    core_.errors.report("control", ("cutrace explain will not reach this process: " + why).c_str());
  }
  /// For `cutrace explain`. The control socket's thread.
  CUTRACE_NOINLINE std::string explain(bool force) {
    constexpr std::uint32_t answer_ms = 1000;
    struct answer {
      std::uint32_t upto = 0;
      std::string text = "the collector of this process does not answer\n";
    };
    const auto found = std::make_shared<answer>();  // the action may run later than it is waited for
    collector& c = *collector_;
    if (!c.call([&c, found] { found->upto = c.calls_until_now(); }, answer_ms)) return found->text;
    const bool answered = pump_.flush(answer_ms, force);
    const bool forced = force && answered;
    const auto text = std::make_shared<answer>();
    if (!c.call([&c, found, text, forced] { text->text = c.explain(forced, found->upto); }, answer_ms))
      return answer{}.text;
    return (answered ? "" : "CUPTI does not answer: what follows is what the calls of the host say\n") + text->text +
           devices_block();
  }

  /// Runs `change`, then opens the gate unless the trace is paused, resting or ended. Records each open interval of
  /// a trace with interruptions. Any thread.
  template <class Change>
  CUTRACE_NOINLINE void turn_gate(Change change) {
    std::lock_guard<std::mutex> hold(gate_mutex_);
    change();
    const bool open = !paused_ && !resting_ && !ended_;
    const std::uint64_t now = core_.scale.now_ns();
    core_.set_gate(open ? open_gate_ : std::uint32_t{gate_off});
    if (open == open_) return;
    if (!open) core_.threads.forget_calls();
    open_ = open;
    in_pieces_ = in_pieces_ || (!open && !ended_);
    if (open)
      open_since_ns_ = now;
    else if (in_pieces_)
      record_window(open_since_ns_, core_.scale.now_ns());
  }
  /// Work that ended before this is no part of the trace. The first call counts: calls are recorded from then on.
  CUTRACE_NOINLINE void begins_now() {
    const std::lock_guard<std::mutex> hold(gate_mutex_);
    if (open_since_ns_ != 0) return;
    open_since_ns_ = core_.scale.now_ns();
    collector_->set_start(open_since_ns_);
  }
  /// What a session that ends in a trace with interruptions has of the window that is open: the part up to `until_ns`,
  /// for its sinks alone. Where none is open and none has ended since its sinks were added, an empty one, since readers
  /// take a trace without any window as recorded throughout.
  CUTRACE_NOINLINE window_part window_so_far(std::uint64_t session, std::uint64_t until_ns) {
    std::lock_guard<std::mutex> hold(gate_mutex_);
    const bool has_one = std::none_of(sinks_.begin(), sinks_.end(), [&](const owned_sink& s) {
      return s.session == session && s.added_ns > window_end_ns_;
    });
    const bool open = open_ && open_since_ns_ < until_ns;
    if (!in_pieces_ || (!open && has_one)) return {};
    return {true, open ? open_since_ns_ : until_ns, until_ns};
  }
  void record_window(std::uint64_t start_ns, std::uint64_t end_ns) {
    collector_->record_window(start_ns, end_ns);
    window_end_ns_ = end_ns;
  }
  bool close_sinks(std::uint64_t session, std::uint64_t until_ns) {
    last_part_ = window_so_far(session, until_ns);  // a member, since the action must not need memory
    return patiently([this, session] { collector_->close_sinks(session, asked_to_end_, last_part_); });
  }

  /// The trace begins for its sinks when its backend runs: the time that the backend took to start is no time of the
  /// program's. No effect where the trace began before the session of this process.
  CUTRACE_NOINLINE void note_begin() {
    if (remote_process::own().since_ns != 0) return;
    const clock_anchor now = read_anchor(start_.monotonic_ns);
    const std::lock_guard<std::mutex> hold(info_mutex_);
    begun_ = now;
  }

  CUTRACE_NOINLINE void open_nvtx_output() {
    if (const char* why = nvtx_output().open())
      core_.errors.report("nvtx", why);
    else
      open_gate_ = gate_notify;
  }

  /// A stage without calls or texts is otherwise known to nobody but its thread until it ends.
  void open_stages_at_once() noexcept {
    const bool watched = !settings_.watchdog.stages.empty() || !settings_.watchdog.requests.empty();
    core_.stages_open_at_once.store(watched, std::memory_order_relaxed);
    if (watched) open_gate_ = gate_notify;
  }

  CUTRACE_NOINLINE void no_backend(const std::string& asked) {
    const std::string why =
        asked == "none"
            ? std::string("switched off by ") + settings_.backend_option + "=none"
            : "this program was built without CUPTI: it has no GPU times, except those of backends that it adds";
    name_backend("none", why.c_str());
    core_.errors.report("session", why.c_str(), asked != "none" && !settings_.by_command);
  }
  bool has_backend() const {
    const std::lock_guard<std::mutex> hold(info_mutex_);
    return info_.backend != nullptr;
  }
  /// Texts that sinks were given before stay valid.
  CUTRACE_NOINLINE void name_backend(const char* name, const char* detail) {
    const std::lock_guard<std::mutex> hold(info_mutex_);
    backend_texts_.emplace_back(name);
    info_.backend = backend_texts_.back().c_str();
    backend_texts_.emplace_back(detail);
    info_.backend_detail = backend_texts_.back().c_str();
  }

  CUTRACE_NOINLINE trace_info current_info() const {
    trace_info info;
    {
      const std::lock_guard<std::mutex> hold(info_mutex_);
      info = info_;
      info.start = begun_.monotonic_ns != 0 ? begun_ : start_;
    }
    if (info.backend == nullptr) {
      info.backend = "none";
      info.backend_detail = "being started by another session";
    }
    info.process_id = traced_process_id();
    info.process_name = process_.name.c_str();
    info.command_line = settings_.command_line ? process_.command_line.c_str() : "";
    info.host_name = process_.host.c_str();
    info.boot_id = process_.boot_id.c_str();
#if defined(__aarch64__)
    info.clock = core_.scale.use_counter ? "cntvct" : "monotonic";
#else
    info.clock = core_.scale.use_counter ? "tsc" : "monotonic";
#endif
    info.rank = process_.rank;
    info.world_size = process_.world_size;
    return info;
  }

  CUTRACE_NOINLINE void describe_process() {
    event e;
    e.kind = event_kind::process;
    e.process_id = traced_process_id();
    e.name = {process_.name.data(), static_cast<std::uint32_t>(process_.name.size())};
    e.start_ns = e.end_ns = static_cast<std::int64_t>(core_.scale.now_ns());
    writer_.describe(e);
  }

  runtime_core& core_;
  settings settings_;
  record_writer& writer_;
  backend_pump pump_;
  process_info process_;
  backend_maker wanted_ = nullptr;
  mutable std::mutex info_mutex_;  ///< of the next three
  trace_info info_{};              ///< backend and its detail
  std::list<std::string> backend_texts_;
  clock_anchor begun_{};
  clock_anchor start_{}, asked_to_end_{};  ///< anchors of time 0, and of the request to end
  window_part last_part_;                  ///< of the session that ends, see window_so_far
  std::vector<owned_sink> sinks_;
  std::unique_ptr<collector> collector_;
  gpu_health health_;  ///< for the watchdog
  std::unique_ptr<watchdog> watchdog_;
  std::unique_ptr<control_socket> control_;
  std::mutex gate_mutex_;
  std::uint32_t open_gate_ = gate_on;
  std::uint64_t open_since_ns_ = 0;                                      ///< 0: never
  bool open_ = true, paused_ = false, resting_ = false, ended_ = false;  ///< of the gate, and why it is shut
  std::uint64_t window_end_ns_ = 0;                                      ///< of the last window that was recorded
  bool in_pieces_ = false;                                               ///< the gate was shut before the end
  bool delivers_ = false;                                                ///< to the sinks that the trace begins with
  bool gpu_expected_ = false;
  std::atomic<std::uint64_t> unfinished_asked_ns_{0};  ///< CLOCK_MONOTONIC of the last flush_unfinished; 0: none
  std::size_t reported_at_start_ = 0;                  ///< reports of the backend until its start had returned
  bool stopped_ = false;
  std::atomic<bool> abandoned_{false}, left_a_sink_{false};  ///< see patiently: any thread of a session
  stats last_{};
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
