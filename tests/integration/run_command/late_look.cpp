// SPDX-License-Identifier: Apache-2.0
// Preloaded into the command: it stands still before it looks whether a process runs, and before it looks for the first
// time which processes there are.
#include <dirent.h>
#include <dlfcn.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

extern "C" __attribute__((visibility("default"))) int kill(pid_t process, int signal) noexcept {
  if (signal == 0) ::usleep(300000);
  static const auto real = reinterpret_cast<int (*)(pid_t, int)>(::dlsym(RTLD_NEXT, "kill"));
  return real(process, signal);
}

extern "C" __attribute__((visibility("default"))) DIR* opendir(const char* name) {
  static bool has_looked = false;
  if (std::strcmp(name, "/proc") == 0 && !has_looked) {
    has_looked = true;
    ::usleep(700000);
  }
  static const auto real = reinterpret_cast<DIR* (*)(const char*)>(::dlsym(RTLD_NEXT, "opendir"));
  return real(name);
}
