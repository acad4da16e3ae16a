// SPDX-License-Identifier: Apache-2.0
// Markers in a CUDA source file, on the host side and in functions that exist on both sides.
#include <cutrace/cutrace.hpp>

__host__ __device__ float scale(float x) {
  CUTRACE_STAGE("scale", 1);
  CUTRACE_MARK("scaled");
  CUTRACE_COUNT("scales", 1);
  return 2.0f * x;
}

__global__ void scale_all(float* data, int n) {
  CUTRACE_FUNCTION();
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) data[i] = scale(data[i]);
}

void step(float* data, int n, unsigned long long request) {
  CUTRACE_STAGE("step", request);
  scale_all<<<(n + 255) / 256, 256>>>(data, n);
}
