// SPDX-License-Identifier: Apache-2.0
// How an exported function is written: its name and parameters as in cuda.h (the compiler compares them with NVIDIA's
// prototype), the parameter names again, and the body as an expression that gives a CUresult.
#pragma once

#include "driver.hpp"

#define STANDIN_EXPORT __attribute__((visibility("default")))
#define STANDIN_LIST(...) __VA_ARGS__
// Ready before the library's constructor functions run, whatever the order of linking: one of them looks up the
// functions that CUTRACE_SIM_FAULTS names.
#define STANDIN_ENTRY(name, before_init)                                      \
  __attribute__((init_priority(1000))) static standin::function entry_##name( \
      #name, CUPTI_DRIVER_TRACE_CBID_##name, reinterpret_cast<void*>(&name), before_init);

// STANDIN_API(cuMemFree_v2, (CUdeviceptr p), (p), release(p))
#define STANDIN_API_AS(name, before_init, symbol, params, args, ...)                               \
  STANDIN_ENTRY(name, before_init)                                                                 \
  extern "C" STANDIN_EXPORT CUresult CUDAAPI name params {                                         \
    name##_params packed = {STANDIN_LIST args};                                                    \
    return standin::run(entry_##name, &packed, symbol, [&]() -> CUresult { return __VA_ARGS__; }); \
  }
#define STANDIN_API(name, params, args, ...) STANDIN_API_AS(name, false, nullptr, params, args, __VA_ARGS__)
#define STANDIN_API_EARLY(name, params, args, ...) STANDIN_API_AS(name, true, nullptr, params, args, __VA_ARGS__)

// Functions without parameters have no <name>_params.
#define STANDIN_API_VOID(name, ...)                                                                 \
  STANDIN_ENTRY(name, false)                                                                        \
  extern "C" STANDIN_EXPORT CUresult CUDAAPI name(void) {                                           \
    return standin::run(entry_##name, nullptr, nullptr, [&]() -> CUresult { return __VA_ARGS__; }); \
  }

// A function and its twin for the per-thread default stream (suffix _ptsz or _ptds); the body sees `ptds`.
#define STANDIN_TWIN_ONE(name, per_thread, symbol, params, args, ...)                              \
  STANDIN_ENTRY(name, false)                                                                       \
  extern "C" STANDIN_EXPORT CUresult CUDAAPI name params {                                         \
    name##_params packed = {STANDIN_LIST args};                                                    \
    constexpr bool ptds = per_thread;                                                              \
    return standin::run(entry_##name, &packed, symbol, [&]() -> CUresult { return __VA_ARGS__; }); \
  }
#define STANDIN_TWIN(name, suffix, params, args, ...)               \
  STANDIN_TWIN_ONE(name, false, nullptr, params, args, __VA_ARGS__) \
  STANDIN_TWIN_ONE(name##suffix, true, nullptr, params, args, __VA_ARGS__)
#define STANDIN_LAUNCH(name, suffix, symbol, params, args, ...)    \
  STANDIN_TWIN_ONE(name, false, symbol, params, args, __VA_ARGS__) \
  STANDIN_TWIN_ONE(name##suffix, true, symbol, params, args, __VA_ARGS__)
