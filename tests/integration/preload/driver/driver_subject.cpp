// SPDX-License-Identifier: Apache-2.0
// A program on the driver's own functions: launches with their grids, copies and sets of known sizes and directions,
// allocations, an error, work on several threads. It knows nothing of cutrace.
#include <thread>
#include <vector>

#include "../../../support/gpu_program.hpp"

namespace {

void expect(int wanted, int result, const char* call) {
  if (wanted != result) test_support::must(result == 0 ? -1 : result, call);
}

void work(const test_support::gpu_device& gpu, unsigned thread) {
  gpu.use();
  CUstream stream{};
  DO(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
  CUdeviceptr a{}, b{};
  DO(cuMemAlloc, &a, 4096 + thread);
  DO(cuMemAllocAsync, &b, 8192, stream);
  std::vector<unsigned char> host(4096, static_cast<unsigned char>(thread));
  DO(cuMemcpyHtoD, a, host.data(), 1000);
  DO(cuMemcpyHtoDAsync, b, host.data(), 2000, stream);
  DO(cuMemcpyDtoDAsync, b, a, 512, stream);
  DO(cuMemsetD8Async, a, 7, 300, stream);
  DO(cuMemsetD32, b, 7, 25);
  CUDA_MEMCPY2D rows{};
  rows.srcMemoryType = CU_MEMORYTYPE_HOST;
  rows.srcHost = host.data();
  rows.srcPitch = 64;
  rows.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  rows.dstDevice = a;
  rows.dstPitch = 64;
  rows.WidthInBytes = 32;
  rows.Height = 5;
  DO(cuMemcpy2DAsync, &rows, stream);
  for (unsigned i = 1; i <= 20; ++i)
    DO(cuLaunchKernel, gpu.kernel, i, 2, 3, 32, 4, 1, 16 * i, stream, nullptr, nullptr);
  CUlaunchConfig config{};
  config.gridDimX = 11 + thread;
  config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = 64;
  config.blockDimY = config.blockDimZ = 1;
  config.sharedMemBytes = 128;
  config.hStream = stream;
  DO(cuLaunchKernelEx, &config, gpu.kernel, nullptr, nullptr);
  DO(cuMemcpyDtoHAsync, host.data(), a, 64, stream);
  DO(cuStreamSynchronize, stream);
  DO(cuMemFreeAsync, b, stream);
  DO(cuMemFree, a);
  expect(CUDA_ERROR_INVALID_VALUE, static_cast<int>(CU(cuMemAlloc)(&a, 0)), "an allocation of nothing");
  DO(cuStreamDestroy, stream);
}

}  // namespace

int main() {
  const test_support::gpu_device gpu;
  work(gpu, 0);
  std::vector<std::thread> threads;
  for (unsigned i = 1; i <= 4; ++i) threads.emplace_back([&gpu, i] { work(gpu, i); });
  for (std::thread& t : threads) t.join();
  std::printf("worked\n");
  return 0;
}
