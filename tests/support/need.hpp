// SPDX-License-Identifier: Apache-2.0
// For programs that a test runs: what must hold, or the end of the program, whatever its threads do.
#pragma once

#include <unistd.h>

#include <cstdio>

namespace test_support {

inline void need(bool ok, const char* what) {
  if (ok) return;
  std::printf("FAILED: %s\n", what);
  std::fflush(stdout);
  ::_exit(1);
}

}  // namespace test_support
