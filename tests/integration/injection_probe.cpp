// SPDX-License-Identifier: Apache-2.0
// A library for CUDA_INJECTION64_PATH that only shows that it was called.
#include <cstdlib>

extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  return setenv("CUTRACE_TEST_INJECTION_SEEN", "1", 1) == 0 ? 1 : 0;
}
