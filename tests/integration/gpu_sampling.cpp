// SPDX-License-Identifier: Apache-2.0
// Sessions that record in windows, while threads use the GPU all the time. Runs on the stand-in driver in each test run
// and on a real one in tests/gpu/run; prints a line a scenario and ends with the number of those that failed.
// Argument: seconds of the scenario under load.
#include <cuda.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cutrace/cutrace.hpp>
#include <cutrace/names.hpp>
#include <cutrace/sinks/memory.hpp>
#include <cutrace/window.hpp>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "../support/gpu_program.hpp"
#include "../support/gpu_session.hpp"

namespace {

using test_support::failures;
using test_support::patient_session;
using test_support::report;

struct device_work : test_support::gpu_device {
  CUstream stream() const {
    CUstream s{};
    DO(cuStreamCreate, &s, CU_STREAM_NON_BLOCKING);
    return s;
  }
  CUgraphExec graph(CUstream s, int nodes) const {
    CUgraph g{};
    CUgraphExec x{};
    CUTRACE_STAGE("capture");  // launches without a kernel
    DO(cuStreamBeginCapture, s, CU_STREAM_CAPTURE_MODE_RELAXED);
    launch(s, nodes);
    DO(cuStreamEndCapture, s, &g);
    DO(cuGraphInstantiate, &x, g, 0);
    DO(cuGraphDestroy, g);
    return x;
  }
};

/// Knows when the trace began, so that what the program itself noted can be laid beside it.
struct anchored_sink : cutrace::memory_sink {
  anchored_sink() : memory_sink(std::size_t{4} << 30) {}
  void open(const cutrace::trace_info& i) override {
    start_ns = static_cast<std::int64_t>(i.start.monotonic_ns) - i.start.trace_ns;
  }
  std::int64_t start_ns = 0;
};
std::int64_t monotonic_ns() { return static_cast<std::int64_t>(cutrace::clock::monotonic_ns()); }

/// What the windows of a trace hold.
struct seen {
  std::vector<cutrace::event> windows;
  std::uint64_t launches = 0, kernels = 0, without_kernel = 0, without_call = 0, empty = 0, outside = 0;
  bool balanced;
  std::string losses;

  /// `busy`: when the program launched something, to distinguish a lost window from one in which nothing was done.
  /// `longest_ns`: what a launch took at most.
  seen(const std::vector<cutrace::event>& events, const cutrace::stats& s, const std::vector<std::int64_t>& busy = {},
       std::int64_t longest_ns = 0)
      : balanced(s.produced == s.delivered && s.lost_total() == 0) {
    if (!balanced) losses = "; produced " + std::to_string(s.produced) + ", delivered " + std::to_string(s.delivered);
    for (std::size_t i = 0; i < cutrace::loss_cause_count; ++i)
      if (s.lost[i] != 0)
        losses += ", " + std::to_string(s.lost[i]) + " " + cutrace::to_string(static_cast<cutrace::loss_cause>(i));
    std::map<std::uint64_t, std::pair<int, int>> by_call;  // calls and kernels
    for (const cutrace::event& e : events) {
      if (e.kind == cutrace::event_kind::window) windows.push_back(e);
      const std::string name(e.name.data, e.name.size);
      const std::string stage(e.stage_name.data, e.stage_name.size);
      const bool launch = e.kind == cutrace::event_kind::api && stage != "capture" &&
                          (name == "cuLaunchKernel" || name == "cuGraphLaunch");
      if (launch) ++launches, ++by_call[e.correlation_id].first;
      if (e.kind == cutrace::event_kind::kernel) ++kernels, ++by_call[e.correlation_id].second;
    }
    for (const auto& c : by_call) {
      without_kernel += c.second.second == 0 ? 1 : 0;
      without_call += c.second.first == 0 ? 1 : 0;
    }
    // A call's begin may be read before the window admits the call; the thread may lose its processor in between.
    const std::int64_t slack_ns = std::max<std::int64_t>(5000000, longest_ns);
    std::vector<int> work(windows.size());
    for (const cutrace::event& e : events) {
      // Of a kernel without a launch, which are counted above, no begin of a call is known.
      if (e.kind != cutrace::event_kind::kernel || e.call_name.size == 0) continue;
      bool inside = false;
      for (std::size_t i = 0; i < windows.size(); ++i)
        if (e.call_start_ns + slack_ns >= windows[i].start_ns && e.call_start_ns <= windows[i].end_ns)
          ++work[i], inside = true;
      outside += inside ? 0 : 1;
    }
    for (std::size_t i = 0; i < windows.size(); ++i) {
      bool launched = false;
      for (const std::int64_t t : busy)
        launched = launched || (t > windows[i].start_ns + slack_ns && t < windows[i].end_ns - slack_ns);
      empty += work[i] == 0 && launched ? 1 : 0;
    }
  }
  /// A thread that loses its processor during a launch at a window's edge leaves half of it: a call or a kernel alone.
  /// `cut`: how many threads launch all the time; on a busy machine each of them may do so at each edge.
  bool whole(std::size_t cut = 0) const {
    const std::size_t most = cut == 0 ? windows.size() / 2 : windows.size() * cut;
    return balanced && without_kernel <= most && without_call <= most && empty == 0 && outside == 0;
  }
  std::string text() const {
    const auto number = [](std::uint64_t n) { return std::to_string(n); };
    return number(windows.size()) + " windows, " + number(launches) + " launches, " + number(kernels) + " kernels; " +
           number(without_kernel) + " launches without a kernel, " + number(without_call) +
           " kernels without a launch, " + number(empty) + " windows empty, " + number(outside) + " launched outside" +
           losses;
  }
};

/// Threads that launch kernels and graphs, and wait for them, without a pause.
struct load {
  std::atomic<bool> end{false};
  std::atomic<std::uint64_t> kernels{0};
  std::vector<std::int64_t> launched_at[8];  ///< by thread
  std::int64_t longest_ns[8] = {};           ///< by thread: launches in a row, at most
  std::vector<std::thread> threads;

