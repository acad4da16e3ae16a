// SPDX-License-Identifier: Apache-2.0
// Writes the traces of tests/clients that no run gives on demand, each into a folder of its own as trace.jsonl,
// trace.json and report.txt: names that break formats, numbers at their limits, and a long run on several GPUs with
// failures, losses and sums beyond 2^53.
//
//   make_traces <folder>
#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <cutrace/sinks/ascii.hpp>
#include <cutrace/sinks/chrome.hpp>
#include <cutrace/sinks/jsonl.hpp>
#include <random>
#include <string>
#include <vector>

#include "support/hostile_events.hpp"
#include "support/sample_events.hpp"

namespace {

using namespace cutrace;

/// What a session that delivered `events` would say of them.
trace_summary summary_of(const std::vector<event>& events) {
  trace_summary s = sample::summary(events.size(), 0);
  for (const event& e : events) {
    ++s.totals.by_kind[static_cast<std::size_t>(e.kind)];
    s.totals.quality_of[static_cast<std::size_t>(quality::late)] += e.late;
    s.totals.quality_of[static_cast<std::size_t>(quality::skew)] += e.skewed;
    if (e.kind == event_kind::loss) s.totals.lost[static_cast<std::size_t>(e.loss.cause)] += e.loss.count;
    s.stop.trace_ns = e.end_ns > s.stop.trace_ns ? e.end_ns : s.stop.trace_ns;
  }
  s.totals.produced = events.size() + s.totals.lost_total();
  return s;
}

void write_trace(const std::string& folder, const std::vector<event>& events) {
  ::mkdir(folder.c_str(), 0755);
  const std::string report_path = folder + "/report.txt";
  ascii_options o;
  o.path = report_path.c_str();
  o.memory_limit_bytes = std::size_t{256} << 20;  // nothing is folded (merged to fit), so its figures are exact
  ascii_sink report(o);
  jsonl_sink lines(folder + "/trace.jsonl");
  chrome_sink rows(folder + "/trace.json");
  for (sink* s : {static_cast<sink*>(&report), static_cast<sink*>(&lines), static_cast<sink*>(&rows)}) {
    s->open(sample::info());
    s->write(sample::view(events));
    s->close(summary_of(events));
  }
}

/// Three GPUs with streams that overlap each other but never themselves; slices on a stream leave gaps, so that no two
/// of them touch.
std::vector<event> long_run(std::uint32_t steps) {
  static const request_ref request[] = {sample::request_id((std::uint64_t{1} << 63) + 1)};
  const std::uint64_t streams[] = {7, 13, (std::uint64_t{1} << 32) + 7, ~std::uint64_t{0} - 1};
  const char* kernels[] = {"gemm(float const*, float*, int)", "softmax(float*)", "rms_norm(float*)"};
  const copy_direction directions[] = {copy_direction::host_to_device, copy_direction::device_to_host,
                                       copy_direction::device_to_device, copy_direction::peer};
  std::mt19937_64 random(20260101);  // its sequence is fixed by the standard
  const auto below = [&](std::uint64_t n) { return static_cast<std::int64_t>(random() % n); };
  std::vector<event> all;
  for (std::uint32_t device = 0; device < 3; ++device) all.push_back(sample::device(device, "NVIDIA H200"));
  std::int64_t free_from[3][4] = {};
  std::int64_t t = 1000;
  for (std::uint64_t step = 1; step <= steps; ++step) {
    const std::int64_t begin = t;
    t += 50;
    const std::uint64_t stage_id = (step << 40) + 1;
    const auto in_step = [&](event e) { return sample::in_stage(e, "decode", stage_id, request, 1); };
    for (int k = 0; k < 12; ++k) {
      const std::uint64_t id = (step << 33) + static_cast<std::uint64_t>(k) + 1;
      const auto device = static_cast<std::uint32_t>(below(3));
      const auto stream = static_cast<std::size_t>(below(4));
      std::int64_t& from = free_from[device][stream];
      from = (from > t ? from : t) + 1 + below(900);
      const std::int64_t start = from, end = from += 300 + below(4000);
      event call = sample::api(k == 3   ? "cuMemcpyAsync"
                               : k == 5 ? "cuMemsetD8Async"
                                        : "cuLaunchKernel",
                               t, t + 200 + below(300), id);
      if (step % 97 == 0 && k == 7)
        call.api.result = 2, call.api.result_name = sample::text_of("CUDA_ERROR_OUT_OF_MEMORY");
      event work = sample::kernel(kernels[below(3)], start, end, id, streams[stream], device);
      if (k == 3)
        work = sample::memcpy(directions[below(4)], (std::uint64_t{1} << 49) + random() % 4096, start, end, id,
                              streams[stream], device);
      if (k == 5) work = sample::memset((std::uint64_t{1} << 46) + 1, start, end, id, streams[stream], device);
      work.late = below(50) == 0;
      work.skewed = below(70) == 0;
      all.push_back(in_step(call));
      all.push_back(in_step(sample::called_at(work, t)));
      t += 600 + below(200);
    }
    all.push_back(in_step(sample::api("cuStreamSynchronize", t, t + 900, (step << 33) + 100)));
    t += 1000;
    all.push_back(sample::in_stage(sample::stage("decode", begin, t, stage_id), "decode", stage_id, request, 1));
    event adopted = sample::stage("decode", begin + 100, t - 100, stage_id, 0, 0, sample::worker_thread);
    adopted.stage.adopted = true;
    all.push_back(sample::in_stage(adopted, "decode", stage_id, request, 1));
    const std::uint64_t address = std::uint64_t{0x7f0000000000} + step * 4096;
    all.push_back(sample::memory(memory_operation::allocate, address, (std::uint64_t{1} << 44) + step, t, 0));
    if (step % 2 == 0)
      all.push_back(sample::memory(memory_operation::free, address, (std::uint64_t{1} << 44) + step, t, 0));
    if (step % 100 == 0) all.push_back(sample::loss(static_cast<loss_cause>(step / 100 % 5), 1000 + step, t));
    all.push_back(sample::mark("token", t));
    t += below(5000);
  }
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::string folder = argv[1];
  write_trace(folder + "/names", hostile::named_events());
  write_trace(folder + "/limits", hostile::extreme_events());
  write_trace(folder + "/long", long_run(400));
  return 0;
}
