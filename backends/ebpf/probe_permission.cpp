// SPDX-License-Identifier: Apache-2.0
#include "probe_permission.hpp"

#include <bpf/bpf.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>

#include "uprobe_links.hpp"

namespace cutrace_ebpf {

namespace {

constexpr unsigned cap_sys_admin = 21, cap_perfmon = 38, cap_bpf = 39;  // linux/capability.h, from Linux 5.8 on
// The kernel's own function for trying probes, which only BPF's test runs call; and two that are rarely called.
constexpr const char* tried_functions[] = {"bpf_fentry_test1", "__x64_sys_getpgid", "vfs_fsync"};

class open_fd {
 public:
  explicit open_fd(int fd) : fd_(fd), error_(fd < 0 ? errno : 0) {}
  ~open_fd() {
    if (fd_ >= 0) ::close(fd_);
  }
  open_fd(const open_fd&) = delete;
  open_fd& operator=(const open_fd&) = delete;
  int fd() const { return fd_; }
  int error() const { return error_; }

 private:
  int fd_, error_;
};

/// "r0 = 0; exit". A descriptor, or -1 and errno.
int load_nothing(bpf_prog_type type, unsigned attach_type, std::uint32_t function) {
  bpf_insn code[2] = {};
  code[0].code = BPF_ALU64 | BPF_MOV | BPF_K;
  code[1].code = BPF_JMP | BPF_EXIT;
  bpf_prog_load_opts o{};
  o.sz = sizeof(o);
  o.expected_attach_type = static_cast<bpf_attach_type>(attach_type);
  o.attach_btf_id = function;
  const int fd = ::bpf_prog_load(type, "cutrace_try", "GPL", code, 2, &o);
  if (fd >= 0) return fd;
  errno = -fd > 0 ? -fd : errno;
  return -1;
}

std::string lockdown() {
  std::string text;
  std::getline(std::ifstream("/sys/kernel/security/lockdown"), text);
  const std::size_t open = text.find('['), close = text.find(']');
  if (open == std::string::npos || close == std::string::npos) return {};
  const std::string level = text.substr(open + 1, close - open - 1);
  return level == "none" ? "" : level;
}

permission refused_with(int error, const char* what) {
  if (error != EPERM && error != EACCES) return {false, std::string(what) + ": " + std::strerror(error)};
  const bool admin = has_capability(cap_sys_admin);
  if (!admin && !(has_capability(cap_bpf) && has_capability(cap_perfmon)))
    return {false, "this user has neither root's rights nor CAP_BPF and CAP_PERFMON"};
  const std::string level = lockdown();
  if (!level.empty()) return {false, std::string(what) + ": not permitted; lockdown is \"" + level + "\""};
  return {false, std::string(what) + ": not permitted, though this user has the rights"};
}

int perf_type(const char* name) {
  int type = -1;
  std::ifstream("/sys/bus/event_source/devices/" + std::string(name) + "/type") >> type;
  return type;
}

/// A perf event at a function of the kernel, or at the begin of a file.
int open_event(int type, const char* function_or_path, pid_t process, int cpu) {
  perf_event_attr a;
  std::memset(&a, 0, sizeof(a));
  a.size = sizeof(a);
  a.type = static_cast<std::uint32_t>(type);
  a.config1 = reinterpret_cast<std::uintptr_t>(function_or_path);
  return static_cast<int>(::syscall(SYS_perf_event_open, &a, process, cpu, -1, PERF_FLAG_FD_CLOEXEC));
}

permission try_uprobe() {
  const open_fd file(::memfd_create("cutrace", MFD_CLOEXEC));
  if (file.fd() < 0) return {false, "no memory for a file to try it on"};
  const open_fd many(load_nothing(BPF_PROG_TYPE_KPROBE, attach_uprobe_multi, 0));
  if (many.fd() >= 0) {
    uprobe_links trial;
    if (trial.add_many(many.fd(), attach_uprobe_multi, false, file.fd(), {{0, 0}}, 0) == 0) return {true, {}};
  }
  const open_fd one(load_nothing(BPF_PROG_TYPE_KPROBE, 0, 0));
  if (one.fd() < 0) return refused_with(one.error(), "the kernel does not take the program");
  const int type = perf_type("uprobe");
  if (type < 0) return {false, "this kernel has no uprobes (CONFIG_UPROBE_EVENTS)"};
  const open_fd event(open_event(type, ("/proc/self/fd/" + std::to_string(file.fd())).c_str(), 0, -1));
  if (event.fd() < 0) return refused_with(event.error(), "the kernel sets no such probe");
  return {true, {}};
}

permission try_tracepoint(const kernel_catalog& kernel) {
  if (!kernel.without_types().empty()) return {false, kernel.without_types()};
  const open_fd program(load_nothing(BPF_PROG_TYPE_RAW_TRACEPOINT, 0, 0));
  if (program.fd() < 0) return refused_with(program.error(), "the kernel does not take the program");
  const open_fd link(::bpf_raw_tracepoint_open("sched_process_exec", program.fd()));
  if (link.fd() < 0) return refused_with(link.error(), "the kernel does not attach the program");
  return {true, {}};
}

permission try_fentry(const kernel_catalog& kernel) {
  if (!kernel.without_types().empty()) return {false, kernel.without_types()};
  std::vector<kernel_function> all;
  for (const char* tried : tried_functions) {
    all = kernel.functions(
        [tried](const std::string& module, const std::string& name) { return module == "vmlinux" && name == tried; });
    if (!all.empty() && all[0].type_id != 0) break;
  }
  if (all.empty() || all[0].type_id == 0) return {false, "there is nothing to try it on"};
  const open_fd program(load_nothing(BPF_PROG_TYPE_TRACING, BPF_TRACE_FENTRY, all[0].type_id));
  if (program.fd() < 0) return refused_with(program.error(), "the kernel does not take the program");
  const open_fd link(::bpf_raw_tracepoint_open(nullptr, program.fd()));
  if (link.fd() < 0) return refused_with(link.error(), "the kernel does not attach the program");
  return {true, {}};
}

permission try_kprobe() {
  const int type = perf_type("kprobe");
  if (type < 0) return {false, "this kernel has no kprobes (CONFIG_KPROBES, CONFIG_KPROBE_EVENTS)"};
  const open_fd program(load_nothing(BPF_PROG_TYPE_KPROBE, 0, 0));
  if (program.fd() < 0) return refused_with(program.error(), "the kernel does not take the program");
  int error = ENOENT;
  for (const char* tried : tried_functions) {
    const open_fd event(open_event(type, tried, -1, 0));
    if (event.fd() >= 0) return {true, {}};
    error = event.error();
    if (error == EPERM || error == EACCES) break;
  }
  return refused_with(error, "the kernel sets no such probe");
}

}  // namespace

permission try_probe_kind(probe_kind kind, const kernel_catalog& kernel) {
  switch (kind) {
    case probe_kind::uprobe:
      return try_uprobe();
    case probe_kind::tracepoint:
      return try_tracepoint(kernel);
    case probe_kind::fentry:
      return try_fentry(kernel);
    case probe_kind::kprobe:
      return try_kprobe();
  }
  return {};
}

}  // namespace cutrace_ebpf