  load(const device_work& gpu, int count) {
    for (int i = 0; i < count; ++i)
      threads.emplace_back([this, &gpu, i] {
        DO(cuCtxSetCurrent, gpu.context);
        const CUstream s = gpu.stream();
        CUgraphExec x = gpu.graph(s, 8);
        for (std::uint64_t step = 0; !end; ++step) {
          CUTRACE_STAGE("step", step * 16 + static_cast<std::uint64_t>(i));
          const std::int64_t begin = monotonic_ns();
          gpu.launch(s, 20);
          launched_at[i].push_back(monotonic_ns());
          if (i % 2 == 1) DO(cuGraphLaunch, x, s);
          longest_ns[i] = std::max(longest_ns[i], monotonic_ns() - begin);
          if (step % 4 == 3) DO(cuStreamSynchronize, s);
          // The stand-in launches ten times as fast as a driver: a busy machine would run out of activity buffers.
          std::this_thread::sleep_for(std::chrono::microseconds(500));
          if (i == 3 && step % 64 == 63) {  // graphs are made and destroyed in and between windows
            DO(cuGraphExecDestroy, x);
            x = gpu.graph(s, 8);
          }
          kernels += i % 2 == 1 ? 28 : 20;
        }
        DO(cuStreamSynchronize, s);
        DO(cuGraphExecDestroy, x);
        DO(cuStreamDestroy, s);
      });
  }
  /// Times of the launches, of a trace that began at `start_ns`.
  std::vector<std::int64_t> join(std::int64_t start_ns) {
    end = true;
    for (std::thread& t : threads) t.join();
    std::vector<std::int64_t> all;
    for (const auto& thread : launched_at)
      for (const std::int64_t t : thread) all.push_back(t - start_ns);
    return all;
  }
};

void by_the_clock(const device_work& gpu, double seconds) {
  load work(gpu, 4);
  anchored_sink sink;
  cutrace::session trace(patient_session("30ms/60ms"));
  trace.add_sink(sink);
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  const std::vector<std::int64_t> busy = work.join(sink.start_ns);
  trace.stop();
  const seen s(sink.events(), trace.stats(), busy, *std::max_element(work.longest_ns, work.longest_ns + 8));
  const std::size_t least = static_cast<std::size_t>(seconds / 0.06 / 3);  // a busy machine may sleep through some
  report(s.whole(work.threads.size()) && s.windows.size() > least && s.kernels < work.kernels,
         "30 ms in 60, four threads", s.text() + "; " + std::to_string(work.kernels) + " kernels in all");
}

void by_request(const device_work& gpu) {
  cutrace::memory_sink sink;
  cutrace::session trace(patient_session("requests"));
  trace.add_sink(sink);
  const CUstream s = gpu.stream();
  const CUgraphExec x = gpu.graph(s, 5);
  cutrace::one_in chosen(5);
  int opened = 0;
  for (std::uint64_t request = 0; request < 40; ++request) {
    const cutrace::window recorded(trace, chosen(), 10000);
    CUTRACE_STAGE("request", request);
    opened += recorded.open() ? 1 : 0;
    gpu.launch(s, 10);
    DO(cuGraphLaunch, x, s);
    if (request % 2 == 0) DO(cuStreamSynchronize, s);
  }
  DO(cuStreamSynchronize, s);
  trace.stop();
  DO(cuGraphExecDestroy, x);
  DO(cuStreamDestroy, s);
  const std::vector<cutrace::event> events = sink.events();
  std::map<std::uint64_t, int> by_request;
  for (const cutrace::event& e : events)
    if (e.kind == cutrace::event_kind::kernel && e.request_count == 1) ++by_request[e.requests[0].id];
  bool right = true;
  for (std::uint64_t request = 0; request < 40; request += 5) right = right && by_request[request] == 15;
  const seen found(events, trace.stats());
  // Windows that follow each other closely may be one.
  report(found.whole() && right && opened == 8 && !found.windows.empty() && found.windows.size() <= 9,
         "one request in 5, 10 kernels and a graph of 5 in each", found.text());
}

/// Several threads hold windows open at once: they close with the last one.
void nested(const device_work& gpu) {
  cutrace::memory_sink sink;
  cutrace::session trace(patient_session("requests"));
  trace.add_sink(sink);
  std::vector<std::thread> threads;
  std::atomic<int> recorded{0};
  for (int i = 0; i < 6; ++i)
    threads.emplace_back([&] {
      DO(cuCtxSetCurrent, gpu.context);
      const CUstream s = gpu.stream();
      for (int k = 0; k < 30; ++k) {
        const cutrace::window w(trace, true, 10000);
        CUTRACE_STAGE("held");
        gpu.launch(s, 3);
        recorded += w.open() ? 3 : 0;
        DO(cuStreamSynchronize, s);
      }
      DO(cuStreamDestroy, s);
    });
  for (std::thread& t : threads) t.join();
  trace.stop();
  const seen s(sink.events(), trace.stats());
  report(s.whole() && recorded == 540 && s.kernels == 540, "six threads hold windows", s.text());
}

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 1.5;
  const device_work gpu;
  by_request(gpu);
  nested(gpu);
  by_the_clock(gpu, seconds);
  return failures;
}
