// SPDX-License-Identifier: Apache-2.0
// What tracing adds to a kernel launch. One process a measurement, since CUPTI leaves a residue when it is switched
// off; the configurations alternate, and each round gives one pair.
//
//   launch_cost [--rounds N] [--nsys PATH] [--kineto COMMAND]    a table
//   launch_cost --child CONFIGURATION                            one measurement: ns a launch
//
// COMMAND prints one line as a child does: "python3 kineto.py LIBRARY". It is run again with "none" behind it, since a
// launch from a Python process does not cost the same.
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <cutrace/cutrace.hpp>
#include <map>
#include <memory>
#include <string>

#include "launch_loop.hpp"
#include "raw_cupti.hpp"

namespace {

int child(const std::string& configuration) {
  bench::raw_cupti raw;
  std::unique_ptr<cutrace::session> trace;
  const bool is_raw = configuration == "kernels" || configuration == "callbacks";
  if (is_raw && !raw.start(true, configuration == "callbacks")) return 2;
  if (configuration == "callbacks-only" && !raw.start(false, true)) return 2;
  if (configuration == "cutrace") {
    cutrace::session_options options;
    options.sinks = "null";
    trace.reset(new cutrace::session(options));
  }
  bench::driver gpu;
  gpu.start();
  const double ns = bench::measure_launches(gpu, configuration == "cutrace");
  unsigned long long records = 0, lost = 0;
  if (is_raw) records = bench::raw_cupti::finish();
  if (trace != nullptr) {
    trace->stop();
    records = trace->stats().by_kind[static_cast<std::size_t>(cutrace::event_kind::kernel)];
    lost = trace->stats().lost_total();
  }
  std::printf("%.2f %llu %llu\n", ns, records, lost);
  return 0;
}

struct outcome {
  double ns = -1;
  unsigned long long records = 0, lost = 0;
};

/// Runs this program, or `wrapper` with it, and reads the line that the child prints.
outcome run(const std::string& command) {
  outcome o;
  std::FILE* pipe = popen((command + " 2>/dev/null").c_str(), "r");
  if (pipe == nullptr) return o;
  char line[512];
  while (std::fgets(line, sizeof(line), pipe) != nullptr) {
    double ns = 0;
    unsigned long long records = 0, lost = 0;
    if (std::sscanf(line, "%lf %llu %llu", &ns, &records, &lost) == 3) o = {ns, records, lost};
  }
  pclose(pipe);
  return o;
}

std::string command_of(const std::string& name, const std::string& self, const std::string& nsys,
                       const std::string& kineto) {
  if (name == "nsys")
    return nsys + " profile -t cuda --force-overwrite true -o /tmp/cutrace-bench-nsys " + self + " --child none";
  if (name == "kineto") return kineto;
  if (name == "kineto-off") return kineto + " none";
  return self + " --child " + name;
}

}  // namespace

int main(int argc, char** argv) {
  int rounds = 11;
  std::string nsys, kineto;
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::strcmp(argv[i], "--child") == 0) return child(argv[i + 1]);
    if (std::strcmp(argv[i], "--rounds") == 0) rounds = std::atoi(argv[i + 1]);
    if (std::strcmp(argv[i], "--nsys") == 0) nsys = argv[i + 1];
    if (std::strcmp(argv[i], "--kineto") == 0) kineto = argv[i + 1];
  }
  char self[4096] = {};
  if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0) return 2;
  bench::print_machine();
  std::vector<std::string> names = {"none", "kernels", "callbacks", "cutrace"};
  if (!nsys.empty()) names.push_back("nsys");
  if (!kineto.empty()) names.insert(names.end(), {"kineto", "kineto-off"});
  std::map<std::string, std::vector<double>> ns;
  unsigned long long lost = 0, records = 0;
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t k = 0; k < names.size(); ++k) {
      const std::string& n = names[(k + static_cast<std::size_t>(round)) % names.size()];
      const std::string command = command_of(n, self, nsys, kineto);
      const outcome o = run(command);
      if (o.ns < 0) {
        std::printf("%s failed: run it by hand to see why\n", command.c_str());
        if (n == "nsys" || n == "kineto" || n == "kineto-off") continue;
        return 1;
      }
      ns[n].push_back(o.ns);
      if (n == "cutrace") lost += o.lost, records += o.records;
    }
  }
  for (const std::string& n : names)
    if (!ns[n].empty())
      std::printf("%-12s %9.1f ns a launch  (%.1f to %.1f)\n", n.c_str(), bench::median(ns[n]),
                  bench::percentile(ns[n], 0), bench::percentile(ns[n], 1));
  bench::print_verdict("cutrace in full / kernels + empty callbacks", ns["cutrace"], ns["callbacks"], "ns", 1.15);
  bench::print_verdict("cutrace in full / bare kernel records", ns["cutrace"], ns["kernels"], "ns", 99);
  // The budget is on what is added, too: differences to the untraced run of the same round.
  std::vector<double> ours, twin;
  for (std::size_t i = 0; i < ns["none"].size(); ++i) {
    ours.push_back(ns["cutrace"][i] - ns["none"][i]);
    twin.push_back(ns["callbacks"][i] - ns["none"][i]);
  }
  bench::print_verdict("what it adds / what the twin adds", ours, twin, "ns", 1.15);
  if (ns["nsys"].size() == ns["cutrace"].size())
    bench::print_verdict("cutrace in full / Nsight Systems", ns["cutrace"], ns["nsys"], "ns", 1.0);
  if (ns["kineto"].size() == ns["cutrace"].size())
    bench::print_verdict("cutrace in full / Kineto", ns["cutrace"], ns["kineto"], "ns", 1.0);
  if (ns["kineto"].size() == ns["none"].size() && ns["kineto-off"].size() == ns["none"].size()) {
    std::vector<double> theirs;
    for (std::size_t i = 0; i < ns["none"].size(); ++i) theirs.push_back(ns["kineto"][i] - ns["kineto-off"][i]);
    bench::print_verdict("what it adds / what Kineto adds", ours, theirs, "ns", 1.0);
  }
  std::printf("kernel records %llu, expected %llu, lost %llu\n", records,
              static_cast<unsigned long long>(rounds) * bench::launches * bench::parts, lost);
  return 0;
}
