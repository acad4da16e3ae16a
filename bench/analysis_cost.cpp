// SPDX-License-Identifier: Apache-2.0
// What all analyses together cost: ns and bytes an event, as the trace grows.
//
//   analysis_cost [--rounds N] [--events N]      sizes 10^5, 10^6 and 10^7 by default
//
// Events come from the same made-up server as in sink_cost, through a session, so they have their real form. "feed" is
// the time inside of trace_analysis::add, "finish" that of sealing and of all results and findings, both CPU time of
// one thread. "kept" is what the log says it holds, "peak" how far the process grew from before the first event until
// after the results. Each measurement is a process of its own.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <cutrace/backend.hpp>
#include <cutrace/cutrace.hpp>
#include <cutrace/sink.hpp>
#include <thread>
#include <vector>

#include "report/findings.hpp"
#include "support/launch_mix.hpp"
#include "support/pairs.hpp"

namespace {

constexpr double budget_ns = 200, budget_bytes = 60;

double cpu_ns() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
}
double peak_bytes() {
  rusage u{};
  getrusage(RUSAGE_SELF, &u);
  return static_cast<double>(u.ru_maxrss) * 1024;
}

/// On the collector's thread, so without a thread between.
class feeding : public cutrace::sink {
 public:
  explicit feeding(cutrace::analysis::trace_analysis& to) : to_(to) {}
  const char* name() const noexcept override { return "analysis"; }
  void write(cutrace::event_view events) override {
    const double begin = cpu_ns();
    for (const cutrace::event& e : events) to_.add(e);
    ns += cpu_ns() - begin;
    count += events.size;
  }
  double ns = 0;
  std::uint64_t count = 0;

 private:
  cutrace::analysis::trace_analysis& to_;
};

struct outcome {
  double events, feed_ns, finish_ns, kept, peak;
  std::uint64_t operations, gaps, lost;
};

outcome measure(std::uint64_t events) {
  cutrace::analysis::trace_analysis analysis;
  outcome o{};
  double before = 0;
  {
    cutrace::session_options options;
    options.backend = "none";
    options.sinks = "null";
    options.overflow = cutrace::overflow_policy::wait;
    options.overflow_wait_us = 60000000;
    bench::launch_mix mix;
    cutrace::session trace(options);
    feeding& sink = trace.emplace_sink<feeding>(analysis);
    trace.add_backend(mix);
    trace.flush();
    before = peak_bytes();
    std::vector<std::thread> threads;
    for (std::uint64_t i = 0; i < 2; ++i)
      threads.emplace_back([&mix, events, i] {
        bench::launch_mix::thread one(mix, 7 + i);
        for (std::uint64_t n = 0; n < events / bench::launch_mix::events_a_step / 2; ++n) one.step(n);
      });
    for (std::thread& t : threads) t.join();
    trace.stop();
    o.events = static_cast<double>(sink.count);
    o.feed_ns = sink.ns;
    o.lost = trace.stats().lost_total();
  }
  const double begin = cpu_ns();
  const cutrace::analysis::trace_results results = analysis.finish();
  const std::size_t found = cutrace::analysis::find_findings(analysis.log(), results).size();
  o.finish_ns = cpu_ns() - begin;
  o.kept = static_cast<double>(analysis.log().memory_bytes());
  o.peak = peak_bytes() - before;
  o.operations = results.numbers.gpu_operations;
  o.gaps = results.idle.all.count + found;
  return o;
}

/// In a process of its own: the largest memory of a process never shrinks.
bool measure_alone(std::uint64_t events, outcome& o) {
  int ends[2];
  if (pipe(ends) != 0) return false;
  const pid_t child = fork();
  if (child == 0) {
    const outcome mine = measure(events);
    _exit(write(ends[1], &mine, sizeof(mine)) == static_cast<ssize_t>(sizeof(mine)) ? 0 : 1);
  }
  close(ends[1]);
  const bool whole = child > 0 && read(ends[0], &o, sizeof(o)) == static_cast<ssize_t>(sizeof(o));
  close(ends[0]);
  int status = 0;
  return child > 0 && waitpid(child, &status, 0) == child && status == 0 && whole;
}

}  // namespace

int main(int argc, char** argv) {
  int rounds = 5;
  std::vector<std::uint64_t> sizes = {100000, 1000000, 10000000};
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--rounds") == 0) rounds = std::atoi(argv[i + 1]);
    if (std::strcmp(argv[i], "--events") == 0) sizes = {std::strtoull(argv[i + 1], nullptr, 10)};
  }
  bench::print_machine();
  std::vector<std::vector<double>> feed(sizes.size()), finish(sizes.size()), kept(sizes.size()), peak(sizes.size());
  std::vector<double> all_ns, all_bytes;
  for (int round = 0; round < rounds; ++round)
    for (std::size_t s = 0; s < sizes.size(); ++s) {
      outcome o{};
      if (!measure_alone(sizes[s], o) || o.events <= 0 || o.lost > 0 || o.operations == 0) {
        std::printf("a measurement failed or lost events\n");
        return 1;
      }
      feed[s].push_back(o.feed_ns / o.events);
      finish[s].push_back(o.finish_ns / o.events);
      kept[s].push_back(o.kept / o.events);
      peak[s].push_back(o.peak / o.events);
      if (s + 1 != sizes.size()) continue;
      all_ns.push_back((o.feed_ns + o.finish_ns) / o.events);
      all_bytes.push_back(o.kept / o.events);
    }
  std::printf("\nall analyses together, an event; medians\n%12s %10s %10s %10s %12s %12s\n", "events", "feed", "finish",
              "together", "kept", "peak");
  for (std::size_t s = 0; s < sizes.size(); ++s)
    std::printf("%12llu %7.0f ns %7.0f ns %7.0f ns %8.1f B %8.1f B\n", static_cast<unsigned long long>(sizes[s]),
                bench::median(feed[s]), bench::median(finish[s]), bench::median(feed[s]) + bench::median(finish[s]),
                bench::median(kept[s]), bench::median(peak[s]));
  bench::print_verdict("all analyses, CPU an event", all_ns, std::vector<double>(all_ns.size(), budget_ns), "ns", 1.0);
  bench::print_verdict("all analyses, bytes kept an event", all_bytes,
                       std::vector<double>(all_bytes.size(), budget_bytes), "B", 1.0);
  return 0;
}
