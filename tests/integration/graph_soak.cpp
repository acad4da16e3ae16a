// SPDX-License-Identifier: Apache-2.0
// Long life: replays a CUDA graph of empty kernels, each node recorded, until millions have run, with a JSONL file as
// the sink, and prints at every tenth what the process and the device hold. Fails unless each kernel that was launched
// stands in the file, none was lost, and neither memory grew by 64 MiB after the first tenth. A small number on the
// stand-in driver in each test run, 30 million on a real one in tests/gpu/soak.
//
//   graph_soak [--wait] FILE [KERNELS [NODES]]     FILE is removed when all is well. Options of cutrace come from the
//                                                  environment; --wait holds up the launching thread, 2 s a call at
//                                                  most, while the collector lags behind
#include <cuda.h>

#include <chrono>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cutrace/cutrace.hpp>
#include <cutrace/names.hpp>
#include <string>

#include "../support/gpu_program.hpp"
#include "../support/process_memory.hpp"

namespace {

constexpr std::uint64_t allowed_growth = 64u << 20;
constexpr double mib = 1 << 20;
/// Replays between two synchronisations: so much work waits on the GPU at most, as in a program that reads results.
constexpr std::uint64_t replays_ahead = 10;

struct replayed_graph {
  CUdevice device = 0;
  CUstream stream{};
  CUgraphExec exec{};
  std::size_t free_at_start = 0;

