// SPDX-License-Identifier: Apache-2.0
// The Prometheus sink: each page read by a strict parser, numbers compared with the events they came from.
#include <cutrace/names.hpp>
#include <cutrace/sinks/prometheus.hpp>
#include <string>
#include <vector>

#include "contract/sink_contract.hpp"
#include "support/prometheus_text.hpp"

namespace prometheus_sink_test {

namespace {

using prometheus_text::document;

cutrace::prometheus_options to(const std::string& path) {
  cutrace::prometheus_options o;
  o.to = path;
  return o;
}

bool is_utf8(const std::string& s) {
  for (std::size_t at = 0; at < s.size();) {
    const auto step = cutrace::detail::next_utf8(reinterpret_cast<const unsigned char*>(s.data()) + at, s.size() - at);
    if (!step.valid) return false;
    at += step.size;
  }
  return true;
}

double count_of(const std::vector<cutrace::event>& all, cutrace::event_kind kind) {
  double n = 0;
  for (const cutrace::event& e : all) n += e.kind == kind;
  return n;
}

document page_of(const std::vector<cutrace::event>& all, cutrace::prometheus_options o = {}) {
  const temporary_folder folder;
  o.to = folder.file("m.prom");
  cutrace::prometheus_sink sink(o);
  sink.open(sample::info());
  sink.write(sample::view(all));
  sink.close(sample::summary(all.size()));
  return document(content_of(o.to));
}

cutrace::event with_requests(cutrace::event e, const cutrace::request_ref* requests, std::uint32_t n) {
  e.requests = requests;
  e.request_count = e.request_total = n;
  return e;
}

}  // namespace

TEST_CASE("prometheus sink keeps the contract of sinks") {
  sink_contract::subject s;
  s.make = [](const std::string& path) {
    return std::unique_ptr<cutrace::sink>(new cutrace::prometheus_sink(to(path)));
  };
  s.check = [](cutrace::sink&, const std::string& path, const sink_contract::events& all) {
    const std::string text = content_of(path);
    CHECK(is_utf8(text));
    const document page(text);
    CHECK(page.value("cutrace_events_total") == all.size());
    CHECK(page.value("cutrace_trace_running") == 0);
    CHECK(page.sum("cutrace_kernels_total") == count_of(all, cutrace::event_kind::kernel));
    CHECK(page.sum("cutrace_copies_total") == count_of(all, cutrace::event_kind::memcpy));
    CHECK(page.sum("cutrace_calls_total") == count_of(all, cutrace::event_kind::api));
    double stages = 0;
    for (const cutrace::event& e : all) stages += e.kind == cutrace::event_kind::stage && !e.stage.adopted;
    CHECK(page.sum("cutrace_stage_host_seconds_count") == stages);
    CHECK(page.value("cutrace_lost_records_total", {{"cause", "chunk_full"}}) == 12);  // of the summary
  };
  sink_contract::check_sink_contract(s);
}

TEST_CASE("prometheus: the numbers of a server's run") {
  const document page = page_of(sample::server_run());
  const prometheus_text::labels prefill{{"stage", "prefill"}, {"device", "0"}};
  CHECK(page.value("cutrace_stage_host_seconds_sum", {{"stage", "prefill"}}) == doctest::Approx(140e-6));
  CHECK(page.value("cutrace_stage_host_seconds_bucket", {{"stage", "prefill"}, {"le", "0.0001"}}) == 0);
  CHECK(page.value("cutrace_stage_host_seconds_bucket", {{"stage", "prefill"}, {"le", "0.0002"}}) == 1);
  // 45..125, 126..138.3, 139..140 us; the stage is 10..150 us.
  CHECK(page.value("cutrace_stage_gpu_busy_seconds_sum", prefill) == doctest::Approx(93.3e-6));
  CHECK(page.value("cutrace_stage_gpu_busy_seconds_count", prefill) == 1);
  CHECK(page.value("cutrace_stage_gpu_idle_seconds_sum", {{"stage", "prefill"}}) == doctest::Approx(46.7e-6));
  CHECK(page.value("cutrace_launch_delay_seconds_count", prefill) == 3);
  CHECK(page.value("cutrace_launch_delay_seconds_sum", prefill) == doctest::Approx((5 + 76 + 85) * 1e-6));
  CHECK(page.value("cutrace_copy_bytes_total", {{"device", "0"}, {"direction", "HtoD"}}) == 4000000);
  CHECK(page.value("cutrace_device_memory_live_bytes", {{"device", "0"}}) == 4000000);
  CHECK(page.value("cutrace_requests_total") == 3);
  CHECK(page.value("cutrace_failed_calls_total") == 1);
  CHECK(page.value("cutrace_unattributed_operations_total") == 1);
  CHECK(page.value("cutrace_user_value", {{"name", "queue depth"}}) == 3);
  CHECK(page.value("cutrace_kernels_total", {{"stage", "none"}, {"device", "0"}}) == 1);
}

TEST_CASE("prometheus: no kernel and no request is a label, whatever the trace holds") {
  const temporary_folder folder;
  cutrace::prometheus_sink sink(to(folder.file("m.prom")));
  sink.open(sample::info());
  sink.write(sample::view(sample::server_run()));
  sink.close(sample::summary(0));
  const std::string text = content_of(folder.file("m.prom"));
  for (const char* word : {"gemm", "warm_up", "chat-0007", "cuLaunchKernel", "llm_server"})
    CHECK(text.find(word) == std::string::npos);
  const document page(text);
  for (const auto& f : page.families())
    for (const auto& samples : f.second.samples)
      for (const auto& s : samples.second)
        for (const auto& l : s.first) {
          INFO(l.first);
          const std::set<std::string> known{"stage", "device", "category", "direction", "cause", "name", "le"};
          CHECK(known.count(l.first) == 1);
        }
}

TEST_CASE("prometheus: stages and devices beyond the limit share a series and are counted") {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (int i = 0; i < 100; ++i) all.push_back("stage" + std::to_string(i));
    return all;
  }();
  std::vector<cutrace::event> all;
  for (std::size_t i = 0; i < names.size(); ++i) {
    all.push_back(
        sample::in_stage(sample::kernel("k", 100, 200, i, 7, static_cast<std::uint32_t>(i)), names[i], i + 1));
    all.push_back(sample::stage(names[i], 0, 300, i + 1));
  }
  cutrace::prometheus_options o;
  o.stages = 10;
  const document page = page_of(all, o);
  CHECK(page.families().at("cutrace_stage_host_seconds").samples.at("cutrace_stage_host_seconds_count").size() == 11);
  CHECK(page.value("cutrace_stage_host_seconds_count", {{"stage", "other"}}) == 90);
  CHECK(page.value("cutrace_folded_names_total") == 180);
  CHECK(page.families().at("cutrace_gpu_busy_seconds_total").samples.at("cutrace_gpu_busy_seconds_total").size() == 17);
  CHECK(page.value("cutrace_gpu_operations_total", {{"device", "other"}, {"category", "kernel"}}) == 84);
  CHECK(page.sum("cutrace_kernels_total") == 100);
}

