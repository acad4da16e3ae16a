// SPDX-License-Identifier: Apache-2.0
// Copies and sets. Which of them block the host follows the driver's rules: copies to pageable memory, and all
// synchronous copies from or to the host, return when they are done; other copies and all sets do not wait.
#include "api.hpp"
#include "copy_params.hpp"

namespace standin {
namespace {

enum class way { synchronous, asynchronous };

CUresult copy(sim::stream& s, sim::copy_work c, way w) {
  if (c.bytes() == 0) return CUDA_SUCCESS;
  c.asynchronous = w == way::asynchronous;
  const sim::machine::issued r = issue(s, c);
  if (r.node != nullptr) return CUDA_SUCCESS;
  const sim::copy_work& done = r.done.copy;
  const bool host =
      done.direction != cutrace::copy_direction::device_to_device && done.direction != cutrace::copy_direction::peer;
  const bool to_pageable = done.destination_kind == cutrace::memory_kind::pageable;
  if ((w == way::synchronous && host) || to_pageable) block(driver::get().gpu().finish(&s));
  return CUDA_SUCCESS;
}

sim::copy_work line(std::uint64_t to, std::uint64_t from, std::uint64_t bytes) {
  sim::copy_work c;
  c.destination.address = to;
  c.source.address = from;
  c.width_bytes = bytes;
  return c;
}
sim::copy_work line(std::uint64_t to, const void* from, std::uint64_t bytes) {
  return line(to, reinterpret_cast<std::uint64_t>(from), bytes);
}
sim::copy_work line(void* to, std::uint64_t from, std::uint64_t bytes) {
  return line(reinterpret_cast<std::uint64_t>(to), from, bytes);
}

CUresult set(sim::stream& s, CUdeviceptr p, std::uint32_t value, std::uint32_t element, size_t width, size_t height,
             size_t pitch, way w) {
  if (width == 0 || height == 0) return CUDA_SUCCESS;
  if (p % element != 0) return CUDA_ERROR_INVALID_VALUE;
  sim::set_work set;
  set.address = p;
  set.value = value;
  set.element_bytes = element;
  set.width = width;
  set.height = height;
  set.pitch_bytes = pitch;
  set.asynchronous = w == way::asynchronous;
  issue(s, set);
  return CUDA_SUCCESS;
}

}  // namespace

#define STANDIN_COPY(name, params, args, ...) \
  STANDIN_TWIN(name, _ptds, params, args, copy(stream_of(nullptr, ptds), __VA_ARGS__, way::synchronous))
#define STANDIN_COPY_ASYNC(name, params, args, ...) \
  STANDIN_TWIN(name, _ptsz, params, args, copy(stream_of(s, ptds), __VA_ARGS__, way::asynchronous))

STANDIN_COPY(cuMemcpy, (CUdeviceptr to, CUdeviceptr from, size_t n), (to, from, n), line(to, from, n))
STANDIN_COPY(cuMemcpyHtoD_v2, (CUdeviceptr to, const void* from, size_t n), (to, from, n), line(to, from, n))
STANDIN_COPY(cuMemcpyDtoH_v2, (void* to, CUdeviceptr from, size_t n), (to, from, n), line(to, from, n))
STANDIN_COPY(cuMemcpyDtoD_v2, (CUdeviceptr to, CUdeviceptr from, size_t n), (to, from, n), line(to, from, n))
STANDIN_COPY(cuMemcpyPeer, (CUdeviceptr to, CUcontext to_ctx, CUdeviceptr from, CUcontext from_ctx, size_t n),
             (to, to_ctx, from, from_ctx, n), line(to, from, n))
STANDIN_COPY(cuMemcpy2D_v2, (const CUDA_MEMCPY2D* p), (p), copied_box(required(p)))
STANDIN_COPY(cuMemcpy2DUnaligned_v2, (const CUDA_MEMCPY2D* p), (p), copied_box(required(p)))
STANDIN_COPY(cuMemcpy3D_v2, (const CUDA_MEMCPY3D* p), (p), copied_box(required(p)))
STANDIN_COPY(cuMemcpy3DPeer, (const CUDA_MEMCPY3D_PEER* p), (p), copied_box(required(p)))

STANDIN_COPY_ASYNC(cuMemcpyAsync, (CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s), (to, from, n, s),
                   line(to, from, n))
STANDIN_COPY_ASYNC(cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void* from, size_t n, CUstream s), (to, from, n, s),
                   line(to, from, n))
STANDIN_COPY_ASYNC(cuMemcpyDtoHAsync_v2, (void* to, CUdeviceptr from, size_t n, CUstream s), (to, from, n, s),
                   line(to, from, n))
STANDIN_COPY_ASYNC(cuMemcpyDtoDAsync_v2, (CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s), (to, from, n, s),
                   line(to, from, n))
STANDIN_COPY_ASYNC(cuMemcpyPeerAsync,
                   (CUdeviceptr to, CUcontext to_ctx, CUdeviceptr from, CUcontext from_ctx, size_t n, CUstream s),
                   (to, to_ctx, from, from_ctx, n, s), line(to, from, n))
STANDIN_COPY_ASYNC(cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D* p, CUstream s), (p, s), copied_box(required(p)))
STANDIN_COPY_ASYNC(cuMemcpy3DAsync_v2, (const CUDA_MEMCPY3D* p, CUstream s), (p, s), copied_box(required(p)))
STANDIN_COPY_ASYNC(cuMemcpy3DPeerAsync, (const CUDA_MEMCPY3D_PEER* p, CUstream s), (p, s), copied_box(required(p)))

#define STANDIN_SET(name, type, element)                                                        \
  STANDIN_TWIN(name##_v2, _ptds, (CUdeviceptr p, type v, size_t n), (p, v, n),                  \
               set(stream_of(nullptr, ptds), p, v, element, n, 1, 0, way::synchronous))         \
  STANDIN_TWIN(name##Async, _ptsz, (CUdeviceptr p, type v, size_t n, CUstream s), (p, v, n, s), \
               set(stream_of(s, ptds), p, v, element, n, 1, 0, way::asynchronous))
#define STANDIN_SET_2D(name, type, element)                                                                        \
  STANDIN_TWIN(name##_v2, _ptds, (CUdeviceptr p, size_t pitch, type v, size_t width, size_t height),               \
               (p, pitch, v, width, height),                                                                       \
               set(stream_of(nullptr, ptds), p, v, element, width, height, pitch, way::synchronous))               \
  STANDIN_TWIN(name##Async, _ptsz, (CUdeviceptr p, size_t pitch, type v, size_t width, size_t height, CUstream s), \
               (p, pitch, v, width, height, s),                                                                    \
               set(stream_of(s, ptds), p, v, element, width, height, pitch, way::asynchronous))

STANDIN_SET(cuMemsetD8, unsigned char, 1)
STANDIN_SET(cuMemsetD16, unsigned short, 2)
STANDIN_SET(cuMemsetD32, unsigned int, 4)
STANDIN_SET_2D(cuMemsetD2D8, unsigned char, 1)
STANDIN_SET_2D(cuMemsetD2D16, unsigned short, 2)
STANDIN_SET_2D(cuMemsetD2D32, unsigned int, 4)

}  // namespace standin
