// SPDX-License-Identifier: Apache-2.0
// What the driver-API programs of the tests share: calls that must succeed, a line a scenario, and a kernel that does
// nothing. They run on the stand-in driver in each test run and as they are on a real one.
#pragma once

#include <cstdint>
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

inline void report(bool ok, const std::string& scenario, const std::string& found = {}) {
  std::printf("%s %s%s%s\n", ok ? "ok  " : "FAIL", scenario.c_str(), found.empty() ? "" : ": ", found.c_str());
  std::fflush(stdout);
  if (!ok) ++failures;
}

/// `empty()` and `spin(ns)`, for each architecture that a driver compiles PTX for.
inline CUmodule kernels() {
  static const char image[] =
      ".version 7.0\n.target sm_70\n.address_size 64\n"
      ".visible .entry empty() { ret; }\n"
      ".visible .entry spin(.param .u64 ns)\n{\n  .reg .u64 %t<4>;\n  .reg .pred %p;\n"
      "  ld.param.u64 %t1, [ns];\n  mov.u64 %t0, %globaltimer;\n  add.u64 %t1, %t1, %t0;\n"
      "again:\n  mov.u64 %t2, %globaltimer;\n  setp.lt.u64 %p, %t2, %t1;\n  @%p bra again;\n  ret;\n}\n";
  CUmodule module{};
  DO(cuModuleLoadData, &module, image);
  return module;
}
inline CUfunction kernel_of(CUmodule module, const char* name) {
  CUfunction kernel{};
  DO(cuModuleGetFunction, &kernel, module, name);
  return kernel;
}
inline CUfunction empty_kernel() { return kernel_of(kernels(), "empty"); }

/// The primary context of a device, current for the calling thread, and two kernels in it.
class gpu_device {
  using duration_setter = void (*)(const char* name, unsigned long long ns);
  static duration_setter set_duration() {
    static const auto f = reinterpret_cast<duration_setter>(dlsym(cuda_library(), "cutrace_sim_set_kernel_duration"));
    return f;
  }

 public:
  CUdevice device = 0;
  CUcontext context{};
  CUfunction kernel{}, spinning{};

  explicit gpu_device(int ordinal = 0) {
    DO(cuInit, 0);
    DO(cuDeviceGet, &device, ordinal);
    DO(cuDevicePrimaryCtxRetain, &context, device);
    use();
    const CUmodule module = kernels();
    kernel = kernel_of(module, "empty");
    spinning = kernel_of(module, "spin");
  }
  void use() const { DO(cuCtxSetCurrent, context); }
  /// Launches a kernel that takes `ns`. The stand-in keeps one duration for each name: one thread at a time.
  void spin(CUstream stream, std::uint64_t ns) const {
    if (is_standin()) set_duration()("spin", ns);
    void* parameters[] = {&ns};
    DO(cuLaunchKernel, spinning, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr);
  }
  static bool is_standin() { return set_duration() != nullptr; }
  void launch(CUstream stream, int n) const {
    for (int i = 0; i < n; ++i) DO(cuLaunchKernel, kernel, 1, 1, 1, 32, 1, 1, 0, stream, nullptr, nullptr);
  }
};

}  // namespace test_support
