// SPDX-License-Identifier: Apache-2.0
// A session and a stage, or none of it.
#include <cstdio>
#if defined(WITH_CUTRACE)
#include <cutrace/cutrace.hpp>
#endif

int main() {
#if defined(WITH_CUTRACE)
  cutrace::session trace;
  CUTRACE_STAGE("main", 1);
#endif
  std::puts("done");
}
