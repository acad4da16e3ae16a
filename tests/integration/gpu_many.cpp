// SPDX-License-Identifier: Apache-2.0
// More than one of something: devices and copies between them, default streams of threads, clients of CUPTI. Runs on
// the stand-in driver in each test run, and as it is on a real one; prints a line a scenario and ends with the number
// of those that failed, or with 77 where the machine lacks what a scenario needs.
//
//   gpu_many devices|faulted|library|older|streams|clients|fork
#include <cuda.h>
#include <cupti.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <cutrace/cutrace.hpp>
#include <cutrace/sinks/memory.hpp>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "../support/forked_leaks.hpp"
#include "../support/gpu_program.hpp"

namespace {

using test_support::failures;
using test_support::report;

struct device_work : test_support::gpu_device {
  CUstream stream{};
  CUdeviceptr memory = 0;

  explicit device_work(int ordinal, std::size_t bytes = 65536) : gpu_device(ordinal) {
    DO(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    DO(cuMemAlloc, &memory, bytes);
  }
  void launch(int n) const {
    use();
    gpu_device::launch(stream, n);
  }
  void wait() const {
    use();
    DO(cuStreamSynchronize, stream);
  }
};

cutrace::session_options plain() {
  cutrace::session_options o;
  o.sinks = "null";
  o.backend = "cupti";
  return o;
}

std::string of(cutrace::text t) { return std::string(t.data, t.size); }

/// All events of a kind, in their order.
std::vector<cutrace::event> only(const cutrace::memory_sink& sink, cutrace::event_kind kind) {
  std::vector<cutrace::event> some;
  for (const cutrace::event& e : sink.events())
    if (e.kind == kind) some.push_back(e);
  return some;
}

bool whole(const cutrace::session& trace) {
  const cutrace::stats s = trace.stats();
  return s.produced == s.delivered && s.lost_total() == 0;
}

/// Two devices at work at once, and copies between them: with and without waiting, there and back.
int devices() {
  cutrace::session trace(plain());
  cutrace::memory_sink& sink = trace.emplace_sink<cutrace::memory_sink>();
  DO(cuInit, 0);
  int count = 0;
  DO(cuDeviceGetCount, &count);
  if (count < 2) {
    std::puts("skipped: one device only");
    return 77;
  }
  const device_work first(0), second(1);
  {
    CUTRACE_STAGE("both");
    first.launch(10);
    second.launch(20);
    first.wait();
    second.wait();
  }
  {
    CUTRACE_STAGE("by way of the host");  // neither device reaches the other's memory yet
    first.use();
    DO(cuMemcpyPeer, second.memory, second.context, first.memory, first.context, 2048);
    DO(cuCtxSynchronize, );
    second.use();
    DO(cuCtxSynchronize, );
  }
  DO(cuCtxEnablePeerAccess, first.context, 0);
  first.use();
  DO(cuCtxEnablePeerAccess, second.context, 0);
  {
    CUTRACE_STAGE("exchange", 7);
    DO(cuMemcpyPeer, second.memory, second.context, first.memory, first.context, 4096);
    DO(cuMemcpyPeerAsync, first.memory, first.context, second.memory, second.context, 8192, first.stream);
    first.wait();
  }
  first.use();
  DO(cuCtxSynchronize, );
  trace.stop();

  int kernels[2] = {}, staged = 0;
  std::set<std::uint64_t> streams;
  std::set<std::uint32_t> contexts;
  for (const cutrace::event& k : only(sink, cutrace::event_kind::kernel)) {
    if (k.device < 2) ++kernels[k.device];
    staged += of(k.stage_name) == "both" ? 1 : 0;
    streams.insert(k.stream);
    contexts.insert(k.context);
  }
  report(kernels[0] == 10 && kernels[1] == 20 && staged == 30 && contexts.size() == 2 && whole(trace),
         "10 kernels on the first, 20 on the second device",
         std::to_string(kernels[0]) + " and " + std::to_string(kernels[1]) + ", " + std::to_string(staged) +
             " with their stage, in " + std::to_string(contexts.size()) + " contexts");

  std::string found, halves;
  int there = 0, back = 0, direct = 0, out_of = 0, into = 0;
  for (const cutrace::event& c : only(sink, cutrace::event_kind::memcpy)) {
    const cutrace::memcpy_data& m = c.memcpy_;
    if (of(c.stage_name) == "by way of the host") {
      out_of += c.device == 0 && m.bytes == 2048 && of(c.call_name) == "cuMemcpyPeer";
      into += c.device == 1 && m.bytes == 2048 && of(c.call_name) == "cuMemcpyPeer";
      halves += " " + of(c.name) + " on " + std::to_string(c.device) + " of " + std::to_string(m.bytes) + " stream " +
                std::to_string(c.stream) + " (" + std::to_string(static_cast<int>(m.source)) + " to " +
                std::to_string(static_cast<int>(m.destination)) + ", at " + std::to_string(c.start_ns) + " for " +
                std::to_string(c.end_ns - c.start_ns) + ")";
      continue;
    }
    ++direct;
    const bool good = m.direction == cutrace::copy_direction::peer && of(c.stage_name) == "exchange" &&
                      c.request_count == 1 && c.requests[0].id == 7;
    there += good && m.bytes == 4096 && m.source_device == 0 && m.destination_device == 1 &&
             of(c.call_name) == "cuMemcpyPeer";
    back += good && m.bytes == 8192 && m.source_device == 1 && m.destination_device == 0 && m.asynchronous &&
            of(c.call_name) == "cuMemcpyPeerAsync";
    found += " " + of(c.call_name) + " " + std::to_string(m.source_device) + "->" +
             std::to_string(m.destination_device) + " of " + std::to_string(m.bytes);
  }
  report(out_of == 1 && into == 1, "a copy between devices without access to each other is a half on each", halves);
  report(there == 1 && back == 1 && direct == 2, "a peer copy there and one back",
         std::to_string(direct) + ":" + found);

  std::set<std::uint32_t> described, described_contexts;
  for (const cutrace::event& d : only(sink, cutrace::event_kind::device)) described.insert(d.device);
  for (const cutrace::event& d : only(sink, cutrace::event_kind::context)) described_contexts.insert(d.context);
  const bool all = described.count(0) == 1 && described.count(1) == 1;
  bool each = true;
  for (const std::uint32_t c : contexts) each = each && described_contexts.count(c) == 1;
  report(all && each, "both devices and both contexts are described",
         std::to_string(described.size()) + " devices, " + std::to_string(described_contexts.size()) + " contexts");
  return failures;
}

/// The second device faults while the first one is at work that was launched before. The thread that waits for the
/// second one's stream has a context of either.
int faulted() {
  const auto set_faults =
      reinterpret_cast<int (*)(const char*)>(dlsym(test_support::cuda_library(), "cutrace_sim_set_faults"));
  if (set_faults == nullptr) {
    std::puts("skipped: the stand-in alone faults as it is asked to");
    return 77;
  }
  for (const bool waits_elsewhere : {false, true}) {
    cutrace::session trace(plain());
    cutrace::memory_sink& sink = trace.emplace_sink<cutrace::memory_sink>();
    const device_work first(0), second(1);
    first.use();
    first.spin(first.stream, 3000000000);
    set_faults("fault:empty=700,fault_report=20ms");
    second.launch(1);
    if (waits_elsewhere) first.use();
    const CUresult result = CU(cuStreamSynchronize)(second.stream);
    trace.flush();
    const std::vector<cutrace::event> alarms = only(sink, cutrace::event_kind::alarm);
    bool both = false, likeliest = false;
    for (const cutrace::event& e : alarms) {
      both = both || e.device == 0;
      likeliest = likeliest || (e.alarm.rank == 1 && e.device == 1 && of(e.name) == "empty");
    }
    report(result == CUDA_ERROR_ILLEGAL_ADDRESS && both && likeliest,
           "the device that faulted comes before the other one, whose work was launched before",
           std::to_string(alarms.size()) + " candidates");
    set_faults("");
    for (int i = 0; i < 2; ++i) DO(cuDevicePrimaryCtxReset, i);
  }
  return failures;
}

/// Each device, context and stream that GPU work names is described once, with the right device and before that work.
/// What was wrong, or empty.
std::string undescribed(const cutrace::memory_sink& sink) {
  using place = std::tuple<std::uint32_t, std::uint32_t, std::uint64_t>;
  std::map<place, int> before, after;
  std::set<place> used;
  const auto count = [](std::map<place, int>& in, const cutrace::event& e) {
    if (e.kind == cutrace::event_kind::device) ++in[{e.device, 0, 0}];
    if (e.kind == cutrace::event_kind::context) ++in[{e.device, e.context, 0}];
    if (e.kind == cutrace::event_kind::stream) ++in[{e.device, e.context, e.stream}];
  };
  std::string wrong;
  for (const cutrace::event& e : sink.events()) count(after, e);
  for (const cutrace::event& e : sink.events()) {
    count(before, e);
    if (!e.is_gpu_work()) continue;
    for (const place& p : {place{e.device, 0, 0}, place{e.device, e.context, 0}, place{e.device, e.context, e.stream}})
      if (used.insert(p).second && (before[p] != 1 || after[p] != 1))
        wrong += " " + std::to_string(std::get<0>(p)) + "/" + std::to_string(std::get<1>(p)) + "/" +
                 std::to_string(std::get<2>(p)) + " " + std::to_string(before[p]) + " and " + std::to_string(after[p]);
  }
  for (const auto& d : after)
    if (d.second > 1) wrong += " " + std::to_string(d.second) + " descriptions of one";
  return wrong;
}

/// Descriptions that say no more than the work itself.
std::size_t derived(const cutrace::memory_sink& sink, cutrace::event_kind kind) {
  std::size_t n = 0;
  for (const cutrace::event& e : only(sink, kind))
    n += (kind == cutrace::event_kind::stream ? e.stream_.derived : e.context_.derived) ? 1 : 0;
  return n;
}

/// Contexts of both devices, made by a library's thread before the session (`older`) or during it. The program uses
/// them on threads of its own, whose records come first: a stream it makes and the default streams.
int library(bool older) {
  std::unique_ptr<cutrace::session> trace;
  const auto begin = [&] { trace.reset(new cutrace::session(plain())); };
  if (!older) begin();
  DO(cuInit, 0);
  int count = 0;
  DO(cuDeviceGetCount, &count);
  if (count < 2) {
    std::puts("skipped: one device only");
    return 77;
  }
  std::thread([] {
    for (int i = 0; i < 2; ++i) {
      CUdevice device = 0;
      CUcontext context{};
      DO(cuDeviceGet, &device, i);
      DO(cuDevicePrimaryCtxRetain, &context, device);
    }
  }).join();
  if (older) begin();
  cutrace::memory_sink& sink = trace->emplace_sink<cutrace::memory_sink>();
  const device_work first(0), second(1);
  for (const device_work* gpu : {&second, &first, &second}) {
    gpu->launch(5);
    DO(cuLaunchKernel, gpu->kernel, 1, 1, 1, 32, 1, 1, 0, nullptr, nullptr, nullptr);
    DO(cuLaunchKernel, gpu->kernel, 1, 1, 1, 32, 1, 1, 0, CU_STREAM_PER_THREAD, nullptr, nullptr);
    DO(cuCtxSynchronize, );
    std::this_thread::sleep_for(std::chrono::milliseconds(400));  // the records of one turn come before the next
  }
  trace->stop();
  const std::string wrong = undescribed(sink);
  const std::size_t kernels = only(sink, cutrace::event_kind::kernel).size();
  const std::size_t streams = only(sink, cutrace::event_kind::stream).size();
  report(kernels == 21 && streams >= 6 && wrong.empty() && whole(*trace),
         older ? "contexts older than the session: all streams are described"
               : "contexts that a library made: all streams are described",
         std::to_string(kernels) + " kernels, " + std::to_string(streams) + " streams" + wrong);
  const std::size_t streams_derived = derived(sink, cutrace::event_kind::stream);
  const std::size_t contexts_derived = derived(sink, cutrace::event_kind::context);
  report(streams_derived + 2 <= streams && contexts_derived == (older ? 2 : 0),
         "what CUPTI says of a place is not replaced by what its work says",
         std::to_string(streams_derived) + " streams and " + std::to_string(contexts_derived) + " contexts derived");
  return failures;
}

/// Each thread's default stream is its own: by handle and by the functions that nvcc's --default-stream per-thread
/// chooses.
int streams() {
  cutrace::session trace(plain());
  cutrace::memory_sink& sink = trace.emplace_sink<cutrace::memory_sink>();
  DO(cuInit, 0);
  const device_work gpu(0);
  const auto launch_ptsz = test_support::resolve<decltype(&cuLaunchKernel)>(false, "cuLaunchKernel_ptsz");
  const auto wait_ptsz = test_support::resolve<decltype(&cuStreamSynchronize)>(false, "cuStreamSynchronize_ptsz");
  constexpr int per_thread = 12;
  const char* const names[] = {"thread A", "thread B", "thread C"};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      gpu.use();
      CUTRACE_STAGE_DYNAMIC(names[t]);
      for (int i = 0; i < per_thread; ++i) {
        if (i % 2 == 0)
          DO(cuLaunchKernel, gpu.kernel, 1, 1, 1, 32, 1, 1, 0, CU_STREAM_PER_THREAD, nullptr, nullptr);
        else
          test_support::must(static_cast<int>(launch_ptsz(gpu.kernel, 1, 1, 1, 32, 1, 1, 0, nullptr, nullptr, nullptr)),
                             "cuLaunchKernel_ptsz");
      }
      test_support::must(static_cast<int>(wait_ptsz(nullptr)), "cuStreamSynchronize_ptsz");
    });
  for (std::thread& t : threads) t.join();
  {
    CUTRACE_STAGE("legacy");
    gpu.use();
    DO(cuLaunchKernel, gpu.kernel, 1, 1, 1, 32, 1, 1, 0, nullptr, nullptr, nullptr);
    DO(cuStreamSynchronize, nullptr);
  }
  trace.stop();
  std::set<std::uint64_t> all;
  bool one_each = true, named = true;
  for (const char* stage : {"thread A", "thread B", "thread C", "legacy"}) {
    std::set<std::uint64_t> own;
    std::set<std::uint32_t> by;
    int kernels = 0;
    for (const cutrace::event& k : only(sink, cutrace::event_kind::kernel)) {
      if (of(k.stage_name) != stage) continue;
      ++kernels;
      own.insert(k.stream);
      by.insert(k.thread_id);
      named = named && of(k.call_name) == "cuLaunchKernel";
    }
    one_each = one_each && own.size() == 1 && by.size() == 1 &&
               kernels == (std::strcmp(stage, "legacy") != 0 ? per_thread : 1);
    all.insert(own.begin(), own.end());
  }
  report(one_each && named && all.size() == 4 && whole(trace), "three threads and the legacy stream, each on its own",
         std::to_string(all.size()) + " streams");
  return failures;
}

