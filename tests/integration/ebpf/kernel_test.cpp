// SPDX-License-Identifier: Apache-2.0
// `cutrace run --method ebpf --kernel` on a machine without a GPU: nodes that every machine has take the place of
// NVIDIA's, so that each ioctl fails with ENOTTY. Every one is reported once, or counted as lost, with the call that
// made it; waiting names its call, too; and the program notices nothing.
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "ebpf_support.hpp"

namespace kernel_test {

namespace {

using ebpf_support::notes;
using nlohmann::json;
using run_support::jsonl_trace;
using run_support::run;

std::map<std::string, std::string> with(const std::string& devices, std::map<std::string, std::string> more = {}) {
  more.emplace("CUTRACE_IOCTL_DEVICES", devices);
  return ebpf_support::with(std::move(more));
}

std::vector<std::string> with_kernel(std::vector<std::string> options) {
  options.emplace_back("--kernel");
  return options;
}

struct traced : ebpf_support::traced {
  traced(const std::vector<std::string>& program, const std::map<std::string, std::string>& environment,
         std::vector<std::string> options = {})
      : ebpf_support::traced(program, environment, with_kernel(std::move(options))) {
    CAPTURE(r.ended.errors);
    CHECK(r.ended.output == "done\n");
  }
};

/// Whether this machine has a kind; a note says why not.
bool works(const jsonl_trace& t, const std::string& kind) {
  if (notes(t).find("kernel probes refused: ") == std::string::npos) return true;
  const std::string all = notes(t);
  if (all.find(kind + ": ") == std::string::npos) return true;
  MESSAGE("skipped: " << all);
  return false;
}

std::map<std::uint64_t, json> calls_by_id(const jsonl_trace& t) {
  std::map<std::uint64_t, json> all;
  for (const json& e : t.of("api")) all[e.at("correlation").get<std::uint64_t>()] = e;
  return all;
}
long end_of(const json& e) { return e.at("ts_ns").get<long>() + e.at("dur_ns").get<long>(); }

TEST_CASE("eight threads: every ioctl once, decoded, with its exact parent, also of nested calls") {
  temporary_folder folder;
  const std::string node = folder.file("nvidiactl");
  const bool made = ::mknod(node.c_str(), S_IFCHR | 0666, makedev(1, 3)) == 0;
  if (!made) MESSAGE("without a node of its own: mknod: " << std::string(std::strerror(errno)));
  const traced t({"ioctls", made ? node : "/dev/null", "8", "400"},
                 with("control=1:3", {{"CUTRACE_EBPF_KERNEL", "ioctl"}}));
  REQUIRE_MESSAGE(t.r.ended.exit_status == 0, t.r.ended.errors);
  const jsonl_trace trace = t.trace();
  if (!works(trace, "ioctl")) return;
  CHECK(trace.complete());
  const std::map<std::uint64_t, json> calls = calls_by_id(trace);
  CHECK(calls.size() == 8 * 400 * 3);
  std::map<std::string, std::size_t> made_in;
  std::map<long, std::size_t> by_thread;
  for (const json& e : trace.of("ioctl")) {
    ++by_thread[e.at("tid").get<long>()];
    CHECK(e.at("name") == "NV_ESC_RM_CONTROL");
    CHECK(e.at("node") == "nvidiactl");
    CHECK(e.at("errno") == ENOTTY);
    CHECK(e.at("command_name") == "NV2080_CTRL_CMD_GPU_GET_INFO_V2");
    CHECK(e.at("client") == "0xc1d00001");
    CHECK(e.at("object") == "0x5c000002");
    CHECK(e.count("status_name") == 0);
    if (e.count("enclosing") == 0) {
      ++made_in[e.count("transferred") != 0 ? "nothing, transferred" : "nothing"];
      continue;
    }
    const json& parent = calls.at(e.at("enclosing").get<std::uint64_t>());
    ++made_in[parent.at("name").get<std::string>() + (parent.count("enclosing") != 0 ? " in another" : "")];
    CHECK(parent.at("tid") == e.at("tid"));
    CHECK(parent.at("ts_ns") <= e.at("ts_ns"));
    CHECK(end_of(parent) >= end_of(e));
  }
  CHECK(made_in ==
        std::map<std::string, std::size_t>{
            {"cuAsk", 3200}, {"cuAskNested", 6400}, {"cuAsk in another", 3200}, {"nothing, transferred", 3200}});
  CHECK(by_thread.size() == 8);
  for (const auto& [thread, n] : by_thread) CHECK(n == 2000);
}

TEST_CASE("UVM's device has its own numbers, and a descriptor that was closed is nobody's") {
  const traced t({"ioctls", "/dev/null", "1", "5"}, with("uvm=1:3", {{"CUTRACE_EBPF_KERNEL", "ioctl"}}));
  const jsonl_trace trace = t.trace();
  if (!works(trace, "ioctl")) return;
  CHECK(trace.names("ioctl") == std::map<std::string, std::size_t>{{"0xc020462a", 20}, {"0xc01046d3", 5}});
  const traced none({"ioctls", "/dev/null", "1", "5"}, with("control=1:9", {{"CUTRACE_EBPF_KERNEL", "ioctl"}}));
  CHECK(none.trace().of("ioctl").empty());
  CHECK(none.trace().of("api").size() == 15);
}

TEST_CASE("what finds no room is counted, to the unit") {
  const traced t({"ioctls", "/dev/null", "2", "3000"},
                 with("control=1:3", {{"CUTRACE_EBPF_KERNEL", "ioctl"}, {"CUTRACE_EBPF_RING", "8K"}}));
  const jsonl_trace trace = t.trace();
  if (!works(trace, "ioctl")) return;
  const std::size_t seen = trace.of("api").size() + trace.of("ioctl").size();
  const std::size_t lost = trace.footer.at("lost").at("buffer_limit");
  CHECK(lost > 0);
  CHECK(trace.of("ioctl").size() > 0);
  CHECK(seen + lost == 2 * 3000 * 8);
  CHECK(trace.footer.at("lost_total") == lost);
}

TEST_CASE("a call that was left by longjmp made none of what came after it") {
  const traced t({"left_and_asks", "/dev/null"}, with("control=1:3", {{"CUTRACE_EBPF_KERNEL", "ioctl,sched"}}));
  const jsonl_trace trace = t.trace();
  if (!works(trace, "ioctl")) return;
  REQUIRE(trace.of("ioctl").size() == 1);
  CHECK(trace.of("ioctl")[0].count("enclosing") == 0);
  // It slept, but in no call. On a busy machine it may have been preempted in one.
  for (const json& e : trace.of("system")) CHECK(e.at("args").at("state") == "preempted");
}

TEST_CASE("waiting inside of a call is reported with its state and its call, and no other") {
  const traced t({"sleep", "8"}, with("control=1:3", {{"CUTRACE_EBPF_KERNEL", "sched"}}));
  const jsonl_trace trace = t.trace();
  if (!works(trace, "sched")) return;
  CHECK(trace.complete());
  const std::map<std::uint64_t, json> calls = calls_by_id(trace);
  std::set<std::uint64_t> slept_in;
  for (const json& e : trace.of("system")) {
    CHECK(e.at("category_name") == "sched");
    CHECK(e.at("name") == "switched out");
    if (e.count("enclosing") == 0) {  // between two calls it never sleeps, but a busy machine may preempt it
      CHECK(e.at("args").at("state") == "preempted");
      continue;
    }
    const json& parent = calls.at(e.at("enclosing").get<std::uint64_t>());
    CHECK(parent.at("name") == "cuSleep");
    CHECK(parent.at("tid") == e.at("tid"));
    CHECK(parent.at("ts_ns") <= e.at("ts_ns"));
    CHECK(end_of(parent) >= end_of(e));
    if (e.at("args").at("state") == "sleeping") {
      slept_in.insert(e.at("enclosing").get<std::uint64_t>());
      CHECK(e.at("dur_ns").get<long>() > 0);
    }
  }
  CHECK(slept_in.size() == 8);
}

/// ns for which the processor was taken from the program, between its two calls.
long taken_ns(const std::string& program) {
  const traced t({program}, with("control=1:3", {{"CUTRACE_EBPF_KERNEL", "sched"}}));
  const jsonl_trace trace = t.trace();
  if (!works(trace, "sched")) return -1;
  CHECK(trace.complete());
  const std::vector<json> calls = trace.of("api");
  REQUIRE(calls.size() == 2);
  const long begin = end_of(calls[0]), end = calls[1].at("ts_ns").get<long>();
  long all = 0;
  for (const json& e : trace.of("system")) {
    if (e.count("enclosing") != 0 || e.at("ts_ns").get<long>() < begin || end_of(e) > end) continue;
    CHECK(e.at("name") == "switched out");
    CHECK(e.at("args").at("state") == "preempted");
    all += e.at("dur_ns").get<long>();
  }
  CHECK(all < end - begin);  // 150 ms, and longer where others want the processor, too
  return all;
}

TEST_CASE(
    "that its processor is taken from a thread is reported outside of calls, too; that it yields or sleeps is not") {
  const long computes = taken_ns("computes");
  if (computes < 0) return;
  CHECK(computes > 40000000);  // of 150 ms, half of which are the child's
  CHECK(taken_ns("yields") < computes / 2);
}

TEST_CASE("a thread that yields its processor inside of a call was not preempted there") {
  const traced t({"yields_in_a_call"}, with("control=1:3", {{"CUTRACE_EBPF_KERNEL", "sched"}}));
  const jsonl_trace trace = t.trace();
  if (!works(trace, "sched")) return;
  std::map<std::string, std::size_t> states;
  for (const json& e : trace.of("system"))
    if (e.count("enclosing") != 0) ++states[e.at("args").at("state").get<std::string>()];
  CHECK(states["yielded"] > 0);
}

TEST_CASE("a thread that only faults on other memory has no preemptions in the trace") {
  // The child, which makes no call, faults on pages that it shares with its parent.
  const traced t({"computes"}, with("uvm=1:5", {{"CUTRACE_EBPF_KERNEL", "sched,uvm"}}));
  const jsonl_trace trace = t.trace();
  if (!works(trace, "sched") || !works(trace, "uvm")) return;
  CHECK(trace.of("system").size() > 0);
  CHECK(t.r.files(".jsonl").size() == 1);
}

TEST_CASE("faults on managed memory, and on no other") {
  const traced t({"touch", "/dev/zero", "300"}, with("uvm=1:5", {{"CUTRACE_EBPF_KERNEL", "uvm"}}));
  const jsonl_trace trace = t.trace();
  if (!works(trace, "uvm")) return;
  std::set<std::string> addresses;
  for (const json& e : trace.of("system")) {
    CHECK(e.at("category_name") == "uvm");
    CHECK(e.at("name") == "page fault");
    CHECK(e.at("dur_ns") == 0);
    CHECK(e.at("args").at("access") == "write");
    addresses.insert(e.at("args").at("address").get<std::string>());
  }
  CHECK(addresses.size() == 300);
}

/// Interrupts so far of handlers whose name begins so.
std::uint64_t interrupts(const std::string& handler) {
  std::ifstream in("/proc/interrupts");
  std::string line;
  std::uint64_t all = 0;
  while (std::getline(in, line)) {
    const std::size_t last = line.find_last_of(' ');
    if (last == std::string::npos || line.compare(last + 1, handler.size(), handler) != 0) continue;
    std::istringstream words(line.substr(line.find(':') + 1));
    for (std::uint64_t n = 0; words >> n;) all += n;
  }
  return all;
}

TEST_CASE("interrupts of the handlers that were asked for") {
  const std::uint64_t before = interrupts("virtio");
  const traced t({"write", "60"}, with("", {{"CUTRACE_EBPF_KERNEL", "irq"}, {"CUTRACE_EBPF_INTERRUPT", "virtio"}}));
  const std::uint64_t after = interrupts("virtio");
  const jsonl_trace trace = t.trace();
  if (!works(trace, "irq")) return;
  const std::vector<json> seen = trace.of("system");
  CHECK(seen.size() <= after - before);
  if (after - before < 60) {
    MESSAGE("skipped: writing to this disk makes no interrupts");
    return;
  }
  CHECK(!seen.empty());
  for (const json& e : seen) {
    CHECK(e.at("category_name") == "irq");
    CHECK(e.at("name").get<std::string>().compare(0, 6, "virtio") == 0);
    CHECK(e.count("tid") == 0);
    CHECK(e.at("dur_ns").get<long>() >= 0);
    CHECK(e.at("args").at("irq").get<int>() > 0);
  }
}

TEST_CASE("what the kernel refuses is a note, and the rest works") {
  const traced t({"ioctls", "/dev/null", "1", "3"},
                 with("control=1:3", {{"CUTRACE_EBPF_FUNCTIONS", "vfs_read,no_such"}}));
  CHECK(t.r.ended.exit_status == 0);
  const jsonl_trace trace = t.trace();
  CHECK(trace.of("api").size() == 9);
  CHECK(notes(trace).find("no_such") != std::string::npos);
  CHECK(notes(trace).find("ioctls come from tracepoints") != std::string::npos);
  if (works(trace, "ioctl")) CHECK(trace.of("ioctl").size() == 15);
  const traced plain({"ioctls", "/dev/null", "1", "3"}, with("control=1:3"));
  const std::string all = notes(plain.trace());
  const bool has_driver = ::access("/proc/driver/nvidia/version", F_OK) == 0;
  CHECK((all.find("tracepoint nvidia_dev_xid") != std::string::npos || has_driver));
}

TEST_CASE("--kernel asks for --method ebpf, and its variable for known words") {
  const run other({"--method", "ioctl", "--kernel"}, {"/bin/true"});
  CHECK(other.ended.exit_status == 125);
  CHECK(other.says("give --method ebpf (or all), too"));
  const run odd({"--method", "ebpf", "--kernel"}, {"/bin/true"}, {{"CUTRACE_EBPF_KERNEL", "ioctl,everything"}});
  CHECK(odd.ended.exit_status == 125);
  CHECK(odd.says("\"everything\" is no kind"));
}

}  // namespace

}  // namespace kernel_test
