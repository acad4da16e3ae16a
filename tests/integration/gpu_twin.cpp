// SPDX-License-Identifier: Apache-2.0
// cutrace::graph_exec: single replays recorded node by node, with a second instance of the graph (its twin), while the
// first one is never recorded so and other threads launch and make graphs. One scenario a process, since records of
// whole graphs can be had only before CUDA starts. Runs on the stand-in driver in each test run and on a real one in
// tests/gpu/run.
//
//   gpu_twin untraced|whole|windows|blocked [LAUNCHES]
#include <cuda.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cutrace/cutrace.hpp>
#include <cutrace/graph_exec.hpp>
#include <cutrace/sinks/memory.hpp>
#include <cutrace/window.hpp>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "../support/gpu_program.hpp"
#include "../support/gpu_session.hpp"

namespace {

using test_support::patient_session;
using test_support::report;

constexpr int nodes = 12, other_nodes = 7;

struct graph_work {
  test_support::gpu_device device;
  CUstream stream() const {
    CUstream s{};
    DO(cuStreamCreate, &s, CU_STREAM_NON_BLOCKING);
    return s;
  }
  CUgraph chain(int n) const {
    CUgraph g{};
    CUgraphNode last{};
    DO(cuGraphCreate, &g, 0);
    CUDA_KERNEL_NODE_PARAMS p{};
    p.func = device.kernel;
    p.gridDimX = p.gridDimY = p.gridDimZ = p.blockDimX = p.blockDimY = p.blockDimZ = 1;
    for (int i = 0; i < n; ++i) {
      CUgraphNode node{};
      DO(cuGraphAddKernelNode, &node, g, i != 0 ? &last : nullptr, i != 0 ? 1 : 0, &p);
      last = node;
    }
    return g;
  }
  CUgraphExec instance(CUgraph g) const {
    CUgraphExec x{};
    DO(cuGraphInstantiateWithFlags, &x, g, 0);
    return x;
  }
};

/// Replays as the trace gives them, by executable graph.
struct replays {
  std::map<std::uint32_t, std::uint64_t> whole, kernels;
  std::uint64_t plain = 0;  ///< kernels of no graph

  explicit replays(const std::vector<cutrace::event>& events) {
    for (const cutrace::event& e : events) {
      if (e.kind == cutrace::event_kind::graph_launch) ++whole[e.kernel.graph_id];
      if (e.kind != cutrace::event_kind::kernel) continue;
      if (e.kernel.graph_id != 0)
        ++kernels[e.kernel.graph_id];
      else
        ++plain;
    }
  }
  std::uint64_t both_ways() const {
    std::uint64_t n = 0;
    for (const auto& k : kernels) n += whole.count(k.first);
    return n;
  }
  static std::uint64_t sum(const std::map<std::uint32_t, std::uint64_t>& of) {
    std::uint64_t n = 0;
    for (const auto& one : of) n += one.second;
    return n;
  }
  std::string text() const {
    return std::to_string(sum(whole)) + " replays of " + std::to_string(whole.size()) + " graphs as a whole, " +
           std::to_string(sum(kernels)) + " kernels of " + std::to_string(kernels.size()) + " graphs by node, " +
           std::to_string(plain) + " kernels alone";
  }
};

bool nothing_lost(const cutrace::stats& s) { return s.produced == s.delivered && s.lost_total() == 0; }

/// Threads that launch kernels and graphs of their own, and make graphs.
struct others {
  std::atomic<bool> end{false};
  std::atomic<std::uint64_t> kernels{0}, graphs{0};
  std::vector<std::thread> threads;

