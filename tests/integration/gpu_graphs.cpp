// SPDX-License-Identifier: Apache-2.0
// A CUDA graph reported node by node and as a whole, and the choice of kinds. One session a process, since whole graphs
// can be had only before CUDA starts. Runs on the stand-in driver in each test run and on a real one in tests/gpu/run.
//
//   gpu_graphs early|late KERNELS REPLAYS    what the trace must hold: kernel events, events of whole replays
#include <cuda.h>

#include <cstdio>
#include <cstdlib>
#include <cutrace/cutrace.hpp>
#include <memory>
#include <string>

#include "../support/gpu_program.hpp"

namespace {

constexpr int nodes = 5, replays = 10, alone = 3;

struct graph_work {
  test_support::gpu_device device;
  CUstream stream{};
  CUgraphExec exec{};
  CUdeviceptr memory = 0;

  graph_work() {
    DO(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    DO(cuMemAlloc, &memory, 4096);
    DO(cuStreamBeginCapture, stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    launch(nodes);
    CUgraph graph{};
    DO(cuStreamEndCapture, stream, &graph);
    DO(cuGraphInstantiateWithFlags, &exec, graph, 0);
  }
  void launch(int n) { device.launch(stream, n); }
  void run() {
    CUTRACE_STAGE("replay");
    for (int i = 0; i < replays; ++i) DO(cuGraphLaunch, exec, stream);
    launch(alone);
    DO(cuMemsetD8Async, memory, 0, 4096, stream);
    DO(cuStreamSynchronize, stream);
  }
};

std::uint64_t count(const cutrace::stats& s, cutrace::event_kind k) { return s.by_kind[static_cast<std::size_t>(k)]; }

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const bool early = std::string(argv[1]) == "early";
  std::unique_ptr<graph_work> gpu;
  if (!early) {
    gpu.reset(new graph_work);
    gpu->run();  // before the session: with GRAPH_TRACE on, CUPTI would crash in its next replay
  }
  cutrace::session_options o;
  o.backend = "cupti";
  cutrace::session trace(o);
  if (early) gpu.reset(new graph_work);
  gpu->run();
  trace.stop();
  const cutrace::stats s = trace.stats();
  const std::uint64_t kernels = count(s, cutrace::event_kind::kernel);
  const std::uint64_t graphs = count(s, cutrace::event_kind::graph_launch);
  std::printf(
      "%s: %llu kernels, %llu replays, %llu memsets, %llu memory events, %llu without a call, %llu lost\n", argv[1],
      static_cast<unsigned long long>(kernels), static_cast<unsigned long long>(graphs),
      static_cast<unsigned long long>(count(s, cutrace::event_kind::memset)),
      static_cast<unsigned long long>(count(s, cutrace::event_kind::memory)),
      static_cast<unsigned long long>(s.unattributed_by[static_cast<std::size_t>(cutrace::attribution::no_callback)]),
      static_cast<unsigned long long>(s.lost_total()));
  const bool as_wanted =
      kernels == std::strtoull(argv[2], nullptr, 10) && graphs == std::strtoull(argv[3], nullptr, 10);
  return as_wanted && s.lost_total() == 0 && s.produced == s.delivered ? 0 : 1;
}
