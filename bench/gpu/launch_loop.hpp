// SPDX-License-Identifier: Apache-2.0
// The loop that is measured: launches of an empty kernel, in parts of which the first is left out.
#pragma once

#include <cutrace/cutrace.hpp>
#include <vector>

#include "../support/pairs.hpp"
#include "driver.hpp"

namespace bench {

constexpr int launches = 20000, parts = 7, synchronise_every = 1000;

/// Nanoseconds a launch, the median of the parts.
inline double measure_launches(const driver& gpu, bool staged) {
  std::vector<double> parts_ns;
  for (int part = 0; part < parts; ++part) {
    const std::uint64_t begin = cutrace::clock::monotonic_ns();
    for (int i = 0; i < launches / synchronise_every; ++i) {
      if (staged) {
        CUTRACE_STAGE("step", i);
        for (int k = 0; k < synchronise_every; ++k) gpu.launch();
        gpu.synchronize();
      } else {
        for (int k = 0; k < synchronise_every; ++k) gpu.launch();
        gpu.synchronize();
      }
    }
    if (part != 0) parts_ns.push_back(static_cast<double>(cutrace::clock::monotonic_ns() - begin) / launches);
  }
  return median(parts_ns);
}

}  // namespace bench
