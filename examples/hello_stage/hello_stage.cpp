// SPDX-License-Identifier: Apache-2.0
// The smallest program with cutrace: a session, and two stages. Run it as
//
//   CUTRACE_SINKS=ascii ./hello_stage
//
// and the report at the end shows both stages on one timeline. It needs no GPU; where a stage calls CUDA, its kernels
// and copies appear in it. Without CUTRACE_SINKS nothing is written, and the markers cost next to nothing.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cutrace/cutrace.hpp>

namespace {

double sum = 0;
void prefill() {
  for (int i = 0; i < 200000; ++i) sum += std::sqrt(i);
}
void decode_step() {
  for (int i = 0; i < 20000; ++i) sum -= std::cbrt(i);
}

}  // namespace

int main() {
  const std::uint64_t request_id = 42, ids[] = {42, 43};
  cutrace::session trace;  // tracing is on while this object lives; its sinks come from CUTRACE_SINKS
  {
    CUTRACE_STAGE("prefill", request_id);  // from here to the end of the scope, for one request
    prefill();
  }
  for (int step = 0; step < 8; ++step) {
    CUTRACE_STAGE_BATCH("decode", ids, 2);  // one step serves both requests
    decode_step();
  }
  std::printf("done: %.3f\n", sum);
}
