// SPDX-License-Identifier: Apache-2.0
// Kernel launches.
#include "kernel_params.hpp"

namespace standin {
namespace {

/// The name of a launch for the callback; a handle that is not alive has none and fails in the body.
const char* name_of(const void* f) noexcept {
  try {
    return kernel_of(f).name.c_str();
  } catch (...) {
    return nullptr;
  }
}

CUresult launch(const sim::kernel_work& k, sim::stream& s) {
  issue(s, k);
  return CUDA_SUCCESS;
}

/// Cluster size and cooperation, from the attributes of a cuLaunchKernelEx.
CUresult launch_ex(const CUlaunchConfig& c, const void* f, bool per_thread) {
  const kernel_handle& handle_of = kernel_of(f);
  sim::kernel_work k =
      kernel(handle_of, c.gridDimX, c.gridDimY, c.gridDimZ, c.blockDimX, c.blockDimY, c.blockDimZ, c.sharedMemBytes);
  for (unsigned i = 0; i < c.numAttrs; ++i) {
    const CUlaunchAttribute& a = c.attrs[i];
    if (a.id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) k.cooperative = a.value.cooperative != 0;
    if (a.id != CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) continue;
    k.cluster[0] = a.value.clusterDim.x;
    k.cluster[1] = a.value.clusterDim.y;
    k.cluster[2] = a.value.clusterDim.z;
  }
  return launch(k, stream_of(c.hStream, per_thread));
}

sim::kernel_work cooperative(sim::kernel_work k) {
  k.cooperative = true;
  return k;
}

}  // namespace

STANDIN_LAUNCH(cuLaunchKernel, _ptsz, name_of(f),
               (CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by,
                unsigned int bz, unsigned int shared, CUstream s, void** args, void** extra),
               (f, gx, gy, gz, bx, by, bz, shared, s, args, extra),
               launch(kernel(kernel_of(f), gx, gy, gz, bx, by, bz, shared), stream_of(s, ptds)))
STANDIN_LAUNCH(cuLaunchCooperativeKernel, _ptsz, name_of(f),
               (CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by,
                unsigned int bz, unsigned int shared, CUstream s, void** args),
               (f, gx, gy, gz, bx, by, bz, shared, s, args),
               launch(cooperative(kernel(kernel_of(f), gx, gy, gz, bx, by, bz, shared)), stream_of(s, ptds)))
STANDIN_LAUNCH(cuLaunchKernelEx, _ptsz, name_of(f),
               (const CUlaunchConfig* config, CUfunction f, void** args, void** extra), (config, f, args, extra),
               launch_ex(required(config), f, ptds))

}  // namespace standin
