// SPDX-License-Identifier: Apache-2.0
// Wall and CPU time and peak memory of something that runs in a process of its own.
#pragma once

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <ctime>

namespace bench {

struct cost {
  double wall_s, cpu_s, peak_mib;
  std::uint64_t events, complaints;
};

inline double seconds(const timeval& t) {
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
}

/// What `work` costs in a process of its own, from its start to its end, so that its peak memory is its own. `work` may
/// fill in events and complaints, or replace the process by another program, whose exit status counts as a complaint.
template <class Work>
cost measured(Work work) {
  int ends[2];
  cost c{};
  if (pipe2(ends, O_CLOEXEC) != 0) return c;
  timespec begin{}, end{};
  clock_gettime(CLOCK_MONOTONIC, &begin);
  const pid_t child = fork();
  if (child == 0) {
    cost mine{};
    work(mine);
    _exit(write(ends[1], &mine, sizeof(mine)) == sizeof(mine) ? 0 : 1);
  }
  close(ends[1]);
  cost reported{};
  if (read(ends[0], &reported, sizeof(reported)) == sizeof(reported)) c = reported;
  close(ends[0]);
  int status = 0;
  rusage used{};
  if (child < 0 || wait4(child, &status, 0, &used) != child || status != 0) ++c.complaints;
  clock_gettime(CLOCK_MONOTONIC, &end);
  c.wall_s = static_cast<double>(end.tv_sec - begin.tv_sec) + static_cast<double>(end.tv_nsec - begin.tv_nsec) * 1e-9;
  c.cpu_s = seconds(used.ru_utime) + seconds(used.ru_stime);
  c.peak_mib = static_cast<double>(used.ru_maxrss) / 1024;
  return c;
}

}  // namespace bench
