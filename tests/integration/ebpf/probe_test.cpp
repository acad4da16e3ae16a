// SPDX-License-Identifier: Apache-2.0
// Probes of the user's own, `--probe`: each call once, with its arguments, its result and the call of the driver around
// it; what this machine refuses, or has not, is said.
#include <doctest/doctest.h>
#include <sys/syscall.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ebpf_support.hpp"

namespace probe_test {

namespace {

using nlohmann::json;
using run_support::jsonl_trace;
using run_support::run;

std::vector<std::string> with_probes(std::vector<std::string> options, const std::vector<std::string>& probes) {
  for (const std::string& p : probes) options.insert(options.end(), {"--probe", p});
  return options;
}

struct probed : ebpf_support::traced {
  probed(const std::vector<std::string>& probes, const std::vector<std::string>& program,
         std::map<std::string, std::string> environment = {}, std::vector<std::string> options = {})
      : traced(program, ebpf_support::with(std::move(environment)), with_probes(std::move(options), probes)) {}
};

const std::string add = "uprobe:" MINE ":mine_add", calls = "uprobe:" MINE ":mine_calls";

std::vector<json> of_probe(const jsonl_trace& t, const std::string& name) {
  std::vector<json> all;
  for (const json& e : t.of("system"))
    if (e.at("name") == name && e.at("category_name") == "probe") all.push_back(e);
  return all;
}

std::uint64_t word(const json& e, const std::string& name) {
  return std::stoull(e.at("args").at(name).get<std::string>(), nullptr, 16);
}

TEST_CASE("functions of a library of the user, each call in its call of the driver") {
  const probed p({add}, {"mine", "200"});
  REQUIRE_MESSAGE(p.r.ended.exit_status == 0, p.r.ended.errors);
  CHECK(p.r.ended.output == "done\n");
  CHECK(p.r.ended.errors.empty());
  const jsonl_trace trace = p.trace();
  CHECK(trace.complete());
  std::map<std::uint64_t, json> driver;
  for (const json& e : trace.of("api")) driver[e.at("correlation").get<std::uint64_t>()] = e;
  CHECK(driver.size() == 200);
  const std::vector<json> sums = of_probe(trace, "mine_add");
  REQUIRE(sums.size() == 201);
  std::size_t inside = 0;
  for (const json& e : sums) {
    CHECK(e.at("dur_ns").get<long>() > 0);
    if (e.count("enclosing") == 0) {  // before the first call of the driver
      CHECK(word(e, "arg0") == ~std::uint64_t{0});
      CHECK(e.at("result") == 4);
      continue;
    }
    const json& around = driver.at(e.at("enclosing").get<std::uint64_t>());
    CHECK(around.at("name") == "cuCallback");
    CHECK(around.at("tid") == e.at("tid"));
    CHECK(around.at("ts_ns").get<long>() <= e.at("ts_ns").get<long>());
    CHECK(around.at("ts_ns").get<long>() + around.at("dur_ns").get<long>() >=
          e.at("ts_ns").get<long>() + e.at("dur_ns").get<long>());
    CHECK(word(e, "arg0") == inside);
    CHECK(word(e, "arg1") == 2);
    CHECK(e.at("result") == inside + 2);
    ++inside;
  }
  CHECK(inside == 200);
}

TEST_CASE("several functions of one name, as static ones may be: all of them") {
  const probed p({std::string("uprobe:") + MINE + ":mine_twice"}, {"mine_doubles", "30"});
  REQUIRE_MESSAGE(p.r.ended.exit_status == 0, p.r.ended.errors);
  const jsonl_trace trace = p.trace();
  CHECK(trace.complete());
  const std::vector<json> all = of_probe(trace, "mine_twice");
  CHECK(all.size() == 60);
  std::map<std::uint64_t, std::size_t> of;
  for (const json& e : all) ++of[word(e, "arg0")];
  for (const auto& [value, times] : of) CHECK(times == 2);
}

TEST_CASE("functions of the driver, which is not around itself") {
  const probed p({"uprobe:cuLeaf", "uprobe:cuNested"}, {"nested", "50"});
  const jsonl_trace trace = p.trace();
  CHECK(trace.complete());
  std::map<std::uint64_t, std::string> driver;
  for (const json& e : trace.of("api")) driver[e.at("correlation").get<std::uint64_t>()] = e.at("name");
  const std::vector<json> nested = of_probe(trace, "cuNested"), leaves = of_probe(trace, "cuLeaf");
  CHECK(nested.size() == 50);
  for (const json& e : nested) CHECK(e.count("enclosing") == 0);
  CHECK(leaves.size() == 100);
  std::map<std::string, std::size_t> around;
  for (const json& e : leaves) ++around[driver.at(e.at("enclosing").get<std::uint64_t>())];
  CHECK(around == std::map<std::string, std::size_t>{{"cuNested", 50}, {"cuMiddle", 50}});
}

TEST_CASE("tracepoints: instants with named arguments, in the call in which they were") {
  const probed p({"tracepoint:sys_enter", "tracepoint:vmlinux:sched_process_exec"}, {"mine", "100"});
  REQUIRE_MESSAGE(p.r.ended.exit_status == 0, p.r.ended.errors);
  const jsonl_trace trace = p.trace();
  CHECK(trace.complete());
  std::size_t asked = 0, inside = 0;
  for (const json& e : of_probe(trace, "sys_enter")) {
    CHECK(e.at("dur_ns") == 0);
    CHECK(e.count("result") == 0);
    if (e.at("args").at("id") != SYS_getppid) continue;
    ++asked;
    inside += e.count("enclosing");
  }
  CHECK(asked == 101);
  CHECK(inside == 100);
  const std::vector<json> executed = of_probe(trace, "sched_process_exec");
  REQUIRE(executed.size() == 1);
  CHECK(executed[0].at("args").at("old_pid") == executed[0].at("pid"));
  CHECK(executed[0].at("args").at("p").get<std::string>().substr(0, 2) == "0x");
}

TEST_CASE("eight threads, by each kind of link that can be trusted") {
  for (const std::string links : {"session", "pair"}) {
    CAPTURE(links);
    const probed p({add}, {"mine_threads", "8", "1000"}, {{"CUTRACE_EBPF_LINKS", links}});
    const jsonl_trace trace = p.trace();
    CHECK(trace.complete());
    std::map<long, std::size_t> by_thread;
    for (const json& e : of_probe(trace, "mine_add")) ++by_thread[e.at("tid").get<long>()];
    CHECK(by_thread.size() == 8);
    for (const auto& [thread, n] : by_thread) CHECK(n == 1000);
  }
  const probed single({add}, {"mine_threads", "1", "100"}, {{"CUTRACE_EBPF_LINKS", "single"}});
  // The last resort promises nothing: a busy machine passed over all of them.
  CHECK(single.r.ended.exit_status == 0);
  if (single.r.files(".jsonl").empty()) return;
  CHECK(of_probe(single.trace(), "mine_add").size() <= 100);
  CHECK(single.trace().footer.at("notes").dump().find("calls may be missing") != std::string::npos);
}

TEST_CASE("functions that do not return, and those that are too deep") {
  const jsonl_trace left = probed({add, calls}, {"mine_left", "30"}).trace();
  const std::vector<json> gone = of_probe(left, "mine_calls");
  CHECK(gone.size() == 30);
  for (const json& e : gone) {
    CHECK(e.at("args").at("end") == "did not return");
    CHECK(e.count("result") == 0);
  }
  CHECK(of_probe(left, "mine_add").size() == 1);
  CHECK(left.complete());
  const probed ends({calls}, {"mine_exit"});
  CHECK(ends.r.ended.exit_status == 7);
  REQUIRE(of_probe(ends.trace(), "mine_calls").size() == 1);
  CHECK(of_probe(ends.trace(), "mine_calls")[0].at("args").at("end") == "did not return");
  const jsonl_trace deep = probed({"uprobe:" MINE ":mine_deep"}, {"mine_deep", "11"}).trace();
  CHECK(of_probe(deep, "mine_deep").size() == 8);
  CHECK(deep.footer.at("lost").at("chunk_full") == 3);
  CHECK(deep.footer.at("lost_total") == 3);
}

TEST_CASE("a library that the program links is found by its name alone") {
  const std::string mine = MINE, folder = mine.substr(0, mine.rfind('/')), name = mine.substr(mine.rfind('/') + 1);
  const probed p({"uprobe:" + name + ":mine_add"}, {"mine", "3"});  // along the program's RUNPATH
  CHECK(of_probe(p.trace(), "mine_add").size() == 4);
}

TEST_CASE("kinds that this machine refuses are said, and the program runs") {
  for (const std::string kind : {"fentry", "kprobe"}) {
    CAPTURE(kind);
    const probed p({kind + ":vfs_write", add}, {"mine", "2"});
    CHECK(p.r.ended.exit_status == 0);
    CHECK(p.r.ended.output == "done\n");
    const jsonl_trace trace = p.trace();
    CHECK(of_probe(trace, "mine_add").size() == 3);
    const std::string notes = trace.footer.at("notes").dump();
    const std::vector<json> writes = of_probe(trace, "vfs_write");
    if (p.r.says("no probe " + kind + ":vfs_write: ")) {
      CHECK(notes.find("no probe " + kind + ":vfs_write: ") != std::string::npos);
      CHECK(writes.empty());
      MESSAGE(p.r.ended.errors);
      continue;
    }
    REQUIRE_FALSE(writes.empty());  // of "done"
    CHECK(writes.back().at("result") == 5);
  }
}

TEST_CASE("names that do not exist: nothing is started") {
  const auto refused = [](const std::string& probe, const std::string& why) {
    const probed p({probe}, {"mine", "1"});
    CHECK(p.r.ended.exit_status == 125);
    CHECK(p.r.ended.output.empty());
    CHECK_MESSAGE(p.r.says(why), p.r.ended.errors);
    CHECK(p.r.file_count() == 0);
  };
  refused("uprobe:cuLeav", "nearest: cuLeaf");
  refused("uprobe:" MINE ":mine_ad", "nearest: mine_add");
  refused("uprobe:libnowhere.so.7:f", "no such library");
  refused("tracepoint:sys_entr", "nearest: sys_enter");
  refused("fentry:vfs_raed", "nearest: vfs_read");
  refused("what:ever", "is no probe");
  const run other({"--method", "preload", "--probe", "uprobe:cuLeaf"}, {SUBJECT, "mine", "1"});
  CHECK(other.ended.exit_status == 125);
  CHECK(other.says("--method ebpf"));
}

TEST_CASE("what cannot be probed, and a driver without such a function") {
  const probed locked({"uprobe:cuLocked"}, {"locked"});
  CHECK(locked.r.ended.exit_status == 0);
  CHECK(locked.r.says("no probe uprobe:cuLocked: the kernel cannot probe its first instruction"));
  temporary_folder folder;
  const std::string copy = folder.file("libcuda.so.999");
  std::filesystem::copy_file(std::string(DRIVER_FOLDER) + "/libcuda.so.1", copy);
  // The library is not known before the program runs, so that a missing function is reported only at the end.
  const probed late({"uprobe:cuGone", "uprobe:cuLeaf"}, {"late", "60"},
                    {{"SUBJECT_LIBRARY", copy}, {"LD_LIBRARY_PATH", ""}});
  if (late.r.ended.exit_status == 125) return;  // this machine has a libcuda, in which it was looked for
  CHECK(late.r.says("no probe uprobe:cuGone: no libcuda with such a function"));
  CHECK(of_probe(late.trace(), "cuLeaf").size() >= 60);
}

}  // namespace

}  // namespace probe_test
