// SPDX-License-Identifier: Apache-2.0
// What the stand-in libraries do when a kernel faults or never ends and when streams wait for values in memory, seen
// through NVIDIA's own interfaces: results of driver calls, and the records that CUPTI's flushes bring (docs/cupti.md,
// rows 15, 51 and 52, were measured on a GPU).
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <cuda.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <optional>
#include <thread>
#include <utility>

#include "../support/cupti_recorder.hpp"
#include "../support/standin_calls.hpp"

// Exported by the stand-in libcuda alone.
extern "C" int cutrace_sim_set_faults(const char* text);
extern "C" void cutrace_sim_set_kernel_duration(const char* name, unsigned long long ns);

namespace {

using test_support::cupti_recorder;
using kernel_record = CUpti_ActivityKernel10;
using namespace std::chrono_literals;

struct program {
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  CUfunction good = nullptr, bad = nullptr;
  CUstream stream = nullptr, other = nullptr;

  /// Makes a fresh context with `faults`; the subscription to CUPTI is that of the first one.
  explicit program(const char* faults) {
    static CUpti_SubscriberHandle subscriber = nullptr;
    if (subscriber == nullptr) {
      REQUIRE(CUPTI(cuptiSubscribe)(&subscriber, &cupti_recorder::on_callback, nullptr) == CUPTI_SUCCESS);
      REQUIRE(CUPTI(cuptiActivityRegisterCallbacks)(&cupti_recorder::on_request, &cupti_recorder::on_complete) ==
              CUPTI_SUCCESS);
      REQUIRE(CUPTI(cuptiActivityEnable)(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) == CUPTI_SUCCESS);
      REQUIRE(CU(cuInit)(0) == CUDA_SUCCESS);
    }
    CU(cuDevicePrimaryCtxReset)(0);
    REQUIRE(CU(cuDevicePrimaryCtxRetain)(&context, 0) == CUDA_SUCCESS);
    REQUIRE(CU(cuCtxSetCurrent)(context) == CUDA_SUCCESS);
    REQUIRE(CU(cuModuleLoadData)(&module, "any image") == CUDA_SUCCESS);
    REQUIRE(CU(cuModuleGetFunction)(&good, module, "good") == CUDA_SUCCESS);
    REQUIRE(CU(cuModuleGetFunction)(&bad, module, "bad") == CUDA_SUCCESS);
    REQUIRE(CU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    REQUIRE(CU(cuStreamCreate)(&other, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    CUPTI(cuptiActivityFlushAll)(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    cupti_recorder::get().clear();
    REQUIRE(CU(cutrace_sim_set_faults)(faults) == 0);
    CU(cutrace_sim_set_kernel_duration)("good", 200000);
  }
  CUresult launch(CUfunction f, CUstream s) const {
    return CU(cuLaunchKernel)(f, 1, 1, 1, 32, 1, 1, 0, s, nullptr, nullptr);
  }
};

void flush(bool forced) { CUPTI(cuptiActivityFlushAll)(forced ? CUPTI_ACTIVITY_FLAG_FLUSH_FORCED : 0); }

struct counts {
  std::size_t timed = 0, untimed = 0;
  std::string first;  ///< name of the first kernel without times
};
counts kernels() {
  counts n;
  std::uint32_t least = ~0u;
  for (const auto& k : cupti_recorder::get().of<kernel_record>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)) {
    if (k.start != 0 && k.end > k.start) {
      ++n.timed;
    } else {
      CHECK(k.start == 0);
      CHECK(k.end == 0);
      ++n.untimed;
      if (k.correlationId < least) {
        least = k.correlationId;
        n.first = k.name;
      }
    }
  }
  return n;
}

double milliseconds(const std::function<void()>& f) {
  const auto begin = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

TEST_CASE("a fault is reported after a while, and then by all that touches the context") {
  program p("fault:bad=700,fault_report=500ms");
  REQUIRE(p.launch(p.good, p.stream) == CUDA_SUCCESS);
  CUresult result = CUDA_SUCCESS;
  CHECK(milliseconds([&] {
          REQUIRE(p.launch(p.bad, p.stream) == CUDA_SUCCESS);
          CHECK(CU(cuStreamQuery)(p.stream) == CUDA_ERROR_NOT_READY);
          CHECK(p.launch(p.good, p.other) == CUDA_SUCCESS);  // nobody knows yet
          result = CU(cuStreamSynchronize)(p.stream);
        }) > 499);
  CHECK(result == CUDA_ERROR_ILLEGAL_ADDRESS);
  CUdeviceptr memory = 0;
  CUevent event = nullptr;
  CHECK(p.launch(p.good, p.other) == CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK(CU(cuStreamQuery)(p.other) == CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK(CU(cuStreamSynchronize)(p.other) == CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK(CU(cuCtxSynchronize)() == CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK(CU(cuMemAlloc)(&memory, 64) == CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK(CU(cuEventCreate)(&event, 0) == CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK(CU(cuMemsetD32)(64, 0, 1) == CUDA_ERROR_ILLEGAL_ADDRESS);
  CUcontext still = nullptr;
  int version = 0;
  CHECK(CU(cuCtxGetCurrent)(&still) == CUDA_SUCCESS);
  CHECK(CU(cuDriverGetVersion)(&version) == CUDA_SUCCESS);
}

TEST_CASE("a thread that waits on another stream gets the fault, too") {
  program p("fault:bad=719@2,fault_report=30ms");
  CU(cutrace_sim_set_kernel_duration)("good", 10000000000ull);
  REQUIRE(p.launch(p.bad, p.stream) == CUDA_SUCCESS);
  REQUIRE(CU(cuStreamSynchronize)(p.stream) == CUDA_SUCCESS);  // its first execution is a good one
  REQUIRE(p.launch(p.good, p.other) == CUDA_SUCCESS);
  auto waits = std::async(std::launch::async, [&] {
    CU(cuCtxSetCurrent)(p.context);
    return CU(cuStreamSynchronize)(p.other);
  });
  std::this_thread::sleep_for(20ms);
  REQUIRE(p.launch(p.bad, p.stream) == CUDA_SUCCESS);
  REQUIRE(waits.wait_for(5s) == std::future_status::ready);
  CHECK(waits.get() == CUDA_ERROR_LAUNCH_FAILED);
}

TEST_CASE("after a fault: a plain flush in time has saved the times of what had ended") {
  for (const bool soon : {true, false}) {
    CAPTURE(soon);
    program p("fault:bad=716,fault_report=60ms");  // after 13 ms the times are lost
    void* pinned = nullptr;
    REQUIRE(CU(cuMemHostAlloc)(&pinned, 64, 0) == CUDA_SUCCESS);
    std::atomic<std::uint32_t>& may_fault = *static_cast<std::atomic<std::uint32_t>*>(pinned);
    may_fault = 0;
    for (int i = 0; i < 20; ++i) REQUIRE(p.launch(p.good, p.stream) == CUDA_SUCCESS);
    REQUIRE(CU(cuStreamSynchronize)(p.stream) == CUDA_SUCCESS);
    REQUIRE(CU(cuStreamWaitValue32)(p.stream, reinterpret_cast<CUdeviceptr>(pinned), 1, CU_STREAM_WAIT_VALUE_EQ) ==
            CUDA_SUCCESS);
    REQUIRE(p.launch(p.bad, p.stream) == CUDA_SUCCESS);
    for (int i = 0; i < 5; ++i) REQUIRE(p.launch(p.good, p.stream) == CUDA_SUCCESS);
    if (soon) flush(false);
    may_fault = 1;
    REQUIRE(CU(cuStreamSynchronize)(p.stream) == CUDA_ERROR_MISALIGNED_ADDRESS);
    flush(false);
    CHECK(kernels().timed + kernels().untimed == 0);  // the culprit's record holds the buffer back
    flush(true);
    const counts n = kernels();
    CHECK(n.timed == (soon ? 20 : 0));
    CHECK(n.untimed == (soon ? 6 : 26));
    CHECK(n.first == (soon ? "bad" : "good"));
    flush(true);
    CHECK(kernels().untimed == n.untimed);  // once only
  }
}

namespace {

/// The kernels that are there after the fault of a node; nothing where this thread, which flushes all the time, stood
/// still for longer than the records keep their times.
std::optional<counts> kernels_of_faulted_graph() {
  program p("fault:bad=700@4,fault_report=50ms");
  CUgraph graph = nullptr;
  CUgraphNode before = nullptr, node = nullptr;
  CUgraphExec exec = nullptr;
  REQUIRE(CU(cuGraphCreate)(&graph, 0) == CUDA_SUCCESS);
  for (int i = 0; i < 10; ++i) {
    CUDA_KERNEL_NODE_PARAMS k{};
    k.func = i == 6 ? p.bad : p.good;
    k.gridDimX = k.gridDimY = k.gridDimZ = k.blockDimX = k.blockDimY = k.blockDimZ = 1;
    REQUIRE(CU(cuGraphAddKernelNode)(&node, graph, &before, i != 0, &k) == CUDA_SUCCESS);
    before = node;
  }
  REQUIRE(CU(cuGraphInstantiateWithFlags)(&exec, graph, 0) == CUDA_SUCCESS);
  using clock = std::chrono::steady_clock;
  clock::time_point last = clock::now();
  clock::duration longest{};
  for (int i = 0; i < 5; ++i) REQUIRE(CU(cuGraphLaunch)(exec, p.stream) == CUDA_SUCCESS);
  CUresult result = CUDA_SUCCESS;
  auto waits = std::async(std::launch::async, [&] {
    CU(cuCtxSetCurrent)(p.context);
    result = CU(cuStreamSynchronize)(p.stream);
  });
  for (bool ended = false; !ended;) {
    ended = waits.wait_for(2ms) == std::future_status::ready;
    if (!ended) flush(false);
    const clock::time_point now = clock::now();
    longest = std::max(longest, now - std::exchange(last, now));
  }
  CHECK(result == CUDA_ERROR_ILLEGAL_ADDRESS);
  flush(true);
  if (longest > 40ms) return std::nullopt;
  return kernels();
}

}  // namespace

TEST_CASE("the very node of a graph that faults is the first without times") {
  std::optional<counts> n;
  for (int round = 0; round < 100 && !n; ++round) n = kernels_of_faulted_graph();
  if (!n) {
    MESSAGE("skipped: this machine is too busy, or too slow");
    return;
  }
  CHECK(n->timed == 3 * 10 + 6);
  CHECK(n->untimed == 4 + 10);
  CHECK(n->first == "bad");
}

TEST_CASE("a kernel that never ends: a plain flush waits for it, a forced one does not") {
  program p("hang:bad");
  for (int i = 0; i < 5; ++i) REQUIRE(p.launch(p.good, p.stream) == CUDA_SUCCESS);
  REQUIRE(p.launch(p.bad, p.stream) == CUDA_SUCCESS);
  REQUIRE(p.launch(p.good, p.stream) == CUDA_SUCCESS);
  CHECK(p.launch(p.good, p.other) == CUDA_SUCCESS);
  CHECK(CU(cuStreamSynchronize)(p.other) == CUDA_SUCCESS);
  std::this_thread::sleep_for(20ms);
  CHECK(CU(cuStreamQuery)(p.stream) == CUDA_ERROR_NOT_READY);
  flush(false);
  CHECK(kernels().timed == 0);
  flush(true);  // returns, although the kernel never ends
  const counts n = kernels();
  CHECK(n.timed == 6);
  CHECK(n.untimed == 2);
  CHECK(n.first == "bad");
  static auto* const waits = new std::future<CUresult>(std::async(std::launch::async, [&] {
    CU(cuCtxSetCurrent)(p.context);
    return CU(cuStreamSynchronize)(p.stream);
  }));  // never waited for: it never returns
  CHECK(waits->wait_for(200ms) == std::future_status::timeout);
}

TEST_CASE("values in memory: waits, writes by a stream and by the host, and several in one call") {
  program p("");
  CUdeviceptr device = 0;
  void* pinned = nullptr;
  REQUIRE(CU(cuMemAlloc)(&device, 64) == CUDA_SUCCESS);
  REQUIRE(CU(cuMemHostAlloc)(&pinned, 64, 0) == CUDA_SUCCESS);
  REQUIRE(CU(cuMemsetD32)(device, 0, 16) == CUDA_SUCCESS);
  auto* host = static_cast<std::atomic<std::uint32_t>*>(pinned);
  for (int i = 0; i < 16; ++i) host[i] = 0;
  const auto at = reinterpret_cast<CUdeviceptr>(pinned);

  REQUIRE(CU(cuStreamWaitValue32)(p.stream, device, 5, CU_STREAM_WAIT_VALUE_EQ) == CUDA_SUCCESS);
  REQUIRE(p.launch(p.good, p.stream) == CUDA_SUCCESS);
  std::this_thread::sleep_for(10ms);
  CHECK(CU(cuStreamQuery)(p.stream) == CUDA_ERROR_NOT_READY);
  REQUIRE(p.launch(p.good, p.other) == CUDA_SUCCESS);
  REQUIRE(CU(cuStreamWriteValue32)(p.other, device, 5, 0) == CUDA_SUCCESS);
  CHECK(CU(cuStreamSynchronize)(p.stream) == CUDA_SUCCESS);

  REQUIRE(CU(cuStreamWaitValue64)(p.stream, at, 1, CU_STREAM_WAIT_VALUE_GEQ) == CUDA_SUCCESS);
  REQUIRE(p.launch(p.good, p.stream) == CUDA_SUCCESS);
  REQUIRE(CU(cuStreamWriteValue64)(p.stream, at + 16, 77, 0) == CUDA_SUCCESS);
  std::this_thread::sleep_for(5ms);
  flush(false);
  CHECK(kernels().timed == 0);  // the record of the one that waits holds the others back
  CHECK(host[4] == 0);
  host[0] = 1;
  CHECK(CU(cuStreamSynchronize)(p.stream) == CUDA_SUCCESS);
  CHECK(host[4] == 77);
  flush(false);
  CHECK(kernels().timed == 3);

  CUstreamBatchMemOpParams batch[3] = {};
  batch[0].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  batch[0].writeValue.address = at + 32;
  batch[0].writeValue.value = 9;
  batch[1].memoryBarrier.operation = CU_STREAM_MEM_OP_BARRIER;
  batch[2].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  batch[2].waitValue.address = at + 32;
  batch[2].waitValue.value = 9;
  REQUIRE(CU(cuStreamBatchMemOp)(p.stream, 3, batch, 0) == CUDA_SUCCESS);
  CHECK(CU(cuStreamSynchronize)(p.stream) == CUDA_SUCCESS);
  CHECK(host[8] == 9);
  CHECK(CU(cuStreamWaitValue32)(p.stream, at + 2, 1, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuStreamWriteValue32)(p.stream, at, 1, CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER) == CUDA_ERROR_INVALID_VALUE);
}
