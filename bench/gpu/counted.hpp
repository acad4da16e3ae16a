// SPDX-License-Identifier: Apache-2.0
// Kernels and whole graphs that the tracers of a process saw, those that there were, and records of any kind that were
// lost.
#pragma once

#include <cstdio>
#include <cutrace/stats.hpp>

#include "raw_cupti.hpp"

namespace bench {

inline unsigned long long records_of(const cutrace::stats& s) {
  return s.by_kind[static_cast<std::size_t>(cutrace::event_kind::kernel)] +
         s.by_kind[static_cast<std::size_t>(cutrace::event_kind::graph_launch)];
}

struct counted {
  unsigned long long seen = 0, expected = 0, lost = 0;

  /// Of a session that was stopped.
  void add(const cutrace::stats& s) {
    seen += records_of(s);
    lost += s.lost_total();
  }
  void add(const raw_cupti::counts& c) {
    seen += c.records;
    lost += c.dropped;
  }
  /// The line that child.hpp reads.
  void print() const { std::printf("records %llu %llu %llu\n", seen, expected, lost); }
};

}  // namespace bench
