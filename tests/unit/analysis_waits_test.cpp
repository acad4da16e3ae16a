// SPDX-License-Identifier: Apache-2.0
// Waits of the host: which stream or event each is for, found by handles that threads share or not, and that are given
// out again.
#include <doctest/doctest.h>

#include <algorithm>
#include <cutrace/event.hpp>
#include <list>
#include <map>
#include <string>
#include <vector>

#include "report/trace_analysis.hpp"
#include "report/waits.hpp"
#include "support/sample_events.hpp"

using namespace cutrace;  // NOLINT(google-build-using-namespace)
using analysis::wait_for;
using analysis::wait_row;

namespace {

/// A program's calls, one microsecond each, and the kernels that they launch.
class program {
 public:
  std::uint32_t thread = 11, process = 0;
  const char* stage = "";

  void call(const char* name, std::uint64_t stream, std::uint64_t event = 0, std::int32_t result = 0) {
    std::vector<argument> arguments;
    const auto argue = [&](const char* word, std::uint64_t value) {
      argument a;
      a.name = sample::text_of(word);
      a.kind = argument_kind::pointer;
      a.value = value;
      arguments.push_back(a);
    };
    if (stream != none) argue("hStream", stream);
    if (event != 0) argue("hEvent", event);
    kept_.push_back(arguments);
    cutrace::event e = sample::api(name, now_, now_ + 1000, ++correlation_, kept_.back().data(),
                                   static_cast<std::uint32_t>(arguments.size()));
    e.api.result = result;
    e.thread_id = thread;
    e.process_id = process;
    e.stage_name = sample::text_of(stage);
    table.add(e);
    now_ += 1000;
  }
  /// The call returns only when its work is done, so the event of the work is delivered before that of the call.
  void copy_and_wait(std::uint64_t handle, std::uint64_t stream) {
    ++correlation_;
    work(stream);
    --correlation_;
    call("cuMemcpyHtoDAsync", handle);
  }
  /// `handle`: the stream as the program names it. `stream`: the same one as the backend numbers it.
  void launch(std::uint64_t handle, std::uint64_t stream) {
    call("cuLaunchKernel", handle);
    work(stream);
  }
  void work(std::uint64_t stream) {
    cutrace::event e = sample::kernel("gemm", now_, now_ + 10, correlation_, stream);
    e.process_id = process;
    table.add(e);
  }
  /// "decode: stream 7 x2", sorted.
  std::vector<std::string> rows() {
    std::vector<std::string> list;
    for (const wait_row& w : table.result(analysis::trace_log()))
      list.push_back(w.stage + ": " + analysis::name_of(w.is) + " " +
                     (w.stream_known ? std::to_string(w.stream) : std::string("?")) + " x" + std::to_string(w.count));
    std::sort(list.begin(), list.end());
    return list;
  }

  static constexpr std::uint64_t none = ~std::uint64_t{0};
  analysis::wait_table table;

 private:
  std::list<std::vector<argument>> kept_;
  std::int64_t now_ = 1000;
  std::uint64_t correlation_ = 0;
};

using rows = std::vector<std::string>;

}  // namespace

TEST_CASE("waits: by stage and stream; a stream is known by work that was launched on its handle, before or after") {
  program p;
  p.stage = "decode";
  p.launch(0xa0, 13);
  for (int i = 0; i < 3; ++i) p.call("cuStreamSynchronize", 0xa0);
  p.stage = "prefill";
  p.call("cuStreamSynchronize", 0xb0);
  p.call("cuStreamSynchronize", 0xb0);
  p.launch(0xb0, 14);
  p.stage = "";
  p.call("cuStreamSynchronize", 0xc0);
  p.call("cuStreamQuery", 0xa0);  // asks, and does not wait
  CHECK(p.rows() == rows{": stream ? x1", "decode: stream 13 x3", "prefill: stream 14 x2"});
  const std::vector<wait_row> by_total = p.table.result(analysis::trace_log());
  CHECK(by_total[1].stage == "prefill");
  const wait_row& first = by_total[0];
  CHECK(first.total_ns == 3000);
  CHECK(first.longest_ns == 1000);
  CHECK(first.failed == 0);
}

TEST_CASE(
    "waits: a call that states no stage, as in Perfetto and PyTorch files, has the stage around it on its thread") {
  analysis::trace_analysis a;
  for (const std::int64_t at : {1000, 2000, 3000}) a.add(sample::api("cuCtxSynchronize", at, at + 100, 1));
  a.add(sample::stage("decode", 1900, 2200, 1));
  a.add(sample::stage("step", 1500, 2500, 2));
  std::map<std::string, std::int64_t> by_stage;
  for (const wait_row& w : a.finish().waits) by_stage[w.stage] += w.total_ns;
  CHECK(by_stage == std::map<std::string, std::int64_t>{{"", 200}, {"decode", 100}});
}

