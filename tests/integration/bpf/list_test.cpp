// SPDX-License-Identifier: Apache-2.0
// `cutrace bpf --list`: names, kinds and arguments, on this kernel and on one of files.
#include <doctest/doctest.h>

#include <set>

#include "bpf_support.hpp"

// Found by their names in this program itself.
extern "C" {
__attribute__((used, noinline)) int cutrace_test_exported(int a) { return a + 1; }
__attribute__((used, noinline)) int cuTested(int a) { return a + 2; }
__attribute__((used, noinline)) int cuVerified(int a) { return a + 3; }
}

namespace {

using bpf_tests::kernel_of_files;
using bpf_tests::said;
using nlohmann::json;

json list(const std::string& pattern, std::vector<std::string> more = {},
          const std::map<std::string, std::string>& environment = {}) {
  more.insert(more.end(), {"--list", pattern, "--json"});
  const said s(more, environment);
  REQUIRE_MESSAGE(s.ended.exit_status == 0, s.ended.errors);
  return json::parse(s.ended.output);
}

std::set<std::string> names(const json& listed) {
  std::set<std::string> all;
  for (const json& p : listed.at("probes")) all.insert(p.at("probe").get<std::string>());
  return all;
}

TEST_CASE("tracepoints of this kernel, with their arguments") {
  const json all = list("tracepoint:sched_process_ex*");
  CHECK(names(all) ==
        std::set<std::string>{"tracepoint:vmlinux:sched_process_exec", "tracepoint:vmlinux:sched_process_exit"});
  const json& exec = all.at("probes").at(0);
  REQUIRE(exec.at("arguments").size() == 3);
  CHECK(exec.at("arguments")[0].at("type") == "struct task_struct *");
  CHECK(exec.at("arguments")[1].at("bytes") == 4);
  REQUIRE(all.at("kinds").size() == 1);
  CHECK(all.at("kinds")[0].at("kind") == "tracepoint");
  if (!all.at("kinds")[0].at("permitted").get<bool>()) CHECK(all.at("kinds")[0].at("reason") != "");
}

TEST_CASE("functions of a program or a library of the user, without rights") {
  const json all = list("uprobe:cutrace_test_*", {"--library", OWN_PATH});
  CHECK(names(all) == std::set<std::string>{"uprobe:" OWN_PATH ":cutrace_test_exported"});
  CHECK(names(list("uprobe:" OWN_PATH ":cutrace_test_*")) == names(all));
  const said none({"--list", "uprobe:*", "--library", "libnowhere.so.7"});
  CHECK(none.ended.exit_status == 125);
  CHECK(none.error("libnowhere.so.7: no such library"));
}

TEST_CASE("functions of modules, with those that have no types, and each of several modules") {
  const kernel_of_files kernel;
  const auto in = [&](const std::string& pattern) { return list(pattern, {}, kernel.environment()); };
  CHECK(names(in("fentry:nv*")) == std::set<std::string>{"fentry:nvidia:nvidia_unlocked_ioctl"});
  CHECK(names(in("nvidia:*")) == std::set<std::string>{"fentry:nvidia:nvidia_unlocked_ioctl",
                                                       "kprobe:nvidia:nv_kthread_q_init", "kprobe:nvidia:nvidia_gone",
                                                       "kprobe:nvidia:nvidia_unlocked_ioctl", "kprobe:nvidia:rm_ioctl",
                                                       "tracepoint:nvidia:nvidia_dev_xid"});
  CHECK(names(in("kprobe:nv_kthread*")) ==
        std::set<std::string>{"kprobe:nvidia:nv_kthread_q_init", "kprobe:nvidia_uvm:nv_kthread_q_init"});
  CHECK(names(in("vfs_read*")) == std::set<std::string>{"fentry:vmlinux:vfs_read", "kprobe:vmlinux:vfs_read"});
  const json ioctl = in("fentry:nvidia:nvidia_unlocked_ioctl").at("probes").at(0);
  std::vector<std::string> arguments;
  for (const json& a : ioctl.at("arguments"))
    arguments.push_back(a.at("type").get<std::string>() + "|" + a.at("name").get<std::string>());
  CHECK(arguments == std::vector<std::string>{"struct file *|file", "unsigned int|cmd", "long|i_arg"});
  CHECK(ioctl.at("result").at("type") == "long");
  // A tracepoint's typedef has no names; the function that calls it has.
  const json xid = in("tracepoint:nvidia:*").at("probes").at(0);
  CHECK(xid.at("arguments").at(0).at("name") == "error_code");
}

TEST_CASE("the table: at most 100 columns, refused or not, arguments on request") {
  const kernel_of_files kernel;
  const said s({"--list", "nvidia:*", "--verbose"}, kernel.environment());
  CHECK(s.ended.exit_status == 0);
  std::istringstream in(s.ended.output);
  for (std::string line; std::getline(in, line);) CHECK(line.size() <= 100);
  CHECK(s.text("(struct file *file, unsigned int cmd, long i_arg) -> long"));
  CHECK(s.text("six registers"));
  CHECK(s.text("5 names"));
  CHECK_FALSE(said({"--list", "nvidia:*"}, kernel.environment()).text("i_arg"));
  for (const char* kind : {"tracepoint  ", "fentry      ", "kprobe      "}) CHECK(s.text(kind));
}

TEST_CASE("names that do not exist, with those that are near") {
  const said typo({"--list", "fentry:vfs_raed"});
  CHECK(typo.ended.exit_status == 125);
  CHECK(typo.error("nearest: vfs_read"));
  const kernel_of_files kernel;
  const said module({"--list", "kprobe:nvidia:nvidia_ioctl"}, kernel.environment());
  CHECK(module.error("nearest: nvidia_unlocked_ioctl") == false);  // far away
  CHECK(module.error("nothing that can be probed here is called"));
  CHECK(said({"--list", ""}).ended.exit_status == 125);
  CHECK(said({}).ended.exit_status == 125);
}

TEST_CASE("a pipe with the name of a library is not waited for") {
  const temporary_folder folder;
  const auto in_folder = [&](const std::string& words) {
    return test_support::run_process({"/bin/sh", "-c", words}, folder.path(), {{"LD_LIBRARY_PATH", folder.path()}});
  };
  REQUIRE(in_folder("mkfifo libcuda.so.1").exit_status == 0);
  const auto named = in_folder("exec timeout 10 " CUTRACE_COMMAND " bpf --list 'uprobe:*' --library ./libcuda.so.1");
  CHECK(named.exit_status == 125);
  CHECK(named.errors.find("no regular file") != std::string::npos);
  CHECK(in_folder("exec timeout 10 " CUTRACE_COMMAND " bpf --list 'uprobe:*'").exit_status != 124);
  CHECK(in_folder("unset LD_LIBRARY_PATH; exec timeout 10 " CUTRACE_COMMAND " doctor ./libcuda.so.1").exit_status !=
        124);
}

TEST_CASE("without rights each kind is refused, with the reason") {
  if (::geteuid() != 0) return;
  const test_support::finished_process none = [] {
    temporary_folder folder;
    return test_support::run_process({"/bin/sh", "-c",
                                      "exec setpriv --reuid 65534 --regid 65534 --clear-groups " CUTRACE_COMMAND
                                      " bpf --list tracepoint:sched_process_exec"},
                                     folder.path());
  }();
  if (none.exit_status == 127) return;  // no setpriv
  CHECK(none.exit_status == 0);
  CHECK(none.output.find("neither root's rights nor CAP_BPF") != std::string::npos);
  CHECK(none.output.find("  refused") != std::string::npos);
}

}  // namespace
