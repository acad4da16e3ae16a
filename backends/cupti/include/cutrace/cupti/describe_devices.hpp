// SPDX-License-Identifier: Apache-2.0
// Descriptions of devices by the driver, for a session that begins late: CUPTI describes devices only once, when CUDA
// starts.
#pragma once

#include <cuda.h>
#include <dlfcn.h>

#include <cstdint>
#include <cstring>
#include <cutrace/backend.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace cupti CUTRACE_LOCAL {

/// Describes all devices that this process sees, as far as the driver knows them. CUDA must have been initialised.
inline void describe_devices(event_writer& writer) {
  void* cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (cuda == nullptr) return;
  // Symbols as of CUDA 3.2 and 11.4: the names in cuda.h are macros for the newest form.
  const auto get_count = reinterpret_cast<CUresult (*)(int*)>(dlsym(cuda, "cuDeviceGetCount"));
  const auto get_device = reinterpret_cast<CUresult (*)(CUdevice*, int)>(dlsym(cuda, "cuDeviceGet"));
  const auto get_name = reinterpret_cast<CUresult (*)(char*, int, CUdevice)>(dlsym(cuda, "cuDeviceGetName"));
  const auto get_bytes = reinterpret_cast<CUresult (*)(std::size_t*, CUdevice)>(dlsym(cuda, "cuDeviceTotalMem_v2"));
  const auto get_uuid = reinterpret_cast<CUresult (*)(CUuuid*, CUdevice)>(dlsym(cuda, "cuDeviceGetUuid_v2"));
  const auto get_attribute =
      reinterpret_cast<CUresult (*)(int*, CUdevice_attribute, CUdevice)>(dlsym(cuda, "cuDeviceGetAttribute"));
  int count = 0;
  if (get_count == nullptr || get_device == nullptr || get_count(&count) != CUDA_SUCCESS) return;
  for (int i = 0; i < count; ++i) {
    CUdevice device = 0;
    if (get_device(&device, i) != CUDA_SUCCESS) continue;
    const auto attribute = [&](CUdevice_attribute a) {
      int value = 0;
      if (get_attribute == nullptr || get_attribute(&value, a, device) != CUDA_SUCCESS || value < 0) value = 0;
      return static_cast<std::uint32_t>(value);
    };
    event e;
    e.kind = event_kind::device;
    e.device = static_cast<std::uint32_t>(i);
    e.start_ns = e.end_ns = static_cast<std::int64_t>(writer.raw_ns(writer.ticks()));
    char name[256] = {};
    if (get_name != nullptr && get_name(name, sizeof(name) - 1, device) == CUDA_SUCCESS)
      e.name = {name, static_cast<std::uint32_t>(std::strlen(name))};
    device_data& d = e.device_;
    std::size_t bytes = 0;
    if (get_bytes != nullptr && get_bytes(&bytes, device) == CUDA_SUCCESS) d.memory_bytes = bytes;
    d.multiprocessors = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    d.compute_major = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    d.compute_minor = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    d.core_clock_khz = attribute(CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
    // Two transfers a clock, over a bus whose width is given in bits.
    d.memory_bandwidth_bytes_per_s = std::uint64_t{attribute(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)} * 1000 * 2 *
                                     attribute(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH) / 8;
    CUuuid uuid{};
    if (get_uuid != nullptr && get_uuid(&uuid, device) == CUDA_SUCCESS) std::memcpy(d.uuid, &uuid, sizeof(d.uuid));
    writer.describe(e);
  }
}

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
