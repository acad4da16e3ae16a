// SPDX-License-Identifier: Apache-2.0
// The one transcendental function of the model, shared by the kernels and the CPU reference: their libraries' expf may
// differ in the last bit, and a token is chosen by comparing sums of such numbers.
#pragma once

#include <math.h>

#if defined(__CUDACC__)
#define CUTRACE_SERVER_BOTH_SIDES __host__ __device__
#else
#define CUTRACE_SERVER_BOTH_SIDES
#endif

namespace server {

/// exp(x), x in [-87, 87] (clamped beyond). Coefficients: Cephes mathematical library, expf.c (S. Moshier); relative
/// error below 2e-7.
CUTRACE_SERVER_BOTH_SIDES inline float exponential(float x) {
  x = x > 87.0f ? 87.0f : (x < -87.0f ? -87.0f : x);
  const float k = floorf(x * 1.44269504f + 0.5f);
  const float r = (x - k * 0.693359375f) - k * -2.12194440e-4f;  // ln 2 in two parts
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  return ldexpf(p, static_cast<int>(k));
}

}  // namespace server

#undef CUTRACE_SERVER_BOTH_SIDES
