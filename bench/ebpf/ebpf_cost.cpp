// SPDX-License-Identifier: Apache-2.0
// What a call costs under our probes, beside the same call under probes that do nothing (budget 1.4 times) and the bare
// one, by the class of its first instruction; and how long it takes to set probes on 700 functions and to take them off
// (budget 1 s each). Then what an ioctl costs that --kernel records (budget 2.5 times the bare one), by how much of its
// argument is read, also inside of a driver call; and what another system call costs meanwhile. All variants take
// turns. Printed are medians, and for each ratio its median over the turns, 95 % interval and verdict. Needs root.
//   ebpf_cost [TURNS] [CALLS]
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "call_probes.hpp"
#include "kernel_probes.hpp"
#include "support/pairs.hpp"

namespace {

using clock_type = std::chrono::steady_clock;
constexpr const char* names[] = {"cuNop", "cuPush", "cuEndbr"};
constexpr const char* classes[] = {"five-byte nop", "push", "endbr64, single-stepped"};
constexpr std::size_t kinds = 3;
using function = int (*)();

double ns_each(function f, int calls) {
  const auto begin = clock_type::now();
  for (int i = 0; i < calls; ++i) f();
  return std::chrono::duration<double, std::nano>(clock_type::now() - begin).count() / calls;
}

using bench::median;

/// The end of a line: the ratio with its interval, and the verdict where there is a budget.
void print_ratio(const std::vector<double>& ours, const std::vector<double>& reference, double budget) {
  const bench::ratio r = bench::bootstrap(ours, reference);
  std::printf("%8.2f [%.2f, %.2f]", r.value, r.low, r.high);
  if (budget > 0) std::printf("  %s (%.1f)", bench::verdict(r, budget), budget);
  std::printf("\n");
}

/// Reads what comes, as long as it lives.
class reading {
 public:
  reading(cutrace_ebpf::call_probes& probes, std::uint64_t& records) : probes_(probes), records_(records) {}
  ~reading() {
    done_.store(true);
    thread_.join();
  }

 private:
  void read() {
    const auto take = [this](const void*, std::size_t) { return ++records_ != 0; };
    while (!done_.load()) {
      probes_.consume(take);
      ::usleep(5000);
    }
    probes_.consume(take);
  }
  cutrace_ebpf::call_probes& probes_;
  std::uint64_t& records_;
  std::atomic<bool> done_{false};
  std::thread thread_{[this] { read(); }};
};

template <class Do>
double ms_of(Do act) {
  const auto begin = clock_type::now();
  act();
  return std::chrono::duration<double, std::milli>(clock_type::now() - begin).count();
}

int measure(int turns, int calls) {
  void* const library = ::dlopen(BENCH_DRIVER, RTLD_NOW);
  if (library == nullptr) return 1;
  function f[kinds];
  for (std::size_t k = 0; k < kinds; ++k) f[k] = reinterpret_cast<function>(::dlsym(library, names[k]));
  cutrace_ebpf::probe_options options;
  options.measured = true;
  cutrace_ebpf::call_probes probes(options);
  const cutrace_ebpf::opened_file file(BENCH_DRIVER);
  std::vector<double> bare[kinds], empty[kinds], ours[kinds], set_ms, off_ms;
  std::size_t functions = 0;
  std::uint64_t records = 0, lost = 0, made = 0;
  for (int turn = 0; turn < turns; ++turn) {
    for (std::size_t k = 0; k < kinds; ++k) bare[k].push_back(ns_each(f[k], calls));
    {
      const cutrace_ebpf::uprobe_links links = probes.attach_empty(file);
      for (std::size_t k = 0; k < kinds; ++k) empty[k].push_back(ns_each(f[k], calls));
    }
    probes.trace(static_cast<std::uint32_t>(::getpid()));
    set_ms.push_back(ms_of([&] { functions = probes.attach(file, 0); }));
    {
      const reading reader(probes, records);
      for (std::size_t k = 0; k < kinds; ++k) {
        ours[k].push_back(ns_each(f[k], calls));
        made += static_cast<std::uint64_t>(calls);
      }
    }
    off_ms.push_back(ms_of([&] { probes.detach(); }));
    cutrace_ebpf_target t{};
    if (probes.look_at(static_cast<std::uint32_t>(::getpid()), t)) lost += t.lost[CUTRACE_EBPF_RING_FULL];
    probes.forget(static_cast<std::uint32_t>(::getpid()));
  }
  std::printf("links: %s; %d turns of %d calls; medians, ns a call\n", to_string(probes.links()), turns, calls);
  std::printf("%-26s%10s%16s%10s  %s\n", "first instruction", "bare", "empty probes", "ours",
              "ours / empty, 95 % interval, budget");
  for (std::size_t k = 0; k < kinds; ++k) {
    std::printf("%-26s%10.1f%16.0f%10.0f", classes[k], median(bare[k]), median(empty[k]), median(ours[k]));
    print_ratio(ours[k], empty[k], 1.4);
  }
  std::printf("%zu functions: set in %.1f ms, taken off in %.1f ms (medians)\n", functions, median(set_ms),
              median(off_ms));
  std::printf("%llu calls, %llu records (names of threads among them), %llu lost\n",
              static_cast<unsigned long long>(made), static_cast<unsigned long long>(records),
              static_cast<unsigned long long>(lost));
  return 0;
}

int null_device() {
  static const int opened = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  return opened;
}
// NVIDIA's ioctls, with the sizes of their blocks: NV_ESC_RM_CONTROL, NV_ESC_RM_ALLOC, and NV_ESC_IOCTL_XFER_CMD, which
// holds the number and the address of another one.
int control() {
  static unsigned char block[32] = {};
  return ::ioctl(null_device(), 0xc020462a, block);
}
int object() {
  static unsigned char block[48] = {};
  return ::ioctl(null_device(), 0xc030462b, block);
}
int transfer() {
  static unsigned char inner[48] = {};
  static struct {
    std::uint32_t number, bytes;
    void* block;
  } outer = {0x2b, sizeof(inner), inner};
  return ::ioctl(null_device(), 0xc01046d3, &outer);
}
int other() { return static_cast<int>(::syscall(SYS_getppid)); }

/// A system call that is repeated; `make`: a function of the driver that repeats it inside of a call, null: it is
/// repeated outside of any.
struct repeated_call {
  const char* name;
  function what;
  void (*make)(function, int);
  double budget;
  std::vector<double> bare, reported;

