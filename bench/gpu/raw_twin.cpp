// SPDX-License-Identifier: Apache-2.0
// The raw twin as an injection library, for programs that know nothing of it: CUDA_INJECTION64_PATH names it, the
// driver loads it. CUTRACE_KINDS and CUTRACE_GRAPHS mean what they mean to cutrace. RAW_CUPTI_WINDOW=ON/EVERY, in
// milliseconds, records in windows as CUTRACE_SAMPLE does; EVERY 0: one window, at the begin. At exit it says on stderr
// what it saw.
#include <chrono>
#include <exception>
#include <thread>

#include "raw_cupti.hpp"

namespace {

/// Of a client that records already.
void record_in_windows(bench::raw_cupti& raw) {
  unsigned on_ms = 0, every_ms = 0;
  const char* const wanted = std::getenv("RAW_CUPTI_WINDOW");
  if (wanted == nullptr || std::sscanf(wanted, "%u/%u", &on_ms, &every_ms) != 2) return;
  std::thread([&raw, on_ms, every_ms] {
    for (;; raw.record(true)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(on_ms));
      raw.record(false);
      if (every_ms <= on_ms) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(every_ms - on_ms));
    }
  }).detach();
}

void say_records() {
  const bench::raw_cupti::counts c = bench::raw_cupti::finish();
  std::fprintf(stderr, "records %llu 0 %llu\n", static_cast<unsigned long long>(c.records),
               static_cast<unsigned long long>(c.dropped));
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjection(void) {
  try {
    static bench::raw_cupti* const raw = new bench::raw_cupti();  // CUPTI may call it until the process is gone
    // start loads libcupti: say_records is registered after its exit handlers, and so runs before them.
    if (!raw->start(bench::raw_cupti::form::twin)) return 1;
    std::atexit(&say_records);
    record_in_windows(*raw);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "raw CUPTI: %s\n", e.what());
  }
  return 1;
}
