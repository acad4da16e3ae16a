// SPDX-License-Identifier: Apache-2.0
// What the programs of stuck_programs.cpp work with: the driver by dlsym, a context, kernels that are busy, never end
// or fault, and what they say to the script that judges the trace. On the stand-in driver nothing is executed: faults
// and durations are set there instead.
#pragma once

#include <cuda.h>
#include <dlfcn.h>
#include <link.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cutrace/cutrace.hpp>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace stuck {

inline void* driver_function(const char* name, bool must = true) {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  void* const f = library != nullptr ? dlsym(library, name) : nullptr;
  if (f == nullptr && must) std::fprintf(stderr, "there is no %s\n", name), std::exit(2);
  return f;
}
// The header renames functions by macro; the library exports the new name.
#define STUCK_TEXT(name) #name
#define CALL(name)                                                                                \
  ([] {                                                                                           \
    static const auto f = reinterpret_cast<decltype(&::name)>(driver_function(STUCK_TEXT(name))); \
    return f;                                                                                     \
  }())
#define MUST(name, ...) must(CALL(name)(__VA_ARGS__), #name)

inline void must(CUresult r, const char* what) {
  if (r == CUDA_SUCCESS) return;
  std::fprintf(stderr, "%s failed: %d\n", what, static_cast<int>(r));
  std::exit(2);
}

// What the assertion says: "index < size", "stuck.ptx".
constexpr const char* image = R"(.version 7.0
.target sm_70
.address_size 64
.extern .func __assertfail (.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e);
.global .align 1 .b8 said[13] = {105,110,100,101,120,32,60,32,115,105,122,101,0};
.global .align 1 .b8 file[10] = {115,116,117,99,107,46,112,116,120,0};
.visible .entry busy(.param .u64 ns) {
  .reg .u64 %a<5>; .reg .pred %p;
  ld.param.u64 %a1, [ns]; mov.u64 %a2, %globaltimer;
L: mov.u64 %a3, %globaltimer; sub.u64 %a4, %a3, %a2; setp.lt.u64 %p, %a4, %a1; @%p bra L;
  ret; }
.visible .entry gather(.param .u64 flag, .param .u32 how) {
  .reg .u64 %a<9>; .reg .u32 %r<5>; .reg .pred %p<5>;
  ld.param.u64 %a1, [flag]; ld.param.u32 %r1, [how];
  ld.volatile.global.u32 %r2, [%a1]; setp.eq.u32 %p1, %r2, 0; @%p1 bra E;
  setp.eq.u32 %p2, %r1, 1; @%p2 trap;
  setp.eq.u32 %p3, %r1, 2; @%p3 bra M;
  setp.eq.u32 %p4, %r1, 3; @%p4 bra A;
  mov.u64 %a2, 16; st.volatile.global.u32 [%a2], %r2; bra E;
M: add.u64 %a3, %a1, 1; st.volatile.global.u32 [%a3], %r2; bra E;
A: mov.u64 %a4, said; cvta.global.u64 %a5, %a4; mov.u64 %a6, file; cvta.global.u64 %a7, %a6; mov.u64 %a8, 1;
  { .param .b64 q0; .param .b64 q1; .param .b32 q2; .param .b64 q3; .param .b64 q4;
    st.param.b64 [q0], %a5; st.param.b64 [q1], %a7; st.param.b32 [q2], 7; st.param.b64 [q3], %a7;
    st.param.b64 [q4], %a8;
    call.uni __assertfail, (q0, q1, q2, q3, q4); }
E: ret; }
.visible .entry spin(.param .u64 flag) {
  .reg .u64 %a<2>; .reg .u32 %r<2>; .reg .pred %p;
  ld.param.u64 %a1, [flag];
L: ld.volatile.global.u32 %r1, [%a1]; setp.eq.u32 %p, %r1, 0; @%p bra L;
  ret; }
.visible .entry persistent(.param .u64 flag) {
  .reg .u64 %a<2>; .reg .u32 %r<2>; .reg .pred %p;
  ld.param.u64 %a1, [flag];
L: ld.volatile.global.u32 %r1, [%a1]; setp.eq.u32 %p, %r1, 0; @%p bra L;
  ret; }
