// SPDX-License-Identifier: Apache-2.0
// Handing a stage to another thread: capture it where the work is queued, adopt it where the work is done.
//
//   queue.push({task, cutrace::context::capture()});
//   ...
//   cutrace::adopted_stage keep(item.context);   // GPU work of this thread in this scope belongs to that stage
#pragma once

#include <cutrace/stage.hpp>

CUTRACE_BEGIN_NAMESPACE

#if CUTRACE_ENABLED

/// A stage's identity, small enough to copy into a queue entry. May outlive the stage. Any thread.
class context {
 public:
  context() noexcept = default;  ///< no stage

  /// The innermost stage of the calling thread.
  static context capture() noexcept {
    context c;
    if (detail::thread_state* t = detail::this_thread()) {
      if (detail::current_stage(t) != 0) c.take(*t->top);
    }
    return c;
  }

  /// A span's identity, so that work done elsewhere for the span can belong to it. Not while another thread uses it.
  static context of(span& s) noexcept {
    context c;
    detail::thread_state* t = s.running_ ? detail::this_thread() : nullptr;
    if (t == nullptr) return c;
    if (!s.frame_.announced_in(t->trace_number.load(std::memory_order_relaxed))) {
      detail::open_frames(t, t->top);  // where the span began, unless it has moved: its own may be gone
      detail::write_open(t, s.frame_, nullptr, {});
    }
    c.take(s.frame_);
    return c;
  }

  explicit operator bool() const noexcept { return id_ != 0; }
  std::uint64_t id() const noexcept { return id_; }  ///< stage instance, 0 for none

 private:
  friend class adopted_stage;
  void take(const detail::stage_frame& f) noexcept {
    head_ = f.head;
    id_ = f.id;
    parent_ = f.parent;
    request_ = f.request;
    naming_stage_ = f.naming_stage;
  }
  std::uint64_t head_ = 0;
  std::uint64_t id_ = 0;
  std::uint64_t parent_ = 0;
  std::uint64_t request_ = 0;
  std::uint64_t naming_stage_ = 0;
};

/// Makes a captured stage the innermost one of this thread until the end of the scope; the trace shows this part of the
/// stage on this thread, too. An empty context changes nothing. Neither copied, moved nor allocated.
class adopted_stage {
 public:
  explicit adopted_stage(const context& c) noexcept {
    thread_ = c.id_ != 0 ? detail::this_thread() : nullptr;
    if (thread_ == nullptr) return;
    frame_.outer = thread_->top;
    frame_.head = c.head_ | detail::head_flags(detail::flag_adopted);
    frame_.id = c.id_;
    frame_.parent = c.parent_;
    frame_.request = c.request_;
    frame_.depth_and_trace = thread_->top != nullptr ? (thread_->top->depth_and_trace + 1) & 0xffff : 0;
    frame_.naming_stage = c.naming_stage_;
    frame_.begin = detail::begin_ticks(thread_, frame_);
    thread_->top = &frame_;
  }
  ~adopted_stage() {
    if (thread_ == nullptr) return;
    const std::uint64_t end = detail::end_ticks(thread_, frame_);
    detail::leave_frame(thread_, frame_);
    detail::write_stage(thread_, frame_, end, 0);
  }
  adopted_stage(const adopted_stage&) = delete;
  adopted_stage& operator=(const adopted_stage&) = delete;
  static void* operator new(std::size_t) = delete;
  static void* operator new[](std::size_t) = delete;

 private:
  detail::thread_state* thread_;
  detail::stage_frame frame_;
};

#else

class context {
 public:
  static context capture() noexcept { return {}; }
  static context of(span&) noexcept { return {}; }
  explicit operator bool() const noexcept { return false; }
  std::uint64_t id() const noexcept { return 0; }
};
class adopted_stage {
 public:
  explicit adopted_stage(const context&) noexcept {}
  ~adopted_stage() {}  // not trivial, so that a variable of it is never "unused"
  adopted_stage(const adopted_stage&) = delete;
  adopted_stage& operator=(const adopted_stage&) = delete;
};

#endif

CUTRACE_END_NAMESPACE
