// SPDX-License-Identifier: Apache-2.0
// Checks the two stand-in libraries through NVIDIA's own interfaces: a driver-API program with a plain CUPTI client,
// on libcuda.so.1 and libcupti.so.<major> of the stand-in (LD_LIBRARY_PATH). Callbacks, correlation ids, parameter
// structs, records, graphs, and each fault. Faults that are read at load time are checked in child processes.
#define DOCTEST_CONFIG_IMPLEMENT
#include <cuda.h>
#include <dlfcn.h>
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <set>
#include <thread>

#include "../support/cupti_recorder.hpp"
#include "../support/standin_calls.hpp"

// Exported by the stand-in libcuda alone.
extern "C" int cutrace_sim_set_faults(const char* text);
extern "C" void cutrace_sim_set_kernel_duration(const char* name, unsigned long long ns);

namespace {

using test_support::cupti_recorder;
using test_support::seen_call;
using kernel_record = CUpti_ActivityKernel10;
using memcpy_record = CUpti_ActivityMemcpy6;

std::uint64_t monotonic_clock() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1000000000u + static_cast<std::uint64_t>(t.tv_nsec);
}

/// Everything that is set up once, before the first CUDA call, as a tracer does.
struct program {
  CUpti_SubscriberHandle subscriber = nullptr;
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  CUfunction gemm = nullptr, softmax = nullptr;

  static program& get() {
    static program p;
    return p;
  }
  program() {
    auto& r = cupti_recorder::get();
    r.param_bytes["cuLaunchKernel"] = sizeof(cuLaunchKernel_params);
    r.param_bytes["cuMemcpyHtoD_v2"] = sizeof(cuMemcpyHtoD_v2_params);
    CUpti_SubscriberParams params{};
    params.structSize = CUpti_SubscriberParams_STRUCT_SIZE;
    params.subscriberName = "standin_selfcheck";
    REQUIRE(CUPTI(cuptiSubscribe_v2)(&subscriber, &cupti_recorder::on_callback, nullptr, &params) == CUPTI_SUCCESS);
    REQUIRE(CUPTI(cuptiActivityRegisterTimestampCallback)(&monotonic_clock) == CUPTI_SUCCESS);
    REQUIRE(CUPTI(cuptiActivityRegisterCallbacks)(&cupti_recorder::on_request, &cupti_recorder::on_complete) ==
            CUPTI_SUCCESS);
    REQUIRE(CUPTI(cuptiEnableDomain)(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API) == CUPTI_SUCCESS);
    REQUIRE(CUPTI(cuptiEnableDomain)(1, subscriber, CUPTI_CB_DOMAIN_RESOURCE) == CUPTI_SUCCESS);
    for (const CUpti_ActivityKind kind : kinds) REQUIRE(CUPTI(cuptiActivityEnable)(kind) == CUPTI_SUCCESS);
    REQUIRE(CU(cuInit)(0) == CUDA_SUCCESS);
    CUdevice device = -1;
    REQUIRE(CU(cuDeviceGet)(&device, 0) == CUDA_SUCCESS);
    REQUIRE(CU(cuDevicePrimaryCtxRetain)(&context, device) == CUDA_SUCCESS);
    REQUIRE(CU(cuCtxSetCurrent)(context) == CUDA_SUCCESS);
    REQUIRE(CU(cuModuleLoadData)(&module, "any image") == CUDA_SUCCESS);
    REQUIRE(CU(cuModuleGetFunction)(&gemm, module, "_Z4gemmPfi") == CUDA_SUCCESS);
    REQUIRE(CU(cuModuleGetFunction)(&softmax, module, "softmax") == CUDA_SUCCESS);
  }
  static constexpr CUpti_ActivityKind kinds[] = {
      CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,          CUPTI_ACTIVITY_KIND_MEMSET,
      CUPTI_ACTIVITY_KIND_MEMCPY2,           CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, CUPTI_ACTIVITY_KIND_DEVICE,
      CUPTI_ACTIVITY_KIND_CONTEXT,           CUPTI_ACTIVITY_KIND_STREAM,          CUPTI_ACTIVITY_KIND_MEMORY2,
      CUPTI_ACTIVITY_KIND_CUDA_EVENT};
};

void flush() { REQUIRE(CUPTI(cuptiActivityFlushAll)(0) == CUPTI_SUCCESS); }

/// Starts a test with nothing recorded and no fault.
program& start() {
  program& p = program::get();
  REQUIRE(CU(cutrace_sim_set_faults)("") == 0);
  CU(cuCtxSetCurrent)(p.context);
  CU(cuCtxSynchronize)();
  CUPTI(cuptiActivityFlushAll)(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  std::size_t dropped = 0;
  CUPTI(cuptiActivityGetNumDroppedRecords)(nullptr, 0, &dropped);
  cupti_recorder::get().clear();
  return p;
}

CUresult launch(CUfunction f, CUstream s, unsigned grid = 100) {
  return CU(cuLaunchKernel)(f, grid, 2, 1, 128, 1, 1, 64, s, nullptr, nullptr);
}

std::vector<kernel_record> kernels() {
  return cupti_recorder::get().of<kernel_record>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
}

}  // namespace

TEST_CASE("start-up: device, context and module are reported") {
  program& p = program::get();
  flush();
  auto& r = cupti_recorder::get();
  const auto devices = r.of<CUpti_ActivityDevice5>(CUPTI_ACTIVITY_KIND_DEVICE);
  REQUIRE(devices.size() == 1);
  CHECK(std::string(devices[0].name) == "cutrace simulated GPU");
  CHECK(devices[0].numMultiprocessors == 132u);
  const auto contexts = r.of<CUpti_ActivityContext3>(CUPTI_ACTIVITY_KIND_CONTEXT);
  REQUIRE(contexts.size() == 1);
  CHECK(contexts[0].nullStreamId == 7);
  std::uint32_t id = 0;
  CHECK(CUPTI(cuptiGetContextId)(p.context, &id) == CUPTI_SUCCESS);
  CHECK(contexts[0].contextId == id);
  const auto count = [&](CUpti_CallbackId cbid) {
    return std::count_if(r.resources.begin(), r.resources.end(), [&](const auto& s) { return s.cbid == cbid; });
  };
  CHECK(count(CUPTI_CBID_RESOURCE_CONTEXT_CREATED) == 1);
  CHECK(count(CUPTI_CBID_RESOURCE_MODULE_LOADED) == 1);
  CHECK(r.calls_named("cuInit").size() == 2);
}

