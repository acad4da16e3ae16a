// SPDX-License-Identifier: Apache-2.0
// A libcuda.so.1 whose functions do nothing, so that what remains is the cost of a call. Each has a second name, under
// which nobody hooks it.
#include <cstddef>

#define BARE(name, parameters)                 \
  extern "C" int name parameters { return 0; } \
  extern "C" __attribute__((alias(#name))) int bare_##name parameters;

#pragma GCC diagnostic ignored "-Wunused-parameter"
BARE(cuInit, (unsigned flags))
BARE(cuCtxSynchronize, ())
BARE(cuMemcpyHtoDAsync_v2, (unsigned long long to, const void* from, std::size_t bytes, void* stream))
BARE(cuLaunchKernel, (void* f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                      unsigned shared, void* stream, void** parameters, void** extra))
BARE(cuOfNoTable, (void* a, void* b, void* c))
