// SPDX-License-Identifier: Apache-2.0
// Hundreds of sessions that begin and end while four threads launch kernels and replay graphs: every record of each is
// delivered or counted, no activity buffer is lost to the pool, and nothing else grows. Then a sink that is slower than
// the GPU: with overflow_policy::drop records are lost and counted, with wait the launching thread waits for it.
//
//   session_cycles [SESSIONS]
#include <cuda.h>
#include <dirent.h>

#include <atomic>
#include <cstdlib>
#include <cutrace/cupti/process_state.hpp>
#include <cutrace/cutrace.hpp>
#include <cutrace/names.hpp>
#include <cutrace/sink.hpp>
#include <string>
#include <thread>
#include <vector>

#include "../support/gpu_program.hpp"
#include "../support/process_memory.hpp"
#include "../support/sanitized.hpp"

namespace {

using test_support::failures;
using test_support::gpu_device;
using test_support::report;

constexpr int thread_count = 4, nodes = 50;

/// A thread's own stream and graph.
struct lane {
  CUstream stream{};
  CUgraphExec exec{};
  CUfunction kernel{};

  explicit lane(const gpu_device& gpu) : kernel(gpu.kernel) {
    CUgraph graph{};
    DO(cuCtxSetCurrent, gpu.context);
    DO(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    DO(cuStreamBeginCapture, stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    launch(nodes);
    DO(cuStreamEndCapture, stream, &graph);
    DO(cuGraphInstantiateWithFlags, &exec, graph, 0);
  }
  void launch(int n) const {
    for (int i = 0; i < n; ++i) DO(cuLaunchKernel, kernel, 1, 1, 1, 32, 1, 1, 0, stream, nullptr, nullptr);
  }
  void step() const {
    CUTRACE_STAGE("step");
    launch(10);
    DO(cuGraphLaunch, exec, stream);
    DO(cuStreamSynchronize, stream);
  }
};

void add_losses(std::uint64_t (&sum)[cutrace::loss_cause_count], const cutrace::stats& s) {
  for (std::size_t i = 0; i < cutrace::loss_cause_count; ++i) sum[i] += s.lost[i];
}
std::string causes(const std::uint64_t (&lost)[cutrace::loss_cause_count]) {
  std::string text;
  for (std::size_t i = 0; i < cutrace::loss_cause_count; ++i)
    if (lost[i] != 0)
      text +=
          ", " + std::to_string(lost[i]) + " lost (" + cutrace::to_string(static_cast<cutrace::loss_cause>(i)) + ")";
  return text.empty() ? ", none lost" : text;
}

std::size_t entries_of(const char* folder) {
  std::size_t n = 0;
  DIR* all = ::opendir(folder);
  while (all != nullptr && ::readdir(all) != nullptr) ++n;
  if (all != nullptr) ::closedir(all);
  return n;
}

struct footprint {
  std::uint64_t resident = test_support::resident_bytes();
  std::size_t threads = entries_of("/proc/self/task");
  std::size_t files = entries_of("/proc/self/fd");
};

constexpr bool resident_memory_is_ours = !sanitized;  // sanitizers keep freed memory, and shadow memory

constexpr std::size_t memory_limit = 16u << 20;

cutrace::session_options null_session() {
  cutrace::session_options o;
  o.sinks = "null";
  o.backend = "cupti";
  o.memory_limit_bytes = memory_limit;
  return o;
}

void many_sessions(const gpu_device& gpu, int sessions) {
  std::atomic<bool> end{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < thread_count; ++i)
    threads.emplace_back([&] {
      const lane mine(gpu);
      while (!end) mine.step();
    });
  const cutrace::cupti::buffer_pool& pool = cutrace::cupti::process_state::get().buffers;
  std::uint64_t kernels = 0, lost[cutrace::loss_cause_count] = {};
  int unbalanced = 0, unreadable = 0, empty = 0;
  footprint warm;
  for (int n = 0; n < sessions; ++n) {
    cutrace::session trace(null_session());
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    trace.stop();
    const cutrace::stats s = trace.stats();
    const std::uint64_t seen = s.by_kind[static_cast<std::size_t>(cutrace::event_kind::kernel)];
    kernels += seen;
    add_losses(lost, s);
    empty += seen == 0 ? 1 : 0;
    unbalanced += s.produced != s.delivered + s.lost_total() ? 1 : 0;
    unreadable += s.lost[static_cast<std::size_t>(cutrace::loss_cause::unknown_record)] != 0 ? 1 : 0;
    if (n == sessions / 10) warm = footprint();
  }
  const footprint after;
  end = true;
  for (std::thread& t : threads) t.join();

  report(kernels != 0, std::to_string(sessions) + " sessions, " + std::to_string(kernels) + " kernels" + causes(lost) +
                           ", " + std::to_string(empty) + " sessions without kernels");
  report(unbalanced == 0, std::to_string(unbalanced) + " sessions where produced is not delivered and lost");
  report(unreadable == 0, std::to_string(unreadable) + " sessions with unreadable records");
  // Buffers that the ended threads still had come back in one more session.
  cutrace::session(null_session()).stop();
  report(pool.out() == 0, std::to_string(pool.out()) + " buffers are out when all is quiet");
  report(pool.bytes() <= pool.limit_bytes(),
         std::to_string(pool.bytes()) + " bytes of buffers, limit " + std::to_string(pool.limit_bytes()));
  report(after.threads <= warm.threads && after.files <= warm.files,
         std::to_string(after.threads) + " threads and " + std::to_string(after.files) + " files, " +
             std::to_string(warm.threads) + " and " + std::to_string(warm.files) + " after the first tenth");
  const std::uint64_t grown = after.resident > warm.resident ? after.resident - warm.resident : 0;
  // On a busy machine cutrace may touch all its memory, up to the limit, only after the first measurement.
  report(!resident_memory_is_ours || grown < memory_limit,
         "resident memory grew by " + std::to_string(grown >> 10) + " KiB after the first tenth");
}

/// Takes a while over each batch of events, like a sink whose disk is busy with other writers.
class slow_sink final : public cutrace::sink {
 public:
  const char* name() const noexcept override { return "slow"; }
  void open(const cutrace::trace_info&) override {}
  void write(cutrace::event_view) override { std::this_thread::sleep_for(std::chrono::milliseconds(30)); }
  void flush() override {}
  void close(const cutrace::trace_summary&) override {}
};

cutrace::stats replay_into_slow_sink(const lane& work, cutrace::overflow_policy policy) {
  cutrace::session_options o = null_session();
  o.memory_limit_bytes = 8u << 20;  // seven activity buffers
  o.overflow = policy;
  o.overflow_wait_us = 60000000;
  cutrace::session trace(o);
  trace.emplace_sink<slow_sink>();
  for (int n = 0; n < 1500; ++n) {
    DO(cuGraphLaunch, work.exec, work.stream);
    if (n % 10 == 9) DO(cuStreamSynchronize, work.stream);
  }
  DO(cuStreamSynchronize, work.stream);
  trace.stop();
  return trace.stats();
}

void slow_sinks(const gpu_device& gpu) {
  const lane work(gpu);
  const auto lost_to_buffers = static_cast<std::size_t>(cutrace::loss_cause::buffer_limit);
  const cutrace::stats dropped = replay_into_slow_sink(work, cutrace::overflow_policy::drop);
  report(dropped.lost[lost_to_buffers] != 0 && dropped.produced == dropped.delivered + dropped.lost_total(),
         "a slow sink, drop: " + std::to_string(dropped.delivered) + " delivered, " +
             std::to_string(dropped.lost[lost_to_buffers]) + " lost for want of buffers");
  const cutrace::stats waited = replay_into_slow_sink(work, cutrace::overflow_policy::wait);
  const std::uint64_t kernels = waited.by_kind[static_cast<std::size_t>(cutrace::event_kind::kernel)];
  report(kernels == 1500u * nodes && waited.lost_total() == 0, "a slow sink, wait: " + std::to_string(kernels) +
                                                                   " kernels of 1500 replays of " +
                                                                   std::to_string(nodes) + causes(waited.lost));
}

}  // namespace

int main(int argc, char** argv) {
  const int sessions = argc > 1 ? std::atoi(argv[1]) : 300;
  const gpu_device gpu;
  slow_sinks(gpu);  // first: with few buffers, since the pool never shrinks
  many_sessions(gpu, sessions);
  return failures;
}
