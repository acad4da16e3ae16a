// SPDX-License-Identifier: Apache-2.0
// Just enough of CUDA C++ to compile kernels without shared memory or barriers for the host, where a loop over all
// threads of a launch runs them. Included before the .cu file. The names are CUDA's, hence their look.
#pragma once

#define __global__ inline
#define __device__
#define __forceinline__ inline

struct cuda_index {
  unsigned x;
};
inline thread_local cuda_index threadIdx{0};
inline thread_local cuda_index blockIdx{0};
inline thread_local cuda_index blockDim{1};
