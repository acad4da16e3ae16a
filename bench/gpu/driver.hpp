// SPDX-License-Identifier: Apache-2.0
// The driver functions that the GPU benchmarks call, resolved from libcuda at run time, and what they work on: a
// stream (a copy of this object may have another), an empty kernel, a small copy, a chain of empty kernels as a graph.
#pragma once

#include <cuda.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

namespace bench {

struct driver {
// clang-format off
#define BENCH_FUNCTIONS(X)                                                                               \
  X(cuInit) X(cuDeviceGet) X(cuDeviceGetName) X(cuDevicePrimaryCtxRetain) X(cuCtxSetCurrent)             \
  X(cuStreamCreate) X(cuStreamSynchronize) X(cuModuleLoadData) X(cuModuleGetFunction) X(cuLaunchKernel)  \
  X(cuMemAlloc) X(cuMemHostAlloc) X(cuMemcpyHtoDAsync) X(cuMemcpyDtoHAsync) X(cuMemsetD8Async)           \
  X(cuMemAllocAsync) X(cuMemFreeAsync) X(cuGraphCreate) X(cuGraphAddKernelNode)                          \
  X(cuGraphInstantiateWithFlags) X(cuGraphLaunch) X(cuGraphExecDestroy)                                  \
  X(cuEventCreate) X(cuEventRecord) X(cuEventSynchronize) X(cuStreamWaitEvent)
// clang-format on
#define BENCH_MEMBER(name) decltype(&::name) name = nullptr;
  BENCH_FUNCTIONS(BENCH_MEMBER)
#undef BENCH_MEMBER
  static constexpr std::size_t copy_bytes = 4096, block_bytes = std::size_t{1} << 20;
  static constexpr const char* empty_image =
      ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry empty() { ret; }\n";
  CUcontext context{};
  CUstream stream{};
  CUfunction empty{};
  void* host = nullptr;  ///< pinned, copy_bytes
  CUdeviceptr device_memory{};
  char device_name[128] = {};

  /// Context, stream, memory and an empty kernel on device 0. Ends the program with a line when that fails.
  void start() {
    void* library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == nullptr) give_up("libcuda.so.1 cannot be loaded", 0);
// The header renames functions to their current version by macro; the library exports that name, so it is spelt only
// after the macro has done so.
#define BENCH_TEXT(name) #name
#define BENCH_FIND(name) name = reinterpret_cast<decltype(name)>(find(library, BENCH_TEXT(name)));
    BENCH_FUNCTIONS(BENCH_FIND)
#undef BENCH_FIND
#undef BENCH_TEXT
    CUdevice device = 0;
    CUmodule module{};
    check(cuInit(0), "cuInit");
    check(cuDeviceGet(&device, 0), "cuDeviceGet");
    check(cuDeviceGetName(device_name, sizeof(device_name), device), "cuDeviceGetName");
    check(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
    use();
    check(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    check(cuModuleLoadData(&module, empty_image), "cuModuleLoadData");
    check(cuModuleGetFunction(&empty, module, "empty"), "cuModuleGetFunction");
    check(cuMemHostAlloc(&host, copy_bytes, 0), "cuMemHostAlloc");
    check(cuMemAlloc(&device_memory, copy_bytes), "cuMemAlloc");
    // A block that stays: the pool would else give its memory back at each synchronisation.
    CUdeviceptr kept{};
    check(cuMemAllocAsync(&kept, block_bytes, stream), "cuMemAllocAsync");
  }

  /// To be called first in each thread that uses this object, except in the one that called start().
  void use() const { check(cuCtxSetCurrent(context), "cuCtxSetCurrent"); }
  driver with_own_stream() const {
    driver other = *this;
    check(cuStreamCreate(&other.stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    return other;
  }

  void launch() const {
    check(cuLaunchKernel(empty, 1, 1, 1, 32, 1, 1, 0, stream, nullptr, nullptr), "cuLaunchKernel");
  }
  void copy() const { check(cuMemcpyHtoDAsync(device_memory, host, copy_bytes, stream), "cuMemcpyHtoDAsync"); }
  void synchronize() const { check(cuStreamSynchronize(stream), "cuStreamSynchronize"); }
  /// Device memory in the order of the stream, taken and given back.
  void allocate() const {
    CUdeviceptr block{};
    check(cuMemAllocAsync(&block, block_bytes, stream), "cuMemAllocAsync");
    check(cuMemFreeAsync(block, stream), "cuMemFreeAsync");
  }

  /// `nodes` empty kernels, each after the one before.
  CUgraphExec chain(int nodes) const { return instance(graph(nodes, empty, nullptr)); }
  /// The same of any kernel, `parameters` as cuLaunchKernel takes them, not yet executable.
  CUgraph graph(int nodes, CUfunction kernel, void** parameters) const {
    CUgraph graph{};
    CUgraphNode last{};
    check(cuGraphCreate(&graph, 0), "cuGraphCreate");
    CUDA_KERNEL_NODE_PARAMS p{};
    p.func = kernel;
    p.kernelParams = parameters;
    p.gridDimX = p.gridDimY = p.gridDimZ = p.blockDimY = p.blockDimZ = 1;
    p.blockDimX = 32;
    for (int i = 0; i < nodes; ++i) {
      CUgraphNode node{};
      check(cuGraphAddKernelNode(&node, graph, &last, i == 0 ? 0 : 1, &p), "cuGraphAddKernelNode");
      last = node;
    }
    return graph;
  }
  /// A kernel that spins for as many SM clock cycles as its parameter, an std::uint64_t, says. The stand-in driver
  /// (backends/sim) takes the name and executes nothing.
  CUfunction busy_kernel() const {
    static const char image[] =
        ".version 7.0\n.target sm_70\n.address_size 64\n"
        ".visible .entry busy(.param .u64 n) {\n"
        "  .reg .u64 %r<4>;\n  .reg .pred %p;\n"
        "  ld.param.u64 %r0, [n];\n  mov.u64 %r1, %clock64;\n"
        "again:\n  mov.u64 %r2, %clock64;\n  sub.u64 %r3, %r2, %r1;\n  setp.lt.u64 %p, %r3, %r0;\n"
        "  @%p bra again;\n  ret;\n}\n";
    CUmodule module{};
    CUfunction kernel{};
    check(cuModuleLoadData(&module, image), "cuModuleLoadData");
    check(cuModuleGetFunction(&kernel, module, "busy"), "cuModuleGetFunction");
    return kernel;
  }
  CUgraphExec instance(CUgraph graph) const {
    CUgraphExec exec{};
    check(cuGraphInstantiateWithFlags(&exec, graph, 0), "cuGraphInstantiateWithFlags");
    return exec;
  }
  void destroy(CUgraphExec exec) const { check(cuGraphExecDestroy(exec), "cuGraphExecDestroy"); }
  void replay(CUgraphExec exec) const { check(cuGraphLaunch(exec, stream), "cuGraphLaunch"); }

  static void check(CUresult r, const char* what) {
    if (r != CUDA_SUCCESS) give_up(what, static_cast<int>(r));
  }

 private:
  [[noreturn]] static void give_up(const char* what, int code) {
    std::fprintf(stderr, "%s failed (%d)\n", what, code);
    std::exit(2);
  }
  static void* find(void* library, const char* name) {
    void* f = dlsym(library, name);
    if (f == nullptr) give_up(name, -1);
    return f;
  }
};
#undef BENCH_FUNCTIONS

}  // namespace bench
