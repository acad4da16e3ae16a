// SPDX-License-Identifier: Apache-2.0
// What it costs to ask CUPTI for records often (flush_period_ms): steps of an engine that launches many small kernels,
// copies and waits in between, and replays of a graph. Sessions of each period take turns in one process, in an order
// drawn for each round; the longest period, which hardly comes up in a turn, is what the others are compared with.
//
//   flush_cost [--rounds N] [--periods MS,MS,...] [--turn MS] [--kinds CUTRACE_KINDS]
#include <algorithm>
#include <map>
#include <random>

#include "arguments.hpp"
#include "segments.hpp"
#include "traced.hpp"

namespace {

constexpr int kernels_a_step = 250, kernels_a_wait = 20;
constexpr double budget = 1.005;

/// As an engine that synchronises for each part of a layer.
void step(const bench::driver& gpu) {
  gpu.copy();
  for (int i = 1; i <= kernels_a_step; ++i) {
    gpu.launch();
    if (i % kernels_a_wait == 0) gpu.synchronize();
  }
  gpu.copy();
}

using costs = std::map<unsigned, std::vector<double>>;  // by period, ns of an operation in each round

void print(const char* what, const costs& all) {
  const std::vector<double>& reference = all.rbegin()->second;
  for (const auto& one : all) {
    const std::string label = std::string(what) + ", each " + std::to_string(one.first) + " ms";
    if (&one.second != &reference) bench::print_verdict(label.c_str(), one.second, reference, "ns", budget);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const bench::arguments a(argc, argv, "--rounds --periods --turn --kinds");
  const int rounds = static_cast<int>(a.number("--rounds", 100));
  const auto turn_ns = static_cast<std::uint64_t>(a.number("--turn", 200) * 1e6);
  std::vector<unsigned> periods;
  for (const std::string& p : a.list("--periods", "5,10,20,50,100,1000"))
    periods.push_back(static_cast<unsigned>(std::atoi(p.c_str())));
  bench::print_machine();
  bench::forget_environment();
  if (!a.text("--kinds").empty()) setenv("CUTRACE_KINDS", a.text("--kinds").c_str(), 1);

  bench::driver gpu;
  CUgraphExec graph = nullptr;
  costs steps, replays;
  std::mt19937 random{std::random_device{}()};
  unsigned long long lost = 0;
  for (int round = 0; round < rounds; ++round) {
    std::shuffle(periods.begin(), periods.end(), random);
    for (const unsigned period : periods) {
      cutrace::session_options o;
      o.sinks = "null";
      o.window_ms = 5000;  // room for the longest period
      o.flush_period_ms = period;
      cutrace::session trace(o);
      if (graph == nullptr) {  // CUDA starts after the first session
        gpu.start();
        bench::stay_on_processor();
        graph = gpu.chain(kernels_a_step);
      }
      const auto cost = [&](auto one) {
        bench::repeat_for(gpu, turn_ns / 10, 1, one);
        const bench::spent s = bench::repeat_for(gpu, turn_ns, 1, one);
        return static_cast<double>(s.ns) / static_cast<double>(s.operations);
      };
      steps[period].push_back(cost([&] { step(gpu); }));
      replays[period].push_back(cost([&] { gpu.replay(graph); }));
      trace.stop();
      lost += trace.stats().lost_total();
    }
  }
  print("step of an engine", steps);
  print("replay of a graph", replays);
  std::printf("%llu lost\n", lost);
  return lost == 0 ? 0 : 1;
}