.visible .entry relay(.param .u64 theirs, .param .u64 mine) {
  .reg .u64 %a<3>; .reg .u32 %r<3>; .reg .pred %p;
  ld.param.u64 %a1, [theirs]; ld.param.u64 %a2, [mine];
L: ld.volatile.global.u32 %r1, [%a1]; setp.eq.u32 %p, %r1, 0; @%p bra L;
  mov.u32 %r2, 1; st.volatile.global.u32 [%a2], %r2;
  ret; }
)";

inline void synchronize_all() { must(CALL(cuCtxSynchronize)(), "cuCtxSynchronize"); }
inline void pause_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }
[[noreturn]] inline void for_ever() {
  for (;;) ::pause();
}
constexpr std::uint64_t us = 1000, ms = 1000000;

constexpr std::uint64_t requests[] = {1, 2, 3, 4};
// The stages of a server: what has gone well, and where it goes wrong.
#define STUCK_PREFILL CUTRACE_STAGE("prefill", 7)
#define STUCK_DECODE CUTRACE_STAGE_BATCH("decode", stuck::requests, 4)

class gpu {
 public:
  CUcontext context{};
  CUstream stream{};
  CUdeviceptr words{};  ///< 0, and the second one 1
  bool standin = driver_function("cutrace_sim_set_faults", false) != nullptr;

  gpu() {
    CUdevice device{};
    CUmodule module{};
    MUST(cuInit, 0);
    MUST(cuDeviceGet, &device, 0);
    MUST(cuDevicePrimaryCtxRetain, &context, device);
    use();
    MUST(cuModuleLoadData, &module, image);
    for (kernel& k : kernels_) MUST(cuModuleGetFunction, &k.function, module, k.name);
    const std::uint32_t first[4] = {0, 1, 0, 0};
    MUST(cuMemAlloc, &words, 4096);
    MUST(cuMemsetD32, words, 0, 1024);
    MUST(cuMemcpyHtoD, words, first, sizeof first);
    stream = make_stream();
    synchronize_all();
  }
  /// In each thread but the first.
  void use() const { MUST(cuCtxSetCurrent, context); }
  static CUstream make_stream(unsigned flags = CU_STREAM_NON_BLOCKING) {
    CUstream s{};
    MUST(cuStreamCreate, &s, flags);
    return s;
  }
  static CUevent make_event() {
    CUevent e{};
    MUST(cuEventCreate, &e, CU_EVENT_DISABLE_TIMING);
    return e;
  }
  CUdeviceptr zero() const { return words; }
  CUdeviceptr one() const { return words + 4; }
  CUdeviceptr word(int n) const { return words + 64 + 4 * static_cast<unsigned>(n); }  ///< 0 at first
  CUfunction function(const char* name) const {
    for (const kernel& k : kernels_)
      if (std::strcmp(k.name, name) == 0) return k.function;
    std::exit(2);
  }

  /// Of a module of its own, so that its first launch has something to load.
  static CUfunction load(const char* name) {
    CUmodule module{};
    CUfunction found{};
    MUST(cuModuleLoadData, &module, image);
    MUST(cuModuleGetFunction, &found, module, name);
    return found;
  }

  /// A kernel of that length.
  CUresult busy(CUstream s, std::uint64_t ns) {
    const std::lock_guard<std::mutex> hold(lock_);  // the stand-in has one duration for all kernels of a name
    set_duration("busy", ns);
    void* p[] = {&ns};
    return launch("busy", s, p);
  }
  void many_busy(CUstream s, int n, std::uint64_t ns) {
    for (int i = 0; i < n; ++i) must(busy(s, ns), "cuLaunchKernel");
  }
  /// Never ends.
  void spin(CUstream s) {
    fault("hang:spin");
    CUdeviceptr flag = zero();
    void* p[] = {&flag};
    must(launch("spin", s, p), "cuLaunchKernel");
  }
  CUresult launch(const char* name, CUstream s, void** parameters, unsigned blocks = 1) const {
    return CALL(cuLaunchKernel)(function(name), blocks, 1, 1, 32, 1, 1, 0, s, parameters, nullptr);
  }

