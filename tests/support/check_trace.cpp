// SPDX-License-Identifier: Apache-2.0
// Checks a JSONL trace of the inference server with a parser that is not ours: nothing lost, every GPU operation has
// a call and a thread, those in request stages have requests, those outside of stages are listed by their call; none
// starts before its call by more than the footer's clock_error_ns; kernels, copies and bytes as the program counted.
//
//   check_trace TRACE.jsonl [PROGRAM_OUTPUT]     the output holds a line "counted {...}"
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

namespace {

using nlohmann::json;

int failures = 0;

void expect(bool ok, const std::string& what) {
  if (ok) return;
  if (++failures <= 20) std::cout << "FAILED: " << what << "\n";
}

bool is_gpu_work(const std::string& type) { return type == "kernel" || type == "memcpy" || type == "memset"; }

struct sums {
  std::uint64_t kernels = 0, kernels_in_graphs = 0, memsets = 0, memset_bytes = 0, graph_launches = 0;
  std::map<std::string, std::uint64_t> copies, bytes;
  std::map<std::string, std::uint64_t> by_stage, origins;
  std::int64_t worst_skew_ns = 0;
  std::uint64_t gpu = 0, calls = 0;
};

void check_gpu_work(const json& e, const std::set<std::string>& request_stages, sums& s) {
  ++s.gpu;
  expect(e.at("type") != "kernel" || !e.value("name", "").empty(), "kernel without a name: " + e.dump());
  expect(e.value("attribution", "") == "by_call" || e.value("attribution", "") == "outside_stage",
         "GPU work without a call: " + e.dump());
  expect(!e.value("call", "").empty(), "GPU work whose call has no name: " + e.dump());
  expect(e.value("tid", 0) != 0, "GPU work without a thread: " + e.dump());
  expect(e.at("dur_ns").get<std::int64_t>() >= 0, "ends before it starts: " + e.dump());
  const std::string stage = e.value("stage", "");
  if (stage.empty()) {
    ++s.origins[e.value("call", "") + " outside of any stage"];
  } else {
    ++s.by_stage[stage];
    if (request_stages.count(stage) != 0)
      expect(e.contains("requests") && !e.at("requests").empty(), "no request: " + e.dump());
  }
  s.worst_skew_ns =
      std::max(s.worst_skew_ns, e.at("call_ts_ns").get<std::int64_t>() - e.at("ts_ns").get<std::int64_t>());
}

void count(const json& e, sums& s) {
  const std::string type = e.at("type");
  if (type == "kernel") {
    ++s.kernels;
    s.kernels_in_graphs += e.value("graph_id", 0) != 0;
  } else if (type == "memset") {
    ++s.memsets;
    s.memset_bytes += e.at("bytes").get<std::uint64_t>();
  } else if (type == "memcpy") {
    ++s.copies[e.at("direction")];
    s.bytes[e.at("direction")] += e.at("bytes").get<std::uint64_t>();
  } else if (type == "api") {
    ++s.calls;
    s.graph_launches += e.at("name") == "cuGraphLaunch";
  }
}

void compare(const json& counted, const std::string& key, std::uint64_t traced) {
  if (!counted.contains(key)) return;
  const std::uint64_t own = counted.at(key);
  std::cout << "  " << key << ": program " << own << ", trace " << traced << (own == traced ? "" : "   DIFFERENT")
            << "\n";
  expect(own == traced, key);
}

json read_counted(const char* path) {
  std::ifstream in(path);
  std::string line;
  while (std::getline(in, line))
    if (line.rfind("counted ", 0) == 0) return json::parse(line.substr(8));
  expect(false, std::string("no line \"counted\" in ") + path);
  return json::object();
}

void check_footer(const json& footer, const sums& s) {
  expect(footer.at("lost_total") == 0, "records were lost: " + footer.at("lost").dump());
  expect(footer.at("produced") == footer.at("delivered"), "produced is not delivered");
  // Late events are no fault: the window in which the collector sorts is bounded; what misses it stands further down.
  for (const auto& q : footer.at("quality").items())
    if (q.key() != "late") expect(q.value() == 0, "quality " + q.key() + " " + q.value().dump());
  const std::int64_t bound = footer.at("clock_error_ns");
  std::cout << "  clock bound " << bound << " ns, work starts before its call by at most " << s.worst_skew_ns
            << " ns\n";
  expect(s.worst_skew_ns <= bound, "work starts before its call by more than the bound");
  for (const json& sink : footer.at("sinks")) expect(!sink.at("failed").get<bool>(), "sink failed: " + sink.dump());
  for (const json& note : footer.at("notes")) std::cout << "  note: " << note << "\n";
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: check_trace TRACE.jsonl [PROGRAM_OUTPUT]\n";
    return 2;
  }
  const std::set<std::string> request_stages = {"prefill", "decode", "respond", "tokenize"};
  std::ifstream in(argv[1]);
  std::string line;
  sums s;
  json header, footer;
  std::uint64_t lines = 0;
  try {
    while (std::getline(in, line)) {
      ++lines;
      const json e = json::parse(line);
      const std::string type = e.at("type");
      if (type == "header")
        header = e;
      else if (type == "footer")
        footer = e;
      else
        count(e, s);
      if (is_gpu_work(type)) check_gpu_work(e, request_stages, s);
    }
    expect(!header.is_null() && !footer.is_null(), "header or footer is missing");
    if (!footer.is_null()) check_footer(footer, s);
    expect(s.gpu != 0, "no GPU work in the trace");
    if (argc > 2) {
      const json counted = read_counted(argv[2]);
      compare(counted, "kernels", s.kernels);
      compare(counted, "kernels_in_graphs", s.kernels_in_graphs);
      compare(counted, "graph_launches", s.graph_launches);
      compare(counted, "htod", s.copies["HtoD"]);
      compare(counted, "htod_bytes", s.bytes["HtoD"]);
      compare(counted, "dtoh", s.copies["DtoH"]);
      compare(counted, "dtoh_bytes", s.bytes["DtoH"]);
      compare(counted, "dtod", s.copies["DtoD"]);
      compare(counted, "dtod_bytes", s.bytes["DtoD"]);
      compare(counted, "memsets", s.memsets);
      compare(counted, "memset_bytes", s.memset_bytes);
    }
  } catch (const std::exception& e) {
    std::cout << "FAILED: line " << lines << ": " << e.what() << "\n";
    return 1;
  }
  std::cout << "  " << lines << " lines, " << s.calls << " calls, " << s.gpu << " GPU operations\n";
  for (const auto& o : s.by_stage) std::cout << "  stage " << o.first << ": " << o.second << "\n";
  for (const auto& o : s.origins) std::cout << "  origin " << o.first << ": " << o.second << "\n";
  std::cout << (failures == 0 ? "trace is right\n" : std::to_string(failures) + " checks failed\n");
  return failures == 0 ? 0 : 1;
}
