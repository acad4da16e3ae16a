// SPDX-License-Identifier: Apache-2.0
// Initialisation and devices.
#include <cstdio>
#include <cstring>

#include "api.hpp"

namespace standin {
namespace {

struct attribute {
  CUdevice_attribute id;
  int value;
};

// Values of an H200. An attribute that is not listed is 0: the stand-in cannot do it, or does not model it.
constexpr attribute attributes[] = {
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 2147483647},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 49152},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 232448},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 233472},
    {CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, 1024},
    {CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 65536},
    {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
    {CU_DEVICE_ATTRIBUTE_MAX_PITCH, 2147483647},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65536},
    {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1980000},
    {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 3201000},
    {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 6144},
    {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 50 << 20},
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, 32},
    {CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 512},
    {CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT, 512},
    {CU_DEVICE_ATTRIBUTE_GPU_OVERLAP, 1},
    {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 3},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
    {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0},
    {CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1},
    {CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, 1},
    {CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR, 1},
    {CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, 0},
};

CUresult get_attribute(int* value, CUdevice_attribute id, CUdevice dev) {
  const std::uint32_t device = device_of(dev);
  required(value) = 0;
  if (id == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
    *value = static_cast<int>(driver::get().gpu().settings().multiprocessors);
  else if (id == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID)
    *value = static_cast<int>(device) + 1;
  else
    for (const attribute& a : attributes)
      if (a.id == id) *value = a.value;
  return id > 0 && id < CU_DEVICE_ATTRIBUTE_MAX ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult get_uuid(CUuuid* uuid, CUdevice dev) {
  const standin_device d = driver::get().describe(device_of(dev));
  std::memcpy(required(uuid).bytes, d.uuid, sizeof d.uuid);
  return CUDA_SUCCESS;
}

CUresult bus_id(char* text, int size, CUdevice dev) {
  const std::uint32_t device = device_of(dev);
  std::snprintf(&required(text), static_cast<std::size_t>(size), "0000:%02X:00.0", device + 1);
  return CUDA_SUCCESS;
}

CUresult by_bus_id(CUdevice* dev, const char* text) {
  unsigned domain = 0, bus = 0;
  if (std::sscanf(&required(text), "%x:%x", &domain, &bus) != 2) return CUDA_ERROR_INVALID_VALUE;
  if (bus == 0 || bus > driver::get().devices()) return CUDA_ERROR_INVALID_DEVICE;
  required(dev) = static_cast<CUdevice>(bus - 1);
  return CUDA_SUCCESS;
}

template <class T, class V>
CUresult give(T* where, V value) {
  required(where) = static_cast<T>(value);
  return CUDA_SUCCESS;
}

}  // namespace

STANDIN_API_EARLY(cuInit, (unsigned int flags), (flags),
                  flags != 0 ? CUDA_ERROR_INVALID_VALUE : driver::get().initialise())
STANDIN_API_EARLY(cuDriverGetVersion, (int* version), (version), give(version, CUDA_VERSION))
STANDIN_API(cuDeviceGet, (CUdevice * dev, int ordinal), (dev, ordinal), give(dev, device_of(ordinal)))
STANDIN_API(cuDeviceGetCount, (int* count), (count), give(count, driver::get().devices()))
STANDIN_API(cuDeviceGetName, (char* name, int len, CUdevice dev), (name, len, dev),
            std::snprintf(&required(name), static_cast<std::size_t>(len), "%s",
                          driver::get().describe(device_of(dev)).name) < 0
                ? CUDA_ERROR_UNKNOWN
                : CUDA_SUCCESS)
STANDIN_API(cuDeviceGetUuid, (CUuuid * uuid, CUdevice dev), (uuid, dev), get_uuid(uuid, dev))
STANDIN_API(cuDeviceGetUuid_v2, (CUuuid * uuid, CUdevice dev), (uuid, dev), get_uuid(uuid, dev))
STANDIN_API(cuDeviceTotalMem_v2, (size_t * bytes, CUdevice dev), (bytes, dev),
            give(bytes, driver::get().describe(device_of(dev)).memory_bytes))
STANDIN_API(cuDeviceGetAttribute, (int* value, CUdevice_attribute id, CUdevice dev), (value, id, dev),
            get_attribute(value, id, dev))
STANDIN_API(cuDeviceComputeCapability, (int* major, int* minor, CUdevice dev), (major, minor, dev),
            (give(major, driver::get().describe(device_of(dev)).major), give(minor, 0)))
STANDIN_API(cuDeviceGetPCIBusId, (char* text, int len, CUdevice dev), (text, len, dev), bus_id(text, len, dev))
STANDIN_API(cuDeviceGetByPCIBusId, (CUdevice * dev, const char* text), (dev, text), by_bus_id(dev, text))
STANDIN_API(cuDeviceCanAccessPeer, (int* can, CUdevice dev, CUdevice peer), (can, dev, peer),
            give(can, device_of(dev) != device_of(peer)))
STANDIN_API(cuDeviceGetP2PAttribute, (int* value, CUdevice_P2PAttribute id, CUdevice from, CUdevice to),
            (value, id, from, to),
            give(value, id == CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED && device_of(from) != device_of(to)))

}  // namespace standin
