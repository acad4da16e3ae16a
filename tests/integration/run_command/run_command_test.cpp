// SPDX-License-Identifier: Apache-2.0
// `cutrace run`: what the options choose, what reaches the files, and that the program does not notice.
#include <doctest/doctest.h>
#include <unistd.h>

#include <fstream>
#include <set>

#include "run_support.hpp"

namespace run_command_test {

using run_support::jsonl_trace;
using run_support::kernels;
using run_support::run;

namespace {

std::string host() {
  char name[256] = "";
  ::gethostname(name, sizeof(name) - 1);
  return name;
}

std::string name_of(const std::string& path) { return std::filesystem::path(path).filename().string(); }

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t n = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

}  // namespace

TEST_CASE("a program is traced: report, files, and its own streams untouched") {
  const run r({}, {SUBJECT, "work", "50"});
  CHECK(r.ended.exit_status == 0);
  CHECK(r.ended.output == "worked\n");
  REQUIRE(r.files(".jsonl").size() == 1);
  const jsonl_trace t(r.files(".jsonl")[0]);
  CHECK(t.complete());
  CHECK(t.of("kernel").size() == 50);
  const std::string pid = std::to_string(t.header.at("pid").get<int>());
  CHECK(name_of(r.files(".jsonl")[0]) == "run_subject." + host() + "." + pid + ".jsonl");
  REQUIRE(r.files(".txt").size() == 1);
  CHECK(r.says(content_of(r.files(".txt")[0])));
  CHECK(r.says("nothing lost"));
  CHECK(r.says("2 files, "));
  CHECK(r.file_count() == 2);  // the folder in which its processes report to the command is gone
  CHECK(!r.says("warning"));
  CHECK(!r.says("[cutrace "));  // no terminal, no progress
  CHECK(!r.says("\033"));
}

TEST_CASE("standard input and both outputs are the program's") {
  const temporary_folder folder;
  std::ofstream(folder.file("in")) << "first line\nsecond line without an end";
  const std::string line =
      std::string(CUTRACE_COMMAND) + " run --quiet --out out -- " + SUBJECT + " echo <" + folder.file("in");
  const run r(run::line{{"/bin/sh", "-c", line}});
  CHECK(r.ended.exit_status == 0);
  CHECK(r.ended.output == "first line\nsecond line without an end");
  CHECK(r.ended.errors == "the program's own line\n");
  CHECK(kernels(r.files(".jsonl").at(0)) == 5);
}

TEST_CASE("signals and descriptors of the program are as without the command") {
  const run plain(run::line{{SUBJECT, "dispositions"}});
  const run r({"--quiet"}, {SUBJECT, "dispositions"});
  CHECK(plain.ended.output.find("looked") != std::string::npos);
  CHECK(r.ended.output == plain.ended.output);
}

TEST_CASE("sinks, names and folder are chosen") {
  const run r({"--sink", "jsonl", "--sink", "chrome,jsonl?form=paired,jsonl:own-%p.jsonl", "--name", "100% mine"},
              {SUBJECT, "work", "5"});
  CHECK(r.ended.exit_status == 0);
  CHECK(r.files(".txt").empty());
  CHECK(r.files(".json").size() == 1);
  REQUIRE(r.files(".jsonl").size() == 2);
  CHECK(name_of(r.files(".jsonl")[0]).compare(0, 9 + host().size() + 2, "100% mine." + host() + ".") == 0);
  CHECK(test_support::files_with(r.folder.path(), ".jsonl").size() == 1);
  CHECK(r.says("run_subject (pid "));  // no report was asked for: a line
  CHECK(r.says("5 GPU operations"));
}

TEST_CASE("a program whose name leaves no room for more in a file's name is traced") {
  std::string umlauts = "x";
  while (umlauts.size() < 255) umlauts += "\u00fc";
  for (const std::string& name : {std::string(255, 'x'), umlauts}) {
    const run r(run::line{{"/bin/sh", "-c",
                           "ln -s " SUBJECT " ./" + name +
                               "; " CUTRACE_COMMAND " run --strict --sink jsonl --out out -- ./" + name + " work 5"}});
    CHECK(r.ended.exit_status == 0);
    REQUIRE(r.files(".jsonl").size() == 1);
    const std::size_t kept = name == umlauts ? 127 : 128;  // characters are whole
    CHECK(name_of(r.files(".jsonl")[0]).find(name.substr(0, kept) + "." + host()) == 0);
  }
}

TEST_CASE("sinks at the program's outputs: the command neither repeats nor lists what is there") {
  for (const char* sinks : {"ascii:/dev/stderr", "jsonl:/dev/stdout"}) {
    INFO(sinks);
    const std::string line =
        std::string(CUTRACE_COMMAND) + " run --out out --sink " + sinks + " -- " + SUBJECT + " work 5 >text 2>errors";
    const run r(run::line{{"/bin/sh", "-c", "" + line}});
    CHECK(r.ended.exit_status == 0);
    const std::string errors = content_of(r.folder.file("errors")), text = content_of(r.folder.file("text"));
    CHECK(errors.find("WHERE THE TIME WENT") == errors.rfind("WHERE THE TIME WENT"));
    CHECK((errors + text).find(sinks[0] == 'a' ? "WHERE THE TIME WENT" : "\"footer\"") != std::string::npos);
    CHECK(text.find("worked\n") != std::string::npos);
    CHECK(errors.find("worked\n") == std::string::npos);
    CHECK(errors.find("1 file") == std::string::npos);
  }
}

TEST_CASE("a trace in parts: those that are there are counted, and the newest is named") {
  const run r({"--sink", "jsonl?rotate=64K&keep=2,chrome?rotate=64K"}, {SUBJECT, "work", "2000"});
  CHECK(r.ended.exit_status == 0);
  const std::vector<std::string> lines = r.files(".jsonl"), chrome = r.files(".json");
  REQUIRE(lines.size() == 2);
  REQUIRE(chrome.size() > 3);
  CHECK(r.says("cutrace: " + std::to_string(2 + chrome.size()) + " files, "));
  CHECK(r.says(name_of(lines[1]) + " (the newest of 2 parts)"));
  CHECK(r.says(name_of(chrome.back()) + " (the newest of " + std::to_string(chrome.size()) + " parts)"));
}

TEST_CASE("metrics go to a file of the folder, and an address stays one") {
  const run r({"--sink", "prometheus,prometheus::0"}, {SUBJECT, "work", "5"});
  CHECK(r.ended.exit_status == 0);
  CHECK(r.file_count() == 1);
  REQUIRE(r.files(".prom").size() == 1);
  CHECK(r.says("5 GPU operations"));
}

TEST_CASE("quiet means quiet") {
  const run r({"--quiet"}, {SUBJECT, "work", "5"});
  CHECK(r.ended.errors.empty());
  CHECK(r.file_count() == 2);
}

TEST_CASE("kinds reach the backend, and replace what the environment says") {
  const run r({"--sink", "jsonl", "--kinds=-kernel"}, {SUBJECT, "work", "5"}, {{"CUTRACE_KINDS", "kernel"}});
  CHECK(r.ended.exit_status == 0);
  const jsonl_trace t(r.files(".jsonl").at(0));
  CHECK(t.of("kernel").empty());
  CHECK(!t.of("sync").empty());
}

TEST_CASE("what the user has set stays where no option speaks, and the command says so") {
  const run r({}, {SUBJECT, "work", "5"}, {{"CUTRACE_SINKS", "chrome"}, {"CUTRACE_KINDS", "kernel"}});
  CHECK(r.says("taken from the environment: CUTRACE_KINDS=kernel, CUTRACE_SINKS=chrome"));
  CHECK(r.files(".json").size() == 1);
  CHECK(r.file_count() == 1);
  const run replaced({"--sink", "jsonl"}, {SUBJECT, "work", "5"},
                     {{"CUTRACE_SINKS", "chrome"}, {"CUDA_INJECTION64_PATH", "/another/tool.so"}});
  CHECK(replaced.says("--sink replaces CUTRACE_SINKS"));
  CHECK(replaced.says("CUDA_INJECTION64_PATH=/another/tool.so of the environment is replaced"));
  CHECK(replaced.files(".jsonl").size() == 1);
  CHECK(replaced.file_count() == 1);
  const run useless({"--method", "preload", "--sink", "null"}, {SUBJECT, "work", "5"}, {{"CUTRACE_KINDS", "kernel"}});
  CHECK(useless.says("without effect, since --method preload has no records of the GPU: CUTRACE_KINDS=kernel\n"));
  CHECK_FALSE(useless.says("taken from the environment"));
}

TEST_CASE("bad options: nothing is started, and the message says what is accepted") {
  struct bad {
    std::vector<std::string> options;
    const char* message;
  };
  const bad all[] = {{{"--sink", "xml"}, "accepted: ascii"},
                     {{"--sink", "jsonl?form=x"}, "accepted: events, paired"},
                     {{"--sink", ""}, "names no sink"},
                     {{"--kinds", "kernels"}, "a list of kernel"},
                     {{"--graphs", "nodes"}, "node"},
                     {{"--duration", "10"}, "10s"},
                     {{"--start-after", "-1s"}, "10s"},
                     {{"--nvtx", "maybe"}, "on"},
                     {{"--children", "2"}, "off"},
                     {{"--method", "magic"}, "cupti"},
                     {{"--name", "a/b"}, "--out names the folder"},
                     {{"--out", "/proc/none"}, "cannot"},
                     {{"--out", "with,comma"}, "comma"},
                     {{"--unknown"}, "--unknown"}};
  for (const bad& b : all) {
    const std::string message = b.message;
    INFO(message);
    const run r(b.options, {SUBJECT, "work", "5"});
    CHECK(r.ended.exit_status == 125);
    CHECK(r.ended.output.empty());
    INFO(r.ended.errors);
    CHECK(r.says(b.message));
    CHECK(r.file_count() == 0);
  }
  for (const std::vector<std::string>& words : {std::vector<std::string>{CUTRACE_COMMAND, "run"},
                                                {CUTRACE_COMMAND, "run", "--"},
                                                {CUTRACE_COMMAND, "walk"},
                                                {CUTRACE_COMMAND}}) {
    const run r(run::line{words});
    CHECK(r.ended.exit_status == 125);
    CHECK(r.says("cutrace: "));
    CHECK(r.ended.output.empty());
  }
}

TEST_CASE("without --, all words from the program's name on are the program's") {
  const run r(run::line{{CUTRACE_COMMAND, "run", "--out", "out", "--sink", "jsonl", SUBJECT, "work", "5"}});
  CHECK(r.ended.exit_status == 0);
  REQUIRE(r.files(".jsonl").size() == 1);
  CHECK(run_support::kernels(r.files(".jsonl")[0]) != 0);
}

TEST_CASE("the injected library is missing") {
  const run r({}, {SUBJECT, "work", "5"}, {{"CUTRACE_INJECT_LIBRARY", "/no/such.so"}});
  CHECK(r.ended.exit_status == 125);
  CHECK(r.says("/no/such.so"));
  const temporary_folder elsewhere;
  std::filesystem::copy(CUTRACE_COMMAND, elsewhere.file("cutrace"));
  const run alone(run::line{{elsewhere.file("cutrace"), "run", "--", SUBJECT, "work", "5"}});
  CHECK(alone.ended.exit_status == 125);
  CHECK(alone.says("looked for:\n  " + elsewhere.file("libcutrace_inject.so")));
}

TEST_CASE("children are traced, each into its own files, or not at all") {
  const run with({"--sink", "jsonl"}, {SUBJECT, "works_and_has_children", "3"});
  CHECK(with.ended.exit_status == 0);
  CHECK(with.files(".jsonl").size() == 4);
  std::multiset<std::size_t> found;
  for (const std::string& f : with.files(".jsonl")) {
    CHECK(jsonl_trace(f).complete());
    found.insert(kernels(f));
  }
  CHECK(found == std::multiset<std::size_t>{7, 50, 50, 50});

  const run without({"--sink", "jsonl", "--children", "off"}, {SUBJECT, "works_and_has_children", "3"});
  CHECK(without.ended.exit_status == 0);
  REQUIRE(without.files(".jsonl").size() == 1);
  CHECK(kernels(without.files(".jsonl")[0]) == 7);
  CHECK(without.ended.output == "worked\nworked\nworked\n");

  const run none({"--children", "off"}, {SUBJECT, "children", "2"});
  CHECK(none.says("nothing was traced"));
  CHECK(none.file_count() == 0);
}

TEST_CASE("sixteen ranks write into one folder: none is lost, none is torn") {
  const run r({}, {SUBJECT, "ranks", "16"}, {{"WORLD_SIZE", "16"}});
  CHECK(r.ended.exit_status == 0);
  CHECK(r.files(".jsonl").size() == 16);
  CHECK(r.files(".txt").size() == 16);
  CHECK(r.file_count() == 32);
  std::set<int> ranks;
  for (const std::string& f : r.files(".jsonl")) {
    const jsonl_trace t(f);
    CHECK(t.complete());
    CHECK(t.of("kernel").size() == 50);
    const int rank = t.header.at("rank");
    ranks.insert(rank);
    CHECK(t.header.at("world_size") == 16);
    CHECK(name_of(f) == "run_subject." + host() + "." + std::to_string(rank) + "." +
                            std::to_string(t.header.at("pid").get<int>()) + ".jsonl");
  }
  CHECK(ranks.size() == 16);
  // Too many for whole reports: a line each, with the report's path.
  CHECK(count(r.ended.errors, "; report ") == 16);
  CHECK(count(r.ended.errors, "WHERE THE TIME WENT") == 0);
  CHECK(r.says(", rank 15)"));
}

TEST_CASE("ranks of all launchers are recognised") {
  for (const char* name : {"RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "PMI_RANK", "LOCAL_RANK"}) {
    INFO(name);
    const run r({"--sink", "jsonl"}, {SUBJECT, "work", "1"}, {{name, "3"}});
    CHECK(jsonl_trace(r.files(".jsonl").at(0)).header.at("rank") == 3);
    CHECK(name_of(r.files(".jsonl").at(0)).find("." + host() + ".3.") != std::string::npos);
  }
  const run nonsense({"--sink", "jsonl"}, {SUBJECT, "work", "1"}, {{"RANK", "first"}});
  CHECK(!jsonl_trace(nonsense.files(".jsonl").at(0)).header.contains("rank"));
}

TEST_CASE("recording begins and ends when the options say so, and the trace ends whole") {
  const run late({"--sink", "jsonl", "--start-after", "60s"}, {SUBJECT, "slow", "300"});
  CHECK(late.ended.exit_status == 0);
  CHECK(jsonl_trace(late.files(".jsonl").at(0)).complete());
  CHECK(kernels(late.files(".jsonl").at(0)) == 0);

  const run some({"--sink", "jsonl", "--start-after", "400ms", "--duration", "400ms"}, {SUBJECT, "slow", "3000"});
  const jsonl_trace t(some.files(".jsonl").at(0));
  CHECK(t.complete());
  CHECK(!t.of("kernel").empty());
  for (const auto& e : t.of("kernel")) {
    CHECK(e.at("ts_ns") >= 390000000);  // no kernel was recorded before --start-after
  }
  const auto windows = t.of("window");
  REQUIRE(windows.size() == 1);
  CHECK(windows[0].at("dur_ns") >= 390000000);
  CHECK(kernels(some.files(".jsonl").at(0)) < 600);

  const run early({"--sink", "jsonl", "--duration", "300ms"}, {SUBJECT, "slow", "3000"});
  const jsonl_trace e(early.files(".jsonl").at(0));
  CHECK(e.complete());
  CHECK(!e.of("kernel").empty());
  CHECK(e.of("kernel").size() < 600);
}

#if defined(NVTX_PROGRAM)
TEST_CASE("GPU work that runs on when the time of --duration is over is in the files") {
  const run r({"--sink", "jsonl", "--duration", "500ms"}, {SUBJECT, "work", "50"},
              {{"CUTRACE_SIM_KERNEL_NS", "20000000"}});  // a second in all
  REQUIRE(r.files(".jsonl").size() == 1);
  const jsonl_trace t(r.files(".jsonl")[0]);
  CHECK(t.complete());
  CHECK(t.of("kernel").size() == 50);
  const int unfinished = t.footer.at("quality").at("incomplete");
  CHECK(unfinished > 0);
  CHECK(unfinished < 50);  // the others have their times
}

TEST_CASE("GPU work that runs on when the time of --duration is over has its times where the program has a session") {
  const run r({"--sink", "jsonl", "--duration", "2s"}, {SESSIONS, "ahead"});  // of three seconds
  INFO(r.ended.output);
  CHECK(r.ended.exit_status == 0);  // the program's session has all of it
  REQUIRE(r.files(".jsonl").size() == 1);
  const jsonl_trace t(r.files(".jsonl")[0]);
  CHECK(t.complete());
  CHECK(t.of("kernel").size() == 20);
  CHECK(t.footer.at("quality").at("incomplete") == 0);
}

TEST_CASE("--duration waits for the work of its time alone where the program has a session and works on") {
  const run r({"--sink", "jsonl", "--duration", "500ms"}, {SESSIONS, "busy"});
  INFO(r.ended.output);
  CHECK(r.ended.exit_status == 0);
  REQUIRE(r.files(".jsonl").size() == 1);
  const jsonl_trace t(r.files(".jsonl")[0]);
  CHECK(t.complete());
  CHECK(t.of("kernel").size() < 600);  // of 5 ms; 1,100 if it waited until nothing runs, for five seconds
  CHECK(t.footer.at("quality").at("incomplete") == 0);
}

TEST_CASE("NVTX ranges are stages, also without CUDA, and not when they are not wanted") {
  const run r({}, {NVTX_PROGRAM, "threads"});
  CHECK(r.ended.exit_status == 0);
  CHECK(jsonl_trace(r.files(".jsonl").at(0)).of("stage").size() == 2);
  CHECK(r.says("in main"));
  const run off({"--nvtx", "off"}, {NVTX_PROGRAM, "threads"});
  CHECK(off.ended.exit_status == 0);
  CHECK(off.file_count() == 0);
  CHECK(off.says("nothing was traced: no process of " NVTX_PROGRAM " reported that it used CUDA;"));
  const run gpu({"--nvtx", "off", "--sink", "jsonl"}, {NVTX_PROGRAM, "gpu_cuda_first"});
  const jsonl_trace t(gpu.files(".jsonl").at(0));
  CHECK(!t.of("kernel").empty());
  CHECK(t.count("stage", "attention") == 0);
  const run other({"--sink", "jsonl"}, {NVTX_PROGRAM, "gpu_cuda_first"}, {{"NVTX_INJECTION64_PATH", "/a/tool.so"}});
  CHECK(other.says("NVTX ranges go to NVTX_INJECTION64_PATH of the environment, /a/tool.so"));
}

TEST_CASE("a process without a driver is quiet but for its stages") {
  // Without the folder of the stand-in driver in the path: on a machine without a driver there is no libcuda then.
  const run r({"--sink", "jsonl"}, {NVTX_PROGRAM, "threads"}, {{"LD_LIBRARY_PATH", "/nonexistent"}});
  CHECK(r.ended.exit_status == 0);
  CHECK(r.files(".jsonl").size() == 1);
  CHECK(!r.says("warning"));
  CHECK(!r.says("cutrace: cupti:"));
}
#endif

#if defined(INFERENCE_SERVER)
TEST_CASE("a program with a session of its own: one trace, whole, and its own sinks beside ours") {
  const run r({"--sink", "jsonl"}, {INFERENCE_SERVER, "--device", "cuda", "--requests", "3"});
  CHECK(r.ended.exit_status == 0);
  REQUIRE(r.files(".jsonl").size() == 1);
  const jsonl_trace t(r.files(".jsonl")[0]);
  CHECK(t.complete());
  const std::size_t at = r.ended.output.find("counted ");
  REQUIRE(at != std::string::npos);
  const auto counted = nlohmann::json::parse(r.ended.output.substr(at + 8, r.ended.output.find('\n', at) - at - 8));
  CHECK(t.of("kernel").size() == counted.at("kernels").get<std::size_t>());
  CHECK(t.count("stage", "prefill") == 3);
  CHECK(!r.says("is traced already"));
}
#endif

TEST_CASE("nothing that is there is overwritten") {
  const temporary_folder folder;
  std::set<std::string> names;
  for (int i = 0; i < 2; ++i) {
    // A pattern without %p gives both runs the same name, as two processes with one id would have; %u makes them
    // differ.
    const test_support::finished_process p = test_support::run_process(
        {CUTRACE_COMMAND, "run", "--quiet", "--sink", "jsonl:t.%r.same%u.jsonl", "--", SUBJECT, "work", "5"},
        folder.path());
    CHECK(p.exit_status == 0);
  }
  CHECK(jsonl_trace(folder.file("t.same.jsonl")).complete());
  CHECK(jsonl_trace(folder.file("t.same-2.jsonl")).complete());
}

}  // namespace run_command_test
