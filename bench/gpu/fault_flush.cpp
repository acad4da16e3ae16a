// SPDX-License-Identifier: Apache-2.0
// What CUPTI's flushes bring after the GPU has faulted, or while a kernel never ends: whose records come with times.
// Raw CUPTI alone; the facts stand in docs/cupti.md. Needs a GPU, whose context each run loses.
//
//   fault_flush FAULT WORK PERIOD [FLUSHES [OTHERS]]
//
// FAULT: illegal, trap, misaligned, hang (not with h). WORK: launch, graph (ten nodes, the seventh of which faults).
// PERIOD: ms between plain flushes until the error was returned, 0: none. FLUSHES after it: p plain, f forced, w waits
// for 300 ms; "f" unless given; if they begin with h, the first call that returns the error is held in its exit
// callback meanwhile. OTHERS: how many further streams have work.
#include <cuda.h>
#include <cupti.h>
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace {

void* library(const char* name) {
  void* const found = dlopen(name, RTLD_NOW);
  if (found == nullptr) std::fprintf(stderr, "%s\n", dlerror()), std::exit(2);
  return found;
}
template <class Function>
Function find(void* in, const char* name) {
  const auto f = reinterpret_cast<Function>(dlsym(in, name));
  if (f == nullptr) std::fprintf(stderr, "there is no %s\n", name), std::exit(2);
  return f;
}
void* const driver_library = library("libcuda.so.1");
void* const cupti_library = library("libcupti.so.13");

// The header renames functions by macro; the library exports the new name.
#define TEXT(name) #name
#define DRIVER(name) find<decltype(&::name)>(driver_library, TEXT(name))
#define CUPTI(name) find<decltype(&::name)>(cupti_library, #name)

void check(CUresult r, const char* what) {
  if (r != CUDA_SUCCESS) std::fprintf(stderr, "%s: %d\n", what, static_cast<int>(r)), std::exit(3);
}
#define MUST(name, ...) check(DRIVER(name)(__VA_ARGS__), #name)

constexpr const char* image = R"(.version 7.0
.target sm_70
.address_size 64
.visible .entry spin(.param .u64 cycles) {
  .reg .u64 %a<5>; .reg .pred %p;
  ld.param.u64 %a1, [cycles]; mov.u64 %a2, %clock64;
L: mov.u64 %a3, %clock64; sub.u64 %a4, %a3, %a2; setp.lt.u64 %p, %a4, %a1; @%p bra L;
  ret; }
.visible .entry bad(.param .u64 flag, .param .u32 how) {
  .reg .u64 %a<5>; .reg .u32 %r<5>; .reg .pred %p<5>;
  ld.param.u64 %a1, [flag]; ld.param.u32 %r1, [how];
  ld.volatile.global.u32 %r2, [%a1]; setp.eq.u32 %p1, %r2, 0; @%p1 bra E;
  setp.eq.u32 %p2, %r1, 1; @%p2 trap;
  setp.eq.u32 %p3, %r1, 2; @%p3 bra M;
  setp.eq.u32 %p4, %r1, 3; @%p4 bra F;
  mov.u64 %a2, 16; st.volatile.global.u32 [%a2], %r2; bra E;
M: add.u64 %a3, %a1, 1; st.volatile.global.u32 [%a3], %r2; bra E;
F: ld.volatile.global.u32 %r2, [%a1]; setp.ne.u32 %p1, %r2, 0; @%p1 bra F;
E: ret; }
)";

struct record {
  std::uint32_t id, stream;
  bool timed;
  std::string name;
};
std::mutex access;
std::vector<record> records;
std::map<std::uint32_t, int> launch_of;  // by correlation id
thread_local int launching = -1;
enum hold : int { nobody, next, holds, over };
std::atomic<int> held{nobody};

