// SPDX-License-Identifier: Apache-2.0
// Kinds of records that are off unless asked for, joined to their call and stage. Runs on the stand-in driver in each
// test run and on a real one in tests/gpu/run; prints a line a scenario and ends with the number of those that failed.
#include <cuda.h>

#include <cstdlib>
#include <cutrace/cutrace.hpp>
#include <cutrace/sinks/memory.hpp>
#include <string>
#include <vector>

#include "../support/gpu_program.hpp"

namespace {

using test_support::tell;

cutrace::session_options with_kinds(const char* kinds) {
  setenv("CUTRACE_KINDS", kinds, 1);
  cutrace::session_options o;
  o.sinks = "null";
  o.backend = "cupti";
  return o;
}

std::string text_of(cutrace::text t) { return std::string(t.data, t.size); }

struct recorded_event {
  std::string call, stage;
  std::uint64_t request;
  cutrace::attribution joined;
  bool consistent;
};

constexpr std::int64_t clock_ns = 1000000;  ///< by which two readings of the clocks may differ
bool near(std::int64_t a, std::int64_t b) { return a - b <= clock_ns && b - a <= clock_ns; }

/// CUDA events, in the order of their calls.
std::vector<recorded_event> events_of(const cutrace::memory_sink& sink) {
  std::vector<recorded_event> found;
  for (const cutrace::event& call : sink.events()) {
    if (call.kind != cutrace::event_kind::api || text_of(call.name).rfind("cuEventRecord", 0) != 0) continue;
    for (const cutrace::event& e : sink.events())
      if (e.is_cuda_event() && e.correlation_id == call.correlation_id)
        found.push_back({text_of(e.call_name), text_of(e.stage_name), e.request_count != 0 ? e.requests[0].id : 0,
                         e.joined,
                         e.thread_id == call.thread_id && e.stage_id == call.stage_id &&
                             near(e.call_start_ns, call.start_ns) && e.start_ns >= call.start_ns - clock_ns});
  }
  return found;
}

void cuda_events(const test_support::gpu_device& gpu) {
  cutrace::session trace(with_kinds("+event"));
  cutrace::memory_sink& sink = trace.emplace_sink<cutrace::memory_sink>();
  CUstream stream{};
  CUevent event{};
  DO(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
  DO(cuEventCreate, &event, CU_EVENT_DEFAULT);
  {
    CUTRACE_STAGE("decode", 17);
    gpu.launch(stream, 1);
    DO(cuEventRecord, event, stream);
    CUTRACE_STAGE("sample");
    DO(cuEventRecordWithFlags, event, stream, CU_EVENT_RECORD_DEFAULT);
  }
  DO(cuEventRecord, event, stream);
  trace.pause();
  DO(cuEventRecord, event, stream);  // no part of the trace
  DO(cuStreamSynchronize, stream);
  trace.resume();
  DO(cuEventDestroy, event);
  DO(cuStreamDestroy, stream);
  trace.stop();
  const cutrace::stats s = trace.stats();
  std::size_t marks = 0;
  for (const cutrace::event& e : sink.events()) marks += e.is_cuda_event() ? 1 : 0;
  const std::vector<recorded_event> found = events_of(sink);
  std::string all = std::to_string(marks) + " marks";
  bool ok = marks == 3 && found.size() == 3 && s.produced == s.delivered && s.lost_total() == 0;
  for (const recorded_event& e : found) {
    all += ", " + e.call + " in '" + e.stage + "' for " + std::to_string(e.request) + (e.consistent ? "" : " WRONG");
    ok = ok && e.consistent;
  }
  using cutrace::attribution;
  ok = ok && found[0].stage == "decode" && found[0].request == 17 && found[0].joined == attribution::by_call &&
       found[0].call == "cuEventRecord" && found[1].stage == "sample" && found[1].request == 17 &&
       found[1].call == "cuEventRecordWithFlags" && found[2].stage.empty() && found[2].request == 0 &&
       found[2].joined == attribution::outside_stage;
  tell(ok, "CUDA events are joined to their call, stage and request", all);
}

}  // namespace

int main() {
  const test_support::gpu_device gpu;
  cuda_events(gpu);
  return test_support::failures;
}
