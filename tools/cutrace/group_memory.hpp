// SPDX-License-Identifier: Apache-2.0
// How much memory control groups (cgroups(7)) allow to this process. A limit holds for all groups below, and jobs of
// Slurm, of containers and of systemd have theirs above the group that the process is in.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>

namespace cutrace_tool {

struct group_memory {
  std::uint64_t bytes = ~std::uint64_t{0};
  std::string file;  ///< that holds the limit; empty: there is none
};

/// The least limit of this process's groups and of those above them, v2 and v1, up to the topmost one, where a
/// container sees its own group. @param root before each path of /proc and /sys; empty: this machine
inline group_memory least_group_memory(const std::string& root = {}) {
  group_memory least;
  const auto look_up = [&](const std::string& top, std::string group, const char* limit) {
    while (true) {
      if (!group.empty() && group.back() == '/') group.pop_back();
      const std::string file = top + group + limit;
      std::uint64_t bytes = 0;
      if (std::ifstream(root + file) >> bytes && bytes < least.bytes) least = {bytes, file};
      if (group.empty()) return;
      group.resize(group.find_last_of('/') + 1);
    }
  };
  std::string v2, v1;
  // NUMBER:CONTROLLERS:GROUP, of v2 0::GROUP.
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    if (controllers == ",,") v2 = line.substr(second + 1);
    if (controllers.find(",memory,") != std::string::npos) v1 = line.substr(second + 1);
  }
  look_up("/sys/fs/cgroup", v2, "/memory.max");
  look_up("/sys/fs/cgroup/memory", v1, "/memory.limit_in_bytes");
  return least;
}

}  // namespace cutrace_tool
