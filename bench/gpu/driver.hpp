// SPDX-License-Identifier: Apache-2.0
// The few driver functions that the GPU benchmarks call, resolved from libcuda at run time.
#pragma once

#include <cuda.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

namespace bench {

struct driver {
// clang-format off
#define BENCH_FUNCTIONS(X)                                                                               \
  X(cuInit) X(cuDeviceGet) X(cuDeviceGetName) X(cuDevicePrimaryCtxRetain) X(cuCtxSetCurrent)             \
  X(cuStreamCreate) X(cuStreamSynchronize) X(cuModuleLoadData) X(cuModuleGetFunction) X(cuLaunchKernel)
// clang-format on
#define BENCH_MEMBER(name) decltype(&::name) name = nullptr;
  BENCH_FUNCTIONS(BENCH_MEMBER)
#undef BENCH_MEMBER
  CUstream stream{};
  CUfunction empty{};
  char device_name[128] = {};

  /// Context, stream and an empty kernel on device 0. Ends the program with a line when that fails.
  void start() {
    void* library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == nullptr) give_up("libcuda.so.1 cannot be loaded", 0);
#define BENCH_FIND(name) name = reinterpret_cast<decltype(name)>(find(library, #name));
    BENCH_FUNCTIONS(BENCH_FIND)
#undef BENCH_FIND
    CUdevice device = 0;
    CUcontext context{};
    CUmodule module{};
    check(cuInit(0), "cuInit");
    check(cuDeviceGet(&device, 0), "cuDeviceGet");
    check(cuDeviceGetName(device_name, sizeof(device_name), device), "cuDeviceGetName");
    check(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
    check(cuCtxSetCurrent(context), "cuCtxSetCurrent");
    check(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    static const char image[] = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry empty() { ret; }\n";
    check(cuModuleLoadData(&module, image), "cuModuleLoadData");
    check(cuModuleGetFunction(&empty, module, "empty"), "cuModuleGetFunction");
  }

  void launch() const {
    check(cuLaunchKernel(empty, 1, 1, 1, 32, 1, 1, 0, stream, nullptr, nullptr), "cuLaunchKernel");
  }
  void synchronize() const { check(cuStreamSynchronize(stream), "cuStreamSynchronize"); }

  static void check(CUresult r, const char* what) {
    if (r != CUDA_SUCCESS) give_up(what, static_cast<int>(r));
  }

 private:
  [[noreturn]] static void give_up(const char* what, int code) {
    std::fprintf(stderr, "%s failed (%d)\n", what, code);
    std::exit(2);
  }
  // The header renames functions to their current version by macro; the library exports that name.
  static void* find(void* library, const char* name) {
    void* f = dlsym(library, name);
    if (f == nullptr) give_up(name, -1);
    return f;
  }
};
#undef BENCH_FUNCTIONS

}  // namespace bench
