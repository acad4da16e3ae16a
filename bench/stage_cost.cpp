// SPDX-License-Identifier: Apache-2.0
// What a marker costs, beside the raw clock reads that it cannot do without. Stages are written in bursts that fit the
// pool while the collector runs, so that no figure hides a full pool.
#include <cutrace/cutrace.hpp>
#include <cutrace/sink.hpp>

#include <cstring>

#include "support/pairs.hpp"

namespace {

constexpr int burst = 50000;
constexpr int pairs = 41;

struct counting_sink : cutrace::sink {
  std::uint64_t seen = 0;
  void write(cutrace::event_view events) override { seen += events.size; }
};

template <class Work>
double ns_each(Work work) {
  const std::uint64_t begin = cutrace::clock::monotonic_ns();
  for (int i = 0; i < burst; ++i) work(i);
  return static_cast<double>(cutrace::clock::monotonic_ns() - begin) / burst;
}

double two_clock_reads() {
  return ns_each([](int) {
    bench::keep(cutrace::clock::counter());
    bench::keep(cutrace::clock::counter());
  });
}
double stages() {
  return ns_each([](int) { CUTRACE_STAGE("stage"); });
}
double stages_with_request() {
  return ns_each([](int i) { CUTRACE_STAGE("stage", i); });
}
double counts() {
  return ns_each([](int) { CUTRACE_COUNT("count", 1); });
}
double nothing() {
  return ns_each([](int i) { bench::keep(i); });
}
double marked_nothing() {
  return ns_each([](int i) {
    CUTRACE_STAGE("off");
    bench::keep(i);
  });
}

}  // namespace

int main() {
  bench::print_machine();
  std::vector<double> clock, plain, request, count, empty, off;
  for (int i = 0; i < pairs; ++i) {  // no session yet: linked, and off
    empty.push_back(nothing());
    off.push_back(marked_nothing());
  }
  cutrace::session_options options;
  options.backend = "none";
  options.sinks = "";
  cutrace::session trace(options);
  counting_sink& sink = trace.emplace_sink<counting_sink>();
  stages();
  for (int i = 0; i < pairs; ++i) {
    trace.flush();
    clock.push_back(two_clock_reads());
    plain.push_back(stages());
    trace.flush();
    request.push_back(stages_with_request());
    trace.flush();
    count.push_back(counts());
  }
  trace.stop();
  const cutrace::stats s = trace.stats();

  bench::print_verdict("CUTRACE_STAGE, on", plain, clock, "ns", 1.25);
  bench::print_verdict("CUTRACE_STAGE with a request id, on", request, clock, "ns", 1.25);
  std::printf("%-44s %9.2f ns  (p90 %.2f)\n", "CUTRACE_COUNT, on", bench::median(count), bench::percentile(count, 0.9));
  std::vector<double> added;
  for (std::size_t i = 0; i < off.size(); ++i) added.push_back(off[i] - empty[i]);
  std::printf("%-44s %9.2f ns  budget 1 ns  %s\n", "CUTRACE_STAGE, linked and off, adds", bench::median(added),
              bench::median(added) <= 1.0 ? "pass" : "fail");
  std::printf("%-44s %9.1f ns an event\n", "collector's CPU time, null sink",
              static_cast<double>(s.collector_cpu_ns) / static_cast<double>(s.delivered));
  std::printf("produced %llu, delivered %llu, lost %llu\n", static_cast<unsigned long long>(s.produced),
              static_cast<unsigned long long>(s.delivered), static_cast<unsigned long long>(s.lost_total()));
  return sink.seen == s.delivered && s.lost_total() == 0 ? 0 : 1;
}
