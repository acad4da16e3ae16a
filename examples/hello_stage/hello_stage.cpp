// SPDX-License-Identifier: Apache-2.0
// The smallest program with cutrace: a session, and two stages. Run it as
//
//   CUTRACE_SINKS=ascii ./hello_stage
//
// and the report at the end shows both stages on one timeline. It needs no GPU; where a stage calls CUDA, its kernels
// and copies appear in it. Without CUTRACE_SINKS nothing is traced, and the markers cost next to nothing.
#include <cutrace/cutrace.hpp>

void work(int n) {
  for (volatile int i = 0; i < n; i = i + 1) continue;
}

int main() {
  cutrace::session trace;  // traces while it lives, to the sinks that CUTRACE_SINKS names: none, no tracing
  {
    CUTRACE_STAGE("prefill", 42);  // from here to the end of the scope, for request 42
    work(2000000);
  }
  const std::uint64_t batch[] = {42, 43};
  for (int step = 0; step < 8; ++step) {
    CUTRACE_STAGE_BATCH("decode", batch, 2);  // one step serves both requests
    work(200000);
  }
}
