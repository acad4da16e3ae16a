// SPDX-License-Identifier: Apache-2.0
// What the driver-API programs of the tests share: calls that must succeed, a line a scenario, and a kernel that does
// nothing. They run on the stand-in driver in each test run and as they are on a real one.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

#include "standin_calls.hpp"

namespace test_support {

inline void must(int result, const char* call) {
  if (result == 0) return;
  std::printf("%s failed (%d)\n", call, result);
  std::exit(100);
}
/// DO(cuMemAlloc, &p, n): the call, or the end of the program.
#define DO(name, ...) test_support::must(static_cast<int>(CU(name)(__VA_ARGS__)), #name)

/// Scenarios that failed: the program's exit status.
inline int failures = 0;

inline void tell(bool ok, const std::string& scenario, const std::string& found = {}) {
  std::printf("%s %s%s%s\n", ok ? "ok  " : "FAIL", scenario.c_str(), found.empty() ? "" : ": ", found.c_str());
  std::fflush(stdout);
  if (!ok) ++failures;
}

/// `empty()`, for each architecture that a driver compiles PTX for.
inline CUfunction empty_kernel() {
  static const char image[] = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry empty() { ret; }\n";
  CUmodule module{};
  CUfunction kernel{};
  DO(cuModuleLoadData, &module, image);
  DO(cuModuleGetFunction, &kernel, module, "empty");
  return kernel;
}

/// The primary context of a device, current for the calling thread, and the kernel in it.
struct gpu_device {
  CUdevice device = 0;
  CUcontext context{};
  CUfunction kernel{};

  explicit gpu_device(int ordinal = 0) {
    DO(cuInit, 0);
    DO(cuDeviceGet, &device, ordinal);
    DO(cuDevicePrimaryCtxRetain, &context, device);
    use();
    kernel = empty_kernel();
  }
  void use() const { DO(cuCtxSetCurrent, context); }
  void launch(CUstream stream, int n) const {
    for (int i = 0; i < n; ++i) DO(cuLaunchKernel, kernel, 1, 1, 1, 32, 1, 1, 0, stream, nullptr, nullptr);
  }
};

}  // namespace test_support
