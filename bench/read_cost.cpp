// SPDX-License-Identifier: Apache-2.0
// What it costs to read a trace file: events/s, CPU time an event and peak memory, for each format as the file grows,
// beside reading the bytes of the file and nothing else. The budget of a report over 10 million events of a Perfetto
// trace is 5 s on two cores, of which reading may take 3. The verdict is on CPU time, since reading is one thread's
// work and the wall clock tells of other programs, too.
//
//   read_cost [--rounds N] [--format NAME] [--events N]     all formats and three sizes unless told
//
// Files are written by the sinks, to a folder under TMPDIR (or /tmp), one at a time, and removed. Each reading is a
// process of its own, so that its peak memory is that of the reading.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <cutrace/sinks/sink_registry.hpp>
#include <string>
#include <vector>

#include "support/pairs.hpp"
#include "trace/trace_reader.hpp"

namespace {

constexpr double perfetto_budget_s = 3.0;  // of 10 million events

struct subject {
  const char* name;
  const char* specification;  ///< %s: the file
  const char* extension;
};
constexpr subject subjects[] = {{"jsonl", "jsonl:%s", ".jsonl"},
                                {"jsonl.gz", "jsonl:%s", ".jsonl.gz"},
                                {"chrome", "chrome:%s", ".json"},
                                {"chrome.gz", "chrome:%s", ".json.gz"},
                                {"perfetto", "perfetto:%s", ".pftrace"},
                                {"perfetto, args", "perfetto:%s?arguments=yes", ".pftrace"},
                                {"perfetto.gz", "perfetto:%s", ".pftrace.gz"}};

cutrace::text text_of(const char* s) { return {s, static_cast<std::uint32_t>(std::strlen(s))}; }

/// An inference server: steps of a stage with requests, sixteen launches and two copies, each with its call.
class server {
 public:
  static constexpr std::uint64_t events_a_step = 1 + 2 * 18;

  void run(cutrace::sink& to, std::uint64_t events) {
    for (std::uint64_t n = 0; n < events / events_a_step; ++n) {
      batch_.clear();
      step(n);
      cutrace::event_view v;
      v.data = batch_.data();
      v.size = batch_.size();
      to.write(v);
    }
  }

 private:
  void step(std::uint64_t n) {
    for (std::uint64_t i = 0; i < 8; ++i) {
      requests_[i] = cutrace::request_ref();
      requests_[i].id = n / 16 + i;
    }
    const std::int64_t begin = now_;
    stage_ = cutrace::event();
    stage_.kind = cutrace::event_kind::stage;
    stage_.process_id = 4242;
    stage_.thread_id = 4250 + static_cast<std::uint32_t>(n % 4);
    stage_.stage_id = (std::uint64_t{stage_.thread_id} << 40) + n;
    stage_.name = stage_.stage_name = decode_;
    stage_.requests = requests_;
    stage_.request_count = stage_.request_total = 8;
    launch(true);
    for (unsigned i = 0; i < 16; ++i) launch(false);
    launch(true);
    stage_.start_ns = begin - 100;
    stage_.end_ns = now_;
    stage_.stage.file = file_;
    stage_.stage.line = 77;
    batch_.push_back(stage_);
  }
  cutrace::event part(cutrace::event_kind kind) const {
    cutrace::event e;
    e.kind = kind;
    e.process_id = 4242;
    e.thread_id = stage_.thread_id;
    e.stage_id = stage_.stage_id;
    e.stage_name = stage_.name;
    e.requests = requests_;
    e.request_count = e.request_total = 8;
    e.correlation_id = correlation_;
    return e;
  }
  void launch(bool copy) {
    ++correlation_;
    cutrace::event call = part(cutrace::event_kind::api);
    call.start_ns = now_ += 700;
    call.end_ns = now_ += 2900;
    call.name = copy ? copy_call_ : launch_call_;
    call.api.function = 307;
    call.api.result_name = success_;
    arguments_[0].name = arg_f_;
    arguments_[0].value = 0x55d0c0de0010u;
    arguments_[1].name = arg_stream_;
    arguments_[1].value = 0x55d0c0ffee00u;
    call.api.arguments = arguments_;
    call.api.argument_count = 2;
    batch_.push_back(call);
    cutrace::event work = part(copy ? cutrace::event_kind::memcpy : cutrace::event_kind::kernel);
    work.joined = cutrace::attribution::by_call;
    work.context = 1;
    work.stream = 7 + correlation_ % 3;
    work.call_start_ns = call.start_ns;
    work.call_name = call.name;
    work.start_ns = now_ + 500;
    work.end_ns = now_ += 900 + static_cast<std::int64_t>(correlation_ % 7) * 100;
    if (copy) {
      work.memcpy_.bytes = 8192;
      work.memcpy_.direction = cutrace::copy_direction::host_to_device;
      work.memcpy_.source = cutrace::memory_kind::pinned;
      work.memcpy_.destination = cutrace::memory_kind::device;
      work.memcpy_.asynchronous = true;
    } else {
      work.name = kernels_[correlation_ % 4];
      work.kernel.mangled_name = mangled_;
      for (std::uint32_t& n : work.kernel.grid) n = 1;
      for (std::uint32_t& n : work.kernel.block) n = 1;
      work.kernel.grid[0] = 132;
      work.kernel.block[0] = 256;
      work.kernel.registers_per_thread = 64;
      work.kernel.dynamic_shared_bytes = 32768;
    }
    batch_.push_back(work);
  }

