// SPDX-License-Identifier: Apache-2.0
// State of the stand-in libcupti: the subscriber with what it listens to, the kinds that are switched on, and the link
// to the stand-in libcuda.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "../cuda/faults.hpp"
#include "../cuda/standin_abi.hpp"
#include "buffers.hpp"
#include "clock_map.hpp"

// The subscriber's handle is a pointer to this.
struct CUpti_Subscriber_st {
  CUpti_CallbackFunc callback = nullptr;
  void* user = nullptr;
  std::string name;
};

namespace standin {

constexpr std::size_t domains = CUPTI_CB_DOMAIN_SIZE;
constexpr std::size_t callbacks_in_domain = 1024;  // more than any domain has

/// One exported function, for faults by its name (CUTRACE_SIM_FAULTS, see faults.hpp).
struct entry {
  const char* name;
  entry* next;
  std::atomic<std::int32_t> fault{0};
  std::atomic<std::uint64_t> fault_at{0};
  std::atomic<std::uint64_t> calls{0};
  explicit entry(const char* name);
};

class tracer {
 public:
  static tracer& get();

  /// Finds the stand-in libcuda and registers with it. False when another driver, or none, is loaded.
  bool attach();
  const standin_driver* driver() const { return driver_.load(std::memory_order_acquire); }

  void set_faults(const char* text);
  std::uint32_t version();
  std::vector<std::string> missing_symbols();

  bool on(CUpti_ActivityKind kind) const { return kinds_[kind].load(std::memory_order_relaxed); }
  CUptiResult enable(CUpti_ActivityKind kind, bool on);
  bool api_wanted(std::uint32_t cbid) const;

  // From the driver, on the calling thread.
  void enter(standin_call*);
  void exit(standin_call*);
  void runtime(standin_call*, bool exits);
  void resource(std::uint32_t cbid, CUcontext, CUstream, void* descriptor);
  void work(const standin_work&);
  void sync(const standin_sync&);
  void memory(const standin_memory&);
  void event(const standin_event&);
  void stream(const standin_stream&);
  void context(const standin_context&);
  void device(const standin_device&);

  clock_map clock;
  buffers records{clock};

  std::mutex lock;  ///< guards the subscriber's comings and goings
  std::unique_ptr<CUpti_Subscriber_st> subscriber;
  std::vector<std::unique_ptr<CUpti_Subscriber_st>> former;
  std::atomic<CUpti_Subscriber_st*> listening{nullptr};
  std::atomic<bool> enabled[domains][callbacks_in_domain]{};
  std::atomic<std::uint8_t> api_choice[callbacks_in_domain]{};  ///< 0: as the DRIVER kind, 1: on, 2: off
  std::atomic<bool> system_thread_ids{false};
  std::atomic<bool> latency_timestamps{false};
  std::atomic<bool> all_sync_records{true};
  std::atomic<bool> event_timestamps{false};
  std::atomic<bool> unified_configured[9]{};  ///< by CUpti_ActivityUnifiedMemoryCounterKind
  std::atomic<bool> dead{false};              ///< after a fatal error
  std::atomic<std::uint64_t> attributes[16]{};

 private:
  void staged_copy(standin_work, const completion&);
  void gpu_record(const void* record, std::size_t size, completion when);
  void managed_memory(std::uint32_t device, completion when);
  void fatal_error();
  bool take(std::atomic<std::uint64_t>& counter);
  void external_correlation(std::uint32_t correlation);

  std::atomic<const standin_driver*> driver_{nullptr};
  std::atomic<bool> kinds_[CUPTI_ACTIVITY_KIND_COUNT]{};
  std::mutex fault_lock_;
  fault_set faults_;
  std::atomic<std::uint64_t> drop_{0}, incomplete_{0}, zero_time_{0}, unknown_{0}, unified_{0}, late_ns_{0},
      early_ns_{0};
  std::atomic<std::uint64_t> fatal_in_{0};  ///< driver calls until the fatal error, 0: none comes
  std::atomic<bool> graph_trace_crash_{false};
};

/// Of the calling thread: the kernel's number, or what pthread_self gives, cut to 32 bits.
std::uint32_t thread_id(bool system);
/// Ids that the thread has pushed, by kind.
std::vector<std::uint64_t>& external_ids(std::size_t kind);
CUptiResult& last_error();

/// The steps of every call: link to libcuda, fault by its name, body, last error.
CUptiResult call_fault(entry&);
template <class Body>
CUptiResult run(entry& e, Body body) noexcept {
  CUptiResult r = call_fault(e);
  if (r == CUPTI_SUCCESS) {
    try {
      r = body(tracer::get());
    } catch (...) {
      r = CUPTI_ERROR_UNKNOWN;
    }
  }
  if (r != CUPTI_SUCCESS) last_error() = r;
  return r;
}

}  // namespace standin

/// A function of the library: name and parameters as in NVIDIA's header; the body is an expression that sees the tracer
/// `t`. Its entry is ready before the library's constructor functions run: one of them reads CUTRACE_SIM_FAULTS.
#define STANDIN_CUPTI(name, params, ...)                                                                        \
  __attribute__((init_priority(1000))) static standin::entry entry_##name(#name);                               \
  extern "C" __attribute__((visibility("default"))) CUptiResult CUPTIAPI name params {                          \
    return standin::run(entry_##name, [&](standin::tracer& t) -> CUptiResult { return (void)t, __VA_ARGS__; }); \
  }
