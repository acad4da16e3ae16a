// SPDX-License-Identifier: Apache-2.0
// The session: the owner of a trace, as the application sees it. Opaque: the runtime behind it (runtime.hpp) is
// compiled once in a program: in the archive that the CMake target cutrace::cutrace brings, by cutrace::header_only, or
// by including runtime.hpp in one source file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cutrace/compiled.hpp>
#include <cutrace/config.hpp>
#include <cutrace/error.hpp>
#include <cutrace/request_done.hpp>
#include <cutrace/stats.hpp>

CUTRACE_BEGIN_NAMESPACE

class sink;
class backend;

/// What a thread does when no chunk (memory for its records) is free, and before a call that makes GPU work when half
/// of the activity buffers (memory for GPU records) are taken.
enum class overflow_policy : std::uint8_t {
  drop,  ///< the event is counted as lost (chunk_full, buffer_limit); the application never waits. Default.
  wait,  ///< the thread waits up to `overflow_wait_us` for room, then goes on. For tests and batch jobs.
};

/// All fields have a default. Where a field is at its default, the environment variable named beside it applies.
struct session_options {
  const char* sinks = nullptr;                       ///< "ascii,jsonl:t.jsonl,chrome:t.json"; CUTRACE_SINKS
  const char* backend = nullptr;                     ///< "auto", "cupti", "sim", "none"; CUTRACE_BACKEND
  std::size_t memory_limit_bytes = 0;                ///< 0: 48 MiB; CUTRACE_MEMORY_LIMIT ("64M")
  overflow_policy overflow = overflow_policy::drop;  ///< CUTRACE_OVERFLOW ("drop", "wait")
  std::uint32_t overflow_wait_us = 1000000;
  bool emit_nvtx = false;             ///< stages are NVTX ranges for other tools, too; CUTRACE_NVTX ("1")
  const char* sample = nullptr;       ///< record in windows: "200ms/20s", "requests"; CUTRACE_SAMPLE
  bool omit_command_line = false;     ///< the trace has no command line; CUTRACE_COMMAND_LINE ("0")
  std::uint32_t window_ms = 0;        ///< how long events wait for earlier ones, up to 60000; 0: 500; CUTRACE_WINDOW_MS
  std::uint32_t flush_period_ms = 0;  ///< how often GPU records are fetched, 0: 100; CUTRACE_FLUSH_PERIOD_MS
  std::uint32_t stop_deadline_ms = 5000;  ///< for each flush of a backend at the end
  std::uint32_t sink_deadline_ms =
      30000;  ///< at the end: a sink that takes longer over one call gets no more events; CUTRACE_SINK_DEADLINE_MS
  error_handler on_error = nullptr;
  void* on_error_user = nullptr;
  const char* watchdog = nullptr;  ///< longer GPU work counts as hung: "10s,except=KERNEL"; CUTRACE_WATCHDOG
  bool control = false;            ///< answer `cutrace explain`; `watchdog` implies it; CUTRACE_CONTROL ("1")
  alarm_handler on_alarm = nullptr;
  void* on_alarm_user = nullptr;
};

#if CUTRACE_ENABLED

/// Tracing is on while a session lives that has a sink or an added backend. Before that a session costs nothing: it
/// starts no thread and no backend, and markers stay off. A process has one runtime: a second session, or one in a
/// program that is traced by injection already, joins the running trace; its sinks receive everything from then on, its
/// other options do not apply (one line reports that). All functions may be called from any thread. From a sink, a
/// backend or an error handler they do nothing: those that can throw do so, `flush` returns false, `stats` returns
/// zeros.
class session {
 public:
  /// From the environment alone (CUTRACE_SINKS and the others). CUTRACE=0 makes it inert. A variable or file that
  /// cannot be used, or a lack of memory or threads, gives one line on stderr and an inert session. @throws
  /// config_error only in a sink, a backend or an error handler, where no session can begin.
  CUTRACE_LOCAL session();
  /// @throws config_error for an option that cannot be used; the message names it and the accepted values. What the
  /// environment asks for never throws, as above (the line goes to `on_error` if there is one).
  CUTRACE_LOCAL explicit session(const session_options&);
  /// Stops, see `stop`.
  CUTRACE_LOCAL ~session();
  session(const session&) = delete;
  session& operator=(const session&) = delete;

  /// False once stopped, and for a session that is inert: CUTRACE=0, an unusable variable, a lack of memory or
  /// threads (at the latest when a sink was added), a forked child, another version's runtime, or an earlier trace that
  /// a sink holds up for good.
  CUTRACE_LOCAL bool active() const noexcept;

