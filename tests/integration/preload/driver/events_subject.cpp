// SPDX-License-Identifier: Apache-2.0
// A program whose GPU time is measured by CUDA events, in one of several situations. It is not aware of that, and must
// print the same when it is not measured. It waits in a new context until the backend has made its events.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <map>
#include <thread>
#include <vector>

#include "../../../support/gpu_program.hpp"
#include "events_made.hpp"

namespace {

using test_support::gpu_device;

void synchronize() { test_support::must(CU(cuCtxSynchronize)(), "cuCtxSynchronize"); }

CUstream new_stream(unsigned flags = CU_STREAM_NON_BLOCKING) {
  CUstream s{};
  DO(cuStreamCreate, &s, flags);
  return s;
}

void streams() {
  const gpu_device gpu;
  events_made::await();
  const CUstream a = new_stream(), b = new_stream(CU_STREAM_DEFAULT);
  CUdeviceptr p{};
  DO(cuMemAlloc, &p, 1 << 20);
  std::vector<unsigned char> host(1 << 20, 3);
  DO(cuMemcpyHtoD, p, host.data(), 1000);
  DO(cuMemcpyHtoDAsync, p, host.data(), 2000, a);
  DO(cuMemsetD8Async, p, 1, 300, b);
  gpu.launch(a, 3);
  gpu.launch(b, 3);
  gpu.launch(nullptr, 2);
  using launch = CUresult(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream,
                          void**, void**);
  const auto own_default = test_support::resolve<launch*>(false, "cuLaunchKernel_ptsz");
  test_support::must(own_default(gpu.kernel, 7, 1, 1, 32, 1, 1, 0, nullptr, nullptr, nullptr), "cuLaunchKernel_ptsz");
  CUlaunchConfig config{};
  config.gridDimX = 5;
  config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
  config.blockDimX = 64;
  config.hStream = a;
  DO(cuLaunchKernelEx, &config, gpu.kernel, nullptr, nullptr);
  DO(cuMemcpyDtoHAsync, host.data(), p, 64, a);
  std::printf("failed as it should: %d\n",
              static_cast<int>(CU(cuLaunchKernel)(nullptr, 1, 1, 1, 1, 1, 1, 0, a, nullptr, nullptr)));
  synchronize();
}

/// The backend's thread queries events of `busy` while `s` is captured, in the mode that forbids such queries.
void capture() {
  const gpu_device gpu;
  events_made::await();
  const CUstream busy = new_stream(), s = new_stream();
  gpu.launch(busy, 40);
  DO(cuStreamBeginCapture, s, CU_STREAM_CAPTURE_MODE_GLOBAL);
  for (int i = 0; i < 5; ++i) {
    gpu.launch(s, 1);
    ::usleep(10000);
  }
  CUgraph graph{};
  DO(cuStreamEndCapture, s, &graph);
  size_t nodes = 0;
  DO(cuGraphGetNodes, graph, nullptr, &nodes);
  std::printf("%zu nodes\n", nodes);
  CUgraphExec exec{};
  DO(cuGraphInstantiate, &exec, graph, 0);
  for (int i = 0; i < 3; ++i) DO(cuGraphLaunch, exec, s);
  // The legacy stream synchronises with blocking streams, and may not be used while one is captured.
  const CUstream blocking = new_stream(CU_STREAM_DEFAULT);
  DO(cuStreamBeginCapture, blocking, CU_STREAM_CAPTURE_MODE_RELAXED);
  gpu.launch(blocking, 2);
  std::printf("the legacy stream: %d\n",
              static_cast<int>(CU(cuLaunchKernel)(gpu.kernel, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr)) != 0);
  std::printf("ends: %d\n", static_cast<int>(CU(cuStreamEndCapture)(blocking, &graph)) != 0);
  DO(cuStreamSynchronize, s);
  DO(cuStreamSynchronize, busy);
}

/// More contexts, one after the other, than the backend keeps (8); ended with work in flight and without.
void contexts() {
  CUdevice device{};
  DO(cuInit, 0);
  DO(cuDeviceGet, &device, 0);
  for (int i = 0; i < 12; ++i) {
    CUcontext c{};
    DO(cuCtxCreate, &c, nullptr, 0, device);
    const CUfunction kernel = test_support::empty_kernel();
    events_made::await();
    for (int k = 0; k < 5; ++k) DO(cuLaunchKernel, kernel, 1, 1, 1, 32, 1, 1, 0, nullptr, nullptr, nullptr);
    if (i % 2 == 0) synchronize();
    DO(cuCtxDestroy, c);
  }
  for (int i = 0; i < 3; ++i) {
    CUcontext c{};
    DO(cuDevicePrimaryCtxRetain, &c, device);
    DO(cuCtxSetCurrent, c);
    const CUfunction kernel = test_support::empty_kernel();
    events_made::await();
    for (int k = 0; k < 5; ++k) DO(cuLaunchKernel, kernel, 1, 1, 1, 32, 1, 1, 0, nullptr, nullptr, nullptr);
    synchronize();
    DO(cuCtxSetCurrent, nullptr);
    if (i == 1)
      DO(cuDevicePrimaryCtxReset, device);
    else
      DO(cuDevicePrimaryCtxRelease, device);
  }
}

/// What a program can read of its state (errno, context, capture mode) is as without measuring.
void state() {
  const gpu_device gpu;
  events_made::await();
  CUcontext before{}, after{};
  DO(cuCtxGetCurrent, &before);
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
  DO(cuThreadExchangeStreamCaptureMode, &mode);
  errno = 77;
  gpu.launch(nullptr, 50);
  const int kept = errno;
  synchronize();
  DO(cuThreadExchangeStreamCaptureMode, &mode);
  DO(cuCtxGetCurrent, &after);
  std::printf("errno %d, same context %d, mode %d\n", kept, before == after, static_cast<int>(mode));
  std::thread([] {
    CUcontext none{};
    DO(cuCtxGetCurrent, &none);
    std::printf("another thread has %s\n", none == nullptr ? "none" : "one");
  }).join();
}

/// More launches in flight than the backend has events for.
void crowd() {
  const gpu_device gpu;
  events_made::await();
  const CUstream s = new_stream();
  CUdeviceptr p{};
  DO(cuMemAlloc, &p, sizeof(cuuint32_t));
  DO(cuStreamWaitValue32, s, p, 1, CU_STREAM_WAIT_VALUE_EQ);  // the GPU begins when all have been launched
  gpu.launch(s, 9000);
  DO(cuStreamWriteValue32, new_stream(), p, 1, 0);
  DO(cuStreamSynchronize, s);
}

void threads() {
  const gpu_device gpu;
  events_made::await();
  std::vector<std::thread> all;
  for (int i = 0; i < 8; ++i)
    all.emplace_back([&gpu] {
      gpu.use();
      const CUstream s = new_stream();
      for (int k = 0; k < 20; ++k) {
        gpu.launch(s, 10);
        DO(cuStreamSynchronize, s);
      }
      DO(cuStreamDestroy, s);
    });
  for (std::thread& t : all) t.join();
}

/// A stream gives a launch its context where the thread has none.
void no_context() {
  const gpu_device gpu;
  events_made::await();
  const CUstream s = new_stream();
  gpu.launch(s, 5);
  std::thread([&gpu, s] { gpu.launch(s, 10); }).join();
  DO(cuStreamSynchronize, s);
}

void forks() {
  const gpu_device gpu;
  events_made::await();
  gpu.launch(nullptr, 10);
  std::fflush(stdout);
  const pid_t child = ::fork();
  if (child == 0) {
    std::printf("child\n");
    std::exit(3);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  gpu.launch(nullptr, 10);
  synchronize();
  std::printf("child ended with %d\n", WEXITSTATUS(status));
}

/// Work that nobody waits for.
void leaves() {
  const gpu_device gpu;
  events_made::await();
  gpu.launch(nullptr, 20);
}

/// A thread goes on launching while the process ends. The handler stands before the backend's, so that it runs later.
void goes_on() {
  static std::atomic<int> launched{0};
  const auto await_launches = [] {
    for (const int enough = launched + 10; launched < enough;) ::usleep(100);
  };
  std::atexit(await_launches);
  static const gpu_device gpu;
  events_made::await();
  std::thread([] {
    gpu.use();
    for (;; ++launched, ::usleep(100)) CU(cuLaunchKernel)(gpu.kernel, 1, 1, 1, 32, 1, 1, 0, nullptr, nullptr, nullptr);
  }).detach();
  await_launches();
}

/// Copies between the memories of two GPUs.
void peers() {
  const gpu_device first(0), second(1);
  events_made::await(2);
  CUdeviceptr from{}, to{};
  first.use();
  DO(cuMemAlloc, &from, 4096);
  second.use();
  DO(cuMemAlloc, &to, 4096);
  const CUstream s = new_stream();
  DO(cuMemcpyPeerAsync, to, second.context, from, first.context, 4096, s);
  DO(cuMemcpyPeer, to, second.context, from, first.context, 4096);
  synchronize();
}

/// As peers, but the context that is copied from is current to no thread.
void unseen_peer() {
  DO(cuInit, 0);
  CUcontext unseen{}, maker{};
  CUdeviceptr from{}, to{};
  DO(cuDevicePrimaryCtxRetain, &unseen, 0);
  DO(cuCtxCreate, &maker, nullptr, 0, 0);
  DO(cuMemAlloc, &from, 4096);
  const gpu_device second(1);
  events_made::await(2);
  DO(cuMemAlloc, &to, 4096);
  DO(cuMemcpyPeerAsync, to, second.context, from, unseen, 4096, new_stream());
  DO(cuMemcpyPeer, to, second.context, from, unseen, 4096);
  synchronize();
}

/// More work than is waited for, and no exit.
void quits() {
  const gpu_device gpu;
  events_made::await();
  gpu.launch(nullptr, 20);
  gpu.spin(nullptr, 60000000000);
  std::printf("worked\n");
  std::fflush(stdout);
  ::_exit(0);
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, void (*)()> all = {{"streams", streams},
                                                 {"capture", capture},
                                                 {"contexts", contexts},
                                                 {"state", state},
                                                 {"crowd", crowd},
                                                 {"threads", threads},
                                                 {"no_context", no_context},
                                                 {"forks", forks},
                                                 {"leaves", leaves},
                                                 {"quits", quits},
                                                 {"peers", peers},
                                                 {"goes_on", goes_on},
                                                 {"unseen_peer", unseen_peer}};
  const auto which = all.find(argc > 1 ? argv[1] : "");
  if (which == all.end()) return 2;
  events_made::watch();
  which->second();
  std::printf("worked\n");
  return 0;
}