TEST_CASE(
    "prometheus: a counter that the program calls \"other\" has its series; only names beyond the limit are folded") {
  cutrace::prometheus_options o;
  o.stages = 2;
  const document page = page_of({sample::counter("other", 10, 7, 7, false), sample::counter("queue", 20, 3),
                                 sample::counter("beyond", 30, 9), sample::counter("other", 40, 8, 1, false)},
                                o);
  CHECK(page.value("cutrace_user_value", {{"name", "queue"}}) == 3);
  CHECK(page.value("cutrace_user_count_total", {{"name", "other"}}) == 8);
  CHECK(page.value("cutrace_folded_names_total") == 1);
}

TEST_CASE("prometheus: work without times, which stands at its call, is counted and measures nothing") {
  std::vector<cutrace::event> all;
  all.push_back(sample::called_at(sample::kernel("k", 500, 500, 1), 500));
  all.push_back(sample::called_at(sample::kernel("k", 900, 900, 2), 800));  // ran for less than a clock's tick
  all.push_back(sample::called_at(sample::kernel("k", 1000, 3000, 3), 900));
  cutrace::event no_call =
      sample::called_at(sample::kernel("k", 4000, 4000, 4), 4000);  // its begin stands for the call
  no_call.joined = cutrace::attribution::no_callback;
  all.push_back(no_call);
  all.push_back(sample::called_at(sample::kernel("k", 5000, 5000, 5), 5000));
  all.back().joined = cutrace::attribution::stage_unknown;
  const document page = page_of(all);
  CHECK(page.value("cutrace_untimed_operations_total") == 2);
  CHECK(page.value("cutrace_unattributed_operations_total") == 2);
  CHECK(page.sum("cutrace_kernels_total") == 5);
  CHECK(page.sum("cutrace_launch_delay_seconds_count") == 2);
}

