// SPDX-License-Identifier: Apache-2.0
// Five functions of libnvidia-ml.so.1; their ABI has been the same since MIG came (NVML 11).
#include "nvml_probe.hpp"

#include <dlfcn.h>

#include <cstdio>

namespace cutrace_tool::doctor {

namespace {

void ask(const reporter& t) {
  t.step("loading libnvidia-ml.so.1");
  void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    return t.report("unread", why != nullptr ? why : "libnvidia-ml.so.1 cannot be loaded");
  }
  const auto init = reinterpret_cast<int (*)()>(dlsym(library, "nvmlInit_v2"));
  const auto count = reinterpret_cast<int (*)(unsigned*)>(dlsym(library, "nvmlDeviceGetCount_v2"));
  const auto get = reinterpret_cast<int (*)(unsigned, void**)>(dlsym(library, "nvmlDeviceGetHandleByIndex_v2"));
  const auto mig = reinterpret_cast<int (*)(void*, unsigned*, unsigned*)>(dlsym(library, "nvmlDeviceGetMigMode"));
  const auto mode = reinterpret_cast<int (*)(void*, unsigned*)>(dlsym(library, "nvmlDeviceGetVirtualizationMode"));
  if (init == nullptr || count == nullptr || get == nullptr)
    return t.report("unread", "libnvidia-ml.so.1 lacks functions that every release has");
  t.step("nvmlInit");
  const int begun = init();
  if (begun != 0) return t.report("unread", "nvmlInit returns " + std::to_string(begun));
  unsigned n = 0;
  if (count(&n) != 0) return t.report("unread", "nvmlDeviceGetCount fails");
  for (unsigned i = 0; i < n; ++i) {
    void* device = nullptr;
    unsigned now = 0, later = 0, kind = 0;
    if (get(i, &device) != 0) continue;
    const bool knows_mig = mig != nullptr && mig(device, &now, &later) == 0;
    const bool knows_mode = mode != nullptr && mode(device, &kind) == 0;
    t.report("device", std::to_string(knows_mig ? static_cast<int>(now) : -1) + " " +
                           std::to_string(knows_mode ? static_cast<int>(kind) : -1));
  }
}

}  // namespace

nvml_facts ask_nvml(const setup& s) {
  nvml_facts f;
  const probe_result r = run_probe(s.patience_seconds, ask);
  f.unread = r.text("unread");
  if (f.unread.empty()) f.unread = r.failure(s.patience_seconds);
  for (const auto& [key, value] : r.facts) {
    nvml_device d;
    if (key == "device" && std::sscanf(value.c_str(), "%d %d", &d.mig, &d.virtualisation) == 2) f.devices.push_back(d);
  }
  return f;
}

}  // namespace cutrace_tool::doctor