  const cutrace::text decode_ = text_of("decode"), file_ = text_of("server.cpp"),
                      launch_call_ = text_of("cuLaunchKernel"), copy_call_ = text_of("cuMemcpyHtoDAsync_v2"),
                      success_ = text_of("CUDA_SUCCESS"), arg_f_ = text_of("f"), arg_stream_ = text_of("hStream"),
                      mangled_ = text_of("_ZN7cutlass7Kernel2I52cutlass_80_tensorop_f16_s16816gemm_relu_f16_64x64_32");
  const cutrace::text kernels_[4] = {
      text_of("void cutlass::Kernel2<cutlass_80_tensorop_f16_s16816gemm_relu_f16_64x64_32x6_tn_align8>(Params)"),
      text_of("softmax_warp_forward<float, 10>"), text_of("layer_norm"), text_of("rotary_embedding")};
  std::vector<cutrace::event> batch_;
  cutrace::event stage_;
  cutrace::request_ref requests_[8];
  cutrace::argument arguments_[2];
  std::uint64_t correlation_ = 0;
  std::int64_t now_ = 1000;
};

void write_file(const subject& s, const std::string& path, std::uint64_t events) {
  char words[1024];
  std::snprintf(words, sizeof(words), s.specification, path.c_str());
  std::vector<std::unique_ptr<cutrace::sink>> sinks = cutrace::make_sinks(words);
  cutrace::trace_info info{};
  info.process_id = 4242;
  info.process_name = "server";
  info.command_line = info.host_name = info.boot_id = info.backend = info.backend_detail = info.clock = "";
  info.rank = -1;
  info.start = {0, 1790000000000000000u, 5000000000u, 5000000000u, 100};
  sinks[0]->open(info);
  server().run(*sinks[0], events);
  cutrace::trace_summary summary{};
  summary.stop = info.start;
  sinks[0]->close(summary);
}

struct counting_sink : cutrace::sink {
  void write(cutrace::event_view events) override {
    for (const cutrace::event& e : events) busy_ns += static_cast<std::uint64_t>(e.is_gpu_work() ? e.duration_ns() : 0);
  }
  std::uint64_t busy_ns = 0;
};

struct cost {
  double wall_s, cpu_s, peak_mib;
  std::uint64_t events, complaints;
};

double seconds(const timeval& t) { return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6; }

template <class Work>
cost measured(Work work) {
  int ends[2];
  cost c{};
  if (pipe(ends) != 0) return c;
  const pid_t child = fork();
  if (child == 0) {
    timespec begin{}, end{};
    clock_gettime(CLOCK_MONOTONIC, &begin);
    work(c);
    clock_gettime(CLOCK_MONOTONIC, &end);
    rusage used{};
    getrusage(RUSAGE_SELF, &used);
    c.wall_s = static_cast<double>(end.tv_sec - begin.tv_sec) + static_cast<double>(end.tv_nsec - begin.tv_nsec) * 1e-9;
    c.cpu_s = seconds(used.ru_utime) + seconds(used.ru_stime);
    c.peak_mib = static_cast<double>(used.ru_maxrss) / 1024;
    _exit(write(ends[1], &c, sizeof(c)) == sizeof(c) ? 0 : 1);
  }
  close(ends[1]);
  if (read(ends[0], &c, sizeof(c)) != sizeof(c)) c.complaints = 1;
  close(ends[0]);
  waitpid(child, nullptr, 0);
  return c;
}

cost read_trace(const std::string& path) {
  return measured([&](cost& c) {
    counting_sink sink;
    const cutrace_reading::outcome o = cutrace_reading::read({path}, sink);
    bench::keep(sink.busy_ns);
    c.events = o.events;
    c.complaints = o.problems.total();
  });
}
cost read_bytes(const std::string& path) {
  return measured([&](cost&) {
    std::vector<char> block(std::size_t{1} << 20);
    std::uint64_t sum = 0;
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    for (ssize_t n = 0; (n = read(file, block.data(), block.size())) > 0;) {
      for (ssize_t i = 0; i < n; i += 64) sum += static_cast<unsigned char>(block[static_cast<std::size_t>(i)]);
    }
    bench::keep(sum);
    close(file);
  });
}

}  // namespace

