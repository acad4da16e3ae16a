// SPDX-License-Identifier: Apache-2.0
// The calls of driver.hpp by way of CUDA's runtime API, from a libcudart that is opened at run time: most programs call
// this API, and recording the names of its functions (CUTRACE_KINDS=+runtime) adds a cost to it.
#pragma once

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

#include "driver.hpp"

namespace bench {

class runtime_calls {
 public:
  /// On the stream, memory and context of `gpu`. Ends the program with a line when that fails.
  runtime_calls(const char* library, const driver& gpu) : gpu_(gpu) {
    void* opened = dlopen(library, RTLD_NOW);
    if (opened == nullptr) give_up(dlerror(), 0);
    find(opened, "cudaLaunchKernel", launch_kernel_);
    find(opened, "cudaMemcpyAsync", memcpy_async_);
    find(opened, "cudaStreamSynchronize", stream_synchronize_);
    find(opened, "cudaMallocAsync", malloc_async_);
    find(opened, "cudaFreeAsync", free_async_);
    decltype(&::cudaLibraryLoadData) load = nullptr;
    decltype(&::cudaLibraryGetKernel) get = nullptr;
    find(opened, "cudaLibraryLoadData", load);
    find(opened, "cudaLibraryGetKernel", get);
    cudaLibrary_t module{};
    check(load(&module, driver::empty_image, nullptr, nullptr, 0, nullptr, nullptr, 0), "cudaLibraryLoadData");
    check(get(&empty_, module, "empty"), "cudaLibraryGetKernel");
  }

  void launch() const {
    check(launch_kernel_(reinterpret_cast<const void*>(empty_), dim3{1, 1, 1}, dim3{32, 1, 1}, nullptr, 0, gpu_.stream),
          "cudaLaunchKernel");
  }
  void copy() const {
    check(memcpy_async_(reinterpret_cast<void*>(gpu_.device_memory), gpu_.host, driver::copy_bytes,
                        cudaMemcpyHostToDevice, gpu_.stream),
          "cudaMemcpyAsync");
  }
  void synchronize() const { check(stream_synchronize_(gpu_.stream), "cudaStreamSynchronize"); }
  void allocate() const {
    void* block = nullptr;
    check(malloc_async_(&block, driver::block_bytes, gpu_.stream), "cudaMallocAsync");
    check(free_async_(block, gpu_.stream), "cudaFreeAsync");
  }

 private:
  [[noreturn]] static void give_up(const char* what, int code) {
    std::fprintf(stderr, "%s failed (%d)\n", what, code);
    std::exit(2);
  }
  static void check(cudaError_t r, const char* what) {
    if (r != cudaSuccess) give_up(what, static_cast<int>(r));
  }
  template <class Function>
  static void find(void* library, const char* name, Function& to) {
    to = reinterpret_cast<Function>(dlsym(library, name));
    if (to == nullptr) give_up(name, -1);
  }

  const driver& gpu_;
  cudaKernel_t empty_{};
  // In C++ the header has templates of the same names beside some of these.
  cudaError_t (*launch_kernel_)(const void*, dim3, dim3, void**, std::size_t, cudaStream_t) = nullptr;
  decltype(&::cudaMemcpyAsync) memcpy_async_ = nullptr;
  decltype(&::cudaStreamSynchronize) stream_synchronize_ = nullptr;
  cudaError_t (*malloc_async_)(void**, std::size_t, cudaStream_t) = nullptr;
  decltype(&::cudaFreeAsync) free_async_ = nullptr;
};

}  // namespace bench
