// SPDX-License-Identifier: Apache-2.0
// What an event costs from the chunk (the buffer that a thread fills) to the file: CPU time of the collector's thread
// and bytes, for each sink, as the trace grows. The budgets are on collecting, and on what uncompressed Chrome JSON and
// Perfetto traces add to it.
//
//   sink_cost [--rounds N] [--sink NAME]... [--events N]     all sinks and three sizes by default
//
// Two threads offer records as fast as the collector takes them, so it is never idle; "events/s" is what a trace can
// hold without loss. Files go to a folder under TMPDIR (or /tmp) and are removed.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <cutrace/backend.hpp>
#include <cutrace/cutrace.hpp>
#include <cutrace/sink.hpp>
#include <cutrace/sinks/memory.hpp>
#include <string>
#include <thread>

#include "support/launch_mix.hpp"
#include "support/pairs.hpp"

namespace {

constexpr int producers = 2;
constexpr double null_budget_ns = 100, chrome_budget_ns = 250, perfetto_budget_ns = 100;  ///< of the sink alone

struct subject {
  const char* name;
  const char* specification;                                      ///< %s: the file
  std::vector<std::vector<double>> cpu_ns = {}, per_second = {};  ///< by size
  std::vector<double> bytes = {};
};

struct outcome {
  double cpu_ns, bytes, per_second;
  bool complete;
};

double file_bytes(const std::string& path) {
  struct stat s {};
  return stat(path.c_str(), &s) == 0 ? static_cast<double>(s.st_size) : 0;
}

void offer(bench::launch_mix& mix, std::uint64_t events) {
  const std::uint64_t steps = events / bench::launch_mix::events_a_step / producers;
  std::vector<std::thread> threads;
  for (int i = 0; i < producers; ++i)
    threads.emplace_back([&mix, steps, i] {
      bench::launch_mix::thread one(mix, 7 + static_cast<std::uint64_t>(i));
      for (std::uint64_t n = 0; n < steps; ++n) one.step(n);
    });
  for (std::thread& t : threads) t.join();
}

outcome measure(const subject& what, std::uint64_t events, const std::string& folder) {
  std::string path = folder + "/trace";
  char sinks[512];
  std::snprintf(sinks, sizeof(sinks), what.specification, path.c_str());
  if (std::strstr(sinks, ".gz") != nullptr) path += ".gz";
  cutrace::session_options options;
  options.backend = "none";
  options.sinks = sinks;
  options.overflow = cutrace::overflow_policy::wait;
  options.overflow_wait_us = 60000000;
  bench::launch_mix mix;
  cutrace::session trace(options);
  cutrace::memory_sink* memory = nullptr;
  if (std::strcmp(what.name, "memory") == 0) memory = &trace.emplace_sink<cutrace::memory_sink>(std::size_t{4} << 30);
  trace.add_backend(mix);
  trace.flush();
  const cutrace::stats before = trace.stats();
  const std::uint64_t begin = cutrace::clock::monotonic_ns();
  offer(mix, events);
  trace.stop();
  const double wall_s = static_cast<double>(cutrace::clock::monotonic_ns() - begin) * 1e-9;
  const cutrace::stats after = trace.stats();
  const double n = static_cast<double>(after.delivered - before.delivered);
  const double bytes = memory != nullptr ? static_cast<double>(memory->bytes()) : file_bytes(path);
  unlink(path.c_str());
  const std::uint64_t unattributed = after.quality_of[static_cast<std::size_t>(cutrace::quality::unattributed)];
  return {static_cast<double>(after.collector_cpu_ns - before.collector_cpu_ns) / n, bytes / n, n / wall_s,
          after.lost_total() == 0 && unattributed == 0 && after.produced == after.delivered};
}

void print_table(const std::vector<subject>& subjects, const std::vector<std::uint64_t>& sizes) {
  std::printf("\ncollector's CPU time in ns an event, by events of the trace; medians\n%-18s", "sink");
  for (const std::uint64_t n : sizes) std::printf(" %9llu", static_cast<unsigned long long>(n));
  std::printf("   growth   sink alone   bytes/event    events/s\n");
  double base = 0;  // collecting alone: the null sink
  for (const subject& s : subjects) {
    std::printf("%-18s", s.name);
    for (const std::vector<double>& ns : s.cpu_ns) std::printf(" %9.0f", bench::median(ns));
    const double last = bench::median(s.cpu_ns.back());
    if (std::strcmp(s.name, "null") == 0) base = last;
    std::printf("   x %4.2f   %10.0f   %11.1f   %9.0f\n", last / bench::median(s.cpu_ns.front()), last - base,
                bench::median(s.bytes), bench::median(s.per_second.back()));
  }
}

/// What collecting costs, and what a sink adds to it in the same round.
void print_verdicts(const std::vector<subject>& subjects) {
  const std::vector<double>* collecting = nullptr;
  for (const subject& s : subjects) {
    const bool null = std::strcmp(s.name, "null") == 0, chrome = std::strcmp(s.name, "chrome") == 0;
    if (null) collecting = &s.cpu_ns.back();
    if (collecting == nullptr || (!null && !chrome && std::strcmp(s.name, "perfetto") != 0)) continue;
    std::vector<double> ns = s.cpu_ns.back();
    for (std::size_t i = 0; !null && i < ns.size(); ++i) ns[i] -= (*collecting)[i];
    const double budget = null ? null_budget_ns : chrome ? chrome_budget_ns : perfetto_budget_ns;
    bench::print_verdict((std::string(s.name) + (null ? ", CPU an event" : " alone, CPU an event")).c_str(), ns,
                         std::vector<double>(ns.size(), budget), "ns", 1.0);
  }
}

}  // namespace

