// SPDX-License-Identifier: Apache-2.0
// A library that exports CUPTI's functions and goes on to the real ones, as stubs do that open libraries on demand.
#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>

namespace {

template <class Function>
Function real(const char* name) {
  static void* const library = dlopen(std::getenv("CUTRACE_CUPTI_LIBRARY"), RTLD_NOW | RTLD_LOCAL);
  return reinterpret_cast<Function>(dlsym(library, name));
}

}  // namespace

#define STUB(name, parameters, ...)                                       \
  extern "C" __attribute__((visibility("default"))) int name parameters { \
    return real<int(*) parameters>(#name)(__VA_ARGS__);                   \
  }
STUB(cuptiSubscribe, (void* a, void* b, void* c), a, b, c)
STUB(cuptiSubscribe_v2, (void* a, void* b, void* c, void* d), a, b, c, d)
STUB(cuptiUnsubscribe, (void* a), a)
STUB(cuptiActivityRegisterCallbacks, (void* a, void* b), a, b)
STUB(cuptiActivityEnable, (int a), a)
STUB(cuptiActivityDisable, (int a), a)
STUB(cuptiActivityFlushAll, (std::uint32_t a), a)
STUB(cuptiActivityGetNextRecord, (void* a, std::size_t b, void* c), a, b, c)