TEST_CASE("prometheus: times of tokens from marks") {
  static const cutrace::request_ref one[] = {sample::request_id(1)}, two[] = {sample::request_id(2)};
  static const cutrace::request_ref both[] = {sample::request_id(1), sample::request_id(2)};
  const std::int64_t ms = 1000000;
  std::vector<cutrace::event> all;
  const auto mark = [&](const char* name, std::int64_t at, const cutrace::request_ref* r, std::uint32_t n) {
    all.push_back(with_requests(sample::mark(name, at), r, n));
  };
  mark("request_begin", 5 * ms, two, 1);
  mark("first_token", 30 * ms, one, 1);  // before the stage around it has ended
  all.push_back(sample::in_stage(sample::stage("prefill", 20 * ms, 31 * ms, 1), "prefill", 1, one, 1));
  mark("token", 45 * ms, two, 1);  // a first one as well
  all.push_back(sample::in_stage(sample::stage("prefill", 35 * ms, 46 * ms, 2), "prefill", 2, two, 1));
  all.push_back(sample::in_stage(sample::stage("queue", 10 * ms, 47 * ms, 3), "queue", 3, one, 1));
  mark("token", 50 * ms, both, 2);
  mark("token", 49 * ms, both, 2);  // late
  mark("token", 60 * ms, both, 2);
  mark("tokens", 61 * ms, both, 2);
  const document page = page_of(all);
  CHECK(page.value("cutrace_time_to_first_token_seconds_count") == 2);
  CHECK(page.value("cutrace_time_to_first_token_seconds_sum") == doctest::Approx(0.020 + 0.040));
  CHECK(page.value("cutrace_inter_token_seconds_count") == 4);
  CHECK(page.value("cutrace_inter_token_seconds_sum") == doctest::Approx(0.020 + 0.005 + 0.010 + 0.010));
  CHECK(page.value("cutrace_tokens_total") == 8);
  CHECK(page.value("cutrace_requests_total") == 2);
}

TEST_CASE("prometheus: an id that is used again behind request_end is another request's") {
  static const cutrace::request_ref id[] = {sample::request_id(1)};
  const std::int64_t ms = 1000000;
  std::vector<cutrace::event> all;
  const auto mark = [&](const char* name, std::int64_t at) {
    all.push_back(with_requests(sample::mark(name, at * ms), id, 1));
  };
  mark("request_begin", 5);
  mark("request_end", 100);  // cancelled
  mark("request_begin", 1000);
  mark("request_begin", 1001);
  mark("token", 1020);
  mark("token", 1030);
  mark("request_end", 1031);
  mark("request_begin", 3000);
  mark("token", 3040);
  mark("request_end", 3041);
  const document page = page_of(all);
  CHECK(page.value("cutrace_time_to_first_token_seconds_count") == 2);
  CHECK(page.value("cutrace_time_to_first_token_seconds_sum") == doctest::Approx(0.020 + 0.040));
  CHECK(page.value("cutrace_inter_token_seconds_count") == 1);
  CHECK(page.value("cutrace_tokens_total") == 3);
  CHECK(page.value("cutrace_requests_total") == 3);
}

