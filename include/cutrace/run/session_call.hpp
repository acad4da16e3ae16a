// SPDX-License-Identifier: Apache-2.0
// What a `session` object asks of the process's runtime, which may have been compiled into another object with another
// compiler: plain data only. Sinks cross as function pointers; a backend crosses as a C++ object, and so between
// objects of one library version only.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cutrace/backend.hpp>
#include <cutrace/session.hpp>
#include <cutrace/sink.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace detail {

enum class session_operation : std::uint32_t {
  begin,        ///< options -> session
  end,          ///< session -> totals, where there is room for them
  add_sink,     ///< session, sink
  add_backend,  ///< session, backend; the caller has checked that the library versions are equal
  // The following are for the whole runtime, whichever session asks.
  pause,
  resume,
  flush,        ///< timeout_ms
  get_stats,    ///< session -> totals; none where the session has no trace
  open_window,  ///< timeout_ms -> in_window: begins a window of sampling (docs/sampling.md)
  close_window,
  flush_unfinished,  ///< timeout_ms; as flush, and takes records of GPU work that has not ended, too
};

/// A sink behind function pointers. Functions that can fail return 0, or 1 with the reason in `message`.
struct foreign_sink {
  void* self;
  const char* (*name)(void*);
  int (*open)(void*, const trace_info*, char* message, std::size_t message_bytes);
  int (*write)(void*, const event*, std::size_t, char* message, std::size_t message_bytes);
  int (*flush)(void*, char* message, std::size_t message_bytes);
  int (*close)(void*, const trace_summary*, char* message, std::size_t message_bytes);
  std::uint64_t (*left_out)(void*);
  const char* (*left_out_because)(void*);
  std::uint64_t (*arrived)(void*);  ///< sink::arrived
};

struct session_request {
  std::uint32_t size;  ///< of this struct, as the caller knows it
  session_operation operation;
  std::uint64_t session;
  const session_options* options;
  foreign_sink sink;
  backend* added_backend;
  std::uint32_t timeout_ms;
  stats* totals;
  bool joined;     ///< result of begin: the runtime was tracing already; of one that failed: it goes on
  bool untraced;   ///< result of a begin that failed: the environment's or the machine's fault, not the caller's; of
                   ///< add_sink and add_backend: the session's trace could not begin, which has been reported
  bool abandoned;  ///< result of end: a sink has not returned, or the thread that starts the trace. That thread may use
                   ///< any sink of the session, so none may ever be destroyed
  bool in_window;  ///< result of open_window
  char message[1024];
};

/// Runs `action`, a function of a sink, and turns an exception into a message. @returns 0, or 1 after an exception
template <class Action>
int guarded_call(char* message, std::size_t bytes, Action action) noexcept {
  try {
    action();
    return 0;
  } catch (const std::exception& e) {
    std::snprintf(message, bytes, "%s", e.what());
  } catch (...) {
    std::snprintf(message, bytes, "%s", "threw something that is no std::exception");
  }
  return 1;
}

inline foreign_sink make_foreign(sink& s) noexcept {
  foreign_sink f{};
  f.self = &s;
  f.name = [](void* p) { return static_cast<sink*>(p)->name(); };
  f.open = [](void* p, const trace_info* i, char* m, std::size_t n) {
    return guarded_call(m, n, [&] { static_cast<sink*>(p)->open(*i); });
  };
  f.write = [](void* p, const event* e, std::size_t count, char* m, std::size_t n) {
    return guarded_call(m, n, [&] { static_cast<sink*>(p)->write(event_view{e, count}); });
  };
  f.flush = [](void* p, char* m, std::size_t n) { return guarded_call(m, n, [&] { static_cast<sink*>(p)->flush(); }); };
  f.close = [](void* p, const trace_summary* t, char* m, std::size_t n) {
    return guarded_call(m, n, [&] { static_cast<sink*>(p)->close(*t); });
  };
  f.left_out = [](void* p) { return static_cast<sink*>(p)->left_out(); };
  f.left_out_because = [](void* p) { return static_cast<sink*>(p)->left_out_because(); };
  f.arrived = [](void* p) { return static_cast<sink*>(p)->arrived(); };
  return f;
}

/// The runtime's side of a foreign sink.
class sink_adapter final : public sink {
 public:
  explicit sink_adapter(const foreign_sink& f) : f_(f) {}
  const char* name() const noexcept override { return f_.name(f_.self); }
  void open(const trace_info& i) override { check(f_.open(f_.self, &i, message_, sizeof(message_))); }
  void write(event_view e) override { check(f_.write(f_.self, e.data, e.size, message_, sizeof(message_))); }
  void flush() override { check(f_.flush(f_.self, message_, sizeof(message_))); }
  void close(const trace_summary& t) override { check(f_.close(f_.self, &t, message_, sizeof(message_))); }
  std::uint64_t left_out() const noexcept override { return f_.left_out(f_.self); }
  const char* left_out_because() const noexcept override { return f_.left_out_because(f_.self); }
  std::uint64_t arrived() const noexcept override { return f_.arrived(f_.self); }

 private:
  void check(int failed) {
    if (failed != 0) throw error(message_);
  }
  foreign_sink f_;
  char message_[1024];
};

}  // namespace detail
CUTRACE_END_NAMESPACE
