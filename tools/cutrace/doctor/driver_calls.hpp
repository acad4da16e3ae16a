// SPDX-License-Identifier: Apache-2.0
// The few functions of the CUDA driver that doctor calls, by their ABI: no header of CUDA is needed to ask a driver how
// it is. Only inside a probe's child.
#pragma once

#include <dlfcn.h>
#include <link.h>

#include <cstdint>
#include <string>

namespace cutrace_tool::doctor {

struct driver_calls {
  int (*driver_version)(int*) = nullptr;
  int (*init)(unsigned) = nullptr;
  int (*error_name)(int, const char**) = nullptr;
  int (*device_count)(int*) = nullptr;
  int (*device_get)(int*, int) = nullptr;
  int (*device_name)(char*, int, int) = nullptr;
  int (*device_attribute)(int*, int, int) = nullptr;
  int (*retain_context)(void**, int) = nullptr;
  int (*release_context)(int) = nullptr;
  int (*set_context)(void*) = nullptr;
  int (*allocate)(std::uint64_t*, std::size_t) = nullptr;
  int (*free)(std::uint64_t) = nullptr;
  int (*fill)(std::uint64_t, unsigned char, std::size_t) = nullptr;
  int (*copy_to_host)(void*, std::uint64_t, std::size_t) = nullptr;
  int (*synchronize)() = nullptr;

  std::string path;   ///< of the library that was opened
  std::string error;  ///< why none was opened

  /// The driver as a program would find it.
  bool open() {
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      const char* why = dlerror();
      error = why != nullptr ? why : "unknown reason";
      return false;
    }
    link_map* map = nullptr;
    if (dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr) path = map->l_name;
    const auto find = [&](auto& to, const char* name) {
      to = reinterpret_cast<std::remove_reference_t<decltype(to)>>(dlsym(library, name));
    };
    find(driver_version, "cuDriverGetVersion");
    find(init, "cuInit");
    find(error_name, "cuGetErrorName");
    find(device_count, "cuDeviceGetCount");
    find(device_get, "cuDeviceGet");
    find(device_name, "cuDeviceGetName");
    find(device_attribute, "cuDeviceGetAttribute");
    find(retain_context, "cuDevicePrimaryCtxRetain");
    find(release_context, "cuDevicePrimaryCtxRelease_v2");
    find(set_context, "cuCtxSetCurrent");
    find(allocate, "cuMemAlloc_v2");
    find(free, "cuMemFree_v2");
    find(fill, "cuMemsetD8_v2");
    find(copy_to_host, "cuMemcpyDtoH_v2");
    find(synchronize, "cuCtxSynchronize");
    return true;
  }

  /// "CUDA_ERROR_NO_DEVICE (100)".
  std::string explain(int result) const {
    const char* name = nullptr;
    if (error_name != nullptr) error_name(result, &name);
    return std::string(name != nullptr ? name : "CUDA error") + " (" + std::to_string(result) + ")";
  }
};

}  // namespace cutrace_tool::doctor