  /// Adds a sink that the caller keeps alive until the session has stopped. @throws config_error with the message of
  /// what sink::open threw, or when a sink hangs and no new thread can be started to serve the others: the trace ends
  /// then, and none of its sinks may be destroyed.
  CUTRACE_LOCAL void add_sink(sink&);
  /// Adds a sink that the session owns. The reference is valid until the session is destroyed. @throws as add_sink
  template <class Sink, class... Arguments>
  Sink& emplace_sink(Arguments&&... arguments) {
    Sink* s = new Sink(static_cast<Arguments&&>(arguments)...);
    own_sink(s);
    return *s;
  }
  /// Calls `handler` once for each request, with what it cost, when its work has retired: all of its stages have ended,
  /// their GPU work is done, and CUTRACE_MARK("request_end", id) was passed or no event of it has come for a second. At
  /// the end of the session the handler gets all requests that are left. Adds a sink, which keeps at most 48 MiB; who
  /// does not call this function pays nothing. May be called several times, for several handlers.
  /// @param user handed to `handler`; must live until the session has stopped @throws as add_sink
  CUTRACE_LOCAL void on_request_done(request_done_handler handler, void* user = nullptr);
  /// Starts a backend that the caller keeps alive until the session has stopped, beside the one that the options name.
  CUTRACE_LOCAL void add_backend(backend&);

  /// Stop and resume recording in the whole process: in between, markers and callbacks record nothing.
  CUTRACE_LOCAL void pause() noexcept;
  CUTRACE_LOCAL void resume() noexcept;

  /// In a session that records in windows (session_options::sample): keeps a window open until close_window has been
  /// called as often as this. True: what the calling thread does from here on is recorded in full; always so in a
  /// session that records all the time. False: not within `timeout_ms`, or paused; close_window is due all the same.
  /// See cutrace/window.hpp.
  CUTRACE_LOCAL bool open_window(std::uint32_t timeout_ms = 100) noexcept;
  CUTRACE_LOCAL void close_window() noexcept;

  /// Waits until everything recorded before the call has reached the sinks and they have flushed: true, or false when
  /// `timeout_ms` passed first.
  CUTRACE_LOCAL bool flush(std::uint32_t timeout_ms = 5000) noexcept;
  /// As flush, and fetches the records of GPU work that has not ended, too: where something hangs, the trace will then
  /// name it, whatever becomes of the GPU. Such work is delivered without times (event::incomplete), which are lost for
  /// good even if the work ends well; so this happens at most once a second, and other calls do what flush() does.
  CUTRACE_LOCAL bool flush_unfinished(std::uint32_t timeout_ms = 5000) noexcept;

  /// Ends the session: backends flush and stop, what was recorded is delivered, sinks close. Where other sessions go
  /// on, GPU work that has not ended by then is left to them, and counts as lost (unpaired) here. Safe to call twice.
  CUTRACE_LOCAL void stop() noexcept;

  /// Of the trace, so far; once stopped, those of the end. Zeros for a session that has no trace.
  CUTRACE_LOCAL cutrace::stats stats() const noexcept;

 private:
  CUTRACE_LOCAL void own_sink(sink*);
  void* state_ = nullptr;
};

#else

/// Markers are compiled out here: the same interface, which does nothing.
class session {
 public:
  session() noexcept {}
  explicit session(const session_options&) noexcept {}
  ~session() {
    while (owned_ != nullptr) {
      node* before = owned_->before;
      delete owned_;
      owned_ = before;
    }
  }
  session(const session&) = delete;
  session& operator=(const session&) = delete;
  bool active() const noexcept { return false; }
  void add_sink(sink&) noexcept {}
  template <class Sink, class... Arguments>
  Sink& emplace_sink(Arguments&&... arguments) {
    struct kept : node {
      explicit kept(node* older, Arguments&&... given) : node(older), target(static_cast<Arguments&&>(given)...) {}
      Sink target;
    };
    kept* k = new kept(owned_, static_cast<Arguments&&>(arguments)...);
    owned_ = k;
    return k->target;
  }
  void on_request_done(request_done_handler, void* = nullptr) noexcept {}
  void add_backend(backend&) noexcept {}
  void pause() noexcept {}
  void resume() noexcept {}
  bool open_window(std::uint32_t = 100) noexcept { return false; }
  void close_window() noexcept {}
  bool flush(std::uint32_t = 5000) noexcept { return true; }
  bool flush_unfinished(std::uint32_t = 5000) noexcept { return true; }
  void stop() noexcept {}
  cutrace::stats stats() const noexcept { return {}; }

 private:
  struct node {
    explicit node(node* n) : before(n) {}
    virtual ~node() = default;
    node* before;
  };
  node* owned_ = nullptr;
};

#endif

CUTRACE_END_NAMESPACE
