// SPDX-License-Identifier: Apache-2.0
// A program that marks stages with requests and has a session of its own, over launches that are measured by events.
#include <cutrace/cutrace.hpp>

#include "../../../support/gpu_program.hpp"
#include "events_made.hpp"

int main() {
  events_made::watch();
  cutrace::session trace;
  const test_support::gpu_device gpu;
  events_made::await();
  for (std::uint64_t i = 0; i < 3; ++i) {
    CUTRACE_STAGE("work", i + 1);
    gpu.launch(nullptr, 10);
    DO(cuStreamSynchronize, nullptr);
  }
  return 0;
}
