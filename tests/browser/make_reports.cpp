// SPDX-License-Identifier: Apache-2.0
// Writes the HTML reports that tests/browser opens: of a server's run, of names that attack a page, of nothing, of
// losses alone, of extreme times, of more threads than rows, and of more events than the memory limit holds.
//
//   make_reports <folder>               those
//   make_reports <folder> <events>      one, many.html, of that many events with the default limit
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cutrace/sinks/html.hpp>
#include <string>
#include <vector>

#include "support/hostile_events.hpp"
#include "support/sample_events.hpp"

namespace {

constexpr const char* image = "<img src=x onerror=alert(1)>";
constexpr const char* script = "</script><script>alert(2)</script>";

void write_report(const std::string& path, const std::vector<cutrace::event>& events, std::uint64_t lost,
                  const char* process = "llm_server", const char* clock = "tsc") {
  cutrace::html_options o;
  o.path = path;
  cutrace::html_sink sink(o);
  cutrace::trace_info info = sample::info();
  info.process_name = process;
  info.clock = clock;
  sink.open(info);
  sink.write(sample::view(events));
  sink.close(sample::summary(events.size(), lost));
}

std::vector<cutrace::event> attack() {
  using namespace cutrace;
  static const request_ref requests[] = {sample::request_name("<b onclick=alert(3)>17</b>")};
  std::vector<event> all = hostile::named_events();
  std::int64_t t = all.back().end_ns + 1000;
  for (const char* name : {image, script, "<!--", "${alert(4)}", "\" onmouseover=\"alert(5)"}) {
    event work =
        sample::in_stage(sample::called_at(sample::kernel(name, t + 500, t + 900, 1), t), name, 5000, requests, 1);
    work.call_name = sample::text_of(name);
    all.push_back(sample::in_stage(sample::api(name, t, t + 100, 1), name, 5000, requests, 1));
    all.push_back(work);
    all.push_back(sample::in_stage(sample::stage(name, t - 10, t + 950, 5000), name, 5000, requests, 1));
    all.push_back(sample::base(event_kind::thread, name, 0, 0, static_cast<std::uint32_t>(t)));
    t += 1000;
  }
  return all;
}

/// More threads than the timeline has rows, so that the GPU has no row of its own; work without a known call; marks at
/// the same moment; more spans at once than a row has lanes.
std::vector<cutrace::event> crowd() {
  std::vector<cutrace::event> all;
  static const cutrace::request_ref request[] = {sample::request_id(77)};
  all.push_back(sample::in_stage(sample::mark("token", 150), "", 0, request, 1));
  for (int i = 0; i < 3; ++i) all.push_back(sample::mark("same moment", 200));
  for (int i = 0; i < 60; ++i) {  // twelve long spans at once, then short ones
    const std::int64_t begin = i < 12 ? 300 + i : 1000 + i * 100;
    all.push_back(sample::stage("wait", begin, i < 12 ? 190000 : begin + 50, 500 + static_cast<std::uint64_t>(i)));
    all.back().stage.span = true;
  }
  for (std::uint32_t i = 0; i < 300; ++i) {
    cutrace::event call = sample::api("cuLaunchKernel", 1000 + i, 2000 + i, i + 1);
    call.thread_id = 10000 + i;
    all.push_back(call);
  }
  for (std::int64_t t = 10000; t < 40000; t += 10000) {
    cutrace::event work = sample::kernel("orphan", t, t + 2000, 9000);
    work.joined = cutrace::attribution::no_callback;
    work.call_name = {};
    all.push_back(work);
  }
  return all;
}

/// A decode loop: a stage, one call for each kernel, kernels on two streams, a wait that leaves the GPU idle.
void write_many(const std::string& path, std::uint64_t events, std::size_t limit) {
  cutrace::html_options o;
  o.path = path;
  o.memory_limit_bytes = limit;
  cutrace::html_sink sink(o);
  sink.open(sample::info());
  const char* names[] = {"gemm(float const*, float const*, float*, int)", "rms_norm(float const*, float*)",
                         "rope(float*)", "attention(half const*, half*)"};
  std::uint64_t written = 0, id = 0;
  std::int64_t t = 1000;
  cutrace::request_ref request[] = {sample::request_id(1)};
  for (std::uint64_t step = 1; written < events; ++step) {
    std::vector<cutrace::event> batch;
    const std::int64_t begin = t;
    request[0].id = step / 64;
    for (int k = 0; k < 16; ++k, ++id, t += 4000) {
      batch.push_back(sample::in_stage(sample::api("cuLaunchKernel", t, t + 2500, id), "decode", step, request, 1));
      batch.push_back(sample::in_stage(
          sample::called_at(sample::kernel(names[id * 7 % 4], t + 3000,
                                           t + 6000 + static_cast<std::int64_t>(id % 5) * 100, id, 7 + id % 2),
                            t),
          "decode", step, request, 1));
    }
    batch.push_back(
        sample::in_stage(sample::api("cuStreamSynchronize", t, t + 9000, ++id), "decode", step, request, 1));
    t += 12000;
    batch.push_back(sample::in_stage(sample::stage("decode", begin, t, step), "decode", step, request, 1));
    sink.write(sample::view(batch));
    written += batch.size();
  }
  cutrace::trace_summary end = sample::summary(written, 0);
  end.stop.trace_ns = t;
  sink.close(end);
  std::printf("many %llu\n", static_cast<unsigned long long>(written));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const std::string folder = std::string(argv[1]) + "/";
  if (argc > 2) {
    write_many(folder + "many.html", std::strtoull(argv[2], nullptr, 10), cutrace::html_options().memory_limit_bytes);
    return 0;
  }
  write_report(folder + "server.html", sample::server_run(), 12);
  write_report(folder + "attack.html", attack(), 0, image);
  write_report(folder + "empty.html", {}, 0);
  write_report(
      folder + "losses.html",
      {sample::loss(cutrace::loss_cause::cupti_dropped, 3, 10), sample::loss(cutrace::loss_cause::unpaired, 1, 20)}, 4);
  write_report(folder + "extreme.html", hostile::extreme_events(), 0);
  write_report(folder + "crowd.html", crowd(), 0, "\u061cllm_server", "");
  write_many(folder + "joined.html", 200000, std::size_t{2} << 20);
  return 0;
}
