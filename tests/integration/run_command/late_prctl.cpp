// SPDX-License-Identifier: Apache-2.0
// Preloaded into the command: when the process that it has forked asks for a signal at its parent's end, the parent has
// ended already.
#include <dlfcn.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdarg>

extern "C" __attribute__((visibility("default"))) int prctl(int what, ...) noexcept {
  unsigned long words[4];
  va_list all;
  va_start(all, what);
  for (unsigned long& w : words) w = va_arg(all, unsigned long);
  va_end(all);
  if (what == PR_SET_PDEATHSIG) {
    const pid_t parent = ::getppid();
    ::kill(parent, SIGKILL);
    while (::getppid() == parent) ::usleep(1000);
  }
  const auto real = reinterpret_cast<int (*)(int, ...)>(::dlsym(RTLD_NEXT, "prctl"));
  return real(what, words[0], words[1], words[2], words[3]);
}
