// SPDX-License-Identifier: Apache-2.0
// What a call costs under our probes, beside the same call under probes that do nothing (budget 1.4 times) and the bare
// one, by the class of its first instruction; and how long it takes to set probes on 700 functions and to take them off
// (budget 1 s each). Then what an ioctl costs that --kernel tells (budget 2.5 times the bare one; it is not kept yet),
// and any other system call meanwhile. All take turns; medians, and the median of the ratios of each turn. Needs root.
//   ebpf_cost [TURNS] [CALLS]
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
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

double median(std::vector<double> all) {
  std::sort(all.begin(), all.end());
  const std::size_t half = all.size() / 2;
  return all.empty() ? 0 : all.size() % 2 == 1 ? all[half] : (all[half - 1] + all[half]) / 2;
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
  std::vector<double> bare[kinds], empty[kinds], ours[kinds], ratio[kinds], set_ms, off_ms;
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
        ratio[k].push_back(ours[k].back() / empty[k].back());
        made += static_cast<std::uint64_t>(calls);
      }
    }
    off_ms.push_back(ms_of([&] { probes.detach(); }));
    cutrace_ebpf_target t{};
    if (probes.look_at(static_cast<std::uint32_t>(::getpid()), t)) lost += t.lost[CUTRACE_EBPF_RING_FULL];
    probes.forget(static_cast<std::uint32_t>(::getpid()));
  }
  std::printf("links: %s; %d turns of %d calls; medians, ns a call\n", to_string(probes.links()), turns, calls);
  std::printf("%-26s%10s%16s%10s%18s\n", "first instruction", "bare", "empty probes", "ours", "ours / empty");
  for (std::size_t k = 0; k < kinds; ++k)
    std::printf("%-26s%10.1f%16.0f%10.0f%18.2f\n", classes[k], median(bare[k]), median(empty[k]), median(ours[k]),
                median(ratio[k]));
  std::printf("%zu functions: set in %.1f ms, taken off in %.1f ms (medians)\n", functions, median(set_ms),
              median(off_ms));
  std::printf("%llu calls, %llu records (names of threads among them), %llu lost\n",
              static_cast<unsigned long long>(made), static_cast<unsigned long long>(records),
              static_cast<unsigned long long>(lost));
  return 0;
}

/// On the null device, which takes the place of NVIDIA's: it refuses at once, so the number is what is added.
int measure_ioctls(int turns, int calls) {
  static const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  static unsigned char block[32] = {};
  const function ask = [] { return ::ioctl(null, 0xc020462a, block); };
  const function other = [] { return static_cast<int>(::syscall(SYS_getppid)); };
  cutrace_ebpf::call_probes probes{cutrace_ebpf::probe_options()};
  cutrace::ioctls::device_numbers devices;
  if (!devices.add("control=1:3")) return 1;
  const auto self = static_cast<std::uint32_t>(::getpid());
  std::vector<double> bare, told, bare_other, with_other, ratio, ratio_other;
  std::uint64_t records = 0, lost = 0;
  std::string working;
  for (int turn = 0; turn < turns; ++turn) {
    bare.push_back(ns_each(ask, calls));
    bare_other.push_back(ns_each(other, calls));
    cutrace_ebpf::kernel_probes kernel(probes, devices, 0, {});
    working = kernel.working();
    probes.trace(self);
    {
      const reading reader(probes, records);
      told.push_back(ns_each(ask, calls));
      with_other.push_back(ns_each(other, calls));
    }
    ratio.push_back(told.back() / bare.back());
    ratio_other.push_back(with_other.back() / bare_other.back());
    kernel.detach();
    cutrace_ebpf_target t{};
    if (probes.look_at(self, t)) lost += t.lost[CUTRACE_EBPF_RING_FULL];
    probes.forget(self);
  }
  std::printf("\n--kernel (%s); %d turns of %d calls; medians, ns a call\n", working.c_str(), turns, calls);
  std::printf("%-26s%10s%16s%18s\n", "system call", "bare", "with --kernel", "with / bare");
  std::printf("%-26s%10.1f%16.0f%18.2f\n", "ioctl that is told", median(bare), median(told), median(ratio));
  std::printf("%-26s%10.1f%16.0f%18.2f\n", "getppid", median(bare_other), median(with_other), median(ratio_other));
  std::printf("%llu ioctls, %llu records, %llu lost\n",
              static_cast<unsigned long long>(turns) * static_cast<unsigned long long>(calls),
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
