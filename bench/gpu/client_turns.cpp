// SPDX-License-Identifier: Apache-2.0
// For decode.py: clients of CUPTI that take turns in the script's one process, since processes differ by more than
// clients do: the twin (raw CUPTI with records of kernels, copies and sets and an empty callback) and cutrace with its
// default kinds, or cutrace without and with the watchdog, or cutrace with several flush periods.
#include <cstdio>
#include <cstdlib>
#include <cutrace/cutrace.hpp>
#include <exception>
#include <memory>

#include "counted.hpp"

namespace {

std::unique_ptr<bench::raw_cupti> raw;
std::unique_ptr<cutrace::session> trace;
bench::counted twin, ours;

}  // namespace

extern "C" {

/// Begins a turn of the twin (0), of cutrace with the null sink (1), of that with the watchdog on (2), or of a twin
/// that stores spans (3). Returns 0 when it traces.
__attribute__((visibility("default"))) int client_turns_begin(int who) {
  try {
    const bool is_raw = who == 0 || who == 3;
    setenv("CUTRACE_KINDS", is_raw ? "kernel,memcpy,memset" : "", 1);
    if (is_raw) {
      raw = std::make_unique<bench::raw_cupti>();
      return raw->start(who == 0 ? bench::raw_cupti::form::twin : bench::raw_cupti::form::spans) ? 0 : 1;
    }
    cutrace::session_options o;
    o.sinks = "null";
    if (who == 2) o.watchdog = "10s";
    trace = std::make_unique<cutrace::session>(o);
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "client_turns: %s\n", e.what());
    return 1;
  }
}

/// Begins a turn of cutrace that asks for records each `period_ms`. 0 when it traces.
__attribute__((visibility("default"))) int client_turns_begin_flushing(unsigned period_ms) {
  try {
    cutrace::session_options o;
    o.sinks = "null";
    o.window_ms = 5000;  // room for the longest period
    o.flush_period_ms = period_ms;
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
    ours.add(trace->stats());
    trace.reset();
    return 0;
  }
  twin.add(bench::raw_cupti::finish());
  return raw->leave() ? 0 : 1;
}

/// Both have had as many turns of the same work: as many kernels.
__attribute__((visibility("default"))) void client_turns_print() {
  if (twin.seen != 0) ours.expected = twin.seen;  // else cutrace was compared with itself
  ours.lost += twin.lost;
  ours.print();
  std::fflush(stdout);
}
}
