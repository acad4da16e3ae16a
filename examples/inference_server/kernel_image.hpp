// SPDX-License-Identifier: Apache-2.0
// The compiled kernels, as bytes inside the executable.
#pragma once

#include <cstddef>

namespace server {

/// A fat binary for the driver (sm_90 code, and PTX for everything from sm_75 on). Size 0 where the build had no nvcc.
struct kernel_image {
  const void* data;
  std::size_t size;
};
kernel_image embedded_kernels();

}  // namespace server
