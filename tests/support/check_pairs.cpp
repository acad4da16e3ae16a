// SPDX-License-Identifier: Apache-2.0
// Checks the paired form of a JSONL trace with a parser that is not ours: each line is an object, each begin has one
// end of the same op_id and name, `dur_ns` later, and operation 0, the trace itself, is there.
//
//   check_pairs TRACE.jsonl
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace {

using nlohmann::json;

int failures = 0;
void expect(bool ok, const std::string& what) {
  if (!ok && ++failures <= 20) std::cout << "FAILED: " << what << "\n";
}

struct pair {
  json begin, end;
};

void check_pair(std::uint64_t id, const pair& p) {
  const std::string number = "operation " + std::to_string(id);
  expect(!p.begin.is_null(), number + " has no begin");
  expect(!p.end.is_null(), number + " has no end");
  if (p.begin.is_null() || p.end.is_null()) return;
  const json& b = p.begin.at("details");
  const json& e = p.end.at("details");
  expect(p.begin.at("name") == p.end.at("name"), number + " changes its name");
  if (id == 0) return;  // its ends carry header and footer
  expect(b.at("type") == e.at("type"), number + " changes its type");
  const std::int64_t lasted = p.end.at("ts").get<std::int64_t>() - p.begin.at("ts").get<std::int64_t>();
  const std::int64_t reported = e.at("dur_ns");
  expect(lasted == (reported < 0 ? 0 : reported), number + " does not last as long as it says");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: check_pairs TRACE.jsonl\n";
    return 2;
  }
  std::ifstream in(argv[1]);
  std::map<std::uint64_t, pair> pairs;
  std::string line;
  std::uint64_t lines = 0;
  try {
    while (std::getline(in, line)) {
      ++lines;
      const json e = json::parse(line);
      pair& p = pairs[e.at("op_id").get<std::uint64_t>()];
      const std::string phase = e.at("phase");
      expect(phase == "B" || phase == "E", "phase " + phase);
      json& half = phase == "B" ? p.begin : p.end;
      expect(half.is_null(), "seen twice: " + line);
      half = e;
    }
    for (const auto& [id, p] : pairs) check_pair(id, p);
  } catch (const std::exception& e) {
    std::cout << "FAILED: line " << lines << ": " << e.what() << "\n";
    return 1;
  }
  expect(pairs.count(0) == 1, "operation 0, the trace itself, is missing");
  expect(lines == 2 * pairs.size(), "lines are not two for each operation");
  std::cout << "  " << lines << " lines, " << pairs.size() << " operations\n";
  return failures == 0 ? 0 : 1;
}
