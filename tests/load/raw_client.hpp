// SPDX-License-Identifier: Apache-2.0
// The least client of CUPTI that gets as many records as cutrace: how much memory CUPTI itself takes under a load. This
// client's buffers are counted, so that they can be subtracted.
#pragma once

#include <cupti.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <vector>

#include "../support/standin_calls.hpp"

namespace raw_client {

constexpr std::size_t buffer_bytes = std::size_t{16} << 10;

struct buffers {
  std::mutex lock;
  std::vector<std::uint8_t*> free;
  std::atomic<std::uint64_t> bytes{0};  ///< of all there have ever been
  static buffers& all() {
    static buffers b;
    return b;
  }
};

inline void CUPTIAPI called(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {}
inline void CUPTIAPI requested(std::uint8_t** buffer, std::size_t* size, std::size_t* records) {
  buffers& b = buffers::all();
  const std::lock_guard<std::mutex> hold(b.lock);
  if (b.free.empty()) {
    b.free.push_back(static_cast<std::uint8_t*>(std::aligned_alloc(4096, buffer_bytes)));
    b.bytes += buffer_bytes;
  }
  *buffer = b.free.back();
  b.free.pop_back();
  std::memset(*buffer, 0, buffer_bytes);
  *size = buffer_bytes;
  *records = 0;
}
inline void CUPTIAPI completed(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t) {
  buffers& b = buffers::all();
  const std::lock_guard<std::mutex> hold(b.lock);
  b.free.push_back(buffer);
}

/// Before the load. Records are those of cutrace with `+sync,+memory`; callbacks are on for the whole driver API.
inline bool start() {
  static CUpti_SubscriberHandle subscriber{};
  if (CUPTI(cuptiSubscribe)(&subscriber, &called, nullptr) != CUPTI_SUCCESS) return false;
  if (CUPTI(cuptiActivityRegisterCallbacks)(&requested, &completed) != CUPTI_SUCCESS) return false;
  for (const CUpti_ActivityKind kind :
       {CUPTI_ACTIVITY_KIND_DEVICE, CUPTI_ACTIVITY_KIND_CONTEXT, CUPTI_ACTIVITY_KIND_STREAM,
        CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET,
        CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, CUPTI_ACTIVITY_KIND_OVERHEAD, CUPTI_ACTIVITY_KIND_MEMORY2})
    if (CUPTI(cuptiActivityEnable)(kind) != CUPTI_SUCCESS) return false;
  return CUPTI(cuptiEnableDomain)(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API) == CUPTI_SUCCESS;
}
/// Fetches what is complete. The caller's duty, each 100 ms, from any thread.
inline void flush() { CUPTI(cuptiActivityFlushAll)(0); }

}  // namespace raw_client
