// SPDX-License-Identifier: Apache-2.0
// A libcuda.so.1 that gives its version and then ends the process, as one whose memory is spoilt.
#include <csignal>

extern "C" __attribute__((visibility("default"))) int cuDriverGetVersion(int* version) {
  *version = 13000;
  return 0;
}

extern "C" __attribute__((visibility("default"))) int cuInit(unsigned) {
  std::signal(SIGSEGV, SIG_DFL);  // a sanitizer's handler would make an exit of it
  std::raise(SIGSEGV);
  return 0;
}
