// SPDX-License-Identifier: Apache-2.0
// Calls of CUDA's runtime API: those of the stand-in, where the test says itself which driver calls are made in them,
// and those of the real library.
#pragma once

#include <cupti.h>

#include <string>

#include "../../backends/sim/cuda/standin_abi.hpp"
#include "standin_calls.hpp"

namespace test_support {

inline bool is_standin() { return dlsym(cuda_library(), CUTRACE_STANDIN_RUNTIME_SYMBOL) != nullptr; }

/// Does `body()` inside of a function of the runtime API. Only with the stand-in.
template <class Body>
void in_runtime_call(CUpti_runtime_api_trace_cbid cbid, const char* name, Body body) {
  static const auto call = resolve<standin_runtime_call*>(false, CUTRACE_STANDIN_RUNTIME_SYMBOL);
  call(
      static_cast<std::uint32_t>(cbid), name, [](void* b) { (*static_cast<Body*>(b))(); }, &body);
}
/// IN_RUNTIME_CALL(cudaMalloc_v3020, [&] { ... });
#define IN_RUNTIME_CALL(name, ...) test_support::in_runtime_call(CUPTI_RUNTIME_TRACE_CBID_##name, #name, __VA_ARGS__)

/// NVIDIA's libcudart of the headers' version, null where there is none.
inline void* runtime_library() {
  static void* library = dlopen(("libcudart.so." + std::to_string(CUDA_VERSION / 1000)).c_str(), RTLD_NOW);
  return library;
}

}  // namespace test_support
