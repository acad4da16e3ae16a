// SPDX-License-Identifier: Apache-2.0
// The functions of the CUDA driver that this program uses, found at run time: the executable starts, and can say what
// is missing, on machines without a driver. Types come from cuda.h, so that a wrong argument does not compile.
#pragma once

#include <cuda.h>

#include <stdexcept>
#include <string>

namespace server {

// In cuda.h some names are macros for a versioned symbol (cuMemAlloc is cuMemAlloc_v2). An argument that X does not
// use with # or ## is expanded first, so the table's member, its type and the symbol's name are all versioned.
// clang-format off
#define CUTRACE_SERVER_DRIVER_FUNCTIONS(X)                                                                    \
  X(cuInit) X(cuGetErrorName)                                                                                 \
  X(cuDeviceGet) X(cuDeviceGetCount) X(cuDeviceGetName)                                                       \
  X(cuDevicePrimaryCtxRetain) X(cuDevicePrimaryCtxRelease) X(cuCtxSetCurrent)                                 \
  X(cuModuleLoadData) X(cuModuleUnload) X(cuModuleGetFunction)                                                \
  X(cuMemAlloc) X(cuMemFree) X(cuMemHostAlloc) X(cuMemFreeHost)                                               \
  X(cuMemcpyHtoDAsync) X(cuMemcpyDtoHAsync) X(cuMemcpyDtoDAsync) X(cuMemsetD8Async) X(cuLaunchKernel)         \
  X(cuStreamCreate) X(cuStreamDestroy) X(cuStreamSynchronize) X(cuStreamBeginCapture) X(cuStreamEndCapture)   \
  X(cuGraphInstantiateWithFlags) X(cuGraphLaunch) X(cuGraphExecDestroy) X(cuGraphDestroy)
// clang-format on

struct cuda_driver {
#define CUTRACE_SERVER_MEMBER(function) decltype(&::function) function;
  CUTRACE_SERVER_DRIVER_FUNCTIONS(CUTRACE_SERVER_MEMBER)
#undef CUTRACE_SERVER_MEMBER

  /// Loads libcuda.so.1 and initialises it. @throws std::runtime_error with the reason.
  cuda_driver();

  /// @throws std::runtime_error naming the call and the error.
  void check(CUresult result, const char* call) const {
    if (result == CUDA_SUCCESS) return;
    const char* name = nullptr;
    if (cuGetErrorName(result, &name) != CUDA_SUCCESS || name == nullptr) name = "unknown error";
    throw std::runtime_error(std::string(call) + ": " + name + " (" + std::to_string(static_cast<int>(result)) + ")");
  }
};

}  // namespace server
