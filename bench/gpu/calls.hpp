// SPDX-License-Identifier: Apache-2.0
// The loops that are measured, in parts of which the first is left out.
#pragma once

#include <cstdio>
#include <cutrace/cutrace.hpp>
#include <vector>

#include "../support/pairs.hpp"
#include "driver.hpp"

namespace bench {

constexpr int synchronise_every = 1000;

/// One line of a child's output, as child.hpp reads it. At once: what a profiler around it does at the end may kill it.
inline void print_measured(const char* metric, double value) {
  std::printf("measured %s %.3f\n", metric, value);
  std::fflush(stdout);
}

/// Nanoseconds an operation, the median of the parts after the first. `part(n)` does n of them.
template <class Part>
double measure(int parts, int operations, Part part) {
  std::vector<double> ns;
  for (int i = 0; i < parts; ++i) {
    const std::uint64_t begin = cutrace::clock::monotonic_ns();
    part(operations);
    if (i != 0) ns.push_back(static_cast<double>(cutrace::clock::monotonic_ns() - begin) / operations);
  }
  return median(ns);
}

/// `n` times `one`, synchronising every 1,000, each thousand in a stage where `staged`.
template <class Calls, class One>
void repeat(const Calls& gpu, int n, bool staged, One one) {
  for (int done = 0; done < n; done += synchronise_every) {
    const int end = n - done < synchronise_every ? n - done : synchronise_every;
    if (staged) {
      CUTRACE_STAGE("step", done);
      for (int i = 0; i < end; ++i) one();
      gpu.synchronize();
    } else {
      for (int i = 0; i < end; ++i) one();
      gpu.synchronize();
    }
  }
}

struct call_costs {
  double launch, copy, synchronise, allocate;  ///< ns each
  unsigned long long launches;                 ///< that were made
};

/// Launches of an empty kernel, copies of 4 KiB from pinned memory, synchronisations of an idle stream, and pairs of a
/// stream-ordered allocation and its release, as driver.hpp or runtime_calls.hpp makes them. `shorten` divides their
/// number.
template <class Calls>
call_costs measure_calls(const Calls& gpu, bool staged, int shorten) {
  constexpr int parts = 7;
  const int launches = 10000 / shorten, copies = 5000 / shorten, waits = 10000 / shorten, blocks = 5000 / shorten;
  call_costs c{};
  c.launch = measure(parts, launches, [&](int n) { repeat(gpu, n, staged, [&] { gpu.launch(); }); });
  c.copy = measure(parts, copies, [&](int n) { repeat(gpu, n, staged, [&] { gpu.copy(); }); });
  c.synchronise = measure(parts, waits, [&](int n) { repeat(gpu, n, staged, [&] { gpu.synchronize(); }); });
  c.allocate = measure(parts, blocks, [&](int n) { repeat(gpu, n, staged, [&] { gpu.allocate(); }); });
  c.launches = static_cast<unsigned long long>(parts) * static_cast<unsigned long long>(launches);
  return c;
}

inline void print_costs(const call_costs& c) {
  print_measured("launch", c.launch);
  print_measured("copy", c.copy);
  print_measured("synchronise", c.synchronise);
  print_measured("allocate", c.allocate);
}

}  // namespace bench
