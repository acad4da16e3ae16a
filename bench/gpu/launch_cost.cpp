// SPDX-License-Identifier: Apache-2.0
// What tracing adds to the calls of a program: a kernel launch, a small copy, a synchronisation, an allocation. One
// process a measurement; the configurations (configurations.hpp) take turns, and each round gives one pair for any two
// of them that are compared. "twin" is raw CUPTI with the records that cutrace has, "callbacks" raw CUPTI with kernel
// records; both have empty callbacks.
//
//   launch_cost [--rounds N] [--limit SECONDS] [--only NAMES] [--nsys PATH] [--kineto COMMAND] [--runtime LIBCUDART]
//               [--shorten N]
//   launch_cost --child CONFIGURATION          one measurement, as the table of configurations.hpp says
//
// COMMAND measures the same loops of driver calls, never shortened: "python3 kineto.py LIBRARY", where LIBRARY is
// liblaunch_loop.so. It is run again, untraced, with "none" behind it, since a call from a Python process does not cost
// the same. With LIBCUDART the other configurations make calls of the runtime API. --shorten divides the number of
// calls, to try out the program.
#include "arguments.hpp"
#include "calls.hpp"
#include "runtime_calls.hpp"
#include "table.hpp"
#include "traced.hpp"

namespace {

/// A budget on what tracing adds to a launch, besides those on the whole time of a launch: the ratio of two
/// differences, each to the untraced run of its round.
void print_added(const bench::rounds& r, const char* what, const char* theirs, const char* their_base) {
  const bench::paired cutrace = r.pairs("launch", "cutrace", "none"), other = r.pairs("launch", theirs, their_base);
  if (cutrace.ours.empty() || cutrace.ours.size() != other.ours.size()) return;
  std::vector<double> we_add, they_add;
  for (std::size_t i = 0; i < cutrace.ours.size(); ++i) {
    we_add.push_back(cutrace.ours[i] - cutrace.reference[i]);
    they_add.push_back(other.ours[i] - other.reference[i]);
  }
  bench::print_verdict(what, we_add, they_add, "ns", std::strcmp(theirs, "kineto") == 0 ? 1.0 : 1.15);
}

}  // namespace

int main(int argc, char** argv) {
  const bench::arguments a(argc, argv, bench::own_arguments + std::string(" --nsys --kineto --runtime"));
  if (!a.text("--child").empty())
    return bench::measure_in_child(a.text("--child"), [&](const bench::driver& gpu, const bench::traced& tracing) {
      const std::string library = a.text("--runtime");
      const bench::call_costs costs = library.empty() ? bench::measure_calls(gpu, tracing.staged(), a.shorten())
                                                      : bench::measure_calls(bench::runtime_calls(library.c_str(), gpu),
                                                                             tracing.staged(), a.shorten());
      bench::print_costs(costs);
      return costs.launches;
    });
  bench::rounds r(a.begin());
  std::vector<bench::contender> others;
  const std::string kineto = a.text("--kineto");
  if (!kineto.empty()) {
    others.push_back({"kineto", {{kineto, "", true}}, true});
    others.push_back({"kineto-off", {{kineto + " none", "", true}}, false});
  }
  bench::run_configurations(r, a,
                            "none,kernels,callbacks,twin,cutrace,twin-graph,cutrace-graph,twin-memory,cutrace-memory,"
                            "nsys",
                            others);
  std::printf("ns each, and what tracing adds [95 %% interval of the paired differences]\n");
  bench::print_table(r,
                     {{"launch", "launch of an empty kernel", 0},
                      {"copy", "copy of 4 KiB to the GPU", 0},
                      {"synchronise", "synchronise, idle stream", 0},
                      {"allocate", "allocate and free, async", 0}},
                     bench::beside::added);
  bench::print_comparisons(
      r, {{"launch, cutrace / kernels + callbacks", "launch", "ns", "cutrace", "callbacks", 1.15},
          {"launch, cutrace / its twin", "launch", "ns", "cutrace", "twin", 1.15},
          {"launch, cutrace / bare kernel records", "launch", "ns", "cutrace", "kernels", 0},
          {"launch, cutrace with runtime names / without", "launch", "ns", "cutrace-runtime", "cutrace", 0},
          {"copy, cutrace with runtime names / without", "copy", "ns", "cutrace-runtime", "cutrace", 0},
          {"launch, cutrace / Nsight Systems", "launch", "ns", "cutrace", "nsys", 1.0},
          {"launch, cutrace / Kineto", "launch", "ns", "cutrace", "kineto", 1.0},
          {"copy, cutrace / its twin", "copy", "ns", "cutrace", "twin", 0},
          {"synchronise, cutrace / its twin", "synchronise", "ns", "cutrace", "twin", 0},
          {"allocate, cutrace / its twin, +memory", "allocate", "ns", "cutrace-memory", "twin-memory", 0}});
  print_added(r, "launch, cutrace adds / callbacks add", "callbacks", "none");
  print_added(r, "launch, cutrace adds / its twin adds", "twin", "none");
  print_added(r, "launch, cutrace adds / Kineto adds", "kineto", "kineto-off");
  r.print_endings();
  return r.clean() ? 0 : 1;
}
