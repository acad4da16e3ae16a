// SPDX-License-Identifier: Apache-2.0
// A program that is linked statically, on a machine with a driver: it is traced without GPU times.
#include <cstdio>
#include <cutrace/cutrace.hpp>

int main() {
  cutrace::session trace;
  const bool active = trace.active();
  { CUTRACE_STAGE("step"); }
  trace.stop();
  const auto stages = trace.stats().by_kind[static_cast<std::size_t>(cutrace::event_kind::stage)];
  std::printf("active %d, stages %d\n", active, static_cast<int>(stages));
  return active && stages == 1 ? 0 : 1;
}
