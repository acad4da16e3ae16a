// SPDX-License-Identifier: Apache-2.0
// Who this process is: what a trace's header says of it.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cutrace/detail/rank.hpp>
#include <cutrace/detail/told_process.hpp>
#include <cutrace/sink.hpp>
#include <string>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

CUTRACE_NOINLINE inline std::string read_small_file(const char* path, std::size_t limit_bytes) {
  std::string out(limit_bytes, '\0');
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  const ssize_t n = fd >= 0 ? read(fd, &out[0], limit_bytes) : -1;
  if (fd >= 0) close(fd);
  out.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  while (!out.empty() && (out.back() == '\n' || out.back() == '\0')) out.pop_back();
  return out;
}

struct process_info {
  std::string name, command_line, host, boot_id;
  std::int32_t rank, world_size;

  CUTRACE_NOINLINE static process_info read() {
    process_info p;
    const told_process& told = told_process::own();
    p.name = told.other() ? told.name : read_small_file("/proc/self/comm", 64);
    p.command_line = told.other() ? told.command_line : read_small_file("/proc/self/cmdline", 4096);
    p.name = whole_name(p.name, p.command_line.substr(0, p.command_line.find('\0')));
    for (char& c : p.command_line)
      if (c == '\0') c = ' ';
    char host[256] = {};
    if (gethostname(host, sizeof(host) - 1) == 0) p.host = host;
    p.boot_id = read_small_file("/proc/sys/kernel/random/boot_id", 64);
    p.rank = process_rank();
    p.world_size = process_world_size();
    return p;
  }

  /// The kernel cuts names after 15 bytes (TASK_COMM_LEN); where the program's path ends in the whole name, that one.
  CUTRACE_NOINLINE static std::string whole_name(const std::string& name, const std::string& path) {
    const std::string file = path.substr(path.rfind('/') + 1);  // npos + 1 is 0
    return name.size() == 15 && file.compare(0, 15, name) == 0 ? file : name;
  }
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
