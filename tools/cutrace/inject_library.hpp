// SPDX-License-Identifier: Apache-2.0
// Where libcutrace_inject.so is: named by the environment, or lying where a build or an installation puts it relative
// to this executable.
#pragma once

#include <limits.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

struct inject_library {
  std::string path;                    ///< empty where none was found
  bool named = false;                  ///< by CUTRACE_INJECT_LIBRARY; then no other place counts
  std::vector<std::string> looked_at;  ///< in order
};

inline inject_library find_inject_library() {
  inject_library found;
  const auto look_at = [&](const std::string& file) {
    if (!found.path.empty()) return;
    found.looked_at.push_back(file);
    char real[PATH_MAX];
    if (::access(file.c_str(), R_OK) == 0 && ::realpath(file.c_str(), real) != nullptr) found.path = real;
  };
  const char* named = std::getenv("CUTRACE_INJECT_LIBRARY");
  if (named != nullptr && *named != '\0') {
    found.named = true;
    look_at(named);
    return found;
  }
  char self[PATH_MAX] = "";
  if (::readlink("/proc/self/exe", self, sizeof(self) - 1) <= 0) return found;
  const std::string whole = self;
  const std::string folder = whole.substr(0, whole.rfind('/'));
  for (const char* place : {
         "/", "/../lib/", "/../lib64/",
#if defined(__x86_64__)
             "/../lib/x86_64-linux-gnu/",
#elif defined(__aarch64__)
                            "/../lib/aarch64-linux-gnu/",
#endif
             "/../"
       })
    look_at(folder + place + "libcutrace_inject.so");
  return found;
}