TEST_CASE("prometheus: a replay of a graph has one launch delay, and each of its nodes is a kernel") {
  std::vector<cutrace::event> all;
  for (int i = 0; i < 5; ++i) {
    cutrace::event node = sample::called_at(sample::kernel("node", 1000 + i * 100, 1050 + i * 100, 9), 500);
    node.kernel.graph_id = 3;
    all.push_back(node);
  }
  const document page = page_of(all);
  CHECK(page.value("cutrace_launch_delay_seconds_count", {{"stage", "none"}, {"device", "0"}}) == 1);
  CHECK(page.value("cutrace_launch_delay_seconds_sum", {{"stage", "none"}, {"device", "0"}}) == doctest::Approx(5e-7));
  CHECK(page.value("cutrace_kernels_total", {{"stage", "none"}, {"device", "0"}}) == 5);
}

TEST_CASE("prometheus: without a GPU record, idle time is unknown and not everything") {
  const document page = page_of({sample::stage("tokenize", 0, 1000, 1)});
  CHECK(page.sum("cutrace_stage_host_seconds_count") == 1);
  CHECK(page.sum("cutrace_stage_gpu_idle_seconds_count") == 0);
}

TEST_CASE("prometheus: memory that is freed, or handed out again unseen") {
  using cutrace::memory_operation;
  std::vector<cutrace::event> all{sample::memory(memory_operation::allocate, 16, 1000, 1, 1),
                                  sample::memory(memory_operation::allocate, 32, 500, 2, 2, 1),
                                  sample::memory(memory_operation::free, 16, 1000, 3, 3),
                                  sample::memory(memory_operation::free, 64, 9999, 4, 4),
                                  sample::memory(memory_operation::allocate, 32, 700, 5, 5, 1)};
  all.push_back(sample::memory(memory_operation::allocate, 128, 4096, 6, 6));
  all.back().memory.memory = cutrace::memory_kind::pinned;
  const document page = page_of(all);
  CHECK(page.value("cutrace_device_memory_live_bytes", {{"device", "0"}}) == 0);
  CHECK(page.value("cutrace_device_memory_live_bytes", {{"device", "1"}}) == 700);
  CHECK(page.value("cutrace_pinned_memory_live_bytes") == 4096);
}

TEST_CASE("prometheus: a file is rewritten while the trace runs, whole each time, for whom it is meant") {
  const temporary_folder folder;
  cutrace::prometheus_options o = to(folder.file("m-%%-%p.prom"));
  o.every_s = 0;
  o.readable_by_all = true;
  cutrace::prometheus_sink sink(o);
  const mode_t before = ::umask(077);
  sink.open(sample::info());
  const std::string path = sink.destination();
  std::vector<cutrace::event> all;
  for (int i = 1; i <= 3; ++i) {
    all = {sample::stage("s", i * 100, i * 100 + 50, static_cast<std::uint64_t>(i))};
    sink.write(sample::view(all));
    sink.flush();
    CHECK(document(content_of(path)).value("cutrace_events_total") == i);
    struct stat status {};
    REQUIRE(::stat(path.c_str(), &status) == 0);
    CHECK((status.st_mode & 0777) == 0644);
  }
  CHECK(document(content_of(path)).value("cutrace_trace_running") == 1);
  cutrace::prometheus_sink second(o);
  CHECK_THROWS_AS(second.open(sample::info()), cutrace::config_error);  // two writers of one file
  sink.close(sample::summary(3));
  ::umask(before);
  CHECK(document(content_of(path)).value("cutrace_trace_running") == 0);
  CHECK(::access((path + ".tmp").c_str(), F_OK) != 0);
}

}  // namespace prometheus_sink_test
