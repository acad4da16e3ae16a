// SPDX-License-Identifier: Apache-2.0
// A launch as sim::kernel_work, from a kernel's handle and the numbers of the call.
#pragma once

#include "api.hpp"

namespace standin {

inline sim::kernel_work kernel(const kernel_handle& f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                               unsigned bz, unsigned shared) {
  if (shared > static_cast<unsigned>(f.dynamic_shared_limit)) fail(CUDA_ERROR_INVALID_VALUE);
  sim::kernel_work k;
  k.name = f.name.c_str();
  const unsigned grid[3] = {gx, gy, gz}, block[3] = {bx, by, bz};
  for (int i = 0; i < 3; ++i) {
    k.grid[i] = grid[i];
    k.block[i] = block[i];
  }
  k.dynamic_shared_bytes = shared;
  k.registers_per_thread = f.registers;
  k.duration_ns = f.duration_ns;
  k.function = &f;
  return k;
}

}  // namespace standin
