// SPDX-License-Identifier: Apache-2.0
// Built like the driver of these tests: each function begins with push.
#include "mine.hpp"

namespace {
long twice(long v) __asm__("mine_twice");
long twice(long v) { return 2 * v; }
}  // namespace

extern "C" {
long mine_add(long a, long b) { return a + b; }
int mine_calls(void (*call)()) {
  call();
  return 1;
}
long mine_deep(long n) { return n <= 1 ? 1 : mine_deep(n - 1) + 1; }
long mine_doubles(long v) { return twice(v); }
}
