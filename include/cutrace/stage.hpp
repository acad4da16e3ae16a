// SPDX-License-Identifier: Apache-2.0
// Stages: named pieces of a program's own work. GPU work that is issued while a stage is the innermost one of its
// thread belongs to it, and to the request (or the batch of requests) that it names.
//
//   CUTRACE_STAGE("decode");                       scope
//   CUTRACE_STAGE("decode", request_id);           of one request: any integer, or text
//   CUTRACE_STAGE_BATCH("decode", ids, n);         of n requests: pointer to 64-bit ids, copied at once
//   CUTRACE_STAGE_DYNAMIC(layer_name, request);    name known at run time only (copied)
//   CUTRACE_FUNCTION();                            named after the enclosing function
//   cutrace::span s = CUTRACE_SPAN("queue", id);   may move, and end on another thread
//
// Markers are noexcept and call no CUDA function; after the first one of a thread they take no lock and allocate
// nothing. Not for signal handlers. A scope ends on the thread where it began, and all that this thread runs meanwhile
// belongs to it: a coroutine or a fiber that is suspended in between uses a span, and adopts the span's context
// (context.hpp) around each part that runs. Exceptions may leave a scope, longjmp must not: it skips the scope's end.
#pragma once

#include <cutrace/config.hpp>
#include <cutrace/request.hpp>

#if CUTRACE_ENABLED

#include <cutrace/marker/stage_write.hpp>

CUTRACE_BEGIN_NAMESPACE

/// A stage from here to the end of the scope. Pinned: neither copied, moved nor allocated.
class scoped_stage {
 public:
  CUTRACE_INLINE explicit scoped_stage(detail::site& s) noexcept : thread_(detail::this_thread()) {
    if (CUTRACE_LIKELY(thread_ == nullptr)) return;
    detail::begin_frame(thread_, frame_, detail::site_id(thread_, s), request_form::none, 0, 0);
    start();
  }
  CUTRACE_INLINE scoped_stage(detail::site& s, request q) noexcept : thread_(detail::this_thread()) {
    if (CUTRACE_LIKELY(thread_ == nullptr)) return;
    const std::uint32_t id = detail::site_id(thread_, s);
    if (q.form() < request_form::text)
      detail::begin_frame(thread_, frame_, id, q.form(), q.word(), 0);
    else
      detail::begin_copying(thread_, frame_, id, nullptr, q.data(), q.size(), q.word(), q.form(), 0);
    start();
  }

  struct dynamic {
    explicit dynamic(const char* text) noexcept : name(text) {}
    /// std::string and its like.
    template <class Text, class = decltype(static_cast<const char*>(static_cast<const Text*>(nullptr)->c_str()))>
    explicit dynamic(const Text& text) noexcept : name(text.c_str()) {}
    const char* name;
  };
  CUTRACE_INLINE explicit scoped_stage(dynamic d, request q = {}) noexcept : thread_(detail::this_thread()) {
    if (CUTRACE_LIKELY(thread_ == nullptr)) return;
    detail::begin_copying(thread_, frame_, 0, d.name != nullptr ? d.name : "", q.data(), q.size(), q.word(), q.form(),
                          detail::flag_dynamic);
    start(d.name);
  }

  CUTRACE_INLINE ~scoped_stage() {
    if (CUTRACE_LIKELY(thread_ == nullptr)) return;
    const std::uint64_t end = detail::end_ticks(thread_, frame_);
    detail::leave_frame(thread_, frame_);
    detail::write_stage(thread_, frame_, end, 0);
  }

  scoped_stage(const scoped_stage&) = delete;
  scoped_stage& operator=(const scoped_stage&) = delete;
  static void* operator new(std::size_t) = delete;
  static void* operator new[](std::size_t) = delete;

 private:
  CUTRACE_INLINE void start(const char* dynamic_name = nullptr) noexcept {
    thread_->top = &frame_;
    frame_.begin = detail::begin_ticks(thread_, frame_, dynamic_name);
  }

  detail::thread_state* const thread_;
  detail::stage_frame frame_;
};

/// A stage that is not bound to a scope: it may be moved, stored in a request object and ended on any thread. It never
/// becomes its thread's innermost stage, so GPU work belongs to it only where its `context` is adopted (context.hpp).
class span {
 public:
  span() noexcept = default;
  explicit span(detail::site& s, request q = {}) noexcept {
    detail::thread_state* t = detail::this_thread();
    if (CUTRACE_LIKELY(t == nullptr)) return;
    const std::uint32_t id = detail::site_id(t, s);
    if (q.form() < request_form::text)
      detail::begin_frame(t, frame_, id, q.form(), q.word(), detail::flag_span);
    else
      detail::begin_copying(t, frame_, id, nullptr, q.data(), q.size(), q.word(), q.form(), detail::flag_span);
    frame_.begin = detail::begin_ticks(t, frame_);
    origin_ = t->index;
    running_ = true;
  }
  span(span&& other) noexcept : frame_(other.frame_), origin_(other.origin_), running_(other.running_) {
    other.running_ = false;
  }
  span& operator=(span&& other) noexcept {
    if (this != &other) {
      end();
      frame_ = other.frame_;
      origin_ = other.origin_;
      running_ = other.running_;
      other.running_ = false;
    }
    return *this;
  }
  ~span() { end(); }

  /// Ends the stage now, on this thread; later calls do nothing.
  void end() noexcept {
    if (!running_) return;
    running_ = false;
    detail::thread_state* t = detail::this_thread();
    if (CUTRACE_UNLIKELY(t == nullptr)) return end_while_off();
    detail::write_stage(t, frame_, detail::end_ticks(t, frame_), origin_);
  }

  explicit operator bool() const noexcept { return running_; }

 private:
  friend class context;
  /// This thread may not have been notified of stages yet, as another one was of the begin.
  CUTRACE_LOCAL CUTRACE_NOINLINE void end_while_off() noexcept {
    detail::thread_state* t = detail::thread_while_off();
    if (t != nullptr) detail::write_stage(t, frame_, detail::end_ticks_notifying(t, frame_), origin_);
  }

  detail::stage_frame frame_{};
  std::uint32_t origin_ = 0;
  bool running_ = false;
};

CUTRACE_END_NAMESPACE

#else

CUTRACE_BEGIN_NAMESPACE
class span {
 public:
  span() noexcept {}
  span(span&&) noexcept {}
  span& operator=(span&&) noexcept { return *this; }
  ~span() {}  // not trivial, so that a variable of it is never "unused"
  void end() noexcept {}
  explicit operator bool() const noexcept { return false; }
};
CUTRACE_END_NAMESPACE

#endif  // CUTRACE_ENABLED

#include <cutrace/marker/stage_macros.hpp>