TEST_CASE("waits: the stage around a call is found for calls without length, and for those that the begin cuts") {
  analysis::trace_analysis a(900);
  a.add(sample::api("cuCtxSynchronize", 800, 1000, 1));
  a.add(sample::api("cuCtxSynchronize", 2000, 2000, 1));
  a.add(sample::api("cuCtxGetCurrent", 2000, 2050, 1));
  a.add(sample::api("cuCtxSynchronize", 2100, 2100, 1));
  a.add(sample::stage("early", 700, 1500, 1));
  a.add(sample::stage("decode", 1900, 2200, 2));
  std::map<std::string, std::uint64_t> by_stage;
  for (const wait_row& w : a.finish().waits) by_stage[w.stage] += w.count;
  CHECK(by_stage == std::map<std::string, std::uint64_t>{{"decode", 2}, {"early", 1}});
}

TEST_CASE("waits: a handle that was destroyed and given out again is another stream") {
  program p;
  p.launch(0xa0, 13);
  p.call("cuStreamSynchronize", 0xa0);
  p.call("cuStreamDestroy", 0xa0, 0, 400);  // failed: it is still there
  p.call("cuStreamSynchronize", 0xa0);
  p.call("cuStreamDestroy", 0xa0);
  p.call("cuStreamSynchronize", 0xa0);
  p.launch(0xa0, 21);
  CHECK(p.rows() == rows{": stream 13 x2", ": stream 21 x1"});
}

TEST_CASE("waits: an event is of the stream on which it was recorded last") {
  program p;
  p.launch(0xa0, 13);
  p.launch(0xb0, 14);
  p.call("cuEventRecord", 0xa0, 0xe0);
  p.call("cuEventSynchronize", program::none, 0xe0);
  p.call("cuEventSynchronize", program::none, 0xe0);
  p.call("cuEventRecordWithFlags", 0xb0, 0xe0);
  p.call("cuEventSynchronize", program::none, 0xe0);
  p.call("cuStreamWaitEvent", 0xa0, 0xe0);  // the stream waits, not the host
  p.call("cuEventDestroy", program::none, 0xe0);
  p.call("cuEventSynchronize", program::none, 0xe0, 400);
  CHECK(p.rows() == rows{": event 13 x2", ": event 14 x1", ": event ? x1"});
  std::uint64_t failed = 0;
  for (const wait_row& w : p.table.result(analysis::trace_log())) failed += w.failed;
  CHECK(failed == 1);
}

TEST_CASE("waits: default streams are the threads' own where the program says so, and else one") {
  program p;
  p.launch(0, 7);
  p.call("cuStreamSynchronize", 0);
  p.thread = 12;  // launches nothing: there is only one default stream so far
  p.call("cuStreamSynchronize", 0);
  CHECK(p.rows() == rows{": stream 7 x2"});
  p.launch(0, 8);
  p.thread = 13;
  p.call("cuStreamSynchronize", 0);  // this thread's may be either, or a third
  CHECK(p.rows() == rows{": stream 7 x1", ": stream 8 x1", ": stream ? x1"});
}

TEST_CASE("waits: handles of default streams, and copies that name none") {
  program p;
  p.launch(1, 7);
  p.thread = 12;
  p.call("cuStreamSynchronize", 1);  // the legacy stream is that of all threads
  p.launch(2, 31);
  p.call("cuStreamSynchronize", 2);
  p.thread = 13;
  p.launch(2, 32);
  p.call("cuStreamSynchronize", 2);
  p.call("cuMemcpyHtoD", program::none);
  p.work(9);
  p.call("cuStreamSynchronize", 0);
  p.call("cuCtxSynchronize", program::none);
  CHECK(p.rows() == rows{": context ? x1", ": stream 31 x1", ": stream 32 x1", ": stream 7 x1", ": stream 9 x1"});
}

TEST_CASE("waits: processes have handles of their own, and lost work keeps no launch for ever") {
  program p;
  p.process = 1;
  p.launch(0xa0, 13);
  p.call("cuStreamSynchronize", 0xa0);
  p.process = 2;
  p.launch(0xa0, 14);
  p.call("cuStreamSynchronize", 0xa0);
  CHECK(p.rows() == rows{": stream 13 x1", ": stream 14 x1"});
  p.copy_and_wait(0xd0, 15);
  p.call("cuStreamSynchronize", 0xd0);
  CHECK(p.rows() == rows{": stream 13 x1", ": stream 14 x1", ": stream 15 x1"});
  for (int i = 0; i < 1000; ++i) p.call("cuLaunchKernel", 0xb0);  // whose work never comes
  p.call("cuStreamSynchronize", 0xb0);
  CHECK(p.rows().back() == ": stream ? x1");
}
