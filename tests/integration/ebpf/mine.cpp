// SPDX-License-Identifier: Apache-2.0
// Built like the driver of these tests: each function begins with push.
#include "mine.hpp"

extern "C" {
long mine_add(long a, long b) { return a + b; }
int mine_calls(void (*call)()) {
  call();
  return 1;
}
long mine_deep(long n) { return n <= 1 ? 1 : mine_deep(n - 1) + 1; }
}
