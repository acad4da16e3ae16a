// SPDX-License-Identifier: Apache-2.0
// Runs faulty_run traced and untraced, and the checks that hold for every fault: output and exit code are those of the
// untraced program, the lines on stderr are few, and the numbers of the trace add up.
#pragma once

#include <doctest/doctest.h>

#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "../../support/child_process.hpp"
#include "../../support/jsonl_trace.hpp"
#include "../../support/sanitized.hpp"
#include "../../support/temporary_folder.hpp"

namespace faults {

using nlohmann::json;
using test_support::finished_process;
using test_support::jsonl_trace;

/// How the program comes to be traced.
enum class how { own_session, injected };
constexpr how both[] = {how::own_session, how::injected};
inline const char* name_of(how h) { return h == how::own_session ? "own session" : "injected"; }

using environment = std::map<std::string, std::string>;
using words = std::vector<std::string>;

inline std::size_t& run_count() {  // of this test program: none at all is a failure, see faults_main.cpp
  static std::size_t n = 0;
  return n;
}

struct outcome {
  finished_process process;
  std::vector<std::string> lines;    ///< on stderr
  std::optional<jsonl_trace> trace;  ///< nothing where the file was not written
  std::string calls;                 ///< what the sink `calls` wrote
  std::size_t files = 0;             ///< in the folder in which the program ran

  std::string all_lines() const {
    std::string text;
    for (const std::string& l : lines) text += l + "\n";
    return text;
  }
  /// A note of the footer that contains `part`.
  bool noted(const std::string& part) const {
    for (const json& n : trace->footer.at("notes"))
      if (n.get<std::string>().find(part) != std::string::npos) return true;
    return false;
  }
  std::uint64_t lost(const char* cause) const { return trace->footer.at("lost").value(cause, std::uint64_t{0}); }
  std::uint64_t quality(const char* which) const { return trace->footer.at("quality").value(which, std::uint64_t{0}); }
  std::size_t of(const char* type) const { return trace->of(type).size(); }
  std::size_t gpu_work() const { return of("kernel") + of("memcpy") + of("memset"); }
};

inline finished_process run(how h, const words& arguments, environment env, const std::string& folder) {
  ++run_count();
  words command = arguments;
  command.insert(command.begin(), h == how::own_session ? FAULTY_RUN_WITH_SESSION : FAULTY_RUN);
  env.emplace("CUTRACE_SIM_KERNEL_NS", "20000");
  return test_support::run_process(command, folder, env);
}

/// The program with tracing off. Faults of CUPTI do not reach it.
inline finished_process untraced(how h, const words& arguments = {}, environment env = {}) {
  const temporary_folder folder;
  env["CUTRACE"] = "0";
  env["CUDA_INJECTION64_PATH"] = "";
  return run(h, arguments, env, folder.path());
}

inline outcome traced(how h, environment env, const words& arguments = {}) {
  const temporary_folder folder;
  env.emplace("CUTRACE_SINKS", "jsonl:trace.jsonl,calls:trace.calls");
  if (h == how::injected) env.emplace("CUDA_INJECTION64_PATH", INJECTED_LIBRARY);
  outcome o;
  o.process = run(h, arguments, env, folder.path());
  std::istringstream in(o.process.errors);
  for (std::string line; std::getline(in, line);) o.lines.push_back(line);
  for (const auto& file : std::filesystem::directory_iterator(folder.path()))
    o.files += file.path().filename() != "stdout" && file.path().filename() != "stderr";
  if (std::filesystem::exists(folder.file("trace.jsonl"))) o.trace.emplace(folder.file("trace.jsonl"));
  if (std::filesystem::exists(folder.file("trace.calls"))) o.calls = content_of(folder.file("trace.calls"));
  return o;
}

inline outcome with_faults(how h, const std::string& text, const words& arguments = {}) {
  return traced(h, {{"CUTRACE_SIM_FAULTS", text}}, arguments);
}

/// The traced program behaved as the untraced one.
inline void check_unchanged(const outcome& o, const finished_process& as) {
  CHECK_FALSE(o.process.hung);
  CHECK(o.process.signal == 0);
  CHECK(o.process.exit_status == as.exit_status);
  CHECK(o.process.output == as.output);
}

/// produced = delivered + lost, nothing waits, each sink got everything, and the file holds what the footer says.
inline void check_numbers(const outcome& o) {
  REQUIRE(o.trace.has_value());
  REQUIRE(o.trace->headers == 1);
  REQUIRE(o.trace->footers == 1);
  CHECK_FALSE(o.trace->torn);
  const json& f = o.trace->footer;
  CHECK(f.at("produced").get<std::uint64_t>() ==
        f.at("delivered").get<std::uint64_t>() + f.at("lost_total").get<std::uint64_t>());
  CHECK(f.at("pending") == 0);
  CHECK(f.at("lines").get<std::size_t>() == o.trace->events.size() + 1);
  CHECK(f.at("delivered").get<std::size_t>() == o.trace->events.size());
  for (const json& s : f.at("sinks")) CHECK(s.at("written") == f.at("delivered"));
}

/// The trace of a run without any fault, to compare with.
inline const outcome& clean(how h) {
  static const outcome own = with_faults(how::own_session, ""), injected = with_faults(how::injected, "");
  return h == how::own_session ? own : injected;
}
inline const finished_process& plain_output() {
  static const finished_process p = untraced(how::own_session);
  return p;
}

}  // namespace faults
