// SPDX-License-Identifier: Apache-2.0
// `cutrace bpf --print-bpftrace`: bpftrace reads the script where it is installed; its structure is looked at anyway.
#include <doctest/doctest.h>

#include <cstdio>

#include "bpf_support.hpp"

namespace {

using bpf_tests::kernel_of_files;
using bpf_tests::said;

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++n;
  return n;
}

/// The script for this test program in the place of libcuda: list_test.cpp has functions with names as the driver's.
said script(std::vector<std::string> more, const std::map<std::string, std::string>& environment = {}) {
  more.insert(more.end(), {"--print-bpftrace", "--library", OWN_PATH});
  return said(more, environment);
}

TEST_CASE(
    "the script probes all functions of the driver's API at entry and return, and raises bpftrace's limits for that") {
  const said s = script({});
  REQUIRE_MESSAGE(s.ended.exit_status == 0, s.ended.errors);
  const std::string& text = s.ended.output;
  CHECK(count(text, "{") == count(text, "}"));
  CHECK(count(text, "(") == count(text, ")"));
  CHECK(count(text, "\nuprobe:" OWN_PATH ":cu") == 2);
  CHECK(count(text, "\nuretprobe:" OWN_PATH ":cu") == 2);
  CHECK(s.text("cuT*"));
  CHECK(s.text("cuV*"));
  CHECK_FALSE(s.text(":cut*"));  // cutrace_test_exported is none of the driver
  CHECK(s.text("max_probes = 1024"));
  CHECK(s.text("bpftrace 0.20"));
}

TEST_CASE("probes: spans of functions with their arguments, instants of tracepoints") {
  const kernel_of_files kernel;
  const said s = script({"--probe", "fentry:nvidia:nvidia_unlocked_ioctl", "--probe", "kprobe:nvidia_gone", "--probe",
                         "tracepoint:nvidia:nvidia_dev_xid", "--probe", "uprobe:" OWN_PATH ":cutrace_test_exported"},
                        kernel.environment());
  REQUIRE_MESSAGE(s.ended.exit_status == 0, s.ended.errors);
  const std::string& text = s.ended.output;
  CHECK(count(text, "{") == count(text, "}"));
  CHECK(s.text("\nfentry:nvidia:nvidia_unlocked_ioctl\n"));
  CHECK(s.text("\nfexit:nvidia:nvidia_unlocked_ioctl\n"));
  CHECK(s.text("nvidia_unlocked_ioctl(file=0x%llx, cmd=%lld, i_arg=%lld) = 0x%llx"));
  CHECK(s.text("(uint64)args.cmd"));
  CHECK(s.text("\nkprobe:nvidia:nvidia_gone\n"));
  CHECK(s.text("\nkretprobe:nvidia:nvidia_gone\n"));
  CHECK(s.text("\nrawtracepoint:nvidia_dev_xid\n"));
  CHECK(s.text("nvidia_dev_xid(error_code=%lld)"));
  CHECK(s.text("\nuretprobe:" OWN_PATH ":cutrace_test_exported\n"));
}

TEST_CASE("bpftrace reads it") {
  temporary_folder folder;
  const auto asked = [&](const std::string& line) {
    return test_support::run_process({"/bin/sh", "-c", line}, folder.path());
  };
  int major = 0, minor = 0;
  const std::string version = asked("bpftrace --version").output;
  if (std::sscanf(version.c_str(), "bpftrace v%d.%d", &major, &minor) != 2 || (major == 0 && minor < 20) ||
      ::geteuid() != 0) {
    MESSAGE("skipped: no bpftrace from 0.20 on, or not root");
    return;
  }
  const said s = script({"--probe", "tracepoint:sched_process_exec"});
  std::ofstream(folder.file("calls.bt")) << s.ended.output;
  const auto read = asked(major > 0 || minor >= 22 ? "bpftrace --dry-run calls.bt" : "bpftrace -d calls.bt");
  CHECK_MESSAGE(read.exit_status == 0, read.errors);
}

TEST_CASE("probes that do not exist, or are not clear") {
  const kernel_of_files kernel;
  const auto refused = [&](const std::string& probe, const std::string& why) {
    const said s = script({"--probe", probe}, kernel.environment());
    CHECK(s.ended.exit_status == 125);
    CHECK(s.ended.output.empty());
    CHECK_MESSAGE(s.error(why), s.ended.errors);
  };
  refused("nvidia_open", "is no probe; accepted: uprobe:");
  refused("fentry:", "is no probe");
  refused("fentry:nvidia:nvidia_unlocked_ioctl2", "nearest: nvidia_unlocked_ioctl");
  refused("fentry:rm_ioctl", "gives no types of this function");
  refused("kprobe:nv_kthread_q_init",
          "there are several; choose kprobe:nvidia:nv_kthread_q_init, kprobe:nvidia_uvm:nv_kthread_q_init");
  refused("tracepoint:sched_proces_exec", "nearest: sched_process_exec");
  refused("uprobe:" OWN_PATH ":cutrace_test_export", "nearest: cutrace_test_exported");
  refused("uprobe:libnowhere.so.7:f", "libnowhere.so.7: no such library");
  CHECK(said({"--print-bpftrace", "--list", "*"}).ended.exit_status == 125);
  CHECK(said({"--list", "*", "--probe", "uprobe:f"}).ended.exit_status == 125);
}

}  // namespace
