// SPDX-License-Identifier: Apache-2.0
// Is there room in memory for a trace beside the program? A limit of the container or of the process, and what is free.
#include <sys/resource.h>

#include <cutrace/run/settings.hpp>
#include <exception>

#include "checks.hpp"
#include "cutrace/group_memory.hpp"

namespace cutrace_tool::doctor {

namespace {

constexpr unsigned long long mebi = 1ull << 20;

/// Bytes that a session keeps at most. A value that cannot be used is reported by check_environment.
unsigned long long of_a_session() {
  try {
    return cutrace::detail::complete({}).memory_limit_bytes;
  } catch (const std::exception&) {
    return cutrace::detail::settings{}.memory_limit_bytes;
  }
}

struct bound {
  unsigned long long bytes = ~0ull;
  std::string name = "";
  void take(unsigned long long other, const std::string& its_name) {
    if (other >= bytes) return;
    bytes = other;
    name = its_name;
  }
};

}  // namespace

findings check_memory(const setup& s) {
  finding f{"memory", for_all, state::ok, "", ""};
  bound b;
  const group_memory groups = least_group_memory(s.root);
  b.take(groups.bytes, groups.file);
  const std::string free = field(read_file(s, "/proc/meminfo").text, "MemAvailable");
  if (!free.empty()) b.take(std::strtoull(free.c_str(), nullptr, 10) * 1024, "MemAvailable");
  rlimit space{};
  if (s.this_machine() && ::getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY)
    b.take(space.rlim_cur, "RLIMIT_AS (ulimit -v)");
  if (b.name.empty()) {
    f.state = state::unknown;
    f.what = "not checked, because neither /proc/meminfo nor a limit of a control group can be read";
    return {f};
  }
  const unsigned long long kept = of_a_session();
  f.what = std::to_string(b.bytes / mebi) + " MiB for a program and its trace (" + b.name +
           "); a session keeps up to " + std::to_string(kept / mebi) + " MiB";
  if (b.bytes / 8 >= kept) return {f};
  f.state = b.bytes < kept ? state::broken : state::limited;
  f.remedy = "raise that limit, or let a session keep less with CUTRACE_MEMORY_LIMIT";
  return {f};
}

}  // namespace cutrace_tool::doctor
