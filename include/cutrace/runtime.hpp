// SPDX-License-Identifier: Apache-2.0
// The runtime, the heavy half of the library: compiled once in each executable or shared library that owns sessions.
// The CMake target cutrace::cutrace brings it compiled, cutrace::header_only compiles it; without CMake, include this
// header in one source file (and, for GPU time, the backend's header behind it).
#pragma once

#include <cstring>
#include <cutrace/config.hpp>

#if CUTRACE_ENABLED

#include <cutrace/run/runtime_owner.hpp>
#include <cutrace/session.hpp>
#ifndef CUTRACE_RUNTIME_WITHOUT_SINKS  // sinks have source files of their own, as in the CMake target
#include <cutrace/sinks/make_file_sinks.hpp>
#include <cutrace/sinks/make_text_sinks.hpp>
#endif
#include <memory>
#include <mutex>
#include <new>
#include <vector>

// Weak and hidden: a second source file of the same object that includes this header does no harm, and no other object
// of the process ever binds to it.
#define CUTRACE_RUNTIME __attribute__((weak, visibility("hidden")))

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

/// What session::state_ points to. Without `owner` the session is inert (CUTRACE=0, say).
struct session_state {
  const table* owner = nullptr;
  std::uint64_t id = 0;
  std::atomic<bool> stopped{false};
  std::atomic<bool> refused{false};  ///< its trace could not begin when a sink or backend was added
  std::mutex mutex;                  ///< of `sinks` and `last`
  pid_t process = getpid();
  bool shared = false;  ///< the one state of all sessions for which there was no memory: inert, never destroyed
  stats last{};
  std::vector<std::unique_ptr<sink>> sinks;
};

inline session_state* shared_state() noexcept {
  alignas(session_state) static unsigned char room[sizeof(session_state)];
  static session_state* const state = [] {
    session_state* s = new (room) session_state;
    s->shared = true;
    return s;
  }();
  return state;
}

/// Sends a request to the runtime; throws config_error with the runtime's message if the request failed.
inline void ask(session_state& s, session_request& r) {
  r.size = sizeof(r);
  r.session = s.id;
  r.message[0] = '\0';
  if (s.owner == nullptr || s.stopped) return;
  const bool failed = s.owner->session_call(&r) != 0;
  s.refused = r.untraced;
  if (failed) throw config_error(r.message);
}

CUTRACE_NOINLINE inline session_state* open_session(const session_options& o) {
  std::unique_ptr<session_state> s(new (std::nothrow) session_state);
  const table* owner = nullptr;
  try {
    if (!tracing_wanted()) return s != nullptr ? s.release() : shared_state();
    if (s == nullptr) throw untraced("out of memory");
    owner = not_the_program([] { return runtime_owner::ensure(); });
  } catch (const untraced& e) {
    report_untraced(o.on_error, o.on_error_user, e.what());
    return s != nullptr ? s.release() : shared_state();
  }
  // Session and runtime exchange events, statistics and options by pointer; layouts may differ between versions.
  if (std::strcmp(owner->version, CUTRACE_VERSION_STRING) != 0) {
    write_error_line(
        "cutrace: this process is traced by version %s, a session of version %s does nothing; markers of both are "
        "recorded",
        owner->version, CUTRACE_VERSION_STRING);
    return s.release();
  }
  s->owner = owner;
  session_request r{};
  r.operation = session_operation::begin;
  r.options = &o;
  try {
    ask(*s, r);
  } catch (const config_error&) {
    if (!r.untraced) throw;
    report_untraced(o.on_error, o.on_error_user, r.message, r.joined);
  }
  if (r.session == 0) s->owner = nullptr;
  s->id = r.session;
  return s.release();
}

}  // namespace CUTRACE_LOCAL

CUTRACE_RUNTIME session::session() : state_(detail::open_session(session_options{})) {}
CUTRACE_RUNTIME session::session(const session_options& o) : state_(detail::open_session(o)) {}
CUTRACE_RUNTIME session::~session() {
  stop();
  detail::session_state* state = static_cast<detail::session_state*>(state_);
  // In a forked child the sinks' files belong to the parent: destroying the sinks would write their buffers twice. And
  // a session that could not be stopped, since a sink or an error handler of its own destroys it, is still in use.
  if (state->process != getpid() || state->shared) return;
  if (state->owner == nullptr || state->stopped) delete state;
}

CUTRACE_RUNTIME bool session::active() const noexcept {
  const detail::session_state& state = *static_cast<const detail::session_state*>(state_);
  return state.owner != nullptr && !state.stopped && !state.refused;
}

