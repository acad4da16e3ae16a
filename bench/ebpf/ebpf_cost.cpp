// SPDX-License-Identifier: Apache-2.0
// What a call costs under our probes, beside the same call under probes that do nothing (budget 1.4 times) and the bare
// one, by the class of its first instruction; and how long it takes to set probes on 700 functions and to take them off
// (budget 1 s each). The three take turns; medians, and the median of the ratios of each turn. Needs root.
//   ebpf_cost [TURNS] [CALLS]
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "call_probes.hpp"

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
    std::atomic<bool> done{false};
    std::thread reader([&] {
      const auto take = [&](const void*, std::size_t) { return ++records != 0; };
      while (!done.load()) {
        probes.consume(take);
        ::usleep(5000);
      }
      probes.consume(take);
    });
    for (std::size_t k = 0; k < kinds; ++k) {
      ours[k].push_back(ns_each(f[k], calls));
      ratio[k].push_back(ours[k].back() / empty[k].back());
      made += static_cast<std::uint64_t>(calls);
    }
    done.store(true);
    reader.join();
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

}  // namespace

int main(int argc, char** argv) {
  try {
    return measure(argc > 1 ? std::atoi(argv[1]) : 11, argc > 2 ? std::atoi(argv[2]) : 20000);
  } catch (const std::runtime_error& e) {
    std::fprintf(stderr, "ebpf_cost: %s\n", e.what());
    return 1;
  }
}
