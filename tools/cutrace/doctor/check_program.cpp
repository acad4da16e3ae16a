// SPDX-License-Identifier: Apache-2.0
// The program that was named: can it be started, and can a library be brought into it?
#include <unistd.h>

#include "checks.hpp"
#include "executable.hpp"

namespace cutrace_tool::doctor {

namespace {

finding check_start(const executable& e, const std::string& by_way_of) {
  finding f{"program", for_all, state::ok, by_way_of + e.path, ""};
  if (!e.error.empty()) {
    f.state = state::broken;
    f.what = by_way_of + e.error;
    f.remedy = "name an executable, as it would be started in a shell";
  } else if (e.bits_32) {
    f.state = state::broken;
    f.what += " is a 32-bit program: neither CUDA nor cutrace has libraries for it";
    f.remedy = "build it for 64 bits";
  } else if (e.other_machine) {
    f.state = state::broken;
    f.what += " is for another processor";
    f.remedy = "build it for this one";
  }
  return f;
}

finding check_preload(const executable& e) {
  finding f{"program.preload", for_preload, state::ok, "the loader will bring a preloaded library into it", ""};
  if (e.is_static()) {
    f.state = state::broken;
    f.what = e.path + " is static: no loader runs that could preload anything";
    f.remedy = "link it dynamically, or use another method";
  } else if (e.is_foreign()) {
    f.state = state::broken;
    f.what = e.path + " is started by " + e.loader_path + ": the library that would be preloaded is one for glibc";
    f.remedy = "link it with glibc, which CUDA's driver needs, too";
  } else if (e.elevates) {
    f.state = state::broken;
    f.what = e.path + " is setuid, setgid or has capabilities: its loader ignores LD_PRELOAD (ld.so(8))";
    f.remedy = "run a copy without these rights, or start it as the user that it becomes";
  }
  return f;
}

finding check_injection(const executable& e) {
  finding f{"program.inject", for_cupti, state::ok, "the driver can bring cutrace's library into it", ""};
  if (e.is_static()) {
    f.state = state::limited;
    f.what =
        e.path + " is static: unless it loads libcuda.so.1 by itself it uses no CUDA, and there is nothing to trace";
    f.remedy = "trace the program that calls CUDA; where this one does, link it dynamically";
  } else if (e.elevates) {
    f.state = state::unknown;
    f.what = "not checked, because " + e.path +
             " is setuid, setgid or has capabilities, and the driver's manual does not "
             "say whether it heeds CUDA_INJECTION64_PATH then";
    f.remedy = "run a copy without these rights, or start it as the user that it becomes";
  }
  return f;
}

/// A tracer takes the rights away that the program would gain.
finding check_rights(const executable& e) {
  finding f{"program.rights", for_ioctl, state::ok, "it gains no rights that a tracer would take away", ""};
  if (!e.elevates || ::geteuid() == 0) return f;
  f.state = state::broken;
  f.what = e.path + " is setuid, setgid or has capabilities: a traced program does not get these rights (ptrace(2))";
  f.remedy = "run a copy without these rights, or start it as the user that it becomes";
  return f;
}

}  // namespace

findings check_program(const setup& s) {
  if (s.program.empty()) return {};
  std::string by_way_of;
  const executable e = what_runs(s.program, by_way_of);
  findings all{check_start(e, by_way_of)};
  if (all[0].state != state::ok) return all;
  all.push_back(check_injection(e));
  all.push_back(check_preload(e));
  all.push_back(check_rights(e));
  return all;
}

}  // namespace cutrace_tool::doctor
