// SPDX-License-Identifier: Apache-2.0
// What a complete `cutrace report` of a Perfetto trace costs: events/s, CPU time and peak memory, and how they grow
// from 10^5 to 3x10^7 events, with the part of it that is reading alone. The budget is 10 million events within 5 s,
// wall and CPU time alike, and 1 GiB, on a machine of two cores; and linear: ten times the events take at most 12.5
// times the CPU time and the memory.
//
//   report [--rounds N] [--events N]     four sizes by default; --events: that one
//
// The command is the one that was built beside this program. Files are written by the Perfetto sink to a folder under
// TMPDIR (or /tmp; the largest takes 1.5 GiB), one at a time, and removed. The load of the machine is printed: with
// others on its cores the wall clock measures them, too, and CPU time is what remains to compare.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
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

constexpr double budget_s = 5, budget_mib = 1024, budget_growth = 12.5;
constexpr std::uint64_t budget_events = 10000000;

struct counting_sink : cutrace::sink {
  void write(cutrace::event_view events) override { count += events.size; }
  std::uint64_t count = 0;
};

bench::cost read_alone(const std::string& path) {
  return bench::measured([&](bench::cost& c) {
    counting_sink sink;
    const cutrace_reading::outcome o = cutrace_reading::read({path}, sink);
    bench::keep(sink.count);
    c.events = o.events;
    c.complaints = o.problems.total();
  });
}
bench::cost whole_report(const std::string& path) {
  return bench::measured([&](bench::cost&) {
    const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    dup2(nowhere, STDOUT_FILENO);
    execl(CUTRACE_COMMAND, "cutrace", "report", path.c_str(), "--quiet", static_cast<char*>(nullptr));
    _exit(127);
  });
}

void print_load(const char* when) {
  double load[3] = {};
  if (getloadavg(load, 3) < 1) return;
  std::printf("load %s: %.2f on %ld cores\n", when, load[0], sysconf(_SC_NPROCESSORS_ONLN));
}

struct row {
  double events = 0, wall_s = 0, cpu_s = 0, peak_mib = 0;
  std::vector<double> walls, cpus, peaks;
};

/// How much the value grows where the number of events grows tenfold, between two rows.
double tenfold(const row& a, const row& b, double of_a, double of_b) {
  return std::pow(10.0, std::log(of_b / of_a) / std::log(b.events / a.events));
}

}  // namespace

int main(int argc, char** argv) {
  int rounds = 3;
  std::vector<std::uint64_t> sizes = {100000, 1000000, budget_events, 30000000};
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--rounds") == 0) rounds = std::atoi(argv[i + 1]);
    if (std::strcmp(argv[i], "--events") == 0) sizes = {std::strtoull(argv[i + 1], nullptr, 10)};
  }
  const char* temporary = std::getenv("TMPDIR");
  std::string folder = std::string(temporary != nullptr ? temporary : "/tmp") + "/cutrace-report-XXXXXX";
  if (mkdtemp(&folder[0]) == nullptr) return 2;
  bench::print_machine();
  print_load("at the start");
  std::printf("\n%9s %8s   %9s %9s %8s %8s %9s %8s   %s\n", "events", "MiB", "events/s", "wall s", "CPU s", "ns/event",
              "peak MiB", "B/event", "reading alone: wall s, CPU s, peak MiB");
  bool good = true;
  std::vector<row> rows;
  for (const std::uint64_t size : sizes) {
    const std::string path = folder + "/trace.pftrace";
    bench::write_trace("perfetto:%s", path, size);
    row r;
    std::vector<double> read_wall, read_cpu, read_peak;
    for (int round = 0; round < rounds; ++round) {  // by turns, so that both meet the same clock speed
      const bench::cost reading = read_alone(path), all = whole_report(path);
      good = good && reading.complaints == 0 && all.complaints == 0 && reading.events != 0;
      r.events = static_cast<double>(reading.events);
      read_wall.push_back(reading.wall_s);
      read_cpu.push_back(reading.cpu_s);
      read_peak.push_back(reading.peak_mib);
      r.walls.push_back(all.wall_s);
      r.cpus.push_back(all.cpu_s);
      r.peaks.push_back(all.peak_mib);
    }
    struct stat status {};
    stat(path.c_str(), &status);
    unlink(path.c_str());
    r.wall_s = bench::median(r.walls);
    r.cpu_s = bench::median(r.cpus);
    r.peak_mib = bench::median(r.peaks);
    std::printf("%9.0f %8.1f   %9.0f %9.3f %8.3f %8.0f %9.1f %8.1f   %.3f, %.3f, %.1f\n", r.events,
                static_cast<double>(status.st_size) / (1 << 20), r.events / r.wall_s, r.wall_s, r.cpu_s,
                r.cpu_s / r.events * 1e9, r.peak_mib, r.peak_mib * (1 << 20) / r.events, bench::median(read_wall),
                bench::median(read_cpu), bench::median(read_peak));
    std::fflush(stdout);
    rows.push_back(r);
  }
  rmdir(folder.c_str());
  print_load("at the end");
  if (!good) std::printf("a file was not read without complaints: the figures are void\n");
  for (std::size_t i = 1; i < rows.size(); ++i)
    std::printf("tenfold events, from %.0f to %.0f: CPU time x %.2f, memory x %.2f\n", rows[i - 1].events,
                rows[i].events, tenfold(rows[i - 1], rows[i], rows[i - 1].cpu_s, rows[i].cpu_s),
                tenfold(rows[i - 1], rows[i], rows[i - 1].peak_mib, rows[i].peak_mib));
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] != budget_events) continue;
    const auto against = [&](const char* what, const std::vector<double>& ours, double budget, const char* unit) {
      bench::print_verdict(what, ours, std::vector<double>(ours.size(), budget), unit, 1.0);
    };
    against("report, 10 million events, wall time", rows[i].walls, budget_s, "s");
    against("report, 10 million events, CPU time", rows[i].cpus, budget_s, "s");
    against("report, 10 million events, peak memory", rows[i].peaks, budget_mib, "MiB");
    if (i + 1 == sizes.size()) continue;
    std::printf("report, growth of CPU time at tenfold events %.2f, of memory %.2f  budget %.2f  %s\n",
                tenfold(rows[i], rows[i + 1], rows[i].cpu_s, rows[i + 1].cpu_s),
                tenfold(rows[i], rows[i + 1], rows[i].peak_mib, rows[i + 1].peak_mib), budget_growth,
                std::max(tenfold(rows[i], rows[i + 1], rows[i].cpu_s, rows[i + 1].cpu_s),
                         tenfold(rows[i], rows[i + 1], rows[i].peak_mib, rows[i + 1].peak_mib)) <= budget_growth
                    ? "pass"
                    : "fail");
  }
  return good ? 0 : 1;
}
