// SPDX-License-Identifier: Apache-2.0
// The driver's functions that measuring by CUDA events needs, as the driver's library exports them: never our thunks.
// Signatures and constants are those of cuda.h, which is not included: this library is built without CUDA, too.
#pragma once

#include <cstddef>
#include <cstdint>

#include "driver_library.hpp"

CUTRACE_BEGIN_NAMESPACE
namespace preload CUTRACE_LOCAL {

struct event_driver {
  using result = int;  ///< CUresult; 0 is success
  static constexpr result not_ready = 600;
  static constexpr int mode_relaxed = 2;                  ///< CU_STREAM_CAPTURE_MODE_RELAXED
  static constexpr unsigned non_blocking = 1;             ///< CU_STREAM_NON_BLOCKING
  static constexpr std::uintptr_t per_thread_stream = 2;  ///< CU_STREAM_PER_THREAD

  // On the program's threads. None of these changes the current context, and all may be called during a capture.
  result (*current)(void** context) = nullptr;
  result (*context_id)(void* context, unsigned long long* id) = nullptr;
  result (*is_capturing)(void* stream, int* status) = nullptr;
  result (*stream_id)(void* stream, unsigned long long* id) = nullptr;
  result (*record)(void* event, void* stream) = nullptr;
  result (*device_of)(int* device, void* context) = nullptr;  ///< CUDA 13.0

  // On our own thread.
  result (*exchange_mode)(int* mode) = nullptr;
  result (*set_current)(void* context) = nullptr;
  result (*create_stream)(void** stream, unsigned flags) = nullptr;
  result (*create_event)(void** event, unsigned flags) = nullptr;
  result (*query)(void* event) = nullptr;
  result (*elapsed_ms)(float* ms, void* from, void* to) = nullptr;
  result (*device)(int* device) = nullptr;
  result (*primary_state)(int device, unsigned* flags, int* active) = nullptr;
  result (*device_name)(char* name, int room, int device) = nullptr;
  result (*device_bytes)(std::size_t* bytes, int device) = nullptr;
  result (*device_attribute)(int* value, int attribute, int device) = nullptr;

  /// False where the library lacks a function that is needed: it is older than CUDA 12.0.
  bool take(const driver_library& from) noexcept {
    get(from, current, "cuCtxGetCurrent");
    get(from, context_id, "cuCtxGetId");
    get(from, is_capturing, "cuStreamIsCapturing");
    get(from, stream_id, "cuStreamGetId");
    get(from, record, "cuEventRecord");
    get(from, device_of, "cuCtxGetDevice_v2");
    get(from, exchange_mode, "cuThreadExchangeStreamCaptureMode");
    get(from, set_current, "cuCtxSetCurrent");
    get(from, create_stream, "cuStreamCreate");
    get(from, create_event, "cuEventCreate");
    get(from, query, "cuEventQuery");
    get(from, elapsed_ms, "cuEventElapsedTime_v2");
    if (elapsed_ms == nullptr) get(from, elapsed_ms, "cuEventElapsedTime");
    get(from, device, "cuCtxGetDevice");
    get(from, primary_state, "cuDevicePrimaryCtxGetState");
    get(from, device_name, "cuDeviceGetName");
    get(from, device_bytes, "cuDeviceTotalMem_v2");
    get(from, device_attribute, "cuDeviceGetAttribute");
    return current && context_id && is_capturing && stream_id && record && exchange_mode && set_current &&
           create_stream && create_event && query && elapsed_ms && device && primary_state;
  }

 private:
  template <class Function>
  static void get(const driver_library& from, Function*& to, const char* name) noexcept {
    to = reinterpret_cast<Function*>(from.find(name));
  }
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
