// SPDX-License-Identifier: Apache-2.0
// The ASCII report: one small trace line by line, then what must hold for every trace.
#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <cutrace/sinks/ascii.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "support/hostile_events.hpp"
#include "support/sample_events.hpp"

namespace {

using namespace cutrace;

std::string report(const std::vector<event>& events, const trace_summary& end, ascii_options options = {}) {
  options.path = "/dev/null";
  ascii_sink sink(options);
  sink.open(sample::info());
  sink.write(sample::view(events));
  return sink.report(end);
}

trace_summary ended(std::int64_t at_ns, std::uint64_t events, std::uint64_t lost = 0) {
  trace_summary s = sample::summary(events, lost);
  s.stop.trace_ns = at_ns;
  s.note_count = 0;
  return s;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// The text with each run of spaces and line breaks as one space: paragraphs as they were before they were broken.
std::string joined(const std::string& text) {
  std::istringstream in(text);
  std::string out;
  for (std::string word; in >> word;) out += word + " ";
  return out;
}

void check_lines(const std::string& text, std::size_t width) {
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    CAPTURE(line);
    REQUIRE(line.size() <= width);
    for (const char c : line) REQUIRE((c >= 0x20 && c < 0x7f));
  }
}

}  // namespace

TEST_CASE("a small trace, line by line") {
  // 1000 ns. The GPU copies in [250, 350) and runs "gemm" in [450, 750): busy 400. What the host does in the other 600:
  // init [0, 100) = 100; the copy's call [200, 400) without the copy = 100; launch [400, 440) = 40; waiting [440, 760)
  // without gemm = 10 + 10; the stage [200, 900) without any call, [760, 900) = 140; neither call nor stage, [100, 200)
  // and [900, 1000) = 200. Host alone: the same calls whole. A column of the timeline is 1000 / 76 = 13.2 ns, so the
  // copy begins in column 19 (of which under half), and ends in column 26.
  const request_ref one[] = {sample::request_id(7)};
  const std::vector<event> all = {
      sample::device(0, "NVIDIA H200"),
      sample::api("cuInit", 0, 100, 1),
      sample::in_stage(sample::memcpy(copy_direction::host_to_device, 4096, 250, 350, 2), "prefill", 1, one, 1),
      sample::in_stage(sample::api("cuMemcpyHtoD_v2", 200, 400, 2), "prefill", 1, one, 1),
      sample::in_stage(sample::api("cuLaunchKernel", 400, 440, 3), "prefill", 1, one, 1),
      sample::in_stage(sample::kernel("gemm", 450, 750, 3), "prefill", 1, one, 1),
      sample::in_stage(sample::api("cuStreamSynchronize", 440, 760, 4), "prefill", 1, one, 1),
      sample::in_stage(sample::stage("prefill", 200, 900, 1), "prefill", 1, one, 1),
  };
  CHECK(report(all, ended(1000, all.size())) == R"~(cutrace: llm_server (pid 4242) on node-3, rank 3 of 8
traced   1.00 us; clock tsc, within 140 ns of CLOCK_MONOTONIC
backend  sim: simulated H200
events   8 delivered, nothing lost
answer   GPU busy 40.0 %, idle 60.0 %; kernels 30.0 %, most of all "gemm" (75.0 % of GPU time);
         largest cause of idle time: 14.0 % with the host in its own code, most of it in stage
         "prefill" (idle 300 ns of its 700 ns); 20.0 % passed with no call and no stage

WHERE THE TIME WENT                      events      time    share                        host alone
  GPU at work: kernel                         1    300 ns   30.0 %  <- BOTTLENECK
  GPU at work: transfer                       1    100 ns   10.0 %
  GPU idle, host: init                        1    100 ns   10.0 %                   100 ns   10.0 %
  GPU idle, host: transfer                    1    100 ns   10.0 %                   200 ns   20.0 %
  GPU idle, host: kernel launch               1     40 ns    4.0 %                    40 ns    4.0 %
  GPU idle, host: sync (waiting)              1     20 ns    2.0 %                   320 ns   32.0 %
  GPU idle, host: own code, in a stage        1    140 ns   14.0 %                   140 ns   14.0 %
  GPU idle, host: no call, no stage                200 ns   20.0 %                   200 ns   20.0 %
  all                                             1.00 us  100.0 %
  Each moment counts once, in the first row that applies. Host alone: the same without the GPU.

TIMELINE  0 .. 1.00 us, a column is 13 ns                                                  % of time
  stages 0    |...............11111111111111111111111111111111111111111111111111111:.......| 70.0 %
  driver API  |iiiiiiii.......tttttttttttttttKKKsssssssssssssssssssssssss..................| 66.0 %
  GPU 0:7     |...................tttttttt.......KKKKKKKKKKKKKKKKKKKKKKK...................| 40.0 %
  i init  m memory  t transfer  K kernel  s sync  o other  : under half of the column  . nothing
  1 prefill

STAGES                             calls      mean host time   GPU own   GPU all  GPU idle  requests
  1 prefill                            1    700 ns    700 ns    400 ns    400 ns    300 ns         1
    Host: union over threads. GPU own: work issued in the stage itself; all: with nested stages. GPU
    idle: part of the host time in which no GPU was at work.

GPUS                                      busy  of trace active span     of span      idle      gaps
  0 NVIDIA H200                         400 ns    40.0 %      500 ns      80.0 %    600 ns         1

GPU OPERATIONS                                          count     total      mean   longest    share
  K gemm                                                    1    300 ns    300 ns    300 ns   75.0 %
  t [memcpy HtoD]                                           1    100 ns    100 ns    100 ns   25.0 %

HOST CALLS                                              count     total      mean   longest    share
  s cuStreamSynchronize                                     1    320 ns    320 ns    320 ns   48.5 %
  t cuMemcpyHtoD_v2                                         1    200 ns    200 ns    200 ns   30.3 %
  i cuInit                                                  1    100 ns    100 ns    100 ns   15.2 %
  K cuLaunchKernel                                          1     40 ns     40 ns     40 ns    6.1 %

SUMMARY
  calls     driver 4, runtime 0
  launches  1 (1,000,000/s); on the GPU: kernels 1, graphs 0, memsets 0
  memory    no allocation seen
  copies    HtoD: 1, 4.00 KiB in 100 ns, 41.0 GB/s
  waiting   synchronising calls 1, time in them 320 ns (summed over threads)
  program   stages 1, marks 0

LOSSES AND NOTES
  nothing lost: 8 produced, 8 delivered
  all delivered records have times, a known call and their place in the order
)~");
}