CUTRACE_RUNTIME void session::add_sink(sink& s) {
  detail::session_request r{};
  r.operation = detail::session_operation::add_sink;
  r.sink = detail::make_foreign(s);
  detail::ask(*static_cast<detail::session_state*>(state_), r);
}
CUTRACE_RUNTIME void session::own_sink(sink* s) {
  detail::session_state& state = *static_cast<detail::session_state*>(state_);
  {
    std::lock_guard<std::mutex> hold(state.mutex);
    state.sinks.emplace_back(s);
  }
  add_sink(*s);
}
CUTRACE_RUNTIME void session::on_request_done(request_done_handler handler, void* user) {
  if (handler == nullptr) throw config_error("on_request_done needs a function to call, not a null pointer");
  own_sink(detail::make_request_done_sink(handler, user).release());
}
CUTRACE_RUNTIME void session::add_backend(backend& b) {
  detail::session_state& state = *static_cast<detail::session_state*>(state_);
  // A backend is a C++ object with a table of virtual functions: it may be handed to a runtime of its own version only.
  if (state.owner != nullptr && std::strcmp(state.owner->version, CUTRACE_VERSION_STRING) != 0)
    throw config_error("the process's runtime has another version: start the backend in the object that owns it");
  detail::session_request r{};
  r.operation = detail::session_operation::add_backend;
  r.added_backend = &b;
  detail::ask(state, r);
}
CUTRACE_RUNTIME void session::pause() noexcept {
  detail::session_request r{};
  r.operation = detail::session_operation::pause;
  const detail::session_state& state = *static_cast<detail::session_state*>(state_);
  if (state.owner != nullptr && !state.stopped) state.owner->session_call(&r);
}
CUTRACE_RUNTIME void session::resume() noexcept {
  detail::session_request r{};
  r.operation = detail::session_operation::resume;
  const detail::session_state& state = *static_cast<detail::session_state*>(state_);
  if (state.owner != nullptr && !state.stopped) state.owner->session_call(&r);
}
CUTRACE_RUNTIME bool session::open_window(std::uint32_t timeout_ms) noexcept {
  detail::session_request r{};
  r.operation = detail::session_operation::open_window;
  r.timeout_ms = timeout_ms;
  const detail::session_state& state = *static_cast<const detail::session_state*>(state_);
  return state.owner != nullptr && !state.stopped && state.owner->session_call(&r) == 0 && r.in_window;
}
CUTRACE_RUNTIME void session::close_window() noexcept {
  detail::session_request r{};
  r.operation = detail::session_operation::close_window;
  const detail::session_state& state = *static_cast<const detail::session_state*>(state_);
  if (state.owner != nullptr && !state.stopped) state.owner->session_call(&r);
}
namespace detail {
inline bool flush_session(const session_state& state, session_operation how, std::uint32_t timeout_ms) noexcept {
  session_request r{};
  r.operation = how;
  r.timeout_ms = timeout_ms;
  return state.owner == nullptr || state.stopped || state.owner->session_call(&r) == 0;
}
}  // namespace detail
CUTRACE_RUNTIME bool session::flush(std::uint32_t timeout_ms) noexcept {
  return detail::flush_session(*static_cast<detail::session_state*>(state_), detail::session_operation::flush,
                               timeout_ms);
}
CUTRACE_RUNTIME bool session::flush_unfinished(std::uint32_t timeout_ms) noexcept {
  return detail::flush_session(*static_cast<detail::session_state*>(state_),
                               detail::session_operation::flush_unfinished, timeout_ms);
}
CUTRACE_RUNTIME void session::stop() noexcept {
  detail::session_state& state = *static_cast<detail::session_state*>(state_);
  if (state.owner == nullptr || state.stopped) return;
  detail::session_request r{};
  cutrace::stats last{};
  r.operation = detail::session_operation::end;
  r.session = state.id;
  r.totals = &last;
  if (state.owner->session_call(&r) != 0) return;
  std::lock_guard<std::mutex> hold(state.mutex);
  if (r.abandoned)
    for (std::unique_ptr<sink>& s : state.sinks) static_cast<void>(s.release());
  state.last = last;
  state.stopped = true;
}
CUTRACE_RUNTIME stats session::stats() const noexcept {
  detail::session_state& state = *static_cast<detail::session_state*>(state_);
  if (state.owner == nullptr || state.stopped) {
    std::lock_guard<std::mutex> hold(state.mutex);
    return state.last;
  }
  cutrace::stats totals{};
  detail::session_request r{};
  r.operation = detail::session_operation::get_stats;
  r.session = state.id;
  r.totals = &totals;
  state.owner->session_call(&r);
  return totals;
}

CUTRACE_END_NAMESPACE

#undef CUTRACE_RUNTIME

#endif  // CUTRACE_ENABLED