void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* size, std::size_t* limit) {
  *size = std::size_t{256} << 10;
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(8, *size));
  std::memset(*buffer, 0, *size);
  *limit = 0;
}
void CUPTIAPI take_buffer(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid) {
  static const auto next_record = CUPTI(cuptiActivityGetNextRecord);
  CUpti_Activity* a = nullptr;
  const std::lock_guard<std::mutex> lock(access);
  while (next_record(buffer, valid, &a) == CUPTI_SUCCESS) {
    if (a->kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) continue;
    const auto* k = reinterpret_cast<const CUpti_ActivityKernel10*>(a);
    records.push_back({k->correlationId, k->streamId, k->start != 0 && k->end > k->start, k->name ? k->name : ""});
  }
  std::free(buffer);
}
void CUPTIAPI on_call(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void* data) {
  const auto* call = static_cast<const CUpti_CallbackData*>(data);
  if (call->callbackSite == CUPTI_API_ENTER) {
    const std::lock_guard<std::mutex> lock(access);
    if (launching >= 0) launch_of[call->correlationId] = launching;
    return;
  }
  // Not the first call to end: others that succeed end before, on any thread.
  const auto* result = static_cast<const CUresult*>(call->functionReturnValue);
  if (result == nullptr || *result == CUDA_SUCCESS) return;
  if (int expected = next; held.compare_exchange_strong(expected, holds)) {
    for (int i = 0; i < 2000 && held.load() == holds; ++i) ::usleep(1000);
  }
}

double milliseconds_of(const std::chrono::steady_clock::time_point& since) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - since).count();
}
double flush(bool forced) {
  const auto begin = std::chrono::steady_clock::now();
  CUPTI(cuptiActivityFlushAll)(forced ? CUPTI_ACTIVITY_FLAG_FLUSH_FORCED : 0);
  return milliseconds_of(begin);
}

struct program {
  CUcontext context{};
  CUfunction spin{}, bad{};
  CUdeviceptr flag{};
  CUstream stream{};
  std::uint32_t how;
  int launches = 0, culprit = -1;

