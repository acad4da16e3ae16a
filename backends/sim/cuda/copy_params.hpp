// SPDX-License-Identifier: Apache-2.0
// CUDA's descriptions of two- and three-dimensional copies, as sim::copy_work. Arrays are not modelled.
#pragma once

#include "driver.hpp"

namespace standin {

struct plain_side {
  CUmemorytype type;
  const void* host;
  CUdeviceptr device;
  CUarray array;
  size_t x, y, z, pitch, height;
};

inline sim::copy_side side(const plain_side& p, size_t width) {
  if (p.type == CU_MEMORYTYPE_ARRAY) fail(CUDA_ERROR_NOT_SUPPORTED);
  const size_t pitch = p.pitch != 0 ? p.pitch : width;
  const size_t slice = pitch * p.height;
  const std::uint64_t base = p.type == CU_MEMORYTYPE_HOST ? reinterpret_cast<std::uint64_t>(p.host) : p.device;
  return {base + p.z * slice + p.y * pitch + p.x, pitch, slice};
}

inline sim::copy_work copied_box(const CUDA_MEMCPY2D& p) {
  sim::copy_work c;
  c.width_bytes = p.WidthInBytes;
  c.height = p.Height;
  c.source = side({p.srcMemoryType, p.srcHost, p.srcDevice, p.srcArray, p.srcXInBytes, p.srcY, 0, p.srcPitch, 0},
                  c.width_bytes);
  c.destination = side({p.dstMemoryType, p.dstHost, p.dstDevice, p.dstArray, p.dstXInBytes, p.dstY, 0, p.dstPitch, 0},
                       c.width_bytes);
  return c;
}

/// CUDA_MEMCPY3D and CUDA_MEMCPY3D_PEER.
template <class Params>
sim::copy_work copied_box(const Params& p) {
  sim::copy_work c;
  c.width_bytes = p.WidthInBytes;
  c.height = p.Height;
  c.depth = p.Depth;
  c.source = side({p.srcMemoryType, p.srcHost, p.srcDevice, p.srcArray, p.srcXInBytes, p.srcY, p.srcZ, p.srcPitch,
                   p.srcHeight != 0 ? p.srcHeight : c.height},
                  c.width_bytes);
  c.destination = side({p.dstMemoryType, p.dstHost, p.dstDevice, p.dstArray, p.dstXInBytes, p.dstY, p.dstZ, p.dstPitch,
                        p.dstHeight != 0 ? p.dstHeight : c.height},
                       c.width_bytes);
  return c;
}

}  // namespace standin
