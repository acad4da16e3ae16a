// SPDX-License-Identifier: Apache-2.0
// Programs that are slow, or idle, but alive: a watchdog with a bound of two seconds has nothing to say. Each takes
// some five seconds (with the environment variable STUCK_LONG the first one twenty).
#pragma once

#include "gpu.hpp"

namespace stuck {
namespace alive {

constexpr int nearly = 1600;  ///< ms, below the bound; the stand-in and a GPU under load are not exact
inline void sync(CUstream s) { MUST(cuStreamSynchronize, s); }
inline std::chrono::steady_clock::time_point in_ms(int n) {
  return std::chrono::steady_clock::now() + std::chrono::milliseconds(n);
}
inline bool before(const std::chrono::steady_clock::time_point& t) { return std::chrono::steady_clock::now() < t; }
/// As a server does between requests.
inline void idle() { pause_ms(3800); }

/// 200 kernels of 20 ms (1,000 with STUCK_LONG), launched ahead without a wait between them.
inline void ahead(gpu& g) {
  STUCK_DECODE;
  g.many_busy(g.stream, std::getenv("STUCK_LONG") != nullptr ? 1000 : 200, 20 * ms);
  sync(g.stream);
}
inline void long_kernels(gpu& g) {
  STUCK_DECODE;
  g.many_busy(g.stream, 2, nearly * ms);
  g.many_busy(g.stream, 10, 1 * ms);
  sync(g.stream);
}
inline void idle_after_event_wait(gpu& g) {
  const CUstream other = gpu::make_stream();
  const CUevent done = gpu::make_event(), never_recorded = gpu::make_event();
  STUCK_DECODE;
  g.many_busy(other, 3, 5 * ms);
  MUST(cuEventRecord, done, other);
  g.many_busy(g.stream, 3, 1 * ms);
  MUST(cuStreamWaitEvent, g.stream, done, 0);
  MUST(cuStreamWaitEvent, other, never_recorded, 0);
  idle();
}
inline void idle_after_host_function(gpu& g) {
  STUCK_DECODE;
  g.many_busy(g.stream, 3, 5 * ms);
  MUST(
      cuLaunchHostFunc, g.stream, [](void*) { pause_ms(20); }, nullptr);
  idle();
}
inline void idle_after_event_record(gpu& g) {
  STUCK_DECODE;
  g.many_busy(g.stream, 3, 5 * ms);
  MUST(cuEventRecord, gpu::make_event(), g.stream);
  idle();
}
inline void idle_after_value_write(gpu& g) {
  STUCK_DECODE;
  g.many_busy(g.stream, 3, 5 * ms);
  MUST(cuStreamWriteValue32, g.stream, g.word(0), 1, 0);
  idle();
}
/// All was waited for; work comes again after a while.
inline void idle_between_requests(gpu& g) {
  for (int i = 0; i < 2; ++i) {
    STUCK_DECODE;
    g.many_busy(g.stream, 20, 5 * ms);
    sync(g.stream);
    pause_ms(2200);
  }
}
/// Launched last, waited for never, and done long ago.
inline void idle_without_a_wait(gpu& g) {
  STUCK_DECODE;
  g.many_busy(g.stream, 20, 1 * ms);
  idle();
}
inline void value_comes(gpu& g) {
  STUCK_DECODE;
  const gpu::pinned_words flag = gpu::pinned();
  for (std::uint32_t i = 1; i <= 2; ++i) {
    MUST(cuStreamWaitValue32, g.stream, flag.device, i, CU_STREAM_WAIT_VALUE_GEQ);
    g.many_busy(g.stream, 5, 1 * ms);
    pause_ms(1500);
    flag.host[0] = i;
    sync(g.stream);
  }
}
inline void slow_host_function(gpu& g) {
  STUCK_DECODE;
  for (int i = 0; i < 2; ++i) {
    MUST(
        cuLaunchHostFunc, g.stream, [](void*) { pause_ms(1500); }, nullptr);
    g.many_busy(g.stream, 5, 1 * ms);
  }
  sync(g.stream);
}
/// Pinned and not; the stand-in's are smaller, so that a busy machine can copy them, too.
inline void copies(gpu& g) {
  const std::size_t bytes = std::size_t{g.standin ? 32u : 256u} << 20;
  CUdeviceptr device{};
  void* pinned = nullptr;
  MUST(cuMemAlloc, &device, bytes);
  MUST(cuMemHostAlloc, &pinned, bytes, 0);
  std::vector<char> pageable(bytes);
  STUCK_DECODE;
  for (const auto end = in_ms(2800); before(end);) {
    MUST(cuMemcpyHtoDAsync, device, pinned, bytes, g.stream);
    MUST(cuMemcpyDtoHAsync, pinned, device, bytes, g.stream);
    MUST(cuMemcpyHtoD, device, pageable.data(), bytes);
    sync(g.stream);
  }
}
/// A debugger stops the process while kernels are queued.
inline void stopped(gpu& g) {
  STUCK_DECODE;
  g.many_busy(g.stream, 30, 50 * ms);
  const std::string pid = std::to_string(::getpid());
  const std::string command = "(kill -STOP " + pid + "; sleep 5; kill -CONT " + pid + ") &";
  if (std::system(command.c_str()) != 0) std::exit(2);
  pause_ms(100);
  g.many_busy(g.stream, 30, 10 * ms);
  sync(g.stream);
}
inline void short_lived_streams(gpu& g) {
  STUCK_DECODE;
  for (const auto end = in_ms(3000); before(end);) {
    const CUstream s = gpu::make_stream();
    g.many_busy(s, 3, 2 * ms);
    MUST(cuStreamDestroy, s);  // its work goes on
    pause_ms(1);
  }
  synchronize_all();
}
/// Handles of streams and events are destroyed and given out again.
inline void handles(gpu& g) {
  STUCK_DECODE;
  for (const auto end = in_ms(3000); before(end);) {
    const CUstream s = gpu::make_stream();
    const CUevent e = gpu::make_event();
    g.many_busy(s, 2, 3 * ms);
    MUST(cuEventRecord, e, s);
    MUST(cuStreamWaitEvent, g.stream, e, 0);
    MUST(cuEventDestroy, e);
    MUST(cuStreamDestroy, s);
    g.many_busy(g.stream, 1, 1 * ms);
    if (std::rand() % 8 == 0) sync(g.stream);
  }
  sync(g.stream);
}
inline void graphs_ahead(gpu& g) {
  const CUgraphExec exec = g.chain(10, 2 * ms, nullptr, nullptr);
  STUCK_DECODE;
  for (int i = 0; i < 150; ++i) MUST(cuGraphLaunch, exec, g.stream);
  sync(g.stream);
}
/// The legacy default stream waits for blocking ones, and they for it.
inline void legacy(gpu& g) {
  const CUstream blocking = gpu::make_stream(CU_STREAM_DEFAULT);
  STUCK_DECODE;
  for (int i = 0; i < 50; ++i) {
    g.many_busy(blocking, 1, 20 * ms);
    g.many_busy(CU_STREAM_LEGACY, 1, 20 * ms);
    g.many_busy(g.stream, 1, 20 * ms);
  }
  synchronize_all();
  MUST(cuMemsetD32, g.word(0), 0, 1);
  pause_ms(1000);
}
inline void event_synchronize(gpu& g) {
  const CUevent done = gpu::make_event();
  STUCK_DECODE;
  for (int i = 0; i < 2; ++i) {
    g.many_busy(g.stream, 1, 1500 * ms);
    MUST(cuEventRecord, done, g.stream);
    std::thread waits([&] {
      g.use();
      MUST(cuEventSynchronize, done);
    });
    waits.join();
  }
}
/// Calls into a stream that captures for longer than the bound are no work.
inline void long_capture(gpu& g) {
  CUgraph graph{};
  CUgraphExec exec{};
  const CUstream other = gpu::make_stream();
  STUCK_DECODE;
  MUST(cuStreamBeginCapture, g.stream, CU_STREAM_CAPTURE_MODE_RELAXED);
  for (int i = 0; i < 30; ++i) {
    g.many_busy(g.stream, 1, 1 * ms);
    g.many_busy(other, 1, 1 * ms);
    pause_ms(100);
  }
  MUST(cuStreamEndCapture, g.stream, &graph);
  MUST(cuGraphInstantiateWithFlags, &exec, graph, 0);
  MUST(cuGraphLaunch, exec, g.stream);
  sync(g.stream);
}
/// A stream of low priority gets no room for a while.
inline void starved(gpu& g) {
  CUstream low{}, high{};
  MUST(cuStreamCreateWithPriority, &low, CU_STREAM_NON_BLOCKING, 0);
  MUST(cuStreamCreateWithPriority, &high, CU_STREAM_NON_BLOCKING, -5);
  std::uint64_t ns = 20 * ms;
  void* p[] = {&ns};
  STUCK_DECODE;
  g.set_duration("busy", ns);
  for (int i = 0; i < 75; ++i) must(g.launch("busy", high, p, 4096), "cuLaunchKernel");
  g.many_busy(low, 5, 1 * ms);
  sync(low);
  sync(high);
}
/// CUTRACE_WATCHDOG=2s,except=persistent
inline void excepted(gpu& g) {
  gpu::pinned_words stop = gpu::pinned();
  void* p[] = {&stop.device};
  g.set_duration("persistent", 4000 * ms);
  STUCK_DECODE;
  must(g.launch("persistent", g.stream, p), "cuLaunchKernel");
  const CUstream other = gpu::make_stream();
  for (const auto end = in_ms(3800); before(end); pause_ms(10)) g.many_busy(other, 1, 1 * ms);
  stop.host[0] = 1;
  sync(g.stream);
}
/// A thread waits for a long queue, in which something ends all the time.
inline void long_wait(gpu& g) {
  STUCK_DECODE;
  g.many_busy(g.stream, 350, 10 * ms);
  sync(g.stream);
}
/// Two streams hand each other values.
inline void values_in_turn(gpu& g) {
  const CUstream s[2] = {g.stream, gpu::make_stream()};
  STUCK_DECODE;
  for (std::uint32_t i = 1; i <= 15; ++i)
    for (int k = 0; k < 2; ++k) {
      MUST(cuStreamWaitValue32, s[k], g.word(k), k == 0 ? i - 1 : i, CU_STREAM_WAIT_VALUE_GEQ);
      g.many_busy(s[k], 1, 100 * ms);
      MUST(cuStreamWriteValue32, s[k], g.word(1 - k), i, 0);
    }
  sync(s[0]);
  sync(s[1]);
}
/// Eight streams, each of which waits for the one before.
inline void ring_of_events(gpu& g) {
  std::vector<CUstream> s;
  for (int i = 0; i < 8; ++i) s.push_back(gpu::make_stream());
  STUCK_DECODE;
  for (int i = 0; i < 80; ++i) {
    const CUevent e = gpu::make_event();
    const CUstream from = s[static_cast<std::size_t>(i) % 8], to = s[static_cast<std::size_t>(i + 1) % 8];
    g.many_busy(from, 1, 40 * ms);
    MUST(cuEventRecord, e, from);
    MUST(cuStreamWaitEvent, to, e, 0);
  }
  synchronize_all();
}
/// A stage of the host that takes long, and nothing on the GPU.
inline void host_work(gpu& g) {
  g.many_busy(g.stream, 3, 1 * ms);
  sync(g.stream);
  STUCK_DECODE;
  for (const auto end = in_ms(3800); before(end);) continue;
}
/// Memory in the order of the stream.
inline void pools(gpu& g) {
  STUCK_DECODE;
  for (const auto end = in_ms(3000); before(end); pause_ms(5)) {
    CUdeviceptr p{};
    MUST(cuMemAllocAsync, &p, 1 << 20, g.stream);
    MUST(cuMemsetD8Async, p, 0, 1 << 20, g.stream);
    g.many_busy(g.stream, 1, 4 * ms);
    MUST(cuMemFreeAsync, p, g.stream);
  }
  sync(g.stream);
}

constexpr program all[] = {{"ahead", &ahead},
                           {"long-kernels", &long_kernels},
                           {"idle-after-event-wait", &idle_after_event_wait},
                           {"idle-after-host-function", &idle_after_host_function},
                           {"idle-after-event-record", &idle_after_event_record},
                           {"idle-after-value-write", &idle_after_value_write},
                           {"idle-between-requests", &idle_between_requests},
                           {"idle-without-a-wait", &idle_without_a_wait},
                           {"value-comes", &value_comes},
                           {"slow-host-function", &slow_host_function},
                           {"copies", &copies},
                           {"stopped", &stopped},
                           {"short-lived-streams", &short_lived_streams},
                           {"handles", &handles},
                           {"graphs-ahead", &graphs_ahead},
                           {"legacy", &legacy},
                           {"event-synchronize", &event_synchronize},
                           {"long-capture", &long_capture},
                           {"starved", &starved},
                           {"excepted", &excepted},
                           {"long-wait", &long_wait},
                           {"values-in-turn", &values_in_turn},
                           {"ring-of-events", &ring_of_events},
                           {"host-work", &host_work},
                           {"pools", &pools}};

}  // namespace alive
}  // namespace stuck
