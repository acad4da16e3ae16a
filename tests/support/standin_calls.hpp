// SPDX-License-Identifier: Apache-2.0
// Driver and CUPTI functions by dlopen and dlsym, with the types of the headers: programs on the stand-in libraries are
// built where neither library can be linked. CU(cuMemAlloc)(&p, n) calls what the header maps the name to.
#pragma once

#include <cuda.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

namespace test_support {

inline void* open_library(const char* name) {
  void* library = dlopen(name, RTLD_NOW);
  if (library != nullptr) return library;
  std::fprintf(stderr, "%s\n", dlerror());
  std::exit(2);
}

inline const char* cupti_name() {
  static char name[32];
  std::snprintf(name, sizeof name, "libcupti.so.%d", CUDA_VERSION / 1000);
  return name;
}

// Each is opened when it is needed: what a program does not use may be missing.
inline void* cuda_library() {
  static void* library = open_library("libcuda.so.1");
  return library;
}
inline void* cupti_library() {
  static void* library = open_library(cupti_name());
  return library;
}

template <class Function>
Function resolve(bool cupti, const char* name) {
  void* p = dlsym(cupti ? cupti_library() : cuda_library(), name);
  if (p != nullptr) return reinterpret_cast<Function>(p);
  std::fprintf(stderr, "no %s in the stand-in\n", name);
  std::exit(2);
}

}  // namespace test_support

#define STANDIN_TEXT_OF(x) #x
#define STANDIN_TEXT(x) STANDIN_TEXT_OF(x)
#define CU(name)                                                                                            \
  ([] {                                                                                                     \
    static const auto standin_function = test_support::resolve<decltype(&name)>(false, STANDIN_TEXT(name)); \
    return standin_function;                                                                                \
  }())
#define CUPTI(name)                                                                                        \
  ([] {                                                                                                    \
    static const auto standin_function = test_support::resolve<decltype(&name)>(true, STANDIN_TEXT(name)); \
    return standin_function;                                                                               \
  }())
