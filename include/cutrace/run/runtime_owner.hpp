// SPDX-License-Identifier: Apache-2.0
// The one runtime of a process: election of its owner among the loaded objects, the functions of its C table, sessions
// that come and go, thread exit, fork and process exit.
#pragma once

#include <pthread.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cutrace/base/write_all.hpp>
#include <cutrace/run/early_end.hpp>
#include <cutrace/run/keep_for_ever.hpp>
#include <cutrace/run/trace.hpp>
#include <cutrace/sinks/sink_registry.hpp>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

class runtime_owner {
 public:
  /// This object's instance; it serves the process only if `ensure` elects it. Never destroyed.
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
    runtime_owner& o = own();
    election e{&o.table_, nullptr};
    {
      std::lock_guard<std::mutex> hold(*once);
      o.prepare();
      // One pass under the loader's lock: who sets the first slot is the owner for all.
      for_each_slot(&vote, &e);
    }
    // The owner's code and data stay loaded whatever happens to the object that brought them.
    if (e.winner == &o.table_) keep_library(reinterpret_cast<const void*>(&runtime_owner::ensure));
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

  CUTRACE_NOINLINE void prepare() {
    if (prepared_) return;
    runtime_core& core = runtime_core::own();
    nvtx_output();  // made here, as is the writer: markers and calls use both, and cannot handle a lack of memory
    writer();
    core.published = &table_;
    core.scale = calibrate(!remote_process::own().other() && counter_is_invariant());
    prepared_ = true;  // from here on nothing needs memory
    core.has_exit_key = pthread_key_create(&core.exit_key, &thread_exit) == 0;
    core.process = getpid();
    pthread_atfork(nullptr, nullptr, &after_fork);
    std::atexit(&at_exit);
    at_quick_exit(&at_exit);
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
      const no_cancel whole;
      return guarded_call(r->message, sizeof(r->message), [&] { own().admit(*r); });
    };
    table_.name_thread = [](std::uint32_t id, const char* name) noexcept {
      if (runtime_core::own().forked.load(std::memory_order_relaxed)) return;
      try {
        runtime_core::own().thread_names.set(id, name);
      } catch (...) {  // out of memory: the kernel's name has to do
      }
    };
    table_.stage_begins = [](thread_state* t, stage_frame* f, const char* name) noexcept {
      const runtime_core& of = runtime_core::own();
      if (of.forked.load(std::memory_order_relaxed)) return;
      nvtx_output().begins(*f, name);
      if (!of.stages_open_at_once.load(std::memory_order_relaxed)) return;
      f->begin = clock::ticks(t->use_counter);
      open_frames(t, f);
    };
    table_.stage_ended = [](thread_state*, const stage_frame* f) noexcept {
      if (!runtime_core::own().forked.load(std::memory_order_relaxed)) nvtx_output().ended(*f);
    };
    table_.mark_passed = [](thread_state*, std::uint32_t site) noexcept {
      if (!runtime_core::own().forked.load(std::memory_order_relaxed)) nvtx_output().passed(site);
    };
    table_.graph_twin = [](twin_step step) noexcept { return runtime_core::own().choose_twin(step); };
    table_.scopes_interleave = [](thread_state* t) noexcept { runtime_core::own().report_interleaving(*t); };
  }

  /// Thread-specific destructor. Other destructors of this thread may still pass markers and find their state: the
  /// collector recycles it only when the kernel has forgotten the thread.
  static void thread_exit(void* data) noexcept { thread_registry::mark_ended(static_cast<traced_thread*>(data)); }

  /// The child has no collector and CUDA does not work in it: off for good. Its first marker through each object finds
  /// no chunk, asks for one and has its gate closed.
  static void after_fork() noexcept {
    runtime_core& core = runtime_core::own();
    core.forked.store(true, std::memory_order_relaxed);
    early_end::own().give_up();
    core.gate.store(gate_off, std::memory_order_relaxed);
    own_slot().gate.store(gate_off, std::memory_order_relaxed);
    if (traced_thread* t = runtime_core::of_this_thread()) t->limit = t->cursor;
  }
  /// After _Fork or the bare system call no fork handler runs, so the process id is compared.
  static bool is_forked() noexcept {
    runtime_core& core = runtime_core::own();
    if (!core.forked.load(std::memory_order_relaxed) && getpid() != core.process) after_fork();
    return core.forked.load(std::memory_order_relaxed);
  }

  /// `main` returned, or exit or quick_exit was called, while a session was alive.
  CUTRACE_NOINLINE static void at_exit() {
    if (is_forked()) return;
    // A sink or an error handler ends the program, on a thread that holds the lock or that the end would wait for.
    if (inside_runtime()) return;
    const as_runtime only_the_trace;
    std::optional<no_signals> until_done;  // as in `admit`: the thread that is interrupted has to end the trace itself
    if (early_end::own().is_armed()) until_done.emplace();
    own().while_settled([](runtime_owner& o) {
      o.exits_ = std::this_thread::get_id();
      o.finish();
    });
  }

  /// Acts while no trace is being started. An exception here must not change how the program goes on.
  template <class Act>
  void while_settled(Act act) noexcept {
    try {
      std::unique_lock<std::mutex> hold(mutex_);
      // A thread that exits in a library's constructor may hold what the start waits for.
      if (changed_.wait_for(hold, std::chrono::seconds(5), [this] { return !starting_; })) act(*this);
    } catch (...) {
    }
  }

  /// Where libcutrace_watch.so is preloaded, the trace ends before the program leaves without exit. Once per trace.
  CUTRACE_NOINLINE static void watch_early_end(std::uint32_t wait_ms) {
    early_end& e = early_end::own();
    if (!e.is_watched()) return;
    if (e.begin(wait_ms)) {
      try {
        start_thread(&serve_early_end, nullptr).detach();
      } catch (const std::exception& failed) {
        e.give_up();
        runtime_core::own().errors.report("session", failed.what());
        return;
      }
    }
    e.arm(&happens);
  }
  /// Called by the watching library, see early_end.hpp.
  static bool happens(watched what) noexcept {
    if (what == watched::exec || what == watched::end) {
      early_end::leave(what);
      return false;
    }
    if (is_forked()) return false;
    bool& inside = inside_runtime();
    const bool before = inside;
    inside = true;
    const bool records = what == watched::cupti_takes;
    bool met = false;
    own().while_settled([&](runtime_owner& o) {
      // A long deadline: a thread that the kernel stopped with a buffer of ours in its hands has to go on first.
      met = o.trace_ != nullptr && o.trace_->meets_client(records, 1000);
    });
    inside = before;
    if (!met) return false;
    char line[400];
    std::snprintf(
        line, sizeof(line),
        "%s; `cutrace run --method preload --gpu-events` leaves CUPTI to the program and takes calls, stages and "
        "GPU times in another way",
        records ? "this program takes CUPTI's records for itself: from here on they go there, and this trace "
                  "has no more GPU work"
                : "this program uses CUPTI itself (a profiler of PyTorch, JAX or its own) and was refused, "
                  "since cutrace has it: that profile has no GPU work");
    runtime_core::own().errors.report("cupti", line);
    return true;
  }
  static void serve_early_end(void*) {
    inside_runtime() = true;
    pthread_setname_np(pthread_self(), "cutrace-end");
    early_end::own().serve([](watched how) {
      own().while_settled([how](runtime_owner& o) {
        if (how == watched::end) return o.finish(early_end::own().backend_wait_ms());
        if (o.trace_ != nullptr) o.trace_->flush(early_end::own().backend_wait_ms(), false);
      });
    });
  }

  /// Exit handlers and destructors that run after `at_exit` may open sessions, too. Other threads that still run and
  /// open them are not waited for, or the program might never end.
  void end_at_exit_again() {
    if (exits_ == std::this_thread::get_id() && std::atexit(&at_exit) == 0) exits_ = {};
  }

  /// The calling thread is inside the runtime while it lives.
  struct as_runtime {
    as_runtime() noexcept { inside_runtime() = true; }
    ~as_runtime() { inside_runtime() = false; }
    as_runtime(const as_runtime&) = delete;
    as_runtime& operator=(const as_runtime&) = delete;
  };

  /// Turns away what comes from code that this runtime called itself.
  void admit(session_request& r) {
    const bool inside = inside_runtime();
    if (inside && r.operation == session_operation::begin)
      throw error(
          "no session can begin in a sink, a backend or an error handler, nor where the same thread starts or ends "
          "another one");
    if (inside) throw error("a sink, a backend or an error handler cannot use the session that calls it");
    const as_runtime whole;
    if (!early_end::own().is_armed()) return serve(r);
    const no_signals until_done;  // a signal that ends the program would wait for what this thread holds
    serve(r);
  }

  void end_if_abandoned() {
    if (trace_ != nullptr && trace_->abandoned()) finish();
  }

  CUTRACE_NOINLINE void serve(session_request& r) {
    if (is_forked()) {
      if (r.operation == session_operation::begin)
        write_error_line("cutrace: process %d was forked from a traced one and is not traced", getpid());
      return;
    }
    const bool has_memory =
        r.operation != session_operation::begin ||
        register_offered(r.options->backend != nullptr ? r.options->backend : environment("CUTRACE_BACKEND"));
    std::unique_lock<std::mutex> hold(mutex_);
    // Delivery begins at the end of a request, when the sinks that it brings along have been added.
    struct at_end {
      runtime_owner& o;
      ~at_end() {
        if (o.trace_ != nullptr && !o.starting_) o.trace_->begin_delivery();
        if (o.handler_session_ > o.last_session_ && o.trace_ != nullptr)  // of a session that could not begin
          o.trace_->drop_handlers(), o.handler_session_ = 0;
      }
    } const deliver{*this};
    if (r.operation == session_operation::add_backend) changed_.wait(hold, [this] { return !starting_; });
    switch (r.operation) {
      case session_operation::begin:
        try {
          if (!has_memory) throw std::bad_alloc();
          return begin(r, hold);
        } catch (const untraced& e) {
          return refuse(r, e.what());
        } catch (const std::bad_alloc&) {
          return refuse(r, "out of memory");
        }
      case session_operation::end: {
        // Another thread starts this session's trace. Not for ever: it may need a lock of the caller's (dlclose).
        r.abandoned = sessions_.size() == 1 && sessions_[0] == r.session &&
                      !changed_.wait_for(hold, std::chrono::seconds(10), [this] { return !starting_; });
        if (r.abandoned) {  // the trace, in which that thread still is, goes on until the process ends, as nobody's
          sessions_[0] = ++last_session_, handler_session_ = 0;
          return runtime_core::own().errors.set_handler(nullptr, nullptr);
        }
        const bool was_idle = find_idle(r.session) != idle_.end();
        end(r.session);
        if (was_idle) return;                           // it had no trace, and its sinks were in none
        if (r.totals != nullptr) *r.totals = totals();  // older headers ask for none
        r.abandoned = abandoned_ || (trace_ != nullptr && trace_->left_a_sink());
        return;
      }
      case session_operation::add_sink:
        r.untraced = !awake(r.session, hold);
        if (r.untraced) return;
        if (std::find(sessions_.begin(), sessions_.end(), r.session) == sessions_.end())
          throw config_error("the session has been stopped: it takes no more sinks");
        try {
          std::unique_ptr<sink> added(new sink_adapter(r.sink));
          trace_->open_sink(*added);
          trace_->take_sink(std::move(added), r.session);
          if (starting_) trace_->begin_early();
        } catch (...) {
          end_if_abandoned();
          throw;
        }
        return;
      case session_operation::add_backend:
        r.untraced = !awake(r.session, hold);
        if (!r.untraced && trace_ != nullptr) trace_->start_backend(r.added_backend, false, r.session);
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
        if (trace_ == nullptr && !idle_.empty()) ++windows_;
        r.in_window = trace_ != nullptr && trace_->open_window(r.timeout_ms) && !paused_;
        return;
      case session_operation::close_window:
        if (trace_ != nullptr)
          trace_->close_window();
        else if (windows_ != 0)
          --windows_;
        return;
      case session_operation::flush:
      case session_operation::flush_unfinished:
        if (trace_ != nullptr && !(r.operation == session_operation::flush ? trace_->flush(r.timeout_ms, false)
                                                                           : trace_->flush_unfinished(r.timeout_ms)))
          throw error("not everything arrived in time");
        return;
      case session_operation::get_stats:
        if (find_idle(r.session) == idle_.end()) *r.totals = totals();
        return;
    }
  }

  /// A session cannot begin, and the environment or the machine is to blame. @throws untraced
  [[noreturn]] CUTRACE_NOINLINE void refuse(session_request& r, const char* why) {
    r.untraced = true;
    r.joined = trace_ != nullptr;
    if (commands_session_ == 0) status_.untraced(why);
    throw untraced(why);
  }

  /// @throws config_error for what the program's code asked for, untraced and bad_alloc for everything else
  CUTRACE_NOINLINE void begin(session_request& r, std::unique_lock<std::mutex>& hold) {
    if (what_command_says() == command_says::trace && status_.get() == nullptr) {
      const int failure = status_.open(environment("CUTRACE_RUN"));
      if (failure != 0 && failure != ENOENT && commands_session_ == 0)  // ENOENT: the command has ended before
        write_error_line("cutrace: what becomes of process %d cannot be reported to cutrace run: %s", getpid(),
                         errno_text(failure).c_str());
      status_.describe(process_info::read().name.c_str(), process_rank());
    }
    say_unknown_variables(*r.options);
    const settings s = complete(*r.options);
    if (begin_for_command(s, hold)) handler_session_ = last_session_ + 1;
    r.joined = trace_ != nullptr;
    std::vector<std::unique_ptr<sink>> sinks;
    // The sinks that the environment names are opened once a trace, whichever session comes first without its own.
    const bool from_environment = r.options->sinks == nullptr;
    const auto blaming = [from_environment](auto action) {
      return from_environment ? not_the_program(action) : action();
    };
    std::vector<std::string> refused;  // why sinks that the environment names cannot be used; the others still work
    if (!from_environment || !r.joined || !environment_sinks_open_)
      sinks = blaming([&] {
        return make_sinks(s.sinks.c_str(), s.sinks_option, builtin_sinks(), from_environment ? &refused : nullptr);
      });
    if (!r.joined && r.options->backend != nullptr) find_backend(s.backend, s.backend_option);
    if (!r.joined && sinks.empty()) {  // idle until a sink is added
      not_the_program([&s] { find_backend(s.backend, s.backend_option); });
      idle_.push_back({last_session_ + 1, s, false});  // first: without memory for it the session is inert
      r.session = ++last_session_;
      return;
    }
    const std::uint64_t session = ++last_session_;
    if (r.joined)
      sessions_.push_back(session);
    else
      not_the_program([&] { start_trace(s, session, from_environment, hold); });
    r.session = session;
    try {
      // All of them, before the first one writes: a trace that cannot begin leaves no file behind and harms no older
      // one.
      blaming([&] {
        if (from_environment) return open_each(sinks, refused);
        for (std::unique_ptr<sink>& one : sinks) trace_->open_sink(*one);
      });
      for (std::unique_ptr<sink>& one : sinks) {
        if (from_environment && s.on_error == nullptr) note_file(*one, session);
        trace_->take_sink(std::move(one), session);
      }
    } catch (...) {
      if (from_environment && !r.joined) environment_sinks_open_ = false;
      end(std::exchange(r.session, 0));
      throw;
    }
    if (starting_) trace_->begin_early();
    environment_sinks_open_ = environment_sinks_open_ || from_environment;
    // Under `cutrace run` joining is what was asked for.
    if (r.joined && (commands_session_ == 0 || r.options->backend != nullptr || r.options->memory_limit_bytes != 0))
      runtime_core::own().errors.report("session",
                                        "this process is traced already: the new session joins that trace, its backend "
                                        "and memory options do not apply",
                                        commands_session_ == 0);
  }

  /// The trace that `cutrace run` asks for: begins with the first session of the process, whose options apply, and ends
  /// when the process exits. True when it has just begun.
  CUTRACE_NOINLINE bool begin_for_command(const settings& first, std::unique_lock<std::mutex>& hold) {
    if (commands_session_ != 0 || trace_ != nullptr || what_command_says() != command_says::trace) return false;
    const std::uint64_t session = commands_session_ = ++last_session_;  // one attempt
    status_.set_session(session);
    try {
      settings s = first;
      s.by_command = true;
      not_the_program([&] {
        std::vector<std::string> refused;
        std::vector<std::unique_ptr<sink>> sinks =
            make_sinks(environment("CUTRACE_SINKS"), "CUTRACE_SINKS", builtin_sinks(), &refused);
        start_trace(s, session, true, hold);
        open_each(sinks, refused);
        for (std::unique_ptr<sink>& one : sinks) {
          status_.add_sink(one->name(), one->destination());
          trace_->take_sink(std::move(one), session);
        }
        for (const std::string& why : refused) status_.add_refused_sink(why.c_str());
      });
      status_.describe_backend(trace_->backend_line().c_str(), trace_->gpu_expected());
      status_.set_state(run_state::tracing);
      environment_sinks_open_ = true;
      if (s.samples.duration_ms != 0) end_after(s.samples.after_ms + s.samples.duration_ms);
      return true;
    } catch (const std::exception& e) {
      end(session);  // before the status says why, which is its last entry
      status_.untraced(e.what());
      if (status_.get() == nullptr) report_untraced(first.on_error, first.on_error_user, e.what());
      return false;
    }
  }

  /// Opens sinks that the environment names: one that cannot be opened is reported, and the others work without it.
  /// `refused`: why some of them could not be made or opened. @throws error where none is left
  CUTRACE_NOINLINE void open_each(std::vector<std::unique_ptr<sink>>& sinks, std::vector<std::string>& refused) {
    for (std::size_t i = 0; i < sinks.size();) {
      try {
        trace_->open_sink(*sinks[i]);
        ++i;
      } catch (const std::exception& e) {
        refused.push_back(std::string(sinks[i]->name()) + ": " + e.what());
        sinks.erase(sinks.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
    if (refused.empty()) return;
    if (sinks.empty()) throw error(refused.front().c_str());
    for (const std::string& why : refused)
      runtime_core::own().errors.report("sink", (why + "; the other sinks work without it").c_str());
  }

  /// Reports unknown variables, once in a process. `cutrace run` has done so for the processes that it traces.
  CUTRACE_NOINLINE void say_unknown_variables(const session_options& o) {
    if (variables_looked_at_ || what_command_says() != command_says::nothing) return;
    variables_looked_at_ = true;
    const std::string line = about_unknown_variables();
    if (line.empty()) return;
    if (o.on_error != nullptr)
      o.on_error("session", line.c_str(), o.on_error_user);
    else
      write_error_line("cutrace: %s", line.c_str());
  }

  struct written_file {
    std::uint64_t session;
    std::string path;
  };
  /// Notes the file of a sink that the environment names: its path is printed when the sink has closed.
  CUTRACE_NOINLINE void note_file(const sink& s, std::uint64_t session) {
    const char* path = s.destination();
    if (path != nullptr && path[0] == '/' && !output_file::names_descriptor(path)) files_.push_back({session, path});
  }
  /// Prints the files of a session whose sinks have closed. `session` 0: of all sessions.
  CUTRACE_NOINLINE void say_files(std::uint64_t session) noexcept {
    try {
      std::string list;
      for (const written_file& f : files_) {
        struct stat known {};
        if (session != 0 && f.session != session) continue;
        const trace_parts parts = trace_parts::of(f.path);
        if (parts.count > 1 || (parts.count == 1 && parts.newest != f.path)) {
          list += (list.empty() ? "" : ", ") + parts.newest + " (" + trace_parts::newest_of(parts.count) + ", " +
                  std::to_string(parts.bytes) + " bytes)";
          continue;
        }
        if (::stat(f.path.c_str(), &known) != 0 || !S_ISREG(known.st_mode)) continue;
        list += (list.empty() ? "" : ", ") + f.path + " (" + std::to_string(known.st_size) + " bytes)";
      }
      const auto said = [session](const written_file& f) { return session == 0 || f.session == session; };
      files_.erase(std::remove_if(files_.begin(), files_.end(), said), files_.end());
      if (!list.empty()) write_error_line("cutrace: wrote %s", list.c_str());
    } catch (...) {  // out of memory
    }
  }

  /// The command's trace has an end of its own: its files are complete then, however long the program goes on. Sessions
  /// of the program stay.
  CUTRACE_NOINLINE void end_after(std::uint32_t ms) {
    ends_at_ = std::chrono::steady_clock::now() + std::chrono::milliseconds(ms);
    try {
      start_thread(&serve_end_of_duration, nullptr).detach();
    } catch (const std::exception& failed) {  // then the trace ends with the program
      runtime_core::own().errors.report("session", failed.what());
    }
  }
  static void serve_end_of_duration(void*) {
    inside_runtime() = true;
    pthread_setname_np(pthread_self(), "cutrace-end");
    std::this_thread::sleep_until(own().ends_at_);
    if (is_forked()) return;
    // Where sessions of the program go on, work cannot be fetched before it ends: they would lose its times.
    const auto until = own().ends_at_ + std::chrono::seconds(5);
    std::uint32_t upto = 0;
    for (bool waits = true; waits && std::chrono::steady_clock::now() < until;) {
      waits = false;
      own().while_settled([&](runtime_owner& o) {
        const bool is_open =
            std::find(o.sessions_.begin(), o.sessions_.end(), o.commands_session_) != o.sessions_.end();
        waits = is_open && o.trace_->others_listen(o.commands_session_) && o.trace_->awaits_records(upto, 1000);
      });
      if (waits) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    own().while_settled([](runtime_owner& o) {
      o.end(o.commands_session_, true);
      if (!o.abandoned_) o.status_.set_state(run_state::ended);
    });
  }

  /// Problem: a backend loads libraries, for which another thread may hold the loader's lock: one whose library has a
  /// session of its own in a static object. Solution: the backend starts without the runtime's lock, and sessions join
  /// meanwhile. `environments`: the caller opens the sinks that the environment names.
  CUTRACE_NOINLINE void start_trace(const settings& s, std::uint64_t session, bool environments,
                                    std::unique_lock<std::mutex>& hold) {
    if (abandoned_) throw error("an earlier trace of this process never ended, a sink of it holds it up");
    sessions_.reserve(sessions_.size() + 1);  // before there is a trace, which needs a session to end
    // A trace of the program's own must not overwrite what the block says of the command's, which has failed or ended.
    trace_.reset(new trace(runtime_core::own(), writer(), s, session == commands_session_ ? &status_ : nullptr));
    trace_->add_windows(std::exchange(windows_, 0));
    end_at_exit_again();
    environment_sinks_open_ = environments;
    handler_session_ = session;
    sessions_.push_back(session);
    starting_ = true;
    struct at_end {
      runtime_owner& o;
      std::unique_lock<std::mutex>& hold;
      ~at_end() {
        hold.lock();
        o.starting_ = false;
        o.changed_.notify_all();
      }
    };
    try {
      const at_end relock{*this, hold};
      hold.unlock();
      watch_early_end(s.leave_wait_ms);
      // Threads that a backend's library starts take no signals of the program and are bound to no processor.
      const no_signals meanwhile;
      const any_processor until_begun;
      trace_->begin();
    } catch (...) {  // what has begun must not go on without an owner
      finish();
      throw;
    }
    if (handler_session_ != session) trace_->drop_handlers();  // it was stopped meanwhile
    if (paused_) trace_->pause();
  }

  /// Begins the trace of a session that had no sink so far. False when there can be none, which is reported.
  CUTRACE_NOINLINE bool awake(std::uint64_t session, std::unique_lock<std::mutex>& hold) {
    const auto at = find_idle(session);
    if (at == idle_.end()) return true;
    if (at->refused) return false;
    if (trace_ != nullptr) sessions_.push_back(session);
    idle_session waiting = std::move(*at);
    idle_.erase(at);  // now: while the trace starts without the lock, other threads may come here with this session
    if (trace_ != nullptr) return true;
    try {
      not_the_program([&] {
        try {
          start_trace(waiting.wanted, session, false, hold);
        } catch (const std::bad_alloc&) {
          throw;  // the next sink may find memory
        } catch (...) {
          waiting.refused = true;
          throw;
        }
      });
      return true;
    } catch (const untraced& e) {
      report_untraced(waiting.wanted.on_error, waiting.wanted.on_error_user, e.what());
      idle_.push_back(std::move(waiting));
      return false;
    }
  }

  CUTRACE_NOINLINE void end(std::uint64_t session, bool recording_is_over = false) {
    const auto idle = find_idle(session);
    if (idle != idle_.end()) idle_.erase(idle);
    if (idle_.empty() && trace_ == nullptr) paused_ = false, windows_ = 0;
    const auto at = std::find(sessions_.begin(), sessions_.end(), session);
    if (at == sessions_.end()) return;
    if (sessions_.size() == 1) return finish();
    sessions_.erase(at);
    if (session == handler_session_) trace_->drop_alarm_handler();
    trace_->close_session(session, recording_is_over);
    say_files(session);
    end_if_abandoned();
    if (paused_ && sessions_.size() == 1 && sessions_[0] == commands_session_) {  // who paused it is gone
      paused_ = false;
      trace_->resume();
    }
    if (session == handler_session_)
      runtime_core::own().errors.set_handler(nullptr, nullptr);  // the handler dies with its owner
  }

  /// Ends the trace, with all sessions that are open. `backend_deadline_ms`: instead of the settings'; 0: theirs.
  CUTRACE_NOINLINE void finish(std::uint32_t backend_deadline_ms = 0) {
    if (trace_ == nullptr) return;
    const bool of_command = std::find(sessions_.begin(), sessions_.end(), commands_session_) != sessions_.end();
    trace_->stop_all(sessions_, backend_deadline_ms);
    sessions_.clear();
    last_ = trace_->totals();
    abandoned_ = trace_->left_a_sink();
    say_files(0);
    if (of_command && !trace_->abandoned()) status_.set_state(run_state::ended);
    early_end::own().disarm();  // threads that leave meanwhile have waited for all of this
    if (abandoned_)
      keep_for_ever(std::move(trace_));  // a thread of it stands in a sink
    else
      trace_.reset();
    paused_ = false;
    runtime_core::own().errors.set_handler(nullptr, nullptr);
  }

  /// Of the trace, or of the last one.
  stats totals() const { return trace_ != nullptr ? trace_->totals() : last_; }

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
  std::condition_variable changed_;  ///< notified when `starting_` becomes false
  bool starting_ = false;            ///< a thread starts the trace, without the lock
  std::thread::id exits_;            ///< thread whose exit has ended the trace, or none
  std::unique_ptr<trace> trace_;
  bool environment_sinks_open_ = false;  ///< of this trace
  bool variables_looked_at_ = false;
  std::chrono::steady_clock::time_point ends_at_{};  ///< end of the command's trace, where it has a duration
  std::vector<written_file> files_;                  ///< of sinks that the environment names and no command reports
  std::vector<std::uint64_t> sessions_;              ///< that share the trace
  std::vector<idle_session> idle_;
  bool paused_ = false;
  std::uint32_t windows_ = 0;  ///< open, while there is no trace
  std::uint64_t last_session_ = 0;
  std::uint64_t commands_session_ = 0;  ///< 0: `cutrace run` has not traced this process
  status_writer status_;
  std::uint64_t handler_session_ = 0;  ///< whose error handler is in force
  stats last_{};
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
