// SPDX-License-Identifier: Apache-2.0
// Windows that the program opens, in a session that records in windows (session_options::sample):
//
//   static cutrace::one_in sampled(100);
//   cutrace::window recorded(session, sampled());   // this request in full, 99 without
//
// A window is the process's: what other threads do meanwhile is recorded, too. Where none is open, opening one takes a
// millisecond and the time that CUPTI needs to switch activity kinds and callbacks on; closing it waits for nothing.
#pragma once

#include <atomic>
#include <cstdint>
#include <cutrace/session.hpp>

CUTRACE_BEGIN_NAMESPACE

/// True for the first call and each n-th after it. Any thread.
class one_in {
 public:
  explicit one_in(std::uint64_t n) noexcept : n_(n != 0 ? n : 1) {}
  bool operator()() noexcept { return count_.fetch_add(1, std::memory_order_relaxed) % n_ == 0; }

 private:
  const std::uint64_t n_;
  std::atomic<std::uint64_t> count_{0};
};

/// Keeps a window open while this object lives, if `wanted`. The session must outlive it.
class window {
 public:
  explicit window(session& s, bool wanted = true, std::uint32_t timeout_ms = 100) noexcept
      : session_(wanted ? &s : nullptr), open_(wanted && s.open_window(timeout_ms)) {}
  ~window() {
    if (session_ != nullptr) session_->close_window();
  }
  window(const window&) = delete;
  window& operator=(const window&) = delete;

  /// Whether session::open_window returned true: what this thread does is recorded in full.
  bool open() const noexcept { return open_; }

 private:
  session* session_;
  bool open_;
};

CUTRACE_END_NAMESPACE