void nothing(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {}

/// Takes CUPTI as another tool of the process would; the answer, and whom it names.
CUptiResult subscribe(CUpti_SubscriberHandle& handle, std::string& holder) {
  char name[128] = {};
  CUpti_SubscriberParams params{};
  params.structSize = CUpti_SubscriberParams_STRUCT_SIZE;
  params.subscriberName = "the other tool";
  params.oldSubscriberName = name;
  params.oldSubscriberSize = sizeof(name);
  const CUptiResult r = CUPTI(cuptiSubscribe_v2)(&handle, &nothing, nullptr, &params);
  holder = name;
  return r;
}

/// A tool that comes second is refused, learns by whom, and costs us no record; after the session it may have CUPTI.
int clients() {
  CUpti_SubscriberHandle other = nullptr;
  std::string holder;
  {
    cutrace::session trace(plain());
    cutrace::memory_sink& sink = trace.emplace_sink<cutrace::memory_sink>();
    DO(cuInit, 0);
    const device_work gpu(0);
    CUTRACE_STAGE("ours");
    gpu.launch(10);
    const CUptiResult r = subscribe(other, holder);
    gpu.launch(10);
    gpu.wait();
    trace.stop();
    const std::size_t kernels = only(sink, cutrace::event_kind::kernel).size();
    report(r == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED && holder.find("cutrace") != std::string::npos &&
               kernels == 20 && whole(trace),
           "a second client is refused",
           "code " + std::to_string(static_cast<int>(r)) + ", holder \"" + holder + "\", " + std::to_string(kernels) +
               " kernels");
  }
  const CUptiResult r = subscribe(other, holder);
  report(r == CUPTI_SUCCESS, "after the session it is not", "code " + std::to_string(static_cast<int>(r)));
  return failures;
}

/// CUDA cannot be used in a child; a child that exits must not wait for CUPTI, nor touch the parent's trace.
int forked() {
  cutrace::session trace(plain());
  cutrace::memory_sink& sink = trace.emplace_sink<cutrace::memory_sink>();
  DO(cuInit, 0);
  const device_work gpu(0);
  CUTRACE_STAGE("parent");
  gpu.launch(10);
  gpu.wait();
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    CUTRACE_STAGE("child");
    trace.stop();
    std::exit(9);  // with its exit handlers
  }
  int status = 0, waited = 0;
  while (waitpid(child, &status, WNOHANG) == 0 && ++waited < 20000)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  if (waited == 20000) kill(child, SIGKILL);
  const bool ended = waited < 20000 && WIFEXITED(status) && WEXITSTATUS(status) == 9;
  gpu.launch(10);
  gpu.wait();
  trace.stop();
  const std::size_t kernels = only(sink, cutrace::event_kind::kernel).size();
  report(ended && kernels == 20 && whole(trace),
         "a child forked while the GPU is traced ends, the parent's trace goes on",
         std::string(ended ? "child ended" : "child did NOT end") + ", " + std::to_string(kernels) + " kernels");
  return failures;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "devices") return devices();
  if (what == "faulted") return faulted();
  if (what == "library" || what == "older") return library(what == "older");
  if (what == "streams") return streams();
  if (what == "clients") return clients();
  if (what == "fork") return forked();
  std::puts("gpu_many devices|faulted|library|older|streams|clients|fork");
  return 2;
}
