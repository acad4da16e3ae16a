// SPDX-License-Identifier: Apache-2.0
// The raw twin as an injection library, for programs that know nothing of it: CUDA_INJECTION64_PATH names it, the
// driver loads it. CUTRACE_KINDS and CUTRACE_GRAPHS mean what they mean to cutrace. At exit it says on stderr what it
// saw.
#include <exception>

#include "raw_cupti.hpp"

namespace {

void say_records() {
  const bench::raw_cupti::counts c = bench::raw_cupti::finish();
  std::fprintf(stderr, "records %llu 0 %llu\n", static_cast<unsigned long long>(c.records),
               static_cast<unsigned long long>(c.dropped));
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjection(void) {
  try {
    static bench::raw_cupti* const raw = new bench::raw_cupti();  // CUPTI may call it until the process is gone
    // Behind the handlers of libcupti, so that it runs before them.
    if (raw->start(bench::raw_cupti::form::twin)) std::atexit(&say_records);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "raw CUPTI: %s\n", e.what());
  }
  return 1;
}
