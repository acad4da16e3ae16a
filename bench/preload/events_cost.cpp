// SPDX-License-Identifier: Apache-2.0
// What measuring a launch by CUDA events adds to it, beside the same launch recorded without: sessions with and without
// CUTRACE_GPU_EVENTS take turns in one process. On whatever libcuda.so.1 the loader finds: the stand-in driver's, whose
// own cost for an event is not a real driver's, or a real one. Starts itself again with the library preloaded.
#include <unistd.h>

#include <cstdlib>
#include <cutrace/cutrace.hpp>
#include <cutrace/sink.hpp>

#include "../../tests/support/gpu_program.hpp"
#include "support/pairs.hpp"

namespace {

constexpr int launches = 1000;  // far fewer than the CUDA events that a context gets (event_pool.hpp)
constexpr int pairs = 21, rounds = 5;

struct counting_sink : cutrace::sink {
  std::uint64_t kernels = 0, measured = 0;
  void write(cutrace::event_view events) override {
    for (const cutrace::event& e : events) {
      kernels += e.kind == cutrace::event_kind::api && e.api.argument_count > 5;
      measured += e.kind == cutrace::event_kind::kernel;
    }
  }
};

struct cost {
  double launch_ns, whole_ns;  ///< of one: the call, and with the wait for the GPU behind all of them
};

/// Made in the first session: a driver call before it would make the preloaded library open a session that stays.
const test_support::gpu_device& device() {
  static const test_support::gpu_device gpu;
  return gpu;
}
CUstream own_stream() {
  static CUstream stream = [] {
    CUstream s{};
    DO(cuStreamCreate, &s, CU_STREAM_NON_BLOCKING);
    return s;
  }();
  return stream;
}

cost measure(bool by_events) {
  ::setenv("CUTRACE_GPU_EVENTS", by_events ? "1" : "0", 1);
  cutrace::session_options options;
  options.backend = "preload";
  options.sinks = "";
  cutrace::session trace(options);
  counting_sink& sink = trace.emplace_sink<counting_sink>();
  const test_support::gpu_device& gpu = device();
  const CUstream stream = own_stream();
  gpu.launch(stream, 10);
  DO(cuStreamSynchronize, stream);
  ::usleep(50000);  // meanwhile the CUDA events are created
  std::vector<double> launch, whole;
  for (int i = 0; i < rounds; ++i) {
    const std::uint64_t begin = cutrace::clock::monotonic_ns();
    gpu.launch(stream, launches);
    const std::uint64_t launched = cutrace::clock::monotonic_ns();
    DO(cuStreamSynchronize, stream);
    const std::uint64_t end = cutrace::clock::monotonic_ns();
    launch.push_back(static_cast<double>(launched - begin) / launches);
    whole.push_back(static_cast<double>(end - begin) / launches);
    trace.flush();
  }
  trace.stop();
  if (by_events && sink.measured < rounds * launches) {
    std::printf("only %llu of %d launches were measured: a figure of them would be of something else\n",
                static_cast<unsigned long long>(sink.measured), rounds * launches);
    std::exit(1);
  }
  return {bench::median(launch), bench::median(whole)};
}

}  // namespace

int main(int, char** argv) {
  const char* preloaded = std::getenv("LD_PRELOAD");
  if (preloaded == nullptr || *preloaded == '\0') {
    ::setenv("LD_PRELOAD", PRELOADED_LIBRARY, 1);
    ::setenv("CUTRACE_SINKS", "", 1);
    ::setenv("CUTRACE_GPU_EVENTS", "1", 1);
    ::execv("/proc/self/exe", argv);
    std::perror("execv");
    return 1;
  }
  bench::print_machine();
  std::vector<double> launch[2], whole[2];
  for (int i = 0; i < pairs; ++i) {
    for (const int k : {i % 2, 1 - i % 2}) {
      const cost c = measure(k == 1);
      launch[k].push_back(c.launch_ns);
      whole[k].push_back(c.whole_ns);
    }
  }
  bench::print_ratio("a launch measured by events, beside one recorded", launch[1], launch[0], "ns");
  std::printf("\n");
  bench::print_ratio("the same with the wait for all of them", whole[1], whole[0], "ns");
  const bench::ratio more = bench::bootstrap_difference(launch[1], launch[0]);
  std::printf("\nevents add %.0f ns [%.0f, %.0f] to a launch\n", more.value, more.low, more.high);
  return 0;
}