TEST_CASE("no line is wider than the page, whatever the names and times") {
  std::vector<event> all = hostile::named_events();
  for (const event& e : hostile::extreme_events()) all.push_back(e);
  for (const std::uint32_t width : {80u, 100u, 200u}) {
    ascii_options options;
    options.width = width;
    options.top = 100;
    const std::string text = report(all, ended(1000000, all.size()), options);
    CAPTURE(width);
    check_lines(text, width);
    CHECK(has(text, "\\x01\\x02"));
  }
}

TEST_CASE("no event at all is a whole report") {
  const std::string text = report({}, ended(1000, 0));
  check_lines(text, 100);
  CHECK(has(text, "answer   no call, no stage and no GPU work was seen"));
  CHECK(has(text, "nothing lost: 0 produced, 0 delivered"));
  CHECK_FALSE(has(text, "BOTTLENECK"));
  CHECK_FALSE(has(report({}, ended(0, 0)), "BOTTLENECK"));
}

TEST_CASE("nothing but losses: the first lines say so, the last ones say why") {
  const std::string text = report({sample::loss(loss_cause::chunk_full, 12, 10)}, ended(1000, 1, 12));
  CHECK(has(text, "events   1 delivered, 12 LOST (see the end of this report)"));
  CHECK(has(text, "12 of 13 records LOST; 1 delivered"));
  CHECK(has(text, "12  no free chunk (chunk_full)"));
  CHECK_FALSE(has(text, "nothing lost"));
}

