// SPDX-License-Identifier: Apache-2.0
// Runs one measurement in a process of its own, under a time limit, and reads what it prints. A child that does not
// measure is never silent: its complaint holds how it ended and the last lines of its output.
#pragma once

#include <sys/wait.h>

#include <cstdio>
#include <deque>
#include <fstream>
#include <map>
#include <string>

namespace bench {

struct outcome {
  bool ok = false;
  bool late = false;                     ///< the time limit ended it
  std::map<std::string, double> values;  ///< by metric
  unsigned long long records = 0, expected = 0, lost = 0;
  std::string complaint;  ///< why it is not ok, or how the program around it ended though it was measured
  std::string said;       ///< first line of cutrace or raw CUPTI (raw_cupti.hpp) on stderr, though all went well
};

struct job {
  std::string command;
  std::string metric;    ///< of the inference server's "served ... tokens/s"; others name theirs
  bool wrapped = false;  ///< in a foreign program, whose exit status says nothing about the measurement
};

namespace detail {

inline void read_line(const std::string& line, const job& j, outcome& o) {
  char metric[64];
  double value = 0;
  unsigned long long seen = 0, expected = 0, lost = 0;
  if (std::sscanf(line.c_str(), "measured %63s %lf", metric, &value) == 2) o.values[metric] = value;
  if (!j.metric.empty() &&
      std::sscanf(line.c_str(), "served %*u requests, %*u tokens in %*f ms: %lf tokens/s", &value) == 1)
    o.values[j.metric] = value;
  if (std::sscanf(line.c_str(), "records %llu %llu %llu", &seen, &expected, &lost) == 3) {
    o.records += seen;
    o.expected += expected;
    o.lost += lost;
  }
}

inline bool timed_out(int status) {  // by timeout(1)
  return WIFEXITED(status) && (WEXITSTATUS(status) == 124 || WEXITSTATUS(status) == 137);
}

inline std::string how_it_ended(int status) {
  if (WIFSIGNALED(status)) return "killed by signal " + std::to_string(WTERMSIG(status));
  const int code = WEXITSTATUS(status);
  if (timed_out(status)) return "took longer than it may";
  if (code > 128) return "killed by signal " + std::to_string(code - 128);
  return code == 0 ? "measured nothing" : "exit status " + std::to_string(code);
}

}  // namespace detail

/// `folder` holds the child's stderr meanwhile. Where the job is wrapped in a foreign program, what was measured counts
/// even if either of them ends badly: Nsight Systems, say, measures and then cannot write its report.
inline outcome run_child(const job& j, int limit_s, const std::string& folder) {
  constexpr std::size_t tail_lines = 8;
  outcome o;
  std::deque<std::string> tail;
  const std::string errors = folder + "/stderr";
  const std::string command = "timeout -k 5 " + std::to_string(limit_s) + " " + j.command + " 2>" + errors;
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) {
    o.complaint = "no process can be made for: " + j.command;
    return o;
  }
  const auto take = [&](std::string line) {
    while (!line.empty() && line.back() == '\n') line.pop_back();
    detail::read_line(line, j, o);
    tail.push_back(line);
    if (tail.size() > tail_lines) tail.pop_front();
  };
  char buffer[1024];
  while (std::fgets(buffer, sizeof(buffer), pipe) != nullptr) take(buffer);
  const int status = pclose(pipe);
  std::ifstream file(errors);
  for (std::string line; std::getline(file, line);) {
    take(line);
    if (o.said.empty() && line.rfind("cutrace: wrote ", 0) != 0 &&
        (line.rfind("cutrace", 0) == 0 || line.rfind("raw CUPTI", 0) == 0))
      o.said = line;
  }
  o.late = detail::timed_out(status);
  o.ok = !o.values.empty() && (status == 0 || j.wrapped);
  if (o.ok && status == 0) return o;
  o.complaint = detail::how_it_ended(status) + ": " + j.command;
  for (const std::string& line : tail) o.complaint += "\n    | " + line;
  return o;
}

}  // namespace bench