int main(int argc, char** argv) {
  int rounds = 3;
  const char* only = nullptr;
  std::vector<std::uint64_t> sizes = {100000, 1000000, 10000000};
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--rounds") == 0) rounds = std::atoi(argv[i + 1]);
    if (std::strcmp(argv[i], "--format") == 0) only = argv[i + 1];
    if (std::strcmp(argv[i], "--events") == 0) sizes = {std::strtoull(argv[i + 1], nullptr, 10)};
  }
  const char* temporary = std::getenv("TMPDIR");
  std::string folder = std::string(temporary != nullptr ? temporary : "/tmp") + "/cutrace-read-cost-XXXXXX";
  if (mkdtemp(&folder[0]) == nullptr) return 2;
  bench::print_machine();
  std::printf("\n%-15s %9s %8s   %9s %8s %8s %9s   %s\n", "format", "events", "MiB", "events/s", "ns/event", "CPU ns",
              "peak MiB", "x reading the bytes");
  bool good = true;
  std::vector<double> perfetto_s;
  for (const subject& s : subjects) {
    if (only != nullptr && std::strcmp(s.name, only) != 0) continue;
    for (const std::uint64_t size : sizes) {
      const std::string path = folder + "/trace" + s.extension;
      write_file(s, path, size);
      std::vector<double> wall, cpu, plain;
      double peak = 0;
      std::uint64_t events = 0;
      for (int round = 0; round < rounds; ++round) {  // by turns, so that both meet the same clock speed
        plain.push_back(read_bytes(path).wall_s);
        const cost c = read_trace(path);
        good = good && c.complaints == 0 && c.events != 0;
        wall.push_back(c.wall_s);
        cpu.push_back(c.cpu_s);
        peak = std::max(peak, c.peak_mib);
        events = c.events;
      }
      struct stat status {};
      stat(path.c_str(), &status);
      unlink(path.c_str());
      const double n = static_cast<double>(events), w = bench::median(wall);
      std::printf("%-15s %9.0f %8.1f   %9.0f %8.0f %8.0f %9.1f   x %.1f\n", s.name, n,
                  static_cast<double>(status.st_size) / (1 << 20), n / w, w / n * 1e9, bench::median(cpu) / n * 1e9,
                  peak, w / bench::median(plain));
      std::fflush(stdout);
      if (std::strcmp(s.name, "perfetto") == 0 && size == 10000000) perfetto_s = cpu;
    }
  }
  rmdir(folder.c_str());
  if (!perfetto_s.empty())
    bench::print_verdict("Perfetto, 10 million events, CPU time", perfetto_s,
                         std::vector<double>(perfetto_s.size(), perfetto_budget_s), "s", 1.0);
  if (!good) std::printf("a file was not read without complaints: the figures are void\n");
  return good ? 0 : 1;
}
