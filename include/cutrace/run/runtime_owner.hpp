// SPDX-License-Identifier: Apache-2.0
// The one runtime of a process: election of its owner among the loaded objects, the functions of its C table, sessions
// that come and go, thread exit, fork and process exit.
#pragma once

#include <dlfcn.h>
#include <pthread.h>

#include <algorithm>
#include <cstdlib>
#include <cutrace/run/keep_for_ever.hpp>
#include <cutrace/run/trace.hpp>
#include <cutrace/sinks/sink_registry.hpp>
#include <memory>
#include <mutex>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

class runtime_owner {
 public:
  /// This object's instance; it is the process's only if `ensure` says so. Never destroyed.
  static runtime_owner& own() {
    static runtime_owner* owner = new runtime_owner();
    return *owner;
  }

  /// Table of the process's runtime; this object becomes its owner if there is none yet.
  static const table* ensure() {
    if (const table* found = find_runtime()) {
      own_slot().owner.store(found, std::memory_order_release);
      return found;
    }
    static std::mutex* once = new std::mutex();
    std::lock_guard<std::mutex> hold(*once);
    runtime_owner& o = own();
    o.prepare();
    // One pass under the loader's lock: who sets the first slot is the owner for all.
    election e{&o.table_, nullptr};
    for_each_slot(&vote, &e);
    if (e.winner == &o.table_) pin();
    return e.winner != nullptr ? e.winner : &o.table_;
  }

 private:
  struct election {
    const table* mine;
    const table* winner;
  };
  static void vote(slot* s, void* data) noexcept {
    election* e = static_cast<election*>(data);
    const table* present = nullptr;
    const table* wanted = e->winner != nullptr ? e->winner : e->mine;
    s->owner.compare_exchange_strong(present, wanted, std::memory_order_acq_rel);
    if (e->winner == nullptr) e->winner = present != nullptr ? present : e->mine;
  }