  explicit replayed_graph(int nodes) {
    CUcontext context{};
    CUgraph graph{};
    std::size_t total = 0;
    DO(cuInit, 0);
    DO(cuDeviceGet, &device, 0);
    DO(cuDevicePrimaryCtxRetain, &context, device);
    DO(cuCtxSetCurrent, context);
    DO(cuMemGetInfo, &free_at_start, &total);
    const CUfunction kernel = test_support::empty_kernel();
    DO(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    DO(cuStreamBeginCapture, stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    for (int i = 0; i < nodes; ++i) DO(cuLaunchKernel, kernel, 1, 1, 1, 32, 1, 1, 0, stream, nullptr, nullptr);
    DO(cuStreamEndCapture, stream, &graph);
    DO(cuGraphInstantiateWithFlags, &exec, graph, 0);
  }

  void replay(std::uint64_t times) {
    for (std::uint64_t done = 0; done < times;) {
      CUTRACE_STAGE("replays", done);
      const std::uint64_t n = times - done < replays_ahead ? times - done : replays_ahead;
      for (std::uint64_t i = 0; i < n; ++i) DO(cuGraphLaunch, exec, stream);
      DO(cuStreamSynchronize, stream);
      done += n;
    }
  }

  /// Device memory taken since the context was made, by any process: another tenant's share counts, too.
  std::int64_t taken_bytes() const {
    std::size_t now = 0, total = 0;
    DO(cuMemGetInfo, &now, &total);
    return static_cast<std::int64_t>(free_at_start) - static_cast<std::int64_t>(now);
  }
};

std::string losses(const cutrace::stats& s) {
  std::string text;
  for (std::size_t i = 0; i < cutrace::loss_cause_count; ++i)
    if (s.lost[i] != 0)
      text += std::string(text.empty() ? "" : " ") + cutrace::to_string(static_cast<cutrace::loss_cause>(i)) + "=" +
              std::to_string(s.lost[i]);
  return text.empty() ? "0" : text;
}

std::uint64_t kernels_of(const cutrace::stats& s) {
  return s.by_kind[static_cast<std::size_t>(cutrace::event_kind::kernel)];
}

/// What memory did after the first tenth.
struct growth {
  std::int64_t first = -1, most = -1;
  void add(std::int64_t bytes) {
    if (first < 0) first = bytes;
    if (most < bytes) most = bytes;
  }
  std::int64_t bytes() const { return most - first; }
  bool allowed() const { return bytes() < static_cast<std::int64_t>(allowed_growth); }
};

/// Lines of the file that are kernels, whether the last one is a footer, and how long the file is.
struct file_content {
  std::uint64_t kernels = 0, bytes = 0;
  bool ended = false;

  explicit file_content(const char* path) {
    std::FILE* file = std::fopen(path, "re");
    if (file == nullptr) return;
    char* line = nullptr;
    std::size_t capacity = 0;
    for (ssize_t n; (n = ::getline(&line, &capacity, file)) > 0; bytes += static_cast<std::uint64_t>(n)) {
      static const char kernel[] = "\"type\":\"kernel\"";
      // Where it stands in the lines that the sink writes: {"v":N,"type":"kernel",
      line[n < 40 ? n : 40] = '\0';
      kernels += std::strstr(line, kernel) != nullptr ? 1 : 0;
      ended = std::strstr(line, "\"type\":\"footer\"") != nullptr;
    }
    std::free(line);
    std::fclose(file);
  }
};

int failures = 0;
void verify(bool ok, const std::string& what) {
  std::printf("%s %s\n", ok ? "ok  " : "FAIL", what.c_str());
  if (!ok) ++failures;
}

std::string in_mib(std::int64_t bytes) {
  char text[40];
  std::snprintf(text, sizeof(text), "%.1f MiB", static_cast<double>(bytes) / mib);
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  const bool wait = argc > 1 && std::strcmp(argv[1], "--wait") == 0;
  if (wait) --argc, ++argv;
  if (argc < 2) return std::fputs("graph_soak [--wait] FILE [KERNELS [NODES]]\n", stderr), 2;
  const std::string path = argv[1];
  const std::uint64_t wanted = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 30000000;
  const int nodes = argc > 3 ? std::atoi(argv[3]) : 1000;
  if (nodes < 1 || wanted < 10u * static_cast<unsigned>(nodes))
    return std::fputs("graph_soak: at least ten replays, of one node or more\n", stderr), 2;

  const std::string sinks = "jsonl:" + path;
  cutrace::session_options o;
  o.backend = "cupti";
  o.sinks = sinks.c_str();
  if (wait) {
    o.overflow = cutrace::overflow_policy::wait;
    o.overflow_wait_us = 2000000;
  }
  cutrace::session trace(o);
  if (!trace.active()) return std::puts("FAIL there is no trace"), 1;
  replayed_graph gpu(nodes);
  const test_support::device_processes users(gpu.device);  // of the device: this process and others

  const std::uint64_t per_step = wanted / 10 / static_cast<unsigned>(nodes);
  std::uint64_t launched = 0;
  growth resident, device, device_own;
  std::printf(
      "%s\n   kernels     Mkernel/s  resident  device taken  device, NVML   delivered     pending  collector "
      "lost\n",
      users.reason().c_str());
  using clock = std::chrono::steady_clock;
  const clock::time_point begin = clock::now();
  std::uint64_t cpu_before = 0, delivered_before = 0;
  for (int step = 1; step <= 10; ++step) {
    const clock::time_point from = clock::now();
    gpu.replay(per_step);
    const double seconds = std::chrono::duration<double>(clock::now() - from).count();
    launched += per_step * static_cast<unsigned>(nodes);
    const cutrace::stats s = trace.stats();
    const auto rss = static_cast<std::int64_t>(test_support::resident_bytes());
    const std::int64_t taken = gpu.taken_bytes(), own = users.own_bytes();
    resident.add(rss);
    device.add(taken);
    device_own.add(own);
    const std::uint64_t events = s.delivered - delivered_before;
    std::printf("%10" PRIu64 " %10.3f %9.1f %13.1f %13s %11" PRIu64 " %11" PRIu64 " %6.0f ns  %s\n", launched,
                static_cast<double>(per_step * static_cast<unsigned>(nodes)) / seconds / 1e6,
                static_cast<double>(rss) / mib, static_cast<double>(taken) / mib,
                own < 0 ? "-" : std::to_string(own >> 20).c_str(), s.delivered, s.pending,
                events != 0 ? static_cast<double>(s.collector_cpu_ns - cpu_before) / static_cast<double>(events) : 0.0,
                losses(s).c_str());
    std::fflush(stdout);
    cpu_before = s.collector_cpu_ns;
    delivered_before = s.delivered;
  }
  const double running = std::chrono::duration<double>(clock::now() - begin).count();
  trace.stop();
  const double stopped = std::chrono::duration<double>(clock::now() - begin).count();
  const cutrace::stats s = trace.stats();
  const file_content file(path.c_str());
  std::printf(
      "%.3f Mkernel/s over %.1f s, %.1f s more to the end of the session; the collector took %.1f s of CPU, "
      "%.0f ns an event; the file has %.2f GB, %.0f bytes a kernel\n",
      static_cast<double>(launched) / running / 1e6, running, stopped - running,
      static_cast<double>(s.collector_cpu_ns) / 1e9,
      static_cast<double>(s.collector_cpu_ns) / static_cast<double>(s.delivered), static_cast<double>(file.bytes) / 1e9,
      static_cast<double>(file.bytes) / static_cast<double>(file.kernels != 0 ? file.kernels : 1));
  std::printf("late %" PRIu64 ", without time %" PRIu64 ", without a call %" PRIu64
              ", cutrace's memory %.1f of %.1f MiB\n",
              s.quality_of[static_cast<std::size_t>(cutrace::quality::late)],
              s.quality_of[static_cast<std::size_t>(cutrace::quality::no_timestamp)],
              s.quality_of[static_cast<std::size_t>(cutrace::quality::unattributed)],
              static_cast<double>(s.memory_bytes) / mib, static_cast<double>(s.memory_limit_bytes) / mib);

  verify(kernels_of(s) == launched,
         std::to_string(launched) + " kernels launched, " + std::to_string(kernels_of(s)) + " delivered");
  verify(s.produced == s.delivered && s.lost_total() == 0, "lost " + losses(s));
  verify(s.sink_count == 1 && !s.sinks[0].failed && s.sinks[0].written == s.delivered,
         "the sink wrote " + std::to_string(s.sinks[0].written) + " of " + std::to_string(s.delivered) + " events");
  verify(file.kernels == launched && file.ended,
         std::to_string(file.kernels) + " kernels in the file" + (file.ended ? "" : ", which has no end"));
  verify(s.quality_of[static_cast<std::size_t>(cutrace::quality::no_timestamp)] == 0, "every kernel has its times");
  verify(resident.allowed(), "resident memory grew by " + in_mib(resident.bytes()) + " after the first tenth");
  // Another tenant's growth is not ours: with NVML the process's own share counts.
  const growth& on_device = device_own.first >= 0 ? device_own : device;
  verify(on_device.allowed(), "device memory grew by " + in_mib(on_device.bytes()) + " after the first tenth");
  if (failures == 0) std::remove(path.c_str());
  return failures;
}
