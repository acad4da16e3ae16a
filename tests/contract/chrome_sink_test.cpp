// SPDX-License-Identifier: Apache-2.0
// The Chrome JSON sink: one valid document in Kineto's shape that viewers draw without dropping a slice.
#include <algorithm>
#include <cutrace/sinks/chrome.hpp>
#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <regex>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "contract/sink_contract.hpp"
#include "support/gzip_file.hpp"
#include "support/sanitized.hpp"

namespace chrome_sink_test {

namespace {

using json = nlohmann::json;
using row = std::pair<std::uint64_t, std::uint64_t>;

row row_of(const json& e) { return row(e["pid"].get<std::uint64_t>(), e["tid"].get<std::uint64_t>()); }

/// Nanoseconds of a ts as it stands in the text: the parser's double would round.
std::int64_t ns_of(const json& microseconds) {
  const std::string text = microseconds.get<std::string>();
  const std::size_t dot = text.find('.');
  REQUIRE(dot != std::string::npos);
  REQUIRE(text.size() == dot + 4);
  return std::stoll(text.substr(0, dot) + text.substr(dot + 1));
}

/// The document with each ts and dur turned into a string, so that no digit is lost on the way.
json parsed(const std::string& content) {
  static const std::regex time(R"re(("(?:ts|dur)"): ?(-?[0-9]+\.[0-9]{3}))re");
  // Only outside of strings does `"ts":` occur: within them the quotes are escaped.
  REQUIRE(json::accept(content));
  return json::parse(std::regex_replace(content, time, "$1:\"$2\""));
}

struct slice {
  std::int64_t start, end;
  std::size_t position;
  std::string name;
};

/// What trace_processor does with complete events of one row: sorted by time (file order where equal), each must lie
/// within the one that is open or begin after it.
void check_rows_nest(const json& trace) {
  std::map<row, std::vector<slice>> rows;
  std::size_t position = 0;
  for (const json& e : trace["traceEvents"]) {
    ++position;
    if (e["ph"] != "X") continue;
    const std::int64_t start = ns_of(e["ts"]);
    const std::uint64_t end = static_cast<std::uint64_t>(start) + static_cast<std::uint64_t>(ns_of(e["dur"]));
    rows[row_of(e)].push_back({start, static_cast<std::int64_t>(end), position, e["name"]});
  }
  for (auto& r : rows) {
    std::stable_sort(r.second.begin(), r.second.end(), [](const slice& a, const slice& b) {
      return std::tie(a.start, a.position) < std::tie(b.start, b.position);
    });
    std::vector<slice> open;
    for (const slice& s : r.second) {
      while (!open.empty() && open.back().end <= s.start) open.pop_back();
      if (!open.empty()) CHECK_MESSAGE(s.end <= open.back().end, s.name);
      open.push_back(s);
    }
  }
}

void check_document(const json& trace, std::size_t events_that_are_rows) {
  CHECK(trace["schemaVersion"] == 1);
  CHECK(trace["cutraceSummary"]["lost"].is_object());
  std::set<row> named;
  std::set<std::string> names;
  std::size_t rows = 0;
  for (const json& e : trace["traceEvents"]) {
    CHECK(e["pid"].get<std::uint64_t>() <= 0xFFFFFFFFu);
    if (e.contains("tid")) CHECK(e["tid"].get<std::uint64_t>() <= 0xFFFFFFFFu);
    if (e["ph"] == "X" || e["ph"] == "C" || e["ph"] == "i") ++rows;
    if (e["ph"] == "M" && e["name"] == "thread_name") named.insert(row_of(e));
    if (e["ph"] == "X") CHECK(ns_of(e["dur"]) >= 0);
    if (e.contains("args") && e["args"].contains("stream")) CHECK(e["args"]["stream"] != 0);
  }
  CHECK(rows == events_that_are_rows + 1);  // and "Record Window End"
  for (const json& e : trace["traceEvents"]) {
    if (e["ph"] == "X") CHECK(named.count(row_of(e)) == 1);
  }
}

void check_trace(cutrace::sink&, const std::string& path, const sink_contract::events& all) {
  using cutrace::event_kind;
  CHECK(!std::filesystem::exists(path + ".tmp"));
  const json trace = parsed(text_of_file(path));
  std::size_t rows = 0;
  bool fits = true;
  for (const cutrace::event& e : all) {
    if (e.kind < event_kind::process || e.kind == event_kind::window || e.kind == event_kind::system ||
        e.kind == event_kind::alarm)
      ++rows;
    fits = fits && e.end_ns != std::numeric_limits<std::int64_t>::max();
  }
  if (fits) check_rows_nest(trace);  // no signed number holds the duration of a slice of 2^64 ns
  check_document(trace, rows);
}

std::string text_of(const std::vector<cutrace::event>& all, cutrace::trace_info info = sample::info()) {
  const temporary_folder folder;
  cutrace::chrome_sink sink(folder.file("t.json"));
  sink.open(info);
  sink.write(sample::view(all));
  sink.close(sample::summary(all.size()));
  return content_of(folder.file("t.json"));
}
json trace_of(const std::vector<cutrace::event>& all, cutrace::trace_info info = sample::info()) {
  return parsed(text_of(all, info));
}

std::vector<json> with(const json& trace, const char* key, const json& value) {
  std::vector<json> found;
  for (const json& e : trace["traceEvents"]) {
    if (e.contains(key) && e[key] == value) found.push_back(e);
  }
  return found;
}

}  // namespace

TEST_CASE("chrome sink keeps the contract of sinks") {
  sink_contract::subject s;
  s.make = [](const std::string& path) { return std::unique_ptr<cutrace::sink>(new cutrace::chrome_sink(path)); };
  s.check = check_trace;
  sink_contract::check_sink_contract(s);
}

TEST_CASE("chrome sink, compressed, keeps the contract of sinks") {
  sink_contract::subject s;
  s.make = [](const std::string& path) { return std::unique_ptr<cutrace::sink>(new cutrace::chrome_sink(path)); };
  s.check = check_trace;
  s.extension = ".json.gz";
  sink_contract::check_sink_contract(s);
}

TEST_CASE("chrome: header in Kineto's order, rank as HTA's expression finds it, name last") {
  const std::string text = text_of(sample::server_run());
  std::smatch rank;  // HTA (Holistic Trace Analysis) reads the rank with this expression
  REQUIRE(std::regex_search(text, rank, std::regex(R"re("rank":\s+(\d+))re")));
  CHECK(rank[1] == "3");
  CHECK(text.find("\"baseTimeNanoseconds\": 1790000000123456789,") < text.find("\"traceEvents\""));
  CHECK(text.find("\"schemaVersion\"") < text.find("\"distributedInfo\""));
  CHECK(text.find("\"displayTimeUnit\"") < text.find("\"traceEvents\""));
  CHECK(text.rfind("\"traceName\"") > text.rfind("\"cutraceSummary\""));
  const json trace = json::parse(text);
  CHECK(trace["deviceProperties"][0]["name"] == "NVIDIA H200");
  CHECK(trace["deviceProperties"][0]["numSms"] == 132);
  CHECK(trace["cutraceSummary"]["delivered"] == sample::server_run().size());
}

TEST_CASE("chrome: categories, names and arguments are Kineto's") {
  const json trace = trace_of(sample::server_run());
  std::set<std::string> categories;
  for (const json& e : with(trace, "ph", "X")) categories.insert(e["cat"].get<std::string>());
  CHECK(categories == std::set<std::string>{"cuda_driver", "kernel", "gpu_memcpy", "gpu_memset", "cuda_sync",
                                            "user_annotation", "overhead", "jit", "ioctl", "system", "window",
                                            "alarm"});
  const json copy = with(trace, "cat", "gpu_memcpy").at(0);
  CHECK(copy["name"] == "Memcpy HtoD (Pinned -> Device)");
  CHECK(copy["args"]["bytes"] == 4000000);
  CHECK(copy["args"]["memory bandwidth (GB/s)"] == 50.0);
  CHECK(with(trace, "cat", "gpu_memset").at(0)["name"] == "Memset (Device)");
  const json sync = with(trace, "cat", "cuda_sync").at(0);
  CHECK(sync["tid"] == 1000007);
  CHECK(sync["args"]["stream"] == 7);
  CHECK(sync["args"]["cuda_sync_kind"] == "Stream Sync");
  const json gemm = with(trace, "name", "gemm(float const*, float const*, float*, int)").at(0);
  CHECK(gemm["pid"] == 0);
  CHECK(gemm["tid"] == 7);
  CHECK(gemm["ts"] == "126.000");
  CHECK(gemm["dur"] == "12.300");
  CHECK(gemm["args"]["shared memory"] == 1024 + 32768);
  CHECK(gemm["args"]["registers per thread"] == 64);
  CHECK(gemm["args"]["stage"] == "prefill");
  CHECK(with(trace, "ph", "C").at(0)["args"]["value"] == 3);
  CHECK(with(trace, "name", "first token").at(0)["ph"] == "i");
}

TEST_CASE("chrome: arrows go from each launch to its GPU work") {
  const json trace = trace_of(sample::server_run());
  std::map<std::uint64_t, json> starts;
  std::map<std::uint64_t, json> ends;
  for (const json& e : with(trace, "cat", "ac2g")) (e["ph"] == "s" ? starts : ends)[e["id"]] = e;
  CHECK(ends.size() == 5);
  for (const auto& end : ends) {
    REQUIRE(starts.count(end.first) == 1);
    CHECK(end.second["bp"] == "e");
    CHECK(ns_of(end.second["ts"]) >= ns_of(starts[end.first]["ts"]));
  }
  CHECK(starts.count(1) == 0);  // an allocation launches nothing
  // At equal times the order of the file decides: the slice stands before its arrow.
  std::size_t slice_at = 0;
  std::size_t flow_at = 0;
  for (std::size_t i = 0; i < trace["traceEvents"].size(); ++i) {
    const json& e = trace["traceEvents"][i];
    if (e["name"] == "cuLaunchKernel") slice_at = i;
    if (e["ph"] == "s" && e["id"] == 3) flow_at = i;
  }
  CHECK(flow_at == slice_at + 1);
}

TEST_CASE("chrome: an arrow to work that seems to start before its call is moved, or left out") {
  cutrace::event early = sample::called_at(sample::kernel("early", 900, 2000, 1), 1000);
  cutrace::event gone = sample::called_at(sample::kernel("gone", 2100, 2200, 2), 3000);
  const json trace = trace_of({sample::api("cuLaunchKernel", 1000, 1500, 1), early, gone});
  const std::vector<json> ends = with(trace, "ph", "f");
  REQUIRE(ends.size() == 1);
  CHECK(ends[0]["id"] == 1);
  CHECK(ends[0]["ts"] == "1.000");
  CHECK(with(trace, "name", "early").at(0)["ts"] == "0.900");
}

TEST_CASE("chrome: overlapping kernels of one stream get lanes with names of their own") {
  const json trace = trace_of({sample::kernel("first", 1000, 3000, 1), sample::kernel("second", 2000, 4000, 2),
                               sample::kernel("third", 3000, 4500, 3), sample::kernel("inside", 4100, 4200, 4)});
  check_rows_nest(trace);
  CHECK(with(trace, "name", "first").at(0)["tid"] == 7);
  const json lane = with(trace, "name", "second").at(0)["tid"];
  CHECK(lane != 7);
  CHECK(with(trace, "name", "third").at(0)["tid"] == 7);
  CHECK(with(trace, "name", "inside").at(0)["tid"] == lane);  // kernels are no call stack: not within "third"
  CHECK(with(trace, "name", "second").at(0)["args"]["stream"] == 7);
  std::map<json, std::string> names;
  for (const json& e : with(trace, "name", "thread_name")) names[e["tid"]] = e["args"]["name"];
  CHECK(names[7] == "stream 7 ");
  CHECK(names[lane] == "stream 7 (2)");
}

TEST_CASE("chrome: spans that overlap, partly overlapping stages, and a long stage around many calls") {
  std::vector<cutrace::event> all;
  for (int i = 0; i < 3; ++i) {
    cutrace::event e = sample::stage("queue", 100 * i, 1000 + 100 * i, static_cast<std::uint64_t>(i + 1));
    e.stage.span = true;
    all.push_back(e);
  }
  all.push_back(sample::stage("a", 5000, 7000, 10));
  all.push_back(sample::stage("b", 6000, 8000, 11));
  for (int i = 0; i < 5000; ++i) {
    all.push_back(sample::in_stage(sample::api("cuMemAlloc", 10000 + 10 * i, 10005 + 10 * i, 100), "step", 12));
  }
  all.push_back(sample::stage("step", 9990, 70000, 12));
  const json trace = trace_of(all);
  check_rows_nest(trace);
  CHECK(trace["cutraceSummary"]["overlapping_slices"] == 0);
  std::set<json> rows;
  for (const json& e : with(trace, "name", "queue")) rows.insert(e["tid"]);
  CHECK(rows.size() == 3);
  CHECK(with(trace, "name", "step").at(0)["tid"] == sample::main_thread);  // no lane of its own
  CHECK(with(trace, "name", "a").at(0)["tid"] == sample::main_thread);
  CHECK(with(trace, "name", "b").at(0)["tid"] != sample::main_thread);
}

TEST_CASE("chrome: of a runtime call and the driver call in it only the inner one carries the correlation id") {
  cutrace::event inner = sample::api("cuLaunchKernel", 1100, 1900, 5);
  cutrace::event outer = sample::api("cudaLaunchKernel", 1000, 2000, 5);
  outer.api.runtime_api = true;
  cutrace::event alone = sample::api("cuLaunchKernel", 3000, 3100, 6);
  const json trace = trace_of({inner, outer, sample::kernel("k", 2500, 2600, 5), alone});
  const std::vector<json> runtime = with(trace, "cat", "cuda_runtime");
  const std::vector<json> driver = with(trace, "cat", "cuda_driver");
  REQUIRE(runtime.size() == 1);
  REQUIRE(driver.size() == 2);
  CHECK(!runtime[0]["args"].contains("correlation"));
  CHECK(driver[0]["args"]["correlation"] == 5);
  CHECK(driver[1]["args"]["correlation"] == 6);
  CHECK(with(trace, "ph", "s").size() == 2);
  check_rows_nest(trace);
}

TEST_CASE("chrome: process ids below 64 stay clear of the rows of GPUs") {
  cutrace::trace_info info = sample::info();
  info.process_id = 1;
  cutrace::event call = sample::api("cuLaunchKernel", 1000, 2000, 1);
  call.process_id = 1;
  const json trace = trace_of({call, sample::kernel("k", 3000, 4000, 1, 7, 1)}, info);
  const json host = with(trace, "name", "cuLaunchKernel").at(0)["pid"];
  CHECK(host != 1);
  CHECK(with(trace, "name", "k").at(0)["pid"] == 1);
  bool reported = false;
  for (const json& e : with(trace, "name", "process_labels")) {
    reported = reported || (e["pid"] == host && e["args"]["labels"] == "CPU, pid 1");
  }
  CHECK(reported);
}

TEST_CASE("chrome: stream ids that viewers cannot take are mapped and reported in the arguments") {
  const std::uint64_t large = (std::uint64_t{1} << 32) + 7;
  const json trace = trace_of({sample::kernel("zero", 1000, 2000, 1, 0), sample::kernel("large", 1000, 2000, 2, large),
                               sample::kernel("seven", 1000, 2000, 3, 7)});
  const json zero = with(trace, "name", "zero").at(0);
  CHECK(zero["args"]["cuda_stream"] == 0);
  CHECK(zero["args"]["stream"] == zero["tid"]);
  CHECK(zero["tid"] != 0);
  CHECK(with(trace, "name", "large").at(0)["args"]["cuda_stream"] == large);
  CHECK(with(trace, "name", "large").at(0)["tid"] != 7);
  CHECK(!with(trace, "name", "seven").at(0)["args"].contains("cuda_stream"));
}

TEST_CASE("chrome: a call of the driver gives the function of the runtime API that made it") {
  cutrace::event call = sample::api("cuMemAlloc", 0, 10, 1);
  const std::string hostile(3000, '\"');
  call.api.runtime_name = sample::text_of(hostile);
  const json trace = trace_of({call, sample::api("cuMemFree", 20, 30, 2)});
  CHECK(with(trace, "name", "cuMemAlloc").at(0)["args"]["runtime"] == hostile);
  CHECK(with(trace, "name", "cuMemAlloc").at(0)["cat"] == "cuda_driver");
  CHECK_FALSE(with(trace, "name", "cuMemFree").at(0)["args"].contains("runtime"));
}

TEST_CASE("chrome: CUDA events stand on the row of their stream") {
  cutrace::event staged = sample::cuda_event(2000, 4, 7);
  staged.joined = cutrace::attribution::by_call;
  const json trace = trace_of({sample::kernel("seven", 1000, 2000, 3, 7), staged, sample::cuda_event(3000, 5, 0)});
  const std::vector<json> events = with(trace, "name", "CUDA event");
  REQUIRE(events.size() == 2);
  CHECK(row_of(events[0]) == row_of(with(trace, "name", "seven").at(0)));
  CHECK(events[0]["ph"] == "i");
  CHECK(events[0]["s"] == "t");
  CHECK(events[0]["args"]["stream"] == 7);
  CHECK(events[0]["args"]["correlation"] == 4);
  CHECK_FALSE(events[0]["args"].contains("attribution"));
  CHECK(events[1]["args"]["cuda_stream"] == 0);
  CHECK(events[1]["args"]["attribution"] == "outside_stage");
  CHECK(row_of(events[1]) != row_of(events[0]));
}

TEST_CASE("chrome: times are exact beyond 2^53 ns and below zero") {
  const std::int64_t large = (std::int64_t{1} << 53) + 1;
  const json trace = trace_of({sample::kernel("large", large, large + 1, 1), sample::mark("small", -5)});
  CHECK(with(trace, "name", "large").at(0)["ts"] == "9007199254740.993");
  CHECK(with(trace, "name", "large").at(0)["dur"] == "0.001");
  CHECK(with(trace, "name", "small").at(0)["ts"] == "-0.005");
}

TEST_CASE("chrome: more names, shapes and stages than are cached: each event has its own") {
  std::vector<std::string> names;
  for (int i = 0; i < 1000; ++i)
    names.push_back("name " + std::to_string(i) + std::string(i % 10 == 0 ? 2000 : 0, '"'));
  std::vector<cutrace::event> all;
  std::mt19937 random(3);
  std::int64_t t = 0;
  for (int i = 0; i < (sanitized ? 4000 : 20000); ++i, t += 10) {
    const std::uint32_t n = static_cast<std::uint32_t>(random() % (i % 2 == 0 ? 20 : 1000));
    const std::uint64_t id = static_cast<std::uint64_t>(i) + 1;
    cutrace::event e = sample::kernel(names[n], t, t + 5, id);
    if (i % 3 == 1) e = sample::api(names[n], t, t + 5, id);
    if (i % 3 == 2) e = sample::stage(names[n], t, t + 5, id);
    if (i % 3 == 0) {
      e.kernel.grid[n % 3] = n;
      e.kernel.dynamic_shared_bytes = 100 * n;
      e.kernel.priority = -static_cast<std::int32_t>(n % 7);
    } else if (i % 3 == 1) {
      e.api.runtime_api = n % 2 == 1;
      e.api.function = n % 5;
    }
    all.push_back(e);
  }
  const json trace = trace_of(all);
  std::map<std::int64_t, json> by_start;
  for (const json& e : with(trace, "ph", "X")) by_start[ns_of(e["ts"])] = e;
  REQUIRE(by_start.size() == all.size());
  for (const cutrace::event& e : all) {
    const json& shown = by_start[e.start_ns];
    REQUIRE(shown["name"] == std::string(e.name.data, e.name.size));
    REQUIRE(shown["cat"] == std::string(cutrace::detail::chrome_category(e)));
    if (e.kind == cutrace::event_kind::kernel) {
      const json& args = shown["args"];
      REQUIRE(args["grid"] == json({e.kernel.grid[0], e.kernel.grid[1], e.kernel.grid[2]}));
      REQUIRE(args["block"] == json({e.kernel.block[0], e.kernel.block[1], e.kernel.block[2]}));
      REQUIRE(args["shared memory"] == e.kernel.static_shared_bytes + e.kernel.dynamic_shared_bytes);
      REQUIRE(args["priority"] == e.kernel.priority);
    }
    if (e.kind == cutrace::event_kind::api) REQUIRE(shown["args"]["cbid"] == e.api.function);
    if (e.kind == cutrace::event_kind::stage) REQUIRE(shown["args"]["stage_id"] == e.stage_id);
  }
}

TEST_CASE("chrome: the correlation id of a driver call counts for the runtime calls of its own thread") {
  std::vector<cutrace::event> all;
  for (std::uint32_t i = 0; i < 3000; ++i) {
    cutrace::event inner = sample::api("cuLaunchKernel", 1100, 1900, i + 1);
    inner.thread_id = 100 + i;
    all.push_back(inner);
  }
  for (std::uint32_t i = 0; i < 3000; i += 2) {
    cutrace::event outer = sample::api("cudaLaunchKernel", 1000, 2000, i % 4 == 0 ? i + 1 : i + 10000);
    outer.thread_id = 100 + i;
    outer.api.runtime_api = true;
    all.push_back(outer);
  }
  const json trace = trace_of(all);
  check_rows_nest(trace);
  CHECK(with(trace, "cat", "cuda_driver").size() == 3000);
  std::map<std::uint64_t, int> reported;
  for (const json& e : with(trace, "ph", "X")) {
    if (e["args"].contains("correlation")) ++reported[e["args"]["correlation"].get<std::uint64_t>()];
  }
  for (std::uint64_t id = 1; id <= 3000; ++id) CHECK(reported[id] == 1);
  CHECK(with(trace, "ph", "s").size() == 3000 + 750);
}

TEST_CASE("chrome: however many threads a program has had, those of a new part have rows of their own") {
  const temporary_folder folder;
  cutrace::file_limits limits;
  limits.rotate_bytes = 512 * 1024;
  cutrace::chrome_sink sink(folder.file("t.json"), limits);
  sink.open(sample::info());
  constexpr std::uint32_t threads = 20000, first = 5000;
  for (std::uint32_t i = 0; i < threads; ++i) {
    cutrace::event e = sample::stage("request", 1000 * i, 1000 * i + 900, i);
    e.thread_id = first + i;
    sink.write({&e, 1});
  }
  sink.close(sample::summary(threads));
  std::vector<std::string> parts;
  for (const auto& f : std::filesystem::directory_iterator(folder.path())) parts.push_back(f.path().string());
  std::sort(parts.begin(), parts.end());
  REQUIRE(parts.size() > 3);
  const json last = parsed(content_of(parts.back()));
  std::map<row, std::string> names;
  for (const json& e : with(last, "name", "thread_name")) names[row_of(e)] = e["args"]["name"];
  const std::vector<json> stages = with(last, "name", "request");
  REQUIRE(!stages.empty());
  for (std::size_t i = 0; i < stages.size(); ++i)
    CHECK(names[row_of(stages[i])] == "thread " + std::to_string(first + threads - stages.size() + i));
}

TEST_CASE("chrome: the row that threads share beyond the limit is named so") {
  std::vector<cutrace::event> all;
  for (std::uint32_t i = 0; i < 6000; ++i) {
    all.push_back(sample::stage("request", 1000 * i, 1000 * i + 900, i));
    all.back().thread_id = 5000 + i;
  }
  const json trace = trace_of(all);
  std::map<row, std::string> names;
  for (const json& e : with(trace, "name", "thread_name")) names[row_of(e)] = e["args"]["name"];
  CHECK(names[row_of(with(trace, "name", "request").front())] == "thread 5000");
  CHECK(names[row_of(with(trace, "name", "request").back())] == "thread others");
}

TEST_CASE("chrome: the file appears under its name when it is complete") {
  const temporary_folder folder;
  const std::string path = folder.file("t.json");
  cutrace::chrome_sink sink(path);
  sink.open(sample::info());
  const std::vector<cutrace::event> all = sample::server_run();
  for (int i = 0; i < 100; ++i) sink.write(sample::view(all));
  CHECK(std::filesystem::exists(path + ".tmp"));
  CHECK(std::filesystem::file_size(path + ".tmp") > 100000);  // streamed, not kept
  CHECK(!std::filesystem::exists(path));
  sink.close(sample::summary(100 * all.size()));
  CHECK(!std::filesystem::exists(path + ".tmp"));
  REQUIRE(std::filesystem::exists(path));
  // Each of the hundred is there, across the ends of all buffers.
  const json whole = parsed(content_of(path));
  const json once = trace_of(all);
  for (const char* phase : {"X", "C"}) CHECK(with(whole, "ph", phase).size() == 100 * with(once, "ph", phase).size());
}

TEST_CASE("chrome: two traces into one file are refused, not mixed") {
  const temporary_folder folder;
  cutrace::chrome_sink first(folder.file("t.json"));
  cutrace::chrome_sink second(folder.file("t.json"));
  first.open(sample::info());
  CHECK_THROWS_WITH_AS(second.open(sample::info()), doctest::Contains("%p"), cutrace::config_error);
  first.close(sample::summary(0));
  CHECK(json::parse(content_of(folder.file("t.json"))).is_object());
}

}  // namespace chrome_sink_test
