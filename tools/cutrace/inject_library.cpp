// SPDX-License-Identifier: Apache-2.0
// The search.
#include "inject_library.hpp"

#include <limits.h>
#include <unistd.h>

#include <cstdlib>
#include <stdexcept>

namespace cutrace_tool {

std::string find_inject_library() {
  char real[PATH_MAX];
  const auto there = [&](const std::string& file) {
    return ::access(file.c_str(), R_OK) == 0 && ::realpath(file.c_str(), real) != nullptr;
  };
  const char* named = std::getenv("CUTRACE_INJECT_LIBRARY");
  if (named != nullptr && *named != '\0') {
    if (there(named)) return real;
    throw std::runtime_error("CUTRACE_INJECT_LIBRARY=\"" + std::string(named) + "\" cannot be read");
  }
  char self[PATH_MAX] = "";
  if (::readlink("/proc/self/exe", self, sizeof(self) - 1) <= 0)
    throw std::runtime_error("/proc/self/exe cannot be read");
  const std::string whole = self, folder = whole.substr(0, whole.rfind('/'));
  std::string looked;
  for (const char* place : {"/", "/../lib/", "/../lib64/", "/../lib/x86_64-linux-gnu/", "/../lib/aarch64-linux-gnu/"}) {
    const std::string file = folder + place + "libcutrace_inject.so";
    if (there(file)) return real;
    looked += " " + file;
  }
  throw std::runtime_error("libcutrace_inject.so is missing; looked for:" + looked);
}

}  // namespace cutrace_tool
