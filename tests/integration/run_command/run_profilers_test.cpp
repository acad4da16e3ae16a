// SPDX-License-Identifier: Apache-2.0
// Programs that profile themselves by CUPTI: whether the program or cutrace gets no records, and that one line says so.
#include <doctest/doctest.h>

#include <string>

#include "run_support.hpp"

namespace run_profilers_test {

using run_support::jsonl_trace;
using run_support::run;

namespace {

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++n;
  return n;
}
constexpr const char* way_out = "`cutrace run --method preload --gpu-events` leaves CUPTI to the program";

}  // namespace

TEST_CASE("a profiler of the program that is refused: the trace is whole, one line says what was lost and what helps") {
  for (const char* program : {PROFILER_LINKED, PROFILER_BY_DLSYM})
    for (const char* how : {"subscribes", "subscribes_too"}) {
      INFO(program << " " << how);
      const run r({"--sink", "jsonl"}, {program, how});
      CHECK(r.ended.output == "refused (39)\n");  // as with any other tool that has CUPTI
      CHECK(r.ended.exit_status == 3);
      CHECK(count_of(r.ended.errors, "uses CUPTI itself") == 1);
      CHECK(count_of(r.ended.errors, way_out) == 1);
      const jsonl_trace t(r.files(".jsonl").at(0));
      CHECK(t.complete());
      CHECK(t.of("kernel").size() == 7);
    }
}

TEST_CASE("a program that registers buffers of its own gets the records, and a line says that the trace does not") {
  for (const char* program : {PROFILER_LINKED, PROFILER_BY_DLSYM})
    for (const char* how : {"registers", "registers_twice", "enables_first"}) {
      INFO(program << " " << how);
      const run plain(run::line{{program, how}});
      const run r({"--sink", "jsonl"}, {program, how});
      CHECK(plain.ended.output == "25 kernels, 0 with wrong times, 0 other records, 0 buffers are out\n");
      CHECK(r.ended.output == plain.ended.output);
      const run detailed({"--sink", "null"}, {program, how}, {{"CUTRACE_KINDS", "+latency,+unified"}});
      CHECK(detailed.ended.output == plain.ended.output);  // what the trace asked CUPTI for ends with its records
      CHECK(r.ended.exit_status == 0);
      CHECK(count_of(r.ended.errors, "takes CUPTI's records for itself") == 1);
      CHECK(count_of(r.ended.errors, way_out) == 1);
      const jsonl_trace t(r.files(".jsonl").at(0));
      CHECK(t.complete());
      CHECK(t.of("kernel").size() == 7);  // those before
    }
}

TEST_CASE("left to the program, CUPTI gives it the profile that it has untraced; the trace has calls and GPU times") {
  for (const char* program : {PROFILER_LINKED, PROFILER_BY_DLSYM})
    for (const char* how : {"subscribes", "subscribes_too", "registers"}) {
      INFO(program << " " << how);
      const run plain(run::line{{program, how}});
      const run r({"--sink", "jsonl", "--method", "preload", "--gpu-events"}, {program, how});
      CHECK(r.ended.output == plain.ended.output);
      CHECK(plain.ended.output == "25 kernels, 0 with wrong times, 0 other records, 0 buffers are out\n");
      CHECK(count_of(r.ended.errors, "CUPTI") == 0);
      const jsonl_trace t(r.files(".jsonl").at(0));
      CHECK(t.complete());
      CHECK(t.of("kernel").size() >= 25);  // those after the pause of 200 ms
    }
}

TEST_CASE("a program that asks whether there is a CUPTI hears what it hears untraced") {
  const run plain(run::line{{LEAVER, "looks_for_cupti"}});
  const run r({"--sink", "jsonl", "--quiet", "--method", "preload"}, {LEAVER, "looks_for_cupti"});
  CHECK(r.ended.exit_status == 24);
  CHECK(r.ended.output == plain.ended.output);
}

TEST_CASE("a library that stands before CUPTI itself and goes on to the real one") {
  const run plain(run::line{{PROFILER_BY_STUB, "subscribes"}});
  CHECK(plain.ended.output == "25 kernels, 0 with wrong times, 0 other records, 0 buffers are out\n");
  const run r({"--sink", "jsonl"}, {PROFILER_BY_STUB, "subscribes"});
  CHECK(r.ended.output == "refused (39)\n");
  CHECK(count_of(r.ended.errors, "uses CUPTI itself") == 1);
}

TEST_CASE("threads launch while the program takes the records: none of cutrace's buffers comes to it") {
  // Also where the machine stops a thread before it asks for a buffer, or before it uses what it got.
  for (const std::string faults : {"", "slow_buffers=20ms", "slow_buffers=100ms", "slow_buffers=100ms,version=24"}) {
    INFO(faults);
    const run r({"--sink", "jsonl"}, {PROFILER_BY_DLSYM, "beside_threads"}, {{"CUTRACE_SIM_FAULTS", faults}});
    CHECK(r.ended.exit_status == 0);
    CHECK(r.ended.signal == 0);
  }
}

TEST_CASE("a program that leaves CUPTI alone hears nothing of it") {
  for (const char* program : {PROFILER_LINKED, PROFILER_BY_DLSYM})
    CHECK(count_of(run({"--sink", "jsonl"}, {program, "quiet"}).ended.errors, "CUPTI") == 0);
}

}  // namespace run_profilers_test