  void fault(const char* words_of_it) const {
    if (standin) reinterpret_cast<int (*)(const char*)>(driver_function("cutrace_sim_set_faults"))(words_of_it);
  }
  void set_duration(const char* name, std::uint64_t ns) const {
    if (standin)
      reinterpret_cast<void (*)(const char*, unsigned long long)>(driver_function("cutrace_sim_set_kernel_duration"))(
          name, ns);
  }

  /// `nodes` kernels in a chain, of which the seventh has the given function and parameters. Null: busy, too.
  CUgraphExec chain(int nodes, std::uint64_t ns, const char* seventh, void** parameters) {
    set_duration("busy", ns);
    CUgraph graph{};
    CUgraphNode before{}, node{};
    CUgraphExec exec{};
    void* plain[] = {&ns};
    MUST(cuGraphCreate, &graph, 0);
    for (int i = 0; i < nodes; ++i) {
      const bool other = i == 6 && seventh != nullptr;
      CUDA_KERNEL_NODE_PARAMS p{};
      p.func = function(other ? seventh : "busy");
      p.gridDimX = p.gridDimY = p.gridDimZ = p.blockDimY = p.blockDimZ = 1;
      p.blockDimX = 32;
      p.kernelParams = other ? parameters : plain;
      MUST(cuGraphAddKernelNode, &node, graph, i != 0 ? &before : nullptr, i != 0 ? 1 : 0, &p);
      before = node;
    }
    MUST(cuGraphInstantiateWithFlags, &exec, graph, 0);
    return exec;
  }

  struct pinned_words {
    volatile std::uint32_t* host;
    CUdeviceptr device;
  };
  static pinned_words pinned() {
    void* host = nullptr;
    CUdeviceptr device{};
    MUST(cuMemHostAlloc, &host, 4096, CU_MEMHOSTALLOC_DEVICEMAP);
    std::memset(host, 0, 4096);
    MUST(cuMemHostGetDevicePointer, &device, host, 0);
    return {static_cast<std::uint32_t*>(host), device};
  }

 private:
  struct kernel {
    const char* name;
    CUfunction function;
  };
  kernel kernels_[5] = {{"busy", {}}, {"gather", {}}, {"spin", {}}, {"persistent", {}}, {"relay", {}}};
  std::mutex lock_;
};

// What the script is to find

inline long thread_id() { return ::syscall(SYS_gettid); }

/// CUPTI's id of a stream, -1 where CUPTI is not in this process: the trace's `stream`.
inline long stream_id(CUcontext context, CUstream s) {
  void* cupti = nullptr;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* to) {
        if (std::strstr(info->dlpi_name, "libcupti.so") == nullptr) return 0;
        *static_cast<void**>(to) = dlopen(info->dlpi_name, RTLD_NOW | RTLD_NOLOAD);
        return 1;
      },
      &cupti);
  if (cupti == nullptr) return -1;
  const auto ask =
      reinterpret_cast<int (*)(CUcontext, CUstream, std::uint8_t, std::uint32_t*)>(dlsym(cupti, "cuptiGetStreamIdEx"));
  std::uint32_t id = 0;
  return ask != nullptr && ask(context, s, 0, &id) == 0 ? static_cast<long>(id) : -1;
}

/// Prints the work that the trace must report: the head of the stream (its first unfinished work) or the culprit of a
/// fault, which this thread issues in "decode". To be called before the work is issued.
inline void expect(const gpu& g, CUstream s, const char* work, const char* name, const char* call) {
  std::printf(
      "expects {\"work\":\"%s\",\"name\":\"%s\",\"call\":\"%s\",\"stream\":%ld,\"tid\":%ld,\"stage\":\"decode\","
      "\"requests\":[1,2,3,4]}\n",
      work, name, call, stream_id(g.context, s), thread_id());
  std::fflush(stdout);
}
/// This thread is about to make a call that does not return.
inline void expect_in_call(const char* call) {
  std::printf("expects_in_call {\"tid\":%ld,\"call\":\"%s\"}\n", thread_id(), call);
  std::fflush(stdout);
}
inline void say(const char* what) {
  std::printf("%s\n", what);
  std::fflush(stdout);
}

struct program {
  const char* name;
  void (*run)(gpu&);
};

}  // namespace stuck
