// SPDX-License-Identifier: Apache-2.0
// Fills the table of driver functions. The library stays loaded until the process ends: a tracer may still call it.
#include "cuda_driver.hpp"

#include <dlfcn.h>

#include <cstring>

namespace server {
namespace {

void* open_library() {
  if (void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL)) return library;
  throw std::runtime_error(std::string("no CUDA driver: ") + dlerror());
}

template <class Function>
void find(void* library, const char* symbol, Function& function) {
  void* address = dlsym(library, symbol);
  if (address == nullptr) throw std::runtime_error(std::string("the CUDA driver has no ") + symbol);
  static_assert(sizeof(function) == sizeof(address), "POSIX: a function pointer fits a void*");
  std::memcpy(&function, &address, sizeof(address));
}

}  // namespace

#define CUTRACE_SERVER_TEXT(name) #name
#define CUTRACE_SERVER_FIND(name) find(library, CUTRACE_SERVER_TEXT(name), name);
cuda_driver::cuda_driver() {
  void* library = open_library();
  CUTRACE_SERVER_DRIVER_FUNCTIONS(CUTRACE_SERVER_FIND)
  check(cuInit(0), "cuInit");
}
#undef CUTRACE_SERVER_FIND
#undef CUTRACE_SERVER_TEXT

}  // namespace server
