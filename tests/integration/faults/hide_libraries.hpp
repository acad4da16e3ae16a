// SPDX-License-Identifier: Apache-2.0
// Hides libraries that this machine has: in a program that includes this, dlopen fails for names that contain
// FAULTY_RUN_HIDE. The program must export its symbols, so that libraries use this dlopen, too.
#pragma once

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>

extern "C" __attribute__((visibility("default"))) void* dlopen(const char* file, int mode) noexcept {
  using function = void* (*)(const char*, int);
  static const function real = reinterpret_cast<function>(dlsym(RTLD_NEXT, "dlopen"));
  const char* hidden = std::getenv("FAULTY_RUN_HIDE");
  const bool hide = file != nullptr && hidden != nullptr && *hidden != '\0' && std::strstr(file, hidden) != nullptr;
  return real(hide ? "/hidden/by/this/test" : file, mode);
}
