// SPDX-License-Identifier: Apache-2.0
// What tracing adds to the replay of a CUDA graph of 1, 10, 100 and 1,000 empty kernels in a chain: wall time of a
// batch of replays and the one synchronisation behind them, over the number of replays. So the GPU's time is in it,
// which tracing by node lengthens; the launch call alone would hide that. The twin is the bare client of CUPTI of
// raw_cupti.hpp, with the records of cutrace and empty callbacks.
//
//   graph_cost [--rounds N] [--limit SECONDS] [--only NAMES] [--nsys PATH] [--shorten N]
//   graph_cost --child CONFIGURATION           one measurement, as the table of configurations.hpp says, or "turns"
#include <map>

#include "arguments.hpp"
#include "calls.hpp"
#include "table.hpp"
#include "traced.hpp"

namespace {

struct size {
  int nodes, replays;
  const char* metric;
};
/// Replays of a batch: 12 to 20 ms of an untraced H200 each.
constexpr size sizes[] = {
    {1, 8000, "graph_1"}, {10, 2500, "graph_10"}, {100, 320, "graph_100"}, {1000, 40, "graph_1000"}};
constexpr int parts = 6;

void replay(const bench::driver& gpu, CUgraphExec exec, int replays) {
  for (int i = 0; i < replays; ++i) gpu.replay(exec);
  gpu.synchronize();
}

/// Returns how many records there must be.
unsigned long long measure(const bench::driver& gpu, const bench::traced& tracing, int shorten) {
  unsigned long long expected = 0;
  for (const size& s : sizes) {
    const CUgraphExec exec = gpu.chain(s.nodes);
    const int replays = s.replays / shorten > 0 ? s.replays / shorten : 1;
    const double ns = bench::measure(parts, replays, [&](int n) {
      if (tracing.staged()) {
        CUTRACE_STAGE("replays", n);  // any number will do as request id
        replay(gpu, exec, n);
      } else {
        replay(gpu, exec, n);
      }
    });
    bench::print_measured(s.metric, ns / 1e3);
    const int records = tracing.whole_graphs() ? 1 : s.nodes;
    expected += static_cast<unsigned long long>(parts) * static_cast<unsigned long long>(replays * records);
  }
  return expected;
}

/// Raw records, the twin and cutrace, all by node, take turns in this process as CUPTI's client, each on graphs of its
/// own: processes differ in how long the GPU takes to record a node, by a tenth and more (834 or 930 us for 1,000).
int take_turns(int shorten) {
  constexpr int turns = 4, parts_of_turn = 3;
  const char* const clients[] = {"records", "twin", "cutrace"};
  std::map<std::string, std::vector<double>> costs;
  bench::driver gpu;
  bench::counted n;
  bool started = false;
  const auto measure = [&](const char* client) {
    if (!started) gpu.start();  // after the first client, as elsewhere
    started = true;
    for (const size& s : sizes) {
      const CUgraphExec exec = gpu.chain(s.nodes);
      const int replays = std::max(1, s.replays / shorten);
      const double ns = bench::measure(parts_of_turn, replays, [&](int count) {
        CUTRACE_STAGE("replays", count);
        replay(gpu, exec, count);
      });
      costs[std::string(client) + "." + s.metric].push_back(ns / 1e3);
      n.expected += static_cast<unsigned long long>(parts_of_turn) * static_cast<unsigned long long>(replays * s.nodes);
      gpu.destroy(exec);
    }
  };
  for (int turn = 0; turn < 3 * turns; ++turn) {
    const int who = (turn % 2 == 0 ? turn : 3 * turns - turn) % 3;
    if (who == 2) {
      cutrace::session_options o;
      o.sinks = "null";
      cutrace::session trace(o);
      measure(clients[who]);
      trace.stop();
      n.add(trace.stats());
      continue;
    }
    bench::raw_cupti raw;
    if (!raw.start(who == 0 ? bench::raw_cupti::form::records : bench::raw_cupti::form::twin)) return 2;
    measure(clients[who]);
    n.add(bench::raw_cupti::finish());
    if (!raw.leave()) return 2;
  }
  for (const auto& c : costs) bench::print_measured(c.first.c_str(), bench::median(c.second));
  n.print();
  return 0;
}

/// The budgets: the same for each size, none for a graph of one node.
void print_budgets(const bench::rounds& r) {
  for (const size& s : sizes) {
    if (s.nodes == 1) continue;
    const std::string nodes = std::to_string(s.nodes) + " nodes: ";
    const auto line = [&](const char* what, const char* ours, const char* reference, double budget) {
      bench::print_comparisons(r, {{(nodes + what).c_str(), s.metric, "us", ours, reference, budget}});
    };
    line("cutrace by node / raw records", "cutrace", "kernels", 1.03);
    line("cutrace by node / twin", "cutrace", "twin", 1.03);
    line("by node in one process, cutrace / raw records", "turns cutrace", "turns records", 1.03);
    line("by node in one process, cutrace / twin", "turns cutrace", "turns twin", 1.03);
    line("cutrace whole / raw records", "cutrace-graph", "kernels-graph", 1.03);
    line("cutrace whole / twin", "cutrace-graph", "twin-graph", 1.03);
    // A speed is the inverse of a time: untraced / traced is the share of the untraced speed.
    bench::print_comparisons(r, {{(nodes + "speed of cutrace whole, of none's").c_str(), s.metric, "us", "none",
                                  "cutrace-graph", 0.98, bench::bound::at_least}});
  }
}

}  // namespace

int main(int argc, char** argv) {
  const bench::arguments a(argc, argv, bench::own_arguments + std::string(" --nsys"));
  if (a.text("--child") == "turns") return take_turns(a.shorten());
  if (!a.text("--child").empty())
    return bench::measure_in_child(a.text("--child"), [&](const bench::driver& gpu, const bench::traced& tracing) {
      return measure(gpu, tracing, a.shorten());
    });
  bench::rounds r(a.begin());
  const std::string only = a.text("--only");
  std::vector<bench::contender> turns;
  if (only.empty() || only == "turns")
    turns.push_back({"turns", {{bench::child_command(a, "turns"), "", false}}, true});
  if (only == "turns")
    r.run(turns);
  else
    bench::run_configurations(r, a, "none,kernels,twin,cutrace,kernels-graph,twin-graph,cutrace-graph,nsys,nsys-graph",
                              turns);
  std::vector<std::string> rows = r.names();
  if (!turns.empty()) {
    rows.pop_back();
    for (const char* client : {"turns records", "turns twin", "turns cutrace"}) rows.emplace_back(client);
  }
  std::printf("us a replay (wall time of a batch with one synchronisation / replays), and what tracing adds\n");
  bench::print_table(r,
                     {{"graph_1", "1 node", 2},
                      {"graph_10", "10 nodes", 2},
                      {"graph_100", "100 nodes", 1},
                      {"graph_1000", "1,000 nodes", 1}},
                     bench::beside::added, rows);
  print_budgets(r);
  r.print_endings();
  return r.clean() ? 0 : 1;
}