TEST_CASE("launches without any GPU record are said loudly") {
  const std::string missing = "launches were seen, but not one GPU record";
  CHECK(has(report({sample::api("cuLaunchKernel", 0, 10, 1)}, ended(100, 1)), missing));
  CHECK_FALSE(
      has(report({sample::api("cuLaunchKernel", 0, 10, 1), sample::kernel("k", 10, 20, 1)}, ended(100, 2)), missing));
  CHECK_FALSE(has(report({sample::api("cuMemAlloc", 0, 10, 1)}, ended(100, 1)), missing));
}

TEST_CASE("the answer names the stage in which the GPU is idle") {
  // The GPU works 10 of 100; "sample" keeps it idle for 60 of the 90 that "serve" has, and is the inner of both.
  const std::vector<event> all = {
      sample::in_stage(sample::kernel("k", 0, 10, 1), "serve", 1),
      sample::stage("sample", 12, 95, 2, 1, 1),
      sample::stage("serve", 0, 100, 1),
  };
  CHECK(has(joined(report(all, ended(100, 3))),
            "90.0 % with the host in its own code, most of it in stage \"sample\" (idle 83 ns"));
}

TEST_CASE("quality and failed sinks are told") {
  trace_summary end = ended(1000, 10);
  end.totals.quality_of[static_cast<std::size_t>(quality::unattributed)] = 1500;
  end.totals.unattributed_by[static_cast<std::size_t>(attribution::expired)] = 1500;
  end.totals.quality_of[static_cast<std::size_t>(quality::no_timestamp)] = 3;
  end.totals.sinks[0].failed = true;
  end.totals.sinks[0].lost = 7;
  std::strncpy(end.totals.sinks[0].failure, "disk \x1b full", sizeof(end.totals.sinks[0].failure) - 1);
  const std::string text = joined(report({}, end));
  CHECK(has(text, "1,500 GPU operations without a known call; call forgotten before its record came: 1,500"));
  CHECK(has(text, "3 GPU records without times"));
  CHECK(has(text, "sink sample: 7 of 10 events not written. disk \\x1b full"));
  CHECK_FALSE(has(text, "all delivered records have times"));
}

TEST_CASE("a trace larger than the memory limit: what is approximate is said, what is not stays exact") {
  std::vector<event> all;
  static std::vector<std::string> names;
  for (int i = 0; i < 400; ++i) names.push_back("kernel_" + std::to_string(i));
  for (std::int64_t i = 0; i < 20000; ++i)
    all.push_back(sample::in_stage(sample::kernel(names[static_cast<std::size_t>(i % 400)], 100 * i, 100 * i + 50, 1,
                                                  static_cast<std::uint64_t>(i % 40)),
                                   "decode", 1));
  all.push_back(sample::stage("decode", 30, 2000000 - 70, 1));
  ascii_options options;
  options.memory_limit_bytes = 512 << 10;
  const std::string text = report(all, ended(2000000, all.size()), options);
  check_lines(text, 100);
  CHECK(has(text, "GPU at work: kernel"));
  CHECK(has(text, "1.00 ms   50.0 %"));  // unions of the GPU were never reached into
  CHECK(has(text, "memory limit: times of stages marked with ~ are approximate"));
  CHECK(has(text, "memory limit: names beyond the table share the row \"(other names)\""));
  CHECK(has(text, "memory limit: streams beyond"));
  CHECK_FALSE(has(report({all.begin(), all.begin() + 4}, ended(20000, 4)), "memory limit"));
}

TEST_CASE("colour changes no text") {
  const std::vector<event> all = sample::server_run();
  ascii_options options;
  options.color = true;
  std::string colored = report(all, ended(200000, all.size(), 12), options);
  CHECK(has(colored, "\x1b[1;31m"));
  for (std::size_t at; (at = colored.find('\x1b')) != std::string::npos;)
    colored.erase(at, colored.find('m', at) - at + 1);
  CHECK(colored == report(all, ended(200000, all.size(), 12)));
}
