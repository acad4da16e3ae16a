// SPDX-License-Identifier: Apache-2.0
// Device and host memory, and what can be asked about a pointer.
#include <cstdlib>

#include "api.hpp"

namespace standin {
namespace {

sim::machine& gpu() { return driver::get().gpu(); }

CUresult info(size_t* free_bytes, size_t* total) {
  const std::uint32_t device = current().device;
  const std::uint64_t all = gpu().settings().memory_bytes;
  required(free_bytes) = all - gpu().live_bytes(device);
  required(total) = all;
  return CUDA_SUCCESS;
}

CUresult allocate(CUdeviceptr* out, size_t bytes, const sim::stream* s) {
  const std::uint32_t device = s != nullptr ? s->owner->device : current().device;
  required(out);
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (s != nullptr && s->capturing != nullptr) {
    gpu().break_capture(s);  // allocation nodes are not modelled
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  *out = gpu().allocate(device, bytes);
  if (*out == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  report_memory(false, *out, bytes, CUPTI_ACTIVITY_MEMORY_KIND_DEVICE, s);
  return CUDA_SUCCESS;
}

CUresult allocate_pitch(CUdeviceptr* out, size_t* pitch, size_t width, size_t height) {
  required(pitch) = (width + 511) / 512 * 512;
  return allocate(out, *pitch * height, nullptr);
}

CUresult release(CUdeviceptr p, const sim::stream* s) {
  sim::context& c = current();
  if (p == 0) return CUDA_SUCCESS;
  if (s == nullptr) block(gpu().finish(&c));  // as the real cuMemFree, which waits for the work of the context
  const std::uint64_t bytes = gpu().free(p);
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  report_memory(true, p, bytes, CUPTI_ACTIVITY_MEMORY_KIND_DEVICE, s);
  return CUDA_SUCCESS;
}

CUresult address_range(CUdeviceptr* base, size_t* bytes, CUdeviceptr p) {
  const sim::memory::location l = gpu().where(p);
  if (l.kind != cutrace::memory_kind::device) return CUDA_ERROR_NOT_FOUND;
  if (base != nullptr) *base = l.base;
  if (bytes != nullptr) *bytes = l.bytes;
  return CUDA_SUCCESS;
}

// Host memory

CUresult allocate_host(void** out, size_t bytes) {
  current();
  required(out);
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  *out = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  if (*out == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  gpu().pin(*out, bytes);
  driver& d = driver::get();
  {
    const std::lock_guard<std::mutex> hold(d.lock);
    d.host_allocations[*out] = bytes;
  }
  report_memory(false, reinterpret_cast<std::uint64_t>(*out), bytes, CUPTI_ACTIVITY_MEMORY_KIND_PINNED, nullptr);
  return CUDA_SUCCESS;
}

CUresult free_host(void* p) {
  block(gpu().finish(&current()));
  if (p == nullptr) return CUDA_SUCCESS;
  driver& d = driver::get();
  std::uint64_t bytes = 0;
  {
    const std::lock_guard<std::mutex> hold(d.lock);
    const auto it = d.host_allocations.find(p);
    if (it == d.host_allocations.end()) return CUDA_ERROR_INVALID_VALUE;
    bytes = it->second;
    d.host_allocations.erase(it);
  }
  gpu().unpin(p);
  report_memory(true, reinterpret_cast<std::uint64_t>(p), bytes, CUPTI_ACTIVITY_MEMORY_KIND_PINNED, nullptr);
  std::free(p);
  return CUDA_SUCCESS;
}

CUresult register_host(void* p, size_t bytes) {
  current();
  if (p == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  return gpu().pin(p, bytes) ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
}

CUresult host_pointer(CUdeviceptr* out, void* p) {
  if (gpu().where(reinterpret_cast<CUdeviceptr>(p)).kind != cutrace::memory_kind::pinned)
    return CUDA_ERROR_INVALID_VALUE;
  required(out) = reinterpret_cast<CUdeviceptr>(p);
  return CUDA_SUCCESS;
}

// Pools are handles and keep no memory: an allocation takes it from the device, a release returns it immediately

CUmemoryPool default_pool(std::uint32_t device) {
  static char handles[64];
  return reinterpret_cast<CUmemoryPool>(&handles[device % sizeof handles]);
}

CUresult create_pool(CUmemoryPool* out) {
  driver& d = driver::get();
  void* p = std::malloc(1);
  const std::lock_guard<std::mutex> hold(d.lock);
  d.pools.insert(p);
  required(out) = static_cast<CUmemoryPool>(p);
  return CUDA_SUCCESS;
}

CUresult destroy_pool(CUmemoryPool h) {
  driver& d = driver::get();
  const std::lock_guard<std::mutex> hold(d.lock);
  if (d.pools.erase(h) == 0) return CUDA_ERROR_INVALID_VALUE;
  std::free(h);
  return CUDA_SUCCESS;
}

CUresult pool_attribute(CUmemPool_attribute id, void* value) {
  if (id <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES)
    *static_cast<int*>(&required(static_cast<int*>(value))) = 1;
  else
    required(static_cast<cuuint64_t*>(value)) = 0;
  return CUDA_SUCCESS;
}

// Pointers

CUresult pointer_attribute(void* out, CUpointer_attribute id, CUdeviceptr p) {
  required(out ? static_cast<char*>(out) : nullptr);
  const sim::memory::location l = gpu().where(p);
  const bool device = l.kind == cutrace::memory_kind::device;
  if (!device && l.kind != cutrace::memory_kind::pinned) return CUDA_ERROR_INVALID_VALUE;
  switch (id) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      *static_cast<CUcontext*>(out) = handle<CUcontext>(current_or_null());
      break;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *static_cast<unsigned*>(out) = device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
      break;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      *static_cast<CUdeviceptr*>(out) = p;
      break;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (device) return CUDA_ERROR_INVALID_VALUE;
      *static_cast<CUdeviceptr*>(out) = p;
      break;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      *static_cast<unsigned char*>(out) = 0;
      break;
    case CU_POINTER_ATTRIBUTE_MAPPED:
      *static_cast<unsigned char*>(out) = 1;
      break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *static_cast<int*>(out) = static_cast<int>(l.device);
      break;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      *static_cast<CUdeviceptr*>(out) = l.base;
      break;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      *static_cast<size_t*>(out) = l.bytes;
      break;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      *static_cast<unsigned long long*>(out) = l.base;
      break;
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
  return CUDA_SUCCESS;
}

CUresult pointer_attributes(unsigned n, const CUpointer_attribute* ids, void** out, CUdeviceptr p) {
  // Unlike cuPointerGetAttribute, this function never fails for a pointer that the driver does not know.
  for (unsigned i = 0; i < n; ++i)
    if (pointer_attribute(required(out + i), ids[i], p) != CUDA_SUCCESS && ids[i] == CU_POINTER_ATTRIBUTE_MEMORY_TYPE)
      *static_cast<unsigned*>(out[i]) = 0;
  return CUDA_SUCCESS;
}

}  // namespace

STANDIN_API(cuMemGetInfo_v2, (size_t * free_bytes, size_t* total), (free_bytes, total), info(free_bytes, total))
STANDIN_API(cuMemAlloc_v2, (CUdeviceptr * out, size_t bytes), (out, bytes), allocate(out, bytes, nullptr))
STANDIN_API(cuMemAllocPitch_v2, (CUdeviceptr * out, size_t* pitch, size_t width, size_t height, unsigned int element),
            (out, pitch, width, height, element), allocate_pitch(out, pitch, width, height))
STANDIN_API(cuMemFree_v2, (CUdeviceptr p), (p), release(p, nullptr))
STANDIN_API(cuMemGetAddressRange_v2, (CUdeviceptr * base, size_t* bytes, CUdeviceptr p), (base, bytes, p),
            address_range(base, bytes, p))
STANDIN_TWIN(cuMemAllocAsync, _ptsz, (CUdeviceptr * out, size_t bytes, CUstream s), (out, bytes, s),
             allocate(out, bytes, &stream_of(s, ptds)))
STANDIN_TWIN(cuMemAllocFromPoolAsync, _ptsz, (CUdeviceptr * out, size_t bytes, CUmemoryPool pool, CUstream s),
             (out, bytes, pool, s), allocate(out, bytes, &stream_of(s, ptds)))
STANDIN_TWIN(cuMemFreeAsync, _ptsz, (CUdeviceptr p, CUstream s), (p, s), release(p, &stream_of(s, ptds)))
STANDIN_API(cuMemAllocManaged, (CUdeviceptr * out, size_t bytes, unsigned int flags), (out, bytes, flags),
            CUDA_ERROR_NOT_SUPPORTED)

STANDIN_API(cuMemAllocHost_v2, (void** out, size_t bytes), (out, bytes), allocate_host(out, bytes))
STANDIN_API(cuMemHostAlloc, (void** out, size_t bytes, unsigned int flags), (out, bytes, flags),
            allocate_host(out, bytes))
STANDIN_API(cuMemFreeHost, (void* p), (p), free_host(p))
STANDIN_API(cuMemHostRegister_v2, (void* p, size_t bytes, unsigned int flags), (p, bytes, flags),
            register_host(p, bytes))
STANDIN_API(cuMemHostUnregister, (void* p), (p), gpu().unpin(p) ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED)
STANDIN_API(cuMemHostGetDevicePointer_v2, (CUdeviceptr * out, void* p, unsigned int flags), (out, p, flags),
            host_pointer(out, p))
STANDIN_API(cuMemHostGetFlags, (unsigned int* flags, void* p), (flags, p), (required(flags) = 0, CUDA_SUCCESS))

STANDIN_API(cuDeviceGetDefaultMemPool, (CUmemoryPool * out, CUdevice dev), (out, dev),
            (required(out) = default_pool(device_of(dev)), CUDA_SUCCESS))
STANDIN_API(cuDeviceGetMemPool, (CUmemoryPool * out, CUdevice dev), (out, dev),
            (required(out) = default_pool(device_of(dev)), CUDA_SUCCESS))
STANDIN_API(cuMemPoolCreate, (CUmemoryPool * out, const CUmemPoolProps* props), (out, props), create_pool(out))
STANDIN_API(cuMemPoolDestroy, (CUmemoryPool pool), (pool), destroy_pool(pool))
STANDIN_API(cuMemPoolTrimTo, (CUmemoryPool pool, size_t keep), (pool, keep), CUDA_SUCCESS)
STANDIN_API(cuMemPoolSetAttribute, (CUmemoryPool pool, CUmemPool_attribute id, void* value), (pool, id, value),
            CUDA_SUCCESS)
STANDIN_API(cuMemPoolGetAttribute, (CUmemoryPool pool, CUmemPool_attribute id, void* value), (pool, id, value),
            pool_attribute(id, value))

STANDIN_API(cuPointerGetAttribute, (void* out, CUpointer_attribute id, CUdeviceptr p), (out, id, p),
            pointer_attribute(out, id, p))
STANDIN_API(cuPointerGetAttributes, (unsigned int n, CUpointer_attribute* ids, void** out, CUdeviceptr p),
            (n, ids, out, p), pointer_attributes(n, ids, out, p))

}  // namespace standin