int main(int argc, char** argv) {
  int rounds = 5;
  std::vector<std::string> only;
  std::vector<std::uint64_t> sizes = {10000, 100000, 1000000};
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--rounds") == 0) rounds = std::atoi(argv[i + 1]);
    if (std::strcmp(argv[i], "--sink") == 0) only.push_back(argv[i + 1]);
    if (std::strcmp(argv[i], "--events") == 0) sizes = {std::strtoull(argv[i + 1], nullptr, 10)};
  }
  std::vector<subject> subjects = {{"null", "null"},
                                   {"memory", ""},
                                   {"ascii", "ascii:%s"},
                                   {"calls", "calls:%s"},
                                   {"calls, no file", "calls:/dev/null"},
                                   {"jsonl", "jsonl:%s"},
                                   {"jsonl, no file", "jsonl:/dev/null"},
                                   {"jsonl paired", "jsonl:%s?form=paired"},
                                   {"prometheus", "prometheus:%s"},
                                   {"html", "html:%s"},
                                   {"chrome", "chrome:%s"},
                                   {"chrome, no file", "chrome:/dev/null"},  // what of it is not the file system
                                   {"perfetto", "perfetto:%s"},
                                   {"perfetto, no file", "perfetto:/dev/null"},
                                   {"perfetto, args", "perfetto:%s?arguments=yes"},
                                   {"calls.gz", "calls:%s.gz"},
                                   {"jsonl.gz", "jsonl:%s.gz"},
                                   {"chrome.gz", "chrome:%s.gz"},
                                   {"perfetto.gz", "perfetto:%s.gz"}};
  for (std::size_t i = subjects.size(); !only.empty() && i-- > 0;)
    if (std::find(only.begin(), only.end(), subjects[i].name) == only.end())
      subjects.erase(subjects.begin() + static_cast<std::ptrdiff_t>(i));
  const char* temporary = std::getenv("TMPDIR");
  std::string folder = std::string(temporary != nullptr ? temporary : "/tmp") + "/cutrace-sink-cost-XXXXXX";
  if (subjects.empty() || mkdtemp(&folder[0]) == nullptr) return 2;
  bench::print_machine();
  bool complete = true;
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t size = 0; size < sizes.size(); ++size) {
      for (subject& s : subjects) {  // side by side, so that all meet the same clock speed
        s.cpu_ns.resize(sizes.size());
        s.per_second.resize(sizes.size());
        const outcome o = measure(s, sizes[size], folder);
        complete = complete && o.complete;
        s.cpu_ns[size].push_back(o.cpu_ns);
        s.per_second[size].push_back(o.per_second);
        if (size + 1 == sizes.size()) s.bytes.push_back(o.bytes);
      }
    }
  }
  rmdir(folder.c_str());
  print_table(subjects, sizes);
  print_verdicts(subjects);
  if (!complete) std::printf("events were lost or not attributed: the figures are void\n");
  return complete ? 0 : 1;
}
