// SPDX-License-Identifier: Apache-2.0
// What cutrace::graph_exec costs: replays of a graph like a decode step of GPT-2's size (250 kernels of some
// microseconds in a chain), each waited for, as a decode loop that reads each token does, and ten launched ahead.
// Untraced; each replay recorded as a whole; and one in 100 recorded node by node, by the second instance. Over the
// rounds each is measured for a minute and more.
//
//   instances_cost [--rounds N] [--limit SECONDS] [--shorten N]
//   instances_cost --child none|whole|mixed          one measurement
#include <cutrace/graph_exec.hpp>
#include <memory>

#include "arguments.hpp"
#include "calls.hpp"
#include "counted.hpp"
#include "table.hpp"
#include "traced.hpp"

namespace {

constexpr int nodes = 250, one_in = 100, parts = 7, replays = 600;

int child(const std::string& name, int shorten) {
  std::unique_ptr<cutrace::session> trace;
  if (name == "whole" || name == "mixed") {
    setenv("CUTRACE_GRAPHS", "graph", 1);
    cutrace::session_options o;
    o.sinks = "null";
    trace.reset(new cutrace::session(o));
  } else if (name != "none") {
    std::fprintf(stderr, "there is no contender %s\n", name.c_str());
    return 2;
  }
  bench::driver gpu;
  gpu.start();
  std::uint64_t cycles = 5500;  // 3 us of an H200, and about 0.5 to begin each kernel
  void* parameters[] = {&cycles};
  const CUgraph graph = gpu.graph(nodes, gpu.busy_kernel(), parameters);
  cutrace::graph_exec step([&] { return gpu.instance(graph); }, name == "mixed" ? one_in : 0);
  const int each = std::max(one_in, replays / shorten);
  const auto measure = [&](const char* metric, int ahead) {
    const double ns = bench::measure(parts, each, [&](int n) {
      for (int i = 0; i < n; ++i) {
        CUTRACE_STAGE("step", i);
        step.launch([&](CUgraphExec x) { gpu.replay(x); });
        if (i % ahead == ahead - 1) gpu.synchronize();
      }
    });
    bench::print_measured(metric, ns / 1e3);
  };
  measure("step", 1);
  measure("ahead", 10);
  if (trace == nullptr) return 0;
  trace->stop();
  bench::counted n;
  n.add(trace->stats());
  const unsigned long long all = 2 * static_cast<unsigned long long>(parts) * static_cast<unsigned long long>(each);
  const unsigned long long by_node = name == "mixed" ? all / one_in : 0;
  n.expected = all - by_node + by_node * nodes;
  n.print();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const bench::arguments a(argc, argv, bench::own_arguments);
  if (!a.text("--child").empty()) return child(a.text("--child"), a.shorten());
  bench::rounds r(a.begin());
  std::vector<bench::contender> all;
  for (const char* name : {"none", "whole", "mixed"})
    all.push_back({name, {{bench::child_command(a, name), "", false}}, std::string(name) != "none"});
  r.run(all);
  std::printf("us a replay of %d kernels, median of %d parts of %d in each process\n", nodes, parts - 1,
              std::max(one_in, replays / a.shorten()));
  bench::print_table(r, {{"step", "each waited for", 1}, {"ahead", "ten launched ahead", 1}}, bench::beside::added);
  // A speed is the inverse of a time: untraced / traced is the share of the untraced speed.
  for (const auto& [metric, how] : {std::pair("step", "waited for"), std::pair("ahead", "launched ahead")}) {
    const auto line = [&, metric = metric, how = how](const char* what, const char* ours, const char* reference,
                                                      double budget) {
      const std::string label = std::string(how) + ": " + what;
      bench::print_comparisons(r, {{label.c_str(), metric, "us", ours, reference, budget, bench::bound::at_least}});
    };
    line("speed, one in 100 by node, of none's", "none", "mixed", 0.97);
    line("speed, all as a whole, of none's", "none", "whole", 0.98);
    line("speed, one in 100 by node, of all as a whole", "whole", "mixed", 0);
  }
  r.print_endings();
  return r.clean() ? 0 : 1;
}
