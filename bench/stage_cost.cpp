// SPDX-License-Identifier: Apache-2.0
// What a marker costs, beside the raw clock reads that it cannot do without. Both are timed in short turns within one
// burst, so that they meet the same clock speed and the same running collector. A burst fits into the pool of chunks
// (buffers of records), so that no figure includes markers whose records were dropped.
#include <cutrace/cutrace.hpp>
#include <cutrace/sink.hpp>

#include "support/pairs.hpp"

namespace {

constexpr int turn = 500, turns = 80;
constexpr int pairs = 41;

struct counting_sink : cutrace::sink {
  std::uint64_t seen = 0;
  void write(cutrace::event_view events) override { seen += events.size; }
};

template <class Work>
std::uint64_t turn_ns(Work work) {
  const std::uint64_t begin = cutrace::clock::monotonic_ns();
  for (int i = 0; i < turn; ++i) work(i);
  return cutrace::clock::monotonic_ns() - begin;
}

/// One pair: nanoseconds each of `ours` and of `reference`, in alternating turns.
template <class Ours, class Reference>
void measure(std::vector<double>& ours_ns, std::vector<double>& reference_ns, Ours ours, Reference reference) {
  std::uint64_t ours_sum = 0, reference_sum = 0;
  for (int i = 0; i < turns; ++i) {
    reference_sum += turn_ns(reference);
    ours_sum += turn_ns(ours);
  }
  ours_ns.push_back(static_cast<double>(ours_sum) / (turn * turns));
  reference_ns.push_back(static_cast<double>(reference_sum) / (turn * turns));
}

const auto two_clock_reads = [](int) {
  bench::keep(cutrace::clock::counter());
  bench::keep(cutrace::clock::counter());
};
const auto stage = [](int) { CUTRACE_STAGE("stage"); };
const auto stage_with_request = [](int i) { CUTRACE_STAGE("stage", i); };
const auto count = [](int) { CUTRACE_COUNT("count", 1); };
const auto nothing = [](int i) { bench::keep(i); };
const auto stage_off = [](int i) {
  CUTRACE_STAGE("off");
  bench::keep(i);
};

}  // namespace

int main() {
  bench::print_machine();
  std::vector<double> plain, plain_clock, request, request_clock, counting, counting_clock, off, empty;
  for (int i = 0; i < pairs; ++i) measure(off, empty, stage_off, nothing);  // no session yet: linked, and off
  cutrace::session_options options;
  options.backend = "none";
  options.sinks = "";
  cutrace::session trace(options);
  counting_sink& sink = trace.emplace_sink<counting_sink>();
  for (int i = 0; i < pairs; ++i) {
    trace.flush();
    measure(plain, plain_clock, stage, two_clock_reads);
    trace.flush();
    measure(request, request_clock, stage_with_request, two_clock_reads);
    measure(counting, counting_clock, count, two_clock_reads);
  }
  trace.stop();
  const cutrace::stats s = trace.stats();

  bench::print_verdict("CUTRACE_STAGE, on", plain, plain_clock, "ns", 1.25);
  bench::print_verdict("CUTRACE_STAGE with a request id, on", request, request_clock, "ns", 1.25);
  std::printf("%-44s %9.2f ns  (p90 %.2f)\n", "CUTRACE_COUNT, on", bench::median(counting),
              bench::percentile(counting, 0.9));
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
