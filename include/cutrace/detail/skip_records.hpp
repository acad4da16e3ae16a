// SPDX-License-Identifier: Apache-2.0
// What a thread committed before a trace began belongs to no trace.
#pragma once

#include <cutrace/detail/chunk_pool.hpp>
#include <cutrace/detail/thread_registry.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

/// Passes over all records of `t`, gives its finished chunks back, and has it named anew. Collector's side.
CUTRACE_NOINLINE inline void skip_records(traced_thread& t, chunk_pool& pool) {
  if (t.reading == nullptr) t.reading = t.first.load(std::memory_order_acquire);
  while (t.reading != nullptr) {
    const std::uint32_t next = t.reading->next.load(std::memory_order_acquire);
    t.read = t.reading->committed.load(std::memory_order_acquire);
    t.reading->consumed.store(t.read, std::memory_order_release);
    if (next == 0) break;
    chunk* done = t.reading;
    t.reading = pool.at(next - 1);
    pool.give(done);
  }
  t.lost_seen = t.lost.load(std::memory_order_relaxed);
  t.attached = false;
  t.named_at_ns = 0;
  t.name = nullptr;
}

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
