// SPDX-License-Identifier: Apache-2.0
// What the kernel offers to probes, and to this user. Whether a program may be loaded is tried rather than derived:
// capabilities, sysctls and a container's seccomp filter all have a say.
#include <linux/bpf.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <cstdint>
#include <cutrace/base/process_info.hpp>

#include "capabilities.hpp"
#include "checks.hpp"

namespace cutrace_tool::doctor {

namespace {

std::string setting(const setup& s, const std::string& name) {
  const std::string value = read_file(s, "/proc/sys/kernel/" + name).text;
  return "kernel." + name + (value.empty() ? " is not reported" : "=" + value);
}

/// uprobe_multi links came with Linux 6.6, uprobe sessions with 6.13 (kernel commits 89ae89f53d20 and d920179b3d48),
/// cookies of perf links with 5.15.
finding check_kernel(const setup& s) {
  finding f{"bpf.kernel", for_ebpf, state::ok, "", ""};
  const machine_file release = read_file(s, "/proc/sys/kernel/osrelease");
  int major = 0, minor = 0;
  if (!release.read() || std::sscanf(release.text.c_str(), "%d.%d", &major, &minor) != 2) {
    f.state = state::unknown;
    f.what = "kernel: not checked, because " +
             (release.read() ? std::string("/proc/sys/kernel/osrelease holds no version") : release.why());
    return f;
  }
  const int version = major * 1000 + minor;
  f.what = "Linux " + release.text;
  if (version >= 6013) {
    f.what += ": new enough for uprobe sessions, one probe for entry and return";
  } else if (version >= 6006) {
    f.state = state::limited;
    f.what += ": uprobe_multi, but no uprobe sessions, so entry and return are two probes";
    f.remedy = "Linux 6.13 has uprobe sessions";
  } else if (version >= 5015) {
    f.state = state::limited;
    f.what += ": no uprobe_multi, so each function needs a link of its own, and hundreds take minutes to detach";
    f.remedy = "Linux 6.6 has uprobe_multi; distributions may have brought it to older ones, which was not checked";
  } else {
    f.state = state::broken;
    f.what += ": probes cannot say which function they are on (BPF cookies)";
    f.remedy = "Linux 5.15 has them; 6.13 is best";
  }
  return f;
}

finding check_btf(const setup& s) {
  finding f{"bpf.btf", for_ebpf, state::ok, "/sys/kernel/btf/vmlinux can be read", ""};
  const int fd = ::open((s.root + "/sys/kernel/btf/vmlinux").c_str(), O_RDONLY | O_CLOEXEC);
  const int error = fd < 0 ? errno : 0;
  if (fd >= 0) ::close(fd);
  if (error == 0) return f;
  f.state = state::broken;
  f.what = "/sys/kernel/btf/vmlinux cannot be read: " + std::string(std::strerror(error));
  f.remedy = error == ENOENT ? "a kernel with CONFIG_DEBUG_INFO_BTF=y" : "let this user read it";
  return f;
}

/// "r0 = 0; exit" of the kind that uprobes take. 0 or errno.
int try_to_load() {
  bpf_insn code[2] = {};
  code[0].code = BPF_ALU64 | BPF_MOV | BPF_K;
  code[1].code = BPF_JMP | BPF_EXIT;
  static const char license[] = "GPL";
  union bpf_attr a;
  std::memset(&a, 0, sizeof(a));
  a.prog_type = BPF_PROG_TYPE_KPROBE;
  a.insns = reinterpret_cast<std::uintptr_t>(code);
  a.insn_cnt = 2;
  a.license = reinterpret_cast<std::uintptr_t>(license);
  const long fd = ::syscall(SYS_bpf, BPF_PROG_LOAD, &a, sizeof(a));
  if (fd < 0) return errno;
  ::close(static_cast<int>(fd));
  return 0;
}

constexpr const char* how_to_have_rights =
    "run as root (sudo cutrace), or with CAP_BPF and CAP_PERFMON (docker run --cap-add BPF --cap-add PERFMON; setcap "
    "on a "
    "copy that only a restricted group may start, mode 0750; never setuid: SECURITY.md)";

/// Whether anybody may start this very file, which has capabilities.
bool is_open_to_all() {
  struct stat own {};
  return cutrace::detail::has_more_rights_than_caller() && ::stat("/proc/self/exe", &own) == 0 &&
         (own.st_mode & S_IXOTH) != 0;
}

finding check_privilege(const setup& s) {
  finding f{"bpf.privilege", for_ebpf, state::ok, "", ""};
  const capabilities may = capabilities::read(s);
  const std::string settings = setting(s, "unprivileged_bpf_disabled") + ", " + setting(s, "perf_event_paranoid");
  std::string held =
      "this user " + std::string(may.bpf() && may.perfmon() ? "has CAP_BPF and CAP_PERFMON (or CAP_SYS_ADMIN)"
                                 : may.bpf()                ? "has CAP_BPF but not CAP_PERFMON"
                                 : may.perfmon()            ? "has CAP_PERFMON but not CAP_BPF"
                                                            : "has neither CAP_BPF nor CAP_PERFMON");
  if (!may.unread.empty()) held = "capabilities: not checked, because " + may.unread;
  if (!s.this_machine()) {
    f.state = !may.unread.empty() ? state::unknown : may.bpf() && may.perfmon() ? state::ok : state::broken;
    f.what = held + "; loading was not tried, because the files are of another root; " + settings;
    if (f.state == state::broken) f.remedy = how_to_have_rights;
    return f;
  }
  const int error = try_to_load();
  f.what = error == 0 ? "a BPF program for probes was loaded and taken back"
                      : "a BPF program for probes is refused: " + std::string(std::strerror(error));
  f.what += "; " + held + "; " + settings;
  if (error == 0 && is_open_to_all()) {
    f.state = state::limited;
    f.what += "; this cutrace has file capabilities, and anybody may start it";
    f.remedy = "chgrp it to a restricted group and chmod 0750, or take them away (setcap -r) and use sudo: SECURITY.md";
  }
  if (error == 0) return f;
  f.state = state::broken;
  f.remedy = error == ENOSYS ? "a kernel with CONFIG_BPF_SYSCALL=y"
             : may.bpf() && may.perfmon()
                 ? "this user has the capabilities, so a seccomp filter (of the container) or lockdown refuses it"
                 : how_to_have_rights;
  return f;
}

}  // namespace

findings check_bpf(const setup& s) { return {check_kernel(s), check_btf(s), check_privilege(s)}; }

}  // namespace cutrace_tool::doctor
