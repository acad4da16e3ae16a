// SPDX-License-Identifier: Apache-2.0
// The measured loops as a library, for a profiler that lives in another language (kineto.py).
#include "calls.hpp"

/// Prints what launch_cost's children print, and returns how many kernels were launched.
extern "C" __attribute__((visibility("default"))) unsigned long long bench_measure_calls(int shorten) {
  bench::driver gpu;
  gpu.start();
  const bench::call_costs costs = bench::measure_calls(gpu, false, shorten);
  bench::print_costs(costs);
  std::fflush(stdout);
  return costs.launches;
}
