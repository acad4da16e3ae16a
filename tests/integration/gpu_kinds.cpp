// SPDX-License-Identifier: Apache-2.0
// Kinds of records that are off unless asked for, joined to their call and stage. Runs on the stand-in driver in each
// test run and on a real one in tests/gpu/run; prints a line a scenario and ends with the number of those that failed.
#include <cuda.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cutrace/cutrace.hpp>
#include <cutrace/names.hpp>
#include <cutrace/sinks/memory.hpp>
#include <cutrace/window.hpp>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "../support/gpu_program.hpp"
#include "../support/runtime_calls.hpp"

namespace {

using test_support::report;

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
  report(ok, "CUDA events are joined to their call, stage and request", all);
}

/// The details that one session switches on in CUPTI are off in the next one.
void latency_of_one_session(const test_support::gpu_device& gpu) {
  std::string all;
  bool ok = true;
  for (const char* kinds : {"+latency", "", "+latency", ""}) {
    cutrace::session trace(with_kinds(kinds));
    cutrace::memory_sink& sink = trace.emplace_sink<cutrace::memory_sink>();
    CUstream stream{};
    DO(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    for (int i = 0; i < 10; ++i) gpu.launch(stream, 1);
    DO(cuStreamSynchronize, stream);
    DO(cuStreamDestroy, stream);
    trace.stop();
    int kernels = 0, queued = 0;
    for (const cutrace::event& e : sink.events())
      if (e.kind == cutrace::event_kind::kernel) {
        ++kernels;
        queued += e.kernel.queued_ns != 0 && e.kernel.submitted_ns != 0 ? 1 : 0;
      }
    ok = ok && kernels == 10 && queued == (*kinds != 0 ? 10 : 0);
    all += std::to_string(queued) + " of " + std::to_string(kernels) + " ";
  }
  report(ok, "kernels have the times of queueing where they were asked for", all);
}

/// One wait in each stage but the last. Where the record of the wait names a stream, the stage has a kernel on it; in
/// "stream waits" that is the stream which waits.
void wait_in_all_ways(const test_support::gpu_device& gpu) {
  const auto launch_ptsz = test_support::resolve<decltype(&cuLaunchKernel)>(false, "cuLaunchKernel_ptsz");
  const auto wait_ptsz = test_support::resolve<decltype(&cuStreamSynchronize)>(false, "cuStreamSynchronize_ptsz");
  CUstream first{}, second{};
  CUevent event{};
  DO(cuStreamCreate, &first, CU_STREAM_NON_BLOCKING);
  DO(cuStreamCreate, &second, CU_STREAM_NON_BLOCKING);
  DO(cuEventCreate, &event, CU_EVENT_DISABLE_TIMING);
  {
    CUTRACE_STAGE("legacy default stream");
    gpu.launch(nullptr, 1);
    DO(cuStreamSynchronize, nullptr);
  }
  {
    CUTRACE_STAGE("default stream by its handle");
    gpu.launch(CU_STREAM_LEGACY, 1);
    DO(cuStreamSynchronize, CU_STREAM_LEGACY);
  }
  {
    CUTRACE_STAGE("default stream of the thread");
    test_support::must(static_cast<int>(launch_ptsz(gpu.kernel, 1, 1, 1, 32, 1, 1, 0, nullptr, nullptr, nullptr)),
                       "cuLaunchKernel_ptsz");
    test_support::must(static_cast<int>(wait_ptsz(nullptr)), "cuStreamSynchronize_ptsz");
  }
  std::thread([&gpu] {
    gpu.use();
    CUTRACE_STAGE("default stream of another thread");
    gpu.launch(CU_STREAM_PER_THREAD, 1);
    DO(cuStreamSynchronize, CU_STREAM_PER_THREAD);
  }).join();
  {
    CUTRACE_STAGE("own stream", 7);
    gpu.launch(second, 1);
    DO(cuStreamSynchronize, second);
    DO(cuStreamQuery, second);  // no wait
  }
  {
    CUTRACE_STAGE("event");
    gpu.launch(first, 1);
    DO(cuEventRecord, event, first);
    DO(cuEventSynchronize, event);
    DO(cuEventQuery, event);  // no wait
  }
  {
    CUTRACE_STAGE("stream waits");
    DO(cuStreamWaitEvent, second, event, 0);
    gpu.launch(second, 1);
  }
  {
    CUTRACE_STAGE("context");
    test_support::must(static_cast<int>(CU(cuCtxSynchronize)()), "cuCtxSynchronize");
  }
  DO(cuStreamDestroy, second);
  DO(cuStreamDestroy, first);
  DO(cuStreamCreate, &first, CU_STREAM_NON_BLOCKING);  // which may get a handle that was used before
  {
    CUTRACE_STAGE("stream made after others were destroyed");
    gpu.launch(first, 1);
    DO(cuStreamSynchronize, first);
  }
  {
    CUTRACE_STAGE("a call that fails");
    CU(cuStreamWaitEvent)(first, nullptr, 0);
  }
  DO(cuEventDestroy, event);
  DO(cuStreamDestroy, first);
}

/// As "context: Context Sync, context synchronize, of no stream by cuCtxSynchronize for 0", in the order of begin.
std::vector<std::string> waits_of(const char* kinds, const test_support::gpu_device& gpu, bool& consistent) {
  const bool recorded = std::strcmp(kinds, "+sync") == 0;
  cutrace::session trace(with_kinds(kinds));
  cutrace::memory_sink& sink = trace.emplace_sink<cutrace::memory_sink>();
  wait_in_all_ways(gpu);
  trace.stop();
  const cutrace::stats s = trace.stats();
  consistent = s.produced == s.delivered && s.lost_total() == 0;
  const std::vector<cutrace::event> events = sink.events();
  std::vector<std::string> found;
  for (const cutrace::event& e : events) {
    if (e.kind != cutrace::event_kind::sync) continue;
    if (recorded && e.call_name.size == 0) continue;  // CUPTI records queries that succeed, too
    const cutrace::event *kernel = nullptr, *call = nullptr;
    for (const cutrace::event& other : events) {
      if (other.kind == cutrace::event_kind::kernel && other.stage_id == e.stage_id) kernel = &other;
      if (other.kind == cutrace::event_kind::api && other.correlation_id == e.correlation_id) call = &other;
    }
    const bool has_stream =
        e.sync.what == cutrace::sync_kind::stream || e.sync.what == cutrace::sync_kind::stream_wait_event;
    const char* where = has_stream ? (kernel != nullptr && e.stream == kernel->stream ? "its kernel's" : "ANOTHER")
                                   : (e.stream == 0 ? "no" : "A");
    found.push_back(text_of(e.stage_name) + ": " + cutrace::to_string(e.sync.what) + ", " + text_of(e.name) + ", of " +
                    where + " stream by " + text_of(e.call_name) + " for " +
                    std::to_string(e.request_count != 0 ? e.requests[0].id : 0));
    consistent = consistent && e.joined == cutrace::attribution::by_call && call != nullptr &&
                 e.thread_id == call->thread_id && e.stage_id == call->stage_id && near(e.start_ns, call->start_ns) &&
                 near(e.end_ns, call->end_ns) &&
                 (kernel == nullptr || (e.context == kernel->context && e.device == kernel->device));
  }
  return found;
}

void waits(const test_support::gpu_device& gpu) {
  bool of_calls = false, of_records = false;
  const std::vector<std::string> made = waits_of("kernel,overhead", gpu, of_calls);
  std::vector<std::string> recorded = waits_of("+sync", gpu, of_records);
  // CUPTI 13.0 names the legacy default stream in the record of a wait for the thread's by cuStreamSynchronize_ptsz(0).
  if (!test_support::is_standin())
    for (std::string& w : recorded)
      if (const std::size_t at = w.find("ANOTHER");
          at != std::string::npos && w.rfind("default stream of the thread:", 0) == 0)
        w.replace(at, 7, "its kernel's");
  std::string all;
  bool ok = of_calls && of_records && made.size() == 9 && made == recorded;
  for (const std::string& w : made) {
    all += "\n       " + w;
    ok = ok && w.find("ANOTHER") == std::string::npos && w.find(" A stream") == std::string::npos;
  }
  if (made != recorded)
    for (const std::string& w : recorded) all += "\n  not  " + w;
  report(ok, "waits made of the calls are those that CUPTI records", std::to_string(made.size()) + all);
}

/// CUDA 13 can wait for a context that is not the thread's.
void wait_for_another_context(const test_support::gpu_device& gpu) {
  void* const cuda = test_support::cuda_library();
  const auto wait = reinterpret_cast<int (*)(CUcontext)>(dlsym(cuda, "cuCtxSynchronize_v2"));
  const auto create = reinterpret_cast<int (*)(CUcontext*, unsigned, CUdevice)>(dlsym(cuda, "cuCtxCreate_v2"));
  if (wait == nullptr || create == nullptr) {
    std::puts("skipped: this driver has no cuCtxSynchronize_v2");
    return;
  }
  cutrace::session trace(with_kinds("kernel,overhead"));
  cutrace::memory_sink& sink = trace.emplace_sink<cutrace::memory_sink>();
  CUcontext other{};
  test_support::must(create(&other, 0, gpu.device), "cuCtxCreate");
  gpu.use();
  gpu.launch(nullptr, 1);
  for (const CUcontext c : {other, CUcontext{}, gpu.context}) test_support::must(wait(c), "cuCtxSynchronize_v2");
  DO(cuCtxDestroy, other);
  gpu.use();
  trace.stop();
  std::uint32_t own = 0, made = 0;
  std::vector<std::uint32_t> waited;
  for (const cutrace::event& e : sink.events()) {
    if (e.kind == cutrace::event_kind::kernel) own = e.context;
    if (e.kind == cutrace::event_kind::sync) waited.push_back(e.context);
  }
  for (const cutrace::event& e : sink.events())
    if (e.kind == cutrace::event_kind::context && e.context != own) made = e.context;
  report(made != 0 && waited == std::vector<std::uint32_t>{made, own, own},
         "a wait for another context is of that context",
         std::to_string(waited.size()) + " waits, the first in context " +
             std::to_string(waited.empty() ? 0 : waited[0]) + ", made was " + std::to_string(made));
}

/// Names of the driver's calls, each with that of the runtime's: "cuMemAlloc by cudaMalloc".
std::vector<std::string> calls_of(const cutrace::memory_sink& sink) {
  std::vector<std::string> found;
  for (const cutrace::event& e : sink.events()) {
    if (e.kind != cutrace::event_kind::api) continue;
    const std::string by = text_of(e.api.runtime_name);
    found.push_back(text_of(e.name) + (by.empty() ? "" : " by " + by) + (e.api.runtime_api ? " RUNTIME SPAN" : ""));
  }
  return found;
}
void check_calls(const char* scenario, const std::vector<std::string>& found, const std::vector<std::string>& wanted) {
  std::string all;
  for (const std::string& f : found) all += (all.empty() ? "" : ", ") + f;
  report(found == wanted, scenario, all);
}

void allocate_and_free() {
  CUdeviceptr p = 0;
  DO(cuMemAlloc, &p, 4096);
  DO(cuMemFree, p);
}

void runtime_names(const test_support::gpu_device& gpu) {
  cutrace::session trace(with_kinds("+runtime"));
  cutrace::memory_sink& sink = trace.emplace_sink<cutrace::memory_sink>();
  CUdeviceptr p = 0;
  DO(cuMemAlloc, &p, 4096);
  IN_RUNTIME_CALL(cudaMemset_v3020, [&] {
    DO(cuMemsetD8, p, 0, 64);
    // Of nested runtime calls the outer one gives the name: it is the one in the program's source.
    IN_RUNTIME_CALL(cudaMemsetAsync_v3020, [&] { DO(cuMemsetD8, p, 1, 64); });
    DO(cuMemsetD8, p, 2, 64);
  });
  IN_RUNTIME_CALL(cudaDeviceSynchronize_v3020, [] {});  // no call of the driver: nothing to report
  IN_RUNTIME_CALL(cudaFree_v3020, [&] { DO(cuMemFree, p); });
  IN_RUNTIME_CALL(cudaDeviceSynchronize_v3020, [&] {
    std::thread([&] {  // is in no call, though the thread that made it is
      gpu.use();
      DO(cuStreamSynchronize, nullptr);
    })
        .join();
  });
  trace.stop();
  std::vector<std::string> found = calls_of(sink);
  const std::vector<std::string> wanted = {"cuMemAlloc",
                                           "cuMemsetD8 by cudaMemset",
                                           "cuMemsetD8 by cudaMemset",
                                           "cuMemsetD8 by cudaMemset",
                                           "cuMemFree by cudaFree",
                                           "cuStreamSynchronize"};
  check_calls("calls of the driver bear the name of the runtime's", found, wanted);
}

void runtime_names_off() {
  cutrace::session trace(with_kinds("+event"));
  cutrace::memory_sink& sink = trace.emplace_sink<cutrace::memory_sink>();
  IN_RUNTIME_CALL(cudaMalloc_v3020, allocate_and_free);
  trace.stop();
  check_calls("no names of the runtime unless asked for", calls_of(sink), {"cuMemAlloc", "cuMemFree"});
}

/// Neither a call that was entered before the session nor one that is left after it gives its name to a wrong one.
void runtime_names_at_the_edges() {
  std::unique_ptr<cutrace::session> first, second;
  std::vector<std::string> calls;
  IN_RUNTIME_CALL(cudaMalloc_v3020, [&] {
    first.reset(new cutrace::session(with_kinds("+runtime")));
    cutrace::memory_sink& sink = first->emplace_sink<cutrace::memory_sink>();
    allocate_and_free();
    IN_RUNTIME_CALL(cudaFree_v3020, [&] {
      allocate_and_free();
      first->stop();
      calls = calls_of(sink);
    });
  });
  check_calls("a session that begins and ends within runtime calls", calls,
              {"cuMemAlloc", "cuMemFree", "cuMemAlloc by cudaFree", "cuMemFree by cudaFree"});
  second.reset(new cutrace::session(with_kinds("+runtime")));
  cutrace::memory_sink& sink = second->emplace_sink<cutrace::memory_sink>();
  allocate_and_free();
  IN_RUNTIME_CALL(cudaMalloc_v3020, allocate_and_free);
  second->stop();
  check_calls("a later session does not take over what the one before left open", calls_of(sink),
              {"cuMemAlloc", "cuMemFree", "cuMemAlloc by cudaMalloc", "cuMemFree by cudaMalloc"});
}

/// In windows, whose edges lie within runtime calls: CUPTI reports one half of those.
void runtime_names_in_windows() {
  cutrace::session_options o = with_kinds("+runtime");
  o.sample = "requests";
  cutrace::session trace(o);
  cutrace::memory_sink& sink = trace.emplace_sink<cutrace::memory_sink>();
  const auto pass = [] { std::this_thread::sleep_for(std::chrono::milliseconds(25)); };  // until the window is closed
  bool opened = true;
  for (int i = 0; i < 3; ++i) {
    std::unique_ptr<cutrace::window> w(new cutrace::window(trace, true, 10000));
    opened = opened && w->open();
    IN_RUNTIME_CALL(cudaMalloc_v3020, [&] {
      allocate_and_free();
      w.reset();
      pass();
      if (i == 1) w.reset(new cutrace::window(trace, true, 10000));
    });
    if (i != 1) w.reset(new cutrace::window(trace, true, 10000));
    opened = opened && w->open();
    DO(cuStreamSynchronize, nullptr);
    IN_RUNTIME_CALL(cudaDeviceSynchronize_v3020, [] { DO(cuStreamSynchronize, nullptr); });
    w.reset();
    pass();
  }
  trace.stop();
  std::vector<std::string> wanted;
  for (int i = 0; i < 3; ++i)
    wanted.insert(wanted.end(), {"cuMemAlloc by cudaMalloc", "cuMemFree by cudaMalloc", "cuStreamSynchronize",
                                 "cuStreamSynchronize by cudaDeviceSynchronize"});
  const std::vector<std::string> found = calls_of(sink);
  check_calls("windows whose edges lie within runtime calls", opened ? found : std::vector<std::string>{}, wanted);
}

/// With NVIDIA's own runtime library, whose calls are made for nothing but their names.
void real_runtime_names() {
  void* library = test_support::runtime_library();
  if (library == nullptr) {
    std::puts("skipped: there is no libcudart to take runtime calls from");
    return;
  }
  const auto allocate = reinterpret_cast<int (*)(void**, std::size_t)>(dlsym(library, "cudaMalloc"));
  const auto set = reinterpret_cast<int (*)(void*, int, std::size_t)>(dlsym(library, "cudaMemset"));
  const auto release = reinterpret_cast<int (*)(void*)>(dlsym(library, "cudaFree"));
  void* p = nullptr;
  test_support::must(release(nullptr), "cudaFree(0)");  // initialises the library
  cutrace::session trace(with_kinds("+runtime"));
  cutrace::memory_sink& sink = trace.emplace_sink<cutrace::memory_sink>();
  allocate_and_free();
  test_support::must(allocate(&p, 4096), "cudaMalloc");
  test_support::must(set(p, 0, 4096), "cudaMemset");
  test_support::must(release(p), "cudaFree");
  allocate_and_free();
  trace.stop();
  std::string all;
  std::size_t allocated = 0, set_by = 0, freed = 0, direct = 0, spans = 0;
  for (const std::string& c : calls_of(sink)) {
    all += (all.empty() ? "" : ", ") + c;
    const auto ends = [&c](const char* with) {
      return c.size() > std::strlen(with) && c.rfind(with) == c.size() - std::strlen(with);
    };
    allocated += ends(" by cudaMalloc") ? 1 : 0;
    set_by += ends(" by cudaMemset") ? 1 : 0;
    freed += ends(" by cudaFree") ? 1 : 0;
    direct += c == "cuMemAlloc" || c == "cuMemFree" ? 1 : 0;
    spans += ends("SPAN") ? 1 : 0;
  }
  report(allocated != 0 && set_by != 0 && freed != 0 && direct == 4 && spans == 0,
         "calls of the driver bear the name of the runtime's", all);
}

}  // namespace

int main() {
  const test_support::gpu_device gpu;
  cuda_events(gpu);
  latency_of_one_session(gpu);
  waits(gpu);
  wait_for_another_context(gpu);
  if (!test_support::is_standin()) {
    real_runtime_names();
    return test_support::failures;
  }
  runtime_names(gpu);
  runtime_names_off();
  runtime_names_at_the_edges();
  runtime_names_in_windows();
  return test_support::failures;
}
