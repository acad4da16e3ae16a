// SPDX-License-Identifier: Apache-2.0
// End to end: tokens a second of a program that generates text, untraced, traced, under the twin (a bare CUPTI client,
// raw_cupti.hpp) and under other profilers. Two kinds of program: the inference server, which has cutrace's session in
// it, and a script that knows nothing of tracing and gets its tracer by injection.
//
//   token_rate --server COMMAND --twin LIBRARY [...]
//   token_rate --decode COMMAND --twin LIBRARY --inject LIBRARY [...]
//   ... [--rounds N] [--limit SECONDS] [--only NAMES] [--nsys PATH] [--kineto COMMAND] [--pair COMMAND]
//       [--turns COMMAND]
//
// The server is run as it is and with --graphs; the script prints "measured eager R" and "measured graph R" by itself,
// and so does the Kineto command, which is the script under PyTorch's own profiler. The pair command is the script with
// its graph in two instances (cutrace::graph_exec), traced by cutrace with whole graphs. The turns command is the
// script with the twin and cutrace by turns as CUPTI's client in one process; it prints "measured twin.eager R" and so
// on.
#include <cstdio>
#include <fstream>

#include "arguments.hpp"
#include "table.hpp"

namespace {

/// What goes before a command so that it runs as the row says. Where cutrace traces it: with `sink`; if that is empty,
/// with the row's sink; if the row names none, with the null sink.
std::string prefix_of(const bench::configuration& c, const bench::arguments& a, const std::string& folder,
                      const std::string& sink) {
  const bool linked = a.text("--decode").empty();  // the program has a session of its own
  const std::string off = linked ? "CUTRACE=0 " : "", options = std::string(c.environment) + " ";
  switch (c.who) {
    case bench::tracer::none:
      return "env " + off;
    case bench::tracer::twin:
      return "env " + off + options + "CUDA_INJECTION64_PATH=" + a.text("--twin") + " ";
    case bench::tracer::cutrace:
      return "env CUTRACE_SINKS=null " + options + (sink.empty() ? "" : "CUTRACE_SINKS=" + sink + " ") +
             (linked ? "" : "CUDA_INJECTION64_PATH=" + a.text("--inject") + " ");
    case bench::tracer::nsys:
      return "env " + off + bench::nsys_prefix(a.text("--nsys"), c, folder);
    case bench::tracer::records:
    case bench::tracer::spans:
      break;
  }
  std::fprintf(stderr, "%s: not for whole programs\n", c.name);
  std::exit(2);
}

bench::contender contender_of(const bench::configuration& c, const bench::arguments& a, const std::string& folder,
                              const std::string& sink = "") {
  const std::string prefix = prefix_of(c, a, folder, sink);
  const bool wrapped = c.who == bench::tracer::nsys;
  bench::contender who{c.name, {}, c.who == bench::tracer::twin};
  if (!a.text("--decode").empty()) {
    who.jobs.push_back({prefix + a.text("--decode"), "", wrapped});
    return who;
  }
  const std::string server = prefix + a.text("--server");
  // How graphs are recorded changes nothing for a program that has none.
  if (std::strstr(c.name, "-graph") == nullptr) who.jobs.push_back({server, "eager", wrapped});
  who.jobs.push_back({server + " --graphs", "graph", wrapped});
  return who;
}

/// The null sink says nothing of what it was given. So each program is traced once more, unmeasured, with a report,
/// whose line on events and losses is shown. False where there is no report, or no kernel in it: then nothing was
/// traced.
bool prove_tracing(const bench::configuration& c, const bench::arguments& a, const std::string& folder) {
  const std::string page = folder + "/" + c.name + ".txt";
  bool good = true;
  for (const bench::job& j : contender_of(c, a, folder, "ascii:" + page).jobs) {
    std::remove(page.c_str());
    bench::run_child(j, bench::round_options{}.child_limit_s, folder);
    std::ifstream file(page);
    std::string events, kernels;
    for (std::string line; std::getline(file, line);) {
      if (line.rfind("events ", 0) == 0) events = line.substr(7);
      if (kernels.empty() && line.find("GPU at work: kernel") != std::string::npos) kernels = line;
    }
    if (kernels.empty()) good = false;
    std::printf("traced once more with a report, %s%s%s: %s\n", c.name, j.metric.empty() ? "" : " ", j.metric.c_str(),
                events.empty()    ? "NO REPORT, it did not trace"
                : kernels.empty() ? "NO KERNEL in the report"
                                  : events.c_str());
  }
  return good;
}

/// A library that is not there would be passed over in silence by the driver, and the program would run untraced.
void require_library(const bench::arguments& a, const char* option) {
  if (access(a.text(option).c_str(), R_OK) == 0) return;
  std::fprintf(stderr, "%s names no library: '%s'\n", option, a.text(option).c_str());
  std::exit(2);
}

}  // namespace