  double ns(int calls) const {
    if (make == nullptr) return ns_each(what, calls);
    const auto begin = clock_type::now();
    make(what, calls);
    return std::chrono::duration<double, std::nano>(clock_type::now() - begin).count() / calls;
  }
};

/// On the null device, which takes the place of NVIDIA's: it refuses at once, so nearly all of the time is what
/// recording adds.
int measure_ioctls(int turns, int calls) {
  void* const library = ::dlopen(BENCH_DRIVER, RTLD_NOW);
  if (library == nullptr) return 1;
  const auto make = reinterpret_cast<void (*)(function, int)>(::dlsym(library, "cuMake"));
  repeated_call all[] = {{"control command", control, nullptr, 2.5, {}, {}},
                         {"the same, in a call", control, make, 2.5, {}, {}},
                         {"new object", object, nullptr, 2.5, {}, {}},
                         {"the same, in a transfer", transfer, nullptr, 2.5, {}, {}},
                         {"getppid, not reported", other, nullptr, 0, {}, {}}};
  cutrace_ebpf::call_probes probes{cutrace_ebpf::probe_options()};
  const cutrace_ebpf::opened_file file(BENCH_DRIVER);
  cutrace::ioctls::device_numbers devices;
  if (!devices.add("control=1:3")) return 1;
  const auto self = static_cast<std::uint32_t>(::getpid());
  std::uint64_t records = 0, lost = 0;
  std::string working;
  for (int turn = 0; turn < turns; ++turn) {
    for (repeated_call& m : all) m.bare.push_back(m.ns(calls));
    cutrace_ebpf::kernel_probes kernel(probes, devices, 0, {});
    working = kernel.working();
    probes.trace(self);
    probes.attach(file, 0);
    {
      const reading reader(probes, records);
      for (repeated_call& m : all) m.reported.push_back(m.ns(calls));
    }
    kernel.detach();
    probes.detach();
    cutrace_ebpf_target t{};
    if (probes.look_at(self, t)) lost += t.lost[CUTRACE_EBPF_RING_FULL];
    probes.forget(self);
  }
  std::printf("\n--kernel (%s); %d turns of %d ioctls; medians, ns each\n", working.c_str(), turns, calls);
  std::printf("%-26s%10s%16s%10s  %s\n", "system call", "bare", "with --kernel", "added",
              "with / bare, 95 % interval, budget");
  for (const repeated_call& m : all) {
    std::printf("%-26s%10.1f%16.0f%10.0f", m.name, median(m.bare), median(m.reported),
                bench::bootstrap_difference(m.reported, m.bare).value);
    print_ratio(m.reported, m.bare, m.budget);
  }
  std::printf("%llu ioctls, %llu records (calls and names of threads among them), %llu lost\n",
              4 * static_cast<unsigned long long>(turns) * static_cast<unsigned long long>(calls),
              static_cast<unsigned long long>(records), static_cast<unsigned long long>(lost));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const int turns = argc > 1 ? std::atoi(argv[1]) : 11, calls = argc > 2 ? std::atoi(argv[2]) : 20000;
    const int failed = measure(turns, calls);
    return failed != 0 ? failed : measure_ioctls(turns, calls);
  } catch (const std::runtime_error& e) {
    std::fprintf(stderr, "ebpf_cost: %s\n", e.what());
    return 1;
  }
}
