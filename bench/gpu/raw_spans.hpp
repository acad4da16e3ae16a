// SPDX-License-Identifier: Apache-2.0
// The least that a tracer's task needs of CUPTI's callbacks, for raw_cupti.hpp: a span of each call, and the stage of
// each kernel.
#pragma once

#include <cupti.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <cutrace/clock.hpp>
#include <cutrace/cupti/records.hpp>
#include <mutex>
#include <vector>

namespace bench {

/// Each call leaves its begin and end, its stage and its first arguments in a ring of its thread, and its stage where
/// the call's GPU record finds it by its id. Both are read where CUPTI hands over a buffer. Nothing is counted that the
/// rings lose, and nothing is delivered before a buffer of CUPTI's is full.
class CUTRACE_LOCAL raw_spans {
  static constexpr std::size_t count = 65536;

  struct span {
    std::uint64_t begin, end;  ///< raw clock
    std::uint32_t correlation, function;
    std::uint64_t stage;
    unsigned char arguments[32];
  };
  struct of_thread {
    std::vector<span> ring = std::vector<span>(count);  ///< 4 MiB
    std::atomic<std::size_t> next{0};
    std::uint64_t stage = 0;
    std::atomic<std::uint32_t> open{0};  ///< id of the call that the thread is in
    std::size_t read = 0;
  };
  struct call_stage {
    std::atomic<std::uint32_t> correlation;
    std::atomic<std::uint64_t> stage;
  };

 public:
  /// For as long as the process lives: CUPTI's thread may outlive objects of static storage.
  static raw_spans& all() {
    static raw_spans* const one = new raw_spans;
    return *one;
  }

  static void CUPTIAPI on_callback(void* all, CUpti_CallbackDomain, CUpti_CallbackId id, const void* data) {
    static thread_local of_thread* mine __attribute__((tls_model("initial-exec"))) = nullptr;
    auto& shared = *static_cast<raw_spans*>(all);
    if (mine == nullptr) mine = shared.add_thread();
    const auto* call = static_cast<const CUpti_CallbackData*>(data);
    if (call->callbackSite == CUPTI_API_ENTER) {
      mine->open.store(call->correlationId, std::memory_order_relaxed);
      call_stage& c = shared.of(call->correlationId);
      c.stage.store(mine->stage, std::memory_order_relaxed);
      c.correlation.store(call->correlationId, std::memory_order_release);
      *call->correlationData = cutrace::clock::counter();
      return;
    }
    const std::size_t next = mine->next.load(std::memory_order_relaxed);
    span& s = mine->ring[next % count];
    s.begin = *call->correlationData;
    s.correlation = call->correlationId;
    s.function = id;
    s.stage = mine->stage;
    if (call->functionParams != nullptr) std::memcpy(s.arguments, call->functionParams, sizeof(s.arguments));
    s.end = cutrace::clock::counter();
    mine->next.store(next + 1, std::memory_order_release);
    mine->open.store(0, std::memory_order_relaxed);
  }

  /// CUPTI's thread, as read().
  void join(const CUpti_Activity& kernel) {
    std::uint32_t id = 0;
    std::memcpy(&id, reinterpret_cast<const char*>(&kernel) + offsetof(cutrace::cupti::kernel_record, correlation),
                sizeof(id));
    const call_stage& c = of(id);
    if (c.correlation.load(std::memory_order_acquire) == id) sum_ += c.stage.load(std::memory_order_relaxed);
  }
  void read() {
    const std::lock_guard<std::mutex> hold(mutex_);
    for (of_thread* t : threads_)
      for (const std::size_t end = t->next.load(std::memory_order_acquire); t->read != end; ++t->read) {
        const span& s = t->ring[t->read % count];
        sum_ += (s.end - s.begin) + s.correlation + s.function + s.stage + s.arguments[0];
      }
  }

 private:
  call_stage& of(std::uint32_t correlation) { return calls_[correlation % count]; }
  of_thread* add_thread() {
    const std::lock_guard<std::mutex> hold(mutex_);
    threads_.push_back(new of_thread);
    return threads_.back();
  }

  std::vector<call_stage> calls_ = std::vector<call_stage>(count);
  std::mutex mutex_;
  std::vector<of_thread*> threads_;
  std::uint64_t sum_ = 0;
};

}  // namespace bench