  explicit others(const graph_work& gpu) {
    for (int i = 0; i < 3; ++i)
      threads.emplace_back([this, &gpu, i] {
        gpu.device.use();
        const CUstream s = gpu.stream();
        const CUgraph g = gpu.chain(other_nodes);
        CUgraphExec x = gpu.instance(g);
        for (int step = 0; !end; ++step) {
          if (i == 0) {
            gpu.device.launch(s, 10);
            kernels += 10;
          } else {
            DO(cuGraphLaunch, x, s);
            ++graphs;
          }
          if (step % 8 == 7) DO(cuStreamSynchronize, s);
          if (i == 2 && step % 8 == 7) {
            DO(cuGraphExecDestroy, x);
            x = gpu.instance(g);
          }
          std::this_thread::sleep_for(std::chrono::microseconds(200));
        }
        DO(cuStreamSynchronize, s);
      });
  }
  void join() {
    end = true;
    for (std::thread& t : threads) t.join();
  }
};

void untraced(int launches) {
  const graph_work gpu;
  const CUgraph g = gpu.chain(nodes);
  const CUstream s = gpu.stream();
  int made = 0, launched = 0;
  cutrace::graph_exec step([&] { return ++made, gpu.instance(g); }, 10);
  for (int i = 0; i < launches; ++i) launched += step.launch([&](CUgraphExec x) { return DO(cuGraphLaunch, x, s), 1; });
  DO(cuStreamSynchronize, s);
  step.each([](CUgraphExec x) { DO(cuGraphExecDestroy, x); });
  report(made == 1 && !step.has_twin() && launched == launches, "untraced, there is no second instance");
}

void whole(int launches) {
  cutrace::memory_sink sink(std::size_t{1} << 30);
  cutrace::session trace(patient_session());
  trace.add_sink(sink);
  const graph_work gpu;
  const CUgraph g = gpu.chain(nodes);
  const CUstream s = gpu.stream();
  others load(gpu);
  cutrace::graph_exec step([&] { return gpu.instance(g); }, 20);
  std::map<CUgraphExec, std::uint64_t> launched;
  for (int i = 0; i < launches; ++i) {
    CUTRACE_STAGE("step", i);
    try {
      step.launch([&](CUgraphExec x) {
        // Every other time at the turn of the second instance.
        if (i % 50 == 19) throw std::runtime_error("of the program");
        DO(cuGraphLaunch, x, s);
        ++launched[x];
      });
    } catch (const std::runtime_error&) {
    }
    if (i % 4 == 3) DO(cuStreamSynchronize, s);
  }
  DO(cuStreamSynchronize, s);
  load.join();
  trace.stop();
  const replays r(sink.events());
  std::uint64_t of_first = 0, of_twin = 0;
  step.each([&](CUgraphExec x) {
    (x == launched.begin()->first || launched.size() == 1 ? of_first : of_twin) = launched[x];
    DO(cuGraphExecDestroy, x);
  });
  if (of_first < of_twin) std::swap(of_first, of_twin);
  const bool right = step.has_twin() && of_twin != 0 && r.both_ways() == 0 && r.kernels.size() == 1 &&
                     replays::sum(r.kernels) == of_twin * nodes && replays::sum(r.whole) == of_first + load.graphs &&
                     r.plain == load.kernels && nothing_lost(trace.stats());
  report(right, "one replay in 20 by node, three threads beside",
         r.text() + "; launched " + std::to_string(of_first) + " + " + std::to_string(load.graphs) + " as a whole, " +
             std::to_string(of_twin) + " by node, " + std::to_string(load.kernels) + " kernels; lost " +
             std::to_string(trace.stats().lost_total()));
}

/// Graphs by node: in windows the second instance, between them the first.
void windows(int launches) {
  cutrace::memory_sink sink(std::size_t{1} << 30);
  cutrace::session trace(patient_session("requests"));
  trace.add_sink(sink);
  const graph_work gpu;
  const CUgraph g = gpu.chain(nodes);
  std::atomic<std::uint64_t> in_windows{0};
  std::atomic<bool> mixed{false}, slow{false};
  cutrace::graph_exec step([&] { return gpu.instance(g); });
  CUgraphExec first{};
  step.each([&](CUgraphExec x) { first = first == nullptr ? x : first; });
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      gpu.device.use();
      const CUstream s = gpu.stream();
      for (int i = 0; i < launches / 10; ++i) {
        const cutrace::window recorded(trace, t == 0 && i % 5 == 0, 10000);
        step.launch([&](CUgraphExec x) {
          const auto begin = std::chrono::steady_clock::now();
          DO(cuGraphLaunch, x, s);
          if (std::chrono::steady_clock::now() - begin > std::chrono::microseconds(900)) slow = true;
          if (recorded.open()) mixed = mixed || x == first;
        });
        if (recorded.open()) ++in_windows;
        DO(cuStreamSynchronize, s);
      }
    });
  for (std::thread& t : threads) t.join();
  trace.stop();
  const replays r(sink.events());
  const std::uint64_t kernels = replays::sum(r.kernels);
  step.each([](CUgraphExec x) { DO(cuGraphExecDestroy, x); });
  // A launch that takes longer than a millisecond may be cut at the edge of a window (docs/sampling.md).
  const bool whole_replays = slow || kernels % nodes == 0;
  report(
      step.has_twin() && !mixed && r.kernels.size() == 1 && whole_replays && kernels >= in_windows * nodes &&
          in_windows != 0 && r.whole.empty() && nothing_lost(trace.stats()),
      "windows by node",
      r.text() + "; " + std::to_string(in_windows) + " launches in windows" + (slow ? ", one took a millisecond" : ""));
}

/// A launch that waits for another thread's: nobody waits for ever, and graphs are reported by node from there on.
void blocked(int) {
  cutrace::memory_sink sink(std::size_t{1} << 30);
  static std::string said;
  cutrace::session_options o = patient_session();
  o.on_error = [](const char*, const char* message, void*) { said += message; };
  cutrace::session trace(o);
  trace.add_sink(sink);
  const graph_work gpu;
  const CUgraph g = gpu.chain(nodes), small = gpu.chain(other_nodes);
  const CUstream s = gpu.stream(), beside = gpu.stream();
  const CUgraphExec other = gpu.instance(small);
  cutrace::graph_exec step([&] { return gpu.instance(g); }, 2);
  for (int i = 0; i < 6; ++i)
    step.launch([&](CUgraphExec x) {
      if (i == 1) {
        std::thread t([&] {
          gpu.device.use();
          DO(cuGraphLaunch, gpu.instance(small),
             beside);  // made while GRAPH_TRACE is off: if it were switched on again, CUPTI would crash this program
          DO(cuGraphLaunch, other, beside);
        });
        t.join();
      }
      DO(cuGraphLaunch, x, s);
    });
  DO(cuStreamSynchronize, s);
  DO(cuStreamSynchronize, beside);
  trace.stop();
  const replays r(sink.events());
  report(r.whole.size() == 1 && replays::sum(r.whole) == 1 && replays::sum(r.kernels) == 5 * nodes + 2 * other_nodes &&
             said.find("node by node") != std::string::npos && nothing_lost(trace.stats()),
         "a launch that waits for another thread's", r.text() + "; said: " + said);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string scenario = argc > 1 ? argv[1] : "";
  const int launches = argc > 2 ? std::atoi(argv[2]) : 1000;
  if (scenario == "untraced") untraced(launches);
  if (scenario == "whole") whole(launches);
  if (scenario == "windows") windows(launches);
  if (scenario == "blocked") blocked(launches);
  return test_support::failures;
}
