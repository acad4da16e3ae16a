// SPDX-License-Identifier: Apache-2.0
// A program that marks its stages, with a session of its own and a runtime that was compiled into it.
#include <cutrace/cutrace.hpp>

#include "../../../support/gpu_program.hpp"

int main() {
  cutrace::session trace;
  const test_support::gpu_device gpu;
  for (int i = 0; i < 3; ++i) {
    CUTRACE_STAGE("work");
    gpu.launch(nullptr, 1);
    DO(cuStreamSynchronize, nullptr);
  }
  return 0;
}
