// SPDX-License-Identifier: Apache-2.0
// Seeds for decode_fuzz: activity buffers as the stand-in libcupti fills them for a program with kernels, copies, sets,
// events, graphs and memory, and records of the kinds that it never writes, from the structures of CUPTI's headers.
// Seeds are generated, never committed: they hold addresses of the process.
//
//   decode_corpus FOLDER
#include <cuda.h>
#include <cupti.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "../support/standin_calls.hpp"

namespace {

void check(int r, const char* what) {
  if (r == 0) return;
  std::fprintf(stderr, "%s failed (%d)\n", what, r);
  std::exit(2);
}
#define DO(name, ...) check(static_cast<int>(CU(name)(__VA_ARGS__)), #name)
#define TRACE(name, ...) check(static_cast<int>(CUPTI(name)(__VA_ARGS__)), #name)

std::string folder;
unsigned written = 0;
std::size_t buffer_bytes = 4096;

/// As decode_fuzz reads it: how to step, CUPTI's version, the buffer.
void write_seed(const void* data, std::size_t bytes) {
  constexpr unsigned char ways[][2] = {{0, 11}, {0, 12 + 128}, {2, 0}, {3, 6 + 16}, {129, 12}};
  for (const unsigned char(&way)[2] : ways) {
    std::ofstream out(folder + "/seed" + std::to_string(written++), std::ios::binary);
    out.write(reinterpret_cast<const char*>(way), sizeof(way));
    out.write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
  }
}

void CUPTIAPI on_request(std::uint8_t** buffer, std::size_t* size, std::size_t* limit) {
  *buffer = static_cast<std::uint8_t*>(std::calloc(1, buffer_bytes));
  *size = buffer_bytes;
  *limit = 0;
}
void CUPTIAPI on_complete(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid) {
  if (valid != 0) write_seed(buffer, valid);
  std::free(buffer);
}
void CUPTIAPI on_callback(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {}

void work() {
  static const char image[] = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry seed() { ret; }\n";
  CUdevice device = 0;
  CUcontext context{};
  CUmodule module{};
  CUfunction kernel{};
  CUstream stream{};
  CUevent event{};
  CUdeviceptr a = 0, b = 0;
  CUgraph graph{};
  CUgraphExec replay{};
  static char host[4096];
  DO(cuDeviceGet, &device, 0);
  DO(cuDevicePrimaryCtxRetain, &context, device);
  DO(cuCtxSetCurrent, context);
  DO(cuModuleLoadData, &module, image);
  DO(cuModuleGetFunction, &kernel, module, "seed");
  DO(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
  DO(cuEventCreate, &event, CU_EVENT_DEFAULT);
  DO(cuMemAlloc, &a, sizeof(host));
  DO(cuMemAllocAsync, &b, sizeof(host), stream);
  DO(cuLaunchKernel, kernel, 3, 2, 1, 64, 2, 1, 1024, stream, nullptr, nullptr);
  DO(cuMemcpyHtoD, a, host, sizeof(host));
  DO(cuMemcpyPeer, b, context, a, context, sizeof(host));
  DO(cuMemsetD8Async, a, 7, sizeof(host), stream);
  DO(cuEventRecord, event, stream);
  DO(cuStreamWaitEvent, stream, event, 0);
  DO(cuStreamBeginCapture, stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
  for (int i = 0; i < 3; ++i) DO(cuLaunchKernel, kernel, 2, 1, 1, 32, 1, 1, 0, stream, nullptr, nullptr);
  DO(cuMemcpyDtoDAsync, a, b, 128, stream);
  DO(cuStreamEndCapture, stream, &graph);
  DO(cuGraphInstantiateWithFlags, &replay, graph, 0);
  DO(cuGraphLaunch, replay, stream);
  DO(cuEventSynchronize, event);
  DO(cuStreamSynchronize, stream);
  DO(cuMemFreeAsync, b, stream);
  DO(cuMemFree, a);
  check(CU(cuCtxSynchronize)(), "cuCtxSynchronize");
  TRACE(cuptiActivityFlushAll, 1);
}

/// Records of the kinds that no program makes the stand-in write. A kind with variants has one record for each value of
/// the member that selects the variant.
class other_records {
 public:
  template <class Record, class Fill>
  void add(CUpti_ActivityKind kind, Fill fill) {
    Record r;
    std::memset(&r, 0, sizeof(r));
    r.kind = kind;
    fill(r);
    const auto* bytes = reinterpret_cast<const unsigned char*>(&r);
    write_seed(bytes, sizeof(r));
    all_.insert(all_.end(), bytes, bytes + sizeof(r));
  }
  ~other_records() { write_seed(all_.data(), all_.size()); }

 private:
  std::vector<unsigned char> all_;
};

void add_other_records() {
  other_records all;
  for (int k = 1; k <= 4; ++k)
    all.add<CUpti_ActivityEnvironment>(CUPTI_ACTIVITY_KIND_ENVIRONMENT, [&](CUpti_ActivityEnvironment& r) {
      r.environmentKind = static_cast<CUpti_ActivityEnvironmentKind>(k);
      r.timestamp = 1000;
      r.data.power.power = 70000;
      r.data.power.powerLimit = 700000;
    });
  for (int k = 1; k <= 8; ++k)
    all.add<CUpti_ActivityUnifiedMemoryCounter2>(
        CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER, [&](CUpti_ActivityUnifiedMemoryCounter2& r) {
          r.counterKind = static_cast<CUpti_ActivityUnifiedMemoryCounterKind>(k);
          r.value = 65536;
          r.start = 1000, r.end = 2000;
          r.address = 0x7f0000000000;
        });
  for (int k = 1; k <= 8; ++k)
    all.add<CUpti_ActivityOverhead3>(CUPTI_ACTIVITY_KIND_OVERHEAD, [&](CUpti_ActivityOverhead3& r) {
      r.overheadKind = static_cast<CUpti_ActivityOverheadKind>(k << 16);
      r.objectKind = static_cast<CUpti_ActivityObjectKind>(k % 6);
      r.start = 1000, r.end = 2000;
      r.overheadData = reinterpret_cast<void*>(std::uintptr_t{1});  // replaced by decode_fuzz
    });
  for (int k = 0; k < 6; ++k)
    all.add<CUpti_ActivityJit2>(CUPTI_ACTIVITY_KIND_JIT, [&](CUpti_ActivityJit2& r) {
      r.jitEntryType = static_cast<CUpti_ActivityJitEntryType>(1 + k % 2);
      r.jitOperationType = static_cast<CUpti_ActivityJitOperationType>(1 + k / 2);
      r.start = 1000, r.end = 2000;
    });
  for (int k = 1; k <= 5; ++k)
    all.add<CUpti_ActivityName>(CUPTI_ACTIVITY_KIND_NAME, [&](CUpti_ActivityName& r) {
      r.objectKind = static_cast<CUpti_ActivityObjectKind>(k);
      r.name = reinterpret_cast<const char*>(std::uintptr_t{1});
    });
  for (int k = 1; k <= 3; ++k)
    all.add<CUpti_ActivityMemoryPool2>(CUPTI_ACTIVITY_KIND_MEMORY_POOL, [&](CUpti_ActivityMemoryPool2& r) {
      r.memoryPoolOperationType = static_cast<CUpti_ActivityMemoryPoolOperationType>(k);
      r.address = 0x7000;
      r.timestamp = 1000;
      r.size = static_cast<std::uint64_t>(k) << 20;
    });
  all.add<CUpti_ActivityMemory>(CUPTI_ACTIVITY_KIND_MEMORY, [](CUpti_ActivityMemory& r) {
    r.address = 0x1000, r.bytes = 64, r.start = 1000, r.end = 2000;
  });
  all.add<CUpti_ActivityMemcpyPtoP4>(CUPTI_ACTIVITY_KIND_MEMCPY2, [](CUpti_ActivityMemcpyPtoP4& r) {
    r.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_PTOP;
    r.start = 1000, r.end = 2000, r.dstDeviceId = 1;
  });
  all.add<CUpti_ActivityAPI>(CUPTI_ACTIVITY_KIND_DRIVER, [](CUpti_ActivityAPI& r) { r.start = 1000, r.end = 2000; });
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return std::fputs("decode_corpus FOLDER\n", stderr), 2;
  folder = argv[1];
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  CUpti_SubscriberHandle subscriber{};
  TRACE(cuptiSubscribe, &subscriber, &on_callback, nullptr);
  TRACE(cuptiActivityRegisterCallbacks, &on_request, &on_complete);
  for (const CUpti_ActivityKind k :
       {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMCPY2,
        CUPTI_ACTIVITY_KIND_MEMSET, CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, CUPTI_ACTIVITY_KIND_CONTEXT,
        CUPTI_ACTIVITY_KIND_STREAM, CUPTI_ACTIVITY_KIND_DEVICE, CUPTI_ACTIVITY_KIND_DRIVER,
        CUPTI_ACTIVITY_KIND_CUDA_EVENT, CUPTI_ACTIVITY_KIND_MEMORY2, CUPTI_ACTIVITY_KIND_OVERHEAD})
    TRACE(cuptiActivityEnable, k);
  TRACE(cuptiActivityEnableCudaEventDeviceTimestamps, 1);
  DO(cuInit, 0);
  work();
  TRACE(cuptiActivityEnable, CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
  buffer_bytes = 512;
  work();
  add_other_records();
  if (written < 100) return std::fprintf(stderr, "only %u seeds\n", written), 1;
  std::printf("%u seeds\n", written);
}