TEST_CASE("callbacks carry genuine parameters, ids and results") {
  program& p = start();
  CUstream s = nullptr;
  REQUIRE(CU(cuStreamCreate)(&s, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  REQUIRE(CU(cuLaunchKernel)(p.gemm, 3, 4, 5, 6, 7, 8, 9, s, nullptr, nullptr) == CUDA_SUCCESS);
  CHECK(CU(cuLaunchKernel)(p.gemm, 1, 1, 1, 2048, 1, 1, 0, s, nullptr, nullptr) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(CU(cuStreamSynchronize)(s) == CUDA_SUCCESS);
  const auto calls = cupti_recorder::get().calls_named("cuLaunchKernel");
  REQUIRE(calls.size() == 4);
  CHECK(calls[0].site == CUPTI_API_ENTER);
  CHECK(calls[1].site == CUPTI_API_EXIT);
  CHECK(calls[0].cbid == CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel);
  CHECK(calls[0].symbol == "_Z4gemmPfi");
  CHECK(calls[0].correlation == calls[1].correlation);
  CHECK(calls[2].correlation > calls[1].correlation);
  CHECK(calls[1].slot == 0x5000000000000000u + calls[0].correlation);
  CHECK(calls[1].result == CUDA_SUCCESS);
  CHECK(calls[3].result == CUDA_ERROR_INVALID_VALUE);
  cuLaunchKernel_params params{};
  std::memcpy(&params, calls[0].words.data(), sizeof params / 8 * 8);
  CHECK(params.f == p.gemm);
  CHECK(params.gridDimZ == 5u);
  CHECK(params.blockDimX == 6u);
  CHECK(params.sharedMemBytes == 9u);
  CHECK(params.hStream == s);
  flush();
  const auto all = kernels();
  REQUIRE(all.size() == 1);  // the failed launch made no work
  CHECK(all[0].correlationId == calls[0].correlation);
  CHECK(std::string(all[0].name) == "_Z4gemmPfi");
  CHECK(all[0].gridY == 4);
  CHECK(all[0].blockZ == 8);
  CHECK(all[0].dynamicSharedMemory == 9);
  CHECK(all[0].registersPerThread > 0);
  std::uint32_t stream_id = 0;
  CHECK(CUPTI(cuptiGetStreamIdEx)(p.context, s, 0, &stream_id) == CUPTI_SUCCESS);
  CHECK(all[0].streamId == stream_id);
  CHECK(stream_id > 7u);
  CHECK(all[0].start < all[0].end);
  REQUIRE(CU(cuStreamDestroy)(s) == CUDA_SUCCESS);
}

TEST_CASE("copies and sets move bytes and leave records") {
  start();
  CUdeviceptr a = 0, b = 0;
  std::vector<std::uint32_t> in(1000), out(1000, 0);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<std::uint32_t>(i * 7);
  const std::size_t bytes = in.size() * 4;
  REQUIRE(CU(cuMemAlloc)(&a, bytes) == CUDA_SUCCESS);
  REQUIRE(CU(cuMemAlloc)(&b, bytes) == CUDA_SUCCESS);
  REQUIRE(CU(cuMemcpyHtoD)(a, in.data(), bytes) == CUDA_SUCCESS);
  REQUIRE(CU(cuMemcpyDtoDAsync)(b, a, bytes, nullptr) == CUDA_SUCCESS);
  REQUIRE(CU(cuMemsetD32)(b + 40, 0xabcdef01u, 3) == CUDA_SUCCESS);
  REQUIRE(CU(cuMemcpyDtoH)(out.data(), b, bytes) == CUDA_SUCCESS);
  CHECK(out[9] == 63u);
  CHECK(out[10] == 0xabcdef01u);
  CHECK(out[12] == 0xabcdef01u);
  CHECK(out[13] == 91u);
  CHECK(CU(cuMemcpyHtoD)(a + 8, in.data(), bytes) == CUDA_ERROR_INVALID_VALUE);  // ends beyond the allocation
  void* pinned = nullptr;
  REQUIRE(CU(cuMemAllocHost)(&pinned, bytes) == CUDA_SUCCESS);
  REQUIRE(CU(cuMemcpyDtoHAsync)(pinned, b, bytes, nullptr) == CUDA_SUCCESS);
  REQUIRE(CU(cuCtxSynchronize)() == CUDA_SUCCESS);
  CHECK(std::memcmp(pinned, out.data(), bytes) == 0);
  REQUIRE(CU(cuMemFreeHost)(pinned) == CUDA_SUCCESS);
  REQUIRE(CU(cuMemFree)(a) == CUDA_SUCCESS);
  REQUIRE(CU(cuMemFree)(b) == CUDA_SUCCESS);
  CHECK(CU(cuMemFree)(b) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemAlloc)(&a, std::size_t{1} << 50) == CUDA_ERROR_OUT_OF_MEMORY);
  flush();
  auto& r = cupti_recorder::get();
  const auto copies = r.of<memcpy_record>(CUPTI_ACTIVITY_KIND_MEMCPY);
  REQUIRE(copies.size() == 4);
  CHECK(copies[0].copyKind == CUPTI_ACTIVITY_MEMCPY_KIND_HTOD);
  CHECK(copies[0].srcKind == CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE);
  CHECK(copies[0].dstKind == CUPTI_ACTIVITY_MEMORY_KIND_DEVICE);
  CHECK(copies[0].flags == 0);
  CHECK(copies[0].streamId == 7u);
  CHECK(copies[1].copyKind == CUPTI_ACTIVITY_MEMCPY_KIND_DTOD);
  CHECK(copies[1].flags == CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC);
  CHECK(copies[3].dstKind == CUPTI_ACTIVITY_MEMORY_KIND_PINNED);
  for (const auto& c : copies) CHECK(c.bytes == bytes);
  const auto sets = r.of<CUpti_ActivityMemset4>(CUPTI_ACTIVITY_KIND_MEMSET);
  REQUIRE(sets.size() == 1);
  CHECK(sets[0].value == 0xabcdef01u);
  CHECK(sets[0].bytes == 12u);
  CHECK(r.of<CUpti_ActivityMemory4>(CUPTI_ACTIVITY_KIND_MEMORY2).size() == 6);
  CHECK(r.of<CUpti_ActivitySynchronization2>(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION).size() == 1);
  // One stream: each work begins when the one before it has ended.
  for (std::size_t i = 1; i < copies.size(); ++i) CHECK(copies[i].start >= copies[i - 1].end);
}

TEST_CASE("a synchronous copy returns when it is done, an asynchronous one before") {
  program& p = start();
  CUdeviceptr d = 0;
  const char in = 1;
  void* pinned = nullptr;
  REQUIRE(CU(cuMemAlloc)(&d, 64) == CUDA_SUCCESS);
  REQUIRE(CU(cuMemAllocHost)(&pinned, 64) == CUDA_SUCCESS);
  CU(cutrace_sim_set_kernel_duration)("softmax", 100000000);
  REQUIRE(launch(p.softmax, nullptr) == CUDA_SUCCESS);
  CU(cutrace_sim_set_kernel_duration)("softmax", 0);
  REQUIRE(CU(cuMemcpyHtoDAsync)(d, pinned, 64, nullptr) == CUDA_SUCCESS);
  CHECK(CU(cuStreamQuery)(nullptr) == CUDA_ERROR_NOT_READY);
  REQUIRE(CU(cuMemcpyHtoD)(d, &in, 1) == CUDA_SUCCESS);
  CHECK(CU(cuStreamQuery)(nullptr) == CUDA_SUCCESS);
  REQUIRE(CU(cuMemFreeHost)(pinned) == CUDA_SUCCESS);
  REQUIRE(CU(cuMemFree)(d) == CUDA_SUCCESS);
}

TEST_CASE("a late client gets records of the devices, contexts and streams that exist already") {
  program& p = start();
  CUstream s = nullptr;
  REQUIRE(CU(cuStreamCreate)(&s, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  flush();
  cupti_recorder::get().clear();
  for (const CUpti_ActivityKind k :
       {CUPTI_ACTIVITY_KIND_DEVICE, CUPTI_ACTIVITY_KIND_CONTEXT, CUPTI_ACTIVITY_KIND_STREAM})
    REQUIRE(CUPTI(cuptiActivityEnableAndDump)(k) == CUPTI_SUCCESS);
  flush();
  auto& r = cupti_recorder::get();
  CHECK(r.of<CUpti_ActivityDevice5>(CUPTI_ACTIVITY_KIND_DEVICE).size() == 1);
  CHECK(r.of<CUpti_ActivityContext3>(CUPTI_ACTIVITY_KIND_CONTEXT).size() == 1);
  std::uint32_t id = 0;
  REQUIRE(CUPTI(cuptiGetStreamIdEx)(p.context, s, 0, &id) == CUPTI_SUCCESS);
  std::set<std::uint32_t> ids;
  for (const auto& one : r.of<CUpti_ActivityStream>(CUPTI_ACTIVITY_KIND_STREAM)) ids.insert(one.streamId);
  CHECK(ids.count(7) == 1);
  CHECK(ids.count(id) == 1);
  CU(cuStreamDestroy)(s);
}

TEST_CASE("four threads: every call and record once, buffers by thread") {
  program& p = start();
  constexpr int threads = 4, launches = 500;
  std::vector<std::thread> all;
  std::vector<int> failures(threads, 0);
  for (int i = 0; i < threads; ++i)
    all.emplace_back([&, i] {
      auto bad = [&](CUresult r) { failures[static_cast<std::size_t>(i)] += r != CUDA_SUCCESS; };
      bad(CU(cuCtxSetCurrent)(p.context));
      CUstream s = nullptr;
      bad(CU(cuStreamCreate)(&s, CU_STREAM_NON_BLOCKING));
      for (int n = 0; n < launches; ++n) bad(launch(p.softmax, s));
      bad(CU(cuStreamSynchronize)(s));
      bad(CU(cuStreamDestroy)(s));
    });
  for (auto& t : all) t.join();
  for (const int f : failures) CHECK(f == 0);
  flush();
  const auto calls = cupti_recorder::get().calls_named("cuLaunchKernel");
  CHECK(calls.size() == 2u * threads * launches);
  std::map<std::uint32_t, int> enters;
  for (const seen_call& c : calls) enters[c.correlation] += c.site == CUPTI_API_ENTER ? 1 : 100;
  CHECK(enters.size() == static_cast<std::size_t>(threads * launches));
  for (const auto& e : enters) CHECK(e.second == 101);
  // Buffers may be handed over by two threads at once, as CUPTI's are: the other one may still be at it.
  auto records = kernels();
  for (int ms = 0; ms < 10000 && records.size() < static_cast<std::size_t>(threads * launches); ++ms) {
    usleep(1000);
    records = kernels();
  }
  CHECK(records.size() == static_cast<std::size_t>(threads * launches));
  std::sort(records.begin(), records.end(), [](const auto& a, const auto& b) { return a.start < b.start; });
  std::map<std::uint32_t, std::uint64_t> last;
  std::set<std::uint32_t> ids;
  for (const auto& k : records) {
    CHECK(enters.count(k.correlationId) == 1);
    ids.insert(k.correlationId);
    CHECK(k.start >= last[k.streamId]);
    last[k.streamId] = k.end;
  }
  CHECK(ids.size() == records.size());
  CHECK(last.size() == threads);
  CHECK(cupti_recorder::get().bad_walks == 0);
}

TEST_CASE("a default flush keeps back what still runs; a forced one delivers it without an end") {
  program& p = start();
  CU(cutrace_sim_set_kernel_duration)("softmax", 300000000);
  REQUIRE(launch(p.softmax, nullptr) == CUDA_SUCCESS);
  CU(cutrace_sim_set_kernel_duration)("softmax", 0);
  flush();
  CHECK(kernels().empty());
  REQUIRE(CUPTI(cuptiActivityFlushAll)(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED) == CUPTI_SUCCESS);
  auto all = kernels();
  REQUIRE(all.size() == 1);
  CHECK(+all[0].end == 0);
  CHECK(CU(cuStreamQuery)(nullptr) == CUDA_ERROR_NOT_READY);
  REQUIRE(CU(cuCtxSynchronize)() == CUDA_SUCCESS);
  flush();
  CHECK(kernels().size() == 1);  // never delivered again
}

TEST_CASE("events order streams and measure") {
  program& p = start();
  CUstream a = nullptr, b = nullptr;
  CUevent e = nullptr, f = nullptr;
  REQUIRE(CU(cuStreamCreate)(&a, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  REQUIRE(CU(cuStreamCreate)(&b, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  REQUIRE(CU(cuEventCreate)(&e, 0) == CUDA_SUCCESS);
  REQUIRE(CU(cuEventCreate)(&f, 0) == CUDA_SUCCESS);
  CU(cutrace_sim_set_kernel_duration)("softmax", 2000000);
  REQUIRE(CU(cuEventRecord)(e, a) == CUDA_SUCCESS);
  REQUIRE(launch(p.softmax, a) == CUDA_SUCCESS);
  REQUIRE(CU(cuEventRecord)(f, a) == CUDA_SUCCESS);
  REQUIRE(CU(cuStreamWaitEvent)(b, f, 0) == CUDA_SUCCESS);
  REQUIRE(launch(p.gemm, b) == CUDA_SUCCESS);
  REQUIRE(CU(cuEventSynchronize)(f) == CUDA_SUCCESS);
  CU(cutrace_sim_set_kernel_duration)("softmax", 0);
  float ms = 0;
  REQUIRE(CU(cuEventElapsedTime)(&ms, e, f) == CUDA_SUCCESS);
  CHECK(ms >= 2.0f);
  REQUIRE(CU(cuCtxSynchronize)() == CUDA_SUCCESS);
  flush();
  const auto all = kernels();
  REQUIRE(all.size() == 2);
  CHECK(all[1].start >= all[0].end);
  auto& r = cupti_recorder::get();
  CHECK(r.of<CUpti_ActivityCudaEvent2>(CUPTI_ACTIVITY_KIND_CUDA_EVENT).size() == 2);
  std::multiset<int> types;
  for (const auto& s : r.of<CUpti_ActivitySynchronization2>(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION)) types.insert(s.type);
  CHECK(types.count(CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE) == 1);
  CHECK(types.count(CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT) == 1);
  CHECK(types.count(CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE) == 1);
  for (CUevent x : {e, f}) CU(cuEventDestroy)(x);
  for (CUstream x : {a, b}) CU(cuStreamDestroy)(x);
}

TEST_CASE("captured graph: nodes are reported, cloned, and share the launch's correlation id") {
  program& p = start();
  CUstream a = nullptr, b = nullptr;
  CUevent fork = nullptr, join = nullptr;
  REQUIRE(CU(cuStreamCreate)(&a, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  REQUIRE(CU(cuStreamCreate)(&b, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  CU(cuEventCreate)(&fork, CU_EVENT_DISABLE_TIMING);
  CU(cuEventCreate)(&join, CU_EVENT_DISABLE_TIMING);
  REQUIRE(CU(cuStreamBeginCapture)(a, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  CHECK(CU(cuStreamIsCapturing)(a, &status) == CUDA_SUCCESS);
  CHECK(status == CU_STREAM_CAPTURE_STATUS_ACTIVE);
  REQUIRE(launch(p.gemm, a) == CUDA_SUCCESS);
  REQUIRE(CU(cuEventRecord)(fork, a) == CUDA_SUCCESS);
  REQUIRE(CU(cuStreamWaitEvent)(b, fork, 0) == CUDA_SUCCESS);
  REQUIRE(launch(p.softmax, b) == CUDA_SUCCESS);
  REQUIRE(launch(p.softmax, a) == CUDA_SUCCESS);
  REQUIRE(CU(cuEventRecord)(join, b) == CUDA_SUCCESS);
  REQUIRE(CU(cuStreamWaitEvent)(a, join, 0) == CUDA_SUCCESS);
  REQUIRE(launch(p.gemm, a) == CUDA_SUCCESS);
  CUgraph graph = nullptr;
  REQUIRE(CU(cuStreamEndCapture)(a, &graph) == CUDA_SUCCESS);
  flush();
  CHECK(kernels().empty());  // nothing ran yet
  std::size_t nodes = 0, edges = 0;
  REQUIRE(CU(cuGraphGetNodes)(graph, nullptr, &nodes) == CUDA_SUCCESS);
  CHECK(nodes == 4);
  REQUIRE(CU(cuGraphGetEdges)(graph, nullptr, nullptr, nullptr, &edges) == CUDA_SUCCESS);
  CHECK(edges == 4);
  CUgraphExec exec = nullptr;
  REQUIRE(CU(cuGraphInstantiate)(&exec, graph, 0) == CUDA_SUCCESS);
  REQUIRE(CU(cuGraphLaunch)(exec, a) == CUDA_SUCCESS);
  REQUIRE(CU(cuGraphLaunch)(exec, a) == CUDA_SUCCESS);
  REQUIRE(CU(cuStreamSynchronize)(a) == CUDA_SUCCESS);
  flush();
  auto& r = cupti_recorder::get();
  std::uint32_t exec_id = 0, graph_id = 0;
  CHECK(CUPTI(cuptiGetGraphExecId)(exec, &exec_id) == CUPTI_SUCCESS);
  CHECK(CUPTI(cuptiGetGraphId)(graph, &graph_id) == CUPTI_SUCCESS);
  CHECK(exec_id != graph_id);
  const auto calls = r.calls_named("cuGraphLaunch");
  REQUIRE(calls.size() == 4);
  std::map<std::uint64_t, std::uint64_t> origin;
  int created = 0;
  for (const auto& s : r.resources) {
    created += s.cbid == CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED;
    if (s.cbid == CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED) origin[s.node_id] = s.original_node_id;
  }
  CHECK(created == 8);  // four by capture, four of the instance
  CHECK(origin.size() == 4);
  const auto all = kernels();
  REQUIRE(all.size() == 8);
  for (std::size_t i = 0; i < all.size(); ++i) {
    CHECK(all[i].correlationId == calls[i < 4 ? 0 : 2].correlation);
    CHECK(all[i].graphId == exec_id);
    CHECK(origin.count(all[i].graphNodeId) == 1);
    CHECK((origin[all[i].graphNodeId] >> 32) == graph_id);
  }
  CHECK(all[1].start >= all[0].end);
  CHECK(all[3].start >= std::max(all[1].end, all[2].end));
  CHECK(all[4].start >= all[3].end);  // the second replay comes after the first one

  // Graph level: one record for a launch instead of one for each node.
  r.clear();
  REQUIRE(CUPTI(cuptiActivityEnable)(CUPTI_ACTIVITY_KIND_GRAPH_TRACE) == CUPTI_SUCCESS);
  REQUIRE(CU(cuGraphLaunch)(exec, a) == CUDA_SUCCESS);
  REQUIRE(launch(p.gemm, a) == CUDA_SUCCESS);
  REQUIRE(CU(cuStreamSynchronize)(a) == CUDA_SUCCESS);
  REQUIRE(CUPTI(cuptiActivityDisable)(CUPTI_ACTIVITY_KIND_GRAPH_TRACE) == CUPTI_SUCCESS);
  flush();
  const auto graphs = r.of<CUpti_ActivityGraphTrace2>(CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
  REQUIRE(graphs.size() == 1);
  CHECK(graphs[0].graphId == exec_id);
  CHECK(graphs[0].end > graphs[0].start);
  CHECK(kernels().size() == 1);
  REQUIRE(CU(cuGraphExecDestroy)(exec) == CUDA_SUCCESS);
  CHECK(CU(cuGraphLaunch)(exec, a) == CUDA_ERROR_INVALID_HANDLE);
  REQUIRE(CU(cuGraphDestroy)(graph) == CUDA_SUCCESS);
  for (CUevent x : {fork, join}) CU(cuEventDestroy)(x);
  for (CUstream x : {a, b}) CU(cuStreamDestroy)(x);
}

TEST_CASE("hand-built graph: copies and sets run on launch") {
  program& p = start();
  CUdeviceptr d = 0;
  std::vector<std::uint8_t> in(256, 9), out(256, 0);
  REQUIRE(CU(cuMemAlloc)(&d, 256) == CUDA_SUCCESS);
  CUgraph graph = nullptr;
  REQUIRE(CU(cuGraphCreate)(&graph, 0) == CUDA_SUCCESS);
  CUDA_MEMCPY3D up{};
  up.srcMemoryType = CU_MEMORYTYPE_HOST;
  up.srcHost = in.data();
  up.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  up.dstDevice = d;
  up.WidthInBytes = 256;
  up.Height = up.Depth = 1;
  CUDA_MEMSET_NODE_PARAMS zero{};
  zero.dst = d + 128;
  zero.elementSize = 1;
  zero.width = 64;
  zero.height = 1;
  zero.value = 5;
  CUDA_MEMCPY3D down{};
  down.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  down.srcDevice = d;
  down.dstMemoryType = CU_MEMORYTYPE_HOST;
  down.dstHost = out.data();
  down.WidthInBytes = 256;
  down.Height = down.Depth = 1;
  CUDA_KERNEL_NODE_PARAMS kernel{};
  kernel.func = p.gemm;
  kernel.gridDimX = kernel.gridDimY = kernel.gridDimZ = kernel.blockDimX = kernel.blockDimY = kernel.blockDimZ = 1;
  CUgraphNode n1 = nullptr, n2 = nullptr, n3 = nullptr, n4 = nullptr, n5 = nullptr;
  REQUIRE(CU(cuGraphAddMemcpyNode)(&n1, graph, nullptr, 0, &up, p.context) == CUDA_SUCCESS);
  REQUIRE(CU(cuGraphAddMemsetNode)(&n2, graph, &n1, 1, &zero, p.context) == CUDA_SUCCESS);
  REQUIRE(CU(cuGraphAddKernelNode)(&n3, graph, &n2, 1, &kernel) == CUDA_SUCCESS);
  REQUIRE(CU(cuGraphAddEmptyNode)(&n4, graph, &n3, 1) == CUDA_SUCCESS);
  REQUIRE(CU(cuGraphAddMemcpyNode)(&n5, graph, nullptr, 0, &down, p.context) == CUDA_SUCCESS);
  REQUIRE(CU(cuGraphAddDependencies)(graph, &n4, &n5, nullptr, 1) == CUDA_SUCCESS);
  CHECK(CU(cuGraphAddDependencies)(graph, &n5, &n1, nullptr, 1) == CUDA_ERROR_INVALID_VALUE);  // a cycle
  CUgraphExec exec = nullptr;
  REQUIRE(CU(cuGraphInstantiate)(&exec, graph, 0) == CUDA_SUCCESS);
  REQUIRE(CU(cuGraphLaunch)(exec, nullptr) == CUDA_SUCCESS);
  REQUIRE(CU(cuCtxSynchronize)() == CUDA_SUCCESS);
  CHECK(out[0] == 9);
  CHECK(out[128] == 5);
  CHECK(out[192] == 9);
  flush();
  auto& r = cupti_recorder::get();
  CHECK(r.of<memcpy_record>(CUPTI_ACTIVITY_KIND_MEMCPY).size() == 2);
  CHECK(r.of<CUpti_ActivityMemset4>(CUPTI_ACTIVITY_KIND_MEMSET).size() == 1);
  REQUIRE(kernels().size() == 1);
  CHECK(+kernels()[0].start >= +r.of<CUpti_ActivityMemset4>(CUPTI_ACTIVITY_KIND_MEMSET)[0].end);
  CU(cuGraphExecDestroy)(exec);
  CU(cuGraphDestroy)(graph);
  CU(cuMemFree)(d);
}

TEST_CASE("host functions run in stream order and are waited for") {
  program& p = start();
  struct state {
    std::atomic<int> runs{0};
  } s;
  CU(cutrace_sim_set_kernel_duration)("softmax", 3000000);
  REQUIRE(launch(p.softmax, nullptr) == CUDA_SUCCESS);
  CU(cutrace_sim_set_kernel_duration)("softmax", 0);
  REQUIRE(CU(cuLaunchHostFunc)(
              nullptr, [](void* u) { ++static_cast<state*>(u)->runs; }, &s) == CUDA_SUCCESS);
  REQUIRE(CU(cuCtxSynchronize)() == CUDA_SUCCESS);
  CHECK(s.runs == 1);
}

TEST_CASE("host-side records: API calls, external ids, overhead") {
  program& p = start();
  REQUIRE(CUPTI(cuptiActivityEnable)(CUPTI_ACTIVITY_KIND_DRIVER) == CUPTI_SUCCESS);
  REQUIRE(CUPTI(cuptiActivityEnable)(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION) == CUPTI_SUCCESS);
  REQUIRE(CUPTI(cuptiActivityEnable)(CUPTI_ACTIVITY_KIND_OVERHEAD) == CUPTI_SUCCESS);
  REQUIRE(CUPTI(cuptiActivityEnableDriverApi)(CUPTI_DRIVER_TRACE_CBID_cuCtxGetCurrent, 0) == CUPTI_SUCCESS);
  REQUIRE(CUPTI(cuptiActivityPushExternalCorrelationId)(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2, 4711) ==
          CUPTI_SUCCESS);
  REQUIRE(launch(p.gemm, nullptr) == CUDA_SUCCESS);
  std::uint64_t id = 0;
  REQUIRE(CUPTI(cuptiActivityPopExternalCorrelationId)(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2, &id) == CUPTI_SUCCESS);
  CHECK(id == 4711);
  CHECK(CUPTI(cuptiActivityPopExternalCorrelationId)(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2, &id) ==
        CUPTI_ERROR_QUEUE_EMPTY);
  CUcontext c = nullptr;
  CU(cuCtxGetCurrent)(&c);
  REQUIRE(CU(cuCtxSynchronize)() == CUDA_SUCCESS);
  flush();
  flush();
  for (const CUpti_ActivityKind k :
       {CUPTI_ACTIVITY_KIND_DRIVER, CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, CUPTI_ACTIVITY_KIND_OVERHEAD})
    CUPTI(cuptiActivityDisable)(k);
  auto& r = cupti_recorder::get();
  const auto api = r.of<CUpti_ActivityAPI>(CUPTI_ACTIVITY_KIND_DRIVER);
  REQUIRE(api.size() == 2);
  CHECK(api[0].cbid == CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel);
  CHECK(api[0].start <= api[0].end);
  CHECK(api[1].cbid == CUPTI_DRIVER_TRACE_CBID_cuCtxSynchronize);
  const auto external = r.of<CUpti_ActivityExternalCorrelation>(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION);
  REQUIRE(external.size() == 1);
  CHECK(external[0].externalId == 4711);
  CHECK(external[0].correlationId == api[0].correlationId);
  REQUIRE(kernels().size() == 1);
  CHECK(+kernels()[0].correlationId == api[0].correlationId);
  CHECK(+kernels()[0].start > api[0].start);  // one clock for both
  CHECK(r.of<CUpti_ActivityOverhead3>(CUPTI_ACTIVITY_KIND_OVERHEAD).size() == 1);
}

TEST_CASE("full buffers come back by themselves, refused ones are counted") {
  program& p = start();
  auto& r = cupti_recorder::get();
  r.buffer_bytes = 4096;
  for (int i = 0; i < 100; ++i) REQUIRE(launch(p.gemm, nullptr) == CUDA_SUCCESS);
  REQUIRE(CU(cuCtxSynchronize)() == CUDA_SUCCESS);
  for (int i = 0; i < 2000 && kernels().size() < 80; ++i) usleep(1000);
  CHECK(kernels().size() >= 80);
  flush();
  CHECK(kernels().size() == 100);
  r.refuse = true;
  r.clear();
  for (int i = 0; i < 100; ++i) REQUIRE(launch(p.gemm, nullptr) == CUDA_SUCCESS);
  REQUIRE(CU(cuCtxSynchronize)() == CUDA_SUCCESS);
  flush();
  std::size_t dropped = 0;
  REQUIRE(CUPTI(cuptiActivityGetNumDroppedRecords)(nullptr, 0, &dropped) == CUPTI_SUCCESS);
  CHECK(dropped == 101);  // the synchronisation too
  CHECK(kernels().empty());
  r.refuse = false;
  r.buffer_bytes = 64 * 1024;
}

TEST_CASE("faults") {
  program& p = start();
  auto& r = cupti_recorder::get();
  const auto run = [&](const char* faults, int launches) {
    start();
    REQUIRE(CU(cutrace_sim_set_faults)(faults) == 0);
    for (int i = 0; i < launches; ++i) REQUIRE(launch(p.gemm, nullptr) == CUDA_SUCCESS);
    REQUIRE(CU(cuCtxSynchronize)() == CUDA_SUCCESS);
    flush();
  };
  SUBCASE("a call fails at its n-th time") {
    REQUIRE(CU(cutrace_sim_set_faults)("cuMemAlloc_v2=2@2,cuCtxGetDevice=999") == 0);
    CUdeviceptr d[3] = {};
    CHECK(CU(cuMemAlloc)(&d[0], 64) == CUDA_SUCCESS);
    CHECK(CU(cuMemAlloc)(&d[1], 64) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(CU(cuMemAlloc)(&d[2], 64) == CUDA_SUCCESS);
    CUdevice device = 0;
    CHECK(CU(cuCtxGetDevice)(&device) == CUDA_ERROR_UNKNOWN);
    CHECK(CU(cuCtxGetDevice)(&device) == CUDA_ERROR_UNKNOWN);
    CU(cuMemFree)(d[0]);
    CU(cuMemFree)(d[2]);
  }
  SUBCASE("a CUPTI call fails") {
    REQUIRE(CU(cutrace_sim_set_faults)("cuptiActivityFlushAll=999@1,version=18") == 0);
    CHECK(CUPTI(cuptiActivityFlushAll)(0) == CUPTI_ERROR_UNKNOWN);
    CHECK(CUPTI(cuptiGetLastError)() == CUPTI_ERROR_UNKNOWN);
    CHECK(CUPTI(cuptiActivityFlushAll)(0) == CUPTI_SUCCESS);
    std::uint32_t version = 0;
    CHECK(CUPTI(cuptiGetVersion)(&version) == CUPTI_SUCCESS);
    CHECK(version == 18u);
  }
  SUBCASE("drop") {
    run("drop=3", 10);
    CHECK(kernels().size() == 7);
    std::size_t dropped = 0;
    CHECK(CUPTI(cuptiActivityGetNumDroppedRecords)(nullptr, 0, &dropped) == CUPTI_SUCCESS);
    CHECK(dropped == 3);
  }
  SUBCASE("incomplete") {
    run("incomplete=3", 10);
    CHECK(kernels().empty());
    CHECK(CUPTI(cuptiActivityFlushAll)(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED) == CUPTI_SUCCESS);
    const auto all = kernels();
    CHECK(all.size() == 10);
    CHECK(std::count_if(all.begin(), all.end(), [](const auto& k) { return k.start == 0 && k.end == 0; }) == 3);
  }
  SUBCASE("zero_time") {
    run("zero_time=4", 10);
    const auto all = kernels();
    CHECK(all.size() == 10);
    CHECK(std::count_if(all.begin(), all.end(), [](const auto& k) { return k.start == 0 && k.end == 0; }) == 4);
  }
  SUBCASE("unknown") {
    run("unknown=2", 10);
    CHECK(kernels().size() == 10);
    CHECK(r.of<CUpti_ActivityStream>(0x7001).size() == 2);
    CHECK(r.bad_walks == 0);
  }
  SUBCASE("shuffle") {
    run("shuffle", 20);
    const auto all = kernels();
    CHECK(all.size() == 20);
    CHECK_FALSE(std::is_sorted(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.start < b.start; }));
  }
  SUBCASE("late") {
    run("late=1s", 3);
    CHECK(kernels().empty());
    usleep(1020000);
    flush();
    CHECK(kernels().size() == 3);
  }
  SUBCASE("unknown words are refused") {
    CHECK(CU(cutrace_sim_set_faults)("dorp=3") == -1);
    CHECK(CU(cutrace_sim_set_faults)("cuNoSuchFunction=3") == -1);
    CHECK(CU(cutrace_sim_set_faults)("late=5parsecs") == -1);
    CHECK(CU(cutrace_sim_set_faults)("shuffle=1") == -1);
  }
  REQUIRE(CU(cutrace_sim_set_faults)("") == 0);
}

TEST_CASE("a second subscriber learns who holds the place") {
  start();
  CUpti_SubscriberHandle second = nullptr;
  char holder[CUPTI_OLD_SUBSCRIBER_NAME_MIN_LEN] = {};
  CUpti_SubscriberParams params{};
  params.structSize = CUpti_SubscriberParams_STRUCT_SIZE;
  params.oldSubscriberName = holder;
  params.oldSubscriberSize = sizeof holder;
  CHECK(CUPTI(cuptiSubscribe_v2)(&second, nullptr, nullptr, &params) == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
  CHECK(std::string(holder) == "standin_selfcheck");
  CHECK(CUPTI(cuptiSubscribe)(&second, nullptr, nullptr) == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
}

TEST_CASE("names, entry points and refusals") {
  start();
  const char* text = nullptr;
  CHECK(CU(cuGetErrorName)(CUDA_ERROR_OUT_OF_MEMORY, &text) == CUDA_SUCCESS);
  CHECK(std::string(text) == "CUDA_ERROR_OUT_OF_MEMORY");
  CHECK(CUPTI(cuptiGetCallbackName)(CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz, &text) ==
        CUPTI_SUCCESS);
  CHECK(std::string(text) == "cuLaunchKernel_ptsz");
  CHECK(CUPTI(cuptiGetCallbackName)(CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000,
                                    &text) == CUPTI_SUCCESS);
  CHECK(std::string(text) == "cudaLaunchKernel_v7000");
  const auto address = [](const char* name, int version, cuuint64_t flags) {
    void* p = nullptr;
    CUdriverProcAddressQueryResult why = CU_GET_PROC_ADDRESS_SUCCESS;
    CU(cuGetProcAddress)(name, &p, version, flags, &why);
    CHECK((p == nullptr) == (why != CU_GET_PROC_ADDRESS_SUCCESS));
    return p;
  };
  void* self = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  REQUIRE(self != nullptr);
  CHECK(address("cuMemAlloc", 13000, 0) == dlsym(self, "cuMemAlloc_v2"));
  CHECK(address("cuLaunchKernel", 13000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) ==
        dlsym(self, "cuLaunchKernel_ptsz"));
  CHECK(address("cuGraphInstantiate", 13000, 0) == dlsym(self, "cuGraphInstantiateWithFlags"));
  CHECK(address("cuGraphInstantiate", 11040, 0) == dlsym(self, "cuGraphInstantiate_v2"));
  CHECK(address("cuNoSuchFunction", 13000, 0) == nullptr);
  dlclose(self);
  const void* table = nullptr;
  const CUuuid id{};
  CHECK(CU(cuGetExportTable)(&table, &id) == CUDA_ERROR_NOT_SUPPORTED);
  CUdeviceptr d = 0;
  CHECK(CU(cuMemAllocManaged)(&d, 64, CU_MEM_ATTACH_GLOBAL) == CUDA_ERROR_NOT_SUPPORTED);
}

// Child processes

namespace {

std::string own_path() {
  char path[4096] = {};
  const ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
  return n > 0 ? std::string(path, static_cast<std::size_t>(n)) : "";
}

/// Exit status of this program in the role of a child, under one more environment variable.
int child(const std::string& variable, const std::string& value, const std::string& role) {
  const pid_t pid = fork();
  if (pid == 0) {
    setenv(variable.c_str(), value.c_str(), 1);
    const std::string self = own_path();
    execl(self.c_str(), self.c_str(), "--child", role.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int play(const std::string& role) {
  if (role == "init") return CU(cuInit)(0);
  if (role == "no_symbol") {
    void* cupti = dlopen(test_support::cupti_name(), RTLD_NOW);
    if (cupti == nullptr || dlsym(cupti, "cuptiSubscribe") == nullptr) return 2;
    return dlsym(cupti, "cuptiSubscribe_v2") == nullptr ? 0 : 1;
  }
  if (role == "late_graph_trace") {  // a graph that is older than graph-level tracing
    CUpti_SubscriberHandle subscriber = nullptr;
    CUcontext context = nullptr;
    CUmodule module = nullptr;
    CUgraph graph = nullptr;
    CUgraphNode node = nullptr;
    CUgraphExec exec = nullptr;
    CUDA_KERNEL_NODE_PARAMS k{};
    CUPTI(cuptiSubscribe)(&subscriber, nullptr, nullptr);
    CU(cuInit)(0);
    CU(cuDevicePrimaryCtxRetain)(&context, 0);
    CU(cuCtxSetCurrent)(context);
    CU(cuModuleLoadData)(&module, "any image");
    CU(cuModuleGetFunction)(&k.func, module, "kernel");
    k.gridDimX = k.gridDimY = k.gridDimZ = k.blockDimX = k.blockDimY = k.blockDimZ = 1;
    CU(cuGraphCreate)(&graph, 0);
    CU(cuGraphAddKernelNode)(&node, graph, nullptr, 0, &k);
    CU(cuGraphInstantiate)(&exec, graph, 0);
    CUPTI(cuptiActivityEnable)(CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
    return CU(cuGraphLaunch)(exec, nullptr) == CUDA_SUCCESS ? 0 : 1;
  }
  if (role == "injection") {
    if (CU(cuInit)(0) != CUDA_SUCCESS) return 2;
    return getenv("CUTRACE_TEST_INJECTION_SEEN") != nullptr ? 0 : 1;
  }
  if (role == "two_devices") {
    int n = 0;
    return CU(cuInit)(0) == CUDA_SUCCESS && CU(cuDeviceGetCount)(&n) == CUDA_SUCCESS && n == 2 ? 0 : 1;
  }
  return 126;
}

std::string g_injection;  // path of a library with InitializeInjection, from the command line

}  // namespace

TEST_CASE("what is read from the environment") {
  CHECK(child("CUTRACE_SIM_FAULTS", "no_device", "init") == CUDA_ERROR_NO_DEVICE);
  CHECK(child("CUTRACE_SIM_FAULTS", "cuInit=3", "init") == CUDA_ERROR_NOT_INITIALIZED);
  CHECK(child("CUTRACE_SIM_FAULTS", "", "init") == CUDA_SUCCESS);
  CHECK(child("CUTRACE_SIM_FAULTS", "no_such_symbol=cuptiSubscribe_v2", "no_symbol") == 0);
  CHECK(child("CUTRACE_SIM_FAULTS", "", "no_symbol") == 1);
  CHECK(child("CUTRACE_SIM_FAULTS", "graph_trace_crash", "late_graph_trace") == 128 + SIGABRT);
  CHECK(child("CUTRACE_SIM_FAULTS", "", "late_graph_trace") == 0);
  CHECK(child("CUTRACE_SIM_DEVICES", "2", "two_devices") == 0);
}

TEST_CASE("CUDA_INJECTION64_PATH is loaded by cuInit") {
  if (g_injection.empty()) {
    MESSAGE("skipped: give the path of a library with InitializeInjection as --injection=<path>");
    return;
  }
  CHECK(child("CUDA_INJECTION64_PATH", g_injection, "injection") == 0);
  CHECK(child("CUDA_INJECTION64_PATH", "/no/such/library.so", "injection") == 1);
}

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "--child") return play(argv[2]);
  for (int i = 1; i < argc; ++i)
    if (std::string(argv[i]).compare(0, 12, "--injection=") == 0) g_injection = argv[i] + 12;
  doctest::Context context(argc, argv);
  return context.run();
}
