// SPDX-License-Identifier: Apache-2.0
// Counts what it gets and keeps nothing: to measure the tracing itself, or to read session::stats alone.
#pragma once

#include <atomic>
#include <cstdint>
#include <cutrace/config.hpp>
#include <cutrace/sink.hpp>

CUTRACE_BEGIN_NAMESPACE

class null_sink : public sink {
 public:
  const char* name() const noexcept override { return "null"; }
  void write(event_view events) override { written_.fetch_add(events.size, std::memory_order_relaxed); }

  /// Events so far. Any thread.
  std::uint64_t written() const noexcept { return written_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> written_{0};
};

CUTRACE_END_NAMESPACE
