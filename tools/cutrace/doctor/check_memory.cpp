// SPDX-License-Identifier: Apache-2.0
// Is there room in memory for a trace beside the program? A limit of the container or of the process, and what is free.
#include <sys/resource.h>

#include <cutrace/run/settings.hpp>
#include <exception>

#include "checks.hpp"

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

/// Limits of control groups: of this process's own one and of those above it, whose limits hold for it, too; and those
/// at the paths where a container sees its own group, v2 and v1.
void take_groups(const setup& s, bound& b) {
  std::string own = read_file(s, "/proc/self/cgroup").text;
  const std::size_t unified = own.find("0::");
  own = unified != std::string::npos ? own.substr(unified + 3, own.find('\n', unified) - unified - 3) : "";
  std::vector<std::string> files;
  for (; own.size() > 1 && own[0] == '/'; own.resize(own.rfind('/')))
    files.push_back("/sys/fs/cgroup" + own + "/memory.max");
  files.insert(files.end(), {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"});
  for (const std::string& file : files) {
    const std::string text = read_file(s, file).text;
    if (text.find_first_of("0123456789") == 0) b.take(std::strtoull(text.c_str(), nullptr, 10), file);
  }
}

}  // namespace

findings check_memory(const setup& s) {
  finding f{"memory", for_all, state::ok, "", ""};
  bound b;
  take_groups(s, b);
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
