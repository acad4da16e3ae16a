// SPDX-License-Identifier: Apache-2.0
// Another tool, which takes CUPTI for itself: when the driver loads it, or, preloaded, when the process starts.
#include <cupti.h>
#include <dlfcn.h>

#include <cstdlib>

namespace {

void on_call(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {}

void take() {
  void* library = dlopen(std::getenv("CUTRACE_CUPTI_LIBRARY"), RTLD_NOW);
  if (library == nullptr) return;
  const auto subscribe = reinterpret_cast<decltype(&cuptiSubscribe_v2)>(dlsym(library, "cuptiSubscribe_v2"));
  static CUpti_SubscriberHandle handle;
  CUpti_SubscriberParams p{};
  p.structSize = CUpti_SubscriberParams_STRUCT_SIZE;
  p.subscriberName = "the other tool";
  if (subscribe != nullptr) subscribe(&handle, &on_call, nullptr, &p);
}

__attribute__((constructor)) void at_start() {
  if (std::getenv("OTHER_TOOL_AT_START") == nullptr) return;
  dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  take();
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  if (std::getenv("OTHER_TOOL_ENDS") != nullptr) std::_Exit(0);
  take();
  return 1;
}