int main(int argc, char** argv) {
  const bench::arguments a(argc, argv,
                           "--server --decode --twin --inject --rounds --limit --only --nsys --kineto --pair --turns");
  if (a.text("--server").empty() == a.text("--decode").empty()) {
    std::fprintf(stderr, "token_rate: either --server or --decode, please\n");
    return 2;
  }
  require_library(a, "--twin");
  if (a.text("--server").empty()) require_library(a, "--inject");
  bench::rounds r(a.begin());
  const std::vector<const bench::configuration*> rows =
      a.chosen("none,twin,cutrace,twin-graph,cutrace-graph,nsys,nsys-graph");
  std::vector<bench::contender> all;
  for (const bench::configuration* c : rows) all.push_back(contender_of(*c, a, r.folder()));
  if (!a.text("--kineto").empty()) all.push_back({"kineto", {{a.text("--kineto"), "", false}}, true});
  if (!a.text("--pair").empty())
    all.push_back(
        {"cutrace-pair",
         {{prefix_of(*bench::find_configuration("cutrace-graph"), a, r.folder(), "") + a.text("--pair"), "", false}},
         false});
  std::vector<std::string> names;
  for (const bench::contender& c : all) names.push_back(c.name);
  if (!a.text("--turns").empty()) {
    all.push_back({"turns", {{"env CUTRACE_SINKS=null " + a.text("--turns"), "", false}}, true});
    names.insert(names.end(), {"turns twin", "turns cutrace"});
  }
  r.run(all);
  std::printf("tokens a second, and the share of the untraced speed [95 %% interval of the paired ratios]\n");
  bench::print_table(r, {{"eager", "eager", 0}, {"graph", "by CUDA graph", 0}}, bench::beside::share, names);
  using bench::bound;
  bench::print_comparisons(
      r,
      {{"eager, cutrace / twin", "eager", "tok/s", "cutrace", "twin", 0.98, bound::at_least},
       {"eager, cutrace / twin, in one process", "eager", "tok/s", "turns cutrace", "turns twin", 0.98,
        bound::at_least},
       {"eager, cutrace / raw CUPTI", "eager", "tok/s", "cutrace", "raw", 0.94, bound::at_least},
       {"graph, cutrace by node / raw CUPTI", "graph", "tok/s", "cutrace", "raw", 0.94, bound::at_least},
       {"graph, cutrace by node / twin", "graph", "tok/s", "cutrace", "twin", 0.98, bound::at_least},
       {"graph, cutrace by node / twin, in one process", "graph", "tok/s", "turns cutrace", "turns twin", 0.98,
        bound::at_least},
       {"graph, cutrace whole / twin", "graph", "tok/s", "cutrace-graph", "twin-graph", 0.98, bound::at_least},
       {"graph, cutrace whole / untraced", "graph", "tok/s", "cutrace-graph", "none", 0.98, bound::at_least},
       {"graph, one in 100 by node / untraced", "graph", "tok/s", "cutrace-pair", "none", 0.97, bound::at_least},
       {"eager, cutrace / Nsight Systems", "eager", "tok/s", "cutrace", "nsys", 0.97, bound::at_least},
       {"eager, cutrace with Perfetto / Nsight Systems", "eager", "tok/s", "cutrace-perfetto", "nsys", 0.97,
        bound::at_least},
       {"graph, cutrace by node / Nsight by node", "graph", "tok/s", "cutrace", "nsys", 1.0, bound::at_least},
       {"graph, cutrace whole / Nsight whole", "graph", "tok/s", "cutrace-graph", "nsys-graph", 1.0, bound::at_least},
       {"eager, cutrace / Kineto", "eager", "tok/s", "cutrace", "kineto", 1.0, bound::at_least},
       {"graph, cutrace by node / Kineto", "graph", "tok/s", "cutrace", "kineto", 1.0, bound::at_least}});
  r.print_endings();
  bool traced = true;
  for (const bench::configuration* c : rows)
    if (c->who == bench::tracer::cutrace && r.failures(c->name) == 0 && !prove_tracing(*c, a, r.folder()))
      traced = false;
  return r.clean() && traced ? 0 : 1;
}
