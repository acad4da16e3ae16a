// SPDX-License-Identifier: Apache-2.0
// What this process holds: resident memory, and memory of a device as NVML gives it by process (libnvidia-ml is opened
// at run time; where it is missing or does not know us, the reason is there instead of a figure).
#pragma once

#include <cuda.h>
#include <dlfcn.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <string>

#include "standin_calls.hpp"

namespace test_support {

/// Resident memory of this process, in bytes; 0 where /proc cannot be read.
inline std::uint64_t resident_bytes() {
  unsigned long long size = 0, resident = 0;
  std::FILE* f = std::fopen("/proc/self/statm", "re");
  if (f == nullptr) return 0;
  const bool read = std::fscanf(f, "%llu %llu", &size, &resident) == 2;
  std::fclose(f);
  return read ? resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)) : 0;
}

/// Processes that compute on a device, as NVML lists them.
class device_processes {
 public:
  explicit device_processes(CUdevice device) {
    void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (library == nullptr) return;
    const auto init = reinterpret_cast<int (*)()>(dlsym(library, "nvmlInit_v2"));
    const auto find =
        reinterpret_cast<int (*)(const char*, void**)>(dlsym(library, "nvmlDeviceGetHandleByPciBusId_v2"));
    list_ = reinterpret_cast<list_function>(dlsym(library, "nvmlDeviceGetComputeRunningProcesses_v3"));
    char bus[32] = {};
    if (init == nullptr || find == nullptr || list_ == nullptr) {
      reason_ = "this libnvidia-ml has no list of processes: device memory is the device's";
      list_ = nullptr;
    } else if (init() != 0 || CU(cuDeviceGetPCIBusId)(bus, sizeof(bus), device) != CUDA_SUCCESS ||
               find(bus, &handle_) != 0 || own_bytes() < 0) {
      reason_ = "NVML does not know this process's share (a container?): device memory is the device's";
      list_ = nullptr;
    } else {
      reason_ = "NVML reports this process's share of the device's memory";
    }
  }

  const std::string& reason() const { return reason_; }

  /// Device memory of this process in bytes, -1 where NVML does not say it.
  std::int64_t own_bytes() const {
    if (list_ == nullptr) return -1;
    entry all[256];
    unsigned count = 256;
    if (list_(handle_, &count, all) != 0) return -1;
    for (unsigned i = 0; i < count && i < 256; ++i)
      if (all[i].pid == static_cast<unsigned>(::getpid()) && all[i].used != ~0ull)
        return static_cast<std::int64_t>(all[i].used);
    return -1;
  }

 private:
  /// nvmlProcessInfo_t (nvml.h of CUDA 11.0 and later, which need not be installed).
  struct entry {
    unsigned pid;
    unsigned long long used;  ///< bytes; all ones: not available
    unsigned gpu_instance, compute_instance;
  };
  using list_function = int (*)(void*, unsigned*, entry*);

  list_function list_ = nullptr;
  void* handle_ = nullptr;
  std::string reason_ = "no libnvidia-ml here: device memory is the device's, other tenants' included";
};

}  // namespace test_support