  /// The owner's code and data stay loaded whatever happens to the object that brought them.
  static void pin() noexcept {
    Dl_info where{};
    if (dladdr(reinterpret_cast<void*>(&runtime_owner::pin), &where) != 0 && where.dli_fname != nullptr)
      dlopen(where.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
  }

  CUTRACE_NOINLINE void prepare() {
    if (prepared_) return;
    prepared_ = true;
    runtime_core& core = runtime_core::own();
    core.published = &table_;
    core.scale = calibrate(!told_process::own().other() && counter_is_invariant());
    pthread_key_create(&core.exit_key, &thread_exit);
    pthread_atfork(nullptr, nullptr, &after_fork);
    std::atexit(&at_exit);
    table_.abi = CUTRACE_ABI_VERSION;
    table_.size = sizeof(table_);
    table_.version = CUTRACE_VERSION_STRING;
    table_.attach_thread = [](slot* s) noexcept -> thread_state* { return runtime_core::own().attach(s); };
    table_.refill = [](thread_state* t, std::uint32_t n, slot* s) noexcept -> record* {
      return runtime_core::own().refill(static_cast<traced_thread*>(t), n, s);
    };
    table_.register_site = [](site* s) noexcept { runtime_core::own().sites.add(*s); };
    table_.gate_state = []() noexcept { return runtime_core::own().gate.load(std::memory_order_acquire); };
    table_.session_call = [](session_request* r) noexcept -> int {
      return guarded_call(r->message, sizeof(r->message), [&] { own().admit(*r); });
    };
    table_.name_thread = [](std::uint32_t id, const char* name) noexcept {
      if (runtime_core::own().forked.load(std::memory_order_relaxed)) return;
      try {
        runtime_core::own().thread_names.set(id, name);
      } catch (...) {  // out of memory: the kernel's name has to do
      }
    };
    table_.stage_begins = [](thread_state*, stage_frame* f, const char* name) noexcept {
      if (!runtime_core::own().forked.load(std::memory_order_relaxed)) nvtx_output().begins(*f, name);
    };
    table_.stage_ended = [](thread_state*, const stage_frame* f) noexcept {
      if (!runtime_core::own().forked.load(std::memory_order_relaxed)) nvtx_output().ended(*f);
    };
    table_.mark_passed = [](thread_state*, std::uint32_t site) noexcept {
      if (!runtime_core::own().forked.load(std::memory_order_relaxed)) nvtx_output().passed(site);
    };
    table_.graph_twin = [](twin_step step) noexcept { return runtime_core::own().choose_twin(step); };
  }

  /// Thread-specific destructor. Other destructors of this thread may still pass markers and find their state: the
  /// collector recycles it only when the kernel has forgotten the thread.
  static void thread_exit(void* data) noexcept { thread_registry::mark_ended(static_cast<traced_thread*>(data)); }

  /// The child has no collector and CUDA does not work in it: off for good. Its first marker through each object finds
  /// no chunk, asks for one and has its gate closed.
  static void after_fork() noexcept {
    runtime_core& core = runtime_core::own();
    core.forked.store(true, std::memory_order_relaxed);
    core.gate.store(gate_off, std::memory_order_relaxed);
    own_slot().gate.store(gate_off, std::memory_order_relaxed);
    if (traced_thread* t = static_cast<traced_thread*>(pthread_getspecific(core.exit_key))) t->limit = t->cursor;
  }

  /// `main` returned, or exit was called, while a session was alive.
  CUTRACE_NOINLINE static void at_exit() {
    runtime_owner& o = own();
    if (runtime_core::own().forked.load(std::memory_order_relaxed)) return;
    // A sink or an error handler that ends the program, on a thread that holds the lock or that the end would wait for.
    if (inside_runtime()) return;
    inside_runtime() = true;
    try {
      std::lock_guard<std::mutex> hold(o.mutex_);
      o.finish();
    } catch (...) {  // nothing of ours changes how the program ends
    }
  }

  /// Turns away what comes from code that this runtime called itself.
  void admit(session_request& r) {
    bool& inside = inside_runtime();
    if (inside && r.operation == session_operation::begin)
      throw error("a trace of this process is just being started or ended by the same thread");
    if (inside) throw error("a sink, a backend or an error handler cannot use the session that calls it");
    inside = true;
    struct restore {
      bool& flag;
      ~restore() { flag = false; }
    } at_end{inside};
    serve(r);
  }

  void end_if_abandoned() {
    if (trace_ != nullptr && trace_->abandoned()) finish();
  }

  CUTRACE_NOINLINE void serve(session_request& r) {
    if (runtime_core::own().forked.load(std::memory_order_relaxed)) {
      if (r.operation == session_operation::begin)
        std::fprintf(stderr, "cutrace: process %d was forked from a traced one and is not traced\n", getpid());
      return;
    }
    std::lock_guard<std::mutex> hold(mutex_);
    // Whatever a request begins, the sinks that it brings along are there when it ends.
    struct at_end {
      runtime_owner& o;
      ~at_end() {
        if (o.trace_ != nullptr) o.trace_->begin_delivery();
      }
    } const deliver{*this};
    switch (r.operation) {
      case session_operation::begin:
        try {
          return begin(r);
        } catch (const untraced& e) {
          r.untraced = true;
          if (commands_session_ == 0) status_.untraced(e.what());
          throw;
        }
      case session_operation::end:
        end(r.session);
        r.abandoned = abandoned_;
        return;
      case session_operation::add_sink:
        if (!awake(r.session)) return;
        if (std::find(sessions_.begin(), sessions_.end(), r.session) == sessions_.end())
          throw config_error("the session has been stopped: it takes no more sinks");
        try {
          std::unique_ptr<sink> added(new sink_adapter(r.sink));
          trace_->open_sink(*added);
          trace_->take_sink(std::move(added), r.session);
        } catch (...) {
          end_if_abandoned();
          throw;
        }
        return;
      case session_operation::add_backend:
        if (awake(r.session) && trace_ != nullptr) trace_->start_backend(r.added_backend, false, r.session);
        return;
      case session_operation::pause:
        paused_ = true;
        if (trace_ != nullptr) trace_->pause();
        return;
      case session_operation::resume:
        paused_ = false;
        if (trace_ != nullptr) trace_->resume();
        return;
      case session_operation::open_window:
        r.in_window = trace_ != nullptr && trace_->open_window(r.timeout_ms) && !paused_;
        return;
      case session_operation::close_window:
        if (trace_ != nullptr) trace_->close_window();
        return;
      case session_operation::flush:
        if (trace_ != nullptr && !trace_->flush(r.timeout_ms)) throw error("not everything arrived in time");
        return;
      case session_operation::get_stats:
        if (trace_ != nullptr)
          *r.totals = trace_->totals();
        else if (find_idle(r.session) == idle_.end())
          *r.totals = last_;
        return;
    }
  }

  /// @throws config_error for what the program's code asked for, untraced for everything else
  CUTRACE_NOINLINE void begin(session_request& r) {
    if (abandoned_) throw config_error("an earlier trace of this process never ended, a sink of it holds it up");
    if (what_command_says() == command_says::trace && status_.get() == nullptr) {
      status_.open(environment("CUTRACE_RUN"));
      status_.describe(process_info::read().name.c_str(), process_rank());
    }
    const settings s = complete(*r.options);
    if (begin_for_command(s)) handler_session_ = last_session_ + 1;
    r.joined = trace_ != nullptr;
    std::vector<std::unique_ptr<sink>> sinks;
    // The sinks that the environment names are opened once a trace, whichever session comes first without its own.
    const bool from_environment = r.options->sinks == nullptr;
    const auto blaming = [from_environment](auto action) {
      return from_environment ? not_the_program(action) : action();
    };
    if (!from_environment || !r.joined || !environment_sinks_open_)
      sinks = blaming([&s] { return make_sinks(s.sinks.c_str(), s.sinks_option); });
    if (!r.joined && r.options->backend != nullptr) find_backend(s.backend, s.backend_option);
    if (!r.joined && sinks.empty()) {  // until somebody listens
      not_the_program([&s] { find_backend(s.backend, s.backend_option); });
      r.session = ++last_session_;
      idle_.push_back({r.session, s, false});
      return;
    }
    const std::uint64_t session = last_session_ + 1;
    if (r.joined)
      sessions_.push_back(session);
    else
      not_the_program([&] { start_trace(s, session); });
    r.session = last_session_ = session;
    try {
      // All of them, before the first one writes: a trace that cannot begin leaves no file behind and harms no older
      // one.
      blaming([&] {
        for (std::unique_ptr<sink>& one : sinks) trace_->open_sink(*one);
      });
      for (std::unique_ptr<sink>& one : sinks) trace_->take_sink(std::move(one), r.session);
    } catch (...) {
      end(r.session);
      throw;
    }
    environment_sinks_open_ = environment_sinks_open_ || from_environment;
    // Under `cutrace run` that is what was asked for.
    if (r.joined && (commands_session_ == 0 || r.options->backend != nullptr || r.options->memory_limit_bytes != 0))
      runtime_core::own().errors.report("session",
                                        "this process is traced already: the new session joins that trace, its backend "
                                        "and memory options do not apply",
                                        commands_session_ == 0);
  }

  /// The trace that `cutrace run` asks for: begins with the first session of the process, whose options apply, and ends
  /// when the process exits. True when it has just begun.
  CUTRACE_NOINLINE bool begin_for_command(const settings& first) {
    if (commands_session_ != 0 || trace_ != nullptr || what_command_says() != command_says::trace) return false;
    const std::uint64_t session = commands_session_ = ++last_session_;  // one attempt
    try {
      settings s = first;
      s.by_command = true;
      not_the_program([&] {
        std::vector<std::unique_ptr<sink>> sinks = make_sinks(environment("CUTRACE_SINKS"));
        start_trace(s, session);
        for (std::unique_ptr<sink>& one : sinks) trace_->open_sink(*one);
        for (std::unique_ptr<sink>& one : sinks) {
          status_.add_sink(one->name(), one->destination());
          trace_->take_sink(std::move(one), session);
        }
      });
      status_.describe_backend(trace_->backend_line().c_str(), trace_->gpu_expected());
      status_.set_state(run_state::tracing);
      environment_sinks_open_ = true;
      return true;
    } catch (const std::exception& e) {
      status_.untraced(e.what());
      if (status_.get() == nullptr) tell_untraced(first.on_error, first.on_error_user, e.what());
      end(session);
      return false;
    }
  }

  CUTRACE_NOINLINE void start_trace(const settings& s, std::uint64_t session) {
    trace_.reset(new trace(runtime_core::own(), writer(), s, &status_));
    environment_sinks_open_ = false;
    handler_session_ = session;
    sessions_.push_back(session);
    if (paused_) trace_->pause();
  }

  /// Begins the trace of a session to which nobody listened so far. False when there can be none, which is told.
  CUTRACE_NOINLINE bool awake(std::uint64_t session) {
    const auto at = find_idle(session);
    if (at == idle_.end()) return true;
    if (at->refused) return false;
    if (trace_ != nullptr) {
      sessions_.push_back(session);
      idle_.erase(at);
      return true;
    }
    try {
      not_the_program([&] { start_trace(at->wanted, session); });
      idle_.erase(at);
      return true;
    } catch (const untraced& e) {
      at->refused = true;
      tell_untraced(at->wanted.on_error, at->wanted.on_error_user, e.what());
      return false;
    }
  }

  CUTRACE_NOINLINE void end(std::uint64_t session) {
    const auto idle = find_idle(session);
    if (idle != idle_.end()) idle_.erase(idle);
    if (idle_.empty() && trace_ == nullptr) paused_ = false;
    const auto at = std::find(sessions_.begin(), sessions_.end(), session);
    if (at == sessions_.end()) return;
    if (sessions_.size() == 1) return finish();
    sessions_.erase(at);
    trace_->close_session(session);
    end_if_abandoned();
    if (paused_ && sessions_.size() == 1 && sessions_[0] == commands_session_) {  // who paused it is gone
      paused_ = false;
      trace_->resume();
    }
    if (session == handler_session_)
      runtime_core::own().errors.set_handler(nullptr, nullptr);  // it dies with its owner
  }

  /// Ends the trace, with all sessions that are open.
  CUTRACE_NOINLINE void finish() {
    if (trace_ == nullptr) return;
    trace_->stop_all(sessions_);
    sessions_.clear();
    last_ = trace_->totals();
    abandoned_ = trace_->abandoned();
    if (!abandoned_) status_.set_state(run_state::ended);
    if (abandoned_)
      keep_for_ever(std::move(trace_));  // its collector still runs, inside a sink
    else
      trace_.reset();
    paused_ = false;
    runtime_core::own().errors.set_handler(nullptr, nullptr);
  }

  /// Lives as long as the process, since a call that began while tracing was on may end at any time after it.
  static record_writer& writer() {
    static record_writer* w = new record_writer(runtime_core::own());
    return *w;
  }

  /// A session without any sink: no thread, no backend, closed gates.
  struct idle_session {
    std::uint64_t id;
    settings wanted;
    bool refused;
  };
  std::vector<idle_session>::iterator find_idle(std::uint64_t session) {
    return std::find_if(idle_.begin(), idle_.end(), [session](const idle_session& i) { return i.id == session; });
  }

  table table_{};
  bool prepared_ = false;
  bool abandoned_ = false;  ///< a trace of this process hangs in a sink for good
  std::mutex mutex_;
  std::unique_ptr<trace> trace_;
  bool environment_sinks_open_ = false;  ///< of this trace
  std::vector<std::uint64_t> sessions_;  ///< of the trace
  std::vector<idle_session> idle_;
  bool paused_ = false;
  std::uint64_t last_session_ = 0;
  std::uint64_t commands_session_ = 0;  ///< 0: `cutrace run` has not traced this process
  status_writer status_;
  std::uint64_t handler_session_ = 0;  ///< whose error handler is in force
  stats last_{};
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
