// SPDX-License-Identifier: Apache-2.0
// May a process trace its own child, and let seccomp stop it at the calls of interest alone?
#include <sys/ptrace.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cutrace/ioctl/stop_filter.hpp>
#include <string>

#include "capabilities.hpp"
#include "checks.hpp"

namespace cutrace_tool::doctor {

namespace {

/// 0 or errno of PTRACE_TRACEME in a child; -1: there was no answer.
long long try_to_trace(const setup& s) {
  const probe_result r = run_probe(s.patience_seconds, [](const reporter& t) {
    t.report("error", ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) == 0 ? 0 : errno);
    ::_exit(0);
  });
  return r.number("error", -1);
}

finding check_scope(const setup& s) {
  finding f{"ptrace.scope", for_ioctl, state::ok, "", ""};
  const machine_file scope = read_file(s, "/proc/sys/kernel/yama/ptrace_scope");
  const capabilities may = capabilities::read(s);
  if (scope.absent()) {
    f.what = "no Yama in this kernel: a process may trace its own children";
  } else if (!scope.read()) {
    f.state = state::unknown;
    f.what = "ptrace_scope: not checked, because " + scope.why();
  } else {
    f.what = "kernel.yama.ptrace_scope=" + scope.text;
    const int level = std::atoi(scope.text.c_str());
    if (level <= 1)
      f.what += level == 0 ? ": processes of one user may trace each other"
                           : ": own children may be traced, running processes may not";
    if (level == 2 && may.sys_ptrace()) f.what += ", and this user has CAP_SYS_PTRACE";
    if (level == 3 || (level == 2 && !may.sys_ptrace())) {
      f.state = state::broken;
      f.what += level == 3 ? ": nobody may trace" : ": only with CAP_SYS_PTRACE";
      f.remedy = level == 3 ? "it stays until the next boot; then sysctl kernel.yama.ptrace_scope=1"
                            : "run as root, or sysctl kernel.yama.ptrace_scope=1";
    }
  }
  if (!s.this_machine() || f.state != state::ok) return f;
  const long long error = try_to_trace(s);
  if (error == 0) {
    f.what += "; tried with a child, it works";
  } else {
    f.state = error < 0 ? state::unknown : state::broken;
    f.what += error < 0 ? "; tried with a child, which gave no answer"
                        : "; tried with a child, it is refused: " + std::string(std::strerror(static_cast<int>(error)));
    f.remedy = "a container needs --cap-add SYS_PTRACE, or a seccomp profile that allows ptrace";
  }
  return f;
}

finding check_kernel(const setup& s) {
  finding f{"ptrace.kernel", for_ioctl, state::ok, "", ""};
  const machine_file release = read_file(s, "/proc/sys/kernel/osrelease");
  int major = 0, minor = 0;
  if (!release.read() || std::sscanf(release.text.c_str(), "%d.%d", &major, &minor) != 2) {
    f.state = state::unknown;
    f.what = "version of the kernel: not known";
    return f;
  }
  f.what = "Linux " + release.text;
  if (cutrace::ioctls::own_architecture == 0) {
    f.state = state::broken;
    f.what += " on a processor that this method does not know";
    f.remedy = "x86-64 or 64-bit ARM";
  } else if (major < 5 || (major == 5 && minor < 3)) {
    f.state = state::broken;
    f.what += ": the arguments of a stopped system call are reported from 5.3 on";
    f.remedy = "a newer kernel";
  } else {
    f.what += " gives the arguments of a stopped system call";
  }
  return f;
}

/// 0 or errno of installing the seccomp filter of method ioctl in a child; -1: there was no answer.
long long try_to_filter(const setup& s) {
  const probe_result r = run_probe(s.patience_seconds, [](const reporter& t) {
    t.report("error", cutrace::ioctls::install_stop_filter());
    ::_exit(0);
  });
  return r.number("error", -1);
}

finding check_seccomp(const setup& s) {
  finding f{"ptrace.seccomp", for_ioctl, state::ok, "", ""};
  const std::string actions = " " + read_file(s, "/proc/sys/kernel/seccomp/actions_avail").text + " ";
  const std::string mode = field(read_file(s, "/proc/self/status").text, "Seccomp");
  const std::string filtered = mode.empty()  ? "; whether a filter is active is not reported"
                               : mode == "2" ? "; a filter is active already, as in containers"
                                             : "; no filter is active";
  if (actions.find(" trace ") == std::string::npos) {
    f.state = state::unknown;
    f.what =
        "whether seccomp filters can stop a program at single system calls is not reported "
        "(/proc/sys/kernel/seccomp/actions_avail)" +
        filtered;
  } else {
    f.what = "seccomp filters can stop a program at single system calls" + filtered;
  }
  if (!s.this_machine()) return f;
  const long long error = try_to_filter(s);
  if (error == 0) {
    f.state = state::ok;
    f.what += "; tried with a child, a filter can be set";
  } else if (error > 0) {
    f.state = state::broken;
    f.what += "; tried with a child, a filter is refused: " + std::string(std::strerror(static_cast<int>(error)));
    f.remedy = "a kernel with CONFIG_SECCOMP_FILTER=y; in a container, a seccomp profile that allows seccomp";
  }
  return f;
}

}  // namespace

findings check_ptrace(const setup& s) { return {check_kernel(s), check_scope(s), check_seccomp(s)}; }

}  // namespace cutrace_tool::doctor
