// SPDX-License-Identifier: Apache-2.0
// The ASCII report: one small trace line by line, then what must hold for every trace.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <stdlib.h>  // posix_openpt
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <cutrace/sinks/ascii.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "support/hostile_events.hpp"
#include "support/sample_events.hpp"

namespace ascii_report_test {

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
  // copy fills columns 19 to 26 (counted from 0), and the stage ends in column 68, of which it covers under half.
  const request_ref one[] = {sample::request_id(7)};
  const std::vector<event> all = {
      sample::device(0, "NVIDIA H200"),
      sample::api("cuInit", 0, 100, 1),
      sample::in_stage(sample::called_at(sample::memcpy(copy_direction::host_to_device, 4096, 250, 350, 2), 200),
                       "prefill", 1, one, 1),
      sample::in_stage(sample::api("cuMemcpyHtoD_v2", 200, 400, 2), "prefill", 1, one, 1),
      sample::in_stage(sample::api("cuLaunchKernel", 400, 440, 3), "prefill", 1, one, 1),
      sample::in_stage(sample::called_at(sample::kernel("gemm", 450, 750, 3), 400), "prefill", 1, one, 1),
      sample::in_stage(sample::api("cuStreamSynchronize", 440, 760, 4), "prefill", 1, one, 1),
      sample::in_stage(sample::stage("prefill", 200, 900, 1), "prefill", 1, one, 1),
  };
  CHECK(report(all, ended(1000, all.size())) == R"~(cutrace: llm_server (pid 4242) on node-3, rank 3 of 8
traced   1.00 us; clock tsc, within 140 ns of CLOCK_MONOTONIC
backend  sim: simulated H200
events   8 delivered, nothing lost
answer   GPU busy 40.0 %, idle 60.0 %, mostly: the host had waited, so nothing was queued (100.0 %
         of the gaps, most of all in stage "prefill" by cuMemcpyHtoD_v2), more before the first and
         after the last work (500 ns); nothing lost

WHERE THE TIME WENT                      events      time    share                        host alone
  GPU at work: kernel                         1    300 ns   30.0 %
  GPU at work: transfer                       1    100 ns   10.0 %
  GPU idle, host: init                        1    100 ns   10.0 %                   100 ns   10.0 %
  GPU idle, host: transfer                    1    100 ns   10.0 %                   200 ns   20.0 %
  GPU idle, host: kernel launch               1     40 ns    4.0 %                    40 ns    4.0 %
  GPU idle, host: sync (waiting)              1     20 ns    2.0 %                   320 ns   32.0 %
  GPU idle, host: own code, in a stage        1    140 ns   14.0 %                   140 ns   14.0 %
  GPU idle, host: no call, no stage                200 ns   20.0 %  <- BOTTLENECK    200 ns   20.0 %
  all                                             1.00 us  100.0 %
  Each moment counts once, in the first row that applies. Host alone: whatever the GPU did.

WHY THE GPU IS IDLE                                 gaps      time   share  mostly
  the host had waited, so nothing was queued           1    100 ns  16.7 %  prefill: cuMemcpyHtoD_v2
  before the first and after the last work                  500 ns  83.3 %

TIMELINE  0 .. 1.00 us, a column is 13 ns                                                  % of time
  stages 0    |...............11111111111111111111111111111111111111111111111111111:.......| 70.0 %
  driver API  |iiiiiiii.......tttttttttttttttKKKsssssssssssssssssssssssss..................| 66.0 %
  GPU 0:7     |...................tttttttt.......KKKKKKKKKKKKKKKKKKKKKKK...................| 40.0 %
  i init  m memory  t transfer  K kernel  s sync  o other  : under half of the column  . nothing
  1 prefill

STAGES                             calls      mean      host   GPU own   GPU all  GPU idle  requests
  1 prefill                            1    700 ns    700 ns    400 ns    400 ns    300 ns         1
    Host: union over threads. GPU own: work issued in the stage itself; all: with nested stages. GPU
    idle: part of the host time in which no GPU was at work.

GPU OPERATIONS                                    count     total      p50      p90      p99   share
  K gemm                                              1    300 ns   300 ns   300 ns   300 ns  75.0 %
  t [memcpy HtoD]                                     1    100 ns   100 ns   100 ns   100 ns  25.0 %

HOST CALLS                                        count     total      p50      p90      p99   share
  s cuStreamSynchronize                               1    320 ns   320 ns   320 ns   320 ns  48.5 %
  t cuMemcpyHtoD_v2                                   1    200 ns   200 ns   200 ns   200 ns  30.3 %
  i cuInit                                            1    100 ns   100 ns   100 ns   100 ns  15.2 %
  K cuLaunchKernel                                    1     40 ns    40 ns    40 ns    40 ns   6.1 %

GPUS                                    busy of trace  of span   kernels      idle     gaps  streams
  0 NVIDIA H200                       400 ns   40.0 %   80.0 %    300 ns    100 ns        1        1
    Span: first to last work. Idle: gaps in it; half of them are shorter than 100 ns, 90 % than 100
    ns, 99 % than 100 ns.

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

TEST_CASE("a trace that lost its end has no bound of its clock's error, which is not a bound of 0") {
  trace_summary cut = ended(1000, 1);
  cut.totals.clock_error_ns = 0;
  const std::string text = report({sample::stage("load", 0, 300, 1)}, cut);
  CHECK(has(text, "traced   1.00 us; clock tsc\n"));
  CHECK(!has(text, "within"));
}

TEST_CASE("without any GPU its columns, letters and times are left out") {
  // A column is 13.2 ns: "load" ends in column 22, "serve" begins in column 30, both over half of it.
  const std::vector<event> all = {sample::stage("load", 0, 300, 1), sample::stage("serve", 400, 1000, 2)};
  CHECK(report(all, ended(1000, all.size())) == R"~(cutrace: llm_server (pid 4242) on node-3, rank 3 of 8
traced   1.00 us; clock tsc, within 140 ns of CLOCK_MONOTONIC
backend  sim: simulated H200
events   2 delivered, nothing lost
answer   no GPU work was seen; 90.0 % with the host in its own code, most of it in stage "serve"
         (600 ns); nothing lost

WHERE THE TIME WENT                      events      time    share
  host: own code, in a stage                  2    900 ns   90.0 %  <- BOTTLENECK
  host: no call, no stage                          100 ns   10.0 %
  all                                             1.00 us  100.0 %
  Each moment counts once, in the first row that applies.

TIMELINE  0 .. 1.00 us, a column is 13 ns                                                  % of time
  stages 0    |22222222222222222222222.......1111111111111111111111111111111111111111111111| 90.0 %
  : under half of the column  . nothing
  1 serve  2 load

STAGES                                                           calls      mean      host  requests
  1 serve                                                            1    600 ns    600 ns         -
  2 load                                                             1    300 ns    300 ns         -
    Host: union over threads.

SUMMARY
  calls     driver 0, runtime 0
  launches  0 (0/s); on the GPU: kernels 0, graphs 0, memsets 0
  memory    no allocation seen
  copies    none on the GPU
  waiting   synchronising calls 0, time in them 0 ns (summed over threads)
  program   stages 2, marks 0

LOSSES AND NOTES
  nothing lost: 2 produced, 2 delivered
  all delivered records have times, a known call and their place in the order
)~");
}

TEST_CASE("the answer and the mark are about the same row") {
  // The GPU works for 31 ns: the largest share of a trace of 60 ns, but not of one of 100 ns.
  const std::vector<event> all = {
      sample::api("cuDevicePrimaryCtxRetain", 0, 20, 1),
      sample::kernel("k", 20, 51, 2),
      sample::stage("s", 51, 55, 3),
  };
  const std::string text = joined(report(all, ended(100, 3)));
  CHECK(has(text, "GPU busy 31.0 %, idle 69.0 %, more before the first and after the last work (69 ns); nothing lost"));
  CHECK(has(text, "no call, no stage 45 ns 45.0 % <- BOTTLENECK"));
  const std::string busy = joined(report({all.begin(), all.begin() + 2}, ended(60, 2)));
  CHECK(has(busy, "GPU busy 51.7 % (kernels 51.7 %, most of all \"k\", 100.0 % of GPU time); idle 48.3 %"));
  CHECK(has(busy, "kernel 1 31 ns 51.7 % <- BOTTLENECK"));
}

TEST_CASE("a trace of stages alone is not empty") {
  const std::vector<event> stage = {sample::stage("prefill", 0, 10, 1)};
  ascii_options options;
  options.path = "/dev/null";
  ascii_sink sink(options);
  sink.open(sample::info());
  sink.write(sample::view(stage));
  const std::string text = joined(sink.report(ended(100, stage.size())));
  CHECK_FALSE(has(text, "no call, no stage and no GPU work was seen"));
  CHECK(has(text, "answer no GPU work was seen; 90.0 % with no call running and no stage open, then 10.0 %"));
}

TEST_CASE("a backend without GPU time is not said to be the source of what there is") {
  const auto first_lines = [](const char* detail, const std::vector<event>& all) {
    ascii_options options;
    options.path = "/dev/null";
    ascii_sink sink(options);
    trace_info i = sample::info();
    i.backend_detail = detail;
    sink.open(i);
    sink.write(sample::view(all));
    return joined(sink.report(ended(100, all.size())));
  };
  const std::vector<event> kernel = {sample::kernel("k", 0, 10, 1)}, stage = {sample::stage("s", 0, 10, 1)};
  CHECK(has(first_lines("no driver: no GPU time", kernel),
            "no GPU time; GPU times here are from a backend that the program added"));
  CHECK_FALSE(has(first_lines("no driver: no GPU time", stage), "GPU times here"));
  CHECK_FALSE(has(first_lines("driver 13.0", kernel), "GPU times here"));
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

/// The longest line of a report for standard error, while that is a terminal of so many columns.
std::size_t width_on_terminal(unsigned short columns, std::uint32_t asked_for = 0) {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
  if (terminal < 0 || grantpt(terminal) != 0 || unlockpt(terminal) != 0) return 0;  // no /dev/pts here
  const int side = open(ptsname(terminal), O_RDWR | O_NOCTTY);
  winsize size{};
  size.ws_col = columns;
  REQUIRE(ioctl(side, TIOCSWINSZ, &size) == 0);
  ascii_options options;
  options.width = asked_for;
  ascii_sink sink(options);
  sink.open(sample::info());
  sink.write(sample::view(sample::server_run()));
  const int before = dup(STDERR_FILENO);
  dup2(side, STDERR_FILENO);
  std::istringstream text(sink.report(ended(200000, 30)));
  dup2(before, STDERR_FILENO);
  for (const int fd : {before, side, terminal}) close(fd);
  std::size_t longest = 0;
  for (std::string line; std::getline(text, line);) longest = std::max(longest, line.size());
  return longest;
}

TEST_CASE("the report is as wide as its terminal, within reason, or as was asked for") {
  if (width_on_terminal(132) == 0) {
    MESSAGE("no pseudo-terminals on this machine: not tested");
    return;
  }
  CHECK(width_on_terminal(132) == 132);
  CHECK(width_on_terminal(40) == 80);
  CHECK(width_on_terminal(500) == 200);
  CHECK(width_on_terminal(0) == 100);  // a terminal that does not know its width
  CHECK(width_on_terminal(132, 90) == 90);
  CHECK(width_on_terminal(132, 10) == 80);
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

TEST_CASE("allocating calls are seen in traces that do not keep their sizes, too") {
  event sized = sample::api("cuMemAlloc", 0, 10, 1);
  sized.api.bytes = 4096;
  const event unsized = sample::api("cuMemAlloc", 20, 30, 2);
  CHECK(has(report({unsized}, ended(100, 1)), "allocating calls 1 of unknown size; peak unknown"));
  CHECK(has(report({sized}, ended(100, 1)), "allocating calls 1 (4.00 KiB); peak unknown"));
  CHECK(has(report({sized, unsized}, ended(100, 2)), "allocating calls 1 (4.00 KiB) and 1 of unknown size; peak"));
}

TEST_CASE("launches without any GPU record are said loudly") {
  const std::string missing = "launches were seen, but not one GPU record";
  CHECK(has(report({sample::api("cuLaunchKernel", 0, 10, 1)}, ended(100, 1)), missing));
  CHECK_FALSE(
      has(report({sample::api("cuLaunchKernel", 0, 10, 1), sample::kernel("k", 10, 20, 1)}, ended(100, 2)), missing));
  CHECK_FALSE(has(report({sample::api("cuMemAlloc", 0, 10, 1)}, ended(100, 1)), missing));
}

TEST_CASE("the answer names the stage in which the GPU is idle, live as from a file") {
  // Between the two kernels the thread was in "sample"; it launches in "serve".
  const std::vector<event> all = {
      sample::in_stage(sample::api("cuLaunchKernel", 0, 2, 1), "serve", 1),
      sample::in_stage(sample::kernel("k", 3, 10, 1), "serve", 1),
      sample::stage("sample", 12, 95, 2, 1, 1),
      sample::in_stage(sample::api("cuLaunchKernel", 96, 97, 2), "serve", 1),
      sample::in_stage(sample::called_at(sample::kernel("k", 98, 100, 2), 96), "serve", 1),
      sample::stage("serve", 0, 101, 1),
  };
  CHECK(has(
      joined(report(all, ended(101, 6))),
      "idle 91.1 %, mostly: the host was late (100.0 % of the gaps, most of all in stage \"sample\"); nothing lost"));
}

TEST_CASE("quality and failed sinks are reported") {
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
  CHECK(has(text, "1.00 ms   50.0 %"));  // nothing came late into the folded (coarsely kept) past of the GPU
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

}  // namespace ascii_report_test
