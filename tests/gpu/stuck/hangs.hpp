// SPDX-License-Identifier: Apache-2.0
// Programs that hang for ever, until somebody kills them.
#pragma once

#include <condition_variable>

#include "gpu.hpp"

namespace stuck {
namespace hangs {

inline void well_before(gpu& g, CUstream s) {
  STUCK_PREFILL;
  g.many_busy(s, 30, 100 * us);
  MUST(cuStreamSynchronize, s);
}
inline void some_behind(gpu& g, CUstream s) {
  STUCK_PREFILL;
  g.many_busy(s, 5, 100 * us);
}
inline void wait_for_ever(CUstream s) {
  expect_in_call("cuStreamSynchronize");
  CALL(cuStreamSynchronize)(s);
}
inline void spin_in_decode(gpu& g, CUstream s) {
  STUCK_DECODE;
  expect(g, s, "kernel", "spin", "cuLaunchKernel");
  g.spin(s);
}

inline void spin(gpu& g) {
  well_before(g, g.stream);
  spin_in_decode(g, g.stream);
  some_behind(g, g.stream);
  wait_for_ever(g.stream);
}

/// A stream waits for a value that never comes.
inline void value(gpu& g) {
  well_before(g, g.stream);
  {
    STUCK_DECODE;
    expect(g, g.stream, "wait_value", "", "cuStreamWaitValue32");
    MUST(cuStreamWaitValue32, g.stream, g.word(0), 1, CU_STREAM_WAIT_VALUE_EQ);
  }
  some_behind(g, g.stream);
  wait_for_ever(g.stream);
}

/// A stream waits for an event of a stuck one.
inline void event(gpu& g) {
  const CUstream first = gpu::make_stream();
  const CUevent e = gpu::make_event();
  well_before(g, first);
  well_before(g, g.stream);
  spin_in_decode(g, first);
  MUST(cuEventRecord, e, first);
  {
    STUCK_DECODE;
    expect(g, g.stream, "wait_event", "", "cuStreamWaitEvent");
    MUST(cuStreamWaitEvent, g.stream, e, 0);
  }
  some_behind(g, g.stream);
  wait_for_ever(g.stream);
}

/// A thread holds a mutex and waits for a second thread, which needs this mutex to launch. Nothing of CUDA's is
/// unfinished.
inline void deadlock_host(gpu& g) {
  static std::mutex access;
  static std::condition_variable launched;
  well_before(g, g.stream);
  std::unique_lock<std::mutex> hold(access);
  std::thread([&g] {
    g.use();
    STUCK_DECODE;
    const std::lock_guard<std::mutex> wants(access);
    g.busy(g.stream, 1000);
  }).detach();
  STUCK_DECODE;
  say("nothing of CUDA's hangs");
  for_ever();  // as if it waited for the other thread without giving the mutex back
}

/// A thread waits for a stuck stream and holds a mutex that another one wants.
inline void deadlock_sync(gpu& g) {
  static std::mutex access;
  well_before(g, g.stream);
  spin_in_decode(g, g.stream);
  std::unique_lock<std::mutex> hold(access);
  std::thread([&g] {
    g.use();
    const std::lock_guard<std::mutex> wants(access);
    some_behind(g, g.stream);
  }).detach();
  wait_for_ever(g.stream);
}

/// A host function wants a mutex that the thread holds which waits for its stream.
inline void deadlock_function(gpu& g) {
  static std::mutex access;
  well_before(g, g.stream);
  access.lock();
  {
    STUCK_DECODE;
    expect(g, g.stream, "host_function", "", "cuLaunchHostFunc");
    MUST(
        cuLaunchHostFunc, g.stream, [](void*) { const std::lock_guard<std::mutex> wants(access); }, nullptr);
  }
  some_behind(g, g.stream);
  wait_for_ever(g.stream);
}

/// A launch does not return: the queue is full behind a kernel that never ends.
inline void deadlock_launch(gpu& g) {
  well_before(g, g.stream);
  spin_in_decode(g, g.stream);
  g.many_busy(g.stream, 10, 100 * us);
  expect_in_call("cuLaunchKernel");
  g.fault("cuLaunchKernel=hang");  // the stand-in's queue has no end
  for (;;) g.many_busy(g.stream, 1, 100 * us);
}

/// A call of the driver that does not return, and nothing on the GPU: a real driver cannot be made to.
inline void call(gpu& g) {
  if (!g.standin) {
    say("skipped: only the stand-in driver has a call that hangs");
    std::exit(77);
  }
  well_before(g, g.stream);
  g.fault("cuMemAlloc_v2=hang");
  STUCK_DECODE;
  std::printf(
      "expects {\"work\":\"call\",\"call\":\"cuMemAlloc\",\"tid\":%ld,\"stream\":-1,\"stage\":\"decode\","
      "\"requests\":[1,2,3,4]}\n",
      thread_id());
  expect_in_call("cuMemAlloc");
  CUdeviceptr p{};
  CALL(cuMemAlloc)(&p, 64);
}

/// Two kernels of two streams, each of which waits for what the other one sets at its end.
inline void flags(gpu& g) {
  const CUstream streams[2] = {g.stream, gpu::make_stream()};
  for (const CUstream s : streams) well_before(g, s);
  g.fault("hang:relay,hang:relay@2");
  {
    STUCK_DECODE;
    for (int i = 0; i < 2; ++i) {
      CUdeviceptr theirs = g.word(i), mine = g.word(1 - i);
      void* p[] = {&theirs, &mine};
      expect(g, streams[i], "kernel", "relay", "cuLaunchKernel");
      must(g.launch("relay", streams[i], p), "cuLaunchKernel");
    }
  }
  some_behind(g, streams[1]);
  wait_for_ever(streams[0]);
}

/// The seventh node of a graph never ends, after replays in which it did.
inline void graph(gpu& g) {
  CUdeviceptr flag = g.word(0);
  void* p[] = {&flag};
  const CUgraphExec exec = g.chain(10, 100 * us, "spin", p);
  MUST(cuMemsetD32, flag, 1, 1);
  {
    STUCK_PREFILL;
    for (int i = 0; i < 8; ++i) MUST(cuGraphLaunch, exec, g.stream);
    MUST(cuMemsetD32Async, flag, 0, 1, g.stream);
    MUST(cuStreamSynchronize, g.stream);
  }
  {
    STUCK_DECODE;
    expect(g, g.stream, "kernel", "spin", "cuGraphLaunch");
    g.fault("hang:spin");
    MUST(cuGraphLaunch, exec, g.stream);
  }
  some_behind(g, g.stream);
  wait_for_ever(g.stream);
}

constexpr program all[] = {{"spin", &spin},
                           {"value", &value},
                           {"event", &event},
                           {"flags", &flags},
                           {"graph", &graph},
                           {"deadlock-sync", &deadlock_sync},
                           {"deadlock-function", &deadlock_function},
                           {"deadlock-launch", &deadlock_launch},
                           {"deadlock-host", &deadlock_host},
                           {"call", &call}};

}  // namespace hangs
}  // namespace stuck
