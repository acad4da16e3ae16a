// SPDX-License-Identifier: Apache-2.0
// As much of CUDA's runtime API as bench/gpu calls, on the driver API: the real one asks the driver for private tables,
// so that it does not run on the stand-in driver.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include "standin_calls.hpp"

namespace {
cudaError_t reported(CUresult r) { return r == CUDA_SUCCESS ? cudaSuccess : cudaErrorUnknown; }
}  // namespace

extern "C" {

cudaError_t cudaLibraryLoadData(cudaLibrary_t* library, const void* code, cudaJitOption*, void**, unsigned int,
                                cudaLibraryOption*, void**, unsigned int) {
  return reported(CU(cuModuleLoadData)(reinterpret_cast<CUmodule*>(library), code));
}
cudaError_t cudaLibraryGetKernel(cudaKernel_t* kernel, cudaLibrary_t library, const char* name) {
  return reported(
      CU(cuModuleGetFunction)(reinterpret_cast<CUfunction*>(kernel), reinterpret_cast<CUmodule>(library), name));
}
cudaError_t cudaLaunchKernel(const void* kernel, dim3 grid, dim3 block, void** arguments, size_t shared,
                             cudaStream_t stream) {
  return reported(CU(cuLaunchKernel)(reinterpret_cast<CUfunction>(const_cast<void*>(kernel)), grid.x, grid.y, grid.z,
                                     block.x, block.y, block.z, static_cast<unsigned>(shared), stream, arguments,
                                     nullptr));
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  return reported(CU(cuMemcpyHtoDAsync)(reinterpret_cast<CUdeviceptr>(to), from, bytes, stream));
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) { return reported(CU(cuStreamSynchronize)(stream)); }
cudaError_t cudaMallocAsync(void** memory, size_t bytes, cudaStream_t stream) {
  return reported(CU(cuMemAllocAsync)(reinterpret_cast<CUdeviceptr*>(memory), bytes, stream));
}
cudaError_t cudaFreeAsync(void* memory, cudaStream_t stream) {
  return reported(CU(cuMemFreeAsync)(reinterpret_cast<CUdeviceptr>(memory), stream));
}

}  // extern "C"
