// SPDX-License-Identifier: Apache-2.0
// The calls sink: one readable line for each event, whatever bytes its names hold.
#include <cutrace/sinks/calls.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "contract/sink_contract.hpp"
#include "support/gzip_file.hpp"

namespace calls_sink_test {

namespace {

std::vector<std::string> lines_in(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::string line_of(const cutrace::event& e) {
  std::string line;
  cutrace::detail::calls_line(line, e);
  return line;
}

cutrace::event named(const std::string& name) {
  for (const cutrace::event& e : sample::server_run()) {
    if (std::string(e.name.data, e.name.size) == name) return e;
  }
  FAIL("no such event: " << name);
  return {};
}

void check_text(cutrace::sink&, const std::string& path, const sink_contract::events& all) {
  const std::string text = text_of_file(path);
  CHECK(lines_in(text).size() == all.size() + 4);  // head, totals and two notes
  for (const char c : text) REQUIRE((c == '\n' || static_cast<unsigned char>(c) >= 0x20));
  CHECK(text.find('\x7f') == std::string::npos);
  CHECK(text.find("\xc2\x85") == std::string::npos);
}

}  // namespace

TEST_CASE("calls sink keeps the contract of sinks") {
  sink_contract::subject s;
  s.make = [](const std::string& path) { return std::unique_ptr<cutrace::sink>(new cutrace::calls_sink(path)); };
  s.check = check_text;
  sink_contract::check_sink_contract(s);
}

TEST_CASE("calls sink, compressed, keeps the contract of sinks") {
  sink_contract::subject s;
  s.make = [](const std::string& path) { return std::unique_ptr<cutrace::sink>(new cutrace::calls_sink(path)); };
  s.check = check_text;
  s.extension = ".txt.gz";
  sink_contract::check_sink_contract(s);
}

TEST_CASE("calls: a line has the time at which its event ended") {
  cutrace::event outer = sample::stage("outer", 1000, 9000, 1), inner = sample::api("cuInit", 2000, 3000, 1);
  CHECK(line_of(inner).substr(0, 10) == "[0.000003]");
  CHECK(line_of(outer).substr(0, 10) == "[0.000009]");
}

TEST_CASE("calls: a call with its arguments, what it gave back, and how long it took") {
  const cutrace::argument arguments[] = {sample::argument_of("bytesize", cutrace::argument_kind::bytes, 4000000),
                                         sample::argument_of("dptr", cutrace::argument_kind::output, 0x7f32a4000000u)};
  CHECK(line_of(sample::api("cuMemAlloc", 1234000, 1246300, 1, arguments, 2)) ==
        "[0.001246] cuMemAlloc(bytesize=4000000) -> 0x7f32a4000000 (12.3 us)\n");
  cutrace::event failed = sample::api("cuMemAlloc", -1500, -1000, 1, arguments, 2);
  failed.api.result = 2;
  failed.api.result_name = sample::text_of("CUDA_ERROR_OUT_OF_MEMORY");
  CHECK(line_of(failed) == "[-0.000001] cuMemAlloc(bytesize=4000000) -> CUDA_ERROR_OUT_OF_MEMORY (500 ns)\n");
  failed.api.result_name = cutrace::text{};
  CHECK(line_of(failed) == "[-0.000001] cuMemAlloc(bytesize=4000000) -> error 2 (500 ns)\n");
}

TEST_CASE("calls: arguments of each kind, with and without names") {
  using cutrace::argument_kind;
  const double half = 0.5;
  std::uint64_t bits = 0;
  __builtin_memcpy(&bits, &half, sizeof(bits));
  const cutrace::argument arguments[] = {sample::argument_of("a", argument_kind::integer, ~std::uint64_t{0}),
                                         sample::argument_of("", argument_kind::word, 255),
                                         sample::argument_of("c", argument_kind::floating, bits),
                                         sample::argument_of("d", argument_kind::unsigned_integer, 12)};
  CHECK(line_of(sample::api("f", 0, 1, 0, arguments, 4)) == "[0.000000] f(a=-1, 0xff, c=0.5, d=12) (1 ns)\n");
}

TEST_CASE("calls: a copy that waits gives its bandwidth, an asynchronous one does not") {
  cutrace::event copy = sample::api("cuMemcpyHtoD_v2", 0, 400000, 1, nullptr, 0, 4000000);
  copy.api.direction = cutrace::copy_direction::host_to_device;
  CHECK(line_of(copy) == "[0.000400] cuMemcpyHtoD_v2() (400.0 us, 10.0 GB/s)\n");
  copy.name = sample::text_of("cuMemcpyHtoDAsync_v2");
  CHECK(line_of(copy) == "[0.000400] cuMemcpyHtoDAsync_v2() (400.0 us)\n");
}

TEST_CASE("calls: GPU work, stages, marks, counters and losses") {
  CHECK(
      line_of(named("gemm(float const*, float const*, float*, int)")) ==
      "[0.000138]     kernel gemm(float const*, float const*, float*, int) grid 12x1x1 block 256x1x1 stream 7 12.3 us, "
      "queued 76.0 us, stage prefill, request 17\n");
  CHECK(line_of(named("memcpy")) ==
        "[0.000125]     memcpy HtoD 3.8 MiB (Pinned -> Device) stream 7 80.0 us, 50.0 GB/s, queued 5.0 us, stage "
        "prefill, "
        "request 17\n");
  CHECK(line_of(named("warm_up()")) ==
        "[0.000198]     kernel warm_up() grid 12x1x1 block 256x1x1 stream 7 1.0 us, unattributed: no_callback\n");
  CHECK(line_of(named("decode")) == "[0.000195] stage decode (31.0 us, requests 17, 18, chat-0007 and 37 more)\n");
  CHECK(line_of(named("first token")) == "[0.000142] mark first token, stage prefill, request 17\n");
  CHECK(line_of(named("queue depth")) == "[0.000142] counter queue depth = 3 (-1)\n");
  CHECK(line_of(named("loss")) == "# lost 12 records: chunk_full\n");
}

TEST_CASE("calls: of requests of which only the number is known, it is printed") {
  cutrace::event e = named("decode");
  e.requests = nullptr;
  e.request_count = 0;
  CHECK(line_of(e) == "[0.000195] stage decode (31.0 us, 40 requests not known)\n");
  e.request_total = 1;
  CHECK(line_of(e) == "[0.000195] stage decode (31.0 us, 1 request not known)\n");
}

TEST_CASE("calls: who made a call of the driver") {
  cutrace::event call = sample::api("cuMemFree", 1000, 3000, 1);
  call.api.runtime_name = sample::text_of("cudaFree");
  CHECK(line_of(call) == "[0.000003] cuMemFree() (2.0 us, by cudaFree)\n");
}

TEST_CASE("calls: a CUDA event says on which stream") {
  CHECK(line_of(sample::cuda_event(5000, 4)) == "[0.000005] mark CUDA event stream 7\n");
  CHECK(line_of(sample::cuda_event(5000, 4, 9, 2)) == "[0.000005] mark CUDA event device 2 stream 9\n");
}

TEST_CASE("calls: long and hostile names are cut and made harmless") {
  const std::string line = line_of(sample::mark("\x1b[2J\nnew", 0));
  CHECK(line == "[0.000000] mark \\x1b[2J\\x0anew\n");
  CHECK(line_of(sample::mark("a\u202eb\u2066c", 0)) == "[0.000000] mark a\uFFFDb\uFFFDc\n");  // would turn the line
  const std::string long_name(10000, 'x');
  CHECK(line_of(sample::mark(long_name, 0)).size() < 300);
}

TEST_CASE("calls: head and totals") {
  std::string text;
  cutrace::detail::calls_header(text, sample::info());
  CHECK(text.find("llm_server (pid 4242) on node-3, GPU times from sim: simulated H200\n") != std::string::npos);
  text.clear();
  cutrace::detail::calls_footer(text, sample::summary(100));
  CHECK(lines_in(text)[0] == "# 112 events produced, 100 delivered, 12 lost, 12 chunk_full");
  CHECK(lines_in(text).size() == 3);
}

TEST_CASE("calls: notes and what is missing are sentences, which are not cut like names") {
  const std::string note = "sink: /" + std::string(230, 'f') + "/trace.jsonl: no space is left; free some";
  const std::string missing = "the parts of " + std::string(230, 'h') + " are not there: run the merge again";
  const char* const notes[] = {note.c_str()};
  cutrace::trace_summary end = sample::summary(3);
  end.notes = notes;
  end.note_count = 1;
  end.missing = missing.c_str();
  std::string text;
  cutrace::detail::calls_footer(text, end);
  CHECK(text.find("# " + note + "\n") != std::string::npos);
  CHECK(text.find("# INCOMPLETE: " + missing + "\n") != std::string::npos);
  cutrace::trace_info info = sample::info();
  info.backend_detail = note.c_str();
  text.clear();
  cutrace::detail::calls_header(text, info);
  CHECK(text.find(note + "\n") != std::string::npos);
}

}  // namespace calls_sink_test