  explicit program(const std::string& fault)
      : how(fault == "trap"         ? 1
            : fault == "misaligned" ? 2
            : fault == "hang"       ? 3
                                    : 0) {
    CUdevice device{};
    CUmodule module{};
    MUST(cuInit, 0);
    MUST(cuDeviceGet, &device, 0);
    MUST(cuDevicePrimaryCtxRetain, &context, device);
    MUST(cuCtxSetCurrent, context);
    MUST(cuModuleLoadData, &module, image);
    MUST(cuModuleGetFunction, &spin, module, "spin");
    MUST(cuModuleGetFunction, &bad, module, "bad");
    MUST(cuMemAlloc, &flag, 4096);
    MUST(cuMemsetD32, flag, 0, 1024);
    MUST(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
  }

  bool launch(bool faults) {
    std::uint64_t cycles = 3000;
    void* plain[] = {&cycles};
    void* worse[] = {&flag, &how};
    launching = launches++;
    const CUresult r =
        DRIVER(cuLaunchKernel)(faults ? bad : spin, 1, 1, 1, 32, 1, 1, 0, stream, faults ? worse : plain, nullptr);
    launching = -1;
    return r == CUDA_SUCCESS;
  }
  /// 300 kernels, of which 200 are waited for; the culprit; some behind it.
  void by_launches() {
    for (int i = 0; i < 300; ++i) {
      launch(i % 10 == 3);
      if (i == 200) MUST(cuStreamSynchronize, stream);
    }
    MUST(cuMemsetD32Async, flag, 1, 1, stream);
    for (int i = 0; i < 5; ++i) launch(false);
    culprit = launches;
    launch(true);
    for (int i = 0; i < 20 && launch(false); ++i) continue;
  }
  void replay(CUgraphExec graph) {
    launching = launches++;
    DRIVER(cuGraphLaunch)(graph, stream);
    launching = -1;
  }
  /// Eight replays, all waited for; the one that faults; one behind it.
  void by_graph() {
    CUgraph graph{};
    CUgraphNode before{}, node{};
    CUgraphExec instance{};
    std::uint64_t cycles = 3000;
    void* plain[] = {&cycles};
    void* worse[] = {&flag, &how};
    MUST(cuGraphCreate, &graph, 0);
    for (int i = 0; i < 10; ++i) {
      CUDA_KERNEL_NODE_PARAMS p{};
      p.func = i == 6 ? bad : spin;
      p.gridDimX = p.gridDimY = p.gridDimZ = p.blockDimY = p.blockDimZ = 1;
      p.blockDimX = 32;
      p.kernelParams = i == 6 ? worse : plain;
      MUST(cuGraphAddKernelNode, &node, graph, i != 0 ? &before : nullptr, i != 0 ? 1 : 0, &p);
      before = node;
    }
    MUST(cuGraphInstantiateWithFlags, &instance, graph, 0);
    for (int i = 0; i < 8; ++i) replay(instance);
    MUST(cuStreamSynchronize, stream);
    MUST(cuMemsetD32, flag, 1, 1);
    culprit = launches;
    replay(instance);
    replay(instance);
  }
  /// Launches and waits on another stream until the context is lost or `stop` is set.
  void keep_busy(const std::atomic<bool>& stop) const {
    CUstream own{};
    std::uint64_t cycles = 30000;
    void* parameters[] = {&cycles};
    if (DRIVER(cuCtxSetCurrent)(context) != CUDA_SUCCESS ||
        DRIVER(cuStreamCreate)(&own, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS)
      return;
    for (int i = 1; !stop; ++i) {
      if (DRIVER(cuLaunchKernel)(spin, 1, 1, 1, 32, 1, 1, 0, own, parameters, nullptr) != CUDA_SUCCESS) return;
      if (i % 8 == 0 && DRIVER(cuStreamSynchronize)(own) != CUDA_SUCCESS) return;
    }
  }
};

void print(const program& p) {
  const std::lock_guard<std::mutex> lock(access);
  int before[2] = {}, at[2] = {};
  const record* first = nullptr;
  std::set<std::uint32_t> streams;
  for (const record& r : records) {
    if (!r.timed) streams.insert(r.stream);
    const auto launch = launch_of.find(r.id);
    if (launch == launch_of.end()) continue;
    if (launch->second < p.culprit) ++before[r.timed ? 1 : 0];
    if (launch->second == p.culprit) ++at[r.timed ? 1 : 0];
    if (!r.timed && (first == nullptr || r.id < first->id)) first = &r;
  }
  std::printf(
      "before the culprit %d with times, %d without; of its launch %d with, %d without; the first without is "
      "\"%s\" of launch %d, the culprit's is %d; streams with such records: %zu\n",
      before[1], before[0], at[1], at[0], first != nullptr ? first->name.c_str() : "",
      first != nullptr ? launch_of[first->id] : -1, p.culprit, streams.size());
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return std::fprintf(stderr, "fault_flush FAULT WORK PERIOD [FLUSHES [OTHERS]]\n"), 2;
  const std::string fault = argv[1], work = argv[2], flushes = argc > 4 ? argv[4] : "f";
  const auto period_us = static_cast<useconds_t>(std::atoi(argv[3]) * 1000);
  CUpti_SubscriberHandle subscriber{};
  if (CUPTI(cuptiSubscribe)(&subscriber, &on_call, nullptr) != CUPTI_SUCCESS) return 4;
  CUPTI(cuptiActivityRegisterCallbacks)(&give_buffer, &take_buffer);
  CUPTI(cuptiActivityEnable)(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  CUPTI(cuptiEnableDomain)(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API);
  program p(fault);
  std::atomic<bool> seen{false}, stop{false};
  std::vector<std::thread> threads;
  if (period_us != 0)
    threads.emplace_back([&] {
      while (!seen) flush(false), ::usleep(period_us);
    });
  for (int i = argc > 5 ? std::atoi(argv[5]) : 0; i > 0; --i) threads.emplace_back([&] { p.keep_busy(stop); });
  ::usleep(50000);
  work == "graph" ? p.by_graph() : p.by_launches();

  CUresult result = CUDA_SUCCESS;
  const auto begin = std::chrono::steady_clock::now();
  const auto wait = [&] {
    DRIVER(cuCtxSetCurrent)(p.context);
    result = DRIVER(cuStreamSynchronize)(p.stream);
  };
  if (flushes[0] == 'h' && fault == "hang") return std::fprintf(stderr, "a hang returns no error to hold\n"), 2;
  if (flushes[0] == 'h') {
    held = next;
    threads.emplace_back(wait);
    while (held.load() != holds) ::usleep(100);
  } else if (fault == "hang") {
    ::usleep(300000);
  } else {
    wait();
  }
  seen = true;
  std::printf("%s %s, flushes each %s ms: after %.1f ms;", fault.c_str(), work.c_str(), argv[3],
              milliseconds_of(begin));
  for (const char c : flushes) {
    if (c == 'w') ::usleep(300000);
    if (c == 'p' || c == 'f') std::printf(" %s flush %.2f ms;", c == 'f' ? "forced" : "plain", flush(c == 'f'));
  }
  held = over;
  stop = true;
  ::usleep(50000);
  std::printf(" result %d; ", static_cast<int>(result));
  print(p);
  ::_exit(0);  // a kernel may never end
}
