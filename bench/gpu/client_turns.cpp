// SPDX-License-Identifier: Apache-2.0
// For decode.py: the raw twin and cutrace by turns as CUPTI's client of the script's process. Processes differ by more
// than the two clients do.
#include <cstdio>
#include <cutrace/cutrace.hpp>
#include <exception>
#include <memory>

#include "raw_cupti.hpp"

namespace {

std::unique_ptr<bench::raw_cupti> raw;
std::unique_ptr<cutrace::session> trace;
unsigned long long twin_seen = 0, cutrace_seen = 0, lost = 0;

}  // namespace

extern "C" {

/// Begins a turn of cutrace with the null sink, or of the twin. 0 when it traces.
__attribute__((visibility("default"))) int client_turns_begin(int ours) {
  try {
    if (ours == 0) {
      raw = std::make_unique<bench::raw_cupti>();
      return raw->start(bench::raw_cupti::form::twin) ? 0 : 1;
    }
    cutrace::session_options o;
    o.sinks = "null";
    trace = std::make_unique<cutrace::session>(o);
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "client_turns: %s\n", e.what());
    return 1;
  }
}

/// Ends the turn. 0 when the next client can come.
__attribute__((visibility("default"))) int client_turns_end() {
  if (trace != nullptr) {
    trace->stop();
    cutrace_seen += trace->stats().by_kind[static_cast<std::size_t>(cutrace::event_kind::kernel)];
    lost += trace->stats().lost_total();
    trace.reset();
    return 0;
  }
  const bench::raw_cupti::counts c = bench::raw_cupti::finish();
  twin_seen = c.records;
  lost += c.dropped;
  return raw->leave() ? 0 : 1;
}

/// Both have had as many turns of the same work: as many kernels.
__attribute__((visibility("default"))) void client_turns_print() {
  std::printf("records %llu %llu %llu\n", cutrace_seen, twin_seen, lost);
  std::fflush(stdout);
}
}
