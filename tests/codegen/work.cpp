// SPDX-License-Identifier: Apache-2.0
// One function, with markers (MARKERS) and without any cutrace: the test compares what the compiler makes of the two.
#if defined(MARKERS)
#include <cutrace/cutrace.hpp>
#else
#define CUTRACE_STAGE(...)
#define CUTRACE_STAGE_BATCH(name, ids, n)
#define CUTRACE_STAGE_DYNAMIC(...)
#define CUTRACE_FUNCTION()
#define CUTRACE_MARK(...) static_cast<void>(0)
#define CUTRACE_COUNT(name, n) static_cast<void>(0)
#define CUTRACE_GAUGE(name, n) static_cast<void>(0)
#endif

unsigned long long step(unsigned long long request, const unsigned long long* ids, unsigned long n);
void finish();

unsigned long long serve(unsigned long long request, const unsigned long long* ids, unsigned long n) {
  CUTRACE_FUNCTION();
  unsigned long long sum = 0;
  for (unsigned long i = 0; i < n; ++i) {
    CUTRACE_STAGE("step", request + i);
    CUTRACE_STAGE_BATCH("batch", ids, n);
    CUTRACE_STAGE_DYNAMIC(ids != nullptr ? "with ids" : "without");
    sum += step(request + i, ids, n);
    CUTRACE_MARK("stepped", request);
    CUTRACE_COUNT("steps", 1);
    CUTRACE_GAUGE("left", n - i);
  }
  finish();
  return sum;
}
