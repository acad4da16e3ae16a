// SPDX-License-Identifier: Apache-2.0
// The JSONL sink: each line read by a parser that is not ours, fields of one type, numbers exact, pairs in order.
#include <cutrace/names.hpp>
#include <cutrace/sinks/jsonl.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "contract/sink_contract.hpp"
#include "support/gzip_file.hpp"

namespace jsonl_sink_test {

namespace {

using json = nlohmann::json;

std::vector<json> lines_of(const std::string& path) {
  std::istringstream in(text_of_file(path));
  std::vector<json> lines;
  for (std::string line; std::getline(in, line);) {
    lines.push_back(json::parse(line));
  }
  return lines;
}

const char* type_of(const json& value) {
  if (value.is_number_integer()) return "integer";
  return value.type_name();
}

/// Fails when a field changes its type between lines; null counts as a type of its own.
void note_types(const json& object, std::map<std::string, std::string>& types) {
  for (const auto& item : object.items()) {
    const std::string type = type_of(item.value());
    const auto known = types.emplace(item.key(), type);
    CHECK_MESSAGE(known.first->second == type, item.key());
  }
}

std::vector<json> written(const std::vector<cutrace::event>& all, const cutrace::jsonl_options& options = {}) {
  const temporary_folder folder;
  cutrace::jsonl_sink sink(folder.file("t.jsonl"), options);
  sink.open(sample::info());
  sink.write(sample::view(all));
  sink.close(sample::summary(all.size()));
  return lines_of(folder.file("t.jsonl"));
}

void check_lines(cutrace::sink&, const std::string& path, const sink_contract::events& all) {
  const std::vector<json> lines = lines_of(path);
  REQUIRE(lines.size() == all.size() + 2);
  CHECK(lines.front()["type"] == "header");
  CHECK(lines.back()["type"] == "footer");
  CHECK(lines.back()["lines"] == all.size() + 1);
  std::map<std::string, std::string> types;
  for (const json& line : lines) {
    CHECK(line["v"] == 1);
    note_types(line, types);
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    CHECK(lines[i + 1]["type"] == cutrace::to_string(all[i].kind));
    CHECK(lines[i + 1]["ts_ns"] == all[i].start_ns);
    CHECK(lines[i + 1]["dur_ns"] == cutrace::detail::difference_ns(all[i].end_ns, all[i].start_ns));
  }
}

void check_pairs(cutrace::sink&, const std::string& path, const sink_contract::events& all) {
  const std::vector<json> lines = lines_of(path);
  REQUIRE(lines.size() == 2 * all.size() + 2);
  CHECK(lines.front()["details"]["type"] == "header");
  CHECK(lines.back()["details"]["type"] == "footer");
  std::map<std::uint64_t, json> open;
  for (const json& line : lines) {
    const std::uint64_t op = line["op_id"];
    if (line["phase"] == "B") {
      CHECK(open.emplace(op, line).second);
      continue;
    }
    REQUIRE(line["phase"] == "E");
    REQUIRE(open.count(op) == 1);
    CHECK(open[op]["name"] == line["name"]);
    CHECK(open[op]["ts"].get<std::int64_t>() <= line["ts"].get<std::int64_t>());
    open.erase(op);
  }
  CHECK(open.empty());
  for (std::size_t i = 2; i + 1 < lines.size(); ++i) {
    CHECK(lines[i - 1]["ts"].get<std::int64_t>() <= lines[i]["ts"].get<std::int64_t>());
  }
}

}  // namespace

TEST_CASE("jsonl sink keeps the contract of sinks") {
  sink_contract::subject s;
  s.make = [](const std::string& path) { return std::unique_ptr<cutrace::sink>(new cutrace::jsonl_sink(path)); };
  s.check = check_lines;
  sink_contract::check_sink_contract(s);
}

TEST_CASE("jsonl sink, compressed, keeps the contract of sinks") {
  sink_contract::subject s;
  s.make = [](const std::string& path) { return std::unique_ptr<cutrace::sink>(new cutrace::jsonl_sink(path)); };
  s.check = check_lines;
  s.extension = ".jsonl.gz";
  sink_contract::check_sink_contract(s);
}

TEST_CASE("jsonl sink in paired form keeps the contract of sinks") {
  sink_contract::subject s;
  s.make = [](const std::string& path) {
    cutrace::jsonl_options options;
    options.form = cutrace::jsonl_form::paired;
    return std::unique_ptr<cutrace::sink>(new cutrace::jsonl_sink(path, options));
  };
  s.check = check_pairs;
  sink_contract::check_sink_contract(s);
}

TEST_CASE("jsonl: each line begins with v, type, ts_ns, dur_ns") {
  const temporary_folder folder;
  cutrace::jsonl_sink sink(folder.file("t.jsonl"));
  const std::vector<cutrace::event> all = {sample::kernel("gemm", -500, 1700, 3)};
  sink.open(sample::info());
  sink.write(sample::view(all));
  sink.close(sample::summary(1));
  std::istringstream in(content_of(folder.file("t.jsonl")));
  std::string line;
  std::getline(in, line);
  CHECK(line.rfind("{\"v\":1,\"type\":\"header\",\"ts_ns\":0,\"dur_ns\":0,", 0) == 0);
  std::getline(in, line);
  CHECK(line.rfind("{\"v\":1,\"type\":\"kernel\",\"ts_ns\":-500,\"dur_ns\":2200,\"name\":\"gemm\",", 0) == 0);
}

TEST_CASE("jsonl: header, call, kernel and stage say what the events say") {
  const std::vector<json> lines = written(sample::server_run());
  CHECK(lines[0]["clocks"]["realtime_ns"] == 1790000000123456789u);
  CHECK(lines[0]["command_line"] == "./llm_server --model gpt2 \"quoted\"");
  CHECK(lines[0]["rank"] == 3);
  std::map<std::string, json> last;  // of each name
  for (const json& line : lines) last[line.value("name", "")] = line;

  const json& copy = last["cuMemcpyHtoDAsync"];
  CHECK(copy["args"] == json::parse(R"({"dstDevice":"0x7f32a4000000","srcHost":"0x7ffd10203040",
                                        "ByteCount":4000000,"hStream":"0x55d0c0ffee00"})"));
  CHECK(copy["stage"] == "prefill");
  CHECK(copy["stage_id"] == 1);
  CHECK(copy["requests"] == json::array({17}));
  CHECK(copy["direction"] == "HtoD");
  CHECK(last["cuMemAlloc"]["result_name"] == "CUDA_ERROR_OUT_OF_MEMORY");

  const json& gemm = last["gemm(float const*, float const*, float*, int)"];
  CHECK(gemm["grid"] == json::array({12, 1, 1}));
  CHECK(gemm["correlation"] == 3);
  CHECK(gemm["call_ts_ns"] == 50000);
  CHECK(gemm["attribution"] == "by_call");
  CHECK(last["warm_up()"]["attribution"] == "no_callback");
  CHECK(!last["warm_up()"].contains("call_ts_ns"));

  const json& decode = last["decode"];
  CHECK(decode["requests"] == json::array({17, 18}));
  CHECK(decode["request_names"] == json::array({"chat-0007"}));
  CHECK(decode["request_total"] == 40);
  CHECK(last["NVIDIA H200"]["uuid"] == "00102030-4050-6070-8090-a0b0c0d0e0f0");
  CHECK(lines.back()["lost"]["chunk_full"] == 12);
  CHECK(lines.back()["notes"][0] == "cupti: \"quoted\" note");
  CHECK(lines.back()["clocks"]["error_ns"] == 140);
}

TEST_CASE("jsonl: a CUDA event has the fields of GPU work") {
  const json line = written({sample::called_at(sample::cuda_event(5000, 4), 3000), sample::mark("mine", 1)})[1];
  CHECK(line["type"] == "mark");
  CHECK(line["stream"] == 7);
  CHECK(line["attribution"] == "outside_stage");
  CHECK(line["call"] == "cuEventRecord");
  CHECK(line["call_ts_ns"] == 3000);
  CHECK(line["correlation"] == 4);
  const json mark = written({sample::mark("mine", 1)})[1];
  CHECK_FALSE(mark.contains("stream"));
  CHECK_FALSE(mark.contains("attribution"));
}

TEST_CASE("jsonl: a call of the driver gives the function of the runtime API that made it") {
  cutrace::event call = sample::api("cuMemAlloc", 0, 10, 1);
  call.api.runtime_name = sample::text_of("cudaMalloc");
  call.api.enclosing = 41;
  const std::vector<json> lines = written({call, sample::api("cuMemFree", 20, 30, 2)});
  CHECK(lines[1]["api"] == "driver");
  CHECK(lines[1]["runtime"] == "cudaMalloc");
  CHECK_FALSE(lines[2].contains("runtime"));
  CHECK(lines[1]["enclosing"] == 41);
  CHECK_FALSE(lines[2].contains("enclosing"));
}

TEST_CASE("jsonl: what is not known of a context or stream that is older than the session is left out") {
  cutrace::event context = sample::context(2, 1);
  cutrace::event stream = sample::stream(7, 1, 2);
  context.context_.derived = stream.stream_.derived = true;
  const std::vector<json> lines = written({context, stream, sample::context(3, 0), sample::stream(8, 0, 3)});
  CHECK(lines[1]["derived"] == true);
  CHECK(lines[2]["derived"] == true);
  CHECK(lines[2]["stream"] == 7);
  CHECK_FALSE(lines[2].contains("priority"));
  CHECK_FALSE(lines[2].contains("flags"));
  CHECK_FALSE(lines[3].contains("derived"));
  CHECK_FALSE(lines[4].contains("derived"));
  CHECK(lines[4]["priority"] == 0);
}

TEST_CASE("jsonl: fields keep one type over everything that can be written") {
  std::vector<cutrace::event> all = sample::server_run();
  for (const cutrace::event& e : hostile::extreme_events()) all.push_back(e);
  for (const cutrace::event& e : hostile::named_events()) all.push_back(e);
  std::map<std::string, std::string> types;
  for (const json& line : written(all)) note_types(line, types);
  CHECK(types["bytes"] == "integer");
  CHECK(types["address"] == "string");
}

TEST_CASE("jsonl: 64-bit numbers are exact, NaN is null, arguments without names have positions") {
  const std::vector<json> lines = written(hostile::extreme_events());
  for (const json& line : lines) {
    if (line.value("name", "") == "arguments") {
      CHECK(line["correlation"] == ~std::uint64_t{0});
      CHECK(line["args"]["arg0"].is_null());
      CHECK(line["args"]["arg1"] == "0xffffffffffffffff");
      CHECK(line["args"]["n"] == ~std::uint64_t{0});
      CHECK(line["args"]["m"] == std::numeric_limits<std::int64_t>::min());
    }
    if (line.value("name", "") == "2^53" && line["type"] == "kernel") CHECK(line["ts_ns"] == 9007199254740993);
    if (line.value("name", "") == "ends before it starts") CHECK(line["dur_ns"] == -1000);
  }
}

TEST_CASE("jsonl: what was flushed can be read before the end") {
  const temporary_folder folder;
  cutrace::jsonl_sink sink(folder.file("t.jsonl"));
  sink.open(sample::info());
  sink.flush();
  CHECK(lines_of(folder.file("t.jsonl")).size() == 1);
  const std::vector<cutrace::event> all = sample::server_run();
  sink.write(sample::view(all));
  sink.flush();
  CHECK(lines_of(folder.file("t.jsonl")).size() == 1 + all.size());
}

TEST_CASE("jsonl: the paired form keeps its order within the lines it may hold") {
  std::vector<cutrace::event> all;
  for (std::int64_t i = 0; i < 100; ++i) {
    all.push_back(sample::stage("short", 1000 + 10 * i, 1005 + 10 * i, static_cast<std::uint64_t>(i + 1)));
  }
  all.push_back(sample::stage("long", 1002, 3000, 200));
  const auto out_of_order = [&](std::size_t hold) {
    cutrace::jsonl_options options;
    options.form = cutrace::jsonl_form::paired;
    options.hold_lines = hold;
    const std::vector<json> lines = written(all, options);
    std::set<std::string> late;
    for (std::size_t i = 2; i + 1 < lines.size(); ++i) {
      if (lines[i]["ts"].get<std::int64_t>() < lines[i - 1]["ts"].get<std::int64_t>()) late.insert(lines[i]["name"]);
    }
    return late;
  };
  CHECK(out_of_order(1000).empty());
  CHECK(out_of_order(10) == std::set<std::string>{"long"});  // nothing but the stage that is too long for ten lines
}

TEST_CASE("jsonl: what the paired form keeps back counts for the limits of the file and of its parts") {
  const temporary_folder folder;
  const auto write = [&](const char* name, const cutrace::file_limits& limits) {
    cutrace::jsonl_options options;
    options.form = cutrace::jsonl_form::paired;
    options.file = limits;
    cutrace::jsonl_sink sink(folder.file(name), options);
    sink.open(sample::info());
    for (std::int64_t i = 0; i < 2000; ++i) {
      const cutrace::event e = sample::stage("short", 10 * i, 10 * i + 5, static_cast<std::uint64_t>(i + 1));
      sink.write({&e, 1});
    }
    sink.close(sample::summary(0));
    return sink.left_out();
  };
  cutrace::file_limits whole, parts;
  whole.max_bytes = parts.rotate_bytes = 64 * 1024;
  CHECK(write("t.jsonl", whole) > 1000);
  const auto size = [&](const char* name) { return content_of(folder.file(name)).size(); };
  CHECK(size("t.jsonl") >= 64 * 1024);
  CHECK(size("t.jsonl") < 70 * 1024);
  CHECK(write("p.jsonl", parts) == 0);
  for (const char* part : {"p.0001.jsonl", "p.0002.jsonl"}) {
    CHECK(size(part) >= 64 * 1024);
    CHECK(size(part) < 70 * 1024);
  }
}

TEST_CASE("jsonl: a part describes the newest threads of a program that starts them without end") {
  const temporary_folder folder;
  cutrace::jsonl_options options;
  options.file.rotate_bytes = 1 << 20;
  cutrace::jsonl_sink sink(folder.file("t.jsonl"), options);
  sink.open(sample::info());
  const auto describe = [&](cutrace::event_kind kind, const std::string& name, std::uint32_t number) {
    cutrace::event e = sample::base(kind, name.c_str(), 0, 0, number);
    if (kind == cutrace::event_kind::device) e.device = number;
    sink.write({&e, 1});
  };
  for (std::uint32_t i = 1; i <= 5000; ++i) {
    describe(cutrace::event_kind::thread, "thread " + std::to_string(i) + " of many", i);
    if (i == 500) describe(cutrace::event_kind::device, "a late GPU", 3);
  }
  describe(cutrace::event_kind::device, "a later GPU", 4);
  for (std::int64_t i = 0; i < 10000; ++i) {
    const cutrace::event e = sample::stage("short", 10 * i, 10 * i + 5, static_cast<std::uint64_t>(i + 1));
    sink.write({&e, 1});
  }
  sink.close(sample::summary(0));
  const std::string part = content_of(folder.file("t.0002.jsonl"));
  for (const char* name : {"thread 1 of many", "thread 200 of many", "thread 4000 of many", "thread 5000 of many",
                           "a late GPU", "a later GPU"})
    CHECK_MESSAGE(part.find('"' + std::string(name) + '"') != std::string::npos, std::string(name));
  CHECK(part.find("\"thread 300 of many\"") == std::string::npos);
}

}  // namespace jsonl_sink_test
