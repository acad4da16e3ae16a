// SPDX-License-Identifier: Apache-2.0
// The one runtime of a process: election of its owner among the loaded objects, the functions of its C table, sessions
// that come and go, thread exit, fork and process exit.
#pragma once

#include <dlfcn.h>
#include <pthread.h>

#include <algorithm>
#include <cstdlib>
#include <cutrace/detail/trace.hpp>
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
    core.scale = calibrate(counter_is_invariant());
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
      if (!runtime_core::own().forked.load(std::memory_order_relaxed)) runtime_core::own().nvtx.begins(*f, name);
    };
    table_.stage_ended = [](thread_state*, const stage_frame* f) noexcept {
      if (!runtime_core::own().forked.load(std::memory_order_relaxed)) runtime_core::own().nvtx.ended(*f);
    };
    table_.mark_passed = [](thread_state*, std::uint32_t site) noexcept {
      if (!runtime_core::own().forked.load(std::memory_order_relaxed)) runtime_core::own().nvtx.passed(site);
    };
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
    switch (r.operation) {
      case session_operation::begin:
        return begin(r);
      case session_operation::end:
        end(r.session);
        r.abandoned = abandoned_;
        return;
      case session_operation::add_sink:
        if (std::find(sessions_.begin(), sessions_.end(), r.session) == sessions_.end())
          throw config_error("the session has been stopped: it takes no more sinks");
        try {
          trace_->add_sink(std::make_unique<sink_adapter>(r.sink), r.session);
        } catch (...) {
          end_if_abandoned();
          throw;
        }
        return;
      case session_operation::add_backend:
        if (trace_ != nullptr) trace_->start_backend(r.added_backend, false, r.session);
        return;
      case session_operation::pause:
        if (trace_ != nullptr) trace_->pause();
        return;
      case session_operation::resume:
        if (trace_ != nullptr) trace_->resume();
        return;
      case session_operation::flush:
        if (trace_ != nullptr && !trace_->flush(r.timeout_ms)) throw error("not everything arrived in time");
        return;
      case session_operation::get_stats:
        *r.totals = trace_ != nullptr ? trace_->totals() : last_;
        return;
    }
  }

  CUTRACE_NOINLINE void begin(session_request& r) {
    if (abandoned_) throw config_error("an earlier trace of this process never ended, a sink of it holds it up");
    const settings s = complete(*r.options);
    r.joined = trace_ != nullptr;
    std::vector<std::unique_ptr<sink>> sinks;
    // The sinks that the environment names are opened once a trace, whichever session comes first without its own.
    const bool from_environment = r.options->sinks == nullptr;
    if (!from_environment || !r.joined || !environment_sinks_open_) sinks = make_sinks(s.sinks.c_str(), s.sinks_option);
    if (!r.joined) {
      trace_.reset(new trace(runtime_core::own(), writer(), s));
      environment_sinks_open_ = false;
    }
    r.session = ++last_session_;
    if (!r.joined) handler_session_ = r.session;
    sessions_.push_back(r.session);
    try {
      for (std::unique_ptr<sink>& one : sinks) trace_->add_sink(std::move(one), r.session);
    } catch (...) {
      end(r.session);
      throw;
    }
    environment_sinks_open_ = environment_sinks_open_ || from_environment;
    if (r.joined)
      runtime_core::own().errors.report("session",
                                        "this process is traced already: the new session joins that trace, its backend "
                                        "and memory options do not apply");
  }

  CUTRACE_NOINLINE void end(std::uint64_t session) {
    const auto at = std::find(sessions_.begin(), sessions_.end(), session);
    if (at == sessions_.end()) return;
    if (sessions_.size() == 1) return finish();
    sessions_.erase(at);
    trace_->close_session(session);
    end_if_abandoned();
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
    if (abandoned_)
      static_cast<void>(trace_.release());  // its collector still runs, inside a sink
    else
      trace_.reset();
    runtime_core::own().errors.set_handler(nullptr, nullptr);
  }

  /// Lives as long as the process, since a call that began while tracing was on may end at any time after it.
  static record_writer& writer() {
    static record_writer* w = new record_writer(runtime_core::own());
    return *w;
  }

  table table_{};
  bool prepared_ = false;
  bool abandoned_ = false;  ///< a trace of this process hangs in a sink for good
  std::mutex mutex_;
  std::unique_ptr<trace> trace_;
  bool environment_sinks_open_ = false;  ///< of this trace
  std::vector<std::uint64_t> sessions_;
  std::uint64_t last_session_ = 0;
  std::uint64_t handler_session_ = 0;  ///< whose error handler is in force
  stats last_{};
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
