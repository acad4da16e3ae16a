// SPDX-License-Identifier: Apache-2.0
// What it costs to read a trace file: events/s, CPU time an event and peak memory, for each format as the file grows,
// beside reading the bytes of the file and nothing else. The budget of a report over 10 million events of a Perfetto
// trace is 5 s on two cores, of which reading may take 3. The verdict is on CPU time, since reading is one thread's
// work and the wall clock measures other programs, too.
//
//   read_cost [--rounds N] [--format NAME] [--events N]     all formats and three sizes by default
//
// Files are written by the sinks, to a folder under TMPDIR (or /tmp), one at a time, and removed. Each reading is a
// process of its own, so that its peak memory is that of the reading.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <cutrace/sink.hpp>
#include <string>
#include <vector>

#include "support/child_cost.hpp"
#include "support/pairs.hpp"
#include "support/trace_files.hpp"
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

struct counting_sink : cutrace::sink {
  void write(cutrace::event_view events) override {
    for (const cutrace::event& e : events) busy_ns += static_cast<std::uint64_t>(e.is_gpu_work() ? e.duration_ns() : 0);
  }
  std::uint64_t busy_ns = 0;
};

using bench::cost;
using bench::measured;

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
      bench::write_trace(s.specification, path, size);
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
