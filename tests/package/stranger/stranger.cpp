// SPDX-License-Identifier: Apache-2.0
// Launches kernels in stages where there is a driver, and says how many. Needs no header of CUDA.
#include <dlfcn.h>

#include <cstdio>
#ifndef WITHOUT_CUTRACE
#include <cutrace/cutrace.hpp>
#else
#define CUTRACE_STAGE(...) static_cast<void>(0)
#endif

namespace {

constexpr const char* kernel =
    ".version 7.0\n.target sm_75\n.address_size 64\n"
    ".visible .entry stranger_kernel()\n{\n  ret;\n}\n";

template <class F>
bool find(void* library, const char* name, F& to) {
  to = reinterpret_cast<F>(dlsym(library, name));
  return to != nullptr;
}

/// How many kernels ran, or -1 where something failed.
int launch(void* cuda) {
  int (*init)(unsigned) = nullptr;
  int (*device_of)(int*, int) = nullptr;
  int (*retain)(void**, int) = nullptr;
  int (*use)(void*) = nullptr;
  int (*load)(void**, const void*) = nullptr;
  int (*function_of)(void**, void*, const char*) = nullptr;
  int (*launch_kernel)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**,
                       void**) = nullptr;
  int (*synchronize)() = nullptr;
  if (!find(cuda, "cuInit", init) || !find(cuda, "cuDeviceGet", device_of) ||
      !find(cuda, "cuDevicePrimaryCtxRetain", retain) || !find(cuda, "cuCtxSetCurrent", use) ||
      !find(cuda, "cuModuleLoadData", load) || !find(cuda, "cuModuleGetFunction", function_of) ||
      !find(cuda, "cuLaunchKernel", launch_kernel) || !find(cuda, "cuCtxSynchronize", synchronize))
    return -1;
  int device = 0, failed = 0, launched = 0;
  void *context = nullptr, *module = nullptr, *function = nullptr;
  failed = init(0);
  if (failed == 0) failed = device_of(&device, 0);
  if (failed == 0) failed = retain(&context, device);
  if (failed == 0) failed = use(context);
  if (failed == 0) failed = load(&module, kernel);
  if (failed == 0) failed = function_of(&function, module, "stranger_kernel");
  for (int request = 0; failed == 0 && request < 10; ++request) {
    CUTRACE_STAGE("request", request);
    for (int step = 0; failed == 0 && step < 10; ++step, ++launched) {
      CUTRACE_STAGE("step");
      failed = launch_kernel(function, 1, 1, 1, 32, 1, 1, 0, nullptr, nullptr, nullptr);
    }
    if (failed == 0) failed = synchronize();
  }
  if (failed != 0) std::fprintf(stderr, "stranger: CUDA's error %d\n", failed);
  return failed == 0 ? launched : -1;
}

}  // namespace

int main() {
#ifndef WITHOUT_CUTRACE
  cutrace::session trace;
#endif
  void* const cuda = dlopen("libcuda.so.1", RTLD_NOW);
  int launched = 0;
  if (cuda == nullptr) {
    for (int request = 0; request < 10; ++request) CUTRACE_STAGE("request", request);
    std::printf("stranger: no driver here\n");
  } else {
    launched = launch(cuda);
    std::printf("stranger: %d kernels\n", launched);
  }
  return launched < 0 ? 1 : 0;
}
