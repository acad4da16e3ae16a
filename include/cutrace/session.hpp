// SPDX-License-Identifier: Apache-2.0
// The owner of a trace, as the application sees it. Opaque: the runtime behind it is compiled once in a program
// (runtime.hpp): in the archive that the CMake target cutrace::cutrace brings, by cutrace::header_only, or by including
// that header in one source file.
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

/// What a thread does when no chunk is free, and before a call that makes GPU work when the collector lags behind and
/// half of the activity buffers are taken.
enum class overflow_policy : std::uint8_t {
  drop,  ///< the event is counted as lost (chunk_full, buffer_limit); the application never waits. Default.
  wait,  ///< the thread waits up to `overflow_wait_us` for the collector, then goes on. For tests and batch jobs.
};

/// All fields have a default. Where a field is at its default, the environment variable named beside it applies.
struct session_options {
  const char* sinks = nullptr;                       ///< "ascii,jsonl:t.jsonl,chrome:t.json"; CUTRACE_SINKS
  const char* backend = nullptr;                     ///< "auto", "cupti", "sim", "none"; CUTRACE_BACKEND
  std::size_t memory_limit_bytes = 0;                ///< 0: 48 MiB; CUTRACE_MEMORY_LIMIT ("64M")
  overflow_policy overflow = overflow_policy::drop;  ///< CUTRACE_OVERFLOW ("drop", "wait")
  std::uint32_t overflow_wait_us = 10000;
  bool emit_nvtx = false;                 ///< stages are NVTX ranges for other tools, too; CUTRACE_NVTX ("1")
  const char* sample = nullptr;           ///< record in windows: "200ms/20s", "requests"; CUTRACE_SAMPLE
  bool omit_command_line = false;         ///< the trace has no command line; CUTRACE_COMMAND_LINE ("0")
  std::uint32_t window_ms = 0;            ///< ordering window, 0: 500; CUTRACE_WINDOW_MS
  std::uint32_t flush_period_ms = 0;      ///< GPU records are asked for each, 0: 100; CUTRACE_FLUSH_PERIOD_MS
  std::uint32_t stop_deadline_ms = 5000;  ///< for each flush of a backend at the end
  std::uint32_t sink_deadline_ms =
      30000;  ///< at the end, over one call of a sink, which is then left; CUTRACE_SINK_DEADLINE_MS
  error_handler on_error = nullptr;
  void* on_error_user = nullptr;
  const char* watchdog = nullptr;  ///< GPU work that takes longer hangs: "10s,except=KERNEL"; CUTRACE_WATCHDOG
  bool control = false;            ///< answers `cutrace explain`; CUTRACE_CONTROL ("1"); the watchdog does, too
  alarm_handler on_alarm = nullptr;
  void* on_alarm_user = nullptr;
};

#if CUTRACE_ENABLED

/// Tracing is on while a session lives to which somebody listens: without any sink it costs nothing, no thread and no
/// backend are started, and markers stay closed until the first sink or backend is added. One runtime a process: a
/// second session, or one in a program that is traced by injection already, joins the first one; its sinks receive
/// everything from then on, its other options do not apply (said once on stderr). All functions may be called from any
/// thread. From a sink, a backend or an error handler they do nothing: those that can throw say so, `flush` returns
/// false, `stats` zeros.
class session {
 public:
  /// From the environment alone (CUTRACE_SINKS and the others). CUTRACE=0 makes it inert. Does not throw: a variable
  /// that cannot be used, or a machine without room for a trace, gives one line on stderr and an inert session.
  CUTRACE_LOCAL session();
  /// @throws config_error for an option that cannot be used; the message names it and the accepted values. What the
  /// environment asks for never throws, as above (the line goes to `on_error` if there is one).
  CUTRACE_LOCAL explicit session(const session_options&);
  /// Stops, see `stop`.
  CUTRACE_LOCAL ~session();
  session(const session&) = delete;
  session& operator=(const session&) = delete;

  /// False once stopped, and for a session that is inert: CUTRACE=0, an unusable variable, no room, a forked child, or
  /// another version's runtime.
  CUTRACE_LOCAL bool active() const noexcept;

  /// Adds a sink that the caller keeps alive until the session has stopped. @throws what sink::open throws, and
  /// config_error when a sink holds up the trace and no thread is to be had: no sink of it may be destroyed then.
  CUTRACE_LOCAL void add_sink(sink&);
  /// Adds a sink that the session owns. The reference is valid until the session ends.
  template <class Sink, class... Arguments>
  Sink& emplace_sink(Arguments&&... arguments) {
    Sink* s = new Sink(static_cast<Arguments&&>(arguments)...);
    own_sink(s);
    return *s;
  }
  /// Calls `handler` with what each request cost, once, when its work has retired: when all of its stages have ended
  /// and their GPU work is done and the program said CUTRACE_MARK("request_end", id), or else after a second in which
  /// nothing was heard of it; at the end of the session all that are left. A sink of its own, which keeps at most 48
  /// MiB; without a call of this function it costs nothing. May be called several times, for several handlers.
  /// @param user handed to `handler`; must live until the session has stopped @throws as add_sink
  CUTRACE_LOCAL void on_request_done(request_done_handler handler, void* user = nullptr);
  /// Starts a backend that the caller keeps alive until the session has stopped, beside those chosen by options.
  CUTRACE_LOCAL void add_backend(backend&);

  /// Closes and opens the gate of all markers and callbacks in this process.
  CUTRACE_LOCAL void pause() noexcept;
  CUTRACE_LOCAL void resume() noexcept;

  /// Where the session records in windows (session_options::sample): has one open from here on, until close_window has
  /// been called as often. What the calling thread does after it returned true is recorded in full; false when that is
  /// not so within `timeout_ms`, or while paused. In a session that always records, true. See cutrace/window.hpp.
  CUTRACE_LOCAL bool open_window(std::uint32_t timeout_ms = 100) noexcept;
  CUTRACE_LOCAL void close_window() noexcept;

  /// Returns when everything recorded before the call has reached the sinks and they have flushed, or after
  /// `timeout_ms`. True if it has.
  CUTRACE_LOCAL bool flush(std::uint32_t timeout_ms = 5000) noexcept;
  /// The same, and GPU work that has not ended is asked for, too: where something hangs, the end of the trace will then
  /// name it, whatever becomes of the GPU. Such work is delivered without times (event::incomplete), which are lost for
  /// good even if it ends well; so at most once a second, between which this is flush().
  CUTRACE_LOCAL bool flush_unfinished(std::uint32_t timeout_ms = 5000) noexcept;

  /// Backends flush and stop, chunks drain, sinks close with the statistics. Safe to call twice.
  CUTRACE_LOCAL void stop() noexcept;

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
