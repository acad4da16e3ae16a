// SPDX-License-Identifier: Apache-2.0
// The traced process, as a trace's header describes it: this process itself, unless it writes down what a tracer saw of
// another process.
#pragma once

#include <fcntl.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cutrace/base/write_all.hpp>
#include <cutrace/config.hpp>
#include <cutrace/sink.hpp>
#include <initializer_list>
#include <string>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

/// The process whose trace this process writes. Filled before the first session, and not changed after that: the other
/// process may be gone by then, so nothing of it can be read later. Its times come from the kernel, so the trace has
/// the kernel's clock.
struct remote_process {
  std::uint32_t id = 0;  ///< 0: this process itself
  std::string name, command_line;
  std::uint64_t since_ns = 0;  ///< CLOCK_MONOTONIC: begin of its trace, before this process's session; 0: with it

  bool other() const noexcept { return id != 0; }
  static remote_process& own() {
    static remote_process* p = new remote_process();  // never destroyed: sinks close at exit
    return *p;
  }
};

inline std::uint32_t traced_process_id() {
  const remote_process& p = remote_process::own();
  return p.other() ? p.id : static_cast<std::uint32_t>(::getpid());
}

// The environment, which the caller of the program chooses.

/// Whether the kernel gave this program rights that its caller does not have: setuid, setgid or file capabilities.
inline bool has_more_rights_than_caller() noexcept { return ::getauxval(AT_SECURE) != 0; }

/// Set by a process that has given up these rights, or has checked its environment itself.
inline bool& trusts_environment() noexcept {
  static bool trusts = false;
  return trusts;
}

/// A variable that has a value, else null. The only place that reads the environment of a traced program. In a program
/// with more rights than its caller the result is null, so that the caller chooses no sink, file, library or address;
/// one line reports it where the caller tried.
CUTRACE_NOINLINE inline const char* environment(const char* name) noexcept {
  const char* v = std::getenv(name);
  if (v == nullptr || *v == '\0') return nullptr;
  if (CUTRACE_LIKELY(!has_more_rights_than_caller()) || trusts_environment()) return v;
  static std::atomic<bool> said{false};
  const bool asks_cutrace = std::strncmp(name, "CUTRACE", 7) == 0 || std::strstr(name, "INJECTION64") != nullptr;
  if (asks_cutrace && !said.exchange(true))
    write_error_line(
        "cutrace: %s and other variables of the environment are not obeyed: this program has rights that its caller "
        "has not (setuid, setgid or file capabilities)",
        name);
  return nullptr;
}

// Which of many processes this one is, as launchers say it in the environment.

/// Value of the first of these variables that holds a number, -1 if none does.
CUTRACE_NOINLINE inline std::int32_t number_from_environment(std::initializer_list<const char*> names) {
  for (const char* n : names) {
    const char* v = environment(n);
    if (v == nullptr) continue;
    char* end = nullptr;
    const long value = std::strtol(v, &end, 10);
    if (*end == '\0' && value >= 0 && value < 1 << 30) return static_cast<std::int32_t>(value);
  }
  return -1;
}

/// Rank in the whole job: torchrun, Open MPI, Slurm, MPICH and Intel MPI. Where only LOCAL_RANK is set, the number
/// within one machine, that is the rank. -1 where there is none.
inline std::int32_t process_rank() {
  return number_from_environment({"RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "PMI_RANK", "LOCAL_RANK"});
}
/// Number of processes of the job, or -1.
inline std::int32_t process_world_size() {
  return number_from_environment({"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS", "PMI_SIZE"});
}

CUTRACE_NOINLINE inline std::string read_small_file(const char* path, std::size_t limit_bytes) {
  std::string out(limit_bytes, '\0');
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  const ssize_t n = fd >= 0 ? read(fd, &out[0], limit_bytes) : -1;
  if (fd >= 0) close(fd);
  out.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  while (!out.empty() && (out.back() == '\n' || out.back() == '\0')) out.pop_back();
  return out;
}

/// Equal where CLOCK_MONOTONIC is comparable: the boot id, followed by the offset of this process's time namespace if
/// that is not 0 (time_namespaces(7)): "0b5c1b4e-8e1f-4c7e-9f57-3d7e9b0c9a11+100000.000000000". Empty where there is no
/// /proc.
CUTRACE_NOINLINE inline std::string read_boot_id() {
  std::string id = read_small_file("/proc/sys/kernel/random/boot_id", 64);
  // The file holds the offsets for children; they are this process's own unless it has made a namespace for them.
  char own[64] = {}, of_children[64] = {};
  if (readlink("/proc/self/ns/time", own, sizeof(own) - 1) < 0) return id;
  if (readlink("/proc/self/ns/time_for_children", of_children, sizeof(of_children) - 1) < 0) return id;
  const std::string offsets = read_small_file("/proc/self/timens_offsets", 256);
  long long seconds = 0, nanoseconds = 0;
  if (id.empty() || std::strcmp(own, of_children) != 0 ||
      std::sscanf(offsets.c_str(), "monotonic %lld %lld", &seconds, &nanoseconds) != 2 ||
      (seconds == 0 && nanoseconds == 0))
    return id;
  char ahead[48];
  std::snprintf(ahead, sizeof(ahead), "%+lld.%09lld", seconds, nanoseconds);
  return id + ahead;
}

struct process_info {
  std::string name, command_line, host, boot_id;
  std::int32_t rank, world_size;

  CUTRACE_NOINLINE static process_info read() {
    process_info p;
    const remote_process& reported = remote_process::own();
    p.name = reported.other() ? reported.name : read_small_file("/proc/self/comm", 64);
    p.command_line = reported.other() ? reported.command_line : read_small_file("/proc/self/cmdline", 4096);
    p.name = whole_name(p.name, p.command_line.substr(0, p.command_line.find('\0')));
    for (char& c : p.command_line)
      if (c == '\0') c = ' ';
    char host[256] = {};
    if (gethostname(host, sizeof(host) - 1) == 0) p.host = host;
    p.boot_id = read_boot_id();
    p.rank = process_rank();
    p.world_size = process_world_size();
    return p;
  }

  /// The kernel cuts names after 15 bytes (TASK_COMM_LEN): the file name in `path` where `name` is its beginning, else
  /// `name`.
  CUTRACE_NOINLINE static std::string whole_name(const std::string& name, const std::string& path) {
    const std::string file = path.substr(path.rfind('/') + 1);  // npos + 1 is 0
    return name.size() == 15 && file.compare(0, 15, name) == 0 ? file : name;
  }
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
