// SPDX-License-Identifier: Apache-2.0
// The measured loop as a library, for a profiler that lives in another language (kineto.py).
#include "launch_loop.hpp"

extern "C" __attribute__((visibility("default"))) double bench_launch_loop() {
  bench::driver gpu;
  gpu.start();
  return bench::measure_launches(gpu, false);
}
